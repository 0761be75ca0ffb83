"""Strategy `cells` for more than two classes: one count a class over k-means cells of the source, whole budget.

A record adds one to one of the C numbers of one cell, so the question costs what it costs for two classes.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from learner_node.models.label_model.one_against_rest import ClassesLabelModel, fit_classes_label_model
from learner_node.models.source import coordinates, held_apart, kmeans_cells, standardising_map
from learner_node.scores.class_recall import class_recalls
from learner_node.scores.prevalence import estimate_prevalences, matching_factors, rescaled
from learner_node.strategies.base import Asking, ClassesEstimate, Problem
from learner_node.strategies.options import whole_or_none
from protocol.feature_map import FeatureMap
from protocol.kinds.counts import CountsBody
from protocol.plans import Plan
from protocol.records import Records

_PAIR = 2


@dataclass(frozen=True)
class CellsClassesModel:
    """The label models behind the source's feature map."""

    features: FeatureMap
    labels: ClassesLabelModel
    factors: NDArray[np.float64]
    """Of the classes' odds, float64 (C,), positive: by them the answers bear out the target's mean of each class."""

    def probabilities(self, records: Records) -> NDArray[np.float64]:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        return rescaled(self.labels.probabilities(coordinates(self.features, records)), self.factors)


class CellsClassesStrategy:
    """See the module.

    Args:
        cells: number of cells; None takes as many as for two classes, and no more than the curators allow.
    """

    def __init__(self, *, cells: int | None = None) -> None:
        self._cells = whole_or_none("cells", cells)

    def plan(self, problem: Problem) -> Plan:
        """One query."""
        return problem.counts_plan([("class_counts", 1, Fraction(1))])

    def run(self, problem: Problem) -> Asking:
        """Nearest of k centres, and label models that are fitted to the pooled counts."""
        most = problem.limits.cells * _PAIR // len(problem.source.schema.classes)
        count = self._cells or max(1, min(problem.cell_rule(problem.epsilon_per_record()), most))
        features = standardising_map(problem.source)
        partition = kmeans_cells(problem.source, features, count, problem.seed)
        (answer,) = yield CountsBody(partitions=(partition,), hypothesis=None), None
        points, cells = coordinates(features, problem.source), answer.body.partitions[0].cells(problem.source)
        labels, posteriors = fit_classes_label_model(
            points,
            cells,
            answer.values,
            scale=float(answer.scale),
            noises=answer.noises,
            seed=problem.seed,
        )
        counted = estimate_prevalences(
            answer.values.sum(axis=0),
            len(answer.values) * answer.noise_variance,
            declared=problem.records_at(answer.sites),
            records_per_unit=problem.most_records_per_unit,
        )
        apart = labels.probabilities(held_apart(points, cells))
        wanted = [each.nearest(own, labels.source_mass) for each, own in zip(counted, apart.T, strict=True)]
        factors = matching_factors(apart, labels.source_mass, wanted)
        said = rescaled(labels.probabilities(points), factors)
        recalls = class_recalls(posteriors, labels.exclusion, said, seed=problem.seed)
        estimate = ClassesEstimate(labels.source_mass, said, counted, recalls)
        return CellsClassesModel(features, labels, factors), estimate
