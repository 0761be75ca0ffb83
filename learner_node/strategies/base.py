"""What a strategy is: `answers = yield body, model`, from the first question to the last model."""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from types import GenericAlias
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from learner_node.models.codec import pack, unpack
from learner_node.models.label_model import MOST_CELLS, cell_count_rule
from learner_node.models.networks import TrainedNetwork, TrainingSet, train_networks
from learner_node.models.source import affordable_cells, standardising_map
from learner_node.models.training_options import TrainingOptions
from learner_node.scores.estimates import AccuracyEstimate
from learner_node.scores.performance import Interval
from learner_node.scores.prevalence import Prevalence
from learner_node.study.decisions import Decide, as_found, decided
from learner_node.study.pooling import SecurePool
from protocol.errors import ConfigurationError
from protocol.kinds.counts import CountsLimits, PlannedCounts
from protocol.kinds.secure_counts import TURNS, PlannedSecureCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.records import Records

Trainer = Callable[[TrainingSet, TrainingOptions], TrainedNetwork]
"""Trains one network; a simulation may train those of several studies together."""


def train_alone(data: TrainingSet, options: TrainingOptions) -> TrainedNetwork:
    """The trainer of an ordinary study."""
    return train_networks([data], options)[0]


def assumed_size(round_sizes: Sequence[int | None], source_size: int) -> int:
    """Private records at some curators: their declared sizes, or else the source's size."""
    return sum(size or source_size for size in round_sizes)


@dataclass(frozen=True)
class Willing:
    """What the curators of a study take on, as their cards say."""

    # for one record in one question, in the unit of `protocol.limits`, at the least willing of them
    work: float = math.inf
    selects: bool = False  # whether all of them choose attributes (`features` of the query kind `statistic`)
    records: float | None = None  # at one of them, about: the mean of their declared sizes; None where nothing is known


UNWILLING = Willing()
"""Curators that only count, without a limit on work."""


@dataclass(frozen=True)
class Problem:
    """What a strategy may know before it asks; nothing here comes from a private record."""

    source: Records  # the learner's encoded records
    epsilon: Fraction  # to spend at each curator, exact
    sites: int  # curators whose answers are summed
    target_size: int  # private records at all of them together, see `assumed_size`
    most_records_per_unit: int  # the largest contribution bound c among them
    seed: int  # of the learner's own random choices (k-means, networks)
    limits: CountsLimits = field(default_factory=CountsLimits)  # the tightest of the curators' cards
    train: Trainer = train_alone  # trains the networks of strategies that have any
    pool: SecurePool | None = None  # of these curators, where they sum securely; None: each adds noise of its own
    # what the curators of the whole study do beyond counting, and how much; the same for all its groups
    willing: Willing = UNWILLING

    def records_at(self, sites: int) -> float:
        """Private records at the curators that answered, so many, from the declared sizes."""
        return self.target_size * sites / self.sites

    @property
    def noises(self) -> float:
        """Number of noises in each pooled number, if all curators answer: not always whole, where they sum securely."""
        return self.sites / self.pool.shares if self.pool else self.sites

    def scale(self, partitions: int, share: Fraction = Fraction(1)) -> Rational:
        """Scale of queries of `partitions` in all that cost exactly `share` of `epsilon` (Eq. 14).

        Raises ConfigurationError: it needs more than 32 bits.
        """
        exact = Fraction(self.most_records_per_unit * partitions) / (share * self.epsilon)
        try:
            return Rational.of(exact)
        except ValueError:
            raise ConfigurationError(
                f"epsilon {self.epsilon} needs a noise scale of {exact}, more than 32 bits; "
                f"choose a rounder one, such as {self.epsilon.limit_denominator(1000) or Fraction(1, 1000)}"
            ) from None

    def counts_plan(self, questions: Sequence[tuple[str, int, Fraction]], *, steps: int = 1) -> Plan:
        """Queries of (release, partitions, share of `epsilon`); see `scale`.

        Args:
            questions: in the order in which they are asked.
            steps: into which the range of a numeric label is divided.
        """
        planned = [
            PlannedCounts(
                release=release, partitions=partitions, scale=self.scale(partitions * steps, share), steps=steps
            )
            for release, partitions, share in questions
        ]
        return Plan.of(planned if self.pool is None else (self._summed(query, self.pool) for query in planned))

    @staticmethod
    def _summed(planned: PlannedCounts, pool: SecurePool) -> PlannedSecureCounts:
        """The same query of curators that sum securely."""
        return PlannedSecureCounts(
            release=planned.release,
            partitions=planned.partitions,
            scale=planned.scale,
            steps=planned.steps,
            turns=TURNS,
            participants=pool.participants,
            colluders=pool.colluders,
            dropouts=pool.dropouts,
        )

    def epsilon_per_record(self, share: Fraction = Fraction(1), partitions: int = 1) -> float:
        """Epsilon for one record in each of `partitions` that are asked together, out of `share` of `epsilon`."""
        return float(share * self.epsilon / (self.most_records_per_unit * partitions))

    def cell_rule(self, epsilon: float, *, signed: bool = False, most: int = MOST_CELLS) -> int:
        """`cell_count_rule` for this problem's sizes, and for the work that its curators take on.

        Args:
            epsilon: that of one partition for one record.
            signed: whether counts are signed.
            most: cells at most.
        """
        most = min(most, affordable_cells(standardising_map(self.source), self.willing.work))
        return cell_count_rule(len(self.source), self.target_size, epsilon, self.noises, signed=signed, most=most)


class Model(Protocol):
    """A learnt classifier of two classes."""

    def probability(self, records: Records) -> NDArray[np.float64]:
        """P(class 1) for each record: (n,) in [0, 1]."""


@runtime_checkable
class ClassesModel(Protocol):
    """A learnt classifier of any number of classes."""

    def probabilities(self, records: Records) -> NDArray[np.float64]:
        """Class probabilities of each record: (n, C), rows adding up to 1."""


@dataclass(frozen=True)
class ErrorEstimate:
    """What the curators said about a model's error, with 95 % intervals."""

    # estimated mean squared error over the private records, in squared units of the label; squared errors above `most`
    # count as `most`
    value: float
    low: float  # low, high: ends of its interval
    high: float
    most: float  # the largest squared error that was counted
    # estimated mean absolute error, in units of the label, counted as far as the root of `most`. This and its interval
    # are None where the curators allow no question about it.
    absolute: float | None = None
    absolute_low: float | None = None  # absolute_low, absolute_high: ends of its interval
    absolute_high: float | None = None
    # estimated share of the labels' variance that the model explains, at most 1. This and its interval are None in
    # files of earlier versions.
    r2: float | None = None
    r2_low: float | None = None  # r2_low, r2_high: ends of its interval; -1 stands for whatever is less
    r2_high: float | None = None


@runtime_checkable
class NumberModel(Protocol):
    """A learnt regressor."""

    @property
    def error(self) -> ErrorEstimate | None:
        """What the curators said about its error; None where they were not asked."""

    def predict_number(self, records: Records) -> NDArray[np.float64]:
        """Predicted label of each record: (n,) within the label's bounds, in its units."""


AnyModel = Model | ClassesModel | NumberModel
"""Of two classes, of several, or of a number: as the schema's label is."""


def class_probabilities(model: AnyModel, records: Records) -> NDArray[np.float64]:
    """Class probabilities of any classifier: (n, C) in the order of the schema's classes, rows adding up to 1.

    Raises TypeError: the model predicts a number.
    """
    if isinstance(model, ClassesModel):
        return model.probabilities(records)
    if isinstance(model, NumberModel):
        raise TypeError("a model of a number has no class probabilities")
    positive = model.probability(records)
    return np.column_stack([1.0 - positive, positive])


@dataclass(frozen=True)
class SourceEstimate:
    """What the answers say about the source records: the weighted synthetic data set."""

    weights: NDArray[np.float64]  # (n,) non-negative; private records that each source record stands for
    probability: NDArray[np.float64]  # (n,) P(class 1)
    # what the model may be expected to score on records like the private ones; None where the strategy's answers cannot
    # tell
    accuracy: AccuracyEstimate | None = None
    # share of class 1 as the answers' totals tell it; None where the strategy does not read them so
    counted: Prevalence | None = None

    @property
    def prevalence(self) -> float | None:
        """The model's mean probability of class 1 over the private records; None where the weights add up to 0."""
        mass = float(self.weights.sum())
        return float(self.weights @ self.probability) / mass if mass > 0 else None


@dataclass(frozen=True)
class ClassesEstimate:
    """As `SourceEstimate`, for any number of classes."""

    weights: NDArray[np.float64]  # (n,) as there
    probabilities: NDArray[np.float64]  # (n, C), rows adding up to 1
    counted: tuple[Prevalence, ...] = ()  # as there, of each class; empty where the strategy does not read the totals
    # the share of each class's records that the model calls so, (C,), on records like the private ones; None where the
    # strategy's answers cannot tell
    recalls: tuple[Interval, ...] | None = None


@dataclass(frozen=True)
class NumberEstimate:
    """As `SourceEstimate`, for a numeric label."""

    weights: NDArray[np.float64]  # (n,) as there
    value: NDArray[np.float64]  # (n,) expected label, in its units


AnyEstimate = SourceEstimate | ClassesEstimate | NumberEstimate


Learnt = tuple[AnyModel, AnyEstimate]
"""The last model, and the estimate of the source."""
Asking = Generator[tuple[Any, AnyModel | None], Sequence[Any], Learnt]
"""Yields the next question and the model so far (None while there is none), and is sent the answers to all questions so
far: what the curators that answered each of them say together, by the reader of its query kind; of counts, their sum.
So a curator that drops out is taken out of earlier answers, too, and a strategy takes them from what it was sent last;
of secure sums it is not, and each says how many it is of. An answer says what was asked, too, and is read with that: a
process that goes on with a study yields what it would ask, and is sent the answers to what was asked."""


class Strategy(Protocol):
    """What to ask of pooled curators, and what to learn from their answers."""

    def plan(self, problem: Problem) -> Plan:
        """Everything that will be asked, at a cost of exactly `problem.epsilon` for a unit of c records."""

    def run(self, problem: Problem) -> Asking:
        """Ask the queries of the plan in turn."""


class Conversation:
    """A strategy's questions to pooled curators, one after the other.

    Attributes:
        body: the next question, or the last one where all are answered.
        models: the model after each answer; None while there is none.

    Args:
        strategy: whose questions.
        problem: that it asks about.
        decide: of the federation: later questions, and what was learnt in the end, are what was decided first.
    """

    def __init__(self, strategy: Strategy, problem: Problem, decide: Decide = as_found) -> None:
        """Make the first question; ConfigurationError where none fits the problem."""
        self._decide = decide
        self._asking = strategy.run(problem)
        self._estimate: AnyEstimate | None = None
        self.body, _ = next(self._asking)
        self.models: list[AnyModel | None] = []

    def hear(self, answers: Sequence[Any]) -> None:
        """Go on with the answers to all questions so far, in their order."""
        model: AnyModel | None
        try:
            body, model = self._asking.send(answers)
        except StopIteration as end:
            learnt: Learnt = end.value
            model, self._estimate = self._decide(learnt, _write, partial(_read, learnt))
        else:
            self.body = decided(self._decide, body)
        self.models.append(model)

    @property
    def estimate(self) -> AnyEstimate:
        """Weights and labels of the source records, after the last answer; RuntimeError before."""
        if self._estimate is None:
            raise RuntimeError("not every question was answered yet")
        return self._estimate


def _write(learnt: Learnt) -> bytes:
    """Nothing where a model is of a class that is not kept: another process computes it again."""
    try:
        return pack(learnt, _kind(learnt))
    except TypeError:
        return b""


def _read(template: Learnt, data: bytes) -> Learnt:
    return unpack(data, _kind(template)) if data else template


def _kind(learnt: Learnt) -> Any:
    return GenericAlias(tuple, tuple(map(type, learnt)))
