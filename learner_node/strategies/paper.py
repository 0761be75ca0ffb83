"""Strategies `paper-i` and `paper-c`: the paper's method with a valid mechanism (Eq. 1-6, Algorithm 1).

One partition per attribute (sensitivity d), first the masses in bins of even source mass, then the errors of h_0 =
"class 1", h_1, ... in bins of even mass of the weighted source (section 4.2). The
*instantaneous* variant solves the newest linear system for the labels, the *cumulative* one all of them. The
printed mechanism (`paper_ratio`) can be asked for in simulations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit

from learner_node.consistency import make_consistent, make_nonnegative
from learner_node.networks import TrainingOptions, TrainingSet
from learner_node.readers.counts import CountsAnswer
from learner_node.solvers import LabelSystem, descend_labels, label_system, solve_labels, solve_weights
from learner_node.source import coordinates, even_bins, paper_bin_count, standardising_map
from learner_node.strategies.base import Problem, SourceEstimate
from learner_node.strategies.options import flag, number, whole, whole_or_none, widths
from protocol.errors import ConfigurationError
from protocol.feature_map import STEPS
from protocol.hypotheses import MOST_FAN_IN, MOST_LAYERS, Constant, Hypothesis, Mlp
from protocol.partitions import FeatureBins
from protocol.plans import MOST_QUERIES, Plan, PlannedQuery
from protocol.queries.counts import CountsBody
from protocol.records import Records

SHRINKAGE = 0.1
"""Weight of Pb. 2's regularisation, relative to the variance of a bin's number of errors."""
LABEL_TOLERANCE = 1e-8
"""Largest KKT residual of Pb. 2: far below what regularisation and noise decide, and cheap for many stacked systems."""
_ERROR_VARIANCE = {"paper_ratio": 1.0, "signed_error": 0.25, "error_correct": 0.5}
"""Variance of the number of errors that a release gives, relative to that of its noise: errors are (n - S) / 2."""
LEAST_WEIGHT_ALPHA = 1.0
"""Least weight of Pb. 1's regularisation, in squared counts: exact masses still differ by sampling, and without it
the weights become those of a vertex, with nearly every record at 0."""
Vector = NDArray[np.float64]
HEADER_PARAMETERS = 1024
"""Curators read the number of parameters off the byte length; the safetensors header counts for at most these."""


@dataclass(frozen=True)
class NetworkModel:
    """A network, evaluated exactly as a curator evaluates it."""

    hypothesis: Mlp

    def probability(self, records: Records) -> NDArray[np.float64]:
        """The logistic function of the exact logit: (n,) in [0, 1]."""
        probability: NDArray[np.float64] = expit(self.hypothesis.logits(records) / (STEPS * STEPS))
        return probability


@dataclass(frozen=True)
class _Workload:
    """One partition per attribute, and R: (K, n) with a 1 where source record i falls in bin k."""

    partitions: tuple[FeatureBins, ...]
    R: scipy.sparse.csr_matrix

    @classmethod
    def of(cls, problem: Problem, bins: int, weights: Vector | None = None) -> "_Workload":
        """Bins of even mass of the (weighted) source; every column of R has d ones."""
        partitions = tuple(even_bins(problem.source, bins, weights))
        sizes = [partition.cell_count(problem.source.schema) for partition in partitions]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        cells = [start + partition.cells(problem.source) for start, partition in zip(starts, partitions, strict=False)]
        rows, columns = np.concatenate(cells), np.tile(np.arange(len(problem.source)), len(partitions))
        shape = int(starts[-1]), len(problem.source)
        return cls(partitions, scipy.sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape))


@dataclass(frozen=True)
class PaperOptions:
    """What a user may choose; the names are those of a scenario's options.

    Attributes:
        rounds: T, hypotheses whose errors are asked; fixed in advance.
        reweight: ask the masses first (Pb. 1). Without it source and target must have the same distribution, and
            error/correct pairs are asked.
        bins: bins per attribute; None takes the paper's rule.
        label_alpha: weight of Pb. 2's regularisation towards 1/2, in squared counts, >= 0; None takes it from the
            variance of noise and sampling.
        label_steps: approach Pb. 2 by so many gradient steps (`descend_labels`), as the paper may have; None solves it.
        soft_labels: train on the relaxed labels of Pb. 2, in [0, 1]; False rounds them.
        hidden, epochs, batch_size, learning_rate, weight_decay: of the networks, see `TrainingOptions`.
        printed: use `paper_ratio`, whose claim is wrong; simulations only.

    Raises:
        ValueError, TypeError: a value out of its range, or of another type.
    """

    rounds: int = 2
    reweight: bool = True
    bins: int | None = None
    label_alpha: float | None = None
    label_steps: int | None = None
    soft_labels: bool = False
    hidden: Sequence[int] = (32, 32)
    epochs: int = 40
    batch_size: int = 512
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    printed: bool = False

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, most=MOST_QUERIES - 1)
        for name in ("bins", "label_steps"):
            whole_or_none(name, getattr(self, name))
        for name in ("epochs", "batch_size"):
            whole(name, getattr(self, name))
        for name in ("reweight", "soft_labels", "printed"):
            flag(name, getattr(self, name))
        for name in ("learning_rate", "weight_decay"):
            number(name, getattr(self, name))
        widths(self.hidden)
        if self.label_alpha is not None and number("label_alpha", self.label_alpha) < 0:
            raise ValueError(f"label_alpha must be finite and not negative, not {self.label_alpha}")
        _ = self.training

    @property
    def training(self) -> TrainingOptions:
        """Of every network."""
        return TrainingOptions(tuple(self.hidden), self.epochs, self.batch_size, self.learning_rate, self.weight_decay)


class PaperStrategy:
    """See the module.

    Args:
        options: see `PaperOptions`.
        cumulative: C-ExPriL if True, I-ExPriL if False.
    """

    def __init__(self, options: PaperOptions, *, cumulative: bool) -> None:
        self._options = options
        self._cumulative = cumulative
        self._asked: list[Hypothesis] = []
        self._newest: Hypothesis = Constant(predicted=1)
        self._estimate: SourceEstimate | None = None
        self._solved: tuple[Vector, Vector] | None = None

    def plan(self, problem: Problem) -> Plan:
        """The masses (if asked) and T error queries, all at scale l = c d (queries) / epsilon (Eq. 14)."""
        d = len(problem.source.schema.attributes)
        queries = self._options.rounds + self._options.reweight
        scale = problem.scale(d * queries)
        if self._options.printed:
            kinds = ["paper_ratio"] * queries
        elif self._options.reweight:
            kinds = ["mass"] + ["signed_error"] * self._options.rounds
        else:
            kinds = ["error_correct"] * self._options.rounds
        return Plan(
            queries=tuple(PlannedQuery(kind="counts", release=kind, partitions=d, scale=scale) for kind in kinds)
        )

    def next_body(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CountsBody:
        """The bins with no hypothesis (masses), or with the newest one."""
        if not answers:
            scale = self.plan(problem).queries[0].scale.fraction
            self._bins = self._options.bins or paper_bin_count(problem.target_size, scale)
            self._features = standardising_map(problem.source)
            self._check_network(problem)
            self._first = _Workload.of(problem, self._bins)
            if self._options.reweight:
                return CountsBody(partitions=self._first.partitions, hypothesis=None)
        if not self._asked:
            self._of_errors = self._first
            if self._options.reweight:
                self._of_errors = _Workload.of(problem, self._bins, self._weights(problem, answers[0]))
        self._asked.append(self._newest)
        return CountsBody(partitions=self._of_errors.partitions, hypothesis=self._newest)

    def absorb(self, problem: Problem, answers: Sequence[CountsAnswer]) -> NetworkModel | None:
        """Solve Pb. 1 and Pb. 2 and train the next hypothesis; None after the masses."""
        answered = answers[self._options.reweight :]
        if not answered:
            return None
        if self._options.reweight:
            weights = self._weights(problem, answers[0])
            masses = self._of_errors.R @ weights
        else:
            weights, masses = self._equal_weights(problem, answered)
        systems = [
            self._system(problem, weights, masses, answer, hypothesis)
            for answer, hypothesis in zip(answered, self._asked, strict=True)
        ]
        chosen = systems if self._cumulative else systems[-1:]
        if self._options.label_steps is None:
            alpha = self._label_alpha(problem, answered[0])
            relaxed = solve_labels(chosen, alpha=alpha, prior=0.5, tolerance=LABEL_TOLERANCE).x
        else:
            relaxed = descend_labels(chosen, steps=self._options.label_steps)
        points = coordinates(self._features, problem.source)
        labels = relaxed if self._options.soft_labels else (relaxed > 0.5).astype(np.float64)
        weighted = weights + 1e-6 * weights.mean() + 1e-12
        network = problem.train(TrainingSet(points, labels, weighted, problem.seed), self._options.training)
        model = NetworkModel(Mlp.of(self._features, list(network.layers)))
        self._newest = model.hypothesis
        self._estimate = SourceEstimate(weights, relaxed)
        return model

    def _check_network(self, problem: Problem) -> None:
        """Raise ConfigurationError where the networks to come are larger than a curator evaluates."""
        sizes = [self._features.width, *self._options.training.hidden, 1]
        parameters = HEADER_PARAMETERS + sum((a + 1) * b for a, b in pairwise(sizes))
        if parameters > problem.limits.parameters or max(sizes) > MOST_FAN_IN or len(sizes) - 1 > MOST_LAYERS:
            raise ConfigurationError(
                f"a network {'-'.join(map(str, sizes))} of about {parameters} parameters is too large: curators allow "
                f"{problem.limits.parameters} parameters, {MOST_LAYERS} layers and a width of {MOST_FAN_IN}; "
                "make the option hidden smaller"
            )

    def source_estimate(self) -> SourceEstimate:
        """The weights of Pb. 1 and the relaxed labels of Pb. 2."""
        if self._estimate is None:
            raise RuntimeError("nothing was answered yet")
        return self._estimate

    def _weights(self, problem: Problem, answer: CountsAnswer) -> Vector:
        """Pb. 1: weights of the source records, in records, from the masses."""
        if self._solved is not None and np.array_equal(self._solved[0], answer.values):
            return self._solved[1]
        if self._options.printed:
            masses = answer.values[:, 0] * problem.target_size
        else:
            masses = _consistent_masses(answer.values[:, 0], answer)
        total = max(float(masses.sum()) / len(self._first.partitions), 1.0)
        alpha = max(answer.noise_variance / 2, LEAST_WEIGHT_ALPHA)
        weights = solve_weights(self._first.R, masses, alpha=alpha, prior=total / len(problem.source)).x
        self._solved = answer.values, weights
        return weights

    def _equal_weights(self, problem: Problem, answers: Sequence[CountsAnswer]) -> tuple[Vector, Vector]:
        """Without Pb. 1: the same weight for every source record, and the masses per bin, in records."""
        n = len(problem.source)
        if self._options.printed:
            weights = np.full(n, problem.target_size / n)
            return weights, self._of_errors.R @ weights
        counted = np.mean([answer.values.sum(axis=1) for answer in answers], axis=0)
        masses = _consistent_masses(counted, answers[0])
        return np.full(n, max(float(masses.sum()) / len(self._of_errors.partitions), 1.0) / n), masses

    def _label_alpha(self, problem: Problem, answer: CountsAnswer) -> float:
        """Weight of Pb. 2's regularisation, for the variance of a bin's number of errors: of noise and of sampling."""
        if self._options.label_alpha is not None:
            return self._options.label_alpha
        noise = answer.noise_variance * _ERROR_VARIANCE[answer.release]
        return SHRINKAGE * (noise + problem.target_size / (4 * self._bins))

    def _system(
        self,
        problem: Problem,
        weights: Vector,
        masses: Vector,
        answer: CountsAnswer,
        hypothesis: Hypothesis,
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
        predicted = hypothesis.predict(problem.source).astype(np.float64)
        return label_system(self._of_errors.R, weights, predicted, np.clip(wrong, 0, 1))


def cumulative(**options: Any) -> PaperStrategy:
    """C-ExPriL; options as `PaperOptions`."""
    return PaperStrategy(PaperOptions(**options), cumulative=True)


def independent(**options: Any) -> PaperStrategy:
    """I-ExPriL; options as `PaperOptions`."""
    return PaperStrategy(PaperOptions(**options), cumulative=False)


def _consistent_masses(values: Vector, answer: CountsAnswer) -> Vector:
    """The nearest values that can be masses: one total for all partitions, none negative."""
    blocks = np.split(values, np.cumsum(answer.sizes)[:-1])
    variances = np.full(len(blocks), max(answer.noise_variance, 1e-12))
    return np.concatenate(make_nonnegative(make_consistent(blocks, variances)).blocks)
