"""What a ledger's entries add up to. No storage here."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from curator_node.ledger.branches import STUB, holds, last_common, lost_amounts, position_at, precedes
from curator_node.ledger.entries import (
    DATA_VERSION,
    GENESIS,
    Entry,
    EntryKind,
    LedgerCorruptError,
    Position,
    StatefulEntry,
    Suspect,
    entry_hash,
)
from curator_node.ledger.studies import ZERO, Answer, KeptState, Owed, Restored, StudyAccount, StudyKey, state_key
from protocol.errors import LocalProtocolError
from protocol.messages import NO_STUDY, NOBODY
from protocol.plans import Plan
from protocol.rationals import parse_amount
from protocol.transitions import Event, State, advance

EVENTS: dict[EntryKind, tuple[Event, ...]] = {
    EntryKind.RESERVE: (Event.PROPOSAL, Event.ACCEPTED),
    EntryKind.CHARGE: (Event.QUERY,),
    EntryKind.CLOSE: (Event.CLOSE, Event.CLOSED),
    EntryKind.EXPIRE: (Event.EXPIRY,),
}
"""How an entry moves its study through `protocol.transitions`. ANSWERED of a charge that its study still waits for is
the release."""


@dataclass
class Account:
    """The sum of all entries so far.

    Attributes:
        head: hash of the last entry.
        hashes: of every entry, by index.
        totals: spent over all learners up to every entry.
        starts: (index, stub) of the START entries, newest first.
        curator: whose ledger it is, a public key; empty before the first entry.
        terms: what the charges mean; empty before the first START.
        spent, reserved: epsilon by learner.
        history: (index, spent) after each change of what a learner has spent.
        total_spent: over all learners.
        studies: by learner and identity.
        open_by_learner: studies that have not ended.
        ordinals: number of studies ever, by learner.
        owed: request digest -> what has no reply yet.
        answers: request digest -> its reply.
        lost: digests of charged requests that may have been answered on a lost branch -> index of their charge; they
            are never answered again.
        evicted: digests of requests whose replies are kept no more.
        kept: request digests of ended studies whose replies are kept, the study that ended first in front.
        states: (study, kind) -> what its answerer keeps.
        kept_bytes: of all replies and states kept.
        halted: whether the curator has stopped.
        suspects: why it may have lost entries, as far as its steward has not seen it.
        acknowledged: the same, after which the steward resumed.
        data: (index, name) of the snapshots of records that were served, in order.
    """

    head: bytes = GENESIS
    hashes: list[bytes] = field(default_factory=list)
    totals: list[Fraction] = field(default_factory=list)
    starts: list[tuple[int, bytes]] = field(default_factory=list)
    curator: bytes = b""
    terms: str = ""
    spent: dict[bytes, Fraction] = field(default_factory=dict)
    reserved: dict[bytes, Fraction] = field(default_factory=dict)
    history: dict[bytes, list[tuple[int, Fraction]]] = field(default_factory=dict)
    total_spent: Fraction = ZERO
    studies: dict[StudyKey, StudyAccount] = field(default_factory=dict)
    open_by_learner: dict[bytes, set[StudyKey]] = field(default_factory=dict)
    ordinals: dict[bytes, int] = field(default_factory=dict)
    owed: dict[bytes, Owed] = field(default_factory=dict)
    answers: dict[bytes, Answer] = field(default_factory=dict)
    lost: dict[bytes, int] = field(default_factory=dict)
    evicted: set[bytes] = field(default_factory=set)
    kept: dict[StudyKey, list[bytes]] = field(default_factory=dict)
    states: dict[tuple[StudyKey, str], KeptState] = field(default_factory=dict)
    kept_bytes: int = 0
    halted: bool = False
    suspects: list[Suspect] = field(default_factory=list)
    acknowledged: list[Suspect] = field(default_factory=list)
    data: list[tuple[int, str]] = field(default_factory=list)

    @property
    def next_index(self) -> int:
        """Index of the entry to come."""
        return len(self.hashes)

    @property
    def total_reserved(self) -> Fraction:
        """Epsilon set aside over all learners."""
        return sum(self.reserved.values(), ZERO)

    def remaining(self, learner: bytes, cap: Fraction, total_cap: Fraction) -> Fraction:
        """Epsilon that a learner may still reserve: below its own cap, and below what is not spent of the cap over all.

        What other learners have reserved does not count: an unused reservation must not starve anybody.
        """
        own = cap - self.spent.get(learner, ZERO) - self.reserved.get(learner, ZERO)
        return max(ZERO, min(own, total_cap - self.total_spent))

    def position(self, index: int) -> Position:
        """The position of an entry."""
        return position_at(index, self.hashes, self.totals, self.starts)

    def knows(self, position: Position) -> bool:
        """Whether the chain holds a position, or its branch was lost and the steward has seen it."""
        seen = (suspect.position for suspect in self.acknowledged)
        return holds(position, self.hashes) or any(other and precedes(position, other) for other in seen)

    def took_effect(self, request: bytes) -> bool:
        """Whether a request was accepted: it is owed a reply, has one, or may have had one on a lost branch."""
        return request in self.owed or request in self.answers or request in self.lost

    def stored(self, key: StudyKey) -> list[bytes]:
        """Under which keys everything of a study is stored: its requests' digests, and those of its states."""
        return self.kept[key] + [state_key(*place) for place in self.states if place[0] == key]

    def spent_at(self, learner: bytes, index: int) -> Fraction:
        """What a learner had spent at an entry."""
        return next((spent for at, spent in reversed(self.history.get(learner, ())) if at <= index), ZERO)

    def restored(self) -> list[Restored]:
        """What each suspect's branch spent and this chain does not show, in order, each beyond those before it."""
        found = []
        seen = [suspect for suspect in self.acknowledged if suspect.position]
        for suspect in sorted(self.suspects, key=lambda item: item.position.index if item.position else -1):
            found.append(self._restored(suspect, seen))
            if suspect.position:
                seen.append(suspect)
        return found

    def _restored(self, suspect: Suspect, seen: list[Suspect]) -> Restored:
        position = suspect.position
        if position is None:
            return Restored(suspect, ZERO, {})
        before = [
            (other.position, parse_amount(other.spent) if other.learner == suspect.learner else ZERO)
            for other in seen
            if other.position
        ]
        own_at = self.history.get(suspect.learner, ())
        spent = parse_amount(suspect.spent)
        total, own = lost_amounts(position, spent, self.hashes, self.totals, self.starts, own_at, before)
        by_learner = {suspect.learner: own}
        if not any(precedes(other, position) for other, _ in before):
            for learner, cost in self._answered_twice(position):
                by_learner[learner] = by_learner.get(learner, ZERO) + cost
                total += cost
        return Restored(suspect, total, by_learner)

    def _answered_twice(self, position: Position) -> Iterator[tuple[bytes, Fraction]]:
        """(learner, cost) of charges before the fork that were answered after it: perhaps on both branches."""
        common = last_common(position, self.hashes, self.starts)
        if common is None:
            return
        for answer in self.answers.values():
            if answer.owed.charged and answer.owed.index <= common < answer.index:
                yield answer.owed.key.learner, answer.owed.amount

    def check(self, entry: Entry) -> None:
        """Whether an entry may be the next one; nothing is changed.

        Raises:
            LedgerCorruptError: it is not the next one, or breaks a rule of the ledger.
        """
        if entry.index != self.next_index or entry.previous != self.head:
            raise LedgerCorruptError(f"ledger entry {entry.index} does not follow the one before it")
        if complaint := self._complaint_of_state(entry) or self._complaint(entry):
            raise LedgerCorruptError(f"ledger entry {entry.index} {complaint}")

    def apply(self, entry: Entry, body: bytes) -> None:
        """Add one entry.

        Raises:
            LedgerCorruptError: as `check`; nothing is changed.
        """
        self.check(entry)
        amount = parse_amount(entry.amount)
        head = entry_hash(body)
        match entry.kind:
            case EntryKind.OPEN:
                self.curator = entry.learner
            case EntryKind.START:
                self.terms = entry.note
                self.starts.insert(0, (entry.index, head[:STUB]))
            case EntryKind.RESERVE:
                self._reserve(entry, amount)
            case EntryKind.CHARGE:
                self._charge(entry, amount)
            case EntryKind.ANSWERED:
                self._answered(entry)
            case EntryKind.CLOSE | EntryKind.EXPIRE:
                self._end(entry, amount)
            case EntryKind.EVICT:
                self._evict(entry)
            case EntryKind.HALT:
                self._halt(entry)
            case EntryKind.RESUME:
                self._resume(entry, amount)
            case EntryKind.DATA:
                self.data.append((entry.index, entry.note))
        self.head = head
        self.hashes.append(head)
        self.totals.append(self.total_spent)

    def _complaint(self, entry: Entry) -> str:
        """What is wrong with an entry in its place; "" where nothing is."""
        amount = parse_amount(entry.amount)
        if (entry.kind is EntryKind.OPEN) != (entry.index == 0):
            return "opens a ledger twice, or comes before it is opened"
        match entry.kind:
            case EntryKind.START | EntryKind.DATA:
                return self._complaint_of_note(entry)
            case EntryKind.RESERVE:
                return self._complaint_of_reserve(entry, amount)
            case EntryKind.CHARGE:
                return self._complaint_of_charge(entry, amount)
            case EntryKind.ANSWERED:
                owed = self.owed.get(entry.request)
                fits = owed is not None and (owed.key, owed.sequence) == (_key(entry), entry.sequence)
                return "" if fits else "answers what was not asked, or was answered before"
            case EntryKind.CLOSE | EntryKind.EXPIRE:
                return self._complaint_of_end(entry, amount)
            case EntryKind.EVICT:
                fits = _key(entry) in self.kept and self.studies[_key(entry)].ended
                return "" if fits else "evicts replies that are not kept, or still needed"
            case EntryKind.RESUME:
                if not self.halted:
                    return "resumes what was not halted"
                lost = sum((item.total for item in self.restored()), ZERO)
                return "restores less than was lost" if amount < lost else ""
        return ""

    def _complaint_of_state(self, entry: Entry) -> str:
        owed = self.owed.get(entry.request)
        answers_a_query = entry.kind is EntryKind.ANSWERED and owed is not None and owed.charged
        stateless = not isinstance(entry, StatefulEntry)
        return "" if stateless or answers_a_query else "keeps a state where no query is answered"

    def _complaint_of_note(self, entry: Entry) -> str:
        if entry.kind is EntryKind.DATA:
            return "" if DATA_VERSION.fullmatch(entry.note) else "names no records"
        return "" if self.terms in ("", entry.note) else "starts under other terms"

    def _complaint_of_reserve(self, entry: Entry, amount: Fraction) -> str:
        costs = [parse_amount(cost) for cost in entry.costs]
        if entry.study == NO_STUDY or _key(entry) in self.studies or entry.plan is None:
            return "reserves a known study, or none, or without a plan"
        if len(costs) != len(entry.plan.queries) or sum(costs, ZERO) != amount:
            return "reserves another amount than its queries may cost"
        return self._complaint_of_request(entry)

    def _complaint_of_charge(self, entry: Entry, amount: Fraction) -> str:
        study = self.studies.get(_key(entry))
        if study is None:
            return "names an unknown study"
        if not 1 <= entry.sequence <= len(study.places) or amount > study.left_for(entry.sequence):
            return "charges more than was reserved for its query"
        if entry.sequence != study.sequence + 1:
            return "charges a query out of order"
        return _complaint_of_step(study.state, entry) or self._complaint_of_request(entry)

    def _complaint_of_end(self, entry: Entry, amount: Fraction) -> str:
        study = self.studies.get(_key(entry))
        if study is None:
            return "names an unknown study"
        if amount != study.reserved:
            return "refunds another amount than is left"
        repeated = self._complaint_of_request(entry) if entry.kind is EntryKind.CLOSE else ""
        return _complaint_of_step(study.state, entry) or repeated

    def _complaint_of_request(self, entry: Entry) -> str:
        return "repeats a request" if self.took_effect(entry.request) else ""

    def _reserve(self, entry: Entry, amount: Fraction) -> None:
        key = _key(entry)
        ordinal = self.ordinals.get(entry.learner, 0)
        self.ordinals[entry.learner] = ordinal + 1
        plan = cast(Plan, entry.plan)
        costs = tuple(map(parse_amount, entry.costs))
        study = StudyAccount(key, ordinal, plan, costs, entry.expires_at, entry.request)
        study.state = _step(State.NEW, entry)
        self.studies[key] = study
        self.open_by_learner.setdefault(entry.learner, set()).add(key)
        self._set_aside(entry.learner, amount)
        self._owe(entry, amount)

    def _charge(self, entry: Entry, amount: Fraction) -> None:
        study = self.studies[_key(entry)]
        study.state = _step(study.state, entry)
        study.spent += amount
        query = study.places[entry.sequence - 1][0]
        study.spent_on[query] = study.spent_on.get(query, ZERO) + amount
        study.sequence, study.last_request = entry.sequence, entry.request
        self._set_aside(entry.learner, -amount)
        self._spend(entry.learner, amount, amount)
        self._owe(entry, amount)

    def _answered(self, entry: Entry) -> None:
        owed = self.owed.pop(entry.request)
        study = self.studies[owed.key]
        self.answers[entry.request] = Answer(entry.index, owed, entry.reply, entry.size)
        self.kept_bytes += entry.size
        self.kept.setdefault(owed.key, []).append(entry.request)
        if isinstance(entry, StatefulEntry):
            place = (owed.key, study.kind_of(entry.sequence))
            self.kept_bytes += entry.state_size - (self.states[place].size if place in self.states else 0)
            self.states[place] = KeptState(entry.index, entry.state, entry.state_size)
        if study.last_request == entry.request:
            study.last_reply = entry.reply
            if study.state is State.ASKED:
                study.state = advance(study.state, Event.RELEASE)

    def _end(self, entry: Entry, amount: Fraction) -> None:
        study = self.studies[_key(entry)]
        study.state = _step(study.state, entry)
        if entry.kind is EntryKind.CLOSE:
            study.sequence, study.last_request = entry.sequence, entry.request
            self._owe(entry, amount)
        self.open_by_learner[entry.learner].discard(study.key)
        self._set_aside(entry.learner, -amount)
        if study.key in self.kept:
            self.kept[study.key] = self.kept.pop(study.key)

    def _evict(self, entry: Entry) -> None:
        for request in self.kept.pop(_key(entry)):
            self.kept_bytes -= self.answers[request].size
            self.evicted.add(request)
        for place in [place for place in self.states if place[0] == _key(entry)]:
            self.kept_bytes -= self.states.pop(place).size

    def _halt(self, entry: Entry) -> None:
        self.halted = True
        if entry.suspect is not None:
            self.suspects.append(entry.suspect)
            for request in [request for request, owed in self.owed.items() if owed.charged]:
                self.lost[request] = self.owed.pop(request).index

    def _resume(self, entry: Entry, amount: Fraction) -> None:
        for item in self.restored():
            for learner, own in item.by_learner.items():
                self._spend(learner, own, ZERO)
        self._spend(entry.learner, parse_amount(entry.own), amount)
        self.acknowledged += self.suspects
        self.suspects, self.halted = [], False

    def _owe(self, entry: Entry, amount: Fraction) -> None:
        charged = entry.kind is EntryKind.CHARGE
        self.owed[entry.request] = Owed(entry.index, _key(entry), entry.sequence, amount, charged)

    def _set_aside(self, learner: bytes, amount: Fraction) -> None:
        self.reserved[learner] = self.reserved.get(learner, ZERO) + amount

    def _spend(self, learner: bytes, own: Fraction, total: Fraction) -> None:
        if learner != NOBODY:
            self.spent[learner] = self.spent.get(learner, ZERO) + own
            self.history.setdefault(learner, []).append((self.next_index, self.spent[learner]))
        self.total_spent += total


def _key(entry: Entry) -> StudyKey:
    return StudyKey(entry.learner, entry.study)


def _step(state: State, entry: Entry) -> State:
    for event in EVENTS[entry.kind]:
        state = advance(state, event)
    return state


def _complaint_of_step(state: State, entry: Entry) -> str:
    try:
        _step(state, entry)
    except LocalProtocolError as error:
        return str(error)
    return ""
