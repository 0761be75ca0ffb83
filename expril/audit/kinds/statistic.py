"""Questions of `statistic` for an auditor, on grids and among candidates so few that choices can be enumerated.

Values lie on points of the grid, half way between two, and beside them, where a record's place depends on the last bit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from expril.audit.kinds.claimed_records import ClaimedRecords
from expril.audit.kinds.kind_audit import AuditQuery, Case, Example, KindAudit, Law, Value, unpacked
from expril.audit.kinds.statistic_law import law_of
from protocol.codec import decode, encode
from protocol.errors import printable
from protocol.kinds.statistic import STATISTIC, PlannedStatistic, StatisticBody, StatisticRelease
from protocol.kinds.statistics.items import Estimate, Grid, Item, Quantile, Selection
from protocol.kinds.statistics.methods import (
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Method,
    Smooth,
)
from protocol.partitions import FeatureBins
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

COPIES = 250
POINTS = 8
"""Points of the grid. With more of them the loss of a choice comes closer to its claim, but takes longer."""
SLOW = 20_000
"""Draws of choices, which take a call each, and of heavy-tailed noise."""
_GRID = Grid(0.0, 7.0, POINTS - 1)
_ATTRIBUTES = (
    NumericAttribute("x", 0.0, 7.0),
    NumericAttribute("y", -1e6, 1e6),
    CategoricalAttribute("s", ("a", "b")),
)
_CLASSES = Schema(attributes=_ATTRIBUTES, label="outcome", classes=("no", "yes"))
_NUMBER = Schema(attributes=_ATTRIBUTES, label="outcome", label_bounds=(0.0, 7.0))
_VALUES: Mapping[str, tuple[Value, ...]] = {
    "x": (0.0, 1.0, 6.0, 7.0, 3.5, float(np.nextafter(3.5, 0.0)), float(np.nextafter(0.5, 1.0)), -1e300),
    "y": (-1e6, 0.0, 1e6, 5e-324),
    "s": ("a", "b", "neither", ""),
}
_MEDIAN, _NINTH = Rational(1, 2), Rational(9, 10)


def _asking(method: Method, item: Item) -> Callable[[int], AuditQuery]:
    def ask(copies: int) -> AuditQuery:
        return AuditQuery(
            PlannedStatistic(method=method, statistics=copies), (encode(StatisticBody((item,) * copies)),)
        )

    return ask


def _example(about: str, method: Method, item: Item, schema: Schema = _CLASSES, bound: int = 1) -> Example:
    quick = isinstance(method, AggregateMean)
    return Example(
        about,
        schema,
        _asking(method, item),
        copies=COPIES,
        most_records_per_unit=bound,
        values=_VALUES if schema is _CLASSES else {**_VALUES, "outcome": (0.0, 3.5, 7.0, 1e9)},
        draws=None if quick else SLOW,
    )


_SELECTION = Selection((FeatureBins("x", (3.5,)), FeatureBins("y", (0.0,)), FeatureBins("s", ())))

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "quantile": (
        _example("the median of an attribute", Exponential(Rational(2, 1), 1), Quantile("x", _MEDIAN, _GRID), bound=1),
        _example(
            "a high quantile of a numeric label, three records a unit",
            Exponential(Rational(54, 1), 9),
            Quantile("outcome", _NINTH, _GRID),
            _NUMBER,
            3,
        ),
    ),
    "smooth": (
        _example(
            "the median, noise scaled by smooth sensitivity",
            Smooth(Rational(2, 1), Rational(1, 8), degrees=2),
            Quantile("x", _MEDIAN, _GRID),
        ),
        _example(
            "a high quantile of a numeric label, three records a unit",
            Smooth(Rational(3, 1), Rational(1, 4), degrees=2, version=2),
            Quantile("outcome", _NINTH, _GRID),
            _NUMBER,
            3,
        ),
    ),
    "aggregate": (
        _example(
            "the mean of blocks' interquartile ranges, which one record moves from end to end",
            AggregateMean(2, POINTS - 1, Rational(POINTS - 1, 1)),
            Estimate("interquartile_range", ("x",), _GRID),
        ),
        _example(
            "the mean of blocks' coefficients, three records a unit",
            AggregateMean(2, POINTS, Rational(POINTS, 1)),
            Estimate("logistic_coefficient", ("x", "y"), Grid(-1.0, 1.0, POINTS)),  # 0 is one of its points
            bound=3,
        ),
        _example(
            "the mean of blocks' upper quartiles, three records a unit, which are all in one block",
            AggregateMean(2, POINTS - 1, Rational(POINTS - 1, 1)),
            Estimate("upper_quartile", ("x",), _GRID),
            bound=3,
        ),
    ),
    "aggregate_median": (
        _example(
            "the median of blocks' medians, three records a unit",
            AggregateMedian(4, Rational(2, 1)),
            Estimate("median", ("x",), _GRID),
            bound=3,
        ),
    ),
    "features": (
        _example("the best of three attributes", Features(1, 1, Rational(1, 1)), _SELECTION),
        _example(
            "two of three attributes, a class of weight three, three records a unit",
            Features(2, 3, Rational(18, 1)),
            Selection(_SELECTION.candidates, (1, 3)),
            bound=3,
        ),
    ),
}


class StatisticAudit(KindAudit):
    """The auditor's half of `statistic`, whose cost depends on the method."""

    kind = STATISTIC
    generator = "expril.audit.generators.queries:statistic_queries_of"

    def hostile(self, planned: PlannedStatistic, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return bodies of more statistics than planned, and of no attribute."""
        items = decode(bodies[0], StatisticBody).asked
        median = Quantile("no such attribute", Rational(1, 2), Grid(0.0, 1.0, 1))
        wrong = {"more statistics than planned": (*items, items[0]), "no such attribute": (median,) * len(items)}
        return {name: encode(StatisticBody(parts)) for name, parts in wrong.items()}

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return questions by method, and one with awkward values."""
        return EXAMPLES

    def claimed_law(self, case: Case) -> Law | None:
        """Return the law of one statistic, from the records that count; None for an estimator that is not computed."""
        records = ClaimedRecords.of(case.frame, case.schema, case.most_records_per_unit)
        (body,) = case.bodies
        if len(body.asked) > 1:
            return None
        return law_of(body.asked[0], case.planned.method, records, case.most_records_per_unit)

    def view_planned(self, planned: PlannedStatistic, most_records_per_unit: int) -> dict[str, Any]:
        """Show the parts of the cost. A contribution bound of 0 stands for an unknown one."""
        method, c = planned.method, most_records_per_unit
        cost = planned.statistics * method.cost(c) if c else None
        formula = f"{planned.statistics} * {_formula(method, c)}"
        return {
            "release": method.name,
            "statistics": planned.statistics,
            "c": c or None,
            "scale": str(method.scale.fraction),
            "cost": None if cost is None else str(cost),
            "formula": formula if cost is None else f"{formula} = {cost}",
        }

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show what is asked, item by item; RemoteProtocolError if the bytes are no body."""
        return {"asked": [_words(item) for item in decode(data, StatisticBody).asked]}

    def view_release(self, data: bytes) -> list[str]:
        """Return the released numbers as text; RemoteProtocolError if the bytes are no release."""
        return unpacked(decode(data, StatisticRelease).numbers, "q")


def _formula(method: Method, most_records_per_unit: int) -> str:
    c, scale = most_records_per_unit or "c", f"({method.scale.fraction})"
    match method:
        case Exponential():
            return f"2 c W / scale = 2 * {c} * {method.weight} / {scale}"
        case Smooth():
            d, beta = method.degrees, method.decay.fraction
            apart = f"((d + 1) / (2 scale) + d beta) = ({d + 1} / (2 * {scale}) + {d} * ({beta}))"
            return apart if method.version == 1 else f"joint loss (d = {d}, scale = {scale}, beta = {beta})"
        case AggregateMean():
            return f"R / scale = {method.steps} / {scale}"
        case AggregateMedian():
            return f"2 / scale = 2 / {scale}"
        case Features():
            return f"q c W / scale = {method.chosen} * {c} * {method.weight} / {scale}"


def _words(item: Item) -> str:
    if isinstance(item, Selection):
        return f"selection among {len(item.candidates)} partitions"
    grid = f"on {item.grid.points} points from {item.grid.lower:g} to {item.grid.upper:g}"
    if isinstance(item, Quantile):
        return f"quantile {item.quantile.fraction} of {printable(item.attribute)} {grid}"
    return f"{printable(item.estimator)} of {', '.join(map(printable, item.attributes))} {grid}"
