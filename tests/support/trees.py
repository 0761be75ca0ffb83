"""The syntax of our own modules: each file is parsed once in a process, and only where a test asks for it."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "curator_node", "learner_node", "simulations", "expril", "lab")
FILES = tuple(sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def place(path: Path) -> str:
    """As an assertion names it."""
    return str(path.relative_to(ROOT))


class Modules(Mapping[str, ast.Module]):
    """Full name -> syntax, of every module of ours."""

    def __init__(self) -> None:
        self._paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in FILES}
        self._paths = {name.removesuffix(".__init__"): path for name, path in self._paths.items()}

    def __getitem__(self, name: str) -> ast.Module:
        return tree_of(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
