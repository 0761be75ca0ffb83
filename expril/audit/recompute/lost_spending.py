"""What a ledger that was rolled back must enter as spent: the replay's own reading of its HALT entries.

A HALT entry names an entry that the ledger lacks, by a position: its hash, the total up to it, and the first bytes of
hashes of older entries (of those 1, 2, 4, ... before it, and of those just before it). Where the process that halted
had kept them, the first bytes of all lost entries stand beside. The branch that the position ends shares the ledger's
entries up to some last common one. What it spent after that, the ledger does not show. And what had been charged by
then and not ended may have been answered on both. Two positions are of one branch only where a hash proves it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import chain as joined

from expril.audit.recompute.entries import (
    ENDED,
    ZERO,
    Effect,
    Purses,
    ReadEntry,
    ReadLostEntry,
    Running,
    Study,
    amount_of,
)
from protocol.ledger.entries import STATE_SEAL_BYTES, STUB, EntryKind, Suspect
from protocol.messages import NO_DIGEST, NOBODY
from protocol.rationals import GRID, parse_amount, plus, shorten, total_of


@dataclass(frozen=True)
class BranchTrace:
    """What a HALT entry says."""

    suspect: Suspect  # the position, and whose receipt shows it
    stubs: bytes = b""  # first bytes of the hashes of the branch's entries up to the position, one after the other
    spent: Mapping[bytes, Fraction] = field(default_factory=dict)  # by key
    receipt: bytes = NO_DIGEST  # digest of the receipt; zero for a mark

    @classmethod
    def of(cls, entry: ReadEntry, suspect: Suspect) -> "BranchTrace":
        """What an entry with this suspect says."""
        if not isinstance(entry, ReadLostEntry):
            return cls(suspect)
        return cls(suspect, entry.lost, {key: amount_of(spent) for key, spent in entry.spent}, entry.receipt)

    @property
    def index(self) -> int:
        """Of the entry that the position names; -1 where there is none."""
        return -1 if self.suspect.position is None else self.suspect.position.index

    def lost_stubs(self) -> list[bytes]:
        """First bytes of the hashes of the entries that it says were lost."""
        position = self.suspect.position
        last = [] if position is None else [position.head[:STUB]]
        return [self.stubs[at : at + STUB] for at in range(0, len(self.stubs), STUB)] or last

    def spent_by(self, keys: Collection[bytes]) -> Fraction:
        """What it says that the learner with these keys had spent; 0 where it says nothing of that."""
        if self.suspect.learner in keys:
            return parse_amount(self.suspect.spent)
        return total_of(self.spent.get(key, ZERO) for key in keys)

    @cached_property
    def hashes(self) -> dict[int, bytes]:
        """By index, all that is known of the branch's hashes: their first bytes."""
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
    """What one suspect proves."""

    total: Fraction  # over all learners
    by_key: Mapping[bytes, Fraction]  # by learner's key, as far as it is known


@dataclass
class Branch:
    """One lost branch."""

    traces: list[BranchTrace] = field(default_factory=list)  # all that is proven to be of it
    shared: int = -1  # newest entry that is proven to be on both; -1 where none is
    total: Fraction = ZERO  # entered as spent for it, over all learners
    by_key: defaultdict[bytes, Fraction] = field(default_factory=lambda: defaultdict(Fraction))


def lost_by(chain: Chain, suspects: Sequence[BranchTrace], branches: list[Branch]) -> list[LostSpending]:
    """What each suspect's branch spent beyond the ledger, and beyond what was entered for it before.

    `suspects`: of the halt; one without a position proves nothing; `branches`: of earlier halts; the suspects are put
    among them.
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
    """Index of the newest entry that is proven to be on both branches; -1 where none is."""
    length = len(chain.hashes)
    if _is_on_chain(chain, trace):
        return trace.index
    same = [at for at, stub in trace.hashes.items() if 0 <= at < length and chain.hashes[at][:STUB] == stub]
    return max(same, default=-1)


def running_at(chain: Chain, index: int) -> Iterator[tuple[bytes, Fraction]]:
    """(learner's key, charge) of what was charged up to an entry and had not ended with it.

    A question ends with its answer; where its kind keeps something of the study, with the answer that leaves nothing
    kept. What was charged before a query ends with the charge for that query. All of a study ends with it, but for a
    question that is open then. Everything ends where the curator halts for lost entries.
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
    """Charges of a study under which something may be drawn after these events."""
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
    """Whether a hash proves that this is of a branch: after the newest that is known of it, or before one of it."""
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
            return False  # the answer that both share is another one
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
    """Of the keys that are named, one of each learner."""
    keys_met: set[bytes] = set()
    for key in named:
        if key not in {NOBODY, *keys_met}:
            keys_met.update(chain.purses.keys_of(key))
            yield key
