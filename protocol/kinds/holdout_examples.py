"""Questions of `holdout` for an auditor: sums at the threshold's edge, and free questions before one that is paid."""

from collections.abc import Callable

import numpy as np

from protocol.codec import decode, encode
from protocol.envelopes import SigningKey, digest
from protocol.examples import Asked, Asking, Company, Example, Lead, Seen, Value
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.kinds.holdout import HoldoutBody, PlannedHoldout, numbers
from protocol.query_kind import Turn
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

RESOLUTION = 100
DRAWS = 2_000
"""From either set of records: a draw takes several calls of exact noise, and so milliseconds."""
PAIRS = 80
NUMBERS = 4
"""Of a turn."""

_SCHEMA = Schema((NumericAttribute("x", -4.0, 4.0),), "outcome", ("no", "yes"))
_MAP = FeatureMap((NumericFeature("x", 0.0, 1.0, 1.0),))
_EDGE = Mlp.of(_MAP, [(np.array([[1.0]]), np.array([-1.0]))])
"""The logit x - 1: not above 0 at x = 1, where the missing ones are put, too."""
_VALUES: dict[str, tuple[Value, ...]] = {
    "x": (1.0, 1.0 - 1 / STEPS, 1.0 + 1 / STEPS, 1.0 + 0.5 / STEPS, -4.0, 4.0, None)
}

Question = tuple[Hypothesis, int]


def planned_at_cost(turns: int, answers: int, threshold: int, bound: int) -> PlannedHoldout:
    """All instances together at a cost of 4: 1 the threshold, 2 the comparisons, 1 the counts.

    At less, few draws tell nothing: what a record changes would be lost among them.
    """
    share = bound * answers
    return PlannedHoldout(
        turns=turns,
        answers=answers,
        resolution=RESOLUTION,
        threshold=threshold,
        threshold_scale=Rational(RESOLUTION * share, 1),
        comparison_scale=Rational(RESOLUTION * share, 1),
        count_scale=Rational(share, 1),
    )


def _asked(planned: PlannedHoldout, questions: tuple[Question, ...]) -> Callable[[int], Asked]:
    """The same questions each time; they come one after the other, so there are no copies."""
    asked = Asked(planned, tuple(encode(HoldoutBody(hypothesis, estimate)) for hypothesis, estimate in questions))
    return lambda copies: asked  # noqa: ARG005


def _until_refused(asked: Asked) -> Callable[[Asking], Lead]:
    """Asks in order for as long as an instance is left; what is not asked any more counts as zeros."""

    def lead(asking: Asking) -> Lead:
        rows, ended = [], 0
        for number, data in enumerate(asked.bodies):
            if ended == asked.planned.answers:
                rows.append(np.zeros(NUMBERS, np.int64))
                continue
            told = yield {0: data}
            turn = Turn(asked.planned, asking.query, number)
            rows.append(numbers(told[0], decode(data, HoldoutBody), turn, _SCHEMA))
            ended += int(rows[-1][1])
        return Seen(np.hstack(rows)[None, :], np.empty((1, 0), np.int64))

    return lead


_YES = Constant(1)
_DEEP = _asked(planned_at_cost(4, 1, 1, 1), ((_YES, 0), (_YES, 0), (_YES, 0), (_YES, RESOLUTION // 4)))
_TWICE = _asked(planned_at_cost(2, 2, 1, 2), ((_EDGE, 0), (_EDGE, RESOLUTION // 2)))

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
        "two instances of units of two records, with records at a tie of the hypothesis",
        _SCHEMA,
        _TWICE,
        most_records_per_unit=2,
        values=_VALUES,
        pairs=PAIRS,
        draws=DRAWS,
    ),
)
