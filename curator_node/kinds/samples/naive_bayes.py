"""A cheap weak learner for tables: naive Bayes, from counts of binned axes, each by label where a label is drawn."""

import numpy as np
from numpy.typing import NDArray

from protocol.grids import BaseLaw, Cells

STEPS = 2**20
"""Of a logarithm: sums of whole numbers are the same in any order."""


class NaiveBayes:
    """log P(x) / Q(x) as a sum over axes, each axis binned; given the label where the base law has one of classes.

    Counts are smoothed by one record, spread evenly over an axis' bins. A function of the cell alone.

    Args:
        base: whose cells it scores.
        real: (n, d) of P.
        drawn: (m, d) of Q.
        bins: most bins of an axis.
    """

    def __init__(self, base: BaseLaw, real: Cells, drawn: Cells, *, bins: int) -> None:
        names = [axis.name for axis in base.axes]
        self._label = names.index(base.label) if base.label in base.levels else None
        classes = 1 if self._label is None else base.sizes[self._label]
        self._bins = [np.arange(size) * min(bins, size) // size for size in base.sizes]
        if self._label is not None:
            self._bins[self._label] = np.arange(classes)
        self._tables: list[NDArray[np.int64]] = []
        for column, binned in enumerate(self._bins):
            width = int(binned[-1]) + 1
            of_label = column == self._label
            shares = []
            for cells in (real, drawn):
                given = np.zeros(len(cells), np.int64) if of_label else self._given(cells)
                rows = 1 if of_label else classes
                counts = np.bincount(given * width + binned[cells[:, column]], minlength=rows * width) + 1 / width
                by_class = counts.reshape(rows, width)
                shares.append(by_class / by_class.sum(axis=1, keepdims=True))
            self._tables.append(np.rint(np.log(shares[0] / shares[1]) * STEPS).astype(np.int64))

    def log_odds(self, cells: Cells) -> NDArray[np.float64]:
        """(n,) multiples of 2^-20."""
        given = self._given(cells)
        total = np.zeros(len(cells), np.int64)
        for column, (binned, table) in enumerate(zip(self._bins, self._tables, strict=True)):
            rows = 0 if column == self._label else given
            total += table[rows, binned[cells[:, column]]]
        return total / STEPS

    def _given(self, cells: Cells) -> NDArray[np.int64]:
        """The label's class; 0 where there is none."""
        return np.zeros(len(cells), np.int64) if self._label is None else cells[:, self._label]
