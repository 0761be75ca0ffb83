"""The law of a number of noises that is not whole, held against its definition: a difference of negative binomials."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, kve
from scipy.stats import nbinom

from learner_node.models.label_model.likelihood import noise_log_pmf
from protocol.noise import DiscreteLaplace

SECURE = [(0.3, 1.5), (2.0, 4 / 3), (10.0, 100 / 69), (30.0, 10 / 6), (7.0, 41.25), (0.2, 1.5)]
"""Scale, and number of noises s / h: of 3, 4, 100 and 10 curators, and of 25 classes; and one with next to no noise."""


def direct(scale, noises, reach):
    """P(0 ... reach) by summing over the smaller of two negative binomial variables (scipy's)."""
    success = -np.expm1(-1.0 / max(scale, 0.05))
    law = nbinom(noises, success).pmf(np.arange(60 * reach))
    return np.array([law[k:] @ law[: len(law) - k] for k in range(reach + 1)])


@pytest.mark.parametrize(("scale", "noises"), SECURE)
def test_the_law_is_that_of_a_difference_of_negative_binomials(scale, noises):
    expected = direct(scale, noises, 300)
    found = noise_log_pmf(np.arange(301), scale, noises)
    likely = expected > 1e-200
    assert_allclose(found[likely], np.log(expected[likely]), rtol=0, atol=1e-9)
    assert np.isfinite(found).all()
    assert (found == noise_log_pmf(-np.arange(301), scale, noises)).all()


@pytest.mark.parametrize(("scale", "noises"), [(2.0, 4 / 3), (10.0, 1.5), (30.0, 7.25)])
def test_it_adds_up_to_one_and_has_the_variance_of_its_number(scale, noises):
    values = np.arange(-20_000, 20_001)
    law = np.exp(noise_log_pmf(values, scale, noises))
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law @ values.astype(float) ** 2 == pytest.approx(DiscreteLaplace(Fraction(scale)).variance(noises), rel=1e-9)


@pytest.mark.parametrize("whole", [1, 2, 5])
def test_it_goes_over_into_that_of_whole_numbers(whole):
    values = np.array([0, 1, 5, 40, 400])
    beside = noise_log_pmf(values, 6.0, whole + 1e-10)
    assert_allclose(beside, noise_log_pmf(values, 6.0, whole), rtol=0, atol=1e-7)


@pytest.mark.parametrize("scale", [1e3, 1e4, 1e6, 2.0**32])
def test_a_large_scale_has_the_law_of_continuous_noise(scale):
    """Its density is a Bessel function's: |x/2|^(m-1/2) K_(m-1/2)(|x|) / (sqrt(pi) Gamma(m)), x in scales."""
    noises, x = 4 / 3, np.array([0.05, 0.5, 1.0, 3.0, 12.0])
    values = np.rint(x * scale).astype(np.int64)
    x = values / scale
    order = noises - 0.5
    density = order * np.log(x / 2) + np.log(kve(order, x)) - x - 0.5 * np.log(np.pi) - gammaln(noises)
    assert_allclose(noise_log_pmf(values, scale, noises), density - np.log(scale), rtol=0, atol=1e-6)


@pytest.mark.parametrize("noises", [1.05, 4 / 3, 41.25])
@pytest.mark.parametrize("rate", [1e-3, 1e-9])
def test_the_bound_of_fractional_noise_is_passed_no_more_often_than_it_says(noises, rate):
    bound = DiscreteLaplace(Fraction(6)).bound(rate, noises)
    values = np.arange(int(bound) + 1, 40 * int(bound))
    passed = np.exp(noise_log_pmf(values, 6.0, noises)).sum()
    assert rate / 100 < passed <= rate


def test_what_no_noise_reaches_is_ever_less_likely_and_finite():
    far = noise_log_pmf(np.array([10**6, 10**8, 10**12]), 1.0, 1.5)
    assert np.isfinite(far).all()
    assert (np.diff(far) < 0).all()
    assert far[1] / far[0] == pytest.approx(100, rel=0.01)
