"""The noisy class counts of the bins of several attributes, and the masses that they give the source's records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.likelihood import shrunken_ratios

Floats = NDArray[np.float64]

_LEAST_NOISE = 1e-4
"""A count without noise is taken as one with this variance: enough to invert."""
_RANK_LENGTH = 0.5
_DECLARED_SPREAD = 0.5
"""Deviation of the true number of records from the declared one, relative to it."""
_LEAST_CLASS = 0.02
"""Of the records, at least this share is taken to be of either class where a fit starts."""
_RAKINGS = 20
_RAKED = 1e-6


@dataclass(frozen=True)
class BinCounts:
    """One attribute's answer.

    Attributes:
        cells: bin of each source record, integer (n_s,), in [0, K).
        counts: noisy numbers of private records of class 0 (column 0) and class 1 (column 1), float64 (K, 2).
        variance: of the noise in one count, at least 0.
        kernel: prior covariance of the bins' contributions, float64 (K, K), positive semidefinite, of about unit
            diagonal; its scale is inferred.
    """

    cells: NDArray[np.int64]
    counts: Floats
    variance: float
    kernel: Floats

    @property
    def size(self) -> int:
        """Number of bins K."""
        return len(self.counts)

    @property
    def noise(self) -> float:
        """`variance`, positive."""
        return max(self.variance, _LEAST_NOISE)

    def summed(self, weights: Floats) -> Floats:
        """Sum of source weights (n_s,) by bin, float64 (K,)."""
        total: Floats = np.bincount(self.cells, weights, minlength=self.size).astype(np.float64)
        return total

    def checked(self, n_source: int) -> "BinCounts":
        """Return it with int64 cells.

        Raises:
            ValueError: a shape, type or range is not as above.
        """
        cells, counts = np.asarray(self.cells), np.asarray(self.counts, np.float64)
        if counts.ndim != 2 or counts.shape[0] < 1 or counts.shape[1] != 2 or not np.isfinite(counts).all():
            raise ValueError(f"counts must be finite and have shape (K, 2), not {counts.shape}")
        if cells.shape != (n_source,) or not np.issubdtype(cells.dtype, np.integer):
            raise ValueError(f"cells must be integers of shape ({n_source},)")
        if n_source and not (cells.min() >= 0 and cells.max() < len(counts)):
            raise ValueError(f"cells must lie in [0, {len(counts)})")
        if np.shape(self.kernel) != (len(counts), len(counts)):
            raise ValueError(f"a kernel must have shape ({len(counts)}, {len(counts)}), not {np.shape(self.kernel)}")
        if not (np.isfinite(self.variance) and self.variance >= 0):
            raise ValueError("a noise variance must be finite and at least 0")
        return BinCounts(cells.astype(np.int64), counts, float(self.variance), np.asarray(self.kernel, np.float64))


@dataclass(frozen=True)
class SourceMasses:
    """How many private records the source's stand for.

    Attributes:
        weights: of each source record, float64 (n_s,), non-negative.
        totals: private records of class 0 and of class 1, about, float64 (2,), positive.
        variances: per answer, how far the mass of each bin may still be off, float64 (K,); 0 where no source record is.
    """

    weights: Floats
    totals: Floats
    variances: tuple[Floats, ...]


def source_masses(answers: Sequence[BinCounts], declared: float | None = None) -> SourceMasses:
    """Weigh the source so that its bins have the masses that were counted, as far as noise lets those be known.

    The answers' totals are equal in truth, so the best unbiased estimate of them is shared (`make_consistent`); a bin's
    mass is the source's share of it, corrected where the counts differ by more than noise and sampling explain
    (`shrunken_ratios`). The weights that have those masses in all attributes at once are found by raking (iterative
    proportional fitting, Deming & Stephan 1940).

    Args:
        answers: at least one, of the same source records.
        declared: number of private records, as the curators declare it; None knows nothing of it.
    """
    count = len(answers[0].cells)
    precision = np.array([1.0 / (answer.noise * answer.size) for answer in answers])
    sums = np.array([answer.counts.sum(axis=0) for answer in answers])
    counted_totals = precision @ sums / precision.sum()
    total = float(counted_totals.sum())
    if declared is not None:
        noise_precision, prior_precision = 0.5 * precision.sum(), (_DECLARED_SPREAD * declared) ** -2
        total = (total * noise_precision + declared * prior_precision) / (noise_precision + prior_precision)
    total = max(total, 2.0)
    totals = np.maximum(counted_totals, _LEAST_CLASS * total)
    totals *= total / totals.sum()
    weights = np.full(count, total / count)
    goals, variances = [], []
    for answer in answers:
        of_source = np.bincount(answer.cells, minlength=answer.size).astype(np.float64)
        used = of_source > 0
        foreseen = total * of_source[used] / count
        counted = answer.counts.sum(axis=1)
        observed = (counted + (total - counted.sum()) / answer.size)[used]
        noise = np.full(len(foreseen), 2.0 * answer.noise)
        goal = np.zeros(answer.size)
        goal[used] = foreseen * shrunken_ratios(observed, foreseen, noise)
        goals.append(goal * total / goal.sum())
        variance = np.zeros(answer.size)
        prior = (goal[used] - foreseen) ** 2 + foreseen + foreseen**2 / of_source[used]
        variance[used] = 1.0 / (1.0 / prior + 1.0 / noise)
        variances.append(variance)
    for _ in range(_RAKINGS):
        moved = 0.0
        for answer, goal in zip(answers, goals, strict=True):
            have = answer.summed(weights)
            factor = np.divide(goal, have, out=np.ones_like(have), where=have > 0)
            weights *= factor[answer.cells]
            moved = max(moved, float(np.abs(factor - 1.0).max()))
        if moved < _RAKED:
            break
    return SourceMasses(weights, totals, tuple(variances))


def ordered_kernel(shares: Floats, apart: int = 1) -> Floats:
    """Prior covariance of the contributions of bins in an order: smooth along the attribute's ranks.

    Matern's of smoothness 3/2 and length-scale 1/2 (Rasmussen & Williams 2006, Eq. 4.17) of the bins' middle ranks,
    which run from 0 to 1.

    Args:
        shares: of the source in each bin, the bins in their order, float64 (K,), non-negative.
        apart: as many last bins (of missing values) have no place in the order, and are independent.
    """
    kernel = np.eye(len(shares))
    ordered = shares[: len(shares) - apart]
    ranks = (np.cumsum(ordered) - 0.5 * ordered) / max(float(ordered.sum()), 1e-12)
    distance = np.sqrt(3.0) * np.abs(ranks[:, None] - ranks) / _RANK_LENGTH
    kernel[: len(ordered), : len(ordered)] = (1.0 + distance) * np.exp(-distance)
    return kernel
