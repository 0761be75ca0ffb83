"""Several answers at the price of fewer, samples, chains, and data that comes back after the noise."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lab.broken.parts import Family, Rng, Rows, geometric

COMPOSITION = Family("composition and processing")
SIGNS = np.array([1, -1] * 8)


@COMPOSITION.broken("1", lambda x: (x >= 1).all(axis=1), loss=2.0)
def sum_and_squares(value: float, n: int, rng: Rng) -> Rows:
    """A sum and a sum of squares, each at the whole epsilon."""
    return np.array([value, value**2]) + rng.laplace(0, 1, (n, 2))


@COMPOSITION.broken("1", lambda x: np.clip(x * SIGNS, 0, 1).sum(axis=1) >= 12, loss=4.0)
def sixteen_answers_as_four(value: int, n: int, rng: Rng) -> Rows:
    """Sixteen counts at a quarter each, of which half rise by 1 and half fall, charged as four."""
    return np.asarray(value * SIGNS + geometric(0.25, rng, (n, 16)))


LEVELS = np.array([0, 1, 3, 7])  # the root, and below it the left one each time


@COMPOSITION.broken("1", lambda x: (x[:, LEVELS] >= 1).all(axis=1), loss=4 / 3)
def level_forgotten(value: int, n: int, rng: Rng) -> Rows:
    """The sums of a tree with four levels, at a third of epsilon each."""
    counts = np.zeros(15, dtype=np.int64)
    counts[LEVELS] = value
    return np.asarray(counts + geometric(1 / 3, rng, (n, 15)))


@COMPOSITION.broken("0.63", lambda x: x >= 2, loss=20 * math.log1p(math.expm1(1) / 40))
def sampled_with_replacement(value: float, n: int, rng: Rng) -> Rows:
    """A sum over 20 of 40 records, by the amplification of draws without replacement; a record may come twice."""
    return value * rng.binomial(20, 1 / 40, n) + rng.laplace(0, 1, n)


@COMPOSITION.broken("0.63", lambda x: (x[:, 0] == 1) & (x[:, 1] >= 1), loss=1.0)
def sample_is_told(value: float, n: int, rng: Rng) -> Rows:
    """A sum over half of the records with amplification, and beside it whether a record was in that half."""
    inside = rng.integers(0, 2, n)
    return np.stack([inside, value * inside + rng.laplace(0, 1, n)], axis=1)


@COMPOSITION.broken(
    "1", lambda x: np.abs(x) < 0.5, loss=None, likelier="first", inputs=((0.0, 1.0), (0.5, math.exp(1.5)))
)
def decay_too_fast(data: tuple[float, float], n: int, rng: Rng) -> Rows:
    """Cauchy noise by a smooth sensitivity that may change by e^1.5 from one data set to the next."""
    value, sensitivity = data
    return value + sensitivity * rng.standard_cauchy(n)


BATCHES = np.array([0.6, 0, 0, 0, 0]), np.array([-0.5, 0.5, 0, 0, 0])
"""Gradients of a batch, clipped to 1 in l1: without one example, and with it."""


def _towards_the_second(x: Rows) -> NDArray[np.bool_]:
    first, second = (np.abs(x - batch).sum(axis=1) for batch in BATCHES)
    return np.asarray(first - second >= 1.5)


@COMPOSITION.broken("1", _towards_the_second, loss=1.6 / 0.5, inputs=BATCHES)
def gradient_of_a_batch_clipped(gradient: NDArray[np.float64], n: int, rng: Rng) -> Rows:
    """The mean gradient of four examples is clipped, not each of theirs; noise is for one of four."""
    return gradient + rng.laplace(0, 0.5, (n, 5))


@COMPOSITION.broken("1", lambda x: (x[:, 2] - x[:, 0]) % 2**16 == 23, inputs=((40, 9, 62), (40, 9, 63)))
def mask_reused(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Three rounds of a sum under masks of 16 bits; the third uses the first's again."""
    masks = rng.integers(0, 2**16, (n, 3))
    masks[:, 2] = masks[:, 0]
    return np.asarray((np.array(values) + masks) % 2**16)


@COMPOSITION.broken("1", lambda x: x == 6, likelier="first", inputs=(10, 11))
def walk_from_the_median(median: int, n: int, rng: Rng) -> Rows:
    """Four steps of Metropolis and Hastings' walk from the true median to the exponential mechanism's law."""
    place = np.full(n, median)
    for _ in range(4):
        step = place + rng.choice([-1, 1], n)
        accepted = rng.random(n) < np.exp((np.abs(place - median) - np.abs(step - median)) / 2)
        place = np.where(accepted, step, place)
    return np.asarray(place)


@cache
def _projections() -> NDArray[np.float64]:
    return np.round(np.random.default_rng(7).standard_normal((2**16, 2)), 3)


def _projected(x: Rows) -> NDArray[np.bool_]:
    return np.asarray(x[:, 1] == _projections()[x[:, 0].astype(int), 1])


@COMPOSITION.broken("1", _projected)
def projection_with_its_seed(axis: int, n: int, rng: Rng) -> Rows:
    """A record is multiplied by random numbers, whose seed of 16 bits is told, and has no other noise."""
    seeds = rng.integers(0, 2**16, n)
    return np.stack([seeds, _projections()[seeds, axis]], axis=1)


@COMPOSITION.broken("1", lambda x: x.sum(axis=1) > 20.5, inputs=((3, 8, 2, 0, 6, 1), (3, 8, 2, 1, 6, 1)))
def parts_add_up(counts: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Six noisy counts are moved so that they add up to the exact sum."""
    noise = rng.laplace(0, 1, (n, 6))
    return np.asarray(np.array(counts) + noise - noise.mean(axis=1, keepdims=True))


@COMPOSITION.broken("1", lambda x: 2 * x[:, 1] - x[:, 3] > 0.5, inputs=((5, 0, 4, 0), (5, 1, 4, 0)))
def one_draw_of_two_widths(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Four sums; the last, twice as wide, has the second's noise again, twice."""
    noise = rng.laplace(0, 1, (n, 4))
    noise[:, 3] = 2 * noise[:, 1]
    return np.array(values) + noise
