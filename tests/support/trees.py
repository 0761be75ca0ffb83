"""The syntax of our own modules, and what they import: each file is parsed once, and only where a test asks for it."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ("conformance/expril_conformance", "conformance/expril_under_test")
"""Packages of two distributions in a folder that is no package itself."""
PACKAGES = ("protocol", "curator_node", "learner_node", "simulations", "expril", "lab", *CONFORMANCE)
ROOMS = (
    "protocol",
    "curator_node",
    "learner_node",
    "simulations",
    "expril.files",
    "expril.packages",
    "expril.report",
    "expril.audit",
    "expril.commands",
    "expril",
    "lab",
    "expril_under_test",
    "expril_conformance",
)
"""Of `expril`: the modules that are in no room of it."""
SUITE = ROOT / "conformance" / "expril_conformance" / "suite"
"""Tests, which are held to what tests are held to."""
FILES = tuple(
    sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if SUITE not in path.parents)
)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def place(path: Path) -> str:
    """As an assertion names it."""
    return str(path.relative_to(ROOT))


def room_of(name: str) -> str:
    """The room of a module of ours, or of a name in one, by full name; "" of what is not ours."""
    return next((room for room in ROOMS if f"{name}.".startswith(f"{room}.")), "")


class Modules(Mapping[str, ast.Module]):
    """Full name -> syntax, of every module in these packages of a tree; of our own where nothing else is named."""

    def __init__(self, root: Path = ROOT, packages: Iterable[str] = PACKAGES) -> None:
        files = sorted(path for package in packages for path in (root / package).rglob("*.py"))
        self._paths = {".".join(path.relative_to(root).with_suffix("").parts): path for path in files}
        self._paths = {
            name.removesuffix(".__init__").removeprefix("conformance."): path for name, path in self._paths.items()
        }

    def __getitem__(self, name: str) -> ast.Module:
        return tree_of(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def imported_by(nodes: Iterable[ast.AST], modules: Mapping[str, ast.Module]) -> set[str]:
    """Those of the modules that these statements import: of `from a import b` the package a, and a.b where it is one.

    That a package's own file runs before any module in it is not counted: every module would import its package.
    """
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules.keys()


def all_imports(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Module -> those of the modules that it imports anywhere: in functions and for type checkers, too."""
    return {name: imported_by(ast.walk(tree), modules) - {name} for name, tree in modules.items()}


def circles(used: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """Groups of modules each of which imports every other of its group, directly or through others."""
    reached = {}
    for name in used:
        found, waiting = set[str](), [name]
        while waiting:
            new = set(used[waiting.pop()]) - found
            found |= new
            waiting += new
        reached[name] = found
    return {frozenset(other for other in reached[name] if name in reached[other]) for name in used} - {frozenset()}
