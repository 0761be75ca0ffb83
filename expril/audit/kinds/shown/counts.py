"""A counts query for a person's eyes: its cost as c m S / scale, its workload, its released numbers. No check here."""

import struct
from fractions import Fraction
from typing import Any

from protocol.codec import decode
from protocol.errors import ExprilError, printable
from protocol.kinds.counts import CountsBody, CountsRelease, PlannedCounts
from protocol.schema import Schema


def planned(query: PlannedCounts, most_records_per_unit: int) -> dict[str, Any]:
    """What its cost is made of; a contribution bound of 0 stands for one that is not known."""
    scale, c = query.scale.fraction, most_records_per_unit
    cost = Fraction(c * query.partitions * query.steps) / scale if c else None
    formula = f"c m S / scale = {c or 'c'} * {query.partitions} * {query.steps} / ({scale})"
    return {
        "release": printable(query.release),
        "c": c or None,
        "m": query.partitions,
        "S": query.steps,
        "scale": str(scale),
        "cost": None if cost is None else str(cost),
        "formula": formula if cost is None else f"{formula} = {cost}",
    }


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:
    """Partitions by kind, the hypothesis, and the number of cells; raises RemoteProtocolError where it is no body."""
    body = decode(data, CountsBody)
    names = [type(partition).__name__ for partition in body.partitions]
    told: dict[str, Any] = {
        "partitions": {name: names.count(name) for name in dict.fromkeys(names)},
        "hypothesis": None if body.hypothesis is None else type(body.hypothesis).__name__,
    }
    if schema is not None:
        try:
            told["cells"] = sum(partition.cell_count(schema) for partition in body.partitions)
        except (ExprilError, LookupError, ValueError, ArithmeticError):
            told["cells"] = None
    return told


def released(data: bytes) -> list[str]:
    """The released numbers as text; raises RemoteProtocolError where it is no release."""
    body = decode(data, CountsRelease)
    numbers, letter = (body.counts, "q") if body.counts else (body.ratios, "d")
    return [str(one[0]) for one in struct.iter_unpack(f"<{letter}", numbers[: len(numbers) // 8 * 8])]
