"""How long a command that needs no data takes from start to exit, each in a process of its own."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import Result, at_most, seconds, spread

REPEATS = 5
MOST = 1.0
"""Seconds that nobody minds to wait for a list or a key."""
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
        return results


def _timed(arguments: Sequence[str]) -> tuple[float, float]:
    """Wall and user seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    wall = seconds(
        lambda: subprocess.run([sys.executable, "-m", "expril", *arguments], capture_output=True, check=True)
    )
    return wall, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
