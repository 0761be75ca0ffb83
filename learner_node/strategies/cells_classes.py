"""Strategy `cells` for more than two classes: one count a class over k-means cells of the source, whole budget.

A record adds one to one of the C numbers of one cell, so the question costs what it costs for two classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model.one_against_rest import ClassesLabelModel, fit_classes_label_model
from learner_node.readers.counts import CountsAnswer
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies.base import AnyModel, ClassesEstimate, Problem
from learner_node.strategies.options import whole_or_none
from protocol.feature_map import FeatureMap
from protocol.plans import Plan, PlannedQuery
from protocol.queries.counts import CountsBody
from protocol.records import Records

_PAIR = 2


@dataclass(frozen=True)
class CellsClassesModel:
    """The label models behind the source's feature map."""

    features: FeatureMap
    labels: ClassesLabelModel

    def probabilities(self, records: Records) -> NDArray[np.float64]:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        return self.labels.probabilities(coordinates(self.features, records))


class CellsClassesStrategy:
    """See the module.

    Args:
        cells: number of cells; None takes as many as for two classes, and no more than the curators allow.
    """

    def __init__(self, *, cells: int | None = None) -> None:
        self._cells = whole_or_none("cells", cells)
        self._estimate: ClassesEstimate | None = None

    def plan(self, problem: Problem) -> Plan:
        """One query."""
        planned = PlannedQuery(kind="counts", release="class_counts", partitions=1, scale=problem.scale(1))
        return Plan(queries=(planned,))

    def next_body(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CountsBody:  # noqa: ARG002
        """Nearest of k centres."""
        most = problem.limits.cells * _PAIR // len(problem.source.schema.classes)
        cells = self._cells or max(1, min(problem.cell_rule(problem.epsilon_per_record()), most))
        self._features = standardising_map(problem.source)
        self._partition = kmeans_cells(problem.source, self._features, cells, problem.seed)
        return CountsBody(partitions=(self._partition,), hypothesis=None)

    def absorb(self, problem: Problem, answers: Sequence[CountsAnswer]) -> AnyModel:
        """Fit the label models to the pooled counts."""
        answer = answers[-1]
        points = coordinates(self._features, problem.source)
        labels = fit_classes_label_model(
            points,
            self._partition.cells(problem.source),
            answer.values,
            scale=float(answer.scale),
            sites=answer.sites,
            seed=problem.seed,
        )
        self._estimate = ClassesEstimate(labels.source_mass, labels.probabilities(points))
        return CellsClassesModel(self._features, labels)

    def source_estimate(self) -> ClassesEstimate:
        """Posterior mass and class probabilities of each source record."""
        if self._estimate is None:
            raise RuntimeError("nothing was answered yet")
        return self._estimate
