"""What of runs and ledgers goes into a package, and what it proves there.

Of a run: its signed list, the signatures, its transcripts and ledgers. Scores, models and what else the list names stay
out: they are not needed for epsilon, and a simulation's scores are computed from test records. Of `local/` nothing is
taken.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from curator_node.ledger.exports import export_ledger
from curator_node.ledger.reading import read_ledger_file
from curator_node.ledger.store import is_sqlite
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, printable
from protocol.ledger.terms import ledger_terms
from protocol.plans import Plan
from simulations.audit.recompute import Pins, Recomputed, recompute
from simulations.run_index import (
    COST,
    INDEX,
    LEDGERS,
    REPORT,
    SCENARIO,
    SIGNATURES,
    TRANSCRIPTS,
    decode_index,
    epsilon_runs,
    read_plain,
)

EVIDENCE, INVENTORY = "evidence", "inventory.json"
Tick = Callable[[str, int, int], None]


class CuratorSpent(NamedTuple):
    """What one curator was recomputed to have spent.

    Attributes:
        name: of the curator.
        claimed: cost of all accepted plans, exact.
        spent: over all learners, at most, exact.
        learners: name -> spent by it at most, exact.
        unit: privacy unit, in words.
        unit_details: and its bound.
        note: what else is to be said of this figure; "" for nothing.
    """

    name: str
    claimed: Fraction
    spent: Fraction
    learners: dict[str, Fraction]
    unit: str
    unit_details: str
    note: str = ""


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What lies in the evidence folder.

    Attributes:
        runs: folder -> names of the run's list that stay out.
        ledgers, receipts, witnessed: files.
    """

    runs: dict[str, tuple[str, ...]] = {}
    ledgers: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()
    witnessed: tuple[str, ...] = ()


@dataclass
class Replay:
    """What evidence proves.

    Attributes:
        base: folder of the evidence.
        result: of the recomputation.
        wrong: what contradicts, but for what stays out on purpose.
        left_out: names of a run's list that are not here, with their run.
    """

    base: Path
    result: Recomputed
    wrong: list[str]
    left_out: list[str] = field(default_factory=list)

    def as_object(self) -> dict[str, Any]:
        """For machines, with paths as they are inside of the evidence."""
        plain = msgspec.json.encode(self.result.as_object() | {"wrong": self.wrong, "proven": not self.wrong}).decode()
        prefix = msgspec.json.encode(f"{self.base}/").decode()[1:-1]
        return dict(msgspec.json.decode(plain.replace(prefix, "")))

    @property
    def plans(self) -> list[tuple[Plan, int | None]]:
        """Every accepted plan, with the bound c of its curator where it is known."""
        return [
            (study.shape.plan, bound)
            for one in self.result.sums
            if not one.learner and not one.version
            for study, bound in one.members
        ]


def collect(paths: Sequence[Path], folder: Path, *, receipts: Sequence[Path], witnessed: Sequence[Path]) -> Inventory:
    """Copy evidence into a package.

    Args:
        paths: folders of runs, or of runs at several epsilons; exports of ledgers, SQLite ledgers.
        folder: of the package.
        receipts: files that learners hold.
        witnessed: files that witnesses hold.

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
    kept = {
        what: tuple(_copied(files, base, what)) for what, files in (("receipts", receipts), ("witnessed", witnessed))
    }
    inventory = Inventory(runs=runs, ledgers=tuple(ledgers), **kept)
    (base / INVENTORY).write_bytes(msgspec.json.format(msgspec.json.encode(inventory), indent=1) + b"\n")
    return inventory


def replay(
    folder: Path,
    *,
    pins: Pins | None = None,
    tick: Tick = lambda what, done, total: None,  # noqa: ARG005
) -> Replay:
    """Recompute everything from the evidence in a package.

    Args:
        folder: of the package.
        pins: public keys known from elsewhere.
        tick: called with (what, done, total).

    Raises:
        ConfigurationError: the evidence cannot be read.
    """
    base = folder / EVIDENCE
    try:
        inventory = msgspec.json.decode((base / INVENTORY).read_bytes(), type=Inventory)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigurationError(f"{EVIDENCE}/{INVENTORY} is missing or cannot be read") from None
    names = (*inventory.runs, *inventory.ledgers, *inventory.receipts, *inventory.witnessed)
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in names):
        raise ConfigurationError(f"{EVIDENCE}/{INVENTORY} names a file outside of the package")
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
    wrong += result.unread
    left_out = [f"{run}/{name}" for run, names in inventory.runs.items() for name in names]
    return Replay(base, result, wrong, left_out)


def spent_by_curators(proof: Replay) -> tuple[CuratorSpent, ...]:
    """What the curators of one world spent; of several repeats or runs, those of the one that spent most.

    Raises:
        ConfigurationError: nothing was spent anywhere, or something was signed as not private.
    """
    result = proof.result
    worlds: dict[str, list[Any]] = {}
    for one in result.sums:
        worlds.setdefault(one.world, []).append(one)
    totals = {
        world: sum((one.at_most for one in sums if _is_whole(one)), Fraction(0)) for world, sums in worlds.items()
    }
    if not any(totals.values()):
        raise ConfigurationError("nothing was spent there: there is no claim to hand over")
    if _not_private(result):
        raise ConfigurationError(
            "this was signed as not private (noise from a seed, or a release that is not private as claimed): there is "
            "no claim to hand over"
        )
    world = max(totals, key=lambda each: totals[each])
    note = ""
    if len(totals) > 1:
        note = (
            f"The evidence holds {len(totals)} repeats or runs, each with keys and ledgers of its own: the figure is "
            "that of the one that spent most. Where they used the same records, their figures add up."
        )
    bounds = {one.curator: one.audit.bounds.bound for one in result.ledgers}
    return tuple(
        CuratorSpent(
            name=one.curator.rpartition(", repeat ")[0] or one.curator,
            claimed=one.claimed,
            spent=one.at_most,
            learners={each.learner: each.at_most for each in worlds[world] if _is_of(each, one.curator)},
            unit=one.unit,
            unit_details=_bounded(one.unit, bounds.get(one.curator) or _bound_of(one)),
            note=note,
        )
        for one in worlds[world]
        if _is_whole(one)
    )


def _is_whole(one: Any) -> bool:
    """Whether a sum is over all learners and versions."""
    return not one.learner and not one.version


def _is_of(one: Any, curator: str) -> bool:
    return one.curator == curator and bool(one.learner) and not one.version


def _bound_of(one: Any) -> int | None:
    known = {bound for _, bound in one.members}
    return known.pop() if len(known) == 1 else None


def _bounded(unit: str, bound: int | None) -> str:
    if unit == EACH:
        return "A unit is one record."
    counted = f"at most {bound} of them are counted" if bound else "of which a bounded number is counted"
    return f"A unit is all records with one value of {unit}; {counted}, chosen by a keyed hash of that unit alone."


EACH = ledger_terms(None, LABEL).partition(":")[2].partition(";")[0].strip()
"""What a ledger says where each record is a unit."""


def _not_private(result: Recomputed) -> bool:
    labels = {entry.label for run in result.runs if run.index for entry in run.index.transcripts}
    labels |= {one.audit.replayed.label for one in result.ledgers if one.audit.replayed.label}
    return bool(labels - {LABEL})


def _take_run(run: Path, target: Path) -> tuple[str, ...]:
    """Copy a run's list and what it names of transcripts and ledgers; the names that stay out."""
    try:
        index = decode_index(read_plain(run / TRANSCRIPTS / INDEX), run)
        taken = [name for name in index.files if _is_taken(name)]
        for name in (f"{TRANSCRIPTS}/{INDEX}", f"{TRANSCRIPTS}/{SIGNATURES}", *taken):
            _write(target / name, read_plain(run / name))
    except OSError as error:
        raise ConfigurationError(f"{run} is not the folder of a run, or lacks a file of its list: {error}") from None
    return tuple(sorted(set(index.files) - set(taken)))


def _is_taken(name: str) -> bool:
    """Whether a file of a run's list is evidence."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        return False
    return name == COST or (len(parts) > 1 and parts[0] in (TRANSCRIPTS, LEDGERS) and not name.endswith(".mark"))


def _exported(path: Path) -> bytes:
    """An export as it is; of a SQLite ledger, its export, which holds no reply."""
    if not is_sqlite(path):
        return path.read_bytes()
    with read_ledger_file(path) as store, store.snapshot():
        return export_ledger(store)


def _copied(files: Sequence[Path], base: Path, what: str) -> list[str]:
    names = []
    for number, path in enumerate(files):
        name = f"{what}/{number}-{_plain(path.name)}"
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
