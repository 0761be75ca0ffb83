"""Folders of runs: their names, links to the newest, and folders of one scenario at several epsilons.

A run's folder gets its name only when the run is complete; `run_cells` stores an incomplete run's repeats.

`expril simulate SCENARIO --epsilon 0.1,0.3,1,3` makes one run per epsilon, each with its own curators, ledgers and
noise in a folder that can be verified by itself. All runs split records alike. The enclosing folder has a list of the
epsilons and one page, made from the runs' reports alone.
"""

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec

from expril.files import read_plain
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from protocol.run_index import PAGE, file_name
from protocol.strict_json import decode_json

PARTIAL = ".{}.partial"
"""Name of an incomplete run's folder."""
LATEST = "latest"
"""Folder of links to the newest run of each title."""
EPSILONS = "epsilons.json"
"""File that lists the epsilons in a folder of several."""
FORMAT = 1
"""Format version of that list."""
MOST_EPSILONS, MOST_LIST = 1000, 2**20
"""Most entries of that list, and most bytes."""
_STAMP = re.compile(r"-[0-9]{8}-[0-9]{6}(-[0-9]+)?$")


class EpsilonList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The list of runs in a folder of several epsilons."""

    format: int  # `FORMAT`
    command: str  # that made it; the same command goes on with a folder whose page is missing
    order: str  # digest of the scenario as it was run, without its epsilons
    epsilons: tuple[str, ...]  # each has a run


class _Epsilons(msgspec.Struct, frozen=True):
    epsilons: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=64)], ...], msgspec.Meta(max_length=MOST_EPSILONS)]


def stamped(title: str, now: datetime | None = None) -> str:
    """Name of a run's folder: its title, as valid in a file name, and the time."""
    stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    return f"{file_name(title)}-{stamp}"


def claim_folder(base: Path, pattern: str, name: str) -> Path:
    """Make a new folder under `base`; a number is appended if `name` is taken. `pattern` has {} for the name.

    Raises ConfigurationError: it cannot be made.
    """
    for number in range(1, 1000):
        folder = base / pattern.format(name + (f"-{number}" if number > 1 else ""))
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if not folder.is_dir():
                raise ConfigurationError(f"{folder} is in the way") from None
            continue
        except OSError as error:
            raise ConfigurationError(f"cannot make the run folder {folder}: {error.strerror}") from None
        return folder
    raise ConfigurationError(f"{base} holds too many runs of this second")


def name_newest(folder: Path) -> None:
    """Link `LATEST`/title beside a run's folder to it, if links can be made."""
    title = _STAMP.sub("", folder.name)
    link = folder.parent / LATEST / title
    fresh = link.with_name(f".{title}.{folder.name}")
    with suppress(OSError):
        link.parent.mkdir(exist_ok=True)
        fresh.symlink_to(Path("..", folder.name), target_is_directory=True)
        try:
            fresh.replace(link)
        except OSError:
            fresh.unlink()


def of_newest(name: str) -> str:
    """A path under a run's folder, with the links of `name_newest` in it resolved."""
    path = Path(name)
    for part in (path, *path.parents):
        if part.parent.name == LATEST and part.is_symlink():
            return os.path.normpath(part.parent / part.readlink() / path.relative_to(part))
    return name


def epsilon_folder(epsilon: str) -> str:
    """Name of one epsilon's folder inside a folder of several."""
    return f"epsilon-{epsilon.replace('/', '-')}"


def epsilon_runs(folder: Path) -> dict[str, Path]:
    """Epsilon -> folder of its run; empty unless the folder is one of several epsilons.

    Raises ConfigurationError: its list cannot be read.
    """
    try:
        data = read_plain(folder / EPSILONS, most=MOST_LIST)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigurationError(f"{folder / EPSILONS} cannot be read: {error.strerror}") from None
    epsilons = decode_json(data, _Epsilons, where=str(folder / EPSILONS)).epsilons
    for epsilon in epsilons:
        try:
            parse_rational(epsilon)  # no other text is part of a folder's name
        except ConfigurationError as error:
            raise ConfigurationError(f"{folder / EPSILONS} is damaged: {error}") from None
    return {epsilon: folder / epsilon_folder(epsilon) for epsilon in epsilons}


def epsilons_folder(out: Path, title: str, content: EpsilonList, *, fresh: bool) -> Path:
    """The folder that an interrupted command of the same content left, or a new one.

    Raises ConfigurationError: it cannot be made.
    """
    for path in sorted(out.glob(f"*/{EPSILONS}")):
        if not fresh and not (path.parent / PAGE).exists() and _read(path) == content:
            return path.parent
    folder = claim_folder(out, "{}", stamped(f"{title}-epsilons"))
    (folder / EPSILONS).write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    return folder


def _read(path: Path) -> EpsilonList | None:
    try:
        return decode_json(read_plain(path, most=MOST_LIST), EpsilonList, where=str(path))
    except (OSError, ConfigurationError):
        return None
