"""The wheel: what is in it, and that a bare installation of it keeps a curator and audits one."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest

from absent import OF_EXTRAS, in_one_process
from every_command import calls, hold
from run_forger import make_run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
EXCLUDED = [line for line in (ROOT / "deploy" / "curator.excluded").read_text().splitlines() if line[0] != "#"]
PACKAGES = ("protocol", "curator_node", "learner_node", "simulations", "expril")
"""And no other name that anybody else could want to import."""
POLICY = """
name = "ward"
cap = 2
[[learners]]
name = "ann"
key = "{}"
cap = 1
"""


def run(*command, code=0, **options):
    """Run away from the checkout, with nothing of it on the path."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=clean | {"COLUMNS": "200"}, **options
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """The programs of a fresh environment with what an administrator installs first, by its hashes."""
    programs = tmp_path_factory.mktemp("bare") / "bin"
    run(sys.executable, "-m", "venv", programs.parent)
    lock = [
        "--no-deps",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--requirement",
        ROOT / "deploy" / "curator.lock",
    ]
    run(programs / "python", "-m", "pip", "install", "--quiet", "--no-compile", *lock, cwd=programs)
    return programs


@pytest.fixture(scope="module")
def wheel(locked, tmp_path_factory):
    """Built by what is locked, too: nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ["wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    run(locked / "python", "-m", "pip", *build, cwd=folder)
    (built,) = folder.glob("expril-*.whl")
    return built


@pytest.fixture(scope="module")
def bare(locked, wheel):
    """The programs of an administrator's installation."""
    install = ["install", "--quiet", "--no-compile", "--no-index", "--no-deps", wheel]
    run(locked / "python", "-m", "pip", *install, cwd=locked)
    return locked


def test_the_wheel_holds_every_file_of_its_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    for package in PACKAGES:
        files = [path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {str(path.relative_to(ROOT)) for path in files} <= held
    endings = {Path(name).suffix for name in held}
    assert {".j2", ".css", ".js", ".toml", ".typed"} <= endings
    assert {
        "simulations/scenarios/wdbc.toml",
        "simulations/datasets/schemas/heart.toml",
        "expril/report/page.css",
    } <= held
    tops = {name.partition("/")[0] for name in held}
    assert {name for name in tops if not re.fullmatch(r"expril-[\d.]+\.dist-info", name)} == set(PACKAGES)


def test_a_bare_installation_brings_nothing_of_the_extras(bare):
    looked_up = f"from importlib.util import find_spec; print([name for name in {OF_EXTRAS!r} if find_spec(name)])"
    assert run(bare / "python", "-I", "-c", looked_up).stdout.strip() == "[]"
    checked = run(bare / "python", "-m", "pip", "check", code=1).stdout
    excluded = "|".join(re.escape(name) for name in EXCLUDED)
    assert all(
        re.search(rf" requires ({excluded}), which is not installed", line.lower()) for line in checked.splitlines()
    )


def test_a_steward_opens_a_curator_and_it_answers(bare, tmp_path):
    expril = bare / "expril"
    run(expril, "keys", tmp_path / "curator.pem")
    learner = run(expril, "keys", tmp_path / "ann.pem").stdout.strip()
    ledger = tmp_path / "curator.ledger"
    run(expril, "ledger", "create", ledger, "--key", tmp_path / "curator.pem")
    (tmp_path / "policy.toml").write_text(POLICY.format(learner))
    for name in ("schema.toml", "records.csv"):
        shutil.copyfile(ROOT / "docs" / "tour" / name, tmp_path / name)
    told = json.loads(run(bare / "python", "-I", ROOT / "tests" / "support" / "bare_study.py", tmp_path).stdout)
    assert not set(told["loaded"]) & set(OF_EXTRAS)
    ages = pl.read_csv(tmp_path / "records.csv")["age"]
    true = [ages.is_between(low, high, closed="left").sum() for low, high in ((0, 40), (40, 60), (60, 121))]
    # The last cell is of missing ages. A count is off by more than 40 with probability below 2 exp(-40) < 1e-16.
    assert all(abs(released - exact) <= 40 for released, exact in zip(told["counts"], [*true, 0], strict=True))
    assert "3 stored replies in order" in run(expril, "ledger", "verify", ledger).stdout
    assert "ann" in run(expril, "ledger", "show", ledger, "--policy", tmp_path / "policy.toml").stdout


def test_an_auditor_verifies_a_run_with_it(bare, tmp_path):
    folder, _ = make_run(tmp_path, repeats=1)
    assert "proven" in run(bare / "expril", "verify", folder).stdout
    assert "study_proposal" in run(bare / "expril", "transcript", "show", folder).stdout
    assert "signed by" in run(bare / "expril", "ledger", "verify", folder / "ledgers" / "north.ledger").stdout


def test_the_command_says_what_there_is(bare):
    assert "simulate" in run(bare / "expril", "--help").stdout
    assert run(bare / "python", "-m", "expril", "--help").stdout == run(bare / "expril", "--help").stdout
    assert "wdbc" in run(bare / "expril", "scenarios").stdout


def test_every_command_works_or_names_the_part_that_it_lacks(bare, tmp_path):
    given = calls(tmp_path)
    told, loaded = in_one_process(*given, python=(str(bare / "python"), "-I"), cwd=tmp_path)
    hold(told, given)
    assert not set(loaded) & set(OF_EXTRAS)
