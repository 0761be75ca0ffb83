"""Strategy `cells`: one question over k-means cells of the source, and a smooth label model.

One partition of the whole instance space has sensitivity 1 (not d), sees interactions, and its error/correct pair
for the constant hypothesis gives both labels' counts per cell at the price of one: the whole budget goes to it. The
label model is a Gaussian process, averaged with small networks that were trained on the same answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.label_model import LabelModel, Observation, cell_count_rule, fit_with_cell_posterior
from learner_node.label_model.cell_networks import CellNetworks, train_cell_networks
from learner_node.readers.counts import CountsAnswer
from learner_node.source import coordinates, kmeans_cells, standardising_map
from learner_node.strategies.base import Model, Problem, SourceEstimate
from learner_node.uncertainty import calibrated, calibration, estimate_accuracy
from protocol.feature_map import FeatureMap
from protocol.hypotheses import Constant
from protocol.plans import Plan, PlannedQuery
from protocol.queries.counts import CountsBody
from protocol.records import Records


@dataclass(frozen=True)
class CellsModel:
    """The label model behind the source's feature map.

    Attributes:
        features: the source's.
        labels: the Gaussian process.
        networks: whose probabilities are averaged with its; None is the Gaussian process alone.
        sharpness: a of the calibration map, P = Phi(a probit(p)); positive.
    """

    features: FeatureMap
    labels: LabelModel
    networks: CellNetworks | None = None
    sharpness: float = 1.0

    def probability(self, records: Records) -> NDArray[np.float64]:
        """P(class 1) for each record: (n,) in [0, 1]."""
        return calibrated(self.uncalibrated(coordinates(self.features, records)), self.sharpness)

    def uncalibrated(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(class 1) before the answers sharpen or blunt it, (n,) in [0, 1]; points are the feature map's."""
        smooth = self.labels.probability(points)
        if self.networks is None:
            return smooth
        averaged: NDArray[np.float64] = 0.5 * smooth + 0.25 * (1.0 + self.networks.signal(points))
        return averaged


class CellsStrategy:
    """See the module.

    Args:
        cells: number of cells; None takes about four noise deviations of signed count a cell, and no more than the
            curators allow.
        networks: whether networks are trained and averaged with the Gaussian process; False takes a few seconds less.
        same_population: whether the learner knows that its source and the private records come from one population
            (unlabelled records of the same hospitals, say). The cells' masses are then known from the source, and the
            question is for signed counts alone: half the noise variance. Where it is wrong, the model is, too.
    """

    def __init__(self, *, cells: int | None = None, networks: bool = True, same_population: bool = False) -> None:
        if cells is not None and (isinstance(cells, bool) or not isinstance(cells, int) or cells < 1):
            raise ValueError("cells must be a whole number of at least 1")
        for name, value in (("networks", networks), ("same_population", same_population)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be true or false")
        self._cells = cells
        self._networks = networks
        self._signed = same_population
        self._estimate: SourceEstimate | None = None

    def plan(self, problem: Problem) -> Plan:
        """One query."""
        release = "signed_error" if self._signed else "error_correct"
        planned = PlannedQuery(kind="counts", release=release, partitions=1, scale=problem.scale(1))
        return Plan(queries=(planned,))

    def next_body(self, problem: Problem, answers: Sequence[CountsAnswer]) -> CountsBody:  # noqa: ARG002
        """Nearest of k centres, under the hypothesis "class 1": errors are class 0, correct are class 1."""
        per_record = float(problem.epsilon) / problem.most_records_per_unit
        rule = cell_count_rule(len(problem.source), per_record, problem.sites, signed=self._signed)
        cells = self._cells or min(rule, problem.limits.cells)
        self._features = standardising_map(problem.source)
        self._partition = kmeans_cells(problem.source, self._features, cells, problem.seed)
        return CountsBody(partitions=(self._partition,), hypothesis=Constant(predicted=1))

    def absorb(self, problem: Problem, answers: Sequence[CountsAnswer]) -> Model:
        """Fit the label model to the pooled pair counts; calibrate it and estimate its accuracy by the same."""
        answer = answers[-1]
        points = coordinates(self._features, problem.source)
        labels, posterior = fit_with_cell_posterior(points, self._observation(problem, answer), seed=problem.seed)
        networks = train_cell_networks(points, posterior, seed=problem.seed) if self._networks else None
        probability = CellsModel(self._features, labels, networks).uncalibrated(points)
        sharpness = calibration(probability, posterior, seed=problem.seed)
        self._estimate = SourceEstimate(
            labels.source_mass,
            calibrated(probability, sharpness),
            estimate_accuracy(probability, posterior, seed=problem.seed),
        )
        return CellsModel(self._features, labels, networks, sharpness)

    def _observation(self, problem: Problem, answer: CountsAnswer) -> Observation:
        cells, scale = self._partition.cells(problem.source), float(answer.scale)
        if not self._signed:
            return Observation(cells, answer.values, scale, answer.sites)
        total = problem.target_size * answer.sites / problem.sites
        return Observation.of_signed(cells, answer.values[:, 0], total=total, scale=scale, sites=answer.sites)

    def source_estimate(self) -> SourceEstimate:
        """Posterior mass and label of each source record."""
        if self._estimate is None:
            raise RuntimeError("nothing was answered yet")
        return self._estimate
