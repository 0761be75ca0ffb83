"""A relay drops, delays, repeats and reorders what both sides sign; no learner comes to believe that less was spent.

The curator obeys the protocol (`obedient_curator`); the relay does whatever Hypothesis thinks of.
"""

import copy
from collections import Counter
from fractions import Fraction
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from at_length import at_length
from learner_fakes import LEARNER, NOW, key, mass_body, plan_of
from learner_node.study.session import Session
from obedient_curator import RESERVATION, ObedientCurator
from protocol.codec import encode
from protocol.envelopes import open_envelope
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import Refusal, Release, StudyClosed
from protocol.refusals import RefusalCode
from protocol.transcript import replay
from protocol.transitions import State

STUDY = b"s" * 16
PLAN = plan_of(10, 4, 7)
COSTS = [Fraction(1, 10), Fraction(1, 4), Fraction(1, 7)]
BODY, BAD_BODY = encode(mass_body()), b"rubbish"


class World:
    """A session, a curator, and a relay that has kept everything it ever saw."""

    def __init__(self):
        self.curator = ObedientCurator()
        self.session = Session(curator=self.curator.identity, key=key(LEARNER), study=STUDY)
        self.requests, self.replies = [], []
        self.replayed = b""

    def ask(self, what):
        """The learner sends something, where that is lawful; the relay has it now."""
        session, now = self.session, self.curator.now
        make = {
            "card": lambda: session.request_card(now),
            "propose": lambda: session.propose(PLAN, "", now),
            "query": lambda: session.query("counts", BODY, now),
            "bad query": lambda: session.query("counts", BAD_BODY, now),
            "close": lambda: session.close(now),
        }[what]
        before = _held(session)
        try:
            self.requests.append(make())
        except LocalProtocolError:
            assert _held(session) == before

    def carry(self, data):
        """The relay hands a request to the curator, and keeps the reply."""
        self.replies.append(self.curator.handle(data))
        return self.replies[-1]

    def bring(self, data):
        """The relay hands a reply to the learner, who takes all of it or nothing."""
        before = _held(self.session)
        try:
            return self.session.receive(data)
        except (LocalProtocolError, RemoteProtocolError):
            assert _held(self.session) == before
            return None

    def step(self, operation):
        what, number = operation
        if what in ("card", "propose", "query", "bad query", "close"):
            self.ask(what)
        elif what == "carry" and self.requests:
            self.carry(self.requests[-1 - number % len(self.requests)])
        elif what == "bring" and self.replies:
            self.bring(self.replies[-1 - number % len(self.replies)])
        elif what == "exchange" and self.session.pending:
            self.bring(self.carry(self.session.pending))
        elif what == "recover" and self.session.unanswered:
            self.bring(self.carry(self.session.unanswered))
        elif what == "halt":
            self.curator.halted = not self.curator.halted
        elif what == "down":
            self.curator.down = not self.curator.down
        elif what == "crash":
            self.curator.crashes = True
        elif what == "forget":
            self.curator.forget()
        elif what == "wait":
            self.curator.now += (1, 700, RESERVATION)[number % 3]

    def check(self):
        session, true = self.session, self.curator.spent
        assert session.spent <= true <= session.spent_at_most
        seen = session.transcript.head + bytes([len(self.curator.charged)])
        if session.card is None or seen == self.replayed:
            return
        self.replayed = seen
        proof = replay(session.transcript.envelopes, self.curator.identity, key(LEARNER).public)
        assert (proof.epsilon_spent, proof.epsilon_at_most) == (session.spent, session.spent_at_most)
        assert proof.state is session.state
        assert proof.unproven or proof.epsilon_spent == true, "what is not proven is said"

    def deliver(self):
        """At last the relay does its work, and the curator its own: everything pending is sent until nothing is."""
        self.curator.halted = self.curator.down = self.curator.crashes = False
        session = self.session
        for _ in range(6):
            for data in (session.pending, session.unanswered):
                if data:
                    self.bring(self.carry(data))
            self.check()
            if session.state in (State.OPEN, State.ASKED):
                session.close(self.curator.now)


def _held(session):
    return {**vars(session), "spending": copy.copy(session.spending), "transcript": session.transcript.head}


LEARNER_STEPS = ["card", "propose", "query", "query", "query", "bad query", "close"]
RELAY_STEPS = ["carry"] * 5 + ["bring"] * 5 + ["exchange"] * 4 + ["recover"] * 2 + ["halt", "down", "crash", "wait"]
OPEN = [("card", 0), ("carry", 0), ("bring", 0), ("propose", 0), ("carry", 0), ("bring", 0)]
PHRASES = [
    [("query", 0), ("exchange", 0)],
    [("query", 0), ("carry", 0)],
    [("close", 0), ("exchange", 0)],
    [("halt", 0), ("carry", 0), ("halt", 0)],
]
"""What a random list would seldom hit upon: an answer on its way, a close, a refusal that is kept."""


def lists_of(steps, most):
    words = st.tuples(st.sampled_from(steps), st.integers(0, 5)).map(lambda step: [step])
    return st.lists(st.one_of(words, st.sampled_from(PHRASES)), max_size=most).map(
        lambda lists: list(chain.from_iterable(lists))
    )


operations = lists_of(LEARNER_STEPS + RELAY_STEPS, 30)
forgetful = lists_of([*LEARNER_STEPS, *RELAY_STEPS, "forget"], 30)
KEPT_REFUSAL = [("query", 0), ("halt", 0), ("carry", 0), ("halt", 0), ("carry", 0), ("bring", 1), ("query", 0)]
LATE = [("query", 0), ("carry", 0), ("close", 0), ("carry", 0), ("bring", 0), ("bring", 1)]


@given(operations)
@settings(deadline=None, max_examples=15)
@example([])
@example(KEPT_REFUSAL)
@example([("bad query", 0), ("exchange", 0)] * 2 + [("query", 0), ("exchange", 0)])
@example([("close", 0), ("wait", 1), ("exchange", 0), ("close", 0), ("exchange", 0)])
@example(LATE)
@example([("query", 0), ("crash", 0), ("carry", 0), ("bring", 0), ("close", 0), ("carry", 0), ("bring", 0)])
@example([("query", 0), ("close", 0), ("carry", 0), ("carry", 1), ("bring", 0), ("bring", 1)])
@example([("query", 0), ("wait", 1), ("close", 0), ("wait", 1), ("carry", 0), ("bring", 0), ("carry", 1), ("bring", 0)])
@example([("query", 0), ("carry", 0), ("wait", 2), ("close", 0), ("carry", 0), ("bring", 0)])
def test_no_relay_hides_what_was_spent_and_nothing_is_lost_in_the_end(steps):
    world = World()
    for operation in [*OPEN, *steps]:
        world.step(operation)
        world.check()
    world.deliver()
    session, curator = world.session, world.curator
    assert session.spent == curator.spent == session.spent_at_most
    releases = [each for data in session.transcript.envelopes if isinstance(each := open_envelope(data)[1], Release)]
    assert len(releases) == len(curator.charged), "every release that was paid for is in the transcript"
    assert set(Counter(curator.draws).values()) <= {1}, "noise is drawn once"
    held = curator.studies.get(STUDY)
    assert session.state is State.CLOSED or held is None or held.closed or held.until <= curator.now


test_no_relay_hides_at_length = at_length(test_no_relay_hides_what_was_spent_and_nothing_is_lost_in_the_end, 100)


@given(forgetful)
@settings(deadline=None, max_examples=15)
@example([("query", 0), ("carry", 0), ("forget", 0), ("carry", 0), ("bring", 0), ("bring", 1)])
@example(
    [("query", 0), ("carry", 0), ("forget", 0), ("carry", 0), ("bring", 0), ("close", 0), ("carry", 0), ("bring", 0)]
)
def test_a_curator_that_loses_answers_changes_what_is_proven_but_never_the_bounds(steps):
    world = World()
    for operation in [*OPEN, *steps]:
        world.step(operation)
        world.check()
    world.deliver()
    assert set(Counter(world.curator.draws).values()) <= {1}


test_a_curator_that_loses_answers_at_length = at_length(
    test_a_curator_that_loses_answers_changes_what_is_proven_but_never_the_bounds, 60
)


@pytest.mark.slow
def test_the_drawn_relays_reach_what_they_should():
    """Power: each of these ends of a query occurs within the first few hundred draws of the test above."""
    seen = Counter()

    @given(operations)
    @settings(deadline=None, max_examples=300, database=None, derandomize=True)
    def watch(steps):
        world = World()
        for operation in [*OPEN, *steps]:
            world.step(operation)
        session = world.session
        seen["unanswered at the close"] += bool(session.unanswered)
        seen["paid for, not known"] += session.spent < world.curator.spent
        seen["sent, not charged"] += world.curator.spent < session.spent_at_most
        kinds = [type(open_envelope(data)[1]) for data in session.transcript.envelopes]
        closed = kinds.index(StudyClosed) if StudyClosed in kinds else len(kinds)
        seen["released after the close"] += Release in kinds[closed:]
        seen["refused"] += Refusal in kinds

    watch()
    ends = {
        "unanswered at the close",
        "paid for, not known",
        "sent, not charged",
        "released after the close",
        "refused",
    }
    assert {what for what, count in seen.items() if count} == ends


@pytest.fixture
def opened():
    world = World()
    for operation in OPEN:
        world.step(operation)
    assert world.session.state is State.OPEN
    return world


def test_a_kept_refusal_never_hides_a_release(opened):
    """The relay kept a refusal of before the steward acted, and brings it in place of the release."""
    curator, session = opened.curator, opened.session
    curator.halted = True
    opened.ask("query")
    stale = opened.carry(session.pending)
    curator.halted = False
    release = opened.carry(session.pending)
    assert opened.bring(stale).code == RefusalCode.HALTED
    assert session.state is State.ASKED
    opened.check()
    assert (session.spent, session.spent_at_most) == (0, COSTS[0])
    with pytest.raises(LocalProtocolError):
        session.query("counts", BODY, NOW)
    opened.ask("close")
    assert isinstance(opened.bring(opened.carry(session.pending)), StudyClosed)
    assert session.spent == curator.spent == COSTS[0]
    assert opened.carry(session.unanswered) == release
    assert isinstance(opened.bring(release), Release)
    proof = replay(session.transcript.envelopes, curator.identity, key(LEARNER).public)
    assert (proof.epsilon_spent, proof.releases, proof.state, proof.unproven) == (COSTS[0], 1, State.CLOSED, "")
    assert proof.refusals == ["halted"]


def test_a_close_before_the_query_arrives_rules_it_out(opened):
    opened.ask("query")
    late = opened.session.pending
    opened.ask("close")
    opened.bring(opened.carry(opened.session.pending))
    assert opened.session.spent_at_most == opened.curator.spent == 0
    assert open_envelope(opened.carry(late))[1].code == RefusalCode.STUDY_CLOSED
    assert opened.curator.spent == 0


def test_a_refused_proposal_never_reserves_when_it_is_sent_again():
    world = World()
    world.curator.cap = Fraction(1, 100)
    world.ask("card")
    world.bring(world.carry(world.session.pending))
    world.ask("propose")
    proposal = world.session.pending
    world.bring(world.carry(proposal))
    assert world.session.state is State.REFUSED
    world.curator.cap = Fraction(2)
    assert isinstance(open_envelope(world.carry(proposal))[1], Refusal)
    assert world.curator.studies == {}
    assert replay(world.session.transcript.envelopes, world.curator.identity, key(LEARNER).public).unproven == ""


def test_a_proposal_that_waits_for_the_steward_may_still_be_accepted():
    world = World()
    world.ask("card")
    world.bring(world.carry(world.session.pending))
    world.ask("propose")
    world.curator.halted = True
    world.bring(world.carry(world.session.pending))
    assert world.session.state is State.PROPOSED
    world.curator.halted = False
    world.bring(world.carry(world.session.pending))
    assert world.session.state is State.OPEN
    world.check()


def test_a_release_that_was_kept_is_taken_after_the_curator_lost_it(opened):
    opened.ask("query")
    release = opened.carry(opened.session.pending)
    opened.curator.forget()
    assert opened.bring(opened.carry(opened.session.pending)).code == RefusalCode.ANSWER_GONE
    opened.check()
    assert isinstance(opened.bring(release), Release)
    opened.check()
    assert opened.session.spent == opened.session.spent_at_most == COSTS[0]
