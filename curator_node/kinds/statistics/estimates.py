"""Sample and aggregate (Nissim, Raskhodnikova and Smith 2007): an estimator on each of k disjoint blocks of records.

An estimate is a number, or None if the records of a block are too few or too much alike.

An estimate depends on its block alone, to the last bit: records are summed in whole numbers, without a matrix library,
and floats come after that. A new estimator is a function here and a line in `protocol.kinds.statistics.items`.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curator_node.records.dataset import PrivateDataset
from protocol.kinds.statistics.items import Estimate, Grid
from protocol.records import LABEL_STEPS
from protocol.schema import NumericAttribute, Schema

FINE_STEPS = 2**16
"""Steps of an attribute's declared range. Estimators add up whole steps, and 2^30 squares of them fit 64 bits."""


def numbers_of(dataset: PrivateDataset, name: str) -> NDArray[np.float64]:
    """Values of a numeric attribute or of a numeric label, (n,), NaN where missing."""
    schema = dataset.schema
    if schema.label_bounds is not None and name == schema.label:
        lower, upper = schema.label_bounds
        return lower + (upper - lower) * (dataset.labels / LABEL_STEPS)
    values: NDArray[np.float64] = dataset.records.column(name)
    return values


def bounds_of(schema: Schema, name: str) -> tuple[float, float]:
    """Declared bounds of a numeric attribute, or of a numeric label."""
    attribute = schema.find(name)
    if isinstance(attribute, NumericAttribute):
        return attribute.lower, attribute.upper
    if schema.label_bounds is None:
        raise ValueError("neither a numeric attribute nor a numeric label")
    return schema.label_bounds


def grid_counts(dataset: PrivateDataset, name: str, grid: Grid) -> NDArray[np.int64]:
    """Number of records at each point of a grid, (points,). Records whose value is missing are not counted."""
    values = numbers_of(dataset, name)
    missing = np.isnan(values)
    present = values[~missing] if missing.any() else values
    counts: NDArray[np.int64] = np.bincount(grid.indices(present), minlength=grid.points)
    return counts


def fine_columns(dataset: PrivateDataset, names: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Attributes in steps of 2^-16 of their declared ranges, and which records have all of them.

    Returns:
        (n, d) int64 in 0 .. 2^16, valid only for records that have all attributes; (n,) bool, whether a record has.
    """
    values = np.column_stack([numbers_of(dataset, name) for name in names])
    there: NDArray[np.bool_] = np.asarray(~np.isnan(values).any(axis=1))
    present = np.where(there[:, None], values, 0.0)
    grids = [Grid(*bounds_of(dataset.schema, name), FINE_STEPS) for name in names]
    return np.column_stack([grid.indices(present[:, at]) for at, grid in enumerate(grids)]), there


SPLIT = b"statistic"
"""Name of the split into blocks: it is the same for all questions."""


def block_values(dataset: PrivateDataset, item: Estimate, blocks: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The estimate of each block on the grid, (count,) in 0 .. steps; a constant for blocks without an estimate.

    A block's value depends on the records of that block alone.

    Args:
        dataset: holds all records.
        item: a checked one.
        blocks: (n,) block of each record, of `PrivateDataset.blocks`.
        count: of blocks.
    """
    steps, there = fine_columns(dataset, item.attributes)
    rows = np.flatnonzero(there)
    rows = rows[np.argsort(blocks[rows], kind="stable")]
    ends = np.cumsum(np.bincount(blocks[rows], minlength=count))
    ranges = tuple(bounds_of(dataset.schema, name) for name in item.attributes)
    results = np.full(count, item.constant, np.int64)
    start = 0
    for at, end in enumerate(ends):
        rows_of_block = rows[start:end]
        start = end
        value = estimate(item.estimator, Block(steps[rows_of_block], dataset.labels[rows_of_block], ranges))
        if value is not None:
            results[at] = item.grid.indices(np.array([value]))[0]
    return results


TRIMMED = 10
"""The trimmed mean cuts off one in this many records at either end."""
NEWTON_STEPS = 12
LONGEST_STEP = 4.0
RIDGE = 1.0
"""Penalty on coefficients of attributes scaled to [-1, 1]. With it, separated classes have a finite minimiser, too."""
SUM_STEPS = 2.0**24
"""Terms of a logistic regression are added up in parts of 1 / 2^24; there are at most 2^38 terms."""
SINGULAR = 1e-9


class Block(NamedTuple):
    """The records of a block that have all attributes."""

    steps: NDArray[np.int64]  # (n, d) int64, of the declared ranges, 0 .. 2^16.
    labels: NDArray[np.unsignedinteger]  # (n,) classes, or steps of a numeric label
    ranges: tuple[tuple[float, float], ...]  # declared (lower, upper) of each attribute

    def unit(self, attribute: int) -> float:
        """The length of one step, in the attribute's unit."""
        lower, upper = self.ranges[attribute]
        return (upper - lower) / FINE_STEPS

    def value(self, steps: float | Fraction) -> float:
        """Steps of the first attribute as a value."""
        return self.ranges[0][0] + float(steps) * self.unit(0)


def estimate(name: str, block: Block) -> float | None:
    """A named estimator's estimate for a block, in the attributes' units; None if it has none."""
    if not len(block.steps):
        return None
    try:
        value = _ESTIMATORS[name](block)
    except ArithmeticError:  # a declared range so narrow that its steps have no float
        return None
    return value if value is not None and math.isfinite(value) else None


def _mean(block: Block) -> float:
    return block.value(Fraction(int(block.steps[:, 0].sum()), len(block.steps)))


def _trimmed_mean(block: Block) -> float:
    cut = len(block.steps) // TRIMMED
    middle = np.sort(block.steps[:, 0])[cut : len(block.steps) - cut]
    return block.value(Fraction(int(middle.sum()), len(middle)))


def _rank(block: Block, share: Fraction) -> int:
    ordered = np.sort(block.steps[:, 0])
    return int(ordered[math.ceil(share * len(ordered)) - 1])


def _quantile(block: Block, share: Fraction) -> float:
    return block.value(_rank(block, share))


def _interquartile_range(block: Block) -> float:
    return (_rank(block, Fraction(3, 4)) - _rank(block, Fraction(1, 4))) * block.unit(0)


def _variance_in_steps(block: Block) -> float | None:
    n = len(block.steps)
    return float(Fraction(_scatter(block.steps, 0, 0), n * (n - 1))) if n > 1 else None


def _variance(block: Block) -> float | None:
    variance = _variance_in_steps(block)
    return None if variance is None else variance * block.unit(0) ** 2


def _standard_deviation(block: Block) -> float | None:
    variance = _variance_in_steps(block)
    return None if variance is None else math.sqrt(variance) * block.unit(0)


def _scatter(steps: NDArray[np.int64], first: int, second: int) -> int:
    """N sum(x y) - sum(x) sum(y), exact."""
    x, y = steps[:, first], steps[:, second]
    return len(steps) * int((x * y).sum()) - int(x.sum()) * int(y.sum())


def _correlation(block: Block) -> float | None:
    scatter = _scatter(block.steps, 0, 0) * _scatter(block.steps, 1, 1)
    return _scatter(block.steps, 0, 1) / math.sqrt(scatter) if scatter else None


def _slope(block: Block) -> float | None:
    scatter = _scatter(block.steps, 0, 0)
    return _scatter(block.steps, 0, 1) / scatter * block.unit(1) / block.unit(0) if scatter else None


def _linear_coefficient(block: Block) -> float | None:
    last = block.steps.shape[1] - 1
    if len(block.steps) < last + 2:
        return None
    square = float(len(block.steps)) ** 2 * FINE_STEPS**2
    matrix = [[_scatter(block.steps, i, j) / square for j in range(last)] for i in range(last)]
    solution = solve(matrix, [_scatter(block.steps, i, last) / square for i in range(last)])
    return None if solution is None else solution[0] * block.unit(last) / block.unit(0)


def _logistic_coefficient(block: Block) -> float | None:
    count, width = block.steps.shape
    if count < width + 2:
        return None
    points = [np.ones(count), *(block.steps[:, at] / (FINE_STEPS / 2) - 1.0 for at in range(width))]
    weights = [0.0] * (width + 1)
    for _ in range(NEWTON_STEPS):
        reach = sum((weight * column for weight, column in zip(weights, points, strict=True)), np.zeros(count))
        chances = 0.5 * (1.0 + np.tanh(reach / 2.0))
        rest, spread = block.labels - chances, chances * (1.0 - chances)
        slopes = [_total(rest * column) - RIDGE * weight for weight, column in zip(weights, points, strict=True)]
        bends = [[_total(spread * first * second) + RIDGE * (first is second) for second in points] for first in points]
        step = solve(bends, slopes)
        if step is None:
            return None
        longest = max(map(abs, step))
        factor = min(1.0, LONGEST_STEP / longest) if longest else 0.0
        weights = [weight + factor * move for weight, move in zip(weights, step, strict=True)]
    return weights[1] / (block.unit(0) * FINE_STEPS / 2)


def _total(terms: NDArray[np.float64]) -> float:
    """The sum of terms that are rounded to whole parts. It is the same in any order."""
    return int(np.rint(terms * SUM_STEPS).astype(np.int64).sum()) / SUM_STEPS


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float] | None:
    """The solution of a few linear equations by elimination with pivots; None if they are nearly dependent."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    largest = max((abs(row[at]) for at, row in enumerate(rows)), default=0.0)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        if abs(rows[at][at]) <= SINGULAR * largest:
            return None
        for row in rows[at + 1 :]:
            factor = row[at] / rows[at][at]
            row[at:] = [value - factor * other for value, other in zip(row[at:], rows[at][at:], strict=True)]
    solution = [0.0] * size
    for at in reversed(range(size)):
        solved = math.fsum(rows[at][other] * solution[other] for other in range(at + 1, size))
        solution[at] = (rows[at][size] - solved) / rows[at][at]
    return solution


_ESTIMATORS: dict[str, Callable[[Block], float | None]] = {
    "mean": _mean,
    "trimmed_mean": _trimmed_mean,
    "median": partial(_quantile, share=Fraction(1, 2)),
    "lower_quartile": partial(_quantile, share=Fraction(1, 4)),
    "upper_quartile": partial(_quantile, share=Fraction(3, 4)),
    "interquartile_range": _interquartile_range,
    "variance": _variance,
    "standard_deviation": _standard_deviation,
    "correlation": _correlation,
    "slope": _slope,
    "linear_coefficient": _linear_coefficient,
    "logistic_coefficient": _logistic_coefficient,
}
