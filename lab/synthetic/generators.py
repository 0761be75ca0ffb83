"""The data sets that are compared, all for the same private records: ours, trivial bounds, AIM and MST."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lab.comparison.studies import make_study, peer_task
from lab.peers.environment import generate_in_environment
from lab.splits import Split
from lab.synthetic.utility import WeightedRecords
from learner_node.strategies import DEFAULT_STRATEGY
from learner_node.strategies.base import SourceEstimate
from learner_node.study.pooling import POOLED

DELTA = 1e-6
"""Of AIM and MST, whose guarantee is (epsilon, delta); ours is pure."""


@dataclass(frozen=True)
class Generator:
    """One row of the tables."""

    name: str  # as in the results
    title: str
    # (split, epsilon) -> the data set that stands for the private records
    generate: Callable[[Split, Fraction], WeightedRecords]
    private: bool = True  # whether epsilon is spent; what is not is made once, under epsilon "inf"
    pure: bool = True  # whether delta is 0
    needs_environment: bool = False  # whether it runs in the peers' environment
    trains: bool = True  # whether a classifier may be trained on it; not on the test records


def ours(split: Split, epsilon: Fraction) -> WeightedRecords:
    """The default strategy over real curators: the source's rows, weighted and softly labelled.

    Raises WrongCostError: a ledger holds another sum than epsilon.
    """
    learned = make_study(split, DEFAULT_STRATEGY, {}, epsilon)
    estimate = learned.estimates[POOLED]
    if not isinstance(estimate, SourceEstimate):
        raise TypeError(f"the label of {split.problem} has not two classes")
    return WeightedRecords(split.matrices.source, estimate.weights, estimate.probability)


def plain_source(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The source as it is, all rows labelled with the private records' more frequent class."""
    majority = float(split.private_labels.mean() > 0.5)
    rows = len(split.matrices.source)
    return WeightedRecords(split.matrices.source, np.ones(rows), np.full(rows, majority))


def real(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The private records themselves."""
    return WeightedRecords.of(split.matrices.train, split.matrices.labels)


def fresh(split: Split, _epsilon: Fraction) -> WeightedRecords:
    """The test records with their labels: how far two real samples are apart."""
    return WeightedRecords.of(split.matrices.test, split.matrices.test_labels)


def generated(algorithm: str) -> Callable[[Split, Fraction], WeightedRecords]:
    """AIM or MST at (epsilon, `DELTA`), with bounds and levels from the source, in the peers' environment."""

    def generate(split: Split, epsilon: Fraction) -> WeightedRecords:
        return WeightedRecords.of(*generate_in_environment(peer_task(split, algorithm, epsilon, DELTA)))

    return generate


GENERATORS: dict[str, Generator] = {
    each.name: each
    for each in (
        Generator(DEFAULT_STRATEGY, "ours: the learner's source, weighted and labelled by answers", ours),
        Generator("aim", "AIM, for triples with the label", generated("aim"), pure=False, needs_environment=True),
        Generator("mst", "MST", generated("mst"), pure=False, needs_environment=True),
        Generator("source", "the source with the majority's label", plain_source, private=False),
        Generator("real", "the private records themselves", real, private=False),
        Generator("fresh", "the test records with their labels", fresh, private=False, trains=False),
    )
}
"""By name, in the order of the tables."""
