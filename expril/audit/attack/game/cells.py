"""Places of one statistic: its values where they are few, else bins that are narrow in the tails."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_VALUES = 4096
"""Distinct values that each get a cell."""
_RANKS = 256
_TAIL = 10


@dataclass(frozen=True)
class Cells:
    """Cells 0 .. m - 1 in rising order.

    Attributes:
        lowest: (m,) lowest value of each; of an exact cell, its value.
        exact: whether a cell is one value; a value without a cell is then in none.
    """

    lowest: NDArray[Any]
    exact: bool

    def of(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) cell of each value; m for a value in none."""
        size = len(self.lowest)
        if self.exact and _dense(self.lowest):
            found = values - self.lowest[0]
            return np.where((found >= 0) & (found < size), found, size).astype(np.int64)
        found = np.searchsorted(self.lowest, values, side="right") - 1
        if self.exact:
            return np.where((found >= 0) & (self.lowest[found] == values), found, size)
        return np.maximum(found, 0)

    def count(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """(m + 1,) how many of the values are in each cell, and in none; faster than counting `of`."""
        size = len(self.lowest)
        if self.exact and _dense(self.lowest):
            return np.bincount(self.of(values), minlength=size + 1)
        ordered = np.sort(values)
        start = np.searchsorted(ordered, self.lowest, side="left")
        if self.exact:
            inside = np.searchsorted(ordered, self.lowest, side="right") - start
        else:
            start[0] = 0  # what is below all cells is in the first
            inside = np.diff(np.append(start, len(ordered)))
        return np.append(inside, len(ordered) - inside.sum())


def fit_cells(values: NDArray[Any]) -> Cells:
    """Cells for values like these, (n,)."""
    if values.dtype.kind == "i":
        low, high = int(values.min()), int(values.max())
        if high - low < MOST_VALUES:
            return Cells(np.arange(low, high + 1), exact=True)
    ordered = np.sort(values)
    new = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    if len(new) < MOST_VALUES:
        return Cells(ordered[np.concatenate(([0], new))], exact=True)
    # Even ranks in the middle, ranks that double in the tails.
    count = len(ordered)
    tail = _TAIL * 2 ** np.arange(max(1, int(np.log2(count / _RANKS / _TAIL)) + 1))
    ranks = np.concatenate((np.linspace(0, count - 1, _RANKS).astype(int), tail, count - 1 - tail))
    return Cells(np.unique(ordered[ranks[(ranks >= 0) & (ranks < count)]]), exact=False)


def _dense(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "i" and int(values[-1]) - int(values[0]) == len(values) - 1
