"""The evidence in a package: what of runs and ledgers is copied into it, and what that proves.

A run's signed list, its signatures, transcripts and ledgers are copied. Scores, models and whatever else the list names
are not: epsilon does not need them, and a simulation's scores are computed from test records. Nothing of `local/` is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from curator_node.ledger.engines import is_sqlite
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.places import read_ledger_file
from expril.audit.package.manifest import as_json, read_bytes
from expril.audit.recompute import Pins, Recomputed, recompute
from expril.audit.recompute.ledger import Tick, quiet, read_plain
from protocol.errors import ConfigurationError, printable
from protocol.plans import Plan
from protocol.run_index import COST, INDEX, LEDGERS, REPORT, SCENARIO, SIGNATURES, TRANSCRIPTS, decode_index
from simulations.run_folder import epsilon_runs

EVIDENCE, INVENTORY = "evidence", "inventory.json"


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What lies in the evidence folder."""

    runs: dict[str, tuple[str, ...]] = {}  # folder -> names of the run's list that stay out
    ledgers: tuple[str, ...] = ()  # ledgers, receipts, witnessed: files
    receipts: tuple[str, ...] = ()
    witnessed: tuple[str, ...] = ()


@dataclass
class Replay:
    """What a package's evidence proves."""

    base: Path  # folder of the evidence
    result: Recomputed  # of the recomputation
    wrong: list[str]  # what contradicts, but for what stays out on purpose
    left_out: list[str] = field(default_factory=list)  # names of a run's list that are not here, with their run

    def as_object(self) -> dict[str, Any]:
        """For machines, with paths as they are inside of the evidence."""
        plain = msgspec.json.encode(self.result.as_object() | {"wrong": self.wrong, "proven": not self.wrong}).decode()
        prefix = msgspec.json.encode(f"{self.base}/").decode()[1:-1]
        return dict(msgspec.json.decode(plain.replace(prefix, "")))

    @property
    def plans(self) -> list[tuple[Plan, int | None]]:
        """Every accepted plan, with its curator's bound c if that is known."""
        return [
            (study.shape.plan, bound)
            for row in self.result.sums
            if not row.learner and not row.version
            for study, bound in row.members
        ]


def collect(paths: Sequence[Path], folder: Path, *, receipts: Sequence[Path], witnessed: Sequence[Path]) -> Inventory:
    """Copy evidence into a package.

    `paths`: folders of runs, or of runs at several epsilons; exports of ledgers, SQLite ledgers; `receipts`: files that
    learners hold; `witnessed`: files that witnesses hold.

    Raises:
        ConfigurationError: one of them cannot be read.
    """
    base = folder / EVIDENCE
    base.mkdir()
    runs: dict[str, tuple[str, ...]] = {}
    ledgers: list[str] = []
    for path in paths:
        if path.is_file():
            name = f"ledgers/{len(ledgers)}-{_plain(path.stem)}.export"
            _write(base / name, _exported(path))
            ledgers.append(name)
            continue
        for run in epsilon_runs(path).values() or [path]:
            name = f"runs/{len(runs)}-{_plain(run.resolve().name)}"
            runs[name] = _take_run(run, base / name)
    copies = {
        role: tuple(_copied(files, base, role)) for role, files in (("receipts", receipts), ("witnessed", witnessed))
    }
    inventory = Inventory(runs=runs, ledgers=tuple(ledgers), **copies)
    (base / INVENTORY).write_bytes(as_json(inventory))
    return inventory


def replay(folder: Path, *, pins: Pins | None = None, tick: Tick = quiet) -> Replay:
    """Recompute everything from the evidence in a package.

    `pins`: public keys known from elsewhere.

    Raises:
        ConfigurationError: the evidence cannot be read.
    """
    base = folder / EVIDENCE
    data = read_bytes(folder, f"{EVIDENCE}/{INVENTORY}")
    try:
        inventory = msgspec.json.decode(data, type=Inventory)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"{EVIDENCE}/{INVENTORY} is missing or cannot be read") from None
    names = {
        "runs": inventory.runs,
        "ledgers": inventory.ledgers,
        "receipts": inventory.receipts,
        "witnessed": inventory.witnessed,
    }
    if not all(_is_inside(name, role) for role, listed in names.items() for name in listed):
        raise ConfigurationError(
            f"{EVIDENCE}/{INVENTORY} names a file outside of the package, or one that no package has"
        )
    result = recompute(
        *(base / name for name in (*inventory.runs, *inventory.ledgers)),
        pins=pins,
        receipts=[base / name for name in inventory.receipts],
        witnessed=[base / name for name in inventory.witnessed],
        tick=tick,
    )
    absent = {
        f"{base / run}: {text}"
        for run, names in inventory.runs.items()
        for text in (
            *(f"{printable(name)} is missing" for name in names if not _is_taken(name)),
            f"{REPORT} or {SCENARIO} cannot be read (FileNotFoundError)",
        )
    }
    wrong = [text.removeprefix(f"{base}/") for text in result.wrong if text not in absent]
    wrong += [text.replace(f"{base}/", "") for text in result.unread]
    if as_json(inventory) != data:
        wrong.append(f"{INVENTORY} is not in its one form")
    wrong += _unnamed(base, inventory, result)
    left_out = [f"{run}/{name}" for run, names in inventory.runs.items() for name in names]
    return Replay(base, result, wrong, left_out)


def _is_inside(name: str, role: str) -> bool:
    """Whether a name is one that `collect` makes: two parts of plain letters."""
    return re.fullmatch(rf"{role}/[A-Za-z0-9_-][A-Za-z0-9._-]{{0,250}}", name) is not None


def _unnamed(base: Path, inventory: Inventory, result: Recomputed) -> list[str]:
    """Files in the evidence that nothing there names, so that nobody replays them."""
    named = {INVENTORY, *inventory.ledgers, *inventory.receipts, *inventory.witnessed}
    for run in result.runs:
        here = run.folder.relative_to(base).as_posix()
        listed = [name for name in (run.index.files if run.index else ()) if _is_taken(name)]
        named |= {f"{here}/{name}" for name in (f"{TRANSCRIPTS}/{INDEX}", f"{TRANSCRIPTS}/{SIGNATURES}", *listed)}
    there = [path.relative_to(base).as_posix() for path in base.rglob("*") if path.is_symlink() or not path.is_dir()]
    return [f"{name} lies in the evidence, and nothing there names it" for name in sorted(there) if name not in named]


def _take_run(run: Path, target: Path) -> tuple[str, ...]:
    """Copy a run's list, and the transcripts and ledgers that it names; returns the names that are left out."""
    try:
        index = decode_index(read_plain(run / TRANSCRIPTS / INDEX), run)
        evidence = [name for name in index.files if _is_taken(name)]
        for name in (f"{TRANSCRIPTS}/{INDEX}", f"{TRANSCRIPTS}/{SIGNATURES}", *evidence):
            _write(target / name, read_plain(run / name))
    except OSError as error:
        raise ConfigurationError(f"{run} is not the folder of a run, or lacks a file of its list: {error}") from None
    return tuple(sorted(set(index.files) - set(evidence)))


def _is_taken(name: str) -> bool:
    """Whether a file of a run's list is evidence."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        return False
    return name == COST or (len(parts) > 1 and parts[0] in (TRANSCRIPTS, LEDGERS) and not name.endswith(".mark"))


def _exported(path: Path) -> bytes:
    """The bytes of an export; a SQLite ledger is exported, without replies."""
    if not is_sqlite(path):
        return path.read_bytes()
    with read_ledger_file(path) as store, store.snapshot():
        return export_ledger(store)


def _copied(files: Sequence[Path], base: Path, role: str) -> list[str]:
    names = []
    for number, path in enumerate(files):
        name = f"{role}/{number}-{_plain(path.name)}"
        try:
            _write(base / name, path.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
        names.append(name)
    return names


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".") or "evidence"
