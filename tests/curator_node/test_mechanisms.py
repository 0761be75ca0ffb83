"""Noise has the claimed law, at exact false-alarm rates; floats round against the asker; shares are drawn exactly.

Statistical tests raise a false alarm with a probability of at most 1e-9 each, and miss what they name with one of at
most 1e-6, both by exact laws. What no sample of a fast test could tell (shape 1/1000 from 1/1001) is enumerated.
"""

import ast
import hashlib
import itertools
import math
import random
import re
import sys
from dataclasses import replace
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
    MOST_PARTS,
    MOST_ROUNDS,
    MOST_TERM,
    draw_negative_binomials,
    draw_shares,
)
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
    suspicious_tails,
)
from expril.audit.kinds.answer_path import NoNoise
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, open_envelope
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.noise import DiscreteLaplace
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


def draw(scale, n=N, shift=0):
    return (
        OpenDPNoise().discrete_laplace(np.full(n, shift, np.int64), 1, DiscreteLaplace(Fraction(scale)), STAMP) - shift
    )


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

    def suspicious(draws, scale):
        return outside(stats.gamma(N), np.abs(draws).sum() / scale, FALSE_ALARM)

    draws = OpenDPNoise().laplace(N, Fraction(30), STAMP)
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


def test_a_remainder_is_the_first_that_passes_its_coin():
    class Coins(exact_draws.RandomWords):
        tried = 0

        def below(self, limits):
            self.tried += limits.size
            return np.arange(limits.size, dtype=np.uint64)

        def exponential_coins(self, numerators, denominator):
            assert denominator == 10**6
            return numerators % 5 == 3

    remainders = exact_draws._remainders(6, np.uint64(10**6), Coins(None))
    assert remainders.tolist() == [3, 8, 13, 3, 8, 3]
    assert exact_draws._remainders(4, np.uint64(1), Coins(None)).tolist() == [0, 0, 0, 0]


def test_steps_count_coins_until_one_fails():
    class Coins(exact_draws.RandomWords):
        left = np.array([0, 3, 1, 2])

        def exponential_coins(self, numerators, denominator):
            assert (numerators == denominator).all()
            passes = self.left > 0
            self.left = self.left[passes] - 1
            return passes

    assert exact_draws._steps(4, Coins(None)).tolist() == [0, 3, 1, 2]


@pytest.mark.parametrize("scale", [*SHARE_SCALES, *LARGEST])
def test_the_largest_numbers_fit_into_64_bits(scale, monkeypatch):
    """The last remainder and the most steps, against Python's whole numbers; below 2^48, and below 2^63 with a coin."""
    top, bottom = scale.numerator, scale.denominator
    monkeypatch.setattr(exact_draws, "_remainders", lambda size, top, source: np.full(size, top - np.uint64(1)))
    monkeypatch.setattr(exact_draws, "_steps", lambda size, source: np.full(size, MOST_ROUNDS - 1, np.uint64))
    numbers = exact_draws._geometric(2, scale, None)
    assert numbers.dtype == np.uint64
    assert numbers.tolist() == [(top - 1 + top * (MOST_ROUNDS - 1)) // bottom] * 2
    assert numbers.max() < 2**48
    assert int(numbers.max()) * MOST_PARTS < 2**63
    assert MOST_TERM * (MOST_ROUNDS - 1) < 2**48


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
    noise, law, stamp = OpenDPNoise(), DiscreteLaplace(Fraction(30)), Stamp("ann", 0, 1)
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
    assert used == {"os", "collections.abc", "fractions", "numpy", "numpy.typing"}
    numpy = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
    }
    integer_functions = {"arange", "bool_", "concatenate", "divmod", "empty", "flatnonzero"}
    assert numpy == integer_functions | {"frombuffer", "full", "int64", "ones", "uint64", "zeros"}
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
