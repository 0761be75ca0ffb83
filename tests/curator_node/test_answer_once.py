"""One charge, one draw, one answer; refusals that are final or not; work that is bounded; what an answerer may do."""

import logging
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_attacks import THIRTIETH, header, proposal, query, refused

from curator_fakes import (
    MARKS,
    NOW,
    Clock,
    CountingEntropy,
    CountingNoise,
    FlakyStore,
    Learner,
    ZeroNoise,
    altered,
    dataset,
    key,
    ledger_over,
    mass_body,
    message_of,
    open_curator,
    opened,
    plan_of,
    policy,
)
from curator_node.answering import Seat
from curator_node.identities import FormerKey, Keys
from curator_node.ledger import create_ledger
from curator_node.ledger.checks import check, load
from curator_node.ledger.ledger import Ledger, hand_over
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.sealing import StateSealer
from curator_node.ledger.store import DatabaseStore, MemoryStore, sqlite_url
from curator_node.ledger.studies import StudyKey, state_key
from curator_node.site import assemble_site
from protocol.codec import encode
from protocol.envelopes import (
    LABEL,
    Envelope,
    digest,
    is_signed,
    open_envelope,
    open_receipt,
    request_digest,
    seal,
    statement_bytes,
    verify,
)
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import STATE_SEAL_BYTES, decode_entry
from protocol.messages import Card, CardRequest, Refusal, Release, StudyAccepted, StudyClose, StudyClosed
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.refusals import RETRIABLE, RefusalCode
from toy.answerer import TOY_ANSWERER
from toy.curators import RULES, TABLE, toy_curator
from toy.kind import TOY, PlannedToy, ToyBody


def digest_of(sent, name="ann"):
    envelope, _ = open_envelope(sent)
    return request_digest(key(name).public, envelope.type, envelope.payload)


def kinds(curator):
    return [decode_entry(row.body).kind for row in curator._ledger.store.rows(0)]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("how", ["lost", "changed"])
def test_a_lost_reply_is_never_drawn_again(how, restart, caplog):
    """A restored table, a retention job, an administrator: it used to sell fresh noise for nothing."""
    caplog.set_level(logging.ERROR)
    store, noise = MemoryStore(), CountingNoise()
    curator = open_curator(store, noise=noise)
    learner = opened(curator)
    learner.query()
    sent = learner.session.transcript.envelopes[-2]
    reply = store._replies.pop(digest_of(sent))
    if how == "changed":
        store._replies[digest_of(sent)] = reply[:-1] + bytes([reply[-1] ^ 1])
    if restart:
        curator = open_curator(store, noise=noise)
    before = load(store)
    for _ in range(3):
        refusal = message_of(curator.handle(sent))
        assert (refusal.code, refusal.final) == (RefusalCode.ANSWER_GONE, True)
    assert noise.draws == 1
    assert load(store) == before
    assert "ledger entry 6 is missing or changed" in caplog.text, "the steward is told"
    assert [finding.index for finding in check(store).findings] == [6]


def test_the_last_reply_that_was_lost_does_not_stop_the_study():
    store = MemoryStore()
    learner = opened(open_curator(store))
    learner.query()
    store._replies.clear()
    assert isinstance(learner.query(), Release)
    assert isinstance(learner.close(), StudyClosed)


def test_every_reply_that_left_has_its_digest_in_the_chain():
    curator = open_curator()
    learner = opened(curator)
    for act in (learner.query, learner.query, learner.close):
        act()
    replies = learner.session.transcript.envelopes[1::2]
    entries = [decode_entry(row.body) for row in curator._ledger.store.rows(0)]
    assert [entry.reply for entry in entries if entry.kind == "answered"] == [digest(reply) for reply in replies]


def test_the_mark_moves_before_the_answer_leaves():
    store = MemoryStore()
    curator = open_curator(store)
    learner = opened(curator)
    for act in (learner.query, learner.close):
        act()
        assert MARKS[store].read().position.index == len(store.rows(0)) - 1


def test_a_mark_that_cannot_be_written_holds_the_answer_back():
    store = MemoryStore()
    curator = open_curator(store)
    learner = opened(curator)
    write = MARKS[store].write

    def fail(_):
        raise OSError

    MARKS[store].write = fail
    assert learner.query().code == RefusalCode.UNAVAILABLE
    MARKS[store].write = write
    assert isinstance(learner.ask(), Release)
    assert kinds(curator).count("charge") == 1


def answered_and_put_back(*, mark):
    """A query's charge is in the chain, its answer was sent and is lost; with `mark` the mark was put back as well."""
    store = MemoryStore()
    learner = opened(open_curator(store))
    mark_before = MARKS[store].read()
    learner.query()
    store._rows.pop()
    store._replies.pop(digest_of(learner.session.transcript.envelopes[-2]))
    if mark:
        MARKS[store].write(mark_before)
    curator = learner.curator = open_curator(store, noise=CountingNoise())
    return curator, learner, learner.session.transcript.envelopes[-2]


def test_an_answer_that_a_rollback_took_is_never_drawn_again_before_or_after_the_steward_acts():
    curator, learner, sent = answered_and_put_back(mark=False)
    assert curator._ledger.account.halted
    assert message_of(curator.handle(sent)).code == RefusalCode.ANSWER_GONE
    curator._ledger.resume(NOW, note="a test")
    assert message_of(curator.handle(sent)).code == RefusalCode.ANSWER_GONE
    assert curator._noise.draws == 0
    assert curator._ledger.account.total_spent == 2 * THIRTIETH, "it was open at the fork"
    with_receipt = proposal(curator, study=b"f" * 16, receipt=learner.session.newest_receipt)
    assert message_of(curator.handle(with_receipt)).code == RefusalCode.LEDGER_ROLLED_BACK
    curator._ledger.resume(NOW, note="another test")
    again = proposal(curator, study=b"g" * 16, receipt=learner.session.newest_receipt)
    assert isinstance(message_of(curator.handle(again)), StudyAccepted), "the receipt has nothing more to tell"


def test_an_answer_that_was_drawn_twice_is_entered_twice_when_a_receipt_shows_it():
    """Ledger and mark were put back together: nobody could know. The lost answer's receipt tells."""
    curator, learner, sent = answered_and_put_back(mark=True)
    assert not curator._ledger.account.halted
    assert isinstance(message_of(curator.handle(sent)), Release)
    assert curator._noise.draws == 1
    with_receipt = proposal(curator, study=b"f" * 16, receipt=learner.session.newest_receipt)
    assert message_of(curator.handle(with_receipt)).code == RefusalCode.LEDGER_ROLLED_BACK
    assert [item.total for item in curator._ledger.resume(NOW, note="a test")] == [THIRTIETH]
    assert curator._ledger.account.total_spent == curator._ledger.account.spent[key("ann").public] == 2 * THIRTIETH
    assert isinstance(message_of(curator.handle(with_receipt)), StudyAccepted)
    assert check(curator._ledger.store).findings == ()


def test_a_proposal_refused_for_good_never_reserves_when_it_is_replayed():
    """Not after the budget is free again, not after a restart, not under a richer policy."""
    store = MemoryStore()
    curator = open_curator(store, rules=policy(cap="1/2"))
    bob = opened(curator, "bob", plan=plan_of(4))
    sent = proposal(curator, plan_of("4/3"))
    first = refused(curator, sent, RefusalCode.OVER_BUDGET)
    bob.close()
    for again in (curator, open_curator(store, rules=policy(cap="1/2")), open_curator(store, rules=policy(cap=5))):
        refusal = message_of(again.handle(sent))
        assert (refusal.code, refusal.remaining, refusal.final) == (RefusalCode.OVER_BUDGET, first.remaining, True)
    assert not any(study.learner == key("ann").public for study in load(store).studies)
    anew = proposal(again, plan_of("4/3"), study=b"another identity")
    assert isinstance(message_of(again.handle(anew)), StudyAccepted)


def test_a_query_refused_for_good_is_not_answered_when_it_is_replayed():
    store = MemoryStore()
    learner = opened(open_curator(store), plan=plan_of(2, 2))
    poor = open_curator(store, rules=policy(cap="1/4"))
    sent = query(learner)
    refused(poor, sent, RefusalCode.OVER_BUDGET)
    rich = open_curator(store)
    refused(rich, sent, RefusalCode.OVER_BUDGET)
    assert load(store).total_spent == 0
    assert isinstance(message_of(rich.handle(query(learner, mass_body(50.0)))), Release), "another question is another"


@pytest.mark.parametrize("step", ["query", "close"])
def test_what_waits_for_the_steward_may_still_be_answered(step):
    curator = open_curator()
    learner = opened(curator)
    if step == "query":
        curator._ledger.halt(NOW, "a pause")
        sent = query(learner)
    else:
        learner.query()
        curator._ledger.store = FlakyStore(curator._ledger.store)
        curator._ledger.store.full = True
        close = StudyClose(**header(curator, study=learner.session.study, sequence=2))
        sent = seal(close, key("ann"))
    refusal = message_of(curator.handle(sent))
    assert not refusal.final
    curator._ledger.store.full = False
    curator._ledger.resume(NOW, note="go on")
    assert isinstance(message_of(curator.handle(sent)), Release if step == "query" else StudyClosed)


def test_a_refusal_that_names_nobody_is_never_final():
    """The sender was not verified, so nothing is remembered: the same bytes may be answered tomorrow."""
    store = MemoryStore()
    curator = open_curator(store, rules=policy(("bob",)))
    sent = proposal(curator)
    assert not refused(curator, sent, RefusalCode.UNKNOWN_SENDER).final
    assert isinstance(message_of(open_curator(store).handle(sent)), StudyAccepted)


def test_retriable_refusals_are_neither_remembered_nor_in_the_chain():
    curator = open_curator()
    curator._ledger.halt(NOW, "a pause")
    before = curator._ledger.store.rows(0)
    for number in range(1, 4):
        curator.handle(proposal(curator, study=bytes([number]) * 16))
    assert curator._ledger.store.rows(0) == before
    assert curator._ledger.store.refusals(key("ann").public, NOW) == 0
    assert {RefusalCode.HALTED, RefusalCode.UNAVAILABLE, RefusalCode.BUSY} <= RETRIABLE


def test_a_refusal_that_could_not_be_remembered_is_not_given():
    store = FlakyStore()
    curator = open_curator(store)
    store.full = True
    sent = proposal(curator, plan_of("1/2"))
    assert message_of(curator.handle(sent)).code == RefusalCode.UNAVAILABLE
    store.full = False
    refused(curator, sent, RefusalCode.OVER_BUDGET)


def test_what_is_remembered_of_refusals_is_bounded_and_dropped_when_it_expires():
    clock, store = Clock(), MemoryStore()
    curator = open_curator(store, clock=clock, rules=policy(refusals_per_day=5, message_seconds=700))
    for number in range(1, 20):
        curator.handle(proposal(curator, plan_of("1/2"), study=bytes([number]) * 16))
        curator = open_curator(store, clock=clock, rules=curator.policy)  # a restart forgets the meter, not the table
    assert store.refusals(key("ann").public, clock()) == len(store._refusals) == 5
    over = proposal(curator, plan_of("1/2"), study=b"one more" * 2)
    assert message_of(curator.handle(over)).code == RefusalCode.TOO_MANY_REQUESTS
    assert isinstance(message_of(curator.handle(proposal(curator))), StudyAccepted)
    clock.advance(601)
    fresh = proposal(curator, plan_of("1/2"), study=b"another identity", expires_at=clock() + 600)
    assert message_of(curator.handle(fresh)).code == RefusalCode.OVER_BUDGET
    assert len(store._refusals) == 1


def test_requests_are_metered_by_day_answered_or_refused(clock):
    curator = open_curator(clock=clock, rules=policy(requests_per_day=3))
    for number in range(3):
        ask = CardRequest(**header(curator, expires_at=clock() + 600 - number))
        assert isinstance(message_of(curator.handle(seal(ask, key("ann")))), Card)
    refusal = message_of(curator.handle(proposal(curator)))
    assert (refusal.code, refusal.final) == (RefusalCode.TOO_MANY_REQUESTS, False)
    assert refusal.limit == "at most 3 requests a day"
    assert isinstance(message_of(curator.handle(proposal(curator, name="bob"))), StudyAccepted)
    clock.advance(86_400)
    assert isinstance(message_of(curator.handle(proposal(curator, expires_at=clock() + 600))), StudyAccepted)


def test_refused_queries_of_a_study_are_metered():
    curator = open_curator(rules=policy(refusals_per_study=3))
    learner = opened(curator)
    for number in range(3):
        assert message_of(curator.handle(query(learner, mass_body(float(number), -1.0)))).final
    assert message_of(curator.handle(query(learner))).code == RefusalCode.TOO_MANY_REQUESTS
    other = opened(curator, study=b"another")
    assert isinstance(other.query(), Release)


def test_a_full_store_refuses_before_it_charges():
    curator = open_curator(rules=policy(reply_bytes=2**20))
    learner = opened(curator, plan=plan_of(1000, 1000, 1000))
    curator._ledger.account.kept_bytes += 2**20 - 10_000
    refusal = learner.query()
    assert (refusal.code, refusal.final) == (RefusalCode.STORE_FULL, False)
    assert curator._ledger.account.total_spent == 0
    assert message_of(curator.handle(proposal(curator, name="bob"))).code == RefusalCode.STORE_FULL
    assert isinstance(Learner(curator).card(), Card)


def test_replies_of_ended_studies_make_room_by_an_entry_and_are_never_drawn_again():
    curator = open_curator(rules=policy(reply_bytes=2**20), noise=(noise := CountingNoise()))
    ended = opened(curator, plan=plan_of(1000), study=b"done")
    ended.query()
    request = ended.session.transcript.envelopes[-2]
    ended.close()
    learner = opened(curator, plan=plan_of(1000, 1000), study=b"open")
    curator._ledger.account.kept_bytes += 2**20 - curator._ledger.account.kept_bytes - 8_200
    assert isinstance(learner.query(), Release)
    assert kinds(curator).count("evict") == 1
    refused(curator, request, RefusalCode.ANSWER_GONE)
    assert noise.draws == 2
    assert curator._ledger.store.reply(digest_of(request)) is None
    first = learner.session.transcript.envelopes[0]
    assert curator.handle(first) == learner.session.transcript.envelopes[1], "an open study keeps its replies"


class Gate(ZeroNoise):
    """Noise that waits until it is let through."""

    def __init__(self):
        super().__init__()
        self.reached, self.open = threading.Event(), threading.Event()

    def discrete_laplace(self, exact, l1, law, stamp):
        self.reached.set()
        assert self.open.wait(60)
        return super().discrete_laplace(exact, l1, law, stamp)


@pytest.mark.parametrize("where", ["memory", "database"])
def test_cards_closes_and_refusals_do_not_wait_for_a_running_count(where, tmp_path):
    store = MemoryStore() if where == "memory" else DatabaseStore(sqlite_url(tmp_path / "a.ledger"), create=True)
    gate = Gate()
    curator = open_curator(store, noise=gate)
    ann, bob = opened(curator, "ann"), opened(curator, "bob", study=b"bob's")
    sent = query(ann)
    replies = []
    counting = threading.Thread(target=lambda: replies.append(curator.handle(sent)))
    counting.start()
    try:
        assert gate.reached.wait(60)
        assert isinstance(Learner(curator).card(), Card)
        assert message_of(curator.handle(proposal(curator, plan_of("1/9")))).code == RefusalCode.OVER_BUDGET
        assert message_of(curator.handle(sent)).code == RefusalCode.BUSY
        assert isinstance(bob.close(), StudyClosed)
        close = seal(StudyClose(**header(curator, study=ann.session.study, sequence=2)), key("ann"))
        assert isinstance(message_of(curator.handle(close)), StudyClosed)
        assert replies == []
    finally:
        gate.open.set()
        counting.join()
    assert isinstance(message_of(replies[0]), Release), "charged, so answered, though the study was closed meanwhile"
    assert curator.handle(sent) == replies[0]
    assert len(gate.calls) == 1
    assert kinds(curator).count("charge") == 1
    store.close()


def test_a_count_is_not_cancelled_by_time():
    gate, clock = Gate(), Clock()
    curator = open_curator(noise=gate, clock=clock, rules=policy(reservation_seconds=100))
    learner = opened(curator, clock=clock)
    sent = query(learner)
    replies = []
    counting = threading.Thread(target=lambda: replies.append(curator.handle(sent)))
    counting.start()
    assert gate.reached.wait(60)
    clock.advance(10**6)
    curator._ledger.expire(clock())
    gate.open.set()
    counting.join()
    assert isinstance(message_of(replies[0]), Release)
    assert curator.handle(sent) == replies[0]


def test_a_curator_that_is_shut_down_while_it_counts_has_charged():
    """The next process answers the same bytes once, uncharged."""
    store, gate = MemoryStore(), Gate()
    curator = open_curator(store, noise=gate)
    learner = opened(curator)
    sent = query(learner)
    counting = threading.Thread(target=lambda: curator.handle(sent), daemon=True)
    counting.start()
    assert gate.reached.wait(60)
    successor = open_curator(store)
    first = successor.handle(sent)
    assert isinstance(message_of(first), Release)
    gate.open.set()
    counting.join()
    assert curator.handle(sent) == successor.handle(sent) == first
    assert kinds(successor).count("charge") == 1
    assert load(store).total_spent == load(store).studies[next(iter(load(store).studies))].spent


def test_many_threads_charge_each_query_once(tmp_path):
    store = DatabaseStore(sqlite_url(tmp_path / "a.ledger"), create=True)
    curator = open_curator(store, rules=policy(cap=10))
    learners = [opened(curator, "ann", plan=plan_of(10), study=b"study %d" % n) for n in range(4)]
    sent = [query(learner) for learner in learners] * 3
    replies = {}

    def ask(number):
        while True:
            reply = curator.handle(sent[number])
            if not isinstance(message_of(reply), Refusal):
                replies[number] = reply
                return

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(sent))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(replies.values())) == 4
    assert kinds(curator).count("charge") == kinds(curator).count("answered") - 4 == 4
    assert check(ledger_over(store).store).findings == ()
    store.close()


# --- What an answerer is told and may do: check before the charge, sign from its seat, keep what nobody else can read.

ASK, GO_ON = encode(ToyBody(above=29.5)), encode(ToyBody(above=None))
STUDY = StudyKey(key("ann").public, b"s" * 16)


class Asker(Learner):
    """A learner whose study of one toy query is open."""

    def __init__(self, curator):
        super().__init__(curator)
        self.session.kinds = type(self.session.kinds)(TOY)
        self.propose(Plan.of([PlannedToy(scale=Rational(10, 1), level=5, turns=2)]))

    def turn(self, body):
        return self.query(body, "toy")


def with_toy(**parts):
    return {**TABLE, "toy": replace(TOY_ANSWERER, **parts)}


def entries(store):
    return check(store).entries


def test_a_question_is_checked_before_it_is_charged_and_a_refusal_changes_nothing():
    store, questions = MemoryStore(), []

    def look(question):
        questions.append(question)
        if question.turn.number == 1:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.above", "nothing more")

    asker = Asker(toy_curator(store, answerers=with_toy(check=look)))
    asker.turn(ASK)
    replies, before = dict(store._replies), entries(store)
    refusal = asker.turn(GO_ON)
    assert (refusal.code, refusal.field, refusal.limit) == (RefusalCode.BAD_QUERY, "body.above", "nothing more")
    assert (dict(store._replies), entries(store)) == (replies, before)
    asker.curator = toy_curator(store)
    asker.session.query("toy", GO_ON, NOW + 1)
    assert isinstance(asker.ask(), Release), "the turn was not used up"
    assert [question.state for question in questions] == [b"", encode((50, 29.5))]


def test_the_answerer_gets_the_very_question_that_was_checked():
    questions = []

    def answer(question, records, noise):
        questions.append(question)
        return TOY_ANSWERER.answer(question, records, noise)

    asker = Asker(toy_curator(answerers=with_toy(check=questions.append, answer=answer)))
    asker.turn(ASK)
    asker.turn(GO_ON)
    assert len(questions) == 4
    assert questions[0] is questions[1]
    assert questions[2] is questions[3]


def test_no_refusal_by_an_answerer_denies_the_charge():
    """What it needs was changed between charge and answer; the learner must not take the turn for unused."""
    store = MemoryStore()

    def refuse(question, records, noise):
        raise RemoteProtocolError(RefusalCode.BAD_QUERY)

    asker = Asker(toy_curator(store, answerers=with_toy(answer=refuse)))
    assert asker.turn(ASK).code == RefusalCode.ANSWER_GONE
    assert [entry.kind for entry in entries(store)].count("charge") == 1


def test_what_was_charged_is_answered_without_another_check():
    store, checked = MemoryStore(), []

    def die(question, records, noise):
        raise MemoryError

    asker = Asker(toy_curator(store, answerers=with_toy(answer=die, check=checked.append)))
    assert asker.turn(ASK).code == RefusalCode.UNAVAILABLE
    asker.curator = toy_curator(store, answerers=with_toy(check=checked.append))
    assert isinstance(asker.ask(), Release)
    sent = asker.session.transcript.envelopes[-2]
    asker.curator.handle(sent)
    assert len(checked) == 1
    assert [entry.kind for entry in entries(store)].count("charge") == 1


def test_another_process_s_answer_is_sent_where_it_came_while_the_body_was_read():
    """Its state is the next turn's by then: the question could not be answered any more."""
    store, others = MemoryStore(), []

    def read(data, turn, terms):
        while others:
            others.pop()()
        return TOY.read_body(data, turn, terms)

    kind = altered(TOY, read_body=read)
    asker = Asker(toy_curator(store, answerers=with_toy(kind=kind)))
    asker.turn(ASK)
    asker.session.query("toy", GO_ON, NOW)
    sent, replies = asker.session.pending, []
    others.append(lambda: replies.append(toy_curator(store).handle(sent)))
    assert asker.curator.handle(sent) == replies[0]
    assert isinstance(message_of(replies[0]), Release)


def test_a_charge_says_what_its_kind_says_of_the_request():
    store = MemoryStore()
    kind = altered(
        TOY, charge_note=lambda question: f"above {question.body.above}" if question.turn.number == 0 else ""
    )
    asker = Asker(toy_curator(store, answerers=with_toy(kind=kind)))
    asker.turn(ASK)
    asker.turn(GO_ON)
    assert [entry.note for entry in entries(store) if entry.kind == "charge"] == ["above 29.5", ""]


def test_a_statement_is_the_curator_s_and_never_an_envelope_or_a_receipt():
    seats = []
    asker = Asker(toy_curator(answerers=with_toy(check=lambda question: seats.append(question.seat))))
    asker.turn(ASK)
    (seat,) = seats
    public, label = key("basel").public, asker.curator.label
    assert (seat.identity, seat.label, seat.learner) == (public, label, key("ann").public)
    payload = b"what it says"
    for type_name in ("query", "receipt", "release", "key card"):
        signature = seat.sign(type_name, payload)
        assert is_signed(public, signature, statement_bytes(label, type_name, payload))
        assert not is_signed(public, signature, statement_bytes("expril/2 simulation, not private", type_name, payload))
        assert not is_signed(public, signature, statement_bytes(label, "another", payload))
        envelope = Envelope(label=label, type=type_name, payload=payload, signature=signature)
        for wrong in (envelope, Envelope("expril/2 statement", type_name, payload, signature)):
            with pytest.raises(RemoteProtocolError):
                verify(wrong, public, label=label)
            with pytest.raises(RemoteProtocolError):
                open_receipt(encode(wrong), public, label=label)


def test_a_seat_and_a_question_show_no_secret_when_they_are_printed():
    seat = Seat.of(key("basel"), LABEL, key("ann").public, CountingEntropy())
    questions = []
    asker = Asker(toy_curator(answerers=with_toy(check=questions.append)))
    asker.turn(ASK)
    asker.turn(GO_ON)
    assert "entropy" not in repr(seat)
    assert "state" not in repr(questions[1])


@given(state=st.binary(max_size=100), other=st.binary(min_size=16, max_size=16))
def test_a_kept_state_opens_for_its_study_and_kind_alone(state, other):
    sealer = StateSealer([key("basel")], CountingEntropy())
    sealed = sealer.seal(state, STUDY, "toy")
    assert len(sealed) == len(state) + STATE_SEAL_BYTES
    assert sealer.open(sealed, STUDY, "toy") == state
    assert sealer.open(sealed, STUDY, "counts") is None
    assert sealer.open(sealed, StudyKey(key("bob").public, STUDY.study), "toy") is None
    assert sealer.open(sealed, StudyKey(STUDY.learner, other), "toy") is None or other == STUDY.study
    assert StateSealer([key("elsewhere")], CountingEntropy()).open(sealed, STUDY, "toy") is None
    for cut in (b"", sealed[:11], sealed[:-1], sealed[:-1] + bytes([sealed[-1] ^ 1])):
        assert sealer.open(cut, STUDY, "toy") is None


def test_the_store_never_holds_what_an_answerer_keeps_readable():
    store = MemoryStore()
    asker = Asker(toy_curator(store))
    asker.turn(ASK)
    stored = store._replies[state_key(StudyKey(asker.session.key.public, asker.session.study), "toy")]
    plain = encode((50, 29.5))
    assert len(stored) == len(plain) + STATE_SEAL_BYTES
    assert plain not in stored
    assert not any(plain in row.body for row in store.rows(0))
    assert check(store).findings == ()


def test_a_study_that_is_open_while_the_key_changes_goes_on():
    """What was kept under the old key opens; what is kept from then on is under the new one alone."""
    old, new = key("basel"), key("basel, later")
    store = MemoryStore()
    create_ledger(store, old, MemoryMark(), now=NOW)

    def served(keys):
        ledger = Ledger(store, key=keys.current, mark=MemoryMark())
        ledger.settle()
        parts = {"key": keys.current, "former": keys.former, "ledger": ledger, "clock": lambda: NOW}
        return assemble_site(dataset(), RULES, answerers=TABLE, **parts).curator

    asker = Asker(served(Keys(old)))
    asker.turn(ASK)
    place = state_key(StudyKey(asker.session.key.public, asker.session.study), "toy")
    under_old = store._replies[place]
    hand_over(store, old, new, NOW)
    asker.curator = served(Keys(new, (FormerKey(old, NOW + 100),)))
    assert isinstance(asker.turn(GO_ON), Release)
    study = StudyKey(asker.session.key.public, asker.session.study)
    sealer = StateSealer([new, old], CountingEntropy())
    assert sealer.open(under_old, study, "toy") is not None
    assert StateSealer([old], CountingEntropy()).open(sealer.seal(b"later", study, "toy"), study, "toy") is None


def test_a_state_that_another_key_sealed_is_gone():
    store = MemoryStore()
    asker = Asker(toy_curator(store))
    asker.turn(ASK)
    ledger = asker.curator._ledger
    stranger = StateSealer([key("another")], CountingEntropy())
    study = StudyKey(asker.session.key.public, asker.session.study)
    asker.curator._sealer = stranger
    before = len(entries(store))
    assert asker.turn(GO_ON).code == RefusalCode.STATE_GONE
    assert len(entries(store)) == before
    assert ledger.account.states[study, "toy"].size > 0


def test_what_a_curator_makes_room_for_holds_the_seal():
    """The limit of what is kept is met to the byte, before anything is charged."""
    tight = policy(cap=10, limits=RULES.limits, reply_bytes=2**20)
    curator = toy_curator(rules=tight)
    question = []
    curator._answerers = with_toy(check=question.append)
    asker = Asker(curator)
    asker.turn(ASK)
    room = curator._room(question[0])
    assert room == 8192 + TOY.release_bytes(None) + TOY.state_bytes + STATE_SEAL_BYTES


def test_what_a_kind_says_of_a_release_is_noted_with_its_answer():
    kind = altered(TOY, release_note=lambda release, question: f"turn {question.turn.number}: {len(release)} bytes")
    store = MemoryStore()
    asker = Asker(toy_curator(store, answerers=with_toy(kind=kind)))
    release = asker.turn(ASK)
    answered = [entry for entry in entries(store) if entry.kind == "answered" and entry.note]
    assert [entry.note for entry in answered] == [f"turn 0: {len(release.body)} bytes"]
