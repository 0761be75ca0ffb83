"""What decides on a study: every (state, event) pair against a second list, and sequences of faults."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from at_length import walks_at_length
from learner_fakes import LEARNER, Clock, Entropy, NoNoise, account, key, mass_body, open_curator, plan_of
from learner_node.study.federation import LIFETIME, Federation
from learner_node.study.state import PARTS, WAITS, Event, Part, Wait, advance
from learner_node.study.study import NoCuratorError, Study
from protocol.envelopes import digest, open_envelope, seal
from protocol.errors import LocalProtocolError
from protocol.messages import Query, Refusal, StudyProposal
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.transitions import State

LAWFUL = """
new         card         ready
new         miss         out
new         exclusion    out
ready       card         ready
ready       proposal     proposed
ready       miss         out
ready       exclusion    out
proposed    acceptance   member
proposed    other_cost   out
proposed    renewal      new
proposed    miss         out
proposed    exclusion    out
member      query        member
member      renewal      new
member      miss         out
member      exclusion    out
out         acceptance   out
out         other_cost   out
out         miss         out
out         exclusion    out
idle        request      unanswered
unanswered  sending      unanswered
unanswered  bad_reply    broken
unanswered  deferral     deferred
unanswered  late_reply   late
unanswered  answer       idle
unanswered  end          idle
broken      sending      broken
broken      bad_reply    broken
broken      deferral     deferred
broken      late_reply   late
broken      answer       idle
broken      end          idle
deferred    sending      deferred
deferred    bad_reply    broken
deferred    deferral     deferred
deferred    late_reply   late
deferred    answer       idle
deferred    end          idle
late        request      unanswered
late        answer       idle
late        end          idle
"""
EXPECTED = {(state, event): after for state, event, after in map(str.split, LAWFUL.strip().splitlines())}
TABLES = {**dict.fromkeys(Part, PARTS), **dict.fromkeys(Wait, WAITS)}


def a_study(**options):
    """A study with two curators that answers come from, or not, as its relay says."""
    curators = {name: open_curator(name, noise=NoNoise(), clock=Clock()) for name in ("basel", "bern")}
    relay = Relay(curators)
    names = {name: curator.identity for name, curator in curators.items()}
    federation = Federation(names, key(LEARNER), relay, relay.clock, Entropy(), attempts=ATTEMPTS, **options)
    relay.study = Study(federation)
    return relay.study, relay


@pytest.mark.parametrize(("state", "event"), list(itertools.product(TABLES, Event)), ids=str)
def test_an_event_moves_a_curator_as_the_second_list_says_or_raises_and_changes_nothing(state, event):
    study, _ = a_study()
    table, states = TABLES[state], study.parts if state in PARTS else study.waits
    states["bern"] = state
    move = study.move if state in PARTS else study._wait
    if (state, event) in EXPECTED:
        assert advance(table, state, event) == EXPECTED[state, event]
        move("bern", event)
        assert states["bern"] == EXPECTED[state, event]
        return
    before = {name: dict(vars(study)[name]) for name in ("parts", "waits", "outcomes", "refusals", "sessions")}
    with pytest.raises(LocalProtocolError, match=f"{event} is not lawful for a curator that is {state}; lawful: "):
        move("bern", event)
    assert before == {name: vars(study)[name] for name in before}


def test_the_second_list_names_every_state_and_event():
    states, events = zip(*EXPECTED, strict=True)
    assert (set(states), set(events)) == ({*Part, *Wait}, set(Event))


PLAN, COST = plan_of(10, 5, 10), Fraction(4, 10)
ATTEMPTS = 3
FAULTS = ("honest", "honest", "request lost", "reply lost", "garbage", "deferral", "late there", "late here, too")
OVER = {State.NEW, State.REFUSED, State.CLOSED}


class Relay:
    """Carries envelopes with the faults it is told of, and looks at each as it passes."""

    def __init__(self, curators):
        self.curators = {curator.identity: (name, curator) for name, curator in curators.items()}
        self.clock = Clock()
        self.faults = {name: [] for name in curators}
        self.study = None
        self.closing = False
        self.bodies = {}
        self.late = Counter()
        self.sendings = Counter()

    def exchange(self, requests):
        replies = {}
        for identity, data in requests.items():
            name, curator = self.curators[identity]
            self.look_at(name, data)
            reply = self.carry(name, curator, data)
            if reply is not None:
                replies[identity] = reply
        return replies

    def look_at(self, name, data):
        """A curator that is out is asked nothing; what was not late is only ever sent again as it was."""
        message = open_envelope(data)[1]
        if not self.closing and isinstance(message, Query | StudyProposal):
            assert self.study.parts[name] is (Part.MEMBER if isinstance(message, Query) else Part.PROPOSED)
        place = (name, message.study, message.sequence, type(message))
        envelopes = self.bodies.setdefault(place, [])
        if data not in envelopes:
            assert len(envelopes) <= self.late[place], "only what was late is made anew"
            envelopes.append(data)
        self.sendings[data] += 1

    def carry(self, name, curator, data):
        fault = self.faults[name].pop(0) if self.faults[name] else "honest"
        message = open_envelope(data)[1]
        if fault == "deferral":
            return seal(self.refusal(message, data, name), key(name))
        if fault == "garbage":
            return b"\x93garbage"
        if fault == "request lost":
            return None
        self.clock.now += LIFETIME if fault == "late here, too" else 0
        curator._clock.now = message.expires_at if fault.startswith("late") else self.clock.now
        reply = curator.handle(data)
        code = getattr(open_envelope(reply)[1], "code", "")
        self.late[name, message.study, message.sequence, type(message)] += code == RefusalCode.EXPIRED
        return None if fault == "reply lost" else reply

    def refusal(self, message, data, name):
        code = RefusalCode.HALTED
        return Refusal(
            study=message.study,
            sender=key(name).public,
            recipient=message.sender,
            sequence=message.sequence,
            answers=digest(data),
            expires_at=message.expires_at,
            code=code,
            explanation=EXPLANATIONS[code],
            **dict.fromkeys(("field", "limit", "remaining", "scale_factor"), ""),
        )


class Sequences(RuleBasedStateMachine):
    """A study's steps in a lawful order, with any faults in between."""

    def __init__(self):
        super().__init__()
        self.study, self.relay = a_study()
        self.over = False

    def step(self, act):
        try:
            act()
        except NoCuratorError:
            self.over = True

    @rule(name=st.sampled_from(("basel", "bern")), faults=st.lists(st.sampled_from(FAULTS), max_size=5))
    def break_down(self, name, faults):
        self.relay.faults[name] = faults

    @precondition(lambda self: not self.over and not self.study.cards)
    @rule()
    def read_cards(self):
        self.step(self.study.read_cards)

    @precondition(lambda self: not self.over and self.study.plan is None and self.ready())
    @rule()
    def propose(self):
        self.step(lambda: self.study.propose(PLAN, "why", self.ready()))

    @precondition(
        lambda self: not self.over and self.study.survivors and self.study.turns_taken < len(self.study.turns)
    )
    @rule(everybody=st.booleans())
    def ask(self, everybody):
        names = self.study.sessions if everybody else self.study.survivors
        self.step(lambda: self.study.ask(dict.fromkeys(names, mass_body(0.0))))

    @precondition(lambda self: not self.over and self.study.survivors and not self.study.turns_taken)
    @rule()
    def withdraw(self):
        self.relay.closing = True
        self.study.withdraw()
        self.relay.closing = False
        self.study.plan = None

    @rule(name=st.sampled_from(("basel", "bern")))
    def leave_out(self, name):
        self.study.leave_out(name, "for a reason")

    def ready(self):
        return [name for name, part in self.study.parts.items() if part is Part.READY]

    @invariant()
    def nobody_is_asked_more_often_than_the_federation_says(self):
        # Once more as it closes, once before; and a request that others' lateness keeps the exchange going for.
        assert all(count <= ATTEMPTS + 2 + sum(self.relay.late.values()) for count in self.relay.sendings.values())

    @invariant()
    def who_takes_part_answered_everything_and_the_others_are_said(self):
        study = self.study
        for name, part in study.parts.items():
            if part is Part.MEMBER:
                assert all(name in answered.alive for answered in study.rounds)
                assert study.outcomes[name].count("release") == len(study.rounds)
            else:
                assert study.left_out[name] == study.fate(name) != ""
        assert set(study.waits.values()) == {Wait.IDLE}

    def teardown(self):
        self.relay.faults = {name: [] for name in self.relay.faults}
        self.relay.closing = True
        for _ in range(2):
            self.study.close()
        for name, curator in self.relay.curators.values():
            sessions = [self.study.sessions[name], *self.study.retired[name]]
            # A card that nobody asked about, a plan that was refused, or a study that was closed: nothing is left open.
            assert {session.state for session in sessions} <= OVER
            assert account(curator).total_reserved == 0
            assert account(curator).total_spent <= COST
            total = sum(session.spent for session in sessions)
            assert total == account(curator).total_spent == sum(session.spent_at_most for session in sessions)


Sequences.TestCase.settings = settings(max_examples=25, stateful_step_count=14, deadline=None)
TestSequences = Sequences.TestCase
TestSequencesAtLength = walks_at_length(Sequences, max_examples=400, stateful_step_count=20)


@pytest.mark.parametrize("here", [False, True])
def test_a_request_that_came_late_and_has_no_reply_when_made_anew_is_one_without_a_reply(here):
    study, relay = a_study()
    study.read_cards()
    study.propose(PLAN, "why", list(study.cards))
    relay.faults["bern"] = ["late here, too" if here else "late there", *["request lost"] * ATTEMPTS]
    study.ask(dict.fromkeys(study.survivors, mass_body(0.0)))
    assert study.outcomes == {"basel": ["release"], "bern": ["no reply"]}
    assert study.left_out["bern"].startswith("no reply; see that it runs")


def test_a_request_that_is_late_at_the_last_attempt_is_made_anew_and_sent_once_more():
    study, relay = a_study()
    study.read_cards()
    study.propose(PLAN, "why", list(study.cards))
    relay.faults["bern"] = [*["request lost"] * (ATTEMPTS - 1), "late there"]
    study.ask(dict.fromkeys(study.survivors, mass_body(0.0)))
    assert study.outcomes == {"basel": ["release"], "bern": ["release"]}
    assert study.asked_again == {"basel": 0, "bern": 1}


def test_a_curator_that_is_out_is_asked_nothing_though_its_session_is_open():
    study, relay = a_study()
    study.read_cards()
    study.propose(PLAN, "why", list(study.cards))
    study.leave_out("bern", "for a reason")
    study.ask(dict.fromkeys(study.sessions, mass_body(0.0)))
    assert study.sessions["bern"].state is State.OPEN
    assert study.outcomes == {"basel": ["release"], "bern": ["left out"]}
    relay.closing = True
    study.close()
    assert study.sessions["bern"].state is State.CLOSED
