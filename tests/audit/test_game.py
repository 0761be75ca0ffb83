"""The distinguishing game: what it says is true with the stated probability; its command, controls, canaries.

Games of which something is asserted are played at an error rate of 1e-9: so often at most would a bound be above the
truth. Where noise comes from a seed, what was found is found again.
"""

import itertools
import json
import math
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from command_line import run as command
from expril.audit.attack.canaries import chance_of_guesses, epsilon_at_least, guess, one_run
from expril.audit.attack.controls.mechanisms import (
    CLEAN,
    CONTROLS,
    LATEST,
    NOT_ANSWERED,
    audit_control,
    noise_of_seconds,
    seeded_by_clock,
    variant_1,
    variant_3,
    variant_4,
    variant_5,
    variant_6,
)
from expril.audit.attack.controls.mechanisms import CLOCK_CELLS as CELLS
from expril.audit.attack.controls.parts import HalfNoise
from expril.audit.attack.event_search import choose_event
from expril.audit.attack.game import breaks, play, verdict_of
from expril.audit.attack.game_statistics import fit_cells, hash_rows, last_bit
from expril.audit.attack.loss_bounds import loss_bound
from expril.audit.attack.zumel_game import EPSILONS, THRESHOLD, expected_above, play_blog
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace

RARE = 1e-9
SURE = {"error_rate": RARE, "neighbours": "two"}


def noisy(exact, scale, seed):
    exact, generator = np.atleast_1d(exact), np.random.default_rng(seed)
    return lambda count: exact + DiscreteLaplace(Fraction(scale)).simulate(generator, (count, len(exact)))


def tossed(chance, seed, value=1):
    generator = np.random.default_rng(seed)
    return lambda count: np.where(generator.random(count) < chance, value, 0)


# Validity and power.


@pytest.mark.parametrize("name", CLEAN)
def test_a_correct_mechanism_is_not_flagged(name):
    assert not audit_control(name, draws=20_000, error_rate=RARE, seed=3).caught


@pytest.mark.parametrize("cells", [1, 5, 20])
@pytest.mark.parametrize("scale", [1, 7, 500])
def test_the_bound_stays_below_the_true_epsilon(cells, scale):
    exact = np.arange(cells)
    attack = play(
        noisy(exact, scale, 1), noisy(exact + 1, scale, 2), claimed=Fraction(cells, scale), draws=8_000, **SURE
    )
    assert attack.lower_bound <= cells / scale


def test_of_a_loss_of_1_nearly_all_is_proven():
    """Computed power: with probability 1 - 2e-9 the half-line's counts are good enough for 0.9."""
    draws, p = 50_000, 1 / (1 + np.exp(-1))
    assert loss_bound(int(binom.ppf(RARE, draws, p)), int(binom.isf(RARE, draws, 1 - p)), (draws, draws), 0.025) > 0.9
    for exact, other in ((3, 4), (np.zeros(12, int), np.eye(12, dtype=int)[5])):
        attack = play(noisy(exact, 1, 4), noisy(other, 1, 5), claimed="1", error_rate=0.05, neighbours="")
        assert 0.9 < attack.lower_bound < 1.05


def test_a_rare_leak_is_found():
    """1 in 1000 against never, at half the draws: the event is chosen with a probability of 1 - 5e-7."""
    assert binom.cdf(19, 50_000, 1e-3) < 5e-7
    attack = play(tossed(1e-3, 6, 999), tossed(0, 7), claimed="0", error_rate=0.001, neighbours="")
    assert attack.lower_bound > 1.0
    assert attack.event == "the outcome is at least 999: likelier under the first input"
    assert attack.shares[1] == 0.0


@pytest.mark.parametrize("times", range(30, 50, 2))
def test_a_row_that_repeats_is_chosen_however_often_it_came(times):
    """Each count has another logarithm: none is rounded away."""
    generator = np.random.default_rng(times)
    first, second = (np.asfortranarray(generator.integers(0, 2**40, (4_000, 3))) for _ in "ab")
    leaks = np.arange(times) * 80
    first[leaks] = 5
    choice = choose_event(first, second, 0.05, {})
    assert choice.side == 0
    assert choice.event.holds(first)[leaks].all()
    assert choice.event.holds(second).mean() < 0.005


def joint_only(sign, seed):
    """Two numbers, each as random as a coin on either input; equal, or opposite."""
    generator = np.random.default_rng(seed)

    def rows(count):
        coins = generator.integers(0, 2, count)
        return np.stack((coins, coins if sign else 1 - coins), 1)

    return rows


def shifted_floats(value, seed):
    generator = np.random.default_rng(seed)
    return lambda count: value + generator.laplace(0, 1, count)


def one_of_many(column, seed):
    """32 coordinates of floats, of which one is wider on one input: means are equal."""
    generator = np.random.default_rng(seed)

    def outcomes(count):
        rows = generator.normal(size=(count, 32))
        if column is not None:
            rows[:, column] *= 3
        return rows

    return outcomes


def opposed(sign, seed):
    """20 coordinates of floats, of which two are related, each way on one input."""
    generator = np.random.default_rng(seed)

    def outcomes(count):
        rows = generator.normal(size=(count, 20))
        rows[:, 11] = sign * rows[:, 3] + rows[:, 11] / 4
        return rows

    return outcomes


def marked(value, seed):
    """Ten noisy numbers; one answer in a hundred is marked in the last, and then the first is exact."""
    generator = np.random.default_rng(seed)

    def outcomes(count):
        rows = value * np.eye(10, dtype=int)[0] + DiscreteLaplace(Fraction(9)).simulate(generator, (count, 10))
        leaks = generator.random(count) < 0.01
        rows[leaks, 9], rows[leaks, 0] = 1000, value
        return rows

    return outcomes


def even_noise(value, seed):
    generator = np.random.default_rng(seed)
    return lambda count: value + 2 * DiscreteLaplace(Fraction(10_000)).simulate(generator, (count,))


@pytest.mark.parametrize(
    ("make", "one", "two", "least"),
    [
        (joint_only, True, False, 4.0),
        (shifted_floats, 0.0, 1.0, 4.0),
        (one_of_many, 7, None, 1.0),
        (even_noise, 0, 1, 4.0),
        (opposed, 1, -1, 2.0),
        (marked, 0, 1, 0.5),
    ],
)
def test_what_shows_in_no_mean_and_no_tail_is_found(make, one, two, least):
    assert play(make(one, 8), make(two, 9), claimed="0", draws=20_000, **SURE).lower_bound > least


def test_equal_mechanisms_prove_nothing():
    attack = play(noisy(np.zeros(4, int), 3, 1), noisy(np.zeros(4, int), 3, 2), claimed="0", draws=10_000, **SURE)
    assert attack.lower_bound == 0.0
    assert not breaks(attack)


def test_a_constant_proves_nothing():
    attack = play(np.zeros, np.zeros, claimed="0", error_rate=0.05, neighbours="", draws=1_000)
    assert attack.lower_bound == 0.0
    assert attack.event.startswith("the outcome is ")


# The two halves.


def test_the_half_that_judges_never_chooses():
    """The halves contradict each other: what was learned on the first proves nothing on the second."""

    def constants(first_half, second_half):
        calls = iter((first_half, second_half))
        return lambda count: np.full(count, next(calls))

    attack = play(constants(0, 0), constants(1, 0), claimed="0", error_rate=0.05, neighbours="", draws=2_000)
    assert attack.lower_bound == 0.0
    same = play(constants(0, 5), constants(1, 6), claimed="0", error_rate=0.05, neighbours="", draws=2_000)
    for event in (attack.event, same.event):
        assert event.startswith(("the outcome is at least 1:", "the outcome is at most 0:"))


def test_the_choice_gets_the_first_half_only():
    lengths = []

    def looked_at(rows):
        lengths.append(len(rows))
        return rows[:, 0]

    generator = np.random.default_rng(1)
    outcomes = partial(generator.integers, 0, 3)
    how = {"error_rate": 0.05, "neighbours": "", "draws": 5_001, "statistics": {"told": looked_at}}
    play(outcomes, outcomes, claimed="0", **how)
    rows = [np.asfortranarray(generator.integers(0, 3, (2_500, 1))) for _ in "ab"]
    assert choose_event(*rows, 0.05, {}) is not None
    assert lengths[0] == 5_000  # both inputs, 2,500 each
    assert set(lengths[1:]) <= {2_501}  # judging


def test_an_adversary_s_own_statistic_is_tried():
    secret = np.random.default_rng(11).integers(0, 2**40, 100)

    def mechanism(exact, seed):
        generator = np.random.default_rng(seed)

        def outcomes(count):
            which = generator.integers(0, 100, count)
            return np.stack((which, secret[which] + exact), 1)

        return outcomes

    statistics = {"the noise is known": lambda rows: rows[:, 1] - secret[rows[:, 0].astype(int)]}
    attack = play(mechanism(0, 1), mechanism(1, 2), claimed="1", draws=2_000, statistics=statistics, **SURE)
    assert attack.lower_bound > 2
    assert attack.event.startswith("the noise is known")


# Forms of outcomes.


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows,
        lambda rows: rows.tolist(),
        lambda rows: rows > 0,
        lambda rows: rows.astype(np.int8),
        lambda rows: rows.astype(np.float32),
        lambda rows: rows[:, :1],
    ],
)
def test_outcomes_of_many_forms_are_read(change):
    first, second = noisy([0, 0], 1, 1), noisy([1, 0], 1, 2)
    one, two = (lambda n, draw=draw: change(draw(n)) for draw in (first, second))
    attack = play(one, two, claimed="1", draws=4_000, error_rate=0.05, neighbours="")
    assert attack.lower_bound > 0.5


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        (lambda n: np.zeros(n + 1), "shape"),
        (lambda n: np.zeros((n, 2, 2)), "shape"),
        (lambda n: 3, "shape"),
        (lambda n: np.full(n, np.nan), "not finite"),
        (lambda n: np.full(n, -np.inf), "not finite"),
        (lambda n: ["a"] * n, "of type"),
        (lambda n: np.full(n, 2**64 - 1, np.uint64), "2\\^63"),
    ],
)
def test_outcomes_that_are_no_numbers_are_refused(outcomes, told):
    with pytest.raises(ConfigurationError, match=told):
        play(outcomes, outcomes, claimed="1", error_rate=0.05, neighbours="")


def test_rows_of_two_lengths_are_refused():
    with pytest.raises(ConfigurationError, match="1 numbers on the first input and 2 on the second"):
        play(lambda n: np.zeros((n, 1)), lambda n: np.zeros((n, 2)), claimed="1", error_rate=0.05, neighbours="")
    lengths = iter((1, 1, 2, 2))

    def changing(count):
        return np.zeros((count, next(lengths)))

    with pytest.raises(ConfigurationError, match="from call to call"):
        play(changing, changing, claimed="1", error_rate=0.05, neighbours="")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("claimed", "much"),
        ("claimed", "-1"),
        ("claimed", "1/0"),
        ("error_rate", 0.0),
        ("error_rate", 1.0),
        ("draws", 10),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(option, value):
    with pytest.raises(ConfigurationError):
        play(np.zeros, np.zeros, **{"claimed": "1", "error_rate": 0.05, "neighbours": "", option: value})


def test_a_claim_is_compared_exactly_and_told():
    attack = play(tossed(0.5, 1), tossed(0.1, 2), claimed=Fraction(1, 30), error_rate=0.05, neighbours="", draws=2_000)
    assert attack.claimed == "1/30"
    assert breaks(attack)
    assert verdict_of(attack).startswith("Broken: 2,000 draws")


# Figures.


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (noisy([0], 1, 1), noisy([1], 1, 2)),
        (noisy([0], 5000, 1), noisy([9000], 5000, 2)),
        (shifted_floats(0.0, 1), shifted_floats(4.0, 2)),
        (noisy(range(12), 1, 1), noisy(range(1, 13), 1, 2)),
        (np.zeros, np.ones),
        (lambda n: np.zeros((n, 3)), lambda n: np.eye(3)[np.ones(n, int)]),
        (lambda n: np.full((n, 2), -1e300), lambda n: np.full((n, 2), 1e300)),
        (lambda n: np.full((n, 2), 2**62), lambda n: np.full((n, 2), -(2**62))),
    ],
)
def test_a_spread_fits_a_figure(one, two):
    spread = play(one, two, claimed="1", draws=4_000, error_rate=0.05, neighbours="").spread
    assert 1 < len(spread.values) <= 121
    assert list(spread.values) == sorted(set(spread.values))
    for shares in (spread.first, spread.second):
        assert len(shares) == len(spread.values)
        assert 0.99 < sum(shares) <= 1 + 1e-9
    assert spread.event is None or spread.values[0] <= spread.event[0] <= spread.event[1] <= spread.values[-1]


# Parts.


@given(st.floats(allow_nan=False, allow_infinity=False, width=64).filter(lambda x: x == 0 or abs(x) > 1e-290))
def test_the_last_bit_is_that_of_the_fraction(value):
    exponent = int(last_bit(np.array([value]))[0])
    if value == 0:
        assert exponent == 1100
    else:
        exact = Fraction(value) / Fraction(2) ** exponent
        assert exact.denominator == 1
        assert exact.numerator % 2 == 1


@given(st.lists(st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 2.0]), st.integers(-2, 2).map(float)), min_size=1))
def test_rows_are_hashed_by_their_bits(rows):
    hashed = hash_rows(np.asfortranarray(np.array(rows)))
    for i, first in enumerate(rows):
        for j, second in enumerate(rows):
            assert (hashed[i] == hashed[j]) == (np.array(first).tobytes() == np.array(second).tobytes())


@given(st.lists(st.integers(-10_000, 10_000), min_size=1), st.lists(st.integers(-20_000, 20_000)), st.booleans())
def test_cells_are_counted_as_they_are_found(learned, values, floats):
    kind = float if floats else np.int64
    cells = fit_cells(np.array(learned, kind))
    values = np.array(values, kind)
    assert (cells.count(values) == np.bincount(cells.of(values), minlength=len(cells.lowest) + 1)).all()


def test_many_values_are_put_into_bins():
    values = np.random.default_rng(1).normal(size=20_000)
    cells = fit_cells(values)
    assert not cells.exact
    assert (cells.count(values) == np.bincount(cells.of(values), minlength=len(cells.lowest) + 1)).all()
    assert cells.of(np.array([-np.inf, np.inf])).tolist() == [0, len(cells.lowest) - 1]


EXHIBITS = Path(__file__).resolve().parents[2] / "docs" / "exhibits"
CLEAN_GAME = """
import numpy as np
from expril.audit.attack.game import Game, one_by_one

rng = np.random.default_rng(1)

def add(value, n):
    return value + rng.geometric(0.5, n) - rng.geometric(0.5, n)

def game():
    return Game(add, 0, 1, epsilon=0.7)

def slow():
    return Game(one_by_one(lambda value: [value, rng.integers(0, 2)]), 0, 1, epsilon="1")

def raises():
    return Game(lambda value, n: 1 / value, 0, 1, epsilon="1")

def shape():
    return Game(lambda value, n: [value], 0, 1, epsilon="1")

def nothing():
    return Game(lambda value, n: [float("nan")] * n, 0, 1, epsilon="1")

def statistic():
    return Game(add, 0, 1, epsilon="1", statistics={"odd": lambda rows: rows})

def unstated():
    return Game(add, 0, 1, epsilon="much")

def fails():
    raise RuntimeError("no data")

def none():
    return Game(add, 0, 1, epsilon=None)

def prints():
    print("loud")
    return Game(add, 0, 1, epsilon=1)

def other():
    return 3
"""


@pytest.fixture
def play_command(tmp_path, monkeypatch):
    def run(*arguments, code=0):
        (tmp_path / "theirs.py").write_text(CLEAN_GAME)
        (tmp_path / "needs.py").write_text("import a_module_that_is_not_there")
        (tmp_path / "wrong.py").write_text("1 / 0")
        (tmp_path / "leaves.py").write_text("import sys; sys.exit(0)")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", sys.path[:])
        for name in ("theirs", "needs", "wrong", "leaves"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return command("audit", "game", *arguments, code=code).output

    return run


def test_a_correct_mechanism_is_not_broken(play_command):
    """True epsilon ln 2; the error rate is 1e-9."""
    output = play_command("theirs:game", "--draws", "20000", "--error-rate", "1e-9")
    assert output.startswith("Not broken by this game: 20,000 draws")
    assert "0 and 1" in output


def test_a_smaller_claim_is_broken(play_command):
    result = json.loads(play_command("theirs:game", "--draws", "20000", "--claimed", "1/3", "--json", code=1))
    assert result["broken"]
    assert result["claimed"] == "1/3"
    assert 0.5 < result["lower_bound"] < 0.75
    assert result["verdict"].startswith("Broken: ")


def test_a_function_that_gives_one_outcome_a_call_will_do(play_command):
    assert "number 0 is at most 0" in play_command("theirs:slow", "--draws", "2000", code=1)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("theirs", "write the module and its function"),
        ("nowhere_at_all:game", "there is no such module"),
        ("needs:game", "a_module_that_is_not_there"),
        ("wrong:game", "ZeroDivisionError"),
        ("theirs:absent", "has no function 'absent'"),
        ("theirs:fails", "RuntimeError: no data"),
        ("theirs:other", "returns int"),
        ("theirs:raises", "fails on the first input: ZeroDivisionError: division by zero (line 17 of"),
        ("theirs:shape", "got an array of shape (1,)"),
        ("theirs:nothing", "not finite"),
        ("theirs:statistic", "the statistic 'odd'"),
        ("theirs:unstated", "'much' is no number"),
        ("theirs:none", "None is no number"),
        ("theirs.inner:game", "there is no such module"),
        ("theirs.py:game", "name it without .py"),
        ("leaves:game", "ends when it is imported"),
    ],
)
def test_a_game_that_cannot_be_played_is_told_in_a_sentence(play_command, where, told):
    output = play_command(where, "--draws", "1000", code=2)
    assert told in " ".join(output.split())
    assert len(output.splitlines()) == 1


def test_what_a_mechanism_prints_is_no_result(play_command):
    output = play_command("theirs:prints", "--draws", "1000", "--json")
    (line,) = [line for line in output.splitlines() if line != "loud"]
    assert json.loads(line)["claimed"] == "1"


def test_the_fault_is_an_object_for_machines(play_command):
    assert json.loads(play_command("theirs:other", "--json", code=2).splitlines()[-1])["kind"] == "input"


@pytest.mark.parametrize(
    ("name", "draws", "code"), [("printed_ratio", 100_000, 1), ("clock_seed", 2_000, 1), ("opendp_laplace", 1_000, 0)]
)
def test_the_exhibits_run(monkeypatch, name, draws, code):
    """At 1e-9 a correct one is never flagged. The printed ratio's true epsilon is 0.71 against 1/30."""
    monkeypatch.chdir(EXHIBITS)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, name, raising=False)
    options = ("--draws", draws, "--error-rate", "1e-9", "--json")
    result = command("audit", "game", f"{name}:game", *options, code=code)
    assert json.loads(result.output)["broken"] == bool(code)


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


SUBTLE = ("svt_3", "raw_leak")
"""These need all the draws of a default audit."""


@pytest.mark.family(8)
@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_caught(name):
    """The noise is seeded; in an audit it is not, and benchmarks/audit.py counts how often each is caught."""
    result = audit_control(name, draws=100_000 if name in SUBTLE else 20_000, error_rate=0.001, seed=1)
    assert result.caught, result
    assert result.fault.endswith(".")
    assert result.truth == "infinite" or result.attack.lower_bound < float(result.truth)


def test_a_raw_leak_of_a_thousandth_is_caught_nearly_always():
    """Computed: with probability 1 - 1e-3 one direction's event comes 30 times in half the draws, which proves 1/2;
    both directions fail together with a probability below 2e-6."""
    draws = 50_000
    assert loss_bound(30, 0, (draws, draws), 0.0005) > 0.5
    assert binom.cdf(29, draws, 1e-3) ** 2 < 2e-6


def test_a_control_that_is_not_there_is_named():
    assert len(CONTROLS) >= 13
    assert not CONTROLS.keys() & CLEAN.keys()
    with pytest.raises(ConfigurationError, match="svt_5"):
        audit_control("svt_7", error_rate=0.05)


@pytest.mark.parametrize("variant", [variant_1, variant_4, variant_5, variant_6])
def test_a_sparse_vector_stops_where_it_should(variant):
    answers = variant((0,) * 10, 2_000, np.random.default_rng(2))
    most = {variant_1: 1, variant_4: 3}.get(variant, 10)
    above = answers == 1
    assert above.sum(1).max() <= most
    stopped = (np.cumsum(above, 1) - above) >= most
    assert ((answers == NOT_ANSWERED) == stopped).all()


def test_variant_3_puts_out_a_value_above():
    rows = variant_3((50, 0), 500, np.random.default_rng(3))
    assert (rows[:, 0] == 0).mean() > 0.9
    assert abs(rows[rows[:, 0] == 0, 1].mean() - 50) < 3


def test_the_clock_s_noise_is_that_of_a_second_just_before():
    rows = seeded_by_clock((0,) * CELLS, 200, np.random.default_rng(4))
    assert rows.shape == (200, 1 + CELLS)
    table = noise_of_seconds()
    assert all((table[row[0] - LATEST + 1 : row[0] + 1] == row[1:]).all(axis=1).any() for row in rows)


@given(st.integers(1, 40), st.data(), st.floats(0, 5))
def test_without_delta_it_is_a_binomial_s_tail(guesses, data, epsilon):
    correct = data.draw(st.integers(0, guesses))
    accuracy = np.exp(epsilon) / (1 + np.exp(epsilon))
    expected = binom.sf(correct - 1, guesses, accuracy)
    assert chance_of_guesses(correct, guesses, guesses, epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-300)


@given(st.integers(1, 12), st.data(), st.floats(0, 3), st.floats(1e-6, 0.01))
def test_with_delta_it_is_the_theorem_by_brute_force(guesses, data, epsilon, delta):
    correct = data.draw(st.integers(0, guesses))
    canaries = data.draw(st.integers(guesses, 20))
    chances = binom.pmf(np.arange(guesses + 1), guesses, np.exp(epsilon) / (1 + np.exp(epsilon)))
    largest = max(sum(chances[max(0, correct - i) : correct]) / i for i in range(1, canaries + 1))
    expected = min(1.0, sum(chances[correct:]) + 2 * canaries * delta * largest)
    bound = chance_of_guesses(correct, guesses, canaries, epsilon, delta)
    assert bound == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("delta", [0.001, 0.02])
@pytest.mark.parametrize("canaries", [1, 4, 8])
def test_by_enumeration_a_mechanism_with_a_delta_keeps_to_it(canaries, delta):
    """With probability delta it tells all coins, else nothing: (0, delta)-DP. All are guessed."""
    for correct in range(canaries + 1):
        true = delta + (1 - delta) * binom.sf(correct - 1, canaries, 0.5)
        assert true <= chance_of_guesses(correct, canaries, canaries, 0.0, delta) + 1e-12


@pytest.mark.parametrize("guesses", [2, 3, 4])
def test_by_enumeration_guesses_from_noisy_counts_keep_to_it(guesses):
    """All coins of four canaries, all their noisy counts but the rarest, and the rule of `guess` on each."""
    law, canaries = DiscreteLaplace(Fraction(1)), 4
    values = np.arange(-5, 7)
    rows = np.array(list(itertools.product(values, repeat=canaries)))
    guessed = np.array([guess(row, guesses) for row in rows])
    chance = {exact: np.exp([law.log_pmf(int(value - exact)) for value in values]) for exact in (0, 1)}
    counts = np.zeros(guesses + 1)
    for coins in itertools.product((0, 1), repeat=canaries):
        weights = np.array([1.0])
        for coin in coins:
            weights = np.multiply.outer(weights, chance[coin]).ravel()
        right = (guessed == np.where(coins, 1, -1)).sum(1)
        counts += np.bincount(right, weights, minlength=guesses + 1) / 2**canaries
    beyond = 1 - counts.sum()
    assert beyond < 0.02
    for correct in range(guesses + 1):
        assert counts[correct:].sum() <= chance_of_guesses(correct, guesses, canaries, 1.0) + 1e-12


@pytest.mark.parametrize("delta", [0.0, 1e-4])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_by_enumeration_the_bound_of_canaries_is_seldom_above_the_truth(epsilon, delta):
    """Against randomized response, whose guesses are as good as epsilon allows."""
    guesses, rate = 60, 0.05
    chances = binom.pmf(np.arange(guesses + 1), guesses, np.exp(epsilon) / (1 + np.exp(epsilon)))
    bounds = [epsilon_at_least(k, guesses, guesses, error_rate=rate, delta=delta) for k in range(guesses + 1)]
    assert chances[np.array(bounds) > epsilon + 1e-9].sum() <= rate
    assert bounds == sorted(bounds)


def test_counts_that_cannot_be_are_refused():
    for counts in ((3, 2, 5), (1, 3, 2), (0, 0, 0)):
        with pytest.raises(ConfigurationError):
            epsilon_at_least(*counts, error_rate=0.05)


def test_the_clearest_are_guessed():
    assert guess(np.array([5, -3, 0, 1, 9]), 3).tolist() == [1, -1, 0, 0, 1]


def test_a_real_curator_passes_and_one_with_half_the_noise_is_caught():
    """At 1e-9: 4,000 canaries prove more than 1 of a true epsilon of 2 with a probability above 1 - 1e-9."""
    guesses = 3_600
    worst = int(binom.ppf(1e-9, guesses, np.exp(2) / (1 + np.exp(2))))
    assert epsilon_at_least(worst, guesses, 4_000, error_rate=1e-9) > 1
    check = one_run(canaries=4_000, error_rate=1e-9)
    assert check.passed, check
    assert check.false_alarm == 1e-9
    assert "is noticed with a probability of 99%" in check.power


def test_a_broken_curator_that_is_not_caught_fails_the_check():
    from curator_node.mechanisms import ExactNoise

    assert not one_run(canaries=200, error_rate=1e-9, broken=ExactNoise).passed


def test_half_noise_is_half():
    """Ten standard errors to either side; noise that is not halved has a mean of 200."""
    noise = HalfNoise().discrete_laplace(np.zeros(10_000, np.int64), 1, DiscreteLaplace(Fraction(200)), None)
    assert 90 < np.abs(noise).mean() < 110
