"""Outcomes as one array of rows, and the statistics by which the game looks at an outcome, each named.

A statistic that must be learned is learned on a part of the game's first half. Few different values are counted one by
one; many are counted in bins that are narrow in the tails.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ConfigurationError

Rows = NDArray[Any]
"""(n, k), int64 or float64: one outcome a row."""
Mechanism = Callable[[int], NDArray[Any]]
"""n -> (n,) or (n, k): that many independent outcomes on one input."""


def draw(mechanism: Mechanism, count: int, name: str = "the mechanism") -> Rows:
    """(count, k) outcomes as int64 or float64; truth values become 0 and 1. A float may be infinite, or no number.

    Raises:
        ConfigurationError: the outcomes are no numbers, none is finite, or they are not one row for each draw.
    """
    outcomes = np.asarray(mechanism(count))
    if outcomes.ndim not in (1, 2) or outcomes.shape[0] != count or 0 in outcomes.shape:
        raise ConfigurationError(
            f"{name}: asked for {count} outcomes, got an array of shape {outcomes.shape};"
            " give one outcome a row, (n,) or (n, k)"
        )
    if outcomes.dtype.kind in "bui":
        if outcomes.dtype == np.uint64 and outcomes.max() > np.iinfo(np.int64).max:
            raise ConfigurationError(f"{name}: an outcome is above 2^63 - 1; give it as two smaller numbers")
        rows: Rows = outcomes.astype(np.int64)
    elif outcomes.dtype.kind == "f":
        rows = outcomes.astype(np.float64)
        if not np.isfinite(rows).any():
            raise ConfigurationError(f"{name}: its outcomes are not finite; give such outcomes a number of their own")
    else:
        raise ConfigurationError(f"{name}: outcomes are of type {outcomes.dtype}; give whole or floating numbers")
    return np.asfortranarray(rows.reshape(count, -1))  # it is read column by column


@dataclass(frozen=True)
class Stand:
    """Finite numbers beyond all others that stand for what is infinite, and for what is no number."""

    nan: float
    low: float  # for minus infinity
    high: float  # for infinity
    needed: bool  # whether such outcomes came in the half that is searched

    @classmethod
    def for_rows(cls, *samples: Rows) -> "Stand":
        """Numbers that suit samples of which some numbers are finite."""
        finite = [rows[np.isfinite(rows)] for rows in samples]
        low, high = float(min(map(np.min, finite))), float(max(map(np.max, finite)))
        width = min(max(high - low, 1.0), LARGEST)
        needed = sum(map(len, finite)) < sum(rows.size for rows in samples)
        return cls(low - 3 * width, low - 2 * width, high + 2 * width, needed)

    def of(self, rows: Rows) -> Rows:
        """The rows with these numbers in place of others."""
        if rows.dtype.kind != "f" or np.isfinite(rows).all():
            return rows
        return np.asfortranarray(np.nan_to_num(rows, nan=self.nan, posinf=self.high, neginf=self.low))

    @property
    def words(self) -> str:
        """What an event's description says of it."""
        return (
            f" ({self.nan:.6g} stands for NaN, {self.low:.6g} for -inf, {self.high:.6g} for inf)" if self.needed else ""
        )


MOST_VALUES = 4096
"""Most distinct values that get a cell each."""
_RANKS = 256
_TAIL = 10


@dataclass(frozen=True)
class Cells:
    """Cells 0 .. m - 1 of a statistic, in rising order."""

    lowest: NDArray[Any]  # (m,) lowest value of each cell; of an exact cell, its value
    exact: bool  # whether each cell is one value; other values are then in no cell

    def of(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) cell of each value; m for a value in no cell."""
        size = len(self.lowest)
        if self.exact and _dense(self.lowest):
            places = values - self.lowest[0]
            return np.where((places >= 0) & (places < size), places, size).astype(np.int64)
        places = np.searchsorted(self.lowest, values, side="right") - 1
        if self.exact:
            return np.where((places >= 0) & (self.lowest[places] == values), places, size)
        return np.maximum(places, 0)

    def count(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """(m + 1,) numbers of values in each cell, and in no cell; faster than counting `of`."""
        size = len(self.lowest)
        if self.exact and _dense(self.lowest):
            return np.bincount(self.of(values), minlength=size + 1)
        ordered = np.sort(values)
        start = np.searchsorted(ordered, self.lowest, side="left")
        if self.exact:
            inside = np.searchsorted(ordered, self.lowest, side="right") - start
        else:
            start[0] = 0  # values below all cells are in the first
            inside = np.diff(np.append(start, len(ordered)))
        return np.append(inside, len(ordered) - inside.sum())


def fit_cells(values: NDArray[Any]) -> Cells:
    """Make cells that suit the values, (n,)."""
    if values.dtype.kind == "i" and int(values.max()) - int(values.min()) < MOST_VALUES:
        return Cells(np.arange(values.min(), values.max() + 1), exact=True)
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


Function = Callable[[Rows], NDArray[Any]]
"""(n, k) outcomes -> (n,) numbers."""
MOST_COORDINATES, MOST_SUMMED = 48, 128
MOST_PAIRS = 8
MOST_TOGETHER, MOST_BESIDE = 4, 24
_COARSE = 24
LARGEST = 1e300
_BITS = 64


@dataclass(frozen=True)
class Statistic:
    """A number that is computed from an outcome."""

    name: str  # in words
    function: Function
    ordered: bool = True  # whether "at least" means anything
    learned: bool = False  # whether it is fitted to one part of the draws, which then cannot score it
    columns: tuple[int, ...] = ()  # columns of an outcome that an example shows; none: the statistic itself

    def of(self, rows: Rows) -> NDArray[Any]:
        """(n,) the statistic of each outcome; values that overflow are clipped to `LARGEST`."""
        with np.errstate(all="ignore"):
            values = self.function(rows)
        if values.dtype.kind != "f":
            return values
        return np.asarray(np.clip(np.nan_to_num(values, nan=-LARGEST), -LARGEST, LARGEST))


def statistics_for(first: Rows, second: Rows, own_statistics: Mapping[str, Function]) -> Iterator[Statistic]:
    """Yield all candidates, the simplest first.

    `first`: (n, k) outcomes of the first input, to learn from; `second`: (n, k) outcomes of the second input;
    `own_statistics`: name -> function, of the adversary.
    """
    for name, function in own_statistics.items():
        yield Statistic(name, function)
        yield Statistic(name, function, ordered=False)
    columns = first.shape[1]
    ranked = rank_columns(first, second)
    scale = np.maximum(np.abs(first.astype(float)).max(0), np.abs(second.astype(float)).max(0))
    scale = np.where(scale > 0, scale, 1.0)
    first_scaled, second_scaled = first / scale, second / scale
    chosen = sorted(ranked[:MOST_COORDINATES])
    for column in chosen:
        yield Statistic(column_name(column, columns), _column(column))
    if columns > 1:
        yield Statistic("the whole outcome", hash_rows, ordered=False, columns=tuple(range(columns)))
        summed = sorted(ranked[:MOST_SUMMED])
        yield from _sums(first_scaled, second_scaled, scale, _apart(first_scaled, second_scaled), summed)
        yield Statistic("the sum of logarithms of the numbers' ratios", evidence(first, second, summed), learned=True)
        yield Statistic("the largest number", lambda rows: rows.max(1))
        yield Statistic("the smallest number", lambda rows: rows.min(1))
        yield Statistic("how many numbers equal the one before", _equal_neighbours)
        yield from _differences(first / scale.max(), second / scale.max(), chosen)
        yield from _joint_bins(first, second, ranked)
    for column in sorted(ranked[:MOST_PAIRS]):
        yield from _low_parts(column, columns, first.dtype.kind)
    if columns > 1 and first.dtype.kind == "f":
        yield Statistic("the finest last bit in the outcome", _finest_bit)


def rank_columns(first: Rows, second: Rows) -> list[int]:
    """Return all columns; those whose means and variances differ most between the inputs come first."""
    scale = np.maximum(np.abs(first.astype(float)).max(0), np.abs(second.astype(float)).max(0))
    scale = np.where(scale > 0, scale, 1.0)
    first_scaled, second_scaled = first / scale, second / scale
    differing = np.abs(_apart(first_scaled, second_scaled)) + np.abs(_wider(first_scaled, second_scaled))
    return [int(column) for column in np.argsort(-differing, kind="stable")]


def hash_rows(rows: Rows) -> NDArray[np.int64]:
    """(n,) hash of each row; -0.0 and 0.0 are distinct."""
    words = rows.view(np.uint64)
    weights = np.random.default_rng(20).integers(0, 2**63, words.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = words * weights
    mixed ^= mixed >> np.uint64(29)
    sums: NDArray[np.uint64] = (mixed * weights[::-1]).sum(1, dtype=np.uint64)
    return sums.view(np.int64)


def _apart(first: Rows, second: Rows) -> NDArray[np.float64]:
    """(k,) difference of the means in standard errors."""
    deviation = np.sqrt(first.var(0) + second.var(0))
    difference = first.mean(0) - second.mean(0)
    apart = np.divide(difference, deviation, out=np.sign(difference) * 1e9, where=deviation > 0)
    return np.asarray(apart * np.sqrt(len(first)))


def _wider(first: Rows, second: Rows) -> NDArray[np.float64]:
    """Return (k,) log ratios of the two variances, in standard errors as for normal data."""
    first_variance, second_variance = first.var(0), second.var(0)
    floor = 1e-12 * (first_variance + second_variance) + 1e-300
    return np.asarray(np.log((first_variance + floor) / (second_variance + floor)) * np.sqrt(len(first)) / 2)


def column_name(column: int, columns: int) -> str:
    """A column in words."""
    return "the outcome" if columns == 1 else f"number {column}"


def _column(column: int) -> Function:
    return lambda rows: rows[:, column]


def _sums(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    scale: NDArray[np.float64],
    apart: NDArray[np.float64],
    columns: list[int],
) -> Iterator[Statistic]:
    """Yield sums whose means differ: of the columns that moved, and Fisher's discriminant (1936).

    The inputs are scaled.
    """
    moved = np.abs(apart) > max(4.0, float(np.abs(apart).max()) / 4)
    if moved.any():
        signs = np.where(moved, np.sign(apart), 0).astype(np.int64)
        yield Statistic("the sum along the numbers that moved", lambda rows: rows @ signs)
    first_rows, second_rows = first[:, columns], second[:, columns]
    within = np.cov(first_rows, rowvar=False) + np.cov(second_rows, rowvar=False)
    ridge = 1e-9 * np.trace(within) + 1e-12
    gap = first_rows.mean(0) - second_rows.mean(0)
    solved = np.linalg.solve(within + ridge * np.eye(len(columns)), gap)
    size = max(float((first_rows @ solved).std()), abs(float(gap @ solved)) / 1000)
    if size > 0:
        weights = np.zeros(len(apart))
        weights[columns] = solved / size / scale[columns]
        name = "the weighted sum that parts the means"
        yield Statistic(name, lambda rows: np.round(rows @ weights, 6), learned=True)


def _equal_neighbours(rows: Rows) -> NDArray[np.int64]:
    return np.asarray((rows[:, 1:] == rows[:, :-1]).sum(1))


def evidence(first: Rows, second: Rows, columns: list[int]) -> Function:
    """The log-likelihood ratio of a model with independent columns: a sum over the histograms that differ."""
    tables: list[tuple[int, Cells, NDArray[np.float64]]] = []
    for column in columns:
        cells = fit_cells(np.concatenate((first[:, column], second[:, column])))
        first_counts, second_counts = (cells.count(rows[:, column]).astype(float) for rows in (first, second))
        occupied = (first_counts + second_counts) > 0
        chi = float(((first_counts - second_counts)[occupied] ** 2 / (first_counts + second_counts)[occupied]).sum())
        freedom = int(occupied.sum()) - 1
        if chi > freedom + 4 * np.sqrt(2 * freedom + 1):
            tables.append((column, cells, np.round(np.log((first_counts + 2) / (second_counts + 2)), 4)))

    def summed(rows: Rows) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for column, cells, table in tables:
            total += table[cells.of(rows[:, column])]
        return total

    return summed


def _differences(first: NDArray[np.float64], second: NDArray[np.float64], chosen: list[int]) -> Iterator[Statistic]:
    """Differences of two columns that share their noise, or that are correlated under one input only."""
    first_rows, second_rows = first[:, chosen], second[:, chosen]
    covariances = np.cov(first_rows, rowvar=False), np.cov(second_rows, rowvar=False)
    within = covariances[0] + covariances[1]
    spread = np.diag(within)[:, None] + np.diag(within)[None, :] - 2 * within
    means = first_rows.mean(0) - second_rows.mean(0)
    gap = (means[:, None] - means[None, :]) ** 2
    apart = gap / (np.maximum(spread, 0) + 1e-9 * np.abs(np.diag(within)).mean() + 1e-150)
    deviations = np.sqrt(np.maximum(np.diag(within), 1e-150))
    related = np.abs(covariances[0] - covariances[1]) / np.outer(deviations, deviations)
    upper = np.triu_indices(len(chosen), 1)
    best = [np.argsort(-by[upper], kind="stable")[: MOST_PAIRS // 2].tolist() for by in (apart, related)]
    for pair in dict.fromkeys(best[0] + best[1]):
        a, b = chosen[upper[0][pair]], chosen[upper[1][pair]]
        yield Statistic(f"number {a} less number {b}", difference(a, b))


def difference(a: int, b: int) -> Function:
    """The difference of two columns."""
    return lambda rows: rows[:, a] - rows[:, b]


def _joint_bins(first: Rows, second: Rows, ranked: list[int]) -> Iterator[Statistic]:
    """Pairs of columns in coarse bins: of those that differ most, and of the first of them with all others."""
    pairs = [*combinations(sorted(ranked[:MOST_TOGETHER]), 2)]
    pairs += [(ranked[0], other) for other in ranked[MOST_TOGETHER:MOST_BESIDE]]
    used = sorted(set(chain.from_iterable(pairs)))
    pooled = np.concatenate((first, second))
    bins = {column: _Bins(column, _coarse(pooled[:, column])) for column in used}
    for a, b in pairs:
        joint = _joint(bins[a], bins[b])
        yield Statistic(f"the pair of numbers {a} and {b}", joint, ordered=False, columns=(a, b))


def _coarse(values: NDArray[Any]) -> NDArray[Any]:
    """Edges of bins: even ranks, and ranks near the ends, where rare and telling values may lie."""
    few = np.unique(values)
    if len(few) <= _COARSE:
        return few[1:]
    count = len(values)
    tails = np.array([4, 16, 64, 256])
    ranks = np.concatenate((np.linspace(0, count, _COARSE + 1).astype(int)[1:-1], tails, count - tails))
    return np.unique(np.sort(values)[ranks.clip(0, count - 1)])


class _Bins:
    """The bins of one column; the last result is cached, as pairs share columns."""

    def __init__(self, column: int, edges: NDArray[Any]) -> None:
        self.count = len(edges) + 1
        self._column, self._edges = column, edges
        self._last: tuple[Rows | None, NDArray[np.int64]] = (None, np.empty(0, np.int64))

    def __call__(self, rows: Rows) -> NDArray[np.int64]:
        if self._last[0] is not rows:
            self._last = rows, np.searchsorted(self._edges, rows[:, self._column], "right")
        return self._last[1]


def _joint(first: _Bins, second: _Bins) -> Function:
    return lambda rows: first(rows) * second.count + second(rows)


def _low_parts(column: int, columns: int, kind: str) -> Iterator[Statistic]:
    name = column_name(column, columns)
    if kind == "i":
        yield Statistic(f"{name} modulo 60", lambda rows: np.asarray(rows[:, column] % 60), ordered=False)
        return
    yield Statistic(f"the place of {name}'s last bit", lambda rows: last_bit(rows[:, column]))
    yield Statistic(f"{name}'s first and last bits' places", lambda rows: _bits(rows[:, column]), ordered=False)


def last_bit(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) exponent of each float's lowest set bit, 1100 for zero.

    Which last bits can occur in floating-point noise depends on the exact answer (Mironov 2012).
    """
    fraction, exponent = np.frexp(values)
    mantissa = np.abs(fraction * 2.0**53).astype(np.int64)
    lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    return np.asarray(np.where(mantissa == 0, 1100, exponent - 53 + lowest))


def _bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    exponent = np.frexp(values)[1].astype(np.int64)
    return np.asarray(exponent * _BITS + np.clip(exponent - last_bit(values), 0, _BITS - 1))


def _finest_bit(rows: Rows) -> NDArray[np.int64]:
    return np.asarray(last_bit(rows.ravel()).reshape(rows.shape).min(1))
