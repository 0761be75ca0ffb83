"""What the strategies of several rounds share: what a round asks, and one label model for the answers of all rounds.

Every round asks both labels' counts in the cells of some partitions. How many partitions is fixed before the first
answer, and with the round's share of epsilon it fixes the noise; which ones they are may depend on earlier answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model import LabelModel, Observation, fit_label_model
from learner_node.readers.counts import CountsAnswer
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Problem, SourceEstimate
from learner_node.strategies.cells import CellsModel
from learner_node.strategies.options import Share, exact_shares, whole
from protocol.hypotheses import Constant
from protocol.partitions import Partition
from protocol.plans import MOST_QUERIES, Plan, PlannedQuery
from protocol.queries.counts import CountsBody

MOST_BINS = 40
"""Most bins of one attribute: finer ones say nothing more about a smooth label signal."""


class RoundsStrategy(ABC):
    """A strategy of several rounds; a subclass says how many partitions each round asks, and which.

    Args:
        rounds: number of questions.
        shares: of epsilon, see `exact_shares`.
    """

    def __init__(self, rounds: int, shares: Sequence[Share] | None) -> None:
        self._rounds = whole("rounds", rounds, most=MOST_QUERIES)
        self._shares = exact_shares(self._rounds, shares)
        self._asked: list[list[NDArray[np.int64]]] = []
        self._labels: LabelModel | None = None
        self._points: NDArray[np.float64] = np.empty((0, 0))

    @abstractmethod
    def partition_counts(self, problem: Problem) -> list[int]:
        """How many partitions each round asks; a function of the schema and the options alone."""

    @abstractmethod
    def partitions(self, problem: Problem, number: int, epsilon: float) -> list[Partition]:
        """What round `number` asks, 0 first.

        Args:
            problem: the problem.
            number: of the round.
            epsilon: privacy loss of one partition for one record.
        """

    def plan(self, problem: Problem) -> Plan:
        """Round r asks m_r partitions at scale c m_r / (share_r epsilon): in all exactly epsilon."""
        return Plan(
            queries=tuple(
                PlannedQuery(
                    kind="counts", release="error_correct", partitions=count, scale=problem.scale(count, share)
                )
                for count, share in zip(self.partition_counts(problem), self._shares, strict=True)
            )
        )

    def next_body(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CountsBody:
        """The next round's partitions, under the hypothesis "class 1": errors are class 0, correct are class 1."""
        number = len(answers)
        if not number:
            self._features = standardising_map(problem.source)
            self._points = coordinates(self._features, problem.source)
        count = self.partition_counts(problem)[number]
        epsilon = problem.epsilon_per_record(self._shares[number], count)
        chosen = self.partitions(problem, number, epsilon)
        self._asked.append([partition.cells(problem.source).astype(np.int64) for partition in chosen])
        return CountsBody(partitions=tuple(chosen), hypothesis=Constant(predicted=1))

    def absorb(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CellsModel:
        """Fit the label model to all answers so far."""
        observations = [
            Observation(cells, counts, float(answer.scale), answer.sites)
            for answer, asked in zip(answers, self._asked, strict=True)
            for cells, counts in zip(asked, answer.blocks, strict=True)
        ]
        self._labels = fit_label_model(self._points, observations, seed=problem.seed)
        return CellsModel(self._features, self._labels)

    def source_estimate(self) -> SourceEstimate:
        """Posterior mass and label of each source record."""
        if self._labels is None:
            raise RuntimeError("nothing was answered yet")
        return SourceEstimate(self._labels.source_mass, self._labels.probability(self._points))


def bin_count(problem: Problem, epsilon: float, wanted: int | None, partitions: int) -> int:
    """Bins of each of several attributes.

    Args:
        problem: the problem.
        epsilon: of one partition for one record.
        wanted: the user's number; None takes about three noise deviations of signed count in each bin, at most 40.
        partitions: asked together; their bins keep to the number of cells that the curators allow, where it can be.
    """
    rule = problem.cell_rule(epsilon, most=MOST_BINS)
    # Each attribute has a further bin for missing values.
    return max(1, min(wanted or rule, problem.limits.cells // partitions - 1))


def joint_cell_count(problem: Problem, epsilon: float, wanted: int | None, partitions: int = 1) -> int:
    """As `bin_count`, for cells of the whole instance space."""
    rule = problem.cell_rule(epsilon)
    return max(1, min(wanted or rule, problem.limits.cells // partitions))
