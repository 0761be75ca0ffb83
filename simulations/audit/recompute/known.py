"""What a replay keeps of a ledger: studies, requests, learners. No rules here."""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import NamedTuple

from protocol.ledger.entries import EntryKind
from protocol.messages import NOBODY
from protocol.plans import Plan

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
        fixed: of each query, whether its first turn costs all, and that can be computed.
    """

    plan: Plan
    kinds: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    fixed: tuple[bool, ...]


@dataclass(slots=True, eq=False)
class Study:
    """A plan that was accepted.

    Attributes:
        learner, study: whose and which.
        index: of its RESERVE entry.
        shape: what was accepted.
        costs: the most that each query may be charged, as the entry says.
        expires_at: end of the reservation.
        versions: names of the records served when it was charged, or when it was reserved where it never was; "" where
            none was named.
        state: `OPEN`, `ASKED` or `ENDED`.
        sequence: of its last request.
        last: digest of its last request.
        spent: charged so far.
        spent_on: charged so far for each query.
        kept: its answered requests whose replies are kept.
        states: query kind -> (index of the ANSWERED entry, digest of what its answerer keeps).
    """

    learner: bytes
    study: bytes
    index: int
    shape: Shape
    costs: tuple[Fraction, ...]
    expires_at: int
    versions: tuple[str, ...]
    last: bytes
    state: str = OPEN
    sequence: int = 0
    spent: Fraction = ZERO
    spent_on: dict[int, Fraction] = field(default_factory=dict)
    kept: "list[Made]" = field(default_factory=list)
    states: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    @property
    def cost(self) -> Fraction:
        """Of the whole plan."""
        return sum(self.costs, ZERO)

    @property
    def left(self) -> Fraction:
        """What is still set aside."""
        return ZERO if self.state == ENDED else self.cost - self.spent


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
    lost: bool = False
    evicted: bool = False


class Charge(NamedTuple):
    """A charge, for the budget over time.

    Attributes:
        entry: index of its entry.
        learner, study: whose.
        sequence: of the query.
        amount: exact.
    """

    entry: int
    learner: bytes
    study: bytes
    sequence: int
    amount: Fraction


@dataclass
class Purses:
    """What each learner has spent. A key that is bound to no name is a learner of its own.

    Attributes:
        bound: key -> (index of the entry that binds it, the learner's name).
        keys: name -> its keys, as they were bound.
        spent: by key.
        history: by key, (index, spent) after each change.
    """

    bound: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    spent: dict[bytes, Fraction] = field(default_factory=dict)
    history: dict[bytes, list[tuple[int, Fraction]]] = field(default_factory=dict)

    def spend(self, key: bytes, amount: Fraction, index: int) -> None:
        """Add what a key spent at an entry; nothing for nobody."""
        if key != NOBODY:
            self.spent[key] = total = self.spent.get(key, ZERO) + amount
            self.history.setdefault(key, []).append((index, total))

    def name_of(self, key: bytes) -> str:
        """To whom a key is bound; "" for nobody."""
        return self.bound[key][1] if key in self.bound else ""

    def keys_of(self, key: bytes) -> tuple[bytes, ...]:
        """All keys of the learner with this one."""
        return tuple(self.keys.get(self.name_of(key), ())) or (key,)

    def by_key(self, key: bytes, index: int) -> Fraction:
        """What one key had spent after an entry."""
        history = self.history.get(key, [])
        place = bisect_right(history, index, key=itemgetter(0))
        return history[place - 1][1] if place else ZERO

    def by_learner(self, key: bytes, index: int) -> Fraction:
        """What a learner had spent after an entry, over all keys that were bound to it by then."""
        at, name = self.bound.get(key, (index + 1, ""))
        others = [other for other in self.keys[name] if self.bound[other][0] <= index] if at <= index else []
        return sum((self.by_key(each, index) for each in {key, *others}), ZERO)

    def changes(self, key: bytes) -> list[tuple[int, Fraction]]:
        """(index, spent) of a learner after each change, over all its keys."""
        keys = self.keys_of(key)
        places = {index for each in keys for index, _ in self.history.get(each, ())}
        places |= {self.bound[each][0] for each in keys if each in self.bound}
        return [(index, self.by_learner(key, index)) for index in sorted(places)]
