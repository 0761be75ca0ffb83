"""How the learners' own accuracy estimates fare against the accuracy that only the harness can see."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from learner_node.performance import Interval
from learner_node.prevalence import Prevalence
from learner_node.strategies.base import ErrorEstimate
from learner_node.uncertainty import LEVEL, AccuracyEstimate
from simulations.clinical import mean
from simulations.report.expected import ClassRecall, ClassShare, Expected

Floats = NDArray[np.float64]


def holds(estimate: AccuracyEstimate, accuracy: float, tested: int) -> bool:
    """As `agrees`, for a learner's estimate."""
    return agrees(estimate.accuracy, estimate.low, estimate.high, accuracy, tested)


def agrees(estimated: float, low: float, high: float, accuracy: float, tested: int) -> bool:
    """Whether an interval agrees with an accuracy on some test records.

    The interval is for the population; a share of `tested` records differs from it by chance, too. Each side of the
    interval is widened by that binomial error, in quadrature.

    Args:
        estimated: accuracy that the learner expects, in [0, 1].
        low: of its interval.
        high: of its interval.
        accuracy: share of correctly classified test records, in [0, 1].
        tested: their number, at least 1.
    """
    return within(estimated, low, high, accuracy, np.sqrt(accuracy * (1.0 - accuracy) / tested))


def within(estimated: float, low: float, high: float, found: float, error: float) -> bool:
    """As `agrees`, for any score that was found with a standard error."""
    chance = float(norm.ppf(1.0 - LEVEL)) * error
    below, above = np.hypot(estimated - low, chance), np.hypot(high - estimated, chance)
    return bool(estimated - below <= found <= estimated + above)


def expected(
    found: Sequence[tuple[AccuracyEstimate, float, int]], ranking: Sequence[tuple[AccuracyEstimate, float, float]] = ()
) -> Expected | None:
    """Sum up what learners expected over repeats; None where there is none.

    Args:
        found: (estimate, accuracy on test records, number of them).
        ranking: (estimate, AUC on test records, its standard error), of the repeats whose test records have both
            classes.
    """
    if not found:
        return None
    names = ("accuracy", "low", "high", "beats_majority", "auc", "auc_low", "auc_high", "ranks")
    return Expected(
        coverage=float(np.mean([holds(*each) for each in found])),
        auc_coverage=mean(within(each.auc, each.auc_low, each.auc_high, auc, error) for each, auc, error in ranking),
        **{name: float(np.mean([getattr(estimate, name) for estimate, *_ in found])) for name in names},
    )


@dataclass(frozen=True)
class NumberScores:
    """Scores of predicted numbers on test records, each with its standard error."""

    r2: float
    r2_error: float
    absolute: float
    absolute_error: float

    @classmethod
    def of(cls, labels: Floats, predicted: Floats) -> "NumberScores | None":
        """Of n records; None where their labels are all equal.

        The error of R^2 = 1 - e / v is that of the mean of (e_i - (1 - R^2) v_i) / v.
        """
        off, about_mean = labels - predicted, labels - labels.mean()
        variance = float(np.mean(about_mean**2))
        if variance == 0.0:
            return None
        unexplained = float(np.mean(off**2)) / variance
        parts = ((off**2 - unexplained * about_mean**2) / variance, np.abs(off))
        r2_error, absolute_error = (float(np.std(part)) / np.sqrt(len(labels)) for part in parts)
        return cls(1.0 - unexplained, r2_error, float(np.mean(np.abs(off))), absolute_error)


def expected_of_numbers(found: Sequence[tuple[ErrorEstimate, NumberScores]]) -> Expected | None:
    """Sum up what learners of a number expected over repeats; None where no estimate tells R^2."""
    known = [
        (told.r2, told.r2_low, told.r2_high, told, scores)
        for told, scores in found
        if told.r2 is not None and told.r2_low is not None and told.r2_high is not None
    ]
    if not known:
        return None
    value, low, high = (float(np.mean([one[place] for one in known])) for place in range(3))
    # Below -1 an interval says no more.
    held = [within(*one[:3], max(one[4].r2, -1.0), one[4].r2_error) for one in known]
    absolute = [
        (told.absolute, told.absolute_low, told.absolute_high, scores)
        for *_, told, scores in known
        if told.absolute is not None and told.absolute_low is not None and told.absolute_high is not None
    ]
    errors = [float(np.mean([one[place] for one in absolute])) if absolute else None for place in range(3)]
    right = [within(*one[:3], one[3].absolute, one[3].absolute_error) for one in absolute]
    return Expected(
        accuracy=value,
        low=low,
        high=high,
        beats_majority=float(np.mean([one[1] > 0.0 for one in known])),
        coverage=float(np.mean(held)),
        absolute=errors[0],
        absolute_low=errors[1],
        absolute_high=errors[2],
        absolute_coverage=float(np.mean(right)) if right else None,
    )


@dataclass(frozen=True)
class RecallScores:
    """Of one repeat, each class's recall on the test records (None where they have none), and what was expected."""

    names: tuple[str, ...]
    recall: tuple[float | None, ...]
    tested: tuple[int, ...]
    ceiling: tuple[float | None, ...]
    told: tuple[Interval, ...] | None


def class_recalls(found: Sequence[RecallScores]) -> tuple[ClassRecall, ...]:
    """Sum up recalls over repeats; empty where there is none."""
    return tuple(_class_recall(name, place, found) for place, name in enumerate(found[0].names if found else ()))


def _class_recall(name: str, place: int, found: Sequence[RecallScores]) -> ClassRecall:
    told = [(one.told[place], one) for one in found if one.told is not None]
    held = [
        agrees(own.value, own.low, own.high, recall, one.tested[place])
        for own, one in told
        if (recall := one.recall[place]) is not None
    ]
    return ClassRecall(
        name=name,
        recall=mean([one.recall[place] for one in found]),
        ceiling=mean([one.ceiling[place] for one in found]),
        expected=mean([own.value for own, _ in told]),
        low=mean([own.low for own, _ in told]),
        high=mean([own.high for own, _ in told]),
        coverage=mean(held),
    )


@dataclass(frozen=True)
class ShareScores:
    """Of one repeat, what the answers told of each class's share, by its name, and what it is."""

    told: dict[str, Prevalence]
    exact: dict[str, float]


def class_shares(found: Sequence[ShareScores]) -> tuple[ClassShare, ...]:
    """Sum up shares over repeats, in the order of the classes; empty where there is none."""
    return tuple(_class_share(name, found) for name in (found[0].told if found else ()))


def _class_share(name: str, found: Sequence[ShareScores]) -> ClassShare:
    both = [(one.told[name], one.exact[name]) for one in found]
    values = np.array([(told.share, told.low, told.high, exact) for told, exact in both])
    expected_, low, high, share = map(float, values.mean(axis=0))
    return ClassShare(
        name=name,
        share=share,
        expected=expected_,
        low=low,
        high=high,
        coverage=float(np.mean([told.low <= exact <= told.high for told, exact in both])),
        repeats=len(both),
    )
