"""A federation under faults: drawn lists of operations against curators, with invariants that must hold throughout.

Failure conditions: a cap is exceeded; a retry is charged twice or answered differently; an acknowledged charge is
missing from the ledger; a refusal moves the ledger; a transcript does not replay; a curator raises.
Not failures: refusals of any kind, lost messages, studies that never finish.
"""

from fractions import Fraction

import polars as pl
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_node.ledger import Ledger, StudyKey, create_ledger
from curator_node.ledger.checks import load
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.store import MemoryStore
from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import SchemaFile
from curator_node.site import assemble_site
from learner_node.study.session import Session
from protocol.codec import encode
from protocol.envelopes import SigningKey, open_envelope
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.ledger.entries import decode_entry
from protocol.messages import Card, Refusal, Release
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.schema import NumericAttribute
from protocol.transcript import replay
from protocol.transitions import State

CAP_LEARNER, CAP_ALL = Fraction(1), Fraction(3, 2)
QUERY = PlannedCounts(release="signed_error", partitions=1, scale=Rational(4, 1))
PLAN = Plan.of((QUERY, QUERY))
BODY = CountsBody(partitions=(FeatureBins(attribute="x", edges=(0.5,)),), hypothesis=Constant(predicted=1))

SLOTS = st.integers(0, 2)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("propose"), SLOTS, st.integers(0, 1)),
        st.tuples(st.just("query"), SLOTS, st.sampled_from(["deliver", "lose request", "lose reply", "twice"])),
        st.tuples(st.just("retry"), SLOTS, st.just(0)),
        st.tuples(st.just("replay"), SLOTS, st.integers(0, 5)),
        st.tuples(st.just("close"), SLOTS, st.sampled_from(["deliver", "lose reply"])),
        st.tuples(st.just("wait"), st.just(0), st.sampled_from([1, 50, 200])),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


class World:
    """One curator, two learners, three study slots, and a clock that only goes forward."""

    def __init__(self):
        self.now = 1000
        self.keys = [SigningKey.generate(), SigningKey.generate()]
        self.key = SigningKey.generate()
        steward = SchemaFile(
            label="y", classes=("no", "yes"), attributes=(NumericAttribute(name="x", lower=0, upper=1),)
        )
        frame = pl.DataFrame({"x": [0.1, 0.4, 0.6, 0.9], "y": ["no", "yes", "yes", "no"]})
        self.dataset = PrivateDataset(frame, steward, unit_key=b"k" * 32, cache_bytes=10**6)
        self.policy = Policy(
            name="north",
            cap=str(CAP_ALL),
            learners=tuple(
                LearnerPolicy(name=f"l{i}", key=key.public.hex(), cap=str(CAP_LEARNER))
                for i, key in enumerate(self.keys)
            ),
            open_studies=2,
            reservation_seconds=100,
        )
        self.store, self.mark = MemoryStore(), MemoryMark()
        create_ledger(self.store, self.key, self.mark, now=self.now)
        self.restart()
        self.slots = [None, None, None]
        self.sent = []
        self.answers = {}
        self.studies = []

    def restart(self):
        self.ledger = Ledger(self.store, key=self.key, mark=self.mark)
        site = assemble_site(self.dataset, self.policy, key=self.key, ledger=self.ledger, clock=lambda: self.now)
        self.curator = site.curator

    def deliver(self, data):
        before = self.ledger.account.next_index
        reply = self.curator.handle(data)
        _, message = open_envelope(reply)
        if isinstance(message, Refusal):
            entries = [decode_entry(row.body).kind for row in self.store.rows(before)]
            assert set(entries) <= {"expire"}, "a refusal may only let time pass"
        elif not isinstance(message, Card):
            assert self.answers.setdefault(data, reply) == reply, "a repeat must bring the same bytes"
        self.sent.append(data)
        return reply

    def check(self):
        account = self.ledger.account
        for key in self.keys:
            held = account.spent.get(key.public, 0) + account.reserved.get(key.public, 0)
            assert held <= CAP_LEARNER
        assert account.total_spent <= CAP_ALL
        again = load(self.store)
        assert (again.head, again.total_spent, again.total_reserved) == (
            account.head,
            account.total_spent,
            account.total_reserved,
        )
        for session, learner in self.studies:
            proof = replay(session.transcript.envelopes, self.key.public, self.keys[learner].public)
            study = account.studies.get(StudyKey(self.keys[learner].public, session.study))
            assert proof.epsilon_spent <= (study.spent if study else 0) <= proof.epsilon_at_most


def step(world, operation):
    what, slot, detail = operation
    entry = world.slots[slot]
    if what == "propose":
        session = Session(curator=world.key.public, key=world.keys[detail], study=bytes([len(world.studies) + 1]) * 16)
        session.request_card(world.now)
        session.receive(world.deliver(session.pending))
        session.propose(PLAN, "", world.now)
        session.receive(world.deliver(session.pending))
        world.studies.append((session, detail))
        world.slots[slot] = session
    elif what == "wait":
        world.now += detail
    elif what == "restart":
        world.restart()
    elif what == "replay" and world.sent:
        world.deliver(world.sent[detail % len(world.sent)])
    elif entry is None:
        return
    elif what == "query" and entry.state is State.OPEN:
        data = entry.query("counts", encode(BODY), world.now)
        if detail != "lose request":
            reply = world.deliver(data)
            if detail == "twice":
                assert isinstance(open_envelope(reply)[1], Refusal) or world.deliver(data) == reply
            if detail != "lose reply":
                entry.receive(reply)
    elif what == "retry" and entry.pending:
        message = entry.receive(world.deliver(entry.pending))
        assert isinstance(message, Refusal | Release) or entry.state is State.CLOSED
    elif what == "close" and entry.state in (State.OPEN, State.ASKED):
        reply = world.deliver(entry.close(world.now))
        if detail == "deliver":
            entry.receive(reply)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS)
@example([("propose", 0, 0), ("query", 0, "lose reply"), ("wait", 0, 200), ("retry", 0, 0), ("close", 0, "deliver")])
@example([("propose", 0, 0), ("propose", 1, 0), ("propose", 2, 1), ("wait", 0, 200), ("propose", 2, 1)])
@example([("propose", 0, 0), ("query", 0, "twice"), ("restart", 0, 0), ("query", 0, "deliver"), ("replay", 0, 1)])
def test_no_list_of_faults_breaks_the_budget_or_the_transcript(operations):
    world = World()
    for operation in operations:
        step(world, operation)
        world.check()


test_no_list_of_faults_at_length = at_length(test_no_list_of_faults_breaks_the_budget_or_the_transcript, 60)


def test_the_world_can_spend_its_whole_budget():
    """Power: the drawn operations do reach the caps, so that the invariants above are not vacuous."""
    world = World()
    for operation in [
        *[("propose", 0, 0), ("query", 0, "deliver"), ("query", 0, "deliver"), ("close", 0, "deliver")] * 2,
        *[("propose", 1, 1), ("query", 1, "deliver"), ("query", 1, "deliver")],
    ]:
        step(world, operation)
        world.check()
    assert world.ledger.account.total_spent == CAP_ALL
    refused = world.studies[0][0]
    assert refused.state is State.CLOSED
    step(world, ("propose", 2, 1))
    assert world.slots[2].accepted is None
