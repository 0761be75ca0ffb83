"""Questions of `holdout` for an auditor: sums at the threshold's very edge, and many free questions before a paid one."""

from collections.abc import Callable

import numpy as np

from protocol.codec import encode
from protocol.examples import Asked, Example, Value
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Hypothesis, Mlp
from protocol.queries.holdout import HoldoutBody, PlannedHoldout
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

RESOLUTION = 100
DRAWS = 2_000
"""From either set of records: a draw takes several calls of exact noise, and so milliseconds."""
PAIRS = 40
TURNS = 4

_SCHEMA = Schema((NumericAttribute("x", -4.0, 4.0),), "outcome", ("no", "yes"))
_MAP = FeatureMap((NumericFeature("x", 0.0, 1.0, 1.0),))
_EDGE = Mlp.of(_MAP, [(np.array([[1.0]]), np.array([-1.0]))])
"""The logit x - 1: not above 0 at x = 1, where the missing ones are put, too."""
_VALUES: dict[str, tuple[Value, ...]] = {
    "x": (1.0, 1.0 - 1 / STEPS, 1.0 + 1 / STEPS, 1.0 + 0.5 / STEPS, -4.0, 4.0, None)
}

Question = tuple[Hypothesis, int]


def planned_at_cost(turns: int, answers: int, threshold: int, bound: int) -> PlannedHoldout:
    """All instances together at a cost of 1: a quarter the threshold, half the comparisons, a quarter the counts."""
    share = bound * answers
    return PlannedHoldout(
        turns=turns,
        answers=answers,
        resolution=RESOLUTION,
        threshold=threshold,
        threshold_scale=Rational(4 * RESOLUTION * share, 1),
        comparison_scale=Rational(4 * RESOLUTION * share, 1),
        count_scale=Rational(4 * share, 1),
    )


def _asking(planned: PlannedHoldout, questions: tuple[Question, ...]) -> Callable[[int], Asked]:
    """The same questions each time; a query has but one of them after the other, so there are no copies."""
    asked = Asked(planned, tuple(encode(HoldoutBody(hypothesis, estimate)) for hypothesis, estimate in questions))
    return lambda copies: asked  # noqa: ARG005


EXAMPLES = (
    Example(
        "three questions below a threshold that one record moves up, and a fourth above it that it moves down",
        _SCHEMA,
        _asking(
            planned_at_cost(TURNS, 1, 12, 1),
            ((_EDGE, 0), (_EDGE, 0), (Constant(1), 0), (Constant(0), RESOLUTION)),
        ),
        values=_VALUES,
        pairs=PAIRS,
    ),
    Example(
        "two instances, a threshold of no record at all, and units of two records",
        _SCHEMA,
        _asking(planned_at_cost(TURNS, 2, 0, 2), ((_EDGE, 50), (Constant(1), 99), (_EDGE, 0), (_EDGE, RESOLUTION))),
        most_records_per_unit=2,
        values=_VALUES,
        pairs=PAIRS,
    ),
)
