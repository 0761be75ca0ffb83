"""`python -m benchmarks [--base COMMIT] [NAME ...]` runs benchmarks, all by default, and writes `results/<name>.json`.

Several run one after the other, each in a process of its own and stored as it ends; a failure is told, and the next one
runs. Then docs/performance.md and its pictures are made anew (`python -m benchmarks.figures` does this alone).

With `--base`, each benchmark is first run on the packages of that commit, in a worktree beside this tree and a moment
before. It is run by this tree's code of the benchmark, or by the commit's own where that does not fit. Both numbers
stand in the table and in the file. The exit status is the number of targets missed and of failures, 100 at most.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.common import RESULTS, print_table, stored_rows, write_results, write_rows
from benchmarks.load import Load

ROOT = Path(__file__).resolve().parents[1]
# The rows of docs/performance.md first, the longest last among them.
NAMES = (
    "startup",
    "installation",
    "kernels",
    "noise",
    "carriers",
    "timing",
    "deployment",
    "query_overhead",
    "throughput",
    "label_model",
    "secure_sum",
    "million",
    "many_curators",
    "growth",
    "audit_ledger",
    "audit_all",
    "table_two",
    "work",
    "sample",
    "statistic",
    "holdout",
    "seam",
    "audit_histories",
    "audit_game",
    "audit_mechanism",
    "audit_studies",
    "published",
    "analyses",
)


class Base:
    """A commit's packages, in a worktree that is removed in the end.

    Args:
        tree: the worktree.
        commit: its full digest.
    """

    def __init__(self, tree: Path, commit: str) -> None:
        self.commit = commit
        self._tree = tree
        self._own = tree / "benchmarks"
        self._ours = tree / "of-this-tree" / "benchmarks"
        shutil.copytree(ROOT / "benchmarks", self._ours, ignore=shutil.ignore_patterns("results", "__pycache__"))
        (self._ours.parent / "docs").symlink_to(tree / "docs")

    def values(self, name: str) -> dict[str, float]:
        """Value by the result's name; empty, and a line on standard error, where it cannot be measured there."""
        said = []
        for folder in (self._ours, self._own):
            results = folder / "results" / f"{name}.json"
            results.unlink(missing_ok=True)
            said.append(_run(name, folder.parent, self._tree))
            if results.exists():
                return {row["name"]: row["value"] for row in json.loads(results.read_bytes())}
        sys.stderr.write(f"{name}: cannot be measured on {self.commit[:8]}: {'; '.join(said)}\n")
        return {}


@contextmanager
def base_of(commit: str) -> Iterator[Base]:
    """Another commit beside this tree, for a while."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield Base(tree, _git("rev-parse", f"{commit}^{{commit}}"))
        finally:
            _git("worktree", "remove", "--force", str(tree))


def main(arguments: list[str]) -> int:
    """Run some benchmarks; the number of targets missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--base", metavar="COMMIT", help="measure that commit's packages beside this tree's")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.names if name not in NAMES]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    names = chosen.names or NAMES
    if len(names) == 1 and not chosen.base:
        missed = _missed(names[0])
    else:
        with base_of(chosen.base) if chosen.base else nullcontext() as base:
            missed = sum(_beside(name, base) for name in names)
    if (ROOT / "pyproject.toml").is_file():  # not beside another commit's packages
        importlib.import_module("benchmarks.figures").main()
    return min(100, missed)


def _missed(name: str) -> int:
    """Run a benchmark in this process; the number of targets missed."""
    load = Load()
    write_results(name, importlib.import_module(f"benchmarks.{name}").run(), load)
    print_table(name, rows := stored_rows(name))
    return sum(row["met"] is False for row in rows)


def _beside(name: str, base: Base | None) -> int:
    """Run a benchmark in a process of its own, after the same on another commit; the number of targets missed."""
    before = base.values(name) if base else {}
    written = _written(name)
    said = _run(name, ROOT, ROOT)
    if _written(name) == written:
        sys.stderr.write(f"{name}: failed, what was stored stays: {said}\n")
        return 1
    rows = stored_rows(name)
    for row in rows:
        if base and row["name"] in before:
            row["base"] = {"commit": base.commit, "value": before[row["name"]]}
    write_rows(name, rows)
    print_table(name, rows)
    sys.stdout.flush()
    return sum(row["met"] is False for row in rows)


def _written(name: str) -> int:
    path = RESULTS / f"{name}.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def _run(name: str, place: Path, tree: Path) -> str:
    """Run the benchmark of a folder on a tree's packages; the last line of its standard error."""
    path = os.pathsep.join(str(folder) for folder in dict.fromkeys((place, tree, tree / "lab")))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stderr.splitlines() or [""])[-1]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


sys.exit(main(sys.argv[1:]))
