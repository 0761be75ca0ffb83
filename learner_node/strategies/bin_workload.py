"""Bins of every attribute of the source as one sparse matrix R, and counts of them as masses that can be true."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.consistency import make_consistent, make_nonnegative
from learner_node.solvers.tilt import solve_tilt
from protocol.partitions import Partition
from protocol.records import Records

Vector = NDArray[np.float64]
LEAST_RECORDS = 1.0
"""Least number of records that a population is taken to have: noise may leave less than none."""
LEAST_SPREAD, MOST_SPREAD = 1e-4, 4.0
"""Variance of a bin's log-weight: from weights that hardly differ to factors of 50 and more."""


@dataclass(frozen=True)
class BinWorkload:
    """One partition per attribute, and R: (K, n) with a 1 where source record i falls in bin k."""

    partitions: tuple[Partition, ...]
    R: scipy.sparse.csr_matrix

    @classmethod
    def of(cls, source: Records, partitions: tuple[Partition, ...]) -> "BinWorkload":
        """Of the partitions that were asked, one for each of d attributes; every column of R has d ones."""
        sizes = [partition.cell_count(source.schema) for partition in partitions]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cells = [start + partition.cells(source) for start, partition in zip(starts, partitions, strict=False)]
        rows, columns = np.concatenate(cells), np.tile(np.arange(len(source)), len(partitions))
        shape = int(starts[-1]), len(source)
        return cls(partitions, scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape))


def consistent_masses(values: Vector, answer: CountsAnswer) -> Vector:
    """The nearest values that can be masses: one total for all partitions, none negative.

    Args:
        values: (K,) of the answer, one column.
        answer: whose partitions and noise they have.
    """
    blocks = np.split(values, np.cumsum(answer.sizes)[:-1])
    variances = np.full(len(blocks), max(answer.noise_variance, 1e-12))
    return np.concatenate(make_nonnegative(make_consistent(blocks, variances)).blocks)


def tilted(workload: BinWorkload, values: Vector, answer: CountsAnswer) -> Vector:
    """Weights of the source of exponential form, (n,), in private records, from counted masses; see `solve_tilt`.

    The log-weight of a bin has a normal prior of variance t. A mass m that is counted with noise of variance s tells of
    it as much as m^2 / (m + s) records would, so that the slack of `solve_tilt` is (m + s) / (m t). The counts
    themselves say what t is: their squared deviation from the source's masses, less that of noise and sampling.

    Args:
        workload: the bins.
        values: (K,) of the answer, one column.
        answer: whose partitions and noise they have.
    """
    masses = consistent_masses(values, answer)
    total = max(float(masses.sum()) / len(workload.partitions), LEAST_RECORDS)
    prior = total / workload.R.shape[1]
    expected = prior * np.asarray(workload.R.sum(axis=1)).ravel()
    noise = answer.noise_variance
    excess = float(np.sum((values - expected) ** 2 - noise - expected)) / float(expected @ expected)
    spread = float(np.clip(excess, LEAST_SPREAD, MOST_SPREAD))
    held = np.maximum(expected, 1.0)
    return solve_tilt(workload.R, masses, variances=(held + noise) / (held * spread), prior=prior).weights
