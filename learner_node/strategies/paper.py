"""Strategies `paper-i` and `paper-c`: the paper's method with a valid mechanism (Eq. 1-6, Algorithm 1).

Every question has one partition per attribute (sensitivity d). By option the first asks masses in bins of even source
mass. Others ask the errors of h_0 = "class 1", h_1, ... in bins of even mass of the weighted source (section 4.2). The
*instantaneous* variant solves the newest linear system for the labels, the *cumulative* one all of them. The printed
mechanism (`paper_ratio`) can be asked for in simulations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.distillation import HEADER_PARAMETERS
from learner_node.models.masses import BinWorkload, consistent_masses, make_consistent, tilted
from learner_node.models.networks import TrainingSet, require_torch
from learner_node.models.source import coordinates, even_bins, paper_bin_count, standardising_map
from learner_node.solvers import LabelSystem, descend_labels, label_system, solve_labels, solve_weights
from learner_node.strategies.base import Asking, Problem, SourceEstimate
from learner_node.strategies.options import TILT, PaperOptions
from protocol.errors import ConfigurationError
from protocol.feature_map import STEPS, FeatureMap
from protocol.hypotheses import MOST_FAN_IN, MOST_LAYERS, Constant, Hypothesis, Mlp
from protocol.kinds.counts import CountsBody
from protocol.plans import Plan
from protocol.records import Records

SHRINKAGE = 0.1
"""Weight of Pb. 2's regularisation, relative to the variance of a bin's number of errors."""
LABEL_TOLERANCE = 1e-8
"""Largest KKT residual of Pb. 2: far below the effect of regularisation and noise, and cheap to reach."""
_ERROR_VARIANCE = {"paper_ratio": 1.0, "signed_error": 0.25, "error_correct": 0.5}
"""Variance of the number of errors (n - S) / 2 relative to the noise variance of the release S."""
LEAST_WEIGHT_ALPHA = 1.0
"""Least weight of Pb. 1's regularisation, in squared counts. Even exact masses differ by sampling; without
regularisation the solution is a vertex, with nearly every weight 0."""
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkModel:
    """A network, evaluated exactly as a curator evaluates it."""

    hypothesis: Mlp

    def probability(self, records: Records) -> NDArray[np.float64]:
        """The logistic function of the exact logit: (n,) in [0, 1]."""
        probability: NDArray[np.float64] = expit(self.hypothesis.logits(records) / (STEPS * STEPS))
        return probability


def check_network(problem: Problem, features: FeatureMap, hidden: Sequence[int], *, otherwise: str = "") -> None:
    """Raise ConfigurationError if networks with these hidden layers exceed a curator's limits.

    Args:
        problem: the problem, which has the limits.
        features: map to the networks' input.
        hidden: widths of their hidden layers.
        otherwise: an alternative remedy, for the error.
    """
    sizes = [features.width, *hidden, 1]
    parameters = HEADER_PARAMETERS + sum((a + 1) * b for a, b in pairwise(sizes))
    if parameters > problem.limits.parameters or max(sizes) > MOST_FAN_IN or len(sizes) - 1 > MOST_LAYERS:
        raise ConfigurationError(
            f"a network {'-'.join(map(str, sizes))} of about {parameters} parameters is too large: curators allow "
            f"{problem.limits.parameters} parameters, {MOST_LAYERS} layers and a width of {MOST_FAN_IN}; "
            f"make the option hidden smaller{otherwise}"
        )


class PaperStrategy:
    """Strategies `paper-i` (I-ExPriL) and `paper-c` (C-ExPriL, `cumulative`)."""

    def __init__(self, options: PaperOptions, *, cumulative: bool) -> None:
        require_torch()
        self._options = options
        self._cumulative = cumulative

    def plan(self, problem: Problem) -> Plan:
        """The masses (if asked), then the errors, at scale contribution bound x d x queries / epsilon (Eq. 14)."""
        d, queries = len(problem.source.schema.attributes), self._queries
        if self._options.printed:
            kinds = ["paper_ratio"] * queries
        elif self._options.reweight:
            kinds = ["mass"] + ["signed_error"] * self._options.rounds
        else:
            kinds = ["error_correct"] * self._options.rounds
        return problem.counts_plan([(kind, d, Fraction(1, queries)) for kind in kinds])

    @property
    def _queries(self) -> int:
        return self._options.rounds + self._options.reweight

    def run(self, problem: Problem) -> Asking:
        """Ask the bins' masses (if the option says so), then the errors of one hypothesis after the other.

        After each answer, Pb. 1 and Pb. 2 are solved and the next hypothesis is trained.
        """
        scale = problem.scale(len(problem.source.schema.attributes) * self._queries).fraction
        bins = self._options.bins or paper_bin_count(problem.target_size, scale)
        features = standardising_map(problem.source)
        check_network(problem, features, self._options.training.hidden)
        partitions = tuple(even_bins(problem.source, bins))
        counted: CountsAnswer | None = None
        weights = np.empty(0)
        if self._options.reweight:
            (counted,) = yield CountsBody(partitions=partitions, hypothesis=None), None
            weights = self._weights(problem, counted)
            partitions = tuple(even_bins(problem.source, bins, weights))
        hypothesis: Hypothesis = Constant(predicted=1)
        learnt: list[tuple[NetworkModel, SourceEstimate]] = []
        for _ in range(self._options.rounds):
            answers = yield (
                CountsBody(partitions=partitions, hypothesis=hypothesis),
                learnt[-1][0] if learnt else None,
            )
            errors = answers[self._options.reweight :]
            # What was asked, and will be: of all rounds the same.
            partitions = errors[0].body.partitions
            workload = BinWorkload.of(problem.source, partitions)
            if counted is None:
                weights, masses = self._equal_weights(problem, workload, errors)
            else:
                if answers[0].sites != counted.sites:
                    counted = answers[0]
                    weights = self._weights(problem, counted)
                masses = workload.R @ weights
            systems = [_system(problem, workload, weights, masses, answer) for answer in errors]
            labels = self._labels(problem, bins, systems, errors[0])
            hypothesis = self._train(problem, features, weights, labels)
            learnt.append((NetworkModel(hypothesis), SourceEstimate(weights, labels)))
        return learnt[-1]

    def _labels(self, problem: Problem, bins: int, systems: list[LabelSystem], answer: CountsAnswer) -> Vector:
        """Solve Pb. 2: relaxed labels of the source records, in [0, 1]."""
        chosen = systems if self._cumulative else systems[-1:]
        if self._options.label_steps is not None:
            return descend_labels(chosen, steps=self._options.label_steps)
        alpha = self._label_alpha(problem, bins, answer)
        return solve_labels(chosen, alpha=alpha, prior=0.5, tolerance=LABEL_TOLERANCE).x

    def _train(self, problem: Problem, features: FeatureMap, weights: Vector, labels: Vector) -> Mlp:
        """Train the next hypothesis on the current labels."""
        points = coordinates(features, problem.source)
        targets = labels if self._options.soft_labels else (labels > 0.5).astype(np.float64)
        weighted = weights + 1e-6 * weights.mean() + 1e-12
        network = problem.train(TrainingSet(points, targets, weighted, problem.seed), self._options.training)
        return Mlp.of(features, list(network.layers))

    def _weights(self, problem: Problem, answer: CountsAnswer) -> Vector:
        """Solve Pb. 1: weights of the source records, in records, from the masses."""
        workload = BinWorkload.of(problem.source, answer.body.partitions)
        if self._options.weighting == TILT:
            return tilted(workload, answer.values[:, 0], answer)
        if self._options.printed:
            masses = answer.values[:, 0] * problem.target_size
        else:
            masses = consistent_masses(answer.values[:, 0], answer)
        total = max(float(masses.sum()) / len(workload.partitions), 1.0)
        alpha = max(answer.noise_variance / 2, LEAST_WEIGHT_ALPHA)
        return solve_weights(workload.R, masses, alpha=alpha, prior=total / len(problem.source)).x

    def _equal_weights(
        self, problem: Problem, workload: BinWorkload, answers: Sequence[CountsAnswer]
    ) -> tuple[Vector, Vector]:
        """Equal weights instead of Pb. 1, and the masses per bin, in records."""
        n = len(problem.source)
        if self._options.printed:
            weights = np.full(n, problem.target_size / n)
            return weights, workload.R @ weights
        counted = np.mean([answer.values.sum(axis=1) for answer in answers], axis=0)
        masses = consistent_masses(counted, answers[0])
        return np.full(n, max(float(masses.sum()) / len(workload.partitions), 1.0) / n), masses

    def _label_alpha(self, problem: Problem, bins: int, answer: CountsAnswer) -> float:
        """Weight of Pb. 2's regularisation from the noise and sampling variance of a bin's number of errors."""
        if self._options.label_alpha is not None:
            return self._options.label_alpha
        noise = answer.noise_variance * _ERROR_VARIANCE[answer.release]
        return SHRINKAGE * (noise + problem.target_size / (4 * bins))


def _system(
    problem: Problem,
    workload: BinWorkload,
    weights: Vector,
    masses: Vector,
    answer: CountsAnswer,
) -> LabelSystem:
    """Eq. 5 for one answered hypothesis."""
    if answer.release == "paper_ratio":
        wrong = answer.values[:, 0]
    else:
        signed = answer.values[:, 0] if answer.release == "signed_error" else answer.values @ np.array([-1.0, 1.0])
        blocks = np.split(signed, np.cumsum(answer.sizes)[:-1])
        variances = np.full(len(blocks), max(answer.noise_variance, 1e-12))
        signed = np.concatenate(make_consistent(blocks, variances).blocks)
        wrong = (1 - signed / np.maximum(masses, 1.0)) / 2
    if answer.body.hypothesis is None:
        raise TypeError("nobody was asked for the errors of a hypothesis")
    predicted = answer.body.hypothesis.predict(problem.source).astype(np.float64)
    return label_system(workload.R, weights, predicted, np.clip(wrong, 0, 1))


def cumulative(**options: Any) -> PaperStrategy:
    """C-ExPriL; options as `PaperOptions`."""
    return PaperStrategy(PaperOptions(**options), cumulative=True)


def independent(**options: Any) -> PaperStrategy:
    """I-ExPriL; options as `PaperOptions`."""
    return PaperStrategy(PaperOptions(**options), cumulative=False)
