"""AIM and MST: coding, components, budgets; and, where the peers' environment is, whether they find what is there."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.peers.marginals import (
    Odometer,
    attributes_of,
    components,
    discretise,
    marginal,
    onto_simplex,
    restore,
    rho_for,
    synthesise,
)

NAMES = ("age", "sex=f", "sex=m", "bmi")
ATTRIBUTES = attributes_of(NAMES, np.array([0.0, 0, 0, 10]), np.array([80.0, 1, 1, 50]), bins=4)


def test_levels_become_one_attribute_and_numbers_even_bins():
    assert [attribute.columns for attribute in ATTRIBUTES] == [(0,), (1, 2), (3,)]
    assert [attribute.size for attribute in ATTRIBUTES] == [4, 3, 4]
    assert ATTRIBUTES[0].edges == (0, 20, 40, 60, 80)
    records = np.array([[-5, 1, 0, 10], [20, 0, 1, 19.9], [79, 0, 0, 99]])
    assert discretise(records, ATTRIBUTES).tolist() == [[0, 0, 0], [1, 1, 0], [3, 2, 3]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=20))
def test_restored_records_have_the_codes_they_are_made_of(codes):
    codes = np.array(codes)
    matrix = restore(codes, ATTRIBUTES, np.random.default_rng(0))
    assert matrix.shape == (len(codes), 4)
    assert np.array_equal(discretise(matrix, ATTRIBUTES), codes)


def test_bounds_out_of_order_are_an_error():
    with pytest.raises(ValueError, match="below its upper"):
        attributes_of(("x",), np.array([1.0]), np.array([1.0]))


def test_components_are_what_cliques_connect():
    assert components(6, [(4, 1), (0,), (1, 5), (2, 3)]) == [(0,), (1, 4, 5), (2, 3)]
    assert components(2, []) == [(0,), (1,)]
    assert components(4, [(0, 1), (2, 3), (1, 2)]) == [(0, 1, 2, 3)]


def test_a_marginal_is_counted_row_by_row():
    codes = np.array([[0, 2], [1, 0], [1, 0], [1, 2]])
    assert marginal(codes, [2, 3], (0, 1)).tolist() == [0, 0, 1, 2, 0, 1]
    assert marginal(codes, [2, 3], (1,)).tolist() == [2, 0, 2]


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(1, 100))
def test_the_simplex_point_is_feasible_and_nearest(values, total):
    values = np.array(values)
    nearest = onto_simplex(values, total)
    assert nearest.sum() == pytest.approx(total)
    assert (nearest >= 0).all()
    # Variational inequality of a projection, at the simplex' corners.
    for corner in np.eye(len(values)) * total:
        assert (values - nearest) @ (corner - nearest) <= 1e-6 * total * 100


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-6), (3.0, 1e-9)])
def test_rho_implies_its_epsilon_and_is_the_largest(epsilon, delta):
    rho = rho_for(epsilon, delta)

    def implied(rho):  # Canonne, Kamath, Steinke 2020, Proposition 7 in its dual form, minimised over a grid
        alpha = 1 + np.geomspace(1e-2, 1e5, 200_000)
        return np.min(alpha * rho + np.log(1 / (alpha * delta)) / (alpha - 1) + np.log1p(-1 / alpha))

    assert implied(rho) == pytest.approx(epsilon, rel=2e-3)
    assert rho > (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_odometer_charges_what_opendp_says_and_stops_at_the_total(delta):
    odometer = Odometer(1.0, delta)
    third = odometer.remaining / 3
    counts = odometer.counts(np.array([1000, 0, 5]), third)
    assert counts.shape == (3,)
    assert np.abs(counts - [1000, 0, 5]).max() < 60 * odometer.deviation(third)  # beyond 1e-18, Laplace or Gaussian
    assert odometer.spent == pytest.approx(third)
    assert odometer.choose(np.array([0.0, 1e9]), 1.0, third) == 1
    assert odometer.spent == pytest.approx(2 * third)
    odometer.counts(np.array([1]), odometer.remaining)
    assert odometer.spent <= odometer.total
    with pytest.raises(ArithmeticError, match="too much"):
        odometer.counts(np.array([1]), third)
    assert odometer.spent <= odometer.total


def test_unfit_arguments_are_errors():
    records, labels = np.zeros((4, 4)), np.zeros(4, int)
    with pytest.raises(ValueError, match="no generator is called 'gan'"):
        synthesise("gan", records, labels, ATTRIBUTES, epsilon=1.0, delta=0.0, seed=0)
    for epsilon, delta in ((0.0, 0.0), (1.0, 1.0), (-1.0, 0.5)):
        with pytest.raises(ValueError, match="must be positive"):
            Odometer(epsilon, delta)
