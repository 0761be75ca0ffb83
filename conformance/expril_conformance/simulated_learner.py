"""A learner that the suite plays: it writes requests, and reads what a curator answers."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from expril_conformance import wire
from expril_conformance.wire import Fields, Key, Message

LIFETIME = 600


@dataclass
class SimulatedLearner:
    """One study of a learner with one curator.

    `newest_receipt` is shown in the proposal. `sequence` is of the last query that was answered, and `replies` holds
    the envelopes of the curator's answers in order.
    """

    key: Key
    curator: bytes
    study: bytes
    newest_receipt: bytes = b""
    sequence: int = 0
    spent: Fraction = Fraction(0)
    replies: list[bytes] = field(default_factory=list)

    @property
    def last_reply(self) -> bytes:
        """Digest of the last answer that a request refers to."""
        return wire.digest(self.replies[-1]) if self.replies else wire.NOTHING

    def message(self, type_name: str, now: int, sequence: int = 0, **fields: Any) -> Message:
        """A request of the study, before it is signed."""
        header = {
            "version": 2,
            "study": self.study,
            "sender": self.key.public,
            "recipient": self.curator,
            "sequence": sequence,
            "answers": self.last_reply,
            "expires_at": now + LIFETIME,
        }
        return Message(type_name, header | fields)

    def card_request(self, now: int) -> Message:
        """The request of a card."""
        return self.message("card_request", now)

    def proposal(self, plan: Any, purpose: str, now: int) -> Message:
        """The proposal of a plan."""
        return self.message("study_proposal", now, plan=plan, purpose=purpose, newest_receipt=self.newest_receipt)

    def query(self, kind: str, body: bytes, now: int) -> Message:
        """The next query."""
        return self.message("query", now, self.sequence + 1, kind=kind, body=body)

    def close(self, now: int) -> Message:
        """The end of the study, where every query before was answered or refused for good."""
        return self.message("study_close", now, self.sequence + 1)

    def take(self, request: Message, reply: bytes, charge: Fraction = Fraction(0)) -> Message:
        """The answer to a request, once all that a learner must check is checked; `charge` is what it may cost."""
        message = wire.opened(reply, self.curator)
        fields = message.fields
        refusal = f": {fields['code']} {fields['field']} {fields['limit']}" if message.type == "refusal" else ""
        wire.require(message.type == wire.ANSWERS[request.type], f"answered with a {message.type}{refusal}")
        check_header(request, self.key, reply, self.curator)
        if message.type == "card":
            return message
        self.spent += charge
        self.check_receipt(request, message, charge)
        self.newest_receipt = fields["receipt"]
        self.replies.append(reply)
        if message.type == "release":
            self.sequence += 1
        return message

    def check_receipt(self, request: Message, reply: Message, charge: Fraction) -> Fields:
        """The fields of a reply's receipt, which must be of this request and reply, with exact amounts."""
        receipt = wire.opened(reply.fields["receipt"], self.curator).fields
        expected = {
            "curator": self.curator,
            "learner": self.key.public,
            "study": self.study,
            "sequence": request.fields["sequence"],
            "request": wire.request_digest(self.key.public, request.type, request.content),
            "release": wire.digest(reply.fields["body"]) if reply.type == "release" else wire.NOTHING,
            "charged": str(charge),
            "spent_by_study": str(self.spent),
        }
        compare("receipt", receipt, expected)
        wire.require(Fraction(receipt["spent_by_learner"]) >= self.spent, "the learner spent less than its study")
        wire.require(len(receipt["position"]) == wire.POSITION, f"a position has {wire.POSITION} bytes")
        return receipt


def check_header(request: Message, learner: Key, reply: bytes, curator: bytes) -> None:
    """Whether a reply names its parties, its study and the envelope that it answers."""
    fields = wire.opened(reply, curator).fields
    expected = {
        "version": 2,
        "study": request.fields["study"],
        "sender": curator,
        "recipient": learner.public,
        "sequence": request.fields["sequence"],
        "answers": wire.digest(request.sealed(learner)),
    }
    compare("reply", fields, expected)


def compare(name: str, fields: Fields, expected: Fields) -> None:
    """Raise WireError unless fields are what is expected of them."""
    wrong = [part for part, value in expected.items() if fields[part] != value]
    wire.require(not wrong, "; ".join(f"{name}.{part} is {fields[part]!r}, not {expected[part]!r}" for part in wrong))


def changed(message: Message, **fields: Any) -> Message:
    """A message with other fields."""
    return replace(message, fields=message.fields | fields, payload=b"")
