"""The conformance suite: ExPriL's programs pass, others pass what they claim, and a careless one is found."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "conformance"
LEARNER, CURATOR = (f"{sys.executable} -m expril_under_test.{side}" for side in ("learner", "curator"))
CARELESS = f"{sys.executable} {Path(__file__).with_name('careless_learner.py')}"
JAVASCRIPT = [path for path in SUITE.glob("javascript/learner-under-test*") if path.suffix in (".js", ".mjs")]
NODE = shutil.which("node")


def suite(*words, path=(SUITE, ROOT)):
    """What the suite says: its exit status, and how many tests ended in each way."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path)), "COLUMNS": "300"}
    command = [sys.executable, "-m", "expril_conformance", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=SUITE)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", done.stdout.strip().splitlines()[-1])}
    return done.returncode, counts, done.stdout + done.stderr


@pytest.mark.slow
def test_our_learner_and_curator_pass_everything():
    status, counts, output = suite("--learner", LEARNER, "--curator", CURATOR)
    assert status == 0, output
    assert counts.keys() <= {"passed", "in"}
    assert counts["passed"] > 480


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="node is not installed: apt-get install nodejs")
@pytest.mark.skipif(not JAVASCRIPT, reason="there is no learner in JavaScript")
def test_a_learner_in_javascript_passes_what_it_claims():
    """It fails what its .xfails file names, and nothing else."""
    status, counts, output = suite("--learner", f"{NODE} {JAVASCRIPT[0]}")
    assert status == 0, output
    assert counts["passed"] > 150
    assert "skipped" not in counts


@pytest.mark.slow
def test_a_careless_learner_is_found():
    """It takes what is well formed from anybody; the suite says so of each signature, header and amount."""
    status, counts, output = suite("--learner", CARELESS, "--", "-k", "refused_reply or forged")
    assert status == 1, output
    failed = set(re.findall(r"FAILED .*?::test_(?:refused_reply\[)?(.*?)\]? - ", output))
    named = (
        "signed",
        "another recipient",
        "another study",
        "a charge of",
        "total",
        "forged_refusal",
    )
    assert {name for name in named if not any(name in each for each in failed)} == set()
    assert counts["failed"] > 20
    assert not any(name in each for each in failed for name in ("a byte too", "a field too", "no byte", "version 1"))


@pytest.mark.slow
def test_expected_failures_must_be_named_and_must_fail(tmp_path):
    """By a program that refuses everything, and so is right about what is badly encoded."""
    program = tmp_path / "nothing.py"
    program.write_text('import sys\nfor line in sys.stdin: print(\'{"refused": "decode"}\', flush=True)\n')
    command = ("--learner", f"{sys.executable} {program}", "--", "-k", "plans")
    expected = tmp_path / "nothing.py.xfails"
    expected.write_text(
        "test_vector[plans/of the study]  # it reads no plan\ntest_vector[plans/with a scale of zero]\n"
    )
    status, counts, output = suite(*command)
    assert status == 1
    assert counts["xfailed"] == 1
    assert "[XPASS(strict)]" in output
    assert re.search(r"^FAILED .*plans/with steps", output, re.MULTILINE)
    expected.write_text("test_no_such_test\n")
    status, _, output = suite(*command[:2])
    assert (status, "no test is called test_no_such_test" in output) == (4, True)


@pytest.mark.slow
def test_the_wheel_holds_the_vectors_and_nothing_of_ours(tmp_path):
    leavings = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    copy = shutil.copytree(SUITE, tmp_path / "copy", ignore=leavings)
    build = ["wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, copy]
    subprocess.run([sys.executable, "-m", "pip", *map(str, build)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(unpacked := tmp_path / "unpacked")
    there = {path for path in (SUITE / "expril_conformance").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {str(path.relative_to(SUITE)) for path in there} <= names
    assert not any(name.startswith(("expril_under_test", "javascript")) for name in names)
    listed = subprocess.run(
        [sys.executable, "-c", "from expril_conformance import vectors; print(*vectors())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(unpacked)},
    )
    assert len(listed.stdout.split()) == len([name for name in names if re.search(r"vectors/\w+\.json", name)]) - 1


def test_the_suite_lists_its_packages_and_has_the_version_of_the_project():
    project, suite_project = (
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")) for folder in (ROOT, SUITE)
    )
    folders = {path.parent for path in (SUITE / "expril_conformance").rglob("__init__.py")}
    packages = set(suite_project["tool"]["setuptools"]["packages"])
    assert packages == {".".join(path.relative_to(SUITE).parts) for path in folders}
    assert suite_project["project"]["version"] == project["project"]["version"]
