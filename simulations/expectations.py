"""How the learners' own accuracy estimates fare against the accuracy that only the harness can see."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from learner_node.uncertainty import LEVEL, AccuracyEstimate
from simulations.report.model import Expected


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
    estimates = [estimate for estimate, _, _ in found]

    def mean(name: str) -> float:
        return float(np.mean([getattr(estimate, name) for estimate in estimates]))

    held = [within(each.auc, each.auc_low, each.auc_high, auc, error) for each, auc, error in ranking]
    return Expected(
        accuracy=mean("accuracy"),
        low=mean("low"),
        high=mean("high"),
        beats_majority=mean("beats_majority"),
        coverage=float(np.mean([holds(*each) for each in found])),
        auc=mean("auc"),
        auc_low=mean("auc_low"),
        auc_high=mean("auc_high"),
        ranks=mean("ranks"),
        auc_coverage=float(np.mean(held)) if held else None,
    )
