"""The interface of a query kind, as far as curator and learner must agree on it, and a program's table of kinds.

A planned query takes one or more turns, each a request and its release. Sequence numbers count the turns of all
queries. What only an auditor needs of a kind is in `expril.audit.kinds`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.limits import Limits
from protocol.odds import NOTHING, WORST, Odds, PrivacyUnit
from protocol.plans import Plan, Planned
from protocol.rationals import MOST
from protocol.refusals import RefusalCode
from protocol.schema import Schema
from protocol.shared_types import shared_type
from protocol.strict_toml import convert, suggest


@dataclass(frozen=True)
class Turn:
    """One turn of a planned query."""

    planned: Any  # the query, as its kind reads it
    query: int = 0  # its index in the plan, from 0
    number: int = 0  # of the turn within the query, from 0


@dataclass(frozen=True)
class Past:
    """An answered turn of the study, as both sides know it."""

    turn: Turn
    release: bytes


@dataclass(frozen=True)
class KindTerms:
    """What a curator's card says about a kind: the schema, and its limits on this kind."""

    schema: Schema
    limits: Any


@dataclass(frozen=True)
class Question:
    """A turn with its checked body."""

    turn: Turn
    body: Any
    schema: Schema


class QueryKind(ABC):
    """What both sides must agree on about one query kind; each kind is a subclass with one instance.

    Its plan entries, limits, bodies and releases are structs of its own. A subclass must define a few methods; the
    defaults of the others are safe.
    """

    name: ClassVar[str]  # on the wire
    relation: ClassVar[str] = "add or remove one privacy unit"
    """The neighbouring relation under which its costs are pure epsilons."""
    reveals: ClassVar[str] = "what its questions ask for"
    """What its answers say about the records, for a steward, such as "how many records fall into groups"."""
    planned: ClassVar[type[Planned]]  # type of its planned query, a `Planned` whose tag is `name`
    limits: ClassVar[type[msgspec.Struct]]  # type of its limits, a struct of which every field has a default
    charged_turn: ClassVar[int] = 0
    """Number of the first turn that releases anything that depends on a record: it costs all, unless `charge` is
    overridden."""
    state_bytes: ClassVar[int] = 0  # most bytes that its answerer keeps of a study between turns; 0: it keeps nothing
    bodies: ClassVar[
        tuple[type[msgspec.Struct], ...]
    ] = ()  # types of its bodies by turn, the last for all further ones
    by_default: ClassVar[bool] = False  # whether a policy that names no kind allows it

    def with_partitions(self, partitions: Sequence[type[Any]]) -> "QueryKind":
        """This kind as it reads bodies that may also hold these types of partitions, of packages of others."""
        return self

    def written_body(self, fields: Mapping[str, Any], number: int) -> Any:
        """The body of a turn, counted from 0, from what a person wrote in a study's file.

        A kind without `bodies` takes the fields as they stand, so their order and types must be those of its struct.

        Raises msgspec.ValidationError: a field is wrong.
        """
        if not self.bodies:
            return dict(fields)
        return msgspec.convert(fields, shared_type(self.bodies[min(number, len(self.bodies) - 1)]))

    def check_planned(self, planned: Any) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) if a query breaks a rule."""

    @abstractmethod
    def check_allowed(self, planned: Any, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError if a curator with these terms would refuse a query; `field` names it in errors."""

    @abstractmethod
    def cost(self, planned: Any, most_records_per_unit: int) -> Fraction:
        """Exact epsilon that bounds the cost of all turns, for units of at most `most_records_per_unit` records."""

    def charge(self, turn: Turn, past: Sequence[Past], most_records_per_unit: int) -> Fraction:
        """Exact cost of a turn, for kinds whose costs depend on the study's earlier releases.

        A query's charges never sum to more than `cost`. A kind that does not override this charges the whole cost in
        the turn `charged_turn`.
        """
        raise NotImplementedError

    @property
    def looks_back(self) -> bool:
        """Whether a turn's cost may depend on earlier releases."""
        return type(self).charge is not QueryKind.charge

    @abstractmethod
    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> Any:
        """Decode and check a turn's body without reading a record. Raises RemoteProtocolError."""

    @abstractmethod
    def work(self, question: Question, round_size: int | None) -> int:
        """Total work of a turn at a curator with this round size, in the unit of `protocol.limits`."""

    @abstractmethod
    def release_bytes(self, question: Question) -> int:
        """Most bytes of the encoded release, without receipt and envelope; it is known before any charge."""

    @abstractmethod
    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """All released numbers, (k,), after a check of their shape. Raises RemoteProtocolError."""

    def charge_note(self, question: Question) -> str:
        """The ledger's note on a turn's charge, made from the request alone."""
        return ""

    def note_words(self, note: str) -> str:
        """A charge note in words, for people."""
        return note

    def release_note(self, release: bytes, question: Question) -> str:
        """The ledger's note on an answer, in words, made from the release alone."""
        return ""

    @property
    def notes_releases(self) -> bool:
        """Whether the ledger holds notes on this kind's answers."""
        return type(self).release_note is not QueryKind.release_note

    def proviso(self, planned: Any) -> str:
        """The condition under which a query's stated cost holds, in words for a steward; "" if unconditional."""
        return ""

    def integral(self, planned: Any) -> Fraction | None:
        """Exact epsilon of all turns under integral privacy (Husain, Cranko and Nock 2019); None if it is infinite.

        Integral privacy compares any two sets of records, so a unit may have any number of them.
        """
        return None

    def odds(self, planned: Any, unit: PrivacyUnit, readers: int | None) -> Odds:
        """Bound on how far the answers change odds (`protocol.odds`); a turn's share is in proportion to its charge.

        `readers` is the number of the query's parts that read the attribute in question; None means all.
        """
        return Odds.twice(self.cost(planned, unit.records))

    def most_odds(self, limits: Any, unit: PrivacyUnit) -> Odds:
        """Largest `odds` per epsilon over all queries that the limits allow."""
        return WORST

    def precision(self, planned: Any, unit: PrivacyUnit) -> str:
        """Accuracy of an answer, in words for a steward, from the plan alone."""
        return ""

    def private(self, limits: Any) -> bool:
        """Whether every query that the limits allow is as private as its cost says."""
        return True

    def private_planned(self, planned: Any) -> bool:
        """Whether this query is as private as its cost says."""
        return True


MOST_SETTLED = 256
"""Most limits of which a table of kinds keeps the defaults written out."""


class Kinds(Mapping[str, QueryKind]):
    """A program's query kinds by name; immutable, but that an auditor's may grow before anything is read."""

    def __init__(self, *kinds: QueryKind) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        # Reading a plan of a thousand queries takes milliseconds, and every request of its study needs it.
        self._read = lru_cache(maxsize=4096)(self._read_planned)
        self._cost = lru_cache(maxsize=4096)(self._cost_of)
        self._limits = lru_cache(maxsize=256)(self._read_limits)
        self._costs = lru_cache(maxsize=64)(self._costs_of)
        self._plan_cost = lru_cache(maxsize=64)(self._plan_cost_of)
        self._settled: dict[tuple[str, str, str], bytes] = {}

    def __getitem__(self, name: str) -> QueryKind:
        """The kind of this name. Raises KeyError: it is not installed."""
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the kinds."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """The number of kinds."""
        return len(self._kinds)

    def __hash__(self) -> int:
        """The hash of the names."""
        return hash(frozenset(self._kinds))

    def kind(self, name: str) -> QueryKind:
        """The kind of this name. Raises RemoteProtocolError(UNKNOWN_KIND): it is not installed."""
        kind = self._kinds.get(name)
        if kind is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_KIND, "plan.queries.kind", ", ".join(self._kinds))
        return kind

    def missing(self, plan: Plan) -> tuple[str, ...]:
        """The kinds of a plan that are not installed, without repetition."""
        return tuple(dict.fromkeys(head.kind for head in plan.heads if head.kind not in self._kinds))

    def queries(self, plan: Plan) -> tuple[Any, ...]:
        """The queries of a plan, each decoded and checked by its kind.

        Raises RemoteProtocolError: UNKNOWN_KIND, MALFORMED or BAD_PLAN.
        """
        return tuple(self.query(plan, index) for index in range(len(plan.queries)))

    def query(self, plan: Plan, index: int) -> Any:
        """The query of a plan at an index from 0; raises as `queries`."""
        return self._read(bytes(plan.queries[index]), plan.head(index).kind)

    def turns(self, plan: Plan) -> tuple[Turn, ...]:
        """The turns of a plan in the order of their sequence numbers; raises as `queries`."""
        return tuple(self.turn(plan, place) for place in plan.places)

    def turn(self, plan: Plan, place: tuple[int, int]) -> Turn:
        """The turn at one of a plan's `places`; raises as `queries`."""
        return Turn(self.query(plan, place[0]), *place)

    def cost(self, planned: Planned, most_records_per_unit: int) -> Fraction:
        """Exact epsilon of all turns of one planned query, for units of at most `most_records_per_unit` records.

        Raises RemoteProtocolError: UNKNOWN_KIND or BAD_PLAN.
        """
        return self._cost(planned, most_records_per_unit)

    def costs(self, plan: Plan, most_records_per_unit: int) -> tuple[Fraction, ...]:
        """`cost` of each query of a plan; raises as `queries`."""
        return self._costs(tuple(map(bytes, plan.queries)), most_records_per_unit)

    def plan_cost(self, plan: Plan, most_records_per_unit: int) -> Fraction:
        """Pure epsilon of a plan: the exact sum over its queries (basic composition).

        Raises RemoteProtocolError: as `queries`; also BAD_PLAN if the sum, or a part of it, needs more than 32 bits.
        """
        return self._plan_cost(tuple(map(bytes, plan.queries)), most_records_per_unit)

    def _costs_of(self, queries: tuple[bytes, ...], most_records_per_unit: int) -> tuple[Fraction, ...]:
        read = self.queries(Plan(tuple(map(msgspec.Raw, queries))))
        return tuple(self._cost(planned, most_records_per_unit) for planned in read)

    def _plan_cost_of(self, queries: tuple[bytes, ...], most_records_per_unit: int) -> Fraction:
        costs = self._costs(queries, most_records_per_unit)
        total = sum(costs, Fraction(0))
        if total.numerator > MOST or total.denominator > MOST:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan", "an exact total cost of at most 32 bits")
        if math.lcm(*(cost.denominator for cost in costs)) > MOST:
            # A total may be short where its parts are not, and a ledger writes every partial sum down.
            raise RemoteProtocolError(
                RefusalCode.BAD_PLAN, "plan", "costs with a common denominator of at most 32 bits"
            )
        return total

    def charge(self, turn: Turn, past: Sequence[Past], most_records_per_unit: int) -> Fraction:
        """Exact epsilon of one turn, for contribution bound `most_records_per_unit`.

        `past` holds the study's answered turns in order; it may omit those of kinds that do not look back.
        """
        kind = self.kind(turn.planned.kind)
        if kind.looks_back:
            past = [item for item in past if item.turn.planned.kind == turn.planned.kind]
            return kind.charge(turn, past, most_records_per_unit)
        charged = turn.number == kind.charged_turn
        return self.cost(turn.planned, most_records_per_unit) if charged else Fraction(0)

    def odds(self, planned: Planned, unit: PrivacyUnit, readers: int | None = None) -> Odds | None:
        """Bound on how far the answers to one planned query change odds; None if the query is not private.

        Args:
            planned: the query.
            unit: the privacy unit.
            readers: number of the query's parts, such as partitions, that read the attribute in question; None means
                all. If a hypothesis reads it, or the choice of the records that count, then all parts do.

        Raises:
            RemoteProtocolError: as `cost`.
        """
        kind = self.kind(planned.kind)
        if not kind.private_planned(planned):
            return None
        self._cost(planned, unit.records)
        return kind.odds(planned, unit, readers)

    def plan_odds(self, plan: Plan, unit: PrivacyUnit) -> Odds | None:
        """Sum of the `odds` of a plan's queries; raises as `queries`."""
        total = NOTHING
        for planned in self.queries(plan):
            odds = self.odds(planned, unit)
            if odds is None:
                return None
            total += odds
        return total

    def most_odds(self, limits: Limits, unit: PrivacyUnit) -> Odds | None:
        """Largest bound on odds per epsilon over all queries that `limits` allow; None if unbounded."""
        most = NOTHING
        for name in self.allowed(limits):
            kind, kind_limits = self.kind(name), self.limits(limits, name)
            if not kind.private(kind_limits):
                return None
            most = most.or_more(kind.most_odds(kind_limits, unit))
        return most

    def integral(self, plan: Plan, index: int) -> Fraction | None:
        """Exact epsilon of the query at `index`, from 0, under integral privacy; None if infinite or not known."""
        kind = self._kinds.get(plan.head(index).kind)
        try:
            return None if kind is None else kind.integral(self.query(plan, index))
        except RemoteProtocolError:
            return None

    def limits(self, limits: Limits, name: str) -> Any:
        """The limits on one kind in a card or policy, as the kind's own struct, with defaults filled in.

        Raises:
            RemoteProtocolError: the kind is not installed (UNKNOWN_KIND), not allowed (KIND_NOT_ALLOWED), or its limits
                cannot be read (MALFORMED).
        """
        self.kind(name)
        allowed = self.allowed(limits)
        if name not in allowed:
            raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, "plan.queries.kind", ", ".join(allowed))
        return self._limits(name, encode(allowed[name]))

    def allowed(self, limits: Limits) -> Mapping[str, dict[str, Any]]:
        """The allowed kinds with their settings; if the limits name no kind, those that are allowed by default."""
        if not isinstance(limits.kinds, msgspec.UnsetType):
            return limits.kinds
        return {name: {} for name, kind in self._kinds.items() if kind.by_default}

    def settle(self, limits: Limits, *, where: str) -> Limits:
        """The same limits with every default written out, as a card shows them.

        Raises ConfigurationError: a kind, key or value is unknown. `where` names the file in the error.
        """
        kinds = {}
        for name, settings in sorted(self.allowed(limits).items()):
            if name not in self._kinds:
                raise ConfigurationError(f"{where}: unknown query kind {name!r}{suggest(name, list(self._kinds))}")
            place = (name, repr(settings), where)
            if place not in self._settled:
                kind_limits = convert(settings, self._kinds[name].limits, where=f"{where}, limits.kinds.{name}")
                if len(self._settled) >= MOST_SETTLED:
                    self._settled.clear()
                self._settled[place] = encode(kind_limits)
            kinds[name] = msgspec.msgpack.decode(self._settled[place])  # lists for tuples, as on the wire
        return msgspec.structs.replace(limits, kinds=kinds)

    def private(self, limits: Limits) -> bool:
        """Whether every query that `limits` allow is as private as its cost says; raises as the method `limits`."""
        return all(self.kind(name).private(self.limits(limits, name)) for name in self.allowed(limits))

    def private_planned(self, planned: Planned) -> bool:
        """Whether a planned query is as private as its cost says; raises as `kind`."""
        return self.kind(planned.kind).private_planned(planned)

    def relation(self, limits: Limits) -> str:
        """The neighbouring relations of all allowed kinds, in words."""
        return "; ".join(sorted({self.kind(name).relation for name in self.allowed(limits)}))

    def _read_planned(self, query: bytes, name: str) -> Any:
        kind = self.kind(name)
        planned = decode(query, kind.planned, field="plan.queries")
        kind.check_planned(planned)
        return planned

    def _read_limits(self, name: str, settings: bytes) -> Any:
        try:
            return msgspec.convert(msgspec.msgpack.decode(settings), shared_type(self.kind(name).limits), strict=True)
        except msgspec.ValidationError:
            raise RemoteProtocolError(RefusalCode.MALFORMED, f"limits.kinds.{name}") from None

    def _cost_of(self, planned: Planned, most_records_per_unit: int) -> Fraction:
        kind = self.kind(planned.kind)
        kind.check_planned(planned)
        return kind.cost(planned, most_records_per_unit)


def table_of(kinds: Iterable[QueryKind]) -> Kinds:
    """The table of these kinds: one for all curators and sessions of a process, so that a plan is read once."""
    members = tuple(kinds)
    try:
        return _shared(*members)
    except TypeError:  # a kind of others that has no hash
        return Kinds(*members)


@lru_cache(maxsize=32)
def _shared(*kinds: QueryKind) -> Kinds:
    return Kinds(*kinds)
