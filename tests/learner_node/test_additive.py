"""The additive label model: against logistic regression, finite differences, and simulated truths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from learner_node.models.label_model.additive import (
    LEAST_SHARE,
    BinCounts,
    fit_additive,
    ordered_kernel,
    source_masses,
    tied_bins,
)
from margins import DEVIATIONS
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema

SIZES = (4, 3, 5)


def draw(n, rng, sizes=SIZES):
    """Bins of records whose attributes are dependent: (n, m)."""
    latent = rng.standard_normal((n, 1)) + rng.standard_normal((n, len(sizes)))
    return np.stack(
        [np.clip((column * 0.8 + k / 2).astype(int), 0, k - 1) for column, k in zip(latent.T, sizes, strict=True)], 1
    )


def counted(private, labels, source, rng=None, scale=0.0, sizes=SIZES, kernels=None):
    """What curators would answer of each attribute, with continuous Laplace noise."""
    answers = []
    for j, k in enumerate(sizes):
        exact = np.bincount(private[:, j] * 2 + labels, minlength=2 * k).reshape(k, 2).astype(float)
        noise = rng.laplace(0, scale, exact.shape) if scale else 0.0
        answers.append(
            BinCounts(source[:, j], exact + noise, 2 * scale**2, np.eye(k) if kernels is None else kernels[j])
        )
    return answers


def one_hot(cells, sizes=SIZES):
    return np.concatenate([np.eye(k)[cells[:, j]] for j, k in enumerate(sizes)], axis=1)


@pytest.fixture(scope="module")
def silent():
    """2,000 records that the source holds as well, labels of an additive truth, no noise; variances 0.5, 1 and 2."""
    rng = np.random.default_rng(1)
    cells = draw(2000, rng)
    labels = (rng.random(2000) < expit(one_hot(cells) @ rng.standard_normal(sum(SIZES)) - 0.4)).astype(int)
    variances = np.array([0.5, 1.0, 2.0])
    return cells, labels, variances, fit_additive(counted(cells, labels, cells), scales=variances)


def test_without_noise_it_is_penalised_logistic_regression(silent):
    cells, labels, variances, fit = silent
    # A penalty of 1 for all: columns carry the prior deviations. 4 is that of the intercept.
    deviations = np.sqrt(np.concatenate([[4.0], np.repeat(variances, SIZES)]))
    design = np.column_stack([np.ones(len(cells)), one_hot(cells)]) * deviations
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(design, labels)
    # Its penalised likelihood has a curvature of 1 and more in these units; the fit ends after steps of a thousandth.
    slopes = np.append(fit.intercept, fit.contributions) / deviations
    assert slopes == pytest.approx(model.coef_[0], abs=2e-3)


def test_without_noise_mode_and_covariance_are_those_of_the_log_posterior(silent):
    cells, labels, variances, fit = silent
    design = np.column_stack([np.ones(len(cells)), one_hot(cells)])
    precision = 1.0 / np.concatenate([[4.0], np.repeat(variances, SIZES)])

    def log_posterior(theta):
        odds = design @ theta
        return float(np.sum(log_expit(np.where(labels > 0, odds, -odds))) - 0.5 * precision @ theta**2)

    def gradient(theta):
        return approx_fprime(theta, log_posterior, 1e-5)

    mode = np.append(fit.intercept, fit.contributions)
    assert np.abs(gradient(mode)).max() < 0.05  # of a log posterior whose curvatures are in the hundreds
    step = 1e-3 * np.eye(len(mode))
    hessian = np.array([(gradient(mode + one) - gradient(mode - one)) / 2e-3 for one in step])
    assert fit.covariance == pytest.approx(-np.linalg.inv(hessian), rel=0.02, abs=2e-3)


def test_with_noise_the_posterior_solves_its_equations_written_out(silent):
    """Mode and covariance of y ~ N(mu(theta), F + D), its Jacobian by finite differences; one class as common as the
    other in every bin, where D is half of a count's noise."""
    rng = np.random.default_rng(2)
    cells = draw(3000, rng)
    labels = rng.integers(2, size=3000)
    answers = counted(cells, labels, cells, rng, 15.0)
    variances = np.array([0.1, 0.2, 0.05])
    fit = fit_additive(answers, scales=variances)
    design, hot = np.column_stack([np.ones(3000), one_hot(cells)]), one_hot(cells)
    theta = np.append(fit.intercept, fit.contributions)
    weights = fit.source_mass

    def ones(at):
        return hot.T @ (weights * expit(design @ at))

    share = expit(design @ theta)
    p = hot.T @ (weights * share) / (hot.T @ weights)
    counts = np.concatenate([answer.counts for answer in answers])
    contrast = (1 - p) * counts[:, 1] - p * counts[:, 0]
    jacobian = np.array([(ones(theta + one) - ones(theta - one)) / 2e-4 for one in 1e-4 * np.eye(len(theta))]).T
    fisher = (hot.T * (weights * share * (1 - share))) @ hot
    noise = np.diag(450.0 * (p**2 + (1 - p) ** 2))
    prior = np.diag(np.concatenate([[4.0], np.repeat(variances, SIZES)]))
    # As the masses of bins are nearly known here, the two counts' contrast is the whole of what they say.
    covariance = np.linalg.inv(jacobian.T @ np.linalg.solve(fisher + noise, jacobian) + np.linalg.inv(prior))
    assert np.sqrt(np.diag(fit.covariance)) == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.03)
    moved = covariance @ (jacobian.T @ np.linalg.solve(fisher + noise, contrast) - np.linalg.solve(prior, theta))
    assert np.abs(moved / np.sqrt(np.diag(covariance))).max() < 0.1


def test_bands_cover_the_truth():
    """Of truths drawn from the prior with scales that the fit does not know: 95 % bands over 60 fits of 12 bins.

    The bins of a fit are dependent: as if there were only two independent ones in each, coverage below 0.87 has a
    probability of 1e-4 at a true 0.95; a band too short by half covers about 0.67.
    """
    inside, total = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        private, source = draw(4000, rng), draw(2000, rng)
        truth = [rng.standard_normal(k) * scale for k, scale in zip(SIZES, rng.choice([0.1, 0.4, 1.0], 3), strict=True)]
        odds = sum(f[private[:, j]] for j, f in enumerate(truth)) - 0.3
        labels = (rng.random(4000) < expit(odds)).astype(int)
        fit = fit_additive(counted(private, labels, source, rng, rng.choice([3.0, 20.0])))
        for j, f in enumerate(truth):
            mass = np.bincount(source[:, j], fit.source_mass, minlength=SIZES[j])
            value, deviation = fit.centred(j, mass)
            wanted = f - mass @ f / mass.sum()
            inside += int((np.abs(value - wanted) <= 1.96 * deviation).sum())
            total += len(f)
    assert binom.cdf(round(120 * inside / total), 120, 0.95) > 1e-9
    assert inside / total > 0.87


def test_an_attribute_that_says_nothing_is_shrunk_and_one_that_says_much_is_not():
    rng = np.random.default_rng(5)
    private, source = draw(20_000, rng), draw(3000, rng)
    truth = np.array([-1.0, -0.3, 0.5, 1.2])
    labels = (rng.random(20_000) < expit(truth[private[:, 0]])).astype(int)
    fit = fit_additive(counted(private, labels, source, rng, 10.0))
    assert fit.scales[0] > max(fit.scales[1:])
    for j in range(3):
        mass = np.bincount(source[:, j], fit.source_mass, minlength=SIZES[j])
        value, deviation = fit.centred(j, mass)
        wanted = truth - mass @ truth / mass.sum() if j == 0 else 0.0
        assert (np.abs(value - wanted) < DEVIATIONS * deviation).all()
        assert (np.abs(value).max() > DEVIATIONS * deviation.max()) == (j == 0)


def test_probabilities_follow_bins_whose_mass_differs_from_the_sources():
    """Covariate shift: the source has each first bin half as often. The answers say so, and P(class 1 | bins) stays."""
    rng = np.random.default_rng(6)
    private, source = draw(20_000, rng), draw(20_000, rng)
    source = source[(source[:, 0] > 0) | (rng.random(20_000) < 0.3)]
    truth = np.array([1.5, -0.3, 0.5, -1.2])
    labels = (rng.random(20_000) < expit(truth[private[:, 0]])).astype(int)
    fit = fit_additive(counted(private, labels, source, rng, 5.0))
    share = np.bincount(private[:, 0], minlength=4) / 20_000
    mass = np.bincount(source[:, 0], fit.source_mass, minlength=4)
    # Two noises of deviation 7 in a bin; masses of other attributes, as exact as that, are met at the same time.
    assert mass / mass.sum() == pytest.approx(share, abs=DEVIATIONS * 10 * np.sqrt(12) / 20_000)
    grid = np.column_stack([np.arange(4), np.full(4, 1), np.full(4, 2)])
    mean, variance = fit.log_odds(list(grid.T))
    assert (np.abs(mean - truth) < DEVIATIONS * np.sqrt(variance)).all()
    assert fit.probability(list(grid.T)) == pytest.approx(expit(truth), abs=0.25 * DEVIATIONS * np.sqrt(variance.max()))


def test_masses_of_all_attributes_are_met_at_once():
    rng = np.random.default_rng(7)
    private, source = draw(20_000, rng), draw(3000, rng)
    source = source[(source[:, 0] > 1) | (rng.random(3000) < 0.5)]
    masses = source_masses(counted(private, rng.integers(2, size=20_000), source))
    for j, k in enumerate(SIZES):
        wanted = np.bincount(private[:, j], minlength=k)
        found = np.bincount(source[:, j], masses.weights, minlength=k)
        assert (np.abs(found - wanted) < DEVIATIONS * np.sqrt(wanted)).all()  # what one sample of so many leaves open
    assert masses.weights.sum() == pytest.approx(20_000)


def test_variance_of_log_odds_is_that_of_the_sum(silent):
    cells, _, _, fit = silent
    design = np.column_stack([np.ones(50), one_hot(cells[:50])])
    mean, variance = fit.log_odds(list(cells[:50].T))
    assert mean == pytest.approx(design @ np.append(fit.intercept, fit.contributions))
    assert variance == pytest.approx(np.diag(design @ fit.covariance @ design.T), abs=1e-12)


def test_neighbours_are_alike_and_missing_values_apart():
    kernel = ordered_kernel(np.array([0.5, 0.3, 0.1, 0.1]))
    assert np.linalg.eigvalsh(kernel).min() > 0
    assert kernel[0, 1] > kernel[0, 2] > 0.1
    assert kernel[3, :3].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"counts": np.zeros((4, 3))}, "shape"),
        ({"counts": np.full((4, 2), np.nan)}, "finite"),
        ({"cells": np.array([0, 4])}, "lie in"),
        ({"cells": np.array([0.0, 1.0])}, "integers"),
        ({"variance": -1.0}, "variance"),
        ({"kernel": np.eye(3)}, "kernel"),
    ],
)
def test_what_is_no_answer_is_refused(change, complaint):
    known = {"cells": np.array([0, 1]), "counts": np.ones((4, 2)), "variance": 1.0, "kernel": np.eye(4)}
    with pytest.raises(ValueError, match=complaint):
        fit_additive([BinCounts(**known | change)])


# --- bins -------------------------------------------------------------------------------------------------


def column(values):
    """Records of one number."""
    schema = Schema((NumericAttribute("x", -1e6, 1e6),), "y", ("no", "yes"))
    return Records(schema, np.asarray(values, float)[:, None], np.empty((len(values), 0), np.int64))


@given(st.lists(st.integers(-4, 30) | st.floats(-100, 100), min_size=1, max_size=200), st.integers(1, 15))
def test_bins_are_few_and_hold_records(values, bins):
    records = column(values)
    found = tied_bins(records, "x", bins)
    counts = np.bincount(found.cells(records), minlength=len(found.edges) + 2)
    assert len(found.edges) < bins
    assert list(found.edges) == sorted(set(found.edges))
    assert counts[:-1].min() >= LEAST_SHARE * len(values)
    assert counts[-1] == 0


def test_a_frequent_value_has_a_bin_of_its_own():
    found = tied_bins(column([0] * 70 + [1] * 10 + [2] * 10 + list(range(3, 13))), "x", 5)
    assert found.edges[:2] == (1.0, 2.0)
    assert len(found.edges) == 4


def test_bins_of_many_values_are_even():
    values = np.random.default_rng(0).standard_normal(50_000)
    found = tied_bins(column(values), "x", 10)
    assert np.bincount(found.cells(column(values)))[:10] == pytest.approx(5000, rel=0.05)


def test_missing_values_have_their_own_bin():
    records = column([np.nan, 1.0, 2.0, np.nan])
    found = tied_bins(records, "x", 2)
    assert found.cells(records).tolist() == [2, 0, 1, 2]
    assert tied_bins(column([np.nan]), "x", 3).edges == ()
