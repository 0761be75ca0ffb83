"""The `blog_holdout` query: a blog's version of the reusable holdout, less private than claimed; a control.

No curator and no learner has it in its tables.

It is `diffPrivMethod` of Zumel's "A simpler explanation of differential privacy" (2015). If the scores on the holdout
and on the training records differ by at most eps / 2, it answers the training score with Laplace noise of scale eps /
2, else the holdout score with Laplace noise of scale eps. There is no budget. A score is a ratio over the exact number
of records.

It claims what a reader would: a mean over n records moves by 1 / n, so with noise of scale eps an answer costs c / (n
eps), with the contribution bound c. A claim may not depend on the private n, so the plan states n. The true cost is in
docs/explanation/holdout.md: the comparison has no noise, and the width of the noise shows whether it was close.
"""

import math
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from expril.audit.kinds.kind_audit import KindAudit
from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.hypotheses import Hypothesis
from protocol.kinds.holdout import CLASSES, NOISE_ONCE, QUERY_ONCE, RECORD_COST, Turns
from protocol.limits import ASSUMED_ROUND_SIZE, Positive
from protocol.odds import PrivacyUnit
from protocol.plans import Planned
from protocol.query_kind import KindTerms, QueryKind, Question, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode
from protocol.schema import Schema

RELEASE_BYTES = 32


class PlannedBlogHoldout(Planned, frozen=True, tag="blog_holdout", kw_only=True):
    """A plan for future questions."""

    turns: Turns = 1  # questions; the blog has no end of them
    tolerance: Rational  # the blog's eps; half of it is the tolerance, and the scale of the noise in a training score
    # n that the claim is made with; public, and not what is divided by
    records: Annotated[int, msgspec.Meta(ge=1, le=2**32)]


class BlogHoldoutLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's limits: the most parameters of a hypothesis."""

    parameters: Positive = 2_000_000


class BlogHoldoutBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One question."""

    hypothesis: Hypothesis  # which is scored
    baseline: Hypothesis | None  # whose score is taken off, as the blog does; None: the score is the accuracy itself
    # the same on the learner's own records, within -1 .. 1.
    training_score: Annotated[float, msgspec.Meta(ge=-1, le=1)]


class BlogHoldoutRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer: a noisy score, clipped to 0 .. 1 as in the blog."""

    score: Annotated[float, msgspec.Meta(ge=0, le=1)]


class BlogHoldout(QueryKind):
    """Accuracies with noise that does not hide a record."""

    name = "blog_holdout"
    relation = "replace one record, as the blog understands it; the truth costs more"
    reveals = "how good hypotheses are, with noise that does not hide a record"
    planned = PlannedBlogHoldout
    limits = BlogHoldoutLimits

    def check_allowed(self, planned: PlannedBlogHoldout, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) for a label that is not of two classes."""
        if terms.schema.label_bounds is not None or len(terms.schema.classes) != CLASSES:
            limit = "blog_holdout needs a label of two classes"
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, f"{field}.kind", limit)

    def cost(self, planned: PlannedBlogHoldout, most_records_per_unit: int) -> Fraction:
        """Return the claimed, not the true cost: turns c / (n eps); RemoteProtocolError(BAD_PLAN) beyond 32 bits."""
        value = Fraction(planned.turns * most_records_per_unit, planned.records) / planned.tolerance.fraction
        if value.numerator > MOST or value.denominator > MOST:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries", "a cost of at most 32 bits")
        return value

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> BlogHoldoutBody:
        """Decode and check a question; raises RemoteProtocolError(MALFORMED, BAD_QUERY or OVER_LIMIT)."""
        body = decode(data, BlogHoldoutBody, field="body")
        if math.isnan(body.training_score):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.training_score", "-1 to 1")
        for name, hypothesis in (("hypothesis", body.hypothesis), ("baseline", body.baseline)):
            if hypothesis is None:
                continue
            if hypothesis.parameter_count() > terms.limits.parameters:
                limit = f"at most {terms.limits.parameters} parameters"
                raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"body.{name}", limit)
            hypothesis.check(terms.schema, f"body.{name}")
        return body

    def work(self, question: Question, round_size: int | None) -> int:
        """Return the work of a question, in the unit of `protocol.limits`."""
        body: BlogHoldoutBody = question.body
        hypotheses = [item for item in (body.hypothesis, body.baseline) if item is not None]
        per_record = sum(RECORD_COST + item.multiply_adds() for item in hypotheses)
        once = QUERY_ONCE + NOISE_ONCE + sum(item.multiply_adds_once() for item in hypotheses)
        return once + per_record * (round_size or ASSUMED_ROUND_SIZE)

    def release_bytes(self, question: Question) -> int:
        """Return the length of a release in bytes; all have the same."""
        return RELEASE_BYTES

    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """Return the score, (1,) float64; raises as `score_of`."""
        return np.array([score_of(data)])

    def precision(self, planned: PlannedBlogHoldout, unit: PrivacyUnit) -> str:
        """Return None, as no precision is promised."""
        return f"{planned.turns} scores; nothing limits what they tell of a record"

    def private(self, limits: BlogHoldoutLimits) -> bool:
        """Return False, as no such query is private."""
        return False

    def private_planned(self, planned: PlannedBlogHoldout) -> bool:
        """Return False, as no such query is private."""
        return False


BLOG_HOLDOUT = BlogHoldout()


def score_of(data: bytes) -> float:
    """Return the released score; RemoteProtocolError(MALFORMED) if there is none."""
    score = decode(data, BlogHoldoutRelease, field="release").score
    if math.isnan(score):
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release.score", "a number")
    return score


class BlogHoldoutAudit(KindAudit):
    """The auditor's half of the blog's holdout, whose cost is only a claim."""

    kind = BLOG_HOLDOUT

    def view_planned(self, planned: PlannedBlogHoldout, most_records_per_unit: int) -> dict[str, Any]:
        """Show the parts of the claim. A contribution bound of 0 stands for an unknown one."""
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

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show the hypothesis, and its score on the learner's own records."""
        body = decode(data, BlogHoldoutBody)
        return {
            "hypothesis": type(body.hypothesis).__name__,
            "baseline": None if body.baseline is None else type(body.baseline).__name__,
            "training_score": body.training_score,
        }

    def view_release(self, data: bytes) -> list[str]:
        """Return the score as text; RemoteProtocolError if the bytes are no release."""
        return [str(score_of(data))]
