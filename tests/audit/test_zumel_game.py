"""The blog's game: measured shares against the law, and the figures."""

import math

import pytest
from scipy.stats import binom

from expril.audit.attack.zumel_game import EPSILONS, THRESHOLD, expected_above, play_blog
from protocol.errors import ConfigurationError


def test_the_measured_shares_follow_the_law():
    """Each of the counts lies within the law's 1e-9 quantiles, over all 2 x 16 of them 3.2e-8."""
    game = play_blog(rounds=1000, error_rate=1e-9)
    assert game.epsilons == EPSILONS
    for epsilon, shares, expected, bound in zip(
        game.epsilons, game.above, game.expected_above, game.lower_bounds, strict=True
    ):
        assert expected == expected_above(epsilon)
        for share, chance in zip(shares, expected, strict=True):
            assert binom.ppf(5e-10, 1000, chance) <= share * 1000 <= binom.isf(5e-10, 1000, chance)
        assert 0 <= bound <= epsilon


def test_the_law_is_as_private_as_it_says():
    for epsilon in EPSILONS:
        zeros, ones = expected_above(epsilon)
        assert math.log(ones / zeros) <= epsilon + 1e-12
        assert zeros + ones == pytest.approx(1)


def test_noise_closes_the_gap_and_the_figures_show_it():
    game = play_blog((0.1, 10.0), rounds=1000, seed=1)
    for gap, expected in zip(game.gaps, game.expected_gaps, strict=True):
        # The difference of two means of 1000 answers has a standard error of sqrt(2 / 1000) = 0.045 of their spread,
        # and the spread itself one of 2.5 %: 6.5 of either are not passed in 10^9 games.
        assert abs(gap - expected) < 0.3 + 0.17 * expected
    assert game.expected_gaps == pytest.approx((0.1 / math.sqrt(2), 10 / math.sqrt(2)))
    assert game.lower_bounds[0] < 0.5
    assert game.lower_bounds[1] > 3
    assert list(game.spreads) == ["no noise", "sigma = 1/(3n)", "sigma = 3/n"]
    for spread in game.spreads.values():
        assert len(spread.values) == len(spread.first) == len(spread.second) <= 121
        assert spread.event[0] == THRESHOLD
    areas = {
        name: [
            sum(share for value, share in zip(spread.values, side, strict=True) if value > THRESHOLD)
            for side in (spread.first, spread.second)
        ]
        for name, spread in game.spreads.items()
    }
    assert areas["no noise"] == [0.0, 1.0]
    assert areas["sigma = 1/(3n)"][0] < 0.13
    assert areas["sigma = 1/(3n)"][1] > 0.8
    assert 0.4 < areas["sigma = 3/n"][0] < areas["sigma = 3/n"][1] < 0.6


@pytest.mark.parametrize("epsilons", [(), (1.0, 0.5), (0.0, 1.0), (1.0, 1.0)])
def test_epsilons_that_do_not_rise_are_refused(epsilons):
    with pytest.raises(ConfigurationError):
        play_blog(epsilons)
