"""A curator that the suite plays: it answers a learner's requests with numbers that are fixed, or with a lie."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from expril_conformance import wire
from expril_conformance.wire import Fields, Key, Message

NOW = 1_800_000_000
EXPLANATIONS = {
    "busy": "this request is being answered; send the same again",
    "declined": "the steward has declined this study; ask the steward why",
    "bad_query": "the query breaks a rule; see field and limit",
    "unavailable": "the curator cannot serve just now; repeat the same request: it is charged at most once",
}


@dataclass(frozen=True)
class Reply:
    """A reply before it is signed, with the receipt in it, if there is one. A fault is a reply with another part."""

    message: Message
    key: Key
    receipt: Message | None = None
    receipt_key: Key | None = None  # the same key where None

    def sealed(self) -> bytes:
        """Its envelope."""
        if self.receipt is None:
            return self.message.sealed(self.key)
        receipt = self.receipt.sealed(self.receipt_key or self.key)
        return replace(self.message, fields=self.message.fields | {"receipt": receipt}).sealed(self.key)

    def with_fields(self, **fields: Any) -> "Reply":
        """The same with other fields in the message."""
        return replace(self, message=replace(self.message, fields=self.message.fields | fields))

    def with_receipt(self, **fields: Any) -> "Reply":
        """The same with other fields in the receipt."""
        if self.receipt is None:
            raise TypeError("a reply without a receipt")
        return replace(self, receipt=replace(self.receipt, fields=self.receipt.fields | fields))


@dataclass
class SimulatedCurator:
    """One curator and its account of one learner's study.

    `costs` and `answers` are of the planned queries in order: what each costs exactly, and the numbers that it
    releases. `spent_before` is what the learner spent in earlier studies. A repeated request gets the same reply.
    """

    key: Key
    card: Fields
    costs: list[Fraction]
    answers: list[list[int]]
    spent_before: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    claimed: Fraction | None = None  # the cost that is quoted; the plan's own where None
    replies: dict[bytes, Reply] = field(default_factory=dict)

    def reply(self, request: bytes, learner: bytes) -> Reply:
        """The honest reply to a request, which must be of the learner."""
        identity = wire.digest(request)
        if identity not in self.replies:
            self.replies[identity] = self._answer(request, wire.opened(request, learner))
        return self.replies[identity]

    def refusal(self, request: bytes, learner: bytes, code: str, *, to_nobody: bool = False) -> Reply:
        """A refusal of a request. Nothing is kept of it."""
        fields = wire.opened(request, learner).fields
        unverified = {"study": bytes(16), "recipient": wire.NOBODY, "sequence": 0} if to_nobody else {}
        body = {
            "code": code,
            "explanation": EXPLANATIONS.get(code, "for no reason"),
            "field": "",
            "limit": "",
            "remaining": "" if to_nobody else "1/2",
            "scale_factor": "",
        }
        return Reply(Message("refusal", self._header(request, fields) | unverified | body), self.key)

    def _answer(self, request: bytes, message: Message) -> Reply:
        fields = message.fields
        type_name = wire.ANSWERS[message.type]
        total = sum(self.costs, Fraction(0))
        claimed = total if self.claimed is None else self.claimed
        charge = Fraction(0)
        match message.type:
            case "card_request":
                body = dict(self.card)
            case "study_proposal":
                body = {"cost": str(claimed), "reserved_until": NOW + 86_400}
            case "query":
                place = fields["sequence"] - 1
                charge = self.costs[place]
                numbers = b"".join(number.to_bytes(8, "little", signed=True) for number in self.answers[place])
                body = {"kind": fields["kind"], "body": wire.encode({"counts": numbers, "ratios": b""})}
            case _:
                body = {"refunded": str(claimed - self.spent)}
        self.spent += charge
        reply = Message(type_name, self._header(request, fields) | body)
        if type_name == "card":
            return Reply(reply, self.key)
        spent = str(self.spent)
        receipt = {
            "curator": self.key.public,
            "learner": fields["sender"],
            "study": fields["study"],
            "sequence": fields["sequence"],
            "request": wire.request_digest(fields["sender"], message.type, message.content),
            "release": wire.digest(body["body"]) if type_name == "release" else wire.NOTHING,
            "charged": str(charge),
            "spent_by_study": spent,
            "spent_by_learner": str(self.spent_before + self.spent),
            "ledger_head": wire.digest(b"head" + request),
            "position": bytes([7]) * wire.POSITION,
            "issued_at": NOW,
        }
        return Reply(reply, self.key, Message("receipt", receipt))

    def _header(self, request: bytes, fields: Fields) -> Fields:
        return {
            "version": 2,
            "study": fields["study"],
            "sender": self.key.public,
            "recipient": fields["sender"],
            "sequence": fields["sequence"],
            "answers": wire.digest(request),
            "expires_at": NOW + 600,
        }
