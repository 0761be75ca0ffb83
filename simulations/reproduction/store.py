"""Finished cells on disk: one JSON line each, appended and synced, so that a killed run loses nothing it finished."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from protocol.errors import ConfigurationError


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that one run on one data set gave.

    Attributes:
        dataset: key of the data set.
        run: its number, from 0.
        values: name -> number; an infinite one is the text "inf".
        seconds: of computing, its share of the runs that were computed together.
    """

    dataset: str
    run: int
    values: dict[str, float | str]
    seconds: float

    def value(self, name: str) -> float:
        """A number by name."""
        return float(self.values[name])


class Store:
    """The finished cells of one experiment under one set of settings.

    Args:
        path: JSON lines file; made with its folder where absent.
        settings: what the numbers depend on (seed, options). A file that was begun with other settings is refused.

    Raises:
        ConfigurationError: the file was begun with other settings, or is no such file.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self._path = path
        self.finished: dict[tuple[str, int], Finished] = {}
        header = json.dumps({"settings": settings}, sort_keys=True)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(header)
            return
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            # The line that a killed run was writing.
            os.truncate(path, len(whole))
        lines = whole.decode("utf-8").split("\n")[:-1]
        if not lines:
            self._append(header)
            return
        if lines[0] != header:
            raise ConfigurationError(
                f"{path} was begun with other settings; go on with those, or name another folder with --out"
            )
        self.finished = {(cell.dataset, cell.run): cell for cell in _decode(path, lines)}

    def add(self, cell: Finished) -> None:
        """Keep a cell; it is on disk when this returns."""
        self._append(msgspec.json.encode(cell).decode())
        self.finished[cell.dataset, cell.run] = cell

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_finished(path: Path) -> list[Finished]:
    """The finished cells of a file, whatever its settings.

    Raises:
        ConfigurationError: a line is no finished cell.
    """
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    return _decode(path, whole.decode("utf-8").split("\n")[:-1])


def _decode(path: Path, lines: list[str]) -> list[Finished]:
    found = []
    for number, line in enumerate(lines[1:], 2):
        try:
            found.append(msgspec.json.decode(line, type=Finished))
        except msgspec.MsgspecError as error:
            raise ConfigurationError(f"line {number} of {path} is no finished cell: {error}") from None
    return found
