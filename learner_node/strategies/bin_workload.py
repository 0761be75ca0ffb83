"""Bins of every attribute of the source as one sparse matrix R, and counts of them as masses that can be true."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from learner_node.consistency import make_consistent, make_nonnegative
from learner_node.readers.counts import CountsAnswer
from learner_node.source import even_bins
from learner_node.strategies.base import Problem
from protocol.partitions import FeatureBins

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class BinWorkload:
    """One partition per attribute, and R: (K, n) with a 1 where source record i falls in bin k."""

    partitions: tuple[FeatureBins, ...]
    R: scipy.sparse.csr_matrix

    @classmethod
    def of(cls, problem: Problem, bins: int, weights: Vector | None = None) -> "BinWorkload":
        """Bins of even mass of the (weighted) source; every column of R has d ones."""
        partitions = tuple(even_bins(problem.source, bins, weights))
        sizes = [partition.cell_count(problem.source.schema) for partition in partitions]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cells = [start + partition.cells(problem.source) for start, partition in zip(starts, partitions, strict=False)]
        rows, columns = np.concatenate(cells), np.tile(np.arange(len(problem.source)), len(partitions))
        shape = int(starts[-1]), len(problem.source)
        return cls(partitions, scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape))

    def variance(self, answer: CountsAnswer, total: float) -> float:
        """Of one mass around what is to be expected in its bin: the noise, and the sampling of so many records."""
        return answer.noise_variance + total * len(self.partitions) / self.R.shape[0]


def consistent_masses(values: Vector, answer: CountsAnswer) -> Vector:
    """The nearest values that can be masses: one total for all partitions, none negative.

    Args:
        values: (K,) of the answer, one column.
        answer: whose partitions and noise they have.
    """
    blocks = np.split(values, np.cumsum(answer.sizes)[:-1])
    variances = np.full(len(blocks), max(answer.noise_variance, 1e-12))
    return np.concatenate(make_nonnegative(make_consistent(blocks, variances)).blocks)
