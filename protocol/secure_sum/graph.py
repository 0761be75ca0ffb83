"""The random graph of a round, which says who shares masks and secrets with whom, and its failure probabilities.

Up to 100 participants the graph is complete. Above, each pair is joined with probability p, by a stream keyed with the
round's digest, so nobody chooses neighbours. `settled` computes p and the bound on colluding neighbours;
docs/explanation/secure-sums-graph.md proves what they guarantee.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import comb
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from protocol.errors import ConfigurationError

COMPLETE_UP_TO = 100
"""Participants up to which every pair is joined."""
WORD = 2**32
"""Edge probabilities are whole multiples of 1 / WORD."""
FAILURE_BITS = 104
"""The graph fails to protect with probability at most 2^-FAILURE_BITS, half of it for each of two reasons."""
OPENING_BITS = 20
"""If as many participants as tolerated drop out at random, a round fails with probability at most 2^-OPENING_BITS."""

_NONCE = bytes(4) + b"expril.graph"  # of ChaCha20: block counter 0, then 12 bytes that say what the stream is for
_PRECISION = 256  # probabilities are held as whole multiples of 2^-256, always rounded up
_STEPS = 2**12  # the binary logarithm of 1 - p is held in this many parts of one
_SPACING = 4  # mean degrees that are tried: multiples of this


class Settled(NamedTuple):
    """The parameters of the graph for one size."""

    edge_probability: int  # of every pair, as a multiple of 2^-32; 2^32 where the graph is complete
    local_colluders: int  # colluders among anybody's neighbours, at most
    # the graph does not protect with a probability of at most 2 to this power; None where it always does (complete)
    failure_log2: int | None


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph of participants 0 to size - 1."""

    size: int  # participants whose key cards make the round
    local_colluders: int  # colluders among anybody's neighbours, at most; all that are assumed where it is complete
    joined: NDArray[np.bool_]  # bool of shape (size, size), symmetric, False on the diagonal; read-only

    def neighbours(self, index: int) -> tuple[int, ...]:
        """Indices that a participant shares pair masks with, ascending."""
        return tuple(np.flatnonzero(self.joined[index]).tolist())

    def holders(self, index: int) -> tuple[int, ...]:
        """Indices that hold shares of a participant's secrets, ascending: its neighbours and itself."""
        return tuple(sorted((index, *self.neighbours(index))))

    def threshold(self, index: int) -> int:
        """Number of shares that recover a secret: more than half of (holders + local colluders)."""
        return int(self._thresholds[index])

    def lacking(self, nodes: Collection[int], present: Collection[int]) -> tuple[int, ...]:
        """Nodes, ascending, that have fewer holders present than the threshold."""
        if self._complete:  # everybody holds a share of every secret, so one threshold is that of all
            return () if len(set(present)) >= self.threshold(0) else tuple(sorted(set(nodes)))
        members, survivors = self._flags(nodes), self._flags(present)
        counts = survivors + np.bitwise_count(self._packed & _packed(survivors)).sum(axis=1)
        return tuple(np.flatnonzero(members & (counts < self._thresholds)).tolist())

    def _flags(self, nodes: Collection[int]) -> NDArray[np.bool_]:
        flags = np.zeros(self.size, dtype=np.bool_)
        flags[np.fromiter(nodes, dtype=np.intp, count=len(nodes))] = True
        return flags

    @cached_property
    def _complete(self) -> bool:
        return int(self.joined.sum()) == self.size * (self.size - 1)

    @cached_property
    def _packed(self) -> NDArray[np.uint64]:
        return _packed(self.joined)

    @cached_property
    def _thresholds(self) -> NDArray[np.int64]:
        holders = 1 + self.joined.sum(axis=1, dtype=np.int64)
        thresholds: NDArray[np.int64] = (holders + self.local_colluders) // 2 + 1
        return thresholds


@lru_cache(maxsize=8)
def graph_of(seed: bytes, size: int, colluders: int, dropouts: int) -> Graph:
    """The graph of a round.

    Args:
        seed: the round's digest, 32 bytes.
        size: participants of the round, at least 2.
        colluders: assumed number of colluders, at least 1.
        dropouts: tolerated number of dropouts from this round, at least 0.

    Raises:
        ConfigurationError: a round of this size cannot tolerate so many.
        ValueError: the seed has another length.
    """
    if len(seed) != 32:
        raise ValueError(f"the digest of a round has 32 bytes, this one {len(seed)}")
    edge_probability, local_colluders, _ = settled(size, colluders, dropouts)
    if edge_probability == WORD:
        joined = ~np.eye(size, dtype=np.bool_)
    else:
        stream = Cipher(algorithms.ChaCha20(seed, _NONCE), mode=None).encryptor()
        words = np.frombuffer(stream.update(bytes(2 * size * (size - 1))), dtype="<u4")
        joined = np.zeros((size, size), dtype=np.bool_)
        joined[np.tri(size, k=-1, dtype=np.bool_)] = words < edge_probability  # pairs (1,0), (2,0), (2,1), (3,0) ...
        joined |= joined.T
    joined.flags.writeable = False
    return Graph(size, local_colluders, joined)


@lru_cache(maxsize=256)
def settled(size: int, colluders: int, dropouts: int) -> Settled:
    """The sparsest graph that protects, or the complete one.

    Mean degrees are tried in steps of four. The first is taken with which (docs/explanation/secure-sums-graph.md)

    1. an honest participant has more than `local_colluders` colluding neighbours with probability at most 2^-105,
    2. honest survivors fall apart with probability at most 2^-105, each of whom keeps its threshold of holders,
    3. a round opens with probability at least 1 - 2^-20 though as many as tolerated drop out, whoever they are.

    Probabilities are whole numbers, rounded up, so every machine settles on the same graph. Colluders are fixed before
    the graph; dealers and survivors may be chosen after it.

    Raises:
        ConfigurationError: a round of this size cannot tolerate so many.
    """
    if colluders < 1 or dropouts < 0 or size <= 2 * dropouts + colluders:
        raise ConfigurationError(
            f"a secure sum of {size} participants cannot assume {colluders} colluders and tolerate {dropouts} dropouts:"
            " colluders must be at least 1, and participants more than colluders plus twice the dropouts"
        )
    complete = Settled(WORD, colluders, None)
    if size <= COMPLETE_UP_TO:
        return complete
    for degree in range(_SPACING, size - 1, _SPACING):
        word = degree * WORD // (size - 1)
        if settled := _protects(word, size, colluders, dropouts):
            return settled
    return complete


def _protects(word: int, size: int, colluders: int, dropouts: int) -> Settled | None:
    """The parameters with edge probability word / 2^32; None if they do not protect."""
    local, crowded = _local_bound(word, size, colluders)
    if not _opens(word, size, dropouts, local):
        return None
    apart = _apart(word, size, colluders, dropouts, local)
    if apart > _chance(FAILURE_BITS + 1):
        return None
    return Settled(word, local, (crowded + apart).bit_length() - _PRECISION)


def _local_bound(word: int, size: int, colluders: int) -> tuple[int, int]:
    """The least bound on colluding neighbours, and the chance (at most 2^-105) that a participant exceeds it."""
    crowded = 0
    for bound, chance in zip(range(colluders, 0, -1), reversed(_binomial(colluders, word)), strict=False):
        if crowded + size * chance > _chance(FAILURE_BITS + 1):
            return bound, crowded
        crowded += size * chance
    return 0, crowded


def _opens(word: int, size: int, dropouts: int, local: int) -> bool:
    """Whether, with `dropouts` gone, all secrets stay recoverable except with probability 2^-20.

    A participant's secrets are recoverable if the neighbours that stayed outnumber those that left by at least local +
    2.
    """
    if (size - 1 - 2 * dropouts) * word < (local + 2) * WORD:
        return False
    fewer = list(accumulate(_binomial(size - 1 - dropouts, word)))
    gone = _binomial(dropouts, word)
    short = sum(chance * fewer[min(lost + local + 1, len(fewer) - 1)] for lost, chance in enumerate(gone))
    return size * short <= _chance(OPENING_BITS) << _PRECISION


def _apart(word: int, size: int, colluders: int, dropouts: int, local: int) -> int:
    """The chance that honest participants split into two parts without an edge, though each has enough neighbours.

    Nobody in a part of a members has more than 2 a + local - 2 neighbours. So either somebody has at most 2 least +
    local - 4 of them, or two parts of at least `least` members have no edge between them. `least` minimises the sum of
    both chances.
    """
    ways = _ways_to_cut(size - colluders, dropouts)
    honest = size - colluders - dropouts
    rest: int = (WORD - word) ** _STEPS
    bits = 32 * _STEPS - rest.bit_length()  # (1 - p)^_STEPS < 2^-bits
    cuts = [1 << max(way + _PRECISION - part * (honest - part) * bits // _STEPS, 0) for part, way in enumerate(ways)]
    larger = list(accumulate(reversed(cuts)))[::-1]
    few = list(accumulate(_binomial(size - 1, word)))
    chances = [
        larger[least] + (size * few[min(2 * least + local - 4, size - 1)] if least > 1 else 0)
        for least in range(1, len(ways))
    ]
    return min(chances, default=_chance(0))


@lru_cache(maxsize=8)
def _ways_to_cut(honest: int, removed: int) -> list[int]:
    """Bit lengths of the number of ways to remove some and cut the rest in two, by the smaller part's size.

    The number is honest! / (part! (left - part)! removed!) with left = honest - removed.
    """
    left = honest - removed
    ways = [comb(honest, removed)]
    for part in range(left // 2):
        ways.append(ways[-1] * (left - part) // (part + 1))
    return [number.bit_length() for number in ways]


def _binomial(trials: int, word: int) -> list[int]:
    """P(k successes of `trials`), k = 0 .. trials, each of probability word / 2^32, in 2^-256 and rounded up.

    The most likely one is exact to the unit; the others follow by their ratios, away from it.
    """
    other = WORD - word
    mode = min((trials + 1) * word // WORD, trials)
    chances = [0] * (trials + 1)
    top: int = comb(trials, mode) * word**mode * other ** (trials - mode)
    chances[mode] = -(-top << _PRECISION >> 32 * trials)
    for k in range(mode, trials):
        chances[k + 1] = -(-chances[k] * (trials - k) * word // ((k + 1) * other))
    for k in range(mode, 0, -1):
        chances[k - 1] = -(-chances[k] * k * other // ((trials - k + 1) * word))
    return chances


def _chance(bits: int) -> int:
    """2^-bits in units of 2^-256."""
    return 1 << (_PRECISION - bits)


def _packed(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack flags along the last axis into bits of 64-bit words."""
    padding = [(0, 0)] * (flags.ndim - 1) + [(0, -flags.shape[-1] % 64)]
    return np.packbits(np.pad(flags, padding), axis=-1).view(np.uint64)
