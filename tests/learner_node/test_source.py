"""Feature map, bins and k-means cells of the source; none of it may depend on more than the source."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from curator_node.records.dataset import PrivateDataset
from learner_fakes import NoNoise, federate, key, open_curator, ring, steward
from learner_node.models.source import (
    coordinates,
    even_bins,
    held_apart,
    kmeans_cells,
    paper_bin_count,
    standardising_map,
)
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from margins import surely_ahead
from protocol.feature_map import STEPS, CategoricalFeature, NumericFeature
from protocol.hypotheses import Constant
from protocol.partitions import PARTITION_KINDS
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

N = 400


@given(
    values=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=60, unique=True),
    bins=st.integers(2, 8),
    seed=st.integers(0, 2**16),
)
def test_weighted_bins_hold_even_shares_of_the_weight(values, bins, seed):
    """Each share is within the largest single weight of even: no record can be split."""
    weights = np.random.default_rng(seed).gamma(0.7, size=len(values))
    source = records({"x": values}, [wide()])
    (partition,) = even_bins(source, bins, weights)
    cells = partition.cells(source)
    shares = np.bincount(cells, weights, minlength=len(partition.edges) + 1)
    assert shares.sum() == pytest.approx(weights.sum())
    assert shares.max() <= weights.sum() / bins + 2 * weights.max() * (1 + 1e-9)


def test_weights_that_say_nothing_leave_the_bins_as_they_are():
    source = records({"x": list(range(20))}, [wide()])
    assert even_bins(source, 4, np.zeros(20)) == even_bins(source, 4)


def records(columns, attributes):
    schema = Schema(attributes=tuple(attributes), label="sick", classes=("no", "yes"))
    return encode_frame(pl.DataFrame(columns, strict=False), schema)


def wide(name="x", bound=1e6):
    return NumericAttribute(name=name, lower=-bound, upper=bound)


def variance_by_feature(source):
    features = standardising_map(source)
    features.check(source.schema, "features")
    points = coordinates(features, source)
    ends = np.cumsum([1 if isinstance(f, NumericFeature) else len(f.levels) + 1 for f in features.features])
    return {
        feature.attribute: block.var(axis=0).sum()
        for feature, block in zip(features.features, np.split(points, ends[:-1], axis=1), strict=True)
    }


@pytest.mark.parametrize("scale", [1e-10, 1e-4, 1.0, 1e5])
def test_a_number_gets_mean_0_and_variance_1_whatever_its_unit_and_bounds(scale):
    values = scale * np.random.default_rng(0).normal(3, 2, N)
    source = records({"x": values}, [wide()])
    points = coordinates(standardising_map(source), source)
    assert points.mean() == pytest.approx(0, abs=1 / STEPS)
    assert points.var() == pytest.approx(1, rel=1e-3)


def test_missing_numbers_become_the_median_and_the_variance_stays_1():
    rng = np.random.default_rng(1)
    values = rng.exponential(2, N)
    values[rng.random(N) < 0.4] = np.nan
    source = records({"x": values}, [wide()])
    (feature,) = standardising_map(source).features
    assert feature.imputation == np.nanmedian(values)
    assert variance_by_feature(source)["x"] == pytest.approx(1, rel=1e-3)


def test_a_category_gets_variance_1_in_all_missing_and_other_among_them():
    rng = np.random.default_rng(2)
    levels = rng.choice(["a", "b", "c", "strange", ""], N, p=[0.4, 0.2, 0.1, 0.1, 0.2])
    source = records({"k": levels}, [CategoricalAttribute(name="k", levels=("a", "b", "c"))])
    (feature,) = standardising_map(source).features
    assert isinstance(feature, CategoricalFeature)
    assert feature.imputation == "a"
    assert variance_by_feature(source)["k"] == pytest.approx(1, rel=1e-3)


def test_where_other_is_most_frequent_missing_becomes_other():
    source = records({"k": ["z", "z", "a", ""]}, [CategoricalAttribute(name="k", levels=("a",))])
    (feature,) = standardising_map(source).features
    assert feature.imputation == ""
    assert variance_by_feature(source)["k"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        (wide("x"), [2.5] * N),
        (wide("x"), [float("nan")] * N),
        (wide("x"), [1e5 + 1e-6 * (i % 2) for i in range(N)]),  # dust
        (CategoricalAttribute(name="x", levels=("a", "b")), ["a"] * N),
        (CategoricalAttribute(name="x", levels=("a", "b")), [""] * N),
    ],
)
def test_constant_and_missing_attributes_are_left_out(attribute, column):
    varied = np.random.default_rng(3).normal(size=N)
    source = records({"x": column, "y": varied}, [attribute, wide("y")])
    assert [feature.attribute for feature in standardising_map(source).features] == ["y"]


@pytest.mark.parametrize("attribute", [wide(), CategoricalAttribute(name="x", levels=("7",))])
def test_where_nothing_varies_one_attribute_is_kept_and_a_study_still_runs(attribute):
    source = records({"x": [7, 7, 7]}, [attribute])
    features = standardising_map(source)
    features.check(source.schema, "features")
    assert len(features.features) == 1
    cells = kmeans_cells(source, features, 5, seed=0)
    cells.check(source.schema, "partition")
    assert cells.cell_count(source.schema) == 1


@pytest.mark.parametrize("bins", [2, 7, 50])
def test_bins_hold_even_mass(bins):
    values = np.random.default_rng(4).lognormal(size=1000)
    source = records({"x": values}, [wide()])
    (partition,) = even_bins(source, bins)
    partition.check(source.schema, "partition")
    counts = np.bincount(partition.cells(source), minlength=bins + 1)
    assert counts[-1] == 0  # the bin for missing values
    assert counts[:-1].min() >= 1000 // bins - 1
    assert counts[:-1].max() <= 1000 // bins + 2


def test_ties_leave_fewer_bins_and_none_is_empty():
    values = [0.0] * 300 + [1.0] * 60 + [2.0] * 40
    source = records({"x": values}, [wide()])
    (partition,) = even_bins(source, 10)
    partition.check(source.schema, "partition")
    assert np.bincount(partition.cells(source), minlength=partition.cell_count(source.schema)).tolist() == [
        300,
        60,
        40,
        0,
    ]


def test_bins_of_categories_and_of_missing_columns():
    kinds = CategoricalAttribute(name="k", levels=("a", "b"))
    source = records({"k": ["a", "b", "z", ""], "x": [None] * 4}, [kinds, wide()])
    categories, missing = even_bins(source, 10)
    assert categories.cells(source).tolist() == [0, 1, 2, 3]
    assert missing.edges == ()
    assert missing.cells(source).tolist() == [1] * 4


def test_the_papers_rule_gives_four_noise_deviations_a_bin():
    # section 4.2: n' / (q sqrt(2) l) = 4
    assert paper_bin_count(10_000, Fraction(100)) == round(10_000 / (4 * np.sqrt(2) * 100)) == 18
    assert paper_bin_count(10, Fraction(100)) == 2
    assert paper_bin_count(10**9, Fraction(1)) == 50


def test_kmeans_cells_follow_the_seed_and_never_outnumber_distinct_records():
    source = encode_frame(ring(90), steward().schema)
    features = standardising_map(source)
    first, again, other = (kmeans_cells(source, features, 12, seed=s) for s in (5, 5, 6 + 2**40))
    assert first == again != other
    few = encode_frame(pl.DataFrame({"x": [0, 0, 1, 1], "y": [0, 0, 1, 1]}), steward().schema)
    assert kmeans_cells(few, standardising_map(few), 12, seed=0).cell_count(few.schema) == 2


def test_a_curator_counts_the_very_cells_that_the_learner_sees():
    frame = ring(500, seed=8)
    source = encode_frame(ring(120, seed=9), steward().schema)
    cells = kmeans_cells(source, standardising_map(source), 25, seed=0)
    travelled = PARTITION_KINDS["nearest_centre"](features=cells.features, centres=cells.centres)
    dataset = PrivateDataset(frame, steward(), unit_key=b"u" * 32, cache_bytes=10**6)
    errors, correct = dataset.count((travelled,), Constant(predicted=1))
    seen = encode_frame(frame, steward().schema)
    in_one_go = cells.cells(seen)
    one_by_one = np.concatenate([cells.cells(seen.take(slice(i, i + 1))) for i in range(len(seen))])
    sick = (frame["sick"] == "yes").to_numpy()
    assert np.array_equal(in_one_go, one_by_one)
    assert np.array_equal(correct, np.bincount(in_one_go[sick], minlength=25))
    assert np.array_equal(errors, np.bincount(in_one_go[~sick], minlength=25))


def test_counts_over_the_wire_are_the_learners_own_counts_of_the_same_records():
    frame = ring(300, seed=8)
    curators = {"basel": open_curator("basel", frame, noise=NoNoise())}
    options = {"networks": False}
    learned = learn(federate(curators), frame.drop("sick"), Budget(1), strategy="cells", options=options)
    (asked,) = learned.study.rounds
    (partition,) = asked.bodies["basel"].partitions
    found = partition.cells(learned.source)
    assert asked.answers["basel"].values.sum(axis=1).tolist() == np.bincount(found).tolist()
    assert learned.study.sessions["basel"].curator == key("basel").public


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_points_held_apart_are_as_far_from_their_cell_as_from_its_other_points(seed, cells):
    rng = np.random.default_rng(seed)
    points, cell = rng.standard_normal((30, 2)), rng.integers(cells, size=30) * 7
    moved = held_apart(points, cell)
    for number in range(30):
        mine = cell == cell[number]
        others = mine & (np.arange(30) != number)
        if not others.any():
            assert (moved[number] == points[number]).all()
            continue
        step = moved[number] - points[mine].mean(axis=0)
        assert step == pytest.approx(points[number] - points[others].mean(axis=0), abs=1e-9)


def test_points_held_apart_lie_as_other_records_of_the_population_do():
    """Of 30 draws of 300 records in 100 cells: mean squares about the cells' means, of the source and of others."""
    off = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        source, others = rng.standard_normal((300, 3)), rng.standard_normal((3000, 3))
        cells = KMeans(100, n_init=1, random_state=seed).fit(source)
        spread = np.mean((others - cells.cluster_centers_[cells.predict(others)]) ** 2)
        centre = cells.cluster_centers_[cells.labels_]
        apart = held_apart(source, cells.labels_)
        off.append([abs(np.mean((points - centre) ** 2) - spread) for points in (source, apart)])
    assert surely_ahead(*np.transpose(off))
