"""Branches of a ledger that were lost, as HALT entries and receipts prove them, and what they spent.

A HALT entry names a lost entry by a *position*: the entry's hash, the total up to it, and the first bytes of the hashes
of older entries (those 1, 2, 4, ... before it, and those just before it). It also holds the first bytes of all lost
entries' hashes, if the process that halted had kept them. The lost *branch* that ends with this entry shares the
ledger's entries up to a last common one. The ledger does not show what the branch spent after that. A charge that was
open at the common entry may have been answered on both. Two positions belong to one branch only if a hash proves it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain as joined

from expril.audit.recompute.effects import Effect
from expril.audit.recompute.entries import ENDED, ZERO, Purses, ReadEntry, ReadLostEntry, Running, Study, amount_of
from protocol.ledger.entries import STATE_SEAL_BYTES, STUB, EntryKind, Suspect
from protocol.messages import NO_DIGEST, NOBODY
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
