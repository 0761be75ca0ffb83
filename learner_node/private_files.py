"""Files that only their owner may read, and files that are there whole or not at all."""

import os
from pathlib import Path

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter, where it is absent."""
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a file of mode 0600, whole or not at all, on disk when this returns; OSError."""
    half = path.with_name(f"{path.name}.half")
    half.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
