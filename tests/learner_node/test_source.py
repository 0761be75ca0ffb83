"""The source's feature map, cells and partitions, none of which needs more than the source; synthetic data."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.tree import DecisionTreeRegressor

from at_length import at_length
from curator_node.records.dataset import PrivateDataset
from expril.audit.generators.values import records_of, schemas
from learner_fakes import NoNoise, federate, key, open_curator, ring, steward
from learner_node.estimator import ExPriLClassifier
from learner_node.models import partitions as splits
from learner_node.models.partitions import (
    product_bins,
    projection_bins,
    random_projection_bins,
    score_bins,
    tree_leaves,
)
from learner_node.models.source import (
    as_frame,
    attribute_bins,
    coordinates,
    even_bins,
    held_apart,
    judged,
    kmeans_cells,
    paper_bin_count,
    standardising_map,
)
from learner_node.models.synthetic import held_columns, mixed, pooled_estimate, synthetic_frame, write_frame
from learner_node.strategies.base import SourceEstimate
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from margins import surely_ahead
from protocol.errors import ConfigurationError
from protocol.feature_map import STEPS, CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.partitions import PARTITION_KINDS
from protocol.partitions.tree_leaves import LEVEL_COST, MOST_DEPTH
from protocol.record_frames import encode_frame
from protocol.records import Records
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


def test_judged_records_stand_for_their_cells(monkeypatch):
    """A mean over 400 draws of the sample is within 6.1 of its own standard errors (false alarm 1e-9), and that of one
    draw is at most what is promised: a bias of .03 is found.
    """
    rng = np.random.default_rng(0)
    cells = rng.choice([0, 1, 2, 5], 900, p=[0.7, 0.2, 0.08, 0.02])
    risk = np.where(cells == 0, rng.integers(0, 2, 900), rng.random(900))
    assert judged(cells, 0) == (slice(None), 1.0)
    monkeypatch.setattr("learner_node.models.source.MOST_JUDGED", 100)
    means = []
    for seed in range(400):
        rows, each = judged(cells, seed)
        assert (np.diff(rows) > 0).all()
        assert np.bincount(cells[rows], each) == pytest.approx(np.bincount(cells), rel=1e-12)
        means.append(np.average(risk[rows], weights=each))
    assert abs(np.mean(means) - risk.mean()) < 6.1 * np.std(means) / np.sqrt(len(means)) < 0.015
    assert np.std(means) < 0.5 / np.sqrt(100)


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


ROWS, D = 480, 4
SCHEMA = Schema(
    (*(NumericAttribute(f"x{i}", -50.0, 50.0) for i in range(D)), CategoricalAttribute("c", ("a", "b", "z"))),
    "y",
    ("no", "yes"),
)
MAP = FeatureMap(tuple(NumericFeature(f"x{i}", 0.0, 1.0, 0.0) for i in range(D)))


def drawn(seed=0, n=ROWS):
    rng = np.random.default_rng(seed)
    values = rng.normal(0, [3, 2, 1, 0.5], (n, D))
    return Records(SCHEMA, np.clip(values, -50, 50), rng.integers(-1, 4, (n, 1)).astype(np.int16))


SOURCE = drawn()


def network(features=MAP, seed=1):
    rng = np.random.default_rng(seed)
    width = features.width
    return Mlp.of(features, [(rng.normal(0, 0.5, (6, width)), np.zeros(6)), (rng.normal(0, 1, (1, 6)), np.zeros(1))])


def masses(partition, source=SOURCE, weights=None):
    return np.bincount(partition.cells(source), weights, minlength=partition.cell_count(source.schema))


# Products


def test_a_product_has_the_even_bins_of_both_attributes():
    product = product_bins(SOURCE, "x0", "x2", (5, 3))
    product.check(SCHEMA, "here")
    every = {bins.attribute: bins for bins in even_bins(SOURCE, 5)}
    assert product.first == every["x0"]
    assert masses(product.second).tolist() == [ROWS / 3] * 3 + [0]
    assert masses(product).sum() == ROWS
    assert product.cell_count(SCHEMA) == 6 * 4


def test_a_product_with_a_category_has_its_levels_and_takes_weights():
    weights = np.linspace(0, 1, ROWS)
    product = product_bins(SOURCE, "c", "x1", (1, 2), weights)
    product.check(SCHEMA, "here")
    assert product.first.edges == ()
    assert product.second == attribute_bins(SOURCE, SCHEMA.find("x1"), 2, weights)
    halves = masses(product.second, weights=weights)[:2]
    assert abs(halves[0] - halves[1]) <= 2


@pytest.mark.parametrize(("first", "bins", "text"), [("w", (2, 2), "no attribute 'w'"), ("x0", (2, 0), "bins is 0")])
def test_a_product_that_cannot_be_drawn_says_why(first, bins, text):
    with pytest.raises(ConfigurationError, match=text):
        product_bins(SOURCE, first, "x1", bins)


# Scores


@pytest.mark.parametrize("bins", [1, 2, 7, 40])
def test_score_bins_hold_even_shares_of_the_source(bins):
    partition = score_bins(network(), SOURCE, bins)
    partition.check(SCHEMA, "here")
    counts = masses(partition)
    assert len(counts) == bins
    assert counts.max() - counts.min() <= 1


def test_score_bins_follow_the_weights():
    logits = network().logits(SOURCE)
    weights = (logits > np.median(logits)).astype(float)
    counts = masses(score_bins(network(), SOURCE, 4, weights), weights=weights)
    assert counts.sum() == ROWS / 2
    assert counts.max() - counts.min() <= 2


def test_scores_that_tie_leave_fewer_bins():
    flat = Mlp.of(MAP, [(np.zeros((1, D)), np.zeros(1))])
    assert score_bins(flat, SOURCE, 5).edges == ()
    assert score_bins(network(), SOURCE.take(slice(0)), 5).edges == ()


def test_bins_that_keep_the_classes_apart_hold_one_predicted_class_each():
    partition = score_bins(network(), SOURCE, 6, apart=True)
    partition.check(SCHEMA, "here")
    assert 6 <= len(masses(partition)) <= 7
    predicted, cells = network().predict(SOURCE), partition.cells(SOURCE)
    assert not set(cells[predicted]) & set(cells[~predicted])
    together = score_bins(network(), SOURCE, 6).cells(SOURCE)
    assert set(together[predicted]) & set(together[~predicted]), "the case is one where it matters"


# Projections


def test_projections_are_standardised_to_length_1_and_cut_evenly():
    directions = np.array([[3.0, 4.0, 0, 0], [0, 0, 1e-200, 0]])
    partition = projection_bins(MAP, SOURCE, directions, (4, 3))
    partition.check(SCHEMA, "here")
    lengths = np.linalg.norm(partition.grid / 4096, axis=1)
    assert lengths == pytest.approx([1, 1], abs=1e-3)
    joint = masses(partition).reshape(4, 3)
    assert joint.sum(axis=1).tolist() == [ROWS / 4] * 4
    assert joint.sum(axis=0).tolist() == [ROWS / 3] * 3
    expected = SOURCE.numeric[:, :2] @ [0.6, 0.8]
    assert np.quantile(expected, [0.25, 0.5, 0.75]) == pytest.approx(partition.edges[0], abs=0.01)


def test_random_projections_are_those_of_their_seed():
    first, again, other = (random_projection_bins(MAP, SOURCE, (3, 3), seed) for seed in (1, 1, 2))
    first.check(SCHEMA, "here")
    assert first == again
    assert first.directions != other.directions
    assert masses(first).reshape(3, 3).sum(axis=1).tolist() == [ROWS / 3] * 3


@pytest.mark.parametrize(
    ("directions", "bins", "text"),
    [
        (np.zeros((1, D)), (2,), "0 or not finite"),
        (np.full((1, D), np.nan), (2,), "0 or not finite"),
        (np.array([[1, np.inf, 0, 0]]), (2,), "0 or not finite"),
        (np.ones((1, D + 1)), (2,), r"shape \(1, 5\)"),
        (np.ones((2, D)), (2,), r"shape \(2, 4\)"),
        (np.ones((1, D)), (0,), "bins is 0"),
        (np.ones((1, 1, D)), (2,), "shape"),
    ],
)
def test_directions_that_cannot_be_cut_say_why(directions, bins, text):
    with pytest.raises(ConfigurationError, match=text):
        projection_bins(MAP, SOURCE, directions, bins)


# Trees


@pytest.mark.parametrize("leaves", [2, 4, 8, 16, 32])
def test_a_tree_without_a_target_splits_the_source_evenly(leaves):
    source = drawn(2, 512)
    tree = tree_leaves(MAP, source, leaves)
    tree.check(SCHEMA, "here")
    assert masses(tree, source).tolist() == [512 / leaves] * leaves


def test_a_tree_is_even_in_weight():
    weights = np.random.default_rng(3).gamma(1, size=ROWS)
    found = masses(tree_leaves(MAP, SOURCE, 8, weights=weights), weights=weights)
    # Three cuts, each off by at most the weight of the record in the middle.
    assert np.abs(found - weights.sum() / 8).max() <= 2 * weights.max()


def test_the_first_cut_is_on_the_coordinate_of_greatest_variance():
    assert tree_leaves(MAP, SOURCE, 2).table[0, 0] == 0
    skewed = Records(SCHEMA, SOURCE.numeric.copy(), SOURCE.categorical)
    skewed.numeric[:, 0] = np.where(np.arange(ROWS) == 0, 50.0, 0.0)
    assert tree_leaves(MAP, skewed, 2).table[0, 0] == 1, "one record beyond all others does not make an even cut"


@pytest.mark.parametrize("leaves", [2, 5, 20])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("least", [1, 12])
def test_a_guided_tree_leaves_as_little_variance_as_scikit_learns(leaves, columns, least):
    rng = np.random.default_rng(4)
    points = coordinates(MAP, SOURCE)
    signal = np.sin(points[:, :columns] * [1.0, 2.0][:columns]) + points[:, 2:3] * points[:, 3:]
    target = signal + rng.normal(0, 0.3, (ROWS, columns))
    weights = rng.gamma(2, size=ROWS)
    ours = tree_leaves(MAP, SOURCE, leaves, target=target, weights=weights, least=least)
    ours.check(SCHEMA, "here")
    assert masses(ours).min() >= least
    theirs = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=0)
    theirs.fit(points, target, sample_weight=weights)
    found = [within(cells, target, weights) for cells in (ours.cells(SOURCE), theirs.apply(points))]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0] < within(np.zeros(ROWS, int), target, weights)


def within(cells, target, weights):
    """The weighted sum of squares of a target within cells."""
    total = 0.0
    for cell in np.unique(cells):
        rows = cells == cell
        mean = np.average(target[rows], axis=0, weights=weights[rows])
        total += float((weights[rows] @ (target[rows] - mean) ** 2).sum())
    return total


def test_a_target_that_is_explained_lets_the_rest_be_split_evenly():
    target = (SOURCE.numeric[:, 3] > 0.2).astype(float)
    tree = tree_leaves(MAP, SOURCE, 4, target=target)
    assert tree.table[0, 0] == 3
    cells = tree.cells(SOURCE)
    assert not set(cells[target == 1]) & set(cells[target == 0])
    assert masses(tree).max() < ROWS / 2


@given(schemas().flatmap(lambda s: records_of(s, most=30)), st.integers(2, 12), st.integers(1, 4), st.booleans())
@settings(deadline=None, max_examples=10)
def test_any_source_gives_a_lawful_tree_whose_leaves_hold_enough(source, leaves, least, guided):
    features = standardising_map(source)
    target = np.arange(len(source)) % 3 / 2 if guided else None
    kept = None if target is None else target.copy()
    tree = tree_leaves(features, source, leaves, target=target, least=least)
    tree.check(source.schema, "here")
    assert tree == tree_leaves(features, source, leaves, target=target, least=least)
    assert np.array_equal(target, kept), "the caller's array is left alone"
    assert tree.cell_count(source.schema) <= leaves
    counts = masses(tree, source)
    # A tree has one cut at least: where none is possible, every record is in leaf 0.
    assert counts.min() >= least or counts.tolist() == [len(source), 0]


test_any_source_gives_a_lawful_tree_whose_leaves_hold_enough_at_length = at_length(
    test_any_source_gives_a_lawful_tree_whose_leaves_hold_enough, 50
)


@given(schemas().flatmap(lambda s: records_of(s, most=30)), st.integers(1, 6))
@settings(deadline=None, max_examples=35)
def test_any_source_gives_lawful_bins(source, bins):
    features = standardising_map(source)
    first, last = source.schema.attributes[0].name, source.schema.attributes[-1].name
    made = [
        product_bins(source, first, last, (bins, bins)),
        score_bins(network(features), source, bins, apart=True),
        random_projection_bins(features, source, (bins, 2), seed=3),
    ]
    for partition in made:
        partition.check(source.schema, "here")
        assert masses(partition, source).sum() == len(source)


def test_a_tree_is_no_deeper_than_the_wire_allows():
    """Each record is heavier than all before it together: every even cut takes one off, down a chain."""
    n = 90
    values = np.column_stack([np.arange(n) / 4096.0, *[np.zeros(n)] * 3])
    source = Records(SCHEMA, values, np.zeros((n, 1), np.int16))
    tree = tree_leaves(MAP, source, n, weights=4.0 ** np.arange(n))
    tree.check(SCHEMA, "here")
    assert tree.cell_count(SCHEMA) == MOST_DEPTH + 1
    assert tree.multiply_adds() == MAP.multiply_adds() + LEVEL_COST * MOST_DEPTH


def test_the_tree_does_not_depend_on_how_many_coordinates_are_looked_at_at_once(monkeypatch):
    target = np.random.default_rng(5).normal(size=(ROWS, 2))
    whole = [tree_leaves(MAP, SOURCE, 20), tree_leaves(MAP, SOURCE, 20, target=target)]
    monkeypatch.setattr(splits, "CHUNK_ENTRIES", 1)
    assert [tree_leaves(MAP, SOURCE, 20), tree_leaves(MAP, SOURCE, 20, target=target)] == whole


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"leaves": 1}, "leaves is 1; it must be at least 2"),
        ({"leaves": 500_002}, "at most 500001"),
        ({"leaves": 4, "least": 0}, "least is 0"),
        ({"leaves": 4, "weights": np.ones(ROWS - 1)}, "weights must be"),
        ({"leaves": 4, "weights": np.zeros(ROWS)}, "weights must be"),
        ({"leaves": 4, "weights": -np.ones(ROWS)}, "weights must be"),
        ({"leaves": 4, "target": np.ones(ROWS - 1)}, "target must be"),
        ({"leaves": 4, "target": np.full(ROWS, np.nan)}, "target must be"),
        ({"leaves": 4, "target": np.ones((ROWS, 1, 1))}, "target must be"),
    ],
)
def test_a_tree_that_cannot_be_grown_says_why(options, text):
    with pytest.raises(ConfigurationError, match=text):
        tree_leaves(MAP, SOURCE, **options)


CLASSES = np.array(["no", "yes"])
ESTIMATE = SourceEstimate(np.array([2.0, 0.0, 1.5]), np.array([0.9, 0.5, 0.1]))
PEOPLE = pl.DataFrame({"id": ["a", "b", "c"], "x": [1.0, None, 3.0]})
PEOPLE_SCHEMA = Schema(
    attributes=(CategoricalAttribute("sex", ("f", "m")), NumericAttribute("age", 0, 100), NumericAttribute("x", 0, 1)),
    label="sick",
    classes=("no", "yes"),
)
TEXTS = pl.DataFrame(
    {
        "patient": ["p1", "p2", "p3"],
        "x": ["?", " 0.5", "1e-1"],
        "age": ["130", "", "64"],
        "sex": [" f", "NA", "unknown"],
        "sick": ["no", "no", "yes"],
    }
)


def test_only_the_cards_attributes_are_held_in_its_order_and_types():
    held = held_columns(TEXTS, PEOPLE_SCHEMA)
    assert held.schema == {"sex": pl.String, "age": pl.Float64, "x": pl.Float64}
    assert held.rows() == [("f", 130.0, None), (None, None, 0.5), ("unknown", 64.0, 0.1)]
    encoded, again = encode_frame(TEXTS, PEOPLE_SCHEMA), encode_frame(held, PEOPLE_SCHEMA)
    assert np.array_equal(encoded.numeric, again.numeric, equal_nan=True)
    assert np.array_equal(encoded.categorical, again.categorical)


@pytest.mark.parametrize(
    ("age", "held"),
    [
        (pl.Series([3, None, 130]), [3.0, None, 130.0]),
        (pl.Series([0.5, float("nan"), 1e300]), [0.5, None, 1e300]),
        (pl.Series([True, False, None]), [1.0, 0.0, None]),
        (pl.Series([None, None, None], dtype=pl.Null), [None] * 3),
    ],
)
def test_numbers_of_any_type_are_float64_and_levels_are_texts(age, held):
    frame = held_columns(TEXTS.with_columns(age=age, sex=pl.Series([1, 2, None])), PEOPLE_SCHEMA)
    assert frame["age"].to_list() == held
    assert frame["age"].dtype == pl.Float64
    assert frame["sex"].to_list() == ["1", "2", None]


DATED_SCHEMA = Schema(
    attributes=(
        NumericAttribute("born", -9000, 9000, days_since="2000-01-01", missing=("1900-01-01",)),
        NumericAttribute("dose", 0, 9, missing=(99,)),
        CategoricalAttribute("sex", ("f", "m"), missing=("unknown",)),
    ),
    label="sick",
    classes=("no", "yes"),
)


def test_dates_and_sentinels_are_held_so_that_they_are_encoded_alike_again():
    born = ["1999-12-31T12:00", "1900-01-01", None, "2000-01-01"]
    source = pl.DataFrame({"born": born, "dose": [99, 1, None, 2], "sex": ["f", "unknown", "x", "m"]})
    held = held_columns(source, DATED_SCHEMA)
    assert held.schema == {"born": pl.Datetime("us"), "dose": pl.Float64, "sex": pl.String}
    times = ["1999-12-31 12:00:00.000000", None, None, "2000-01-01 00:00:00.000000"]
    assert held["born"].cast(pl.String).to_list() == times
    assert held.rows()[1:3] == [(None, 1.0, None), (None, None, "x")]
    encoded, again = encode_frame(source, DATED_SCHEMA), encode_frame(held, DATED_SCHEMA)
    assert encoded.numeric[:, 0].tolist()[::3] == [-0.5, 0.0]
    assert np.array_equal(encoded.numeric, again.numeric, equal_nan=True)
    assert np.array_equal(encoded.categorical, again.categorical)


def test_an_array_holds_dates_as_days_and_a_table_as_dates():
    array = np.array([[-0.5, 1.0, 0.0], [np.nan, 99.0, 1.0], [1e18, 2.0, np.nan]])
    assert np.array_equal(
        encode_frame(as_frame(array, DATED_SCHEMA), DATED_SCHEMA).numeric,
        [[-0.5, 1.0], [np.nan, np.nan], [9000.0, 2.0]],
        equal_nan=True,
    )
    times = np.array(["1999-12-31T12:00", "NaT", "2000-01-02"], "datetime64[ns]")
    table = Table({"born": times, "dose": np.array([1.0, 2.0, 3.0]), "sex": np.array(["f", None, "m"], object)})
    found = encode_frame(as_frame(table, DATED_SCHEMA), DATED_SCHEMA).numeric[:, 0]
    assert np.array_equal(found, [-0.5, np.nan, 1.0], equal_nan=True)
    with pytest.raises(ConfigurationError, match="'born' is declared with days_since but has type Float64"):
        encode_frame(as_frame(table | {"born": np.ones(3)}, DATED_SCHEMA), DATED_SCHEMA)
    array[1, 0] = np.inf
    with pytest.raises(ConfigurationError, match="'born' holds infinity in row 2"):
        as_frame(array, DATED_SCHEMA)


class Table(dict):
    """A table as pandas has it: columns by name."""

    @property
    def columns(self):
        return list(self)

    def __or__(self, other):
        return Table({**self, **other})


def test_further_columns_are_kept_by_name_as_they_are():
    source = TEXTS.with_columns(row=pl.Series([7, 8, 9]))
    held = held_columns(source, PEOPLE_SCHEMA, ["row", "patient", "age", "row"])
    assert held.columns == ["sex", "age", "x", "row", "patient"]
    assert held["row"].to_list() == [7, 8, 9]
    assert held["patient"].to_list() == ["p1", "p2", "p3"]


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        (["patiemt"], "no column 'patiemt' to keep; did you mean 'patient'"),
        ("patient", r"list of column names, such as \['patient'\]"),
        (["sick"], "labels of the source are never used"),
    ],
)
def test_a_column_that_cannot_be_kept_is_an_error(keep, text):
    with pytest.raises(ConfigurationError, match=text):
        held_columns(TEXTS, PEOPLE_SCHEMA, keep)


def test_the_sources_columns_then_weight_label_and_probability():
    frame = synthetic_frame(PEOPLE, ESTIMATE, label="sick", classes=CLASSES)
    assert frame.to_dict(as_series=False) == {
        "id": ["a", "b", "c"],
        "x": [1.0, None, 3.0],
        "weight": [2.0, 0.0, 1.5],
        "sick": ["yes", "no", "no"],
        "sick_probability": [0.9, 0.5, 0.1],
    }


def test_a_name_that_is_taken_is_an_error_and_weights_can_be_renamed():
    heavy = PEOPLE.with_columns(weight=70.0)
    with pytest.raises(ConfigurationError, match="'weight' of its own"):
        synthetic_frame(heavy, ESTIMATE, label="sick", classes=CLASSES)
    frame = synthetic_frame(heavy, ESTIMATE, label="sick", classes=CLASSES, weight="stands_for")
    assert frame["weight"].to_list() == [70.0] * 3
    assert frame["stands_for"].to_list() == [2.0, 0.0, 1.5]
    with pytest.raises(ConfigurationError, match="'sick_probability' of its own"):
        synthetic_frame(PEOPLE.with_columns(sick_probability=0.0), ESTIMATE, label="sick", classes=CLASSES)
    for weight in ("sick", "sick_probability"):
        with pytest.raises(ConfigurationError, match="name of a label column"):
            synthetic_frame(PEOPLE, ESTIMATE, label="sick", classes=CLASSES, weight=weight)


def test_sites_mix_by_mass():
    a, b = np.array([1.0, 0.0, 0.4]), np.array([0.0, 1.0, 0.8])
    assert mixed([3.0, 1.0], [a, b]) == pytest.approx([0.75, 0.25, 0.5])
    assert mixed([np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 0.0])], [a, b]) == pytest.approx([0.5, 1.0, 0.6])
    assert mixed([5.0], [a]) == pytest.approx(a)


def test_pooled_estimates_keep_the_records_of_each_class():
    sites = [ESTIMATE, SourceEstimate(np.array([1.0, 0.0, 4.0]), np.array([0.2, 0.7, 1.0]))]
    pooled = pooled_estimate(sites)
    assert pooled.weights.tolist() == [3.0, 0.0, 5.5]
    assert pooled.weights @ pooled.probability == pytest.approx(sum(s.weights @ s.probability for s in sites))


@pytest.mark.family(1)
@pytest.mark.parametrize(
    ("ending", "read"), [(".csv", pl.read_csv), (".parquet", pl.read_parquet), (".CSV", pl.read_csv)]
)
def test_a_fitted_study_writes_what_it_returns(tmp_path, ending, read):
    curators = {"basel": open_curator("basel", ring(300, seed=1), noise=NoNoise())}
    source = ring(60, seed=2).drop("sick").with_columns(id=pl.int_range(60))
    model = ExPriLClassifier(federate(curators), options={"cells": 8}, random_state=0).fit(source)
    path = tmp_path / f"synthetic{ending}"
    model.write_synthetic(path)
    written = read(path)
    assert written.equals(model.synthetic_data())
    assert written.columns == ["x", "y", "weight", "sick", "sick_probability"]
    assert written.select("x", "y").equals(source.select("x", "y"))
    assert written["weight"].sum() == pytest.approx(300, rel=0.1)
    model.write_synthetic(str(path), weight="stands_for", keep=["id"])
    kept = read(path)
    assert kept.columns == ["x", "y", "id", "stands_for", "sick", "sick_probability"]
    assert kept["id"].to_list() == list(range(60))


def test_another_ending_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\.csv, \.parquet"):
        write_frame(PEOPLE, tmp_path / "synthetic.xlsx")
