"""The interface of strategies: generators that yield a question and a model, and are sent the answers."""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from types import GenericAlias
from typing import Any, Protocol, Self, runtime_checkable

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
from protocol.feature_map import FeatureMap
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
    """Number of private records at some curators: the sum of declared sizes, or the source's size where undeclared."""
    return sum(size or source_size for size in round_sizes)


@dataclass(frozen=True)
class Willing:
    """What a study's curators allow, by their cards."""

    # for one record in one question, in the unit of `protocol.limits`, at the least willing of them
    work: float = math.inf
    selects: bool = False  # whether all of them choose attributes (`features` of the query kind `statistic`)
    records: float | None = None  # at one of them, about: the mean of their declared sizes; None where nothing is known


UNWILLING = Willing()
"""Curators that only answer counts, without a limit on work."""


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

    @cached_property
    def features(self) -> FeatureMap:
        """The source's `standardising_map`."""
        return standardising_map(self.source)

    def records_at(self, sites: int) -> float:
        """Declared number of private records at so many answering curators."""
        return self.target_size * sites / self.sites

    @property
    def noises(self) -> float:
        """Number of noises in each pooled number if all curators answer; fractional with secure sums."""
        return self.sites / self.pool.shares if self.pool else self.sites

    def scale(self, partitions: int, share: Fraction = Fraction(1)) -> Rational:
        """Noise scale at which all questions together, over so many partitions, cost `share` of `epsilon` (Eq. 14).

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
        """A plan of count queries (release, partitions, share of `epsilon`), in order; see `scale`.

        `steps` is the number of steps into which a numeric label's range is divided.
        """
        planned = [
            PlannedCounts(
                release=release, partitions=partitions, scale=self.scale(partitions * steps, share), steps=steps
            )
            for release, partitions, share in questions
        ]
        return Plan.of(planned if self.pool is None else (summed(query, self.pool) for query in planned))

    def epsilon_per_record(self, share: Fraction = Fraction(1), partitions: int = 1) -> float:
        """Epsilon that one record has in one partition, if a query of so many takes `share` of `epsilon`."""
        return float(share * self.epsilon / (self.most_records_per_unit * partitions))

    def cell_rule(self, epsilon: float, *, signed: bool = False, most: int = MOST_CELLS) -> int:
        """Number of cells by `cell_count_rule` for this problem's sizes and its curators' work limits.

        `epsilon` is spent by one record in one partition, `signed` says whether counts are signed, and `most` bounds
        the number.
        """
        most = min(most, affordable_cells(self.features, self.willing.work))
        return cell_count_rule(len(self.source), self.target_size, epsilon, self.noises, signed=signed, most=most)


def varying_attributes(problem: Problem) -> list[str]:
    """Attributes that vary in the source, at least one, in the schema's order."""
    return [feature.attribute for feature in problem.features.features]


def summed(planned: PlannedCounts, pool: SecurePool) -> PlannedSecureCounts:
    """The same query as a secure sum."""
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


@runtime_checkable
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
    """The model's error estimated from the curators' answers, with 95 % intervals."""

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
        """The model's estimated error; None if it was not asked."""

    def predict_number(self, records: Records) -> NDArray[np.float64]:
        """Predicted label of each record: (n,) within the label's bounds, in its units."""


AnyModel = Model | ClassesModel | NumberModel
"""A model of two classes, of several, or of a number, as the schema's label is."""


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


class _OnDemand:
    """An estimate, one field of which may be computed when it is first read: at a million records it takes minutes."""

    @classmethod
    def on_demand(cls, name: str, compute: Callable[[], NDArray[np.float64]], **others: Any) -> Self:
        """An estimate of the `others`, whose field `name` is what `compute` returns."""
        estimate = cls.__new__(cls)
        estimate.__dict__.update(others, _later={name: compute})
        return estimate

    def __getattr__(self, name: str) -> Any:
        compute = self.__dict__.get("_later", {}).get(name)
        if compute is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self.__dict__[name] = compute()
        return value


@dataclass(frozen=True)
class SourceEstimate(_OnDemand):
    """Estimated weights and labels of the source records: the synthetic data set."""

    weights: NDArray[np.float64]  # (n,) non-negative; private records that each source record stands for
    probability: NDArray[np.float64]  # (n,) P(class 1)
    # what the model may be expected to score on records like the private ones; None where the strategy's answers cannot
    # tell
    accuracy: AccuracyEstimate | None = None
    # share of class 1 as the answers' totals tell it; None where the strategy does not read them so
    counted: Prevalence | None = None

    @property
    def prevalence(self) -> float | None:
        """The model's mean probability of class 1 over the private records; None if all weights are 0."""
        mass = float(self.weights.sum())
        return float(self.weights @ self.probability) / mass if mass > 0 else None


@dataclass(frozen=True)
class ClassesEstimate(_OnDemand):
    """A `SourceEstimate` for any number of classes."""

    weights: NDArray[np.float64]  # (n,) as there
    probabilities: NDArray[np.float64]  # (n, C), rows adding up to 1
    counted: tuple[Prevalence, ...] = ()  # as there, of each class; empty where the strategy does not read the totals
    # the share of each class's records that the model calls so, (C,), on records like the private ones; None where the
    # strategy's answers cannot tell
    recalls: tuple[Interval, ...] | None = None


@dataclass(frozen=True)
class NumberEstimate:
    """A `SourceEstimate` for a numeric label."""

    weights: NDArray[np.float64]  # (n,) as there
    value: NDArray[np.float64]  # (n,) expected label, in its units


AnyEstimate = SourceEstimate | ClassesEstimate | NumberEstimate


Learnt = tuple[AnyModel, AnyEstimate]
"""The last model, and the estimate of the source."""
Asking = Generator[tuple[Any, AnyModel | None], Sequence[Any], Learnt]
"""A generator that yields the next question and the model so far (None at first), and is sent the pooled answers to all
questions so far, as the readers of their query kinds pool them (counts are summed over curators). If a curator drops
out, its earlier answers are removed from the next list, so a strategy uses only the list it was sent last. The answer
of a secure sum still contains that curator's part, and states its number of curators. A resumed study may have asked
other questions than the strategy would now yield, so an answer holds its question and is read with that."""


class Strategy(Protocol):
    """Decides what to ask pooled curators, and learns from their answers."""

    def plan(self, problem: Problem) -> Plan:
        """Everything that will be asked, at a cost of exactly `problem.epsilon` for a unit of c records."""

    def run(self, problem: Problem) -> Asking:
        """The generator that asks the plan's queries in turn."""


class Conversation:
    """A strategy's questions to pooled curators, one after the other.

    `body` is the next question, or the last one when all are answered; `models` lists the model after each answer (None
    while there is none). `decide` returns later questions and final results as an earlier process decided them.
    """

    def __init__(self, strategy: Strategy, problem: Problem, decide: Decide = as_found) -> None:
        """Make the first question. Raises ConfigurationError: none fits the problem."""
        self._decide = decide
        self._asking = strategy.run(problem)
        self._estimate: AnyEstimate | None = None
        self.body, _ = next(self._asking)
        self.models: list[AnyModel | None] = []

    def hear(self, answers: Sequence[Any]) -> None:
        """Continue with the answers to all questions so far, in their order."""
        model: AnyModel | None
        try:
            body, model = self._asking.send(answers)
        except StopIteration as end:
            learnt = checked_result(end.value)
            model, self._estimate = self._decide(learnt, _write, partial(_read, learnt))
        else:
            self.body = decided(self._decide, body)
        self.models.append(model)

    @property
    def estimate(self) -> AnyEstimate:
        """Weights and labels of the source records after the last answer. Raises RuntimeError before."""
        if self._estimate is None:
            raise RuntimeError("not every question was answered yet")
        return self._estimate


def checked_result(result: Any) -> Learnt:
    """What a strategy returned, as far as what follows needs it.

    Raises ConfigurationError: it is no pair of a model and an estimate, or one of them lacks what is asked of it. The
    strategy is wrong, whatever was answered.
    """
    model, estimate = result if isinstance(result, tuple) and len(result) == 2 else (None, None)
    if not isinstance(model, AnyModel):
        raise ConfigurationError(
            f"the strategy ended with {_named(result)}; its generator must return a pair: a model, which offers "
            "`probability`, `probabilities`, or `predict_number` with `error`, and an estimate of the source "
            "(learner_node.strategies.base)"
        )
    if not isinstance(estimate, AnyEstimate):
        raise ConfigurationError(
            f"the strategy ended with a model and {_named(estimate)}; the second must be a SourceEstimate, a "
            "ClassesEstimate or a NumberEstimate (learner_node.strategies.base)"
        )
    return model, estimate


def _named(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} ({', '.join(type(item).__name__ for item in value)})"
    return "nothing" if value is None else f"a {type(value).__name__}"


def _write(learnt: Learnt) -> bytes:
    """Encode the results; empty if the model's class cannot be stored, so that a resumed study recomputes it."""
    try:
        return pack(learnt, _kind(learnt))
    except TypeError:
        return b""


def _read(template: Learnt, data: bytes) -> Learnt:
    return unpack(data, _kind(template)) if data else template


def _kind(learnt: Learnt) -> Any:
    return GenericAlias(tuple, tuple(map(type, learnt)))
