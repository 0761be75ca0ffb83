"""A curator whose clock jumps, by seconds or by decades, forth and back: budget and answers stay what they were."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_fakes import NOW, Clock, CountingNoise, key, mass_body, message_of, open_curator, plan_of, policy
from curator_node.ledger.checks import check
from curator_node.ledger.store import MemoryStore
from learner_node.study.session import Session
from protocol.errors import LocalProtocolError
from protocol.messages import Refusal, Release
from protocol.refusals import RefusalCode

SCALE, CAP = 4, 1
JUMPS = st.one_of(
    st.integers(-7200, 7200), st.sampled_from([-NOW, -(30 * 86_400), 86_400, 30 * 86_400, 40 * 365 * 86_400])
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("jump"), JUMPS),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.sampled_from(["propose", "query", "close", "again"]), st.integers(0, 7)),
    ),
    max_size=40,
)


class World:
    """One curator, and a learner whose own clock is right."""

    def __init__(self):
        self.store, self.clock, self.noise = MemoryStore(), Clock(), CountingNoise()
        self.sessions, self.sent, self.releases = [], {}, {}
        self.restart()

    def restart(self):
        self.curator = open_curator(self.store, clock=self.clock, noise=self.noise, rules=policy(cap=CAP))

    def send(self, session):
        data = session.pending
        reply = self.curator.handle(data)
        message = message_of(reply)
        self.sent[data] = session
        if isinstance(message, Release):
            assert self.releases.setdefault(data, reply) == reply, "one answer to one question"
        else:
            assert data not in self.releases or message.code in (RefusalCode.TOO_MANY_REQUESTS, RefusalCode.ANSWER_GONE)
        return session.receive(reply)

    def step(self, what, number):
        if what == "jump":
            self.clock.advance(max(number, -self.clock.now))
        elif what == "restart":
            self.restart()
        elif what == "propose":
            session = Session(
                curator=self.curator.identity,
                key=key("ann"),
                study=(len(self.sessions) + 1).to_bytes(16, "big"),
                lifetime=3600,
            )
            session.propose(plan_of(SCALE, SCALE), "", NOW)
            self.sessions.append(session)
            self.send(session)
        elif what == "again" and self.releases:
            data, reply = list(self.releases.items())[number % len(self.releases)]
            assert self.curator.handle(data) == reply, "a repeat is answered from the store, whatever the clock says"
        elif self.sessions:
            session = self.sessions[number % len(self.sessions)]
            try:
                if what == "query":
                    session.query("counts", mass_body(), NOW)
                else:
                    session.close(NOW)
            except LocalProtocolError:
                if not session.pending:
                    return
            self.send(session)


@settings(max_examples=12)
@given(STEPS)
def test_whatever_the_clock_does_the_budget_holds_and_a_question_has_one_answer(steps):
    world = World()
    for what, number in [("propose", 0), ("query", 0), *steps, ("jump", -NOW), ("again", 0)]:
        world.step(what, number)
    ledger = check(world.store, world.curator.identity)
    assert not ledger.findings
    assert ledger.account.total_spent == Fraction(len(world.releases), SCALE) <= CAP
    assert world.noise.draws == len(world.releases)


test_whatever_the_clock_does_at_length = at_length(
    test_whatever_the_clock_does_the_budget_holds_and_a_question_has_one_answer, 150
)


def test_a_clock_that_ran_ahead_ends_reservations_and_gives_back_what_was_not_used():
    world = World()
    world.step("propose", 0)
    world.step("jump", 30 * 86_400)
    refused = world.sessions[0]
    refused.query("counts", mass_body(), world.clock.now)
    reply = world.send(refused)
    assert isinstance(reply, Refusal)
    assert reply.code == RefusalCode.STUDY_EXPIRED
    account = check(world.store, world.curator.identity).account
    assert account.total_reserved == account.total_spent == 0
    world.step("jump", -30 * 86_400)
    world.step("propose", 0)
    assert world.sessions[1].accepted is not None
