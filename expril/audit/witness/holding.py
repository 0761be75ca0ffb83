"""A ledger's entries, held against checkpoints that its curator signed and witnesses co-signed."""

import itertools
from collections.abc import Collection, Mapping, Sequence

import msgspec

from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import CheckpointError, SignedCheckpoint, equivocate, read_checkpoint, witnesses_of
from protocol.ledger.merkle import Tree


class Contradiction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A checkpoint that the curator signed and that is not of these entries.

    Attributes:
        name: of the checkpoint.
        size: number of its entries.
        first, last: indices of the entries among which the first that was changed or is missing lies.
        co_signed: whether a witness co-signed it.
        text: one sentence, for people.
    """

    name: str
    size: int
    first: int
    last: int
    co_signed: bool
    text: str


class WitnessFindings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What checkpoints say about a list of entries.

    Attributes:
        entries: how many there are.
        witnessed: so many of them, from the first on, are as a witness has co-signed; what follows is unwitnessed.
        signed: the same of checkpoints that may have no co-signature.
        witnesses: public key -> up to how many entries it has co-signed.
        contradicted: checkpoints that are not of these entries.
        equivocations: (name, name, size): two checkpoints of one size that the curator signed, with two roots.
        unverified: (name, why): cannot be read, another ledger's, or with a signature that does not fit; they say
            nothing about these entries.
    """

    entries: int
    witnessed: int = 0
    signed: int = 0
    witnesses: Mapping[str, int] = {}
    contradicted: tuple[Contradiction, ...] = ()
    equivocations: tuple[tuple[str, str, int], ...] = ()
    unverified: tuple[tuple[str, str], ...] = ()

    @property
    def in_order(self) -> bool:
        """Whether no checkpoint contradicts the entries, nor another one."""
        return not self.contradicted and not self.equivocations


def hold(
    hashes: Sequence[bytes],
    curators: Sequence[tuple[int, bytes]],
    checkpoints: Mapping[str, str],
    *,
    witnesses: Collection[bytes] | None = None,
    known: Mapping[str, bytes] | None = None,
) -> WitnessFindings:
    """Hold a ledger's entries against checkpoints.

    A rollback or an edit up to the newest checkpoint is found. Nothing is known of what comes after it.

    Args:
        hashes: `entries.entry_hash` of every entry, by index.
        curators: (index, public key) of who signs from that entry on, as `Account.curators` has it; the first is (0,
            the curator's first key), and names the ledger.
        checkpoints: name, such as a file's -> the text; with or without co-signatures.
        witnesses: public keys of the witnesses that are trusted. None takes every one whose signature fits, so that a
            curator may have made the witness itself: then say whose keys were not checked. The curator's own never
            count.
        known: name -> public key of witnesses whose names do not hold it, as those of other programs.

    Returns:
        What was found; no checkpoint raises.
    """
    tree = Tree(hashes)
    unverified: list[tuple[str, str]] = []
    read: dict[str, SignedCheckpoint] = {}
    co_signers: dict[str, list[bytes]] = {}
    for name, written in checkpoints.items():
        try:
            signed = read_checkpoint(written, where=name)
            by = witnesses_of(signed, known)
        except (ConfigurationError, CheckpointError) as error:
            unverified.append((name, str(error)))
            continue
        if not curators or signed.checkpoint.first != curators[0][1]:
            unverified.append((name, f"{name} is of another ledger, {signed.checkpoint.origin}"))
            continue
        read[name] = signed
        own = {key for _, key in (*curators, *signed.curators)}
        co_signers[name] = [key for key in by if key not in own and (witnesses is None or key in witnesses)]
    agreeing = {name: signed for name, signed in read.items() if _agrees(signed, tree, curators)}
    sizes = {name: signed.checkpoint.size for name, signed in agreeing.items()}
    by_witness: dict[str, int] = {}
    for name, size in sizes.items():
        for key in co_signers[name]:
            by_witness[key.hex()] = max(size, by_witness.get(key.hex(), 0))
    return WitnessFindings(
        entries=tree.size,
        witnessed=max(by_witness.values(), default=0),
        signed=max(sizes.values(), default=0),
        witnesses=by_witness,
        contradicted=tuple(
            _contradiction(name, signed, tree, _common(name, sizes, co_signers), co_signed=bool(co_signers[name]))
            for name, signed in read.items()
            if name not in agreeing
        ),
        equivocations=tuple(
            (one, other, read[one].checkpoint.size)
            for one, other in itertools.combinations(read, 2)
            if equivocate(read[one].checkpoint, read[other].checkpoint)
        ),
        unverified=tuple(unverified),
    )


def _agrees(signed: SignedCheckpoint, tree: Tree, curators: Sequence[tuple[int, bytes]]) -> bool:
    size = signed.checkpoint.size
    return size <= tree.size and tree.root(size) == signed.checkpoint.root and _keys_agree(signed, curators)


def _keys_agree(signed: SignedCheckpoint, curators: Sequence[tuple[int, bytes]]) -> bool:
    """Whether the key that signed is the one of its time: none that had handed the ledger over."""
    return signed.curators == tuple(each for each in curators if each[0] < signed.checkpoint.size)


def _common(name: str, agreeing: Mapping[str, int], co_signers: Mapping[str, Collection[bytes]]) -> Collection[int]:
    """Sizes of the agreeing checkpoints that begin another one, by the word of a witness who co-signed both."""
    own = set(co_signers[name])
    return [size for other, size in agreeing.items() if own & set(co_signers[other])]


def _contradiction(
    name: str, signed: SignedCheckpoint, tree: Tree, common: Collection[int], *, co_signed: bool
) -> Contradiction:
    size = signed.checkpoint.size
    first = max((other for other in common if other < size), default=0)
    last = size - 1
    if size > tree.size:
        text = f"entries from {tree.size} to {last} are missing: rolled back, or an older export"
        last = tree.size
    elif tree.root(size) == signed.checkpoint.root:
        first, text = last, f"it was signed by {signed.curator.hex()}, which was not the ledger's key at entry {last}"
    else:
        text = f"an entry from {first} to {last} is not the one that was there: edited, or another branch"
    return Contradiction(
        name=name, size=size, first=first, last=last, co_signed=co_signed, text=f"{name}, of {size} entries: {text}"
    )
