"""Strategy `importance`: importance weights of the public records, one for each class, from a single question.

Ji and Elkan (2013) publish weights w(x) = exp(b . x) of public records, b from a regularised logistic regression that
tells private records from public ones, with noise on b. This keeps the form of the weights and their regularisation,
and moves the noise: curators count both classes in bins of every attribute, and the learner fits b to the counts,
which are all that an exponential family of such weights takes from the private records.
docs/explanation/importance-weights.md has the reasons, the proof of the cost and what the published mechanism gives.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from learner_node.models.masses import BinWorkload, tilted
from learner_node.models.networks import TrainingSet, require_torch
from learner_node.models.source import coordinates, even_bins, paper_bin_count, standardising_map
from learner_node.strategies import options
from learner_node.strategies.base import Asking, Problem, SourceEstimate
from learner_node.strategies.paper import NetworkModel, check_network
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import CountsBody
from protocol.plans import Plan


class ImportanceStrategy:
    """Strategy `importance`.

    Args:
        bins: per numeric attribute; None takes the paper's rule, for the records of one class.
        hidden, epochs, batch_size, learning_rate, weight_decay: of the network that is trained on the weighted source,
            see `TrainingOptions`.
    """

    def __init__(
        self,
        *,
        bins: int | None = None,
        hidden: Sequence[int] = options.HIDDEN,
        epochs: int = 40,
        batch_size: int = 512,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-4,
    ) -> None:
        require_torch()
        self._bins, self._training = options.importance(
            bins=bins,
            hidden=hidden,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
        )

    def plan(self, problem: Problem) -> Plan:
        """One query over the bins of all d attributes, at scale c d / epsilon."""
        return problem.counts_plan([("error_correct", len(problem.source.schema.attributes), Fraction(1))])

    def run(self, problem: Problem) -> Asking:
        """Ask both classes' counts in every bin, weigh the source for each, and train on both weighted copies."""
        features = standardising_map(problem.source)
        check_network(problem, features, self._training.hidden)
        scale = problem.scale(len(problem.source.schema.attributes)).fraction
        bins = tuple(even_bins(problem.source, self._bins or paper_bin_count(problem.target_size / 2, scale)))
        # Wrong for the hypothesis "class 1" are the records of class 0, right those of class 1.
        (answer,) = yield CountsBody(partitions=bins, hypothesis=Constant(predicted=1)), None
        workload = BinWorkload.of(problem.source, answer.body.partitions)
        zeros, ones = (np.maximum(tilted(workload, column, answer), np.finfo(float).tiny) for column in answer.values.T)
        weights, probability = zeros + ones, ones / (zeros + ones)
        # One copy of a record with the expected label has the gradient of two copies, one of each class.
        points = coordinates(features, problem.source)
        trained = problem.train(TrainingSet(points, probability, weights, problem.seed), self._training)
        network = Mlp.of(features, list(trained.layers))
        return NetworkModel(network), SourceEstimate(weights, probability)
