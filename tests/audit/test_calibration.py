"""The calibration of installed noise: quiet on what is right at 1e-9, and loud on what is not."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from expril.audit.attack import calibration
from expril.audit.attack.calibration import (
    DRAWS,
    FALSE_ALARM,
    MISSED_ALARM,
    SCALES,
    WIDE,
    bounded_pass_probability,
    calibrate,
    copies_pass_probability,
    equal_chance,
    first_values,
    pass_probability,
    shared_pass_probability,
    shift_pass_probability,
    suspicious_centre,
    suspicious_pairs,
)
from expril.audit.attack.controls.parts import QuickNoise

ALARM = FALSE_ALARM / len(SCALES)


class Shifted(QuickNoise):
    def discrete_laplace(self, exact, l1, law, stamp):
        return super().discrete_laplace(exact, l1, law, stamp) + round(law.scale / 10)


class Halting(QuickNoise):
    """Every fifth number is the one before it."""

    def discrete_laplace(self, exact, l1, law, stamp):
        noise = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        noise[1::10] = noise[:-1:10][: len(noise[1::10])]
        noise[3::10] = noise[2::10][: len(noise[3::10])]
        return exact + noise


class Bounded(QuickNoise):
    """No number is beyond five scales."""

    def discrete_laplace(self, exact, l1, law, stamp):
        most = int(5 * law.scale)
        return exact + super().discrete_laplace(np.zeros_like(exact), l1, law, stamp).clip(-most, most)


class Uniform(QuickNoise):
    """Bounded, and as often 0 and as far from it on average as it should be: its loss is infinite."""

    def discrete_laplace(self, exact, l1, law, stamp):
        noise = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        apart = noise != 0
        most = max(1, round(2 * np.abs(noise[apart]).mean() - 1)) if apart.any() else 1
        noise[apart] = np.sign(noise[apart]) * np.random.default_rng().integers(1, most + 1, int(apart.sum()))
        return exact + noise


class Repeating(QuickNoise):
    """A fifth of the numbers are those three places before."""

    def discrete_laplace(self, exact, l1, law, stamp):
        noise = super().discrete_laplace(np.zeros_like(exact), l1, law, stamp)
        again = np.flatnonzero(np.random.default_rng().random(max(0, len(noise) - 3)) < 0.2)
        noise[again + 3] = noise[again]
        return exact + noise


class TooSmall(QuickNoise):
    """Shares for one curator more than there are."""

    def laplace_shares(self, size, law, parts, stamp):
        return super().laplace_shares(size, law, parts + 1, stamp)


class RepeatedShares(QuickNoise):
    """Half of the shares are the other half once more."""

    def laplace_shares(self, size, law, parts, stamp):
        return np.tile(super().laplace_shares(size // 2, law, parts, stamp), 2)


KEPT = np.random.default_rng(1)


class InMemory(QuickNoise):
    """A generator in the memory of the process: a copy of the process repeats it."""

    def __init__(self):
        super().__init__(generator=KEPT)


@pytest.mark.slow
def test_installed_noise_passes(monkeypatch):
    monkeypatch.setattr(calibration, "DRAWS", 5_000)  # `tests/curator_node/test_mechanisms.py` takes all of them
    checks = calibrate()
    assert [check.name for check in checks] == [
        "noise_scale",
        "noise_centre",
        "noise_tails",
        "noise_independent",
        "noise_shares",
        "noise_choice",
        "noise_of_new_processes",
    ]
    for check in checks:
        assert check.passed, check
        assert check.false_alarm <= FALSE_ALARM


@pytest.mark.family(3)
@pytest.mark.parametrize(
    ("noise", "name"),
    [
        (lambda: QuickNoise(Fraction(9, 10)), "noise_scale"),
        pytest.param(lambda: QuickNoise(Fraction(11, 10)), "noise_scale", marks=pytest.mark.slow),
        (Shifted, "noise_centre"),
        (Bounded, "noise_tails"),
        pytest.param(Uniform, "noise_tails", marks=pytest.mark.slow),
        (Halting, "noise_independent"),
        pytest.param(Repeating, "noise_independent", marks=pytest.mark.slow),
        (TooSmall, "noise_shares"),
        pytest.param(RepeatedShares, "noise_shares", marks=pytest.mark.slow),
        (lambda: QuickNoise(Fraction(5, 6)), "noise_choice"),
        pytest.param(lambda: QuickNoise(Fraction(6, 5)), "noise_choice", marks=pytest.mark.slow),
        (InMemory, "noise_of_new_processes"),
    ],
)
def test_wrong_noise_fails(noise, name, monkeypatch):
    monkeypatch.setattr(calibration, "FORKED", 3)
    checks = {check.name: check for check in calibrate(noise)}
    assert not checks[name].passed
    assert "No:" in checks[name].finding or "were the same" in checks[name].finding


def test_a_generator_that_every_process_seeds_for_itself_passes(monkeypatch):
    monkeypatch.setattr(calibration, "FORKED", 3)
    check = first_values(QuickNoise)
    assert check.passed
    assert check.false_alarm <= FALSE_ALARM


def test_the_stated_power_is_computed():
    """Each chance of missing is below 1e-6, but for the centre's, which is stated as it is."""
    for scale in SCALES:
        for factor in (Fraction(9, 10), Fraction(11, 10)):
            assert pass_probability(DRAWS, scale, scale * factor, ALARM) < MISSED_ALARM
        assert copies_pass_probability(DRAWS // 3, scale, 0.2, ALARM / 10) < MISSED_ALARM
        assert bounded_pass_probability(DRAWS, scale, ALARM) == 0
        assert shared_pass_probability(DRAWS, scale, ALARM / 4) < MISSED_ALARM
    assert shift_pass_probability(DRAWS, 30, 3, ALARM) < 2 * MISSED_ALARM
    assert shift_pass_probability(DRAWS, 30, 0, ALARM) > 1 - 1e-6  # no shift passes


@pytest.mark.parametrize("shift", [-3, 1, 3])
def test_the_power_on_a_shift_is_that_of_draws(shift):
    """With few draws, where a miss is frequent: within five deviations of what is seen in 400 repeats."""
    rng, law = np.random.default_rng(5), calibration.DiscreteLaplace(Fraction(30))
    rows = law.simulate(rng, (400, 1000)) + shift
    passed = np.mean([not suspicious_centre(row, 0.05) for row in rows])
    stated = shift_pass_probability(1000, 30, shift, 0.05)
    assert passed <= stated + 5 * np.sqrt(0.25 / 400)


def test_equal_chances_are_sums_of_squares():
    for scale in (Fraction(1, 2), Fraction(3), Fraction(30)):
        law = calibration.DiscreteLaplace(scale)
        squares = sum(np.exp(2 * law.log_pmf(k)) for k in range(-2000, 2001))
        assert equal_chance(scale) == pytest.approx(squares, rel=1e-9)
    assert float(1 / (2 * WIDE)) < 2**-31


def test_the_false_alarm_rate_of_repeated_values_is_an_upper_bound():
    """Of c comparisons, two or more agree with a chance of at most (c P(X = Y))^2 / 2."""
    compared, chance = 880, float(1 / (2 * WIDE))
    assert stats.binom(compared, chance).sf(1) <= (compared * chance) ** 2 / 2


def test_a_row_is_no_copy_of_itself_in_disguise():
    rng, law = np.random.default_rng(2), calibration.DiscreteLaplace(Fraction(3))
    first, second = law.simulate(rng, (2, DRAWS))
    assert not suspicious_pairs(first, second, 3)
    assert suspicious_pairs(first, -first, 3)
    assert suspicious_pairs(first, first, 3)
