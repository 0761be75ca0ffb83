"""Noise has the scale that is claimed, at exact false-alarm rates; floats round against the asker."""

import math
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_fakes import Clock, ZeroNoise, dataset, key, open_curator, policy
from curator_node.kinds import ANSWERERS
from curator_node.ledger import memory_ledger
from curator_node.mechanisms import OpenDPNoise, Stamp, check_loss, discrete_laplace_mechanism, float_not_below
from curator_node.site import assemble_site
from expril.audit.attack.calibration import (
    FALSE_ALARM,
    MISSED_ALARM,
    excess_law,
    nonzero_law,
    outside,
    pass_probability,
    suspicious_centre,
    suspicious_pairs,
    suspicious_scale,
)
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, open_envelope
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.noise import DiscreteLaplace
from protocol.rationals import MOST
from simulations.seeded_noise import SeededNoise

N = 20_000
STAMP = Stamp("ann", 0, 1)
SCALES = [Fraction(1, 2), Fraction(3), Fraction(30), Fraction(1000, 3)]
WIRE = st.integers(1, MOST)
RATIONALS = st.one_of(
    st.builds(Fraction, WIRE, WIRE),
    st.builds(Fraction, st.integers(1, 2000), st.integers(1, 2000)),
    st.builds(lambda k, e: Fraction(2) ** e + Fraction(k, MOST), st.integers(0, 5), st.integers(0, 31)),
)


def draw(scale, n=N, shift=0):
    return (
        OpenDPNoise().discrete_laplace(np.full(n, shift, np.int64), 1, DiscreteLaplace(Fraction(scale)), STAMP) - shift
    )


# the law


@pytest.mark.parametrize("scale", SCALES)
def test_noise_has_the_claimed_scale_and_centre(scale):
    draws = draw(scale)
    assert draws.dtype == np.int64
    assert not suspicious_scale(draws, scale)
    assert not suspicious_centre(draws)


@pytest.mark.family(3)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
def test_a_scale_ten_percent_off_is_noticed(scale, factor):
    assert pass_probability(N, scale, scale * factor) < MISSED_ALARM
    assert suspicious_scale(draw(scale * factor), scale)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_centre_off_by_a_tenth_of_the_scale_is_noticed(sign):
    assert suspicious_centre(draw(30) + sign * 3)


@pytest.mark.parametrize("scale", SCALES)
def test_false_alarm_rate_is_what_is_stated(scale):
    """The chance that a value falls into either tail, summed over the exact law."""
    for law in (nonzero_law(N, scale), excess_law(N // 4, scale)):
        low, high = law.ppf(FALSE_ALARM / 4), law.isf(FALSE_ALARM / 4)
        assert outside(law, low - 1, FALSE_ALARM / 2)
        assert not outside(law, low + 1, FALSE_ALARM / 2)
        assert outside(law, high + 1, FALSE_ALARM / 2)
        assert not outside(law, high - 1, FALSE_ALARM / 2)
        assert law.cdf(low - 1) + law.sf(high) < FALSE_ALARM / 2


def test_noise_does_not_depend_on_what_it_is_added_to():
    """Large, negative and extreme counts come back with noise of the same scale."""
    for shift in (-(10**12), -7, 10**12):
        draws = draw(30, shift=shift)
        assert not suspicious_scale(draws, 30)
        assert not suspicious_centre(draws)


def test_cells_and_releases_have_independent_noise():
    first, second = draw(30), draw(30)
    half = N // 2
    assert not suspicious_pairs(first[::2], first[1::2], 30)
    assert not suspicious_pairs(first[:half], first[half:], 30)
    assert not suspicious_pairs(first, second, 30)


def test_dependent_noise_is_noticed():
    first, second = draw(30), draw(30)
    copied = np.where(np.arange(N) % 10 == 0, first, second)
    assert suspicious_pairs(first, copied, 30)
    assert suspicious_pairs(first, -np.where(np.arange(N) % 10 == 0, first, second), 30)


def test_vectors_of_every_length_keep_their_order():
    exact = np.arange(0, 10**9, 10**7)
    noisy = OpenDPNoise().discrete_laplace(exact, 1, DiscreteLaplace(Fraction(1, 50)), STAMP)
    assert np.abs(noisy - exact).max() < 3
    law = DiscreteLaplace(Fraction(1))
    assert OpenDPNoise().discrete_laplace(np.empty(0, np.int64), 1, law, STAMP).shape == (0,)


@pytest.mark.slow
def test_continuous_noise_of_paper_ratio_has_its_scale():
    """|X| / scale is Exponential(1): its sum over n draws is Gamma(n)."""
    from scipy import stats

    def suspicious(draws, scale):
        return outside(stats.gamma(N), np.abs(draws).sum() / scale, FALSE_ALARM)

    draws = OpenDPNoise().laplace(N, Fraction(30), STAMP)
    assert not suspicious(draws, 30)
    assert suspicious(draws, 27)
    assert suspicious(draws, 33)
    assert not suspicious_centre(draws)


# floats


def check_float(value):
    rounded = float_not_below(value)
    assert Fraction(rounded) >= value
    assert Fraction(math.nextafter(rounded, 0)) < value


@settings(max_examples=300)
@given(RATIONALS)
def test_float_is_the_smallest_not_below(value):
    check_float(value)


def test_float_is_the_smallest_not_below_for_thousands_of_scales():
    draw_ = random.Random(1)
    for _ in range(20_000):
        check_float(Fraction(draw_.randint(1, MOST), draw_.randint(1, 2 ** draw_.randint(1, 32) - 1)))


def test_float_nearest_to_a_thousand_thirds_is_below_it():
    value = Fraction(1000, 3)
    assert Fraction(float(value)) < value
    assert float_not_below(value) == math.nextafter(float(value), math.inf)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 10**9), RATIONALS)
def test_library_s_map_agrees_with_the_exact_cost(l1, scale):
    law = DiscreteLaplace(scale)
    check_loss(discrete_laplace_mechanism.__wrapped__(law).map(d_in=l1), l1, law)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(7, 11), Fraction(MOST), Fraction(1, 1000)])
@pytest.mark.parametrize("l1", [1, 30, 12345])
def test_wrong_map_releases_nothing(scale, l1):
    law = DiscreteLaplace(scale)
    right = discrete_laplace_mechanism(law).map(d_in=l1)
    check_loss(right, l1, law)
    for wrong in (right * (1 - 1e-9), right * (1 + 1e-9), 0.0, l1 * float(scale), right / 2, right * 2):
        if wrong == right:
            continue
        with pytest.raises(ArithmeticError):
            check_loss(wrong, l1, law)


def test_map_of_the_nearest_float_is_caught():
    """The loss at the nearest float of 1000/3 is above the claim; a map that knows nothing of it is below the truth."""
    law = DiscreteLaplace(Fraction(1000, 3))
    with pytest.raises(ArithmeticError):
        check_loss(math.nextafter(float(Fraction(3, 1000)), 0) * (1 - 2**-52), 1, law)


# who may use which


def test_seeded_noise_is_refused_outside_a_simulation():
    parts = {"ledger": memory_ledger(key("basel")), "key": key("basel"), "clock": Clock()}
    with pytest.raises(ConfigurationError, match="simulation = true"):
        assemble_site(dataset(), policy(), **parts, noise=SeededNoise(1, "basel"))
    assemble_site(dataset(), policy(simulation=True), **parts, noise=SeededNoise(1, "basel"))


def test_seeded_noise_signs_under_another_label():
    seeded = open_curator(rules=policy(simulation=True), noise=SeededNoise(1, "basel"))
    assert open_envelope(seeded.handle(b""))[0].label == NOT_PRIVATE_LABEL
    assert open_envelope(open_curator(noise=ZeroNoise()).handle(b""))[0].label == LABEL


def test_seeded_noise_follows_the_same_law_and_its_stamp():
    noise = SeededNoise(1, "basel")
    zeros, law = np.zeros(N, np.int64), DiscreteLaplace(Fraction(30))
    draws = noise.discrete_laplace(zeros, 1, law, STAMP)
    assert not suspicious_scale(draws, 30)
    assert np.array_equal(draws, noise.discrete_laplace(zeros, 1, law, STAMP))
    for other in (Stamp("bob", 0, 1), Stamp("ann", 1, 1), Stamp("ann", 0, 2)):
        assert not suspicious_pairs(draws, noise.discrete_laplace(zeros, 1, law, other), 30)


def test_idealized_numerics_is_enabled_nowhere():
    root = Path(__file__).parents[2]
    enabled = []
    for folder in ("protocol", "curator_node", "learner_node", "simulations", "benchmarks"):
        for file in (root / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            assert "idealized" not in text, file
            enabled += re.findall(r"enable_features\(([^)]*)\)", text)
    assert set(enabled) == {'"contrib"'}


# how many records


def test_a_curator_with_more_records_than_a_method_is_proved_for_does_not_start_with_it():
    """The steward leaves the method out. How many there are refuses no request, and no policy while it runs."""
    model = replace(ANSWERERS["model"], bounded=lambda limits: {f"{limits.models} models": 40})
    table, with_model = {**ANSWERERS, "model": model}, policy(limits=Limits(kinds={"counts": {}, "model": {}}))
    few, many = (dataset([(f"p{n}", 30.0, 0.0, "f", "yes") for n in range(size)]) for size in (40, 41))
    with pytest.raises(ConfigurationError, match="1000 models is private up to 40 records"):
        open_curator(rules=with_model, records=many, answerers=table)
    for records in (few, many):  # alike, whatever there are
        curator = open_curator(records=records, answerers=table)
        with pytest.raises(ConfigurationError, match="stop it, start it"):
            curator.adopt(with_model)
        assert curator.policy == policy()
    started = open_curator(rules=with_model, records=few, answerers=table)
    started.adopt(msgspec.structs.replace(with_model, cap=2))
    started.adopt(policy())
