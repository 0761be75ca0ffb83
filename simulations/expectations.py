"""How the learners' own accuracy estimates fare against the accuracy that only the harness can see."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from learner_node.scores.clinical import ClinicalScores
from learner_node.scores.estimates import LEVEL, AccuracyEstimate
from learner_node.scores.performance import Interval
from learner_node.scores.prevalence import Prevalence
from learner_node.strategies.base import ErrorEstimate
from simulations.report.expected import ClassRecall, ClassShare, Expected

Floats = NDArray[np.float64]


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


def expected(told: AccuracyEstimate, accuracy: float, tested: int, scores: ClinicalScores | None = None) -> Expected:
    """What a learner expected in a repeat, of a model of two classes.

    Args:
        told: by its answers.
        accuracy: on the test records.
        tested: their number.
        scores: on the same records, where there are any.
    """
    area, error = (scores.auc, scores.auc_error) if scores else (None, None)
    ranked = None if area is None or error is None else within(told.auc, told.auc_low, told.auc_high, area, error)
    return Expected(
        accuracy=told.accuracy,
        low=told.low,
        high=told.high,
        beats_majority=float(told.beats_majority),
        coverage=float(agrees(told.accuracy, told.low, told.high, accuracy, tested)),
        auc=told.auc,
        auc_low=told.auc_low,
        auc_high=told.auc_high,
        ranks=float(told.ranks),
        auc_coverage=None if ranked is None else float(ranked),
    )


def expected_of_number(told: ErrorEstimate, labels: Floats, predicted: Floats) -> Expected | None:
    """What a learner of a number expected in a repeat; None where it cannot tell R^2, or the n labels are all equal.

    The error of R^2 = 1 - e / v is that of the mean of (e_i - (1 - R^2) v_i) / v.
    """
    off, about_mean = labels - predicted, labels - labels.mean()
    variance = float(np.mean(about_mean**2))
    if told.r2 is None or told.r2_low is None or told.r2_high is None or variance == 0.0:
        return None
    unexplained = float(np.mean(off**2)) / variance
    parts = ((off**2 - unexplained * about_mean**2) / variance, np.abs(off))
    r2_error, absolute_error = (float(np.std(part)) / np.sqrt(len(labels)) for part in parts)
    absolute, low, high = told.absolute, told.absolute_low, told.absolute_high
    held = None
    if absolute is not None and low is not None and high is not None:
        held = float(within(absolute, low, high, float(np.mean(np.abs(off))), absolute_error))
    # Below -1 an interval says no more.
    agreed = within(told.r2, told.r2_low, told.r2_high, max(1.0 - unexplained, -1.0), r2_error)
    return Expected(
        accuracy=told.r2,
        low=told.r2_low,
        high=told.r2_high,
        beats_majority=float(told.r2_low > 0.0),
        coverage=float(agreed),
        absolute=absolute,
        absolute_low=low,
        absolute_high=high,
        absolute_coverage=held,
    )


def class_recall(name: str, own: NDArray[np.bool_], called: NDArray[np.bool_], told: Interval | None) -> ClassRecall:
    """A class's recall in a repeat.

    Args:
        name: of the class.
        own: (n,) which test records are of it.
        called: (2, n) which are called so by the model, and by the ceiling.
        told: what the learner expects; None where its answers cannot tell.
    """
    tested = int(own.sum())
    recall, ceiling = (float(np.mean(said[own])) if tested else None for said in called)
    if told is None:
        return ClassRecall(name=name, recall=recall, ceiling=ceiling)
    held = None if recall is None else float(agrees(told.value, told.low, told.high, recall, tested))
    return ClassRecall(
        name=name, recall=recall, ceiling=ceiling, expected=told.value, low=told.low, high=told.high, coverage=held
    )


def class_share(name: str, told: Prevalence, exact: float) -> ClassShare:
    """What the answers told of a class's share in a repeat, and what it is."""
    held = float(told.low <= exact <= told.high)
    return ClassShare(
        name=name, share=exact, expected=told.share, low=told.low, high=told.high, coverage=held, repeats=1
    )
