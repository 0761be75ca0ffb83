"""Null laws of statistics of noisy counts: against scipy and statsmodels without noise, by simulation with it."""

import numpy as np
import pytest
from scipy.stats import chi2_contingency, norm
from statsmodels.stats.contingency_tables import Table

from learner_node.analyses.inference import chi_squared, independent, linear_p, trend
from learner_node.analyses.noise_law import NoiseLaw

EXACT = NoiseLaw(0.0)
TABLE = np.array([[30.0, 70.0], [45.0, 60.0], [60.0, 41.0]])


def test_without_noise_tests_are_scipy_s_and_statsmodels():
    test = chi_squared(TABLE, EXACT)
    oracle = chi2_contingency(TABLE, correction=False)
    assert test.statistic == pytest.approx(oracle.statistic, abs=1e-6)
    assert test.p == pytest.approx(oracle.pvalue, abs=1e-9)
    scores = np.array([0.0, 1.0, 3.0])
    ordinal = Table(TABLE, shift_zeros=False).test_ordinal_association(row_scores=scores, col_scores=np.array([1, 0]))
    n = TABLE.sum()
    test = trend(TABLE, scores, EXACT)
    assert test.statistic == pytest.approx(ordinal.zscore * np.sqrt(n / (n - 1)), abs=1e-6)
    assert test.p == pytest.approx(2 * norm.sf(abs(test.statistic)), rel=1e-6)


def test_without_noise_the_fit_is_the_product_of_margins():
    m, p = independent(TABLE, 0.0)
    assert np.allclose(m, TABLE.sum(1))
    assert np.allclose(p, TABLE.sum(0) / TABLE.sum())


@pytest.mark.parametrize(("scale", "draws"), [(1.0, 1.0), (10.0, 1.0), (3.3, 4.0), (1.0, 4 / 3)])
def test_tails_of_weighted_noise_are_those_of_draws(scale, draws):
    rng = np.random.default_rng(1)
    noise = NoiseLaw(scale, draws)
    weights = np.array([1.0, 0.37, 0.11, 0.05])
    sampling = 0.3 * noise.variance
    sums = noise.simulate(rng, (400_000, 4)) @ weights + rng.normal(0, np.sqrt(sampling), 400_000)
    for level in (0.05, 0.01, 0.001):
        edge = np.quantile(np.abs(sums), 1 - level)
        p = float(linear_p(np.asarray(edge), weights, np.asarray(sampling), noise))
        assert p == pytest.approx(level, rel=0.1 + 4 / np.sqrt(400_000 * level))


@pytest.mark.parametrize(
    ("scale", "rate"), [(1.0, 100.0), pytest.param(10.0, 25.0, marks=pytest.mark.slow), (10.0, 400.0)]
)
def test_tests_reject_a_true_null_in_at_most_one_of_twenty(scale, rate):
    rng = np.random.default_rng(2)
    noise = NoiseLaw(scale)
    mean = np.outer([rate, rate * 2, rate], [0.1, 0.9])
    rejections = np.zeros(2)
    repeats = 300
    for _ in range(repeats):
        values = rng.poisson(mean) + noise.simulate(rng, mean.shape)
        tests = (chi_squared(values, noise), trend(values, np.arange(3.0), noise))
        rejections += [test.p is not None and test.p < 0.05 for test in tests]
    assert rejections.max() / repeats < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)


def test_a_test_that_trusts_noisy_counts_rejects_too_often():
    rng = np.random.default_rng(2)
    noise = NoiseLaw(10.0)
    mean = np.outer([100, 100], [0.5, 0.5])
    values = [np.maximum(rng.poisson(mean) + noise.simulate(rng, (2, 2)), 0.0) for _ in range(300)]
    assert np.mean([chi2_contingency(table, correction=False).pvalue < 0.05 for table in values]) > 0.3
