"""What a strategy is: what to ask next, and what to do with the answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from learner_node.networks import TrainedNetwork, TrainingOptions, TrainingSet, train_networks
from learner_node.readers.counts import CountsAnswer
from learner_node.uncertainty import AccuracyEstimate
from protocol.errors import ConfigurationError
from protocol.plans import Plan
from protocol.queries.counts import CountsBody
from protocol.queries.limits import Limits
from protocol.rationals import Rational
from protocol.records import Records

Trainer = Callable[[TrainingSet, TrainingOptions], TrainedNetwork]
"""Trains one network; a simulation may train those of several studies together."""


def train_alone(data: TrainingSet, options: TrainingOptions) -> TrainedNetwork:
    """The trainer of an ordinary study."""
    return train_networks([data], options)[0]


@dataclass(frozen=True)
class Problem:
    """What a strategy may know before it asks; nothing here comes from a private record.

    Attributes:
        source: the learner's encoded records.
        epsilon: to spend at each curator, exact.
        sites: curators whose answers are summed.
        target_size: their declared round sizes added up, or the source's size where one is not declared.
        most_records_per_unit: the largest contribution bound c among them.
        seed: of the learner's own random choices (k-means, networks).
        limits: the tightest of the curators' cards.
        train: trains the networks of strategies that have any.
    """

    source: Records
    epsilon: Fraction
    sites: int
    target_size: int
    most_records_per_unit: int
    seed: int
    limits: Limits = field(default_factory=Limits)
    train: Trainer = train_alone

    def scale(self, partitions: int, share: Fraction = Fraction(1)) -> Rational:
        """Scale of queries of `partitions` in all that cost exactly `share` of `epsilon` (Eq. 14).

        Raises:
            ConfigurationError: it needs more than 32 bits.
        """
        exact = Fraction(self.most_records_per_unit * partitions) / (share * self.epsilon)
        try:
            return Rational.of(exact)
        except ValueError:
            raise ConfigurationError(
                f"epsilon {self.epsilon} needs a noise scale of {exact}, more than 32 bits; "
                f"choose a rounder one, such as {self.epsilon.limit_denominator(1000) or Fraction(1, 1000)}"
            ) from None


class Model(Protocol):
    """A learnt classifier."""

    def probability(self, records: Records) -> NDArray[np.float64]:
        """P(class 1) for each record: (n,) in [0, 1]."""


@dataclass(frozen=True)
class SourceEstimate:
    """What the answers say about the source records: the weighted synthetic data set.

    Attributes:
        weights: (n,) non-negative; private records that each source record stands for.
        probability: (n,) P(class 1).
        accuracy: what the model may be expected to score on records like the private ones; None where the strategy's
            answers cannot tell.
    """

    weights: NDArray[np.float64]
    probability: NDArray[np.float64]
    accuracy: AccuracyEstimate | None = None


class Strategy(Protocol):
    """One run of a strategy over one set of pooled curators."""

    def plan(self, problem: Problem) -> Plan:
        """Everything that will be asked, at a cost of exactly `problem.epsilon` for a unit of c records."""

    def next_body(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CountsBody:
        """The next question, given the answers to all earlier ones (summed over the surviving curators)."""

    def absorb(self, problem: Problem, answers: Sequence[CountsAnswer]) -> Model | None:
        """After an answer: the model so far, None while there is none yet."""

    def source_estimate(self) -> SourceEstimate:
        """Weights and labels of the source records, after the last answer."""
