"""Every solver and closed form of the learner, against solvers that share nothing with it."""

import itertools
from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit

from learner_fakes import NoNoise, federate, open_curator, ring
from learner_node import solvers
from learner_node.models.masses import make_consistent, make_nonnegative, project_to_masses
from learner_node.solvers import LabelSystem, NotConvergedError, label_system, solve_labels, solve_weights
from learner_node.solvers import tilt as tilt_module
from learner_node.solvers.tilt import solve_tilt
from learner_node.strategies import make_strategy
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from margins import DEVIATIONS, surely_ahead
from protocol.errors import ConfigurationError


def one_hot(bins, K):
    """(K, n) matrix from bins (n, d), K split evenly among the d features."""
    n, d = bins.shape
    rows = (bins + np.arange(d) * (K // d)).ravel()
    return scipy.sparse.csr_matrix((np.ones(n * d), (rows, np.repeat(np.arange(n), d))), shape=(K, n))


def random_one_hot(n, d, q, seed):
    return one_hot(np.random.default_rng(seed).integers(0, q, (n, d)), q * d)


def objective(A, b, x, alpha, prior):
    return 0.5 * np.sum((A @ x - b) ** 2) + alpha * np.sum((x - prior) ** 2)


def independent_kkt(A, b, x, alpha, prior, upper):
    """Each entry may violate by its gradient, or by the curvature times the room that it has, whichever is less."""
    A = A.toarray()
    gradient = A.T @ (A @ x - b) + 2 * alpha * (x - prior)
    curvature = np.abs(A).T @ np.abs(A).sum(1) + 2 * alpha
    down = np.minimum(np.maximum(gradient, 0), curvature * x)
    up = np.minimum(np.maximum(-gradient, 0), curvature * (upper - x))
    terms = [np.abs(A).T @ np.abs(b), curvature * np.abs(x), np.full(len(x), 2 * alpha * np.max(np.abs(prior)))]
    return max(down.max(), up.max()) / max(np.max(terms), np.finfo(float).tiny)


def lsq_objective(A, b, alpha, prior, upper):
    n = A.shape[1]
    root = np.sqrt(2 * alpha)
    stacked = np.vstack([A.toarray(), root * np.eye(n)])
    target = np.concatenate([b, root * np.broadcast_to(prior, n)])
    found = []
    with np.errstate(all="ignore"):  # the interior method divides by 0 where the minimiser is not unique
        for method in ("trf", "bvls"):
            x = scipy.optimize.lsq_linear(stacked, target, bounds=(0, upper), method=method, tol=1e-14, max_iter=500).x
            found.append(objective(A, b, x, alpha, prior))
    return np.nanmin(found)


def enumerated_objective(A, b, alpha, prior, upper):
    """The least objective over all choices of which entries sit at which bound."""
    A, n, best = A.toarray(), A.shape[1], np.inf
    bounds = [0.0, None] if np.isinf(upper) else [0.0, upper, None]
    stacked = np.vstack([A, np.sqrt(2 * alpha) * np.eye(n)])
    target = np.concatenate([b, np.sqrt(2 * alpha) * np.broadcast_to(prior, n)])
    for choice in itertools.product(bounds, repeat=n):
        free = np.array([value is None for value in choice])
        x = np.array([value or 0.0 for value in choice])
        if free.any():
            x[free] = np.linalg.lstsq(stacked[:, free], target - stacked[:, ~free] @ x[~free], rcond=None)[0]
        if np.all(x >= -1e-12) and np.all(x <= upper + 1e-12):
            best = min(best, objective(A, b, x, alpha, prior))
    return best


def weights_case(R, p, alpha=0.5, prior=1.0):
    return R, np.asarray(p, dtype=float), alpha, prior


EVEN = random_one_hot(60, 3, 4, seed=1)
MASS = EVEN @ np.ones(60)
NOISE = np.random.default_rng(2).laplace(0, 5, 12)

WEIGHT_SHAPES = {
    "plain": weights_case(EVEN, MASS + NOISE),
    "more bins than records": weights_case(random_one_hot(6, 2, 10, seed=3), np.linspace(-1, 2, 20)),
    "single bin": weights_case(one_hot(np.zeros((7, 1), dtype=int), 1), [3.0]),
    "single record": weights_case(one_hot(np.zeros((1, 2), dtype=int), 2), [0.5, 2.0]),
    "all weights at the bound": weights_case(EVEN, np.full(12, -100.0), alpha=1.0),
    "tiny alpha": weights_case(EVEN, MASS + NOISE, alpha=1e-10),
    "no alpha": weights_case(EVEN, MASS + NOISE, alpha=0.0),
    "huge alpha": weights_case(EVEN, MASS + NOISE, alpha=1e9),
    "exact masses without alpha": weights_case(EVEN, MASS, alpha=0.0, prior=0.0),
    "duplicated columns": weights_case(one_hot(np.tile([[0, 1], [2, 0]], (15, 1)), 6), np.arange(6.0), alpha=1e-3),
    "empty bins": weights_case(one_hot(np.ones((20, 2), dtype=int), 8), np.arange(8.0)),
    "infeasible p": weights_case(EVEN, 1000.0 * (np.arange(12) % 2), alpha=1e-3),
    "nothing to do": weights_case(EVEN, np.zeros(12), alpha=0.0, prior=0.0),
    "prior as a vector": weights_case(EVEN, MASS + NOISE, prior=np.linspace(0, 3, 60)),
    "prior outside the bounds": weights_case(EVEN, MASS + NOISE, prior=-2.0),
    "fractions": weights_case(EVEN, (MASS + NOISE) / 60, alpha=1e-3, prior=1 / 60),
}


def label_case(count, alpha, weights=None, fraction=None, n=40):
    rng = np.random.default_rng(count)
    R = random_one_hot(n, 2, 5, seed=count)
    w = rng.gamma(2, 1, n) if weights is None else np.full(n, weights)
    systems = []
    for index in range(count):
        h = np.ones(n) if index == 0 else rng.integers(0, 2, n).astype(float)
        q = rng.uniform(0, 1, 10) if fraction is None else np.full(10, fraction)
        systems.append(label_system(R, w, h, q))
    return systems, alpha


LABEL_SHAPES = {
    "instantaneous": label_case(1, 0.5),
    "cumulative": label_case(3, 0.5),
    "tiny alpha": label_case(3, 1e-10),
    "no alpha": label_case(3, 0.0),
    "no errors": label_case(1, 0.01, fraction=0.0),
    "all wrong": label_case(1, 0.01, fraction=1.0),
    "more errors than records": label_case(1, 0.01, fraction=3.0),
    "zero weights": label_case(1, 0.01, weights=0.0),
    "zero weights without alpha": label_case(1, 0.0, weights=0.0),
    "more equations than records": label_case(4, 0.01, n=6),
}


def skip_the_warm_up(monkeypatch):
    monkeypatch.setattr(solvers, "WARM_UP_ITERATIONS", 0)


@pytest.fixture(params=["warm-up first", "newton first", "gradient first"])
def order(request, monkeypatch):
    if request.param == "newton first":
        skip_the_warm_up(monkeypatch)
    if request.param == "gradient first":
        monkeypatch.setattr(solvers, "NEWTON_ROWS", 0)
    return request.param


def assert_optimal(solution, A, b, alpha, prior, upper):
    x = solution.x
    assert x.dtype == np.float64
    assert x.shape == (A.shape[1],)
    assert np.all((x >= 0) & (x <= upper))
    assert solution.objective == pytest.approx(objective(A, b, x, alpha, prior), rel=1e-12, abs=1e-12)
    residual = independent_kkt(A, b, x, alpha, prior, upper)
    assert residual <= 2 * solvers.DEFAULT_TOLERANCE
    # A gradient of so many terms in one unit, the greatest of them.
    assert solution.kkt_residual == pytest.approx(residual, rel=1e-3, abs=8 * sum(A.shape) * 2.0**-53)
    scale = 0.5 * np.sum(b**2) + 1e-9
    rounding = 4 * sum(A.shape) * 2.0**-53 * solution.objective
    assert solution.objective <= lsq_objective(A, b, alpha, prior, upper) + 1e-8 * scale + rounding


@pytest.mark.parametrize("shape", WEIGHT_SHAPES)
def test_weights_are_optimal(shape, order):
    R, p, alpha, prior = WEIGHT_SHAPES[shape]
    assert_optimal(solve_weights(R, p, alpha=alpha, prior=prior), R, p, alpha, prior, np.inf)


@pytest.mark.parametrize("shape", LABEL_SHAPES)
def test_labels_are_optimal(shape, order):
    systems, alpha = LABEL_SHAPES[shape]
    A = scipy.sparse.vstack([system.A for system in systems])
    b = np.concatenate([system.b for system in systems])
    assert_optimal(solve_labels(systems, alpha=alpha), A, b, alpha, 0.5, 1.0)


@pytest.mark.family(12)
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_tiny_instances_agree_with_the_enumeration_of_active_sets(seed, alpha, order):
    rng = np.random.default_rng(seed)
    R = random_one_hot(5, 2, 3, seed)
    p = rng.normal(1, 2, 6)
    weights = solve_weights(R, p, alpha=alpha, prior=0.5)
    assert weights.objective == pytest.approx(enumerated_objective(R, p, alpha, 0.5, np.inf), rel=1e-6, abs=1e-8)
    system = label_system(R, rng.gamma(1, 1, 5), rng.integers(0, 2, 5), rng.uniform(-1, 2, 6))
    labels = solve_labels([system], alpha=alpha)
    expected = enumerated_objective(system.A, system.b, alpha, 0.5, 1.0)
    assert labels.objective == pytest.approx(expected, rel=1e-6, abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 3),
    q=st.integers(1, 4),
    alpha=st.sampled_from([0.0, 1e-8, 1e-3, 1.0, 100.0]),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**32 - 1),
)
@example(n=4, d=1, q=1, alpha=1e-3, scale=1e3, seed=99999)  # a residual of 1e-10 is not enough here
def test_random_instances_are_never_above_an_independent_solver(n, d, q, alpha, scale, seed):
    rng = np.random.default_rng(seed)
    R = random_one_hot(n, d, q, seed)
    p = scale * rng.normal(1, 2, q * d)
    assert_optimal(solve_weights(R, p, alpha=alpha, prior=scale), R, p, alpha, scale, np.inf)
    system = label_system(R, scale * rng.gamma(1, 1, n), rng.integers(0, 2, n), rng.uniform(-0.5, 1.5, q * d))
    assert_optimal(solve_labels([system], alpha=alpha), system.A, system.b, alpha, 0.5, 1.0)


def test_regularised_minimiser_is_unique_so_both_methods_find_it(monkeypatch):
    R, p, alpha, prior = WEIGHT_SHAPES["plain"]
    skip_the_warm_up(monkeypatch)
    newton = solve_weights(R, p, alpha=alpha, prior=prior, tolerance=1e-13)
    monkeypatch.setattr(solvers, "NEWTON_ROWS", 0)
    gradient = solve_weights(R, p, alpha=alpha, prior=prior, tolerance=1e-13)
    assert (newton.method, gradient.method) == ("newton", "gradient")
    # The curvature is 2 alpha and more, and each violates by 1e-13 of the greatest term, in 60 entries.
    dense = R.toarray()
    largest = max((dense.T @ np.abs(p)).max(), (dense.T @ dense.sum(1) + 2 * alpha).max() * newton.x.max())
    np.testing.assert_allclose(newton.x, gradient.x, atol=2 * 1e-13 * largest * np.sqrt(60) / (2 * alpha))


def test_exact_masses_are_matched_exactly():
    R = random_one_hot(200, 3, 5, seed=8)
    truth = np.random.default_rng(9).gamma(1, 1, 200)
    solution = solve_weights(R, R @ truth, alpha=0, prior=1.0)
    np.testing.assert_allclose(R @ solution.x, R @ truth, atol=1e-4)


def test_the_true_labels_solve_the_equations_of_exact_answers():
    """Eq. 5 holds with equality for the truth, whatever hypothesis was asked and whatever the weights."""
    rng = np.random.default_rng(4)
    R = random_one_hot(300, 2, 6, seed=4)
    w, truth = rng.gamma(2, 1, 300), rng.integers(0, 2, 300).astype(float)
    for h in (np.ones(300), np.zeros(300), rng.integers(0, 2, 300).astype(float)):
        q = (R @ (w * (h != truth))) / (R @ w)
        system = label_system(R, w, h, q)
        np.testing.assert_allclose(system.A @ truth, system.b, atol=1e-9)


def test_label_system_is_the_printed_formula():
    R = random_one_hot(9, 2, 3, seed=5)
    rng = np.random.default_rng(5)
    w, h, q = rng.gamma(1, 1, 9), rng.integers(0, 2, 9), rng.normal(0, 1, 6)
    system = label_system(R, w, h, q)
    Rw = R.toarray() @ np.diag(w)
    np.testing.assert_allclose(system.A.toarray(), Rw @ np.diag(np.sign(h - 0.5)), atol=1e-12)
    np.testing.assert_allclose(system.b, Rw @ h - (Rw @ np.ones(9)) * q, atol=1e-12)


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])  # powers of 2, that round nothing
def test_residual_does_not_depend_on_units(factor, monkeypatch):
    R, p, alpha, prior = WEIGHT_SHAPES["plain"]
    monkeypatch.setattr(solvers, "NEWTON_ROWS", 0)
    one = solve_weights(R, p, alpha=alpha, prior=prior, tolerance=1e-3)
    counts = solve_weights(R, factor * p, alpha=alpha, prior=factor * prior, tolerance=1e-3)
    scaled_rows = scipy.sparse.csr_matrix(factor * R)
    rows = solve_weights(scaled_rows, factor * p, alpha=factor**2 * alpha, prior=prior, tolerance=1e-3)
    assert counts.kkt_residual == pytest.approx(one.kkt_residual, rel=1e-6)
    assert rows.kkt_residual == pytest.approx(one.kkt_residual, rel=1e-6)


def test_gradient_takes_over_where_newton_stops(monkeypatch):
    skip_the_warm_up(monkeypatch)
    monkeypatch.setattr(solvers.box_problem, "PROXIMAL_POINTS", 0)
    R, p, alpha, prior = WEIGHT_SHAPES["plain"]
    solution = solve_weights(R, p, alpha=alpha, prior=prior)
    assert solution.method == "gradient"
    assert_optimal(solution, R, p, alpha, prior, np.inf)


def test_missing_the_tolerance_raises_with_the_numbers(monkeypatch):
    skip_the_warm_up(monkeypatch)
    monkeypatch.setattr(solvers.box_problem, "PROXIMAL_POINTS", 0)
    monkeypatch.setattr(solvers, "GRADIENT_ITERATIONS", 0)
    R, p, _, _ = WEIGHT_SHAPES["plain"]
    with pytest.raises(NotConvergedError) as caught:
        solve_weights(R, p, alpha=1e-3, prior=1.0, tolerance=1e-6)
    assert caught.value.kkt_residual > caught.value.tolerance == 1e-6
    assert "1e-06" in str(caught.value)


def test_inputs_are_left_alone():
    R, p, _, _ = WEIGHT_SHAPES["plain"]
    before, p_before = R.copy(), p.copy()
    solve_weights(R, p, alpha=1e-6, prior=1.0)
    assert abs(R - before).nnz == 0
    np.testing.assert_array_equal(p, p_before)


ONES = np.ones(60)

WEIGHT_ERRORS = {
    "p must have shape": {"p": MASS[:-1]},
    "p must be finite": {"p": np.where(np.arange(12) == 3, np.nan, MASS)},
    "alpha must be finite": {"alpha": -1.0},
    "alpha must be finite and": {"alpha": np.inf},
    "prior must have shape": {"prior": np.ones(3)},
    "prior must be finite": {"prior": np.nan},
    "R must be a two-dimensional sparse": {"R": EVEN.toarray()},
    "R must be finite": {"R": EVEN * np.inf},
    "with rows and columns": {"R": scipy.sparse.csr_matrix((0, 4))},
    "tolerance must lie": {"tolerance": 0.0},
}


@pytest.mark.parametrize("message", WEIGHT_ERRORS)
def test_bad_weight_problems_are_refused(message):
    arguments = {"R": EVEN, "p": MASS, "alpha": 1.0, "prior": 1.0} | WEIGHT_ERRORS[message]
    R, p = arguments.pop("R"), arguments.pop("p")
    with pytest.raises(ValueError, match=message):
        solve_weights(R, p, **arguments)


LABEL_ERRORS = {
    "w must have shape": {"w": ONES[:5]},
    "w must not be negative": {"w": -ONES},
    "h must have shape": {"h": np.ones((60, 1))},
    "h must hold only 0 and 1": {"h": 0.5 * ONES},
    "q must have shape": {"q": np.ones(11)},
    "q must be finite": {"q": np.full(12, np.inf)},
}


@pytest.mark.parametrize("message", LABEL_ERRORS)
def test_bad_label_systems_are_refused(message):
    arguments = {"R": EVEN, "w": ONES, "h": ONES, "q": np.zeros(12)} | LABEL_ERRORS[message]
    with pytest.raises(ValueError, match=message):
        label_system(**arguments)


def test_bad_lists_of_systems_are_refused():
    system = label_system(EVEN, ONES, ONES, np.zeros(12))
    other = label_system(EVEN[:, :50], ONES[:50], ONES[:50], np.zeros(12))
    with pytest.raises(ValueError, match="at least one system"):
        solve_labels([], alpha=1.0)
    with pytest.raises(ValueError, match="same number of records"):
        solve_labels([system, other], alpha=1.0)
    with pytest.raises(ValueError, match="b must have shape"):
        solve_labels([LabelSystem(system.A, system.b[:-1])], alpha=1.0)


def reproduction_shape(n, d, q, scale, seed):
    """Masses and three answers as in the paper's experiments, with a constant attribute, empty bins and no inverse."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))
    bins = np.argsort(np.argsort(latent, axis=0), axis=0) * (q - 1) // n  # the last bin of each attribute is empty
    bins[:, -1] = 0
    R = one_hot(bins, q * d)
    truth = rng.gamma(0.3, 3, n)
    labels = latent[:, 0] + latent[:, 1] ** 2 > 0.5
    masses = np.maximum(R @ truth + rng.laplace(0, scale, q * d), 0)
    answers = []
    for h in (np.ones(n), (latent[:, 0] > 0.2).astype(float), np.zeros(n)):
        wrong = R @ (truth * (h != labels)) + rng.laplace(0, scale, q * d)
        answers.append((h, np.clip(wrong / np.maximum(masses, 1), 0, 1)))
    return R, masses, float(masses.sum() / d / n), answers


@pytest.mark.parametrize(("scale", "alpha"), [(60.0, 3600.0), (0.0, 1e-6), (60.0, 1.0)])
@pytest.mark.parametrize(("n", "d", "q"), [(300, 8, 3), (400, 2, 20), (350, 4, 9)])
def test_the_shapes_of_the_reproduction_are_certified(n, d, q, scale, alpha):
    """Rank-deficient systems, empty bins, zero weights, and fractions at 0 and at 1."""
    R, masses, prior, answers = reproduction_shape(n, d, q, scale, seed=n + int(scale))
    assert np.linalg.matrix_rank(R.toarray()) < len(masses)
    weights = solve_weights(R, masses, alpha=alpha, prior=prior)
    assert_certified(weights, R, masses, alpha, prior, np.inf)
    rng = np.random.default_rng(1)
    for w in (weights.x, np.where(rng.random(n) < 0.7, 0.0, rng.gamma(0.3, 3, n))):
        systems = [label_system(R, w, h, fractions) for h, fractions in answers]
        for chosen in (systems[:1], systems[:2], systems):
            A = scipy.sparse.vstack([system.A for system in chosen])
            b = np.concatenate([system.b for system in chosen])
            labels = solve_labels(chosen, alpha=1e-3)
            assert_certified(labels, A, b, 1e-3, 0.5, 1.0)
            np.testing.assert_array_equal(labels.x[w == 0], 0.5)


def assert_certified(solution, A, b, alpha, prior, upper):
    assert np.all((solution.x >= 0) & (solution.x <= upper))
    assert solution.kkt_residual <= solvers.DEFAULT_TOLERANCE
    assert independent_kkt(A, b, solution.x, alpha, prior, upper) <= 2 * solvers.DEFAULT_TOLERANCE


@pytest.mark.parametrize("seed", range(6))
def test_the_objective_is_no_worse_than_that_of_two_methods_of_scipy(seed):
    R, masses, prior, answers = reproduction_shape(200, 4, 6, [0.0, 30.0][seed % 2], seed)
    alpha = [1e-6, 1e-2, 900.0][seed % 3]
    weights = solve_weights(R, masses, alpha=alpha, prior=prior)
    systems = [label_system(R, weights.x, h, fractions) for h, fractions in answers[:2]]
    A = scipy.sparse.csr_matrix(scipy.sparse.vstack([system.A for system in systems]))
    b = np.concatenate([system.b for system in systems])
    cases = [(weights, R, masses, alpha, prior, np.inf), (solve_labels(systems, alpha=1e-3), A, b, 1e-3, 0.5, 1.0)]
    for solution, matrix, right, weight, centre, upper in cases:
        theirs = min(
            lsq_objective(matrix, right, weight, centre, upper),
            quasi_newton_objective(matrix, right, weight, centre, upper),
        )
        assert solution.objective <= theirs * (1 + 1e-11)


@pytest.mark.parametrize("shape", ["instantaneous", "cumulative", "more equations than records", "zero weights"])
def test_plain_descent_goes_down_step_by_step_to_the_optimum(shape):
    systems, _ = LABEL_SHAPES[shape]
    A = scipy.sparse.vstack([system.A for system in systems])
    b = np.concatenate([system.b for system in systems])
    objectives = []
    for steps in (0, 1, 2, 5, 20, 20_000):
        x = solvers.descend_labels(systems, steps=steps)
        assert ((x >= 0) & (x <= 1)).all()
        objectives.append(0.5 * np.sum((A @ x - b) ** 2))
    np.testing.assert_array_equal(solvers.descend_labels(systems, steps=0), 0.5)
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(objectives))
    optimum = solve_labels(systems, alpha=0.0).objective
    assert objectives[-1] == pytest.approx(optimum, rel=1e-4, abs=1e-4)


def test_plain_descent_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="at least one system"):
        solvers.descend_labels([], steps=1)
    with pytest.raises(ValueError, match="steps must not be negative"):
        solvers.descend_labels(LABEL_SHAPES["cumulative"][0], steps=-1)


def quasi_newton_objective(A, b, alpha, prior, upper):
    n = A.shape[1]

    def value(x):
        residual, distance = A @ x - b, x - prior
        return 0.5 * residual @ residual + alpha * distance @ distance, A.T @ residual + 2 * alpha * distance

    bounds = [(0.0, None if np.isinf(upper) else upper)] * n
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-12}
    return scipy.optimize.minimize(
        value, np.full(n, prior), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    ).fun


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 1e-6, 1e-2, 450.0])
def test_full_size_problem_is_certified_without_the_last_resort(alpha, monkeypatch):
    """By the hundred gradient steps of the warm-up and Newton's, where plain descent takes tens of thousands."""
    monkeypatch.setattr(solvers, "GRADIENT_ITERATIONS", 0)
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(5000, 3)) @ rng.normal(size=(3, 10))
    bins = np.argsort(np.argsort(latent, axis=0), axis=0) // 200
    R = one_hot(bins, 250)
    p = R @ rng.gamma(1, 1, 5000) + rng.laplace(0, 30, 250)
    weights = solve_weights(R, p, alpha=alpha, prior=1.0)
    q = np.clip(rng.normal(0.5, 0.3, (2, 250)), 0, 1)
    systems = [label_system(R, weights.x, h, e) for h, e in zip((np.ones(5000), bins[:, 0] > 12), q, strict=True)]
    labels = solve_labels(systems, alpha=alpha)
    for solution in (weights, labels):
        assert solution.kkt_residual <= solvers.DEFAULT_TOLERANCE


def one_hot_bins(bins, q):
    """(q d, n) from bins (n, d)."""
    n, d = bins.shape
    rows = (bins + np.arange(d) * q).ravel()
    return scipy.sparse.csr_matrix((np.ones(n * d), (rows, np.repeat(np.arange(n), d))), shape=(q * d, n))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1e4), st.floats(0.1, 10))
def test_the_weights_meet_their_optimality_conditions(seed, variance, prior):
    """Both sides of the dual, computed from the weights alone: w = prior exp(R'b) and R w + v b = p."""
    rng = np.random.default_rng(seed)
    q, d, n = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(5, 60))
    R = one_hot_bins(rng.integers(0, q, (n, d)), q)
    p = prior * n * rng.dirichlet(np.ones(q), d).ravel() + rng.laplace(0, np.sqrt(variance), q * d)
    found = solve_tilt(R, p, variances=variance, prior=prior)
    assert (found.weights > 0).all()
    np.testing.assert_allclose(np.log(found.weights / prior), R.T @ found.coefficients, rtol=1e-9, atol=1e-9)
    residual = R @ found.weights + variance * found.coefficients - p
    assert np.abs(residual).max() <= 1e-6 * max(np.abs(p).max(), 1)


def test_they_are_nearest_in_relative_entropy():
    """Another solver, of the primal over the weights themselves, finds no better ones."""
    rng = np.random.default_rng(3)
    R, prior, variance = one_hot_bins(rng.integers(0, 3, (12, 2)), 3), 2.0, 4.0
    p = np.array([10.0, 4.0, 10.0, 3.0, 12.0, 9.0])

    def primal(w):
        kl = np.sum(w * np.log(w / prior) - w + prior)
        return kl + np.sum((R @ w - p) ** 2) / (2 * variance)

    found = solve_tilt(R, p, variances=variance, prior=prior).weights
    other = scipy.optimize.minimize(primal, np.full(12, prior), bounds=[(1e-9, None)] * 12, method="L-BFGS-B")
    # A residual of 1e-7 in six masses is 1e-13 of the primal; 1e-9 is besides what is left of its roundings.
    assert primal(found) <= other.fun + 1e-9
    # Its curvature is 1 / w and more in each weight, so who is so much above the least is no further from it.
    above = other.fun - primal(found) + 1e-9
    assert np.sum((found - other.x) ** 2) <= 2 * max(found.max(), other.x.max()) * above


def test_the_tilt_that_made_the_masses_is_found_again():
    """Records that are a tilted copy of the source get the density ratio as weights where nothing is noisy."""
    rng = np.random.default_rng(5)
    bins = rng.integers(0, 4, (4000, 2))
    true = np.array([-0.8, -0.2, 0.3, 0.9, 0.5, 0.1, -0.1, -0.6])
    R = one_hot_bins(bins, 4)
    ratio = np.exp(R.T @ true)
    found = solve_tilt(R, R @ ratio, variances=1e-6, prior=1.0).weights
    np.testing.assert_allclose(found, ratio, rtol=1e-4)


def test_masses_that_say_nothing_leave_the_prior():
    R = one_hot_bins(np.random.default_rng(1).integers(0, 3, (50, 2)), 3)
    found = solve_tilt(R, np.zeros(6), variances=1e12, prior=2.5).weights
    np.testing.assert_allclose(found, 2.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("p", [1.0]),
        ("p", [np.nan, 1.0]),
        ("variances", 0.0),
        ("variances", [1.0, np.inf]),
        ("prior", 0.0),
        ("prior", [1.0, -1.0, 1.0]),
    ],
)
def test_what_is_no_problem_is_refused(name, value):
    R = one_hot_bins(np.array([[0], [1], [1]]), 2)
    with pytest.raises(ValueError, match="must be finite"):
        solve_tilt(R, **{"p": [1.0, 1.0], "variances": 1.0, "prior": 1.0} | {name: value})


def test_weights_that_are_not_found_are_not_given(monkeypatch):
    monkeypatch.setattr(tilt_module, "_STEPS", 0)
    monkeypatch.setattr(tilt_module, "_POLISHING", 0)
    R = one_hot_bins(np.array([[0], [1], [1]]), 2)
    with pytest.raises(NotConvergedError):
        solve_tilt(R, [9.0, 1.0], variances=1.0, prior=1.0)


def test_a_search_that_stops_early_is_finished_by_newton_steps(monkeypatch):
    """As the trust region does where a value's last bits hide what a step gains: noise of 10^7 and more did it."""
    R = one_hot_bins(np.array([[0], [1], [1]]), 2)
    whole = solve_tilt(R, [9.0, 1.0], variances=1.0, prior=1.0)
    monkeypatch.setattr(tilt_module, "_STEPS", 0)
    found = solve_tilt(R, [9.0, 1.0], variances=1.0, prior=1.0)
    assert found.residual <= tilt_module.TOLERANCE
    np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-6)


def test_the_discriminator_of_private_and_public_records_has_the_same_odds():
    """Ji and Elkan's logistic regression and this fit agree where both see all of it: the odds are the weights."""
    rng = np.random.default_rng(11)
    public = rng.integers(0, 2, (20_000, 2))
    chances = expit(1.2 * public[:, 0] - 0.8 * public[:, 1] - 1)
    private = public[rng.random(len(public)) < chances]
    R, held = one_hot_bins(public, 2), one_hot_bins(private, 2)
    weights = solve_tilt(R, np.asarray(held.sum(axis=1)).ravel(), variances=1.0, prior=0.3).weights
    design = np.vstack([held.T.toarray(), R.T.toarray()])
    label = np.repeat([1.0, -1.0], [len(private), len(public)])

    def loss(b):
        margin = label * (design @ b)
        return np.logaddexp(0, -margin).sum() + b @ b / 2, b - design.T @ (label * expit(-margin))

    b = scipy.optimize.minimize(loss, np.zeros(4), jac=True, method="L-BFGS-B").x
    np.testing.assert_allclose(weights, np.exp(R.T @ b), rtol=0.05)


# the strategy


def test_without_noise_each_class_is_weighted_to_its_own_records():
    """A label that hangs on one attribute alone: weights and labels are right in each of its bins."""
    rng = np.random.default_rng(2)
    frame = ring(3000, seed=1)
    frame = frame.with_columns(sick=np.where(rng.random(3000) < expit(1.5 * frame["x"].to_numpy()), "yes", "no"))
    source = ring(400, seed=3).drop("sick")
    options = {"bins": 6, "hidden": [4], "epochs": 5}
    federation = federate({"basel": open_curator("basel", frame, noise=NoNoise(), round_size=3000)})
    learned = learn(federation, source, Budget(1), strategy="importance", options=options)
    estimate = learned.estimates[""]
    # Without noise, a mass of two classes is off by what the variance of Poisson counts lets it: six of its errors.
    assert estimate.weights.sum() == pytest.approx(3000, abs=DEVIATIONS * np.sqrt(3000))
    assert estimate.prevalence == pytest.approx((frame["sick"] == "yes").mean(), abs=DEVIATIONS * np.sqrt(0.25 / 3000))
    expected = expit(1.5 * source["x"].to_numpy())
    assert surely_ahead(np.abs(estimate.prevalence - expected), np.abs(estimate.probability - expected))


def test_a_class_with_hardly_a_record_leaves_finite_weights():
    frame = ring(200, seed=1)
    frame = frame.with_columns(sick=np.array(["no"] + ["yes"] * 199))
    options = {"hidden": [4], "epochs": 2}
    federation, source = federate({"basel": open_curator("basel", frame)}), ring(60, seed=3).drop("sick")
    learned = learn(federation, source, Budget("1/20"), strategy="importance", options=options)
    estimate = learned.estimates[""]
    assert np.isfinite(estimate.weights).all()
    assert (estimate.weights > 0).all()
    assert ((estimate.probability >= 0) & (estimate.probability <= 1)).all()


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("importance", {"bins": 0}, "bins must be a whole number"),
        ("importance", {"learning_rate": "fast"}, "learning_rate must be a number"),
        ("importance", {"rounds": 2}, "no option 'rounds'"),
        ("paper-c", {"weighting": "linear"}, 'weighting must be "least-squares" or "tilt"'),
    ],
)
def test_options_out_of_their_range_are_told(name, options, text):
    with pytest.raises(ConfigurationError, match=text):
        make_strategy(name, options)


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


def test_inputs_of_the_closed_forms_are_left_alone():
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
