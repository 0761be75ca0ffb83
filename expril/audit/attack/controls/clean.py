"""Correct mechanisms, whose true epsilon is what they claim: what is flagged here is a false alarm."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls.control import Data
from expril.audit.attack.controls.laws import integers


def counts_at(scale: int | Fraction) -> Callable[[Data, int, np.random.Generator], NDArray[np.int64]]:
    """Counts with independent discrete Laplace noise of that scale."""

    def drawn(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
        return np.array(data) + integers(scale, (count, len(data)), generator)

    return drawn


def noisy_max(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Which noisy count is the largest, noise of scale 1; counts move in one direction only (Dwork and Roth 2014)."""
    return np.asarray((np.array(data) + integers(1, (count, len(data)), generator)).argmax(1))


def randomized_response(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Warner (1965): the truth with probability e / (1 + e), else its opposite."""
    lies = generator.random(count) < 1 / (1 + np.e)
    return np.where(lies, 1 - data[0], data[0])


def exponential_choice(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """McSherry and Talwar (2007): an option with probability in proportion to exp(count), counts that only rise."""
    weights = np.exp(np.array(data, float))
    return generator.choice(len(data), count, p=weights / weights.sum())


def ratio_of_noisy(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """(signed errors, records) with noise of scale 2 each, then their ratio: what is computed afterwards is free."""
    noisy = np.array(data) + integers(2, (count, 2), generator)
    return np.asarray(np.clip(noisy[:, 0] / np.maximum(noisy[:, 1], 1), -1, 1))


def two_rounds(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Two rounds of one study, with noise of scale 2 of their own."""
    return np.array(data) + integers(2, (count, len(data)), generator)
