"""The evidence in a package: the copied parts of runs and ledgers, and what each curator spent according to them.

A run's signed list, its signatures, transcripts and ledgers are copied. Other files that the list names, such as scores
and models, are not copied: epsilon does not need them, and a simulation's scores are computed from test records.
Nothing in `local/` is copied.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from curator_node.ledger.engines import is_sqlite
from curator_node.ledger.exports import export_ledger
from curator_node.ledger.places import read_ledger_file
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.package.manifest import MOST_BYTES, as_json, read_bytes
from expril.audit.recompute import Pins, Recomputed, recompute
from expril.audit.recompute.deployed import is_deployed
from expril.audit.recompute.folders import find_runs
from expril.audit.recompute.ledger import Tick, quiet
from expril.audit.recompute.sums import Sum
from expril.files import read_plain
from protocol.envelopes import LABEL
from protocol.errors import ConfigurationError, RemoteProtocolError, printable
from protocol.ledger.entries import ledger_terms
from protocol.ledger.exports import MOST
from protocol.plans import Plan, Planned
from protocol.run_index import COST, INDEX, LEDGERS, REPORT, SCENARIO, SIGNATURES, TRANSCRIPTS, decode_index
from protocol.strict_json import decode_json

EVIDENCE, INVENTORY = "evidence", "inventory.json"


class Inventory(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of the evidence folder."""

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
        """Every accepted plan, with its curator's contribution bound c if that is known."""
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
        for run in find_runs(path).runs:
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
        inventory = decode_json(data, Inventory, where=INVENTORY)
    except ConfigurationError:
        raise ConfigurationError(f"{EVIDENCE}/{INVENTORY} is missing or cannot be read") from None
    names_by_role = msgspec.structs.asdict(inventory)
    if not all(_is_inside(name, role) for role, names in names_by_role.items() for name in names):
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
    """Whether `collect` makes such names: two parts of plain letters."""
    return re.fullmatch(rf"{role}/[A-Za-z0-9_-][A-Za-z0-9._-]{{0,250}}", name) is not None


def _unnamed(base: Path, inventory: Inventory, result: Recomputed) -> list[str]:
    """Return the files in the evidence that no list names, so that nobody replays them."""
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
        index = decode_index(read_plain(run / TRANSCRIPTS / INDEX, most=MOST), run)
        evidence = [name for name in index.files if _is_taken(name)]
        for name in (f"{TRANSCRIPTS}/{INDEX}", f"{TRANSCRIPTS}/{SIGNATURES}", *evidence):
            _write(target / name, read_plain(run / name, most=MOST))
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
    """Return a ledger as the bytes of an export. A SQLite ledger is exported without its replies."""
    if not is_sqlite(path):
        return read_plain(path, most=MOST)
    with read_ledger_file(path) as store, store.snapshot():
        return export_ledger(store)


def _copied(files: Sequence[Path], base: Path, role: str) -> list[str]:
    names = []
    for number, path in enumerate(files):
        name = f"{role}/{number}-{_plain(path.name)}"
        try:
            _write(base / name, read_plain(path, most=MOST_BYTES))
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
        names.append(name)
    return names


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".") or "evidence"


REPEATED = (
    "The evidence holds repeats of one simulation. Nothing shows that they had different people, so their figures are "
    "added up."
)
SIMULATED = "This was a simulation: whoever ran it held all records and all keys, and no hospital was asked."
EACH = ledger_terms(None, LABEL).partition(":")[2].partition(";")[0].strip()
"""A ledger's words for the privacy unit if each record is a unit of its own."""


class CuratorSpent(NamedTuple):
    """What one curator was recomputed to have spent."""

    name: str
    claimed: Fraction  # cost of all accepted plans, exact
    spent: Fraction  # over all learners, at most, exact
    learners: dict[str, Fraction]  # name -> spent by it at most, exact
    unit: str  # privacy unit, in words
    unit_details: str  # and its bound
    note: str = ""  # what else is to be said of this figure; "" for nothing
    # what a unit may have been charged beside it at other curators, where it may be at one now and at another then
    elsewhere: Fraction = Fraction(0)


@dataclass(frozen=True, eq=False)
class _Part:
    """What was spent at one curator in one repeat of a run, or according to a ledger outside of any run."""

    row: Sum  # over all learners and versions
    run: str  # its folder; "" for ledgers given by themselves
    ties: frozenset[str]  # keys of the curator and names of its records: parts that share one are of one curator

    @property
    def name(self) -> str:
        """The curator's name, without its repeat."""
        return self.row.curator.rpartition(", repeat ")[0] or self.row.curator

    @property
    def at_most(self) -> Fraction:
        """The most that was charged; 0 where nothing bounds it."""
        return self.row.at_most or Fraction(0)


def spent_by_curators(proof: Replay, *, one_curator_each: bool) -> tuple[CuratorSpent, ...]:
    """Return what each curator spent, over all runs and ledgers.

    What one curator spent in several parts of the evidence is added up. Parts belong to one curator if they share a key
    or the name of the records. Repeats of one simulation are added up, too, curator by curator: nothing shows that they
    had different people.

    `one_curator_each`: whether every unit is at one curator only.

    Raises:
        ConfigurationError: nothing was spent anywhere, or a query is not private as claimed, or its kind is not
            installed.
    """
    check_private(proof)
    parts = _parts(proof.result)
    open_part = next((part for part in parts if part.row.at_most is None), None)
    if open_part is not None:
        raise ConfigurationError(
            f"nothing here bounds what {printable(open_part.name)} charged: a transcript with it ends before any plan; "
            "add its ledger's export"
        )
    if not any(part.at_most for part in parts):
        raise ConfigurationError("nothing was spent there: there is no claim to hand over")
    repeated = {run for run in {part.run for part in parts} if run and len(_repeats(parts, run)) > 1}
    curators = _joined(
        parts, lambda part: part.ties | ({f"{part.run}, {part.name}"} if part.run in repeated else set())
    )
    simulated = {str(run.folder) for run in proof.result.runs if run.index and not is_deployed(run.index)}
    names: set[str] = set()
    spendings = []
    for group in curators:
        runs = sorted({part.run for part in group} & repeated)
        notes = (SIMULATED if simulated & {part.run for part in group} else "", REPEATED if runs else "")
        spending = _curator(group, proof.result, " ".join(filter(None, notes)), names)
        if one_curator_each and runs:
            most = sum((_largest(world) for run in runs for world in _repeats(parts, run)), Fraction(0))
            spent_in_runs = sum((part.at_most for part in group if part.run in runs), Fraction(0))
            spending = spending._replace(elsewhere=most - spent_in_runs)
        spendings.append(spending)
    return tuple(spendings)


def _repeats(parts: Sequence[_Part], run: str) -> list[list[_Part]]:
    """The parts of a run, repeat by repeat."""
    worlds: dict[str, list[_Part]] = {}
    for part in parts:
        if part.run == run:
            worlds.setdefault(part.row.world, []).append(part)
    return list(worlds.values())


def _largest(parts: Sequence[_Part]) -> Fraction:
    """Return the most that one curator spent in a repeat."""
    return max(sum((part.at_most for part in group), Fraction(0)) for group in _joined(parts, lambda p: p.ties))


def check_private(proof: Replay) -> None:
    """Refuse what is signed as not private, and plans with releases that are not private or of unknown kinds.

    Raises:
        ConfigurationError: there is such a signature or plan.
    """
    result = proof.result
    labels = {entry.label for run in result.runs if run.index for entry in run.index.transcripts}
    labels |= {ledger.audit.replayed.label for ledger in result.ledgers if ledger.audit.replayed.label}
    if labels - {LABEL}:
        raise ConfigurationError(
            "this was signed as not private (noise from a seed, or a release that is not private as claimed): there is "
            "no claim to hand over"
        )
    for plan in {tuple(bytes(query) for query in plan.queries): plan for plan, _ in proof.plans}.values():
        if why := not_private(plan):
            raise ConfigurationError(f"{why}: there is no claim to hand over")


def not_private(plan: Plan) -> str:
    """Say why a plan proves no privacy; "" if it does."""
    missing = AUDITED_KINDS.missing(plan)
    if missing:
        return f"a plan asks for {printable(', '.join(missing))}, which is not installed here"
    try:
        queries = AUDITED_KINDS.queries(plan)
    except RemoteProtocolError as error:
        return f"a plan cannot be read ({printable(str(error))})"
    bad = next((query for query in queries if not AUDITED_KINDS.private_planned(query)), None)
    if bad is None:
        return ""
    return f"a plan asks for {printable(kind_name(bad))}, which is not private as claimed"


def kind_name(planned: Planned) -> str:
    """Name a planned query's kind and what it releases."""
    release = getattr(planned, "release", "")
    return f"{planned.kind}/{release}" if release else planned.kind


def _parts(result: Recomputed) -> list[_Part]:
    ties_of_sum: dict[int, set[str]] = {}
    for ledger in result.ledgers:
        ties = {key.hex() for key in ledger.audit.curators}
        ties |= {f"records {version}" for _, version in ledger.audit.replayed.data if version}
        ties_of_sum |= {id(item): ties for item in ledger.sums}
    keys: dict[tuple[str, str], str] = {}
    runs: dict[str, str] = {}
    for run in result.runs:
        for item in run.index.participants if run.index else ():
            runs[run.world(item.repeat)] = str(run.folder)
            if item.role == "curator":
                keys[run.world(item.repeat), run.curator_name(item.name, item.repeat)] = item.key
    parts = []
    for row in result.sums:
        if not row.learner and not row.version:
            key = keys.get((row.world, row.curator))
            ties = ties_of_sum.get(id(row), set()) | ({key} if key else set())
            parts.append(_Part(row, runs.get(row.world, ""), frozenset(ties)))
    return parts


def _joined(parts: Sequence[_Part], ties_of: Callable[[_Part], Iterable[str]]) -> list[list[_Part]]:
    """Groups of parts that share a tie, directly or through others, in order."""
    groups: list[tuple[set[str], list[_Part]]] = []
    for part in parts:
        ties, members = set(ties_of(part)), [part]
        apart = []
        for group in groups:
            if group[0] & ties:
                ties |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (ties, members)]
    return sorted((members for _, members in groups), key=lambda members: parts.index(members[0]))


def _curator(parts: Sequence[_Part], result: Recomputed, note: str, names: set[str]) -> CuratorSpent:
    first = parts[0]
    name = first.name
    if name in names:
        keys = sorted(tie for part in parts for tie in part.ties if not tie.startswith("records "))
        name = f"{name} ({(keys or [str(len(names))])[0][:16]})"
    names.add(name)
    learners: dict[str, Fraction] = {}
    for part in parts:
        for item in result.sums:
            if item.world == part.row.world and item.curator == part.row.curator and item.learner and not item.version:
                learners[item.learner] = learners.get(item.learner, Fraction(0)) + (item.at_most or 0)
    bounds = {(item.world, item.curator): item.audit.bounds.bound for item in result.ledgers}
    return CuratorSpent(
        name=name,
        claimed=sum((part.row.claimed for part in parts), Fraction(0)),
        spent=sum((part.at_most for part in parts), Fraction(0)),
        learners=learners,
        unit="; ".join(dict.fromkeys(part.row.unit for part in parts)),
        unit_details=" ".join(
            dict.fromkeys(
                _bounded(part.row.unit, bounds.get((part.row.world, part.row.curator)) or _bound_of(part.row))
                for part in parts
            )
        ),
        note=" ".join(dict.fromkeys([note, *_conditions(parts)])).strip(),
    )


def _conditions(parts: Sequence[_Part]) -> Iterator[str]:
    """Return a sentence for each part of the spending that holds on a condition only."""
    for part in parts:
        for proviso, amount in part.row.provisos.items():
            yield f"Of what {part.name} spent, {amount} was {proviso}."


def _bound_of(row: Sum) -> int | None:
    bounds = {bound for _, bound in row.members}
    return bounds.pop() if len(bounds) == 1 else None


def _bounded(unit: str, bound: int | None) -> str:
    if unit == EACH:
        return "A unit is one record."
    counted = f"at most {bound} of them are counted" if bound else "of which a bounded number is counted"
    return f"A unit is all records with one value of {unit}; {counted}, chosen by a keyed hash of that unit alone."
