"""The plan of a holdout: scales and a threshold for so many questions at a given epsilon."""

import math
from fractions import Fraction

from protocol.errors import ConfigurationError
from protocol.kinds.holdout import PlannedHoldout
from protocol.rationals import Rational

RESOLUTION = 1000
THRESHOLD_SHARE, COMPARISON_SHARE = Fraction(3, 10), Fraction(9, 20)
"""Of an instance's epsilon, about as 1 to 2^(2/3), which makes comparisons most accurate (Lyu, Su and Li 2017, section
4.2); what is left, a quarter, is for the counts."""
FALSE_END = 0.1
"""Chance, about, that noise alone ends an instance where all stated accuracies are right; of the default threshold."""


def plan_holdout(
    epsilon: Fraction,
    turns: int,
    answers: int,
    most_records_per_unit: int,
    *,
    resolution: int = RESOLUTION,
    threshold: int | None = None,
) -> PlannedHoldout:
    """The holdout of so many questions and instances at a cost of at most `epsilon`, an equal part of it for each.

    Args:
        epsilon: at a curator whose units have so many records.
        turns: most questions.
        answers: most instances.
        most_records_per_unit: c.
        resolution: r.
        threshold: T, in records; None takes the least that right expectations pass with a chance of about `FALSE_END`
            in an instance of all questions.

    Raises:
        ConfigurationError: a scale that needs more than 32 bits, or a threshold out of range.
    """
    one, moved = epsilon / answers, resolution * most_records_per_unit
    counts = 1 - THRESHOLD_SHARE - COMPARISON_SHARE
    scales = (
        moved / (one * THRESHOLD_SHARE),
        2 * moved / (one * COMPARISON_SHARE),
        most_records_per_unit / (one * counts),
    )
    if threshold is None:
        # Tails of a continuous Laplace law: exp(-t / scale) / 2 on one side.
        alarm = float(scales[0]) * math.log(1 / FALSE_END) + float(scales[1]) * math.log(turns / FALSE_END)
        threshold = math.ceil(alarm / resolution)
    try:
        first, second, third = (Rational.of(scale) for scale in scales)
        planned = PlannedHoldout(
            turns=turns,
            answers=answers,
            resolution=resolution,
            threshold=threshold,
            threshold_scale=first,
            comparison_scale=second,
            count_scale=third,
        )
    except ValueError:
        raise ConfigurationError(
            "epsilon, answers and resolution make scales of more than 32 bits; simplify them"
        ) from None
    if not isinstance(threshold, int) or not 0 <= threshold < 2**32:
        raise ConfigurationError(f"threshold is {threshold!r}; it must be a whole number of records, at least 0")
    return planned
