"""Whether joining pays for a site: the federation's model beside the site's own regression, on the site's test records.

Within a repeat all models are scored on the same records, so their errors are correlated. Errors come from influence
functions, summed over privacy units: for AUC they are DeLong's (1988), for several records a unit Obuchowski's (1997).

Repeats split the same records anew, so that scores of different repeats are not independent. Of R repeats let W be the
mean sampling variance of a score, B its variance over repeats, t and p the shares of the site's units that test and
are private. Given all records, sampling without replacement explains (1 - t) W of B; the rest, A = max(B - (1 - t) W,
0), is due to the training records, the noise and the learner. The interval has the variance

    V = W (t + (1 - t) / R) + A (max(1, p / (1 - p)) + 1 / R).

A hospital joins one study, whose noise is drawn once: that is the 1, so that more repeats do not make it less. Training
records of two repeats overlap: if a score is linear in them their effects have correlation p, and p / (1 - p) of A
stays however many the repeats are. Nadeau and Bengio (2003) correct a variance over repeats likewise. With one repeat A
is unknown, and V = W.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student

from learner_node.scores.performance import LEVEL
from learner_node.scores.values import LEAST_SCORE, wilson
from simulations.records import SiteRecords
from simulations.references import Answers, Labels
from simulations.report.model import Joining, MeasureName, ScoreInterval

Floats = NDArray[np.float64]

CONSTANT, REGRESSION, FEDERATION, POOLED_REGRESSION, OTHERS = MODELS = (
    "constant",
    "regression",
    "federation",
    "pooled",
    "others",
)
"""Models that are compared: the best constant, the site's own regression, the learner's model, a regression on all
records, and the model that all others would have without the site."""
ONE_CLASS_TESTED = "its test records hold one class"
ONE_VALUE_TESTED = "its test records hold one value"
ONE_CLASS_PRIVATE = "its private records hold one class, so its own regression cannot rank"
NO_MODEL = "the learner learned nothing"
MOST_PRIVATE = 0.95
"""Largest private share that the correction for overlapping training records takes."""


class PairedScores(msgspec.Struct, frozen=True, omit_defaults=True):
    """Scores of `MODELS`, in their order, on the same test records, with the covariance of their sampling errors."""

    values: tuple[float | None, ...]  # None where a model has no such score
    covariance: tuple[tuple[float, ...], ...]  # lower triangle, by rows; 0 where a score is None
    size: int  # independent units among the records; for AUC those of the rarer class

    def variance(self, first: int, second: int | None = None) -> float:
        """Sampling variance of a score, or of the difference of two."""
        variance = self.covariance[first][first]
        if second is None:
            return variance
        low, high = sorted((first, second))
        return max(variance + self.covariance[second][second] - 2.0 * self.covariance[high][low], 0.0)


class JoiningScores(msgspec.Struct, frozen=True, omit_defaults=True):
    """A site's `PairedScores` in one repeat, by measure: "accuracy" and, of two classes, "AUC"; or "R²"."""

    measures: dict[str, PairedScores]
    records: int  # test records
    tested: float  # share of the site's units that test
    private: float  # share of the site's units that are private
    reasons: dict[str, str] = {}  # measure -> why a score is None; `OTHERS` -> why there is no model of all others


def joining_scores(site: SiteRecords, answers: Mapping[str, Answers], absent: str = "") -> JoiningScores:
    """Compare models on a site's test records.

    `answers` maps names of `MODELS` to their answers for these records; the constant is among them. `absent` says why
    the others' model is not, where it was to be made.
    """
    unit = site.steward.unit if site.steward.unit in site.test.columns else None
    sizes = {
        part: float(frame.height if unit is None else frame[unit].n_unique())
        for part, frame in (("private", site.private), ("source", site.source), ("test", site.all_tests))
    }
    units = None if unit is None else np.unique(site.test[unit].to_numpy(), return_inverse=True)[1]
    labels, total = answers[CONSTANT].labels, sum(sizes.values())
    measures, reasons = scores_by_measure(answers, units)
    if absent:
        reasons[OTHERS] = absent
    return JoiningScores(measures, len(labels), sizes["test"] / total, sizes["private"] / total, reasons)


def scores_by_measure(
    answers: Mapping[str, Answers], units: NDArray[np.intp] | None = None
) -> tuple[dict[str, PairedScores], dict[str, str]]:
    """`measures` and `reasons` of `JoiningScores`: of models' answers for the same records.

    `units` are as in `paired_scores`.
    """
    labels = answers[CONSTANT].labels
    measures, reasons = {}, {}
    for measure in ("R²",) if labels.dtype.kind == "f" else ("accuracy", "AUC"):
        columns = {name: column for name, entry in answers.items() if (column := _column(measure, entry)) is not None}
        if measure == "AUC":
            if not columns:  # not two classes, or no model ranks
                continue
            columns[CONSTANT] = np.zeros(len(labels))
        if measure != "accuracy" and (labels == labels[0]).all():
            reasons[measure] = ONE_VALUE_TESTED if measure == "R²" else ONE_CLASS_TESTED
            continue
        if FEDERATION not in columns:
            reasons[measure] = NO_MODEL
        elif REGRESSION not in columns:
            reasons[measure] = ONE_CLASS_PRIVATE
        measures[measure] = paired_scores(measure, labels, columns, units)
    return measures, reasons


def _column(measure: str, answers: Answers) -> Floats | None:
    """What a measure reads of a model's answers, (n,); None if they lack it."""
    if measure != "AUC":
        return answers.predicted.astype(np.float64)
    if answers.probabilities is None or answers.probabilities.shape[1] != 2:
        return None
    column: Floats = answers.probabilities[:, 1]
    return column


def paired_scores(
    measure: str, labels: Labels, columns: Mapping[str, Floats], units: NDArray[np.intp] | None = None
) -> PairedScores:
    """Scores of some models with their covariance.

    Args:
        measure: "accuracy", "R²", or "AUC", for which both classes occur.
        labels: (n,) classes from 0, or numbers.
        columns: name in `MODELS` -> (n,) predicted classes or numbers; for AUC any score that rises with class 1.
        units: (n,) number of each record's privacy unit, from 0; None: each record is one.
    """
    names = [name for name in MODELS if name in columns]
    values, influence = _MEASURES[measure](labels, np.stack([columns[name] for name in names]))
    groups = np.arange(len(labels)) if units is None else units
    classes = [labels == 1, labels != 1] if measure == "AUC" else [np.ones(len(labels), dtype=bool)]
    counts = [len(np.unique(groups[members])) for members in classes]
    for members, count in zip(classes, counts, strict=True):
        influence[:, members] *= np.sqrt(count / max(count - 1, 1))
    sums = np.stack([np.bincount(groups, weights=row) for row in influence])
    # What rounding leaves of a sum of zero would be a variance near zero, and an interval without width.
    sums[np.abs(sums) < _ROUNDING * np.abs(influence).sum(axis=1, keepdims=True)] = 0.0
    covariance = sums @ sums.T
    places = [names.index(name) if name in names else None for name in MODELS]
    rows = [
        tuple(0.0 if i is None or j is None else float(covariance[i, j]) for j in places[: number + 1])
        for number, i in enumerate(places)
    ]
    return PairedScores(tuple(None if i is None else float(values[i]) for i in places), tuple(rows), min(counts))


_ROUNDING = 1e-12
"""Less than this share of all influence is rounding."""


def _accuracies(labels: Labels, columns: Floats) -> tuple[Floats, Floats]:
    """Accuracies of k models (k,), and each record's influence on them (k, n)."""
    correct = (columns == labels).astype(np.float64)
    values: Floats = correct.mean(axis=1)
    return values, (correct - values[:, None]) / len(labels)


def _explained(labels: Labels, columns: Floats) -> tuple[Floats, Floats]:
    """R^2 and influences, as `_accuracies`; not all labels are equal."""
    distances = (labels - labels.mean()) ** 2
    errors = (columns - labels) ** 2
    unexplained = errors.sum(axis=1) / distances.sum()
    influence: Floats = (unexplained[:, None] * distances - errors) / distances.sum()
    return 1.0 - unexplained, influence


def _areas(labels: Labels, columns: Floats) -> tuple[Floats, Floats]:
    """AUCs and influences, as `_accuracies`, by midranks (Sun and Xu 2014)."""
    ones = labels == 1
    positive, negative = int(ones.sum()), int((~ones).sum())
    ranks = rankdata(columns, axis=1)
    influence = np.empty(columns.shape)
    influence[:, ones] = (ranks[:, ones] - rankdata(columns[:, ones], axis=1)) / negative
    values: Floats = influence[:, ones].mean(axis=1)
    influence[:, ~ones] = 1.0 - (ranks[:, ~ones] - rankdata(columns[:, ~ones], axis=1)) / positive
    influence -= values[:, None]
    influence[:, ones] /= positive
    influence[:, ~ones] /= negative
    return values, influence


_MEASURES = {"accuracy": _accuracies, "R²": _explained, "AUC": _areas}


@dataclass(frozen=True)
class MeanScore:
    """The mean over repeats of a score or of a difference, with its variance and degrees of freedom."""

    value: float
    of_patients: float  # the variance that is due to which patients are tested
    of_models: float  # the variance that is due to training records, noise and learner
    freedom: float

    @property
    def variance(self) -> float:
        """The variance V of the module's description."""
        return self.of_patients + self.of_models

    @property
    def quantile(self) -> float:
        """Student's, for a 95 % interval."""
        return float(student.ppf((1.0 + LEVEL) / 2.0, self.freedom))


def mean_score(
    values: Sequence[float], within: Sequence[float], size: float, tested: float, private: float
) -> MeanScore:
    """The mean over repeats of the same records, with the variance V of the module's description.

    Args:
        values: (R,) scores or differences, R >= 1.
        within: (R,) their sampling variances.
        size: units of a test set, for the degrees of freedom (Satterthwaite).
        tested: share of the site's units that test, in (0, 1).
        private: share that is private, in (0, 1).
    """
    repeats, sampling = len(values), float(np.mean(within))
    of_patients, of_models = sampling, 0.0
    if repeats > 1:
        of_patients = sampling * (tested + (1.0 - tested) / repeats)
        between = float(np.var(values, ddof=1))
        overlap = min(private, MOST_PRIVATE) / (1.0 - min(private, MOST_PRIVATE))
        of_models = max(between - (1.0 - tested) * sampling, 0.0) * (max(1.0, overlap) + 1.0 / repeats)
    variance = of_patients + of_models
    shares = [(of_patients, max(size - 1.0, 1.0)), (of_models, repeats - 1.0)]
    spread = sum((part / variance) ** 2 / freedom for part, freedom in shares if part) if variance else 0.0
    return MeanScore(float(np.mean(values)), of_patients, of_models, 1.0 / spread if spread else max(size - 1.0, 1.0))


def joining_of(curator: str, repeats: Sequence[JoiningScores], measure: MeasureName) -> Joining:
    """What a site gains, over the repeats (at least one) that compared its models."""
    return _Comparison(curator, repeats, measure).joining


class _Comparison:
    """A site's repeats in one measure."""

    def __init__(self, curator: str, repeats: Sequence[JoiningScores], measure: MeasureName) -> None:
        self._curator, self._repeats, self._share = curator, repeats, measure != "R²"
        self._continuous = measure != "accuracy"
        self._paired = [repeat.measures[measure] for repeat in repeats if measure in repeat.measures]
        self._reason = next((reason for repeat in repeats if (reason := repeat.reasons.get(measure))), "")
        self._absent = next((reason for repeat in repeats if (reason := repeat.reasons.get(OTHERS))), "")
        self._tested = float(np.mean([repeat.tested for repeat in repeats]))
        self._private = float(np.mean([repeat.private for repeat in repeats]))
        self._size = float(np.mean([entry.size for entry in self._paired])) if self._paired else 0.0

    @property
    def joining(self) -> Joining:
        gains = [first - second for first, second in self._pairs(FEDERATION, REGRESSION)]
        return Joining(
            curator=self._curator,
            **{name: self._single(name) for name in MODELS},
            gain=self._difference(FEDERATION, REGRESSION),
            price=self._difference(POOLED_REGRESSION, FEDERATION),
            regression_lift=self._difference(REGRESSION, CONSTANT),
            federation_lift=self._difference(FEDERATION, CONSTANT),
            contribution=self._difference(FEDERATION, OTHERS),
            better=sum(gain > 0 for gain in gains),
            equal=sum(gain == 0 for gain in gains),
            repeats=len(gains),
            records=round(float(np.mean([repeat.records for repeat in self._repeats]))),
            reason=self._reason if not gains else "" if self._pairs(OTHERS) else self._absent,
        )

    def _pairs(self, *names: str) -> list[tuple[float, ...]]:
        """The scores of these models in the repeats that have all of them."""
        places = [MODELS.index(name) for name in names]
        rows = ([entry.values[place] for place in places] for entry in self._paired)
        return [tuple(value for value in row if value is not None) for row in rows if None not in row]

    def _mean(self, *names: str, among: tuple[str, ...]) -> MeanScore | None:
        """The mean score of one model, or difference of two, over the repeats that have all models of `among`."""
        places, needed = [MODELS.index(name) for name in names], [MODELS.index(name) for name in among]
        entries = [entry for entry in self._paired if all(entry.values[place] is not None for place in needed)]
        if not entries:
            return None
        columns = [[entry.values[place] or 0.0 for entry in entries] for place in places]
        values = columns[0] if len(columns) == 1 else [a - b for a, b in zip(*columns, strict=True)]
        within = [entry.variance(*places) for entry in entries]
        return mean_score(values, within, self._size, self._tested, self._private)

    def _single(self, name: str) -> ScoreInterval | None:
        mean = self._mean(name, among=(name,))
        return None if mean is None else _interval(mean.value, *self._limits(name, mean, mean.quantile), most=1.0)

    def _limits(self, name: str, mean: MeanScore, quantile: float) -> tuple[float, float]:
        """Ends of a score's interval.

        Of a share they are Wilson's (1927), at the number of units that has the patients' variance; what is due to the
        models is added in quadrature.
        """
        value = mean.value
        if name == CONSTANT and self._continuous:
            return value, value  # by definition
        if not self._share:
            return value - quantile * mean.variance**0.5, value + quantile * mean.variance**0.5
        size = value * (1.0 - value) / mean.of_patients if mean.of_patients and 0.0 < value < 1.0 else self._size
        low, high = wilson(value, size, quantile)
        below, above = (float(np.hypot(end, quantile * mean.of_models**0.5)) for end in (value - low, high - value))
        return max(value - below, 0.0), min(value + above, 1.0)

    def _difference(self, first: str, second: str) -> ScoreInterval | None:
        """A paired difference of shares by Newcombe's square-and-add (1998, method 10), of R^2 by Student's law."""
        names = (first, second)
        difference = self._mean(*names, among=names)
        means = [mean for name in names if (mean := self._mean(name, among=names)) is not None]
        if difference is None:
            return None
        if not self._share:
            return _interval(difference.value, *self._limits(first, difference, difference.quantile))
        limits = [self._limits(name, mean, difference.quantile) for name, mean in zip(names, means, strict=True)]
        low = difference.value - _added(means, limits, self._correlation(difference, means))
        high = difference.value + _added(means[::-1], limits[::-1], self._correlation(difference, means))
        return _interval(difference.value, low, high, most=1.0, least=-1.0)

    def _correlation(self, difference: MeanScore, means: Sequence[MeanScore]) -> float:
        """Correlation of two scores' errors; of accuracies as if one more unit had been called differently."""
        product = (means[0].variance * means[1].variance) ** 0.5
        if not product:
            return 0.0
        shared = means[0].variance + means[1].variance - difference.variance
        if self._continuous:
            return float(np.clip(shared / (2.0 * product), -1.0, 1.0))
        sets = self._tested + (1.0 - self._tested) / len(self._paired) if len(self._paired) > 1 else 1.0
        shared = max(shared - sets / self._size**2, min(shared, 0.0))
        return float(np.clip(shared / (2.0 * product), -1.0, 1.0))


def _added(means: Sequence[MeanScore], limits: Sequence[tuple[float, float]], correlation: float) -> float:
    """Distance from the first score less the second down to the lower end of their difference."""
    below, above = means[0].value - limits[0][0], limits[1][1] - means[1].value
    return float(np.sqrt(max(below**2 - 2.0 * correlation * below * above + above**2, 0.0)))


def _interval(
    value: float, low: float, high: float, *, most: float = -LEAST_SCORE, least: float = LEAST_SCORE
) -> ScoreInterval:
    """An interval within these bounds; rounding does not put its value outside."""
    value = float(np.clip(value, least, most))
    return ScoreInterval(value=value, low=min(max(low, least), value), high=max(min(high, most), value))
