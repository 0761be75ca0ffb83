"""What the mechanism that the paper prints (Eq. 7) really costs; add or remove one record.

It divides by the exact number of records, which is private: noise of scale l on U becomes noise of scale l / n on
U / n. The proof in the paper (section 3.5) forgets the factor between the two densities, and the empty bin. Only a
harness that owns the records can compute these numbers; they depend on them.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray


def error_ratio_epsilon(records: ArrayLike, scale: Fraction | float) -> NDArray[np.float64]:
    """Privacy loss of `clip((U + Laplace(l)) / n, 0, 1)` between n and n + 1 records in the bin.

    `max(1 / l, ln(1 + 1 / n) + n / ((n + 1) l))`, infinite at n = 0.

    Numbers of records n are whole and >= 0; the scale l is > 0.

    Returns:
        float64 of the shape of `records`.
    """
    n = np.asarray(records, dtype=np.float64)
    noise = float(scale)
    with np.errstate(divide="ignore"):
        return np.maximum(1 / noise, np.log1p(1 / n) + n / ((n + 1) * noise))


def loss_at_bins(bins: Sequence[ArrayLike], scale: Fraction | float) -> float:
    """Loss of one error query at a data set whose bins hold these numbers of records.

    A record is in one bin of each feature, so per feature the worst bin counts, and features add up. Adding a record
    to a bin of n costs epsilon(n), taking one away epsilon(n - 1): infinite where a bin holds 0 or 1 records.
    """
    return math.fsum(
        float(np.max(error_ratio_epsilon(np.maximum(np.concatenate([n, n - 1]), 0), scale)))
        for n in (np.asarray(feature, dtype=np.int64) for feature in bins)
    )


def mass_ratio_epsilon(bins: Sequence[ArrayLike], scale: Fraction | float) -> float:
    """Loss of one mass query, `clip((n_k + Laplace(l)) / N, 0, 1)` for every bin k, at these bins and their neighbours.

    One record more changes N, and with it the released ratios of *all* q bins of a feature, not of one. For a
    neighbour with one record more in bin j, the largest log-ratio of the densities is, per feature and by direction,

    * q / l: towards ratios at the ends of [0, 1], where each clipped tail, or the density beside it, moves by 1 / l;
    * q ln(1 + 1 / N) + (2 (N - n_j) / (N + 1)) / l: at the centres of the noise.

    All features' numbers of records have the same sum N.

    Returns:
        The sum over features of the larger one, over all bins j, with one record more or one fewer; infinite for N
        of 0 or 1.
    """
    noise = float(scale)
    total = 0.0
    for n in (np.asarray(feature, dtype=np.int64) for feature in bins):
        size = int(n.sum())
        if size < 2:
            return math.inf
        fewest = int(n[n > 0].min())  # a record can only be taken from a bin that has one
        total += max(_mass_loss(len(n), size, int(n.min()), noise), _mass_loss(len(n), size - 1, fewest - 1, noise))
    return total


def _mass_loss(bins: int, records: int, least: int, noise: float) -> float:
    """Between N records, `least` of them in the bin that gains one, and N + 1."""
    centres = bins * math.log1p(1 / records) + 2 * (records - least) / ((records + 1) * noise)
    return max(bins / noise, centres)
