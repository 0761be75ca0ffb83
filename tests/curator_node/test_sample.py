"""A curator that answers `sample`: what is charged, exact draws from a mollifier, and learning that cannot fail.

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

from curator_fakes import (
    ATTRIBUTES,
    ROWS,
    Clock,
    dataset,
    ledger_over,
    mass_body,
    open_curator,
    opened,
    planned,
    policy,
)
from curator_fakes import Learner as FakeLearner
from curator_node.budgets import standing_of
from curator_node.exact_draws import RandomWords
from curator_node.kinds.sample import points_of
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
from curator_node.ledger.store import MemoryStore
from expril.audit.generators.queries import sample_queries_of
from learner_node.kinds.sample import put_together, read
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.grids import WEIGHT, BaseLaw, LevelAxis, NumberAxis
from protocol.kinds import QUERY_KINDS
from protocol.kinds.sample import PlannedSample, SampleBody, SampleRelease
from protocol.limits import Limits
from protocol.messages import Refusal, Release
from protocol.plans import Plan
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

AXES = (NumberAxis("age", 18, 90, 8, 50, 20), LevelAxis("sex"), LevelAxis("sick"))
LIMITS = Limits(kinds={"counts": {}, "sample": {"records": 50, "axes": 3}})
SCHEMA = Schema(ATTRIBUTES, "sick", ("no", "yes"))


def rules(**options):
    return policy(cap=2, limits=LIMITS, **options)


def sampled(records=20, epsilon=Fraction(1, 40), axes=AXES, **options):
    options = {"learner": "naive_bayes", "examples": 50, "rounds": 2, **options}
    return PlannedSample(records=records, epsilon=Rational.of(epsilon), axes=axes, **options)


def reply_to(curator, *queries, body=None):
    """Proposed, asked once; the study's session and the reply."""
    learner = opened(curator, plan=Plan.of(queries))
    return learner, learner.query(encode(SampleBody()) if body is None else body, kind="sample")


def answer_of(reply, query):
    assert isinstance(reply, Release), reply
    return read(reply.body, Question(Turn(query), SampleBody(), SCHEMA))


def test_a_sample_is_drawn_and_charged_whole():
    curator = open_curator(rules=rules())
    query = sampled()
    learner, reply = reply_to(curator, query)
    answer = answer_of(reply, query)
    assert answer.cells.shape == (20, 3)
    assert learner.session.spent == Fraction(1, 2)
    frame = answer.frame()
    assert frame.columns == ["age", "dose", "sex", "sick"]
    assert frame["dose"].null_count() == 20
    assert set(frame["age"]) <= set(np.arange(22.5, 90, 9))
    assert set(frame["sex"]) <= {"f", "m"}
    assert set(frame["sick"]) <= {"no", "yes"}
    assert len(encode_frame(frame, SCHEMA)) == 20


def test_a_sample_of_version_2_is_charged_where_its_rounds_end():
    query = sampled(2, Fraction(1), rounds=1, version=2)
    learner, reply = reply_to(open_curator(rules=rules()), query)
    assert answer_of(reply, query).cells.shape == (2, 3)
    assert learner.session.spent == QUERY_KINDS["sample"].integral(query) == 2 * Fraction(189, 256)


def test_answers_of_several_curators_are_put_together():
    query = sampled(3, axes=AXES[:1])
    answers = [answer_of(reply_to(open_curator(rules=rules()), query)[1], query) for _ in range(2)]
    joined_answers = put_together(answers)
    assert joined_answers.sites == 2
    assert joined_answers.cells.tolist() == [*answers[0].cells.tolist(), *answers[1].cells.tolist()]


NOTHING = [("p1", None, None, None, "no")]
BEYOND = [("p1", 1e300, 99.0, "zz", "yes"), ("p2", -1e300, None, "f", "yes")]


@pytest.mark.parametrize("rows", [NOTHING, BEYOND, ROWS, ROWS[:1] * 9], ids=["missing", "beyond", "some", "alike"])
@pytest.mark.parametrize("learner", ["naive_bayes", "network"])
def test_records_never_refuse(rows, learner):
    query = sampled(5, learner=learner, epochs=3)
    session, reply = reply_to(open_curator(rules=rules(), records=dataset(rows)), query)
    assert answer_of(reply, query).cells.shape == (5, 3)
    assert len(reply.body) == len(encode(SampleRelease(bytes(2 * 5 * 3))))
    assert session.session.spent == Fraction(1, 8)


def test_records_outside_the_support_count_at_its_bounds():
    """Missing ones, and those of no declared level, are left out."""
    rows = [
        ("p", age, 1.0, sex, "yes") for age, sex in [(90.0, "f"), (89.9, "m"), (18.0, "m"), (-1e9, "f"), (1e9, "f")]
    ]
    missing = [("p", None, 1.0, "f", "no"), ("p", 30.0, 1.0, None, "no"), ("p", 30.0, 1.0, "x", "no")]
    base = sampled().base_law(SCHEMA)
    cells = base.cells(points_of(dataset([*rows, *missing]), base))
    assert cells.tolist() == [[7, 0, 1], [7, 1, 1], [0, 1, 1], [0, 0, 1], [7, 0, 1]]


LAWFUL = encode(sampled())
NAN = encode(math.nan)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda data: data.replace(encode("records") + encode(20), encode("records") + encode(0)), "malformed"),
        (lambda data: data.replace(encode("records") + encode(20), encode("records") + encode(-1)), "malformed"),
        (lambda data: data.replace(encode(50.0), NAN), "malformed"),
        (lambda data: data.replace(encode(20.0), NAN), "malformed"),
        (lambda data: data.replace(encode(90.0), encode(math.inf)), "malformed"),
        (lambda data: data.replace(encode(90.0), encode(1.0)), "malformed"),
        (lambda data: data.replace(encode("points") + encode(8), encode("points") + encode(1)), "malformed"),
        (lambda data: data.replace(encode("naive_bayes"), encode("memory")), "malformed"),
    ],
    ids=["k = 0", "k < 0", "centre", "deviation", "infinite", "upper < lower", "one point", "learner"],
)
def test_a_plan_that_no_density_has_is_not_read(change, code):
    assert change(LAWFUL) != LAWFUL
    with pytest.raises(RemoteProtocolError) as caught:
        decode(change(LAWFUL), PlannedSample)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("query", "code", "field"),
    [
        (sampled(epsilon=Fraction(33, 2)), "bad_plan", "epsilon"),
        (sampled(epsilon=Fraction(1, 2**16 + 1)), "bad_plan", "epsilon"),
        (sampled(axes=AXES[:1] * 2), "bad_plan", "axes"),
        (sampled(axes=(LevelAxis("age"),)), "bad_plan", "axes"),
        (sampled(axes=(NumberAxis("sick", 0, 1, 2),)), "bad_plan", "axes"),
        (sampled(axes=(LevelAxis("nobody's"),)), "bad_plan", "axes"),
        (sampled(records=51, epsilon=Fraction(1, 100)), "over_limit", "records"),
        (sampled(axes=(*AXES, NumberAxis("dose", 0, 1, 2))), "over_limit", "axes"),
        (sampled(records=50, epsilon=Fraction(1, 20)), "over_budget", ""),
    ],
)
def test_what_cannot_be_answered_is_refused_before_anything_is_reserved(query, code, field):
    store = MemoryStore()
    curator = open_curator(store, rules=rules())
    reply = FakeLearner(curator).propose(Plan.of([query]))
    assert isinstance(reply, Refusal)
    assert reply.code == code
    assert field in reply.field
    assert standing_of(curator._ledger.account, curator.policy).spent == "0"


def test_a_body_that_says_anything_is_refused_and_charged_nothing():
    learner, reply = reply_to(open_curator(rules=rules()), sampled(), body=mass_body())
    assert isinstance(reply, Refusal)
    assert learner.session.spent == 0


def test_what_was_spent_under_integral_privacy_is_exact_until_a_count():
    """Whatever bound c a unit has: only the count's own cost grows with it."""
    store, clock = MemoryStore(), Clock()
    curator = open_curator(store, rules=rules(), clock=clock, records=dataset(most=2))
    learner = FakeLearner(curator, clock=clock)
    learner.card()
    learner.propose(Plan.of([sampled(), sampled(1), planned(30)]))

    def standing():
        now = standing_of(curator._ledger.account, curator.policy)
        return now.spent, now.integral, now.learners["ann"].integral, now.learners["bob"].integral

    assert standing() == ("0", "0", "0", "0")
    learner.query(encode(SampleBody()), kind="sample")
    assert standing() == ("1/2", "1/2", "1/2", "0")
    learner.query(encode(SampleBody()), kind="sample")
    assert standing() == ("21/40", "21/40", "21/40", "0")
    learner.query(mass_body(), kind="counts")
    assert standing() == ("71/120", "infinite", "infinite", "0")
    again = standing_of(ledger_over(store).account, curator.policy)
    assert (again.integral, again.learners["bob"].integral) == ("infinite", "0")


def test_a_kind_that_is_not_installed_is_infinite():
    store = MemoryStore()
    curator = open_curator(store, rules=rules())
    reply_to(curator, sampled())
    account = curator._ledger.account
    assert standing_of(account, curator.policy).integral == "1/2"
    fewer_kinds = type(QUERY_KINDS)(QUERY_KINDS["counts"])
    assert standing_of(account, curator.policy, fewer_kinds).integral == "infinite"


def test_a_release_of_another_shape_is_no_answer():
    query = sampled(2)
    for cells in (b"", bytes(11), bytes(13), bytes([8, *bytes(11)]), bytes([0, 0, 2, *bytes(9)])):
        with pytest.raises(RemoteProtocolError):
            read(encode(SampleRelease(cells)), Question(Turn(query), SampleBody(), SCHEMA))
    assert (
        read(encode(SampleRelease(bytes(12))), Question(Turn(query), SampleBody(), SCHEMA)).cells.tolist()
        == [[0] * 3] * 2
    )


@settings(max_examples=12, deadline=None)
@given(sample_queries_of(SCHEMA))
def test_every_lawful_query_is_answered_alike_whatever_the_records(asked_for):
    query, body = asked_for
    seen = []
    for rows in (NOTHING, BEYOND, ROWS):
        samples_only = policy(cap=2, limits=Limits(kinds={"sample": {}}))
        learner = opened(open_curator(rules=samples_only, records=dataset(rows)), plan=Plan.of([query]))
        reply = learner.query(body, kind="sample")
        assert answer_of(reply, query).cells.shape == (query.records, len(query.axes))
        seen.append((len(reply.body), learner.session.spent))
    assert seen == [(len(reply.body), query.records * query.cost_of_one)] * 3


# --- Draws from a mollifier are exact, and what is learnt cannot fail; privacy by enumeration, from the definition.

FALSE_ALARM = 1e-9
EPSILONS = [Fraction(1), Fraction(1, 30), Fraction(7, 3), Fraction(16), Fraction(2**20 - 1, 2**16)]
THREE_AXES = Schema((NumericAttribute("x", -4, 4), CategoricalAttribute("s", ("a", "b", "c"))), "y", ("no", "yes"))
TABLE = BaseLaw.of((NumberAxis("x", -2, 2, 4), LevelAxis("s"), LevelAxis("y")), THREE_AXES)
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
        retained = keep(steps, epsilon, RandomWords(stream(epsilon)))
        for step in np.unique(steps):
            chance = math.exp(float(epsilon) / 4 * (step / MOST_STEPS - 1))
            count = int(retained[steps == step].sum())
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


@given(st.fractions(Fraction(1, 1000), 16, max_denominator=2**16), st.integers(1, 20))
def test_a_reach_is_where_the_rounds_end_rounded_up(epsilon, rounds):
    """In floats here. It is never more than epsilon / 4, nor more by one of 256 parts than it need be."""
    query = sampled(1, epsilon, rounds=rounds, version=2)
    end = 4 * math.log(2) * sum(theta(epsilon, number) for number in range(1, rounds + 1))
    assert end * (1 - 1e-12) <= query.cost_of_one <= epsilon
    assert query.cost_of_one <= end * (1 + 1e-8) + epsilon / 256
    assert sampled(1, epsilon, rounds=rounds).cost_of_one == epsilon
    # no clipping changes an exponent, so the law is that of version 1
    extreme = (Scores((math.inf, -math.inf, 0.3)),) * rounds
    cells = np.arange(3)[:, None]
    free, held = (Density(LINE, epsilon, extreme, reach=reach).steps_of(cells) for reach in (MOST_STEPS, query.reach))
    assert free.tolist() == held.tolist()


@pytest.mark.parametrize("rounds", [1, 3])
def test_exponents_beyond_what_is_charged_are_clipped_where_they_are_drawn(rounds, monkeypatch):
    """A classifier that breaks its bound is charged no less than it tells: not by exp(16) where 6.1 are paid."""
    query = sampled(1, Fraction(16), rounds=rounds, version=2)
    assert query.cost_of_one == {1: Fraction(19, 8), 3: Fraction(49, 8)}[rounds]
    seen = {}

    def noted(steps, epsilon, source):
        seen.update(zip(exponents.tolist(), steps.tolist(), strict=True))
        return np.ones(len(steps), bool)

    monkeypatch.setattr(learning, "keep", noted)
    exponents = np.array([-(10**9), -MOST_STEPS, -1, 0, 1, MOST_STEPS, 10**9])
    monkeypatch.setattr(learning, "most_tried", lambda count, epsilon: len(exponents))
    draw_cells(LINE, lambda cells: exponents, Fraction(16), 7, stream("beyond"), query.reach)
    weights = np.array([1, 10**9, 3])
    unit = 16 / (4 * MOST_STEPS)
    laws = []
    for steps in itertools.product(sorted(set(seen.values())), repeat=3):
        chances = np.exp((np.array(steps) - MOST_STEPS) * unit)
        assert chances.max() <= 1
        assert chances.min() >= math.exp(-query.cost_of_one / 2) * (1 - 1e-12)
        laws.append(weights * chances / (weights @ chances))
    worst = max(float((one / other).max()) for one, other in itertools.product(laws, laws))
    assert 0.999 * query.cost_of_one < math.log(worst) <= query.cost_of_one + 1e-9


@pytest.mark.parametrize("reach", [MOST_STEPS, MOST_STEPS * 3 // 8])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(5)])
def test_draws_have_the_law_that_is_told(epsilon, reach):
    """Power: that the base law is drawn instead is missed with a chance below 1e-9."""
    density = Density(LINE, epsilon, (Scores(np.linspace(-2, 2, 50)), Scores(np.arange(50) % 2)), reach)
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
    retained = keep(np.full(most_tried(10_000, epsilon), -MOST_STEPS), epsilon, RandomWords(stream("worst")))
    assert 9_700 < retained.sum() < 10_900
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
