"""Strategies `paper-i` and `paper-c`: the paper's method with a valid mechanism (Eq. 1-6, Algorithm 1).

One partition per attribute (sensitivity d), first the masses, then the errors of h_0 = "class 1", h_1, ... The
*instantaneous* variant solves the newest linear system for the labels, the *cumulative* one all of them. The
printed mechanism (`paper_ratio`) can be asked for in simulations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit

from learner_node.consistency import make_consistent, make_nonnegative
from learner_node.networks import train_network
from learner_node.readers.counts import CountsAnswer
from learner_node.solvers import LabelSystem, label_system, solve_labels, solve_weights
from learner_node.source import coordinates, even_bins, paper_bin_count, standardising_map
from learner_node.strategies.base import Problem, SourceEstimate
from protocol.errors import ConfigurationError
from protocol.feature_map import STEPS
from protocol.hypotheses import MOST_FAN_IN, MOST_LAYERS, Constant, Hypothesis, Mlp
from protocol.partitions import FeatureBins
from protocol.plans import MOST_QUERIES, Plan, PlannedQuery
from protocol.queries.counts import CountsBody
from protocol.records import Records

LABEL_ALPHA = 1e-3
"""Weight of Pb. 2's regularisation, in squared counts."""
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


class PaperStrategy:
    """See the module.

    Args:
        cumulative: C-ExPriL if True, I-ExPriL if False.
        rounds: T, hypotheses whose errors are asked; fixed in advance.
        reweight: ask the masses first (Pb. 1). Without it source and target must have the same distribution, and
            error/correct pairs are asked.
        bins: bins per attribute; None takes the paper's rule.
        hidden: widths of the hidden layers.
        printed: use `paper_ratio`, whose claim is wrong; simulations only.
    """

    def __init__(
        self,
        *,
        cumulative: bool = True,
        rounds: int = 2,
        reweight: bool = True,
        bins: int | None = None,
        hidden: tuple[int, ...] = (32, 32),
        printed: bool = False,
    ) -> None:
        if not all(map(_counts, [rounds, *hidden, *([] if bins is None else [bins])])):
            raise ValueError("rounds, bins and hidden must be whole numbers of at least 1")
        if rounds >= MOST_QUERIES:
            raise ValueError(f"rounds must be below {MOST_QUERIES}")
        self._cumulative = cumulative
        self._rounds = rounds
        self._reweight = reweight
        self._bins = bins
        self._hidden = tuple(hidden)
        self._printed = printed
        self._asked: list[Hypothesis] = []
        self._newest: Hypothesis = Constant(predicted=1)
        self._estimate: SourceEstimate | None = None

    def plan(self, problem: Problem) -> Plan:
        """The masses (if asked) and T error queries, all at scale l = c d (queries) / epsilon (Eq. 14)."""
        d = len(problem.source.schema.attributes)
        queries = self._rounds + self._reweight
        scale = problem.scale(d * queries)
        if self._printed:
            kinds = ["paper_ratio"] * queries
        elif self._reweight:
            kinds = ["mass"] + ["signed_error"] * self._rounds
        else:
            kinds = ["error_correct"] * self._rounds
        return Plan(
            queries=tuple(PlannedQuery(kind="counts", release=kind, partitions=d, scale=scale) for kind in kinds)
        )

    def next_body(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CountsBody:
        """The bins with no hypothesis (masses), or with the newest one."""
        if not answers:
            scale = self.plan(problem).queries[0].scale.fraction
            bins = self._bins or paper_bin_count(problem.target_size, scale)
            self._partitions = tuple(even_bins(problem.source, bins))
            self._features = standardising_map(problem.source)
            self._check_network(problem)
            self._R = _bin_matrix(self._partitions, problem.source)
        if self._reweight and not answers:
            return CountsBody(partitions=self._partitions, hypothesis=None)
        self._asked.append(self._newest)
        return CountsBody(partitions=self._partitions, hypothesis=self._newest)

    def absorb(self, problem: Problem, answers: Sequence[CountsAnswer]) -> NetworkModel | None:
        """Solve Pb. 1 and Pb. 2 and train the next hypothesis; None after the masses."""
        weights, masses = self._weights(problem, answers)
        systems = [
            self._system(problem, weights, masses, answer, hypothesis)
            for answer, hypothesis in zip(answers[self._reweight :], self._asked, strict=False)
        ]
        if not systems:
            return None
        chosen = systems if self._cumulative else systems[-1:]
        relaxed = solve_labels(chosen, alpha=LABEL_ALPHA, prior=0.5).x
        points = coordinates(self._features, problem.source)
        labels = (relaxed > 0.5).astype(np.float64)
        network = train_network(
            points, labels, hidden=self._hidden, weights=weights + 1e-6 * weights.mean() + 1e-12, seed=problem.seed
        )
        model = NetworkModel(Mlp.of(self._features, list(network.layers)))
        self._newest = model.hypothesis
        self._estimate = SourceEstimate(weights, relaxed)
        return model

    def _check_network(self, problem: Problem) -> None:
        """Raise ConfigurationError where the networks to come are larger than a curator evaluates."""
        sizes = [self._features.width, *self._hidden, 1]
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

    def _weights(
        self, problem: Problem, answers: Sequence[CountsAnswer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Pb. 1: weights of the source records, in records, and the masses per bin."""
        n = len(problem.source)
        if self._printed and self._reweight:
            masses = answers[0].values[:, 0] * problem.target_size
        elif self._printed:
            weights = np.full(n, problem.target_size / n)
            return weights, self._R @ weights
        else:
            counted = [answers[0]] if self._reweight else list(answers)
            values = np.mean([answer.values.sum(axis=1) for answer in counted], axis=0)
            blocks = np.split(values, np.cumsum(answers[0].sizes)[:-1])
            variances = np.full(len(blocks), max(answers[0].noise_variance, 1e-12))
            masses = np.concatenate(make_nonnegative(make_consistent(blocks, variances)).blocks)
        total = max(masses.sum() / len(self._partitions), 1.0)
        if not self._reweight:
            return np.full(n, total / n), masses
        alpha = max(answers[0].noise_variance / 2, 1e-6)
        solution = solve_weights(self._R, masses, alpha=alpha, prior=total / n)
        return solution.x, masses

    def _system(
        self,
        problem: Problem,
        weights: NDArray[np.float64],
        masses: NDArray[np.float64],
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
        return label_system(self._R, weights, predicted, np.clip(wrong, 0, 1))


def _counts(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _bin_matrix(partitions: Sequence[FeatureBins], source: Records) -> scipy.sparse.csr_matrix:
    """R: (K, n) with a 1 where record i falls in bin k; every column has d ones."""
    sizes = [partition.cell_count(source.schema) for partition in partitions]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.concatenate(
        [start + partition.cells(source) for start, partition in zip(starts, partitions, strict=False)]
    )
    columns = np.tile(np.arange(len(source)), len(partitions))
    ones = np.ones(len(rows))
    return scipy.sparse.csr_matrix((ones, (rows, columns)), shape=(int(starts[-1]), len(source)))
