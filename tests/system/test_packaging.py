"""What an administrator installs: the systemd unit and the image's recipe, held against the program."""

import re
import shlex
import shutil
import subprocess
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import click
import pytest
import typer.main
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from expril.commands.app import app

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "expril-curator@.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
LOCK = ROOT / "deploy" / "curator.lock"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSURE = 1.5
"""Of 10, as systemd-analyze counts; 9.6 is a unit that says nothing."""


def settings(name):
    """All values of a setting of the unit, in order."""
    lines = [line for line in UNIT.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return [line.partition("=")[2] for line in lines if line.partition("=")[0] == name]


def parsed(words):
    """The command that words call; UsageError where there is none such."""
    command = typer.main.get_command(app)
    context = click.Context(command)
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, list(words))
        context = click.Context(command, parent=context, info_name=name)
    command.parse_args(context, list(words))
    return context.command_path


@pytest.fixture
def installed(tmp_path):
    """The unit of a site "ward" as systemd finds it, whose program exists."""
    program = tmp_path / "expril"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "expril-curator@ward.service"
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/expril/bin/expril", str(program)))
    return unit


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit(installed):
    said = subprocess.run([ANALYZE, "verify", installed], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_the_unit_is_among_the_hardest(installed):
    threshold = f"--threshold={int(MOST_EXPOSURE * 10)}"
    command = [ANALYZE, "security", "--offline=true", "--no-pager", threshold, installed]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout[-400:]


def test_the_unit_calls_commands_that_there_are():
    (start,) = settings("ExecStart")
    program, *words = shlex.split(start)
    assert Path(program).name == "expril"
    assert parsed(words).endswith("curator serve")


def test_the_unit_lets_nothing_out_but_to_what_the_administrator_adds():
    assert settings("IPAddressDeny") == ["any"]
    assert settings("IPAddressAllow") == ["localhost"]
    assert settings("NoNewPrivileges") == ["yes"]
    assert settings("CapabilityBoundingSet") == [""]


def test_records_and_what_the_steward_wrote_are_read_only_to_the_unit():
    from curator_node import site

    read_only = " ".join(settings("ReadOnlyPaths"))
    for name in (site.POLICY, site.SCHEMA, site.KEY, "records.csv", "records.parquet"):
        assert f"-/var/lib/expril/%i/{name}" in read_only.split()


def test_the_image_is_made_of_files_that_there_are_and_runs_a_command_that_there_is():
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    copied = [words.split()[1:-1] for words in text.splitlines() if re.match(r"COPY (?!--from)", words)]
    assert all((ROOT / source).exists() for sources in copied for source in sources)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks", "lab", "tests"}
    assert packages <= {source for sources in copied for source in sources}
    lists = {name: re.findall(rf"{name} \[(.*)\]", text)[-1] for name in ("ENTRYPOINT", "CMD")}
    words = [word.strip(' "') for name in ("ENTRYPOINT", "CMD") for word in lists[name].split(",")]
    assert words[0] == "expril"
    assert parsed(words[1:]).endswith("curator serve")
    (health,) = re.findall(r"HEALTHCHECK .*CMD \[(.*)\]", text)
    assert parsed([word.strip(' "') for word in health.split(",")][1:]).endswith("curator status")
    assert "USER 10001" in text
    assert re.search(r"--require-hashes --requirement deploy/curator\.lock", text)
    assert all(option in text for option in ("--no-deps --no-build-isolation .", "--only-binary :all:"))


def left_out():
    """What the lock leaves out."""
    lines = (ROOT / "deploy" / "curator.excluded").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def locked(path):
    """Name -> (version, lines of hashes) of a file that pip reads; nothing else may be in it."""
    found = {}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for entry in "\n".join(lines).replace("\\\n", " ").splitlines():
        pinned, *hashes = re.split(r"\s+--hash=", entry.strip())
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), entry
        name, version = re.fullmatch(r"([\w.-]+)==([\w.]+)(?: ; .*)?", pinned).groups()
        assert found.setdefault(canonicalize_name(name), (version, hashes))[1] is hashes, f"{name} is there twice"
    return found


def needed(requirements, excluded):
    """Names -> what is asked of their versions, by these requirements and, as far as it is installed, by theirs, but
    for what the lock leaves out."""
    found, waiting = {}, [(Requirement(each), "") for each in requirements]
    while waiting:
        one, wanted = waiting.pop()
        name = canonicalize_name(one.name)
        if (
            name in excluded
            or (one.marker and not one.marker.evaluate({"extra": wanted}))
            or one in found.get(name, ())
        ):
            continue
        found.setdefault(name, []).append(one)
        try:
            inner = requires(name) or []
        except PackageNotFoundError:  # what builds ExPriL lies in an environment of its own
            inner = []
        waiting += [(Requirement(each), wanted) for each in inner for wanted in ("", *one.extras)]
    return found


def test_a_curators_lock_holds_all_that_it_installs_in_the_tested_versions_and_by_hash():
    project, lock = PYPROJECT["project"], locked(LOCK)
    assert all(hashes for _, hashes in lock.values())
    asked = (
        project["dependencies"] + project["optional-dependencies"]["postgresql"] + PYPROJECT["build-system"]["requires"]
    )
    excluded = set(left_out())
    assert not excluded & lock.keys()
    for name, requirements in needed(asked, excluded).items():
        assert name in lock, name
        for each in requirements:
            assert each.specifier.contains(lock[name][0]), (each, lock[name][0])
    tested = locked(ROOT / "requirements.lock")
    assert {name: version for name, (version, _) in lock.items() if name in tested} == {
        name: version for name, (version, _) in tested.items() if name in lock
    }


def test_the_page_says_what_a_curators_installation_holds_and_how_large_it_is():
    """Wheels of other Pythons and processors are a little larger or smaller."""
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*) \| (\d+) \| .* \|$", page, re.MULTILINE)
    sizes = {}
    for name in locked(LOCK):
        with suppress(PackageNotFoundError):
            files = [each for each in distribution(name).files if each.suffix != ".pyc"]
            sizes[name] = sum(each.locate().stat().st_size for each in files if each.locate().is_file()) / 1e6
    told = {name: float(megabytes) for names, megabytes in rows for name in [tuple(re.findall(r"`([\w-]+)`", names))]}
    assert len(told) == 7
    named = {name for names, _ in rows[:-1] for name in re.findall(r"`([\w-]+)`", names)}
    for names, megabytes in list(told.items())[:-1]:
        assert sum(sizes[name] for name in names) == pytest.approx(megabytes, rel=0.2, abs=2), names
    assert sum(size for name, size in sizes.items() if name not in named) < 20
    assert sum(sizes.values()) <= 350
    assert len(sizes) <= 42


def test_who_reads_how_to_install_a_curator_is_told_to_use_the_lock():
    for page in ("docs/installation.md", "docs/administrator/administration.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "--require-hashes --requirement deploy/curator.lock" in text, page
        assert "--no-deps --no-build-isolation ." in text, page


def test_the_image_keeps_its_health_check_and_is_run_as_podman_allows():
    """Only the format docker has health checks; keep-id is refused to root, whose user is the folder's."""
    page = (ROOT / "docs" / "administrator" / "administration.md").read_text(encoding="utf-8")
    commands = [line for line in page.replace("\\\n", " ").splitlines() if line.startswith("podman ")]
    commands += re.findall(r"^# (podman .*)", CONTAINERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    builds, runs = ([one for one in commands if one.startswith(f"podman {verb} ")] for verb in ("build", "run"))
    assert ["--format docker" in one for one in builds] == [True, True]
    assert [("$(id -u expril)" in one, "--userns keep-id" in one) for one in runs] == [(True, False), (False, True)]


def test_the_laboratory_lists_all_of_its_packages_and_has_the_version_of_what_it_needs():
    told = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {path.parent for path in (ROOT / "lab").rglob("__init__.py")}
    assert set(told["tool"]["setuptools"]["packages"]) == {".".join(path.relative_to(ROOT).parts) for path in folders}
    assert told["project"]["version"] == PYPROJECT["project"]["version"]
