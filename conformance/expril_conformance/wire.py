"""The protocol's bytes, written from its pages: canonical MessagePack, envelopes, digests, receipts, ledgers.

It shares no code with any implementation. What is wrong here or there shows as a difference.
"""

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

Fields = dict[str, Any]
LABEL, SIMULATION = "expril/2", "expril/2 simulation, not private"
NOTHING, NOBODY = bytes(32), bytes(32)
POSITION = 1052
"""Bytes of a receipt's position."""
HEADER = ("version", "study", "sender", "recipient", "sequence", "answers", "expires_at")
BODIES = {
    "card_request": (),
    "card": (
        *("name", "schema", "unit", "most_records_per_unit", "relation", "round_size", "limits", "cap", "least_cost"),
    ),
    "study_proposal": ("plan", "purpose", "newest_receipt"),
    "study_accepted": ("cost", "reserved_until", "receipt"),
    "query": ("kind", "body"),
    "release": ("kind", "body", "receipt"),
    "study_close": (),
    "study_closed": ("refunded", "receipt"),
    "refusal": ("code", "explanation", "field", "limit", "remaining", "scale_factor"),
}
"""Fields after the header, in order, by type."""
RECEIPT = (
    *("curator", "learner", "study", "sequence", "request", "release", "charged", "spent_by_study"),
    *("spent_by_learner", "ledger_head", "position", "issued_at"),
)
ANSWERS = {
    "card_request": "card",
    "study_proposal": "study_accepted",
    "query": "release",
    "study_close": "study_closed",
}
"""Type of a request -> type of its answer."""


class WireError(AssertionError):
    """Bytes that break the protocol."""


def require(fact: bool, complaint: str) -> None:
    """Raise WireError with this complaint unless a fact holds."""
    if not fact:
        raise WireError(complaint)


class Key:
    """An Ed25519 key from its seed."""

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, data: bytes) -> bytes:
        """The signature of bytes."""
        return self._private.sign(data)


def encode(value: Any) -> bytes:
    """Canonical MessagePack: shortest forms, floats of 64 bits, maps in the order of their keys here."""
    return msgspec.msgpack.encode(value)


def decode(data: bytes) -> Any:
    """Inverse of `encode`. Raises WireError: the bytes are not in canonical form."""
    try:
        value = msgspec.msgpack.decode(data)
    except msgspec.DecodeError as error:
        raise WireError(f"no MessagePack: {error}") from None
    if encode(value) != data:
        raise WireError("MessagePack, but not in its canonical form")
    return value


def digest(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def parts(*pieces: bytes) -> bytes:
    """Bytes in a row, each after its length in eight bytes, big-endian."""
    return b"".join(len(piece).to_bytes(8, "big") + piece for piece in pieces)


def signed_bytes(label: str, type_name: str, payload: bytes) -> bytes:
    """The bytes under an envelope's signature."""
    return parts(label.encode(), type_name.encode(), payload)


def request_digest(sender: bytes, type_name: str, payload: bytes) -> bytes:
    """What identifies a request however often it is signed."""
    return digest(parts(b"expril/2 request", sender, type_name.encode(), payload))


def is_signed(key: bytes, signature: bytes, data: bytes) -> bool:
    """Whether a public key signed bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Message:
    """A message before it is signed, or after it was opened. A receipt is one of type "receipt"."""

    type: str
    fields: Fields
    label: str = LABEL
    payload: bytes = b""  # instead of the encoded fields

    @property
    def content(self) -> bytes:
        """The payload."""
        return self.payload or encode(self.fields)

    def sealed(self, key: Key) -> bytes:
        """Its envelope."""
        signature = key.sign(signed_bytes(self.label, self.type, self.content))
        return envelope(self.label, self.type, self.content, signature)


def envelope(label: str, type_name: str, payload: bytes, signature: bytes) -> bytes:
    """The bytes of an envelope."""
    return encode({"label": label, "type": type_name, "payload": payload, "signature": signature})


def opened(data: bytes, signer: bytes, label: str = LABEL) -> Message:
    """The message in an envelope. Raises WireError: it is none, or another signed it."""
    outer = decode(data)
    if not isinstance(outer, dict) or list(outer) != ["label", "type", "payload", "signature"]:
        raise WireError("no envelope")
    fields, type_name = decode(outer["payload"]), outer["type"]
    names = RECEIPT if type_name == "receipt" else (*HEADER, *BODIES.get(type_name, ("a known type",)))
    if tuple(fields) != names:
        raise WireError(f"a {type_name} has the fields {', '.join(names)}, in this order; here are {', '.join(fields)}")
    if outer["label"] != label or not is_signed(
        signer, outer["signature"], signed_bytes(label, type_name, outer["payload"])
    ):
        raise WireError(f"this {type_name} is not signed by {signer.hex()} under {label!r}")
    return Message(type_name, fields, label, outer["payload"])


@dataclass
class Chain:
    """A ledger's export as an auditor without ExPriL reads it: chain, signatures and sums."""

    curator: bytes
    entries: list[Fields] = field(default_factory=list)
    spent: dict[bytes, Fraction] = field(default_factory=dict)
    head: bytes = field(default_factory=lambda: digest(b"expril/2 ledger"))

    def of_kind(self, kind: str) -> list[Fields]:
        """The entries of a kind."""
        return [entry for entry in self.entries if entry["kind"] == kind]

    def append(self, body: bytes, signature: bytes) -> None:
        """Add an entry. Raises WireError: it does not follow, or is not signed."""
        entry, index = decode(body), len(self.entries)
        if (entry["index"], entry["previous"]) != (index, self.head):
            raise WireError(f"ledger entry {index} does not follow the one before it")
        self.head = digest(b"expril/2 ledger entry" + body)
        if not is_signed(self.curator, signature, b"expril/2 ledger head" + index.to_bytes(8, "big") + self.head):
            raise WireError(f"ledger entry {index} is not signed")
        if entry["kind"] == "charge":
            learner = entry["learner"]
            self.spent[learner] = self.spent.get(learner, Fraction(0)) + Fraction(entry["amount"])
        self.entries.append(entry)


def read_export(data: bytes, curator: bytes) -> Chain:
    """A ledger's export. Raises WireError: it is none, or does not hold together."""
    export, chain = decode(data), Chain(curator)
    if list(export) != ["format", "blocks", "replies"] or export["format"] != "expril ledger export 2":
        raise WireError("no export of a ledger")
    for block_digest, pairs in export["blocks"]:
        if digest(pairs) != block_digest:
            raise WireError("a block has another digest")
        for body, signature in decode(pairs):
            chain.append(body, signature)
    requests = [request for request, _ in export["replies"]]
    if sorted(set(requests)) != requests:
        raise WireError("the replies are not in rising order")
    answered = {entry["request"]: entry["reply"] for entry in chain.of_kind("answered")}
    if any(answered.get(request) != reply for request, reply in export["replies"]):
        raise WireError("a reply is another than its entry says")
    return chain
