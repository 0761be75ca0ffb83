"""Entries read from their bytes: the auditor's own reader of the format of `protocol.ledger.entries`.

It takes what `decode_entry` takes, in a fraction of the time: an amount is checked once for each different text, since
a ledger of a million entries has few.
"""

import math
import re
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Annotated

import msgspec

from expril.audit.recompute.known import ZERO, Price
from protocol.ledger.entries import MOST_LOST, STUB, EntryKind, Index, LedgerCorruptError, Suspect
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, Digest, Key, Seconds, Sequence, StudyId
from protocol.plans import Plan
from protocol.rationals import AMOUNT_PATTERN, LONGEST_DENOMINATOR, shorten

_AMOUNT = re.compile(AMOUNT_PATTERN)
_LONGEST = 4001
_Size = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class ReadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """As `protocol.ledger.entries.Entry`, field by field; amounts are texts of any form here, and checked apart."""

    index: Index
    previous: Digest
    nonce: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    kind: EntryKind
    at: Seconds
    learner: Key = NOBODY
    study: StudyId = NO_STUDY
    sequence: Sequence = 0
    amount: str = "0"
    own: str = "0"
    request: Digest = NO_DIGEST
    reply: Digest = NO_DIGEST
    size: _Size = 0
    expires_at: Seconds = 0
    plan: Plan | None = None
    costs: tuple[str, ...] = ()
    suspect: Suspect | None = None
    note: str = ""


class ReadStatefulEntry(ReadEntry, frozen=True, kw_only=True):
    """As `protocol.ledger.entries.StatefulEntry`."""

    state: Digest
    state_size: _Size


class ReadLostEntry(ReadEntry, frozen=True, kw_only=True):
    """As `protocol.ledger.entries.LostEntry`."""

    lost: Annotated[bytes, msgspec.Meta(max_length=MOST_LOST * STUB)]
    spent: tuple[tuple[Key, str], ...]
    receipt: Digest


_DECODERS = [msgspec.msgpack.Decoder(kind) for kind in (ReadEntry, ReadStatefulEntry, ReadLostEntry)]
_ENCODER = msgspec.msgpack.Encoder()


def read_entry(body: bytes) -> ReadEntry:
    """The entry of these bytes.

    Raises:
        LedgerCorruptError: they are not the one encoding of an entry.
    """
    try:
        entry = _decoded(body)
        if _ENCODER.encode(entry) != body:
            raise LedgerCorruptError("a ledger entry is not in its one encoding")
        amount_of(entry.amount)
        amount_of(entry.own)
        price_of(entry.costs)
        for _, spent in entry.spent if isinstance(entry, ReadLostEntry) else ():
            amount_of(spent)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, OverflowError, ValueError):
        raise LedgerCorruptError("a ledger entry cannot be read") from None
    return entry


def _decoded(body: bytes) -> ReadEntry:
    for decoder in _DECODERS[:-1]:
        with suppress(msgspec.ValidationError):
            return decoder.decode(body)
    return _DECODERS[-1].decode(body)


@lru_cache(maxsize=65_536)
def amount_of(text: str) -> Fraction:
    """An amount; equal texts mostly give one and the same object. ValueError where it is none.

    It is exact, or rounded up where its denominator is longer than any that is summed: `protocol.rationals.shorten`.
    """
    if len(text) > _LONGEST or not _AMOUNT.match(text):
        raise ValueError(text)
    return shorten(Fraction(text), math.ceil)


@lru_cache(maxsize=16_384)
def price_of(costs: tuple[str, ...]) -> Price:
    """The price that these texts state; raises as `amount_of`.

    Costs whose common denominator is far beyond that of any plan (`Kinds.plan_cost`) are rounded up.
    """
    parsed = tuple(map(amount_of, costs))
    common = 1
    for cost in parsed:
        common = math.lcm(common, cost.denominator)
        if common > LONGEST_DENOMINATOR:
            parsed = tuple(Fraction(math.ceil(each * 2**64), 2**64) for each in parsed)
            break
    return Price(parsed, tuple(accumulate(parsed, initial=ZERO)))
