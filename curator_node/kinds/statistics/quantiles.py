"""Quantiles of counts on a grid: scores for a choice, and smooth sensitivity. All numbers are whole.

Proofs: docs/explanation/statistics.md.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from protocol.kinds.statistics.methods import decay_factor

ONE = 2**40
"""The decay is counted in parts of 1 / 2^40."""


def rank_scores(counts: NDArray[np.int64], above: int, below: int) -> NDArray[np.int64]:
    """How far each point is from being the quantile a / (a + b), at most 0, (points,).

    A point is that quantile where at most a share a / (a + b) of the records lies below it, and at most b / (a + b)
    above it; there its score is 0. A record moves each score by at most max(a, b).

    Args:
        counts: (points,) of records.
        above: a.
        below: b.
    """
    at_most = np.cumsum(counts)
    total = at_most[-1]
    under = at_most - counts
    too_high = (above + below) * under - above * total
    too_low = above * total - (above + below) * at_most
    scores: NDArray[np.int64] = -np.maximum(0, np.maximum(too_high, too_low))
    return scores


def block_scores(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How far each point is from the median of a fixed number of values, at most 0, (points,).

    Where one value is replaced by another, each score moves by at most 1.
    """
    at_most = np.cumsum(counts)
    half = at_most[-1] // 2
    scores: NDArray[np.int64] = -np.maximum(0, np.maximum(at_most - counts, at_most[-1] - at_most) - half)
    return scores


def order_statistics(counts: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of these ranks, from 1, in increasing order: 0 for a rank below 1, the last point beyond the last."""
    at_most = np.cumsum(counts)
    places = np.searchsorted(at_most, ranks, side="left")
    return np.where(ranks < 1, 0, np.minimum(places, len(counts) - 1)).astype(np.int64)


def quantile(counts: NDArray[np.int64], above: int, below: int) -> int:
    """The value of rank ceil(a n / (a + b)), in 0 .. points - 1; 0 where there is no record."""
    rank = -(-above * int(counts.sum()) // (above + below))
    return int(order_statistics(counts, np.array([rank]))[0])


@lru_cache(maxsize=64)
def decay(beta: Fraction) -> NDArray[np.int64]:
    """Whole numbers t_0 = 2^40, t_1, ... with exp(-beta) t_k <= t_{k+1} <= t_k, up to the first that repeats."""
    top, bottom = decay_factor(beta).as_integer_ratio()
    parts = [ONE]
    while (following := -(-parts[-1] * top // bottom)) < parts[-1]:
        parts.append(following)
    return np.array(parts, np.int64)


def smooth_sensitivity(
    counts: NDArray[np.int64], above: int, below: int, beta: Fraction, most_records_per_unit: int
) -> int:
    """A beta-smooth bound of the local sensitivity of `quantile` under adding or removing a unit, times 2^40.

    It is the largest of t_k A_k: A_k is the distance between the order statistics (k + 1) c max(a, b) / (a + b) ranks
    below and above the quantile's, between which every set of records at most k + 1 units away has its quantile.

    Args:
        counts: (points,) of records.
        above: a.
        below: b.
        beta: of the decay.
        most_records_per_unit: c.
    """
    factors = decay(beta)
    middle, sides = above * int(counts.sum()), above + below
    far = max(above, below) * most_records_per_unit * np.arange(1, len(factors) + 1)
    high, low = (order_statistics(counts, -(-ranks // sides)) for ranks in (middle + far, middle - far))
    # Further out the factors stay, and no distance is longer than the grid.
    return max(int(((high - low) * factors).max()), (len(counts) - 1) * int(factors[-1]))
