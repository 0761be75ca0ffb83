"""Writes the signed list of the files that a run or study left; `protocol.run_index` defines its content."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from protocol.envelopes import SigningKey
from protocol.run_index import TRANSCRIPTS, Index, is_listed, sign_index


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listed_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file that the index lists, by its path inside the folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()]
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: file_digest(path) for name, path in names.items() if is_listed(name)}


def save_index(index: Index, signers: Mapping[str, SigningKey], folder: Path) -> None:
    """Write the index and its learners' signatures into `folder/transcripts`. `signers` maps learners to keys."""
    for name, data in sign_index(index, signers).items():
        (folder / TRANSCRIPTS / name).write_bytes(data)
