"""Noise as computers make it: last bits, few bits, short seeds, grids."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lab.broken.parts import Event, Family, Rng, Rows, geometric, laplace_of

ARITHMETIC = Family("arithmetic")
COUNTS = (1000.0, 1001.0)
MODULUS, FACTOR = 2**31 - 1, 48271
"""Of Park and Miller's generator, as C++ has it."""


def _multiple(x: Rows, power: int) -> Rows:
    scaled = np.ldexp(x, power)
    return np.asarray(scaled == np.floor(scaled))


@ARITHMETIC.broken("1", lambda x: (np.abs(x) < 0.2) & ~_multiple(x, 52), likelier="first", inputs=(0.3, 1.3))
def laplace_on_doubles(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise of doubles is added to a double: near 0 the last bits of 0.3 and 1.3 differ (Mironov 2012)."""
    return value + rng.laplace(0, 1, n)


@ARITHMETIC.broken("1", lambda x: (np.abs(x) < 0.25) & ~_multiple(x, 24), likelier="first")
def laplace_in_single_precision(value: float, n: int, rng: Rng) -> Rows:
    """As before, with floats of 32 bits."""
    return (np.float32(value) + rng.laplace(0, 1, n).astype(np.float32)).astype(np.float64)


def _inverted(value: float, numerators: NDArray[np.int64], bits: int, decimals: int | None) -> Rows:
    noisy = value + laplace_of((numerators + 0.5) / 2**bits)
    return noisy if decimals is None else np.round(noisy, decimals)


@cache
def _support(value: float, bits: int, decimals: int | None) -> Rows:
    return _inverted(value, np.arange(2**bits), bits, decimals)


def _only_under_the_second(bits: int, decimals: int | None = None) -> Event:
    def event(x: Rows) -> NDArray[np.bool_]:
        first, second = (_support(value, bits, decimals) for value in COUNTS)
        return np.isin(x, second) & ~np.isin(x, first)

    return event


@ARITHMETIC.broken("1", _only_under_the_second(12), inputs=COUNTS)
def twelve_bits(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise by inversion of a uniform number of 12 bits."""
    return _inverted(value, rng.integers(0, 2**12, n), 12, None)


@ARITHMETIC.broken("1", _only_under_the_second(14, 6), inputs=COUNTS)
def fourteen_bits_six_decimals(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise by inversion of a uniform number of 14 bits; told to six decimals."""
    return _inverted(value, rng.integers(0, 2**14, n), 14, 6)


@ARITHMETIC.broken("1", _only_under_the_second(16), inputs=COUNTS)
def sixteen_bits(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise by inversion of a uniform number of 16 bits."""
    return _inverted(value, rng.integers(0, 2**16, n), 16, None)


@ARITHMETIC.broken("1", _only_under_the_second(18, 6), inputs=COUNTS)
def eighteen_bits_six_decimals(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise by inversion of a uniform number of 18 bits; told to six decimals."""
    return _inverted(value, rng.integers(0, 2**18, n), 18, 6)


@cache
def _noise_of_seeds() -> NDArray[np.int64]:
    return np.rint(np.random.default_rng(99).laplace(0, 1000, (2**16, 3))).astype(np.int64)


def _known_noise(x: Rows) -> NDArray[np.bool_]:
    def keys(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return (rows + 2**20) @ (np.int64(1) << np.array([42, 21, 0]))

    thousandths, noise = np.rint(x * 1000).astype(np.int64), _noise_of_seeds()
    return np.isin(keys(thousandths - 1000), keys(noise)) & ~np.isin(keys(thousandths), keys(noise))


@ARITHMETIC.broken("3", _known_noise)
def seed_of_sixteen_bits(value: float, n: int, rng: Rng) -> Rows:
    """Noise of three sums, to three decimals, by a generator whose seed has 16 bits."""
    return value + _noise_of_seeds()[rng.integers(0, 2**16, n)] / 1000


def _continued(x: Rows) -> NDArray[np.bool_]:
    below = x[:, 0] < 0
    state = np.rint(np.where(below, np.exp(x[:, 0]) / 2, 1 - np.exp(-x[:, 0]) / 2) * MODULUS).astype(np.int64)
    expected = laplace_of(np.clip(state * FACTOR % MODULUS, 1, None) / MODULUS)
    return np.asarray(np.abs(x[:, 1] - expected) < 1e-4)


@ARITHMETIC.broken("1", _continued, likelier="first", inputs=((0.0, 0.0), (1.0, 0.0)))
def congruential_generator(values: tuple[float, float], n: int, rng: Rng) -> Rows:
    """Noise of two sums from two numbers of Park and Miller's generator, one after the other."""
    state = rng.integers(1, MODULUS, n)
    states = np.stack([state, state * FACTOR % MODULUS], axis=1)
    return np.asarray(values + laplace_of(states / MODULUS))


@ARITHMETIC.broken("1", lambda x: x == 0, loss=1 + math.log(2), likelier="first")
def noise_cut_to_whole(value: int, n: int, rng: Rng) -> Rows:
    """Laplace noise is cut towards 0 to make it whole: 0 is too likely."""
    return value + np.trunc(rng.laplace(0, 1, n)).astype(np.int64)


@ARITHMETIC.broken("1", lambda x: x == 0)
def never_zero(value: int, n: int, rng: Rng) -> Rows:
    """A sign times a geometric number, which numpy counts from 1 on: noise is never 0."""
    return value + rng.choice([-1, 1], n) * rng.geometric(-math.expm1(-1), n)


@ARITHMETIC.broken("1", lambda x: x % 3 == 1)
def steps_of_three(value: int, n: int, rng: Rng) -> Rows:
    """Whole noise is drawn for a third of the scale and multiplied."""
    return value + 3 * geometric(3, rng, n)


def _hundredths(x: Rows) -> NDArray[np.bool_]:
    def is_whole(scaled: Rows) -> Rows:
        return np.asarray(np.abs(scaled - np.rint(scaled)) < 1e-9)

    return is_whole(100 * x) & ~is_whole(99 * x)


@ARITHMETIC.broken("1/10", _hundredths, inputs=(99, 100))
def denominator_shows(records: int, n: int, rng: Rng) -> Rows:
    """A noisy count is divided by the exact number of records: the fraction tells it."""
    return (30 + geometric(0.1, rng, n)) / records
