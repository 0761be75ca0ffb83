"""`python -m benchmarks [--base COMMIT] [NAME ...]` runs benchmarks, all by default, and writes `results/<name>.json`.

With `--base`, each benchmark is first run on the packages of that commit, in a worktree beside this tree and a moment
before. It is run by this tree's code of the benchmark, or by the commit's own where that does not fit. Both numbers
stand in the table and in the file. The exit status is the number of targets missed, 100 at most.
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
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import write_results
from benchmarks.load import Load

ROOT = Path(__file__).resolve().parents[1]
NAMES = (
    "startup",
    "work",
    "kernels",
    "million",
    "carriers",
    "many_curators",
    "audit_ledger",
    "audit_histories",
    "deployment",
    "timing",
    "noise",
    "sample",
    "statistic",
    "secure_sum",
    "holdout",
    "seam",
    "label_model",
    "growth",
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

    def values(self, name: str) -> dict[str, float]:
        """Value by the result's name; empty, and a line on standard error, where it cannot be measured there."""
        for folder in (self._ours, self._own):
            results = folder / "results" / f"{name}.json"
            results.unlink(missing_ok=True)
            path = os.pathsep.join(str(place) for place in (folder.parent, self._tree, self._tree / "lab"))
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks", name],
                cwd=folder.parent,
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            if results.exists():
                return {row["name"]: row["value"] for row in json.loads(results.read_bytes())}
        sys.stderr.write(f"{name}: cannot be measured on {self.commit[:8]}: {(done.stderr.splitlines() or [''])[-1]}\n")
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
    if not chosen.base:
        return min(100, sum(_missed(name) for name in names))
    with base_of(chosen.base) as base:
        return min(100, sum(_missed(name, base) for name in names))


def _missed(name: str, base: Base | None = None) -> int:
    before = base.values(name) if base else {}
    load = Load()
    results = importlib.import_module(f"benchmarks.{name}").run()
    write_results(name, results, load=load, base=(base.commit, before) if base else None)
    return sum(result.met is False for result in results)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


sys.exit(main(sys.argv[1:]))
