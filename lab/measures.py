"""Measures of one strategy's predictions on the test records."""

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from learner_node.scores.clinical import calibration

BINS = 15
DIGITS = 6  # decimals that are kept


class Reliability(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Predicted against observed frequency in bins of equal mass: the records sorted by predicted probability."""

    counts: tuple[int, ...]  # (b,) records per bin; where there are fewer records than bins, there are fewer bins
    predicted: tuple[float, ...]  # (b,) mean predicted probability of class 1
    observed: tuple[float, ...]  # (b,) share of class 1

    @property
    def error(self) -> float:
        """Expected calibration error in percent: |predicted - observed|, weighted by the bins' records."""
        gaps = np.abs(np.asarray(self.predicted) - np.asarray(self.observed))
        return float(100 * np.average(gaps, weights=self.counts))


class Measures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Accuracies and errors on m test records."""

    accuracy: float  # in percent; class 1 is predicted where its probability is above 1/2
    auc: float  # area under the ROC curve, in percent
    brier: float  # mean squared error of the probabilities, in [0, 1]
    reliability: Reliability  # in 15 bins of equal mass


def scores(probability: NDArray[np.float64], labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Accuracy and area under the ROC curve, in percent; the area is 50 where only one class occurs."""
    accuracy = float(100 * np.mean((probability > 0.5) == labels))
    two_classes = bool(labels.any() and not labels.all())
    return accuracy, float(100 * roc_auc_score(labels, probability)) if two_classes else 50.0


def measure(probability: NDArray[np.float64], labels: NDArray[np.bool_]) -> Measures:
    """Measure predictions.

    `probability` (m,) of class 1, m >= 1; `labels` (m,) whether a record is of class 1.

    Raises ValueError: a probability is outside [0, 1] or no number, or there are not as many as labels.
    """
    if probability.shape != labels.shape:
        raise ValueError(f"{probability.shape} probabilities for {labels.shape} records")
    if not np.all((probability >= 0) & (probability <= 1)):
        raise ValueError("a predicted probability is outside [0, 1]")
    accuracy, area = scores(probability, labels)
    return Measures(
        accuracy=round(accuracy, DIGITS),
        auc=round(area, DIGITS),
        brier=round(float(np.mean((probability - labels) ** 2)), DIGITS),
        reliability=_reliability(probability, labels),
    )


def _reliability(probability: NDArray[np.float64], labels: NDArray[np.bool_]) -> Reliability:
    bins = calibration(labels, probability, BINS)
    return Reliability(
        counts=bins.counts,
        predicted=tuple(round(value, DIGITS) for value in bins.predicted),
        observed=tuple(round(value, DIGITS) for value in bins.observed),
    )
