"""A blog_holdout query for a person's eyes: the claim and what it is made of, the question, the score."""

from fractions import Fraction
from typing import Any

from protocol.codec import decode
from protocol.kinds.blog_holdout import BlogHoldoutBody, PlannedBlogHoldout, score_of
from protocol.schema import Schema


def planned(query: PlannedBlogHoldout, most_records_per_unit: int) -> dict[str, Any]:
    """What its claim is made of; a contribution bound of 0 stands for one that is not known."""
    c, eps = most_records_per_unit, query.tolerance.fraction
    claim = Fraction(query.turns * c, query.records) / eps
    formula = f"claimed, not true: turns c / (n eps) = {query.turns} * {c or 'c'} / ({query.records} * {eps})"
    return {
        "turns": query.turns,
        "n": query.records,
        "eps": str(eps),
        "c": c or None,
        "cost": str(claim) if c else None,
        "formula": f"{formula} = {claim}" if c else formula,
    }


def question(data: bytes, schema: Schema | None) -> dict[str, Any]:  # noqa: ARG001
    """What is scored, and the score on the learner's own records; raises RemoteProtocolError where it is no body."""
    body = decode(data, BlogHoldoutBody)
    return {
        "hypothesis": type(body.hypothesis).__name__,
        "baseline": None if body.baseline is None else type(body.baseline).__name__,
        "training_score": body.training_score,
    }


def released(data: bytes) -> list[str]:
    """The score; raises RemoteProtocolError where it is no release."""
    return [str(score_of(data))]
