"""Signed envelopes: Ed25519 over a pre-authentication encoding of (label, type, exact payload bytes).

The signature covers the payload's bytes as sent, so there is no canonical form to get wrong.
"""

import hashlib
from collections.abc import Collection
from functools import lru_cache
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from protocol.codec import MOST_ENVELOPE_BYTES, decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.messages import MESSAGE_TYPES, NOBODY, TYPE_NAMES, Message, Receipt
from protocol.refusals import RefusalCode

LABEL = "expril/2"
"""Label of signatures in real studies; it separates them from those in simulations."""
NOT_PRIVATE_LABEL = "expril/2 simulation, not private"
"""Label on everything that a curator signs if its noise is seeded or it serves a release kind that is not as private as
claimed; never accepted in place of the other label."""
_VERSION_1 = ("expril/1", "expril/1 simulation, not private")
_UPDATE = (
    "this was signed under version 1 of the protocol, here it is version 2: ask the other side to update ExPriL; "
    "verify runs of that time with ExPriL 0.1"
)
RECEIPT_TYPE = "receipt"
LEARNER_TYPES = frozenset({"card_request", "study_proposal", "query", "study_close"})

_P = 2**255 - 19
_ORDER_EIGHT = (
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
)
_SMALL_ORDER = frozenset({*_ORDER_EIGHT, *(y.to_bytes(32, "little") for y in (0, 1, _P - 1, _P, _P + 1))})


class Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A payload, its type, and the signature (the signer is named inside the payload)."""

    label: Annotated[str, msgspec.Meta(max_length=100)]
    type: Annotated[str, msgspec.Meta(max_length=40)]
    payload: bytes
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


class SigningKey:
    """An Ed25519 private key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> "SigningKey":
        """A new key from the operating system's generator."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes) -> "SigningKey":
        """The key that is determined by 32 secret bytes."""
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def from_pem(cls, pem: bytes) -> "SigningKey":
        """Read a PKCS #8 PEM. Raises ConfigurationError: it is not an unencrypted Ed25519 key."""
        try:
            private = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigurationError("the key file is not an unencrypted PKCS #8 PEM; make one: expril keys") from error
        if not isinstance(private, Ed25519PrivateKey):
            raise ConfigurationError("the key is not an Ed25519 key; make one: expril keys")
        return cls(private)

    def to_pem(self) -> bytes:
        """The key as an unencrypted PKCS #8 PEM; only the file's permissions protect it."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, data: bytes) -> bytes:
        """Ed25519 signature, 64 bytes."""
        return self._private.sign(data)

    def derive(self, purpose: str) -> bytes:
        """32 secret bytes for another purpose (HKDF-SHA256, RFC 5869).

        The derivation keeps the label of protocol version 1. One such key chooses which records of a unit are kept, and
        a new choice would let another part of the unit be counted.
        """
        kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"expril/1 {purpose}".encode())
        return kdf.derive(self._private.private_bytes_raw())


def digest(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def request_digest(sender: bytes, type_name: str, payload: bytes) -> bytes:
    """Digest of sender, type and payload, which identify a request however often it is signed."""
    return digest(_before_request(sender, type_name) + len(payload).to_bytes(8, "big") + payload)


@lru_cache(maxsize=1024)
def _before_request(sender: bytes, type_name: str) -> bytes:
    return encode_parts(b"expril/2 request", sender, type_name.encode())


def seal(message: Message, key: SigningKey, *, label: str = LABEL) -> bytes:
    """Sign a message; return the bytes of its envelope."""
    return sign_payload(TYPE_NAMES[type(message)], encode(message), key, label)


def seal_receipt(receipt: Receipt, key: SigningKey, *, label: str = LABEL) -> bytes:
    """Sign a receipt; return the bytes of its envelope."""
    return sign_payload(RECEIPT_TYPE, encode(receipt), key, label)


def open_envelope(
    data: bytes, *, limit: int = MOST_ENVELOPE_BYTES, types: Collection[str] = tuple(MESSAGE_TYPES)
) -> tuple[Envelope, Message]:
    """Decode an envelope and its payload. Nothing is verified yet.

    Args:
        data: untrusted bytes.
        limit: most bytes accepted.
        types: names of the messages expected; a payload of another type is not even decoded.

    Raises:
        RemoteProtocolError: the envelope is TOO_LARGE or MALFORMED. One of version 1 is MALFORMED, and the error says
        so.
    """
    envelope = decode(data, Envelope, limit=limit, field="envelope")
    _check_version(envelope)
    kind = MESSAGE_TYPES.get(envelope.type)
    if kind is None or envelope.type not in types:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.type", ", ".join(sorted(types)))
    return envelope, decode(envelope.payload, kind, limit=limit, field="payload")


def check_public_key(key: bytes) -> None:
    """Raise ConfigurationError for a key under which anybody could sign.

    Such keys are the points of small order, in every encoding (RFC 8032, section 5.1.7, leaves refusing them to the
    application). One is the key of 32 zero bytes, which a template might hold.
    """
    if len(key) != len(NOBODY) or key[:31] + bytes([key[31] & 0x7F]) in _SMALL_ORDER:
        raise ConfigurationError("this is no public key that anybody could hold; make one: expril keys")


def verify(envelope: Envelope, signer: bytes, *, label: str = LABEL) -> None:
    """Raise RemoteProtocolError(BAD_SIGNATURE) unless `signer` signed this envelope under `label`.

    The code is MALFORMED for an envelope of version 1.
    """
    _check_version(envelope)
    if envelope.label != label:
        raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "envelope.label", label)
    if not is_signed(signer, envelope.signature, _signed_bytes(label, envelope.type, envelope.payload)):
        raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "envelope.signature")


def is_signed(signer: bytes, signature: bytes, data: bytes) -> bool:
    """Whether `signature` is `signer`'s over `data`; False if `signer` is a key of small order."""
    try:
        _public_key(signer).verify(signature, data)
    except (InvalidSignature, ValueError, ConfigurationError):
        return False
    return True


@lru_cache(maxsize=4096)
def _public_key(signer: bytes) -> Ed25519PublicKey:
    check_public_key(signer)
    return Ed25519PublicKey.from_public_bytes(signer)


def statement_bytes(label: str, type_name: str, payload: bytes) -> bytes:
    """The bytes that a curator signs in a statement to other curators, inside a query's or release's body.

    An envelope signs three parts, the first of which is a label. A statement has four, and the first is no label, so
    neither passes for the other. `is_signed` checks the signature.
    """
    return _before_statement(label, type_name, len(payload)) + payload


@lru_cache(maxsize=64)
def _before_statement(label: str, type_name: str, length: int) -> bytes:
    """The bytes of a statement that precede its payload of this length."""
    parts = encode_parts(b"expril/2 statement", label.encode(), type_name.encode())
    return parts + length.to_bytes(8, "big")


def open_receipt(data: bytes, curator: bytes, *, label: str = LABEL) -> Receipt:
    """Decode and verify a receipt envelope of `curator`.

    Raises RemoteProtocolError: `data` is not a receipt, or `curator` did not sign it under `label`.
    """
    envelope = decode(data, Envelope, field="receipt")
    if envelope.type != RECEIPT_TYPE:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "receipt.type", RECEIPT_TYPE)
    verify(envelope, curator, label=label)
    receipt = decode(envelope.payload, Receipt, field="receipt")
    if receipt.curator != curator:
        raise RemoteProtocolError(RefusalCode.BAD_SIGNATURE, "receipt.curator")
    return receipt


def _check_version(envelope: Envelope) -> None:
    if envelope.label in _VERSION_1:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "envelope.label", _UPDATE)


def sign_payload(type_name: str, payload: bytes, key: SigningKey, label: str) -> bytes:
    """Sign encoded bytes; return the bytes of their envelope."""
    signature = key.sign(_signed_bytes(label, type_name, payload))
    return encode(Envelope(label=label, type=type_name, payload=payload, signature=signature))


def _signed_bytes(label: str, type_name: str, payload: bytes) -> bytes:
    """What an envelope's signature covers: the `encode_parts` of label, type and payload."""
    return _before_payload(label, type_name) + len(payload).to_bytes(8, "big") + payload


@lru_cache(maxsize=64)
def _before_payload(label: str, type_name: str) -> bytes:
    return encode_parts(label.encode(), type_name.encode())


def encode_parts(*parts: bytes) -> bytes:
    """Injective encoding: every part is preceded by its length in bytes."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])
