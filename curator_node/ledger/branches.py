"""Lost branches: what a receipt or a mark proves about entries that a ledger no longer holds.

A ledger that was rolled back goes on from an older entry, and what came after it is a lost branch. All that is left of
one are positions in receipts and marks.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import Position
from protocol.messages import SEALED_BYTES
from protocol.rationals import amount
from protocol.refusals import RefusalCode

MOST_ANCESTORS = 24
"""The oldest is 2^23 entries back: with a charge a second, three months."""
MOST_STARTS = 16
"""Receipts of more restarts ago than this are recognised no more as part of an acknowledged branch."""
STUB = 8
POSITION_BYTES = SEALED_BYTES - 28
"""Of a padded position; a cipher adds a nonce of 12 bytes and a tag of 16."""
MOST_BITS = 800
"""Of a total's numerator and denominator together, 243 characters; a longer one is rounded up to the grid of 2^-64."""


def position_at(
    index: int, hashes: Sequence[bytes], totals: Sequence[Fraction], starts: Iterable[tuple[int, bytes]]
) -> Position:
    """The position of an entry.

    Args:
        index: of the entry.
        hashes: of every entry, by index.
        totals: spent over all learners up to each entry.
        starts: (index, stub) of the START entries, newest first.
    """
    before = [index - (1 << k) for k in range(MOST_ANCESTORS) if 1 << k <= index]
    newest = [start for start in starts if start[0] <= index]
    return Position(
        index=index,
        head=hashes[index],
        total=_short(totals[index]),
        ancestors=tuple(hashes[i][:STUB] for i in before),
        starts=tuple(newest[:MOST_STARTS]),
    )


def last_common(position: Position, hashes: Sequence[bytes], starts: Iterable[tuple[int, bytes]] = ()) -> int | None:
    """Index of the newest entry that a chain shares with the branch of `position`; None where unknown.

    Whoever finds a rollback writes a START before anything else. So under the newest START that both hold, the shorter
    of the two is the beginning of the longer. Where an ancestor contradicts that (a process that was copied while it
    ran), the newest ancestor that both hold is taken, which may lie before the fork, never after it.

    Args:
        position: of the branch.
        hashes: of the chain, by index.
        starts: (index, stub) of the chain's START entries.
    """
    if holds(position, hashes):
        return position.index
    older = [(position.index - (1 << k), stub) for k, stub in enumerate(position.ancestors)]
    there = [(index, stub) for index, stub in (*older, *position.starts) if index < len(hashes)]
    shared = [index for index, stub in there if hashes[index][:STUB] == stub]
    begun = [index for index, stub in position.starts if index in shared]
    if not begun:
        return max(shared, default=None)
    begin = max(begun)
    ends = [index - 1 for index, _ in (*starts, *position.starts) if index > begin]
    end = min(len(hashes) - 1, position.index, *ends)
    contradicted = any(index <= end and hashes[index][:STUB] != stub for index, stub in there)
    return max(shared) if contradicted else max(end, *shared)


def holds(position: Position, hashes: Sequence[bytes]) -> bool:
    """Whether a chain holds the position."""
    return position.index < len(hashes) and hashes[position.index] == position.head


def precedes(earlier: Position, later: Position) -> bool:
    """Whether `earlier` provably lies on the branch that leads to `later`.

    It does where both were written under one START entry, and `later`'s branch had not begun the next by then.
    """
    if not earlier.starts or earlier.index > later.index:
        return False
    newest = earlier.starts[0]
    ends = [math.inf, *(index for index, _ in later.starts)]
    return any(start == newest and earlier.index < end for start, end in zip(later.starts, ends, strict=False))


def lost_amounts(
    position: Position,
    spent: Fraction,
    hashes: Sequence[bytes],
    totals: Sequence[Fraction],
    starts: Sequence[tuple[int, bytes]],
    own_at: Sequence[tuple[int, Fraction]],
    restored: Iterable[tuple[Position, Fraction]],
) -> tuple[Fraction, Fraction]:
    """What a lost branch spent and this ledger does not show: (over all learners, by one learner).

    Counted from the last entry in common, or from a position of the same branch that was restored before. A lower
    bound: what came after the position is not in it.

    Args:
        position: of the lost branch.
        spent: by the learner there.
        hashes: of this chain, by index.
        totals: likewise.
        starts: of this chain's START entries.
        own_at: (index, spent) of the learner in this chain, after each of its charges.
        restored: positions that were restored before, and what the learner had spent there.
    """
    common = last_common(position, hashes, starts)
    total = [Fraction(0)] if common is None else [totals[common]]
    own = [Fraction(0)] + [here for index, here in own_at if common is not None and index <= common]
    for other, own_there in restored:
        if precedes(other, position):
            total.append(Fraction(other.total))
            own.append(own_there)
    zero = Fraction(0)
    return max(zero, Fraction(position.total) - max(total)), max(zero, spent - max(own))


def pack(position: Position) -> bytes:
    """A position as `POSITION_BYTES` bytes, whatever it says."""
    body = encode(position)
    return len(body).to_bytes(2, "big") + body.ljust(POSITION_BYTES - 2, b"\0")


def unpack(data: bytes) -> Position:
    """Inverse of `pack`.

    Raises:
        RemoteProtocolError: MALFORMED, for anything else.
    """
    length = int.from_bytes(data[:2], "big")
    if len(data) != POSITION_BYTES or length > POSITION_BYTES - 2 or any(data[2 + length :]):
        raise RemoteProtocolError(RefusalCode.MALFORMED, "position")
    return decode(data[2 : 2 + length], Position, field="position")


def _short(total: Fraction) -> str:
    small = total.denominator.bit_length() + total.numerator.bit_length() <= MOST_BITS
    return amount(total if small else Fraction(math.ceil(total * 2**64), 2**64))
