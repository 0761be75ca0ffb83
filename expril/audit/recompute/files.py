"""A run's files as they lie there, read by the auditor's own code."""

import hashlib
from pathlib import Path

from protocol.run_index import is_listed


def read_plain(path: Path) -> bytes:
    """Content of a plain file; OSError for anything else, which might never end, and for names that none can have."""
    try:
        if path.is_file():
            return path.read_bytes()
    except ValueError as error:
        raise OSError(str(error)) from None
    raise FileNotFoundError(str(path))


def listed_files(folder: Path) -> dict[str, Path]:
    """Path inside a run's folder -> path, of every file that its list should have."""
    there = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    return {name: path for name, path in there.items() if is_listed(name) and (path.is_symlink() or not path.is_dir())}


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; "" where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
