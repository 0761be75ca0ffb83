"""What each query kind takes: files and lines in every room, lines of the tables, and who else names it.

Nothing is listed by hand. A kind's files begin with those that the tables name: where its `QueryKind`, its answerer,
its reader and its audit are defined, and the files beside them of the kind's name. To
these come all files that they import, as far as only they import them. Strategies, studies, commands and what an
audit has broken on purpose use a kind as anybody may; they are not part of it.

`python -m benchmarks seam` counts, `python -m benchmarks.seam` prints the table of CONTRIBUTING.md.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.common import Result
from curator_node.kinds import ANSWERERS
from expril.audit.kinds import AUDITED_KINDS
from learner_node.kinds import READERS
from protocol.kinds import QUERY_KINDS

ROOT = Path(__file__).resolve().parents[1]
IMPORT = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|[^\n]+)", re.MULTILINE)
ROOMS = ("protocol", "curator_node", "learner_node", "expril.audit")
"""A kind has a file in each."""
SEARCHED = (*ROOMS, "simulations")
"""Where else a kind may have files, or be named."""
TABLES = ("protocol.kinds", "curator_node.kinds", "learner_node.kinds", "expril.audit.kinds")
USERS = ("learner_node.strategies", "lab", "expril.commands", "benchmarks", "tests")
"""Who asks a kind, and is no part of it; so is what only strategies and the laboratory import."""
CONTROLS = ("expril.audit.attack",)
"""Attacks, and what is broken on purpose: it names kinds, and takes their files apart, but no kind needs it."""
HELPED = ("learner_node.strategies", "lab")


@dataclass(frozen=True)
class Footprint:
    """What a kind takes."""

    files: Mapping[str, tuple[str, ...]]  # searched room -> its files, relative to the repository
    lines: Mapping[str, int]  # room -> their lines together, docstrings and empty ones too
    table_lines: int  # in the four tables
    # files of the searched rooms that are neither its own, nor another kind's, nor a table, and that import a file of
    # its own or hold its name as a text
    named_elsewhere: tuple[str, ...]


@cache
def _modules() -> dict[str, Path]:
    """Full name -> file, of everything that is written in Python here."""
    folders = ("protocol", "curator_node", "learner_node", "simulations", "expril", "lab", "benchmarks", "tests")
    rows = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            rows[".".join(parts).removesuffix(".__init__")] = path
    return rows


@cache
def _text(module: str) -> str:
    return _modules()[module].read_text(encoding="utf-8")


@cache
def _names(module: str) -> tuple[tuple[str, str], ...]:
    """(module, name) of each `from module import name`, wherever in the file."""
    rows = []
    for origin, names in IMPORT.findall(_text(module)):
        listed = re.sub(r"#.*", "", names).strip("()").replace("\n", ",").split(",")
        rows += [(origin, name.split()[0]) for name in listed if name.strip()]
    return tuple(rows)


@cache
def _imported(module: str) -> frozenset[str]:
    """Modules of ours that a module imports; of `from a import b` the module a.b, where it is one."""
    rows = set(re.findall(r"^\s*import ([\w.]+)", _text(module), re.MULTILINE))
    for origin, name in _names(module):
        inner = f"{origin}.{name}"
        rows.add(inner if inner in _modules() else origin)
    return frozenset(rows & _modules().keys())


def _is_in(module: str, packages: Iterable[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@cache
def _importers() -> dict[str, frozenset[str]]:
    rows: dict[str, set[str]] = {module: set() for module in _modules()}
    for module in _modules():
        for name in _imported(module):
            rows[name].add(module)
    return {module: frozenset(names) for module, names in rows.items()}


@cache
def _users() -> frozenset[str]:
    """Modules that ask kinds: those of `USERS`, and what nobody but strategies, the laboratory and tests imports."""
    users = {module for module in _modules() if _is_in(module, USERS)}
    helped = {module for module in users if _is_in(module, HELPED)}
    tests = {module for module in users if _is_in(module, ("tests", "benchmarks"))}
    importers_of = {module: _importers()[module] - tests for module in _modules() if _is_in(module, SEARCHED)}
    # The greatest set of which every module is imported, and by these alone.
    inner = {module for module, names in importers_of.items() if names} - users
    while wrong := {module for module in inner if not importers_of[module] <= helped | inner}:
        inner -= wrong
    reached = set(helped)
    while new := {module for module in inner - reached if importers_of[module] & reached}:
        reached |= new
    return frozenset(users | (inner & reached))


def _defined(kind: str) -> set[str]:
    """Where the tables' entries of a kind are defined, and the files beside them that begin with its name."""
    seeds = {
        QUERY_KINDS[kind].planned.__module__,
        ANSWERERS[kind].answer.__module__,
        READERS[kind].read.__module__,
        type(AUDITED_KINDS.audits[kind]).__module__,
    }
    beside = {
        module for module in _modules() if module.rpartition(".")[0] in TABLES and module.rpartition(".")[2] == kind
    }
    return (seeds | beside) & _modules().keys()


@cache
def own_modules(kind: str) -> frozenset[str]:
    """The kind's modules in the searched rooms: the greatest set that only it imports, with what the tables name."""
    seeds = _defined(kind)
    reached, new = set(seeds), set(seeds)
    while new:
        new = {name for module in new for name in _imported(module) if _is_in(name, SEARCHED)} - reached
        reached |= new
    own_files = reached - set(TABLES) - _users()
    other_files = {module for module in _modules() if module in _users() or _is_in(module, CONTROLS)}
    while foreign := {module for module in own_files - seeds if not _importers()[module] - other_files <= own_files}:
        own_files -= foreign
    return frozenset(own_files)


def _with_packages(modules: frozenset[str]) -> set[str]:
    """With the packages of which all modules are among them."""
    packages = {module.rpartition(".")[0] for module in modules} - modules
    return set(modules) | {
        package
        for package in packages
        if package in _modules() and all(name in modules for name in _modules() if name.startswith(f"{package}."))
    }


def tests_of(kind: str) -> tuple[str, ...]:
    """Files of tests that import a file of this kind's own, and none of another's, or begin with its name."""
    own_files = own_modules(kind)
    other_files = frozenset().union(*(own_modules(name) for name in QUERY_KINDS if name != kind))
    rows = []
    for module, path in _modules().items():
        if _is_in(module, ("tests",)):
            stem = path.stem.removeprefix("test_")
            imported = _imported(module)
            named = stem == kind or stem.startswith(f"{kind}_")
            if imported & own_files and (named or not imported & other_files):
                rows.append(str(path.relative_to(ROOT)))
    return tuple(rows)


def _table_lines(kind: str) -> int:
    """Lines of the tables that import a kind's files, or enter what they import by its name."""
    count = 0
    for table in TABLES:
        text, names = _text(table).splitlines(), {kind}
        for origin, name in _names(table):
            if {origin, f"{origin}.{name}"} & own_modules(kind):
                names.add(name)
                count += 1
        entries = {f"{name}{call}," for name in names for call in ("", "()")} | {f'"{kind}": {name},' for name in names}
        count += sum(line.strip() in entries for line in text)
    return count


def _named_elsewhere(kind: str) -> tuple[str, ...]:
    other_files = frozenset().union(*(own_modules(name) for name in QUERY_KINDS))
    own_files, rows = own_modules(kind), []
    for module, path in _modules().items():
        if not _is_in(module, SEARCHED) or module in _users() | other_files | set(TABLES):
            continue
        if _imported(module) & own_files or f'"{kind}"' in _text(module):
            rows.append(str(path.relative_to(ROOT)))
    return tuple(rows)


@cache
def footprint_of(kind: str) -> Footprint:
    """What one registered kind takes."""
    files: dict[str, list[Path]] = {room: [] for room in SEARCHED}
    for module in sorted(_with_packages(own_modules(kind))):
        files[next(room for room in SEARCHED if _is_in(module, (room,)))].append(_modules()[module])
    files["tests"] = [ROOT / name for name in tests_of(kind)]
    return Footprint(
        files={room: tuple(str(path.relative_to(ROOT)) for path in paths) for room, paths in files.items()},
        lines={
            room: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
            for room, paths in files.items()
        },
        table_lines=_table_lines(kind),
        named_elsewhere=_named_elsewhere(kind),
    )


def run() -> list[Result]:
    """Files and lines of every registered kind, by room."""
    rows = []
    for kind in QUERY_KINDS:
        footprint = footprint_of(kind)
        for room, files in footprint.files.items():
            note = f"{len(files)} files: {', '.join(files)}" if files else "no file"
            rows.append(Result(f"{kind}: {room}", footprint.lines[room], "lines", note=note))
        rows.append(Result(f"{kind}: tables", footprint.table_lines, "lines", note=", ".join(TABLES)))
        elsewhere = ", ".join(footprint.named_elsewhere) or "nowhere"
        rows.append(Result(f"{kind}: named elsewhere", len(footprint.named_elsewhere), "files", note=elsewhere))
    return rows


def table() -> str:
    """The table of the page, as Markdown: files and lines by room."""
    rooms = (*ROOMS, "tests")
    head = ["kind", *(f"`{room}`" for room in rooms), "tables", "named elsewhere"]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for kind in QUERY_KINDS:
        footprint = footprint_of(kind)
        cells = [f"{len(footprint.files[room])}: {footprint.lines[room]}" for room in rooms]
        lines.append(f"| `{kind}` | {' | '.join(cells)} | {footprint.table_lines} | {len(footprint.named_elsewhere)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
