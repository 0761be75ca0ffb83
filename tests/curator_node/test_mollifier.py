"""Draws from a mollifier are exact, and what is learnt cannot fail; privacy by enumeration, from the definition.

Statistical tests raise a false alarm with a probability of at most 1e-9 each.
"""

import hashlib
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from curator_node.exact_draws import RandomWords
from curator_node.kinds.samples import learning
from curator_node.kinds.samples.learning import (
    MOST_STEPS,
    Density,
    NaiveBayesLearner,
    NetworkLearner,
    clipped,
    draw_base,
    draw_cells,
    keep,
    learn_density,
    most_tried,
    public_stream,
    theta,
)
from curator_node.kinds.samples.weak_learners import Network
from protocol.grids import WEIGHT, BaseLaw, LevelAxis, NumberAxis
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

FALSE_ALARM = 1e-9
EPSILONS = [Fraction(1), Fraction(1, 30), Fraction(7, 3), Fraction(16), Fraction(2**20 - 1, 2**16)]
SCHEMA = Schema((NumericAttribute("x", -4, 4), CategoricalAttribute("s", ("a", "b", "c"))), "y", ("no", "yes"))
TABLE = BaseLaw.of((NumberAxis("x", -2, 2, 4), LevelAxis("s"), LevelAxis("y")), SCHEMA)
LINE = BaseLaw.of((NumberAxis("x", -3, 3, 50, 0, 1),))
QUICK = NetworkLearner(epochs=4, batch=50)


def stream(name):
    return public_stream(repr(name).encode())


@dataclass(frozen=True)
class Scores:
    """A classifier by table of the first axis."""

    table: tuple

    def log_odds(self, cells):
        return np.array(self.table, float)[cells[:, 0]]


class Noted(RandomWords):
    """Notes the coins that are asked for; each comes up as told."""

    def __init__(self, heads):
        super().__init__(stream("unused"))
        self.heads, self.asked = heads, []

    def exponential_coins(self, numerators, denominator):
        assert numerators.dtype == np.uint64
        assert denominator.dtype == np.uint64
        self.asked.append([Fraction(int(top), int(denominator)) for top in numerators])
        return np.full(len(numerators), self.heads)


# the sampler


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("step", [-MOST_STEPS - 5, -MOST_STEPS, -1, 0, 1, 77, MOST_STEPS, MOST_STEPS + 5])
def test_a_draw_is_kept_with_its_exact_chance(epsilon, step):
    """The exponents of all coins that must come up add up to epsilon / 4 - E, as rationals."""
    source = Noted(heads=True)
    assert keep(np.array([step]), epsilon, source).all()
    exponent = epsilon / 4 * Fraction(max(-MOST_STEPS, min(MOST_STEPS, step)), MOST_STEPS)
    assert sum(itertools.chain(*source.asked)) == epsilon / 4 - exponent
    assert all(0 <= one <= 1 for one in itertools.chain(*source.asked))
    # It is kept only where all of them come up.
    assert not keep(np.array([step]), epsilon, Noted(heads=False)).any()


def test_coins_come_up_as_often_as_they_should():
    steps = np.repeat([-MOST_STEPS, -MOST_STEPS // 3, 0, MOST_STEPS // 2, MOST_STEPS], 20_000)
    for epsilon in EPSILONS:
        kept = keep(steps, epsilon, RandomWords(stream(epsilon)))
        for step in np.unique(steps):
            chance = math.exp(float(epsilon) / 4 * (step / MOST_STEPS - 1))
            count = int(kept[steps == step].sum())
            assert stats.binomtest(count, 20_000, chance).pvalue > FALSE_ALARM


def test_the_base_law_is_drawn_by_whole_numbers():
    """The first and the last number of each point's share lead to it, so that its weight of them do."""
    weights = LINE.weights[0]
    assert weights.max() == pytest.approx(WEIGHT * math.exp(-(0.06**2) / 2))
    ends = np.cumsum(weights)
    wanted = np.concatenate([[0], np.ravel([(end - 1, end) for end in ends])[:-1]]).astype(np.uint64)

    class Below(RandomWords):
        def below(self, limits):
            assert (limits == ends[-1]).all()
            return wanted

    drawn = draw_base(LINE, len(wanted), Below(None))[:, 0]
    assert drawn.tolist() == np.repeat(np.arange(50), 2).tolist()


def test_any_two_laws_differ_by_at_most_exp_epsilon_and_some_by_as_much():
    """All pairs of exponents at their ends, on a grid of three points: by the definition, and the bound is met."""
    weights = np.array([1, 10**6, 3])
    for epsilon in (0.1, 1.0, 7.0):
        laws = []
        for exponents in itertools.product([-1, 0, 1], repeat=3):
            masses = weights * np.exp(np.array(exponents) * epsilon / 4)
            laws.append(masses / masses.sum())
        worst = max(float((one / other).max()) for one, other in itertools.product(laws, laws))
        assert 0.999 * epsilon < math.log(worst) <= epsilon + 1e-12


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(5)])
def test_draws_have_the_law_that_is_told(epsilon):
    """Power: that the base law is drawn instead is missed with a chance below 1e-9."""
    density = Density(LINE, epsilon, (Scores(np.linspace(-2, 2, 50)), Scores(np.arange(50) % 2)))
    drawn = density.draw_cells(20_000, stream("law"))[:, 0]
    seen = np.bincount(drawn, minlength=50)
    lumped = np.arange(50) // 2  # the outermost points are expected too rarely
    masses, base = np.bincount(lumped, density.masses()), np.bincount(lumped, density.after(0).masses())
    counts = np.bincount(lumped, seen)
    assert stats.chisquare(counts, masses * 20_000).pvalue > FALSE_ALARM
    assert stats.chisquare(counts, base * 20_000).pvalue < FALSE_ALARM


def test_axes_are_drawn_independently():
    drawn = draw_base(TABLE, 48_000, RandomWords(stream("axes")))
    cells = np.bincount(np.ravel_multi_index(drawn.T, TABLE.sizes), minlength=24)
    assert stats.chisquare(cells).pvalue > FALSE_ALARM


def test_no_law_needs_more_draws_than_the_worst():
    """On average exp(epsilon / 2) draws of Q_0 give one; the first block has so many, and some more."""
    epsilon = Fraction(2)
    worst = Density(LINE, epsilon, (Scores([-9.0] * 50),) * 50)
    assert (worst.steps_of(np.arange(50)[:, None]) == -MOST_STEPS).all()
    assert most_tried(10_000, epsilon) > 10_000 * math.e
    kept = keep(np.full(most_tried(10_000, epsilon), -MOST_STEPS), epsilon, RandomWords(stream("worst")))
    assert 9_700 < kept.sum() < 10_900
    assert worst.draw(100, stream("all")).shape == (100, 1)
    assert worst.draw(0, stream("none")).shape == (0, 1)


def test_bytes_that_are_not_random_end_in_an_error(monkeypatch):
    monkeypatch.setattr(learning, "MORE_BLOCKS", 3)
    monkeypatch.setattr(learning, "keep", lambda steps, epsilon, source: np.zeros(len(steps), bool))
    with pytest.raises(ArithmeticError):
        draw_cells(LINE, lambda cells: np.zeros(len(cells), np.int64), Fraction(1), 5, stream("none"))


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1), Fraction(1, 2**16 + 1), Fraction(2**32 + 1)])
def test_an_epsilon_that_coins_cannot_have_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        draw_cells(LINE, lambda cells: np.zeros(len(cells), np.int64), epsilon, 1, stream("none"))


# what is learnt


def awkward(rows, width):
    few = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 2.0, 5e-324, 1e300, -1e300, 99.0])
    return st.lists(st.lists(few, min_size=width, max_size=width), max_size=rows)


@settings(max_examples=25, deadline=None)
@given(awkward(6, 3), st.sampled_from([NaiveBayesLearner(4), QUICK]))
def test_whatever_the_records_there_is_a_density_in_the_mollifier(rows, learner):
    density = learn_density(
        np.array(rows, float).reshape(-1, 3), TABLE, Fraction(3, 2), 2, learner=learner, examples=20
    )
    masses, base = density.masses(), density.after(0).masses()
    assert masses.sum() == pytest.approx(1)
    assert np.abs(np.log(masses / base)).max() <= 0.75 + 1e-9
    assert abs(density.log_normaliser) <= 1.5 / 4 + 1e-9
    assert density.draw_cells(3, stream("few")).shape == (3, 3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(), min_size=50, max_size=50), st.integers(1, 5))
def test_no_classifier_leads_out_of_the_mollifier(scores, rounds):
    steps = Density(LINE, Fraction(1), (Scores(scores),) * rounds).steps_of(np.arange(50)[:, None])
    assert np.abs(steps).max() <= MOST_STEPS


@pytest.mark.parametrize("learner", [NaiveBayesLearner(), NetworkLearner(epochs=30, batch=64)])
def test_a_cell_s_exponent_hangs_on_nothing_else_that_is_scored(learner):
    """To the last bit: alone, among others, in any order."""
    rng = np.random.default_rng(1)
    density = learn_density(rng.normal(size=(200, 3)) % 2, TABLE, Fraction(1), 3, learner=learner, examples=200)
    cells = np.array(list(itertools.product(*map(range, TABLE.sizes))))
    together = density.steps_of(cells)
    assert together.tolist() == [int(density.steps_of(cells[row : row + 1])[0]) for row in range(len(cells))]
    many = np.tile(cells, (40, 1))
    order = rng.permutation(len(many))
    assert density.steps_of(many[order]).tolist() == np.tile(together, 40)[order].tolist()
    assert len(set(together.tolist())) > 3


def test_weights_that_are_no_numbers_become_zero():
    broken = [(np.full((25, 1), math.nan), np.full(25, math.inf)), (np.full((1, 25), 1e300), np.array([-math.inf]))]
    assert np.isfinite(Network(LINE, broken).log_odds(np.arange(50)[:, None])).all()


def test_the_same_records_give_the_same_density():
    points = np.random.default_rng(2).normal(size=(300, 1))
    first, second = (learn_density(points, LINE, Fraction(1), learner=QUICK, examples=100) for _ in range(2))
    cells = np.arange(50)[:, None]
    assert first.steps_of(cells).tolist() == second.steps_of(cells).tolist()
    assert first.steps_of(cells).any()


def test_what_is_learnt_is_nearer_to_the_records_by_at_most_what_epsilon_allows():
    """Theorem 7: the likelihood rises from Q_0 on, and by at most epsilon / 2."""
    points = np.random.default_rng(3).normal(1.5, 0.2, size=(2000, 1))
    density = learn_density(points, LINE, Fraction(2), 3, learner=NaiveBayesLearner(16))
    fits = [float(density.after(rounds).log_density(points).mean()) for rounds in range(4)]
    assert fits == sorted(fits)
    assert 0.6 < fits[-1] - fits[0] <= 1.0
    assert density.thetas == tuple(theta(Fraction(2), number) for number in (1, 2, 3))


@given(st.fractions(Fraction(1, 1000), 100), st.integers(1, 30))
def test_the_weights_of_all_rounds_stay_below_their_limit(epsilon, rounds):
    """Lemma 9, in floats."""
    weights = [theta(epsilon, number) for number in range(1, rounds + 1)]
    assert sum(weights) <= float(epsilon) / (4 * math.log(2)) * (1 + 1e-12)
    assert clipped(np.array([math.inf, -math.inf, 0.1])).tolist() == [math.log(2), -math.log(2), 0.1]


def test_densities_are_told_in_the_units_of_the_axes():
    base = BaseLaw.of((NumberAxis("x", 0, 10, 20), NumberAxis("y", 0, 4, 8)))
    density = Density(base, Fraction(1))
    assert density.log_density(np.array([[5.0, 1.0], [-99.0, 99.0], [math.nan, 1.0]])) == pytest.approx(
        [-math.log(40)] * 2
    )


def test_public_bytes_are_everybody_s():
    """Pinned: another stream would be another density for the same records."""
    stream_ = public_stream(b"learning")
    first = hashlib.shake_256(b"expril sample\0learning" + bytes(8)).digest(4)
    assert (stream_(4), stream_(4) != first) == (first, True)
