"""What is trained in site on all private records and their labels: peers, which are private, and what is not."""

from fractions import Fraction

from lab.comparison.studies import Answer
from lab.paper.laboratory import train_in_site
from lab.peers import PeerKind, PeerTask, run_peer
from lab.problems import PROBLEMS
from lab.splits import Split
from learner_node.strategies.base import train_alone
from learner_node.strategies.paper import NetworkModel

DELTA = 1e-6
"""Of the peers that have no pure guarantee, or do better without one. Ours is 0."""


def network(split: Split) -> Answer:
    """The reproduction's h*: the problem's network, trained on the private records without privacy."""
    hypothesis = train_in_site(split, PROBLEMS[split.problem].network, train_alone)
    return Answer(NetworkModel(hypothesis).probability(split.test))


def delta_of(kind: PeerKind) -> float:
    """0 for a peer with a pure guarantee."""
    return 0.0 if kind.delta == "zero" else DELTA


def peer_task(split: Split, name: str, epsilon: Fraction | None, delta: float) -> PeerTask:
    """A peer's task: the pooled private records, with the source's range as their bounds.

    Args:
        split: the records.
        name: key of `lab.peers.PEERS`.
        epsilon: of its guarantee; None for what is not private.
        delta: of its guarantee.
    """
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

    Raises:
        PeerUnavailableError: its environment is not installed; the text says how to get it.
        PeerFailedError: it gave no answer.
    """
    result = run_peer(peer_task(split, name, epsilon, delta))
    return Answer(result.probability, seconds=result.seconds)
