"""A whole default audit of what is installed: `expril audit all`, over two processes."""

import os
import resource
import time

from benchmarks.common import Result, at_most
from expril.audit.attack.whole_audit import audit_everything

CORES = 2
MOST_SECONDS = 120.0


def run() -> list[Result]:
    """Seconds by the clock, and of the processors: the clock counts whatever else this machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    load, start = os.getloadavg()[0], time.perf_counter()
    result = audit_everything(workers=CORES)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
    missed = [one.name for one in result.controls if not one.caught]
    wrong = [one.kind for one in result.kinds if one.violation] + [one.name for one in result.checks if not one.passed]
    return [
        at_most(
            "whole default audit, by the clock",
            wall,
            MOST_SECONDS,
            "s",
            note=f"{CORES} processes; load before: {load:.1f}",
        ),
        at_most("whole default audit, processor time over its cores", used / CORES, MOST_SECONDS, "s"),
        at_most(
            "controls that were missed",
            len(missed),
            0,
            "controls",
            note=f"of {len(result.controls)}{': ' if missed else ''}{', '.join(missed)}",
        ),
        at_most(
            "releases that broke their claim, and checks that failed",
            len(wrong),
            0,
            "",
            note=f"of {len(result.kinds)} and {len(result.checks)}{': ' if wrong else ''}{', '.join(wrong)}",
        ),
        at_most(
            "attacks on studies above their bound, or short of their theory",
            sum(not (one.holds and one.reaches) for one in result.studies),
            0,
            "attacks",
            note=f"of {len(result.studies)}",
        ),
    ]
