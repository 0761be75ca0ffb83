"""What a run is worth: scores on test records, beside the best constant and what training in place would give.

Only the harness can compute these: it owns all records. A learner cannot, and prints none of them.
A label of classes is scored by accuracy, a number by R^2, the share of its variance that is explained.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

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
from simulations.expectations import NumberScores, RecallScores, ShareScores
from simulations.federation import Outcome, Repeat
from simulations.ranked import Ranked, RankedTally, ranked
from simulations.records import SiteRecords, sites_of
from simulations.references import Answers, LabelledRecords, Reference, labelled, references
from simulations.report.clinical_model import Part
from simulations.report.validated import ValidationReport
from simulations.spending import ALL, Cost, costs_of

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


@dataclass
class Tally:
    """What all repeats of one learner gave; the key "" stands for all sites together.

    `expected` has (estimate, accuracy, test records), `ranking` (estimate, AUC, its standard error) of each repeat;
    `costs` the most of each study in any repeat, and of all;
    `failures` the repeats in which a study brought nothing, and why.
    `absolute` is a number's mean absolute error, `errors` what was told of it; `recalls` are of more than two classes;
    `shares` what the answers told of the classes' shares.
    """

    accuracy: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    majority: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ceiling: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    further: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    further_ceiling: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    tested: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    expected: dict[str, list[tuple[AccuracyEstimate, float, int]]] = field(default_factory=lambda: defaultdict(list))
    curve: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    thresholds: tuple[Threshold, ...] = DEFAULT_THRESHOLDS
    ranked: dict[str, RankedTally] = field(default_factory=lambda: defaultdict(RankedTally))
    ranking: dict[str, list[tuple[AccuracyEstimate, float, float]]] = field(default_factory=lambda: defaultdict(list))
    costs: dict[str, Cost] = field(default_factory=dict)
    failures: dict[str, dict[int, str]] = field(default_factory=dict)
    absolute: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    absolute_ceiling: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: dict[str, list[tuple[ErrorEstimate, NumberScores]]] = field(default_factory=lambda: defaultdict(list))
    recalls: list[RecallScores] = field(default_factory=list)
    shares: dict[str, list[ShareScores]] = field(default_factory=lambda: defaultdict(list))
    classes: tuple[str, ...] = ()
    outcomes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    validations: list[ValidationReport] = field(default_factory=list)


MAJORITY = "the majority class"
ACCURACY = Measure("accuracy", MAJORITY, "macro AUC")
EXPLAINED = Measure("R²", "the mean", "RMSE")


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
) -> Ranked | None:
    """Clinical scores over all records of all sites; None where there are not two classes, or no probabilities."""
    whole = _joined(answers)
    return None if whole is None else ranked(whole.labels, whole.probabilities, thresholds, prevalence)


def tally_repeat(
    tallies: Mapping[str, Tally], repeat: Repeat, said: dict[str, Mapping[str, Answers]] | None = None
) -> list[dict[str, Any]]:
    """Add a repeat to its learners' tallies.

    Args:
        tallies: of the learners, by name.
        repeat: to add.
        said: where given, it is filled: learner -> site -> what its last model says of the site's test records.

    Returns:
        One row per learner, round and site, for the metrics file; the curator "" stands for all sites together.
    """
    own, pooled = references(repeat.sites)
    rows: list[dict[str, Any]] = []
    for outcome in repeat.outcomes:
        final = _tally(tallies[outcome.learner.name], outcome, repeat, own, pooled, rows)
        if said is not None:
            said[outcome.learner.name] = final
    return rows


def _tally(
    tally: Tally,
    outcome: Outcome,
    repeat: Repeat,
    own: Mapping[str, Reference],
    pooled: Mapping[str, Reference],
    rows: list[dict[str, Any]],
) -> Mapping[str, Answers]:
    """Add one learner's repeat to its tally and to the rows; what its last model says of each site's test records."""
    learner = outcome.learner
    costs = costs_of(outcome, repeat)
    for what, cost in costs.items():
        tally.costs[what] = cost.at_most(tally.costs.get(what, Cost()))
    for what, why in outcome.failures.items():
        tally.failures.setdefault(what, {})[repeat.number] = why
    if outcome.study is not None and not tally.outcomes:
        tally.outcomes = {name: tuple(said) for name, said in outcome.study.outcomes.items()}
        tally.left_out = outcome.study.left_out
    rounds = answers_by_round(outcome.learned, repeat.sites) if outcome.learned else []
    final = rounds[-1] if rounds else {}
    names, _ = sites_of(learner, repeat.sites)
    keys = {POOLED: names, **{name: [name] for name in names}}
    for key, chosen in keys.items():
        reference = pooled if key == POOLED else own
        answered = {name: final[name] for name in chosen if name in final}
        accuracy = score(answered)
        if accuracy is not None:
            tested = sum(len(answers.labels) for answers in answered.values())
            tally.accuracy[key].append(accuracy)
            tally.tested[key] += tested
            estimate = outcome.learned.estimates.get(key) if outcome.learned else None
            if isinstance(estimate, SourceEstimate) and estimate.accuracy is not None:
                tally.expected[key].append((estimate.accuracy, accuracy, tested))
        ceiling = {name: reference[name].ceiling for name in chosen}
        _tally_numbers(tally, key, outcome.learned, answered, ceiling)
        if key == POOLED:
            _tally_recalls(tally, outcome.learned, answered, ceiling)
        _tally_shares(tally, key, outcome, repeat.sites)
        _tally_ranked(tally, key, outcome, answered, ceiling)
        tally.majority[key].append(score({name: reference[name].majority for name in chosen}) or 0.0)
        tally.ceiling[key].append(score(ceiling) or 0.0)
        for values, answers in ((tally.further[key], answered), (tally.further_ceiling[key], ceiling)):
            further = further_score(answers)
            if further is not None:
                values.append(further)
    for round_, correct in enumerate(rounds, start=1):
        for key, chosen in keys.items():
            answered = {name: correct[name] for name in chosen if name in correct}
            accuracy, ranking = score(answered), ranked_score(answered)
            if key == POOLED and accuracy is not None:
                tally.curve[round_].append(accuracy)
            if ranking is not None and ranking.auc is not None:
                tally.ranked[key].by_round.setdefault(round_, []).append(ranking.auc)
            rows.append(
                {
                    "repeat": repeat.number,
                    "learner": learner.name,
                    "strategy": learner.strategy,
                    "round": round_,
                    "curator": key,
                    "accuracy": accuracy,
                    "majority": tally.majority[key][-1],
                    "ceiling": tally.ceiling[key][-1],
                    "further": further_score(answered),
                    "auc": ranking and ranking.auc,
                    "average_precision": ranking and ranking.average_precision,
                    "brier": ranking and ranking.brier,
                    "epsilon_claimed": str(costs[ALL].claimed),
                    "epsilon_spent": str(costs[ALL].spent),
                }
            )
    return final


def _tally_ranked(
    tally: Tally, key: str, outcome: Outcome, answered: Mapping[str, Answers], ceiling: Mapping[str, Answers]
) -> None:
    """Add the clinical scores of the last model, and of the ceiling on the same records."""
    estimates = outcome.learned.estimates if outcome.learned else {}
    own = estimates.get(key, estimates.get(POOLED))
    known = own or (pooled_estimate(list(estimates.values())) if estimates else None)
    told = known.prevalence if isinstance(known, SourceEstimate) else None
    found = ranked_score(answered, tally.thresholds, told)
    best = ranked_score({name: ceiling[name] for name in answered})
    if found is not None:
        tally.ranked[key].model.append(found)
    if best is not None:
        tally.ranked[key].ceiling.append(best)
    estimate = estimates.get(key)
    if found is None or found.auc is None or found.auc_error is None:
        return
    if isinstance(estimate, SourceEstimate) and estimate.accuracy is not None:
        tally.ranking[key].append((estimate.accuracy, found.auc, found.auc_error))


def _tally_numbers(
    tally: Tally, key: str, learned: Learned | None, answered: Mapping[str, Answers], ceiling: Mapping[str, Answers]
) -> None:
    """Add the absolute error of a number, and what the curators told of the model's errors."""
    for values, answers in ((tally.absolute[key], answered), (tally.absolute_ceiling[key], ceiling)):
        whole = _joined(answers)
        if whole is not None and whole.labels.dtype.kind == "f":
            values.append(float(np.mean(np.abs(whole.predicted - whole.labels))))
    whole, models = _joined(answered), [] if learned is None else learned.models.get(key, [])
    if whole is None or whole.labels.dtype.kind != "f" or not models or not isinstance(models[-1], NumberModel):
        return
    scores = NumberScores.of(whole.labels, whole.predicted)
    if models[-1].error is not None and scores is not None:
        tally.errors[key].append((models[-1].error, scores))


def _tally_recalls(
    tally: Tally, learned: Learned | None, answered: Mapping[str, Answers], ceiling: Mapping[str, Answers]
) -> None:
    """Add each class's recall, where there are more than two, and what the learner expected of it."""
    whole, best = _joined(answered), _joined({name: ceiling[name] for name in answered})
    if learned is None or whole is None or best is None or len(learned.schema.classes) <= 2:
        return
    tally.classes = learned.schema.classes
    estimate = learned.estimates.get(POOLED)
    of_class = [whole.labels == number for number in range(len(tally.classes))]

    def recalled(said: Answers) -> tuple[float, ...]:
        both = enumerate(of_class)
        return tuple(float(np.mean(said.predicted[own] == n)) if own.any() else float("nan") for n, own in both)

    told = estimate.recalls if isinstance(estimate, ClassesEstimate) else None
    tested = tuple(int(own.sum()) for own in of_class)
    tally.recalls.append(RecallScores(recalled(whole), tested, recalled(best), told))


def _tally_shares(tally: Tally, key: str, outcome: Outcome, sites: Mapping[str, SiteRecords]) -> None:
    """Add what the answers told of each class's share, beside the share at the curators whose answers are in it."""
    told = outcome.learned.shares(key) if outcome.learned else {}
    if not told or outcome.learned is None or outcome.study is None:
        return
    heard = [key] if key != POOLED else outcome.study.rounds[-1].took_part or outcome.study.survivors
    schema = outcome.learned.schema
    labels = np.concatenate([encode_labels(sites[name].counted[schema.label], schema.classes) for name in heard])
    exact = {name: float(np.mean(labels == schema.classes.index(name))) for name in told}
    tally.shares[key].append(ShareScores(dict(told), exact))


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
