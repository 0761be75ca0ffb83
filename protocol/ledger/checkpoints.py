"""Checkpoints: how many entries a ledger has and the root over them, signed by its curator and co-signed by witnesses.

The formats are C2SP's, so that existing witnesses and tools can read ours. A checkpoint is a tlog-checkpoint, signed by
the curator (Ed25519). A co-signature is a tlog-cosignature of version 1. What a curator hands to a witness is the body
of tlog-witness's add-checkpoint: the older size, a consistency proof, the checkpoint. The text of a checkpoint:

    expril/ledger/<the curator's first public key>       the origin: one ledger a key
    <number of entries>
    <root, base64>
    head <hash of the last entry> <its inclusion proof>
    handover <index> <entry> <signature> <its inclusion proof>        one a change of the curator's key, in order

The lines after the third are extension lines. The root and the earlier keys prove them, so whoever knows the curator's
first key can check a checkpoint without the ledger.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from protocol.envelopes import SigningKey, check_public_key, is_signed
from protocol.errors import ConfigurationError, ExprilError
from protocol.ledger.entries import EntryKind, LedgerCorruptError, decode_entry, entry_hash, head_is_signed
from protocol.ledger.merkle import HASH_BYTES, MOST_PROOF, Tree, check_inclusion
from protocol.ledger.notes import (
    COSIGNATURE,
    MOST_CHARACTERS,
    PLAIN,
    Note,
    Signature,
    from_base64,
    key_id,
    read_note,
    to_base64,
)
from protocol.strict_json import decode_json

ORIGIN, WITNESS = "expril/ledger/", "expril/witness/"
"""Prefixes of public keys in hexadecimal, for names of ledgers and of witnesses. No other text that a curator signs
begins with the first, so a checkpoint and a signed message, head or card never pass for each other."""
MOST_ENTRIES = 2**48
MOST_TIME = 2**63 - 1
_TIME = 8


class CheckpointError(ExprilError):
    """A checkpoint does not fit its signatures and proofs, the ledger, or an older checkpoint."""

    kind = "ledger"


class HandedOver(NamedTuple):
    """A HANDOVER entry, in which the curator's key names the key that takes its place."""

    place: int  # index of the entry; the next key signs from the one after it on
    body: bytes  # encoded
    signature: bytes  # over its place and hash
    proof: tuple[bytes, ...]  # that the entry is in the tree


class Checkpoint(NamedTuple):
    """The state of a ledger that a curator signs."""

    first: bytes  # the curator's first public key
    size: int  # number of entries, at least 1
    root: bytes  # over their hashes
    head: bytes  # hash of the last one
    head_proof: tuple[bytes, ...]  # that it is
    handovers: tuple[HandedOver, ...] = ()  # all of those before the last entry, in order

    @property
    def origin(self) -> str:
        """The ledger's name."""
        return ORIGIN + self.first.hex()

    @property
    def text(self) -> str:
        """The text of the checkpoint, which is signed."""
        lines = [
            self.origin,
            str(self.size),
            to_base64(self.root),
            f"head {to_base64(self.head)} {_path(self.head_proof)}",
        ]
        for handed_over in self.handovers:
            entry = f"{to_base64(handed_over.body)} {to_base64(handed_over.signature)}"
            lines.append(f"handover {handed_over.place} {entry} {_path(handed_over.proof)}")
        return "".join(f"{line}\n" for line in lines)


class SignedCheckpoint(NamedTuple):
    """A checkpoint whose signature and proofs were checked."""

    checkpoint: Checkpoint  # what it says
    # (index, public key) of who signs entries from there on, as far as the checkpoint goes; the last one signed it
    curators: tuple[tuple[int, bytes], ...]
    note: Note  # with all signatures, also of others

    @property
    def curator(self) -> bytes:
        """Public key of the signing curator."""
        return self.curators[-1][1]


class Submission(NamedTuple):
    """What a curator hands to a witness."""

    old: int  # size of the older checkpoint; 0 where there is none
    proof: tuple[bytes, ...]  # that it begins this one
    signed: SignedCheckpoint  # the checkpoint

    def __str__(self) -> str:
        proof = "".join(f"{to_base64(node)}\n" for node in self.proof)
        return f"old {self.old}\n{proof}\n{self.signed.note}"


def make_checkpoint(
    tree: Tree, head: bytes, first: bytes, handovers: Sequence[tuple[int, bytes, bytes]] = ()
) -> Checkpoint:
    """The checkpoint of a whole ledger.

    `tree` is over the entries' hashes, of which `head` is the last. `first` is the curator's first public key.
    `handovers` are (index, encoded entry, signature) of the HANDOVER entries, in order.
    """
    proven = (HandedOver(*handover, tree.inclusion_proof(handover[0])) for handover in handovers)
    return Checkpoint(first, tree.size, tree.root(), head, tree.inclusion_proof(tree.size - 1), tuple(proven))


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> SignedCheckpoint:
    """Sign a checkpoint as its curator, after the checks that a reader makes.

    Raises CheckpointError: the key is not the one that signs a ledger of this size, or a proof in it does not fit.
    """
    signature = Signature(
        checkpoint.origin, key_id(checkpoint.origin, PLAIN, key.public), key.sign(checkpoint.text.encode())
    )
    return check_checkpoint(Note(checkpoint.text, (signature,)), where="the new checkpoint")


def read_checkpoint(written: str, *, where: str) -> SignedCheckpoint:
    """Read and check a checkpoint, or the one in a submission. Co-signatures are not checked: `witnesses_of` does it.

    `where` names the text in errors.

    Raises:
        ConfigurationError: the text is not a checkpoint in its one form.
        CheckpointError: the curator's signature, or a proof in it, does not fit.
    """
    if written.startswith("old "):
        return read_submission(written, where=where).signed
    return check_checkpoint(read_note(written, where=where), where=where)


def read_submission(written: str, *, where: str) -> Submission:
    """Read what a curator hands to a witness; a checkpoint alone has no older one. Raises as `read_checkpoint`.

    The consistency proof is not checked: that needs the older root.
    """
    if not written.startswith("old "):
        return Submission(0, (), read_checkpoint(written, where=where))
    top, _, rest = written.partition("\n\n")
    old, *lines = top.removeprefix("old ").split("\n")
    proof = tuple(from_base64(line) for line in lines)
    fits = len(written) <= 2 * MOST_CHARACTERS and len(proof) <= MOST_PROOF
    if not fits or _number(old) is None or any(len(node) != HASH_BYTES for node in proof):
        raise ConfigurationError(f"{where} does not begin with the size of an older checkpoint and a proof")
    return Submission(int(old), proof, read_checkpoint(rest, where=where))


def check_checkpoint(note: Note, *, where: str) -> SignedCheckpoint:
    """Check a note as `read_checkpoint` does."""
    checkpoint = _parsed(note.text, where)
    curators = _check_proofs(checkpoint, where)
    newest = curators[-1][1]
    identity = key_id(checkpoint.origin, PLAIN, newest)
    signatures = [
        signature for signature in note.signatures if (signature.name, signature.key) == (checkpoint.origin, identity)
    ]
    if not signatures or not all(is_signed(newest, signature.content, note.text.encode()) for signature in signatures):
        raise CheckpointError(f"{where} is not signed by {newest.hex()}, whose ledger it is of")
    return SignedCheckpoint(checkpoint, curators, note)


def witness_name(key: bytes) -> str:
    """The name of a witness of ours, which holds its public key."""
    return WITNESS + key.hex()


def cosign(signed: SignedCheckpoint, key: SigningKey, at: int) -> Signature:
    """A witness's signature that `signed` was its newest checkpoint of the ledger at time `at`, in seconds since 1970.

    The witness vouches that the checkpoint is consistent with all older ones that it signed, and must have checked it.
    """
    name = witness_name(key.public)
    content = at.to_bytes(_TIME, "big") + key.sign(_cosigned(at, signed.note.text))
    return Signature(name, key_id(name, COSIGNATURE, key.public), content)


def with_signature(signed: SignedCheckpoint, signature: Signature) -> SignedCheckpoint:
    """The same checkpoint with one more signature, unless it is already there."""
    if signature in signed.note.signatures:
        return signed
    note = signed.note._replace(signatures=(*signed.note.signatures, signature))
    return signed._replace(note=note)


def witnesses_of(signed: SignedCheckpoint, other_keys: Mapping[str, bytes] | None = None) -> dict[bytes, int]:
    """Return the co-signers of a checkpoint: public key -> newest time. The caller must know whose keys these are.

    `other_keys` maps names to public keys for witnesses whose names do not contain the key. Raises CheckpointError: a
    signature line of a known witness does not fit.
    """
    times: dict[bytes, int] = {}
    for line in signed.note.signatures:
        public = (other_keys or {}).get(line.name) or _named(line.name)
        if public is None or line.key != key_id(line.name, COSIGNATURE, public):
            continue
        at = int.from_bytes(line.content[:_TIME], "big")
        if at > MOST_TIME or not is_signed(public, line.content[_TIME:], _cosigned(at, signed.note.text)):
            raise CheckpointError(f"the co-signature of {line.name} does not fit the checkpoint: one was changed")
        times[public] = max(at, times.get(public, 0))
    return times


class Equivocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A proof that a curator forked its ledger: it signed two checkpoints of the same size with different roots."""

    checkpoints: tuple[str, str]  # the two, as they are written
    format: Literal["expril equivocation 1"] = "expril equivocation 1"  # name and version


def equivocate(first: Checkpoint, second: Checkpoint) -> bool:
    """Whether two checkpoints of one curator contradict each other: one size, two roots."""
    return (first.first, first.size) == (second.first, second.size) and first.root != second.root


def read_equivocation(data: bytes, *, where: str) -> tuple[SignedCheckpoint, SignedCheckpoint]:
    """Read an equivocation, and check that it is one.

    Raises:
        ConfigurationError: the text is no equivocation.
        CheckpointError: it does not prove that the curator forked its ledger.
    """
    try:
        evidence = decode_json(data, Equivocation, where=where)
    except ConfigurationError:
        raise ConfigurationError(f"{where} is no evidence of an equivocation; ask for the file anew") from None
    first, second = (
        read_checkpoint(written, where=f"checkpoint {place} of {where}")
        for place, written in enumerate(evidence.checkpoints, start=1)
    )
    if not equivocate(first.checkpoint, second.checkpoint):
        raise CheckpointError(f"{where} proves nothing: its checkpoints may be of one ledger")
    return first, second


def _parsed(text: str, where: str) -> Checkpoint:
    """The checkpoint of a note's text, in its one form."""
    lines = text.split("\n")
    origin, size, root, head, *more = [*lines[:-1], "", "", "", ""][: max(4, len(lines) - 1)]
    try:
        checkpoint = Checkpoint(
            bytes.fromhex(origin.removeprefix(ORIGIN)),
            _number(size) or 0,
            from_base64(root),
            *_fields(head, "head", HASH_BYTES),
            tuple(_handover(line) for line in more),
        )
        check_public_key(checkpoint.first)
    except (ValueError, ConfigurationError):
        checkpoint = None
    if checkpoint is None or checkpoint.text != text or not checkpoint.size or len(checkpoint.root) != HASH_BYTES:
        raise ConfigurationError(f"{where} is no checkpoint of a ledger of this program; ask for it anew")
    return checkpoint


def _handover(line: str) -> HandedOver:
    word, index, body, signature, path = line.split(" ")
    if word != "handover" or _number(index) is None:
        raise ValueError(line)
    return HandedOver(int(index), from_base64(body), from_base64(signature), _nodes(path))


def _fields(line: str, expected: str, length: int) -> tuple[bytes, tuple[bytes, ...]]:
    word, value, path = line.split(" ")
    decoded = from_base64(value)
    if word != expected or len(decoded) != length:
        raise ValueError(line)
    return decoded, _nodes(path)


def _check_proofs(checkpoint: Checkpoint, where: str) -> tuple[tuple[int, bytes], ...]:
    """Check the proofs of head and handovers; return from which entry on each key signed."""
    size, root = checkpoint.size, checkpoint.root
    if not check_inclusion(checkpoint.head, size - 1, size, root, checkpoint.head_proof):
        raise CheckpointError(f"{where} names a last entry that is not the last one of its tree")
    curators = [(0, checkpoint.first)]
    for handed_over in checkpoint.handovers:
        try:
            entry = decode_entry(handed_over.body)
        except LedgerCorruptError:
            raise CheckpointError(f"{where} holds a handover that cannot be read") from None
        key, hashed = curators[-1][1], entry_hash(handed_over.body)
        fits = entry.kind is EntryKind.HANDOVER and entry.index == handed_over.place
        in_order = curators[-1][0] <= handed_over.place < size - 1 and entry.learner not in {
            earlier_key for _, earlier_key in curators
        }
        signed = head_is_signed(key, handed_over.signature, handed_over.place, hashed)
        if not (
            fits and in_order and signed and check_inclusion(hashed, handed_over.place, size, root, handed_over.proof)
        ):
            raise CheckpointError(
                f"{where} holds a handover, entry {handed_over.place}, that {key.hex()} did not sign there"
            )
        curators.append((handed_over.place + 1, entry.learner))
    return tuple(curators)


def _cosigned(at: int, text: str) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def _named(name: str) -> bytes | None:
    """The public key in a witness's name."""
    text = name.removeprefix(WITNESS)
    try:
        key = bytes.fromhex(text)
    except ValueError:
        return None
    return key if witness_name(key) == name and len(key) == HASH_BYTES else None


def _number(text: str) -> int | None:
    """Read a number of entries in its one form."""
    plain = text.isascii() and text.isdigit() and len(text) < 16
    return int(text) if plain and str(int(text)) == text and int(text) <= MOST_ENTRIES else None


def _path(proof: tuple[bytes, ...]) -> str:
    return to_base64(b"".join(proof)) or "-"


def _nodes(path: str) -> tuple[bytes, ...]:
    data = b"" if path == "-" else from_base64(path)
    return tuple(data[start : start + HASH_BYTES] for start in range(0, len(data), HASH_BYTES))
