"""One learner's exchange with one curator, as a state machine over bytes. No transport, clock or randomness here."""

from dataclasses import dataclass, field
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
    seal,
    verify,
)
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import (
    NO_DIGEST,
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
from protocol.refusals import EXPLANATIONS, RefusalCode
from protocol.transcript import Transcript
from protocol.transitions import Event, State, advance

_EVENTS: dict[type[Message], Event] = {
    StudyAccepted: Event.ACCEPTED,
    Release: Event.RELEASE,
    StudyClosed: Event.CLOSED,
    Refusal: Event.REFUSAL,
}


@dataclass
class Session:
    """A study with one curator.

    Attributes:
        curator: the curator's public key, known beforehand.
        key: the learner's signing key.
        study: random identity of the study, 16 bytes.
        lifetime: seconds for which a message is valid.
        allow_not_private: accept a curator that signs as not private (seeded noise, `paper_ratio`); simulations only.
        state: where the study stands.
        pending: the request that awaits its reply; send the same bytes again to retry.
        card, accepted, closed: the replies so far.
        newest_receipt: the last receipt envelope, to be kept for the next study with this curator.
        receipt: the last receipt of this study, verified.
        transcript: every envelope sent and received.
    """

    curator: bytes
    key: SigningKey
    study: bytes
    lifetime: int = 600
    allow_not_private: bool = False
    state: State = State.NEW
    sequence: int = 0
    pending: bytes = b""
    card: Card | None = None
    accepted: StudyAccepted | None = None
    closed: StudyClosed | None = None
    newest_receipt: bytes = b""
    receipt: Receipt | None = None
    not_private: bool = False
    transcript: Transcript = field(default_factory=Transcript)
    _awaited: type[Message] = Card
    _last_reply: bytes = NO_DIGEST
    _request: Message | None = None

    def request_card(self, now: int) -> bytes:
        """Ask for the curator's card; LocalProtocolError while a request of the study awaits its reply."""
        if self.pending and self._awaited is not Card:
            raise LocalProtocolError("a request of the study awaits its reply; send it again first")
        return self._send(CardRequest(**self._header(now, 0)), Card)

    def propose(self, plan: Plan, purpose: str, now: int) -> bytes:
        """Propose a plan; LocalProtocolError unless the study is new."""
        state = advance(self.state, Event.PROPOSAL)
        message = StudyProposal(**self._header(now, 0), plan=plan, purpose=purpose, newest_receipt=self.newest_receipt)
        self.state = state
        return self._send(message, StudyAccepted)

    def query(self, kind: str, body: bytes, now: int) -> bytes:
        """Ask the plan's next query; LocalProtocolError unless the study is open."""
        state = advance(self.state, Event.QUERY)
        self.sequence += 1
        self.state = state
        return self._send(Query(**self._header(now, self.sequence), kind=kind, body=body), Release)

    def close(self, now: int) -> bytes:
        """End the study; LocalProtocolError unless it is open."""
        state = advance(self.state, Event.CLOSE)
        self.sequence += 1
        self.state = state
        return self._send(StudyClose(**self._header(now, self.sequence)), StudyClosed)

    def receive(self, data: bytes) -> Message:
        """Verify the reply to the pending request and move on.

        Returns:
            The reply; a `Refusal` where the curator said no. After "unavailable" the request stays pending.

        Raises:
            LocalProtocolError: nothing is pending.
            RemoteProtocolError: the bytes are no message of this curator to this request; nothing changes.
        """
        if not self.pending or self._request is None:
            raise LocalProtocolError("no request is pending")
        envelope, message = open_envelope(data)
        not_private = self.allow_not_private and envelope.label == NOT_PRIVATE_LABEL
        label = NOT_PRIVATE_LABEL if not_private else LABEL
        verify(envelope, self.curator, label=label)
        if message.sender != self.curator:
            raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "sender")
        if message.answers != digest(self.pending):
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "answers")
        if not isinstance(message, self._awaited | Refusal):
            raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.type", self._awaited.__name__)
        if isinstance(message, Refusal):
            if message.code not in EXPLANATIONS:
                raise RemoteProtocolError(RefusalCode.MALFORMED, "code")
            if message.code == RefusalCode.UNAVAILABLE:
                return message
        elif (message.study, message.sequence, message.recipient) != (
            self.study,
            self._request.sequence,
            self.key.public,
        ):
            raise RemoteProtocolError(RefusalCode.OUT_OF_ORDER, "study, sequence or recipient")
        if isinstance(message, StudyAccepted | Release | StudyClosed):
            self.receipt = self._checked_receipt(message, self._request, label)
            self.newest_receipt = message.receipt
        self.not_private = self.not_private or not_private
        self._move(message, data)
        self.pending = b""
        self.transcript.append(data)
        return message

    def _checked_receipt(self, message: StudyAccepted | Release | StudyClosed, request: Message, label: str) -> Receipt:
        """The reply's receipt; RemoteProtocolError unless it is for this request and this reply."""
        receipt = open_receipt(message.receipt, self.curator, label=label)
        names = (receipt.learner, receipt.study, receipt.sequence, receipt.request, receipt.release)
        identity = request_digest(self.key.public, TYPE_NAMES[type(request)], encode(request))
        release = digest(message.body) if isinstance(message, Release) else NO_DIGEST
        if names != (self.key.public, self.study, request.sequence, identity, release):
            raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "receipt")
        return receipt

    def _move(self, message: Message, data: bytes) -> None:
        if isinstance(message, Card):
            self.card = message
        if self._awaited is Card:
            return
        if isinstance(message, Refusal) and self._awaited is not StudyAccepted:
            self.sequence -= 1
        elif not isinstance(message, Refusal):
            self._last_reply = digest(data)
        self.state = advance(self.state, _EVENTS[type(message)])
        if isinstance(message, StudyAccepted):
            self.accepted = message
        if isinstance(message, StudyClosed):
            self.closed = message

    def _header(self, now: int, sequence: int) -> dict[str, Any]:
        return {
            "study": self.study,
            "sender": self.key.public,
            "recipient": self.curator,
            "sequence": sequence,
            "answers": self._last_reply,
            "expires_at": now + self.lifetime,
        }

    def _send(self, message: Message, awaited: type[Message]) -> bytes:
        self._awaited, self._request = awaited, message
        self.pending = seal(message, self.key)
        self.transcript.append(self.pending)
        return self.pending
