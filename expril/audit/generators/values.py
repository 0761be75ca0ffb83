"""Hypothesis strategies for schemas, records, partitions and hypotheses. Alphabets are small: values collide."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from protocol.feature_map import MOST_COORDINATE, STEPS, CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import HYPOTHESIS_KINDS, Constant, Hypothesis, Mlp
from protocol.partitions import (
    PARTITION_KINDS,
    CrossBins,
    FeatureBins,
    NearestCentre,
    Partition,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.records import MISSING_CODE, Records
from protocol.schema import Attribute, CategoricalAttribute, NumericAttribute, Schema

NUMERIC = NumericAttribute("x", -2.0, 3.0, units="mm Hg", missing=(1e308, "none"))
TINY = NumericAttribute("t", 0.0, 1e-9, description="denormal-like")
WIDE = NumericAttribute("w", -1e15, 1e15)
CATEGORY = CategoricalAttribute("c", ("a", "b", "é"), missing=("zzz",))
ATTRIBUTES: tuple[Attribute, ...] = (NUMERIC, CATEGORY, WIDE, CategoricalAttribute("d", ("b",)), TINY)
HALF_STEP = 0.5 / STEPS


@st.composite
def schemas(draw: DrawFn) -> Schema:
    """One to five attributes out of five; two classes, more, or a number."""
    chosen = draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=5, unique=True))
    labels: list[dict[str, Any]] = [{"classes": ("no", "yes")}, {"classes": ("a", "b", "é")}, {"label_bounds": (-1, 9)}]
    label = draw(st.sampled_from(labels))
    return Schema(attributes=tuple(chosen), label="y", **label)


def numbers_of(attribute: NumericAttribute) -> SearchStrategy[float]:
    """Values within the bounds, many of them equal, on an edge or half a grid step from a tie; NaN = missing."""
    low, high = attribute.lower, attribute.upper
    few = [low, high, (low + high) / 2, 0.0, -0.0, HALF_STEP, 3 * HALF_STEP, 5e-324, 1.0, 1 / 3, math.nan]
    few = [value for value in few if math.isnan(value) or low <= value <= high]
    return st.one_of(st.sampled_from(few), st.floats(low, high))


@st.composite
def records_of(draw: DrawFn, schema: Schema, *, most: int = 12) -> Records:
    """Encoded records of a schema."""
    n = draw(st.integers(0, most))
    numeric = [a for a in schema.attributes if isinstance(a, NumericAttribute)]
    categorical = [a for a in schema.attributes if isinstance(a, CategoricalAttribute)]
    rows = [[draw(numbers_of(a)) for a in numeric] for _ in range(n)]
    codes = [[draw(st.integers(MISSING_CODE, len(a.levels))) for a in categorical] for _ in range(n)]
    return Records(
        schema,
        np.array(rows, np.float64).reshape(n, len(numeric)),
        np.array(codes, np.int16).reshape(n, len(categorical)),
    )


any_number = st.one_of(st.floats(allow_infinity=False), st.sampled_from([math.nan, 1e308, -1e308, 5e-324, -0.0, None]))
"""What a record may hold: infinity is refused where records are read."""
any_text = st.one_of(st.none(), st.sampled_from(["a", "b", "é", "zzz", "", "?", " a "]))


@st.composite
def raw_frames_of(draw: DrawFn, schema: Schema) -> pl.DataFrame:
    """Data frames of a schema's columns before they are encoded: any number, any text."""
    n = draw(st.integers(0, 6))
    return pl.DataFrame(
        {
            a.name: pl.Series(
                draw(st.lists(any_number if isinstance(a, NumericAttribute) else any_text, min_size=n, max_size=n)),
                dtype=pl.Float64 if isinstance(a, NumericAttribute) else pl.String,
            )
            for a in schema.attributes
        }
    )


@st.composite
def feature_bins_of(draw: DrawFn, schema: Schema) -> FeatureBins:
    """Bins of one attribute, edges among few values."""
    return draw(bins_among(schema.attributes))


@st.composite
def bins_among(draw: DrawFn, variables: Sequence[Attribute]) -> FeatureBins:
    """Bins of one of the variables, edges among few values."""
    attribute = draw(st.sampled_from(variables))
    edges: tuple[float, ...] = ()
    if isinstance(attribute, NumericAttribute):
        few = [-2.0, -1.0, 0.0, HALF_STEP, 1e-9, 1 / 3, 1.0, 3.0, 1e15]
        edges = tuple(sorted(draw(st.sets(st.sampled_from(few), max_size=5))))
    return FeatureBins(attribute.name, edges)


@st.composite
def feature_maps_of(draw: DrawFn, schema: Schema) -> FeatureMap:
    """A map with scales that put records on, beside and beyond the grid."""
    features: list[NumericFeature | CategoricalFeature] = []
    for attribute in draw(st.lists(st.sampled_from(schema.attributes), min_size=1, max_size=4)):
        factor = draw(st.sampled_from([1.0, -1.0, 0.0, 0.1, 1 / 3, 1 / STEPS, 1e15, 5e-324, 40.0]))
        if isinstance(attribute, NumericAttribute):
            offset, imputation = draw(st.tuples(*[st.sampled_from([0.0, -0.0, 1 / 3, 1.0, -1e15, 1e15])] * 2))
            features.append(NumericFeature(attribute.name, offset, factor, imputation))
        else:
            levels = draw(st.lists(st.sampled_from(attribute.levels), min_size=1, max_size=3, unique=True))
            imputation = draw(st.sampled_from(["", *attribute.levels[:2]]))
            features.append(CategoricalFeature(attribute.name, tuple(levels), factor, imputation))
    return FeatureMap(tuple(features))


def units_on_grid(most: float) -> SearchStrategy[float]:
    """Numbers within +-most: few, on the grid, or between two grid points."""
    few = [0.0, 1.0, -1.0, 1 / STEPS, HALF_STEP, -HALF_STEP, 3 * HALF_STEP, most, -most, 0.1]
    return st.one_of(st.sampled_from(few), st.floats(-most, most, width=32))


@st.composite
def cross_bins_of(draw: DrawFn, schema: Schema, *, outcomes: bool = False) -> CrossBins:
    """Products of one to three factors, now and then of a variable with itself, with up to two conditions.

    With `outcomes` the label and the schema's outcomes are among the variables.
    """
    names = [schema.label, *(outcome.name for outcome in schema.outcomes)] if outcomes else []
    variables = bins_among((*schema.attributes, *(variable for name in names if (variable := schema.variable(name)))))
    factors = tuple(draw(st.lists(variables, min_size=1, max_size=3)))
    conditions = []
    for bins in draw(st.lists(variables, max_size=2)):
        cells = draw(st.sets(st.integers(0, bins.cell_count(schema) - 1), min_size=1, max_size=4))
        conditions.append(Range(bins, tuple(sorted(cells))))
    return CrossBins(factors, tuple(conditions))


@st.composite
def nearest_centres_of(draw: DrawFn, schema: Schema) -> NearestCentre:
    """Few centres, some of them equal."""
    features = draw(feature_maps_of(schema))
    coordinate = units_on_grid(float(MOST_COORDINATE))
    row = st.lists(coordinate, min_size=features.width, max_size=features.width)
    centres = draw(st.lists(row, min_size=1, max_size=5))
    repeats = draw(st.integers(0, 1))
    return NearestCentre.of(features, np.array(centres + centres[:1] * repeats))


@st.composite
def mlps_of(draw: DrawFn, schema: Schema) -> Mlp:
    """Small networks with weights on and between grid points."""
    features = draw(feature_maps_of(schema))
    widths = [features.width, *draw(st.lists(st.integers(1, 3), max_size=2)), 1]
    layers = []
    for fan_in, fan_out in itertools.pairwise(widths):
        count = fan_out * (fan_in + 1)
        values = np.array(draw(st.lists(units_on_grid(2.0), min_size=count, max_size=count)), np.float32)
        layers.append((values[fan_out:].reshape(fan_out, fan_in), values[:fan_out]))
    return Mlp.of(features, layers)


@st.composite
def product_bins_of(draw: DrawFn, schema: Schema) -> ProductBins:
    """Products of two attributes' bins, now and then of one attribute with itself."""
    return ProductBins(draw(feature_bins_of(schema)), draw(feature_bins_of(schema)))


@st.composite
def grid_edges(draw: DrawFn) -> tuple[float, ...]:
    """Rising edges, many of them one step of 2^-24 apart, at 0 or beyond whatever a sum can reach."""
    few = [-(2.0**27), -1.0, -(2.0**-24), 0.0, 2.0**-24, 2.0**-12, 1 / 3, 1.0, 4.0, 2.0**27]
    return tuple(sorted(draw(st.sets(st.sampled_from(few), max_size=4))))


@st.composite
def score_bins_of(draw: DrawFn, schema: Schema) -> ScoreBins:
    """Bins of small networks' logits."""
    return ScoreBins(draw(mlps_of(schema)), draw(grid_edges()))


@st.composite
def projection_bins_of(draw: DrawFn, schema: Schema) -> ProjectionBins:
    """One to three directions, some of them equal or 0."""
    features = draw(feature_maps_of(schema))
    row = st.lists(units_on_grid(float(MOST_COORDINATE)), min_size=features.width, max_size=features.width)
    directions = draw(st.lists(st.one_of(row, st.just([0.0] * features.width)), min_size=1, max_size=3))
    edges = tuple(draw(grid_edges()) for _ in directions)
    return ProjectionBins.of(features, np.array(directions), edges)


@st.composite
def trees_over(draw: DrawFn, features: FeatureMap, *, most: int = 9) -> TreeLeaves:
    """Trees of any shape, grown by splitting a drawn leaf; leaves are numbered in a drawn order."""
    few = [-MOST_COORDINATE * STEPS, -STEPS, -1, 0, 1, 2, STEPS, MOST_COORDINATE * STEPS]
    thresholds = st.one_of(st.sampled_from(few), st.integers(-MOST_COORDINATE * STEPS, MOST_COORDINATE * STEPS))
    nodes: list[list[int]] = []
    open_ends = [(0, 0)]
    for index in range(draw(st.integers(1, most))):
        parent, side = open_ends.pop(draw(st.integers(0, len(open_ends) - 1)))
        if index:
            nodes[parent][2 + side] = index
        nodes.append([draw(st.integers(0, features.width - 1)), draw(thresholds), 0, 0])
        open_ends += [(index, 0), (index, 1)]
    for leaf, (parent, side) in enumerate(draw(st.permutations(open_ends))):
        nodes[parent][2 + side] = -1 - leaf
    return TreeLeaves.of(features, np.array(nodes))


def tree_leaves_of(schema: Schema) -> SearchStrategy[TreeLeaves]:
    """Trees over drawn maps."""
    return feature_maps_of(schema).flatmap(trees_over)


PARTITIONS: Mapping[str, Callable[[Schema], SearchStrategy[Partition]]] = {
    "feature_bins": feature_bins_of,
    "nearest_centre": nearest_centres_of,
    "product_bins": product_bins_of,
    "score_bins": score_bins_of,
    "projection_bins": projection_bins_of,
    "tree_leaves": tree_leaves_of,
    "cross_bins": cross_bins_of,
}
"""What draws each kind; a test says that no registered kind lacks one."""


def partitions_of(schema: Schema) -> SearchStrategy[Partition]:
    """Partitions of every registered kind."""
    return st.one_of([PARTITIONS[kind](schema) for kind in PARTITION_KINDS])


def constants_of(_schema: Schema) -> SearchStrategy[Constant]:
    """Both constants."""
    return st.builds(Constant, predicted=st.sampled_from([0, 1]))


HYPOTHESES: Mapping[str, Callable[[Schema], SearchStrategy[Hypothesis]]] = {"constant": constants_of, "mlp": mlps_of}
"""As PARTITIONS."""


def hypotheses_of(schema: Schema) -> SearchStrategy[Hypothesis]:
    """Hypotheses of every registered kind."""
    return st.one_of([HYPOTHESES[kind](schema) for kind in HYPOTHESIS_KINDS])
