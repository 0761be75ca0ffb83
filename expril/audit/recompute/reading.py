"""Entries read from their bytes: the auditor's own reader of the format of `protocol.ledger.entries`.

It takes what `decode_entry` takes, in a fraction of the time: an amount is checked once for each different text, since
a ledger of a million entries has few. What a ledger notes beside its charges and answers is held against plans,
requests, releases and other ledgers.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import msgspec

from expril.audit.recompute.known import ZERO, Price, Study
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import MOST_LOST, STUB, EntryKind, Index, LedgerCorruptError, Suspect
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, Digest, Key, Query, Seconds, Sequence, StudyId
from protocol.plans import Plan
from protocol.query_kind import Kinds, QueryKind, Turn
from protocol.rationals import AMOUNT_PATTERN, LONGEST_DENOMINATOR, shorten
from protocol.transcript import Replay

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


class InCommon(NamedTuple):
    """What a ledger notes of something that several curators did together.

    Attributes:
        entry: index of the last entry that tells of it.
        what: it is.
        how: all of them must have noted it so.
    """

    entry: int
    what: str
    how: str


class _Asked(NamedTuple):
    """A query, read."""

    kind: QueryKind
    turn: Turn
    body: Any


class Remarks:
    """The notes of one ledger's charges and answers.

    Args:
        kinds: installed; of others' queries nothing is said.

    Attributes:
        by_request: digest of a request -> the note of its charge; those without one are not kept.
        by_answer: digest of a request -> the note of its answer, likewise.
    """

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self.by_request: dict[bytes, str] = {}
        self.by_answer: dict[bytes, str] = {}
        self._by_query: dict[tuple[Study, int], list[tuple[int, str]]] = {}

    def take(self, entry: ReadEntry, study: Study, keys: Collection[bytes]) -> str:
        """Note what a charge's entry says; what is wrong with it, "" where nothing is."""
        query, number = study.shape.places[entry.sequence - 1]
        kind = self._kinds.get(study.shape.kinds[query])
        if entry.note:
            self.by_request[entry.request] = entry.note
        if kind is None:
            return ""
        if kind.check_remark is None:
            return "notes what its query kind does not tell" if entry.note else ""
        self._by_query.setdefault((study, query), []).append((entry.index, entry.note))
        try:
            turn = Turn(self._kinds.query(study.shape.plan, query), query, number)
        except RemoteProtocolError:
            return ""  # the plan breaks a rule of its kind, and that is told
        return kind.check_remark(entry.note, turn, keys)

    def hear(self, entry: ReadEntry) -> None:
        """Note what the entry of an answer says."""
        if entry.note:
            self.by_answer[entry.request] = entry.note

    def in_common(self) -> Iterator[InCommon]:
        """What this ledger tells of things that several curators did together."""
        for (study, query), notes in self._by_query.items():
            kind = self._kinds[study.shape.kinds[query]]
            try:
                planned = self._kinds.query(study.shape.plan, query)
            except RemoteProtocolError:
                continue
            told = kind.in_common(planned, [note for _, note in notes])
            if told is not None:
                yield InCommon(notes[-1][0], *told)

    def differing(self, request: bytes, asked: Query, proof: Replay) -> str:
        """What a note should have said by the very request that was charged; "" where it says that."""
        said = self._asked(asked, proof, lambda kind: kind.check_remark is not None)
        if said is None:
            return ""
        should = said.kind.remark(said.body, said.turn)
        return "" if should == self.by_request.get(request, "") else should or "nothing"

    def unlike_release(self, request: bytes, asked: Query, release: bytes, proof: Replay) -> str:
        """What the note of an answer should have said by the very bytes that were released; "" where it says that."""
        said = self._asked(asked, proof, lambda kind: kind.noted is not None)
        should = "" if said is None or said.kind.noted is None else said.kind.noted(release, said.body, said.turn)
        return "" if should == self.by_answer.get(request, "") else should or "nothing"

    def _asked(self, asked: Query, proof: Replay, notes: Callable[[QueryKind], bool]) -> _Asked | None:
        """What a query asks; None where its kind notes nothing, or it was refused, or its transcript is."""
        if proof.card is None or proof.plan is None or not 1 <= asked.sequence <= len(proof.plan.places):
            return None
        place = proof.plan.places[asked.sequence - 1]
        kind = self._kinds.get(proof.plan.head(place[0]).kind)
        if kind is None or not notes(kind):
            return None
        try:
            turn = self._kinds.turn(proof.plan, place)
            limits = self._kinds.limits(proof.card.limits, kind.name)
            return _Asked(kind, turn, kind.read_body(asked.body, turn, proof.card.schema, limits))
        except RemoteProtocolError:
            return None
