"""The one runner: goes on after a kill, works side by side, names what fails, leaves out what is not installed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from expril.report.provenance import read_provenance
from lab.peers import PeerUnavailableError
from protocol.errors import ConfigurationError
from simulations.campaign.runner import Campaign, FailedRunsError, run_missing, says_nothing
from simulations.campaign.store import Task, read_cells
from waiting import wait_for

ROOT = Path(__file__).parents[2]
TASKS = [Task("tiny", maker, "1", seed) for seed in range(6) for maker in ("adds", "doubles")]


class Number(msgspec.Struct, frozen=True):
    """A cell."""

    problem: str
    maker: str
    epsilon: str
    seed: int
    value: int
    seconds: float = 0.01

    @property
    def key(self):
        return Task(self.problem, self.maker, self.epsilon, self.seed)


def compute(task):
    return Number(*task, value=task.seed + 1 if task.maker == "adds" else 2 * task.seed)


def failing(task):
    if task.maker == "doubles":
        raise PeerUnavailableError("install it")
    if task.seed == 3:
        raise ArithmeticError("three")
    return compute(task)


def run(path, tasks, work, progress=says_nothing, **settings):
    file = path, {"experiment": "numbers", **settings}
    with Campaign("numbers", path.parent, 0, 1, "python -m numbers").session() as finish:
        run_missing(tasks, work, Number, lambda _: file, progress=progress, finish=finish)


def test_a_campaign_is_computed_once_and_says_where_it_comes_from(tmp_path):
    path, ticks = tmp_path / "new" / "cells.jsonl", []
    run(path, TASKS[:5], compute, seed=0)
    before = read_provenance(path.parent)["numbers"]
    assert (before.command, before.seed, before.skipped) == ("python -m numbers", 0, {})
    run(path, TASKS, compute, lambda *tick: ticks.append(tick), seed=0)
    assert [cell.key for cell in read_cells(path, Number)] == TASKS
    assert [what for what, *_ in ticks] == ["", *map(str, TASKS[5:])]
    assert ticks[-1][1] == pytest.approx(ticks[-1][2])
    content, noted = path.read_bytes(), (path.parent / "provenance.json").read_bytes()
    run(path, TASKS, pytest.fail, seed=0)
    assert (path.read_bytes(), (path.parent / "provenance.json").read_bytes()) == (content, noted)
    with pytest.raises(ConfigurationError, match="other settings"):
        run(path, TASKS, compute, seed=1)


def unhurried(task):
    time.sleep(0.02)
    return msgspec.structs.replace(compute(task), seconds=0.0)


def test_a_cell_that_does_not_say_how_long_it_took_gets_the_seconds_of_its_call(tmp_path):
    path = tmp_path / "cells.jsonl"
    run(path, TASKS[:2], unhurried)
    assert all(0.02 <= cell.seconds < 5 for cell in read_cells(path, Number))
    run(path, TASKS[:3], compute)
    assert read_cells(path, Number)[2].seconds == 0.01


def test_what_fails_is_named_and_what_is_not_installed_is_left_out(tmp_path):
    path = tmp_path / "cells.jsonl"
    with pytest.raises(FailedRunsError, match="adds on tiny, seed 3: ArithmeticError: three"):
        run(path, TASKS, failing)
    assert [cell.seed for cell in read_cells(path, Number)] == [0, 1, 2, 4, 5]
    assert read_provenance(tmp_path)["numbers"].skipped == {"doubles": "install it"}


WAITING = """
import signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_campaign as module

path = Path({path!r})

def waiting(task):
    if path.exists() and path.read_bytes().count(b"\\n") >= 4:
        signal.pause()
    return module.compute(task)

module.run(path, module.TASKS, waiting)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_a_killed_campaign_goes_on_with_what_it_had(tmp_path):
    path = tmp_path / "cells.jsonl"
    script = WAITING.format(tests=str(Path(__file__).parent), path=str(path))
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])},
    )
    wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") >= 4)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    had = read_cells(path, Number)
    assert 3 <= len(had) < len(TASKS)
    made = []

    def noting(task):
        made.append(task)
        return compute(task)

    run(path, TASKS, noting)
    assert made == TASKS[len(had) :]
    assert read_cells(path, Number) == [compute(task) for task in TASKS]
