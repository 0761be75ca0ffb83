"""How well class probabilities rank, are calibrated, and decide, in clinical terms.

All scores are computed from labelled records: a simulation's test records, or a user's own. No curator's answer is
read. docs/learner/clinical.md explains each figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score, roc_curve

from learner_node.scores.auc import auc_error
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Rule, Threshold, read_thresholds
from learner_node.scores.values import CalibrationCurve, ThresholdScore
from protocol.errors import ConfigurationError

Floats = NDArray[np.float64]

BINS = 10
"""Most bins of a calibration curve."""


@dataclass(frozen=True)
class Roc:
    """Corners of a receiver operating characteristic, from (0, 0) to (1, 1).

    (k,) each, non-decreasing: the flagged shares of class 0 and of class 1.
    """

    false_positive_rate: Floats
    sensitivity: Floats

    def at(self, rates: Floats) -> Floats:
        """Sensitivity at (m,) false positive rates in [0, 1], float64 (m,); at a step its upper end."""
        x, y = self.false_positive_rate, self.sensitivity
        start = np.minimum(np.searchsorted(x, rates, side="right") - 1, len(x) - 2)
        width = np.where(x[start + 1] > x[start], x[start + 1] - x[start], 1.0)
        rise = (y[start + 1] - y[start]) * (rates - x[start]) / width
        sensitivity: Floats = np.where(rates >= 1, 1.0, y[start] + rise)
        return sensitivity


@dataclass(frozen=True)
class ClinicalScores:
    """Scores of n records; a score that needs both classes is None if only one occurs.

    Average precision is the mean precision over the records of class 1, each at its own rank (`average_precision_score`
    of scikit-learn). A random ranking has about the share of class 1.
    """

    records: int
    positives: int  # records of class 1
    auc: float | None  # P(a record of class 1 has the higher probability than one of class 0), ties count one half
    average_precision: float | None
    brier: float  # mean squared difference of probability and label, in [0, 1]; smaller is better
    calibration: CalibrationCurve
    operating_points: tuple[ThresholdScore, ...]  # one for each threshold, in their order
    roc: Roc | None

    @property
    def prevalence(self) -> float:
        """Share of class 1 among the records."""
        return self.positives / self.records

    @property
    def auc_error(self) -> float | None:
        """Standard error of `auc` from sampling alone (Hanley and McNeil, Radiology 143, 1982, Eq. 2)."""
        if self.auc is None:
            return None
        return float(auc_error(self.auc, self.positives, self.records - self.positives))


def positive_of(y: ArrayLike, classes: NDArray[np.generic], records: int) -> NDArray[np.bool_]:
    """Whether each record is of the second of two classes, bool (n,).

    `y` (n,) has class names, `classes` (2,) are the label's, and `records` is n. Raises ConfigurationError: another
    number of classes or of records, no record, or another value.
    """
    if len(classes) != 2:
        raise ConfigurationError(f"these scores are for two classes; the label has {len(classes)}")
    truth = np.asarray(y)
    positive = truth == classes[1]
    if truth.ndim != 1 or not np.all(positive | (truth == classes[0])):
        names = " or ".join(map(repr, classes.tolist()))
        raise ConfigurationError(f"y must be one column in which each value is {names}")
    if records != len(truth) or not records:
        raise ConfigurationError(f"X has {records} records and y has {len(truth)}; give the same, at least 1")
    return np.asarray(positive, dtype=bool)


def clinical_scores(
    labels: ArrayLike,
    probability: ArrayLike,
    thresholds: Sequence[Threshold] = DEFAULT_THRESHOLDS,
    *,
    prevalence: float | None = None,
) -> ClinicalScores:
    """Score the probabilities of class 1.

    Args:
        labels: (n,) true or 1 where a record is of class 1, n >= 1.
        probability: (n,) of class 1, in [0, 1].
        thresholds: each a probability in (0, 1); a text such as "10%", the share of these records with the highest
            probabilities (where several are equal, the nearest share that separates unequal ones); or "prevalence".
        prevalence: the threshold "prevalence", as a learner would know it before it sees a label; None takes the mean
            of `probability`.

    Raises:
        ValueError: shapes differ, there is no record, a label is neither 0 nor 1, or a probability is outside [0, 1].
        ConfigurationError: one of `thresholds` is invalid, or occurs twice.
    """
    truth, risk = np.asarray(labels), np.asarray(probability, dtype=np.float64)
    if truth.shape != risk.shape or truth.ndim != 1 or not truth.size:
        raise ValueError(f"labels and probability must be (n,) with n at least 1, not {truth.shape} and {risk.shape}")
    if not np.all((truth == 0) | (truth == 1)):
        raise ValueError("a label is neither 0 nor 1")
    if not np.all((risk >= 0) & (risk <= 1)):
        raise ValueError("a probability is outside [0, 1]")
    ones = truth.astype(np.bool_)
    expected = float(risk.mean()) if prevalence is None else prevalence
    points = tuple(_operating_point(ones, risk, rule, expected) for rule in read_thresholds(thresholds))
    mixed = bool(ones.any() and not ones.all())
    return ClinicalScores(
        records=len(ones),
        positives=int(ones.sum()),
        auc=float(roc_auc_score(ones, risk)) if mixed else None,
        average_precision=min(1.0, float(average_precision_score(ones, risk))) if mixed else None,
        brier=float(brier_score_loss(ones, risk, pos_label=True)),
        calibration=calibration(ones, risk),
        operating_points=points,
        roc=Roc(*roc_curve(ones, risk)[:2]) if mixed else None,
    )


def _operating_point(ones: NDArray[np.bool_], risk: Floats, rule: Rule, prevalence: float) -> ThresholdScore:
    fixed = {"probability": rule.value, "prevalence": prevalence}
    threshold = fixed[rule.kind] if rule.kind in fixed else _separating(risk, rule.value)
    flagged = risk > threshold
    no_no, no_yes, yes_no, yes_yes = np.bincount(2 * ones + flagged, minlength=4).tolist()
    return ThresholdScore(
        rule=rule.name,
        threshold=threshold,
        flagged=float(flagged.mean()),
        sensitivity=_share(yes_yes, yes_no),
        specificity=_share(no_no, no_yes),
        ppv=_share(yes_yes, no_yes),
        npv=_share(no_no, yes_no),
    )


def _separating(risk: Floats, share: float) -> float:
    """The threshold above which as near to `share` of the records as ties allow are flagged."""
    values, counts = np.unique(risk, return_counts=True)
    above = len(risk) - np.cumsum(counts)  # records above each value; the last flags none
    cuts = above[:-1] if len(values) > 1 else above
    return float(values[np.argmin(np.abs(cuts - share * len(risk)))])


def _share(part: int, rest: int) -> float | None:
    return part / (part + rest) if part + rest else None


def binomial_error(share: float, records: int) -> float:
    """Standard error of a share of so many records."""
    return float(np.sqrt(share * (1 - share) / records))


def calibration(ones: NDArray[np.bool_], risk: Floats, bins: int = BINS) -> CalibrationCurve:
    """Predicted against observed frequency in `bins` >= 1 bins of equal mass, fewer with fewer records.

    `ones` (n,) marks records of class 1, n >= 1; `risk` (n,) is P(class 1) in [0, 1].
    """
    _, group, size = np.unique(risk, return_inverse=True, return_counts=True)
    share = (np.bincount(group, weights=ones) / size)[group]
    parts = np.array_split(np.argsort(risk, kind="stable"), min(bins, len(risk)))
    counts = tuple(len(part) for part in parts)
    # Rounding does not put a mean outside of 0 to 1.
    predicted, observed = (
        np.clip([column[part].mean() for part in parts], 0.0, 1.0).tolist() for column in (risk, share)
    )
    return CalibrationCurve(
        counts=counts,
        predicted=tuple(predicted),
        observed=tuple(observed),
        observed_se=tuple(map(binomial_error, observed, counts)),
    )
