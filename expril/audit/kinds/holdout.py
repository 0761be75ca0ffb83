"""Questions of `holdout` for an auditor: sums at the threshold's edge, and free questions before one that is paid."""

from collections.abc import Callable, Generator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import structs

from expril.audit.kinds.claimed_records import ClaimedRecords
from expril.audit.kinds.holdout_law import NUMBERS, HoldoutLaw
from expril.audit.kinds.kind_audit import (
    Asking,
    AuditQuery,
    Case,
    Company,
    Example,
    KindAudit,
    Lead,
    Observation,
    Value,
)
from protocol.codec import decode, encode
from protocol.envelopes import SigningKey, digest
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.kinds.holdout import HOLDOUT, HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

RESOLUTION = 100
DRAWS = 2_000
"""Draws from each set of records. Each takes several calls of exact noise, and so milliseconds."""
PAIRS = 80

_SCHEMA = Schema((NumericAttribute("x", -4.0, 4.0),), "outcome", ("no", "yes"))
_MAP = FeatureMap((NumericFeature("x", 0.0, 1.0, 1.0),))
_EDGE = Mlp.of(_MAP, [(np.array([[1.0]]), np.array([-1.0]))])
"""The logit x - 1, which is not above 0 at x = 1; missing values are put there, too."""
_VALUES: dict[str, tuple[Value, ...]] = {
    "x": (1.0, 1.0 - 1 / STEPS, 1.0 + 1 / STEPS, 1.0 + 0.5 / STEPS, -4.0, 4.0, None)
}

Stated = tuple[Hypothesis, int]
"""A hypothesis, and the numerator of the accuracy that is stated."""


ANY = (0, RESOLUTION)


def planned_at_cost(
    turns: int, answers: int, threshold: int, bound: int, between: tuple[int, int] = ANY
) -> PlannedHoldout:
    """Plan all instances at a total cost of 4: 1 for the threshold, 2 for the comparisons, 1 for the counts.

    At a smaller cost, few draws would not show what a record changes. `between`: the numerators that may be stated.
    """
    (least, most), share = between, bound * answers
    moved = max(most, RESOLUTION - least)
    return PlannedHoldout(
        turns=turns,
        answers=answers,
        resolution=RESOLUTION,
        threshold=threshold,
        threshold_scale=Rational(moved * share, 1),
        comparison_scale=Rational(moved * share, 1),
        count_scale=Rational(share, 1),
        least_estimate=least,
        most_estimate=None if most == RESOLUTION else most,
    )


def _asking(planned: PlannedHoldout, questions: tuple[Stated, ...]) -> Callable[[int], AuditQuery]:
    """Make a query with these questions, which come one after the other; the number of copies is ignored."""
    query = AuditQuery(planned, tuple(encode(HoldoutBody(hypothesis, estimate)) for hypothesis, estimate in questions))
    return lambda _copies: query


def _until_refused(query: AuditQuery) -> Callable[[Asking], Lead]:
    """Ask in order as long as an instance is left. Questions that are not asked any more count as zeros."""

    def lead(asking: Asking) -> Lead:
        rows, ended = [], 0
        for number, data in enumerate(query.bodies):
            if ended == query.planned.answers:
                rows.append(np.zeros(NUMBERS, np.int64))
                continue
            releases = yield {0: data}
            turn = Turn(query.planned, asking.query, number)
            rows.append(HOLDOUT.read_release(releases[0], Question(turn, decode(data, HoldoutBody), _SCHEMA)))
            ended += int(rows[-1][1])
        return Observation(np.hstack(rows)[None, :], np.empty((1, 0), np.int64))

    return lead


_YES = Constant(1)
_DEEP = _asking(planned_at_cost(4, 1, 1, 1), ((_YES, 0), (_YES, 0), (_YES, 0), (_YES, RESOLUTION // 4)))
_TWICE = _asking(planned_at_cost(2, 2, 1, 2, (25, 75)), ((_EDGE, 25), (_EDGE, 75)))

EXAMPLES = (
    Example(
        "three questions that a record moves up to the threshold, and one that it moves down below it, in one instance",
        _SCHEMA,
        _DEEP,
        values=_VALUES,
        pairs=PAIRS,
        company=Company((SigningKey.from_seed(digest(b"an example of expril, holdout")),), _until_refused(_DEEP(1))),
        draws=DRAWS,
    ),
    Example(
        "two instances of units of two records, stated from 25 to 75 of 100, with records at a tie of the hypothesis",
        _SCHEMA,
        _TWICE,
        most_records_per_unit=2,
        values=_VALUES,
        pairs=PAIRS,
        draws=DRAWS,
    ),
)


class HoldoutAudit(KindAudit):
    """The auditor's half of `holdout`, whose cost follows from its three scales."""

    kind = HOLDOUT
    generator = "expril.audit.generators.queries:holdout_queries"

    def hostile(self, planned: PlannedHoldout, bodies: Sequence[bytes], schema: Schema) -> Mapping[str, bytes]:
        """Return bodies whose stated accuracy lies beside the planned range."""
        body, (least, most) = decode(bodies[0], HoldoutBody), planned.estimates
        wrong = {"a stated accuracy below the range": least - 1, "a stated accuracy above the range": most + 1}
        return {name: encode(structs.replace(body, estimate=value)) for name, value in wrong.items()}

    def examples(self) -> Mapping[str, Sequence[Example]]:
        """Return questions that attack all that the kind releases."""
        return {"": EXAMPLES}

    def shares(self, planned: PlannedHoldout) -> Generator[Fraction, str, None]:
        """An instance's cost in the query's first turn, and in each turn after the note that an instance ended.

        Nothing is charged after the last instance. Raises ValueError: an answer notes the end of another instance.
        """
        instance, begins = 1, True
        while True:
            note = yield Fraction(begins and instance <= planned.answers, planned.answers)
            begins = bool(note)
            if begins:
                end = HOLDOUT.end_note(planned, instance)
                if note != end or instance > planned.answers:
                    running = "no instance is left" if instance > planned.answers else f"instance {instance} runs"
                    raise ValueError(running)
                instance += 1

    def claimed_law(self, case: Case) -> HoldoutLaw:
        """Return the joint law of all turns, from each hypothesis' predictions of the records that count."""
        records = ClaimedRecords.of(case.frame, case.schema, case.most_records_per_unit)
        correct = [int((body.hypothesis.predict(records.records) == records.labels).sum()) for body in case.bodies]
        return HoldoutLaw(
            case.planned,
            tuple(body.estimate for body in case.bodies),
            tuple((len(records.labels) - right, right) for right in correct),
            case.planned.instance_cost(case.most_records_per_unit),
        )

    def view_planned(self, planned: PlannedHoldout, most_records_per_unit: int) -> dict[str, Any]:
        """Show the parts of the cost. A contribution bound of 0 stands for an unknown one."""
        c, s = most_records_per_unit, planned.most_moved
        scales = [scale.fraction for scale in (planned.threshold_scale, planned.comparison_scale, planned.count_scale)]
        threshold, comparison, count = scales
        cost = planned.answers * planned.instance_cost(c)
        formula = (
            f"B (s c / threshold scale + 2 s c / comparison scale + c / count scale) = {planned.answers} * "
            f"({s} * {c or 'c'} / ({threshold}) + 2 * {s} * {c or 'c'} / ({comparison}) + {c or 'c'} / ({count}))"
        )
        return {
            "B": planned.answers,
            "turns": planned.turns,
            "r": planned.resolution,
            "s": s,
            "threshold": planned.threshold,
            "c": c or None,
            "scales": ", ".join(map(str, scales)),
            "cost": str(cost) if c else None,
            "formula": f"{formula} = {cost}" if c else formula,
        }

    def view_question(self, data: bytes, schema: Schema | None) -> dict[str, Any]:
        """Show the hypothesis and the stated accuracy's numerator; RemoteProtocolError if the bytes are no body."""
        body = decode(data, HoldoutBody)
        return {"hypothesis": type(body.hypothesis).__name__, "estimate": body.estimate}

    def view_release(self, data: bytes) -> list[str]:
        """Return the instance, and "close" or the noisy counts; RemoteProtocolError if the bytes are no release."""
        release = decode(data, HoldoutRelease)
        return [f"instance {release.instance}", *(["close"] if release.counts is None else map(str, release.counts))]
