"""The closed forms of `learner_node.models.masses` against dense least squares and exhaustive search."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learner_node.models.masses import make_consistent, make_nonnegative, project_to_masses


def generalised_least_squares(blocks, variances):
    """Minimise the noise-weighted squared change under equal totals, by one dense Lagrangian system."""
    sizes = [len(block) for block in blocks]
    v = np.concatenate(blocks)
    precision = np.diag(np.repeat(1 / np.asarray(variances), sizes))
    C = np.zeros((len(blocks) - 1, len(v)))
    ends = np.cumsum(sizes)
    for row in range(len(blocks) - 1):
        C[row, : sizes[0]] = 1
        C[row, ends[row] : ends[row + 1]] = -1
    system = np.block([[precision, C.T], [C, np.zeros((len(C), len(C)))]])
    x = np.linalg.solve(system, np.concatenate([precision @ v, np.zeros(len(C))]))[: len(v)]
    # Gaussian elimination's backward error, times the condition.
    error = 10 * len(system) * 2.0**-53 * np.linalg.cond(system) * max(np.abs(x).max(), 1.0)
    return np.split(x, ends[:-1]), error


def projection_by_enumeration(values, total):
    """Try every set of positive entries and keep the nearest feasible point."""
    best, best_distance = None, np.inf
    for chosen in itertools.product([False, True], repeat=len(values)):
        support = np.array(chosen)
        x = np.zeros(len(values))
        if support.any():
            x[support] = values[support] + (total - values[support].sum()) / support.sum()
        if np.all(x >= 0) and abs(x.sum() - total) < 1e-9:
            distance = np.sum((x - values) ** 2)
            if distance < best_distance:
                best, best_distance = x, distance
    return best


numbers = st.floats(-50, 50, allow_nan=False).map(lambda value: round(value, 3))
vectors = st.lists(numbers, min_size=1, max_size=5).map(np.array)


@st.composite
def noisy_plans(draw):
    blocks = draw(st.lists(vectors, min_size=1, max_size=4))
    variances = [draw(st.sampled_from([0.01, 1.0, 3.0, 400.0])) for _ in blocks]
    return blocks, variances


@settings(max_examples=80, deadline=None)
@given(noisy_plans())
def test_adjusted_blocks_are_the_generalised_least_squares_estimate(plan):
    blocks, variances = plan
    result = make_consistent(blocks, variances)
    expected, error = generalised_least_squares(blocks, variances)
    assert error < 1e-3
    for mine, dense in zip(result.blocks, expected, strict=True):
        np.testing.assert_allclose(mine, dense, atol=error)
        assert mine.sum() == pytest.approx(result.total, abs=1e-9)


@settings(max_examples=80, deadline=None)
@given(vectors, st.sampled_from([0.0, 1e-3, 1.0, 30.0]))
def test_projection_is_the_nearest_feasible_point(values, total):
    mine = project_to_masses(values, total)
    np.testing.assert_allclose(mine, projection_by_enumeration(values, total), atol=1e-9)
    assert np.all(mine >= 0)
    assert mine.sum() == pytest.approx(total, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(noisy_plans())
def test_nonnegative_blocks_are_masses_of_one_total_and_idempotent(plan):
    masses = make_nonnegative(make_consistent(*plan))
    for block in masses.blocks:
        assert np.all(block >= 0)
        assert block.sum() == pytest.approx(masses.total, abs=1e-9)
    again = make_nonnegative(make_consistent(masses.blocks, plan[1]))
    for first, second in zip(masses.blocks, again.blocks, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(noisy_plans())
def test_nonnegative_blocks_are_the_projection_of_the_raw_ones(plan):
    """The even spread of the first step does not move the second: it is orthogonal to the plane of the total."""
    blocks, variances = plan
    masses = make_nonnegative(make_consistent(blocks, variances))
    for raw, block in zip(blocks, masses.blocks, strict=True):
        np.testing.assert_allclose(block, project_to_masses(raw, float(masses.total)), atol=1e-9)


def test_projection_of_large_and_equal_values():
    np.testing.assert_allclose(project_to_masses([1e12, 1e12], 1.0), [0.5, 0.5], rtol=1e-12)
    np.testing.assert_array_equal(project_to_masses([7.0, -3.0, 7.0], 0.0), [0, 0, 0])
    np.testing.assert_array_equal(project_to_masses([1.0, 2.0, 3.0], 6.0), [1, 2, 3])
    np.testing.assert_array_equal(project_to_masses([-9.0], 4.0), [4.0])


def test_exact_counts_are_left_alone():
    blocks = [np.array([3.0, 0.0, 7.0]), np.array([4.0, 6.0])]
    result = make_nonnegative(make_consistent(blocks, [2.0, 5.0]))
    for block, before in zip(result.blocks, blocks, strict=True):
        np.testing.assert_allclose(block, before, atol=1e-12)
    assert result.total == pytest.approx(10)


def test_negative_total_becomes_zero():
    masses = make_nonnegative(make_consistent([[-1.0, -2.0], [1.0, -6.0]], [1.0, 1.0]))
    assert masses.total == 0
    for block in masses.blocks:
        np.testing.assert_array_equal(block, [0, 0])


def test_stated_variance_of_the_total_is_the_variance_of_its_weights():
    """The total is linear in the noise, so its variance follows from the answers to unit vectors."""
    sizes, variances = [2, 3, 1], [0.5, 2.0, 4.0]
    variance = 0.0
    for block, cells in enumerate(sizes):
        for cell in range(cells):
            blocks = [np.zeros(size) for size in sizes]
            blocks[block][cell] = 1.0
            variance += variances[block] * float(make_consistent(blocks, variances).total) ** 2
    assert make_consistent([np.zeros(size) for size in sizes], variances).total_variance == pytest.approx(variance)


def test_inputs_are_left_alone():
    block = np.array([-1.0, 5.0])
    make_nonnegative(make_consistent([block, [2.0]], [1.0, 1.0]))
    np.testing.assert_array_equal(block, [-1.0, 5.0])


ERRORS = {
    "at least one block": ([], []),
    "a block must have shape": ([np.zeros((2, 2))], [1.0]),
    "got .0,": ([np.zeros(0)], [1.0]),
    "blocks must be finite": ([[np.nan]], [1.0]),
    "variances must have shape": ([[1.0]], 1.0),
    "variances must be finite and positive": ([[1.0]], [0.0]),
    "finite and positive": ([[1.0]], [np.inf]),
}


@pytest.mark.parametrize("message", ERRORS)
def test_bad_plans_are_refused(message):
    with pytest.raises(ValueError, match=message):
        make_consistent(*ERRORS[message])


@pytest.mark.parametrize(
    ("values", "total", "message"),
    [
        ([], 1.0, "values must have shape"),
        ([[1.0]], 1.0, "values must have shape"),
        ([np.inf], 1.0, "values must be finite"),
        ([1.0], -1.0, "total must be finite and not negative"),
        ([1.0], np.nan, "total must be finite and not negative"),
    ],
)
def test_bad_projections_are_refused(values, total, message):
    with pytest.raises(ValueError, match=message):
        project_to_masses(values, total)
