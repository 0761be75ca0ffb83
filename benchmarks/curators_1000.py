"""Many curators in one process: 1,000 curators, 1 learner, 3 rounds, ledgers in memory.

Each size runs in fresh processes, which report the time of the study, of opening the curators, and their peak
resident memory. Time is linear in the curators where the exponent of a least-squares fit of log time on log
curators is at most 1.1: constant costs can only lower it, so only a superlinear term could raise it.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.common import Result, at_most, open_sites, seconds, spread
from benchmarks.study import ATTRIBUTES, RECORDS, run_study
from protocol.envelopes import SigningKey

SIZES = (125, 250, 500, 1000)
REPEATS = 2
MOST_SECONDS, MOST_GIB, MOST_EXPONENT = 30, 1.5, 1.1


def run() -> list[Result]:
    """See the module."""
    measured = [{size: _measure(size) for size in SIZES} for _ in range(REPEATS)]
    studies = {size: [runs[size]["study"] for runs in measured] for size in SIZES}
    largest = SIZES[-1]
    wholes = [runs[largest]["study"] + runs[largest]["opening"] for runs in measured]
    exponents = [_exponent([runs[size]["study"] for size in SIZES]) for runs in measured]
    return [
        at_most(
            f"{largest} curators, opening and study",
            min(wholes),
            MOST_SECONDS,
            "s",
            spread=spread(wholes),
            note=f"{RECORDS} records x {ATTRIBUTES} attributes each; best of {REPEATS}",
        ),
        at_most(f"{largest} curators, peak memory", max(r[largest]["gib"] for r in measured), MOST_GIB, "GiB"),
        at_most(
            "exponent of study time in curators",
            _exponent([min(studies[size]) for size in SIZES]),
            MOST_EXPONENT,
            "",
            spread=spread(exponents),
            note="least squares of log time on log curators, best of the repeats",
        ),
        *(Result(f"{size} curators, study", min(studies[size]), "s", spread=spread(studies[size])) for size in SIZES),
    ]


def _exponent(times: list[float]) -> float:
    return float(np.polyfit(np.log(SIZES), np.log(times), 1)[0])


def _measure(curators: int) -> dict[str, float]:
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.curators_1000", str(curators)],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def _measure_here(curators: int) -> dict[str, float]:
    key = SigningKey.generate()
    run_study(open_sites(1, RECORDS, ATTRIBUTES, key), key)
    sites = []
    opening = seconds(lambda: sites.extend(open_sites(curators, RECORDS, ATTRIBUTES, key)))
    study = seconds(lambda: run_study(sites, key))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"opening": opening, "study": study, "gib": peak / 2**30}


if __name__ == "__main__":
    print(json.dumps(_measure_here(int(sys.argv[1]))))
