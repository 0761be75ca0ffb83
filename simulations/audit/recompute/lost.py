"""What a ledger that was rolled back must enter as spent: the replay's own reading of the positions in HALT entries.

A position names an entry, the total up to it, the first bytes of the hashes of the entries 1, 2, 4, ... before it, and
those of the START entries. The branch that it ends shares the ledger's entries up to some last common one; what it
spent after that, and the ledger does not show, was lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from protocol.ledger.entries import EntryKind, Position, Suspect
from protocol.rationals import parse_amount
from simulations.audit.recompute.known import ZERO, Made, Purses, Running

_STUB = 8


@dataclass(frozen=True)
class Chain:
    """The ledger before a RESUME.

    Attributes:
        hashes: of its entries.
        totals: spent over all learners after each.
        starts: indices of its START entries, rising.
        purses: what each learner spent.
        requests: by digest.
    """

    hashes: Sequence[bytes]
    totals: Running
    starts: Sequence[int]
    purses: Purses
    requests: Mapping[bytes, Made]


@dataclass(frozen=True)
class Lost:
    """What one suspect proves.

    Attributes:
        total: over all learners.
        own: by learner's key, as far as it is known.
    """

    total: Fraction
    own: Mapping[bytes, Fraction]


def lost_by(chain: Chain, suspects: Sequence[Suspect], acknowledged: Sequence[Suspect]) -> list[Lost]:
    """What each suspect's branch spent beyond the ledger, and beyond what those before it proved.

    Args:
        chain: the ledger.
        suspects: of the halt; one without a position proves nothing.
        acknowledged: of earlier halts.
    """
    seen = [suspect for suspect in acknowledged if suspect.position is not None]
    found = []
    for suspect in sorted(suspects, key=_place):
        if suspect.position is None:
            continue
        found.append(_lost(chain, suspect, suspect.position, seen))
        seen.append(suspect)
    return found


def on_one_branch(earlier: Position, later: Position) -> bool:
    """Whether the entry of one position is proven to come before that of another on the same branch.

    Both were then written after the same START, by the process that wrote it, and before the next one.
    """
    if not earlier.starts or earlier.index > later.index:
        return False
    begun = earlier.starts[0]
    if begun not in later.starts:
        return False
    place = later.starts.index(begun)
    return place == 0 or earlier.index < later.starts[place - 1][0]


def last_shared(position: Position, chain: Chain) -> int | None:
    """Index of the newest entry that is known to be on both branches; None where none is.

    Every process writes a START before anything else. So after the newest START that both hold neither branch changed
    hands until its next one, and the shorter is the beginning of the longer up to there, unless an ancestor says that
    it is not.
    """
    length = len(chain.hashes)
    if position.index < length and chain.hashes[position.index] == position.head:
        return position.index
    known = [(position.index - (1 << power), stub) for power, stub in enumerate(position.ancestors)]
    known += position.starts
    here = [(index, chain.hashes[index][:_STUB] == stub) for index, stub in known if 0 <= index < length]
    shared = [index for index, same in here if same]
    if not shared:
        return None
    starts = [index for index, _ in position.starts if index in shared]
    if not starts:
        return max(shared)
    begun = max(starts)
    nexts = [index - 1 for index in (*chain.starts, *(index for index, _ in position.starts)) if index > begun]
    end = min([length - 1, position.index, *nexts])
    if any(not same and index <= end for index, same in here):
        return max(shared)
    return max(end, *shared)


def _lost(chain: Chain, suspect: Suspect, position: Position, seen: Sequence[Suspect]) -> Lost:
    common = last_shared(position, chain)
    keys = chain.purses.keys_of(suspect.learner)
    earlier = [other for other in seen if other.position is not None and on_one_branch(other.position, position)]
    totals = [chain.totals.at(common) if common is not None else ZERO]
    totals += [parse_amount(other.position.total) for other in earlier if other.position is not None]
    spent = [ZERO, *(parse_amount(other.spent) if other.learner in keys else ZERO for other in earlier)]
    if common is not None:
        spent.append(chain.purses.by_learner(suspect.learner, common))
    total = max(ZERO, parse_amount(position.total) - max(totals))
    own = {suspect.learner: max(ZERO, parse_amount(suspect.spent) - max(spent))}
    if common is not None and not earlier:
        # Charged before the fork and answered after it: the lost branch may have answered it, too.
        for made in chain.requests.values():
            if made.kind is EntryKind.CHARGE and made.index <= common < made.answered:
                own[made.study.learner] = own.get(made.study.learner, ZERO) + made.amount
                total += made.amount
    return Lost(total, own)


def _place(suspect: Suspect) -> int:
    return -1 if suspect.position is None else suspect.position.index
