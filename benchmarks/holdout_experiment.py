"""The blog's experiment on a holdout: how long its three procedures take on 50 data sets, on at most two cores.

Each data set is a process's task of its own, as in `expril simulate holdout`; what that adds are a file and its pages.
"""

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import Result, at_most
from experiments.campaign.provenance import cores
from experiments.campaign.runner import run_missing
from experiments.campaign.store import Task
from experiments.holdout.draws import BLOG, Sizes
from experiments.holdout.runs import LARGE, NAIVE, NO_EPSILON, THRESHOLDOUT, Run, compute_run

REPEATS, MOST_CORES = 50, 2
MINUTES = 10


def run() -> list[Result]:
    """See the module."""
    procedures, jobs, found = (NAIVE, THRESHOLDOUT, LARGE), min(MOST_CORES, cores()), []
    tasks = [Task(BLOG, name, NO_EPSILON, seed) for seed in range(REPEATS) for name in procedures]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        start = time.perf_counter()
        run_missing(tasks, partial(compute_run, Sizes(), {}), Run, lambda _: (path, {}), jobs=jobs)
        whole = (time.perf_counter() - start) / 60
        lines = path.read_text(encoding="utf-8").splitlines()
    found.append(
        at_most(
            "50 data sets of three procedures",
            whole,
            MINUTES,
            "minutes",
            note=f"{len(lines) - 1} runs of 50 steps by {jobs} processes",
        )
    )
    return found
