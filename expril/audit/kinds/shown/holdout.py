"""A holdout query for a person's eyes: its cost from its scales, what was stated, and counts that ended instances."""

from fractions import Fraction
from typing import Any

from protocol.codec import decode
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.schema import Schema


def planned(query: PlannedHoldout, most_records_per_unit: int) -> dict[str, Any]:
    """What its cost is made of; a contribution bound of 0 stands for one that is not known."""
    c, r = most_records_per_unit, query.resolution
    scales = [each.fraction for each in (query.threshold_scale, query.comparison_scale, query.count_scale)]
    threshold, comparison, count = scales
    cost = query.answers * (Fraction(r * c) / threshold + Fraction(2 * r * c) / comparison + Fraction(c) / count)
    formula = (
        f"B (r c / threshold scale + 2 r c / comparison scale + c / count scale) = {query.answers} * "
        f"({r} * {c or 'c'} / ({threshold}) + 2 * {r} * {c or 'c'} / ({comparison}) + {c or 'c'} / ({count}))"
    )
    return {
        "B": query.answers,
        "turns": query.turns,
        "r": r,
        "threshold": query.threshold,
        "c": c or None,
        "scales": ", ".join(map(str, scales)),
        "cost": str(cost) if c else None,
        "formula": f"{formula} = {cost}" if c else formula,
    }


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:  # noqa: ARG001
    """The hypothesis and the stated accuracy's numerator; raises RemoteProtocolError where it is no body."""
    body = decode(data, HoldoutBody)
    return {"hypothesis": type(body.hypothesis).__name__, "estimate": body.estimate}


def released(data: bytes) -> list[str]:
    """The instance, and "close" or the noisy counts; raises RemoteProtocolError where it is no release."""
    release = decode(data, HoldoutRelease)
    return [f"instance {release.instance}", *(["close"] if release.counts is None else map(str, release.counts))]
