"""Strategies that let the curators fit a model: one query of kind `model` at all of epsilon.

Its settings come from the source, the declared round sizes and epsilon alone. Several curators' sums are added up into
one model; linear classifiers' weights are averaged (`learner_node.kinds.models`).
"""

import math
from abc import ABC, abstractmethod
from fractions import Fraction

import msgspec
import numpy as np

from learner_node.kinds.model import ModelAnswer
from learner_node.kinds.models.classifiers import forest, linear, naive_bayes
from learner_node.kinds.models.moments import ridge
from learner_node.models.label_model.additive import tied_bins
from learner_node.models.source import coordinates, standardising_map
from learner_node.strategies import options
from learner_node.strategies.base import (
    AnyEstimate,
    AnyModel,
    Asking,
    ClassesEstimate,
    ClassesModel,
    NumberEstimate,
    NumberModel,
    Problem,
    SourceEstimate,
    class_probabilities,
    varying_attributes,
)
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.feature_map import STEPS, FeatureMap
from protocol.kinds.model import ModelBody, PlannedModel
from protocol.kinds.models import (
    AnyMethod,
    Attributes,
    Body,
    Forest,
    KernelSvm,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    NaiveBayes,
    Points,
)
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.records import Records

RADIUS = 1024
"""Whole steps of a vector's length: finer than any noise."""
GRID = 1024
"""Steps of released weights, at which the rounding error is a hundredth of the noise."""
MOST_BINS = 10
"""Most bins of a numeric attribute, besides the one for missing values."""
FEWEST_BINS = 2
SPARSE = 3.0
"""Ratio of an attribute's total count to its noise's scale below which it gets the fewest bins."""
NOISE_WANTED = 0.1
"""Target standard deviation of a record's log-odds noise when a linear classifier's regulariser is chosen."""


class InSiteStrategy(ABC):
    """A strategy with one query of kind `model`."""

    @abstractmethod
    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """The question, from public facts alone."""

    @abstractmethod
    def read(self, problem: Problem, answer: ModelAnswer) -> tuple[AnyModel, float]:
        """The model, and the estimated number of private records."""

    def plan(self, problem: Problem) -> Plan:
        """One query at exactly epsilon.

        Raises:
            ConfigurationError: the model is not for this kind of label, answers are to be summed securely, or epsilon
                needs more than 32 bits.
        """
        return Plan.of([planned_model(problem, self.question(problem)[0], problem.epsilon)])

    def run(self, problem: Problem) -> Asking:
        """Ask the query and apply the model to the source."""
        (answer,) = yield ModelBody(models=(self.question(problem)[1],)), None
        model, records = self.read(problem, answer)
        return model, estimate_of(model, problem.source, records)


def planned_model(problem: Problem, method: AnyMethod, epsilon: Fraction) -> PlannedModel:
    """A query for one model at exactly this epsilon; raises as `InSiteStrategy.plan`."""
    name = method.__struct_config__.tag
    if problem.pool is not None:
        raise ConfigurationError(f'a model of method {name!r} cannot be summed securely; pool by "sum" or "site"')
    if complaint := method.label_complaint(problem.source.schema):
        raise ConfigurationError(f"a model of method {name!r} needs {complaint}; choose another strategy")
    try:
        planned = PlannedModel(method=method, epsilon=Rational.of(epsilon))
        planned.law(problem.most_records_per_unit)
    except (ValueError, RemoteProtocolError):
        raise ConfigurationError(
            f"epsilon {epsilon} needs a noise scale of more than 32 bits for a model of method {name!r}; choose a "
            f"rounder one, such as {epsilon.limit_denominator(1000) or Fraction(1, 1000)}"
        ) from None
    return planned


def estimate_of(model: AnyModel, source: Records, records: float) -> AnyEstimate:
    """A model's estimate of the source: all source records have equal weights."""
    weights = np.full(len(source), max(records, 0.0) / len(source))
    if isinstance(model, NumberModel):
        return NumberEstimate(weights, model.predict_number(source))
    if isinstance(model, ClassesModel) and len(source.schema.classes) > 2:
        return ClassesEstimate(weights, model.probabilities(source))
    return SourceEstimate(weights, class_probabilities(model, source)[:, 1])


def unit_map(source: Records, share: float) -> FeatureMap:
    """The standardising map, scaled so that this share of the source's points lies within the unit ball."""
    features = standardising_map(source)
    lengths = np.linalg.norm(coordinates(features, source), axis=1)
    shrunk = 1.0 / max(float(np.quantile(lengths, share)), 1e-3)
    scaled = [msgspec.structs.replace(feature, factor=feature.factor * shrunk) for feature in features.features]
    return FeatureMap(features=tuple(scaled))


def declared(problem: Problem, answer: ModelAnswer) -> float:
    """Declared number of private records at the curators that answered."""
    return problem.target_size * answer.sites / problem.sites


class NaiveBayesStrategy(InSiteStrategy):
    """Naive Bayes from counts by class of every attribute that varies in the source.

    `bins` is the number of bins of each numeric attribute. None gives each about three times as many records as a
    signed count's noise deviation, with at most 10 bins.
    """

    def __init__(self, *, bins: int | None = None) -> None:
        self._bins = options.site_naive_bayes(bins=bins)

    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """See `InSiteStrategy`."""
        names = varying_attributes(problem)
        per_record = problem.epsilon_per_record(partitions=len(names))
        sparse = problem.target_size * per_record < SPARSE * math.sqrt(problem.noises)
        rule = FEWEST_BINS if sparse else problem.cell_rule(per_record, most=MOST_BINS)
        bins = tuple(tied_bins(problem.source, name, self._bins or rule) for name in names)
        return NaiveBayes(binned=len(bins)), Attributes(attributes=bins)

    def read(self, problem: Problem, answer: ModelAnswer) -> tuple[AnyModel, float]:
        """See `InSiteStrategy`."""
        model, totals = naive_bayes(answer, problem.source, declared(problem, answer), problem.most_records_per_unit)
        return model, float(totals.sum())


class ForestStrategy(InSiteStrategy):
    """Class counts in the leaves of random trees.

    `trees` is the number of trees, and `depth` that of levels of splits. None gives a leaf several times as many
    records as its noise's deviation.
    """

    def __init__(self, *, trees: int = 10, depth: int | None = None) -> None:
        self._trees, self._depth = options.site_forest(trees=trees, depth=depth)

    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """See `InSiteStrategy`."""
        features = standardising_map(problem.source)
        # The trees' votes add up, so what counts is a leaf's records over the noise of a mean of trees.
        noise = math.sqrt(2.0 * problem.sites * self._trees) / problem.epsilon_per_record()
        depth = self._depth or int(np.clip(round(math.log2(max(problem.target_size / (4.0 * noise), 2.0))), 2, 8))
        method = Forest(width=features.width, trees=self._trees, depth=depth, span=2 * STEPS, seed=problem.seed % 2**32)
        return method, Mapped(features)

    def read(self, problem: Problem, answer: ModelAnswer) -> tuple[AnyModel, float]:
        """See `InSiteStrategy`."""
        model, totals = forest(answer, problem.source, declared(problem, answer), problem.most_records_per_unit)
        return model, float(totals.sum())


class LinearStrategy(InSiteStrategy):
    """A linear classifier's weights by output perturbation.

    `regulariser` multiplies the penalty on the sum of losses at each curator; None takes what the noise at this epsilon
    needs.
    """

    def __init__(self, *, regulariser: int | None = None) -> None:
        self._regulariser = options.site_linear_model(regulariser=regulariser)

    def regulariser(self, problem: Problem, size: int) -> Rational:
        """The option, or the value at which a record's log-odds noise has the deviation `NOISE_WANTED`.

        A unit of c records moves the minimiser by at most c b / regulariser (L2), where b bounds a vector's length. So
        the noise of each of D weights has a scale of sqrt(D) c b / (regulariser epsilon). A vector's length is about 1,
        and curators' weights are averaged.
        """
        if self._regulariser is not None:
            return Rational(self._regulariser, 1)
        deviation = math.sqrt(2.0 * size / problem.sites) / problem.epsilon_per_record()
        return Rational(int(np.clip(math.ceil(deviation / NOISE_WANTED), 1, 10**6)), 1)

    def read(self, problem: Problem, answer: ModelAnswer) -> tuple[AnyModel, float]:
        """See `InSiteStrategy`."""
        records = declared(problem, answer)
        return linear(answer, problem.source, records, problem.most_records_per_unit), records


class LogisticStrategy(LinearStrategy):
    """Logistic regression; args of `LinearStrategy`."""

    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """See `InSiteStrategy`."""
        features = unit_map(problem.source, 0.5)
        points = Points(width=features.width, radius=RADIUS, constant=RADIUS // 4)
        regulariser = self.regulariser(problem, points.coordinates)
        return LogisticRegression(points=points, regulariser=regulariser, steps=GRID), Mapped(features)


class SvmStrategy(LinearStrategy):
    """A linear support vector machine; args of `LinearStrategy`."""

    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """See `InSiteStrategy`."""
        features = unit_map(problem.source, 0.5)
        points = Points(width=features.width, radius=RADIUS, constant=RADIUS // 4)
        regulariser = self.regulariser(problem, points.coordinates)
        return LinearSvm(points=points, regulariser=regulariser, steps=GRID), Mapped(features)


class KernelSvmStrategy(LinearStrategy):
    """A support vector machine on random features of a Gaussian kernel.

    `frequencies` is half the number of a record's coordinates; `regulariser` is as in `LinearStrategy`.
    """

    def __init__(self, *, frequencies: int | None = None, regulariser: int | None = None) -> None:
        self._frequencies, checked = options.site_kernel_svm(frequencies=frequencies, regulariser=regulariser)
        super().__init__(regulariser=checked)

    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """See `InSiteStrategy`; a kernel as wide as the source's points are far apart."""
        features = unit_map(problem.source, 0.5)
        several = problem.target_size * problem.epsilon_per_record() / 20.0
        count = self._frequencies or int(np.clip(round(several), 10, 100))
        method = KernelSvm(
            width=features.width,
            frequencies=count,
            seed=problem.seed % 2**32,
            radius=RADIUS,
            constant=RADIUS // 4,
            regulariser=self.regulariser(problem, 2 * count + 1),
            steps=GRID,
        )
        return method, Mapped(features)


class LinearRegressionStrategy(InSiteStrategy):
    """Linear regression of a label that is a number, by the functional mechanism."""

    def question(self, problem: Problem) -> tuple[AnyMethod, Body]:
        """See `InSiteStrategy`."""
        features = unit_map(problem.source, 0.9)
        # Costs grow with the square of the radius, and a scale has at most 32 bits.
        radius = 64
        points = Points(width=features.width, radius=radius, constant=radius // 2)
        return LinearRegression(points=points, label_steps=radius), Mapped(features)

    def read(self, problem: Problem, answer: ModelAnswer) -> tuple[AnyModel, float]:
        """See `InSiteStrategy`."""
        bounds = problem.source.schema.label_bounds
        if bounds is None:
            raise TypeError("the label is not a number")
        return ridge(answer, bounds, problem.most_records_per_unit)
