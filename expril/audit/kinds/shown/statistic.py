"""A statistic query for a person's eyes: its method and cost, what is asked, its numbers. No check here."""

import struct
from typing import Any

from protocol.codec import decode
from protocol.errors import printable
from protocol.kinds.statistic import PlannedStatistic, StatisticBody, StatisticRelease
from protocol.kinds.statistics.asked import Item, Quantile, Selection
from protocol.kinds.statistics.methods import (
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Method,
    Smooth,
    SmoothLaplace,
)
from protocol.schema import Schema


def planned(query: PlannedStatistic, most_records_per_unit: int) -> dict[str, Any]:
    """What its cost is made of; a contribution bound of 0 stands for one that is not known."""
    method, c = query.method, most_records_per_unit
    cost = query.statistics * method.cost(c) if c else None
    formula = f"{query.statistics} * {_formula(method, c)}"
    return {
        "release": method.name,
        "statistics": query.statistics,
        "c": c or None,
        "scale": str(method.scale.fraction),
        "cost": None if cost is None else str(cost),
        "formula": formula if cost is None else f"{formula} = {cost}",
    }


def _formula(method: Method, most_records_per_unit: int) -> str:
    c, scale = most_records_per_unit or "c", f"({method.scale.fraction})"
    match method:
        case Exponential():
            return f"2 c W / scale = 2 * {c} * {method.weight} / {scale}"
        case Smooth():
            d, beta = method.degrees, method.decay.fraction
            return f"((d + 1) / (2 scale) + d beta) = ({d + 1} / (2 * {scale}) + {d} * ({beta}))"
        case SmoothLaplace():
            return f"2 / scale = 2 / {scale}, but for a delta"
        case AggregateMean():
            return f"R / scale = {method.steps} / {scale}"
        case AggregateMedian():
            return f"2 / scale = 2 / {scale}"
        case Features():
            return f"q c W / scale = {method.chosen} * {c} * {method.weight} / {scale}"


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:  # noqa: ARG001
    """What is asked, item by item; raises RemoteProtocolError where it is no body."""
    return {"asked": [_words(item) for item in decode(data, StatisticBody).asked]}


def _words(item: Item) -> str:
    if isinstance(item, Selection):
        return f"selection among {len(item.candidates)} partitions"
    grid = f"on {item.grid.points} points from {item.grid.lower:g} to {item.grid.upper:g}"
    if isinstance(item, Quantile):
        return f"quantile {item.quantile.fraction} of {printable(item.attribute)} {grid}"
    return f"{printable(item.estimator)} of {', '.join(map(printable, item.attributes))} {grid}"


def released(data: bytes) -> list[str]:
    """The released numbers as text; raises RemoteProtocolError where it is no release."""
    numbers = decode(data, StatisticRelease).numbers
    return [str(one[0]) for one in struct.iter_unpack("<q", numbers[: len(numbers) // 8 * 8])]
