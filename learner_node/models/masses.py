"""Noisy counts in the bins of several partitions of the same records, as masses: adjusted until they agree.

Every record is in exactly one cell of each partition (one feature's bins, or one clustering), so the true totals of
all partitions are equal while the noisy ones are not. `make_consistent` gives the best linear unbiased estimate of
the cells under that constraint, `make_nonnegative` also moves the cells to the nearest values that can be masses, and
`tilted` gives source weights with such masses. All of it only post-processes answers, so it costs no privacy (Hay et
al. 2010).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from learner_node.kinds.counts import CountsAnswer
from learner_node.solvers.tilt import solve_tilt
from protocol.partitions import Partition
from protocol.records import Records

Vector = NDArray[np.float64]
LEAST_RECORDS = 1.0
"""Smallest assumed number of records of a population, as noise may leave a negative one."""
LEAST_SPREAD, MOST_SPREAD = 1e-4, 4.0
"""Range of a bin's log-weight variance: from nearly equal weights to factors above 50."""


@dataclass(frozen=True)
class BinWorkload:
    """One partition per attribute, and R: (K, n) with a 1 where source record i falls in bin k."""

    partitions: tuple[Partition, ...]
    R: scipy.sparse.csr_matrix

    @classmethod
    def of(cls, source: Records, partitions: tuple[Partition, ...]) -> "BinWorkload":
        """Make the workload of d asked partitions, one per attribute; every column of R has d ones."""
        sizes = [partition.cell_count(source.schema) for partition in partitions]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cells = [start + partition.cells(source) for start, partition in zip(starts, partitions, strict=False)]
        rows, columns = np.concatenate(cells), np.tile(np.arange(len(source)), len(partitions))
        shape = int(starts[-1]), len(source)
        return cls(partitions, scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape))


def consistent_masses(values: Vector, answer: CountsAnswer) -> Vector:
    """The nearest valid masses: one total for all partitions, none negative.

    `values` (K,) are one column of `answer`, which gives partitions and noise.
    """
    blocks = np.split(values, np.cumsum(answer.sizes)[:-1])
    variances = np.full(len(blocks), max(answer.noise_variance, 1e-12))
    return np.concatenate(make_nonnegative(make_consistent(blocks, variances)).blocks)


def tilted(workload: BinWorkload, values: Vector, answer: CountsAnswer) -> Vector:
    """Source weights of exponential form, (n,), in private records, from counted masses (`solve_tilt`).

    A bin's log-weight has a normal prior of variance t. A mass m counted with noise variance s has the information of
    m^2 / (m + s) records, so `solve_tilt` gets the slack (m + s) / (m t). t is estimated from the counts' squared
    deviation from the source's masses, minus noise and sampling variance. `values` (K,) are one column of `answer`.
    """
    masses = consistent_masses(values, answer)
    total = max(float(masses.sum()) / len(workload.partitions), LEAST_RECORDS)
    prior = total / workload.R.shape[1]
    expected = prior * np.asarray(workload.R.sum(axis=1)).ravel()
    noise = answer.noise_variance
    excess = float(np.sum((values - expected) ** 2 - noise - expected)) / float(expected @ expected)
    spread = float(np.clip(excess, LEAST_SPREAD, MOST_SPREAD))
    least = np.maximum(expected, 1.0)
    return solve_tilt(workload.R, masses, variances=(least + noise) / (least * spread), prior=prior).weights


@dataclass(frozen=True)
class ConsistentBlocks:
    """Blocks whose totals agree."""

    blocks: tuple[Vector, ...]  # one float64 array per partition, (cells,), in the order that was given
    total: float  # of every block
    total_variance: float  # the noise variance of `total` before any clipping


def make_consistent(blocks: Sequence[ArrayLike], variances: ArrayLike) -> ConsistentBlocks:
    """Give all blocks the same total, by generalised least squares.

    With independent noise of variance v_b in each of the c_b cells of block b, the best linear unbiased estimate of
    the total is the mean of the block totals weighted by 1 / (c_b v_b), and each block spreads its difference from it
    evenly over its cells (the constrained inference of Hay et al. 2010, for partitions under one root). Values may
    come out negative. A noisy total that was asked for on its own is a block of one cell.

    Args:
        blocks: noisy numbers of each partition, each (cells,).
        variances: (len(blocks),) noise variance of a single number in each block, > 0.

    Returns:
        The adjusted blocks.

    Raises:
        ValueError: without blocks, on wrong shapes, non-finite values, or a variance that is not positive.
    """
    arrays = _as_blocks(blocks)
    noise = np.asarray(variances, dtype=np.float64)
    if noise.shape != (len(arrays),):
        raise ValueError(f"variances must have shape ({len(arrays)},), got {noise.shape}")
    if not np.all(np.isfinite(noise) & (noise > 0)):
        raise ValueError("variances must be finite and positive")
    sums = np.array([block.sum() for block in arrays])
    precisions = 1 / (noise * [len(block) for block in arrays])
    variance = float(1 / precisions.sum())
    common = float(precisions @ sums * variance)
    adjusted = tuple(block + (common - block_sum) / len(block) for block, block_sum in zip(arrays, sums, strict=True))
    return ConsistentBlocks(adjusted, common, variance)


def make_nonnegative(consistent: ConsistentBlocks) -> ConsistentBlocks:
    """Replace each block by the nearest masses: its Euclidean projection on `{x >= 0, sum x = total}`.

    A negative total, which is noise around a total near 0, becomes 0. Cells of one block have equal noise, so the
    projection is also the constrained least-squares estimate of the block, given the total.

    Args:
        consistent: the result of `make_consistent`.

    Returns:
        Blocks of the same shapes, all entries >= 0, with the common total (0 at least).
    """
    total = max(consistent.total, 0.0)
    blocks = tuple(project_to_masses(block, total) for block in consistent.blocks)
    return ConsistentBlocks(blocks, total, consistent.total_variance)


def project_to_masses(values: ArrayLike, total: float) -> Vector:
    """Project on the scaled simplex: `argmin ||x - values||` over `x >= 0, sum x = total`.

    The projection is `max(values - t, 0)` with the one threshold t that gives the sum (Held, Wolfe and Crowder 1974;
    Duchi et al. 2008, figure 1).

    Args:
        values: (n,) finite numbers, n >= 1.
        total: the sum of the result, finite and >= 0.

    Returns:
        (n,) float64.

    Raises:
        ValueError: on a wrong shape, non-finite values or a negative total.
    """
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(f"values must have shape (n,) with n >= 1, got {vector.shape}")
    if not np.all(np.isfinite(vector)):
        raise ValueError("values must be finite")
    if not (np.isfinite(total) and total >= 0):
        raise ValueError(f"total must be finite and not negative, got {total}")
    # Only differences matter; without the shift, values far from 0 would cost the small total its digits.
    shifted = vector - vector.max()
    descending = np.sort(shifted)[::-1]
    thresholds = (np.cumsum(descending) - total) / np.arange(1, vector.size + 1)
    positive = int(np.count_nonzero(descending > thresholds))
    threshold = thresholds[max(positive, 1) - 1]
    projected: Vector = np.maximum(shifted - threshold, 0.0)
    return projected


def _as_blocks(blocks: Sequence[ArrayLike]) -> list[Vector]:
    arrays = [np.asarray(block, dtype=np.float64) for block in blocks]
    if not arrays:
        raise ValueError("at least one block is needed")
    for block in arrays:
        if block.ndim != 1 or block.size == 0:
            raise ValueError(f"a block must have shape (cells,), got {block.shape}")
        if not np.all(np.isfinite(block)):
            raise ValueError("blocks must be finite")
    return arrays
