"""A witness of ledgers. It co-signs a curator's checkpoint only if that extends the newest one that it co-signed.

It keeps every checkpoint that it has co-signed, by curator, in a folder:

    STATE/lock                                  held by the process that works
    STATE/<curator's first key>/                one folder a curator
      000000000000120.checkpoint                co-signed, of 120 entries: a signed note
      equivocation-120-<root>.json              two checkpoints of one size; proves itself

A file is completely on the disk before the co-signature in it is given out. No file is ever changed.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from expril.files import read_text_file, sync_folder, write_new
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.ledger.checkpoints import (
    CheckpointError,
    Equivocation,
    SignedCheckpoint,
    Submission,
    cosign,
    equivocate,
    read_checkpoint,
    with_signature,
    witness_name,
    witnesses_of,
)
from protocol.ledger.merkle import check_consistency
from protocol.ledger.notes import PLAIN, Signature, key_id

_SUFFIX = ".checkpoint"
_DIGITS = 15


class WitnessStore(Protocol):
    """The place where a witness keeps the checkpoints that it has co-signed."""

    def sizes(self, curator: bytes) -> list[int]:
        """Return the sizes of the checkpoints that were co-signed for a curator, rising."""

    def checkpoint(self, curator: bytes, size: int) -> tuple[SignedCheckpoint, Signature, int]:
        """Return a co-signed checkpoint, the line of the co-signature, and its time."""

    def keep(self, signed: SignedCheckpoint) -> None:
        """Durably keep a checkpoint that this witness has co-signed."""

    def accuse(self, first: SignedCheckpoint, second: SignedCheckpoint) -> Path:
        """Keep two checkpoints that cannot both be of one ledger in a file that proves it, and return its path."""


class MemoryState:
    """A store in memory, for simulations.

    `key`: the witness's public key.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._kept: dict[tuple[bytes, int], SignedCheckpoint] = {}

    def sizes(self, curator: bytes) -> list[int]:
        """See `WitnessStore`."""
        return sorted(size for owner, size in self._kept if owner == curator)

    def checkpoint(self, curator: bytes, size: int) -> tuple[SignedCheckpoint, Signature, int]:
        """See `WitnessStore`."""
        return _co_signed(self._kept[curator, size], self._key, f"the checkpoint of {size} entries")

    def keep(self, signed: SignedCheckpoint) -> None:
        """See `WitnessStore`."""
        self._kept[signed.checkpoint.first, signed.checkpoint.size] = signed

    def accuse(self, first: SignedCheckpoint, second: SignedCheckpoint) -> Path:
        """As `WitnessStore` says, but nothing is written."""
        return Path(f"equivocation-{first.checkpoint.size}-{second.checkpoint.root.hex()[:16]}.json")


class WitnessState:
    """The folder of a witness, as `open_state` opens it.

    `folder`: the existing folder, which is locked. `key`: the public key of the only witness that may use it.
    """

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key

    def sizes(self, curator: bytes) -> list[int]:
        """See `WitnessStore`."""
        names = [path.name.removesuffix(_SUFFIX) for path in self._place(curator).glob(f"*{_SUFFIX}")]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def checkpoint(self, curator: bytes, size: int) -> tuple[SignedCheckpoint, Signature, int]:
        """See `WitnessStore`.

        Raises:
            ConfigurationError: the file was changed, or another witness's key co-signed it.
        """
        path = self._file(curator, size)
        signed = read_checkpoint(read_text_file(path, "checkpoint"), where=str(path))
        if (signed.checkpoint.first, signed.checkpoint.size) != (curator, size):
            raise ConfigurationError(f"{path} is not the checkpoint that its name says: never change a state")
        return _co_signed(signed, self._key, str(path))

    def keep(self, signed: SignedCheckpoint) -> None:
        """See `WitnessStore`.

        Raises:
            ConfigurationError: the checkpoint cannot be written.
        """
        checkpoint = signed.checkpoint
        place = self._place(checkpoint.first)
        if not place.exists():
            place.mkdir(mode=0o755)
            sync_folder(self._folder)
        for leftover in place.glob(".*.new"):  # of a process that was killed
            leftover.unlink()
        content = str(signed.note).encode()
        write_new(
            self._file(checkpoint.first, checkpoint.size), content, rule="a witness signs one of a size", public=True
        )

    def accuse(self, first: SignedCheckpoint, second: SignedCheckpoint) -> Path:
        """See `WitnessStore`."""
        root = second.checkpoint.root.hex()[:16]
        path = self._place(first.checkpoint.first) / f"equivocation-{first.checkpoint.size}-{root}.json"
        if not path.exists():
            evidence = Equivocation((str(first.note), str(second.note)))
            write_new(path, msgspec.json.encode(evidence), rule="evidence is never overwritten", public=True)
        return path

    def _place(self, curator: bytes) -> Path:
        return self._folder / curator.hex()

    def _file(self, curator: bytes, size: int) -> Path:
        return self._place(curator) / f"{size:0{_DIGITS}}{_SUFFIX}"


@contextmanager
def open_state(folder: Path, key: bytes) -> Iterator[WitnessState]:
    """Open the folder of a witness for one process, and make it if it is missing.

    `folder`: the witness's folder. If an older copy of it is restored, the witness may contradict itself. `key`: the
    witness's public key.

    Raises:
        ConfigurationError: the folder cannot be written, or another process works with it.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigurationError(f"cannot use the folder {folder} as a witness's state: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"another process works with the state {folder}; try again") from None
        sync_folder(folder.parent)
        yield WitnessState(folder, key)
    finally:
        os.close(lock)


def _co_signed(signed: SignedCheckpoint, key: bytes, where: str) -> tuple[SignedCheckpoint, Signature, int]:
    at = witnesses_of(signed).get(key)
    if at is None:
        raise ConfigurationError(f"{where} was not co-signed by {key.hex()}; give each key a state of its own")
    return signed, next(line for line in signed.note.signatures if line.name == witness_name(key)), at


class EquivocationError(CheckpointError):
    """A curator signed two checkpoints that cannot both be of one ledger."""

    def __init__(self, text: str, evidence: Path) -> None:
        self.evidence = evidence  # the file that proves it to anybody
        super().__init__(text)


def witness(
    submission: Submission, key: SigningKey, state: WitnessStore, *, now: int, trusted: bytes | None = None
) -> SignedCheckpoint:
    """Co-sign a checkpoint if it fits all that were co-signed before, and keep it durably.

    The same checkpoint gets the same co-signature, however often it is shown.

    `submission`: the checkpoint; reading it has checked its signature and handovers. `state`: the witness's store.
    `now`: the time, in seconds since 1970. `trusted`: a curator's first or present public key, which a person got from
    the curator; needed for a curator's first checkpoint.

    Returns:
        The checkpoint with all signatures that it came with, and the witness's.

    Raises:
        CheckpointError: the checkpoint does not fit; nothing was co-signed.
        EquivocationError: the curator signed two contradicting checkpoints; both are kept.
        ConfigurationError: the curator is new and not trusted, the proof starts from another size than is needed, or
            the state or the clock is wrong.
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
    # Lines of others are not kept: whoever sends a checkpoint could add any number
    identity = key_id(checkpoint.origin, PLAIN, signed.curator)
    curator_lines = tuple(
        line for line in signed.note.signatures if (line.name, line.key) == (checkpoint.origin, identity)
    )
    state.keep(signed._replace(note=signed.note._replace(signatures=(curator_lines[0], signature))))
    return with_signature(signed, signature)


def _again(signed: SignedCheckpoint, state: WitnessStore) -> SignedCheckpoint:
    """Add the earlier co-signature on a checkpoint of this size, if the two agree."""
    checkpoint = signed.checkpoint
    earlier, signature, _ = state.checkpoint(checkpoint.first, checkpoint.size)
    if equivocate(earlier.checkpoint, checkpoint):
        path = state.accuse(earlier, signed)
        raise EquivocationError(
            f"the curator {checkpoint.first.hex()} signed two different ledgers of {checkpoint.size} entries: this "
            f"checkpoint is not co-signed, and {path} proves it to anybody",
            path,
        )
    if earlier.note.text != signed.note.text:
        raise CheckpointError(
            f"a checkpoint of {checkpoint.size} entries was co-signed whose text names other keys; this one is not"
        )
    return with_signature(signed, signature)


def _check_goes_on(submission: Submission, state: WitnessStore, newest: int, now: int) -> None:
    """Raise an error unless a checkpoint extends the newest that was co-signed."""
    signed = submission.signed
    checkpoint = signed.checkpoint
    earlier, _, at = state.checkpoint(checkpoint.first, newest)
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
    old_root = earlier.checkpoint.root
    if not check_consistency(newest, old_root, checkpoint.size, checkpoint.root, submission.proof):
        raise CheckpointError(
            f"the proof does not show that the ledger still holds the {newest} entries that were co-signed: it was "
            "rolled back or edited, or the proof was changed on its way"
        )
    before = len(earlier.curators)
    if signed.curators[:before] != earlier.curators or any(start < newest for start, _ in signed.curators[before:]):
        raise CheckpointError(
            f"the checkpoint names other keys for the {newest} entries that were co-signed: only the key that signed "
            "them can hand the ledger over"
        )
    if now < at:
        raise ConfigurationError("this machine's clock is behind the newest co-signature; set it right")
