"""What a witness decides: whether a curator's checkpoint goes on from the newest one that it has co-signed."""

from pathlib import Path

from expril.audit.witness.keeping import Kept
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import (
    CheckpointError,
    SignedCheckpoint,
    Submission,
    cosign,
    equivocate,
    with_signature,
)
from protocol.ledger.merkle import check_consistency
from protocol.ledger.notes import PLAIN, key_id


class EquivocationError(CheckpointError):
    """A curator signed two checkpoints that cannot both be of one ledger.

    Attributes:
        evidence: the file that proves it to anybody.
    """

    def __init__(self, text: str, evidence: Path) -> None:
        self.evidence = evidence
        super().__init__(text)


def witness(
    submission: Submission, key: SigningKey, state: Kept, *, now: int, trusted: bytes | None = None
) -> SignedCheckpoint:
    """Co-sign a checkpoint, if it fits all that were co-signed before; it is kept before this returns.

    The same checkpoint gets the same co-signature, however often it is shown.

    Args:
        submission: whose signature and handovers were checked by reading it.
        key: the witness's.
        state: what the witness keeps.
        now: the time, in seconds since 1970.
        trusted: a curator's first or present public key, which a person has from the curator itself: a first sight
            needs it.

    Returns:
        The checkpoint, with all signatures that it came with, and the witness's.

    Raises:
        CheckpointError: it does not fit; nothing was co-signed.
        EquivocationError: and both checkpoints are kept.
        ConfigurationError: a first sight without trust, a proof from another size than is needed, or the state or the
            clock is wrong.
    """
    signed = submission.signed
    checkpoint = signed.checkpoint
    if key.public in {curator for _, curator in signed.curators}:
        raise ConfigurationError("this is the curator's own key, whose co-signature proves nothing; use another key")
    if trusted is not None and trusted not in (checkpoint.first, signed.curator):
        raise ConfigurationError(f"the checkpoint is of the curator {checkpoint.first.hex()}, not of the one you named")
    sizes = state.sizes(checkpoint.first)
    if not sizes and trusted is None:
        raise ConfigurationError(
            f"no checkpoint of the curator {checkpoint.first.hex()} was co-signed here yet; ask the curator for its "
            "public key, by another way, and name it: --curator KEY"
        )
    if checkpoint.size in sizes:
        return _again(signed, state)
    if sizes:
        _check_goes_on(submission, state, sizes[-1], now)
    signature = cosign(signed, key, now)
    # Lines of others are not kept: whoever sends a checkpoint could add any number.
    identity = key_id(checkpoint.origin, PLAIN, signed.curator)
    own = tuple(line for line in signed.note.signatures if (line.name, line.key) == (checkpoint.origin, identity))
    state.keep(signed._replace(note=signed.note._replace(signatures=(own[0], signature))))
    return with_signature(signed, signature)


def _again(signed: SignedCheckpoint, state: Kept) -> SignedCheckpoint:
    """What was co-signed before of this size."""
    checkpoint = signed.checkpoint
    kept, signature, _ = state.checkpoint(checkpoint.first, checkpoint.size)
    if equivocate(kept.checkpoint, checkpoint):
        path = state.accuse(kept, signed)
        raise EquivocationError(
            f"the curator {checkpoint.first.hex()} signed two different ledgers of {checkpoint.size} entries: this "
            f"checkpoint is not co-signed, and {path} proves it to anybody",
            path,
        )
    if kept.note.text != signed.note.text:
        raise CheckpointError(
            f"a checkpoint of {checkpoint.size} entries was co-signed whose text names other keys; this one is not"
        )
    return with_signature(signed, signature)


def _check_goes_on(submission: Submission, state: Kept, newest: int, now: int) -> None:
    """Raise unless a checkpoint goes on from the newest that was co-signed."""
    signed = submission.signed
    checkpoint = signed.checkpoint
    kept, _, at = state.checkpoint(checkpoint.first, newest)
    if checkpoint.size < newest:
        raise CheckpointError(
            f"{newest} entries of this ledger were co-signed already, and this checkpoint is of {checkpoint.size}: it "
            "is an older one, or the ledger was rolled back"
        )
    if submission.old != newest:
        raise ConfigurationError(
            f"the checkpoint proves to go on from {submission.old} entries, and {newest} were co-signed here; make it "
            f"anew: expril ledger checkpoint --since {newest}"
        )
    old_root = kept.checkpoint.root
    if not check_consistency(newest, old_root, checkpoint.size, checkpoint.root, submission.proof):
        raise CheckpointError(
            f"the proof does not show that the ledger still holds the {newest} entries that were co-signed: it was "
            "rolled back or edited, or the proof was changed on its way"
        )
    before = len(kept.curators)
    if signed.curators[:before] != kept.curators or any(start < newest for start, _ in signed.curators[before:]):
        raise CheckpointError(
            f"the checkpoint names other keys for the {newest} entries that were co-signed: only the key that signed "
            "them can hand the ledger over"
        )
    if now < at:
        raise ConfigurationError("this machine's clock is behind the newest co-signature; set it right")
