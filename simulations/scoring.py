"""What a run is worth: scores on test records, beside the best constant and what training in place would give.

Only the harness can compute these: it owns all records. A learner cannot, and prints none of them.
A label of classes is scored by accuracy, a number by R^2, the share of its variance that is explained.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from learner_node.clinical import ClinicalScores
from learner_node.learn import Learned
from learner_node.pooling import POOLED
from learner_node.strategies.base import (
    AnyModel,
    ClassesEstimate,
    ErrorEstimate,
    NumberModel,
    SourceEstimate,
    class_probabilities,
)
from learner_node.synthetic import pooled_estimate
from learner_node.thresholds import DEFAULT_THRESHOLDS, Threshold
from learner_node.uncertainty import AccuracyEstimate
from protocol.record_frames import encode_labels
from simulations.clinical import ranked
from simulations.expectations import NumberScores, RecallScores, ShareScores
from simulations.federation import Outcome, Repeat
from simulations.records import SiteRecords, sites_of
from simulations.references import Answers, LabelledRecords, Reference, labelled, references

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


class RepeatScore(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a learner's last model scored in a repeat on the test records of one site, or of all, and what it expected.

    Attributes:
        majority, ceiling: scores of the best constant, and of the non-private model.
        accuracy: of the model; None where there is none, or no record.
        tested: records.
        rounds: of each round's model.
        further, further_ceiling: a second score, see `further_score`.
        absolute, absolute_ceiling: mean absolute error of a number.
        estimate: what the learner expects of a model of two classes.
        numbers: what was told of a number's errors, and what they are.
        recalls: of more than two classes, of all sites together.
        shares: what the answers told of the classes' shares.
        ranked, ranked_ceiling: clinical scores on the same records; with ROC curves of all sites together.
    """

    majority: float
    ceiling: float
    accuracy: float | None = None
    tested: int = 0
    rounds: tuple[RoundScore, ...] = ()
    further: float | None = None
    further_ceiling: float | None = None
    absolute: float | None = None
    absolute_ceiling: float | None = None
    estimate: AccuracyEstimate | None = None
    numbers: tuple[ErrorEstimate, NumberScores] | None = None
    recalls: RecallScores | None = None
    shares: ShareScores | None = None
    ranked: ClinicalScores | None = None
    ranked_ceiling: ClinicalScores | None = None


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


def ranked_score(
    answers: Mapping[str, Answers], thresholds: Sequence[Threshold] = (), prevalence: float | None = None
) -> ClinicalScores | None:
    """Clinical scores over all records of all sites; None where there are not two classes, or no probabilities."""
    whole = _joined(answers)
    return None if whole is None else ranked(whole.labels, whole.probabilities, thresholds, prevalence)


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
    accuracy = score(answered)
    told = outcome.learned.estimates.get(key) if outcome.learned else None
    found = ranked_score(answered, thresholds, _known_prevalence(outcome.learned, key))
    best = ranked_score({name: ceiling[name] for name in answered})
    if key != POOLED:  # a page has no curves of single sites
        found, best = (one and replace(one, roc=None) for one in (found, best))
    return RepeatScore(
        majority=score({name: reference[name].majority for name in names}) or 0.0,
        ceiling=score(ceiling) or 0.0,
        accuracy=accuracy,
        tested=0 if accuracy is None else sum(len(answers.labels) for answers in answered.values()),
        rounds=tuple(map(_round_score, by_round)),
        further=further_score(answered),
        further_ceiling=further_score(ceiling),
        absolute=_over(answered, _absolute),
        absolute_ceiling=_over(ceiling, _absolute),
        estimate=told.accuracy if isinstance(told, SourceEstimate) else None,
        numbers=_numbers(key, outcome.learned, answered),
        recalls=_recalls(outcome.learned, answered, ceiling) if key == POOLED else None,
        shares=_shares(key, outcome, repeat.sites),
        ranked=found,
        ranked_ceiling=best,
    )


def _round_score(answered: Mapping[str, Answers]) -> RoundScore:
    found = ranked_score(answered)
    ranking = (found.auc, found.average_precision, found.brier) if found else ()
    return RoundScore(score(answered), further_score(answered), *ranking)


def _known_prevalence(learned: Learned | None, key: str) -> float | None:
    """The share of the positive class at a site as the learner knows it, or else at all of its sites."""
    estimates = learned.estimates if learned else {}
    own = estimates.get(key, estimates.get(POOLED))
    known = own or (pooled_estimate(list(estimates.values())) if estimates else None)
    return known.prevalence if isinstance(known, SourceEstimate) else None


def _numbers(
    key: str, learned: Learned | None, answered: Mapping[str, Answers]
) -> tuple[ErrorEstimate, NumberScores] | None:
    """What the curators told of the errors of a model of a number, and what they are."""
    whole, models = _joined(answered), [] if learned is None else learned.models.get(key, [])
    if whole is None or whole.labels.dtype.kind != "f" or not models or not isinstance(models[-1], NumberModel):
        return None
    told, scores = models[-1].error, NumberScores.of(whole.labels, whole.predicted)
    return None if told is None or scores is None else (told, scores)


def _recalls(
    learned: Learned | None, answered: Mapping[str, Answers], ceiling: Mapping[str, Answers]
) -> RecallScores | None:
    """Each class's recall, where there are more than two, and what the learner expected of it."""
    whole, best = _joined(answered), _joined({name: ceiling[name] for name in answered})
    if learned is None or whole is None or best is None or len(learned.schema.classes) <= 2:
        return None
    estimate = learned.estimates.get(POOLED)
    of_class = [whole.labels == number for number in range(len(learned.schema.classes))]

    def recalled(said: Answers) -> tuple[float | None, ...]:
        both = enumerate(of_class)
        return tuple(float(np.mean(said.predicted[own] == number)) if own.any() else None for number, own in both)

    told = estimate.recalls if isinstance(estimate, ClassesEstimate) else None
    tested = tuple(int(own.sum()) for own in of_class)
    return RecallScores(learned.schema.classes, recalled(whole), tested, recalled(best), told)


def _shares(key: str, outcome: Outcome, sites: Mapping[str, SiteRecords]) -> ShareScores | None:
    """What the answers told of each class's share, beside the share at the curators whose answers are in it."""
    told = outcome.learned.shares(key) if outcome.learned else {}
    if not told or outcome.learned is None or outcome.study is None:
        return None
    heard = [key] if key != POOLED else outcome.study.rounds[-1].took_part or outcome.study.survivors
    schema = outcome.learned.schema
    labels = np.concatenate([encode_labels(sites[name].counted[schema.label], schema.classes) for name in heard])
    exact = {name: float(np.mean(labels == schema.classes.index(name))) for name in told}
    return ShareScores(dict(told), exact)


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
