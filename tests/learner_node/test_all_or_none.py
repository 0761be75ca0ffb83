"""A study for all curators or none: one that refuses, falls silent or waits costs nobody anything."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_node.ledger import StudyKey
from learner_fakes import (
    LEARNER,
    NOW,
    Clock,
    EndsAt,
    Entropy,
    PowerFailure,
    Scripted,
    account,
    federate,
    garbage_from,
    halts_at,
    journalled,
    key,
    late,
    mass_body,
    plan_of,
    quotes,
    ring,
    silent_from,
    three,
)
from learner_node.carriers.journal import Journal, Settings
from learner_node.carriers.waiting import WaitingCarrier
from learner_node.questions.selection import select
from learner_node.questions.validation import validate
from learner_node.study.budget import Budget
from learner_node.study.federation import UnfinishedError
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from learner_node.study.study import NoCuratorError, Study
from limits_told import limits_with
from protocol.envelopes import open_envelope
from protocol.hypotheses import Constant
from protocol.messages import Query, StudyClose, StudyProposal
from protocol.transcript import replay
from protocol.transitions import State
from secure_fakes import members

NAMES = ("basel", "bern", "chur")
SOURCE = ring(60, seed=9).drop("sick")
COST = Fraction(1, 5)
PLAN = plan_of(10, 10)
FAST = {"strategy": "cells", "options": {"networks": False, "cells": 6}, "budget": Budget(1)}
DAY = 86_400


def adopt(curator, **changes):
    """Its steward changes the policy after the card was made."""
    curator.adopt(msgspec.structs.replace(curator.policy, **changes))


def poor(curator):
    """Its cap over all learners is too low; its card, which tells of the learner's own, does not show it."""
    adopt(curator, cap="1/100")


def decide(curator, *, approve=True):
    """Its steward's word about all that waits."""
    ledger, now = curator._ledger, curator._clock()
    for held in ledger.store.pending(now):
        study = StudyKey(held.learner, open_envelope(held.envelope)[1].study)
        ledger.decide_on(study, held.request, now, approve=approve, cost=COST, until=now + 10 * DAY)


def run(federation, bodies=2):
    """A whole study at the level of `Study`."""
    study = Study(federation)
    names = list(study.read_cards())
    with study.closing():
        study.propose(PLAN, "to test", names)
        for edge in range(bodies):
            study.ask(dict.fromkeys(study.survivors, mass_body(float(edge))))
    return study


def spent(curators, before):
    return {name: account(curator).total_spent - before[name] for name, curator in curators.items()}


def assert_cost_nothing(curators, before, carrier=None):
    """By the ledgers: nothing charged, nothing set aside; and no question left the learner."""
    for name, curator in curators.items():
        assert account(curator).total_spent == before[name]
        assert account(curator).total_reserved == 0
        assert all(not study.spent for study in account(curator).studies.values())
    if carrier is not None:
        assert not any(what == Query.__name__ for _, what, _ in carrier.sent)


WAYS = {
    "over budget": (poor, None, "the plan costs more than is left"),
    "kind withdrawn": (
        lambda curator: adopt(curator, limits=limits_with(release_kinds=("class_counts",))),
        None,
        "it would refuse this study",
    ),
    "silent": (None, silent_from(0), "no reply"),
    "without a card": (None, silent_from(-1), "no reply"),
    "rubbish": (None, garbage_from(0), "broke the protocol"),
    "another price": (None, quotes("{name}", "1/2"), "broke the protocol"),
    "halted": (None, "halts", "stopped until its steward acts"),
    "awaiting its steward": (
        lambda curator: adopt(curator, approval="manual"),
        None,
        "waits for this curator's steward",
    ),
    "unenrolled": (lambda curator: adopt(curator, learners=()), None, "may not ask here"),
}


@pytest.fixture
def curators(clock):
    return three(clock=clock)


@pytest.mark.parametrize(("way", "place"), list(product(WAYS, NAMES)))
def test_one_that_does_not_accept_costs_nobody_anything_wherever_it_stands(way, place, curators):
    prepare, script, reason = WAYS[way]
    if prepare:
        prepare(curators[place])
    if way == "another price":
        script = quotes(place, "1/2")
    if script == "halts":
        script = halts_at(curators[place], 0)
    before = {name: account(curator).total_spent for name, curator in curators.items()}
    federation = federate(curators, {place: script} if script else None, all_or_none=True)
    with pytest.raises(NoCuratorError, match="for all curators or none") as caught:
        learn(federation, SOURCE, **FAST)
    assert reason in caught.value.study.fate(place)
    assert f"{place}: {caught.value.study.fate(place)}" in str(caught.value)
    assert_cost_nothing(curators, before, federation.carrier)
    assert all(caught.value.study.spent_at_most(name) == 0 for name in NAMES)


def test_without_it_the_others_pay_which_is_what_this_is_for(curators):
    poor(curators["bern"])
    before = {name: account(curator).total_spent for name, curator in curators.items()}
    learn(federate(curators), SOURCE, **FAST)
    assert spent(curators, before) == {"basel": 1, "bern": 0, "chur": 1}


@pytest.mark.parametrize("place", NAMES)
def test_what_was_opened_is_closed_before_anything_else_is_tried(place, curators):
    """A silent curator is asked once more whether it accepted, but nobody's budget waits for that."""
    federation = federate(curators, {place: silent_from(0)}, all_or_none=True)
    with pytest.raises(NoCuratorError):
        run(federation)
    sent = [(name, what) for name, what, _ in federation.carrier.sent]
    first_close = sent.index(next(each for each in sent if each[1] == StudyClose.__name__))
    last_proposal = max(number for number, each in enumerate(sent) if each == (place, StudyProposal.__name__))
    assert first_close < last_proposal
    assert {name for name, what in sent if what == StudyClose.__name__} == set(NAMES) - {place}


@pytest.mark.parametrize("way", ["without a card", "kind withdrawn"])
def test_where_a_card_rules_one_out_nothing_is_proposed_to_anybody(way, curators):
    prepare, script, _ = WAYS[way]
    if prepare:
        prepare(curators["bern"])
    federation = federate(curators, {"bern": script} if script else None, all_or_none=True)
    with pytest.raises(NoCuratorError, match="not all can be asked: nothing was proposed"):
        learn(federation, SOURCE, **FAST)
    assert {what for _, what, _ in federation.carrier.sent} == {"CardRequest"}


@pytest.fixture
def clock():
    return Clock()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_proposal_that_came_too_late_is_made_anew_unless_another_has_refused(refuses, curators, clock):
    def on_its_way_too_long(message, data, handle):
        clock.now += 10_000 if isinstance(message, StudyProposal) and clock.now == NOW else 0
        return handle(data)

    federation = replace(federate(curators, {"chur": on_its_way_too_long}, all_or_none=True), clock=clock)
    if refuses:
        poor(curators["bern"])
        with pytest.raises(NoCuratorError, match="bern: the plan costs more than is left"):
            run(federation)
        assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), federation.carrier)
    else:
        assert run(federation).survivors == list(NAMES)
    assert len(federation.carrier.bytes_sent("chur", StudyProposal.__name__)) == (1 if refuses else 2)


def test_an_acceptance_that_was_lost_is_looked_for_and_closed_too(curators):
    federation = federate(curators, {"chur": late(times=2)}, all_or_none=True)
    with pytest.raises(NoCuratorError, match="chur: no reply"):
        run(federation)
    assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), federation.carrier)
    for curator in curators.values():
        assert [study.state for study in account(curator).studies.values()] == [State.CLOSED]


def test_where_all_accept_it_is_a_study_as_any_other():
    curators, plain = three(), three()
    federation = federate(curators, all_or_none=True)
    study, other = run(federation), run(federate(plain))
    assert study.survivors == list(NAMES)
    assert spent(curators, dict.fromkeys(NAMES, 0)) == dict.fromkeys(NAMES, COST)
    assert [done.answers["chur"].body for done in study.rounds] == [done.answers["chur"].body for done in other.rounds]
    assert [what for _, what, _ in federation.carrier.sent] == [what for _, what, _ in other._federation.carrier.sent]


def test_nothing_is_asked_before_the_last_has_accepted(curators):
    federation = federate(curators, {"chur": late()}, all_or_none=True)
    run(federation)
    sent = [(name, what) for name, what, _ in federation.carrier.sent]
    first = next(number for number, (_, what) in enumerate(sent) if what == Query.__name__)
    assert max(number for number, (_, what) in enumerate(sent) if what == StudyProposal.__name__) < first


# --- any order of replies -----------------------------------------------------------------------------------

YES, NO, LATER, SILENT, RUBBISH = "yes", "no", "later", "silent", "rubbish"


class Says:
    """One curator's replies to proposals, in order; then what it says for ever. It is served where it says yes."""

    def __init__(self, curator, first, last):
        self.curator, self.left, self.last = curator, list(first), last
        self.settled = None

    def __call__(self, message, data, handle):
        if not isinstance(message, StudyProposal):
            return handle(data)
        said = self.settled or (self.left.pop(0) if self.left else self.last)
        if said in (YES, NO):
            self.settled = said
        if said == LATER:
            adopt(self.curator, approval="manual")
        elif said == YES:
            adopt(self.curator, approval="automatic")
        elif said == NO:
            adopt(self.curator, approval="automatic", cap="1/1000", least_cost="1/1000")
        elif said == SILENT:
            return None
        elif said == RUBBISH:
            return b"\x93rubbish"
        return handle(data)


replies = st.tuples(
    st.lists(st.sampled_from([LATER, SILENT, RUBBISH]), max_size=2), st.sampled_from([YES, YES, NO, LATER, SILENT])
)


@settings(max_examples=12, deadline=None)
@given(said=st.tuples(replies, replies, replies), attempts=st.integers(1, 3))
def test_in_whatever_order_curators_say_what_all_are_charged_or_none(said, attempts):
    curators = three()
    scripts = {name: Says(curators[name], *each) for name, each in zip(NAMES, said, strict=True)}
    federation = federate(curators, scripts, all_or_none=True, attempts=attempts)
    in_time = all(last == YES and len(first) < attempts for first, last in said)
    try:
        study = run(federation)
    except NoCuratorError as error:
        study = error.study
        assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), federation.carrier)
        assert not in_time
    else:
        assert in_time
        assert spent(curators, dict.fromkeys(NAMES, 0)) == dict.fromkeys(NAMES, COST)
    for name, curator in curators.items():
        assert account(curator).total_reserved == 0
        proof = replay(study.sessions[name].transcript.envelopes, curator.identity, key(LEARNER).public)
        assert proof.epsilon_spent == study.spent(name) == account(curator).total_spent


test_orders_at_length = at_length(test_in_whatever_order_curators_say_what_all_are_charged_or_none, 120)


# --- stewards that take their time --------------------------------------------------------------------------


class World:
    """Curators, a journal, and the processes that go on with one study."""

    def __init__(self, folder, curators, clock, **how):
        self.path, self.curators, self.clock, self.how = folder / "journal", curators, clock, how
        self.carrier, self.entropy = Scripted(curators), Entropy()

    def process(self, carrier=None, study=run, without=()):
        settings_ = Settings("0.2.0", bytes(32), {})
        names = {curator.identity: name for name, curator in self.curators.items()}
        with Journal(self.path, settings_, clock=self.clock, entropy=self.entropy) as journal:
            gone = [self.curators[name].identity for name in without]
            held = WaitingCarrier(carrier or self.carrier, names, all_or_none=True, without=gone)
            federation = journalled(journal, self.curators, held)
            return study(replace(federation, all_or_none=True, **self.how))


@pytest.fixture
def world(tmp_path, curators, clock):
    return World(tmp_path, curators, clock)


def test_a_steward_who_takes_days_is_waited_for_and_a_reservation_that_ended_meanwhile_is_made_anew(
    world, curators, clock
):
    adopt(curators["chur"], approval="manual")
    for _ in range(3):
        with pytest.raises(UnfinishedError, match="chur"):
            world.process()
        clock.now += DAY
    decide(curators["chur"])
    study = world.process()
    assert study.survivors == list(NAMES)
    assert spent(curators, dict.fromkeys(NAMES, 0)) == dict.fromkeys(NAMES, COST)
    assert {name: len(each) for name, each in study.retired.items()} == {"basel": 1, "bern": 1, "chur": 0}
    for name, curator in curators.items():
        assert account(curator).total_reserved == 0
        assert [study_.state for study_ in account(curator).studies.values()][-1] is State.CLOSED
        for session in study.retired[name]:
            assert replay(session.transcript.envelopes, curator.identity, key(LEARNER).public).epsilon_at_most == 0


def test_a_reservation_that_is_about_to_end_is_closed_and_made_anew(curators, clock):
    federation = replace(federate(curators, all_or_none=True), clock=clock)
    study = Study(federation)
    study.propose(PLAN, "to test", list(study.read_cards()))
    clock.now += DAY - 60
    study.ask(dict.fromkeys(NAMES, mass_body(0.0)))
    study.close()
    for curator in curators.values():
        assert [each.state for each in account(curator).studies.values()] == [State.CLOSED, State.CLOSED]
    assert spent(curators, dict.fromkeys(NAMES, 0)) == dict.fromkeys(NAMES, COST / 2)


def test_short_reservations_are_no_reason_to_propose_twice(curators, clock):
    for curator in curators.values():
        adopt(curator, reservation_seconds=60)
    study = run(replace(federate(curators, all_or_none=True), clock=clock))
    assert study.retired == {name: [] for name in NAMES}


def test_one_whose_reservation_ended_and_that_refuses_now_ends_the_study_for_all(world, curators, clock):
    adopt(curators["chur"], approval="manual")
    with pytest.raises(UnfinishedError):
        world.process()
    clock.now += 2 * DAY
    decide(curators["chur"])
    adopt(curators["bern"], cap="1/1000")
    with pytest.raises(NoCuratorError, match="bern: the plan costs more than is left"):
        world.process()
    assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), world.carrier)


@pytest.mark.parametrize("later", [60, 3 * DAY])
@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_learner_that_stops_before_the_first_question_goes_on_rightly(at, served, later, world, curators, clock):
    """At card, proposal or first question; a minute or days later: every curator is charged alike, once."""
    with pytest.raises(PowerFailure):
        world.process(EndsAt(world.carrier, at, served=served))
    clock.now += later
    if at == 3 and later > DAY:  # the question was on its way as the reservations ended
        with pytest.raises(NoCuratorError) as caught:
            world.process()
        study, charged = caught.value.study, COST / 2 if served else 0
    else:
        study, charged = world.process(), COST
    assert spent(curators, dict.fromkeys(NAMES, 0)) == dict.fromkeys(NAMES, charged)
    assert {name: study.spent(name) for name in NAMES} == dict.fromkeys(NAMES, charged)
    assert all(account(curator).total_reserved == 0 for curator in curators.values())


@pytest.mark.parametrize("place", ["bern", "chur"])
def test_once_one_has_refused_no_steward_is_waited_for(place, world, curators, clock):
    waiting = "bern" if place == "chur" else "chur"
    adopt(curators[place], cap="1/1000")
    adopt(curators[waiting], approval="manual")
    for _ in range(2):  # another process comes to the same end by the journal
        with pytest.raises(NoCuratorError) as caught:
            world.process()
        assert f"{place}: the plan costs more than is left" in str(caught.value)
        assert f"{waiting}: the proposal waits for this curator's steward" in str(caught.value)
    assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), world.carrier)
    decide(curators[waiting])  # later, and in vain: nobody sends the proposal again
    assert account(curators[waiting]).total_reserved == 0


def test_a_steward_s_no_ends_it_for_all(world, curators, clock):
    for name in ("bern", "chur"):
        adopt(curators[name], approval="manual")
    with pytest.raises(UnfinishedError, match=r"bern.*chur"):
        world.process()
    decide(curators["bern"])
    with pytest.raises(UnfinishedError, match="chur"):
        world.process()
    assert account(curators["bern"]).total_reserved == COST
    decide(curators["chur"], approve=False)
    with pytest.raises(NoCuratorError, match=r"chur: .*declined"):
        world.process()
    assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), world.carrier)


def test_a_learner_who_gives_one_up_gives_all_up(world, curators, clock):
    adopt(curators["chur"], approval="manual")
    with pytest.raises(UnfinishedError):
        world.process()
    with pytest.raises(NoCuratorError, match="chur: the proposal waits"):
        world.process(without=["chur"])
    assert_cost_nothing(curators, dict.fromkeys(NAMES, 0), world.carrier)


# --- sums, validations, holdouts ----------------------------------------------------------------------------


def test_a_secure_sum_for_all_or_none_is_not_drafted_again_for_fewer():
    curators = members(4)
    federation = federate(curators, {"site 02": silent_from(0)}, all_or_none=True)
    with pytest.raises(NoCuratorError, match="site 02: no reply"):
        learn(federation, SOURCE, **{**FAST, "options": {"networks": False}}, pooling=Pooling("secure"))
    assert_cost_nothing(curators, dict.fromkeys(curators, 0), federation.carrier)
    assert len(federation.carrier.bytes_sent("site 00", StudyProposal.__name__)) == 1


def test_a_secure_sum_goes_on_in_sessions_made_anew(clock):
    curators = members(4, clock=clock)
    federation = replace(federate(curators, all_or_none=True, lifetime=600), clock=clock)
    asked = Study.ask

    def day_later(self, bodies):
        clock.now += DAY - 60
        return asked(self, bodies)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Study, "ask", day_later)
        learned = learn(federation, SOURCE, **{**FAST, "options": {"networks": False}}, pooling=Pooling("secure"))
    assert learned.study.survivors == list(curators)
    assert all(len(each) == 1 for each in learned.study.retired.values())


@pytest.mark.slow
def test_a_validation_is_for_all_or_none_too(curators):
    federation = federate(curators, all_or_none=True)
    learned = learn(federation, SOURCE, **FAST)
    adopt(curators["chur"], cap="1")
    federation.carrier.sent.clear()
    before = {name: account(curator).total_spent for name, curator in curators.items()}
    with pytest.raises(NoCuratorError, match="chur: the plan costs more than is left"):
        validate(federation, learned.final_model, Budget("1/4"), source=SOURCE)
    assert spent(curators, before) == dict.fromkeys(NAMES, 0)
    assert all(account(curator).total_reserved == 0 for curator in curators.values())


def test_a_holdout_is_for_all_or_none_too():
    curators = three(limits=limits_with(query_kinds=("counts", "holdout")))
    poor(curators["bern"])
    before = {name: account(curator).total_spent for name, curator in curators.items()}
    federation = federate(curators, all_or_none=True)
    candidates = {"yes": Constant(predicted=1), "no": Constant(predicted=0)}
    with pytest.raises(NoCuratorError, match="bern: the plan costs more than is left"):
        select(federation, candidates, Budget(1), source=SOURCE, expected={"yes": 0.5, "no": 0.5})
    assert_cost_nothing(curators, before, federation.carrier)
