"""Numbers to look at in an outcome, each named; what they need to know is learned on a part of the first half."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.audit.game.cells import Cells, fit_cells
from simulations.audit.game.outcomes import Rows

Function = Callable[[Rows], NDArray[Any]]
"""(n, k) outcomes -> (n,) numbers."""
MOST_COORDINATES = 48
MOST_PAIRS = 8
_BITS = 64


@dataclass(frozen=True)
class Statistic:
    """One number of an outcome.

    Attributes:
        name: in words.
        of: its function.
        ordered: whether "at least" means anything.
        learned: whether the part that it was learned on knows it too well to judge it.
    """

    name: str
    of: Function
    ordered: bool = True
    learned: bool = False


def statistics_for(first: Rows, second: Rows, given: Mapping[str, Function]) -> Iterator[Statistic]:
    """All candidates, the simplest first.

    Args:
        first: (n, k) outcomes of the one input, to learn from.
        second: those of the other.
        given: what the adversary knows to compute, name -> function.
    """
    for name, function in given.items():
        yield Statistic(name, function)
        yield Statistic(name, function, ordered=False)
    columns = first.shape[1]
    apart = _apart(first, second)
    chosen = sorted(np.argsort(-np.abs(apart), kind="stable")[:MOST_COORDINATES].tolist())
    for column in chosen:
        yield Statistic(_name(column, columns), _column(column))
    if columns > 1:
        yield Statistic("the whole outcome", hash_rows, ordered=False)
        yield from _of_all(first, second, apart)
        yield from _pairs(first, second, chosen)
    for column in chosen[:MOST_PAIRS]:
        yield from _low_parts(column, columns, first.dtype.kind)
    if columns > 1 and first.dtype.kind == "f":
        yield Statistic("the finest last bit in the outcome", _finest_bit)


def hash_rows(rows: Rows) -> NDArray[np.int64]:
    """(n,) one number for each distinct row; -0.0 and 0.0 are distinct."""
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


def _name(column: int, columns: int) -> str:
    return "the outcome" if columns == 1 else f"number {column}"


def _column(column: int) -> Function:
    return lambda rows: rows[:, column]


def _of_all(first: Rows, second: Rows, apart: NDArray[np.float64]) -> Iterator[Statistic]:
    moved = np.abs(apart) > max(4.0, float(np.abs(apart).max()) / 4)
    if moved.any():
        signs = np.where(moved, np.sign(apart), 0).astype(first.dtype)
        yield Statistic("the sum along the numbers that moved", lambda rows: rows @ signs)
    within = np.cov(first, rowvar=False) + np.cov(second, rowvar=False)
    ridge = 1e-9 * np.trace(within) + 1e-300
    weights = np.linalg.solve(within + ridge * np.eye(len(apart)), first.mean(0) - second.mean(0))
    if np.abs(weights).max() > 0:
        weights = weights / np.abs(weights).max()
        yield Statistic("the weighted sum that parts the means", lambda rows: np.round(rows @ weights, 6))
    yield Statistic("the sum of logarithms of the numbers' ratios", evidence(first, second), learned=True)
    yield Statistic("the largest number", lambda rows: rows.max(1))
    yield Statistic("the smallest number", lambda rows: rows.min(1))
    yield Statistic("how many numbers equal the one before", lambda rows: (np.diff(rows, axis=1) == 0).sum(1))


def evidence(first: Rows, second: Rows) -> Function:
    """The log-likelihood ratio of a model with independent numbers: histograms, of those that differ, summed."""
    tables: list[tuple[int, Cells, NDArray[np.float64]]] = []
    for column in range(first.shape[1]):
        cells = fit_cells(np.concatenate((first[:, column], second[:, column])))
        one, two = (cells.count(each[:, column]).astype(float) for each in (first, second))
        seen = (one + two) > 0
        chi = float(((one - two)[seen] ** 2 / (one + two)[seen]).sum())
        freedom = int(seen.sum()) - 1
        if chi > freedom + 4 * np.sqrt(2 * freedom + 1):
            tables.append((column, cells, np.round(np.log((one + 2) / (two + 2)), 4)))

    def summed(rows: Rows) -> NDArray[np.float64]:
        total = np.zeros(len(rows))
        for column, cells, table in tables:
            total += table[cells.of(rows[:, column])]
        return total

    return summed


def _pairs(first: Rows, second: Rows, chosen: list[int]) -> Iterator[Statistic]:
    """Differences of two numbers that move apart, or that hardly vary: noise that was used twice."""
    one, two = first[:, chosen], second[:, chosen]
    within = (np.cov(one, rowvar=False) + np.cov(two, rowvar=False)).reshape(len(chosen), -1)
    spread = np.diag(within)[:, None] + np.diag(within)[None, :] - 2 * within
    means = one.mean(0) - two.mean(0)
    gap = (means[:, None] - means[None, :]) ** 2
    score = gap / (np.maximum(spread, 0) + 1e-9 * (np.abs(np.diag(within)).mean() + 1e-300))
    upper = np.triu_indices(len(chosen), 1)
    best = np.argsort(-score[upper], kind="stable")[:MOST_PAIRS]
    for i, j in zip(upper[0][best], upper[1][best], strict=True):
        a, b = chosen[i], chosen[j]
        yield Statistic(f"number {a} less number {b}", _difference(a, b))


def _difference(a: int, b: int) -> Function:
    return lambda rows: rows[:, a] - rows[:, b]


def _low_parts(column: int, columns: int, kind: str) -> Iterator[Statistic]:
    name = _name(column, columns)
    if kind == "i":
        yield Statistic(f"{name} modulo 60", lambda rows: np.asarray(rows[:, column] % 60), ordered=False)
        return
    yield Statistic(f"the place of {name}'s last bit", lambda rows: last_bit(rows[:, column]))
    yield Statistic(f"{name}'s first and last bits' places", lambda rows: _bits(rows[:, column]), ordered=False)


def last_bit(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) exponent of each float's lowest set bit, 1100 for zero.

    Noise made in floats leaves marks there: which last bits can occur depends on the exact answer (Mironov 2012).
    """
    fraction, exponent = np.frexp(values)
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1].astype(np.int64) - 1
    return np.asarray(np.where(whole == 0, 1100, exponent - 53 + lowest))


def _bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    exponent = np.frexp(values)[1].astype(np.int64)
    return np.asarray(exponent * _BITS + np.clip(exponent - last_bit(values), 0, _BITS - 1))


def _finest_bit(rows: Rows) -> NDArray[np.int64]:
    return np.asarray(last_bit(rows.ravel()).reshape(rows.shape).min(1))
