"""A ledger replayed from its bytes alone, by the rules of docs/steward/ledger.md and `protocol.ledger.entries`.

This is the auditor's own code: none of the curator that kept the ledger runs here. An entry that breaks a rule is
reported; it is counted if it still says what was spent. The replay ends at an entry that does not belong to the chain,
as nothing is known of the history after it.

Nearly all entries of a long ledger are charges as planned, each with its answer next to it. Those take a short way,
which changes nothing until it is certain that no rule is broken; all others are read and held to the rules one by one.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import itemgetter

from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.branches import Branch, BranchTrace, Chain, lost_spending
from expril.audit.recompute.effects import Charges, Effects, Hashes
from expril.audit.recompute.entries import (
    ASKED,
    ENDED,
    OPEN,
    ZERO,
    Findings,
    PlainEntry,
    Purses,
    ReadEntry,
    ReadStatefulEntry,
    Remarks,
    Running,
    Shape,
    Study,
    Tally,
    amount_of,
    as_text,
    encoded,
    plain_amount,
    price_of,
    read_entry,
    read_plain_entry,
)
from protocol.errors import printable
from protocol.ledger.entries import DATA_VERSION, GENESIS, EntryKind, LedgerCorruptError, entry_hash, read_terms
from protocol.messages import NO_DIGEST, NO_STUDY, NOBODY
from protocol.plug_ins import are_plug_ins
from protocol.rationals import plus, total_of

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
        self._totals = Running()  # `totals` and `purses`, up to a charge
        self._purses = Purses()
        self._summed = 0  # number of the first request whose charge is in neither
        self.keys: list[tuple[int, bytes]] = []  # (index, public key): from that entry on, this key signs
        self.starts: list[int] = []  # starts, handovers: indices of START and HANDOVER entries
        self.handovers: list[int] = []
        self.marked: list[int] = []  # indices of both, until somebody has taken note
        self.terms = ""  # what the charges mean; "" before the first START
        self.unexplained = -1  # index of the first RESERVE entry before any terms; -1 where there is none
        self.data: list[tuple[int, str]] = []  # (index, name) of the snapshots of records that were served
        self.plug_ins: list[tuple[int, str]] = []  # (index, `written_plug_ins`) of the packages of others in use
        self.studies: dict[Key, Study] = {}  # by learner's key and identity
        self.requests = Effects()  # what each request made that took effect
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
        self._plain: dict[Shape, bool] = {}  # `_are_plain`
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
        charged = total_of(tally.total or ZERO for tally in self.cells.values())
        return plus(charged, self.restored.get(NOBODY, ZERO))

    @property
    def totals(self) -> Running:
        """What was spent over all learners, by entry; `total` in all."""
        self._sum_up()
        return self._totals

    @property
    def learners(self) -> Purses:
        """Which keys each learner has; what it spent is in `purses` alone."""
        return self._purses

    @property
    def purses(self) -> Purses:
        """What each learner spent."""
        self._sum_up()
        return self._purses

    def _sum_up(self) -> None:
        """Add the charges that are not in totals and purses: few ledgers need them entry by entry."""
        first, self._summed = self._summed, len(self.requests)
        for charge in self.requests.charges_from(first):
            self._totals.add(charge.entry, charge.amount)
            self._purses.spend(charge.study.learner, charge.amount, charge.entry)

    @property
    def charges(self) -> Charges:
        """All charges, in order."""
        return self.requests.charges

    def signer_of(self, index: int) -> bytes:
        """Return the public key that signs an entry; empty if no entry names one."""
        place = bisect_right(self.keys, index, key=itemgetter(0))
        return self.keys[place - 1][1] if place else b""

    def feed_all(self, bodies: Sequence[bytes]) -> int:
        """Take the next entries up to the first that does not belong to the chain, and return how many those are."""
        place, end = 0, len(bodies)
        plain = read_plain_entry(bodies[0]) if bodies else None
        while place < end:
            following = read_plain_entry(bodies[place + 1]) if place + 1 < end else None
            if (
                plain is not None
                and following is not None
                and plain[2] is None
                and following[2] is not None
                and self._plain_exchange(plain, following, bodies[place], bodies[place + 1])
            ):
                place += 2
                plain = read_plain_entry(bodies[place]) if place < end else None
                continue
            if not self.feed(bodies[place]):
                break
            place += 1
            plain = following
        return place

    def _plain_exchange(self, charge: PlainEntry, answer: PlainEntry, charged: bytes, answered: bytes) -> bool:
        """Take the charge of a study's next query and its answer, if both are as planned, as `feed` would.

        What it returns says whether it did. If not, it has changed nothing.
        """
        place, version, requests = self._count, self._version, self.requests
        index, previous, _, learner, identity, sequence_data, amount_data, request, _ = charge
        study = self.studies.get((learner, identity))
        if study is None or study.state is not OPEN or study.amounts is not None or self.halted:
            return False
        shape, sequence, amount, query = study.shape, study.sequence + 1, plain_amount(amount_data), study.charged_count
        if not (
            amount
            and sequence <= len(shape.places)
            and amount is study.price.costs[query]
            and shape.places[sequence - 1] == (query, shape.charged[query])
            and query == study.begun
            and not study.begun_beside
            and study.versions[-1] == version
            and self._are_plain(shape)
            and request not in requests.numbers
            and previous == self.head
            and index == encoded(place)
            and sequence_data == encoded(sequence)
        ):
            return False
        head = entry_hash(charged)
        if (
            answer[:2] != (encoded(place + 1), head)
            or answer[3:6] != (learner, identity, sequence_data)
            or answer[7] != request
            or plain_amount(answer[6]) is None
            or self.remarks.are_awaited
        ):
            return False
        study.sequence, study.last = sequence, request
        study.charged_count = study.begun = query + 1
        cell = learner, version
        self.cells[cell].add(amount)
        self.integrals[cell].add(shape.integrals[query])
        study.stored.append(requests.add_answered(request, place, study, sequence, amount, answer[8]))
        self.head = entry_hash(answered)
        self.hashes.append(head + self.head)
        self._count = place + 2
        return True

    def _are_plain(self, shape: Shape) -> bool:
        """Whether what each query of a plan is charged is fixed, on no condition, and told by no note."""
        plain = self._plain.get(shape)
        if plain is None:
            plain = self._plain[shape] = (
                all(shape.fixed) and not any(shape.provisos) and not any(map(self.remarks.are_on, shape.kinds))
            )
        return plain

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
        self.marked.append(entry.index)
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
            chain.purses.spend(key, share, entry.index)
            self.restored[key] = plus(self.restored.get(key, ZERO), share if key != NOBODY else ZERO)
        self.restored[NOBODY] = plus(self.restored.get(NOBODY, ZERO), amount)
        chain.totals.add(entry.index, amount)
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
        if entry.learner in self._purses.bound:
            name = printable(self._purses.bound[entry.learner][1])
            return f"binds a key that is bound to {name}: its spending would leave that learner's budget"
        self._purses.bound[entry.learner] = (entry.index, entry.note)
        self._purses.keys.setdefault(entry.note, []).append(entry.learner)
        return ""

    def _handover(self, entry: ReadEntry) -> str:
        self.handovers.append(entry.index)
        self.marked.append(entry.index)
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
