"""Measure what this tree holds and what its commands walk through, beside the commit BASE: `make measures BASE=commit`.

Lines and files of the wheel and of the laboratory, lines and tests of `tests`, circles of modules, and two walks that
are really gone: `expril simulate` of a small scenario up to the writing of its page, and `expril audit run` on what it
left up to the verdict. A file is entered where a function of it is called, not where it is only loaded. A climb is a
pair of files, the caller's and the callee's, where the callee's room is higher than the caller's. The caller is the
nearest file of ours on the stack: what a library calls back counts, and so does a generator that is handed down. What
runs in other processes is not seen.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import tomllib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import FrameType

from trees import ROOT, Modules, all_imports, circles

COUNTED = {".py", ".j2", ".css", ".js"}
LABORATORY = "lab"
ROOMS = {
    "protocol": 0,
    "expril/files.py": 0,
    "expril/report": 0,
    "curator_node": 1,
    "learner_node": 1,
    "simulations": 2,
    "simulations/audit": 3,
    "expril/audit": 3,
    "expril": 4,
    "lab": 5,
    "experiments": 5,
}
"""Room -> how high it is, of this tree's and of those that it had before; of a file the innermost counts."""
SCENARIO = """
title = "walk"
repeats = 1
seed = 1
[data]
path = "records.csv"
schema = "schema.toml"
[data.sites]
how = "site"
column = "ward"
[[curators]]
name = "*"
cap = 1
round_size = 150
[[learners]]
name = "ada"
epsilon = 1
"""
"""Records of the tour (docs/tour), one learner, one repeat."""


def lines(path: Path) -> int:
    """Of one file, empty ones too."""
    return len(path.read_text(encoding="utf-8").splitlines())


def held(root: Path, packages: list[str]) -> dict[str, int]:
    """Lines that are written in these packages, and files of Python."""
    files = [path for package in packages for path in (root / package).rglob("*") if path.suffix in COUNTED]
    return {"lines": sum(map(lines, files)), "files": sum(path.suffix == ".py" for path in files)}


def static(root: Path) -> dict[str, int]:
    """What is counted without running anything."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    whole = wheel + [LABORATORY] * (LABORATORY not in wheel and (root / LABORATORY).is_dir())
    tests = sorted((root / "tests").rglob("*.py"))
    functions = [node for path in tests for node in ast.walk(ast.parse(path.read_bytes()))]
    groups = circles(all_imports(Modules(root, whole)))
    return {
        **{f"wheel: {name}": number for name, number in held(root, wheel).items()},
        **{f"wheel and laboratory: {name}": number for name, number in held(root, whole).items()},
        "tests: lines": sum(map(lines, tests)),
        "tests: functions": sum(
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
            for node in functions
        ),
        "circles": len(groups),
        "circles: modules of the largest": max(map(len, groups), default=0),
    }


class Walk:
    """What is called while a command runs, by a tree's own files.

    Attributes:
        pairs: (file of the caller, file of the callee).
        entered: files of which a function was called.
    """

    def __init__(self, tree: Path) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self.entered: set[str] = set()
        self._tree = f"{tree}{os.sep}"
        self._loading = threading.local()

    def see(self, frame: FrameType, event: str, _: object) -> None:
        """As `sys.setprofile` calls it. What runs while a module is loaded is no part of the walk."""
        if event not in {"call", "return"}:
            return
        if frame.f_code.co_name == "<module>":
            self._loading.depth = getattr(self._loading, "depth", 0) + (1 if event == "call" else -1)
        elif event == "call" and not getattr(self._loading, "depth", 0) and (here := self._own(frame)):
            self.entered.add(here)
            caller = frame.f_back
            while caller is not None and not self._own(caller):
                caller = caller.f_back
            if caller is not None:
                self.pairs.add((self._own(caller), here))

    def _own(self, frame: FrameType) -> str:
        path = frame.f_code.co_filename
        inside = path.removeprefix(self._tree) if path.startswith(self._tree) else ""
        return inside if inside.partition(os.sep)[0] in ROOMS else ""

    def told(self) -> dict[str, object]:
        """Numbers, and the climbs themselves."""
        climbs = sorted(f"{one} -> {two}" for one, two in self.pairs if height(two) > height(one))
        return {"files entered": len(self.entered), "climbs": climbs}


def height(path: str) -> int:
    """Of the room that a file is in."""
    return ROOMS[max((room for room in ROOMS if f"{path}/".startswith(f"{room}/")), key=len)]


def walk(tree: Path, out: Path, command: list[str]) -> None:
    """Run one command of that tree in this process, seen."""
    sys.path[:] = [str(tree), *(each for each in sys.path if Path(each).resolve() not in {ROOT, Path(__file__).parent})]
    from expril.__main__ import main  # of the tree that is measured

    sys.argv = ["expril", *command]
    seen = Walk(tree)
    threading.setprofile(seen.see)
    sys.setprofile(seen.see)
    try:
        main()
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps(seen.told()), encoding="utf-8")


def walks(tree: Path, folder: Path, tell: Callable[[str], object]) -> dict[str, int]:
    """Both walks through one tree, as far as its commands go through."""
    for name in ("records.csv", "schema.toml"):
        (folder / name).write_bytes((tree / "docs" / "tour" / name).read_bytes())
    (folder / "walk.toml").write_text(SCENARIO, encoding="utf-8")
    runs, found = folder / "runs", {}
    environment = os.environ | {"FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    for name in ("simulate", "audit run"):
        command = (
            ["simulate", "walk.toml", "--out", runs] if name == "simulate" else ["audit", "run", *runs.glob("walk-*")]
        )
        this = [sys.executable, __file__, "--walk", tree, "--told", folder / "told.json", "--", *command]
        done = subprocess.run(
            list(map(str, this)), cwd=folder, env=environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            sys.stderr.write(f"expril {name} ended with {done.returncode} in {tree}:\n{done.stdout}{done.stderr}")
            break
        told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
        found |= {f"{name}: files entered": told["files entered"], f"{name}: climbs": len(told["climbs"])}
        tell("".join(f"  {name}: {climb}\n" for climb in told["climbs"]))
    return found


def measured(tree: Path, tell: Callable[[str], object]) -> dict[str, int]:
    """Everything of one tree."""
    with tempfile.TemporaryDirectory(prefix="measures-") as folder:
        return static(tree) | walks(tree, Path(folder), tell)


def main() -> None:
    """Print a line a measure: of the base, of this tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="HEAD", help="commit to measure beside the working tree")
    parser.add_argument("--tree", type=Path, default=ROOT, help="folder to measure instead of the working tree")
    parser.add_argument("--climbs", action="store_true", help="list the climbs, too")
    parser.add_argument("--walk", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.walk:
        walk(asked.walk, asked.told, asked.command)
        return
    tell = sys.stdout.write if asked.climbs else str
    with tempfile.TemporaryDirectory(prefix="measures-") as folder:
        archive = subprocess.run(["git", "archive", asked.base], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        tell(f"{asked.base}\n")
        before = measured(Path(folder), tell)
    tell("this tree\n")
    now = measured(asked.tree, tell)
    sys.stdout.write(f"{'':34}{asked.base[:10]:>12}{'now':>12}\n")
    for name in before | now:
        numbers = (f"{each[name]:,}" if name in each else "failed" for each in (before, now))
        sys.stdout.write(f"{name:34}{next(numbers):>12}{next(numbers):>12}\n")
    sys.exit(before.keys() != now.keys())


if __name__ == "__main__":
    main()
