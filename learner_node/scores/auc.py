"""The area under the ROC curve of a score: of counts, of weighted records, of records whose labels are probabilities.

It is the share of pairs, one record of class 1 and one of class 0, that the score puts in order; equal scores count one
half (Hanley & McNeil 1982).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def roc_area(negatives: Floats, positives: Floats) -> Floats:
    """Area of counts in bins of a score (Mann-Whitney).

    Args:
        negatives: (..., k) counts or weights of class 0, in bins of increasing score.
        positives: (..., k) of class 1.

    Returns:
        (...,) in [0, 1]; NaN where a class is absent.
    """
    below = np.cumsum(negatives, axis=-1) - 0.5 * negatives
    with np.errstate(invalid="ignore"):
        area: Floats = np.einsum("...k,...k->...", positives, below) / (negatives.sum(axis=-1) * positives.sum(axis=-1))
    return area


def sorted_auc(positive: Floats, negative: Floats, starts: NDArray[np.int64]) -> Floats:
    """`weighted_auc` for ascending scores; groups of equal scores begin at `starts`."""
    if len(starts) < positive.shape[1]:
        positive, negative = (np.add.reduceat(weights, starts, axis=1) for weights in (positive, negative))
    area: Floats = np.nan_to_num(roc_area(negative, positive), nan=0.5)
    return area


def weighted_auc(score: Floats, positive: Floats, negative: Floats) -> Floats:
    """Area under the ROC curve of a score for each of S weightings, float64 (S,); 1/2 if a label has no weight.

    `score` is (n,), finite, n >= 1. `positive` and `negative` are the weights of label 1 and 0 at each score, float64
    (S, n), non-negative.
    """
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    return sorted_auc(positive[:, order], negative[:, order], starts)


def expected_auc(score: Floats, probability: Floats) -> float:
    """Area under the ROC curve in a population of many copies of each record; 1/2 if a label does not occur.

    It is sum_ij P_i (1 - P_j) ([s_i > s_j] + [s_i = s_j] / 2) / (sum P sum (1 - P)). `score` is float64 (n,), finite, n
    >= 1; `probability` is P(label 1) of each record, float64 (n,), in [0, 1].
    """
    return float(weighted_auc(score, probability[None], 1.0 - probability[None])[0])


def auc_error(area: ArrayLike, positive: ArrayLike, negative: ArrayLike) -> Floats:
    """Standard error of an area, of the arguments' common shape (Hanley & McNeil 1982, Eq. 2).

    `area` is in [0, 1]; `positive` and `negative` are the numbers of independent records with and without label 1,
    positive.
    """
    value, ones, zeros = (np.asarray(value, dtype=np.float64) for value in (area, positive, negative))
    both_positive, both_negative = value / (2.0 - value), 2.0 * value**2 / (1.0 + value)
    spread = (ones - 1.0) * (both_positive - value**2) + (zeros - 1.0) * (both_negative - value**2)
    error: Floats = np.sqrt(np.maximum(value * (1.0 - value) + spread, 0.0) / (ones * zeros))
    return error
