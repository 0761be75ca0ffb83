"""The demonstration of a deployment: from the first command to the last word, and nothing is left running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from offline import bare, offline
from waiting import wait_for

ROOT = Path(__file__).parents[2]
PATIENCE = 900.0
"""Seconds that it may take on a machine that is busy."""


def started(out):
    """On a machine without data files and network, as a newcomer's may be."""
    env = {**bare(out / "cache"), "PYTHONPATH": str(ROOT)}
    command = offline(sys.executable, "-m", "simulations.deploy_demo", "--out", out)
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def running_in(folder):
    """Processes whose command or working directory names a folder; all of them are this test's."""
    numbers = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            text = (place / "cmdline").read_bytes() + bytes((place / "cwd").readlink())
        except OSError:
            continue
        if str(folder).encode() in text and int(place.name) != os.getpid():
            numbers.append(int(place.name))
    return numbers


@pytest.mark.slow
def test_the_demonstration_runs_from_end_to_end_and_leaves_no_process(tmp_path):
    with started(tmp_path) as process:
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    for expected in ("all of them are connected", "ada   | result", "grace | validated AUC", "3 transcripts: 3 proven"):
        assert expected in output
    assert "6 transcripts: 6 proven" in output, "grace asked twice"
    for name in ("north", "east", "south"):
        assert f"ada   | {name:<9} epsilon 1 spent" in output
    assert running_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_demonstration_that_is_ended_early_takes_everything_with_it(tmp_path, how):
    with started(tmp_path) as process:
        try:
            for line in process.stdout:
                if "Two learners" in line:
                    break
            assert running_in(tmp_path)
            process.send_signal(how)
            process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode != 0
    wait_for(lambda: not running_in(tmp_path), PATIENCE)
