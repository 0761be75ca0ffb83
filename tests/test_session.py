"""One learner's exchange with one curator: lawful steps against a list of their own, and hostile replies."""

import msgspec
import pytest
from learner_fakes import LEARNER, NOW, NoNoise, key, mass_body, open_curator, plan_of

from learner_node.session import Session
from protocol.codec import encode
from protocol.envelopes import NOT_PRIVATE_LABEL, digest, open_envelope, open_receipt, seal, seal_receipt
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import Card, Refusal, Release, StudyAccepted, StudyClosed
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.transcript import replay
from protocol.transitions import State

STUDY = b"s" * 16
PLAN = plan_of(10, 10)
BODY = encode(mass_body())

STEPS = {
    "card": lambda session: session.request_card(NOW),
    "propose": lambda session: session.propose(PLAN, "to test", NOW),
    "query": lambda session: session.query("counts", BODY, NOW),
    "close": lambda session: session.close(NOW),
}
REACH = {
    State.NEW: [],
    State.PROPOSED: ["propose"],
    State.OPEN: ["propose", "receive"],
    State.ASKED: ["propose", "receive", "query"],
    State.CLOSING: ["propose", "receive", "query", "receive", "close"],
    State.CLOSED: ["propose", "receive", "close", "receive"],
}
LAWFUL = {
    State.NEW: {"card", "propose"},
    State.PROPOSED: {"receive"},
    State.OPEN: {"card", "query", "close"},
    State.ASKED: {"receive", "close"},
    State.CLOSING: {"receive"},
    State.CLOSED: {"card"},
}
"""Written down here, apart from the table that the session drives."""


class Pair:
    """A session and a real curator; `step` takes one step, with the curator's honest reply to "receive"."""

    def __init__(self, **options):
        self.curator = open_curator("basel", noise=NoNoise(), **options)
        self.session = Session(curator=self.curator.identity, key=key(LEARNER), study=STUDY)

    def step(self, name):
        if name == "receive":
            return self.session.receive(self.curator.handle(self.session.pending) if self.session.pending else b"x")
        return STEPS[name](self.session)

    def at(self, state):
        for name in REACH[state]:
            self.step(name)
        assert self.session.state is state
        return self

    def reply(self):
        """The honest reply to what is pending, decoded."""
        return open_envelope(self.curator.handle(self.session.pending))[1]


def snapshot(session):
    return {**vars(session), "transcript": list(session.transcript.envelopes)}


@pytest.mark.parametrize("step", [*STEPS, "receive"])
@pytest.mark.parametrize("state", REACH)
def test_each_step_is_lawful_exactly_where_the_list_says(state, step):
    pair = Pair().at(state)
    before = snapshot(pair.session)
    if step in LAWFUL[state]:
        pair.step(step)
        assert snapshot(pair.session) != before
    else:
        with pytest.raises(LocalProtocolError):
            pair.step(step)
        assert snapshot(pair.session) == before


def test_a_whole_study_replays_at_its_exact_cost():
    pair = Pair()
    for step in ("card", "receive", "propose", "receive", "query", "receive", "query", "receive", "close", "receive"):
        pair.step(step)
    proof = replay(pair.session.transcript.envelopes, pair.curator.identity, key(LEARNER).public)
    assert pair.session.state is State.CLOSED
    assert proof.releases == 2
    assert proof.epsilon_spent == proof.epsilon_claimed
    assert pair.session.receipt.spent_by_study == "1/5"
    assert pair.session.closed.refunded == "0"


def test_a_card_is_read_again_in_an_open_study():
    pair = Pair().at(State.OPEN)
    pair.step("card")
    assert isinstance(pair.step("receive"), Card)
    assert pair.session.state is State.OPEN
    assert isinstance((pair.step("query"), pair.step("receive"))[1], Release)


def test_a_refused_query_may_be_asked_again_with_the_same_sequence():
    pair = Pair().at(State.OPEN)
    pair.session.query("counts", b"rubbish", NOW)
    assert isinstance(pair.step("receive"), Refusal)
    assert (pair.session.state, pair.session.sequence) == (State.OPEN, 0)
    pair.step("query")
    assert isinstance(pair.step("receive"), Release)


def test_a_refused_proposal_may_be_changed():
    pair = Pair(cap="1/20")
    pair.step("propose")
    refusal = pair.step("receive")
    assert (refusal.code, refusal.scale_factor) == (RefusalCode.OVER_BUDGET, "4")
    pair.session.propose(plan_of(40, 40), "cheaper", NOW)
    assert isinstance(pair.step("receive"), StudyAccepted)


def test_a_refused_close_leaves_the_study_open():
    pair = Pair().at(State.OPEN)
    pair.step("close")
    no = _refusal(pair, RefusalCode.HALTED)
    pair.session.receive(seal(no, key("basel")))
    assert (pair.session.state, pair.session.sequence) == (State.OPEN, 0)
    pair.step("close")
    assert isinstance(pair.step("receive"), StudyClosed)


@pytest.mark.parametrize("state", [State.PROPOSED, State.ASKED, State.CLOSING])
def test_unavailable_keeps_the_request_pending_and_the_same_bytes_are_answered_later(state):
    pair = Pair().at(state)
    before = snapshot(pair.session)
    said = pair.session.receive(seal(_refusal(pair, RefusalCode.UNAVAILABLE), key("basel")))
    assert said.code == RefusalCode.UNAVAILABLE
    assert snapshot(pair.session) == before
    assert not isinstance(pair.step("receive"), Refusal)


def _refusal(pair, code, **changes):
    asked = open_envelope(pair.session.pending)[1]
    return Refusal(
        study=STUDY,
        sender=pair.curator.identity,
        recipient=key(LEARNER).public,
        sequence=asked.sequence,
        answers=digest(pair.session.pending),
        expires_at=NOW + 60,
        code=code,
        explanation=EXPLANATIONS.get(code, ""),
        field="",
        limit="",
        remaining="",
        scale_factor="",
    )


def _changed(**changes):
    return lambda pair: seal(msgspec.structs.replace(pair.reply(), **changes), key("basel"))


def _receipt(signer="basel", **changes):
    def forge(pair):
        reply = pair.reply()
        receipt = msgspec.structs.replace(open_receipt(reply.receipt, pair.curator.identity), **changes)
        return seal(msgspec.structs.replace(reply, receipt=seal_receipt(receipt, key(signer))), key("basel"))

    return forge


def _broken_signature(pair):
    envelope = open_envelope(pair.curator.handle(pair.session.pending))[0]
    return encode(msgspec.structs.replace(envelope, signature=bytes(64)))


def _retyped(pair):
    envelope = open_envelope(pair.curator.handle(pair.session.pending))[0]
    other = "release" if envelope.type == "study_closed" else "study_closed"
    return encode(msgspec.structs.replace(envelope, type=other))


def _of_another_type(pair):
    asked, reply = open_envelope(pair.session.pending)[1], pair.reply()
    header = {name: getattr(reply, name) for name in ("study", "sender", "recipient", "answers", "expires_at")}
    header |= {"sequence": asked.sequence, "receipt": reply.receipt}
    closed = StudyClosed(**header, refunded="0")
    accepted = StudyAccepted(**header, cost="1/5", reserved_until=NOW)
    return seal(closed if not isinstance(reply, StudyClosed) else accepted, key("basel"))


FORGERIES = {
    "no bytes": lambda pair: b"",
    "no envelope": lambda pair: b"\x93rubbish",
    "its own request": lambda pair: pair.session.pending,
    "cut short": lambda pair: pair.curator.handle(pair.session.pending)[:-1],
    "broken signature": _broken_signature,
    "another type on the envelope": _retyped,
    "signed by another": lambda pair: seal(pair.reply(), key("bern")),
    "another curator's": lambda pair: seal(
        msgspec.structs.replace(pair.reply(), sender=key("bern").public), key("bern")
    ),
    "of another sender": _changed(sender=key("bern").public),
    "to another learner": _changed(recipient=key("bob").public),
    "of another study": _changed(study=b"t" * 16),
    "of another sequence": _changed(sequence=7),
    "to another request": _changed(answers=bytes(32)),
    "of the wrong type": _of_another_type,
    "noise from a seed": lambda pair: seal(pair.reply(), key("basel"), label=NOT_PRIVATE_LABEL),
    "a refusal of no known code": lambda pair: seal(_refusal(pair, "because"), key("basel")),
    "a refusal by another": lambda pair: seal(_refusal(pair, RefusalCode.HALTED), key("bern")),
    "no receipt": _changed(receipt=b""),
    "receipt signed by another": _receipt("bern"),
    "receipt of another learner": _receipt(learner=key("bob").public),
    "receipt of another study": _receipt(study=b"t" * 16),
    "receipt of another sequence": _receipt(sequence=7),
    "receipt of another request": _receipt(request=bytes(32)),
    "receipt of another release": _receipt(release=b"r" * 32),
    "receipt of another curator": _receipt(curator=key("bern").public),
}


@pytest.mark.parametrize("state", [State.PROPOSED, State.ASKED, State.CLOSING])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_reply_is_refused_and_changes_nothing(state, forgery):
    pair = Pair().at(state)
    data = FORGERIES[forgery](pair)
    before = snapshot(pair.session)
    with pytest.raises(RemoteProtocolError):
        pair.session.receive(data)
    assert snapshot(pair.session) == before
    assert not isinstance(pair.step("receive"), Refusal)


def test_a_card_of_another_study_is_refused():
    pair = Pair()
    pair.step("card")
    with pytest.raises(RemoteProtocolError):
        pair.session.receive(_changed(study=b"t" * 16)(pair))
    assert pair.session.card is None


def test_a_repeated_reply_finds_nothing_pending():
    pair = Pair().at(State.ASKED)
    reply = pair.curator.handle(pair.session.pending)
    pair.session.receive(reply)
    before = snapshot(pair.session)
    with pytest.raises(LocalProtocolError):
        pair.session.receive(reply)
    assert snapshot(pair.session) == before


def test_the_reply_to_an_earlier_query_does_not_answer_the_next():
    pair = Pair().at(State.ASKED)
    reply = pair.curator.handle(pair.session.pending)
    pair.session.receive(reply)
    pair.step("query")
    with pytest.raises(RemoteProtocolError):
        pair.session.receive(reply)


def test_a_late_release_does_not_answer_the_close():
    pair = Pair().at(State.ASKED)
    reply = pair.curator.handle(pair.session.pending)
    pair.step("close")
    with pytest.raises(RemoteProtocolError):
        pair.session.receive(reply)
    pair.step("receive")
    assert pair.session.receipt.spent_by_study == "1/10"


def test_an_altered_release_body_does_not_fit_its_receipt():
    pair = Pair().at(State.ASKED)
    with pytest.raises(RemoteProtocolError, match="receipt"):
        pair.session.receive(_changed(body=b"other")(pair))
