"""What a run is worth: scores on test records, beside the best constant and what training in place would give.

Only the harness can compute these: it owns all records. A learner cannot, and prints none of them.
A label of classes is scored by accuracy, a number by R^2, the share of its variance that is explained.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from learner_node.models.synthetic import pooled_estimate
from learner_node.scores.clinical import ClinicalScores
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Threshold
from learner_node.strategies.base import (
    AnyModel,
    ClassesEstimate,
    NumberModel,
    SourceEstimate,
    class_probabilities,
)
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from protocol.record_frames import encode_labels
from simulations.clinical import binomial_error, clinical_fields, ranked
from simulations.expectations import class_recall, class_share, expected, expected_of_number
from simulations.records import SiteRecords, sites_of
from simulations.references import Answers, LabelledRecords, Reference, labelled, references
from simulations.repeats import Outcome, Repeat
from simulations.report.checks import LEAST_SCORE
from simulations.report.expected import ClassRecall, ClassShare, Expected
from simulations.report.model import Score

Labels = NDArray[Any]
"""(n,) class indices (uint8), or numbers (float64) within the label's bounds."""


@dataclass(frozen=True)
class Measure:
    """How a kind of label is scored.

    Attributes:
        name: of the score.
        constant: what the best constant is called in a sentence.
        further: a second score that is told beside it.
    """

    name: Literal["accuracy", "R²"]
    constant: str
    further: str


class RoundScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the model of a round scored; None where there is none, or no such score."""

    accuracy: float | None = None
    further: float | None = None
    auc: float | None = None
    average_precision: float | None = None
    brier: float | None = None


class RepeatScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a learner's models scored in a repeat on the test records of one site, or of all.

    Attributes:
        last: the score of the last model, and what the learner expected; with curves of all sites together.
        tested: records; 0 where there is no such model.
        rounds: of each round's model.
    """

    last: Score
    tested: int = 0
    rounds: tuple[RoundScore, ...] = ()


MAJORITY = "the majority class"
ACCURACY = Measure("accuracy", MAJORITY, "macro AUC")
EXPLAINED = Measure("R²", "the mean", "RMSE")
MEASURES: dict[str, Measure] = {measure.name: measure for measure in (ACCURACY, EXPLAINED)}


def measure_of(sites: Mapping[str, SiteRecords]) -> Measure:
    """How the sites' label is scored."""
    first = next(iter(sites.values()))
    return ACCURACY if first.steward.label_bounds is None else EXPLAINED


def answers_by_round(learned: Learned, sites: Mapping[str, SiteRecords]) -> list[dict[str, Answers]]:
    """Per round: site -> what the model of that round says of the test records.

    A round without a model, and a site without one, is left out.
    """
    rounds: list[dict[str, Answers]] = []
    tests = {name: labelled(site.test, site) for name, site in sites.items()}
    for number in range(max((len(models) for models in learned.models.values()), default=0)):
        found = {}
        for name, test in tests.items():
            models = learned.models.get(POOLED) or learned.models.get(name) or []
            model = models[number] if number < len(models) else None
            if model is not None:
                found[name] = _answers(model, test)
        rounds.append(found)
    return rounds


def score(answers: Mapping[str, Answers]) -> float | None:
    """Accuracy, or R^2, over all records of all sites; None where there is none."""
    return _over(answers, _score)


def further_score(answers: Mapping[str, Answers]) -> float | None:
    """Macro one-against-rest AUC of probabilities, or the root mean squared error in the label's units.

    None where there is none: no records, two classes only, no probabilities, or a test set that lacks a class.
    """
    return _over(answers, _further_score)


def score_repeat(
    repeat: Repeat, thresholds: Sequence[Threshold] = DEFAULT_THRESHOLDS
) -> Iterator[tuple[Outcome, dict[str, RepeatScore], Mapping[str, Answers]]]:
    """Score each learner of a repeat.

    Args:
        repeat: which.
        thresholds: of clinical scores.

    Yields:
        Its outcome; the scores by site, those of all sites together, "", first; and what its last model says of each
        site's test records.
    """
    own, pooled = references(repeat.sites)
    for outcome in repeat.outcomes:
        rounds = answers_by_round(outcome.learned, repeat.sites) if outcome.learned else []
        names, _ = sites_of(outcome.learner, repeat.sites)
        scores = {POOLED: _scored(POOLED, names, outcome, repeat, rounds, pooled, thresholds)}
        scores |= {name: _scored(name, [name], outcome, repeat, rounds, own, thresholds) for name in names}
        yield outcome, scores, rounds[-1] if rounds else {}


def _scored(
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
    ceiling = {name: reference[name].ceiling for name in names}
    whole, best = _joined(answered), _joined({name: ceiling[name] for name in answered})
    accuracy, tested = bounded(score(answered)), 0 if whole is None else len(whole.labels)
    found = ranked(whole, thresholds, _known_prevalence(outcome.learned, key))
    is_share = whole is not None and whole.labels.dtype.kind != "f"
    last = Score(
        accuracy=accuracy,
        accuracy_se=binomial_error(accuracy, tested) if accuracy is not None and is_share else None,
        majority=bounded(score({name: reference[name].majority for name in names})) or 0.0,
        ceiling=bounded(score(ceiling)) or 0.0,
        expected=_expected(key, outcome.learned, whole, accuracy, found),
        further=further_score(answered),
        further_ceiling=further_score(ceiling),
        absolute=_over(answered, _absolute),
        absolute_ceiling=_over(ceiling, _absolute),
        recalls=_recalls(outcome.learned, whole, best) if key == POOLED else (),
        shares=_shares(key, outcome, repeat.sites),
        **clinical_fields(found, ranked(best), curves=key == POOLED),
    )
    return RepeatScore(last, tested, tuple(map(_round_score, by_round)))


def bounded(value: float | None) -> float | None:
    """R^2 has no lower bound; a report has."""
    return value if value is None else max(value, LEAST_SCORE)


def _round_score(answered: Mapping[str, Answers]) -> RoundScore:
    found = ranked(_joined(answered))
    ranking = (found.auc, found.average_precision, found.brier) if found else ()
    return RoundScore(score(answered), further_score(answered), *ranking)


def _known_prevalence(learned: Learned | None, key: str) -> float | None:
    """The share of the positive class at a site as the learner knows it, or else at all of its sites."""
    estimates = learned.estimates if learned else {}
    own = estimates.get(key, estimates.get(POOLED))
    known = own or (pooled_estimate(list(estimates.values())) if estimates else None)
    return known.prevalence if isinstance(known, SourceEstimate) else None


def _expected(
    key: str, learned: Learned | None, whole: Answers | None, accuracy: float | None, found: ClinicalScores | None
) -> Expected | None:
    """What the learner expected of its last model, beside what that scored; None where its answers cannot tell."""
    if learned is None or whole is None:
        return None
    told, models = learned.estimates.get(key), learned.models.get(key, [])
    if isinstance(told, SourceEstimate) and told.accuracy is not None and accuracy is not None:
        return expected(told.accuracy, accuracy, len(whole.labels), found)
    if whole.labels.dtype.kind == "f" and models and isinstance(models[-1], NumberModel) and models[-1].error:
        return expected_of_number(models[-1].error, whole.labels, whole.predicted)
    return None


def _recalls(learned: Learned | None, whole: Answers | None, best: Answers | None) -> tuple[ClassRecall, ...]:
    """Each class's recall, where there are more than two, and what the learner expected of it."""
    if learned is None or whole is None or best is None or len(learned.schema.classes) <= 2:
        return ()
    estimate = learned.estimates.get(POOLED)
    told = (isinstance(estimate, ClassesEstimate) and estimate.recalls) or [None] * len(learned.schema.classes)
    said = np.stack([whole.predicted, best.predicted])
    return tuple(
        class_recall(name, whole.labels == number, said == number, own)
        for number, (name, own) in enumerate(zip(learned.schema.classes, told, strict=True))
    )


def _shares(key: str, outcome: Outcome, sites: Mapping[str, SiteRecords]) -> tuple[ClassShare, ...]:
    """What the answers told of each class's share, beside the share at the curators whose answers are in it."""
    told = outcome.learned.shares(key) if outcome.learned else {}
    if not told or outcome.learned is None or outcome.study is None:
        return ()
    heard = [key] if key != POOLED else outcome.study.rounds[-1].took_part or outcome.study.survivors
    schema = outcome.learned.schema
    labels = np.concatenate([encode_labels(sites[name].counted[schema.label], schema.classes) for name in heard])
    exact = {name: float(np.mean(labels == schema.classes.index(name))) for name in told}
    return tuple(class_share(name, own, exact[name]) for name, own in told.items())


def _over(answers: Mapping[str, Answers], rule: Callable[[Answers], float | None]) -> float | None:
    whole = _joined(answers)
    return None if whole is None else rule(whole)


def _joined(answers: Mapping[str, Answers]) -> Answers | None:
    """All sites' test records as one; None where there is none."""
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
    if answers.labels.dtype.kind != "f":
        return float(np.mean(answers.predicted == answers.labels))
    variance = float(np.var(answers.labels))
    if variance == 0.0:
        return None
    return 1.0 - float(np.mean((answers.predicted - answers.labels) ** 2)) / variance


def _absolute(answers: Answers) -> float | None:
    return float(np.mean(np.abs(answers.predicted - answers.labels))) if answers.labels.dtype.kind == "f" else None


def _further_score(answers: Answers) -> float | None:
    if answers.labels.dtype.kind == "f":
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
