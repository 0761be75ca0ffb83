"""How well a score ranks records whose labels are known in probability only."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def expected_auc(score: Floats, probability: Floats) -> float:
    """Area under the ROC curve of a score in a population of many copies of each record; ties count a half.

    sum_ij P_i (1 - P_j) ([s_i > s_j] + [s_i = s_j] / 2) / (sum P sum (1 - P)).

    Args:
        score: float64 (n,), finite.
        probability: P(label 1) of each record, float64 (n,), in [0, 1].

    Returns:
        In [0, 1]; 1/2 where one of the labels does not occur.
    """
    _, place = np.unique(score, return_inverse=True)
    ones = np.bincount(place, probability)
    zeros = np.bincount(place, 1.0 - probability)
    pairs = float(ones.sum() * zeros.sum())
    below = np.cumsum(zeros) - zeros
    return float(ones @ (below + 0.5 * zeros)) / pairs if pairs > 0 else 0.5
