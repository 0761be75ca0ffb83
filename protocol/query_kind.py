"""What a query kind is, and the kinds that a program was started with. No kind is named here.

A query of a plan takes one turn, a request and its release, or several. Sequences number the turns of all queries.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.examples import Example
from protocol.limits import Limits
from protocol.odds import NOTHING, WORST, Odds, PrivacyUnit
from protocol.plans import Plan, Planned
from protocol.rationals import MOST
from protocol.refusals import RefusalCode
from protocol.schema import Schema
from protocol.strict_toml import convert, suggest


@dataclass(frozen=True)
class Turn:
    """One turn of a planned query.

    Attributes:
        planned: the query, as its kind reads it.
        query: its index in the plan, from 0.
        number: of the turn within it, from 0.
    """

    planned: Any
    query: int = 0
    number: int = 0


@dataclass(frozen=True)
class Past:
    """A turn of the study that was answered, as both sides know it.

    Attributes:
        turn: which.
        release: the bytes that were released.
    """

    turn: Turn
    release: bytes


@dataclass(frozen=True)
class QueryKind:
    """All that both sides must agree on of a query kind. What is planned, asked and limited are structs of its own.

    Attributes:
        name: on the wire.
        relation: the neighbouring relation under which its costs are pure epsilons.
        tells: what its answers tell of the records, for a steward, such as "how many records fall into groups".
        planned: type of its planned query, a `Planned` whose tag is `name`.
        limits: type of its limits, a struct of which every field has a default.
        check_planned: (planned) raises RemoteProtocolError(BAD_PLAN) for one that breaks a rule.
        check_allowed: (planned, schema, limits, field) raises RemoteProtocolError where a curator with this schema and
            these limits of the kind would not accept it; `field` is its place, for the error.
        cost: (planned, most records of one privacy unit) -> the most that all its turns together cost, exact.
        read_body: (bytes, turn, schema, limits) -> checked body; raises RemoteProtocolError.
        work: (checked body, turn, schema, declared round size) -> its whole work, see `protocol.limits`.
        release_bytes: (checked body, turn, schema) -> most bytes of the release, before anything is charged.
        read_release: (release bytes, body, turn, schema) -> its payload, checked for shape.
        charge: (turn, answered turns of this kind in the study, most records of one privacy unit) -> what this turn
            costs, exact; over a query it never adds up to more than `cost`. None: the whole cost with `charged_turn`.
        charged_turn: number of the turn, from 0, that is the first to release anything that depends on a record.
        remark: (checked body, turn) -> what the ledger is to say of a turn for its readers, from the request alone.
        told: (remark) -> the same in words, for people.
        noted: (release bytes, checked body, turn) -> what the ledger is to say of an answer for its readers, in words,
            from what was released alone. None: nothing.
        check_remark: (remark, turn, keys of the curator) -> what is wrong with a remark in that curator's ledger, by
            the plan alone; "" where nothing is. None: its remarks are empty.
        in_common: (planned, remarks of a query's turns, in order) -> (what this curator and others did together, what
            each of them must have noted of it alike), in words; None where they tell of nothing such.
        condition: on what its costs hold, whatever is planned, in words; "" where on nothing.
        proviso: (planned) -> on what condition its cost holds, in words for a steward; "" where on none.
        integral: (planned) -> exact epsilon of all its turns together under integral privacy, that is between any two
            sets of records, whatever a unit is (Husain, Cranko and Nock 2019); None: infinite.
        odds: (planned, privacy unit, how many of its parts read the attribute in question, None for all) -> by what its
            answers may change odds, see `protocol.odds`; in each turn by so much of it as is charged of its cost. None:
            nothing better is proved than what holds for every mechanism.
        most_odds: (limits, privacy unit) -> the same at most, of each epsilon of whatever they allow.
        precision: (planned, privacy unit) -> how exact an answer is, in words for a steward, from the plan alone.
        private: (limits) -> whether all that they allow is as private as its cost says.
        private_planned: (planned) -> whether this query is as private as its cost says.
        state_bytes: most bytes that its answerer keeps of a study between turns; 0: it keeps nothing.
        by_default: whether a policy that names no kind allows it.
        examples: of each thing that it releases as private, by name ("" where there is but one): questions to attack.
            A name without questions is not audited, and an audit says so; so is a kind without names.
        numbers: (release bytes, body, turn, schema) -> all its numbers, (k,), checked for shape; for an auditor.
        laws: (planned, most records of one privacy unit) -> what all its turns release, as far as a unit can move it: a
            tuple of `protocol.noise.Moved`, whose losses compose to at most the query's. None: only `cost` is known.
    """

    name: str
    relation: str
    planned: type[Planned]
    limits: type[msgspec.Struct]
    check_planned: Callable[[Any], None]
    check_allowed: Callable[[Any, Schema, Any, str], None]
    cost: Callable[[Any, int], Fraction]
    read_body: Callable[[bytes, Turn, Schema, Any], Any]
    work: Callable[[Any, Turn, Schema, int | None], int]
    release_bytes: Callable[[Any, Turn, Schema], int]
    read_release: Callable[[bytes, Any, Turn, Schema], bytes]
    charge: Callable[[Turn, Sequence[Past], int], Fraction] | None = None
    charged_turn: int = 0
    remark: Callable[[Any, Turn], str] = lambda body, turn: ""  # noqa: ARG005
    told: Callable[[str], str] = lambda remark: remark
    noted: Callable[[bytes, Any, Turn], str] | None = None
    check_remark: Callable[[str, Turn, Collection[bytes]], str] | None = None
    in_common: Callable[[Any, Sequence[str]], tuple[str, str] | None] = lambda planned, remarks: None  # noqa: ARG005
    condition: str = ""
    proviso: Callable[[Any], str] = lambda planned: ""  # noqa: ARG005
    integral: Callable[[Any], Fraction | None] = lambda planned: None  # noqa: ARG005
    odds: Callable[[Any, PrivacyUnit, int | None], Odds] | None = None
    most_odds: Callable[[Any, PrivacyUnit], Odds] = lambda limits, unit: WORST  # noqa: ARG005
    precision: Callable[[Any, PrivacyUnit], str] = lambda planned, unit: ""  # noqa: ARG005
    private: Callable[[Any], bool] = lambda limits: True  # noqa: ARG005
    private_planned: Callable[[Any], bool] = lambda planned: True  # noqa: ARG005
    state_bytes: int = 0
    by_default: bool = False
    tells: str = "what its questions ask for"
    examples: Callable[[], Mapping[str, Sequence[Example]]] = dict
    numbers: Callable[[bytes, Any, Turn, Schema], NDArray[np.number[Any]]] | None = None
    laws: Callable[[Any, int], tuple[Any, ...] | None] = lambda planned, most_records_per_unit: None  # noqa: ARG005

    @property
    def looks_back(self) -> bool:
        """Whether what a turn costs may depend on what was released."""
        return self.charge is not None


class Kinds(Mapping[str, QueryKind]):
    """The query kinds of a program, by name; fixed when it is made."""

    def __init__(self, *kinds: QueryKind) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        # Reading a plan of a thousand queries takes milliseconds, and every request of its study needs it.
        self._read = lru_cache(maxsize=4096)(self._read_planned)
        self._cost = lru_cache(maxsize=4096)(self._cost_of)

    def __getitem__(self, name: str) -> QueryKind:
        """The kind of this name; KeyError where it is not installed."""
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter(self._kinds)

    def __len__(self) -> int:
        """Their number."""
        return len(self._kinds)

    def __hash__(self) -> int:
        """Of their names."""
        return hash(frozenset(self._kinds))

    def kind(self, name: str) -> QueryKind:
        """The kind of this name; RemoteProtocolError(UNKNOWN_KIND) where it is not installed."""
        kind = self._kinds.get(name)
        if kind is None:
            raise RemoteProtocolError(RefusalCode.UNKNOWN_KIND, "plan.queries.kind", ", ".join(self._kinds))
        return kind

    def missing(self, plan: Plan) -> tuple[str, ...]:
        """Kinds of a plan that are not installed, each once."""
        return tuple(dict.fromkeys(head.kind for head in plan.heads if head.kind not in self._kinds))

    def queries(self, plan: Plan) -> tuple[Any, ...]:
        """The queries of a plan, each decoded and checked by its kind.

        Raises:
            RemoteProtocolError: UNKNOWN_KIND, MALFORMED or BAD_PLAN.
        """
        return tuple(self.query(plan, index) for index in range(len(plan.queries)))

    def query(self, plan: Plan, index: int) -> Any:
        """One query of a plan, from 0; raises as `queries`."""
        return self._read(bytes(plan.queries[index]), plan.head(index).kind)

    def turns(self, plan: Plan) -> tuple[Turn, ...]:
        """The turns of a plan, by sequence from 1 on; raises as `queries`."""
        return tuple(self.turn(plan, place) for place in plan.places)

    def turn(self, plan: Plan, place: tuple[int, int]) -> Turn:
        """The turn at one of a plan's `places`; raises as `queries`."""
        return Turn(self.query(plan, place[0]), *place)

    def cost(self, planned: Planned, most_records_per_unit: int) -> Fraction:
        """Exact epsilon of one planned query, all turns together, for a unit of so many records at most.

        Raises:
            RemoteProtocolError: UNKNOWN_KIND or BAD_PLAN.
        """
        return self._cost(planned, most_records_per_unit)

    def costs(self, plan: Plan, most_records_per_unit: int) -> tuple[Fraction, ...]:
        """`cost` of each query of a plan; raises as `queries`."""
        return tuple(self._cost(planned, most_records_per_unit) for planned in self.queries(plan))

    def plan_cost(self, plan: Plan, most_records_per_unit: int) -> Fraction:
        """Pure epsilon of a plan: the exact sum over its queries (basic composition).

        Raises:
            RemoteProtocolError: as `queries`, or BAD_PLAN where the sum, or any part of it, needs more than 32 bits.
        """
        costs = self.costs(plan, most_records_per_unit)
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
        """Exact epsilon of one turn.

        Args:
            turn: which.
            past: the study's answered turns, in order; those of kinds that do not look back may be left out.
            most_records_per_unit: contribution bound c.
        """
        kind = self.kind(turn.planned.kind)
        if kind.charge is not None:
            own = [item for item in past if item.turn.planned.kind == turn.planned.kind]
            return kind.charge(turn, own, most_records_per_unit)
        charged = turn.number == kind.charged_turn
        return self.cost(turn.planned, most_records_per_unit) if charged else Fraction(0)

    def odds(self, planned: Planned, unit: PrivacyUnit, readers: int | None = None) -> Odds | None:
        """By what the answers to one planned query may change odds; None for any, as it is not private as claimed.

        Args:
            planned: the query.
            unit: what is protected.
            readers: how many of its parts, such as partitions, read the attribute in question; None for all. A
                hypothesis that reads it counts in each, and so does the choice of the records that count.

        Raises:
            RemoteProtocolError: as `cost`.
        """
        kind = self.kind(planned.kind)
        if not kind.private_planned(planned):
            return None
        cost = self._cost(planned, unit.records)
        return Odds.twice(cost) if kind.odds is None else kind.odds(planned, unit, readers)

    def plan_odds(self, plan: Plan, unit: PrivacyUnit) -> Odds | None:
        """`odds` of all queries of a plan together; raises as `queries`."""
        each = [self.odds(planned, unit) for planned in self.queries(plan)]
        known = [one for one in each if one is not None]
        return sum(known, NOTHING) if len(known) == len(each) else None

    def most_odds(self, limits: Limits, unit: PrivacyUnit) -> Odds | None:
        """By what each epsilon of all that `limits` allow may change odds; None for any; raises as `limits`."""
        most = NOTHING
        for name in self.allowed(limits):
            kind, own = self.kind(name), self.limits(limits, name)
            if not kind.private(own):
                return None
            most = most.or_more(kind.most_odds(own, unit))
        return most

    def integral(self, plan: Plan, index: int) -> Fraction | None:
        """Exact epsilon of one query of a plan, from 0, under integral privacy; None for infinite, or not known."""
        kind = self._kinds.get(plan.head(index).kind)
        try:
            return None if kind is None else kind.integral(self.query(plan, index))
        except RemoteProtocolError:
            return None

    def limits(self, limits: Limits, name: str) -> Any:
        """What `limits` say of a kind, with its defaults, as the kind's own struct.

        Raises:
            RemoteProtocolError: the kind is not installed (UNKNOWN_KIND), not allowed (KIND_NOT_ALLOWED), or what is
                said of it cannot be read (MALFORMED).
        """
        kind = self.kind(name)
        told = self.allowed(limits)
        if name not in told:
            raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, "plan.queries.kind", ", ".join(told))
        try:
            return msgspec.convert(told[name], kind.limits, strict=True)
        except msgspec.ValidationError:
            raise RemoteProtocolError(RefusalCode.MALFORMED, f"limits.kinds.{name}") from None

    def allowed(self, limits: Limits) -> Mapping[str, dict[str, Any]]:
        """Allowed kinds -> what is said of each; those that are allowed by default where none is named."""
        if not isinstance(limits.kinds, msgspec.UnsetType):
            return limits.kinds
        return {name: {} for name, kind in self._kinds.items() if kind.by_default}

    def settle(self, limits: Limits, *, where: str) -> Limits:
        """The same limits with every default written out, as a card shows them.

        Raises:
            ConfigurationError: an unknown kind, key or value; `where` says in which file.
        """
        kinds = {}
        for name, told in sorted(self.allowed(limits).items()):
            if name not in self._kinds:
                raise ConfigurationError(f"{where}: unknown query kind {name!r}{suggest(name, list(self._kinds))}")
            own = convert(told, self._kinds[name].limits, where=f"{where}, limits.kinds.{name}")
            kinds[name] = msgspec.msgpack.decode(encode(own))  # lists for tuples, as on the wire
        return msgspec.structs.replace(limits, kinds=kinds)

    def private(self, limits: Limits) -> bool:
        """Whether everything that `limits` allow is as private as its cost says; raises as `limits`."""
        return all(self._kinds[name].private(self.limits(limits, name)) for name in self.allowed(limits))

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

    def _cost_of(self, planned: Planned, most_records_per_unit: int) -> Fraction:
        kind = self.kind(planned.kind)
        kind.check_planned(planned)
        return kind.cost(planned, most_records_per_unit)
