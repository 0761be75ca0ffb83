"""How long a first look takes from nothing, and how large a curator's installation is.

`make demo` in a fresh clone and a fresh environment, with an empty cache of pip; and what `deploy/curator.lock`
installs. Needs a package registry. Its pace is part of the seconds; the note says what the processors took.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import expril
from benchmarks.common import Result, at_most, seconds

TREE = Path(expril.__file__).resolve().parents[1]
DEMO, LARGEST, MOST = 40.0, 600.0, 40
"""Seconds; megabytes; packages."""
INSTALLED = ".venv/.simulates"
"""The target that `make demo` needs."""
BUILDERS = {"hatchling", "pathspec", "pluggy", "tomlkit", "trove_classifiers"}
"""What builds ExPriL and is not used afterwards."""
FOUND_BY_NONE = ("nvidia", "cuda")
"""Beginnings of names: no curator and no learner needs a GPU's libraries."""
_NO_CACHE = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"} | {"PIP_NO_CACHE_DIR": "1"}


def run() -> list[Result]:
    """See the module."""
    with tempfile.TemporaryDirectory() as place:
        return [*_demo(Path(place) / "demo"), *_curator(Path(place) / "curator")]


def _demo(clone: Path) -> list[Result]:
    _told("git", "clone", "--quiet", TREE, clone)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    installing = seconds(lambda: _told("make", INSTALLED, place=clone))
    running = seconds(lambda: _told("make", "demo", place=clone))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    again = seconds(lambda: _told("make", "demo", place=clone))
    packages, megabytes = _installed(clone / ".venv")
    for_gpu = [name for name in packages if name.startswith(FOUND_BY_NONE)]
    note = f"{taken:.0f} s of processor; {len(packages)} packages, {megabytes:.0f} MB"
    return [
        at_most("make demo", installing + running, DEMO, "s", note=note),
        Result("make demo, venv and pip alone", installing, "s", note="Python's own; nothing is compiled"),
        Result("make demo, the scenario", running, "s", note="the first time, when modules are compiled"),
        Result("make demo, once more", again, "s"),
        at_most("packages for a GPU that make demo installs", len(for_gpu), 0, "packages"),
    ]


def _curator(environment: Path) -> list[Result]:
    _told(sys.executable, "-m", "venv", environment)
    locked = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement")
    pip = (environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile")
    _told(*pip, *locked, TREE / "deploy" / "curator.lock")
    packages, megabytes = _installed(environment)
    note = f"beside {len(packages & BUILDERS)} that build ExPriL; the driver of PostgreSQL among them"
    return [
        at_most("a bare curator's installation", megabytes, LARGEST, "MB"),
        at_most("packages of a bare curator's installation", len(packages - BUILDERS), MOST, "packages", note=note),
    ]


def _installed(environment: Path) -> tuple[set[str], float]:
    """Names of the packages but pip's, and megabytes of all files that are not compiled."""
    site = next(environment.glob("lib/python*/site-packages"))
    names = {path.name.partition("-")[0] for path in site.glob("*.dist-info")} - {"pip", "setuptools"}
    files = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    aside = {"pip", "setuptools"}
    return names, sum(path.stat().st_size for path in files if path.relative_to(site).parts[0] not in aside) / 1e6


def _told(*command: object, place: Path | None = None) -> None:
    done = subprocess.run(
        [str(part) for part in command], cwd=place, env=_NO_CACHE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
