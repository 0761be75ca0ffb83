"""Counts as a part: what is asked, what is shown, and intervals against scipy without noise."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binomtest

from learner_node.analyses.consistency import consistent
from learner_node.analyses.counts import Counts, count_words
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableAnswers
from learner_node.analyses.shares import NoisySum, count_estimate, share_estimate, zero_or_few
from learner_node.analyses.variables import readable_edges
from protocol.errors import ConfigurationError
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.strict_toml import convert

SCHEMA = Schema(
    attributes=(
        NumericAttribute("age", 0.0, 100.0, units="years"),
        CategoricalAttribute("sex", ("f", "m")),
        CategoricalAttribute("ward", ("a", "b", "c")),
    ),
    label="died",
    classes=("no", "yes"),
)


def part(**keys):
    return convert({"kind": "counts", "name": "n", **keys}, Counts, where="plan")


def answers(counts, values, noise, most=1):
    question = counts.questions(SCHEMA)[0]
    axes = tuple(Axis.of(bins, SCHEMA) for bins in question.factors)
    table = NoisyTable(axes, np.asarray(values, float), noise, most)
    return TableAnswers(SCHEMA, 1, [table], {})


def test_a_filter_of_levels_and_ranges_is_a_conjunction():
    question = part(by=["ward"], where={"age": [60, 75], "sex": "f", "died": ["no", "missing"]}).questions(SCHEMA)[0]
    assert [condition.cells for condition in question.within] == [(1,), (0,), (0, 3)]
    assert question.within[0].bins.edges == (60.0, 75.0)
    open_end = part(where={"age": {"from": 60}}).questions(SCHEMA)[0]
    assert (open_end.factors[0].edges, open_end.within) == ((60.0,), ())
    assert "age from 60 to below 75 and sex f" in part(where={"age": [60, 75], "sex": "f"}).words(SCHEMA)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "by, where or both"),
        ({"by": ["agee"]}, "age"),
        ({"by": ["age", "age"]}, "twice"),
        ({"by": ["age"], "edges": {"age": [50, 40]}}, "rise"),
        ({"by": ["age"], "edges": {"age": [500]}}, "bounds"),
        ({"by": ["sex"], "edges": {"sex": [1]}}, "levels"),
        ({"by": ["sex"], "edges": {"age": [1]}}, "not counted"),
        ({"where": {"sex": "female"}}, "no level"),
        ({"where": {"sex": [1, 2]}}, "no level"),
        ({"where": {"age": "old"}}, "number"),
        ({"where": {"age": [75, 60]}}, "less than"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_before_anything_is_asked(keys, words):
    with pytest.raises(ConfigurationError, match=words):
        part(**keys).questions(SCHEMA)


def test_default_edges_are_round_numbers_within_the_bounds():
    assert readable_edges(0, 100) == tuple(range(10, 100, 10))
    assert readable_edges(18, 94, 8) == (20, 30, 40, 50, 60, 70, 80, 90)
    assert readable_edges(0.0, 1.0, 4) == (0.25, 0.5, 0.75)
    for low, high in ((-3.7, 12.2), (1e-3, 7e-3), (0, 1e6)):
        edges = np.array(readable_edges(low, high))
        assert low < edges[0] < edges[-1] < high
        assert 4 <= len(edges) <= 10


def test_words_of_a_count():
    noise = NoiseLaw(10.0)
    estimate = count_estimate(NoisySum(212.0, 1), noise)
    reach = noise.quantile(0.975)
    assert count_words(estimate) == f"212, between {212 - reach} and {212 + reach} with 95 %"


def test_without_noise_counts_are_exact_and_shares_clopper_and_pearson_s():
    counts = part(by=["sex"])
    result = counts.read(answers(counts, [7, 93, 0, 0], NoiseLaw(0.0)))
    assert [row.count.low for row in result.rows] == [7, 93, 0, 0, 100]
    oracle = binomtest(7, 100).proportion_ci(method="exact")
    assert (result.rows[0].share.low, result.rows[0].share.high) == pytest.approx((oracle.low, oracle.high), abs=1e-6)
    json.dumps(result.to_builtins(), allow_nan=False)
    assert "7" in result.to_text()


def test_a_share_with_little_noise_is_near_that_without():
    exact = share_estimate(NoisySum(70, 1), NoisySum(930, 1), NoiseLaw(0.0))
    close = share_estimate(NoisySum(70, 1), NoisySum(930, 1), NoiseLaw(0.1))
    assert (close.low, close.high) == pytest.approx((exact.low, exact.high), abs=3e-4)


@pytest.mark.parametrize(("scale", "share"), [(1.0, 0.01), (10.0, 0.3), (1 / 3, 0.05)])
def test_intervals_of_counts_and_shares_cover(scale, share):
    rng = np.random.default_rng(4)
    noise, repeats = NoiseLaw(scale), 100
    hits = np.zeros(2)
    for _ in range(repeats):
        count = rng.binomial(300, share)
        inside, outside = np.array([count, 300 - count]) + noise.simulate(rng, (2,))
        shown = count_estimate(NoisySum(inside, 1), noise)
        wide = share_estimate(NoisySum(inside, 1), NoisySum(outside, 1), noise)
        hits += [shown.low <= count <= shown.high, wide.low <= share <= wide.high]
    assert hits.min() / repeats > 0.95 - 3 * np.sqrt(0.05 * 0.95 / repeats)


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        np.int64,
        st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 4)) | st.tuples(st.integers(1, 6)),
        elements=st.integers(-60, 200),
    ),
    st.sampled_from([0.5, 3.0, 20.0]),
)
def test_what_is_shown_is_whole_not_negative_and_adds_up(values, scale):
    shown = consistent(values.astype(float), NoiseLaw(scale))
    assert shown.min() >= 0
    assert np.allclose(shown, np.rint(shown), atol=1e-9)
    assert shown.sum() == max(0, values.sum())


def test_a_table_that_is_consistent_already_is_shown_as_it_is():
    values = np.arange(24.0).reshape(2, 3, 4)
    assert np.array_equal(consistent(values, NoiseLaw(1.0)), values)


def test_thousand_empty_cells_do_not_add_records():
    rng = np.random.default_rng(3)
    noise = NoiseLaw(1.0)
    truth = np.zeros((10, 100))
    truth[:, 0] = 200.0
    totals, clamped, margins = [], [], []
    for _ in range(40):
        values = truth + noise.simulate(rng, truth.shape)
        shown = consistent(values, noise)
        totals.append(shown.sum() - 2000)
        margins.append(shown[0].sum() - 200)
        clamped.append(np.maximum(values, 0.0).sum() - 2000)
    deviation = noise.variance**0.5
    assert abs(np.mean(totals)) < deviation * 1000**0.5 * (0.1 + 3 / 40**0.5)
    assert abs(np.mean(margins)) < deviation * 100**0.5 * (0.1 + 3 / 40**0.5)
    assert np.mean(clamped) > 400


def test_zero_or_few_weighs_the_two_by_their_law():
    noise = NoiseLaw(1.0)
    ratio, empty = zero_or_few(0.0, noise, 9)
    expected = noise.pmf[noise.width] / np.mean([np.exp(noise.log_pmf(np.array([n])))[0] for n in range(1, 10)])
    assert ratio == pytest.approx(expected)
    assert empty == pytest.approx(ratio / (1 + ratio))
    assert zero_or_few(8.0, noise, 9)[1] < 0.01


def test_a_result_has_a_cross_table_intervals_and_the_doubtful_cells():
    counts = part(by=["sex", "ward"], where={"age": [60, 75]})
    rng = np.random.default_rng(5)
    truth = np.zeros((4, 5))
    truth[:2, :3] = 50
    noise = NoiseLaw(3.0, 4.0)
    result = counts.read(answers(counts, truth + noise.simulate(rng, truth.shape), noise, most=3))
    captions = [getattr(block, "caption", "") for block in result.blocks()]
    assert "Number of records by sex and ward" in captions
    assert "Zero or few?" in captions
    assert result.to_frames()["counts"].height == 5 * 6
    assert "up to 3 records" in " ".join(result.methods())
    json.dumps(result.to_builtins(), allow_nan=False)


@pytest.mark.slow
def test_columns_of_numbers_keep_their_type_where_many_rows_have_no_share():
    counts = part(by=["age"], bins={"age": 200}, where={"sex": "f"})
    bins = counts.questions(SCHEMA)[0].factors[0]
    sites = {}
    for site, count in (("empty", 0.0), ("full", 9.0)):
        table = NoisyTable((Axis.of(bins, SCHEMA),), np.full(len(bins.edges) + 2, count), NoiseLaw(1.0), 1, 1, 5.0)
        sites[site] = [table]
    frames = counts.read(TableAnswers(SCHEMA, 1, sites["empty"], sites)).to_frames()
    assert frames["counts"].schema["share"] == frames["counts_by_site"].schema["share"] == pl.Float64


def test_variables_that_are_named_as_columns_of_numbers_keep_their_levels():
    schema = Schema((CategoricalAttribute("site", ("a", "b")), CategoricalAttribute("low", ("x",))), "y", ("n", "p"))
    counts = part(by=["site", "low"])
    axes = tuple(Axis.of(bins, schema) for bins in counts.questions(schema)[0].factors)
    table = NoisyTable(axes, np.ones((4, 3)), NoiseLaw(1.0))
    frames = counts.read(TableAnswers(schema, 1, [table], {"north": [table], "south": [table]})).to_frames()
    assert frames["counts"]["low (variable)"][0] == "x"
    assert frames["counts_by_site"].columns[:3] == ["site", "site (variable)", "low (variable)"]


@pytest.mark.parametrize("value", [-400.0, -60.0, -5.0, 0.0, 40.0])
def test_a_count_far_below_zero_is_no_sure_zero(value):
    noise = NoiseLaw(10.0)
    reach = noise.quantile(0.975)
    count = count_estimate(NoisySum(value, 1), noise)
    assert count.low <= count.value <= count.high
    assert count.high >= reach, "an answer below zero never says more than one of zero"
    share = share_estimate(NoisySum(value, 1), NoisySum(500.0, 3), noise)
    at_zero = share_estimate(NoisySum(0.0, 1), NoisySum(500.0, 3), noise)
    assert share.low <= share.value <= share.high < 0.5 if value + 500 > 0 else share.value is None
    assert share.high >= at_zero.high
    other = share_estimate(NoisySum(500.0, 3), NoisySum(value, 1), noise)
    assert other.low == pytest.approx(1 - share.high, abs=1e-4)
