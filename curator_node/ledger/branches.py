"""Traces of lost branches: what receipts and marks prove about entries that a ledger no longer holds.

A ledger that was rolled back goes on from an older entry, the *fork*. The entries after it are a lost branch. Only
positions in receipts and marks are left of it, and the hashes that a process keeps beside its mark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.ledger.entries import STUB, Entry, LostEntry, Position, Suspect
from protocol.messages import NO_DIGEST, NOBODY, SEALED_BYTES
from protocol.rationals import GRID, amount, parse_amount, shorten, total_of
from protocol.refusals import RefusalCode

MOST_ANCESTORS = 24
"""Most earlier entries, at doubling distances, that a position names. The oldest is 2^23 entries back: three months at
a charge a second."""
NEAR = 24
"""This many entries just before a position are named in it one by one."""
POSITION_BYTES = SEALED_BYTES - 28
"""Bytes of a padded position. The cipher adds a nonce of 12 bytes and a tag of 16."""
_BACK = tuple(1 << power for power in range(MOST_ANCESTORS))
_NEAR_BACK = tuple(back for back in range(1, NEAR + 1) if back not in _BACK)
MOST_BITS = 800
"""Most bits of a total's numerator and denominator together, 243 characters. A longer total is rounded up to the grid
of 2^-64."""


@dataclass(frozen=True)
class BranchTrace:
    """The facts on a lost branch that one mark or receipt proves."""

    suspect: Suspect  # its position, and whose receipt shows it
    entries: bytes = b""  # stubs of its entries up to the position, as far as they are known; see `LostEntry`
    # by key, what each learner had spent at the position; empty where it is not known
    spent: Mapping[bytes, Fraction] = field(default_factory=dict)
    receipt: bytes = NO_DIGEST  # digest of the receipt; zero for a mark
    proven: bool = True  # whether it must be restored as the rules of today say. Older programs had others

    @classmethod
    def of(cls, entry: Entry, suspect: Suspect) -> "BranchTrace":
        """The trace that a HALT entry holds."""
        if not isinstance(entry, LostEntry):
            return cls(suspect, proven=False)
        return cls(suspect, entry.lost_stubs, read_spent(entry.spent), entry.receipt)

    @property
    def written(self) -> tuple[tuple[bytes, str], ...]:
        """`spent` as entries and marks hold it."""
        return tuple((key, amount(spending)) for key, spending in self.spent.items())

    @property
    def position(self) -> Position | None:
        """The position of the branch's newest known entry; None if a mark is missing."""
        return self.suspect.position

    def is_same(self, other: "BranchTrace") -> bool:
        """Whether both are one mark's, or one receipt's."""
        return (self.suspect, self.receipt) == (other.suspect, other.receipt)

    def contradicts(self, other: "BranchTrace") -> bool:
        """Whether both are receipts of one request with different answers, and so of two branches."""
        request, other_request = self.suspect.request, other.suspect.request
        both_receipts = NO_DIGEST not in (self.receipt, other.receipt)
        return request == other_request != NO_DIGEST and both_receipts and self.receipt != other.receipt

    def learners(self, keys_of: Callable[[bytes], tuple[bytes, ...]]) -> list[tuple[bytes, ...]]:
        """The keys of each learner whose spending is named; `keys_of` returns all keys of a key's learner."""
        return list(dict.fromkeys(keys_of(key) for key in (self.suspect.learner, *self.spent) if key != NOBODY))

    def spent_by(self, keys: Sequence[bytes]) -> Fraction:
        """Epsilon that the learner with these keys had spent at the position; 0 if the trace does not say.

        A receipt names the spending over all keys of its learner, whichever of these keys it was written for.
        """
        if self.suspect.learner in keys:
            return parse_amount(self.suspect.spent)
        return total_of(self.spent.get(key, Fraction(0)) for key in keys)

    def holds(self, position: Position) -> bool:
        """Whether a hash of the branch proves that it holds an entry."""
        return self.stub_at(position.index) == position.head[:STUB]

    def stub_at(self, index: int) -> bytes | None:
        """The stub of the branch's entry with this index; None if it is not known."""
        if self.position is None:
            return None
        if self._first <= index <= self.position.index:
            return self.entries[STUB * (index - self._first) :][:STUB]
        return self._stubs.get(index)

    def last_common(self, hashes: Sequence[bytes]) -> int | None:
        """Index of the newest entry that the branch is proven, by hashes, to share with a chain; None if there is none.

        This entry may lie before the fork, never after it. If only the position is known, this entry is at most twice
        as far from the position as the fork is.
        """
        if self.position is None:
            return None
        if holds(self.position, hashes):
            return self.position.index
        indices = {*self._stubs, *range(self._first, self.position.index + 1)}
        shared = (
            index for index in indices if 0 <= index < len(hashes) and hashes[index][:STUB] == self.stub_at(index)
        )
        return max(shared, default=None)

    @cached_property
    def _first(self) -> int:
        """Index of the first of `entries`."""
        return 0 if self.position is None else self.position.index + 1 - len(self.entries) // STUB

    @cached_property
    def _stubs(self) -> dict[int, bytes]:
        """The stubs that the position itself names, by index."""
        position = self.position
        if position is None:
            return {}
        older = {position.index - (1 << power): stub for power, stub in enumerate(position.ancestors)}
        return {**older, **dict(position.named), position.index: position.head[:STUB]}


def read_spent(written: Iterable[tuple[bytes, str]]) -> dict[bytes, Fraction]:
    """Inverse of `BranchTrace.written`."""
    return {key: parse_amount(spent) for key, spent in written}


def position_at(index: int, hashes: Sequence[bytes], totals: Sequence[Fraction]) -> Position:
    """The position of an entry.

    `hashes`: of every entry, by index; `totals`: spent over all learners up to each entry.
    """
    before = [index - back for back in _BACK[: index.bit_length()]]
    near = [index - back for back in _NEAR_BACK if back <= index]
    return Position(
        index=index,
        head=hashes[index],
        total=_short(totals[index]),
        ancestors=tuple(hashes[i][:STUB] for i in before),
        named=tuple((i, hashes[i][:STUB]) for i in near),
    )


def holds(position: Position, hashes: Sequence[bytes]) -> bool:
    """Whether a chain holds the position."""
    return position.index < len(hashes) and hashes[position.index] == position.head


def stubs_of(hashes: Iterable[bytes]) -> bytes:
    """The stubs of entries, one after the other."""
    return b"".join(head[:STUB] for head in hashes)


def pack(position: Position) -> bytes:
    """A position as `POSITION_BYTES` bytes; all positions get the same length."""
    body = encode(position)
    return len(body).to_bytes(2, "big") + body.ljust(POSITION_BYTES - 2, b"\0")


def unpack(data: bytes) -> Position:
    """Inverse of `pack`.

    Raises:
        RemoteProtocolError: MALFORMED, if the bytes are no packed position.
    """
    length = int.from_bytes(data[:2], "big")
    if len(data) != POSITION_BYTES or length > POSITION_BYTES - 2 or any(data[2 + length :]):
        raise RemoteProtocolError(RefusalCode.MALFORMED, "position")
    return decode(data[2 : 2 + length], Position, field="position")


def _short(total: Fraction) -> str:
    small = total.denominator.bit_length() + total.numerator.bit_length() <= MOST_BITS
    return amount(total if small else shorten(total, longest=GRID))
