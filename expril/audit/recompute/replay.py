"""A ledger replayed from its bytes alone, by the rules of docs/steward/ledger.md and `protocol.ledger.entries`.

This is the auditor's own code: none of the curator that kept the ledger runs here. An entry that breaks a rule is
reported; it is counted if it still says what was spent. The replay ends at an entry that does not belong to the chain,
as nothing is known of the history after it.

A HALT entry names a lost entry by a *position*: the entry's hash, the total up to it, and the first bytes of the hashes
of older entries (those 1, 2, 4, ... before it, and those just before it). It also holds the first bytes of all lost
entries' hashes, if the process that halted had kept them. The lost *branch* that ends with this entry shares the
ledger's entries up to a last common one. The ledger does not show what the branch spent after that. A charge that was
open at the common entry may have been answered on both. Two positions belong to one branch only if a hash proves it.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain as joined
from operator import itemgetter

from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.effects import Charges, Effect, Effects, Hashes
from expril.audit.recompute.entries import (
    ASKED,
    ENDED,
    OPEN,
    ZERO,
    Findings,
    Purses,
    ReadEntry,
    ReadLostEntry,
    ReadStatefulEntry,
    Remarks,
    Running,
    Study,
    Tally,
    amount_of,
    as_text,
    price_of,
    read_entry,
)
from protocol.errors import printable
from protocol.ledger.entries import (
    DATA_VERSION,
    GENESIS,
    STATE_SEAL_BYTES,
    STUB,
    EntryKind,
    LedgerCorruptError,
    Suspect,
    entry_hash,
    read_terms,
)
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY
from protocol.plug_ins import are_plug_ins
from protocol.rationals import GRID, parse_amount, plus, shorten, total_of


@dataclass(frozen=True)
class BranchTrace:
    """The content of a HALT entry."""

    suspect: Suspect  # the position, and whose receipt shows it
    stubs: bytes = b""  # first bytes of the hashes of the branch's entries up to the position, one after the other
    spent: Mapping[bytes, Fraction] = field(default_factory=dict)  # by key
    receipt: bytes = NO_DIGEST  # digest of the receipt; zero for a mark

    @classmethod
    def of(cls, entry: ReadEntry, suspect: Suspect) -> "BranchTrace":
        """Return the trace of a HALT entry with this suspect."""
        if not isinstance(entry, ReadLostEntry):
            return cls(suspect)
        return cls(suspect, entry.lost_stubs, {key: amount_of(spent) for key, spent in entry.spent}, entry.receipt)

    @property
    def index(self) -> int:
        """The index of the entry that the position names; -1 if there is no position."""
        return -1 if self.suspect.position is None else self.suspect.position.index

    def lost_stubs(self) -> list[bytes]:
        """The first bytes of the lost entries' hashes, according to the HALT entry."""
        position = self.suspect.position
        last = [] if position is None else [position.head[:STUB]]
        return [self.stubs[at : at + STUB] for at in range(0, len(self.stubs), STUB)] or last

    def spent_by(self, keys: Collection[bytes]) -> Fraction:
        """Return what the learner with these keys had spent according to the HALT entry; 0 if it does not say."""
        if self.suspect.learner in keys:
            return parse_amount(self.suspect.spent)
        return total_of(self.spent.get(key, ZERO) for key in keys)

    @cached_property
    def hashes(self) -> dict[int, bytes]:
        """The first bytes of each known hash of the branch's entries, by index."""
        position = self.suspect.position
        if position is None:
            return {}
        stubs = {position.index - 2**power: stub for power, stub in enumerate(position.ancestors)}
        stubs.update(position.named)
        stubs[position.index] = position.head[:STUB]
        count = len(self.stubs) // STUB
        stubs.update((self.index - count + 1 + at, self.stubs[STUB * at :][:STUB]) for at in range(count))
        return stubs


@dataclass(frozen=True)
class Chain:
    """The ledger before a RESUME."""

    hashes: Sequence[bytes]  # of its entries
    totals: Running  # spent over all learners after each
    purses: Purses  # what each learner spent
    requests: Mapping[bytes, Effect]  # by digest
    stops: Sequence[int]  # indices of its HALT entries that say that entries may be lost


@dataclass(frozen=True)
class LostSpending:
    """The spending of a lost branch, as one suspect proves it."""

    total: Fraction  # over all learners
    by_key: Mapping[bytes, Fraction]  # by learner's key, as far as it is known


@dataclass
class Branch:
    """One lost branch, with all that HALT entries say of it."""

    traces: list[BranchTrace] = field(default_factory=list)  # all that is proven to be of it
    shared: int = -1  # newest entry that is proven to be on both; -1 where none is
    total: Fraction = ZERO  # entered as spent for it, over all learners
    by_key: defaultdict[bytes, Fraction] = field(default_factory=lambda: defaultdict(Fraction))


def lost_spending(chain: Chain, suspects: Sequence[BranchTrace], branches: list[Branch]) -> list[LostSpending]:
    """Return, for each suspect, epsilon that its branch charged beyond this ledger and earlier suspects.

    A suspect without a position proves nothing. `branches` are those of earlier halts; the suspects are added to them.
    """
    spendings = []
    for trace in sorted(suspects, key=lambda candidate: candidate.index):
        if trace.index < 0:
            continue
        branch = next((candidate for candidate in branches if _continues(chain, trace, candidate)), None)
        if branch is None:
            branches.append(branch := Branch())
        branch.traces.append(trace)
        branch.shared = max(branch.shared, last_shared(trace, chain))
        spendings.append(_enter(chain, trace, branch))
    return spendings


def last_shared(trace: BranchTrace, chain: Chain) -> int:
    """Return the index of the newest entry that is proven to be on both the branch and the ledger; -1 if none is."""
    length = len(chain.hashes)
    if _is_on_chain(chain, trace):
        return trace.index
    same = [at for at, stub in trace.hashes.items() if 0 <= at < length and chain.hashes[at][:STUB] == stub]
    return max(same, default=-1)


def running_at(chain: Chain, index: int) -> Iterator[tuple[bytes, Fraction]]:
    """Return (learner's key, amount) of every charge that was open after an entry.

    A charge is open until its query is answered. If the query's kind keeps a state, it is open until the answer after
    which no state is kept. The charge for a query ends all charges for earlier queries. The end of a study ends all its
    charges, except for a query that then waits for its answer. A halt for lost entries ends every charge.
    """
    events: defaultdict[int, list[tuple[int, str, Effect | None]]] = defaultdict(list)
    charged = [
        effect for effect in chain.requests.values() if effect.kind is EntryKind.CHARGE and effect.index <= index
    ]
    # Where all was answered and nothing ever kept, nothing runs
    studies = {
        id(effect.study): effect.study
        for effect in charged
        if not 0 <= effect.answered <= index or effect.state_size is not None
    }
    for effect in charged:
        if id(effect.study) in studies:
            events[id(effect.study)].append((effect.index, "charged", effect))
            if 0 <= effect.answered <= index:
                events[id(effect.study)].append((effect.answered, "answered", effect))
    for name, study in studies.items():
        ends = [(study.ended, "ended", None)] if study.state == ENDED and study.ended <= index else []
        stops = [(stop, "stopped", None) for stop in chain.stops if stop <= index]
        in_order = sorted(joined(events[name], ends, stops), key=lambda event: event[0])
        yield from ((study.learner, amount) for amount in _still_running(study, in_order))


def _still_running(study: Study, events: Sequence[tuple[int, str, Effect | None]]) -> list[Fraction]:
    """Return the charges of a study that are open after these events."""
    running: list[tuple[int, Fraction]] = []
    state_sizes: dict[str, int] = {}
    open_query, over = -1, False
    for _, event, effect in events:
        if effect is None:
            over = over or event == "ended"
            running = [charge for charge in running if event == "ended" and charge[0] == open_query]
            continue
        query = study.shape.places[effect.sequence - 1][0]
        if event == "charged":
            open_query = query
            running = [charge for charge in running if charge[0] >= query]
            running += [(query, effect.amount)] if effect.amount else []
            continue
        open_query, kind = -1, study.shape.kinds[query]
        if effect.state_size is not None:
            state_sizes[kind] = effect.state_size
        if over or state_sizes.get(kind, 0) <= STATE_SEAL_BYTES:
            running = [charge for charge in running if charge[0] > query]
    return [amount for _, amount in running]


def _continues(chain: Chain, trace: BranchTrace, branch: Branch) -> bool:
    """Whether a hash proves that a trace belongs to a branch: it follows the branch's newest trace, or precedes one."""
    newest = max(reversed(branch.traces), key=lambda other: other.index)
    here = last_shared(trace, chain)
    for other in branch.traces:
        same = other.suspect.request == trace.suspect.request != NO_DIGEST
        if same and NO_DIGEST not in (other.receipt, trace.receipt) and other.receipt != trace.receipt:
            return False  # one request, two answers
    for other in (trace, *branch.traces):
        effect = chain.requests.get(other.suspect.request)
        if effect is None or other.receipt == NO_DIGEST or not _is_on_chain(chain, other):
            continue
        if 0 <= effect.answered <= max(here, branch.shared):
            return False  # both share another answer to this request
    before = _is_on_chain(chain, trace) and trace.index <= branch.shared
    after = _is_on_chain(chain, newest) and newest.index <= here
    return before or after or _names(trace, newest) or any(_names(other, trace) for other in branch.traces)


def _is_on_chain(chain: Chain, trace: BranchTrace) -> bool:
    position = trace.suspect.position
    return position is not None and chain.hashes[position.index : position.index + 1] == [position.head]


def _names(trace: BranchTrace, other: BranchTrace) -> bool:
    position = other.suspect.position
    return position is not None and trace.hashes.get(position.index) == position.head[:STUB]


def _enter(chain: Chain, trace: BranchTrace, branch: Branch) -> LostSpending:
    again: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for learner, amount in running_at(chain, branch.shared):
        again[learner] = plus(again[learner], amount)
    spent = max(ZERO, max(map(_total, branch.traces)) - chain.totals.at(branch.shared))
    total = shorten(max(ZERO, spent + total_of(again.values()) - branch.total), longest=GRID)
    branch.total += total
    shares = {}
    for learner in _learners(chain, [trace.suspect.learner, *trace.spent, *again]):
        keys = chain.purses.keys_of(learner)
        spent_there = max(other.spent_by(keys) for other in branch.traces)
        spent_beyond = spent_there - chain.purses.by_learner(learner, branch.shared)
        ran, entered = (total_of(sums[key] for key in keys) for sums in (again, branch.by_key))
        shares[learner] = shorten(max(ZERO, max(ZERO, spent_beyond) + ran - entered), longest=GRID)
        branch.by_key[learner] += shares[learner]
    return LostSpending(total, shares)


def _total(trace: BranchTrace) -> Fraction:
    return ZERO if trace.suspect.position is None else parse_amount(trace.suspect.position.total)


def _learners(chain: Chain, named: Iterable[bytes]) -> Iterator[bytes]:
    """Return one key of each learner whose keys are among these."""
    keys_met: set[bytes] = set()
    for key in named:
        if key not in {NOBODY, *keys_met}:
            keys_met.update(chain.purses.keys_of(key))
            yield key


MOST_NAME = 200
"""Most letters of an enrolled learner's name."""
Key = tuple[bytes, bytes]
Cell = tuple[bytes, str]
"""(learner's key, name of the records)."""


class Replayed:
    """The state of a ledger after all entries so far; `feed` takes the next one.

    `bounds`: the contribution bounds c that cards state or costs imply.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.findings = Findings()  # what is wrong, by place
        self.broken = ""  # why the chain ended before the file did; "" where it did not
        self.head = GENESIS
        self._count = 0
        self.hashes = Hashes()  # of every entry
        self.totals = Running()  # spent over all learners, by entry; `total` in all
        self._total = Tally()
        self.keys: list[tuple[int, bytes]] = []  # (index, public key): from that entry on, this key signs
        self.starts: list[int] = []  # starts, handovers: indices of START and HANDOVER entries
        self.handovers: list[int] = []
        self.marked = -1  # index of the newest of both; -1 where there is none
        self.terms = ""  # what the charges mean; "" before the first START
        self.unexplained = -1  # index of the first RESERVE entry before any terms; -1 where there is none
        self.data: list[tuple[int, str]] = []  # (index, name) of the snapshots of records that were served
        self.plug_ins: list[tuple[int, str]] = []  # (index, `written_plug_ins`) of the packages of others in use
        self.studies: dict[Key, Study] = {}  # by learner's key and identity
        self.requests = Effects()  # what each request made that took effect
        self.purses = Purses()  # what each learner spent
        # what each key was charged, by the records served then
        self.cells: defaultdict[Cell, Tally] = defaultdict(Tally)
        # by cell, what the queries that were charged cost under integral privacy
        self.integrals: defaultdict[Cell, Tally] = defaultdict(Tally)
        self.under: defaultdict[Cell, Fraction] = defaultdict(Fraction)  # what was charged less than it costs, by cell
        # by cell, what was charged on a condition, by that condition
        self.provisos: defaultdict[Cell, dict[str, Fraction]] = defaultdict(dict)
        self.remarks = Remarks(bounds.kinds)  # what the notes of charges say
        # epsilon that stewards added by RESUME entries, by learner's key; `NOBODY`: over all
        self.restored: dict[bytes, Fraction] = {}
        self.resumes: list[ReadEntry] = []  # entries that entered it
        self.halted = False  # whether the curator has stopped
        self.stops: list[int] = []  # indices of the HALT entries that say that entries may be lost
        self.suspects: list[BranchTrace] = []  # why it halted, as far as its steward has not gone on since
        self.branches: list[Branch] = []  # what was lost before that, each as far as it is known
        # all of it, each with the index of the RESUME entry that restored what it proves
        self.admitted: list[tuple[BranchTrace, int]] = []
        self._owed: dict[bytes, int] = {}  # numbers of requests, by digest
        self._owed_charges: dict[bytes, int] = {}
        self._signers: set[bytes] = set()
        self._decisions: dict[bytes, ReadEntry] = {}
        self._read_under: dict[bytes, tuple[str, str, str]] = {}
        self._version = ""
        self._rules: dict[EntryKind, Callable[[ReadEntry], str]] = {
            EntryKind.OPEN: self._open,
            EntryKind.START: self._start,
            EntryKind.RESERVE: self._reserve,
            EntryKind.CHARGE: self._charge,
            EntryKind.ANSWERED: self._answered,
            EntryKind.CLOSE: self._end,
            EntryKind.EXPIRE: self._end,
            EntryKind.EVICT: self._evict,
            EntryKind.HALT: self._halt,
            EntryKind.RESUME: self._resume,
            EntryKind.ENROL: self._enrol,
            EntryKind.HANDOVER: self._handover,
            EntryKind.APPROVE: self._decide,
            EntryKind.DECLINE: self._decide,
            EntryKind.DATA: self._serve,
            EntryKind.PLUG_INS: self._use_plug_ins,
        }

    def __len__(self) -> int:
        """Number of entries that belong to the chain."""
        return self._count

    @property
    def curator(self) -> bytes:
        """The key that signs the next entry; empty before the first entry."""
        return self.keys[-1][1] if self.keys else b""

    @property
    def label(self) -> str:
        """The label under which receipts are signed, as the terms name it; "" if they name none."""
        read = read_terms(self.terms)
        return read[1] if read else ""

    @property
    def unit(self) -> str:
        """The privacy unit, in the words of the terms; "" if they name none."""
        if read_terms(self.terms) is None:
            return ""
        return self.terms.rpartition("; signatures: ")[0].removeprefix("privacy unit: ")

    @property
    def total(self) -> Fraction:
        """The amount spent over all learners."""
        return self._total.total or ZERO

    @property
    def charges(self) -> Charges:
        """All charges, in order."""
        return self.requests.charges

    def signer_of(self, index: int) -> bytes:
        """Return the public key that signs an entry; empty if no entry names one."""
        place = bisect_right(self.keys, index, key=itemgetter(0))
        return self.keys[place - 1][1] if place else b""

    def feed(self, body: bytes) -> bool:
        """Take the next entry; return whether it belongs to the chain. A broken rule is only a finding."""
        place = self._count
        try:
            entry = read_entry(body)
        except LedgerCorruptError:
            self.broken = f"ledger entry {place} cannot be read: it was changed"
            return False
        if entry.index != place:
            self.broken = _misplaced(place, entry.index)
            return False
        if entry.previous != self.head:
            self.broken = f"ledger entry {place} does not follow the one before it"
            return False
        if (entry.kind is EntryKind.OPEN) != (place == 0):
            complaint = "opens a ledger that is open" if place else "is no opening"
        else:
            complaint = self._rules[entry.kind](entry)
        if isinstance(entry, ReadStatefulEntry) and entry.kind is not EntryKind.ANSWERED:
            complaint = complaint or "keeps a state where no query is answered"
        if complaint:
            self.findings.add(place, f"ledger entry {place} ({entry.kind}) {complaint}")
        self.head = entry_hash(body)
        self.hashes.append(self.head)
        self._count += 1
        return True

    def _open(self, entry: ReadEntry) -> str:
        self.keys.append((0, entry.learner))
        self._signers.add(entry.learner)
        self.bounds.know(entry.learner)
        return ""

    def _start(self, entry: ReadEntry) -> str:
        changed = self.terms not in ("", entry.note)
        self.terms = self.terms or entry.note
        self.starts.append(entry.index)
        self.marked = entry.index
        return "starts under other terms than the ledger's" if changed else ""

    def _serve(self, entry: ReadEntry) -> str:
        if not DATA_VERSION.fullmatch(entry.note):
            return "names no records"
        self._version = entry.note
        self.data.append((entry.index, entry.note))
        return ""

    def _use_plug_ins(self, entry: ReadEntry) -> str:
        if not are_plug_ins(entry.note):
            return "names no plug-ins"
        self.plug_ins.append((entry.index, entry.note))
        return ""

    @property
    def _under(self) -> tuple[str, str, str]:
        """The terms, records and plug-ins that a steward's decision is on."""
        return self.terms, self._version, self.plug_ins[-1][1] if self.plug_ins else ""

    def _reserve(self, entry: ReadEntry) -> str:
        key, plan = (entry.learner, entry.study), entry.plan
        if entry.study == NO_STUDY or key in self.studies or plan is None:
            return "reserves a study that is known, or none, or without a plan"
        if entry.learner == NOBODY:
            return "reserves for nobody"
        if entry.request in self.requests:
            return "repeats a request that took effect before"
        if not self.terms and self.unexplained < 0:
            self.unexplained = entry.index
        price = price_of(entry.costs)
        amount = amount_of(entry.amount)
        if len(price.costs) != len(plan.queries):
            return "reserves for another number of queries than it has"
        shape = self.bounds.shape(plan)
        study = Study(*key, entry.index, shape, price, entry.expires_at, (self._version,), entry.request)
        self.studies[key] = study
        self._take_effect(entry, study, amount)
        if amount != price.total:
            return f"reserves {as_text(amount)}, and its queries cost {as_text(price.total)}"
        complaint = self.bounds.learn(study)
        decision = self._decisions.get(entry.request)
        if decision is not None and decision.kind is EntryKind.DECLINE:
            return "accepts a plan that its steward declined"
        if decision is not None and amount != amount_of(decision.amount):
            return f"reserves {as_text(amount)}, and its steward approved {as_text(amount_of(decision.amount))}"
        if decision is not None and self._read_under[entry.request] != self._under:
            return "accepts on other terms or other records a plan that its steward approved before"
        if decision is not None and entry.at >= decision.expires_at:
            return "accepts a plan whose approval had ended, unless its steward needs to approve none by now"
        return "reserves while the curator is halted" if self.halted else complaint

    def _charge(self, entry: ReadEntry) -> str:
        study = self.studies.get((entry.learner, entry.study))
        if study is None:
            return "charges a study that was never reserved"
        amount, shape = amount_of(entry.amount), study.shape
        if not 1 <= entry.sequence <= len(shape.places):
            return "charges a query that is not in the plan"
        query, turn = shape.places[entry.sequence - 1]
        due = self.remarks.due(study, query, turn)
        complaint = self._complaint_of_charge(entry, study, query, amount, due) or self.remarks.take(
            entry, study, self._signers
        )
        if entry.request in self.requests.numbers:
            return complaint or "repeats a request that took effect before"
        study.state = ENDED if study.state == ENDED else ASKED
        if study.versions[-1] != self._version:
            study.versions = (*(study.versions if study.sequence else ()), self._version)
        study.sequence, study.last = entry.sequence, entry.request
        study.charge(query, turn, amount)
        cell = entry.learner, self._version
        self.cells[cell].add(amount)
        self._total.add(amount)
        self.totals.add(entry.index, amount)
        self.purses.spend(entry.learner, amount, entry.index)
        if (amount or due) and study.begin(query):
            self.integrals[cell].add(shape.integrals[query])
        if amount and (proviso := shape.provisos[query]):
            under = self.provisos[cell]
            under[proviso] = plus(under.get(proviso, ZERO), amount)
        number = self._take_effect(entry, study, amount)
        if due is not None and due is not amount and due != amount:
            self.requests.is_due(number, due)
        return complaint

    def _complaint_of_charge(
        self, entry: ReadEntry, study: Study, query: int, amount: Fraction, due: Fraction | None
    ) -> str:
        reserved = study.left_for(query)
        if amount is not reserved and amount > reserved:
            return f"charges {as_text(amount)} for a query for which {as_text(reserved)} was reserved"
        if due is not None and amount is not due and amount != due:
            cell = entry.learner, self._version
            self.under[cell] = plus(self.under[cell], due - amount)
            how = "under" if due > amount else "over"
            return (
                f"charges {as_text(amount)} for query {entry.sequence}, which costs {as_text(due)}: {how}charged by "
                f"{as_text(abs(due - amount))}"
            )
        if study.state != OPEN:
            how = "that has ended" if study.state == ENDED else "that waits for an answer"
            return f"charges a study {how}"
        if entry.sequence != study.sequence + 1:
            return f"charges query {entry.sequence} out of order: {study.sequence + 1} is next"
        return "charges while the curator is halted" if self.halted else ""

    def _answered(self, entry: ReadEntry) -> str:
        number = self._owed.get(entry.request)
        study = None if number is None else self.requests.studies[number]
        if number is None or study is None or study.learner != entry.learner or study.study != entry.study:
            return "answers what was not asked, or was answered before"
        if self.requests.sequences[number] != entry.sequence:
            return "answers under another sequence than was asked"
        del self._owed[entry.request]
        self._owed_charges.pop(entry.request, None)
        state_size = entry.state_size if isinstance(entry, ReadStatefulEntry) else None
        self.requests.answer(number, entry.index, entry.reply, state_size)
        charged = self.requests.is_charge(number)
        complaint = self.remarks.hear(entry, study, charged=charged)
        study.stored.append(number)
        if study.state == ASKED and study.last == entry.request:
            study.state = OPEN
        if not isinstance(entry, ReadStatefulEntry):
            return complaint
        if not charged:
            return "keeps a state where no query is answered"
        kind = study.shape.kinds[study.shape.places[entry.sequence - 1][0]]
        study.states[kind] = (entry.index, entry.state)
        return complaint

    def _end(self, entry: ReadEntry) -> str:
        study = self.studies.get((entry.learner, entry.study))
        if study is None:
            return "ends a study that was never reserved"
        if study.state == ENDED:
            return "ends a study that has ended"
        amount, remaining = amount_of(entry.amount), study.remaining
        complaint = "" if amount == remaining else f"refunds {as_text(amount)}, and {as_text(remaining)} is left"
        if entry.kind is EntryKind.EXPIRE:
            early = entry.at < study.expires_at
            complaint = complaint or ("expires before its time" if early else "")
        elif entry.request in self.requests:
            complaint = complaint or "repeats a request that took effect before"
        else:
            study.sequence, study.last = entry.sequence, entry.request
            self._take_effect(entry, study, amount)
        study.state, study.ended = ENDED, entry.index
        return complaint

    def _evict(self, entry: ReadEntry) -> str:
        study = self.studies.get((entry.learner, entry.study))
        if study is None or study.state != ENDED or not study.stored:
            return "evicts replies that are not kept, or still needed"
        for number in study.stored:
            self.requests.evict(number)
        study.stored, study.states = array("I"), {}
        return ""

    def _halt(self, entry: ReadEntry) -> str:
        self.halted = True
        if entry.suspect is not None:
            self.suspects.append(BranchTrace.of(entry, entry.suspect))
            self.stops.append(entry.index)
            for request in self._owed_charges:
                self.requests.lose(self._owed.pop(request))
            self._owed_charges = {}
        return ""

    def _resume(self, entry: ReadEntry) -> str:
        amount, share_of_learner = amount_of(entry.amount), amount_of(entry.learner_amount)
        chain = Chain(self.hashes, self.totals, self.purses, self.requests, self.stops)
        spendings = lost_spending(chain, self.suspects, self.branches)
        least = total_of(item.total for item in spendings)
        shares = [(key, share) for item in spendings for key, share in item.by_key.items()]
        shares.append((entry.learner, share_of_learner))
        for key, share in shares:
            self.purses.spend(key, share, entry.index)
            self.restored[key] = plus(self.restored.get(key, ZERO), share if key != NOBODY else ZERO)
        self.restored[NOBODY] = plus(self.restored.get(NOBODY, ZERO), amount)
        self.totals.add(entry.index, amount)
        self._total.add(amount)
        was, self.halted = self.halted, False
        self.admitted += [(trace, entry.index) for trace in self.suspects]
        self.suspects = []
        self.resumes.append(entry)
        if amount < plus(least, share_of_learner):
            beside = f"; {as_text(share_of_learner)} more is a learner's" if share_of_learner else ""
            return f"restores {as_text(amount)}, and the positions prove that {as_text(least)} was lost{beside}"
        return "" if was else "resumes what was not halted"

    def _enrol(self, entry: ReadEntry) -> str:
        if entry.learner == NOBODY or not 0 < len(entry.note) <= MOST_NAME:
            return "binds no key, or to no name"
        if entry.learner in self.purses.bound:
            name = printable(self.purses.bound[entry.learner][1])
            return f"binds a key that is bound to {name}: its spending would leave that learner's budget"
        self.purses.bound[entry.learner] = (entry.index, entry.note)
        self.purses.keys.setdefault(entry.note, []).append(entry.learner)
        return ""

    def _handover(self, entry: ReadEntry) -> str:
        self.handovers.append(entry.index)
        self.marked = entry.index
        had_it = entry.learner == NOBODY or entry.learner in self._signers
        self.keys.append((entry.index + 1, entry.learner))
        self._signers.add(entry.learner)
        self.bounds.know(entry.learner)
        return "hands over to a key that had the ledger before, or to none" if had_it else ""

    def _decide(self, entry: ReadEntry) -> str:
        before = self._decisions.get(entry.request)
        if entry.request == NO_DIGEST or entry.request in self.requests:
            return "decides on no proposal, or on one that was accepted"
        under = self._read_under.get(entry.request)
        self._decisions[entry.request], self._read_under[entry.request] = entry, self._under
        if before is None:
            return ""
        differs = under != self._under or amount_of(entry.amount) != amount_of(before.amount)
        open_again = entry.kind is EntryKind.DECLINE or entry.at >= before.expires_at or differs
        return "" if before.kind is EntryKind.APPROVE and open_again else "decides again on what was decided"

    def _take_effect(self, entry: ReadEntry, study: Study, amount: Fraction) -> int:
        number = self.requests.add(entry.request, entry.index, entry.kind, study, entry.sequence, amount)
        self._owed[entry.request] = number
        if entry.kind is EntryKind.CHARGE:
            self._owed_charges[entry.request] = number
        return number


def _misplaced(place: int, index: int) -> str:
    if index > place:
        which = f"entry {place} is" if index == place + 1 else f"entries {place} to {index - 1} are"
        return f"ledger {which} missing: entry {index} stands in this place"
    return f"ledger entry {place} is missing: entry {index} stands in its place, a second time or out of order"
