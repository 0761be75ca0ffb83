"""Weights of exponential form: the solver against its optimality conditions and another solver, and what they mean."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from learner_fakes import NoNoise, federate, open_curator, ring
from learner_node.solvers import NotConvergedError
from learner_node.solvers import tilt as tilt_module
from learner_node.solvers.tilt import solve_tilt
from learner_node.strategies import make_strategy
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from margins import DEVIATIONS, surely_ahead
from protocol.errors import ConfigurationError


def one_hot(bins, q):
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
    R = one_hot(rng.integers(0, q, (n, d)), q)
    p = prior * n * rng.dirichlet(np.ones(q), d).ravel() + rng.laplace(0, np.sqrt(variance), q * d)
    found = solve_tilt(R, p, variances=variance, prior=prior)
    assert (found.weights > 0).all()
    np.testing.assert_allclose(np.log(found.weights / prior), R.T @ found.coefficients, rtol=1e-9, atol=1e-9)
    residual = R @ found.weights + variance * found.coefficients - p
    assert np.abs(residual).max() <= 1e-6 * max(np.abs(p).max(), 1)


def test_they_are_nearest_in_relative_entropy():
    """Another solver, of the primal over the weights themselves, finds no better ones."""
    rng = np.random.default_rng(3)
    R, prior, variance = one_hot(rng.integers(0, 3, (12, 2)), 3), 2.0, 4.0
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
    R = one_hot(bins, 4)
    ratio = np.exp(R.T @ true)
    found = solve_tilt(R, R @ ratio, variances=1e-6, prior=1.0).weights
    np.testing.assert_allclose(found, ratio, rtol=1e-4)


def test_masses_that_say_nothing_leave_the_prior():
    R = one_hot(np.random.default_rng(1).integers(0, 3, (50, 2)), 3)
    found = solve_tilt(R, np.zeros(6), variances=1e12, prior=2.5).weights
    np.testing.assert_allclose(found, 2.5, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"p": [1.0]},
        {"p": [np.nan, 1.0]},
        {"variances": 0.0},
        {"variances": [1.0, np.inf]},
        {"prior": 0.0},
        {"prior": [1.0, -1.0, 1.0]},
    ],
    ids=str,
)
def test_what_is_no_problem_is_refused(wrong):
    R = one_hot(np.array([[0], [1], [1]]), 2)
    with pytest.raises(ValueError, match="must be finite"):
        solve_tilt(R, **{"p": [1.0, 1.0], "variances": 1.0, "prior": 1.0} | wrong)


def test_weights_that_are_not_found_are_not_given(monkeypatch):
    monkeypatch.setattr(tilt_module, "_STEPS", 0)
    monkeypatch.setattr(tilt_module, "_POLISHING", 0)
    R = one_hot(np.array([[0], [1], [1]]), 2)
    with pytest.raises(NotConvergedError):
        solve_tilt(R, [9.0, 1.0], variances=1.0, prior=1.0)


def test_a_search_that_stops_early_is_finished_by_newton_steps(monkeypatch):
    """As the trust region does where a value's last bits hide what a step gains: noise of 10^7 and more did it."""
    R = one_hot(np.array([[0], [1], [1]]), 2)
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
    R, held = one_hot(public, 2), one_hot(private, 2)
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
    learned = learn(
        federate({"basel": open_curator("basel", frame, noise=NoNoise(), round_size=3000)}),
        source,
        Budget(1),
        strategy="importance",
        options=options,
    )
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
    learned = learn(
        federate({"basel": open_curator("basel", frame)}),
        ring(60, seed=3).drop("sick"),
        Budget("1/20"),
        strategy="importance",
        options=options,
    )
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
