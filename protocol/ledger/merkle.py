"""The Merkle tree of RFC 9162 (section 2.1; the same as RFC 6962's) over a ledger's entries.

The leaves are entry hashes (`entries.entry_hash`), in order. The hash is SHA-256, with 0x00 before a leaf and 0x01
before a pair, so no pair passes for a leaf. A root commits to all leaves. A few hashes prove that one tree is the
beginning of another, or that a leaf is in a tree; checking such a proof needs no other leaves.

The root alone does not fix the number of leaves, and a proof may fit several numbers. So the number is signed together
with the root (`checkpoints`).
"""

import hmac
from collections.abc import Iterable, Sequence

from protocol.envelopes import digest

HASH_BYTES = 32
MOST_PROOF = 63
"""Most hashes of a proof, for up to 2^62 leaves."""
EMPTY_ROOT = digest(b"")
"""Root of no leaves."""


class Tree:
    """A tree that grows at its end, from `leaves` (entry hashes). Complete subtrees are kept: two hashes a leaf."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    @property
    def size(self) -> int:
        """Number of leaves."""
        return len(self._levels[0])

    def append(self, leaf: bytes) -> None:
        """Add a leaf. It takes at most log2(size) hashes, two on average."""
        node = leaf_hash(leaf)
        for level in self._levels:
            level.append(node)
            if len(level) % 2:
                return
            node = pair_hash(level[-2], level[-1])
        self._levels.append([node])

    def root(self, size: int | None = None) -> bytes:
        """Root of the first `size` leaves, by default of all. Raises ValueError: the tree has fewer leaves."""
        count = self.size if size is None else size
        if not 0 <= count <= self.size:
            raise ValueError(f"there are {self.size} leaves, not {count}")
        return self._subtree(0, count) if count else EMPTY_ROOT

    def inclusion_proof(self, index: int, size: int | None = None) -> tuple[bytes, ...]:
        """The hashes that lead from a leaf to the root of the first `size` leaves (RFC 9162, section 2.1.3.1).

        Raises ValueError: the tree has fewer than `size` leaves, or none at `index` among them.
        """
        count = self.size if size is None else size
        if not 0 <= index < count <= self.size:
            raise ValueError(f"there is no leaf {index} among {count} of {self.size}")
        first, end, proof = 0, count, list[bytes]()
        while end - first > 1:
            middle = first + _split(end - first)
            if index < middle:
                proof.append(self._subtree(middle, end))
                end = middle
            else:
                proof.append(self._subtree(first, middle))
                first = middle
        return tuple(reversed(proof))

    def consistency_proof(self, old: int, size: int | None = None) -> tuple[bytes, ...]:
        """The hashes that show the first `old` leaves to begin the first `size` (RFC 9162, section 2.1.4.1).

        The proof is empty if both numbers are equal or `old` is 0. Raises ValueError: the tree has fewer leaves.
        """
        count = self.size if size is None else size
        if not 0 <= old <= count <= self.size:
            raise ValueError(f"{old} leaves do not begin {count} of {self.size}")
        if old in (0, count):
            return ()
        first, end, proof = 0, count, list[bytes]()
        while old != end:
            middle = first + _split(end - first)
            if old <= middle:
                proof.append(self._subtree(middle, end))
                end = middle
            else:
                proof.append(self._subtree(first, middle))
                first = middle
        if first:
            proof.append(self._subtree(first, end))
        return tuple(reversed(proof))

    def _subtree(self, first: int, end: int) -> bytes:
        """Root of the leaves from `first` up to `end`, where a complete subtree starts at `first`."""
        nodes = [self._levels[height][at >> height] for at, height in _complete(first, end)]
        root = nodes.pop()
        while nodes:
            root = pair_hash(nodes.pop(), root)
        return root


def check_inclusion(leaf: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether a proof shows a leaf to be in a tree at its place (RFC 9162, section 2.1.3.2).

    `leaf` is an entry's hash, `index` its place from 0, `size` the number of the tree's leaves. `proof` is untrusted,
    and must have exactly as many hashes as are needed.
    """
    if not 0 <= index < size or not _are_hashes(proof):
        return False
    place, last, reached = index, size - 1, leaf_hash(leaf)
    for node in proof:
        if last == 0:
            return False
        if place % 2 or place == last:
            reached = pair_hash(node, reached)
            while place and place % 2 == 0:
                place, last = place >> 1, last >> 1
        else:
            reached = pair_hash(reached, node)
        place, last = place >> 1, last >> 1
    return last == 0 and hmac.compare_digest(reached, root)


def check_consistency(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether a proof shows one tree to be the beginning of another (RFC 9162, section 2.1.4.2).

    The first tree has `old` leaves, the other `size`. `proof` is untrusted; it must have exactly as many hashes as are
    needed: none if both have the same size, or `old` is 0.
    """
    if not 0 <= old <= size or not _are_hashes(proof):
        return False
    if old == size:
        return not proof and hmac.compare_digest(old_root, root)
    if old == 0:
        return not proof and hmac.compare_digest(old_root, EMPTY_ROOT)
    if not proof:
        return False
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    place, last = old - 1, size - 1
    while place % 2:
        place, last = place >> 1, last >> 1
    before = after = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if place % 2 or place == last:
            before, after = pair_hash(node, before), pair_hash(node, after)
            while place and place % 2 == 0:
                place, last = place >> 1, last >> 1
        else:
            after = pair_hash(after, node)
        place, last = place >> 1, last >> 1
    return last == 0 and hmac.compare_digest(before, old_root) and hmac.compare_digest(after, root)


def leaf_hash(leaf: bytes) -> bytes:
    """Hash of a leaf."""
    return digest(b"\x00" + leaf)


def pair_hash(left: bytes, right: bytes) -> bytes:
    """Hash of two subtrees side by side."""
    return digest(b"\x01" + left + right)


def _split(count: int) -> int:
    """The largest power of two below `count`: the number of leaves in the left part."""
    return 1 << (count - 1).bit_length() - 1


def _complete(first: int, end: int) -> list[tuple[int, int]]:
    """(first leaf, height) of the complete subtrees that cover the leaves from `first` up to `end`, in order."""
    complete = []
    while first < end:
        height = (end - first).bit_length() - 1
        complete.append((first, height))
        first += 1 << height
    return complete


def _are_hashes(proof: Sequence[bytes]) -> bool:
    return len(proof) <= MOST_PROOF and all(len(node) == HASH_BYTES for node in proof)
