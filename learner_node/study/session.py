"""One learner's exchange with one curator, as a state machine over bytes. No transport, clock or randomness here."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from protocol.codec import encode
from protocol.envelopes import (
    LABEL,
    NOT_PRIVATE_LABEL,
    SigningKey,
    digest,
    open_envelope,
    open_receipt,
    request_digest,
    sign_payload,
    verify,
)
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.messages import (
    NO_DIGEST,
    NOBODY,
    TYPE_NAMES,
    Card,
    CardRequest,
    Message,
    Query,
    Receipt,
    Refusal,
    Release,
    StudyAccepted,
    StudyClose,
    StudyClosed,
    StudyProposal,
)
from protocol.plans import Plan
from protocol.query_kind import Kinds, Past, Turn
from protocol.rationals import parse_amount
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.spending import Spending
from protocol.transcript import Transcript
from protocol.transitions import Event, State, advance

_EVENTS: dict[type[Message], Event] = {
    StudyAccepted: Event.ACCEPTED,
    Release: Event.RELEASE,
    StudyClosed: Event.CLOSED,
    Refusal: Event.REFUSAL,
}


@dataclass(frozen=True)
class _Sent:
    """A request that awaits its reply."""

    message: Message
    data: bytes
    awaits: type[Message]
    identity: bytes  # digest of the request
    name: bytes  # digest of the envelope


@dataclass
class Session:
    """A study with one curator.

    A relay may lose, delay, repeat and reorder signed messages, or deliver an old reply again. So a refusal that may
    pass leaves the request pending, to be sent again unchanged. A final refusal settles the request; a final refusal of
    a proposal ends the session. A study may be closed while its last query is unanswered. That query is kept and its
    release accepted until the closing shows that it was never charged.
    """

    curator: bytes  # its public key, known beforehand
    key: SigningKey  # the learner's
    study: bytes  # random identity of the study, 16 bytes
    lifetime: int = 600  # seconds for which a message is valid
    allow_not_private: bool = False  # accept a curator that signs as not private; simulations only
    kinds: Kinds = QUERY_KINDS  # that may be asked
    state: State = State.NEW
    sequence: int = 0  # of the last request that was not ruled out
    card: Card | None = None
    accepted: StudyAccepted | None = None
    closed: StudyClosed | None = None
    newest_receipt: bytes = b""  # envelope, to be kept for the next study with this curator
    receipt: Receipt | None = None  # the last of this study, verified; the closing's is later than any release's
    not_private: bool = False
    transcript: Transcript = field(default_factory=Transcript)  # every envelope that says something new
    plan: Plan | None = None
    spending: Spending = field(default_factory=Spending)  # what is proven to be charged, and the most that can be
    _last_reply: bytes = NO_DIGEST
    _released: int = 0
    _pending: _Sent | None = None
    _unanswered: _Sent | None = None
    _ruled_out: set[bytes] = field(default_factory=set)
    _turns: tuple[Turn, ...] = ()
    _bound: int = 1
    _past: list[Past] = field(default_factory=list)

    @property
    def pending(self) -> bytes:
        """The request that awaits its reply, or empty; send the same bytes again to retry."""
        return self._pending.data if self._pending else b""

    @property
    def unanswered(self) -> bytes:
        """A query that had no answer when the study was closed, or empty; send it again to recover its release."""
        return self._unanswered.data if self._unanswered else b""

    @property
    def spent(self) -> Fraction:
        """Epsilon that receipts prove to be charged to this study."""
        return self.spending.proven

    @property
    def spent_at_most(self) -> Fraction:
        """`spent`, plus the exact cost of a query of which no receipt proves whether it was charged."""
        return self.spending.at_most

    def request_card(self, now: int) -> bytes:
        """Ask for the curator's card. Raises LocalProtocolError while a request of the study awaits its reply."""
        if self._pending and self._pending.awaits is not Card:
            raise LocalProtocolError("a request of the study awaits its reply; send it again first")
        return self._send(CardRequest(**self._header(now, 0)), Card)

    def propose(self, plan: Plan, purpose: str, now: int) -> bytes:
        """Propose a plan. Raises LocalProtocolError unless the study is new."""
        state = advance(self.state, Event.PROPOSAL)
        message = StudyProposal(**self._header(now, 0), plan=plan, purpose=purpose, newest_receipt=self.newest_receipt)
        self.state, self.plan = state, plan
        return self._send(message, StudyAccepted)

    def query(self, kind: str, body: bytes, now: int) -> bytes:
        """Ask the plan's next query.

        Raises:
            LocalProtocolError: the study is not open, was accepted at another cost than the plan's, or its last query
                is still unanswered.
        """
        state = advance(self.state, Event.QUERY)
        if self._unanswered:
            raise LocalProtocolError("the last query is unanswered; send it again first, or close the study")
        if not self.spending.as_planned:
            raise LocalProtocolError("the plan was accepted at another cost than its own; close the study")
        self.state = state
        self.sequence += 1
        data = self._send(Query(**self._header(now, self.sequence), kind=kind, body=body), Release)
        if self._pending and self._pending.name not in self._ruled_out:  # the very same request stays refused
            self.spending.ask(self.sequence, self._cost(self.sequence))
        return data

    def close(self, now: int) -> bytes:
        """End the study. Its unanswered query is kept. Raises LocalProtocolError unless the study is open."""
        state = advance(self.state, Event.CLOSE)
        if self.state is State.ASKED:
            self._unanswered = self._pending
        self.state = state
        self.sequence += 1
        return self._send(StudyClose(**self._header(now, self.sequence)), StudyClosed)

    def receive(self, data: bytes) -> Message:
        """Verify a reply to the pending request, or to the unanswered query, and move on.

        Returns:
            The reply; a `Refusal` where the curator said no. Unless that one rules the request out
            (`Refusal.rules_out`), the request stays pending and nothing but the transcript changes.

        Raises:
            LocalProtocolError: nothing is pending.
            RemoteProtocolError: the bytes are no message of this curator to such a request, or a receipt does not fit
                the plan and what was charged before; nothing changes.
        """
        waiting = [sent for sent in (self._pending, self._unanswered) if sent]
        if not waiting:
            raise LocalProtocolError("no request is pending")
        envelope, message = open_envelope(data)
        not_private = self.allow_not_private and envelope.label == NOT_PRIVATE_LABEL
        label = NOT_PRIVATE_LABEL if not_private else LABEL
        verify(envelope, self.curator, label=label)
        if message.sender != self.curator:
            raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "sender")
        sent = next((sent for sent in waiting if message.answers == sent.name), None)
        if sent is None:
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "answers")
        if not isinstance(message, sent.awaits | Refusal):
            raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.type", sent.awaits.__name__)
        self._check_header(message, sent.message)
        if isinstance(message, Refusal):
            self._take_refusal(message, sent)
        elif isinstance(message, Card):
            self.card, self._pending = message, None
        elif isinstance(message, StudyAccepted | Release | StudyClosed):
            self._take_receipt(message, sent, label)
            self._take_answer(message, sent, data)
        self.not_private = self.not_private or not_private
        if self.state is State.OPEN:
            self.sequence = self._unanswered.message.sequence if self._unanswered else self._released
        moved = not isinstance(message, Refusal) or message.rules_out
        if moved or data not in self.transcript.envelopes:  # a relay may bring an old refusal any number of times
            self.transcript.append(data)
        return message

    def _check_header(self, message: Message, request: Message) -> None:
        unaddressed = isinstance(message, Refusal) and message.recipient == NOBODY
        names = (message.study, message.sequence, message.recipient)
        if not unaddressed and names != (self.study, request.sequence, self.key.public):
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "study, sequence or recipient")

    def _take_refusal(self, message: Refusal, sent: _Sent) -> None:
        if message.code not in EXPLANATIONS:
            raise RemoteProtocolError(RefusalCode.MALFORMED, "code")
        if not message.rules_out:
            return
        if sent is self._unanswered:
            if self.spending.total_shown:
                raise RemoteProtocolError(RefusalCode.CHANGED_CONTENT, "code", "the closing shows that it was charged")
            self._unanswered = None
        else:
            self._pending = None
            if sent.awaits is not Card:
                self.state = advance(self.state, Event.REFUSAL)
        if sent.awaits is Release:
            self.spending.rule_out()
        self._ruled_out.add(message.answers)

    def _take_receipt(self, message: StudyAccepted | Release | StudyClosed, sent: _Sent, label: str) -> None:
        """Check the reply's receipt against this request, this reply and the account; then take it into the account."""
        receipt = open_receipt(message.receipt, self.curator, label=label)
        names = (receipt.learner, receipt.study, receipt.sequence, receipt.request, receipt.release)
        release = digest(message.body) if isinstance(message, Release) else NO_DIGEST
        if names != (self.key.public, self.study, sent.message.sequence, sent.identity, release):
            raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "receipt")
        if isinstance(message, StudyAccepted):
            self._accept(message, receipt)
        elif isinstance(message, Release):
            self.spending.release(receipt)
        elif not self.spending.close(message, receipt):
            self._unanswered = None
        if self.receipt is None or receipt.sequence > self.receipt.sequence:
            self.receipt, self.newest_receipt = receipt, message.receipt

    def _take_answer(self, message: StudyAccepted | Release | StudyClosed, sent: _Sent, data: bytes) -> None:
        self._last_reply = digest(data)
        if isinstance(message, StudyAccepted):
            self.accepted = message
        elif isinstance(message, StudyClosed):
            self.closed = message
        else:
            self._released = message.sequence
            self._remember(message)
        if sent is self._unanswered:
            self._unanswered = None
        else:
            self._pending = None
            self.state = advance(self.state, _EVENTS[type(message)])

    def _accept(self, message: StudyAccepted, receipt: Receipt) -> None:
        """Take an acceptance.

        The cost uses the card's contribution bound, or the bound that the stated cost implies.
        """
        if self.plan is None:
            raise LocalProtocolError("nothing was proposed")
        bound = self.card.most_records_per_unit if self.card else 0
        bound = bound or max(1, int(parse_amount(message.cost) / self.kinds.plan_cost(self.plan, 1)))
        self.spending.accept(message, receipt, sum(self.kinds.costs(self.plan, bound), Fraction(0)))
        self._turns, self._bound = self.kinds.turns(self.plan), bound

    def _cost(self, sequence: int) -> Fraction:
        """Exact cost of the query with this sequence; 0 beyond the plan, where a curator can only refuse."""
        if not 1 <= sequence <= len(self._turns):
            return Fraction(0)
        return self.kinds.charge(self._turns[sequence - 1], self._past, self._bound)

    def _remember(self, message: Release) -> None:
        """Keep a release that later costs depend on."""
        turn = self._turns[message.sequence - 1] if message.sequence <= len(self._turns) else None
        if turn is not None and self.kinds.kind(turn.planned.kind).looks_back:
            self._past.append(Past(turn, message.body))

    def _header(self, now: int, sequence: int) -> dict[str, Any]:
        return {
            "study": self.study,
            "sender": self.key.public,
            "recipient": self.curator,
            "sequence": sequence,
            "answers": self._last_reply,
            "expires_at": now + self.lifetime,
        }

    def _send(self, message: Message, awaits: type[Message]) -> bytes:
        name, payload = TYPE_NAMES[type(message)], encode(message)
        data = sign_payload(name, payload, self.key, LABEL)
        identity = request_digest(self.key.public, name, payload)
        self._pending = _Sent(message, data, awaits, identity, self.transcript.append(data))
        return data


def refused_for_good(refusal: Refusal) -> bool:
    """Whether a refusal rules a proposal out for good. A proposal that only came too late may be made anew."""
    return refusal.final and refusal.code != RefusalCode.EXPIRED
