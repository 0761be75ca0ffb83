"""Simulates a strategy on problems drawn from a prior, before anything is asked.

In a rehearsal, simulated curators with invented records answer the strategy, with noise of the exact law, and its last
model is scored on the source. For `cells` with two classes, all problems are fitted together in closed form instead
(`learner_node/models/label_model/prior.py`), since one real fit takes as long as all of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds import READERS
from learner_node.models.label_model.prior import Foresight, PriorProblems
from learner_node.models.source import coordinates, kmeans_cells, standardising_map
from learner_node.plug_ins import named_package, with_package
from learner_node.scores.auc import expected_auc
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem, class_probabilities
from learner_node.strategies.cells import CellsStrategy
from learner_node.strategies.selected import is_wide
from learner_node.study.reading import questions
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.feature_map import FeatureMap
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.noise import DiscreteLaplace
from protocol.partitions import Partition
from protocol.query_kind import Kinds
from protocol.records import Records

Floats = NDArray[np.float64]
Tick = Callable[[int], None]

CARRIERS = 10
"""Number of attributes that determine the class in a problem on a wide source."""


@dataclass(frozen=True)
class Rehearsal:
    """Scores on the population from which the private records are drawn."""

    accuracy: Floats  # of each problem's last model, float64 (P,), in [0, 1]
    auc: Floats  # area under its ROC curve, float64 (P,), in [0, 1]
    bodies: tuple[Any, ...]  # what was asked in the first problem, one a turn


def rehearse(
    problem: Problem, strategy: str, options: Mapping[str, Any], prior: PriorProblems, *, seed: int, tick: Tick
) -> Rehearsal:
    """Run the strategy against simulated curators, once for each problem.

    Args:
        problem: the strategy's problem, on whose source the simulated problems were drawn.
        strategy: as in `make_strategy`.
        options: as in `make_strategy`.
        prior: the problems.
        seed: with the problem's number, seeds the private records' draw and the noise.
        tick: called after each problem with the number of those done.

    Raises:
        ConfigurationError: the plan cannot be rehearsed, or learns no model.
    """
    readers = with_package(READERS, named_package(strategy=strategy))
    kinds = Kinds(*(reader.kind for reader in readers.values()))
    scores = []
    first_bodies: list[Any] = []
    for number, probability in enumerate(prior.probability.T):
        rng = np.random.default_rng([seed, number, 1])
        private = _multiplicities(problem, rng)
        ones = rng.binomial(private, np.clip(probability, 0.0, 1.0))
        tally = np.column_stack([private - ones, ones])
        chosen = make_strategy(strategy, options)
        conversation = Conversation(chosen, problem)
        answers: list[Any] = []
        bodies: list[Any] = []
        try:
            turns = questions(kinds.turns(chosen.plan(problem)), readers)
        except RemoteProtocolError:
            raise ConfigurationError(
                f"{strategy} asks for what is not private as claimed, or not installed; there is no quote for it"
            ) from None
        for turn in turns:
            bodies.append(conversation.body)
            reader = readers[turn.planned.kind]
            answers.append(reader.rehearse(bodies[-1], turn, problem.source, tally, problem.sites, rng))
            conversation.hear(answers)
        model = conversation.models[-1]
        if model is None:
            raise ConfigurationError(f"strategy {strategy!r} learnt no model from its plan")
        scores.append(_scores(class_probabilities(model, problem.source)[:, 1] - 0.5, probability))
        first_bodies = first_bodies or bodies
        tick(number + 1)
    accuracy, auc = np.array(scores).T
    return Rehearsal(accuracy, auc, tuple(first_bodies))


def carriers(source: Records, number: int, seed: int) -> Floats | list[Floats]:
    """Coordinates that carry a problem's signal: all, or `CARRIERS` random attributes of a wide source."""
    features = standardising_map(source)
    points = coordinates(features, source)
    if not is_wide(source):
        return points
    widths = [FeatureMap((feature,)).width for feature in features.features]
    parts = np.split(points, np.cumsum(widths)[:-1], axis=1)
    rng = np.random.default_rng([seed, len(parts)])
    return [np.concatenate([parts[at] for at in rng.permutation(len(parts))[:CARRIERS]], axis=1) for _ in range(number)]


class CellsForeseen:
    """Simulates strategy `cells` with two classes, its label model fitted in closed form.

    It leaves out networks, calibration and, with `mass_share`, the error of the masses (but not its share of epsilon).
    `source` and `prior` are the problems'; `seed` is as in `rehearse`, and also seeds cells and random features.
    """

    def __init__(self, source: Records, prior: PriorProblems, *, seed: int) -> None:
        self._source, self._prior, self._seed = source, prior, seed
        self._features = standardising_map(source)
        self._foresight = Foresight(coordinates(self._features, source), seed=seed)
        self._cells: dict[int, tuple[Partition, NDArray[np.int64]]] = {}

    def rehearse(self, problem: Problem, options: Mapping[str, Any]) -> Rehearsal:
        """Score one plan; the result's `bodies` hold the last question alone."""
        strategy = CellsStrategy(**options)
        planned = QUERY_KINDS.turns(strategy.plan(problem))[-1].planned
        draws = problem.noises * (1 if planned.release == "signed_error" else 2)
        partition, cells = self._cells_of(strategy.cell_count(problem))
        counts = np.bincount(cells).astype(np.float64)
        probability = self._prior.probability
        mass = problem.target_size * counts / counts.sum()
        observed = np.empty((len(counts), probability.shape[1]))
        for number, column in enumerate(probability.T):
            rng = np.random.default_rng([self._seed, number, 1])
            private = rng.multinomial(problem.target_size, counts / counts.sum())
            ones = rng.binomial(private, np.clip(np.bincount(cells, column) / counts, 0.0, 1.0))
            noise = _summed_noise(planned.law, draws, len(counts), rng)
            observed[:, number] = (2 * ones - private + noise) / mass
        variance = (planned.law.variance(draws) + mass) / mass**2
        signals = self._foresight.signals(cells, observed, variance)
        scores = [_scores(signal, column) for signal, column in zip(signals.T, probability.T, strict=True)]
        accuracy, auc = np.array(scores).T
        return Rehearsal(accuracy, auc, (CountsBody(partitions=(partition,), hypothesis=None),))

    def _cells_of(self, number: int) -> tuple[Partition, NDArray[np.int64]]:
        """A partition, and each source record's cell, numbered over the non-empty cells."""
        if number not in self._cells:
            partition = kmeans_cells(self._source, self._features, number, self._seed)
            _, cells = np.unique(partition.cells(self._source), return_inverse=True)
            self._cells[number] = partition, cells.astype(np.int64)
        return self._cells[number]


def _multiplicities(problem: Problem, rng: np.random.Generator) -> NDArray[np.int64]:
    """Number of private records that copy each source record, in a draw with replacement."""
    n = len(problem.source)
    return rng.multinomial(problem.target_size, np.full(n, 1.0 / n))


def _summed_noise(law: DiscreteLaplace, draws: float, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sums of independent draws, int64 (size,), as differences of negative binomials; `draws` may be fractional."""
    success = -np.expm1(-1.0 / float(law.scale))
    noise: NDArray[np.int64] = np.subtract(*rng.negative_binomial(draws, success, (2, size)))
    return noise


def _scores(signal: Floats, probability: Floats) -> tuple[float, float]:
    """Accuracy and area under the ROC curve of a signal whose sign predicts the class."""
    accuracy = float(np.where(signal > 0, probability, 1.0 - probability).mean())
    return accuracy, expected_auc(signal, probability)
