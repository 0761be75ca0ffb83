"""Table 2 of the paper on two cores: some of the 100 runs of every data set, with everything that a run consists of.

Runs cost alike, so a hundred take so many times longer. The command is that of `expril reproduce table2`, from opening
the store to the last cell. `EXPRIL_DATA_DIR` must name the folder with the CTG records.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.common import Result, at_most
from lab.paper.experiments import Setup
from lab.paper.finished import Finished
from lab.paper.runner import run_experiment
from lab.problems import PAPER_DATASETS
from simulations.campaign.store import Store

RUNS, ALL_RUNS, JOBS = 20, 100, 2


def run() -> list[Result]:
    """See the module."""
    setups = {name: Setup.of(name) for name in PAPER_DATASETS}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "cells.jsonl", {}, Finished)
        start = time.perf_counter()
        run_experiment("table2", setups, runs=RUNS, seed=0, jobs=JOBS, store=store)
        taken = time.perf_counter() - start
    note = f"{RUNS} runs of {len(setups)} data sets took {taken:.0f} s with {JOBS} processes; times {ALL_RUNS // RUNS}"
    minutes = taken * ALL_RUNS / RUNS / 60
    return [
        at_most("Table 2, 7 data sets x 100 runs, two cores", minutes, 20, "minutes", note=note),
        *(
            Result(
                f"{name}, one run",
                sum(cell.seconds for cell in store.finished.values() if cell.dataset == name) / RUNS,
                "s",
                note="of one process, beside another",
            )
            for name in setups
        ),
    ]
