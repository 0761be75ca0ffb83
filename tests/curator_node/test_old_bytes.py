"""Whoever holds old bytes of a learner, or forges new ones, uses up nothing that is the learner's.

A transcript that an auditor was handed, a relay's log, a mailbox: all of them hold envelopes that a learner signed.
Each test is named after what somebody might do with them.
"""

import itertools
import logging
import types
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_attacks import header, proposal, query

import curator_node.policy
from at_length import also_at_length
from curator_fakes import (
    NOW,
    Clock,
    FlakyStore,
    Learner,
    ZeroNoise,
    key,
    mass_body,
    message_of,
    open_curator,
    opened,
    plan_of,
    policy,
    steward_file,
)
from curator_node import mechanisms, opendp_noise
from curator_node.admission import Meter, PendingRequest, caps_of
from curator_node.ledger.store import MemoryStore
from curator_node.policy import EnrolledKey, EnrolledLearner, LearnerPolicy, Policy, read_policy
from curator_node.steward.approval import waiting_proposals
from learner_node.study.session import Session
from protocol.codec import decode, encode
from protocol.envelopes import LABEL, Envelope, digest, is_signed, open_envelope, open_receipt, seal, verify
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.ledger.entries import head_is_signed
from protocol.messages import (
    NO_DIGEST,
    NO_STUDY,
    NOBODY,
    Card,
    CardRequest,
    Query,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.refusals import RETRIABLE, RefusalCode

TIGHT = policy(requests_per_day=9, refusals_per_day=4, refusals_per_study=2, message_seconds=700)
BAD = b"\xc0"
"""The body of no query."""


def card_request(curator, clock, name="ann", **changes):
    return seal(CardRequest(**header(curator, name, expires_at=clock() + 600, **changes)), key(name))


def code_of(curator, data):
    message = message_of(curator.handle(data))
    return message.code if isinstance(message, Refusal) else type(message).__name__


def flood(curator, *kept, times=50):
    """What the curator says to bytes that are sent again and again."""
    return Counter(code_of(curator, data) for _ in range(times) for data in kept)


def expired_mistake(curator, clock, learner):
    sent = query(learner, BAD)
    assert code_of(curator, sent) == RefusalCode.MALFORMED
    clock.advance(5000)
    return {RefusalCode.EXPIRED: sent}


def expired_mistake_that_was_forgotten(curator, clock, learner):
    sent = expired_mistake(curator, clock, learner)
    other = proposal(curator, plan_of("1/2"), "bob", expires_at=clock() + 600)
    assert code_of(curator, other) == RefusalCode.OVER_BUDGET  # keeping this one drops what has expired
    return sent


def mistake_in_time(curator, clock, learner):
    sent = query(learner, BAD, expires_at=clock() + 600)
    assert code_of(curator, sent) == RefusalCode.MALFORMED
    return {RefusalCode.MALFORMED: sent}


def expired_card_request(curator, clock, learner):
    sent = card_request(curator, clock)
    assert code_of(curator, sent) == "Card"
    clock.advance(5000)
    return {RefusalCode.EXPIRED: sent}


def card_request_in_time(curator, clock, learner):
    sent = card_request(curator, clock)
    assert code_of(curator, sent) == "Card"
    return {"Card": sent}


def expired_proposal_that_nobody_saw(curator, clock, learner):
    sent = proposal(curator, plan_of(40), study=b"unseen".ljust(16), expires_at=clock() + 600)
    clock.advance(700)
    return {RefusalCode.EXPIRED: sent}


def message_of_next_month(curator, clock, learner):
    return {RefusalCode.NOT_YET_VALID: proposal(curator, study=b"later".ljust(16), expires_at=clock() + 30 * 86_400)}


def message_for_another_curator(curator, clock, learner):
    elsewhere = {"recipient": key("zurich").public, "study": b"elsewhere".ljust(16)}
    return {RefusalCode.WRONG_RECIPIENT: proposal(curator, **elsewhere)}


def forged(curator, clock, learner):
    envelope = decode(query(learner), Envelope)
    return {RefusalCode.BAD_SIGNATURE: encode(msgspec.structs.replace(envelope, signature=bytes(64)))}


def answer_that_was_dropped(curator, clock, learner):
    """A study that ended long ago, whose replies made room for others'."""
    dropped = opened(curator, study=b"done", clock=clock, plan=plan_of(40))
    dropped.query()
    sent = dropped.session.transcript.envelopes[-2]
    dropped.close()
    ledger = curator._ledger
    ledger.make_room(1, ledger.account.kept_bytes, clock())
    return {RefusalCode.ANSWER_GONE: sent}


def answered(curator, clock, learner):
    learner.query()
    return {"Release": learner.session.transcript.envelopes[-2]}


ATTACKS = (
    expired_mistake,
    expired_mistake_that_was_forgotten,
    mistake_in_time,
    expired_card_request,
    card_request_in_time,
    expired_proposal_that_nobody_saw,
    message_of_next_month,
    message_for_another_curator,
    forged,
    answer_that_was_dropped,
    answered,
)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_message_that_anybody_has_stops_no_learner(attack, restart):
    store, clock = MemoryStore(), Clock()
    rules = msgspec.structs.replace(TIGHT, reservation_seconds=10**6)
    curator = open_curator(store, rules=rules, clock=clock)
    learner = opened(curator, plan=plan_of(30, 30, 30), clock=clock)
    ((reason, sent),) = attack(curator, clock, learner).items()
    if restart:
        curator = learner.curator = open_curator(store, rules=rules, clock=clock)
    refusals_before = store.refusals(key("ann").public, clock())
    assert flood(curator, sent) == {reason: 50}
    assert store.refusals(key("ann").public, clock()) == refusals_before
    assert isinstance(Learner(curator, clock=clock).card(), Card)
    assert isinstance(learner.query(), Release)
    assert isinstance(opened(curator, study=b"another", clock=clock, plan=plan_of(30)).close(), StudyClosed)
    assert isinstance(learner.close(), StudyClosed)


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_steward_declined_can_be_sent_for_ever_and_counts_once(restart):
    store, clock = MemoryStore(), Clock()
    rules = msgspec.structs.replace(TIGHT, approval="manual")
    curator = open_curator(store, rules=rules, clock=clock)
    learner = Learner(curator, clock=clock)
    assert learner.propose().code == RefusalCode.AWAITING_APPROVAL
    sent = learner.session.pending
    word(curator._ledger, rules, clock, approve=False)
    for _ in range(3):
        assert flood(curator, sent, times=9) == {RefusalCode.DECLINED: 9}
        clock.advance(500)
        other = proposal(curator, plan_of("1/2"), "bob", expires_at=clock() + 600)
        assert code_of(curator, other) == RefusalCode.OVER_BUDGET  # keeping this one drops what has expired
        if restart:
            curator = open_curator(store, rules=rules, clock=clock)
    assert Learner(curator, study=b"2", clock=clock).propose().code == RefusalCode.AWAITING_APPROVAL


def test_what_a_steward_declined_long_ago_counts_on_nobody_after_a_restart():
    """No is said to it for ever, also where the process that counted it is gone."""
    store, clock = MemoryStore(), Clock()
    rules = policy(approval="manual", message_seconds=700, requests_per_day=6, refusals_per_day=2, held_studies=4)
    curator = open_curator(store, rules=rules, clock=clock)
    sent = [proposal(curator, study=bytes([number]) * 16, expires_at=clock() + 600) for number in range(1, 5)]
    for data in sent:
        assert code_of(curator, data) == RefusalCode.AWAITING_APPROVAL
        word(curator._ledger, rules, clock, approve=False)
    clock.advance(1000)
    curator = open_curator(store, rules=rules, clock=clock)
    for number in range(6):
        assert flood(curator, *sent, times=3) == {RefusalCode.DECLINED: 12}
        clock.advance(1)
        assert code_of(curator, card_request(curator, clock)) == "Card", number
    assert code_of(curator, proposal(curator, expires_at=clock() + 600)) == RefusalCode.TOO_MANY_REQUESTS


def test_bytes_that_met_a_halt_count_once_however_often_they_come(clock):
    curator = open_curator(rules=TIGHT, clock=clock)
    learner = opened(curator, clock=clock)
    curator._ledger.halt(clock(), "a look at it")
    assert learner.query().code == RefusalCode.HALTED
    assert flood(curator, learner.session.pending) == {RefusalCode.HALTED: 50}
    curator._ledger.resume(clock())
    assert isinstance(learner.ask(), Release)


def test_an_approved_proposal_that_was_refused_for_good_is_accepted_from_nobody(clock):
    """Its learner was told no, and has gone on. The approval lasts longer than the message, and than its refusal."""
    rules = policy(approval="manual", message_seconds=700)
    curator = open_curator(rules=rules, clock=clock)
    dear = [Learner(curator, study=bytes([number]), clock=clock) for number in (1, 2)]
    for learner in dear:
        learner.propose(plan_of("3/2"))
    for _ in dear:
        word(curator._ledger, rules, clock)
    assert isinstance(dear[0].ask(), StudyAccepted)
    sent = dear[1].session.pending
    assert dear[1].ask().code == RefusalCode.OVER_BUDGET
    assert curator._ledger.store.pending(clock()) == []
    dear[0].close()
    for _ in range(3):
        clock.advance(5000)
        assert code_of(curator, sent) == RefusalCode.OVER_BUDGET
        Learner(curator, "bob", clock=clock, study=b"x").propose(plan_of("1/2"))  # its refusal drops what has expired


def test_the_channels_limit_refuses_what_nobody_answers_for_and_nothing_else(clock):
    rules = policy(stray_messages_per_day=20)
    curator = open_curator(rules=rules, clock=clock)
    learner = opened(curator, clock=clock)
    learner.query()
    release, wrong = learner.session.transcript.envelopes[-2], query(learner, BAD)
    assert code_of(curator, wrong) == RefusalCode.MALFORMED
    late, card = proposal(curator, expires_at=NOW), card_request(curator, clock)
    (junk,) = forged(curator, clock, learner).values()
    assert flood(curator, late, times=15) == {RefusalCode.EXPIRED: 15}
    assert flood(curator, junk, card, times=3) == {RefusalCode.BAD_SIGNATURE: 3, "Card": 3}
    assert flood(curator, late, junk, times=9) == {RefusalCode.EXPIRED: 9, RefusalCode.BAD_SIGNATURE: 9}
    reply = message_of(curator.handle(card))
    assert (reply.code, reply.final) == (RefusalCode.TOO_MANY_REQUESTS, False)
    assert reply.limit == "at most 20 repeated and stray messages a day"
    # What was answered, or refused for good, is said again; what a learner signs anew is served.
    assert flood(curator, release, wrong, times=9) == {"Release": 9, RefusalCode.MALFORMED: 9}
    assert isinstance(learner.query(), Release)
    assert isinstance(Learner(curator, "bob", clock=clock).card(), Card)
    clock.advance(86_400)
    assert flood(curator, late, junk, times=5) == {RefusalCode.EXPIRED: 5, RefusalCode.BAD_SIGNATURE: 5}


def test_a_channel_that_is_used_up_keeps_nobody_from_what_was_approved_or_charged():
    clock, store = Clock(), FlakyStore()
    rules = policy(stray_messages_per_day=1, approval="manual")
    curator = open_curator(store, rules=rules, clock=clock)
    learner = Learner(curator, clock=clock)
    assert learner.propose().code == RefusalCode.AWAITING_APPROVAL
    assert flood(curator, proposal(curator, expires_at=NOW), times=5) == {RefusalCode.EXPIRED: 5}
    assert learner.ask().code == RefusalCode.AWAITING_APPROVAL
    word(curator._ledger, rules, clock)
    clock.advance(5000)  # the proposal has expired meanwhile, its approval has not
    assert isinstance(learner.ask(), StudyAccepted)
    store.failures = ["", "before"]  # charged, and not answered
    assert learner.query().code == RefusalCode.UNAVAILABLE
    assert isinstance(learner.ask(), Release)
    curator._ledger.halt(clock(), "a look at it")
    assert learner.query().code == RefusalCode.HALTED
    curator._ledger.resume(clock())
    assert isinstance(learner.ask(), Release)


def test_a_learner_who_used_its_day_up_gets_what_it_was_charged_for():
    clock, store = Clock(), FlakyStore()
    curator = open_curator(store, clock=clock)
    learner = opened(curator, clock=clock)
    store.failures = ["", "before"]  # charged, and not answered
    assert learner.query().code == RefusalCode.UNAVAILABLE
    learner.curator = open_curator(store, clock=clock, rules=policy(requests_per_day=1))
    assert isinstance(Learner(learner.curator, clock=clock).card(), Card)
    assert isinstance(learner.ask(), Release)
    assert learner.query().code == RefusalCode.TOO_MANY_REQUESTS


def test_what_is_kept_of_messages_is_bounded_and_forgotten():
    meter, rules = Meter(), policy(requests_per_day=5, message_seconds=86_400)

    def count(number, now, expires_at):
        message = CardRequest(
            study=bytes(16),
            sender=key("ann").public,
            recipient=bytes(32),
            sequence=0,
            answers=NO_DIGEST,
            expires_at=expires_at,
        )
        identity, caps = digest(b"%d" % number), caps_of(rules, message.sender)
        return meter.complaint_about(PendingRequest(b"", message, identity, now, rules, caps, None, took_effect=False))

    for number_of_day in range(20):
        now = NOW + 86_400 * number_of_day
        limits = [count(100 * number_of_day + number, now, now + 86_400) for number in range(50)]
        assert [bool(limit) for limit in limits] == [False] * 5 + [True] * 45
        assert sum(len(day.counted) for day in meter._days.values()) <= 2 * rules.requests_per_day
        assert len(meter._days) <= 2


ANN = EnrolledLearner("ann", "2/3", tuple(EnrolledKey(key(name).public.hex()) for name in ("ann0", "ann1")))
SIGNERS = st.sampled_from(["ann0", "ann1", "bob"])
STUDIES = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
ACTS = st.one_of(
    st.tuples(st.just("card"), SIGNERS),
    st.tuples(st.just("propose"), SIGNERS, STUDIES, st.sampled_from(["3/2", "10", "30"])),
    st.tuples(st.just("query"), SIGNERS, STUDIES, st.sampled_from([mass_body(), BAD])),
    st.tuples(st.just("close"), SIGNERS, STUDIES),
    st.tuples(st.just("misdirect"), SIGNERS),
    st.tuples(st.just("wait"), st.sampled_from([60, 650, 4000, 40_000, 90_000])),
    st.tuples(st.just("halt"), st.just(0)),
    st.tuples(st.just("resume"), st.just(0)),
    st.tuples(st.just("decide"), st.booleans()),
    st.tuples(st.just("restart"), st.just(0)),
)
REPLAYS = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 4), st.booleans()), max_size=4)
"""(which of the bytes so far, how often, whether with a bit flipped)."""


class World:
    """A curator, and learners that sign whatever the script says; nobody else sends anything but `replay`."""

    def __init__(self, rules):
        self.rules, self.clock, self.store = rules, Clock(), MemoryStore()
        self.curator = open_curator(self.store, rules=rules, clock=self.clock, noise=ZeroNoise())
        self.sent, self.pending, self.answers = [], [], []

    def account(self):
        return self.curator._ledger.account

    def send(self, data, *, fresh=True):
        """A learner's own message, or its repetition of one that waits; what it is told is kept."""
        reply = message_of(self.curator.handle(data))
        told = type(reply).__name__
        if isinstance(reply, Refusal):
            told = reply.code, reply.field, reply.limit, reply.remaining, reply.scale_factor
            if reply.code in RETRIABLE and data not in self.pending:
                self.pending.append(data)
        self.answers.append(told)
        if fresh:
            self.sent.append(data)

    def act(self, act, *told):
        self.clock.advance(1)  # so no two messages are the same
        getattr(self, act)(*told)

    def head(self, signer, study=b"a", sequence=0, answers=NO_DIGEST, **changes):
        fields = {"study": study.ljust(16), "sequence": sequence, "answers": answers}
        return header(self.curator, signer, expires_at=self.clock() + 600, **(fields | changes))

    def place(self, signer, study):
        """Where a study stands, as its learner knows by the replies."""
        account_of_study = self.account().studies.get((key(signer).public, study.ljust(16)))
        return (
            (account_of_study.sequence + 1, account_of_study.last_reply or NO_DIGEST)
            if account_of_study
            else (1, NO_DIGEST)
        )

    def card(self, signer):
        self.send(seal(CardRequest(**self.head(signer)), key(signer)))

    def misdirect(self, signer):
        """A message to another curator, which only an adversary brings here."""
        self.sent.append(seal(CardRequest(**self.head(signer, recipient=key("zurich").public)), key(signer)))

    def propose(self, signer, study, scale):
        fields = self.head(signer, study)
        self.send(
            seal(StudyProposal(**fields, plan=plan_of(scale, scale), purpose="", newest_receipt=b""), key(signer))
        )

    def query(self, signer, study, body):
        fields = self.head(signer, study, *self.place(signer, study))
        self.send(seal(Query(**fields, kind="counts", body=body), key(signer)))

    def close(self, signer, study):
        self.send(seal(StudyClose(**self.head(signer, study, *self.place(signer, study))), key(signer)))

    def wait(self, seconds):
        self.clock.advance(seconds)

    def halt(self, _):
        self.curator._ledger.halt(self.clock(), "a look at it")

    def resume(self, _):
        self.curator._ledger.resume(self.clock())
        self.again()

    def decide(self, approve):
        if self.store.pending(self.clock()) and waiting_proposals(self.curator._ledger, self.rules, self.clock()):
            word(self.curator._ledger, self.rules, self.clock, approve=approve)
            self.again()

    def again(self):
        """What may be answered by now is sent again. Until then anybody could have it answered: it is signed, in time,
        and its learner still wants it."""
        waiting_, self.pending = self.pending, []
        for data in waiting_:
            self.send(data, fresh=False)

    def restart(self, _):
        self.curator = open_curator(self.store, rules=self.rules, clock=self.clock, noise=ZeroNoise())

    def replay(self, which, times, flip):
        """Old bytes, from anybody. Those of a refusal that may pass come while a halt lasts, or not at all."""
        usable = [data for data in self.sent if data not in self.pending or self.account().halted]
        if not usable:
            return
        data = usable[which % len(usable)]
        data = data[:-1] + bytes([data[-1] ^ 1]) if flip else data
        for _ in range(times):
            self.curator.handle(data)

    def left(self):
        """What the learners have used up."""
        account, store, now = self.account(), self.store, self.clock()
        waiting = [(proposal.learner, open_envelope(proposal.envelope)[1].study) for proposal in store.pending(now)]
        return (
            {place: (study.state, study.spent, study.sequence) for place, study in account.studies.items()},
            account.total_spent,
            account.total_reserved,
            {name: store.refusals(key(name).public, now) for name in ("ann0", "ann1", "bob")},
            waiting,
        )


def walked(rules, script, *, attacked):
    world = World(rules)
    for act, replays in script:
        world.act(*act)
        for replay in replays if attacked else ():
            world.replay(*replay)
    return world.answers, world.left()


def walks(acts):
    return st.lists(st.tuples(acts, REPLAYS), min_size=5, max_size=40)


def rules_of_walks(manual, **limits):
    return msgspec.structs.replace(
        policy(held_studies=2, **limits),
        learners=policy(("bob",)).learners,
        enrolled=(ANN,),
        approval="manual" if manual else "automatic",
        message_seconds=700,
        stray_messages_per_day=6,
        approval_seconds=3000,
    )


WALKS = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])


# The third proposal finds no place among those that wait, and there is one once the first was declined.
PLACE_FREED = [
    *[(("propose", "ann0", b"a", "10"), [])] * 3,
    (("decide", False), []),
    (("card", "ann0"), [(1, 1, False)]),
]


@also_at_length(500)
@WALKS
@given(script=walks(ACTS.filter(lambda act: act[0] != "restart")), manual=st.booleans())
@example(script=PLACE_FREED, manual=True)
def test_whoever_replays_anything_at_any_time_changes_nothing_that_a_learner_is_told(script, manual):
    rules = rules_of_walks(manual, requests_per_day=7, refusals_per_day=3, refusals_per_study=2, open_studies=2)
    assert walked(rules, script, attacked=True) == walked(rules, script, attacked=False)


@also_at_length(500)
@WALKS
@given(script=walks(ACTS), manual=st.booleans())
def test_after_a_restart_a_learner_within_its_limits_is_told_the_same(script, manual):
    """A restart forgets what was counted. What is counted anew is never more than the learner signed."""
    limits = dict.fromkeys(("requests_per_day", "refusals_per_day", "refusals_per_study"), len(script))
    rules = rules_of_walks(manual, open_studies=2, **limits)
    assert walked(rules, script, attacked=True) == walked(rules, script, attacked=False)


def word(ledger, rules, clock, *, approve=True):
    """The steward's, on the first that waits."""
    first = waiting_proposals(ledger, rules, clock())[0]
    cost = first.cost(QUERY_KINDS, steward_file())
    ledger.decide_on(first.key, first.pending.request, clock(), approve=approve, cost=cost, until=clock() + 10**6)


# --- Two last checks whose absence no other test would feel: the loss of the noise, and keys of small order.


class Misreported:
    """OpenDP's mechanism, whose map says that it loses `factor` times as much."""

    def __init__(self, inner, factor):
        self.inner, self.factor = inner, factor
        self.drawn = 0

    def map(self, d_in):
        return self.inner.map(d_in) * self.factor

    def __call__(self, exact):
        self.drawn += 1
        return self.inner(exact)


def misreport_library(factor, monkeypatch):
    """OpenDP's noise with a map that is wrong by a factor; all mechanisms that are made of it."""
    real, made = opendp_noise.discrete_laplace_mechanism, []

    def misreported(law):
        made.append(Misreported(real(law), factor))
        return made[-1]

    # What was found in order once is not asked again, in this process.
    monkeypatch.setattr(opendp_noise, "checked_mechanism", opendp_noise.checked_mechanism.__wrapped__)
    monkeypatch.setattr(opendp_noise, "discrete_laplace_mechanism", misreported)
    return made


def misreport_table(factor, monkeypatch):
    """Our own noise with a table whose rate is wrong by a factor; all looks at it."""
    real, drawn, made = mechanisms.digits_of, mechanisms.draw_laplace, []

    def misreported(scale, *, signed):
        first, *others = real(scale, signed=signed)
        made.append(types.SimpleNamespace(drawn=0))
        return (replace(first, rate=first.rate * Fraction(factor)), *others)

    def draw(size, scale):
        for each in made:
            each.drawn += 1
        return drawn(size, scale)

    monkeypatch.setattr(mechanisms, "digits_of", misreported)
    monkeypatch.setattr(mechanisms, "draw_laplace", draw)
    return made


@pytest.mark.parametrize("factor", [0.5, 1 - 2**-30, 1 + 2**-30, 2.0])
@pytest.mark.parametrize(
    ("source", "misreport"), [(opendp_noise.OpenDPNoise, misreport_library), (mechanisms.ExactNoise, misreport_table)]
)
def test_nothing_is_released_where_the_loss_of_the_noise_is_not_the_charge(
    factor, source, misreport, monkeypatch, caplog
):
    """Charged, pending and unavailable; once the noise is put right the same bytes are answered, charged once."""
    caplog.set_level(logging.ERROR)
    curator = open_curator(noise=source())
    learner = opened(curator, plan=plan_of(30, 30))
    request = learner.session.query("counts", mass_body(), NOW)
    with monkeypatch.context() as patch:
        made = misreport(factor, patch)
        for _ in range(3):
            refusal = message_of(curator.handle(request))
            assert isinstance(refusal, Refusal)
            assert (refusal.code, refusal.final) == (RefusalCode.UNAVAILABLE, False)
            assert refusal.recipient in (NOBODY, key("ann").public)
        assert len(made) == 3, "the answer path does ask what it draws from"
        assert not any(each.drawn for each in made), "not even drawn"
        assert curator._ledger.account.total_spent == Fraction(1, 30)
        assert list(curator._ledger.account.answers.values())[1:] == [], "only the proposal was answered"
        assert "ArithmeticError" in caplog.text
    assert isinstance(message_of(curator.handle(request)), Release)
    assert curator._ledger.account.total_spent == Fraction(1, 30)


def test_a_map_that_is_right_up_to_rounding_is_believed(monkeypatch):
    """Power: what refuses above is the size of the factor."""
    made = misreport_library(1 + 2**-50, monkeypatch)
    assert isinstance(opened(open_curator(noise=opendp_noise.OpenDPNoise())).query(), Release)
    assert [each.drawn for each in made] == [1]


def test_a_table_of_another_rate_by_ever_so_little_is_not_believed(monkeypatch):
    """Power: ours is compared in rationals."""
    misreport_table(1 + Fraction(1, 2**90), monkeypatch)
    assert isinstance(opened(open_curator(noise=mechanisms.ExactNoise())).query(), Refusal)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def _added(first, second):
    (x1, y1), (x2, y2) = first, second
    k = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P


def _written(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


EIGHTH = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")


def _x_of(y):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0
    return x


def _group():
    """The eight points of small order, as multiples of one of order eight."""
    y = int.from_bytes(EIGHTH, "little")
    points = [(0, 1)]
    while len(points) < 8:
        points.append(_added(points[-1], (_x_of(y), y)))
    assert _added(points[-1], points[1]) == (0, 1)
    return points


POINTS = _group()
ORDINATES = {y for _, low in POINTS for y in (low, low + P) if y < 2**255}
KEYS = sorted((y | sign << 255).to_bytes(32, "little") for y in ORDINATES for sign in (0, 1))
"""Every encoding of a point of small order."""


def forged_signature(public, parts):
    """A signature under a key that has no owner: of `parts(n)` for the first n where one holds; (n, signature).

    s = 0, and R one of eight points: the equation R = -h A holds for a share of the messages, without any secret.
    """
    for n in itertools.count():
        for point in POINTS:
            signature = _written(point) + bytes(32)
            try:
                Ed25519PublicKey.from_public_bytes(public).verify(signature, parts(n))
            except InvalidSignature:
                continue
            return n, signature
    raise AssertionError


def forged_envelope(public, message_of_number):
    """An envelope whose signature the library accepts under a key of small order."""

    def signed(n):
        kind, payload = message_of_number(n)
        parts = (LABEL.encode(), kind.encode(), payload)
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    n, signature = forged_signature(public, signed)
    kind, payload = message_of_number(n)
    return encode(Envelope(label=LABEL, type=kind, payload=payload, signature=signature))


def unsigned_request(sender, recipient, number=0):
    return CardRequest(
        study=NO_STUDY, sender=sender, recipient=recipient, sequence=0, answers=NO_DIGEST, expires_at=NOW + 1 + number
    )


def test_there_are_fourteen_encodings():
    assert len(KEYS) == 14
    assert bytes(32) in KEYS


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_sender_whose_key_has_small_order_is_refused_even_if_a_policy_names_it(public, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(curator_node.policy, "check_public_key", lambda _: None)
        rules = Policy(name="basel", cap=1, learners=(LearnerPolicy(name="eve", key=public.hex(), cap=1),))
    curator = open_curator(rules=rules)
    data = forged_envelope(
        public, lambda n: ("card_request", encode(unsigned_request(public, curator.identity, number=n)))
    )
    refusal = message_of(curator.handle(data))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.recipient) == (RefusalCode.BAD_SIGNATURE, NOBODY)


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_policy_that_names_a_key_of_small_order_is_refused(public):
    with pytest.raises(ValueError, match="expril keys"):
        Policy(name="basel", cap=1, learners=(LearnerPolicy(name="eve", key=public.hex(), cap=1),))
    text = f'name = "basel"\ncap = 1\n[[learners]]\nname = "eve"\nkey = "{public.hex()}"\ncap = 1\n'
    with pytest.raises(ConfigurationError, match="expril keys"):
        read_policy(text)
    good = text.replace(public.hex(), key("ann").public.hex())
    assert read_policy(good).learner(key("ann").public) is not None


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_learner_that_pins_a_key_of_small_order_believes_nobody(public):
    curator = open_curator()
    session = Session(curator=public, key=key("ann"), study=b"s" * 16)
    request = session.request_card(NOW)
    real = open_envelope(curator.handle(seal(unsigned_request(key("ann").public, curator.identity), key("ann"))))[1]

    def card(n):
        head = {"sender": public, "answers": digest(request), "study": session.study, "expires_at": NOW + n}
        return "card", encode(msgspec.structs.replace(real, **head))

    with pytest.raises(RemoteProtocolError, match="bad_signature"):
        session.receive(forged_envelope(public, card))


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_a_receipt_or_a_ledger_s_head_under_a_key_of_small_order_is_refused(public):
    learner = opened(open_curator())
    receipt = open_receipt(learner.session.newest_receipt, learner.curator.identity)

    def theirs(n):
        return "receipt", encode(msgspec.structs.replace(receipt, curator=public, issued_at=n))

    with pytest.raises(RemoteProtocolError, match="bad_signature"):
        open_receipt(forged_envelope(public, theirs), public)
    n, signature = forged_signature(public, lambda n: b"expril/2 ledger head" + n.to_bytes(8, "big") + bytes(32))
    assert not head_is_signed(public, signature, n, bytes(32))
    assert not is_signed(public, signature, b"expril/2 ledger head" + n.to_bytes(8, "big") + bytes(32))


@pytest.mark.parametrize("public", KEYS, ids=bytes.hex)
def test_no_curator_answers_for_a_key_of_small_order(public):
    """As recipient it is simply another curator's."""
    refusal = message_of(open_curator().handle(seal(unsigned_request(key("ann").public, public), key("ann"))))
    assert refusal.code == RefusalCode.WRONG_RECIPIENT
    with pytest.raises(RemoteProtocolError):
        verify(decode(seal(unsigned_request(public, public), key("ann")), Envelope), public)
