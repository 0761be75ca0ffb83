"""A strategy that is not shipped: it counts the decades of one attribute, and predicts each decade's majority."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from learner_node.strategies.base import SourceEstimate
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody
from toy.partition import ToyDecades


@dataclass(frozen=True)
class DecadesModel:
    """P(class 1) by decade."""

    partition: ToyDecades
    shares: np.ndarray

    def probability(self, records):
        return self.shares[self.partition.cells(records)]


class DecadesStrategy:
    def __init__(self, attribute="age", count=12):
        self.partition = ToyDecades(attribute, count)

    def plan(self, problem):
        return problem.counts_plan([("error_correct", 1, Fraction(1))])

    def run(self, problem):
        answers = yield CountsBody((self.partition,), Constant(predicted=1)), None
        negative, positive = answers[-1].values.clip(0.5).T
        model = DecadesModel(self.partition, positive / (positive + negative))
        weights = np.full(len(problem.source), (positive + negative).sum() / len(problem.source))
        return model, SourceEstimate(weights, model.probability(problem.source))
