"""The law of one statistic, from records alone (docs/explanation/statistics.md), by no code of a curator.

Ranks, windows and scores are counted record by record. The only things taken from the protocol are public: grids,
encodings, cells of partitions, and what a plan says.
"""

import decimal
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from expril.audit.kinds.claimed_records import ClaimedRecords
from expril.audit.kinds.exact import DIGITS, NoisyChoice, NoisyNumbers, Outcomes, chances_by_definition
from expril.audit.kinds.kind_audit import Law
from protocol.kinds.statistics.items import Estimate, Grid, Item, Quantile, Selection
from protocol.kinds.statistics.methods import (
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Method,
    Smooth,
)
from protocol.noise import NoisyMax
from protocol.schema import NumericAttribute, Schema

PARTS_AT_START = 2**40
"""t(0) of the decay of a smooth sensitivity."""
SPLIT = b"statistic"
"""Name of the split into blocks."""
FINE = 2**16
"""Steps of an attribute's declared range, in which estimators see it."""
NODES = 20
"""Nodes of a Gauss-Legendre quadrature. The integrand is a sine to the power of d - 1 <= 5 on an interval of length
l <= pi, whose 40th derivative is at most 5^40 (Bernstein). So its error is at most l^41 20!^4 5^40 / (41 40!^3), which
is below 10^-23."""


def law_of(item: Item, method: Method, records: ClaimedRecords, most: int) -> Law | None:
    """The law of what is told of an item; `most` is c. None for an estimator that an auditor does not compute."""
    match item, method:
        case Quantile(), Exponential():
            places = _places(records, item)
            return NoisyChoice(rank_scores(places, item.grid.points, *item.sides), NoisyMax(method.scale.fraction))
        case Quantile(), Smooth():
            places = _places(records, item)
            far = sensitivity(places, item, method.decay.fraction, most)
            centre = at_rank(places, math.ceil(item.quantile.fraction * len(places)), item.grid.steps)
            return heavy_law(centre, method.scale.fraction * far, method.degrees, item.grid.steps)
        case Estimate(), AggregateMean() | AggregateMedian():
            values = block_values(records, item, method.blocks)
            if values is None:
                return None
            if isinstance(method, AggregateMean):
                return NoisyNumbers.of(np.array([sum(values)]), method.law)
            return NoisyChoice(median_scores(values, item.grid.points), NoisyMax(method.scale.fraction))
        case Selection(), Features():
            scores = class_scores(records, item)
            if method.chosen == 1:
                return NoisyChoice(scores, method.law)
            return choices_law(scores, method.chosen, method.law)
    return None


def _places(records: ClaimedRecords, item: Quantile) -> list[int]:
    """The points of the grid at which the values lie, in order; missing values are left out."""
    values = records.numbers(item.attribute)
    return sorted(item.grid.indices(values[~np.isnan(values)]).tolist())


def at_rank(places: Sequence[int], rank: int, steps: int) -> int:
    """x(rank): the value of this rank from 1; the lower end of the grid before the first, the upper after the last."""
    return 0 if rank < 1 else steps if rank > len(places) else places[rank - 1]


def rank_scores(places: Sequence[int], points: int, above: int, below: int) -> NDArray[np.int64]:
    """-max(0, (a + b) u - a n, (a + b) o - b n) of each point, with u records below it, o above and n in all."""
    scores, total = [], len(places)
    for point in range(points):
        under, over = sum(place < point for place in places), sum(place > point for place in places)
        scores.append(-max(0, (above + below) * under - above * total, (above + below) * over - below * total))
    return np.array(scores, np.int64)


def median_scores(values: Sequence[int], points: int) -> NDArray[np.int64]:
    """-max(0, u - h, o - h) of each point, where h is half of the number of values, rounded down."""
    half = len(values) // 2
    return np.array(
        [
            -max(0, sum(value < point for value in values) - half, sum(value > point for value in values) - half)
            for point in range(points)
        ],
        np.int64,
    )


def decay(beta: Fraction) -> list[int]:
    """t(0), t(1), ... up to the first that does not fall any more: t(k + 1) = ceil(t(k) / (1 + beta + beta^2 / 2))."""
    parts, falls = [PARTS_AT_START], 1 + beta + beta**2 / 2
    while (following := math.ceil(parts[-1] / falls)) < parts[-1]:
        parts.append(following)
    return parts


def sensitivity(places: Sequence[int], item: Quantile, beta: Fraction, most: int) -> Fraction:
    """S, in steps of the grid: the largest t(k) A(k) / t(0).

    A(k) is the distance of the values whose ranks are w (k + 1) c beyond alpha n on either side, w = max(alpha,
    1 - alpha). Beyond the end of the decay no distance is longer than the grid.
    """
    alpha, steps, parts = item.quantile.fraction, item.grid.steps, decay(beta)
    reach, middle = max(alpha, 1 - alpha) * most, alpha * len(places)
    largest = steps * parts[-1]
    for k, part in enumerate(parts):
        low, high = (at_rank(places, math.ceil(middle + sign * reach * (k + 1)), steps) for sign in (-1, 1))
        largest = max(largest, part * (high - low))
    return Fraction(largest, PARTS_AT_START)


def heavy_law(centre: int, scale: Fraction, degrees: int, steps: int) -> Outcomes:
    """The law of centre + scale Z rounded to 0 .. steps, where Z has a density as (1 + z^2)^(-(d + 1) / 2)."""
    edges = [(Fraction(2 * (place - centre) + 1) / 2) / scale for place in range(steps)]
    with decimal.localcontext(DIGITS):
        below = [Decimal(0), *(_below(edge, degrees) for edge in edges), Decimal(1)]
        above = [Decimal(1), *(_below(-edge, degrees) for edge in edges), Decimal(0)]
        # Of a place above the centre the tails are subtracted that are small there, so that nothing cancels.
        chances = [below[j + 1] - below[j] if j < centre else above[j] - above[j + 1] for j in range(steps + 1)]
    tabled = _by_quadrature([float(edge) for edge in edges], degrees)
    return Outcomes(
        {(place,): chance for place, chance in enumerate(chances)},
        {(place,): chance for place, chance in enumerate(tabled)},
        "the point of the grid",
    )


def _below(z: Fraction, degrees: int) -> Decimal:
    """P(Z < z), the integral of the density: with t = z / sqrt(1 + z^2), that of (1 - t^2)^(d / 2 - 1) from -1 to t.

    d = 2: (1 + t) / 2; each further power is expanded, and integrated term by term.
    """
    with decimal.localcontext(DIGITS):
        top, bottom = Decimal(z.numerator), Decimal(z.denominator)
        t = top / (top * top + bottom * bottom).sqrt()
        half = degrees // 2 - 1
        terms = [Decimal(math.comb(half, i) * (-1) ** i) / (2 * i + 1) for i in range(half + 1)]
        upto = sum((term * t ** (2 * i + 1) for i, term in enumerate(terms)), Decimal(0))
        end = sum(terms, Decimal(0))
        return (upto + end) / (2 * end)


def _by_quadrature(edges: Sequence[float], degrees: int) -> list[float]:
    """Chances of the intervals between the edges, and of both outer ones: integrals of the density, in floats.

    With z = cot(phi) the density is sin(phi)^(d - 1), phi from 0 to pi. An interval on the left side is mirrored, as
    angles near 0 are precise.
    """
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    ends = [-math.inf, *edges, math.inf]

    def integral(low: float, high: float) -> float:
        if low + high < 0:
            low, high = -high, -low
        first, last = _angle(high), _angle(low)
        angles = first + (last - first) * (nodes + 1) / 2
        return float((np.sin(angles) ** (degrees - 1)) @ shares) * (last - first) / 2

    total = 2 * integral(0.0, math.inf)
    return [integral(low, high) / total for low, high in itertools.pairwise(ends)]


def _angle(z: float) -> float:
    """The angle whose cotangent is z, between 0 and pi."""
    return 0.0 if z == math.inf else math.pi if z == -math.inf else math.atan2(1.0, z)


def class_scores(records: ClaimedRecords, item: Selection) -> NDArray[np.int64]:
    """Of each candidate: the sum over its cells of the largest weighted number of records of a class."""
    weights = item.weights or (1,) * len(records.schema.classes)
    scores = []
    for partition in item.candidates:
        counts = Counter(zip(partition.cells(records.records).tolist(), records.labels.tolist(), strict=True))
        best: dict[int, int] = {}
        for (cell, label), count in counts.items():
            best[cell] = max(best.get(cell, 0), count * weights[label])
        scores.append(sum(best.values()))
    return np.array(scores, np.int64)


def choices_law(scores: NDArray[np.int64], count: int, law: NoisyMax) -> Outcomes:
    """The law of `count` choices without replacement, one after the other."""
    order = np.argsort(-scores, kind="stable")  # of the choices without noise
    calls = tuple((np.delete(scores, order[:place]), law) for place in range(count))
    defined: dict[tuple[int, ...], Decimal] = {(): Decimal(1)}
    tabled: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(count):
        further: dict[tuple[int, ...], Decimal] = {}
        in_floats: dict[tuple[int, ...], float] = {}
        for chosen, before in defined.items():
            left = [index for index in range(len(scores)) if index not in chosen]
            with decimal.localcontext(DIGITS):
                exact = [before * chance for chance in chances_by_definition(scores[left], law.scale)]
            floats = law.chances(scores[left])
            further |= {(*chosen, index): chance for index, chance in zip(left, exact, strict=True)}
            in_floats |= {(*chosen, at): tabled[chosen] * float(p) for at, p in zip(left, floats, strict=True)}
        defined, tabled = further, in_floats
    return Outcomes(defined, tabled, "the choices in order", requests=calls)


def block_values(records: ClaimedRecords, item: Estimate, count: int) -> list[int] | None:
    """The estimate in each block, as a point of the grid; its middle where a block has none. None: not computed."""
    estimator = ESTIMATORS.get(item.estimator)
    if estimator is None:
        return None
    columns = [_fine(records, name) for name in item.attributes]
    units = [Fraction(upper) - Fraction(lower) for lower, upper in _ranges(records.schema, item.attributes)]
    blocks: list[list[tuple[int, ...]]] = [[] for _ in range(count)]
    labels: list[list[int]] = [[] for _ in range(count)]
    for row, block in enumerate(records.blocks(count, SPLIT)):
        values = tuple(column[row] for column in columns)
        if None not in values:
            blocks[block].append(values)  # type: ignore[arg-type]
            labels[block].append(int(records.labels[row]))
    lowest = Fraction(_ranges(records.schema, item.attributes)[0][0])
    return [
        _on_grid(estimator(rows, of_rows, lowest, [unit / FINE for unit in units]), item.grid)
        for rows, of_rows in zip(blocks, labels, strict=True)
    ]


def _fine(records: ClaimedRecords, name: str) -> list[int | None]:
    """An attribute in whole steps of its declared range; None where missing."""
    values = records.numbers(name)
    ((lower, upper),) = _ranges(records.schema, (name,))
    grid = Grid(lower, upper, FINE)
    return [None if math.isnan(value) else int(grid.indices(np.array([value]))[0]) for value in values]


def _ranges(schema: Schema, names: Sequence[str]) -> list[tuple[float, float]]:
    """Declared bounds of attributes or of a numeric label."""
    ranges = []
    for name in names:
        attribute = schema.find(name)
        bounds = (attribute.lower, attribute.upper) if isinstance(attribute, NumericAttribute) else schema.label_bounds
        ranges.append(bounds or (0.0, 0.0))
    return ranges


def _on_grid(value: Fraction | float | None, grid: Grid) -> int:
    return grid.steps // 2 if value is None else int(grid.indices(np.array([float(value)]))[0])


Block = list[tuple[int, ...]]
"""The records of a block: steps of each attribute."""
Estimator = Callable[[Block, list[int], Fraction, list[Fraction]], Fraction | float | None]
"""(records, their labels, lower bound of the first attribute, length of a step of each) -> the estimate, or None."""


def _ranked(share: Fraction, rows: Block) -> int:
    ordered = sorted(row[0] for row in rows)
    return ordered[math.ceil(share * len(ordered)) - 1]


def _quantile(share: Fraction) -> Estimator:
    return lambda rows, _, lowest, units: lowest + units[0] * _ranked(share, rows) if rows else None


def _mean(rows: Block, _: list[int], lowest: Fraction, units: list[Fraction]) -> Fraction | None:
    return lowest + units[0] * Fraction(sum(row[0] for row in rows), len(rows)) if rows else None


def _quartiles_apart(rows: Block, _: list[int], __: Fraction, units: list[Fraction]) -> Fraction | None:
    return units[0] * (_ranked(Fraction(3, 4), rows) - _ranked(Fraction(1, 4), rows)) if rows else None


def _log_odds(rows: Block, labels: list[int], _: Fraction, units: list[Fraction]) -> float | None:
    """The first coefficient of a logistic regression, all scaled to [-1, 1], with a penalty of half of each square.

    Newton's steps, each cut to `LONGEST`, go on until they no longer move it; a block needs two records more than
    there are attributes.
    """
    if len(rows) < len(rows[0] if rows else ()) + 2:
        return None
    points = np.column_stack([np.ones(len(rows)), np.array(rows) / (FINE / 2) - 1.0])
    weights = np.zeros(points.shape[1])
    for _step in range(MOST_STEPS):
        chances = 1.0 / (1.0 + np.exp(-points @ weights))
        slopes = points.T @ (np.array(labels) - chances) - weights
        bends = points.T @ (points * (chances * (1.0 - chances))[:, None]) + np.eye(len(weights))
        step = np.linalg.solve(bends, slopes)
        weights += step * min(1.0, LONGEST / max(np.abs(step).max(), LEAST))
    return float(weights[1]) / (float(units[0]) * FINE / 2)


LONGEST, LEAST, MOST_STEPS = 4.0, 1e-12, 50

ESTIMATORS: dict[str, Estimator] = {
    "mean": _mean,
    "median": _quantile(Fraction(1, 2)),
    "lower_quartile": _quantile(Fraction(1, 4)),
    "upper_quartile": _quantile(Fraction(3, 4)),
    "interquartile_range": _quartiles_apart,
    "logistic_coefficient": _log_odds,
}
"""What an auditor computes by itself."""
