"""Table 2 of the paper on two cores: some of the 100 runs of every data set, with everything that a run consists of.

Runs cost alike, so a hundred take so many times longer. The study is that of `expril-lab study reproduction`, from
opening the store to the written page. `EXPRIL_DATA_DIR` must name the folder with the CTG records.
"""

import tempfile
import time
from pathlib import Path

from benchmarks.common import Result, at_most
from lab.reproduction.experiments import ALL, TABLE
from lab.reproduction.findings import CELLS
from lab.reproduction.study import STUDY
from lab.study import Order

RUNS, ALL_RUNS, JOBS = 20, 100, 2


def run() -> list[Result]:
    """See the module."""
    size = STUDY.size(full=True, repeats=RUNS, only=[f"experiments={TABLE}"])
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        STUDY.run(Order(size, 0, Path(folder), "benchmarks.reproduction", JOBS))
        taken = time.perf_counter() - start
        cells = STUDY.cells(Path(folder))[f"{CELLS}/{TABLE}"]
    note = f"{RUNS} runs of {len(ALL)} data sets took {taken:.0f} s with {JOBS} processes; times {ALL_RUNS // RUNS}"
    minutes = taken * ALL_RUNS / RUNS / 60
    return [
        at_most("Table 2, 7 data sets x 100 runs, two cores", minutes, 20, "minutes", note=note),
        *(
            Result(
                f"{name}, one run",
                sum(cell.seconds for cell in cells if cell.dataset == name) / RUNS,
                "s",
                note="of one process, beside another",
            )
            for name in ALL
        ),
    ]
