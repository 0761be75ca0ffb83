"""The distinguishing game: what it says is true with the stated probability, and it finds what is there.

Games of which something is asserted are played at an error rate of 1e-9: so often at most would a bound be above the
truth. Where noise comes from a seed, what was found is found again.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from expril.audit.attack.controls.mechanisms import CLEAN, audit_control
from expril.audit.attack.game import breaks, choose_events, loss_bound, play, verdict_of
from expril.audit.attack.game_statistics import fit_cells, hash_rows, last_bit
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


# The bound.


@pytest.mark.parametrize(("more", "fewer", "draws"), [(1, 0, 10), (40, 3, 50), (50, 50, 50), (700, 200, 1000)])
def test_the_bound_is_of_two_clopper_pearson_intervals(more, fewer, draws):
    first, second = (binomtest(count, draws).proportion_ci(0.95, "exact") for count in (more, fewer))
    assert loss_bound(more, fewer, (draws, draws), 0.05) == pytest.approx(np.log(first.low / second.high), rel=1e-9)


def test_an_event_that_never_came_proves_nothing():
    assert loss_bound(0, 0, (10, 10), 0.05) == -np.inf


@pytest.mark.parametrize("chances", [(0.5, 0.2), (0.9, 0.9), (0.05, 0.01), (0.99, 0.36)])
def test_by_enumeration_the_bound_is_seldom_above_the_truth(chances):
    draws, rate = 40, 0.1
    counts = np.arange(draws + 1)
    joint = np.outer(*(binom.pmf(counts, draws, chance) for chance in chances))
    above = [
        [loss_bound(k, other, (draws, draws), rate) > np.log(chances[0] / chances[1]) for other in counts]
        for k in counts.tolist()
    ]
    assert 0 < joint[np.array(above)].sum() <= rate


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
    event, _ = choose_events(first, second, 0.05, {})
    assert event.holds(first)[leaks].all()
    assert event.holds(second).mean() < 0.005


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
    play(
        lambda count: generator.integers(0, 3, count),
        lambda count: generator.integers(0, 3, count),
        claimed="0",
        error_rate=0.05,
        neighbours="",
        draws=5_001,
        statistics={"told": looked_at},
    )
    first, second = choose_events(*(np.asfortranarray(generator.integers(0, 3, (2_500, 1))) for _ in "ab"), 0.05, {})
    assert first is not None
    assert second is not None
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
    attack = play(
        lambda n: change(first(n)),
        lambda n: change(second(n)),
        claimed="1",
        draws=4_000,
        error_rate=0.05,
        neighbours="",
    )
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
    "options",
    [
        {"claimed": "much"},
        {"claimed": "-1"},
        {"claimed": "1/0"},
        {"error_rate": 0.0},
        {"error_rate": 1.0},
        {"draws": 10},
    ],
)
def test_a_game_that_cannot_be_played_is_refused(options):
    with pytest.raises(ConfigurationError):
        play(np.zeros, np.zeros, **{"claimed": "1", "error_rate": 0.05, "neighbours": "", **options})


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
