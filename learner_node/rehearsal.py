"""How a strategy would fare on problems that are drawn from a prior, before anything is asked.

A strategy is rehearsed: curators with invented records answer it, with noise of the exact law, and its last model is
scored on the source. Of `cells` with two classes the fits of all problems are foreseen together instead
(`learner_node/label_model/foresight.py`), since one real fit takes as long as all of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model.foresight import foreseen_signals
from learner_node.label_model.prior import PriorProblems
from learner_node.expected_area import expected_auc
from learner_node.readers import READERS
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem, class_probabilities
from learner_node.strategies.cells import CellsStrategy
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace
from protocol.queries import QUERY_KINDS
from protocol.queries.counts import CountsBody

Floats = NDArray[np.float64]
Tick = Callable[[], None]


@dataclass(frozen=True)
class Rehearsal:
    """Scores on the population from which the private records are drawn.

    Attributes:
        accuracy: of each problem's last model, float64 (P,), in [0, 1].
        auc: area under its ROC curve, float64 (P,), in [0, 1].
        bodies: what was asked in the first problem, one a turn.
    """

    accuracy: Floats
    auc: Floats
    bodies: tuple[Any, ...]


def rehearse(
    problem: Problem, strategy: str, options: Mapping[str, Any], drawn: PriorProblems, *, seed: int, tick: Tick
) -> Rehearsal:
    """Run the strategy against invented curators, once for each problem.

    Args:
        problem: whose source the problems were drawn on.
        strategy, options: see `make_strategy`.
        drawn: the problems.
        seed: of the private records' draw and of the noise, together with the number of the problem.
        tick: called after each problem.

    Raises:
        ConfigurationError: a plan that cannot be rehearsed, or learns no model.
    """
    found = []
    asked: list[Any] = []
    for number, probability in enumerate(drawn.probability.T):
        rng = np.random.default_rng([seed, number, 1])
        private = _multiplicities(problem, rng)
        ones = rng.binomial(private, np.clip(probability, 0.0, 1.0))
        tally = np.column_stack([private - ones, ones])
        chosen = make_strategy(strategy, options)
        conversation = Conversation(chosen, problem)
        answers: list[Any] = []
        bodies: list[Any] = []
        for turn in QUERY_KINDS.turns(chosen.plan(problem)):
            bodies.append(conversation.body)
            reader = READERS[turn.planned.kind]
            answers.append(reader.rehearse(bodies[-1], turn, problem.source, tally, problem.sites, rng))
            conversation.hear(answers)
        model = conversation.models[-1]
        if model is None:
            raise ConfigurationError(f"strategy {strategy!r} learnt no model from its plan")
        found.append(_scores(class_probabilities(model, problem.source)[:, 1] - 0.5, probability))
        asked = asked or bodies
        tick()
    accuracy, auc = np.array(found).T
    return Rehearsal(accuracy, auc, tuple(asked))


def foresee_cells(problem: Problem, options: Mapping[str, Any], drawn: PriorProblems, *, seed: int) -> Rehearsal:
    """As `rehearse`, of strategy `cells` with two classes, with its label model's fit in closed form.

    Left out: networks, calibration, and with `mass_share` the error of the masses (its share of epsilon is not).
    """
    strategy = CellsStrategy(**options)
    turn = QUERY_KINDS.turns(strategy.plan(problem))[-1]
    law, pairs = turn.planned.law, turn.planned.release == "error_correct"
    features = standardising_map(problem.source)
    partition = kmeans_cells(problem.source, features, strategy.cell_count(problem), problem.seed)
    _, cells = np.unique(partition.cells(problem.source), return_inverse=True)
    counts = np.bincount(cells).astype(np.float64)
    mass = problem.target_size * counts / counts.sum()
    observed = np.empty((len(counts), drawn.probability.shape[1]))
    for number, probability in enumerate(drawn.probability.T):
        rng = np.random.default_rng([seed, number, 1])
        share = np.clip(np.bincount(cells, probability) / counts, 0.0, 1.0)
        private = rng.multinomial(problem.target_size, counts / counts.sum())
        ones = rng.binomial(private, share)
        noise = _summed_noise(law, problem.sites * (2 if pairs else 1), len(counts), rng)
        observed[:, number] = (2 * ones - private + noise) / mass
    variance = (law.variance(problem.sites * (2 if pairs else 1)) + mass) / mass**2
    points = coordinates(features, problem.source)
    signals = foreseen_signals(points, cells, observed, variance, seed=problem.seed)
    scores = [_scores(signal, each) for signal, each in zip(signals.T, drawn.probability.T, strict=True)]
    accuracy, auc = np.array(scores).T
    return Rehearsal(accuracy, auc, (CountsBody(partitions=(partition,), hypothesis=None),))


def _multiplicities(problem: Problem, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many private records are like each source record: they are drawn from the source."""
    n = len(problem.source)
    return rng.multinomial(problem.target_size, np.full(n, 1.0 / n))


def _summed_noise(law: DiscreteLaplace, draws: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Sums of independent draws, int64 (size,): a difference of negative binomials, however many they are."""
    success = -np.expm1(-1.0 / float(law.scale))
    return np.subtract(*rng.negative_binomial(draws, success, (2, size)))


def _scores(signal: Floats, probability: Floats) -> tuple[float, float]:
    """Accuracy and area under the ROC curve of a signal whose sign is the class."""
    accuracy = float(np.where(signal > 0, probability, 1.0 - probability).mean())
    return accuracy, expected_auc(signal, probability)
