"""Measures of synthetic data against hand-computed values, scipy, and laws that any distance obeys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.measures import scores
from lab.synthetic import (
    MEASURES,
    Columns,
    WeightedRecords,
    gradient_boosting,
    logistic_regression,
    range_wasserstein,
    utility,
    variation,
)

NAMES = ("age", "sex=f", "sex=m")
COLUMNS = Columns.of(NAMES, np.array([0.0, 0.0, 0.0]), np.array([100.0, 1.0, 1.0]))


def people(ages, sexes, labels, weights=None):
    matrix = np.array([[age, sex == "f", sex == "m"] for age, sex in zip(ages, sexes, strict=True)], float)
    weights = np.ones(len(matrix)) if weights is None else np.array(weights, float)
    return WeightedRecords(matrix, weights, np.array(labels, float))


def blobs(n, seed, gap=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    return rng.normal(size=(n, 3)) + gap * labels[:, None], labels


def test_total_variation_by_hand():
    left = people([5, 15, 15, 95], "ffmm", [0, 1, 1, 0])
    right = people([5, 5, 15, 95], "ffff", [0, 0, 1, 1])
    # age: (1, 2, 1)/4 against (2, 1, 1)/4 in the bins 0, 1, 9: 1/4; sex: (2, 2)/4 against (4, 0)/4: 1/2.
    marginal, pair = variation(left, right, COLUMNS.attributes)
    assert marginal == pytest.approx((1 / 4 + 1 / 2) / 2)
    # age and sex: 0f 1|2, 1f 1|1, 1m 1|0, 9m 1|0, 9f 0|1: 1/2 * 4/4 = 1/2
    # age and label: 0- 1|2, 1+ 2|1, 9- 1|0, 9+ 0|1: 1/2; sex and label: f- 1|2, f+ 1|2, m+ 1|0, m- 1|0: 1/2
    assert pair == pytest.approx(1 / 2)


def test_soft_labels_are_parts_of_rows():
    left = people([5, 5], "ff", [0.25, 0.75])
    right = people([5, 5], "ff", [0, 1])
    assert variation(left, right, COLUMNS.attributes) == (0.0, 0.0)
    assert variation(people([5, 5], "ff", [0.25, 0.25]), right, COLUMNS.attributes)[1] == pytest.approx(2 / 3 * 0.25)
    matrix, labels, weights = people([1, 2], "fm", [0.25, 1], [4, 3]).hard()
    assert (matrix[:, 0].tolist(), labels.tolist(), weights.tolist()) == ([1, 1, 2], [0, 1, 1], [3, 1, 3])


def distance(left, right, left_weights, right_weights):
    """Of one number whose range is [-4, 6], in its own unit."""
    columns = Columns.of(("x",), np.array([-4.0]), np.array([6.0]))
    sides = [
        WeightedRecords(np.array(values, float)[:, None], np.array(weights, float), np.zeros(len(values)))
        for values, weights in ((left, left_weights), (right, right_weights))
    ]
    return 10 * range_wasserstein(*sides, columns)


@pytest.mark.parametrize(
    ("left", "right", "weights", "expected"),
    [
        ([0.0], [1.0], ([1.0], [5.0]), 1.0),
        ([0.0, 2.0], [1.0], ([1.0, 1.0], [1.0]), 1.0),
        ([0.0, 1.0], [0.0, 1.0], ([3.0, 1.0], [1.0, 1.0]), 0.25),
    ],
)
def test_wasserstein_by_hand(left, right, weights, expected):
    assert distance(left, right, *weights) == pytest.approx(expected)


NUMBERS = st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 3)), min_size=1, max_size=12)


@given(NUMBERS, NUMBERS)
def test_wasserstein_is_the_area_between_the_distribution_functions(left, right):
    (u, a), (v, b) = (np.array(side, float).T for side in (left, right))
    values = np.concatenate([u, v])
    order = np.argsort(values, kind="stable")
    gap = np.cumsum(np.concatenate([a / a.sum(), -b / b.sum()])[order])[:-1]
    assert distance(u, v, a, b) == pytest.approx(np.abs(gap) @ np.diff(values[order]), abs=1e-12)


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 10).map(lambda ten: 10 * ten),
        st.sampled_from("fm"),
        st.sampled_from([0, 0.5, 1]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=50)
@given(RECORDS, RECORDS)
def test_distances_obey_their_laws(some, others):
    left, right = (people(*zip(*rows, strict=True)) for rows in (some, others))
    repeated = people(*zip(*[row[:3] for row in some for _ in range(row[3])], strict=True))
    for measure in (
        lambda a, b: variation(a, b, COLUMNS.attributes)[0],
        lambda a, b: variation(a, b, COLUMNS.attributes)[1],
        lambda a, b: range_wasserstein(a, b, COLUMNS),
    ):
        assert measure(left, left) == pytest.approx(0, abs=1e-12)
        assert measure(left, right) == pytest.approx(measure(right, left), abs=1e-12)
        assert -1e-12 <= measure(left, right) <= 1 + 1e-12
        assert measure(left, right) == pytest.approx(measure(repeated, right), abs=1e-12)


def test_disjoint_data_is_at_distance_one():
    young, old = people([0, 0], "ff", [0, 0]), people([100, 100, 100], "mmm", [1, 1, 1])
    assert variation(young, old, COLUMNS.attributes) == (1.0, 1.0)
    assert range_wasserstein(young, old, COLUMNS) == 1.0
    beyond = people([900], "m", [1])
    assert range_wasserstein(young, beyond, COLUMNS) == 1.0


@pytest.mark.parametrize("train", [logistic_regression, pytest.param(gradient_boosting, marks=pytest.mark.slow)])
def test_a_row_of_weight_four_is_four_rows_to_the_classifiers(train):
    """To a thousandth of what the weights do. Trees bin and bound leaves by rows: of theirs the mean is nearer."""
    (matrix, labels), (test, _) = blobs(300, 1, gap=0.5), blobs(200, 2, gap=0.5)
    weights = np.where(labels, 4.0, 1.0)
    again = np.repeat(np.arange(300), weights.astype(int))
    weighted = train(WeightedRecords(matrix, weights, labels.astype(float)), test)
    repeated = train(WeightedRecords.of(matrix[again], labels[again]), test)
    ignored = train(WeightedRecords(matrix, np.ones(300), labels.astype(float)), test)
    if train is logistic_regression:
        assert np.abs(weighted - repeated).max() < 1e-3 * np.abs(ignored - repeated).mean()
    assert abs((weighted - repeated).mean()) < abs((ignored - repeated).mean())


@pytest.mark.parametrize("train", [logistic_regression, pytest.param(gradient_boosting, marks=pytest.mark.slow)])
def test_classifiers_learn_from_soft_labels_and_bear_one_class(train):
    (matrix, labels), (test, truth) = blobs(400, 3), blobs(400, 4)
    soft = WeightedRecords(matrix, np.ones(400), np.where(labels, 0.8, 0.2))
    accuracy, area = scores(train(soft, test), truth)
    # Of two Gaussians 2 sqrt(3) apart the best rule has 96 and 99; one class for all has 60 and 50.
    assert accuracy > (96 + 60) / 2
    assert area > (99 + 50) / 2
    assert train(WeightedRecords.of(matrix, np.ones(400)), test).tolist() == [1.0] * 400


def test_scores_by_hand():
    assert scores(np.array([0.9, 0.6, 0.4, 0.2]), np.array([True, False, True, False])) == (50.0, 75.0)
    assert scores(np.array([0.9, 0.6]), np.array([True, True])) == (100.0, 50.0)


def test_real_records_have_every_measure_at_its_best():
    matrix, labels = blobs(200, 5)
    data = WeightedRecords.of(matrix, labels)
    columns = Columns.of(("a", "b", "c"), matrix.min(0), matrix.max(0))
    found = utility(data, data, data, columns)
    assert found.keys() == MEASURES.keys()
    assert {found[name] for name in ("marginal-tv", "wasserstein", "pair-tv", "label-gap")} == {0.0}
    flipped = utility(WeightedRecords.of(matrix, ~labels), data, data, columns)
    # Two records of 200 may lie on the border between the classes.
    assert flipped["accuracy-logistic"] == pytest.approx(100 - found["accuracy-logistic"], abs=1)
    assert flipped["label-gap"] == pytest.approx(100 * abs(1 - 2 * labels.mean()))
    assert flipped["marginal-tv"] == 0 < flipped["pair-tv"]


@pytest.mark.parametrize(
    ("matrix", "weights", "probability", "text"),
    [
        (np.zeros(3), np.ones(3), np.ones(3), "matrix"),
        (np.zeros((3, 1)), np.ones(2), np.ones(3), "n weights"),
        (np.full((3, 1), np.nan), np.ones(3), np.ones(3), "not finite"),
        (np.zeros((3, 1)), np.zeros(3), np.ones(3), "not all 0"),
        (np.zeros((3, 1)), np.array([1.0, -1, 1]), np.ones(3), "not negative"),
        (np.zeros((3, 1)), np.ones(3), np.full(3, 1.5), "outside"),
    ],
)
def test_a_wrong_data_set_is_an_error(matrix, weights, probability, text):
    with pytest.raises(ValueError, match=text):
        WeightedRecords(matrix, weights, probability)
