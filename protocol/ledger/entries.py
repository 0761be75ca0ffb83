"""The ledger's entries, their hash chain, its signed heads, and the terms that say what charges mean."""

import json
import re
from contextlib import suppress
from enum import StrEnum
from functools import lru_cache
from typing import Annotated

import msgspec

from protocol.codec import decode, encode
from protocol.envelopes import SigningKey, digest, is_signed
from protocol.errors import ExprilError, RemoteProtocolError
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, Digest, Key, Seconds, Sequence, StudyId
from protocol.plans import Plan
from protocol.rationals import Amount

GENESIS = digest(b"expril/2 ledger")
DATA_VERSION = re.compile(r"[0-9a-f]{32}")
"""The name of a snapshot of records: 128 random bits, which reveal nothing about the records."""

Index = Annotated[int, msgspec.Meta(ge=0, le=2**48)]
STUB = 8
Stub = Annotated[bytes, msgspec.Meta(min_length=STUB, max_length=STUB)]
"""The first bytes of an entry's hash. Entries hold secret nonces, so nobody can choose two hashes that begin alike."""
MOST_LOST = 2**16
STATE_SEAL_BYTES = 28
"""Bytes that sealing adds to a state: a nonce of 12 and a tag of 16. A sealed state of this size is empty."""


class LedgerCorruptError(ExprilError):
    """The stored chain is inconsistent: an entry was edited, removed or inserted."""

    kind = "ledger"


class EntryKind(StrEnum):
    """The event that an entry records."""

    OPEN = "open"
    START = "start"
    RESERVE = "reserve"
    CHARGE = "charge"
    ANSWERED = "answered"
    CLOSE = "close"
    EXPIRE = "expire"
    EVICT = "evict"
    HALT = "halt"
    RESUME = "resume"
    ENROL = "enrol"
    HANDOVER = "handover"
    APPROVE = "approve"
    DECLINE = "decline"
    DATA = "data"
    PLUG_INS = "plug_ins"


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place in the chain, described so that it can be recognised after later entries are lost."""

    index: Index
    head: Digest  # its hash
    total: Amount  # epsilon spent over all learners up to it
    # stubs of the entries 1, 2, 4, 8, ... before it: the newest that a chain still holds is the last entry in common,
    # or a little before it
    ancestors: Annotated[tuple[Stub, ...], msgspec.Meta(max_length=48)]
    # (index, stub) of others of the entries just before it: positions that are not far apart are proven to be of one
    # chain. An older program had START entries here
    named: tuple[tuple[Index, Stub], ...] = msgspec.field(name="starts")


class Suspect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Evidence that this ledger may have lost entries."""

    # position of an entry that it lacks, by a receipt or a process's mark, or whose answer it lacks, by a receipt; None
    # if a mark is missing
    position: Position | None = None
    learner: Key = NOBODY  # who showed the receipt; zero for a mark
    spent: Amount = "0"  # what that learner had spent by the receipt
    request: Digest = NO_DIGEST  # the receipt's; zero for a mark


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of the ledger. It never holds a count, a release or a noise value."""

    index: Index  # from 0, without gaps
    previous: Digest  # hash of the entry before
    # secret random bytes: receipts show hashes of entries, which must not tell what other learners do
    nonce: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    kind: EntryKind
    at: Seconds  # by the curator's clock
    learner: Key = NOBODY  # public key; for OPEN the curator's; for HANDOVER the curator's next one
    study: StudyId = NO_STUDY  # zero where no study is meant
    sequence: Sequence = 0
    # reserved, charged or refunded epsilon; for RESUME, what is entered as spent over all learners; for APPROVE, the
    # most that the study may be charged
    amount: Amount = "0"
    learner_amount: Amount = msgspec.field(
        default="0", name="own"
    )  # for RESUME, what `learner` is entered to have spent
    request: Digest = NO_DIGEST  # zero where there was no request
    reply: Digest = NO_DIGEST  # for ANSWERED, digest of the signed reply
    size: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 0  # for ANSWERED, its bytes
    expires_at: Seconds = 0  # end of a reservation; for APPROVE, until when the proposal is accepted
    plan: Plan | None = None  # of a reservation
    costs: tuple[Amount, ...] = ()  # of a reservation: the most that each planned query may be charged
    suspect: Suspect | None = None  # for HALT, why the ledger may have lost entries; None where a person halted it
    # for people: the steward's words, or the purpose that a learner stated; for START, the ledger's terms; for ENROL,
    # the key's name; for DATA, the name of the records served from then on; for PLUG_INS, the packages of others in
    # use from then on (`protocol.plug_ins.written_plug_ins`); for CHARGE, what the query's kind says of
    # the request (`QueryKind.charge_note`); for ANSWERED, what it says of the release (`release_note`);
    # never from a record otherwise
    note: str = ""


class StatefulEntry(Entry, frozen=True, kw_only=True):
    """An ANSWERED entry of a query kind that keeps a state for the study's next turns."""

    state: Digest  # digest of what is kept, encrypted; it takes the place of what the same kind kept before
    state_size: Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class LostEntry(Entry, frozen=True, kw_only=True):
    """A HALT entry of a ledger that may have lost entries."""

    # stubs of the lost entries up to the suspect's position, from the last entry in common on, at most `MOST_LOST`;
    # empty if the process that halts has not kept them
    lost_stubs: Annotated[bytes, msgspec.Meta(max_length=MOST_LOST * STUB)] = msgspec.field(name="lost")
    spent: tuple[tuple[Key, Amount], ...]  # by key, what each learner had spent there; empty where it is not known
    receipt: Digest  # digest of the receipt that was shown; zero for a mark


def entry_hash(body: bytes) -> bytes:
    """Hash of an encoded entry, which contains the hash of the entry before it."""
    return digest(b"expril/2 ledger entry" + body)


def encode_entry(entry: Entry) -> bytes:
    """The stored bytes of an entry."""
    return encode(entry)


def decode_entry(body: bytes) -> Entry:
    """Inverse of `encode_entry`. Raises LedgerCorruptError: the bytes are no entry."""
    for kind in (Entry, StatefulEntry, LostEntry):
        with suppress(RemoteProtocolError):
            return decode(body, kind)
    raise LedgerCorruptError("a ledger entry cannot be read")


def head_bytes(index: int, head: bytes) -> bytes:
    """The bytes that a curator signs for an entry: its place and its hash, which covers all entries before it."""
    return b"expril/2 ledger head" + index.to_bytes(8, "big") + head


def sign_head(key: SigningKey, index: int, head: bytes) -> bytes:
    """Signature over an entry's place and hash; 64 bytes."""
    return key.sign(head_bytes(index, head))


def head_is_signed(curator: bytes, signature: bytes, index: int, head: bytes) -> bool:
    """Whether a curator's public key signed this head."""
    return is_signed(curator, signature, head_bytes(index, head))


_MARK, _UNIT, _EACH, _COLUMN = "; signatures: ", "privacy unit: ", "each record", "column "


def ledger_terms(unit: str | None, label: str) -> str:
    """The terms of a ledger's charges. A unit column is quoted, so that it cannot look like "each record"."""
    protected = _EACH if unit is None else f"{_COLUMN}{json.dumps(unit, ensure_ascii=False)}"
    return f"{_UNIT}{protected}{_MARK}{json.dumps(label)}"


@lru_cache(maxsize=256)
def read_terms(terms: str) -> tuple[str | None, str] | None:
    """Inverse of `ledger_terms`: (unit column or None, label); None if the text is no terms."""
    before, _, quoted = terms.rpartition(_MARK)
    unit_text = before.removeprefix(_UNIT)
    try:
        label = json.loads(quoted)
        unit = None if unit_text == _EACH else json.loads(unit_text.removeprefix(_COLUMN))
        is_exact = isinstance(label, str) and isinstance(unit, str | None) and ledger_terms(unit, label) == terms
    except (ValueError, RecursionError):
        return None
    return (unit, label) if is_exact else None
