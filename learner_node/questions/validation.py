"""Asks the curators how good a model is: one question for the class counts in bins of its score.

A validation is a study of its own, with plan, charge, receipts and transcripts like those of a fit. `score_question`
makes the question, `score_posterior` reads the answers, and `performance` computes and prints the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import msgspec
import polars as pl
from scipy.special import expit

from learner_node.kinds.counts import CountsAnswer, tightest
from learner_node.questions.score_question import (
    Agreement,
    as_hypothesis,
    bin_count,
    bin_means,
    probability_of,
    settled_thresholds,
    validation_bins,
)
from learner_node.scores.performance import (
    CalibrationBin,
    Floats,
    Interval,
    OperatingPoint,
    Performance,
    as_frame,
    calibration_rows,
    calibration_table,
    performance,
    point_rows,
    points_table,
)
from learner_node.scores.recalibration import Recalibration, recalibrate
from learner_node.scores.score_posterior import Bins, draw_counts
from learner_node.scores.thresholds import DEFAULT_THRESHOLDS, Rule, Threshold, read_thresholds
from learner_node.strategies.base import Problem, assumed_size, class_probabilities
from learner_node.study.budget import Budget
from learner_node.study.cards import population
from learner_node.study.decisions import decided
from learner_node.study.federation import Federation
from learner_node.study.learn import admit
from learner_node.study.plan import (
    agree,
    counts_limits,
    foreseen_refusals,
    nobody_left,
    over_caps,
    secure_pool,
    strangers,
)
from learner_node.study.pooling import SUMMED, Pooling
from learner_node.study.study import Study
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import CountsBody
from protocol.messages import Card
from protocol.partitions import ScoreBins
from protocol.plans import Plan
from protocol.query_kind import Kinds
from protocol.rationals import written
from protocol.records import Records
from protocol.schema import Schema

DRAWS = 1000
CLASSES = 2
FEWEST = 2
"""Fewest bins that a user may ask for."""


@dataclass(frozen=True)
class Validation:
    """The curators' answers about a model.

    Every interval is a central 95 % one, for the population of which the curators' records are a sample: it covers both
    the noise and the sampling.

    `hypothesis` was validated, and is what to use: `score_question.probability_of(hypothesis, records)` is its P(class
    1).
    """

    pooled: Performance  # of all curators that answered, together
    by_site: Mapping[str, Performance]  # empty where only their sum was opened
    curators: tuple[str, ...]  # whose records are counted in `pooled`
    hypothesis: Mlp
    agreement: Agreement | None  # of the hypothesis with the model that was passed; None where it is that model
    bins: ScoreBins  # what was asked
    positive: str  # name of class 1
    epsilon_claimed: Fraction  # exact cost of the question at the costliest curator
    epsilon_spent: Mapping[str, Fraction]  # curator -> exact epsilon that its receipts charge to this study
    left_out: Mapping[str, str]  # curators whose answers are not used -> why
    population: str  # which records count, in words; "" where each record is a privacy unit
    study: Study
    recalibration: Recalibration | None = None  # of the model that was passed, fitted to the same answers

    @property
    def auc(self) -> float:
        """Area under the ROC curve over all curators' records, posterior median."""
        return self.pooled.auc

    @property
    def auc_interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval of the area."""
        return self.pooled.auc_interval

    @property
    def prevalence(self) -> Interval:
        """Share of class 1, with its interval."""
        return self.pooled.prevalence

    @property
    def roc(self) -> Floats:
        """The ROC curve, as `Performance.roc`."""
        return self.pooled.roc

    @property
    def calibration(self) -> tuple[CalibrationBin, ...]:
        """Calibration by bin, as `Performance.calibration`."""
        return self.pooled.calibration

    def at(self, threshold: Threshold) -> OperatingPoint[Interval]:
        """The operating point at a threshold, as `Performance.at`."""
        return self.pooled.at(threshold)

    def to_frame(self) -> pl.DataFrame:
        """Operating points and their intervals, a row per threshold and site; site "" is all sites."""
        parts = {"": self.pooled, **self.by_site}
        return as_frame([row for name, part in parts.items() for row in point_rows(name, part)])

    def calibration_frame(self) -> pl.DataFrame:
        """Bins of the score, a row per bin and site; site "" is all sites."""
        parts = {"": self.pooled, **self.by_site}
        return as_frame([row for name, part in parts.items() for row in calibration_rows(name, part)])

    def to_text(self) -> str:
        """A text for people: areas, operating points, calibration, the hypothesis and the cost."""
        plural = "s" if len(self.curators) > 1 else ""
        who = f"{len(self.curators)} curator{plural}, about {self.pooled.records.value:.0f} records"
        lines = [
            f"Validation at epsilon {written(self.epsilon_claimed)} by {who}; 95 % intervals",
            f"  AUC {self.pooled.area}",
            f"  share of {self.positive!r} {self.prevalence}",
            f"{self.positive!r} is called where its probability is at or above the threshold:",
            *points_table(self.pooled),
            f"Calibration, probability of {self.positive!r}:",
            *calibration_table(self.pooled),
        ]
        if len(self.by_site) > 1:
            lines.append("By site:")
            lines += [
                f"  {name}: AUC {site.area}, share of {self.positive!r} {site.prevalence}"
                for name, site in self.by_site.items()
            ]
        if self.agreement is not None:
            lines.append(str(self.agreement))
        if self.recalibration is not None:
            lines.append(f"Recalibrated, fitted to these answers (no validation): {self.recalibration}.")
        if self.population:
            lines.append(f"Here {self.population}.")
        lines += [f"Left out: {name}: {why}." for name, why in self.left_out.items()]
        return "\n".join(lines)

    def __repr__(self) -> str:
        low, high = self.auc_interval
        return (
            f"<Validation at epsilon {written(self.epsilon_claimed)}: AUC {self.auc:.3f} ({low:.3f} to {high:.3f}), "
            f"{len(self.curators)} curators, {len(self.bins.edges) + 1} bins>"
        )


def validate(
    federation: Federation,
    model: Any,
    budget: Budget,
    *,
    source: pl.DataFrame | Callable[[Schema], Records] | None = None,
    thresholds: Sequence[Threshold] | None = None,
    bins: int | None = None,
    pooling: Pooling = SUMMED,
    recalibrated: bool = False,
    seed: int = 0,
) -> Validation:
    """Ask curators for the class counts in bins of a model's score: one question, sensitivity c, cost `budget.epsilon`.

    Args:
        federation: whom to ask, and how.
        model: a fitted `ExPriLClassifier`, a model of a study, or a network of the protocol (see `as_hypothesis`).
        budget: to spend, and the purpose.
        source: unlabelled records on which bins are drawn, or a function that encodes them for a schema. None takes the
            source of a fitted `ExPriLClassifier`.
        thresholds: of the operating points, see `scores.thresholds`. "prevalence" is the mean prediction on the source;
            "10%" is the threshold above which a tenth of the source lies. None is as many of `DEFAULT_THRESHOLDS` as
            the answers have room for.
        bins: number of bins, at least 2, including those of thresholds. With None, the rarer class has
            in each about three times as many records as the noise's deviation.
        pooling: "sum" and "site" also give each curator's results in `by_site`; with "secure" only the sum is opened.
        recalibrated: whether the answers also recalibrate the model, at no further cost.
        seed: seed of the learner's own random choices.

    Raises:
        NoCuratorError: no curator accepted and answered; the study is closed first.
        ConfigurationError: an argument, record or model does not fit; nothing has been charged.
    """
    rules = _checked(thresholds, bins)
    if hasattr(model, "to_validate"):
        model, training_source = model.to_validate()
        source = training_source if source is None else source
    if source is None:
        raise ConfigurationError("pass source, unlabelled records: the bins of the score are drawn on them")
    study = Study(federation)
    records, cards, left_out = admit(study, source)
    schema = records.schema
    if schema.label_bounds is not None or len(schema.classes) != CLASSES:
        there = "a number" if schema.label_bounds is not None else f"one of {len(schema.classes)} classes"
        raise ConfigurationError(f"validation is about two classes; the label {schema.label!r} is {there}")
    hypothesis, agreement = as_hypothesis(model, records, cards, seed=seed)
    request = _Request(
        hypothesis, agreement, records, budget.epsilon, rules, thresholds is not None, bins, seed, pooling
    )

    def settle(cards: Mapping[str, Card], left_out: Mapping[str, str]) -> _Question:
        return decided(federation.decided, _plan_question(study, request, cards, left_out))

    question = settle(cards, left_out)
    for name, reason in question.left_out.items():
        study.leave_out(name, reason)
    with study.closing():
        redraft = partial(settle, left_out={}) if pooling.secure else None
        question = agree(study, question, budget.words, redraft, cards)
        study.ask(dict.fromkeys(study.survivors, question.body))
    hypothesis = question.bins.hypothesis
    place = Bins.of(hypothesis.logits(records), question.bins.cells(records), len(question.bins.edges) + 1)
    answers = {} if pooling.secure else {name: study.pooled([name])[0] for name in study.survivors}
    reading = _Reading(question, place, bin_means(question.bins, records), seed)
    pooled: CountsAnswer = study.pooled(study.survivors)[0]
    return Validation(
        pooled=reading.of(pooled),
        by_site={name: reading.of(answer) for name, answer in answers.items()},
        curators=study.rounds[0].took_part or tuple(study.survivors),
        hypothesis=hypothesis,
        agreement=question.agreement,
        bins=question.bins,
        positive=schema.classes[1],
        epsilon_claimed=study.kinds.plan_cost(question.plan, question.most_records_per_unit),
        epsilon_spent={name: study.spent(name) for name in study.sessions},
        left_out=study.left_out,
        population=population({name: cards[name] for name in question.names}),
        study=study,
        recalibration=_recalibrated(model, pooled, question, records) if recalibrated else None,
    )


@dataclass(frozen=True)
class _Request:
    """The parts of the question that do not depend on the curators."""

    hypothesis: Mlp
    agreement: Agreement | None
    source: Records
    epsilon: Fraction
    rules: tuple[Rule, ...]
    all_rules: bool
    bins: int | None
    seed: int
    pooling: Pooling


class _Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question, its curators and noise, and the agreement between its hypothesis and the model."""

    rules: dict[float, str] = msgspec.field(name="asked")  # edge of the score -> the thresholds that ask for it
    body: CountsBody
    plan: Plan
    names: list[str]
    most_records_per_unit: int
    agreement: Agreement | None
    left_out: dict[str, str] = {}

    @property
    def bins(self) -> ScoreBins:
        """Bins of the hypothesis' score."""
        (bins,) = self.body.partitions
        if not isinstance(bins, ScoreBins):
            raise TypeError("a validation asks bins of a score")
        return bins


def _recalibrated(model: Any, answer: CountsAnswer, question: _Question, records: Records) -> Recalibration:
    """Recalibrate the given model's own risks, even if a distilled network was validated in its place."""
    bins = question.bins
    risks = (
        class_probabilities(model, records)[:, 1] if question.agreement else probability_of(bins.hypothesis, records)
    )
    law = {"scale": float(answer.scale), "noises": answer.noises, "design": float(question.most_records_per_unit)}
    return recalibrate(answer.values, risks, bins.cells(records), **law)


@dataclass(frozen=True)
class _Reading:
    """Turns answers into performance."""

    question: _Question
    place: Bins
    predicted: Floats
    seed: int

    def of(self, answer: CountsAnswer) -> Performance:
        """Performance by one answer or a sum of several. Errors of the constant "class 1" count class 0."""
        draws = draw_counts(
            answer.values,
            self.place,
            scale=float(answer.scale),
            noises=answer.noises,
            draws=DRAWS,
            seed=self.seed,
            design=float(self.question.most_records_per_unit),
        )
        edges = self.question.bins.edges
        rules = [self.question.rules.get(edge, "") for edge in edges]
        return performance(draws, [float(expit(edge)) for edge in edges], list(self.predicted), rules)


def _checked(thresholds: Sequence[Threshold] | None, bins: int | None) -> tuple[Rule, ...]:
    if bins is not None and (not isinstance(bins, int) or bins < FEWEST):
        raise ConfigurationError(f"bins is {bins!r}; it must be a whole number of at least {FEWEST}")
    return read_thresholds(DEFAULT_THRESHOLDS if thresholds is None else thresholds)


def _plan_question(
    study: Study, request: _Request, cards: Mapping[str, Card], left_out: Mapping[str, str]
) -> _Question:
    """The question for all curators that would not refuse it; the others join those left out."""
    remaining, left_out = dict(cards), dict(left_out)
    while remaining:
        if apart := strangers(request.pooling, remaining):
            left_out |= apart
            remaining = {name: card for name, card in remaining.items() if name not in apart}
            continue
        question = _question(request, remaining, study.kinds)
        plan, kinds = question.plan, study.kinds
        reasons = foreseen_refusals(plan, [question.body], remaining, kinds, study.readers)
        fit = {name: card for name, card in remaining.items() if name not in reasons}
        reasons |= over_caps(plan, fit, kinds)
        if not reasons:
            return msgspec.structs.replace(question, left_out=left_out)
        left_out |= reasons
        remaining = {name: card for name, card in remaining.items() if name not in reasons}
    raise nobody_left(left_out, "epsilon or the model")


def _question(request: _Request, cards: Mapping[str, Card], kinds: Kinds) -> _Question:
    size = assumed_size([card.round_size for card in cards.values()], len(request.source))
    most = max(card.most_records_per_unit for card in cards.values())
    limits = tightest([counts_limits(request.pooling, card, kinds) for card in cards.values()])
    pool = secure_pool(request.pooling, cards)
    problem = Problem(request.source, request.epsilon, len(cards), size, most, request.seed, limits, pool=pool)
    probability = probability_of(request.hypothesis, request.source)
    plan = problem.counts_plan([("error_correct", 1, Fraction(1))])
    count = request.bins or bin_count(
        probability,
        target_size=size,
        scale=float(problem.scale(1).fraction),
        noises=problem.noises,
        most=limits.cells,
    )
    rules = settled_thresholds(request.rules, probability, bins=None if request.all_rules else count)
    bins = validation_bins(request.hypothesis, request.source, count, rules)
    body = CountsBody(partitions=(bins,), hypothesis=Constant(predicted=1))
    return _Question(rules, body, plan, list(cards), most, request.agreement)
