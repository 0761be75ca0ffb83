"""Scores on test records, beside those of the best constant and of non-private training.

Only the simulation can compute these, as it owns all records; a learner cannot. Classes are scored by accuracy, a
number by R^2, the explained share of its variance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata
from sklearn.metrics import roc_auc_score

from learner_node.models.synthetic import pooled_estimate
from learner_node.scores.clinical import ClinicalScores, binomial_error, clinical_scores
from learner_node.scores.estimates import LEVEL, AccuracyEstimate
from learner_node.scores.performance import Interval
from learner_node.scores.prevalence import Prevalence
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Threshold
from learner_node.scores.values import LEAST_SCORE
from learner_node.strategies.base import (
    AnyModel,
    ClassesEstimate,
    ErrorEstimate,
    NumberModel,
    SourceEstimate,
    class_probabilities,
)
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from protocol.record_frames import encode_labels
from simulations.joining import (
    CONSTANT,
    FEDERATION,
    OTHERS,
    POOLED_REGRESSION,
    REGRESSION,
    JoiningScores,
    joining_scores,
)
from simulations.records import SiteRecords, sites_of
from simulations.references import Answers, LabelledRecords, Reference, labelled, references
from simulations.repeats import Outcome, Repeat
from simulations.report.model import GRID, ClassRecall, ClassShare, Expected, RecordCounts, RocCurve, Score
from simulations.report.outcome_values import QUANTILES, Agreement, Confusion

GROUPS = (10, 5, 2, 1)
"""Numbers of groups for predicted against observed numbers, the first that the records suffice for."""
LEAST_RECORDS = 10
"""Least mean number of records in a group."""

Floats = NDArray[np.float64]
Labels = NDArray[Any]
"""(n,) class indices (uint8), or numbers (float64) within the label's bounds."""


@dataclass(frozen=True)
class Measure:
    """The score of a kind of label."""

    name: Literal["accuracy", "R²"]
    constant: str  # what the best constant is called in a sentence
    further: str  # a second score beside it


class RoundScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """Scores of a round's model; None where there is no model, or no such score."""

    value: float | None = msgspec.field(default=None, name="accuracy")  # in the label's `Measure`
    further: float | None = None
    auc: float | None = None
    average_precision: float | None = None
    brier: float | None = None


class RepeatScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """Scores of a learner's models in one repeat, on one site's or all test records."""

    last: Score  # of the last model, and what the learner expected; with curves of all sites together
    tested: int = 0  # records; 0 where there is no such model
    rounds: tuple[RoundScore, ...] = ()


MAJORITY = "the majority class"
ACCURACY = Measure("accuracy", MAJORITY, "macro AUC")
EXPLAINED = Measure("R²", "the mean", "RMSE")
MEASURES: dict[str, Measure] = {measure.name: measure for measure in (ACCURACY, EXPLAINED)}


def measure_of(sites: Mapping[str, SiteRecords]) -> Measure:
    """The measure for the sites' label."""
    first = next(iter(sites.values()))
    return ACCURACY if first.steward.label_bounds is None else EXPLAINED


def answers_by_round(learned: Learned, sites: Mapping[str, SiteRecords]) -> list[dict[str, Answers]]:
    """For each round, the model's answers for each site's test records.

    A round without a model, and a site without one, is omitted.
    """
    rounds: list[dict[str, Answers]] = []
    tests = {name: labelled(site.test, site) for name, site in sites.items()}
    for number in range(max((len(models) for models in learned.models.values()), default=0)):
        answers = {}
        for name, test in tests.items():
            models = learned.models.get(POOLED) or learned.models.get(name) or []
            model = models[number] if number < len(models) else None
            if model is not None:
                answers[name] = _answers(model, test)
        rounds.append(answers)
    return rounds


def score(answers: Mapping[str, Answers]) -> float | None:
    """Accuracy or R^2 over all sites' records; None without records."""
    return _over(answers, _score)


def further_score(answers: Mapping[str, Answers]) -> float | None:
    """Macro one-against-rest AUC of class probabilities, or the root mean squared error in the label's units.

    It is None without records, with two classes, without probabilities, or if the test records lack a class.
    """
    return _over(answers, _further_score)


@dataclass(frozen=True)
class ScoredLearner:
    """A learner's outcome in a repeat, and what its models are worth."""

    outcome: Outcome
    scores: dict[str, RepeatScore]  # by site, where "" (all sites) comes first
    answers: Mapping[str, Answers]  # the last model's, for each site's test records
    joining: dict[str, JoiningScores]  # by site; empty where there is no joint model


def score_repeat(repeat: Repeat, thresholds: Sequence[Threshold] = DEFAULT_THRESHOLDS) -> Iterator[ScoredLearner]:
    """Score each learner of a repeat; `thresholds` are those of the clinical scores. Analyses have no scores here."""
    models = not any(outcome.learner.analyses for outcome in repeat.outcomes)
    local, pooled = references(repeat.sites) if models else ({}, {})
    for outcome in repeat.outcomes:
        if not models:
            yield ScoredLearner(outcome, {}, {}, {})
            continue
        rounds = answers_by_round(outcome.learned, repeat.sites) if outcome.learned else []
        names, _ = sites_of(outcome.learner, repeat.sites)
        scores = {POOLED: _repeat_score(POOLED, names, outcome, repeat, rounds, pooled, thresholds)}
        scores |= {name: _repeat_score(name, [name], outcome, repeat, rounds, local, thresholds) for name in names}
        answers = rounds[-1] if rounds else {}
        joining = {}
        if outcome.learner.joins(names):
            joining = {name: _joining(name, outcome, repeat, answers, local, pooled) for name in names}
        yield ScoredLearner(outcome, scores, answers, joining)


def _joining(
    name: str,
    outcome: Outcome,
    repeat: Repeat,
    answers: Mapping[str, Answers],
    local: Mapping[str, Reference],
    pooled: Mapping[str, Reference],
) -> JoiningScores:
    """The site's models on its test records."""
    models = {
        CONSTANT: local[name].majority,
        REGRESSION: local[name].tuned or local[name].regression,
        POOLED_REGRESSION: pooled[name].regression,
    }
    if name in answers:
        models[FEDERATION] = answers[name]
    if name in outcome.others:
        models[OTHERS] = _answers(outcome.others[name], labelled(repeat.sites[name].test, repeat.sites[name]))
    return joining_scores(repeat.sites[name], models, outcome.others_failures.get(name, ""))


def _repeat_score(
    key: str,
    names: Sequence[str],
    outcome: Outcome,
    repeat: Repeat,
    rounds: Sequence[Mapping[str, Answers]],
    reference: Mapping[str, Reference],
    thresholds: Sequence[Threshold],
) -> RepeatScore:
    """The scores on the test records of these sites."""
    by_round = [{name: answers[name] for name in names if name in answers} for answers in rounds]
    answered = by_round[-1] if by_round else {}
    regression = {name: reference[name].regression for name in names}
    answers, best = _joined(answered), _joined({name: regression[name] for name in answered})
    value, tested = bounded(score(answered)), 0 if answers is None else len(answers.labels)
    clinical = two_class_scores(answers, thresholds, _known_prevalence(outcome.learned, key))
    r2_error, absolute_error = _number_errors(answers)
    classes = len(next(iter(repeat.sites.values())).steward.schema.classes)
    last = Score(
        value=value,
        value_se=r2_error if value is None or is_number(answers) else binomial_error(value, tested),
        constant=bounded(score({name: reference[name].majority for name in names})) or 0.0,
        regression=bounded(score(regression)) or 0.0,
        expected=_expected(key, outcome.learned, answers, value, clinical),
        further=further_score(answered),
        further_regression=further_score(regression),
        absolute=_over(answered, _absolute),
        absolute_se=absolute_error,
        absolute_constant=_over({name: reference[name].majority for name in answered}, _absolute),
        agreement=agreement(answers),
        confusion=confusion(answers, classes) if key == POOLED else None,
        absolute_regression=_over(regression, _absolute),
        recalls=_recalls(outcome.learned, answers, best) if key == POOLED else (),
        shares=_shares(key, outcome, repeat.sites),
        **clinical_fields(clinical, two_class_scores(best), curves=key == POOLED),
    )
    return RepeatScore(last, tested, tuple(map(_round_score, by_round)))


def is_number(answers: Answers | None) -> bool:
    """Whether the labels are numbers."""
    return answers is not None and answers.labels.dtype.kind == "f"


def _number_errors(answers: Answers | None) -> tuple[float | None, float | None]:
    """Standard errors of R^2 and of the mean absolute error, from the spread among records; None for classes.

    With squared errors e_i and squared distances v_i from the mean label, R^2 = 1 - e / v for their means e and v. Its
    error is that of the mean of (e_i - (1 - R^2) v_i) / v.
    """
    if answers is None or not is_number(answers):
        return None, None
    off, about_mean = answers.labels - answers.predicted, answers.labels - answers.labels.mean()
    variance, root = float(np.mean(about_mean**2)), np.sqrt(len(off))
    absolute_error = float(np.std(np.abs(off)) / root)
    if variance == 0.0:
        return None, absolute_error
    unexplained = float(np.mean(off**2)) / variance
    error = float(np.std((off**2 - unexplained * about_mean**2) / variance) / root)
    return min(error, -LEAST_SCORE), absolute_error


def agreement(answers: Answers | None) -> Agreement | None:
    """Predicted against observed numbers; None for classes, or if there are too few records for one group."""
    if answers is None or not is_number(answers):
        return None
    groups = next((groups for groups in GROUPS if len(answers.labels) >= LEAST_RECORDS * groups), 0)
    if not groups:
        return None
    # Records of one prediction have their middle rank, so that they stay together.
    ranks = (rankdata(answers.predicted) - 0.5) / len(answers.labels)
    places = np.minimum((groups * ranks).astype(np.int64), groups - 1)
    rows = [_group(answers, places == number) for number in range(groups)]
    columns = zip(*rows, strict=True)
    counts, predicted, observed, errors, quantiles = map(tuple, columns)
    return Agreement(counts=counts, predicted=predicted, observed=observed, observed_error=errors, quantiles=quantiles)


def _group(answers: Answers, members: NDArray[np.bool_]) -> tuple[Any, ...]:
    """A group's entries in the fields of `Agreement`."""
    count, labels = int(members.sum()), answers.labels[members]
    if not count:
        return 0, None, None, None, (None,) * len(QUANTILES)
    error = float(labels.std(ddof=1) / np.sqrt(count)) if count > 1 else None
    quantiles = tuple(np.quantile(labels, QUANTILES).tolist())
    return count, float(answers.predicted[members].mean()), float(labels.mean()), error, quantiles


def confusion(answers: Answers | None, classes: int) -> Confusion | None:
    """How many records of each of several classes are called what; None without records or for numbers."""
    if answers is None or is_number(answers):
        return None
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (answers.labels.astype(np.int64), answers.predicted.astype(np.int64)), 1)
    return Confusion(counts=tuple(map(tuple, counts.tolist())))


def bounded(value: float | None) -> float | None:
    """R^2 clipped to the range that a report allows."""
    return value if value is None else max(value, LEAST_SCORE)


def _round_score(answered: Mapping[str, Answers]) -> RoundScore:
    clinical = two_class_scores(_joined(answered))
    ranking = (clinical.auc, clinical.average_precision, clinical.brier) if clinical else ()
    return RoundScore(score(answered), further_score(answered), *ranking)


def _known_prevalence(learned: Learned | None, key: str) -> float | None:
    """The positive class's share at a site, else at all sites, as the learner estimates it."""
    estimates = learned.estimates if learned else {}
    estimate = estimates.get(key, estimates.get(POOLED))
    if estimate is None and estimates:
        estimate = pooled_estimate(list(estimates.values()))
    return estimate.prevalence if isinstance(estimate, SourceEstimate) else None


def _expected(
    key: str, learned: Learned | None, answers: Answers | None, value: float | None, clinical: ClinicalScores | None
) -> Expected | None:
    """The learner's estimate for its last model, beside the model's score; None if its answers give none."""
    if learned is None or answers is None:
        return None
    estimate, models = learned.estimates.get(key), learned.models.get(key, [])
    if isinstance(estimate, SourceEstimate) and estimate.accuracy is not None and value is not None:
        return expected(estimate.accuracy, value, len(answers.labels), clinical)
    if is_number(answers) and models and isinstance(models[-1], NumberModel) and models[-1].error:
        return expected_of_number(models[-1].error, answers.labels, answers.predicted)
    return None


def _recalls(learned: Learned | None, answers: Answers | None, best: Answers | None) -> tuple[ClassRecall, ...]:
    """Recall of each of more than two classes, beside the learner's estimate."""
    if learned is None or answers is None or best is None or len(learned.schema.classes) <= 2:
        return ()
    estimate = learned.estimates.get(POOLED)
    recalls = (isinstance(estimate, ClassesEstimate) and estimate.recalls) or [None] * len(learned.schema.classes)
    predicted = np.stack([answers.predicted, best.predicted])
    return tuple(
        class_recall(name, answers.labels == number, predicted == number, recall)
        for number, (name, recall) in enumerate(zip(learned.schema.classes, recalls, strict=True))
    )


def _shares(key: str, outcome: Outcome, sites: Mapping[str, SiteRecords]) -> tuple[ClassShare, ...]:
    """Each class's estimated share, beside its exact share at the curators that answered."""
    prevalences = outcome.learned.shares(key) if outcome.learned else {}
    if not prevalences or outcome.learned is None or outcome.study is None:
        return ()
    answering = [key] if key != POOLED else outcome.study.rounds[-1].took_part or outcome.study.survivors
    schema = outcome.learned.schema
    labels = np.concatenate([encode_labels(sites[name].counted[schema.label], schema.classes) for name in answering])
    exact = {name: float(np.mean(labels == schema.classes.index(name))) for name in prevalences}
    return tuple(class_share(name, prevalence, exact[name]) for name, prevalence in prevalences.items())


def _over(answers: Mapping[str, Answers], rule: Callable[[Answers], float | None]) -> float | None:
    joined = _joined(answers)
    return None if joined is None else rule(joined)


def _joined(answers: Mapping[str, Answers]) -> Answers | None:
    """All sites' answers as one; None without any."""
    parts = list(answers.values())
    if not parts or not sum(len(part.labels) for part in parts):
        return None
    rows = [part.probabilities for part in parts if part.probabilities is not None]
    return Answers(
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.predicted for part in parts]),
        np.concatenate(rows) if len(rows) == len(parts) else None,
    )


def _score(answers: Answers) -> float | None:
    if not is_number(answers):
        return float(np.mean(answers.predicted == answers.labels))
    variance = float(np.var(answers.labels))
    if variance == 0.0:
        return None
    return 1.0 - float(np.mean((answers.predicted - answers.labels) ** 2)) / variance


def _absolute(answers: Answers) -> float | None:
    return float(np.mean(np.abs(answers.predicted - answers.labels))) if is_number(answers) else None


def _further_score(answers: Answers) -> float | None:
    if is_number(answers):
        return float(np.sqrt(np.mean((answers.predicted - answers.labels) ** 2)))
    if answers.probabilities is None or answers.probabilities.shape[1] == 2:
        return None
    truths = [answers.labels == index for index in range(answers.probabilities.shape[1])]
    if any(truth.all() or not truth.any() for truth in truths):
        return None
    columns = zip(truths, answers.probabilities.T, strict=True)
    return float(np.mean([roc_auc_score(truth, column) for truth, column in columns]))


def _answers(model: AnyModel, test: LabelledRecords) -> Answers:
    if isinstance(model, NumberModel):
        return Answers(test.labels, model.predict_number(test.records))
    probabilities = class_probabilities(model, test.records)
    return Answers(test.labels, probabilities.argmax(axis=1), probabilities)


def two_class_scores(
    answers: Answers | None, thresholds: Sequence[Threshold] = (), prevalence: float | None = None
) -> ClinicalScores | None:
    """Score answers for two classes; None without records, two classes and probabilities.

    `thresholds` give the operating points, `prevalence` is the learner's estimate.
    """
    if answers is None or answers.probabilities is None or answers.probabilities.shape[1] != 2:
        return None
    risk = np.clip(answers.probabilities[:, 1], 0.0, 1.0)
    return clinical_scores(answers.labels == 1, risk, thresholds, prevalence=prevalence)


def clinical_fields(
    scores: ClinicalScores | None, regression: ClinicalScores | None, *, curves: bool
) -> dict[str, Any]:
    """The clinical fields of `Score`, from the scores of a learner's model and of the non-private `regression`.

    `curves` adds calibration, ROC and operating points.
    """
    if scores is None:
        return {}
    fields: dict[str, Any] = {
        f"{name}{end}": getattr(source, name, None)
        for name in ("auc", "average_precision", "brier")
        for end, source in (("", scores), ("_regression", regression))
    }
    fields |= {"auc_se": scores.auc_error, "prevalence": scores.prevalence}
    if curves:
        fields |= {"calibration": scores.calibration, "operating_points": scores.operating_points}
        fields |= {"roc": _roc(scores), "roc_regression": _roc(regression)}
    return fields


def record_counts(sites: Mapping[str, SiteRecords]) -> tuple[RecordCounts, ...]:
    """Each site's number of records and share of the positive class; simulations only, never by a curator."""
    return tuple(_record_counts(site) for site in sites.values())


def positive_class(sites: Mapping[str, SiteRecords]) -> str:
    """The second of two classes; "" unless there are two."""
    classes = next(iter(sites.values())).steward.schema.classes
    return classes[1] if len(classes) == 2 else ""


def _record_counts(site: SiteRecords) -> RecordCounts:
    classes = site.steward.schema.classes
    parts = (site.counted, site.source, site.test)
    unit = site.steward.unit
    total = sum(part.height for part in parts)
    ones = 0
    if len(classes) == 2:
        ones = sum(int(encode_labels(part[site.steward.label], classes).sum()) for part in parts)
    return RecordCounts(
        curator=site.name,
        private=site.counted.height,
        held=site.private.height,
        source=site.source.height,
        test=site.test.height,
        positive=ones / total if len(classes) == 2 and total else None,
        units=site.counted[unit].n_unique() if unit in site.counted.columns else site.counted.height,
    )


def _roc(scores: ClinicalScores | None) -> RocCurve | None:
    if scores is None or scores.roc is None:
        return None
    # Rounding does not put a share outside of 0 to 1.
    return RocCurve(sensitivity=tuple(np.clip(scores.roc.at(np.asarray(GRID)), 0.0, 1.0).tolist()))


def agrees(estimated: float, low: float, high: float, accuracy: float, tested: int) -> bool:
    """Whether an interval for the population's accuracy agrees with an accuracy on `tested` >= 1 records.

    The accuracy on test records has a binomial error of its own. Each side of the interval (`low`, `high`, around
    `estimated`) is widened by that error, in quadrature. All values are in [0, 1].
    """
    return within(estimated, low, high, accuracy, np.sqrt(accuracy * (1.0 - accuracy) / tested))


def within(estimated: float, low: float, high: float, score: float, error: float) -> bool:
    """Like `agrees`, for any score with a standard error."""
    chance = float(norm.ppf(1.0 - LEVEL)) * error
    below, above = np.hypot(estimated - low, chance), np.hypot(high - estimated, chance)
    return bool(estimated - below <= score <= estimated + above)


def expected(
    estimate: AccuracyEstimate, accuracy: float, tested: int, scores: ClinicalScores | None = None
) -> Expected:
    """A learner's estimates in one repeat for a model of two classes, compared with the test records' scores."""
    area, error = (scores.auc, scores.auc_error) if scores else (None, None)
    auc = (estimate.auc, estimate.auc_low, estimate.auc_high)
    return Expected(
        value=estimate.accuracy,
        low=estimate.low,
        high=estimate.high,
        beats_majority=float(estimate.beats_majority),
        coverage=float(agrees(estimate.accuracy, estimate.low, estimate.high, accuracy, tested)),
        auc=estimate.auc,
        auc_low=estimate.auc_low,
        auc_high=estimate.auc_high,
        ranks=float(estimate.ranks),
        auc_coverage=None if area is None or error is None else float(within(*auc, area, error)),
    )


def expected_of_number(estimate: ErrorEstimate, labels: Floats, predicted: Floats) -> Expected | None:
    """A learner's estimates in one repeat for a numeric label; None without an R^2, or if all n labels are equal."""
    answers = Answers(labels, predicted)
    r2, (r2_error, absolute_error) = _score(answers), _number_errors(answers)
    if estimate.r2 is None or estimate.r2_low is None or estimate.r2_high is None or r2 is None or r2_error is None:
        return None
    absolute, low, high = estimate.absolute, estimate.absolute_low, estimate.absolute_high
    coverage = None
    if absolute is not None and low is not None and high is not None:
        coverage = float(within(absolute, low, high, float(np.mean(np.abs(labels - predicted))), absolute_error or 0.0))
    # Below -1 an interval says no more.
    agreement = within(estimate.r2, estimate.r2_low, estimate.r2_high, max(r2, -1.0), r2_error)
    return Expected(
        value=estimate.r2,
        low=estimate.r2_low,
        high=estimate.r2_high,
        beats_majority=float(estimate.r2_low > 0.0),
        coverage=float(agreement),
        absolute=absolute,
        absolute_low=low,
        absolute_high=high,
        absolute_coverage=coverage,
    )


def class_recall(
    name: str, members: NDArray[np.bool_], called: NDArray[np.bool_], estimate: Interval | None
) -> ClassRecall:
    """A class's recall in one repeat, beside the learner's estimate (None if its answers give none).

    `members` (n,) marks the class's test records; `called` (2, n) marks the predictions of model and regression.
    """
    tested = int(members.sum())
    recall, regression = (float(np.mean(row[members])) if tested else None for row in called)
    if estimate is None:
        return ClassRecall(name=name, recall=recall, regression=regression)
    value, low, high = estimate.value, estimate.low, estimate.high
    coverage = None if recall is None else float(agrees(value, low, high, recall, tested))
    return ClassRecall(
        name=name, recall=recall, regression=regression, expected=value, low=low, high=high, coverage=coverage
    )


def class_share(name: str, estimate: Prevalence, exact: float) -> ClassShare:
    """A class's share in one repeat: the estimate from the answers, and the exact share."""
    low, high = estimate.low, estimate.high
    coverage = float(low <= exact <= high)
    return ClassShare(name=name, share=exact, expected=estimate.share, low=low, high=high, coverage=coverage, repeats=1)
