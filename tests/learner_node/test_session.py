"""One learner's exchange with one curator: lawful steps against a list of their own, and hostile replies."""

import copy
from fractions import Fraction

import msgspec
import pytest

from learner_fakes import LEARNER, NOW, key, mass_body, plan_of
from learner_node.study.session import Session
from obedient_curator import ObedientCurator
from protocol.codec import encode
from protocol.envelopes import NOT_PRIVATE_LABEL, digest, open_envelope, open_receipt, seal, seal_receipt
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import NOBODY, Card, Refusal, Release, StudyAccepted, StudyClosed
from protocol.refusals import EXPLANATIONS, RETRIABLE, RefusalCode
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
    State.REFUSED: ["propose", "receive"],
    State.OPEN: ["propose", "receive"],
    State.ASKED: ["propose", "receive", "query"],
    State.CLOSING: ["propose", "receive", "query", "receive", "close"],
    State.CLOSED: ["propose", "receive", "close", "receive"],
}
LAWFUL = {
    State.NEW: {"card", "propose"},
    State.PROPOSED: {"receive"},
    State.REFUSED: {"card"},
    State.OPEN: {"card", "query", "close"},
    State.ASKED: {"receive", "close"},
    State.CLOSING: {"receive"},
    State.CLOSED: {"card"},
}
"""Written down here, apart from the table that the session drives."""


class Pair:
    """A session and a curator; `step` takes one step, with the curator's honest reply to "receive"."""

    def __init__(self, **options):
        self.curator = ObedientCurator(**options)
        self.session = Session(curator=self.curator.identity, key=key(LEARNER), study=STUDY)

    def step(self, name):
        if name == "receive":
            return self.session.receive(self.curator.handle(self.session.pending) if self.session.pending else b"x")
        return STEPS[name](self.session)

    def at(self, state):
        self.curator.cap = Fraction(1, 20) if state is State.REFUSED else self.curator.cap
        for name in REACH[state]:
            self.step(name)
        assert self.session.state is state
        return self

    def reply(self):
        """The honest reply to what is pending, decoded."""
        return open_envelope(self.curator.handle(self.session.pending))[1]


def snapshot(session):
    """What an exchange may change; a copy of a query kind equals no other."""
    return copy.deepcopy({name: value for name, value in vars(session).items() if name not in ("key", "kinds")})


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


def test_a_refused_proposal_takes_a_new_identity():
    pair = Pair(cap=Fraction(1, 20))
    pair.step("propose")
    assert pair.step("receive").code == RefusalCode.OVER_BUDGET
    assert pair.session.state is State.REFUSED
    assert not pair.session.pending
    for again in (lambda: pair.session.propose(plan_of(40, 40), "cheaper", NOW), lambda: pair.session.close(NOW)):
        with pytest.raises(LocalProtocolError):
            again()
    other = Session(curator=pair.curator.identity, key=key(LEARNER), study=b"t" * 16)
    other.propose(plan_of(40, 40), "cheaper", NOW)
    assert isinstance(other.receive(pair.curator.handle(other.pending)), StudyAccepted)


def test_the_very_same_query_stays_refused_and_is_counted_at_nothing():
    pair = Pair().at(State.OPEN)
    for _ in range(2):
        pair.session.query("counts", b"rubbish", NOW)
        assert isinstance(pair.step("receive"), Refusal)
    assert pair.session.spent_at_most == 0
    pair.session.query("counts", b"rubbish", NOW)
    assert (pair.session.state, pair.session.spent_at_most) == (State.ASKED, 0)
    pair.session.close(NOW)
    assert isinstance(pair.step("receive"), StudyClosed)


def test_a_refused_close_leaves_the_study_open():
    pair = Pair().at(State.OPEN)
    pair.step("close")
    pair.session.receive(seal(_refusal(pair, RefusalCode.EXPIRED), key("basel")))
    assert (pair.session.state, pair.session.sequence) == (State.OPEN, 0)
    pair.step("close")
    assert isinstance(pair.step("receive"), StudyClosed)


@pytest.fixture
def pair():
    """A curator that was asked, and its learner's session."""
    return Pair().at(State.ASKED)


def test_a_query_unanswered_at_a_close_that_was_refused_bars_the_next_until_it_is_answered(pair):
    pair.step("close")
    pair.session.receive(seal(_refusal(pair, RefusalCode.EXPIRED), key("basel")))
    assert (pair.session.state, pair.session.sequence) == (State.OPEN, 1)
    with pytest.raises(LocalProtocolError, match="unanswered"):
        pair.step("query")
    assert isinstance(pair.session.receive(pair.curator.handle(pair.session.unanswered)), Release)
    pair.step("query")
    assert isinstance(pair.step("receive"), Release)
    assert pair.session.sequence == 2


@pytest.mark.parametrize("state", [State.PROPOSED, State.ASKED, State.CLOSING])
@pytest.mark.parametrize(
    ("code", "addressed"),
    [*((code, True) for code in sorted(RETRIABLE)), (RefusalCode.UNAVAILABLE, False), (RefusalCode.MALFORMED, False)],
)
def test_a_refusal_that_may_pass_or_names_nobody_leaves_the_request_pending(state, code, addressed):
    pair = Pair().at(state)
    before = snapshot(pair.session)
    no = _refusal(pair, code, **({} if addressed else {"recipient": NOBODY, "study": bytes(16), "sequence": 0}))
    refusal = seal(no, key("basel"))
    for _ in range(3):
        assert pair.session.receive(refusal).code == code
    assert snapshot(pair.session) | {"transcript": 0} == before | {"transcript": 0}
    assert pair.session.transcript.envelopes == [*before["transcript"].envelopes, refusal], "it is kept once"
    assert not isinstance(pair.step("receive"), Refusal)


@pytest.mark.parametrize("state", [State.PROPOSED, State.ASKED, State.CLOSING])
def test_a_lost_answer_is_no_refusal_and_what_was_answered_may_still_come(state):
    pair = Pair().at(state)
    answer = pair.curator.handle(pair.session.pending)
    pair.curator.forget()
    before = snapshot(pair.session)
    assert pair.step("receive").code == RefusalCode.ANSWER_GONE
    assert snapshot(pair.session) | {"transcript": 0} == before | {"transcript": 0}
    assert not isinstance(pair.session.receive(answer), Refusal)


def test_a_query_whose_answer_is_gone_is_proven_by_the_close(pair):
    pair.curator.handle(pair.session.pending)
    pair.curator.forget()
    pair.step("receive")
    assert (pair.session.spent, pair.session.spent_at_most) == (0, Fraction(1, 10))
    pair.step("close")
    assert isinstance(pair.step("receive"), StudyClosed)
    assert pair.session.spent == pair.session.spent_at_most == Fraction(1, 10)


def _refusal(pair, code, **changes):
    asked = open_envelope(pair.session.pending)[1]
    no = Refusal(
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
    return msgspec.structs.replace(no, **changes)


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
    "a refusal to another learner": lambda pair: seal(
        _refusal(pair, RefusalCode.EXPIRED, recipient=key("bob").public), key("basel")
    ),
    "a refusal of another sequence": lambda pair: seal(_refusal(pair, RefusalCode.EXPIRED, sequence=7), key("basel")),
    "a refusal of another study": lambda pair: seal(_refusal(pair, RefusalCode.EXPIRED, study=b"t" * 16), key("basel")),
    "no receipt": _changed(receipt=b""),
    "receipt signed by another": _receipt("bern"),
    "receipt of another learner": _receipt(learner=key("bob").public),
    "receipt of another study": _receipt(study=b"t" * 16),
    "receipt of another sequence": _receipt(sequence=7),
    "receipt of another request": _receipt(request=bytes(32)),
    "receipt of another release": _receipt(release=b"r" * 32),
    "receipt of another curator": _receipt(curator=key("bern").public),
    "receipt of another charge": _receipt(charged="1/7"),
    "receipt of another sum": _receipt(spent_by_study="1/7"),
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


def test_a_repeated_reply_finds_nothing_pending(pair):
    reply = pair.curator.handle(pair.session.pending)
    pair.session.receive(reply)
    before = snapshot(pair.session)
    with pytest.raises(LocalProtocolError):
        pair.session.receive(reply)
    assert snapshot(pair.session) == before


def test_the_reply_to_an_earlier_query_does_not_answer_the_next(pair):
    reply = pair.curator.handle(pair.session.pending)
    pair.session.receive(reply)
    pair.step("query")
    with pytest.raises(RemoteProtocolError):
        pair.session.receive(reply)


def test_a_late_release_does_not_answer_the_close_and_is_taken_for_what_it_is(pair):
    reply = pair.curator.handle(pair.session.pending)
    pair.step("close")
    closing = pair.session.pending
    assert isinstance(pair.session.receive(reply), Release)
    assert (pair.session.state, pair.session.pending) == (State.CLOSING, closing)
    assert pair.session.spent == pair.session.spent_at_most == Fraction(1, 10)
    pair.step("receive")
    assert pair.session.receipt.spent_by_study == "1/10"


def test_a_closing_proves_a_charge_whose_release_comes_later_or_never(pair):
    release = pair.curator.handle(pair.session.pending)
    pair.step("close")
    pair.step("receive")
    assert pair.session.spent == pair.session.spent_at_most == Fraction(1, 10)
    closing = pair.session.newest_receipt
    assert pair.curator.handle(pair.session.unanswered) == release
    assert isinstance(pair.session.receive(release), Release)
    assert (pair.session.unanswered, pair.session.newest_receipt) == (b"", closing)
    assert pair.session.spent == Fraction(1, 10)
    assert pair.session.transcript.envelopes[-1] == release


def test_a_closing_rules_a_query_out_that_was_never_charged(pair):
    assert pair.session.spent_at_most == Fraction(1, 10)
    pair.step("close")
    pair.step("receive")
    assert pair.session.spent_at_most == 0
    assert not pair.session.unanswered
    with pytest.raises(LocalProtocolError):
        pair.session.receive(b"x")


def test_a_query_that_the_closing_charged_is_not_refused_afterwards(pair):
    no = seal(_refusal(pair, RefusalCode.BAD_QUERY), key("basel"))
    release = pair.curator.handle(pair.session.pending)
    pair.step("close")
    pair.step("receive")
    before = snapshot(pair.session)
    with pytest.raises(RemoteProtocolError, match="shows that it was charged"):
        pair.session.receive(no)
    assert snapshot(pair.session) == before
    assert isinstance(pair.session.receive(release), Release)


@pytest.mark.parametrize(
    "changes",
    [
        {"spent_by_study": "3/10", "spent_by_learner": "3/10"},
        {"spent_by_study": "3/20"},
        {"spent_by_study": "0"},
        {"spent_by_learner": "1/20"},
        {"charged": "1/10"},
    ],
)
@pytest.mark.parametrize("charged", [True, False])
def test_a_closing_that_fits_neither_sum_changes_nothing(changes, charged, pair):
    pair.step("receive")
    pair.step("query")
    if charged:
        pair.curator.handle(pair.session.pending)
    pair.step("close")
    before = snapshot(pair.session)
    with pytest.raises(RemoteProtocolError):
        pair.session.receive(_receipt(**changes)(pair))
    assert snapshot(pair.session) == before
    assert isinstance(pair.step("receive"), StudyClosed)


@pytest.mark.parametrize("refunded", ["0", "1/5", "3/20"])
def test_a_closing_that_refunds_another_amount_changes_nothing(refunded):
    pair = Pair().at(State.CLOSING)
    before = snapshot(pair.session)
    with pytest.raises(RemoteProtocolError, match="refund"):
        pair.session.receive(_changed(refunded=refunded)(pair))
    assert snapshot(pair.session) == before


def test_a_learners_total_never_falls():
    pair = Pair(spent=Fraction(1)).at(State.ASKED)
    with pytest.raises(RemoteProtocolError, match="total falls"):
        pair.session.receive(_receipt(spent_by_learner="1/10")(pair))
    pair.step("receive")
    pair.step("close")
    with pytest.raises(RemoteProtocolError, match="total falls"):
        pair.session.receive(_receipt(spent_by_learner="1")(pair))
    assert isinstance(pair.step("receive"), StudyClosed)


def test_a_plan_accepted_at_another_cost_can_only_be_closed():
    pair = Pair()
    pair.step("card")
    pair.step("receive")
    pair.curator.most = 2
    pair.step("propose")
    pair.step("receive")
    with pytest.raises(LocalProtocolError, match="another cost"):
        pair.step("query")
    pair.step("close")
    assert isinstance(pair.step("receive"), StudyClosed)


def test_an_altered_release_body_does_not_fit_its_receipt(pair):
    with pytest.raises(RemoteProtocolError, match="receipt"):
        pair.session.receive(_changed(body=b"other")(pair))
