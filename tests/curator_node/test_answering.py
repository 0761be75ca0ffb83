"""What an answerer is told and may do: check before the charge, sign from its seat, keep what nobody else can read.

Shown with a kind that is not shipped, `tests/support/toy`.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator_fakes import NOW, CountingEntropy, Learner, altered, dataset, key, message_of, policy
from curator_node.answering import Seat
from curator_node.identities import FormerKey, Keys
from curator_node.ledger import create_ledger
from curator_node.ledger.book import Ledger, hand_over
from curator_node.ledger.checks import check
from curator_node.ledger.marks import MemoryMark
from curator_node.ledger.sealing import StateSealer
from curator_node.ledger.store import MemoryStore
from curator_node.ledger.studies import StudyKey, state_key
from curator_node.site import assemble_site
from protocol.codec import encode
from protocol.envelopes import LABEL, Envelope, is_signed, open_receipt, statement_bytes, verify
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import STATE_SEAL_BYTES
from protocol.messages import Release
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from toy.answerer import TOY_ANSWERER
from toy.curators import RULES, TABLE, toy_curator
from toy.kind import TOY, PlannedToy, ToyBody

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


# check


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


# the seat


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


# what is kept


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


# notes of releases


def test_what_a_kind_says_of_a_release_is_noted_with_its_answer():
    kind = altered(TOY, release_note=lambda release, question: f"turn {question.turn.number}: {len(release)} bytes")
    store = MemoryStore()
    asker = Asker(toy_curator(store, answerers=with_toy(kind=kind)))
    release = asker.turn(ASK)
    answered = [entry for entry in entries(store) if entry.kind == "answered" and entry.note]
    assert [entry.note for entry in answered] == [f"turn 0: {len(release.body)} bytes"]
