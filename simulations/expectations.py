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
    error = float(norm.ppf(1.0 - LEVEL)) * np.sqrt(accuracy * (1.0 - accuracy) / tested)
    below, above = np.hypot(estimated - low, error), np.hypot(high - estimated, error)
    return bool(estimated - below <= accuracy <= estimated + above)


def expected(found: Sequence[tuple[AccuracyEstimate, float, int]]) -> Expected | None:
    """Sum up (estimate, accuracy on test records, number of them) over repeats; None where there is none."""
    if not found:
        return None
    estimates = [estimate for estimate, _, _ in found]
    return Expected(
        accuracy=float(np.mean([estimate.accuracy for estimate in estimates])),
        low=float(np.mean([estimate.low for estimate in estimates])),
        high=float(np.mean([estimate.high for estimate in estimates])),
        beats_majority=float(np.mean([estimate.beats_majority for estimate in estimates])),
        coverage=float(np.mean([holds(*each) for each in found])),
    )
