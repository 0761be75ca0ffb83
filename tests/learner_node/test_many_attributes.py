"""Attributes chosen first: when, at what cost, how, and what is said where none are."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from lab.wide import private, wide_split
from learner_fakes import NoNoise, federate, open_curator, ring, steward
from learner_node.kinds import READERS
from learner_node.kinds.statistic import StatisticAnswer
from learner_node.models.source import affordable_cells, standardising_map
from learner_node.questions.quote import Target, many_attributes, quote
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem, Willing
from learner_node.strategies.selected import (
    MANY,
    MOST_CHOSEN,
    balanced,
    by_votes,
    candidates_of,
    choice_of,
    restricted,
    why_not_chosen,
    willing,
)
from learner_node.study.budget import Budget
from learner_node.study.cards import complaint_about_question
from learner_node.study.learn import learn
from learner_node.study.pooling import SecurePool
from learner_node.study.study import Study
from limits_told import limits_with
from margins import surely_above
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.kinds.statistic import PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import Selection
from protocol.kinds.statistics.methods import Features
from protocol.limits import ASSUMED_ROUND_SIZE, Limits
from protocol.partitions import NearestCentre
from protocol.query_kind import Question, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute

ATTRIBUTES = (
    NumericAttribute("x", -2, 2),
    NumericAttribute("y", -2, 2),
    NumericAttribute("noise", 0, 1),
    CategoricalAttribute("letter", ("a", "b")),
)


def letters(count, seed):
    """A label that is told by x and y alone."""
    rng = np.random.default_rng(seed)
    return ring(count, seed=seed).with_columns(
        noise=rng.random(count), letter=pl.Series(np.where(rng.random(count) < 0.5, "a", "b"))
    )


def problem_of(source, **changes):
    """One that costs epsilon 1, unless it is changed."""
    stated = {"epsilon": Fraction(1), "sites": 1, "target_size": 500, "most_records_per_unit": 1, "seed": 0}
    return Problem(source, **stated | changes)


def lettered_problem(**changes):
    return problem_of(encode_frame(letters(80, 3), steward(attributes=ATTRIBUTES).schema), **changes)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(7, 10), Fraction(1, 1000)])
@pytest.mark.parametrize("most", [1, 6])
@pytest.mark.parametrize("options", [{}, {"features": 2, "share": "1/3", "weights": [1, 3], "networks": False}])
def test_a_plan_of_selected_cells_costs_exactly_epsilon(options, most, epsilon):
    asked = lettered_problem(epsilon=epsilon, most_records_per_unit=most)
    plan = make_strategy("selected-cells", options).plan(asked)
    assert [head.kind for head in plan.heads] == ["statistic", "counts"]
    assert QUERY_KINDS.plan_cost(plan, most) == epsilon


def test_candidates_are_quarters_and_levels():
    bins = candidates_of(lettered_problem().source)
    assert [each.attribute for each in bins] == [each.name for each in ATTRIBUTES]
    assert [len(each.edges) for each in bins] == [3, 3, 3, 0]
    kept = restricted(lettered_problem().source, {"letter", "y"})
    assert [each.name for each in kept.schema.attributes] == ["y", "letter"]
    assert np.array_equal(kept.numeric[:, 0], lettered_problem().source.column("y"))


@pytest.mark.parametrize(
    "options", [{"features": 0}, {"share": 0}, {"weights": [1]}, {"weights": [1, 0]}, {"weights": "11"}]
)
def test_wrong_options_are_told(options):
    with pytest.raises(ConfigurationError):
        make_strategy("selected-cells", options)


@pytest.mark.parametrize(
    ("records", "card", "strategy", "options", "chosen"),
    [
        (letters, ATTRIBUTES, "selected-cells", {"features": 2}, {"x", "y"}),
        pytest.param(
            lambda rows, seed: frame(rows, 90, seed), 90, "cells", {"chosen": 2}, {"a0", "a1"}, marks=pytest.mark.slow
        ),
    ],
)
def test_without_noise_the_telling_attributes_are_chosen_and_cells_are_of_those_alone(
    records, card, strategy, options, chosen
):
    card = attributes(card) if isinstance(card, int) else card
    limits = limits_with(query_kinds=("counts", "statistic"))
    curators = {
        name: open_curator(name, records(900, seed), noise=NoNoise(), limits=limits, attributes=card, round_size=900)
        for name, seed in (("basel", 1), ("bern", 2))
    }
    source, options = records(300, 3).drop("sick"), {**options, "networks": False}
    learned = learn(federate(curators), source, Budget(1), strategy=strategy, options=options)
    assert learned.study.spent("basel") == learned.epsilon_claimed == 1
    body = learned.study.rounds[-1].bodies["basel"]
    assert isinstance(body, CountsBody)
    (cells,) = body.partitions
    assert {feature.attribute for feature in cells.features.features} == chosen
    test = records(500, 4)
    said = learned.model().probability(encode_frame(test, learned.schema)) > 0.5
    right = said == (test["sick"] == "yes").to_numpy()
    assert surely_above(right, 0.5 * (1 + (test["sick"] == "no").mean()))  # half of what the majority leaves, and more


def test_curators_that_do_not_allow_it_are_left_out():
    curators = {"basel": open_curator("basel", letters(200, 1), attributes=ATTRIBUTES)}
    with pytest.raises(ConfigurationError, match="does not allow this kind"):
        learn(federate(curators), letters(60, 3).drop("sick"), Budget(1), strategy="selected-cells")


def test_nothing_is_estimated_before_an_answer():
    with pytest.raises(RuntimeError, match="not every question was answered"):
        Conversation(make_strategy("selected-cells", {}), lettered_problem()).estimate  # noqa: B018


READY = Willing(selects=True)
FALSE_ALARM = 1e-9


def attributes(count):
    return tuple(NumericAttribute(f"a{index}", -8, 8) for index in range(count))


def frame(rows, count, seed=0, telling=2):
    """Noise, and a label that the first columns tell."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, count))
    sick = values[:, :telling].sum(axis=1) + 0.3 * rng.standard_normal(rows) > 0
    told = pl.DataFrame(values, schema=[f"a{index}" for index in range(count)])
    return told.with_columns(sick=pl.Series(np.where(sick, "yes", "no")))


def problem(count=MANY, rows=60, label=None, **changes):
    schema = steward(attributes=attributes(count), **(label or {})).schema
    source = encode_frame(frame(rows, count).drop("sick"), schema)
    return problem_of(source, **{"sites": 2, "target_size": 4000, "willing": READY} | changes)


def kinds(plan):
    return [head.kind for head in plan.heads]


# When.


@pytest.mark.parametrize("count", [2, 13, 21, 25, 27, 30, 60, MANY - 1])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3)])
def test_few_attributes_leave_the_plan_and_the_question_as_they_were(count, epsilon):
    """Of the ten data sets of docs/results/learning the widest has 30, readmission 25, SUPPORT2 27."""
    asked = problem(count, epsilon=epsilon, target_size=100_000)
    default, none = make_strategy("cells", {}), make_strategy("cells", {"chosen": 0})
    assert kinds(default.plan(asked)) == ["counts"]
    assert default.plan(asked) == none.plan(asked)
    assert Conversation(default, asked).body == Conversation(none, asked).body


UNCHOSEN = {
    "nobody chooses": {"willing": Willing(selects=False)},
    "too much work": {"willing": Willing(work=10_000.0, selects=True)},
    "too few records": {"target_size": 60},
    "too little epsilon": {"epsilon": Fraction(1, 1000)},
    "a number": {"label": {"classes": (), "label_bounds": (0, 1)}},
}


@pytest.mark.parametrize("name", UNCHOSEN)
def test_nothing_is_chosen_where_that_is_refused_or_drowned(name):
    asked = problem(**UNCHOSEN[name])
    assert choice_of(asked) is None
    assert set(kinds(make_strategy("cells", {}).plan(asked))) == {"counts"}


@pytest.mark.parametrize("name", list(UNCHOSEN)[:-1])
def test_what_to_change_is_said_and_leads_out(name):
    asked = problem(**UNCHOSEN[name])
    remedy = {"nobody chooses": "statistic = ", "too much work": "declare round_size"}.get(name, "too few for it")
    assert remedy in why_not_chosen(asked)
    assert f"{MANY} attributes vary" in why_not_chosen(asked)
    assert why_not_chosen(problem()) == why_not_chosen(problem(30, **UNCHOSEN[name])) == ""


def test_attributes_that_are_constant_in_the_source_do_not_count():
    schema = steward(attributes=attributes(MANY)).schema
    source = encode_frame(frame(60, MANY).drop("sick").with_columns(a5=pl.lit(1.0)), schema)
    assert choice_of(Problem(source, Fraction(1), 2, 4000, 1, 0, willing=READY)) is None


def test_fewer_are_chosen_where_noise_is_more_and_a_user_may_say_how_many():
    chosen = [choice_of(problem(target_size=size)).chosen for size in (1000, 2000, 4000, 10**6)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1] == MOST_CHOSEN
    assert choice_of(problem(30), 3).chosen == 3
    assert choice_of(problem(), 0) is None
    with pytest.raises(ConfigurationError, match="chosen must be a whole number"):
        make_strategy("cells", {"chosen": -1})
    with pytest.raises(ConfigurationError, match="leave 'chosen' out"):
        make_strategy("cells", {"chosen": 2}).plan(problem(**UNCHOSEN["a number"]))


def test_what_curators_take_on_is_read_off_limits_and_sizes():
    chooses = Limits(kinds={"counts": {}, "statistic": {"methods": ["features"]}})
    others = Limits(kinds={"counts": {}, "statistic": {"methods": ["exponential"]}})
    assert willing([(chooses, 2000), (chooses, None)]).selects
    assert not willing([(chooses, 2000), (others, 2000)]).selects
    assert not willing([(chooses, 2000), (Limits(), 2000)]).selects
    assumed = Limits().multiply_adds / ASSUMED_ROUND_SIZE
    assert willing([(chooses, 2000), (chooses, None)]).work == assumed
    # One that takes on next to nothing does not make the others' question coarse.
    tight = Limits(multiply_adds=1)
    assert willing([(chooses, None), (chooses, None), (tight, None)]).work == assumed


# At what cost.


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(7, 10), Fraction(3, 10)])
@pytest.mark.parametrize("most", [1, 6])
@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_a_plan_costs_exactly_epsilon(epsilon, most, classes):
    asked = problem(label={"classes": classes}, epsilon=epsilon, most_records_per_unit=most, target_size=100_000)
    plan = make_strategy("cells", {}).plan(asked)
    assert kinds(plan) == ["counts", "statistic", "counts"]
    assert QUERY_KINDS.plan_cost(plan, most) == epsilon
    costs = QUERY_KINDS.costs(plan, most)
    assert [cost / epsilon for cost in costs] == [Fraction(1, 20), Fraction(1, 2), Fraction(9, 20)]


def test_counts_are_summed_securely_and_choices_are_made_apart():
    pool = SecurePool.of([bytes([number]) * 32 for number in range(4)], colluders=1, dropouts=0)
    asked = problem(sites=4, pool=pool, target_size=8000)
    plan = make_strategy("cells", {}).plan(asked)
    assert kinds(plan) == ["secure_counts", "statistic", "secure_counts"]
    assert QUERY_KINDS.plan_cost(plan, 1) == 1


# How.


def test_weights_let_every_class_count_alike():
    assert balanced(np.array([500.0, 500.0]), 1.0) == (100, 100)
    assert balanced(np.array([900.0, 100.0]), 1.0) == (11, 100)
    assert balanced(np.array([1e6, 10.0, -30.0]), 9.0)[1:] == (30, 100)
    assert min(balanced(np.array([1e9, -5.0]), 4.0)) == 1


def test_candidates_of_most_curators_come_first_and_of_equals_the_earlier_chosen():
    numbers = np.array([[[4, 1, 7]], [[9, 7, 2]]])
    assert by_votes(StatisticAnswer(Features(3, 1, Rational(1, 1)), (), numbers)) == [7, 4, 9, 1, 2]


@pytest.mark.slow
def test_a_rehearsed_choice_has_the_law_of_the_real_one():
    """Each index's share over 1,000 draws; false alarm 1e-9, a scale twice as large is told surely."""
    source = problem(4, rows=40).source
    tally = np.column_stack([np.arange(40) % 3, (source.column("a0") > 0) * 4]).astype(np.int64)
    body = StatisticBody((Selection(candidates_of(source), (1, 2)),))
    method, rng = Features(1, 2, Rational(9, 1)), np.random.default_rng(5)
    turn = Turn(PlannedStatistic(method=method), 0, 0)
    drawn = [READERS["statistic"].rehearse(body, turn, source, tally, 1, rng).numbers[0, 0, 0] for _ in range(1000)]
    scores = []
    for partition in candidates_of(source):
        cells = partition.cells(source)
        counted = [[tally[cells == cell, label].sum() for label in (0, 1)] for cell in np.unique(cells)]
        scores.append(int((np.array(counted) * (1, 2)).max(axis=1).sum()))
    for scale, fits in ((9, True), (18, False)):
        chances = Features(1, 2, Rational(scale, 1)).law.chances(np.array(scores))
        values = [binomtest(drawn.count(at), 1000, chance).pvalue for at, chance in enumerate(chances)]
        assert (min(values) > FALSE_ALARM / len(values)) == fits


@pytest.mark.slow
def test_ten_of_two_hundred_are_found_and_without_a_choice_they_are_lost():
    """At epsilon 1 with 2,000 records a site. The noise takes at most .05 of .85 from a choice, and .2 without one."""
    split = wide_split("low variance", 200, 2, 2000, 6)
    chosen, none = (
        roc_auc_score(split.test_labels, private(split, way, Fraction(1)))
        for way in ("without networks", "without networks, none chosen")
    )
    assert chosen > none + 0.1


# What a question takes.


@pytest.mark.parametrize("width", [1, 30, 200])
@pytest.mark.parametrize("work", [2_000.0, 50_000.0, 1e9])
def test_as_many_cells_are_asked_as_curators_find_the_nearest_of(width, work):
    features = standardising_map(problem(width).source)
    cells = affordable_cells(features, work)
    needed = NearestCentre(features, bytes(4 * features.width * cells)).multiply_adds()
    another = NearestCentre(features, bytes(4 * features.width * (cells + 1))).multiply_adds()
    assert cells == 1 or needed <= work
    assert cells == 1024 or another > 0.9 * work


@pytest.mark.slow
def test_curators_that_declare_no_size_are_asked_what_they_take_on():
    """As 4,000 rows of 200 columns were refused for 57290572000 multiply-adds."""
    asked = problem(200, rows=1500, target_size=4000, willing=willing([(Limits(), None)]))
    strategy = make_strategy("cells", {})
    turn = QUERY_KINDS.turns(strategy.plan(asked))[0]
    work = QUERY_KINDS.kind("counts").work(
        Question(turn, Conversation(strategy, asked).body, asked.source.schema), None
    )
    assert work <= Limits().multiply_adds


def test_a_refusal_says_what_size_to_declare_and_that_leads_out():
    source = problem(50, rows=60).source
    features = standardising_map(source)
    body = CountsBody((NearestCentre.of(features, np.zeros((1500, features.width))),), None)
    turn = Turn(PlannedCounts(release="mass", partitions=1, scale=Rational(1, 1)), 0, 0)

    def complaint(size):
        curators = {"basel": open_curator("basel", frame(60, 50), attributes=attributes(50), round_size=size)}
        return complaint_about_question(body, turn, Study(federate(curators)).read_cards()["basel"], QUERY_KINDS)

    text = complaint(None)
    most = int(text.split("up to ")[1].split(":")[0].replace(",", ""))
    assert "declares none, so 1,000,000 records are assumed" in text
    assert complaint(most) == ""
    assert "raise limits.multiply_adds" in complaint(most + 1)


# What is said before.


@pytest.mark.slow
def test_a_quote_rehearses_the_choice_beside_none():
    asked = problem(MANY, rows=80)
    rows = quote(asked.source, Target(2, size=4000, willing=READY), epsilons=[Fraction(1)], problems=3)
    assert [(row.chosen, row.usual) for row in rows] == [(MOST_CHOSEN, True), (0, False)]
    assert [row.cost for row in rows] == [1, 1]
    assert rows[0].split == (Fraction(1, 20), Fraction(1, 2), Fraction(9, 20))
    told = " ".join(many_attributes(asked, "cells", {}))
    assert f"chooses {MOST_CHOSEN} attributes at 1/2 of epsilon" in told
    assert many_attributes(problem(30), "cells", {}) == []


@pytest.mark.slow
def test_a_quote_shows_what_allowing_it_would_bring():
    asked = problem(MANY, rows=80, willing=Willing())
    rows = quote(asked.source, Target(2, size=4000), epsilons=[Fraction(1)], problems=3)
    assert {row.chosen for row in rows} == {0, MOST_CHOSEN}
    assert [row.chosen for row in rows if row.usual] == [0]
    assert "have the stewards allow it" in " ".join(many_attributes(asked, "cells", {}))
