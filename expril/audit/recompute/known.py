"""What a replay keeps of a ledger: studies, requests, learners, and what is found wrong, and where. No rules here."""

import math
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from protocol.ledger.entries import EntryKind
from protocol.messages import NOBODY
from protocol.plans import Plan
from protocol.rationals import plus, shorten, total_of

MOST = 200
"""Findings of a ledger that are told one by one; a file that is wrong everywhere would tell no more by the next."""


def as_text(amount: Fraction) -> str:
    """An amount as text: exact, or rounded up where it is too long to be written down."""
    return str(shorten(amount, math.ceil))


@dataclass(frozen=True)
class Finding:
    """Something wrong.

    Attributes:
        index: of the entry; -1 where no entry is meant.
        text: what is wrong, with its place.
    """

    index: int
    text: str


class Findings(list[Finding]):
    """Findings in the order in which they were made; beyond `MOST` they are only counted.

    Attributes:
        uncounted: how many were made beyond those listed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.uncounted = 0

    def add(self, index: int, text: str) -> None:
        """Note a finding."""
        if len(self) < MOST:
            self.append(Finding(index, text))
        else:
            self.uncounted += 1

    def texts(self) -> list[str]:
        """For people, by place."""
        told = [item.text for item in sorted(self, key=lambda item: item.index)]
        return [*told, f"and {self.uncounted} more"] if self.uncounted else told


ZERO = Fraction(0)
OPEN, ASKED, ENDED = "open", "asked", "ended"
"""A study that may ask, one that waits for an answer, one that was closed or has expired."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What all studies with one and the same plan share; told apart by identity.

    Attributes:
        plan: the plan.
        kinds: name of each query's kind.
        places: (query, turn) of each sequence from 1 on.
        fixed: of each query, whether one turn costs all, and that can be computed.
        charged: of each query, number of that turn.
        provisos: of each query, on what condition its cost holds; "" where on none.
        integrals: of each query, what it costs under integral privacy; None for infinite, or not known.
        not_private: numbers of the queries, from 1, that are not as private as their costs say.
    """

    plan: Plan
    kinds: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    fixed: tuple[bool, ...]
    charged: tuple[int, ...]
    provisos: tuple[str, ...]
    integrals: tuple[Fraction | None, ...]
    not_private: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Price:
    """What a plan's queries may be charged; told apart by identity.

    Attributes:
        costs: of each query, as the RESERVE entry says.
        sums: of the first 0, 1, 2, ... queries.
    """

    costs: tuple[Fraction, ...]
    sums: tuple[Fraction, ...]

    @property
    def total(self) -> Fraction:
        """Of the whole plan."""
        return self.sums[-1]


@dataclass(slots=True, eq=False)
class Study:
    """A plan that was accepted.

    Attributes:
        learner, study: whose and which.
        index: of its RESERVE entry.
        shape, price: what was accepted, and for what.
        expires_at: end of the reservation.
        versions: names of the records served when it was charged, or when it was reserved where it never was; "" where
            none was named.
        last: digest of its last request.
        state: `OPEN`, `ASKED` or `ENDED`.
        sequence: of its last request.
        done: how many queries were charged, in order, each exactly what was reserved for it.
        own: what was charged for each query, where it was otherwise; None where it was not.
        own_spent: its sum.
        kept: its answered requests whose replies are kept.
        states: query kind -> (index of the ANSWERED entry, digest of what its answerer keeps).
        ended: index of the entry that ended it; -1 where none did.
    """

    learner: bytes
    study: bytes
    index: int
    shape: Shape
    price: Price
    expires_at: int
    versions: tuple[str, ...]
    last: bytes
    state: str = OPEN
    sequence: int = 0
    done: int = 0
    own: dict[int, Fraction] | None = None
    own_spent: Fraction = ZERO
    kept: "list[Made]" = field(default_factory=list)
    states: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    ended: int = -1

    @property
    def spent(self) -> Fraction:
        """Charged so far."""
        return self.price.sums[self.done] if self.own is None else self.own_spent

    @property
    def left(self) -> Fraction:
        """What is still set aside."""
        return ZERO if self.state == ENDED else self.price.total - self.spent

    @property
    def asked(self) -> list[int]:
        """The queries that were charged."""
        return list(range(self.done)) if self.own is None else sorted(self.own)

    def left_for(self, query: int) -> Fraction:
        """What a query may still be charged."""
        cost = self.price.costs[query]
        if self.own is None:
            return cost if query >= self.done else ZERO
        return cost - self.own.get(query, ZERO)

    def charge(self, query: int, turn: int, amount: Fraction) -> None:
        """Add a charge for a turn of a query."""
        if self.own is None:
            cost, charged = self.price.costs[query], self.shape.charged[query]
            if query == self.done and turn == charged and (amount is cost or amount == cost):
                self.done += 1
                return
            if query == (self.done if turn < charged else self.done - 1) and turn != charged and not amount:
                return
            self.own, self.own_spent = dict(enumerate(self.price.costs[: self.done])), self.price.sums[self.done]
        self.own[query] = plus(self.own.get(query, ZERO), amount)
        self.own_spent = plus(self.own_spent, amount)


@dataclass(slots=True, eq=False)
class Made:
    """A request that took effect.

    Attributes:
        index: of its entry.
        kind: of its entry: RESERVE, CHARGE or CLOSE.
        study: whose it is.
        sequence: of the request.
        amount: reserved, charged or refunded.
        by_study: what the study had spent after it.
        answered: index of its ANSWERED entry; -1 where there is none.
        reply: digest of the signed reply.
        state_size: bytes of what its answerer keeps of the study from then on; None where it changes nothing of that.
        lost: whether it may have been answered on a lost branch: then it is never answered again.
        evicted: whether its reply is kept no more.
    """

    index: int
    kind: EntryKind
    study: Study
    sequence: int
    amount: Fraction
    by_study: Fraction
    answered: int = -1
    reply: bytes = b""
    state_size: int | None = None
    lost: bool = False
    evicted: bool = False


class Charge(NamedTuple):
    """A charge, for the budget over time.

    Attributes:
        entry: index of its entry.
        study: whose.
        sequence: of the query.
        amount: exact.
    """

    entry: int
    study: Study
    sequence: int
    amount: Fraction


class Running:
    """Amounts in the order of entries; their sums are taken when they are asked for."""

    __slots__ = ("_amounts", "_places", "_sums")

    def __init__(self) -> None:
        self._places: list[int] = []
        self._amounts: list[Fraction] = []
        self._sums = [ZERO]

    def add(self, place: int, amount: Fraction) -> None:
        """Add an amount at an entry."""
        self._places.append(place)
        self._amounts.append(amount)

    def at(self, place: int) -> Fraction:
        """The sum up to an entry."""
        count = bisect_right(self._places, place)
        while len(self._sums) <= count:
            self._sums.append(plus(self._sums[-1], self._amounts[len(self._sums) - 1]))
        return self._sums[count]

    @property
    def total(self) -> Fraction:
        """The sum of all. Equal amounts are mostly one and the same object, and are counted first."""
        distinct = {id(amount): amount for amount in self._amounts}
        counted = Counter(map(id, self._amounts))
        return total_of(times * distinct[name] for name, times in counted.items())


@dataclass
class Purses:
    """What each learner has spent. A key that is bound to no name is a learner of its own.

    Attributes:
        bound: key -> (index of the entry that binds it, the learner's name).
        keys: name -> its keys, as they were bound.
        spent: by key.
    """

    bound: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    spent: dict[bytes, Running] = field(default_factory=dict)

    def spend(self, key: bytes, amount: Fraction, index: int) -> None:
        """Add what a key spent at an entry; nothing for nobody."""
        if key == NOBODY:
            return
        purse = self.spent.get(key)
        if purse is None:
            purse = self.spent[key] = Running()
        purse.add(index, amount)

    def name_of(self, key: bytes) -> str:
        """To whom a key is bound; "" for nobody."""
        return self.bound[key][1] if key in self.bound else ""

    def keys_of(self, key: bytes) -> tuple[bytes, ...]:
        """All keys of the learner with this one."""
        return tuple(self.keys.get(self.name_of(key), ())) or (key,)

    def by_learner(self, key: bytes, index: int) -> Fraction:
        """What a learner had spent after an entry, over all keys that were bound to it by then."""
        at, name = self.bound.get(key, (index + 1, ""))
        others = [other for other in self.keys[name] if self.bound[other][0] <= index] if at <= index else []
        return total_of(self.spent[each].at(index) for each in {key, *others} if each in self.spent)
