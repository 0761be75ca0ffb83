"""The tour from a CSV of encounters to a figure: every block of it, in order, in an empty folder."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from offline import bare, offline
from simulations.records import load_records, split_records
from simulations.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
TOUR = ROOT / "docs" / "tour"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (TOUR / "encounters.md").read_text(), re.DOTALL | re.MULTILINE)


def write_files(folder):
    """The records, and the TOML blocks under the name in their first line."""
    shutil.copyfile(TOUR / "encounters.csv", folder / "encounters.csv")
    for kind, text in BLOCKS:
        if kind == "toml":
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text)


def test_the_records_are_those_that_the_function_invents():
    spec = importlib.util.spec_from_file_location("make_encounters", TOUR / "make_encounters.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    lines = made.encounters()
    assert (TOUR / "encounters.csv").read_text() == "\n".join(lines) + "\n"
    assert (TOUR / "encounters.csv").stat().st_size < 100_000
    outcomes = [line.rpartition(",")[2] for line in lines[1:]]
    assert 0.08 < outcomes.count("yes") / len(outcomes) < 0.12


def test_the_tours_files_load_and_its_python_compiles(tmp_path):
    write_files(tmp_path)
    scenario, _, folder = load_scenario(str(tmp_path / "encounters.toml"))
    sites = split_records(scenario, load_records(scenario, folder), 0)
    assert list(sites) == ["east", "north", "south", "west"]
    shown = next(text for kind, text in BLOCKS if kind == "text")
    assert (TOUR / "encounters.csv").read_text().startswith(shown)
    assert {kind for kind, _ in BLOCKS} == {"sh", "text", "toml", "python"}
    assert [page.name for page in TOUR.glob("*.md")] == ["encounters.md"], "a page that no test runs"
    for kind, text in BLOCKS:
        if kind == "python":
            compile(text, "encounters.md", "exec")


@pytest.mark.slow
def test_every_block_of_the_tour_runs_in_order(tmp_path):
    """Shell blocks between Python's, which share one session, as in a notebook; no data file or network is there."""
    write_files(tmp_path)
    command = tmp_path / "bin" / "expril"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m expril "$@"\n')
    command.chmod(0o755)
    steps = ["import subprocess"]
    for kind, text in BLOCKS:
        if kind == "sh":
            steps.append(f"subprocess.run(['sh', '-e', '-c', {text!r}], check=True)")
        elif kind == "python":
            steps.append(text)
    paths = {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        offline(sys.executable, "-u", "-c", "\n".join(steps)),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=bare(tmp_path / "cache") | paths,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    assert "not proven" not in done.stdout
    assert re.search(r"epsilon 0\.3: AUC 0\.\d\d ± 0\.\d\d, regression 0\.\d\d", done.stdout)
    assert "calling everybody" in done.stdout
    assert "Validation at epsilon 2 by 4 curators" in done.stdout
    assert re.search(r"validated 0\.\d\d \(0\.\d\d to [01]\.\d\d\); on the same records without noise", done.stdout)
    lines = ET.parse(tmp_path / "figure.svg").findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 1 + 3 + 2 + 2
