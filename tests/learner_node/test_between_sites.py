"""Estimates of several sites: against statsmodels, and how often intervals cover."""

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from learner_node.analyses.between_sites import (
    SiteEstimate,
    between_sites,
    dersimonian_laird,
    even_weights,
    few_sites,
    hartung_knapp,
    paule_mandel,
    pooled,
    prediction_interval,
)

VALUES = np.array([0.1, 0.8, -0.3, 0.5, 0.9])
VARIANCES = np.array([0.04, 0.1, 0.02, 0.06, 0.2])


def estimates(values=VALUES, variances=VARIANCES, noise=0.0):
    return [SiteEstimate(f"s{i}", v, s, s * noise) for i, (v, s) in enumerate(zip(values, variances, strict=True))]


def test_fixed_and_random_effects_are_statsmodels():
    oracle = combine_effects(VALUES, VARIANCES, method_re="iterated", use_t=False)
    result = between_sites(estimates())
    assert result.q == pytest.approx(oracle.q, rel=1e-9)
    assert result.tau_squared == pytest.approx(oracle.tau2, abs=1e-6)
    assert result.fixed.value == pytest.approx(oracle.mean_effect_fe, abs=1e-9)
    assert result.fixed.deviation == pytest.approx(oracle.sd_eff_w_fe, abs=1e-9)
    assert result.random.value == pytest.approx(oracle.mean_effect_re, abs=1e-6)
    assert result.random.deviation == pytest.approx(oracle.sd_eff_w_re_hksj, abs=1e-6)
    moments = combine_effects(VALUES, VARIANCES, method_re="chi2")
    assert dersimonian_laird(VALUES, VARIANCES) == pytest.approx(moments.tau2, abs=1e-9)


def test_the_interval_of_tau_squared_is_where_q_leaves_its_law():
    from scipy.stats import chi2

    result = between_sites(estimates())
    for end, level in ((result.tau_squared_low, 0.975), (result.tau_squared_high, 0.025)):
        weights = 1 / (VARIANCES + end)
        mean = (weights * VALUES).sum() / weights.sum()
        q = (weights * (VALUES - mean) ** 2).sum()
        assert q == pytest.approx(chi2.ppf(level, 4), rel=1e-6) or (end == 0 and q < chi2.ppf(level, 4))


@pytest.mark.slow
def test_heterogeneity_is_what_remains_beyond_the_noise():
    """Equal true values: estimates that differ by noise alone are not heterogeneous."""
    rng = np.random.default_rng(3)
    noisy, blind = 0, 0
    for _ in range(400):
        values = rng.normal(0, np.sqrt(0.02 + 0.1), 6)
        noisy += between_sites(estimates(values, np.full(6, 0.12), 0.1 / 0.12)).p < 0.05
        blind += between_sites(estimates(values, np.full(6, 0.02))).p < 0.05
    assert noisy < 40
    assert blind > 200


def test_heterogeneity_without_noise_is_the_larger_share():
    result = between_sites(estimates(noise=0.7))
    assert result.i_squared < result.i_squared_exact
    assert between_sites(estimates()).i_squared_exact == pytest.approx(result.i_squared)


def test_random_effects_hold_with_four_sites_and_dersimonian_and_laird_s_do_not():
    rng = np.random.default_rng(5)
    variances = np.array([0.02, 0.05, 0.1, 0.2])
    held, normal, repeats = 0, 0, 1500
    for _ in range(repeats):
        values = rng.normal(0.0, np.sqrt(0.1 + variances))
        random = hartung_knapp(values, variances, paule_mandel(values, variances))
        held += random.low <= 0 <= random.high
        interval = pooled(values, variances + dersimonian_laird(values, variances))
        normal += interval.low <= 0 <= interval.high
    error = 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert held / repeats > 0.95 - error
    assert normal / repeats < 0.91


@pytest.mark.parametrize("variances", [(0.1, 1, 1, 10), (0.05, 1, 1, 1), (1, 1, 1, 1e6), (2.0, 3.0)])
@pytest.mark.parametrize("tau_squared", [0.0, 1.0])
def test_random_effects_hold_with_sites_of_unlike_size(variances, tau_squared):
    """Where Hartung and Knapp's interval covers as little as 90 per cent."""
    rng = np.random.default_rng(6)
    variances = np.array(variances, float)
    held = [
        (interval := few_sites(rng.normal(3.0, np.sqrt(tau_squared + variances)), variances)).low <= 3 <= interval.high
        for _ in range(1000)
    ]
    assert np.mean(held) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / 1000)


def test_sites_alike_have_student_s_interval_of_their_values():
    from scipy.stats import ttest_1samp

    interval = few_sites(VALUES, np.full(5, 0.1))
    oracle = ttest_1samp(VALUES, 0.0)
    expected = oracle.confidence_interval()
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.p == pytest.approx(oracle.pvalue)
    assert interval.value == pytest.approx(VALUES.mean())


def test_the_interval_holds_what_its_test_does_not_reject():
    interval = few_sites(VALUES, VARIANCES)
    for end in (interval.low, interval.high):
        assert few_sites(VALUES - end, VARIANCES).p == pytest.approx(0.05)
    weights = even_weights(VARIANCES)
    assert weights.argmax() == VARIANCES.argmin()


def test_a_site_that_cannot_tell_is_not_left_out():
    sites = [*estimates(), SiteEstimate("dark", None, np.inf)]
    assert between_sites(sites) is None
    assert between_sites([]) is None


def test_one_site_has_no_differences():
    result = between_sites(estimates()[:1])
    assert result.random is None
    assert result.prediction is None
    assert result.fixed.value == pytest.approx(0.1)


@pytest.mark.slow
def test_a_prediction_interval_covers_another_site_and_the_usual_one_does_not():
    """Where sites differ little, tau^2 is often estimated as 0, and an interval that trusts this is too short."""
    from scipy.stats import t

    rng = np.random.default_rng(9)
    variances = np.resize([0.02, 0.05, 0.1, 0.2], 6)
    covered, usual, repeats = 0, 0, 300
    for _ in range(repeats):
        values, another = rng.normal(0.0, np.sqrt(0.05 + variances)), rng.normal(0.0, np.sqrt(0.05))
        low, high = prediction_interval(values, variances)
        covered += low <= another <= high
        tau_squared = paule_mandel(values, variances)
        random = hartung_knapp(values, variances, tau_squared)
        reach = t.ppf(0.975, 4) * np.sqrt(tau_squared + random.deviation**2)
        usual += abs(another - random.value) <= reach
    assert covered / repeats > 0.95 - 3 * np.sqrt(0.05 * 0.95 / repeats)
    assert usual < covered


def test_intervals_end_where_nothing_more_is_possible():
    sites = [SiteEstimate(f"site {n}", value, 0.3) for n, value in enumerate((-0.9, 0.1, 0.95))]
    free, limited = between_sites(sites), between_sites(sites, (-1.0, 1.0))
    assert free.prediction[0] < -1.0 < 1.0 < free.prediction[1]
    assert limited.prediction == (-1.0, 1.0)
    assert (limited.random.low, limited.random.high) == (-1.0, 1.0)
    assert (limited.random.value, limited.fixed.low) == (free.random.value, free.fixed.low)
