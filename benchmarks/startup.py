"""How long people wait for what should be there at once: commands without data, a wrong file, and a first line.

Each in a process of its own.
"""

import os
import pty
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import expril
from benchmarks.common import Result, at_most, seconds, spread

TREE = Path(expril.__file__).resolve().parents[1]
REPEATS = 5
MOST = 1.0
"""Seconds that nobody minds to wait for a list or a key."""
WRONG = 0.5
"""Seconds until a mistake in a file is told."""
FIRST_LINE, FIRST_REPEAT = 1.5, 4.0
"""Seconds of processor until `expril simulate` shows that it starts, and that it repeats."""
NOTE = "the quickest of {} runs, of which {:.2f} s are user CPU; a first run also compiles"


def run() -> list[Result]:
    """See the module."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        key, ledger = folder / "curator.pem", folder / "ward.ledger"
        _timed(["keys", str(key)])
        _timed(["ledger", "create", str(ledger), "--key", str(key)])
        programs = {
            "--help": [],
            "--version": [],
            "simulate --help": [],
            "scenarios": [],
            "scenarios wdbc": [],
            "keys": ["{new}.pem"],
            "ledger create": ["{new}.ledger", "--key", str(key)],
            "ledger show": [str(ledger)],
            "ledger verify": [str(ledger)],
            "ledger backup": [str(ledger), "{new}.ledger"],
        }
        results = []
        for name, rest in programs.items():
            pairs = []
            for number in range(REPEATS):
                new = folder / f"{name}-{number}".replace(" ", "-")
                pairs.append(_timed([*name.split(), *(item.format(new=new) for item in rest)]))
            wall, user = min(pairs)
            note = NOTE.format(REPEATS, user)
            results.append(
                at_most(f"expril {name}", wall, MOST, "s", spread=spread([pair[0] for pair in pairs]), note=note)
            )
        told = {
            name: min(_timed(arguments, code=2) for _ in range(REPEATS)) for name, arguments in _wrong(folder).items()
        }
        note = "the slowest of " + ", ".join(f"{name} {wall:.2f} s" for name, (wall, _) in told.items())
        results.append(at_most("a wrong file", max(wall for wall, _ in told.values()), WRONG, "s", note=note))
        bare = min(_timed([], ["-c", "pass"])[1] for _ in range(REPEATS))
        for text, name, most in (("starting", "its first line", FIRST_LINE), ("repeats", "its repeats", FIRST_REPEAT)):
            shown = min(_until_shown(text, folder) for _ in range(REPEATS))
            note = f"user CPU of the quickest of {REPEATS}; an empty Python takes {bare:.2f} s"
            results.append(at_most(f"expril simulate to {name}", shown, most, "s", note=note))
        return results


def _wrong(folder: Path) -> dict[str, list[str]]:
    """Name of a command -> its arguments, with a file in which one word is wrong."""
    tour = TREE / "docs" / "tour"
    scenario, site, study = folder / "own.toml", folder / "site", folder / "STUDY.toml"
    scenario.write_text("titel = 1\n" + (tour / "own.toml").read_text(encoding="utf-8"), encoding="utf-8")
    schema = (tour / "schema.toml").read_text(encoding="utf-8").replace("lower = 0", 'lower = "0"', 1)
    (folder / "schema.toml").write_text(schema, encoding="utf-8")
    site.mkdir()
    (site / "policy.toml").write_text('name = "x"\ncapp = 1\n', encoding="utf-8")
    (site / "daemon.toml").write_text('superlink = "127.0.0.1:9092"\ninsecure = true\n', encoding="utf-8")
    study.write_text('title = "x"\nsource = "s.csv"\nepsilom = 1\n[curators]\nx = "y"\n', encoding="utf-8")
    return {
        "simulate": ["simulate", str(scenario)],
        "quote": ["quote", str(tour / "records.csv"), "--schema", str(folder / "schema.toml")],
        "learner run": ["learner", "run", str(study)],
        "curator serve": ["curator", "serve", str(site)],
        "curator answer": ["curator", "answer", str(folder), "--site", str(site)],
        "audit check-package": ["audit", "check-package", str(folder)],
    }


def _until_shown(text: str, folder: Path) -> float:
    """User seconds of `expril simulate wdbc` until its bar shows a text; it is ended there."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "expril", "simulate", "wdbc", "--fresh", "--out", str(folder / "runs")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while text.encode() not in seen:
            seen += os.read(ours, 4096)
        process.kill()
    os.close(ours)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def _timed(arguments: Sequence[str], program: Sequence[str] = ("-m", "expril"), code: int = 0) -> tuple[float, float]:
    """Wall and user seconds of one command, which ends with this status."""

    def command() -> None:
        done = subprocess.run([sys.executable, *program, *arguments], capture_output=True, check=False)
        assert done.returncode == code, done.stderr

    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    wall = seconds(command)
    return wall, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
