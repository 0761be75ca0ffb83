"""Table 2 of the paper by the laboratory: all seven data sets, a tenth of the 100 runs of each, as a person runs it.

It takes two minutes of two cores. A run costs the same in the whole table, so that takes ten times as long, less the
seconds until the processes have loaded their modules.
"""

import tempfile

from benchmarks.common import Result, at_most, command_seconds

RUNS, DATA_SETS = 10, 7
MOST = 36.0
"""A tenth of six minutes."""
COMMAND = f"lab study reproduction --full --only experiments=table2 --repeats {RUNS}"


def run() -> list[Result]:
    """See the module."""
    with tempfile.TemporaryDirectory() as folder:
        wall, processor, status = command_seconds(*COMMAND.split(), "--out", folder)
    assert status == 0, COMMAND
    name = f"{DATA_SETS} x {RUNS} runs of Table 2"
    return [
        at_most(name, wall, MOST, "s", note="a process a core"),
        Result(f"{name}, processor time of all", processor, "s"),
        Result("a run of Table 2, processor time", processor / RUNS / DATA_SETS, "s", note="modules loaded among it"),
    ]
