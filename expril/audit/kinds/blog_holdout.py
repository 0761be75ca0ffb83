"""`blog_holdout` for an auditor. It is a control that is known to break its claim, and gives no questions."""

from fractions import Fraction
from typing import Any

from expril.audit.kinds.kind_audit import KindAudit
from protocol.codec import decode
from protocol.kinds.blog_holdout import BLOG_HOLDOUT, BlogHoldoutBody, PlannedBlogHoldout, score_of
from protocol.schema import Schema


class BlogHoldoutAudit(KindAudit):
    """The blog's holdout: a claim, not a cost."""

    kind = BLOG_HOLDOUT

    def view_planned(self, planned: PlannedBlogHoldout, most_records_per_unit: int) -> dict[str, Any]:
        """What its claim is made of; a contribution bound of 0 stands for one that is not known."""
        c, eps = most_records_per_unit, planned.tolerance.fraction
        claim = Fraction(planned.turns * c, planned.records) / eps
        formula = f"claimed, not true: turns c / (n eps) = {planned.turns} * {c or 'c'} / ({planned.records} * {eps})"
        return {
            "turns": planned.turns,
            "n": planned.records,
            "eps": str(eps),
            "c": c or None,
            "cost": str(claim) if c else None,
            "formula": f"{formula} = {claim}" if c else formula,
        }

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:  # noqa: ARG002
        """What is scored, and the score on the learner's own records."""
        body = decode(data, BlogHoldoutBody)
        return {
            "hypothesis": type(body.hypothesis).__name__,
            "baseline": None if body.baseline is None else type(body.baseline).__name__,
            "training_score": body.training_score,
        }

    def view_release(self, data: bytes) -> list[str]:
        """The score; raises RemoteProtocolError where it is no release."""
        return [str(score_of(data))]
