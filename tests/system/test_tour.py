"""What the README and the tour show is what happens."""

import re
import subprocess
import sys
from pathlib import Path

from simulations.federation import run_repeat
from simulations.records import load_records
from simulations.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]


def run_python(*arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tours_two_sided_study_runs_and_its_second_fit_is_refused():
    out = run_python("docs/tour/study.py")
    assert "claimed 3/4" in out
    assert "ask for an epsilon of at most 1/4 (scales times 3)" in out


def test_the_tours_scenario_shows_a_refusal():
    scenario, _, folder = load_scenario(str(ROOT / "docs" / "tour" / "own.toml"))
    repeat = run_repeat(scenario, load_records(scenario, folder), 0)
    ada, grace = repeat.outcomes
    assert ada.study.outcomes == {"internal": ["release"], "surgery": ["release"]}
    assert grace.study.outcomes["surgery"] == ["refusal:over_budget"]
    assert grace.study.refusals["surgery"][0].remaining == "1/4"
    assert grace.study.refusals["surgery"][0].scale_factor == "2"


def test_the_readmes_python_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert float(run_python("-c", blocks[0])) > 0.9


def test_links_in_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
