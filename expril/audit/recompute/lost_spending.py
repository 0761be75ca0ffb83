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
    Made,
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
class Told:
    """What a HALT entry says."""

    suspect: Suspect  # the position, and whose receipt shows it
    stubs: bytes = b""  # first bytes of the hashes of the branch's entries up to the position, one after the other
    spent: Mapping[bytes, Fraction] = field(default_factory=dict)  # by key
    receipt: bytes = NO_DIGEST  # digest of the receipt; zero for a mark

    @classmethod
    def of(cls, entry: ReadEntry, suspect: Suspect) -> "Told":
        """What an entry with this suspect says."""
        if not isinstance(entry, ReadLostEntry):
            return cls(suspect)
        return cls(suspect, entry.lost, {key: amount_of(spent) for key, spent in entry.spent}, entry.receipt)

    @property
    def index(self) -> int:
        """Of the entry that the position names; -1 where there is none."""
        return -1 if self.suspect.position is None else self.suspect.position.index

    def listed(self) -> list[bytes]:
        """First bytes of the hashes of the entries that it says were lost."""
        position = self.suspect.position
        last = [] if position is None else [position.head[:STUB]]
        return [self.stubs[at : at + STUB] for at in range(0, len(self.stubs), STUB)] or last

    def own(self, keys: Collection[bytes]) -> Fraction:
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
        known = {position.index - 2**power: stub for power, stub in enumerate(position.ancestors)}
        known.update(position.named)
        known[position.index] = position.head[:STUB]
        count = len(self.stubs) // STUB
        known.update((self.index - count + 1 + at, self.stubs[STUB * at :][:STUB]) for at in range(count))
        return known


@dataclass(frozen=True)
class Chain:
    """The ledger before a RESUME."""

    hashes: Sequence[bytes]  # of its entries
    totals: Running  # spent over all learners after each
    purses: Purses  # what each learner spent
    requests: Mapping[bytes, Made]  # by digest
    stops: Sequence[int]  # indices of its HALT entries that say that entries may be lost


@dataclass(frozen=True)
class Lost:
    """What one suspect proves."""

    total: Fraction  # over all learners
    own: Mapping[bytes, Fraction]  # by learner's key, as far as it is known


@dataclass
class Branch:
    """One lost branch."""

    told: list[Told] = field(default_factory=list)  # all that is proven to be of it
    shared: int = -1  # newest entry that is proven to be on both; -1 where none is
    total: Fraction = ZERO  # total, own: what was entered for it; over all learners, and by key
    own: defaultdict[bytes, Fraction] = field(default_factory=lambda: defaultdict(Fraction))


def lost_by(chain: Chain, suspects: Sequence[Told], branches: list[Branch]) -> list[Lost]:
    """What each suspect's branch spent beyond the ledger, and beyond what was entered for it before.

    `suspects`: of the halt; one without a position proves nothing; `branches`: of earlier halts; the suspects are put
    among them.
    """
    found = []
    for told in sorted(suspects, key=lambda one: one.index):
        if told.index < 0:
            continue
        branch = next((one for one in branches if _continues(chain, told, one)), None)
        if branch is None:
            branches.append(branch := Branch())
        branch.told.append(told)
        branch.shared = max(branch.shared, last_shared(told, chain))
        found.append(_lost(chain, told, branch))
    return found


def last_shared(told: Told, chain: Chain) -> int:
    """Index of the newest entry that is proven to be on both branches; -1 where none is."""
    length = len(chain.hashes)
    if _is_held(chain, told):
        return told.index
    same = [at for at, stub in told.hashes.items() if 0 <= at < length and chain.hashes[at][:STUB] == stub]
    return max(same, default=-1)


def running_at(chain: Chain, index: int) -> Iterator[tuple[bytes, Fraction]]:
    """(learner's key, charge) of what was charged up to an entry and had not ended with it.

    A question ends with its answer; where its kind keeps something of the study, with the answer that leaves nothing
    kept. What was charged before a query ends with the charge for that query. All of a study ends with it, but for a
    question that is open then. Everything ends where the curator halts for lost entries.
    """
    events: defaultdict[int, list[tuple[int, str, Made | None]]] = defaultdict(list)
    charged = [made for made in chain.requests.values() if made.kind is EntryKind.CHARGE and made.index <= index]
    # Where all was answered and nothing ever kept, nothing runs
    studies = {
        id(made.study): made.study for made in charged if not 0 <= made.answered <= index or made.state_size is not None
    }
    for made in charged:
        if id(made.study) in studies:
            events[id(made.study)].append((made.index, "charged", made))
            if 0 <= made.answered <= index:
                events[id(made.study)].append((made.answered, "answered", made))
    for name, study in studies.items():
        ends = [(study.ended, "ended", None)] if study.state == ENDED and study.ended <= index else []
        stops = [(stop, "stopped", None) for stop in chain.stops if stop <= index]
        told = sorted(joined(events[name], ends, stops), key=lambda event: event[0])
        yield from ((study.learner, amount) for amount in _left(study, told))


def _left(study: Study, events: Sequence[tuple[int, str, Made | None]]) -> list[Fraction]:
    """Charges of a study under which something may be drawn after these events."""
    running: list[tuple[int, Fraction]] = []
    kept: dict[str, int] = {}
    asked, over = -1, False
    for _, what, made in events:
        if made is None:
            over = over or what == "ended"
            running = [one for one in running if what == "ended" and one[0] == asked]
            continue
        query = study.shape.places[made.sequence - 1][0]
        if what == "charged":
            asked = query
            running = [one for one in running if one[0] >= query]
            running += [(query, made.amount)] if made.amount else []
            continue
        asked, kind = -1, study.shape.kinds[query]
        if made.state_size is not None:
            kept[kind] = made.state_size
        if over or kept.get(kind, 0) <= STATE_SEAL_BYTES:
            running = [one for one in running if one[0] > query]
    return [amount for _, amount in running]


def _continues(chain: Chain, told: Told, branch: Branch) -> bool:
    """Whether a hash proves that this is of a branch: after the newest that is known of it, or before one of it."""
    newest = max(reversed(branch.told), key=lambda one: one.index)
    here = last_shared(told, chain)
    for other in branch.told:
        same = other.suspect.request == told.suspect.request != NO_DIGEST
        if same and NO_DIGEST not in (other.receipt, told.receipt) and other.receipt != told.receipt:
            return False  # one request, two answers
    for one in (told, *branch.told):
        made = chain.requests.get(one.suspect.request)
        if made is None or one.receipt == NO_DIGEST or not _is_held(chain, one):
            continue
        if 0 <= made.answered <= max(here, branch.shared):
            return False  # the answer that both share is another one
    if (_is_held(chain, told) and told.index <= branch.shared) or (_is_held(chain, newest) and newest.index <= here):
        return True
    return _names(told, newest) or any(_names(other, told) for other in branch.told)


def _is_held(chain: Chain, told: Told) -> bool:
    position = told.suspect.position
    return position is not None and chain.hashes[position.index : position.index + 1] == [position.head]


def _names(one: Told, other: Told) -> bool:
    position = other.suspect.position
    return position is not None and one.hashes.get(position.index) == position.head[:STUB]


def _lost(chain: Chain, told: Told, branch: Branch) -> Lost:
    again: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for learner, amount in running_at(chain, branch.shared):
        again[learner] = plus(again[learner], amount)
    spent = max(ZERO, max(map(_total, branch.told)) - chain.totals.at(branch.shared))
    total = shorten(max(ZERO, spent + total_of(again.values()) - branch.total), longest=GRID)
    branch.total += total
    shares = {}
    for learner in _learners(chain, [told.suspect.learner, *told.spent, *again]):
        keys = chain.purses.keys_of(learner)
        said = max(one.own(keys) for one in branch.told)
        own = said - chain.purses.by_learner(learner, branch.shared)
        least = max(ZERO, own) + total_of(again[key] for key in keys) - total_of(branch.own[key] for key in keys)
        shares[learner] = shorten(max(ZERO, least), longest=GRID)
        branch.own[learner] += shares[learner]
    return Lost(total, shares)


def _total(told: Told) -> Fraction:
    return ZERO if told.suspect.position is None else parse_amount(told.suspect.position.total)


def _learners(chain: Chain, named: Iterable[bytes]) -> Iterator[bytes]:
    """Of the keys that are named, one of each learner."""
    done: set[bytes] = set()
    for key in named:
        if key not in {NOBODY, *done}:
            done.update(chain.purses.keys_of(key))
            yield key
