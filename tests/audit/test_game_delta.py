"""The game at a delta: what is right passes, what is broken is caught.

What is right is played at an error rate of 1e-9, what is broken at 0.001, as in an audit. Noise comes from a seed, so
what was found is found again.
"""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from command_line import run as command
from expril.audit.attack.game import Game, breaks, play, verdict_of
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace

RARE = 1e-9


def delta_of_gaussian(epsilon, sigma, moved=1.0):
    """Balle and Wang (2018), theorem 8: the least delta of Gaussian noise for an answer that moves by so much."""
    a, b = moved / (2 * sigma), epsilon * sigma / moved
    return float(ndtr(a - b) - math.exp(epsilon + log_ndtr(-a - b)))


def analytic_sigma(epsilon, delta):
    return brentq(lambda sigma: delta_of_gaussian(epsilon, sigma) - delta, 0.05, 50)


def gaussian(sigma, seed, moved=1.0):
    """Answers that move by so much; three decimals hide the last bits of floats, so that the noise alone counts."""
    generator = np.random.default_rng(seed)
    return Game(
        lambda exact, n: np.round(exact + generator.normal(0, sigma, n), 3), 0.0, moved, epsilon="1", delta="1e-5"
    )


def truncated(width, seed):
    """Discrete Laplace noise of scale 1, cut where it is larger than the width."""
    generator = np.random.default_rng(seed)

    def noisy(exact, n):
        noise = DiscreteLaplace(Fraction(1)).simulate(generator, (2 * n + 1000,))
        return exact + noise[np.abs(noise) <= width][:n]

    return Game(noisy, 0, 1, epsilon="1")


def mass_at_end(width):
    weights = np.exp(-np.abs(np.arange(-width, width + 1)))
    return float(weights[0] / weights.sum())


def selection(threshold, seed):
    """A group is named if its noisy count reaches a threshold; a group that nobody is in is never named."""
    generator = np.random.default_rng(seed)

    def named(count, n):
        return (count > 0) & (count + DiscreteLaplace(Fraction(1)).simulate(generator, (n,)) >= threshold)

    return Game(named, 0, 1, epsilon="1")


def chance_named(threshold):
    """That a group of one record is named: the noise is at least threshold - 1."""
    return math.exp(-(threshold - 1)) / (1 + math.exp(-1))


RIGHT = {
    "gaussian at 1e-5": (gaussian(analytic_sigma(1, 1e-5), 1), "1e-5"),
    "gaussian at 1e-2": (gaussian(analytic_sigma(1, 1e-2), 2), "1e-2"),
    "truncated": (truncated(5, 3), str(Fraction(mass_at_end(5) * 1.0001))),
    "selection": (selection(6, 4), str(Fraction(chance_named(6) * 1.0001))),
}
BROKEN = {
    "gaussian for half the sensitivity": (gaussian(analytic_sigma(1, 1e-5), 5, moved=2.0), "1e-5"),
    "gaussian for half the sensitivity, 1e-2": (gaussian(analytic_sigma(1, 1e-2), 6, moved=2.0), "1e-2"),
    "gaussian by a logarithm to base ten": (gaussian(math.sqrt(2 * math.log10(1.25e5)), 7, moved=2.0), "1e-5"),
    "gaussian of another delta": (gaussian(analytic_sigma(1, 0.1), 8), "1e-3"),
    "truncated too early": (truncated(3, 9), "1e-4"),
    "selection by a low threshold": (selection(4, 10), "1e-3"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_keeps_to_its_delta_is_not_broken(name):
    game, delta = RIGHT[name]
    attack = game.play(draws=20_000, error_rate=RARE, delta=delta)
    assert not breaks(attack), attack
    assert attack.delta == delta


def test_without_its_delta_a_right_mechanism_is_broken():
    """The end of truncated noise comes under one input only: 1.1 % of draws at a width of 3."""
    assert breaks(truncated(3, 9).play(draws=20_000, error_rate=RARE, delta="0"))
    assert not breaks(truncated(3, 9).play(draws=20_000, error_rate=RARE, delta="0.04"))


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_its_delta_is_caught(name):
    game, delta = BROKEN[name]
    assert breaks(game.play(draws=100_000, error_rate=0.001, delta=delta))


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.0])
@pytest.mark.parametrize("delta", ["0.001", "1/20"])
def test_the_bound_stays_below_the_epsilon_of_the_analytic_gaussian(sigma, delta):
    """And it reaches most of it: half at least, at 1e-9."""
    true = brentq(lambda epsilon: delta_of_gaussian(epsilon, sigma) - float(Fraction(delta)), 0, 50)
    bound = gaussian(sigma, 11).play(draws=40_000, error_rate=RARE, delta=delta).lower_bound
    assert true / 2 < bound <= true


@pytest.mark.parametrize("delta", ["-1e-9", "1", "2", "nan", "little", "1/0", None])
def test_a_delta_that_is_no_probability_is_refused(delta):
    with pytest.raises(ConfigurationError, match="the claimed delta"):
        play(np.zeros, np.zeros, claimed="1", delta=delta, error_rate=0.05, neighbours="")


def test_a_verdict_names_the_delta():
    attack = truncated(3, 9).play(draws=2_000, error_rate=RARE, delta="0.04")
    assert "at a delta of 0.04" in verdict_of(attack)
    assert "delta" not in verdict_of(truncated(3, 9).play(draws=2_000, error_rate=RARE))


def test_the_command_tests_what_it_says(tmp_path, monkeypatch):
    (tmp_path / "cut_noise.py").write_text(
        "import numpy as np\nfrom expril import Game\nrng = np.random.default_rng(1)\n"
        "def leak(value, n):\n    return np.where(rng.random(n) < 0.02, value, 5)\n"
        "def game():\n    return Game(leak, 0, 1, epsilon='0', delta=0.03)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    options = ("--draws", "20000", "--error-rate", "1e-9")
    held = command("audit", "game", "cut_noise:game", *options)
    assert "epsilon 0, delta 0.03" in held.output
    result = json.loads(
        command("audit", "game", "cut_noise:game", *options, "--delta", "1e-3", "--json", code=1).output
    )
    assert result["delta"] == "1e-3"
    assert result["broken"]
    assert "at a delta of 1e-3" in result["verdict"]
