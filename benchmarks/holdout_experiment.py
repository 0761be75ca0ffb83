"""The blog's experiment on a holdout: how long its three procedures take on 50 data sets, on at most two cores.

Each run is a process's task of its own, as in `expril-lab study holdout`; what that adds are a file and its pages. The
target is about the machine alone: the time of its processors over their number. The wall's is beside it, which
neighbours on a shared machine stretch.
"""

import os
import resource
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.common import Result, at_most
from expril.report.provenance import cores
from lab.cells import INFINITE
from lab.holdout.draws import BLOG, Sizes
from lab.holdout.runs import LARGE, NAIVE, THRESHOLDOUT, Run, compute_run
from simulations.campaign.runner import run_missing
from simulations.campaign.store import Task

REPEATS, MOST_CORES = 50, 2
MINUTES = 10


def run() -> list[Result]:
    """See the module."""
    jobs = min(MOST_CORES, cores())
    tasks = [Task(BLOG, name, INFINITE, seed) for seed in range(REPEATS) for name in (NAIVE, THRESHOLDOUT, LARGE)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        start, before = time.perf_counter(), _processor()
        run_missing(tasks, partial(compute_run, Sizes(), {}), Run, lambda _: (path, {}), jobs=jobs)
        wall, processor = time.perf_counter() - start, _processor() - before
        done = len(path.read_text(encoding="utf-8").splitlines()) - 1
    note = f"{done} runs of 50 steps by {jobs} processes; load average {os.getloadavg()[0]:.0f} in the end"
    return [
        at_most(
            "50 data sets, three procedures: processor time a core", processor / jobs / 60, MINUTES, "min", note=note
        ),
        Result("50 data sets, three procedures: on the wall", wall / 60, "min", note=note),
    ]


def _processor() -> float:
    """Seconds of this process and of those that it waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
