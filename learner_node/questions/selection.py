"""Asks curators which of several models is best, through one holdout study.

The learner states the accuracy that it expects of each candidate. A curator answers "close", which costs nothing, or
ends an instance of its holdout and gives two noisy counts. A learner whose expectations are right thus confirms many
candidates for one instance. If its expectations are wrong, it learns the accuracy of one candidate per instance paid.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import polars as pl

from learner_node.kinds.holdout import HoldoutAnswer
from learner_node.questions.score_question import Agreement, as_hypothesis
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.study.budget import Budget
from learner_node.study.cards import complaint_about_cap, complaint_about_plan, complaint_about_question
from learner_node.study.decisions import Decide, decided
from learner_node.study.federation import Federation
from learner_node.study.learn import admit
from learner_node.study.study import NoCuratorError, Study
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant, Hypothesis
from protocol.kinds.holdout import CLASSES, MOST_RESOLUTION, HoldoutBody, PlannedHoldout
from protocol.messages import Card
from protocol.plans import Plan
from protocol.query_kind import Turn
from protocol.rationals import Rational, written
from protocol.records import Records
from protocol.schema import Schema

RESOLUTION = 1000
THRESHOLD_SHARE, COMPARISON_SHARE = Fraction(3, 10), Fraction(9, 20)
"""Shares of an instance's epsilon for the threshold and for the comparisons. Their ratio of about 1 to 2^(2/3) makes
comparisons most accurate (Lyu, Su and Li 2017, section 4.2). The rest, a quarter, is for the counts."""
FALSE_END = 0.1
"""Approximate chance that noise alone ends an instance under right expectations, with the default threshold."""


def plan_holdout(
    epsilon: Fraction,
    turns: int,
    answers: int,
    most_records_per_unit: int,
    *,
    resolution: int = RESOLUTION,
    threshold: int | None = None,
    stated: tuple[float, float] = (0.0, 1.0),
) -> PlannedHoldout:
    """Plan a holdout that costs at most `epsilon`, split equally between its instances.

    Args:
        epsilon: at a curator with this contribution bound.
        turns: most questions.
        answers: most instances.
        most_records_per_unit: contribution bound c.
        resolution: r, steps of an accuracy.
        threshold: T, in records. None takes the least at which noise alone, with right expectations, ends an instance
            of all questions with a chance of about `FALSE_END`.
        stated: the least and the largest accuracy that may be asked about. The nearer both are to 1/2, the less noise
            the same epsilon needs: of 0.3 to 0.7, 30 % less.

    Raises:
        ConfigurationError: a scale needs more than 32 bits, or the threshold or the range is out of range.
    """
    low, high = stated
    if not 0 <= low <= high <= 1:
        raise ConfigurationError(f"stated is {stated!r}; it must be two accuracies of 0 to 1, the smaller one first")
    least, most = math.floor(low * resolution), math.ceil(high * resolution)
    share, moved = epsilon / answers, max(most, resolution - least) * most_records_per_unit
    counts = 1 - THRESHOLD_SHARE - COMPARISON_SHARE
    scales = (
        moved / (share * THRESHOLD_SHARE),
        2 * moved / (share * COMPARISON_SHARE),
        most_records_per_unit / (share * counts),
    )
    if threshold is None:
        # Tails of a continuous Laplace law: exp(-t / scale) / 2 on one side.
        alarm = float(scales[0]) * math.log(1 / FALSE_END) + float(scales[1]) * math.log(turns / FALSE_END)
        threshold = math.ceil(alarm / resolution)
    try:
        first, second, third = (Rational.of(scale) for scale in scales)
        planned = PlannedHoldout(
            turns=turns,
            answers=answers,
            resolution=resolution,
            threshold=threshold,
            threshold_scale=first,
            comparison_scale=second,
            count_scale=third,
            least_estimate=least,
            most_estimate=None if most == resolution else most,
        )
    except ValueError:
        raise ConfigurationError(
            "epsilon, answers and resolution make scales of more than 32 bits; simplify them"
        ) from None
    if not isinstance(threshold, int) or not 0 <= threshold < 2**32:
        raise ConfigurationError(f"threshold is {threshold!r}; it must be a whole number of records, at least 0")
    return planned


ANSWERS = 2
"""Default number of instances."""
MARGIN = 0.1
"""By how much more than any candidate's expectation a site's may be, after its counts corrected it."""


@dataclass(frozen=True)
class Checked:
    """The curators' answers about one candidate."""

    name: str
    expected: float  # accuracy, before it is corrected for a site by the counts of earlier candidates
    close: Mapping[str, float]  # curator that found it close -> the accuracy that was stated there
    counts: Mapping[str, HoldoutAnswer]  # curator -> its noisy counts
    accuracy: float  # mean over curators, weighted by records: of their counts, or of what was stated and was close
    agreement: Agreement | None  # of the network that was asked about with the candidate; None if it is that

    def __str__(self) -> str:
        parts = [f"close to {stated:.3f} at {name}" for name, stated in self.close.items()]
        for name, answer in self.counts.items():
            share = answer.accuracy
            value = "too few records to tell" if share is None else f"{share:.3f}"
            parts.append(f"{value} at {name} ({answer.correct} of about {answer.records} records)")
        if self.agreement is not None:
            parts.append(f"asked of a network that agrees with it on {self.agreement.same_class:.1%} of the source")
        return f"{self.name}: expected {self.expected:.3f}, taken as {self.accuracy:.3f}; {'; '.join(parts)}"


@dataclass(frozen=True)
class Selection:
    """The best candidate by the curators' answers, the cost, and what is still unknown."""

    best: str  # name of the candidate of the highest accuracy, the first of equals
    model: Any  # it, as it was passed
    hypothesis: Hypothesis  # what the curators were asked about in its place
    checked: tuple[Checked, ...]  # candidates that were asked about, in order
    unchecked: tuple[str, ...]
    planned: PlannedHoldout
    tolerance: int  # records by which a "close" candidate may be off at one curator, about; noise adds to it or takes
    epsilon_claimed: Fraction  # exact cost of all instances at the costliest curator
    epsilon_spent: Mapping[str, Fraction]  # curator -> exact epsilon that its receipts charge to this study
    instances: Mapping[str, int]  # curator -> instances that ended there
    left_out: Mapping[str, str]  # curators that were not asked, or dropped out -> why
    study: Study

    @property
    def accuracy(self) -> float:
        """Accuracy of the best candidate; see `Checked.accuracy`."""
        return next(item.accuracy for item in self.checked if item.name == self.best)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Sentences on what this study does not tell."""
        sentences = []
        if self.unchecked:
            sentences.append(f"Nothing was asked of {', '.join(self.unchecked)}.")
        most = max(len(item.close) + len(item.counts) for item in self.checked)
        if fewer := [item.name for item in self.checked if len(item.close) + len(item.counts) < most]:
            sentences.append(f"{', '.join(fewer)}: not every curator was asked, so these figures are of other records.")
        if close := [item.name for item in self.checked if item.close]:
            sentences.append(
                f"Of {', '.join(close)} no number was released where it was close: there the expected number of "
                f"correct records may be off by about {self.tolerance} records of that curator, either way."
            )
        values = sorted((item.accuracy for item in self.checked), reverse=True)
        if len(values) > 1:
            sentences.append(
                f"The next candidate is {values[0] - values[1]:.3f} behind; a lead within tolerance and noise is none."
            )
        sentences.append("The best of several noisy figures is on average too high a figure for it.")
        return tuple(sentences)

    def to_text(self) -> str:
        """A text for people: the choice, each answer, the cost, and what is unknown."""
        charged = ", ".join(
            f"{name} {written(spent)} ({self.instances.get(name, 0)} of {self.planned.answers} instances ended)"
            for name, spent in self.epsilon_spent.items()
        )
        lines = [
            f"Best of {len(self.checked)} asked about: {self.best}, accuracy {self.accuracy:.3f}",
            *(f"  {item}" for item in self.checked),
            f"Epsilon charged, of at most {written(self.epsilon_claimed)}: {charged}",
            "Not known:",
            *(f"  {sentence}" for sentence in self.unknown),
            *(f"Left out: {name}: {why}." for name, why in self.left_out.items()),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Selection of {self.best!r} among {len(self.checked)} candidates, accuracy {self.accuracy:.3f}>"


def select(
    federation: Federation,
    candidates: Mapping[str, Any],
    budget: Budget,
    *,
    source: pl.DataFrame | Callable[[Schema], Records] | None = None,
    expected: Mapping[str, float | AccuracyEstimate] | None = None,
    answers: int | None = None,
    threshold: int | None = None,
    resolution: int = RESOLUTION,
    patience: int | None = None,
    seed: int = 0,
) -> Selection:
    """Ask curators about candidates, one question each, in one holdout study, and take the best.

    The plan states which accuracies may be asked about, as that lowers the noise: the expected ones and `MARGIN`, on
    both sides of 1/2. Where a site's counts correct an expectation to one outside, the nearer end is asked.

    Args:
        federation: whom to ask; their policies must allow the query kind `holdout`.
        candidates: name -> a fitted `ExPriLClassifier`, a model of two classes, or a hypothesis of the protocol. Models
            other than networks are distilled, see `score_question.as_hypothesis`.
        budget: of all instances together at the costliest curator, and the purpose. Unused instances are refunded.
        source: unlabelled records, or a function that encodes them for a schema. None takes the source of the first
            fitted estimator among the candidates.
        expected: name -> the expected accuracy in [0, 1], or its estimate. A fitted estimator has its own
            (`accuracy_estimate_`).
        answers: B, instances that a curator may end; each candidate with a wrong expectation uses one there. None is
            `ANSWERS`, or the number of candidates if that is smaller.
        threshold: T in records of one curator; None takes one that noise alone exceeds with a chance of about one
            tenth.
        resolution: r, steps of an accuracy.
        patience: None asks about all, the highest expected accuracy first. A number keeps the given order, such as of
            growing numbers of cells, and stops after so many consecutive candidates that do not beat the best before.
        seed: seed of the distillation.

    Raises:
        NoCuratorError: no curator accepted, or none answered a question.
        ConfigurationError: an argument, candidate or expectation does not fit; nothing has been charged.
    """
    expectations = _expectations(candidates, expected or {})
    count = len(expectations)
    answers = min(ANSWERS, count) if answers is None else answers
    _check_whole({"answers": (answers, count), "resolution": (resolution, MOST_RESOLUTION)})
    _check_whole({} if patience is None else {"patience": (patience, count)})
    study = Study(federation)
    records, cards, left_out = admit(study, _source_of(candidates) if source is None else source)
    _check_label(records.schema)
    questions = [
        _Candidate(name, expectations[name], *_network_of(model, records, cards, seed))
        for name, model in candidates.items()
    ]
    most = max((card.most_records_per_unit for card in cards.values()), default=1)
    between = _range_of(expectations.values())
    planned = plan_holdout(
        budget.epsilon, len(questions), answers, most, resolution=resolution, threshold=threshold, stated=between
    )
    bodies = [HoldoutBody(candidate.hypothesis, planned.estimates[1]) for candidate in questions]
    left_out |= _objections(study, Plan.of([planned]), bodies, cards)
    order = questions if patience is not None else sorted(questions, key=lambda candidate: -candidate.expected)
    start = decided(federation.decided, _Start(planned, order, left_out))
    planned, order, left_out = start.planned, start.order, start.left_out
    plan = Plan.of([planned])
    for name, reason in left_out.items():
        study.leave_out(name, reason)
    names = [name for name in cards if name not in left_out]
    if not names:
        raise study.nobody("no curator can be asked")
    inquiry = _Inquiry(study, federation.decided, planned, {name: card.round_size for name, card in cards.items()})
    with study.closing():
        study.propose(plan, budget.words, names)
        for candidate in order:
            if not inquiry.ask(candidate) or inquiry.stale(patience):
                break
    if not inquiry.checked:
        raise study.nobody("no curator answered a question")
    best = max(inquiry.checked, key=lambda item: item.accuracy)
    return Selection(
        best=best.name,
        model=candidates[best.name],
        hypothesis=next(candidate.hypothesis for candidate in order if candidate.name == best.name),
        checked=tuple(inquiry.checked),
        unchecked=tuple(candidate.name for candidate in order[len(inquiry.checked) :]),
        planned=planned,
        tolerance=planned.threshold,
        epsilon_claimed=study.kinds.plan_cost(plan, most),
        epsilon_spent={name: study.spent(name) for name in names},
        instances=dict(inquiry.ended),
        left_out={name: why for name, why in study.left_out.items() if name not in inquiry.used_up},
        study=study,
    )


class _Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A candidate's network and expected accuracy."""

    name: str
    expected: float
    hypothesis: Hypothesis
    agreement: Agreement | None


class _Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is computed before anything is asked: the plan, the ordered candidates, and the curators left out."""

    planned: PlannedHoldout
    order: list[_Candidate]
    left_out: dict[str, str]


class _Inquiry:
    """The questions so far, and the curators that can be asked the next one."""

    def __init__(self, study: Study, decide: Decide, planned: PlannedHoldout, sizes: Mapping[str, int | None]) -> None:
        self.checked: list[Checked] = []
        self.ended: dict[str, int] = {}  # curator -> instances that ended there
        self.used_up: set[str] = set()  # curators whose last instance has ended; they are asked nothing more
        self._study = study
        self._decide = decide
        self._planned = planned
        self._sizes = dict(sizes)
        self._off: dict[str, float] = {}
        self._alive: list[str] | None = None

    def ask(self, candidate: _Candidate) -> bool:
        """Ask about one candidate; returns False if no curator is left or none answered.

        If a curator's counts correct an expectation, the next expectations there are corrected by the same amount,
        since sites differ in much the same way for all candidates.
        """
        alive = self._study.survivors if self._alive is None else self._alive
        if not alive:
            return False
        expected = candidate.expected
        least, most = self._planned.estimates
        nearest = {who: round((expected + self._off.get(who, 0.0)) * self._planned.resolution) for who in alive}
        steps = {who: min(max(step, least), most) for who, step in nearest.items()}
        steps = decided(self._decide, steps, dict[str, int])
        bodies = {who: HoldoutBody(candidate.hypothesis, step) for who, step in steps.items()}
        try:
            answers = self._study.ask(bodies).answers
        except NoCuratorError:
            answers = dict(self._study.rounds[-1].answers) if self._study.rounds else {}
        if not answers:
            return False
        counts = {who: answer for who, answer in answers.items() if answer.releases}
        for who, answer in counts.items():
            self.ended[who] = self.ended.get(who, 0) + 1
            self._sizes[who] = max(answer.records, 1)
            self._off[who] = 0.0 if answer.accuracy is None else answer.accuracy - expected
        self.used_up |= {who for who, answer in counts.items() if answer.last}
        self._alive = [who for who in answers if who not in self.used_up]
        values = [float(answer.estimate) if answer.accuracy is None else answer.accuracy for answer in answers.values()]
        accuracy = float(np.average(values, weights=[self._size(who) for who in answers]))
        close = {who: float(answer.estimate) for who, answer in answers.items() if answer.close}
        self.checked.append(Checked(candidate.name, expected, close, counts, accuracy, candidate.agreement))
        return True

    def stale(self, patience: int | None) -> bool:
        """Whether none of the last `patience` candidates beat the best before them."""
        if patience is None or len(self.checked) <= patience:
            return False
        values = [item.accuracy for item in self.checked]
        return decided(self._decide, max(values[-patience:]) <= max(values[:-patience]))

    def _size(self, name: str) -> int:
        """A curator's number of records: its noisy count, else its card's declaration, else one."""
        return self._sizes[name] or 1


def _range_of(expected: Collection[float]) -> tuple[float, float]:
    """The accuracies that may be asked about: the expected ones and `MARGIN`, on both sides of 1/2."""
    reach = min(1.0, max(max(share, 1 - share) for share in expected) + MARGIN)
    return 1 - reach, reach


def _expectations(candidates: Mapping[str, Any], expected: Mapping[str, float | AccuracyEstimate]) -> dict[str, float]:
    """The expected accuracy of each candidate."""
    if not candidates:
        raise ConfigurationError("give at least one candidate")
    if strange := [name for name in expected if name not in candidates]:
        raise ConfigurationError(f"expected names no candidate: {', '.join(map(repr, strange))}")
    accuracies = {}
    for name, model in candidates.items():
        value = expected.get(name, getattr(model, "accuracy_estimate_", None))
        share = value.accuracy if isinstance(value, AccuracyEstimate) else value
        if share is None:
            raise ConfigurationError(f"candidate {name!r} brings no estimate of its accuracy: say it in expected")
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigurationError(f"the expected accuracy of {name!r} is {share!r}; it must lie between 0 and 1")
        accuracies[name] = float(share)
    return accuracies


def _source_of(candidates: Mapping[str, Any]) -> pl.DataFrame:
    for model in candidates.values():
        if hasattr(model, "to_validate"):
            source: pl.DataFrame = model.to_validate()[1]
            return source
    raise ConfigurationError("pass source, unlabelled records: candidates are distilled on them")


def _network_of(
    model: Any, records: Records, cards: Mapping[str, Card], seed: int
) -> tuple[Hypothesis, Agreement | None]:
    if hasattr(model, "to_validate"):
        model = model.to_validate()[0]
    if isinstance(model, Constant):
        return model, None
    return as_hypothesis(model, records, cards, seed=seed)


def _check_label(schema: Schema) -> None:
    if schema.label_bounds is not None or len(schema.classes) != CLASSES:
        there = "a number" if schema.label_bounds is not None else f"one of {len(schema.classes)} classes"
        raise ConfigurationError(f"a holdout is about two classes; the label {schema.label!r} is {there}")


def _check_whole(numbers: Mapping[str, tuple[Any, int]]) -> None:
    for name, (value, most) in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise ConfigurationError(f"{name} is {value!r}; it must be a whole number from 1 to {most}")


def _objections(study: Study, plan: Plan, bodies: Sequence[HoldoutBody], cards: Mapping[str, Card]) -> dict[str, str]:
    """Curators that would refuse the plan or a question -> why."""

    def complaints(card: Card) -> Iterator[str]:
        yield complaint_about_plan(plan, card, study.kinds)
        yield complaint_about_cap(plan, card, study.kinds)
        planned = study.kinds.query(plan, 0)
        for number, body in enumerate(bodies):
            yield complaint_about_question(body, Turn(planned, 0, number), card, study.kinds)

    reasons = {name: next(filter(None, complaints(card)), "") for name, card in cards.items()}
    return {name: f"it would refuse this study: {reason}" for name, reason in reasons.items() if reason}
