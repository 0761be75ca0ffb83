"""What the README, the first pages of the roles and the tours show is what happens."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from offline import bare, offline
from simulations.records import load_records
from simulations.repeats import run_repeat
from simulations.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("index.md", "installation.md", "researcher/tour.md"))]
PAGES += sorted(ROOT.glob("docs/*/index.md"))
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]
NOT_RUN = {
    "make test": "these tests",
    "make deploy-demo": "test_deploy_demo runs it on such a machine",
    "make audit": "four minutes; test_audit_all runs its parts",
    "make peers": "installs from a registry",
    "expril simulate wdbc --epsilon 0.1,0.3,1,3 --repeats 6": "a minute; test_epsilons has its parts",
    "python tests/support/protocol_pages.py": "writes pages; test_protocol_pages does it",
    "pip install --no-deps --only-binary :all: --require-hashes --requirement deploy/curator.lock": "test_wheel",
    "pip install --no-deps --no-build-isolation .": "test_wheel installs what it makes",
    "export EXPRIL_DATA_DIR=/path/to/uci": "a place to fill in; left unset, as the tour allows",
    "expril-lab study reproduction --full --only experiments=table2": "20 minutes",
    "expril-lab study reproduction --full --only experiments=figure1": "20 minutes",
    "expril-lab study reproduction --only experiments=table2-descent-10": "a minute; test_reproduction does it",
    "expril-lab study comparison --full --repeats 3 --only datasets=wdbc": "minutes; test_comparison has its parts",
    "expril-lab study synthetic --full --only datasets=wdbc --only generators=cells,mst,source,real": "make peers",
}
"""Command of these pages -> why no test runs it as it stands there."""
NEED_DATA = {
    "expril simulate readmission-30": "diabetic_data.csv.zip",
    "expril simulate heart": "processed.cleveland.data",
    "expril simulate support2": "support2.csv",
    "expril simulate support": "support2.csv",
    "expril simulate table1": "diabetic_data.csv.zip",
    "expril simulate ctg": "CTG.xls",
    "expril simulate ctg3": "CTG.xls",
    "expril simulate ctg-astv": "CTG.xls",
    "expril simulate heart --epsilon 0.1,0.3,1,3": "processed.cleveland.data",
    "expril simulate heart --carrier deploy": "processed.cleveland.data",
    "expril quote heart": "processed.cleveland.data",
}
"""Command of these pages -> the file that it lacks on a machine without data and network."""
RUN_TABLE = "learner site accuracy ± se expected majority regression (regression) claimed spent ─ ada (cells) all # ± #"
SHOWN = {
    "expril simulate odds": (
        "ada: # analysis at epsilon # by # curators",
        "all records: odds ratio # (# to #), these records",
        "all records: odds ratio # (# to #), p < #, their population",
        "intervals hold the exact value; the page has each",
        "report: runs/odds-",
    ),
    "expril simulate wdbc-faults": (
        "wdbc-faults: # repeats",
        RUN_TABLE,
        "grace (paper-c)",
        "report: runs/wdbc-faults-",
    ),
    "expril ledger show runs/latest/own/ledgers/surgery.ledger": (
        "spent and left learner key spent set aside cap left ─ ada # # # # # grace # # # # # all # #",
        "entries, chain and signatures verified to #",
        "# when (UTC) what learner study question epsilon note ─ # #-#-# #:#:# open",
    ),
    "expril audit run runs/latest/own": (
        "repeat learner curator key verdict claimed spent releases study ledger ─ # ada internal # proven # # #",
        "# grace surgery # refused # # # refused held",
        "transcripts: # proven",
    ),
    "expril transcript show runs/latest/own --learner ada --curator surgery --repeat 0": (
        "messages, head # # -> learner card_request # digest #",
        "<- curator study_accepted # digest #",
        "query #: counts of error_correct, cost c m S / scale = # * # * # / (#/#) = #/#",
    ),
    "expril report runs/latest/own": ("runs/latest/own/report.html",),
    "expril report runs/latest/own --files figures": ("runs/latest/own/report.html", ".svg", ".csv"),
    "expril simulate runs/latest/own": ("own: # repeats", RUN_TABLE, "report: runs/own-"),
    "expril-lab study reproduction --only datasets=C": (
        "Table #, ours and the paper’s: C column ours paper difference in std. errors runs ─ h* # ± # # ± #",
        "Privacy loss of the printed mechanism",
        "report: runs/reproduction/report.html",
    ),
}
"""Command whose output no page shows -> what it prints, in shape."""


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


@pytest.mark.slow
def test_the_tours_two_sided_study_runs_and_its_second_fit_is_refused():
    out = run_python("docs/tour/study.py")
    assert "claimed 3/4" in out
    assert "ask for an epsilon of at most 0.25 (scales times 3)" in out


@pytest.mark.slow
def test_the_tours_scenario_shows_a_refusal():
    scenario, _, folder = load_scenario(str(ROOT / "docs" / "tour" / "own.toml"))
    repeat = run_repeat(scenario, load_records(scenario, folder), 0)
    ada, grace = repeat.outcomes
    assert ada.study.outcomes == {"internal": ["release"], "surgery": ["release"]}
    assert grace.study.outcomes["surgery"] == ["refusal:over_budget"]
    assert grace.study.refusals["surgery"][0].remaining == "1/4"
    assert grace.study.refusals["surgery"][0].scale_factor == "2"


def shape(text):
    """A text without its digits, signs, digests, widths and line ends, and without verdicts, which chance decides."""
    text = re.sub(r"joining pays|own regression is better|undecided", "verdict", text)
    text = re.sub(r"Joining is shown to pay[^.]*\.|\d+ equal", "", text)
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # a count of about a thousand has a comma, or none
    text = re.sub(r"\b[0-9a-f]{8,}\b", "#", re.sub(r"─+", "─", text))
    return " ".join(re.sub(r"(?<!\S)[+−]?\d[\d.]*|\d[\d.]*", "#", text).split())


def commands():
    """(command, the text that a page shows of it) in the order in which they stand first."""
    found, last = {}, ""
    for kind, block in BLOCKS:
        lines = [line.partition("  #")[0].strip() for line in block.splitlines()] if kind == "sh" else []
        for command in lines:
            found.setdefault(command, "")
            last = last if command in NOT_RUN else command
        if kind == "text":
            found[last] = block
    return list(found.items())


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What git would clone of this working tree, with the libraries that are installed here, on a machine without data
    and network; called with a command, it runs it."""
    folder = tmp_path_factory.mktemp("clone") / "expril"
    tracked = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    for name in tracked.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    for inside in Path(sys.prefix).iterdir():
        if inside.name != ".installed":
            (folder / ".venv" / inside.name).symlink_to(inside)
    (folder / ".venv" / ".installed").touch()  # so that make installs nothing
    paths = {"PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(folder)}

    def run(*command):
        env = bare(folder.parent / "cache") | paths
        return subprocess.run(offline(*command), capture_output=True, text=True, check=False, cwd=folder, env=env)

    return run


@pytest.mark.slow
def test_every_command_does_in_a_bare_clone_what_its_page_shows_or_says_what_it_lacks(clone):
    seen = set()
    for command, shown in commands():
        seen.add(command)
        if command in NOT_RUN:
            continue
        done = clone("sh", "-e", "-c", command)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        if command in NEED_DATA:
            assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), (command, done.stderr)
            missing, url = NEED_DATA[command], r"https://\S+"
            told = (
                rf"error the data file {missing} is not available \(.*\): save {url} as {missing} in a folder and set"
            )
            assert re.match(told, done.stderr), (command, done.stderr)
            continue
        assert done.returncode == 0, (command, done.stderr)
        if "--json" in command:
            assert json.loads(done.stdout).keys() >= {"run", "learners"}
            continue
        printed = shape(done.stdout)
        for part in SHOWN.get(command, ()) if not shown else [shape(shown)]:
            assert part in printed, (command, part, printed)
        assert shown or command in SHOWN, f"{command}: what does it print?"
    assert seen >= {*NOT_RUN, *NEED_DATA, *SHOWN}, "a command that is named here is on no page any more"


@pytest.mark.slow
def test_the_tours_python_runs(clone):
    simulated, deployed = (block for kind, block in BLOCKS if kind == "python")
    done = clone(sys.executable, "-c", simulated)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 0.9
    compile(deployed, "tour.md", "exec")  # its federation are real hospitals; test_study_by_post asks such


def test_links_in_the_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
