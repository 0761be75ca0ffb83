"""The account: the sum of a ledger's entries. Nothing is stored here."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from operator import itemgetter
from typing import cast

from curator_node.ledger.branches import BranchTrace, position_at
from curator_node.ledger.lost_spending import Trail, is_known, lost_spending
from curator_node.ledger.studies import (
    ZERO,
    Answer,
    Decision,
    KeptState,
    LostSpending,
    Owed,
    StudyAccount,
    StudyKey,
    complaint_of_step,
    state_key,
    step,
)
from protocol.ledger.entries import (
    DATA_VERSION,
    GENESIS,
    STATE_SEAL_BYTES,
    Entry,
    EntryKind,
    LedgerCorruptError,
    Position,
    StatefulEntry,
    entry_hash,
)
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY
from protocol.plans import Plan
from protocol.plug_ins import are_plug_ins
from protocol.rationals import GRID, amount, parse_amount, plus, shorten, total_of
from protocol.transitions import Event, State, advance


@dataclass
class Account(Trail):
    """The sum of all entries so far. `Learners` has the sums by learner, and `Trail` the facts on lost branches."""

    head: bytes = GENESIS  # hash of the last entry
    # (index, public key) of whose ledger it is: from that entry on, this key signs
    curators: list[tuple[int, bytes]] = field(default_factory=list)
    signers: set[bytes] = field(default_factory=set)  # these keys
    terms: str = ""  # what the charges mean; empty before the first START
    total_spent: Fraction = ZERO  # over all learners
    studies: dict[StudyKey, StudyAccount] = field(default_factory=dict)  # by learner and identity
    spent_texts: dict[bytes, str] = field(default_factory=dict)  # by key, `spent` where it is not 0, as marks hold it
    # a heap: when reservations end, of all open studies, and of some that have ended: equal accounts may differ here
    ends: list[tuple[int, StudyKey]] = field(default_factory=list, compare=False)
    decisions: dict[bytes, Decision] = field(default_factory=dict)  # request digest of a proposal -> its steward's word
    owed: dict[bytes, Owed] = field(default_factory=dict)  # request digest -> what has no reply yet
    # index of the charge, by digest, of requests that may have been answered on a lost branch: they are never answered
    lost_requests: dict[bytes, int] = field(default_factory=dict)
    evicted: set[bytes] = field(default_factory=set)  # digests of answered requests whose replies were dropped
    # digests of answered requests whose replies are stored, by study; the study that ended first comes first
    stored_requests: dict[StudyKey, list[bytes]] = field(default_factory=dict)
    # (study, kind) -> what its answerer keeps
    states: dict[tuple[StudyKey, str], KeptState] = field(default_factory=dict)
    kept_bytes: int = 0  # of all replies and states kept
    halted: bool = False  # whether the curator has stopped
    # (index, name) of the snapshots of records that were served, in order
    data: list[tuple[int, str]] = field(default_factory=list)
    # (index, `written_plug_ins`) of the packages of others that were in use, in order; empty: never any
    plug_ins: list[tuple[int, str]] = field(default_factory=list)

    @property
    def next_index(self) -> int:
        """Index of the entry to come."""
        return len(self.hashes)

    @property
    def curator(self) -> bytes:
        """The public key that signs the next entry; empty before the first."""
        return self.curators[-1][1] if self.curators else b""

    @property
    def taken_over(self) -> bool:
        """Whether the newest key has signed an entry since the chain was handed to it."""
        return bool(self.curators) and self.curators[-1][0] < self.next_index

    def signer_of(self, index: int) -> bytes:
        """The public key that signs an entry."""
        place = bisect_right(self.curators, index, key=itemgetter(0))
        return self.curators[place - 1][1] if place else self.curator

    @property
    def total_reserved(self) -> Fraction:
        """Epsilon set aside over all learners."""
        return sum(self.reserved.values(), ZERO)

    @property
    def under(self) -> tuple[str, str, str]:
        """The terms, the name of the served records and the plug-ins ("" for none), to which a decision refers."""
        return self.terms, self.data[-1][1] if self.data else "", self.plug_ins[-1][1] if self.plug_ins else ""

    def remaining(self, learner: bytes, cap: Fraction, total_cap: Fraction, name: str = "") -> Fraction:
        """Epsilon that a learner may still reserve: the rest of its own cap, or of the total cap if that is less.

        Reservations of other learners do not count: an unused reservation must not starve anybody. A key that is not
        bound yet is taken as one of `name`.
        """
        own_left = cap - self.spent_by(learner, name) - self.reserved_by(learner, name)
        return max(ZERO, min(own_left, total_cap - self.total_spent))

    def position(self, index: int) -> Position:
        """The position of an entry."""
        return position_at(index, self.hashes, self.totals)

    def knows(self, trace: BranchTrace) -> bool:
        """Whether a trace of a lost branch proves nothing new; see `is_known`."""
        return is_known(self, trace)

    def took_effect(self, request: bytes) -> bool:
        """Whether a request was accepted: it is owed a reply, has one, or may have had one on a lost branch."""
        return request in self.owed or request in self.answers or request in self.lost_requests

    def stored(self, key: StudyKey) -> list[bytes]:
        """The keys under which a study's replies and states are stored."""
        return self.stored_requests[key] + [state_key(*place) for place in self.states if place[0] == key]

    def overdue(self, now: int) -> list[StudyKey]:
        """The open studies whose reservations have ended, the earliest first. None is looked at that ends later."""
        while self.ends and self.studies[self.ends[0][1]].ended:
            heappop(self.ends)
        if not self.ends or self.ends[0][0] > now:
            return []
        return [key for end, key in sorted(self.ends) if end <= now and not self.studies[key].ended]

    def lost_spending(self) -> list[LostSpending]:
        """For each suspected branch, in order: the spending that neither this chain nor an earlier suspect shows."""
        return lost_spending(self)[0]

    def check(self, entry: Entry, place: tuple[int, bytes] | None = None) -> None:
        """Check that an entry may be the next one. Nothing is changed.

        `place`: the entry's index and the head before it, if entries that do not bear on it come first.

        Raises:
            LedgerCorruptError: the entry is not the next one, or breaks a rule of the ledger.
        """
        if (entry.index, entry.previous) != (place or (self.next_index, self.head)):
            raise LedgerCorruptError(f"ledger entry {entry.index} does not follow the one before it")
        if complaint := self._complaint_of_state(entry) or self._complaint(entry):
            raise LedgerCorruptError(f"ledger entry {entry.index} {complaint}")

    def apply(self, entry: Entry, body: bytes) -> None:
        """Check and add one entry.

        Raises:
            LedgerCorruptError: `check` raises it. Nothing is changed.
        """
        self.check(entry)
        self.add(entry, entry_hash(body))

    def add(self, entry: Entry, head: bytes) -> None:
        """Add a checked entry; `head`: its hash."""
        amount = parse_amount(entry.amount)
        match entry.kind:
            case EntryKind.OPEN:
                self._hand_to(entry.learner, entry.index)
            case EntryKind.START:
                self.terms = entry.note
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
            case EntryKind.ENROL:
                self.bind(entry.learner, entry.index, entry.note)
            case EntryKind.HANDOVER:
                self._hand_to(entry.learner, entry.index + 1)
            case EntryKind.APPROVE | EntryKind.DECLINE:
                approved = entry.kind is EntryKind.APPROVE
                word = (entry.index, entry.at, approved, entry.expires_at)
                self.decisions[entry.request] = Decision(*word, amount, self.under)
            case EntryKind.DATA | EntryKind.PLUG_INS:
                noted = self.data if entry.kind is EntryKind.DATA else self.plug_ins
                noted.append((entry.index, entry.note))
        self.head = head
        self.hashes.append(head)
        self.totals.append(self.total_spent)

    def _complaint(self, entry: Entry) -> str:
        """The fault of an entry at its place in the chain; "" if there is none."""
        amount = parse_amount(entry.amount)
        if (entry.kind is EntryKind.OPEN) != (entry.index == 0):
            return "opens a ledger twice, or comes before it is opened"
        match entry.kind:
            case EntryKind.START | EntryKind.DATA | EntryKind.PLUG_INS:
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
                fits = _key(entry) in self.stored_requests and self.studies[_key(entry)].ended
                return "" if fits else "evicts replies that are not kept, or still needed"
        return self._complaint_of_act(entry, amount)

    def _complaint_of_act(self, entry: Entry, amount: Fraction) -> str:
        """The fault of an entry that records a steward's act; "" if there is none."""
        match entry.kind:
            case EntryKind.RESUME:
                if not self.halted:
                    return "resumes what was not halted"
                # An older program entered what its own rules said
                by_rule = all(trace.proven for trace in self.suspects)
                lost = total_of(item.total for item in self.lost_spending()) if by_rule else ZERO
                least = plus(parse_amount(entry.learner_amount), lost)
                return "restores less than was lost" if amount < least else ""
            case EntryKind.ENROL:
                return self.complaint_of_name(entry.learner, entry.note)
            case EntryKind.HANDOVER:
                had_it = entry.learner == NOBODY or entry.learner in self.signers
                return "hands over to a key that had the ledger before, or to none" if had_it else ""
            case EntryKind.APPROVE | EntryKind.DECLINE:
                return self._complaint_of_decision(entry)
        return ""

    def _hand_to(self, key: bytes, index: int) -> None:
        self.curators.append((index, key))
        self.signers.add(key)

    def _complaint_of_state(self, entry: Entry) -> str:
        owed = self.owed.get(entry.request)
        answers_a_query = entry.kind is EntryKind.ANSWERED and owed is not None and owed.charged
        stateless = not isinstance(entry, StatefulEntry)
        return "" if stateless or answers_a_query else "keeps a state where no query is answered"

    def _complaint_of_note(self, entry: Entry) -> str:
        if entry.kind is EntryKind.DATA:
            return "" if DATA_VERSION.fullmatch(entry.note) else "names no records"
        if entry.kind is EntryKind.PLUG_INS:
            return "" if are_plug_ins(entry.note) else "names no plug-ins"
        return "" if self.terms in ("", entry.note) else "starts under other terms"

    def _complaint_of_reserve(self, entry: Entry, amount: Fraction) -> str:
        costs = [parse_amount(cost) for cost in entry.costs]
        if entry.study == NO_STUDY or _key(entry) in self.studies or entry.plan is None:
            return "reserves a known study, or none, or without a plan"
        if entry.learner == NOBODY:
            return "reserves for nobody"
        if len(costs) != len(entry.plan.queries):
            return "reserves for another number of queries than it has"
        if sum(costs, ZERO) != amount:
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
        return complaint_of_step(study.state, entry) or self._complaint_of_request(entry)

    def _complaint_of_end(self, entry: Entry, amount: Fraction) -> str:
        study = self.studies.get(_key(entry))
        if study is None:
            return "names an unknown study"
        if amount != study.reserved:
            return "refunds another amount than is left"
        repeated = self._complaint_of_request(entry) if entry.kind is EntryKind.CLOSE else ""
        return complaint_of_step(study.state, entry) or repeated

    def _complaint_of_request(self, entry: Entry) -> str:
        if self.halted and entry.kind in (EntryKind.RESERVE, EntryKind.CHARGE):
            return "reserves or charges while the ledger is halted"
        return "repeats a request" if self.took_effect(entry.request) else ""

    def _complaint_of_decision(self, entry: Entry) -> str:
        before, cost = self.decisions.get(entry.request), parse_amount(entry.amount)
        repeats = before is not None and before.allows(entry.at) and before.covers(cost, self.under)
        if (repeats and entry.kind is EntryKind.APPROVE) or (before is not None and not before.approved):
            return "decides again on what was decided"
        return "decides on no proposal" if entry.request == NO_DIGEST else self._complaint_of_request(entry)

    def _reserve(self, entry: Entry, amount: Fraction) -> None:
        key = _key(entry)
        ordinal = self.studies_of(entry.learner)
        self.ordinals[entry.learner] = self.ordinals.get(entry.learner, 0) + 1
        plan = cast(Plan, entry.plan)
        costs = tuple(map(parse_amount, entry.costs))
        study = StudyAccount(key, ordinal, plan, costs, entry.expires_at, entry.request)
        study.state = step(State.NEW, entry)
        self.studies[key] = study
        self.open_by_learner.setdefault(entry.learner, set()).add(key)
        heappush(self.ends, (entry.expires_at, key))
        self._change_reserved(entry.learner, amount)
        self._owe(entry, amount)

    def _charge(self, entry: Entry, amount: Fraction) -> None:
        study = self.studies[_key(entry)]
        study.state = step(study.state, entry)
        study.spent += amount
        query = study.places[entry.sequence - 1][0]
        self.units.charge(study.key, query, amount, entry.index)
        study.spent_on[query] = study.spent_on[query] + amount if query in study.spent_on else amount
        study.sequence, study.last_request = entry.sequence, entry.request
        self._change_reserved(entry.learner, -amount)
        self._spend(entry.learner, amount, amount)
        self._owe(entry, amount)

    def _answered(self, entry: Entry) -> None:
        owed = self.owed.pop(entry.request)
        study = self.studies[owed.key]
        self.answers[entry.request] = Answer(entry.index, owed, entry.reply, entry.size)
        self.kept_bytes += entry.size
        self.stored_requests.setdefault(owed.key, []).append(entry.request)
        if isinstance(entry, StatefulEntry):
            place = (owed.key, study.kind_of(entry.sequence))
            self.kept_bytes += entry.state_size - (self.states[place].size if place in self.states else 0)
            self.states[place] = KeptState(entry.index, entry.state, entry.state_size)
        if owed.charged:
            state = self.states.get((owed.key, study.kind_of(entry.sequence)))
            goes_on = state is not None and state.size > STATE_SEAL_BYTES and not study.ended
            self.units.answer(owed.key, study.places[entry.sequence - 1][0], entry.index, goes_on=goes_on)
        if study.last_request == entry.request:
            study.last_reply = entry.reply
            if study.state is State.ASKED:
                study.state = advance(study.state, Event.RELEASE)

    def _end(self, entry: Entry, amount: Fraction) -> None:
        study = self.studies[_key(entry)]
        owed = self.owed.get(study.last_request)
        pending = study.places[owed.sequence - 1][0] if owed is not None and owed.charged else None
        self.units.end(study.key, entry.index, owed=pending)
        study.state = step(study.state, entry)
        if entry.kind is EntryKind.CLOSE:
            study.sequence, study.last_request = entry.sequence, entry.request
            self._owe(entry, amount)
        self.open_by_learner[entry.learner].discard(study.key)
        self._change_reserved(entry.learner, -amount)
        if study.key in self.stored_requests:
            self.stored_requests[study.key] = self.stored_requests.pop(study.key)

    def _evict(self, entry: Entry) -> None:
        for request in self.stored_requests.pop(_key(entry)):
            self.kept_bytes -= self.answers[request].size
            self.evicted.add(request)
        for place in [place for place in self.states if place[0] == _key(entry)]:
            self.kept_bytes -= self.states.pop(place).size

    def _halt(self, entry: Entry) -> None:
        self.halted = True
        if entry.suspect is not None:
            self.suspects.append(BranchTrace.of(entry, entry.suspect))
            self.units.halt(entry.index)
            for request in [request for request, owed in self.owed.items() if owed.charged]:
                self.lost_requests[request] = self.owed.pop(request).index
            self.states = {place: replace(state, usable=False) for place, state in self.states.items()}

    def _resume(self, entry: Entry, amount: Fraction) -> None:
        spendings, self.branches = lost_spending(self)
        for item in spendings:
            for learner, share in item.by_learner.items():
                self._spend(learner, share, ZERO)
        self._spend(entry.learner, parse_amount(entry.learner_amount), amount)
        self.acknowledged += self.suspects
        self.suspects, self.halted = [], False

    def _owe(self, entry: Entry, amount: Fraction) -> None:
        charged = entry.kind is EntryKind.CHARGE
        self.owed[entry.request] = Owed(entry.index, _key(entry), entry.sequence, amount, charged)

    def _change_reserved(self, learner: bytes, amount: Fraction) -> None:
        self.reserved[learner] = self.reserved.get(learner, ZERO) + amount

    def _spend(self, learner: bytes, share: Fraction, total: Fraction) -> None:
        if learner != NOBODY:
            self.spent[learner] = plus(self.spent.get(learner, ZERO), share)
            if self.spent[learner]:
                self.spent_texts[learner] = amount(shorten(self.spent[learner], longest=GRID))
            self.history.setdefault(learner, []).append((self.next_index, self.spent[learner]))
        self.total_spent = plus(self.total_spent, total)


def _key(entry: Entry) -> StudyKey:
    return StudyKey(entry.learner, entry.study)
