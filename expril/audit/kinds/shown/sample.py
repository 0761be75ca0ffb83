"""A sample for a person's eyes: its cost as k epsilon, its axes, the places of the records drawn. No check here."""

import struct
from typing import Any

from protocol.codec import decode
from protocol.errors import printable
from protocol.grids import NumberAxis
from protocol.kinds.sample import PlannedSample, SampleBody, SampleRelease
from protocol.schema import Schema


def planned(query: PlannedSample, most_records_per_unit: int) -> dict[str, Any]:  # noqa: ARG001
    """What its cost is made of, which no contribution bound changes, and the axes."""
    epsilon = query.epsilon.fraction
    cost = query.records * epsilon
    return {
        "k": query.records,
        "epsilon": str(epsilon),
        "cost": str(cost),
        "integral": str(cost),
        "axes": [_axis(axis) for axis in query.axes],
        "learner": query.learner,
        "rounds": query.rounds,
        "formula": f"k epsilon = {query.records} * {epsilon} = {cost}",
    }


def _axis(axis: Any) -> str:
    name = printable(axis.name)
    if not isinstance(axis, NumberAxis):
        return f"{name}: its levels"
    law = "uniform" if axis.deviation is None else f"Gaussian {axis.centre:g} +- {axis.deviation:g}"
    return f"{name}: {axis.points} points of {axis.lower:g} to {axis.upper:g}, {law}"


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:  # noqa: ARG001
    """Nothing: the plan says all; raises RemoteProtocolError where it is no body."""
    decode(data, SampleBody)
    return {}


def released(data: bytes) -> list[str]:
    """The places as text, record by record; raises RemoteProtocolError where it is no release."""
    cells = decode(data, SampleRelease).cells
    return [str(one[0]) for one in struct.iter_unpack("<H", cells[: len(cells) // 2 * 2])]
