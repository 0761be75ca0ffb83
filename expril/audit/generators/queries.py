"""Hypothesis strategies of (planned query, encoded body) for each shipped query kind, lawful under a schema."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from numpy.typing import NDArray

from expril.audit.generators.values import cross_bins_of, feature_bins_of, feature_maps_of, hypotheses_of, partitions_of
from protocol.codec import encode
from protocol.feature_map import FeatureMap
from protocol.grids import Axis, LevelAxis, NumberAxis
from protocol.hypotheses import Hypothesis
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.kinds.model import ModelBody, PlannedModel
from protocol.kinds.models import (
    METHODS,
    AnyMethod,
    Attributes,
    Body,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.kinds.sample import PlannedSample, SampleBody
from protocol.kinds.statistic import PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import ESTIMATORS, Estimate, Grid, Item, Quantile, Selection
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features, Method
from protocol.partitions import FeatureBins, Partition
from protocol.rationals import Rational
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import NumericAttribute, Schema


@st.composite
def counts_queries_of(
    draw: DrawFn,
    schema: Schema,
    *,
    release: str | None = None,
    partitions: SearchStrategy[Partition] | None = None,
    hypotheses: SearchStrategy[Hypothesis] | None = None,
) -> tuple[PlannedCounts, bytes]:
    """(planned query, encoded body) of `counts`, lawful under a schema; of every release kind that fits it unless told.

    For units of one record each costs 1/2, 1/3, 1/4 or 1/10.
    """
    fitting = [name for name, kind in RELEASE_KINDS.items() if kind.fits(schema)]
    name = release or draw(st.sampled_from(fitting))
    kind = RELEASE_KINDS[name]
    steps = draw(st.sampled_from([1, 2, 100])) if kind.of_steps else 1
    if partitions is None:
        partitions = partitions_of(schema)
        if kind.reads_outcomes:
            partitions = st.one_of(cross_bins_of(schema, outcomes=True), partitions)
    workload = draw(st.lists(partitions, min_size=1, max_size=3))
    planned = PlannedCounts(
        release=name,
        partitions=len(workload),
        scale=Rational.of(Fraction(len(workload) * steps * draw(st.sampled_from([2, 3, 4, 10])))),
        steps=steps,
    )
    hypothetical = draw(st.booleans()) if kind.wants_hypothesis is None else kind.wants_hypothesis
    hypothesis = draw(hypotheses_of(schema) if hypotheses is None else hypotheses) if hypothetical else None
    # A bound that the steps do not divide, too: errors are then rounded.
    most = draw(st.sampled_from([None, 2**20, 3])) if kind.ranged else None
    return planned, encode(CountsBody(tuple(workload), hypothesis, most))


small = st.sampled_from([1, 2, 3, 4, 10])


@st.composite
def planned_holdouts(draw: DrawFn, *, turns: int | None = None) -> PlannedHoldout:
    """Plans of one to five turns, of any scales, and of any range of accuracies that may be stated."""
    questions = draw(st.integers(1, 5)) if turns is None else turns
    resolution = draw(st.sampled_from([1, 2, 7, 100, 2**20]))
    least, most = sorted(draw(st.tuples(st.integers(0, resolution), st.integers(0, resolution))))
    ranges: list[tuple[int, int | None]] = [(0, None), (least, most), (least, None)]
    lowest, highest = draw(st.sampled_from(ranges))
    return PlannedHoldout(
        turns=questions,
        answers=draw(st.integers(1, questions)),
        resolution=resolution,
        threshold=draw(st.sampled_from([0, 1, 5, 2**32])),
        threshold_scale=Rational.of(Fraction(resolution * draw(small), draw(small))),
        comparison_scale=Rational.of(Fraction(resolution * draw(small), draw(small))),
        count_scale=Rational.of(Fraction(draw(small), draw(small))),
        least_estimate=lowest,
        most_estimate=highest,
    )


def holdout_bodies_of(hypotheses: SearchStrategy[Hypothesis], planned: PlannedHoldout) -> SearchStrategy[HoldoutBody]:
    """Bodies with any stated accuracy of the plan's range, its ends among them."""
    estimates = st.one_of(st.sampled_from(planned.estimates), st.integers(*planned.estimates))
    return st.builds(HoldoutBody, hypothesis=hypotheses, estimate=estimates)


counts = st.one_of(st.sampled_from([0, -1, 2**62, -(2**62)]), st.integers(-(2**62), 2**62))
holdout_releases = st.builds(
    HoldoutRelease, instance=st.integers(1, 100_000), counts=st.one_of(st.none(), st.tuples(counts, counts))
)


@st.composite
def holdout_queries(draw: DrawFn, schema: Schema) -> tuple[PlannedHoldout, bytes]:
    """(planned query of one turn, encoded body)."""
    planned = draw(planned_holdouts(turns=1))
    return planned, encode(draw(holdout_bodies_of(hypotheses_of(schema), planned)))


@st.composite
def axes_of(draw: DrawFn, schema: Schema) -> tuple[Axis, ...]:
    """One to three of the attributes and the label, numbers within, across and beyond their bounds."""
    bounds = {a.name: (a.lower, a.upper) for a in schema.attributes if isinstance(a, NumericAttribute)}
    bounds |= {schema.label: schema.label_bounds} if schema.label_bounds is not None else {}
    names = [*(attribute.name for attribute in schema.attributes), schema.label]
    axes: list[Axis] = []
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
        if name not in bounds:
            axes.append(LevelAxis(name))
            continue
        lower, upper = bounds[name]
        lower, upper = draw(st.sampled_from([(lower, upper), (lower, lower + (upper - lower) / 3), (7.0, 7.5)]))
        law = draw(st.sampled_from([(None, None), (lower, min(upper - lower, 1e15))]))
        axes.append(NumberAxis(name, lower, upper, draw(st.sampled_from([2, 5, 300])), *law))
    return tuple(axes)


@st.composite
def sample_queries_of(draw: DrawFn, schema: Schema) -> tuple[PlannedSample, bytes]:
    """One to four records, each at 1/10, 1/20 or 1/7; few examples, so that learning is quick."""
    planned = PlannedSample(
        records=draw(st.integers(1, 4)),
        epsilon=Rational.of(Fraction(1, draw(st.sampled_from([10, 20, 7])))),
        axes=draw(axes_of(schema)),
        rounds=draw(st.integers(1, 2)),
        learner=draw(st.sampled_from(["network", "naive_bayes"])),
        examples=20,
        epochs=2,
        batch=draw(st.sampled_from([0, 7])),
        version=draw(st.sampled_from([1, 2])),
    )
    return planned, encode(SampleBody())


SEEDS = st.sampled_from([0, 1, 2**32 - 1])


@st.composite
def points_of(draw: DrawFn, width: int, *, least_constant: int = 0, linear: bool = False) -> Points:
    """Vectors of that width; those of a linear classifier have a constant of at most their radius."""
    radius = draw(st.sampled_from([1, 3, 256]))
    most = radius if linear else 100
    constant = draw(st.sampled_from([value for value in (0, 1, 100) if least_constant <= value <= most]))
    return Points(width=width, radius=radius, constant=constant)


@st.composite
def moments_of(draw: DrawFn, schema: Schema) -> Moments:
    """Moments of one of the schema's numbers."""
    attribute = draw(st.sampled_from([number for number in schema.attributes if isinstance(number, NumericAttribute)]))
    middle = (attribute.lower + attribute.upper) / 2
    lower, upper = draw(st.sampled_from([(attribute.lower, attribute.upper), (middle, attribute.upper)]))
    return Moments(attribute.name, lower, upper)


def _linear(draw: DrawFn) -> dict[str, Any]:
    return {
        "regulariser": Rational.of(draw(st.sampled_from([Fraction(1), Fraction(100), Fraction(7, 3)]))),
        "steps": 64,
    }


@st.composite
def methods_of(
    draw: DrawFn,
    name: str,
    schema: Schema,
    features: SearchStrategy[FeatureMap],
    bins: SearchStrategy[FeatureBins],
) -> tuple[AnyMethod, Body]:
    """(method of that name, body) under a schema."""
    if name == "naive_bayes":
        numeric = any(isinstance(attribute, NumericAttribute) for attribute in schema.attributes)
        moments = draw(st.lists(moments_of(schema), max_size=2)) if numeric else []
        binned = draw(st.lists(bins, min_size=not moments, max_size=2))
        steps = draw(st.sampled_from([1, 2, 256])) if moments else 1
        attributes = Attributes(tuple(draw(st.permutations([*binned, *moments]))))
        return NaiveBayes(binned=len(binned), moments=len(moments), steps=steps), attributes
    chosen = draw(features)
    width, body = chosen.width, Mapped(chosen)
    if name == "k_means":
        points, clusters = draw(points_of(width, least_constant=1)), draw(st.integers(1, 3))
        place = st.integers(-points.radius, points.radius)
        count = clusters * width
        centres = np.array(draw(st.lists(place, min_size=count, max_size=count))).reshape(clusters, width)
        iterations = draw(st.integers(1, 3))
        return KMeans(points=points, clusters=clusters, iterations=iterations), Centres.of(chosen, centres)
    if name == "forest":
        trees, depth, span = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 4096]))
        return Forest(width=width, trees=trees, depth=depth, span=span, seed=draw(SEEDS)), body
    if name == "kernel_svm":
        sizes: dict[str, Any] = {"frequencies": draw(st.integers(1, 3)), "radius": draw(st.sampled_from([10, 4096]))}
        return KernelSvm(width=width, seed=draw(SEEDS), **sizes, **_linear(draw)), body
    points = draw(points_of(width, linear=name in ("logistic_regression", "linear_svm")))
    if name == "linear_regression":
        return LinearRegression(points=points, label_steps=draw(st.sampled_from([1, 7, 256]))), body
    if name == "principal_components":
        return PrincipalComponents(points=points), body
    return {"logistic_regression": LogisticRegression, "linear_svm": LinearSvm}[name](
        points=points, **_linear(draw)
    ), body


@st.composite
def model_queries_of(
    draw: DrawFn,
    schema: Schema,
    features: SearchStrategy[FeatureMap],
    bins: SearchStrategy[FeatureBins],
    *,
    name: str | None = None,
) -> tuple[PlannedModel, bytes]:
    """(planned query, encoded body) of `model`, lawful under a schema; each costs 1/2, 1/3, 1/4 or 1/10.

    Args:
        draw: Hypothesis's own.
        schema: of the records.
        features: draws feature maps.
        bins: draws `FeatureBins`.
        name: of the method; any that fits unless told.
    """
    classes = len(schema.classes)
    unfit = {"linear_regression"} if classes else {"naive_bayes", "forest"}
    unfit |= set() if classes == 2 else {"logistic_regression", "linear_svm", "kernel_svm"}
    chosen = name or draw(st.sampled_from([fit for fit in METHODS if fit not in unfit]))
    method, body = draw(methods_of(chosen, schema, features, bins))
    copies = draw(st.sampled_from([1, 1, 2]))
    epsilon = Rational(1, draw(st.sampled_from([2, 3, 4, 10])))
    return PlannedModel(method=method, epsilon=epsilon, models=copies), encode(ModelBody((body,) * copies))


def model_queries(schema: Schema) -> SearchStrategy[tuple[PlannedModel, bytes]]:
    """Queries of any method that fits a schema."""
    return model_queries_of(schema, feature_maps_of(schema), feature_bins_of(schema))


GRIDS = st.builds(Grid, st.sampled_from([-2.0, 0.0]), st.sampled_from([1e-9, 0.5, 3.0]), st.integers(1, 9))
QUANTILES = st.sampled_from([Rational(1, 2), Rational(1, 4), Rational(9, 10), Rational(2, 3)])


def numeric_names(schema: Schema) -> list[str]:
    """Names of what a quantile may be asked of."""
    label = [schema.label] if schema.label_bounds is not None else []
    return [attribute.name for attribute in schema.attributes if isinstance(attribute, NumericAttribute)] + label


@st.composite
def statistic_queries_of(draw: DrawFn, schema: Schema) -> tuple[PlannedStatistic, bytes]:
    """(planned query, encoded body), lawful under a schema; of few numbers, costs are 1/2, 1/3 or 1/10.

    Noise that a kind samples itself is not among them: nobody could script it.
    """
    share, count = draw(st.sampled_from([2, 3, 10])), draw(st.integers(1, 2))
    scale = Rational(share * count, 1)
    twice = Rational(2 * share * count, 1)
    names = numeric_names(schema)
    methods = [*(["exponential", "aggregate_mean", "aggregate_median"] if names else []), *_features(schema)]
    name = draw(st.sampled_from(methods))
    if name == "features":
        selection = Selection(tuple(FeatureBins(attribute.name, ()) for attribute in schema.attributes))
        return _query(Features(1, 1, scale), [selection] * count)
    if name == "exponential":
        quantiles = [Quantile(draw(st.sampled_from(names)), draw(QUANTILES), draw(GRIDS)) for _ in range(count)]
        weight = max(max(item.sides) for item in quantiles)
        return _query(Exponential(Rational.of(twice.fraction * weight), weight), quantiles)
    grid = draw(GRIDS)
    items = [_estimate(draw, schema, names, grid) for _ in range(count)]
    blocks = draw(st.integers(1, 5))
    if name == "aggregate_median":
        return _query(AggregateMedian(blocks, twice), items)
    return _query(AggregateMean(blocks, grid.steps, Rational.of(scale.fraction * grid.steps)), items)


def _features(schema: Schema) -> list[str]:
    return ["features"] if schema.classes and schema.attributes else []


def _estimate(draw: DrawFn, schema: Schema, names: list[str], grid: Grid) -> Estimate:
    fitting = [
        name
        for name, kind in ESTIMATORS.items()
        if kind.fewest <= len(names) and (not kind.of_classes or len(schema.classes) == 2)
    ]
    name = draw(st.sampled_from(fitting))
    kind = ESTIMATORS[name]
    return Estimate(name, tuple(names[: draw(st.integers(kind.fewest, min(kind.most, len(names))))]), grid)


def _query(method: Method, items: Sequence[Item]) -> tuple[PlannedStatistic, bytes]:
    return PlannedStatistic(method=method, statistics=len(items)), encode(StatisticBody(tuple(items)))


@st.composite
def counts_and_unit(draw: DrawFn, most_records_per_unit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts on a grid, and the same with a unit of up to so many records: two int64 vectors."""
    size = draw(st.integers(2, 8))
    few = st.integers(0, draw(st.sampled_from([0, 1, 3, 40])))
    counts = np.array(draw(st.lists(few, min_size=size, max_size=size)), np.int64)
    unit = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=most_records_per_unit))
    return counts, counts + np.bincount(unit, minlength=size)
