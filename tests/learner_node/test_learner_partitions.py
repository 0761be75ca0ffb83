"""Partitions drawn on the source: even where they should be, lawful on the wire, and equal for equal arguments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from at_length import at_length
from generators import records_of, schemas
from learner_node.models import partitions as splits
from learner_node.models.partitions import (
    product_bins,
    projection_bins,
    random_projection_bins,
    score_bins,
    tree_leaves,
)
from learner_node.models.source import attribute_bins, coordinates, even_bins, standardising_map
from protocol.errors import ConfigurationError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.partitions.tree_leaves import LEVEL_COST, MOST_DEPTH
from protocol.records import Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

N, D = 480, 4
SCHEMA = Schema(
    (*(NumericAttribute(f"x{i}", -50.0, 50.0) for i in range(D)), CategoricalAttribute("c", ("a", "b", "z"))),
    "y",
    ("no", "yes"),
)
MAP = FeatureMap(tuple(NumericFeature(f"x{i}", 0.0, 1.0, 0.0) for i in range(D)))


def drawn(seed=0, n=N):
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
    assert masses(product.second).tolist() == [N / 3] * 3 + [0]
    assert masses(product).sum() == N
    assert product.cell_count(SCHEMA) == 6 * 4


def test_a_product_with_a_category_has_its_levels_and_takes_weights():
    weights = np.linspace(0, 1, N)
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
    assert counts.sum() == N / 2
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
    assert joint.sum(axis=1).tolist() == [N / 4] * 4
    assert joint.sum(axis=0).tolist() == [N / 3] * 3
    expected = SOURCE.numeric[:, :2] @ [0.6, 0.8]
    assert np.quantile(expected, [0.25, 0.5, 0.75]) == pytest.approx(partition.edges[0], abs=0.01)


def test_random_projections_are_those_of_their_seed():
    first, again, other = (random_projection_bins(MAP, SOURCE, (3, 3), seed) for seed in (1, 1, 2))
    first.check(SCHEMA, "here")
    assert first == again
    assert first.directions != other.directions
    assert masses(first).reshape(3, 3).sum(axis=1).tolist() == [N / 3] * 3


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
    weights = np.random.default_rng(3).gamma(1, size=N)
    found = masses(tree_leaves(MAP, SOURCE, 8, weights=weights), weights=weights)
    # Three cuts, each off by at most the weight of the record in the middle.
    assert np.abs(found - weights.sum() / 8).max() <= 2 * weights.max()


def test_the_first_cut_is_on_the_coordinate_of_greatest_variance():
    assert tree_leaves(MAP, SOURCE, 2).table[0, 0] == 0
    skewed = Records(SCHEMA, SOURCE.numeric.copy(), SOURCE.categorical)
    skewed.numeric[:, 0] = np.where(np.arange(N) == 0, 50.0, 0.0)
    assert tree_leaves(MAP, skewed, 2).table[0, 0] == 1, "one record beyond all others does not make an even cut"


@pytest.mark.parametrize("leaves", [2, 5, 20])
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("least", [1, 12])
def test_a_guided_tree_leaves_as_little_variance_as_scikit_learns(leaves, columns, least):
    rng = np.random.default_rng(4)
    points = coordinates(MAP, SOURCE)
    signal = np.sin(points[:, :columns] * [1.0, 2.0][:columns]) + points[:, 2:3] * points[:, 3:]
    target = signal + rng.normal(0, 0.3, (N, columns))
    weights = rng.gamma(2, size=N)
    ours = tree_leaves(MAP, SOURCE, leaves, target=target, weights=weights, least=least)
    ours.check(SCHEMA, "here")
    assert masses(ours).min() >= least
    theirs = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=least, random_state=0)
    theirs.fit(points, target, sample_weight=weights)
    found = [within(cells, target, weights) for cells in (ours.cells(SOURCE), theirs.apply(points))]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0] < within(np.zeros(N, int), target, weights)


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
    assert masses(tree).max() < N / 2


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
    target = np.random.default_rng(5).normal(size=(N, 2))
    whole = [tree_leaves(MAP, SOURCE, 20), tree_leaves(MAP, SOURCE, 20, target=target)]
    monkeypatch.setattr(splits, "CHUNK_ENTRIES", 1)
    assert [tree_leaves(MAP, SOURCE, 20), tree_leaves(MAP, SOURCE, 20, target=target)] == whole


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"leaves": 1}, "leaves is 1; it must be at least 2"),
        ({"leaves": 500_002}, "at most 500001"),
        ({"leaves": 4, "least": 0}, "least is 0"),
        ({"leaves": 4, "weights": np.ones(N - 1)}, "weights must be"),
        ({"leaves": 4, "weights": np.zeros(N)}, "weights must be"),
        ({"leaves": 4, "weights": -np.ones(N)}, "weights must be"),
        ({"leaves": 4, "target": np.ones(N - 1)}, "target must be"),
        ({"leaves": 4, "target": np.full(N, np.nan)}, "target must be"),
        ({"leaves": 4, "target": np.ones((N, 1, 1))}, "target must be"),
    ],
)
def test_a_tree_that_cannot_be_grown_says_why(options, text):
    with pytest.raises(ConfigurationError, match=text):
        tree_leaves(MAP, SOURCE, **options)
