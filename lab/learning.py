"""Learning on one split: by a study of ours, or in site on all private records and their labels.

A study of ours has real curators over every site's records, real noise, signed messages, and a real ledger. Messages
are handed over by direct calls. In site, private peers and models without privacy are trained.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.site import temporary_site
from lab.curators import roomy_policy, spent
from lab.peers import PeerKind, PeerTask, run_peer
from lab.problems import PROBLEMS
from lab.reproduction.laboratory import train_in_site
from lab.splits import Options, Site, Split
from learner_node.strategies.base import SourceEstimate, class_probabilities, train_alone
from learner_node.strategies.paper import NetworkModel
from learner_node.study.budget import Budget
from learner_node.study.federation import Federation
from learner_node.study.learn import Learned, learn
from learner_node.study.pooling import POOLED, SECURE, Pooling, PoolingName
from protocol.envelopes import SigningKey
from simulations.carriers.direct import direct_federation

SILENT_EPSILON = Fraction(1000)
"""Epsilon for a study without noise: with 40 partitions a draw beyond one half has a probability below 1e-5."""
Claims = Callable[[Learned], Mapping[str, float]]
"""A study -> what its learner says about itself, such as `estimated_accuracy` in percent."""


class WrongCostError(AssertionError):
    """A ledger's sum differs from the epsilon that the learner asked for or claims: no result may be reported."""


@dataclass(frozen=True)
class Answer:
    """Predictions of a strategy or a peer on a split."""

    probability: NDArray[np.float64]  # (m,) of class 1 for each test record, in [0, 1]
    spent: Fraction | None = None  # exact epsilon at the costliest curator; None where no ledger was charged
    extras: Mapping[str, float] = field(default_factory=dict)  # further numbers by name
    seconds: float | None = None  # of the work; None takes the time from call to return


def claims_nothing(_learned: Learned) -> Mapping[str, float]:
    """No claims, for strategies that say nothing about themselves."""
    return {}


def accuracy_claims(learned: Learned) -> Mapping[str, float]:
    """What the learner expects of its model, in percent; nothing where it does not estimate that."""
    estimate = learned.estimates[POOLED]
    accuracy = estimate.accuracy if isinstance(estimate, SourceEstimate) else None
    if accuracy is None:
        return {}
    return {
        "estimated_accuracy": 100 * accuracy.accuracy,
        "interval_low": 100 * accuracy.low,
        "interval_high": 100 * accuracy.high,
        "beats_majority": float(accuracy.beats_majority),
    }


def federated(
    sites: Sequence[Site], pooling: PoolingName = "sum", kinds: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> tuple[Federation, Callable[[], Fraction]]:
    """Curators of these sites, and a function that reads the largest charge in their ledgers; else as `make_study`."""
    learner = SigningKey.generate()
    keys = {site.name: SigningKey.generate() for site in sites}
    members = [key.public for key in keys.values()] if pooling == SECURE else []
    curators = {}
    for site in sites:
        policy = roomy_policy(learner, name=site.name, members=members, kinds=kinds)
        curators[site.name] = temporary_site(site.frame, site.steward, policy, key=keys[site.name])
    return direct_federation(curators, learner), lambda: max(spent(site, learner) for site in curators.values())


def make_study(
    split: Split,
    strategy: str,
    options: Options,
    epsilon: Fraction,
    *,
    pooling: PoolingName = "sum",
    kinds: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Learned:
    """Ask all sites' curators and sum their answers.

    The strategy is a key of `STRATEGIES`. Secure pooling uses the default assumptions about colluders and dropouts.
    `kinds` has the limits of the query kinds that curators answer beside counts, by kind.

    Raises WrongCostError: a ledger holds another sum than was asked for; ConfigurationError: the strategy does not take
    these options; NoCuratorError: a curator refused.
    """
    federation, charged = federated(split.sites, pooling, kinds)
    learned = learn(
        federation,
        lambda _schema: split.source,
        Budget(epsilon),
        strategy=strategy,
        options=options,
        pooling=Pooling(pooling),
        seed=split.seed,
    )
    if not charged() == learned.epsilon_claimed == epsilon:
        raise WrongCostError(
            f"{strategy} on {split.problem}: asked for {epsilon}, claimed {learned.epsilon_claimed}, spent {charged()}"
        )
    return learned


def run_study(
    split: Split,
    strategy: str,
    options: Options,
    epsilon: Fraction,
    claims: Claims = claims_nothing,
    *,
    pooling: PoolingName = "sum",
    kinds: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Answer:
    """Make a study, as `make_study` does, and predict the test records.

    `claims` computes the learner's statements about itself, before it sees a test record.
    """
    learned = make_study(split, strategy, options, epsilon, pooling=pooling, kinds=kinds)
    extras = dict(claims(learned))
    return Answer(class_probabilities(learned.model(), split.test)[:, 1], epsilon, extras)


DELTA = 1e-6  # of the peers that have no pure guarantee, or do better without one. Ours is 0.


def network(split: Split) -> Answer:
    """The reproduction's h*: the problem's network, trained on the private records without privacy."""
    hypothesis = train_in_site(split, PROBLEMS[split.problem].network, train_alone)
    return Answer(NetworkModel(hypothesis).probability(split.test))


def delta_of(kind: PeerKind) -> float:
    """The delta at which a peer is run: 0 for a peer with a pure guarantee."""
    return 0.0 if kind.delta == "zero" else DELTA


def peer_task(split: Split, name: str, epsilon: Fraction | None, delta: float) -> PeerTask:
    """A peer's task: the pooled private records, with the source's range as their bounds."""
    matrices = split.matrices
    return PeerTask(
        peer=name,
        epsilon=None if epsilon is None else float(epsilon),
        delta=delta,
        seed=split.seed,
        train=matrices.train,
        labels=matrices.labels,
        test=matrices.test,
        lower=matrices.lower,
        upper=matrices.upper,
        source=matrices.source,
        columns=matrices.columns,
    )


def train_peer(split: Split, epsilon: Fraction | None, name: str, delta: float) -> Answer:
    """Train a peer; see `peer_task`.

    Raises PeerUnavailableError: its environment is not installed; the text says how to get it; PeerFailedError: it
    gave no answer.
    """
    result = run_peer(peer_task(split, name, epsilon, delta))
    return Answer(result.probability, seconds=result.seconds)
