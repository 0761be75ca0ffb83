"""A reader of a ledger's entries, and their sums: studies, requests, charges, learners, findings.

This is the auditor's own reader of the format of `protocol.ledger.entries`. It accepts the same bytes as
`decode_entry`, but takes a fraction of the time: equal texts of amounts are checked once, and a ledger of a million
entries has few different ones. The rules by which entries are summed are in `replay`.
"""

import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, Any, NamedTuple

import msgspec

from expril.audit.kinds.kind_audit import AuditedKinds
from protocol.errors import RemoteProtocolError, printable
from protocol.ledger.entries import MOST_LOST, STUB, EntryKind, Index, LedgerCorruptError, Suspect
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY, Digest, Key, Query, Seconds, Sequence, StudyId
from protocol.plans import Plan
from protocol.query_kind import KindTerms, QueryKind, Question, Turn
from protocol.rationals import AMOUNT_PATTERN, LONGEST_DENOMINATOR, plus, shorten, total_of
from protocol.strict_json import UNREADABLE
from protocol.transcript import Replay

MOST = 200
"""Number of a ledger's findings that are listed; further ones are only counted."""


def as_text(amount: Fraction) -> str:
    """Return an amount as text: exact, or rounded up if that is too long."""
    return str(shorten(amount, math.ceil))


@dataclass(frozen=True)
class Finding:
    """Something that is wrong in a ledger."""

    index: int  # of the entry; -1 where no entry is meant
    text: str  # what is wrong, with its place


class Findings(list[Finding]):
    """Findings in the order in which they were made. The first `MOST` are listed, and the others are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.uncounted = 0  # how many were made beyond those listed

    def add(self, index: int, text: str) -> None:
        """Note a finding."""
        if len(self) < MOST:
            self.append(Finding(index, text))
        else:
            self.uncounted += 1

    def texts(self) -> list[str]:
        """Return the findings for people, by place."""
        texts = [item.text for item in sorted(self, key=lambda item: item.index)]
        return [*texts, f"and {self.uncounted} more"] if self.uncounted else texts


ZERO = Fraction(0)
OPEN, ASKED, ENDED = "open", "asked", "ended"
"""States of a study: it may ask, it waits for an answer, or it was closed or has expired."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A plan's queries, kept once for all studies with this plan. Shapes are compared by identity."""

    plan: Plan
    kinds: tuple[str, ...]  # name of each query's kind
    places: tuple[tuple[int, int], ...]  # (query, turn) of each sequence from 1 on
    fixed: tuple[bool, ...]  # of each query, whether one turn costs all, and that can be computed
    noted: tuple[bool, ...]  # of each query, whether the notes on its answers tell what each turn is charged
    charged: tuple[int, ...]  # of each query, number of that turn
    provisos: tuple[str, ...]  # of each query, on what condition its cost holds; "" where on none
    # of each query, what it costs under integral privacy; None for infinite, or not known
    integrals: tuple[Fraction | None, ...]
    not_private: tuple[int, ...] = ()  # numbers of the queries, from 1, that are not as private as their costs say


@dataclass(frozen=True, slots=True, eq=False)
class Price:
    """The most that may be charged for each of a plan's queries. Prices are compared by identity."""

    costs: tuple[Fraction, ...]  # of each query, as the RESERVE entry says
    sums: tuple[Fraction, ...]  # of the first 0, 1, 2, ... queries

    @property
    def total(self) -> Fraction:
        """The cost of the whole plan."""
        return self.sums[-1]


@dataclass(slots=True, eq=False)
class Study:
    """A plan that was accepted."""

    learner: bytes  # learner, study: whose and which
    study: bytes
    index: int  # of its RESERVE entry
    shape: Shape  # shape, price: what was accepted, and for what
    price: Price
    expires_at: int  # end of the reservation
    # names of the records served when it was charged, or when it was reserved where it never was; "" where none was
    # named
    versions: tuple[str, ...]
    last: bytes  # digest of its last request
    state: str = OPEN  # `OPEN`, `ASKED` or `ENDED`
    sequence: int = 0  # of its last request
    charged_count: int = 0  # how many queries were charged, in order, each exactly what was reserved for it
    # what was charged for each query, where it was otherwise; None where it was not
    amounts: dict[int, Fraction] | None = None
    amounts_sum: Fraction = ZERO  # its sum
    # numbers of its answered requests whose replies are kept (`effects.Effects`)
    stored: "array[int]" = field(default_factory=lambda: array("I"))
    # query kind -> (index of the ANSWERED entry, digest of what its answerer keeps)
    states: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    ended: int = -1  # index of the entry that ended it; -1 where none did
    begun: int = 0  # so many of its first queries were charged, or should have been
    begun_beside: set[int] | None = None  # further ones

    @property
    def spent(self) -> Fraction:
        """The amount charged so far."""
        return self.price.sums[self.charged_count] if self.amounts is None else self.amounts_sum

    @property
    def remaining(self) -> Fraction:
        """The reserved amount that is not charged yet."""
        return ZERO if self.state == ENDED else self.price.total - self.spent

    @property
    def charged_queries(self) -> list[int]:
        """The queries that were charged."""
        return list(range(self.charged_count)) if self.amounts is None else sorted(self.amounts)

    def left_for(self, query: int) -> Fraction:
        """Return how much may still be charged for a query."""
        cost = self.price.costs[query]
        if self.amounts is None:
            return cost if query >= self.charged_count else ZERO
        return cost - self.amounts.get(query, ZERO)

    def begin(self, query: int) -> bool:
        """Note that a query was charged, or should have been; return whether that is the first time."""
        if query == self.begun and not self.begun_beside:
            self.begun += 1
            return True
        if query < self.begun or (self.begun_beside is not None and query in self.begun_beside):
            return False
        if self.begun_beside is None:
            self.begun_beside = set()
        self.begun_beside.add(query)
        return True

    def charge(self, query: int, turn: int, amount: Fraction) -> None:
        """Add a charge for a turn of a query."""
        if self.amounts is None:
            cost, charged = self.price.costs[query], self.shape.charged[query]
            if query == self.charged_count and turn == charged and (amount is cost or amount == cost):
                self.charged_count += 1
                return
            expected = self.charged_count if turn < charged else self.charged_count - 1
            if query == expected and turn != charged and not amount:
                return
            self.amounts = dict(enumerate(self.price.costs[: self.charged_count]))
            self.amounts_sum = self.price.sums[self.charged_count]
        self.amounts[query] = plus(self.amounts.get(query, ZERO), amount)
        self.amounts_sum = plus(self.amounts_sum, amount)


class Running:
    """Amounts in the order of their entries. Sums are computed when needed."""

    __slots__ = ("_amounts", "_places", "_sums")

    def __init__(self) -> None:
        self._places = array("q")
        self._amounts: list[Fraction] = []
        self._sums = [ZERO]

    def add(self, place: int, amount: Fraction) -> None:
        """Add an amount at an entry."""
        self._places.append(place)
        self._amounts.append(amount)

    def at(self, place: int) -> Fraction:
        """Return the sum of the amounts up to and including an entry."""
        count = bisect_right(self._places, place)
        while len(self._sums) <= count:
            self._sums.append(plus(self._sums[-1], self._amounts[len(self._sums) - 1]))
        return self._sums[count]


class Tally:
    """Amounts, counted before they are added: equal ones are mostly one object. None is infinite."""

    __slots__ = ("_counted",)

    def __init__(self) -> None:
        self._counted: dict[int, list[Any]] = {}  # by identity: the amount, how often

    def add(self, amount: Fraction | None) -> None:
        """Add an amount."""
        counted = self._counted.get(id(amount))
        if counted is None:
            self._counted[id(amount)] = [amount, 1]
        else:
            counted[1] += 1

    @property
    def total(self) -> Fraction | None:
        """The sum; None if an amount is."""
        if id(None) in self._counted:
            return None
        return total_of(times * amount for amount, times in self._counted.values())


@dataclass
class Purses:
    """The spending of each learner. A key that is bound to no name is a learner of its own."""

    # key -> (index of the entry that binds it, the learner's name)
    bound: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    keys: dict[str, list[bytes]] = field(default_factory=dict)  # name -> its keys, as they were bound
    spent: dict[bytes, Running] = field(default_factory=dict)  # by key

    def spend(self, key: bytes, amount: Fraction, index: int) -> None:
        """Add what a key spent at an entry; `NOBODY`'s spending is not kept."""
        if key == NOBODY:
            return
        purse = self.spent.get(key)
        if purse is None:
            purse = self.spent[key] = Running()
        purse.add(index, amount)

    def name_of(self, key: bytes) -> str:
        """Return the name to which a key is bound; "" if it is bound to none."""
        return self.bound[key][1] if key in self.bound else ""

    def keys_of(self, key: bytes) -> tuple[bytes, ...]:
        """Return all keys of the learner that has this one."""
        return tuple(self.keys.get(self.name_of(key), ())) or (key,)

    def by_learner(self, key: bytes, index: int) -> Fraction:
        """Return what a learner had spent after an entry, over all keys bound to it by then."""
        at, name = self.bound.get(key, (index + 1, ""))
        bound_keys = [other for other in self.keys[name] if self.bound[other][0] <= index] if at <= index else []
        return total_of(self.spent[own_key].at(index) for own_key in {key, *bound_keys} if own_key in self.spent)


_AMOUNT = re.compile(AMOUNT_PATTERN)
_LONGEST = 4001
_Size = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class ReadEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry with the fields of `protocol.ledger.entries.Entry`. Amounts are any texts, which `read_entry` checks."""

    index: Index
    previous: Digest
    nonce: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    kind: EntryKind
    at: Seconds
    learner: Key = NOBODY
    study: StudyId = NO_STUDY
    sequence: Sequence = 0
    amount: str = "0"
    learner_amount: str = msgspec.field(default="0", name="own")
    request: Digest = NO_DIGEST
    reply: Digest = NO_DIGEST
    size: _Size = 0
    expires_at: Seconds = 0
    plan: Plan | None = None
    costs: tuple[str, ...] = ()
    suspect: Suspect | None = None
    note: str = ""


class ReadStatefulEntry(ReadEntry, frozen=True, kw_only=True):
    """An entry with the fields of `protocol.ledger.entries.StatefulEntry`."""

    state: Digest
    state_size: _Size


class ReadLostEntry(ReadEntry, frozen=True, kw_only=True):
    """An entry with the fields of `protocol.ledger.entries.LostEntry`."""

    lost_stubs: Annotated[bytes, msgspec.Meta(max_length=MOST_LOST * STUB)] = msgspec.field(name="lost")
    spent: tuple[tuple[Key, str], ...]
    receipt: Digest


_DECODE = msgspec.msgpack.Decoder(ReadEntry).decode
_DECODE_STATEFUL = msgspec.msgpack.Decoder(ReadStatefulEntry).decode
_DECODE_LOST = msgspec.msgpack.Decoder(ReadLostEntry).decode
_ENCODE = msgspec.msgpack.Encoder().encode


PlainEntry = tuple[bytes, bytes, bytes | None, bytes, bytes, bytes, bytes, bytes, bytes]
"""A charge or an answer without a note, as it is encoded: index, previous, the kind if it is an answer, learner, study,
sequence, amount, request, reply. Integers may be longer than needed, and the amount's head may tell a wrong length.
"""
_INTEGER = rb"[\x00-\x7f]|\xcc.|\xcd..|\xce...."
_PLAIN = re.compile(
    rb"\xde\x00\x12\xa5index(" + _INTEGER + rb")\xa8previous\xc4\x20(.{32})\xa5nonce\xc4\x10.{16}"
    rb"\xa4kind(?:\xa6charge|(\xa8answered))\xa2at\xce[\x01-\xff]...\xa7learner\xc4\x20(.{32})\xa5study\xc4\x10(.{16})"
    rb"\xa8sequence(" + _INTEGER + rb")\xa6amount([\xa1-\xbf][0-9/]{1,31})\xa3own\xa10\xa7request\xc4\x20(.{32})"
    rb"\xa5reply\xc4\x20(.{32})\xa4size(?:[\x00-\x7f]|\xcc[\x80-\xff]|\xcd[\x01-\xff].|\xce[\x01-\xff]...)"
    rb"\xaaexpires_at\x00\xa4plan\xc0\xa5costs\x90\xa7suspect\xc0\xa4note\xa0",
    re.DOTALL,
)
"""The one encoding of most charges and answers, but for what `PlainEntry` says."""
encoded = _ENCODE


def read_plain_entry(body: bytes) -> PlainEntry | None:
    """Read a charge or an answer in a fraction of the time of `read_entry`; None if it needs that.

    Whoever takes it must compare index and sequence with their `encoded` form, and read the amount by `plain_amount`.
    """
    match = _PLAIN.fullmatch(body)
    return None if match is None else match.groups()  # type: ignore[return-value]


@lru_cache(maxsize=65_536)
def plain_amount(data: bytes) -> Fraction | None:
    """Return the amount of a `PlainEntry`; None if it is none."""
    try:
        return amount_of(data[1:].decode()) if data[0] - 0xA0 == len(data) - 1 else None
    except ValueError:
        return None


def read_entry(body: bytes) -> ReadEntry:
    """Read an entry from its bytes.

    Raises:
        LedgerCorruptError: the bytes are not the one encoding of an entry.
    """
    try:
        try:
            entry = _DECODE(body)
        except msgspec.ValidationError:
            entry = _decode_longer(body)
        if _ENCODE(entry) != body:
            raise LedgerCorruptError("a ledger entry is not in its one encoding")
        amount_of(entry.amount)
        if entry.learner_amount != "0":
            amount_of(entry.learner_amount)
        if entry.costs:
            price_of(entry.costs)
    except UNREADABLE:
        raise LedgerCorruptError("a ledger entry cannot be read") from None
    return entry


def _decode_longer(body: bytes) -> ReadEntry:
    """Read an entry with more fields than most."""
    with suppress(msgspec.ValidationError):
        return _DECODE_STATEFUL(body)
    entry = _DECODE_LOST(body)
    for _, spent in entry.spent:
        amount_of(spent)
    return entry


@lru_cache(maxsize=65_536)
def amount_of(text: str) -> Fraction:
    """Return the amount in a text; ValueError if it holds none. Equal texts mostly give the same object.

    The amount is exact, unless its denominator is too long to be summed; then `protocol.rationals.shorten` rounds it
    up.
    """
    if len(text) > _LONGEST or not _AMOUNT.match(text):
        raise ValueError(text)
    return shorten(Fraction(text), math.ceil)


@lru_cache(maxsize=16_384)
def price_of(costs: tuple[str, ...]) -> Price:
    """Return the price with these texts as costs; ValueError if one of them is no amount.

    Costs whose common denominator is far beyond that of any plan (`Kinds.plan_cost`) are rounded up.
    """
    parsed = tuple(map(amount_of, costs))
    common = 1
    for cost in parsed:
        common = math.lcm(common, cost.denominator)
        if common > LONGEST_DENOMINATOR:
            parsed = tuple(Fraction(math.ceil(cost * 2**64), 2**64) for cost in parsed)
            break
    return Price(parsed, tuple(accumulate(parsed, initial=ZERO)))


class InCommon(NamedTuple):
    """A ledger's note of an action that several curators took together."""

    entry: int  # index of the last entry that tells of it
    action: str  # which
    how: str  # all of them must have noted it so


@dataclass(slots=True)
class _Shares:
    """The shares of a query's cost that its turns are charged, as far as notes on its answers tell."""

    following: Generator[Fraction, str, None]  # `KindAudit.shares`
    turn: int  # turn, share: of the turn that is charged next
    share: Fraction


class _ReadQuery(NamedTuple):
    """A query's kind, its turn and its body."""

    kind: QueryKind
    question: Question


class Remarks:
    """The notes of one ledger's charges and answers.

    `kinds`: the installed kinds; queries of other kinds are skipped.
    """

    def __init__(self, kinds: AuditedKinds) -> None:
        self._kinds = kinds
        # digest of a request -> the note of its charge; those without one are not kept
        self.by_request: dict[bytes, str] = {}
        self.by_answer: dict[bytes, str] = {}  # digest of a request -> the note of its answer, likewise
        self._by_query: dict[tuple[Study, int], list[tuple[int, str]]] = {}
        self._shares: dict[tuple[Study, int], _Shares] = {}

    @property
    def are_awaited(self) -> bool:
        """Whether notes on answers may tell what later turns are charged."""
        return bool(self._shares)

    def are_on(self, kind: str) -> bool:
        """Whether charges of a kind have notes that are checked."""
        audit = self._kinds.audits.get(kind)
        return audit is not None and audit.checks_notes

    def due(self, study: Study, query: int, turn: int) -> Fraction | None:
        """Return what a turn is charged: by the plan, or by the notes on earlier answers. None if neither tells."""
        cost, shape = study.price.costs[query], study.shape
        if shape.fixed[query]:
            return cost if turn == shape.charged[query] else ZERO
        if not shape.noted[query]:
            return None
        if turn == 0 and (study, query) not in self._shares:
            try:
                following = self._kinds.audits[shape.kinds[query]].shares(self._kinds.query(shape.plan, query))
            except RemoteProtocolError:
                return None  # the plan breaks a rule of its kind, and that is told
            self._shares[study, query] = _Shares(following, 0, next(following))
        shares = self._shares.get((study, query))
        return shares.share * cost if shares is not None and shares.turn == turn else None

    def take(self, entry: ReadEntry, study: Study, keys: Collection[bytes]) -> str:
        """Keep the note of a charge, and say what is wrong with it, or ""."""
        query, number = study.shape.places[entry.sequence - 1]
        audit = self._kinds.audits.get(study.shape.kinds[query])
        if entry.note:
            self.by_request[entry.request] = entry.note
        if audit is None:
            return ""
        if not audit.checks_notes:
            return "notes what its query kind does not tell" if entry.note else ""
        self._by_query.setdefault((study, query), []).append((entry.index, entry.note))
        try:
            turn = Turn(self._kinds.query(study.shape.plan, query), query, number)
        except RemoteProtocolError:
            return ""  # the plan breaks a rule of its kind, and that is told
        return audit.check_note(entry.note, turn, keys)

    def hear(self, entry: ReadEntry, study: Study, *, charged: bool) -> str:
        """Keep the note of an answer, and say what is wrong with it, or ""."""
        if entry.note:
            self.by_answer[entry.request] = entry.note
        if not charged or not self._shares:
            return ""
        query, turn = study.shape.places[entry.sequence - 1]
        shares = self._shares.get((study, query))
        if shares is None or shares.turn != turn:
            return ""
        try:
            shares.turn, shares.share = turn + 1, shares.following.send(entry.note)
        except (ValueError, StopIteration) as error:
            shares.turn = -1
            return f"notes {printable(repr(entry.note), 100)} where {error}"
        return ""

    def in_common(self) -> Iterator[InCommon]:
        """Return the notes of actions that several curators took together."""
        for (study, query), notes in self._by_query.items():
            try:
                self._kinds.query(study.shape.plan, query)
            except RemoteProtocolError:
                continue
            joint_action = self._kinds.audits[study.shape.kinds[query]].joint_action([note for _, note in notes])
            if joint_action is not None:
                yield InCommon(notes[-1][0], *joint_action)

    def differing(self, request: bytes, query: Query, proof: Replay) -> str:
        """Return the note that a charge should have by its request; "" if it has that note."""
        read_query = self._read_query(query, proof, lambda kind: self._kinds.audits[kind.name].checks_notes)
        if read_query is None:
            return ""
        should = read_query.kind.charge_note(read_query.question)
        return "" if should == self.by_request.get(request, "") else should or "nothing"

    def unlike_release(self, request: bytes, query: Query, release: bytes, proof: Replay) -> str:
        """Return the note that an answer should have by the released bytes; "" if it has that note."""
        read_query = self._read_query(query, proof, lambda kind: kind.notes_releases)
        should = "" if read_query is None else read_query.kind.release_note(release, read_query.question)
        return "" if should == self.by_answer.get(request, "") else should or "nothing"

    def _read_query(self, query: Query, proof: Replay, notes: Callable[[QueryKind], bool]) -> _ReadQuery | None:
        """Read a query; None if its kind writes no notes, or the query or its transcript cannot be read."""
        if proof.card is None or proof.plan is None or not 1 <= query.sequence <= len(proof.plan.places):
            return None
        place = proof.plan.places[query.sequence - 1]
        kind = self._kinds.get(proof.plan.head(place[0]).kind)
        if kind is None or not notes(kind):
            return None
        try:
            turn = self._kinds.turn(proof.plan, place)
            terms = KindTerms(proof.card.schema, self._kinds.limits(proof.card.limits, kind.name))
            return _ReadQuery(kind, Question(turn, kind.read_body(query.body, turn, terms), terms.schema))
        except RemoteProtocolError:
            return None
