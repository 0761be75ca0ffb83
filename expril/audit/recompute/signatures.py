"""Which signatures of a ledger are checked, and what those that do not fit say.

An Ed25519 verification takes longer than all else that an entry needs, so not every signature of a long ledger is
checked. The newest signature of each key covers all entries before it: the chain under it cannot be changed. The others
of an export are covered by the digests of its blocks.
"""

import os
import secrets
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from expril.audit.recompute.replay import Replayed
from protocol.ledger.heads import head_is_signed

MOST_ALL = 50_000
"""Entries up to which every signature is checked."""
SAMPLE = 2_000
"""Signatures drawn at random from a longer ledger."""
_AT_A_TIME = 256


def to_check(replayed: Replayed, named: Iterable[int], damaged: Iterable[tuple[int, int]], *, every: bool) -> list[int]:
    """Indices of the entries whose signatures are checked.

    Args:
        replayed: the ledger.
        named: entries that a receipt or a witnessed head names.
        damaged: (first, last) entry of parts of the file that are not as they were written.
        every: all of them.
    """
    length = len(replayed)
    if every or length <= MOST_ALL:
        return list(range(length))
    newest = [start - 1 for start, _ in replayed.keys[1:]] + [length - 1]
    chosen = {0, *newest, *replayed.handovers, *replayed.starts[-MOST_ALL:], *named}
    chosen.update(index for first, last in damaged for index in range(first, last + 1))
    chosen.update(secrets.SystemRandom().sample(range(length), SAMPLE))
    return sorted(index for index in chosen if 0 <= index < length)


def unsigned(replayed: Replayed, indices: Collection[int], signer: bytes = b"") -> list[int]:
    """Of these entries, those whose signature is not their key's.

    Args:
        replayed: the ledger.
        indices: which.
        signer: that must have signed all; empty takes the key that the ledger names at each place.
    """
    spans = [*replayed.keys, (len(replayed), b"")]
    tasks: list[tuple[bytes, list[int]]] = []
    for (start, key), (end, _) in pairwise(spans):
        own = [index for index in indices if start <= index < end]
        tasks += [(signer or key, own[place : place + _AT_A_TIME]) for place in range(0, len(own), _AT_A_TIME)]

    def check(task: tuple[bytes, list[int]]) -> list[int]:
        key, places = task
        return [
            place
            for place in places
            if not head_is_signed(key, replayed.signatures[place], place, replayed.hashes[place])
        ]

    # The library lets go of the interpreter's lock while it verifies.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        return [place for found in pool.map(check, tasks) for place in found]
