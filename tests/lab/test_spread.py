"""Campaigns over a Ray cluster: the same cells; a killed worker costs its cell, an interrupt none."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from expril.report.provenance import read_provenance
from lab.reproduction.model import ACCURACIES
from protocol.errors import ConfigurationError
from simulations.campaign.store import read_cells
from simulations.campaign.workers import ray_address
from spread_tasks import KILLED, TASKS, Number
from waiting import wait_for

pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds that a command may take on a machine that is busy."""


def reproduce(*arguments, status=0):
    order = ["study", "reproduction", "--only", "datasets=C", *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "lab", *map(str, order)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done


def lines_without_seconds(path):
    """The first line, and of each cell what it is of, its costs, and its scores: trained networks round to these."""
    first, *rest = path.read_bytes().splitlines()
    cells = sorted((json.loads(line) for line in rest), key=lambda cell: cell["run"])
    values = [cell.pop("values") for cell in cells]
    for cell in cells:
        del cell["seconds"]
    costs = [{name: value for name, value in each.items() if name not in ACCURACIES} for each in values]
    return (first, cells, costs), [[each[name] for name in ACCURACIES] for each in values]


def test_workers_on_the_command_line():
    assert ray_address("ray") == ""
    assert ray_address("ray://cluster:10001") == "ray://cluster:10001"
    for text in ("rays", "ssh://cluster", "10.0.0.1:6379"):
        with pytest.raises(ConfigurationError, match="--workers is ray"):
            ray_address(text)


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_named(tmp_path):
    order = ("--repeats", 1, "--out", tmp_path)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, and nobody listens
        where = f"ray://127.0.0.1:{sock.getsockname()[1]}"
        done = reproduce(*order, "--workers", where, status=2)
    assert f"error no Ray cluster answers at {where} (" in done.stderr


@pytest.mark.slow
def test_a_cluster_computes_the_cells_of_local_processes(tmp_path):
    order = ("--repeats", 2, "--set", "noise_seed=3", "--json")
    reproduce(*order, "--out", tmp_path / "local", "--jobs", 1)
    reproduce(*order, "--out", tmp_path / "ray", "--workers", "ray", "--jobs", 2)
    local, ray = (tmp_path / name / "reproduction" / "cells" / "table2.jsonl" for name in ("local", "ray"))
    (exact, scores), (same, near) = map(lines_without_seconds, (local, ray))
    assert exact == same
    np.testing.assert_allclose(scores, near, atol=2)
    assert "on a Ray cluster" in (tmp_path / "ray" / "reproduction" / "README.md").read_text()


CAMPAIGN = """
import sys
from pathlib import Path
import spread_tasks
from simulations.campaign.runner import Campaign
from simulations.campaign.spread import RayWorkers
out, compute = Path(sys.argv[1]), getattr(spread_tasks, sys.argv[2])
campaign = Campaign("numbers", out, 0, RayWorkers(most=2), "python -m numbers")
campaign.run_file(out / "cells.jsonl", spread_tasks.TASKS, compute, spread_tasks.Number)
"""


def started(out, compute):
    """A campaign in a process of its own: Ray leaves files open in the one that uses it."""
    env = {**os.environ, "EXPRIL_TEST_GO": str(out / "go"), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}"}
    command = [sys.executable, "-c", CAMPAIGN, str(out), compute]
    return subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_killed_worker_costs_its_own_cell_only(tmp_path):
    path = tmp_path / "cells.jsonl"
    with started(tmp_path, "compute_and_be_killed") as process:
        _, told = process.communicate(timeout=PATIENCE)
    assert f"seed {KILLED}: the process that computed it was killed" in told
    assert sorted(cell.seed for cell in read_cells(path, Number)) == [t.seed for t in TASKS if t.seed != KILLED]
    with started(tmp_path, "compute") as process:
        process.communicate(timeout=PATIENCE)
    assert sorted(cell.seed for cell in read_cells(path, Number)) == [t.seed for t in TASKS]
    assert read_provenance(tmp_path)["numbers"].workers == "on a Ray cluster"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupt_or_a_kill_keeps_finished_cells_and_leaves_no_process(tmp_path, how):
    path = tmp_path / "cells.jsonl"
    marker = f"EXPRIL_TEST_GO={tmp_path / 'go'}"
    process = started(tmp_path, "compute_or_wait")
    try:
        wait_for(lambda: path.exists() and path.read_bytes().count(b"\n") == 3, PATIENCE)
        process.send_signal(how)
        assert process.wait(PATIENCE) != 0
    finally:
        process.kill()
        process.communicate()
    wait_for(lambda: not processes_with(marker), PATIENCE)
    assert sorted(cell.seed for cell in read_cells(path, Number)) == [0, 1]


def processes_with(variable):
    """Numbers of the processes whose environment holds a variable; all of them are this test's."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
