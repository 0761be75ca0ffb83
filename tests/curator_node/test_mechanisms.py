"""Noise has the claimed law, at exact false-alarm rates, ours and OpenDP's; it is drawn exactly, as its shares are.

Statistical tests raise a false alarm with a probability of at most 1e-9 each, and miss what they name with one of at
most 1e-6, both by exact laws. What no sample of a fast test could tell (shape 1/1000 from 1/1001) is enumerated.
"""

import ast
import decimal
import hashlib
import itertools
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curator_fakes import Clock, ZeroNoise, dataset, key, open_curator, policy
from curator_node import exact_draws
from curator_node.exact_draws import (
    LEAST_SHARES,
    LEAST_WORDS,
    MOST_PARTS,
    MOST_ROWS,
    Digit,
    digits_of,
    draw_choice,
    draw_laplace,
    draw_negative_binomials,
    draw_shares,
    exponential,
)
from curator_node.kinds import ANSWERERS
from curator_node.ledger import memory_ledger
from curator_node.mechanisms import ExactNoise, Stamp, check_loss, cut_off_sum
from curator_node.opendp_noise import OpenDPNoise, check_map, discrete_laplace_mechanism, float_not_below
from curator_node.policy import Policy
from curator_node.site import assemble_site, noise_of
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
    suspicious_tails,
)
from expril.audit.kinds.answer_path import NoNoise
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, open_envelope
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares
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


def draw(scale, n=N, shift=0, source=ExactNoise):
    return source().discrete_laplace(np.full(n, shift, np.int64), 1, DiscreteLaplace(Fraction(scale)), STAMP) - shift


@pytest.mark.family(2)
@pytest.mark.parametrize("source", [ExactNoise, OpenDPNoise])
@pytest.mark.parametrize("scale", SCALES)
def test_noise_has_the_claimed_scale_and_centre(scale, source):
    draws = draw(scale, source=source)
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


@pytest.mark.parametrize("source", [ExactNoise, OpenDPNoise])
def test_vectors_of_every_length_keep_their_order(source):
    exact = np.arange(0, 10**9, 10**7)
    noisy = source().discrete_laplace(exact, 1, DiscreteLaplace(Fraction(1, 50)), STAMP)
    assert np.abs(noisy - exact).max() < 3
    law = DiscreteLaplace(Fraction(1))
    assert source().discrete_laplace(np.empty(0, np.int64), 1, law, STAMP).shape == (0,)


@pytest.mark.slow
@pytest.mark.parametrize("source", [ExactNoise, OpenDPNoise])
def test_continuous_noise_of_paper_ratio_has_its_scale(source):
    """|X| / scale is Exponential(1): its sum over n draws is Gamma(n)."""

    def suspicious(draws, scale):
        return outside(stats.gamma(N), np.abs(draws).sum() / scale, FALSE_ALARM)

    draws = source().laplace(N, Fraction(30), STAMP)
    assert not suspicious(draws, 30)
    assert suspicious(draws, 27)
    assert suspicious(draws, 33)
    assert not suspicious_centre(draws)


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
    check_map(discrete_laplace_mechanism.__wrapped__(law).map(d_in=l1), l1, law)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(7, 11), Fraction(MOST), Fraction(1, 1000)])
@pytest.mark.parametrize("l1", [1, 30, 12345])
def test_wrong_map_releases_nothing(scale, l1):
    law = DiscreteLaplace(scale)
    right = discrete_laplace_mechanism(law).map(d_in=l1)
    check_map(right, l1, law)
    for wrong in (right * (1 - 1e-9), right * (1 + 1e-9), 0.0, l1 * float(scale), right / 2, right * 2):
        if wrong == right:
            continue
        with pytest.raises(ArithmeticError):
            check_map(wrong, l1, law)


def test_map_of_the_nearest_float_is_caught():
    """The loss at the nearest float of 1000/3 is above the claim; a map that knows nothing of it is below the truth."""
    law = DiscreteLaplace(Fraction(1000, 3))
    with pytest.raises(ArithmeticError):
        check_map(math.nextafter(float(Fraction(3, 1000)), 0) * (1 - 2**-52), 1, law)


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


def test_a_steward_chooses_opendp_by_the_policy_and_only_when_the_curator_starts():
    assert type(noise_of(policy())) is ExactNoise
    chosen = policy(noise="opendp")
    curator = open_curator(rules=chosen)
    assert isinstance(curator._noise, OpenDPNoise)
    with pytest.raises(ConfigurationError, match="source of noise is chosen when the curator starts"):
        curator.adopt(policy())
    assert curator.policy == chosen
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "basel", "cap": 1, "noise": "numpy"}, Policy)


def test_opendp_that_is_named_and_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "curator_node.opendp_noise", None)
    with pytest.raises(ConfigurationError, match=r'pip install "expril\[opendp\]", or say noise = "exact"'):
        noise_of(policy(noise="opendp"))


@pytest.mark.slow
def test_no_curator_loads_opendp_unless_its_policy_names_it():
    code = """
import sys
import curator_fakes
import curator_node.daemon.service, curator_node.client_app, simulations.local
learner = curator_fakes.opened(curator_fakes.open_curator())
assert type(learner.query()).__name__ == "Release"
print([name for name in sys.modules if name.split(".")[0] == "opendp"])
"""
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert found.stdout == "[]\n"


def test_idealized_numerics_is_enabled_nowhere():
    root = Path(__file__).parents[2]
    enabled = []
    for folder in ("protocol", "curator_node", "learner_node", "simulations", "benchmarks"):
        for file in (root / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            assert "idealized" not in text, file
            enabled += re.findall(r"enable_features\(([^)]*)\)", text)
    assert set(enabled) == {'"contrib"'}


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


# --- Our noise is drawn exactly: every bound and every string of bits, and against OpenDP's.

EVERY = [Fraction(1, 2**32), Fraction(1, 7), Fraction(7, 11), Fraction(3), Fraction(30), Fraction(1000, 3)]
EVERY += [Fraction(2**32 - 5, 3), Fraction(2**32), Fraction(2**32 - 1, 2**32 - 5), Fraction(10**6 + 3, 7)]
FINE = decimal.Context(prec=140, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


def chances_of(digit):
    """Probability of each outcome by the definition of the law, in 140 digits: weights over their sum."""
    with decimal.localcontext(FINE):
        p = (-decimal.Decimal(digit.rate.numerator) / digit.rate.denominator).exp()
        weights = [p**j for j in range(digit.size)]
        beyond = [p**digit.size / (1 - p)] if digit.last else []
        total = sum(weights) + sum(beyond)
        if digit.signed:
            weights = [weight * part / (1 + p) for weight in weights for part in (1, p)]
        return [weight / total for weight in (*weights, *beyond)]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("scale", EVERY)
def test_every_bound_is_the_probability_of_what_lies_below_it(scale, signed):
    """For each outcome of each digit, to 64 and to 192 bits: the sum of all chances before it, rounded down."""
    for digit in digits_of(scale, signed=signed):
        chances = chances_of(digit)
        assert len(chances) == digit.count + digit.last
        for bits in (64, 192):
            with decimal.localcontext(FINE):
                # From the far end, so that no digit is lost where a sum is near 1.
                tails = list(itertools.accumulate(reversed(chances)))[::-1]
                expected = [2**bits - 1 - int(tail * 2**bits) for tail in tails[1:]]
            assert digit.bounds(bits) == [0, *expected]


def law_of(scale, value):
    with decimal.localcontext(FINE):
        p = (-decimal.Decimal(scale.denominator) / scale.numerator).exp()
        return (1 - p) / (1 + p) * p ** abs(value)


@pytest.mark.parametrize("scale", [scale for scale in EVERY if scale > Fraction(1, 100)])
@pytest.mark.parametrize("quantile", [0, 0.1, 0.7, 3, 20, 43])
def test_the_digits_make_up_the_law(scale, quantile):
    """The chances of a number's digits multiply to its probability, to 100 digits; beyond the reach, too."""
    for value in (int(scale * Fraction(quantile)), -1 - int(scale * Fraction(quantile))):
        code, chance = 2 * value if value >= 0 else -1 - 2 * value, decimal.Decimal(1)
        for digit in digits_of(scale, signed=True):
            chances = chances_of(digit)
            code, outcome = divmod(code, digit.count)
            with decimal.localcontext(FINE):
                chance *= chances[outcome] * (chances[-1] ** code if digit.last else 1)
        with decimal.localcontext(FINE):
            assert abs(chance / law_of(scale, value) - 1) < decimal.Decimal(10) ** -100


class Bits(exact_draws.RandomWords):
    """Gives one word after the other, and stops where there is none."""

    def __init__(self, given):
        self.given = list(given)

    def words(self, size):
        taken, self.given = self.given[:size], self.given[size:]
        if len(taken) < size:
            raise EOFError
        return np.array(taken, np.uint64)


def tree(draw, bits, most):
    """(number, how many words were read) of every string of words that decides one; None where `most` do not."""
    waiting = [()]
    while waiting:
        given = waiting.pop()
        source = Bits(given)
        try:
            yield draw(source), len(given)
            assert not source.given, "it reads no more than it needs"
        except EOFError:
            if len(given) == most:
                yield None, most
            else:
                waiting += [(*given, word) for word in range(2**bits)]


@pytest.mark.parametrize(
    ("scale", "base", "most_last", "reach", "bits", "most", "open_share"),
    [
        (Fraction(2, 3), 2, 2**9, 2, 5, 3, 0.01),  # one digit
        (Fraction(5, 2), 4, 3, 1, 4, 3, 0.1),  # one, whose reach is often passed
        (Fraction(5, 2), 2, 2, 1, 3, 4, 0.14),  # two
        (Fraction(7), 2, 2, 1, 3, 4, 0.55),  # three
        (Fraction(1, 9), 2, 2, 1, 5, 3, 0.001),
    ],
)
def test_all_strings_of_bits_are_weighed_and_give_the_law(
    scale, base, most_last, reach, bits, most, open_share, monkeypatch
):
    """The very code, with short words, small tables and a near reach: what is decided and what is open enclose P(k)."""
    for name, value in [("WORD", bits), ("BASE", base), ("MOST_LAST", most_last), ("REACH", reach), ("LEAST_WORDS", 1)]:
        monkeypatch.setattr(exact_draws, name, value)
    digits = digits_of.__wrapped__(scale, signed=True)
    decided = Counter()
    for number, count in tree(lambda source: int(exact_draws._numbers(1, digits, source)[0]), bits, most):
        decided[number] += Fraction(1, 2 ** (bits * count))
    open_ = decided.pop(None)
    assert sum(decided.values()) + open_ == 1
    assert open_ < open_share
    for code, chance in decided.items():
        law = Fraction(law_of(scale, (code >> 1) ^ -(code & 1)))
        assert chance <= law <= chance + open_
    assert {0, 1} <= set(decided)


@pytest.mark.parametrize("scale", [Fraction(3), Fraction(1000, 3)])
def test_a_word_that_equals_a_bound_is_settled_by_the_next_ones(scale):
    """At one word, at two and at three: below the bound the outcome before it, above it the one that it begins."""
    for digit in digits_of(scale, signed=True):
        first, second, third = ([bound % 2**64 for bound in digit.bounds(64 * words)] for words in (1, 2, 3))
        lasts = [at for at, bound in enumerate(first) if bound not in first[at + 1 :]]
        alone = [at for at in lasts if at and bound_alone(first, at)]
        for at in (alone[0], alone[len(alone) // 2], alone[-1]):
            for read, expected in [
                ((first[at] - 1,), at - 1),
                ((first[at] + 1,), at),
                ((first[at], second[at] - 1), at - 1),
                ((first[at], second[at] + 1), at),
                ((first[at], second[at], third[at] - 1), at - 1),
                ((first[at], second[at], third[at] + 1), at),
            ]:
                assert outcome_of(digit, read) == expected


def outcome_of(digit, given):
    """What a digit makes of these words, all of which it reads."""
    source = Bits(given)
    (outcome,) = digit._read(source.words(1), source).tolist()
    assert not source.given
    return outcome


def bound_alone(bounds, at):
    """Whether the neighbours of a bound are far enough to have other words next to it."""
    around = [*bounds[at - 1 : at], *bounds[at + 1 : at + 2]]
    return all(abs(bounds[at] - other) > 2 for other in around)


def test_several_bounds_in_one_word_are_told_apart():
    """Far out, many outcomes share their first word: the next words say which it is."""
    digit = digits_of(Fraction(3), signed=True)[0]
    first, wide = digit.bounds(64), digit.bounds(192)
    crowded = [at for at in range(1, len(first)) if first.count(first[at]) > 1]
    assert len(crowded) > 5
    for at in crowded:
        given = [wide[at] >> 128, (wide[at] >> 64) % 2**64, wide[at] % 2**64]
        assert outcome_of(digit, [*given[:2], given[2] + 1]) == at
        assert outcome_of(digit, [*given[:2], given[2] - 1]) == at - 1


@given(st.builds(Fraction, st.integers(0, 10**5), st.integers(1, 10**4)), st.integers(20, 400))
@settings(deadline=None, max_examples=50)
def test_exponentials_are_enclosed_tightly(rate, bits):
    low, high = exponential(rate, bits)
    with decimal.localcontext(decimal.Context(prec=300)):
        true = (-decimal.Decimal(rate.numerator) / rate.denominator).exp() * 2**bits
        assert low <= true <= high
    assert high - low <= 2**19


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 11), Fraction(30), Fraction(10**6 + 3, 7)])
def test_noise_of_every_scale_has_its_tails(scale):
    draws = draw_laplace(N, scale)
    assert not suspicious_tails(draws, scale)
    assert not suspicious_centre(draws)
    assert not suspicious_pairs(draws[::2], draws[1::2], scale)


def test_noise_of_the_smallest_and_the_largest_scale():
    assert not draw_laplace(N, Fraction(1, 2**32)).any()  # one in e^(2^32)
    for scale in (Fraction(2**32), WIDE):
        draws = draw_laplace(N, scale)
        assert not suspicious_tails(draws, scale)
        assert not suspicious_centre(draws)
        # The lowest bits are fair coins, but for 2^-30.
        assert not outside(stats.binom(N, 0.5), int((draws & 1).sum()), FALSE_ALARM)
        assert not outside(stats.binom(N, 0.5), int((draws >> 9 & 1).sum()), FALSE_ALARM)


def apart(first, second, places):
    """Whether two samples of one size reach some place with other frequencies; false alarm 1e-9, by exact laws.

    Given how many of both samples reach it, how many of the first do is hypergeometric, whatever the law is.
    """
    n = len(first)
    for place in places:
        ours, theirs = (int((np.abs(draws) >= place).sum()) for draws in (first, second))
        if outside(stats.hypergeom(2 * n, ours + theirs, n), ours, FALSE_ALARM / len(places)):
            return True
    return False


def apart_missed(n, law, other, places):
    """Chance that `apart` misses samples of two laws: at most that they come closer, at the place that tells most."""
    missed = []
    for place in places:
        laws = stats.binom(n, law.tail(place)), stats.binom(n, other.tail(place))
        low, high = sorted(laws, key=lambda binomial: binomial.mean())
        least, most = int(low.isf(MISSED_ALARM / 4)), int(high.ppf(MISSED_ALARM / 4))
        found = least < most and outside(stats.hypergeom(2 * n, least + most, n), least, FALSE_ALARM / len(places))
        missed.append(MISSED_ALARM / 2 if found else 1.0)
    return min(missed)


@pytest.mark.parametrize(
    ("scale", "factor"),
    [
        (Fraction(30), Fraction(9, 10)),
        *(
            pytest.param(scale, factor, marks=pytest.mark.slow)
            for scale in (Fraction(1, 2), Fraction(1000, 3), Fraction(2**28 - 5, 3))
            for factor in (Fraction(9, 10), Fraction(11, 10))
        ),
    ],
)
def test_our_noise_has_the_law_of_opendp_s(scale, factor):
    """Two samples, exact tests at 1e-9; a scale off by a tenth is missed with a chance of at most 1e-6."""
    n = 70_000
    law, places = DiscreteLaplace(scale), [1, *(math.ceil(scale * many) for many in (1, 2))]
    theirs = draw(scale, n, source=OpenDPNoise)
    assert not apart(draw(scale, n), theirs, places)
    assert apart_missed(n, law, DiscreteLaplace(scale * factor), places) < MISSED_ALARM
    assert apart(draw(scale * factor, n), theirs, places)


@pytest.mark.parametrize("source", [ExactNoise, OpenDPNoise])
def test_sums_beyond_64_bits_end_there(source):
    """Ours as OpenDP's: a count at an end stays there under half of all noise, and never comes back at the other."""
    ends = np.iinfo(np.int64)
    law = DiscreteLaplace(Fraction(2**32))
    noisy = source().discrete_laplace(np.repeat([ends.max, ends.min, ends.max - 1, 0], 300), 1, law, STAMP)
    high, low, near, middle = noisy.reshape(4, 300)
    far = 2**32 * 60  # passed with a probability below 1e-22
    assert high.min() > ends.max - far
    assert near.min() > ends.max - far
    assert low.max() < ends.min + far
    assert np.abs(middle).max() < far
    for law_of_ends, at in ((high, ends.max), (low, ends.min)):
        assert not outside(stats.binom(300, 0.5), int((law_of_ends == at).sum()), FALSE_ALARM)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**47), 2**47))
@settings(deadline=None, max_examples=50)
def test_sums_are_those_of_whole_numbers_cut_off(exact, noise):
    for first, second in [(exact, noise), (2**63 - 1, noise), (-(2**63), noise), (exact, -noise)]:
        (total,) = cut_off_sum(np.array([first]), np.array([second])).tolist()
        assert total == min(max(first + second, -(2**63)), 2**63 - 1)


@pytest.mark.parametrize("size", [0, 1, LEAST_WORDS - 1, 10**6])
def test_vectors_of_every_size(size):
    draws = draw_laplace(size, Fraction(30))
    assert (draws.shape, draws.dtype) == ((size,), np.int64)
    if size == 10**6:
        assert not suspicious_scale(draws, 30)
        assert not suspicious_tails(draws, 30)


def test_draws_of_no_such_size_or_scale_are_refused():
    with pytest.raises(ValueError, match="at least 0"):
        draw_laplace(-1, Fraction(1))
    for scale in (Fraction(2**32 + 1), Fraction(1, 2**32 + 1)):
        with pytest.raises(ValueError, match="must lie in"):
            draw_laplace(1, scale)
    for size in (1, 100):
        with pytest.raises(ArithmeticError, match="repeat"):
            draw_laplace(size, Fraction(1000, 3), bytes)


def test_each_number_takes_as_many_bytes_whatever_it_is():
    """Time cannot tell what does not happen: 400 numbers of any scale take a word for each digit, and no more."""
    for scale in EVERY:
        taken = []

        def count(size, taken=taken):
            taken.append(size)
            return os.urandom(size)

        draw_laplace(400, scale, count)
        # One word in 2^52 is a bound's.
        assert taken == [3200 * len(digits_of(scale, signed=True))]


@pytest.mark.parametrize("scores", [[3, 3, 0, -5], [0], [1, 0, 0, 6, -9], [7, 7, 7]])
def test_one_of_those_that_pass_is_chosen_with_the_chances_of_the_law(scores):
    """All sets that may pass, weighed: each of a set is as likely, and the sum is permute and flip's."""
    scale = 3
    gaps = [max(scores) - score for score in scores]
    chances = np.zeros(len(scores))
    for passes in itertools.product((0, 1), repeat=len(scores)):
        chance = math.prod(
            math.exp(-gap / scale) if each else -math.expm1(-gap / scale)
            for gap, each in zip(gaps, passes, strict=True)
        )
        for index in np.flatnonzero(passes):
            chances[index] += chance / sum(passes)
    assert chances == pytest.approx(NoisyMax(Fraction(scale)).chances(np.array(scores)), abs=1e-13)


def test_a_score_passes_where_its_number_reaches_the_gap(monkeypatch):
    """At the ends of 64 bits, too; the index is any one of those that pass, by one number below how many."""
    asked = []

    def below(source, limits):
        asked.append(limits.tolist())
        return limits - np.uint64(1)

    monkeypatch.setattr(exact_draws.RandomWords, "below", below)
    ends = np.iinfo(np.int64)
    for scores, numbers, chosen, passed in [
        ([5, 3, 4], [0, 2, 0], 1, 2),
        ([5, 3, 4], [0, 1, 1], 2, 2),
        ([5, 3, 4], [9, 1, 0], 0, 1),
        ([ends.min, ends.max, ends.max - 7], [2**47, 0, 7], 2, 2),
        ([ends.min, ends.max, ends.max - 7], [2**47, 0, 6], 1, 1),
    ]:
        monkeypatch.setattr(exact_draws, "_geometric", lambda size, scale, source, n=numbers: np.array(n, np.uint64))
        assert draw_choice(np.array(scores, np.int64), Fraction(3)) == chosen
        assert asked.pop() == [passed]


def test_a_claim_that_is_not_the_table_s_is_refused():
    @dataclass(frozen=True)
    class Cheap(DiscreteLaplace):
        def loss(self, l1):
            return super().loss(l1) * (1 - Fraction(1, 2**80))

    check_loss(7, DiscreteLaplace(Fraction(1000, 3)))
    check_loss(7, NoisyMax(Fraction(1000, 3)))
    check_loss(7, NoisyMax(Fraction(1000, 3), one_way=True))
    with pytest.raises(ArithmeticError, match="disagrees"):
        check_loss(7, Cheap(Fraction(1000, 3)))


# --- Shares of noise are drawn exactly: every decision by enumeration, and the draws by exact tests.

WIDE = Fraction(2**32 - 5, 3)
SHARE_SCALES = [Fraction(1, 7), Fraction(1), Fraction(30), Fraction(1000, 3), WIDE]
PARTS = [1, 2, 3, 8, 50, 1000]
SHARES = 30_000
LARGEST = [Fraction(2**32), Fraction(2**32 - 1, 2**32 - 5), Fraction(1, 2**32), Fraction(2**32, 3)]


def words(*values):
    """A source that gives these words, and no more."""
    remaining = list(values)

    def give(size):
        chunk, remaining[:] = remaining[: size // 8], remaining[size // 8 :]
        return np.array(chunk, "<u8").tobytes()

    return give


def stream(seed):
    """A source that gives the same bytes in every run."""
    calls = itertools.count()
    return lambda size: hashlib.shake_256(f"{seed} {next(calls)}".encode()).digest(size)


def rising(r, n):
    return math.prod((r + i for i in range(n)), start=Fraction(1))


def compositions(total):
    """All sequences of positive lengths that add up to the total."""
    if not total:
        yield ()
    for first in range(1, total + 1):
        for rest in compositions(total - first):
            yield (first, *rest)


class Scripted:
    """A source whose numbers are given lane by lane; a lane is asked as long as its script lasts."""

    def __init__(self, scripts):
        self.scripts, self.step, self.limits = scripts, 0, []

    def below(self, limits):
        numbers = [script[self.step] for script in self.scripts if len(script) > self.step]
        assert len(numbers) == limits.size
        assert all(value < limit for value, limit in zip(numbers, limits.tolist(), strict=True))
        self.step += 1
        self.limits.append(limits.tolist())
        return np.array(numbers, np.uint64)


@pytest.mark.parametrize("parts", [2, 3, 8, 50, 1000, MOST_PARTS])
@pytest.mark.parametrize("total", range(7))
def test_what_is_left_of_a_total_is_exactly_a_negative_binomial_s(total, parts):
    """All cycle lengths and all coins, weighed by exact rationals: P(j | k) = (r)_j (1 - r)_(k - j) / (j! (k - j)!)."""
    lanes = [
        (lengths, coins)
        for lengths in compositions(total)
        for coins in itertools.product((0, parts - 1), repeat=len(lengths))
    ]
    scripts = [[(length - 1) * parts + coin for length, coin in zip(*lane, strict=True)] for lane in lanes]
    source = Scripted(scripts)
    sums = exact_draws._thinned(np.full(len(lanes), total, np.uint64), parts, source)
    r = Fraction(1, parts)
    chances = dict.fromkeys(range(total + 1), Fraction(0))
    for stayed, (lengths, coins) in zip(sums.tolist(), lanes, strict=True):
        rests = [total - sum(lengths[:i]) for i in range(len(lengths))]
        weights = [(1 - r if coin else r) / rest for coin, rest in zip(coins, rests, strict=True)]
        chances[stayed] += math.prod(weights, start=Fraction(1))
    for j, chance in chances.items():
        rest = total - j
        assert chance == rising(r, j) * rising(1 - r, rest) / (math.factorial(j) * math.factorial(rest))
    # Each number is drawn below rest x parts: the coin is the remainder, so 0 has probability 1 / parts exactly.
    for step, limits in enumerate(source.limits):
        rests = [total - sum(lengths[:step]) for lengths, _ in lanes if len(lengths) > step]
        assert limits == [rest * parts for rest in rests]


def test_a_coin_of_an_exponential_is_the_parity_of_the_first_failure():
    """Round i succeeds with u / (t i): P(odd) is the alternating series of exp(-u / t)."""
    top = 2**32
    for u in (1, 7, 2**31, 2**32 - 1):
        scripts = [[0] * successes + [u] for successes in range(9)]
        source = Scripted(scripts)
        coins = exact_draws.RandomWords.exponential_coins(source, np.full(9, u, np.uint64), np.uint64(top))
        assert coins.tolist() == [successes % 2 == 0 for successes in range(9)]
        assert source.limits == [[top * number] * (10 - number) for number in range(1, 10)]
        gamma = Fraction(u, top)
        reached = [gamma**i / math.factorial(i) for i in range(40)]
        true = sum(reached[i] - reached[i + 1] for i in range(0, 38, 2))
        assert float(true) == pytest.approx(math.exp(-u / top), rel=1e-15)


def test_a_coin_of_nothing_is_always_true():
    coins = exact_draws.RandomWords(stream("nothing")).exponential_coins(np.zeros(99, np.uint64), np.uint64(1))
    assert coins.all()


@given(st.integers(1, 2**63), st.integers(0, 2**64 - 1))
def test_a_number_below_a_limit_is_drawn_from_a_whole_multiple_of_it(limit, word):
    """Exactly the words from 2^64 modulo the limit on are taken."""
    over = 2**64 % limit
    limits = np.array([limit], np.uint64)
    for first in {word, over, 2**64 - 1, max(over - 1, 0), limit - 1}:
        accepted = first if first >= over else 2**64 - 1
        source = exact_draws.RandomWords(words(first, 2**64 - 1))
        assert source.below(limits).tolist() == [accepted % limit]


def test_numbers_with_different_limits_are_drawn_again_each_for_itself():
    limits = np.array([2**62 + 1, 2**63 - 1, 5, 3], np.uint64)
    over = [2**64 % limit for limit in limits.tolist()]
    source = exact_draws.RandomWords(words(over[0] - 1, 9, over[2], over[3] - 1, 2**62, over[3] - 1, 10))
    assert source.below(limits).tolist() == [2**62, 9, 1, 10 % 3]
    source = exact_draws.RandomWords(words(over[0] - 1, 9, over[2], over[3] - 1, 2**62 + 8, 10))
    assert source.below(limits).tolist() == [7, 9, 1, 10 % 3]


def most_distant(digits):
    """What the digits' largest numbers make, in Python's whole numbers: all rows but the last pass the reach."""
    number, worth = 0, 1
    for digit in digits:
        number += ((MOST_ROWS if digit.last else 1) * digit.count - 1) * worth
        worth *= digit.count
    return number


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("scale", [*SHARE_SCALES, *LARGEST, Fraction(512, 45), Fraction(513, 45), Fraction(2**17, 45)])
def test_the_largest_numbers_fit_into_64_bits(scale, signed, monkeypatch):
    """Below 2^48, and below 2^63 with a coin."""
    digits, rows = digits_of(scale, signed=signed), itertools.count(1)

    def largest(digit, words, source):
        beyond = digit.last and next(rows) < MOST_ROWS
        return np.full(len(words), digit.count if beyond else digit.count - 1, np.int64)

    monkeypatch.setattr(Digit, "_read", largest)
    numbers = exact_draws._numbers(2, digits, exact_draws.RandomWords(os.urandom))
    assert numbers.dtype == np.int64
    assert numbers.tolist() == [most_distant(digits)] * 2
    assert numbers.max() < 2**48
    assert int(numbers.max()) * MOST_PARTS < 2**63
    rows = itertools.count()
    with pytest.raises(ArithmeticError, match="repeat"):
        exact_draws._numbers(2, digits, exact_draws.RandomWords(os.urandom))


def laws(n, scale, parts, places):
    """Of the numbers of draws that reach each place, and of the sum of all draws."""
    success = -math.expm1(-1 / scale)
    law = stats.nbinom(1 / parts, success)
    return [*(stats.binom(n, law.sf(place - 1)) for place in places), stats.nbinom(n / parts, success)]


def places_of(scale):
    return sorted({math.ceil(scale * many) for many in (Fraction(1, 2**40), Fraction(1, 50), 1, 3)})


def strays(draws, scale, parts):
    """Whether too many or too few draws lie far out, or their sum does."""
    places = places_of(scale)
    statistics = [*(int((draws >= place).sum()) for place in places), int(draws.sum())]
    expected = laws(len(draws), scale, parts, places)
    return any(
        outside(law, value, FALSE_ALARM / len(expected)) for law, value in zip(expected, statistics, strict=True)
    )


def missed(n, scale, parts, other_scale, other_parts):
    """Chance that n draws of the other law pass `strays`: at most that of the statistic that tells most."""
    places = places_of(scale)
    expected, truths = laws(n, scale, parts, places), laws(n, other_scale, other_parts, places)
    level = FALSE_ALARM / len(expected) / 2
    return min(
        truth.cdf(law.isf(level)) - truth.cdf(law.ppf(level) - 1) for law, truth in zip(expected, truths, strict=True)
    )


@pytest.mark.parametrize("scale", SHARE_SCALES)
@pytest.mark.parametrize("parts", PARTS)
def test_halves_of_shares_are_negative_binomial(scale, parts):
    draws = draw_negative_binomials(SHARES, scale, parts)
    assert draws.dtype == np.uint64
    assert not strays(draws, scale, parts)


WRONG = [
    (40_000, Fraction(30), 1, Fraction(30), 2),
    (40_000, Fraction(30), 2, Fraction(30), 3),
    (40_000, Fraction(1000, 3), 3, Fraction(1000, 3), 4),
    (100_000, Fraction(1000, 3), 8, Fraction(1000, 3), 9),
    (100_000, WIDE, 8, WIDE, 7),
    (300_000, Fraction(1, 7), 1, Fraction(1, 8), 1),
    (100_000, Fraction(1), 1, Fraction(20, 19), 1),
    (200_000, Fraction(30), 1, Fraction(31), 1),
    (200_000, Fraction(30), 1, Fraction(29), 1),
    (100_000, Fraction(3), 3, Fraction(10, 3), 3),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_one_part_more_and_another_scale_are_noticed(wrong):
    """Power 1 - 1e-6, by exact laws."""
    n, scale, parts, other_scale, other_parts = wrong
    assert missed(*wrong) < MISSED_ALARM
    assert strays(draw_negative_binomials(n, other_scale, other_parts), scale, parts)


@pytest.mark.slow
def test_fifty_one_parts_instead_of_fifty_are_noticed():
    n = 1_200_000
    assert missed(n, WIDE, 50, WIDE, 51) < MISSED_ALARM
    assert strays(draw_negative_binomials(n, WIDE, 51), WIDE, 50)
    assert not strays(draw_negative_binomials(n, WIDE, 50), WIDE, 50)


@pytest.mark.family(2)
@pytest.mark.parametrize(("scale", "parts"), [(Fraction(3), 2), (Fraction(30), 8), (Fraction(1000, 3), 50), (WIDE, 3)])
def test_shares_add_up_to_discrete_laplace_noise(scale, parts):
    n = 400_000 // parts if parts > 20 else 20_000
    sums = draw_shares(n * parts, scale, parts).reshape(parts, n).sum(axis=0)
    assert sums.dtype == np.int64
    assert not suspicious_scale(sums, scale)
    assert not suspicious_tails(sums, scale)
    assert not suspicious_centre(sums)


@pytest.mark.parametrize(("scale", "parts", "n"), [(Fraction(3), 2, 20_000), (Fraction(30), 4, 40_000)])
def test_a_share_too_few_is_noticed(scale, parts, n):
    """Sums of one share too few are 0 too often; power 1 - 1e-6 by the exact law of that number."""
    law = stats.binom(n, 1 - math.exp(DiscreteLaplace(scale).log_pmf(0)))
    truth = stats.binom(n, 1 - math.exp(LaplaceShares(scale, Fraction(parts - 1, parts)).log_pmf(0)))
    assert truth.sf(law.ppf(FALSE_ALARM / 4) - 1) < MISSED_ALARM
    sums = draw_shares(n * (parts - 1), scale, parts).reshape(parts - 1, n).sum(axis=0)
    assert suspicious_scale(sums, scale)


def test_a_share_has_the_law_that_is_stated():
    scale, parts, n = Fraction(10, 3), 3, 40_000
    share = LaplaceShares(scale, Fraction(1, parts))
    draws = draw_shares(n, scale, parts)
    places = np.arange(-9, 10)
    for place, chance in zip(places, np.exp(share.log_pmfs(places)), strict=True):
        assert not outside(stats.binom(n, chance), int((draws == place).sum()), FALSE_ALARM / len(places))
    assert not suspicious_centre(draws)


def test_shares_are_independent_of_their_neighbours():
    first, second = draw_shares(20_000, Fraction(30), 1), draw_shares(20_000, Fraction(30), 1)
    assert not suspicious_pairs(first, second, 30)
    assert not suspicious_pairs(first[::2], first[1::2], 30)


@pytest.mark.parametrize("parts", [1, 3, 1000])
def test_the_same_bytes_give_the_same_shares(parts):
    first, second, third = (draw_shares(500, Fraction(1000, 3), parts, stream(seed)) for seed in ("a", "a", "b"))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_short_vector_is_drawn_among_more_shares(parts):
    """So that the time is that of all of them."""
    all_of_them = draw_shares(LEAST_SHARES, Fraction(30), parts, stream("short"))
    for size in (0, 1, 10):
        assert np.array_equal(draw_shares(size, Fraction(30), parts, stream("short")), all_of_them[:size])


def test_bytes_that_repeat_or_fall_short_give_no_noise():
    with pytest.raises(ArithmeticError, match="repeat"):
        draw_shares(2, Fraction(30), 2, bytes)
    with pytest.raises(ArithmeticError, match="16 random bytes were asked for, and 8 came"):
        exact_draws.RandomWords(lambda size: bytes(8)).words(2)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("scale", [*SHARE_SCALES, *LARGEST])
def test_no_share_and_one_share(scale, size, parts):
    shares = draw_shares(size, scale, parts)
    assert (shares.shape, shares.dtype) == ((size,), np.int64)
    assert (np.abs(shares) < 2**48).all()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 40),
    st.integers(1, 2**32),
    st.integers(1, 2**32),
    st.one_of(st.integers(1, 60), st.integers(1, MOST_PARTS)),
)
def test_every_scale_and_number_of_parts_is_drawn(size, top, bottom, parts):
    scale = Fraction(top, bottom)
    shares = draw_shares(size, scale, parts)
    assert shares.shape == (size,)
    # Beyond 100 scales lies less than exp(-100) of a whole noise, and less of a share.
    assert (np.abs(shares) <= 100 * scale).all()


@pytest.mark.parametrize(
    ("size", "scale", "parts", "text"),
    [
        (-1, Fraction(1), 1, "at least 0"),
        (1, Fraction(1), 0, "1 to 32768 parts, not 0"),
        (1, Fraction(1), MOST_PARTS + 1, "parts, not 32769"),
        (1, Fraction(0), 1, "must lie in"),
        (1, Fraction(-1), 1, "must lie in"),
        (1, Fraction(2**32 + 1), 1, "must lie in"),
        (1, Fraction(1, 2**32 + 1), 1, "must lie in"),
    ],
)
def test_other_arguments_are_refused(size, scale, parts, text):
    with pytest.raises(ValueError, match=text):
        draw_shares(size, scale, parts)


def test_a_curator_s_noise_source_draws_these_shares():
    noise, law, stamp = ExactNoise(), DiscreteLaplace(Fraction(30)), Stamp("ann", 0, 1)
    first, second = (noise.laplace_shares(200, law, 3, stamp) for _ in range(2))
    assert (first.shape, first.dtype) == ((200,), np.int64)
    assert not np.array_equal(first, second)  # equal with a chance below 1e-60
    assert not suspicious_scale(noise.laplace_shares(20_000, law, 1, stamp), 30)


def test_a_simulation_s_shares_repeat_with_the_seed_and_the_stamp_and_have_the_law():
    law, stamp = DiscreteLaplace(Fraction(30)), Stamp("ann", 0, 1)
    first, again = (SeededNoise(7, "north").laplace_shares(30_000, law, 2, stamp) for _ in range(2))
    assert np.array_equal(first, again)
    for seed, name, other in [(8, "north", stamp), (7, "south", stamp), (7, "north", Stamp("ann", 0, 2))]:
        assert not np.array_equal(SeededNoise(seed, name).laplace_shares(30_000, law, 2, other), first)
    second = SeededNoise(7, "south").laplace_shares(30_000, law, 2, stamp)
    assert not suspicious_scale(first + second, 30)
    assert suspicious_scale(first, 30)


def test_an_audit_s_source_adds_nothing_and_notes_the_law_of_the_share():
    noise = NoNoise()
    assert not noise.laplace_shares(4, DiscreteLaplace(Fraction(30)), 3, Stamp("ann", 0, 1)).any()
    (exact, law), *_ = noise.calls
    assert law == LaplaceShares(Fraction(30), Fraction(1, 3))
    assert exact.tolist() == [0, 0, 0, 0]


SAMPLER = (exact_draws.__file__,)


def test_the_sampler_names_no_float():
    nodes = [node for file in SAMPLER for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))]
    used = {name for node in nodes if isinstance(node, ast.ImportFrom | ast.Import) for name in _imported(node)}
    tools = {"bisect", "dataclasses", "functools", "itertools"}
    assert used == tools | {"os", "collections.abc", "fractions", "numpy", "numpy.typing"}
    numpy = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    }
    integer_functions = {"arange", "array", "bool_", "divmod", "flatnonzero", "searchsorted"}
    assert numpy == integer_functions | {"frombuffer", "full", "int64", "uint64", "zeros"}
    for node in nodes:
        assert not isinstance(node, ast.Div)
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float | complex))


def _imported(node):
    return [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]


def no_floats(draw):
    """Runs `draw`, and looks at what every function of the sampler held when it returned."""
    seen, floats = 0, []

    def watch(frame, event, _):
        nonlocal seen
        if event == "return" and frame.f_code.co_filename in SAMPLER:
            for name, value in frame.f_locals.items():
                seen += 1
                kind = value.dtype.kind if isinstance(value, np.ndarray | np.generic) else "i"
                if isinstance(value, float) or kind not in "uib":
                    floats.append((frame.f_code.co_name, name))

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        draw()
    finally:
        sys.setprofile(before)
    assert seen > 3
    return not floats


def test_no_float_comes_up_while_shares_are_drawn(monkeypatch):
    """numpy makes floats of signed and unsigned numbers together: all that is held is looked at."""
    for scale, parts in itertools.product([*SHARE_SCALES, *LARGEST], (1, 3)):
        assert no_floats(lambda scale=scale, parts=parts: draw_shares(50, scale, parts))
    monkeypatch.setattr(exact_draws.RandomWords, "words", lambda self, size: np.arange(size) + 2.0**40)
    assert not no_floats(lambda: exact_draws.RandomWords(None).below(np.full(99, 7, np.uint64)))
