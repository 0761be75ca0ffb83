"""Hypothesis strategies for queries of `statistic`, and sets of counts that differ by one privacy unit."""

import numpy as np
from hypothesis import strategies as st

from protocol.codec import encode
from protocol.kinds.statistic import PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import ESTIMATORS, Estimate, Grid, Quantile, Selection
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features
from protocol.partitions import FeatureBins
from protocol.rationals import Rational
from protocol.schema import NumericAttribute

GRIDS = st.builds(Grid, st.sampled_from([-2.0, 0.0]), st.sampled_from([1e-9, 0.5, 3.0]), st.integers(1, 9))
QUANTILES = st.sampled_from([Rational(1, 2), Rational(1, 4), Rational(9, 10), Rational(2, 3)])


def numbers_of(schema):
    """Names of what a quantile may be asked of."""
    label = [schema.label] if schema.label_bounds is not None else []
    return [each.name for each in schema.attributes if isinstance(each, NumericAttribute)] + label


@st.composite
def statistic_queries_of(draw, schema, **_told):
    """(planned query, encoded body), lawful under a schema; of few numbers, costs are 1/2, 1/3 or 1/10.

    Noise that a kind samples itself is not among them: nobody could script it.
    """
    share, count = draw(st.sampled_from([2, 3, 10])), draw(st.integers(1, 2))
    scale = Rational(share * count, 1)
    twice = Rational(2 * share * count, 1)
    known = numbers_of(schema)
    methods = [*(["exponential", "aggregate_mean", "aggregate_median"] if known else []), *_features(schema)]
    name = draw(st.sampled_from(methods))
    if name == "features":
        items = [Selection(tuple(FeatureBins(each.name, ()) for each in schema.attributes))] * count
        return _query(Features(1, 1, scale), items)
    if name == "exponential":
        items = [Quantile(draw(st.sampled_from(known)), draw(QUANTILES), draw(GRIDS)) for _ in range(count)]
        weight = max(max(item.sides) for item in items)
        return _query(Exponential(Rational.of(twice.fraction * weight), weight), items)
    grid = draw(GRIDS)
    items = [_estimate(draw, schema, known, grid) for _ in range(count)]
    blocks = draw(st.integers(1, 5))
    if name == "aggregate_median":
        return _query(AggregateMedian(blocks, twice), items)
    return _query(AggregateMean(blocks, grid.steps, Rational.of(scale.fraction * grid.steps)), items)


def _features(schema):
    return ["features"] if schema.classes and schema.attributes else []


def _estimate(draw, schema, known, grid):
    fitting = [
        name
        for name, kind in ESTIMATORS.items()
        if kind.fewest <= len(known) and (not kind.of_classes or len(schema.classes) == 2)
    ]
    name = draw(st.sampled_from(fitting))
    kind = ESTIMATORS[name]
    return Estimate(name, tuple(known[: draw(st.integers(kind.fewest, min(kind.most, len(known))))]), grid)


def _query(method, items):
    return PlannedStatistic(method=method, statistics=len(items)), encode(StatisticBody(tuple(items)))


@st.composite
def counts_and_unit(draw, most_records_per_unit):
    """Counts on a grid, and the same with a unit of up to so many records: two int64 vectors."""
    size = draw(st.integers(2, 8))
    few = st.integers(0, draw(st.sampled_from([0, 1, 3, 40])))
    counts = np.array(draw(st.lists(few, min_size=size, max_size=size)), np.int64)
    unit = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=most_records_per_unit))
    return counts, counts + np.bincount(unit, minlength=size)
