"""Notebooks of the documentation: each runs from top to bottom, and shows what it says."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from notebook import code_cells, read

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK, FIRST_STUDY = (ROOT / "docs" / f"{name}.ipynb" for name in ("researcher/new-kind", "learner/first-study"))


def python(*arguments, seconds=300, **environment):
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "support" / "notebook.py", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom_in_a_process_of_its_own():
    done = python(NOTEBOOK)
    assert done.returncode == 0, done.stderr
    assert "Holds: of 1 claimed" in done.stdout
    assert "Breaks its claim: of 1/3 claimed" in done.stdout
    assert "by receipt: 1/2 by ledger: 1/2" in done.stdout
    assert "at most 50" in done.stdout


@pytest.mark.slow
def test_a_first_study_goes_from_keys_to_predictions_and_an_audit(tmp_path):
    done = python(FIRST_STUDY, seconds=900, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^trip 8: south answered .* study_closed$", done.stdout, re.MULTILINE)
    assert "trip 9" not in done.stdout  # card, proposal, question, close; twice
    validated = re.search(r"^AUC by validation, .*: \[(.*), (.*), (.*)\]$", done.stdout, re.MULTILINE)
    value, low, high = map(float, validated.groups())
    assert 0.5 < low < value < high <= 1  # better than no model, by answers alone
    assert float(re.search(r"^AUC on 69 new patients: (.*)$", done.stdout, re.MULTILINE)[1]) > 0.5
    assert re.search(r"^  AUC +0\.500 +0\.\d", done.stdout, re.MULTILINE)  # on a hospital's own patients
    assert len(re.findall(r"^  ada +2 +1\.5 +0 +0\.5 ", done.stdout, re.MULTILINE)) == 2  # what is left at each
    assert "4 transcripts: 4 proven" in done.stdout
    assert "cost.json: curators, north, spent is 1/2, and the evidence gives 3/2" in done.stdout
    (home,) = tmp_path.glob("first-study-*")
    assert (home / "study" / "result" / "report.html").is_file()
    assert (home / "predictions.csv").stat().st_mode & 0o077 == 0


def test_a_first_study_needs_no_module_of_ours_but_the_public_one():
    code = "\n".join("".join(cell["source"]) for cell in code_cells(FIRST_STUDY))
    nodes = list(ast.walk(ast.parse(code)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    assert packages == {"expril", "numpy", "polars", "sklearn"}
    assert "expril" in names


def test_a_cell_that_fails_is_noticed_and_named(tmp_path):
    broken = tmp_path / "broken.ipynb"
    broken.write_text('{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "assert x == 2\\n"]}]}')
    done = python(broken)
    assert done.returncode != 0
    assert "code cell 0" in done.stderr


@pytest.mark.parametrize("path", [NOTEBOOK, FIRST_STUDY], ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_or_magics(path):
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        assert not any(line.lstrip().startswith(("%", "!")) for line in cell["source"])
