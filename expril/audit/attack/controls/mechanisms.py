"""Mechanisms that are broken on purpose, each in one way that is known from practice or from papers."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls.control import Data
from expril.audit.attack.controls.laws import integers


def float_laplace(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Laplace noise of scale 1, made and added in floating point (Mironov 2012)."""
    return np.asarray(data[0] + generator.laplace(0, 1, count))


def exact_denominator(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """(errors, records) of one bin -> noisy errors over the exact number of records, clipped to 0 .. 1."""
    errors, records = data
    return np.clip((errors + integers(1, (count,), generator)) / records, 0, 1)


def noisy_max_with_value(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Which noisy count is the largest, noise of scale 2, and that noisy count."""
    noisy = np.array(data) + integers(2, (count, len(data)), generator)
    return np.stack((noisy.argmax(1), noisy.max(1)), 1)


def noisy_max_half_scale(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Which noisy count is the largest, with noise of scale 1/2 where 1 is needed."""
    return np.asarray((np.array(data) + integers(Fraction(1, 2), (count, len(data)), generator)).argmax(1))


def raw_leak(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Counts with noise of scale 4; one answer in a thousand forgets it."""
    noise = integers(4, (count, len(data)), generator)
    noise[generator.random(count) < 0.001] = 0
    return np.array(data) + noise


def noise_reused(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Two rounds of one study, (masses, signed errors), of four bins each: one noise vector of scale 2 for both."""
    noise = integers(2, (count, len(data) // 2), generator)
    return np.array(data) + np.concatenate((noise, noise), 1)


def seen_cells_only(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Counts with noise of scale 1 in the cells that hold a record; empty cells stay 0."""
    exact = np.array(data)
    return np.where(exact > 0, exact + integers(1, (count, len(data)), generator), 0)


def one_sided(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """A count plus geometric noise, which is never negative."""
    return np.asarray(data[0] + generator.geometric(-np.expm1(-1.0), count) - 1)
