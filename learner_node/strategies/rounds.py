"""What the strategies of several rounds share: what a round asks, and one label model for the answers of all rounds.

Every round asks both labels' counts in the cells of some partitions. How many partitions is fixed before the first
answer, and with the round's share of epsilon it fixes the noise; which ones they are may depend on earlier answers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.label_model import LabelModel, Observation, fit_label_model
from learner_node.models.source import coordinates, standardising_map
from learner_node.strategies.base import Asking, Problem, SourceEstimate
from learner_node.strategies.cells import CellsModel
from protocol.feature_map import FeatureMap
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody
from protocol.partitions import Partition
from protocol.plans import Plan
from protocol.records import Records

MOST_BINS = 40
"""Most bins of one attribute: finer ones say nothing more about a smooth label signal."""


@dataclass
class Known:
    """What is known before a round.

    Attributes:
        features: the source's feature map.
        points: coordinates of the source records under it, (n, width).
        answers: to the rounds so far.
        fits: after each of those rounds, the label model of all answers.
    """

    features: FeatureMap
    points: NDArray[np.float64]
    answers: Sequence[CountsAnswer] = ()
    fits: list[LabelModel] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Of the round to come, 0 first."""
        return len(self.fits)

    def asked(self, source: Records) -> list[list[NDArray[np.int64]]]:
        """By round so far, the cells of the source records in each of the partitions that were asked, (n,) each."""
        return [
            [partition.cells(source).astype(np.int64) for partition in answer.body.partitions]
            for answer in self.answers
        ]

    @property
    def model(self) -> CellsModel:
        """The newest label model behind the feature map; IndexError before the first answer."""
        return CellsModel(self.features, self.fits[-1])

    @property
    def estimate(self) -> SourceEstimate:
        """Posterior mass and label of each source record; IndexError before the first answer."""
        return SourceEstimate(self.fits[-1].source_mass, self.fits[-1].probability(self.points))


class RoundsStrategy(ABC):
    """A strategy of several rounds; a subclass says how many partitions each round asks, and which.

    Args:
        rounds: number of questions.
        shares: of epsilon, one for each round, adding up to 1.
    """

    def __init__(self, rounds: int, shares: tuple[Fraction, ...]) -> None:
        self._rounds, self._shares = rounds, shares

    @abstractmethod
    def partition_counts(self, problem: Problem) -> list[int]:
        """How many partitions each round asks; a function of the schema and the options alone."""

    @abstractmethod
    def partitions(self, problem: Problem, known: Known, epsilon: float) -> list[Partition]:
        """What the next round asks.

        Args:
            problem: the problem.
            known: from the rounds so far.
            epsilon: privacy loss of one partition for one record.
        """

    def plan(self, problem: Problem) -> Plan:
        """Round r asks m_r partitions at scale c m_r / (share_r epsilon): in all exactly epsilon."""
        counts = self.partition_counts(problem)
        return problem.counts_plan([("error_correct", *asked) for asked in zip(counts, self._shares, strict=True)])

    def run(self, problem: Problem) -> Asking:
        """Each round's partitions under the hypothesis "class 1": errors are class 0, correct are class 1.

        After each, the label model is fitted to all answers so far.
        """
        features = standardising_map(problem.source)
        known = Known(features, coordinates(features, problem.source))
        for count, share in zip(self.partition_counts(problem), self._shares, strict=True):
            chosen = self.partitions(problem, known, problem.epsilon_per_record(share, count))
            known.answers = yield (
                CountsBody(partitions=tuple(chosen), hypothesis=Constant(predicted=1)),
                known.model if known.number else None,
            )
            observations = [
                Observation(cells, counts, float(answer.scale), answer.noises)
                for answer, asked in zip(known.answers, known.asked(problem.source), strict=True)
                for cells, counts in zip(asked, answer.blocks, strict=True)
            ]
            known.fits.append(fit_label_model(known.points, observations, seed=problem.seed))
        return known.model, known.estimate


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
