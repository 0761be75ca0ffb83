"""Files of a package are read as what they are: plain, of a bounded size, and JSON in its one form."""

import stat
from pathlib import Path
from typing import Any

import msgspec

from protocol.errors import ConfigurationError

MOST_BYTES = 2**26


def is_plain(path: Path) -> bool:
    """Whether it is a plain file: no link, no pipe, no device, no folder."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(folder: Path, name: str) -> bytes:
    """The bytes of a file in a package.

    Raises:
        ConfigurationError: it is missing, no plain file, or larger than any.
    """
    path = folder / name
    try:
        if is_plain(path) and path.stat().st_size <= MOST_BYTES:
            return path.read_bytes()
    except OSError:
        pass
    raise ConfigurationError(f"{name} is missing or cannot be read")


def as_json(value: object) -> bytes:
    """The one form of a JSON file in a package."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def read_json(folder: Path, name: str, kind: Any = Any) -> Any:
    """A JSON file, as plain values or as a struct.

    Raises:
        ConfigurationError: as `read_bytes`, or it holds none, or a key twice.
    """
    data = read_bytes(folder, name)
    try:
        plain = msgspec.json.decode(data)
        if as_json(plain) == data:
            return msgspec.convert(plain, type=kind)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError):
        raise ConfigurationError(f"{name} is missing or cannot be read") from None
    raise ConfigurationError(f"{name} is not in its one form: a key is there twice, or it was written by hand")
