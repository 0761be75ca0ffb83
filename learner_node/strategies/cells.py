"""Strategy `cells`: label counts in k-means cells of the source, and a smooth label model.

One partition of the whole instance space has sensitivity 1 (not d) and captures interactions of attributes. Both
labels' counts in its cells are asked at the price of one, and the whole budget goes to that question. The label model
is a Gaussian process, averaged with small networks that were trained on the same answers.

*Signed* counts (label 1 less label 0) have half the noise variance of a difference of two counts, but do not say how
many records they came from. They are asked where the learner knows that, or buys it with a share of the budget.

Of C classes, a record adds one to one of the C numbers of one cell, so the question costs what it costs for two. The
curators' card says what the label is (`CellsByLabel`); a label that is a number is asked by `cells_number`. Where a
source has many attributes, the curators choose some of them first (`learner_node.strategies.selected`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.counts import CountsAnswer
from learner_node.models.label_model import LabelModel, Observation, fit_with_cell_posterior, most_cells
from learner_node.models.label_model.cell_networks import CellNetworks, train_cell_networks
from learner_node.models.label_model.likelihood import shrunken_ratios
from learner_node.models.label_model.one_against_rest import ClassesLabelModel, fit_classes_label_model
from learner_node.models.source import coordinates, held_apart, judged, kmeans_cells
from learner_node.scores.estimates import class_recalls, estimate_accuracy
from learner_node.scores.prevalence import (
    Prevalence,
    estimate_prevalences,
    matching_factors,
    matching_intercept,
    rescaled,
    shifted,
)
from learner_node.strategies import options
from learner_node.strategies.base import Asking, ClassesEstimate, Problem, SourceEstimate, Strategy
from learner_node.strategies.cells_number import CellsNumberStrategy
from learner_node.strategies.options import Share, attributes_chosen, names_of, whole_or_none
from learner_node.strategies.selected import AttributeChoice, ChosenFirst, choice_of
from protocol.errors import ConfigurationError
from protocol.feature_map import FeatureMap
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody
from protocol.plans import Plan
from protocol.records import Records
from protocol.schema import Schema

LEAST_TOTAL = 0.3
"""Smallest accepted noisy total, as a share of the declared one; a smaller total is raised to it."""


@dataclass(frozen=True)
class CellsModel:
    """The label model composed with the source's feature map."""

    features: FeatureMap  # the source's
    labels: LabelModel  # the Gaussian process
    # whose probabilities are averaged with its, by their weight; None is the Gaussian process alone
    networks: CellNetworks | None = None
    # b of P = Phi(probit(p) + b), by which the target's mean of P is near what the answers say of class 1
    intercept: float = 0.0

    def probability(self, records: Records) -> NDArray[np.float64]:
        """P(class 1) for each record: (n,) in [0, 1]."""
        return shifted(self.unshifted(coordinates(self.features, records)), self.intercept)

    def matched(
        self, unshifted: NDArray[np.float64], mass: NDArray[np.float64], prevalence: Prevalence
    ) -> "CellsModel":
        """The model with its mean moved to one that the answers support.

        `unshifted` (m,) are this model's probabilities where other records of the population lie (`held_apart`), `mass`
        (m,) is as in `mean_probability`, and `prevalence` is that of class 1.
        """
        return replace(self, intercept=matching_intercept(unshifted, mass, prevalence.nearest(unshifted, mass)))

    def unshifted(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(class 1) before `matched` moved it, (n,) in [0, 1]; `points` are the feature map's."""
        smooth = self.labels.probability(points)
        if self.networks is None:
            return smooth
        share = self.networks.weight
        averaged: NDArray[np.float64] = (1.0 - share) * smooth + share * 0.5 * (1.0 + self.networks.signal(points))
        return averaged


class CellsStrategy:
    """Strategy `cells` for two classes.

    Args:
        cells: number of cells. None gives each about three times as many records as a signed count's noise deviation,
            within the curators' limits.
        networks: whether networks are trained and averaged with the Gaussian process; False saves their time.
        same_population: whether source and private records are known to come from one population (unlabelled records of
            the same hospitals, say). The source then gives the cells' masses, and only signed counts are asked. The
            model is wrong if this is not so, or if declared sizes are far off.
        mass_share: share of epsilon for a first question about the masses of a few regions; the rest asks signed
            counts. 0 asks both labels' counts in one question.
    """

    def __init__(
        self,
        *,
        cells: int | None = None,
        networks: bool = True,
        same_population: bool = False,
        mass_share: Share = 0,
    ) -> None:
        self._cells, self._networks, self._known, self._mass_share = options.cells_of_two(
            cells=cells, networks=networks, same_population=same_population, mass_share=mass_share
        )

    def plan(self, problem: Problem) -> Plan:
        """One or two queries that cost exactly epsilon together."""
        return problem.counts_plan([(release, 1, share) for release, share in self._questions()])

    def run(self, problem: Problem) -> Asking:
        """Ask class counts (errors of the hypothesis "class 1" are class 0) in the cells nearest to k centres.

        The label model is fitted to the pooled counts, which also estimate its prevalence and accuracy. It reads the
        points of the `judged` records alone.
        """
        source, seed = problem.source, problem.seed
        features = problem.features
        if self._mass_share:
            count = _region_count(problem, problem.epsilon_per_record(self._mass_share))
            yield CountsBody(partitions=(kmeans_cells(source, features, count, seed),), hypothesis=None), None
        partition = kmeans_cells(source, features, self.cell_count(problem), seed)
        answers = yield CountsBody(partitions=(partition,), hypothesis=Constant(predicted=1)), None
        observation = self._observation(problem, answers)
        rows, stands_for = judged(observation.cells, seed)
        points = coordinates(features, source, rows)
        labels, posterior = fit_with_cell_posterior(points, observation, seed=seed, rows=rows)
        networks = train_cell_networks(points, posterior, seed=seed) if self._networks else None
        prevalence = self._prevalence(problem, answers[-1], observation)
        model = CellsModel(features, labels, networks)
        unshifted = model.unshifted(points)
        everywhere = len(points) == len(source)
        # Cells of a larger source have fifty records or more, which would move by a fiftieth.
        apart = model.unshifted(held_apart(points, observation.cells)) if everywhere else unshifted
        model = model.matched(apart, labels.source_mass[rows] * stands_for, prevalence)
        probability = shifted(unshifted, model.intercept)
        bound = problem.most_records_per_unit
        accuracy = estimate_accuracy(probability, posterior, seed=seed, records_per_unit=bound)
        if everywhere:
            return model, SourceEstimate(labels.source_mass, probability, accuracy, prevalence)
        of_all = partial(model.probability, source)
        return model, SourceEstimate.on_demand(
            "probability", of_all, weights=labels.source_mass, accuracy=accuracy, counted=prevalence
        )

    def cell_count(self, problem: Problem) -> int:
        """Number of cells for the question on labels: the option, or the rule within the curators' limit."""
        release, share = self._questions()[-1]
        most = most_cells(len(problem.source))
        rule = problem.cell_rule(problem.epsilon_per_record(share), signed=release == "signed_error", most=most)
        return self._cells or min(rule, problem.limits.cells)

    def _questions(self) -> tuple[tuple[str, Fraction], ...]:
        """Release kind and share of epsilon of each question."""
        if self._known:
            return (("signed_error", Fraction(1)),)
        if not self._mass_share:
            return (("error_correct", Fraction(1)),)
        return (("mass", self._mass_share), ("signed_error", 1 - self._mass_share))

    @staticmethod
    def _prevalence(problem: Problem, answer: CountsAnswer, observation: Observation) -> Prevalence:
        """Prevalence from the totals of both labels, or from signed totals and the assumed masses."""
        noise = len(observation.counts) * answer.noise_variance
        if answer.release != "error_correct":
            noise *= 0.5  # the noise of a difference is half in either label, with opposite signs
        return estimate_prevalences(
            observation.counts.sum(axis=0),
            noise,
            declared=problem.records_at(answer.sites),
            records_per_unit=problem.most_records_per_unit,
        )[1]

    def _observation(self, problem: Problem, answers: Sequence[CountsAnswer]) -> Observation:
        answer = answers[-1]
        cells, scale = answer.body.partitions[0].cells(problem.source), float(answer.scale)
        if answer.release == "error_correct":
            return Observation(cells, answer.values, scale, answer.noises)
        masses = np.full(len(cells), problem.records_at(answer.sites) / len(cells))
        spread = KNOWN_SPREAD
        if self._mass_share:
            regions = answers[0].body.partitions[0].cells(problem.source)
            # A secure sum that was opened before a curator dropped out counts its records, too.
            share = answer.sites / answers[0].sites
            masses, spread = share * _region_masses(regions, answers[0], masses), COUNTED_SPREAD
        return Observation.of_signed(
            cells, answer.values[:, 0], masses, spread=spread, scale=scale, noises=answer.noises
        )


def _region_masses(
    regions: NDArray[np.int64], answer: CountsAnswer, foreseen: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Number of target records per source record, by its region's noisy mass, float64 (n_s,)."""
    used, region = np.unique(regions, return_inverse=True)
    counted = answer.values[used, 0]
    even = np.full(len(region), max(float(counted.sum()), LEAST_TOTAL * float(foreseen.sum())) / len(region))
    expected = np.bincount(region, weights=even).astype(np.float64)
    ratios = shrunken_ratios(counted, expected, np.full(len(used), answer.noise_variance))
    masses: NDArray[np.float64] = even * ratios[region]
    return masses


def _region_count(problem: Problem, per_record: float) -> int:
    """Number of regions whose masses are about four standard deviations of noise each.

    It is at least 2 if each region then has six source records, else 1.
    """
    deviation = math.sqrt(2.0 * problem.noises) / per_record
    ideal = problem.target_size / (4.0 * deviation)
    return int(max(1, min(max(2.0, ideal), len(problem.source) // 6, problem.limits.cells)))


_PAIR = 2


@dataclass(frozen=True)
class CellsClassesModel:
    """The label models composed with the source's feature map."""

    features: FeatureMap
    labels: ClassesLabelModel
    factors: NDArray[np.float64]
    """Factors of the classes' odds, float64 (C,), positive, that match each class's mean to the answers."""

    def probabilities(self, records: Records) -> NDArray[np.float64]:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        return rescaled(self.labels.probabilities(coordinates(self.features, records)), self.factors)


class CellsClassesStrategy:
    """Strategy `cells` for more than two classes: one count per class and cell.

    `cells` is the number of cells; None takes as many as for two classes, within the curators' limits.
    """

    def __init__(self, *, cells: int | None = None) -> None:
        self._cells = whole_or_none("cells", cells)

    def plan(self, problem: Problem) -> Plan:
        """One query."""
        return problem.counts_plan([("class_counts", 1, Fraction(1))])

    def run(self, problem: Problem) -> Asking:
        """Ask class counts in the cells nearest to k centres, and fit label models to them."""
        most = problem.limits.cells * _PAIR // len(problem.source.schema.classes)
        count = self._cells or max(1, min(problem.cell_rule(problem.epsilon_per_record()), most))
        features = problem.features
        partition = kmeans_cells(problem.source, features, count, problem.seed)
        (answer,) = yield CountsBody(partitions=(partition,), hypothesis=None), None
        cells = answer.body.partitions[0].cells(problem.source)
        rows, stands_for = judged(cells, problem.seed)
        points = coordinates(features, problem.source, rows)
        labels, posteriors = fit_classes_label_model(
            points,
            cells,
            answer.values,
            scale=float(answer.scale),
            noises=answer.noises,
            seed=problem.seed,
            rows=rows,
        )
        counted = estimate_prevalences(
            answer.values.sum(axis=0),
            len(answer.values) * answer.noise_variance,
            declared=problem.records_at(answer.sites),
            records_per_unit=problem.most_records_per_unit,
        )
        everywhere = len(points) == len(problem.source)
        probabilities = labels.probabilities(points)
        apart = labels.probabilities(held_apart(points, cells)) if everywhere else probabilities
        mass = labels.source_mass[rows] * stands_for
        shares = [prevalence.nearest(column, mass) for prevalence, column in zip(counted, apart.T, strict=True)]
        factors = matching_factors(apart, mass, shares)
        probabilities = rescaled(probabilities, factors)
        recalls = class_recalls(posteriors, labels.exclusion, probabilities, seed=problem.seed)
        model = CellsClassesModel(features, labels, factors)
        if everywhere:
            return model, ClassesEstimate(labels.source_mass, probabilities, counted, recalls)
        of_all = partial(model.probabilities, problem.source)
        return model, ClassesEstimate.on_demand(
            "probabilities", of_all, weights=labels.source_mass, counted=counted, recalls=recalls
        )


KNOWN_SPREAD, COUNTED_SPREAD = 0.02, 0.15
"""Relative variance of a cell's mass around the source's share if the populations are the same, and around its region's
share otherwise."""


class SelectedCellsStrategy(ChosenFirst):
    """`selected-cells`: curators choose attributes, then `cells` runs on those, with stated shares of epsilon.

    Args:
        features: number of attributes that each curator chooses, and that are kept; all if there are no more.
        share: share of epsilon for the choice.
        weights: multiplicities of the two classes' records in the choice. A larger weight for a rare class favours
            attributes that predict it.
        cells: as of `cells`.
        networks: as of `cells`.
    """

    def __init__(
        self,
        *,
        features: int = 5,
        share: Share = "1/10",
        weights: Sequence[int] = (1, 1),
        cells: int | None = None,
        networks: bool = True,
    ) -> None:
        features, exact, class_weights = options.selected_cells(
            features=features, share=share, weights=weights, cells=cells, networks=networks
        )
        super().__init__(
            CellsStrategy(cells=cells, networks=networks), AttributeChoice(features, features, exact, class_weights)
        )


BY_LABEL: dict[str, Callable[..., Strategy]] = {
    "two classes": CellsStrategy,
    "more than two classes": CellsClassesStrategy,
    "a number": CellsNumberStrategy,
}
"""Kind of label -> strategy for it."""


class CellsByLabel:
    """Strategy `cells` for any label: two classes, more, or a number, as the curators' card says.

    Args:
        chosen: number of attributes that each curator chooses first, 0 for none. None decides by public facts
            (`choice_of`).
        options: of any of the three strategies. The plan raises an error for one that the label has no use for.
    """

    def __init__(self, *, chosen: int | None = None, **options: Any) -> None:
        self._chosen = attributes_chosen(chosen=chosen)
        names_by_label = {label: names_of(kind) for label, kind in BY_LABEL.items()}
        self._made = {
            label: kind(**{name: value for name, value in options.items() if name in names_by_label[label]})
            for label, kind in BY_LABEL.items()
        }
        self._useless = {
            label: [name for name in options if name not in names] for label, names in names_by_label.items()
        }

    def plan(self, problem: Problem) -> Plan:
        """The plan of the label's strategy. Raises ConfigurationError for an option of another kind of label."""
        label = label_kind(problem.source.schema)
        if self._useless[label]:
            raise ConfigurationError(
                f"strategy 'cells' takes no option {self._useless[label][0]!r} where the label is {label}; leave it out"
            )
        if self._chosen and label == "a number":
            raise ConfigurationError("strategy 'cells' has attributes chosen by classes alone; leave 'chosen' out")
        return self._strategy(problem).plan(problem)

    def run(self, problem: Problem) -> Asking:
        """Run the label's strategy."""
        return self._strategy(problem).run(problem)

    def _strategy(self, problem: Problem) -> Strategy:
        strategy, choice = self._made[label_kind(problem.source.schema)], choice_of(problem, self._chosen)
        return ChosenFirst(strategy, choice) if choice else strategy


def label_kind(schema: Schema) -> str:
    """The schema's key of `BY_LABEL`."""
    if schema.label_bounds is not None:
        return "a number"
    return "two classes" if len(schema.classes) == 2 else "more than two classes"
