"""Statistics of structure: grids and remainders of single numbers, order and patterns within a row, and a classifier.

They come after the plainer ones of `game_statistics.statistics_for`, and must prove more to be chosen.
"""

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game_statistics import (
    MOST_COORDINATES,
    Function,
    Rows,
    Statistic,
    column_name,
    difference,
    hash_rows,
    rank_columns,
)

MOST_FINE, MOST_PATTERN, MOST_ORDERED, MOST_PAIRED = 4, 10, 4, 4
"""Columns that are looked at closely, in a pattern, in their order, and in pairs: those that differ most."""
LEAST_LEARNED, MOST_LEARNED = 2_000, 12_000
"""Rows of each input that a classifier is fitted to."""
ELSEWHERE = -1e300
_MODULI = (7, 11, 13, 64, 100)
_FEW_VALUES, _CASES = 12, 12
_FINE = 2048
_DECIMALS = 8
_DENOMINATORS = 40


def structures_for(first: Rows, second: Rows) -> Iterator[Statistic]:
    """Yield candidates; `first` and `second`: (n, k) outcomes of either input, to learn from."""
    ranked = rank_columns(first, second)
    floats = first.dtype.kind == "f"
    for column in sorted(ranked[:MOST_FINE]):
        yield from (_fine_parts if floats else _remainders)(first, second, column)
    if first.shape[1] == 1:
        return
    yield from _row_numbers(floats=floats)
    yield from _patterns(first, second, sorted(ranked[:MOST_PATTERN]), floats=floats)
    yield from _pairs(sorted(ranked[:MOST_PAIRED]))
    yield from _cases(first, second, ranked)
    if len(first) >= LEAST_LEARNED:
        yield Statistic("a classifier's score", classifier(first, second, ranked[:MOST_COORDINATES]), learned=True)


def _remainders(first: Rows, second: Rows, column: int) -> Iterator[Statistic]:
    name = column_name(column, first.shape[1])
    for modulus in _MODULI:
        yield Statistic(f"{name} modulo {modulus}", _modulo(column, modulus), ordered=False)
    for rows in (first, second):
        values = np.unique(rows[:, column])
        step = int(np.gcd.reduce(values - values[0]))
        if step > 1:
            yield Statistic(f"{name} less {values[0]}, modulo {step}", _shifted(column, int(values[0]), step))


def _modulo(column: int, modulus: int) -> Function:
    return lambda rows: rows[:, column] % modulus


def _shifted(column: int, origin: int, step: int) -> Function:
    return lambda rows: (rows[:, column] - origin) % step


def _fine_parts(first: Rows, second: Rows, column: int) -> Iterator[Statistic]:
    name, values = column_name(column, first.shape[1]), np.concatenate((first[:, column], second[:, column]))
    low, high = np.quantile(values, (0.25, 0.75))
    width = float(high - low) or float(np.ptp(values)) or 1.0
    yield Statistic(f"{name} in steps of {width / _FINE:.3g}", _steps(column, width / _FINE), ordered=False)
    yield Statistic(f"{name}'s part after the point", _fraction(column, 1.0))
    yield Statistic(f"{name}'s remainder by {width / 64:.3g}", _fraction(column, width / 64))
    yield Statistic(f"how many decimals {name} has", _decimals(column))
    if (denominators(values[:: max(1, len(values) // 1000)]) > 1).any():
        yield Statistic(f"{name}'s denominator", lambda rows: denominators(rows[:, column]), ordered=False)
    for rows in (first, second):
        grid = _grid(rows[:, column])
        if grid:
            yield Statistic(f"how far {name} is from multiples of {grid:.6g}", _distance(column, grid))


def _steps(column: int, step: float) -> Function:
    return lambda rows: np.clip(np.floor(rows[:, column] / step), -(2.0**62), 2.0**62 - 1024).astype(np.int64)


def _fraction(column: int, step: float) -> Function:
    return lambda rows: np.mod(rows[:, column], step)


def _decimals(column: int) -> Function:
    def of(rows: Rows) -> NDArray[np.int64]:
        values, decimals = rows[:, column], np.full(len(rows), _DECIMALS + 1, np.int64)
        for places in range(_DECIMALS, -1, -1):
            decimals[np.round(values, places) == values] = places
        return decimals

    return of


def denominators(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """(n,) the least denominator of each number as a fraction, up to `_DENOMINATORS`; 0 if there is none."""
    least = np.zeros(len(values), np.int64)
    for denominator in range(_DENOMINATORS, 0, -1):
        multiple = values * denominator
        least[np.abs(multiple - np.round(multiple)) <= 1e-11 * np.maximum(1, np.abs(multiple))] = denominator
    return least


def _grid(values: NDArray[np.float64]) -> float:
    """The step of which all values are multiples, as far as floats tell; 0 if there is none."""
    sizes = np.unique(np.abs(values[:2000]))
    step, tolerance = 0.0, 1e-9 * float(sizes[-1])
    for size in sizes.tolist():
        while size > tolerance:
            step, size = size, (step % size if step else 0.0)  # noqa: PLW2901 - Euclid's algorithm
        if step <= 100 * tolerance:
            return 0.0
    return step


def _distance(column: int, step: float) -> Function:
    def of(rows: Rows) -> NDArray[np.float64]:
        multiples = rows[:, column] / step
        return np.asarray(np.round(np.abs(multiples - np.round(multiples)), 6))

    return of


def _row_numbers(*, floats: bool) -> Iterator[Statistic]:
    yield Statistic("the place of the largest number", lambda rows: rows.argmax(1), ordered=False)
    yield Statistic("the place of the smallest number", lambda rows: rows.argmin(1), ordered=False)
    yield Statistic("the sum of all numbers", lambda rows: rows.sum(1))
    yield Statistic("the largest number less the smallest", lambda rows: rows.max(1) - rows.min(1))
    yield Statistic("how many numbers are 0", lambda rows: (rows == 0).sum(1))
    yield Statistic("how many numbers are negative", lambda rows: (rows < 0).sum(1))
    yield Statistic("how many numbers differ", lambda rows: 1 + (np.diff(np.sort(rows, 1), axis=1) != 0).sum(1))
    yield Statistic("the sum of squares", lambda rows: (rows.astype(float) ** 2).sum(1))
    if not floats:
        yield Statistic("the sum of all numbers modulo 60", lambda rows: rows.sum(1) % 60, ordered=False)


def _patterns(first: Rows, second: Rows, columns: list[int], *, floats: bool) -> Iterator[Statistic]:
    middle = np.median(np.concatenate((first, second))[:, columns], axis=0)
    powers = 2 ** np.arange(len(columns))
    yield Statistic(
        "which numbers are above the middle", lambda rows: (rows[:, columns] > middle) @ powers, ordered=False
    )
    yield Statistic(
        "the signs",
        lambda rows: np.sign(rows[:, columns[:8]]).astype(np.int64) @ 3 ** np.arange(len(columns[:8])),
        ordered=False,
    )
    yield Statistic("which numbers are equal", _equalities(columns[:8]), ordered=False)
    yield Statistic(
        "the order of the numbers", _order(columns[:MOST_ORDERED]), ordered=False, columns=tuple(columns[:MOST_ORDERED])
    )
    if not floats:
        yield Statistic("which numbers are odd", lambda rows: (rows[:, columns] % 2) @ powers, ordered=False)
        yield Statistic("whether the sum is odd", lambda rows: rows[:, columns].sum(1) % 2, ordered=False)


def _equalities(columns: list[int]) -> Function:
    def of(rows: Rows) -> NDArray[np.int64]:
        total = np.zeros(len(rows), np.int64)
        for place, (a, b) in enumerate(combinations(columns, 2)):
            total |= (rows[:, a] == rows[:, b]).astype(np.int64) << place
        return total

    return of


def _order(columns: list[int]) -> Function:
    places = {order: place for place, order in enumerate(permutations(range(len(columns))))}
    codes = np.zeros(len(columns) ** len(columns), np.int64)
    powers = len(columns) ** np.arange(len(columns))
    for order, place in places.items():
        codes[np.array(order) @ powers] = place
    return lambda rows: codes[np.argsort(rows[:, columns], axis=1, kind="stable") @ powers]


def _pairs(columns: list[int]) -> Iterator[Statistic]:
    for a, b in combinations(columns, 2):
        yield Statistic(f"number {a} less number {b}", difference(a, b))
        yield Statistic(f"number {a} plus number {b}", _sum(a, b))
        yield Statistic(f"numbers {a} and {b}", _hash_of((a, b)), ordered=False, columns=(a, b))


def _sum(a: int, b: int) -> Function:
    return lambda rows: rows[:, a] + rows[:, b]


def _hash_of(columns: tuple[int, ...]) -> Function:
    return lambda rows: hash_rows(np.asfortranarray(rows[:, list(columns)]))


def _cases(first: Rows, second: Rows, ranked: list[int]) -> Iterator[Statistic]:
    """Each number where another one, which takes few values, has one of them."""
    pooled = np.concatenate((first[:2000], second[:2000]))
    few = {column: np.unique(pooled[:, column]) for column in ranked[:MOST_PATTERN]}
    cases = [
        (flag, value, other)
        for flag, values in few.items()
        if 1 < len(values) <= _FEW_VALUES
        for value in values.tolist()
        for other in ranked[:MOST_PATTERN]
        if other != flag and len(few[other]) > _FEW_VALUES
    ]
    for flag, value, other in cases[:_CASES]:
        name = f"number {other} where number {flag} is {value:.6g}"
        yield Statistic(name, _case(flag, value, other))


def _case(flag: int, value: float, other: int) -> Function:
    return lambda rows: np.where(rows[:, flag] == value, rows[:, other].astype(float), ELSEWHERE)


def classifier(first: Rows, second: Rows, columns: list[int]) -> Function:
    """The score of boosted trees that tell the inputs apart; a negative one speaks for the first input."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - a second to load, for long rows only

    count = min(len(first), MOST_LEARNED)
    learned = np.concatenate((first[:count, columns], second[:count, columns])).astype(float)
    model = HistGradientBoostingClassifier(
        max_iter=25, learning_rate=0.2, max_leaf_nodes=12, max_bins=64, min_samples_leaf=40, early_stopping=False
    )
    model.fit(learned, np.repeat((0, 1), count))

    def score(rows: Rows) -> NDArray[Any]:
        return np.asarray(np.round(model.decision_function(rows[:, columns].astype(float)), 4))

    return score
