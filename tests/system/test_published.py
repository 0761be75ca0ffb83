"""The walk from records to what a paper prints: every block of it, in order, in an empty folder."""

import json
import os
import re
import subprocess
import sys

import pytest

from curator_node.records.schema_file import read_schema_file
from learner_node.analyses.parts import read_parts
from learner_node.study_file import read_study
from simulations.datasets.files import DataUnavailableError
from simulations.datasets.support2 import load_support2
from trees import ROOT

PAGE = (ROOT / "docs" / "learner" / "published.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FILES = {text.splitlines()[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "toml"}


def test_the_plan_fits_the_schema_and_python_compiles():
    assert {kind for kind, _ in BLOCKS} == {"sh", "toml", "python"}
    schema = read_schema_file(FILES["schema.toml"]).schema
    study = read_study(FILES["STUDY.toml"].encode(), where="STUDY.toml")
    parts = read_parts(study.analyses, where="STUDY.toml")
    assert [len(part.questions(schema)) for part in parts] == [6, 1, 1]
    for kind, text in BLOCKS:
        if kind == "python":
            compile(text, "published.md", "exec")


@pytest.mark.slow
def test_every_block_runs_in_order(tmp_path):
    try:
        load_support2()
    except DataUnavailableError as error:
        pytest.skip(str(error))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = tmp_path / "bin" / "expril"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m expril "$@"\n')
    command.chmod(0o755)
    paths = {"PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    outputs = {}
    for kind, text in BLOCKS:
        if kind == "toml":
            continue
        typed = ["sh", "-e", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
        done = subprocess.run(
            typed, capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, **paths}
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        outputs[text] = done.stdout
    results = json.loads((tmp_path / "result.json").read_text())
    assert [part["kind"] for part in results["analyses"]] == ["table_one", "survival", "effects"]
    assert set(results["epsilon_spent"].values()) == {"1"}
    paragraph = " ".join(results["methods"])
    for words in ("5 hospitals", "ε = 1 and δ = 0", "added on purpose", "actuarial", "risk ratios"):
        assert words in paragraph
    page = (tmp_path / "study" / "result" / "report.html").read_text()
    for words in (
        "Number at risk",
        "odds ratio",
        "their population",
        "these records",
        "What did one patient give away",
    ):
        assert words in page
    assert "not proven" not in "".join(outputs.values())
