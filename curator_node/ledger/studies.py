"""What a ledger knows of one study, one request, one answer. No storage and no sums over learners here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from protocol.errors import LocalProtocolError
from protocol.ledger import exports
from protocol.ledger.entries import Entry, EntryKind, Suspect
from protocol.plans import Plan
from protocol.transitions import Event, State, advance

ZERO = Fraction(0)
EVENTS: dict[EntryKind, tuple[Event, ...]] = {
    EntryKind.RESERVE: (Event.PROPOSAL, Event.ACCEPTED),
    EntryKind.CHARGE: (Event.QUERY,),
    EntryKind.CLOSE: (Event.CLOSE, Event.CLOSED),
    EntryKind.EXPIRE: (Event.EXPIRY,),
}
"""How an entry moves its study through `protocol.transitions`. ANSWERED of a charge that its study still waits for is
the release."""


class StudyKey(NamedTuple):
    """A study is one learner's: two learners may choose the same identity."""

    learner: bytes
    study: bytes


@dataclass
class StudyAccount:
    """A study as the ledger knows it.

    Attributes:
        key: whose and which.
        ordinal: number of the learner's study at this curator, from 0.
        plan: accepted.
        costs: the most that each planned query may be charged, all its turns together.
        expires_at: end of the reservation.
        spent: charged so far.
        spent_on: charged so far for each planned query.
        sequence: of the last request that changed it.
        last_request: its digest.
        last_reply: digest of the last reply; empty while there is none.
        state: see `protocol.transitions`.
    """

    key: StudyKey
    ordinal: int
    plan: Plan
    costs: tuple[Fraction, ...]
    expires_at: int
    last_request: bytes
    spent: Fraction = ZERO
    sequence: int = 0
    last_reply: bytes = b""
    state: State = State.OPEN
    spent_on: dict[int, Fraction] = field(default_factory=dict)
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
        return self.costs[query] - self.spent_on.get(query, ZERO)

    def kind_of(self, sequence: int) -> str:
        """Name of the query kind that a sequence within the plan is of."""
        return self.plan.head(self.places[sequence - 1][0]).kind

    @property
    def cost(self) -> Fraction:
        """Of the whole plan."""
        return sum(self.costs, ZERO)

    @property
    def ended(self) -> bool:
        """Whether it was closed or has expired."""
        return self.state in (State.CLOSED, State.EXPIRED)

    @property
    def reserved(self) -> Fraction:
        """What is still set aside."""
        return ZERO if self.ended else self.cost - self.spent


@dataclass(frozen=True)
class Owed:
    """A request that took effect and has no reply yet.

    Attributes:
        index: of its entry.
        key: of its study.
        sequence: of the request.
        amount: reserved, charged or refunded by it.
        charged: whether it was a charge.
    """

    index: int
    key: StudyKey
    sequence: int
    amount: Fraction
    charged: bool


@dataclass(frozen=True)
class Answer:
    """A request that was answered.

    Attributes:
        index: of the ANSWERED entry.
        owed: what it answers.
        reply: digest of the signed reply.
        size: bytes of it.
    """

    index: int
    owed: Owed
    reply: bytes
    size: int


@dataclass(frozen=True)
class KeptState:
    """What an answerer keeps of a study.

    Attributes:
        index: of the ANSWERED entry that holds its digest.
        state: its digest.
        size: bytes of it.
        usable: whether it may be used. A lost branch may have gone on from it: then it is never used again.
    """

    index: int
    state: bytes
    size: int
    usable: bool = True


@dataclass(frozen=True)
class Decision:
    """The steward's word on a proposal. A yes holds for what the steward read: its price, the terms and the records.

    Attributes:
        index: of its entry.
        at: when it was entered.
        approved: otherwise it was declined.
        until: when an approved one is accepted no more.
        cost: that the steward read.
        under: the same, see `Account.under`.
    """

    index: int
    at: int
    approved: bool
    until: int
    cost: Fraction
    under: tuple[str, str]

    def allows(self, now: int) -> bool:
        """Whether the proposal may be accepted, unless something differs."""
        return self.approved and now < self.until

    def covers(self, cost: Fraction, under: tuple[str, str]) -> bool:
        """Whether nothing differs from what the steward read.

        Asked where a study is reserved, and not of an entry that stands in the chain: programs before this rule did not
        ask, and what they wrote stays readable. The auditor names it.
        """
        return (self.cost, self.under) == (cost, under)


def state_key(study: StudyKey, kind: str) -> bytes:
    """Under which a study's state of a query kind is stored, among the replies."""
    return exports.state_key(*study, kind)


@dataclass(frozen=True)
class Restored:
    """What a lost branch spent and its ledger does not show.

    Attributes:
        suspect: of the branch.
        total: epsilon over all learners.
        by_learner: of it, what is known to be a learner's own.
        running: of the total, charges before the fork under which the branch may have answered once more.
    """

    suspect: Suspect
    total: Fraction
    by_learner: Mapping[bytes, Fraction]
    running: Fraction = ZERO


def step(state: State, entry: Entry) -> State:
    """The state of a study after an entry that concerns it; LocalProtocolError where there is none."""
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
