"""The signed list of what a run or a study left, written; `protocol.run_index` says what is in it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from protocol.envelopes import SigningKey
from protocol.run_index import TRANSCRIPTS, Index, is_listed, sign_index


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listed_digests(folder: Path) -> dict[str, str]:
    """Path inside the folder -> SHA-256, of every file that the list has."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()]
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: file_digest(path) for name, path in names.items() if is_listed(name)}


def save_index(index: Index, signers: Mapping[str, SigningKey], folder: Path) -> None:
    """Write the list and the signatures of its learners into `folder/transcripts`.

    Args:
        index: the list.
        signers: learner -> key.
        folder: of the run.
    """
    for name, data in sign_index(index, signers).items():
        (folder / TRANSCRIPTS / name).write_bytes(data)
