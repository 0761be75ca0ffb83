"""Models fitted in site that take the number of records, or what classes there are, for public.

The first, the second and the last have the faults that `expril audit peers` finds in diffprivlib 0.6.6. The third is
Chaudhuri, Monteleoni and Sarwate's own setting (2011, Algorithm 2), whose neighbours have the same number of records.
"""

import math

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.controls.control import Data
from expril.audit.attack.controls.laws import integers

HALVINGS = 60
"""Of an interval that holds the solution: it is then as exact as a double."""
NORM = 100
"""Of a record, where the scaling is wrong."""
STEPS = 1000
_HALF = 0.5
"""Of epsilon 1, for the noise and for the change of variables each."""


def class_counts_to_n(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(records of each class) -> noisy counts of scale 1, moved until they add up to the exact number of records."""
    noisy = np.array(data) + integers(1, (count, len(data)), generator)
    short = sum(data) - noisy.sum(1)
    share, rest = np.divmod(short, len(data))
    return np.asarray(noisy + share[:, None] + (np.arange(len(data)) < rest[:, None]))


def one_class_fails(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """(records of each class) -> noisy counts of scale 1; where a class has no record, the fit raises an error."""
    if 0 in data:
        return np.full((count, len(data)), -1)
    return np.abs(np.array(data) + integers(1, (count, len(data)), generator))


def regulariser_over_n(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Perturbed objective of logistic regression of which the mean is regularised: of the sum it is n times that.

    Args:
        data: of each record, the attribute times the label: -1, 0 or 1.
        count: draws.
        generator: of the noise.
    """
    ridge = len(data) * 0.25 / math.expm1(_HALF)
    return _perturbed(np.array(data, float), ridge, 1 / _HALF, count, generator)


def norm_not_squared(data: Data, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The same with a planned regulariser, for records of norm R whose curvature R^2 / 4 is taken for R / 4."""
    ridge = NORM * 0.25 / math.expm1(_HALF)
    return _perturbed(NORM * np.array(data, float), ridge, NORM / _HALF, count, generator)


def _perturbed(
    signed: NDArray[np.float64], ridge: float, scale: float, count: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Minimisers of sum log(1 + exp(-z w)) + ridge w^2 / 2 + b w with Laplace b, (n,) in steps of 1 / `STEPS`.

    The steps hide the last bits of floats, so that only the fault that is meant shows.
    """
    noise = generator.laplace(0, scale, count)
    far = (np.abs(noise) + np.abs(signed).sum()) / ridge
    low, high = -far, far
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        slope = ridge * middle + noise - (signed / (1 + np.exp(np.clip(np.outer(middle, signed), -700, 700)))).sum(1)
        low, high = np.where(slope < 0, middle, low), np.where(slope < 0, high, middle)
    return np.asarray(np.rint(STEPS * (low + high) / 2).astype(np.int64))
