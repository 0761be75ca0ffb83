"""Finished cells on disk: one JSON line each, appended and synced, so that a killed run loses nothing it finished."""

import json
import os
from collections.abc import Hashable, Mapping
from fractions import Fraction
from io import FileIO
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, Protocol, Self, TypeVar, get_origin

import msgspec
import numpy as np

from protocol.errors import ConfigurationError

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes apart there
    fcntl = None  # type: ignore[assignment]


class Cell(Protocol):
    """One finished cell: a msgspec struct with a key."""

    @property
    def key(self) -> Hashable:
        """Unique in its file."""


class Task(NamedTuple):
    """A cell to be computed; its key."""

    problem: str  # the data set
    maker: str  # the strategy, generator or setting that makes the cell
    epsilon: str  # exact text, "inf" where nothing is private
    seed: int  # of the split and of the maker's own choices

    def __str__(self) -> str:
        """For people, in progress and errors."""
        return f"{self.maker} on {self.problem}, seed {self.seed}"


AnyCell = TypeVar("AnyCell", bound=Cell)


class Store(Generic[AnyCell]):
    """The finished cells of one experiment under one set of settings; `finished` holds them by key.

    Args:
        path: JSON lines file; created with its folder if absent.
        settings: what the numbers depend on (seed, options). A file begun with other settings is refused.
        kind: type of its cells, a msgspec struct.

    Raises:
        ConfigurationError: the file has other settings, is no file of cells, or is in use by another process.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], kind: type[AnyCell]) -> None:
        self._kind = kind
        self.finished: dict[Hashable, AnyCell] = {}
        self._file = _open_alone(path)
        try:
            self._read(path, json.dumps({"settings": settings}, sort_keys=True))
        except BaseException:
            self._file.close()
            raise

    def _read(self, path: Path, header: str) -> None:
        content = path.read_bytes()
        self._file.truncate(content.rfind(b"\n") + 1)
        lines = _complete_lines(content)
        if not lines:
            self._append(header)
        elif lines[0] != header:
            raise ConfigurationError(
                f"{path} was begun with other settings; go on with those, or name another folder with --out"
            )
        self.finished = _decode(path, lines, self._kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, cell: AnyCell) -> None:
        """Append a cell; it is on disk when this returns."""
        self._append(msgspec.json.encode(cell, enc_hook=_plain).decode())
        self.finished[cell.key] = cell

    def _append(self, line: str) -> None:
        rest = memoryview(line.encode() + b"\n")
        while rest:  # nothing is buffered: what does not get onto a full disk is not tried again at the end
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file.fileno())


def read_settings(path: Path) -> dict[str, Any]:
    """The settings that a file begins with; empty if it has no such line."""
    with path.open("rb") as file:
        first = file.readline()
    try:
        settings: dict[str, Any] = json.loads(first)["settings"]
    except (ValueError, KeyError, TypeError):
        return {}
    return settings


def read_cells(path: Path, kind: type[AnyCell]) -> list[AnyCell]:
    """All finished cells of a file under any settings, each key once.

    Raises ConfigurationError: a line is no finished cell.
    """
    return list(_decode(path, _complete_lines(path.read_bytes()), kind).values())


def _complete_lines(content: bytes) -> list[str]:
    """Complete lines; a killed run may have left a partial one at the end."""
    return content[: content.rfind(b"\n") + 1].decode("utf-8").split("\n")[:-1]


def _decode(path: Path, lines: list[str], kind: type[AnyCell]) -> dict[Hashable, AnyCell]:
    cells = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            cell = msgspec.json.decode(line, type=kind, dec_hook=_typed)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ConfigurationError(f"line {number} of {path} is no finished cell: {error}") from None
        cells[cell.key] = cell
    return cells


def _plain(value: Any) -> Any:
    """Encode, without loss, a value that JSON lacks."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} is nothing that a cell can keep")


def _typed(kind: Any, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    if get_origin(kind) is np.ndarray:
        return np.array(value)
    raise NotImplementedError(kind)


def take_alone(file: IO[bytes] | FileIO) -> bool:
    """Lock an open file until it is closed or the process ends; False if another process has the lock."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def is_held(path: Path) -> bool:
    """Whether another process has locked the file."""
    try:
        with path.open("r+b") as file:
            return not take_alone(file)
    except OSError:
        return False


def _open_alone(path: Path) -> FileIO:
    """The file, open for appending and locked."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab", buffering=0)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}; choose another --out") from None
    if not take_alone(file):
        file.close()
        raise ConfigurationError(f"another process works on {path}; wait for it, or choose another --out")
    return file
