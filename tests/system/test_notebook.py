"""docs/new-kind.ipynb: it runs from top to bottom, and shows what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from notebook import code_cells, read

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "new-kind.ipynb"


def python(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "support" / "notebook.py", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom_in_a_process_of_its_own():
    done = python(NOTEBOOK)
    assert done.returncode == 0, done.stderr
    assert "Holds: of 1 claimed" in done.stdout
    assert "Breaks its claim: of 0.3333 claimed" in done.stdout
    assert "by receipt: 1/2 by ledger: 1/2" in done.stdout
    assert "at most 50" in done.stdout


def test_a_cell_that_fails_is_noticed_and_named(tmp_path):
    broken = tmp_path / "broken.ipynb"
    broken.write_text('{"cells": [{"cell_type": "code", "source": ["x = 1\\n", "assert x == 2\\n"]}]}')
    done = python(broken)
    assert done.returncode != 0
    assert "code cell 0" in done.stderr


def test_the_notebook_is_kept_without_outputs_or_magics():
    notebook = read(NOTEBOOK)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in code_cells(NOTEBOOK):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        assert not any(line.lstrip().startswith(("%", "!")) for line in cell["source"])
