"""A forest of random trees from noisy class counts of their leaves."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from learner_node.kinds.models.totals import class_totals
from protocol.feature_map import FeatureMap
from protocol.kinds.models import Forest, Mapped
from protocol.records import Records

Floats = NDArray[np.float64]
LEAST = 1e-3
"""Least mean vote for a class."""
SPREAD = 0.1
"""Variance of a class's probability about its share, between records: what noise beyond it is shrunk by."""


@dataclass(frozen=True)
class ForestModel:
    """Of each leaf what it says of a record, and how far it is to be trusted.

    A record's leaves, one a tree, are averaged by their trust, and the average is shrunk to the class shares by what
    noise and sampling explain of it. A mean over T random trees, most of whose splits say nothing, is too close to the
    class shares: its ratio to them is taken to the power sqrt(T).

    Attributes:
        features: the map.
        method: the trees.
        votes: (trees, leaves, C) class probabilities by the counts alone, each times its trust; not clipped.
        trust: (trees, leaves) one over the variance of a vote.
        shares: (C,) of the classes.
    """

    features: FeatureMap
    method: Forest
    votes: NDArray[np.float64]
    trust: NDArray[np.float64]
    shares: NDArray[np.float64]

    def probabilities(self, records: Records) -> Floats:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        told, weight = np.zeros((len(records), len(self.shares))), np.zeros((len(records), 1))
        for place, tree in enumerate(self.method.partitions(Mapped(self.features))):
            leaves = tree.cells(records)
            told += self.votes[place, leaves]
            weight += self.trust[place, leaves, None]
        kept = SPREAD * weight / (SPREAD * weight + 1.0)
        mean = np.maximum(self.shares + kept * (told / np.maximum(weight, 1e-12) - self.shares), LEAST)
        odds = self.shares * (mean / self.shares) ** math.sqrt(self.method.trees)
        rows: Floats = odds / odds.sum(axis=1, keepdims=True)
        return rows

    def probability(self, records: Records) -> Floats:
        """Of two classes, P(class 1) for each record: (n,) in [0, 1]."""
        return self.probabilities(records)[:, 1]


def forest(
    answer: ModelAnswer, source: Records, declared: float, most_records_per_unit: int
) -> tuple[ForestModel, Floats]:
    """The forest of all curators' counts, and the estimated number of private records of each class, (C,).

    A leaf's number of records is taken as the source's share of it says: its own noisy one may be next to 0.

    Args:
        answer: of one query for one model.
        source: the learner's records.
        declared: private records of all curators together, as they declare them.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, Forest) and isinstance(body, Mapped)):
        raise TypeError("the answer is not one of a forest")
    counts = answer.summed().reshape(method.trees, method.leaves, -1).astype(np.float64)
    noise = answer.sites * answer.variance(most_records_per_unit)
    totals = class_totals(counts.sum(axis=1).mean(axis=0), noise * method.leaves / method.trees, declared)
    there = np.stack(
        [np.bincount(tree.cells(source), minlength=method.leaves) for tree in method.partitions(body)]
    ).astype(np.float64)
    mass = (there + 0.5) / (there + 0.5).sum(axis=1, keepdims=True) * totals.sum()
    trust = 1.0 / (noise / mass**2 + 0.25 / mass)
    # Of the noisy number of records a leaf says something, too: where it is precise, votes are shares of it.
    seen = counts.sum(axis=2)
    own = np.maximum(seen, 1.0)
    precise = mass / (mass + counts.shape[2] * noise / mass)
    size = (precise * own + (1.0 - precise) * mass)[:, :, None]
    votes = counts / size * trust[:, :, None]
    # All votes together are more precise than the totals, to which every leaf's noise adds up.
    told = votes.sum(axis=(0, 1))
    shares = np.maximum(told, LEAST * np.abs(told).sum() + 1e-12)
    return ForestModel(body.features, method, votes, trust, shares / shares.sum()), totals
