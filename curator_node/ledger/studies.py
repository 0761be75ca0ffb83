"""The facts in a ledger on one study, one request, one answer, and each learner. Nothing is stored here.

An enrolled learner has one name and any number of keys. Its spending, reservations, proposals and open studies are
summed over all keys, former ones included: a new key brings no new budget. A key that no entry binds to a name is a
learner of its own.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from typing import NamedTuple

from protocol.errors import LocalProtocolError
from protocol.ledger import exports
from protocol.ledger.entries import Entry, EntryKind, Suspect
from protocol.messages import NOBODY
from protocol.plans import Plan
from protocol.transitions import Event, State, advance

MOST_NAME = 200
"""Letters of an enrolled learner's name."""


ZERO = Fraction(0)
EVENTS: dict[EntryKind, tuple[Event, ...]] = {
    EntryKind.RESERVE: (Event.PROPOSAL, Event.ACCEPTED),
    EntryKind.CHARGE: (Event.QUERY,),
    EntryKind.CLOSE: (Event.CLOSE, Event.CLOSED),
    EntryKind.EXPIRE: (Event.EXPIRY,),
}
"""The events of `protocol.transitions` that an entry means for its study. An ANSWERED entry for a charge that the study
still waits for is the release."""


class StudyKey(NamedTuple):
    """A study is one learner's: two learners may choose the same identity."""

    learner: bytes
    study: bytes


@dataclass
class StudyAccount:
    """A study as the ledger knows it."""

    key: StudyKey  # whose and which
    ordinal: int  # number of the learner's study at this curator, from 0
    plan: Plan  # accepted
    costs: tuple[Fraction, ...]  # the most that each planned query may be charged, all its turns together
    expires_at: int  # end of the reservation
    last_request: bytes
    spent: Fraction = ZERO  # charged so far
    sequence: int = 0  # of the last request that changed it
    last_reply: bytes = b""  # digest of the last reply; empty while there is none
    state: State = State.OPEN
    spent_on: dict[int, Fraction] = field(default_factory=dict)  # charged so far for each planned query
    _places: tuple[tuple[int, int], ...] | None = field(default=None, repr=False)

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """See `Plan.places`."""
        if self._places is None:
            self._places = self.plan.places
        return self._places

    def left_for(self, sequence: int) -> Fraction:
        """The most that the query with this sequence may still be charged; ZERO beyond the plan."""
        if not 1 <= sequence <= len(self.places):
            return ZERO
        query = self.places[sequence - 1][0]
        charged = self.spent_on.get(query)
        return self.costs[query] if charged is None else self.costs[query] - charged

    def kind_of(self, sequence: int) -> str:
        """Name of the query kind at a sequence within the plan."""
        return self.plan.head(self.places[sequence - 1][0]).kind

    @property
    def cost(self) -> Fraction:
        """The most that the whole plan may be charged."""
        return sum(self.costs, ZERO)

    @property
    def ended(self) -> bool:
        """Whether it was closed or has expired."""
        return self.state in (State.CLOSED, State.EXPIRED)

    @property
    def reserved(self) -> Fraction:
        """Epsilon that is still set aside."""
        return ZERO if self.ended else self.cost - self.spent


@dataclass(frozen=True)
class Owed:
    """A request that took effect and has no reply yet."""

    index: int
    key: StudyKey
    sequence: int
    amount: Fraction  # reserved, charged or refunded by it
    charged: bool  # whether it was a charge


@dataclass(frozen=True)
class Answer:
    """A request that was answered."""

    index: int  # of the ANSWERED entry
    owed: Owed  # what it answers
    reply: bytes  # digest of the signed reply
    size: int  # bytes of it


@dataclass(frozen=True)
class KeptState:
    """The state that a kind's answerer keeps between the turns of a study."""

    index: int  # of the ANSWERED entry that holds its digest
    state: bytes
    size: int  # bytes of it
    usable: bool = True  # whether it may be used. A lost branch may have gone on from it: then it is never used again


@dataclass(frozen=True)
class Decision:
    """The steward's decision on a proposal.

    An approval holds for the cost, the terms, the records and the plug-ins that the steward read.
    """

    index: int
    at: int  # when it was entered
    approved: bool  # otherwise it was declined
    until: int  # when an approved one is accepted no more
    cost: Fraction  # as the steward read it
    under: tuple[str, str, str]  # `Account.under` when the steward read it

    def allows(self, now: int) -> bool:
        """Whether this is an approval that still holds at a time."""
        return self.approved and now < self.until

    def covers(self, cost: Fraction, under: tuple[str, str, str]) -> bool:
        """Whether cost, terms, records and plug-ins are those that the steward read.

        This is checked when a study is reserved, and not when a chain is read: older programs did not check it, and
        their ledgers stay readable. An auditor reports such entries.
        """
        return (self.cost, self.under) == (cost, under)


def state_key(study: StudyKey, kind: str) -> bytes:
    """The key under which a study's state of a query kind is stored, among the replies."""
    return exports.state_key(*study, kind)


@dataclass(frozen=True)
class LostSpending:
    """What a lost branch spent and its ledger does not show."""

    suspect: Suspect  # of the branch
    total: Fraction  # epsilon over all learners
    by_learner: Mapping[bytes, Fraction]  # of it, what is known to be a learner's own
    running: Fraction = ZERO  # of the total, charges before the fork under which the branch may have answered once more


def step(state: State, entry: Entry) -> State:
    """The state of a study after an entry that concerns it. Raises LocalProtocolError if it is not allowed then."""
    for event in EVENTS[entry.kind]:
        state = advance(state, event)
    return state


def complaint_of_step(state: State, entry: Entry) -> str:
    """Why an entry cannot concern a study in a state; "" where it can."""
    try:
        step(state, entry)
    except LocalProtocolError as error:
        return str(error)
    return ""


def _total(amounts: list[Fraction]) -> Fraction:
    """Their sum; most learners have one key."""
    return amounts[0] if len(amounts) == 1 else sum(amounts, ZERO)


@dataclass
class Learners:
    """Spending, reservations and numbers of studies, by learner."""

    # key -> (index of the entry that binds it, the learner's name); for ever
    bound: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    # name -> its keys, in the order in which they were bound
    keys: dict[str, list[bytes]] = field(default_factory=dict)
    spent: dict[bytes, Fraction] = field(default_factory=dict)  # epsilon, by key
    reserved: dict[bytes, Fraction] = field(default_factory=dict)  # epsilon, by key
    # by key, (index, spent) after each change of what it has spent
    history: dict[bytes, list[tuple[int, Fraction]]] = field(default_factory=dict)
    open_by_learner: dict[bytes, set[StudyKey]] = field(default_factory=dict)  # by key, studies that have not ended
    ordinals: dict[bytes, int] = field(default_factory=dict)  # by key, number of studies ever

    def name_of(self, key: bytes) -> str:
        """The name to which a key is bound; "" if it is bound to none."""
        return self.bound[key][1] if key in self.bound else ""

    def keys_of(self, key: bytes, name: str = "") -> tuple[bytes, ...]:
        """All keys of the learner with this key. A key that is not bound yet counts as bound to `name`."""
        bound_keys = self.keys.get(self.name_of(key) or name, [])
        return tuple(dict.fromkeys([*bound_keys, key]))

    def spent_by(self, key: bytes, name: str = "") -> Fraction:
        """Epsilon that a learner has spent, over all its keys."""
        return _total([self.spent.get(own_key, ZERO) for own_key in self.keys_of(key, name)])

    def reserved_by(self, key: bytes, name: str = "") -> Fraction:
        """Epsilon that is set aside for a learner, over all its keys."""
        return _total([self.reserved.get(own_key, ZERO) for own_key in self.keys_of(key, name)])

    def open_of(self, key: bytes, name: str = "") -> int:
        """How many studies a learner has open, over all its keys."""
        return sum(len(self.open_by_learner.get(own_key, ())) for own_key in self.keys_of(key, name))

    def studies_of(self, key: bytes, name: str = "") -> int:
        """How many studies a learner ever had, over all its keys."""
        return sum(self.ordinals.get(own_key, 0) for own_key in self.keys_of(key, name))

    def spent_at(self, key: bytes, index: int) -> Fraction:
        """Epsilon that a learner had spent at an entry, over all keys that were bound to it by then."""
        at, name = self.bound.get(key, (index + 1, ""))
        there = self.keys[name] if at <= index else []
        keys = {key, *(other for other in there if self.bound[other][0] <= index)}
        return _total([self._spent_at(own_key, index) for own_key in keys])

    def complaint_of_name(self, key: bytes, name: str) -> str:
        """What is wrong with binding a key to a name; "" where nothing is."""
        if key == NOBODY or not 0 < len(name) <= MOST_NAME:
            return "binds no key, or to no name"
        return "binds a key that is bound" if key in self.bound else ""

    def bind(self, key: bytes, index: int, name: str) -> None:
        """Bind a key, with what it has spent, to a learner's name."""
        self.bound[key] = (index, name)
        self.keys.setdefault(name, []).append(key)

    def _spent_at(self, key: bytes, index: int) -> Fraction:
        history = self.history.get(key, [])
        place = bisect_right(history, index, key=itemgetter(0))
        return history[place - 1][1] if place else ZERO
