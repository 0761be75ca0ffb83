"""What an administrator installs: the systemd unit and the image's recipe, held against the program."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import typer.main

from expril.command import app

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "expril-curator@.service"
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
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
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"benchmarks", "tests"}
    assert packages <= {source for sources in copied for source in sources}
    lists = {name: re.findall(rf"{name} \[(.*)\]", text)[-1] for name in ("ENTRYPOINT", "CMD")}
    words = [word.strip(' "') for name in ("ENTRYPOINT", "CMD") for word in lists[name].split(",")]
    assert words[0] == "expril"
    assert parsed(words[1:]).endswith("curator serve")
    (health,) = re.findall(r"HEALTHCHECK .*CMD \[(.*)\]", text)
    assert parsed([word.strip(' "') for word in health.split(",")][1:]).endswith("curator status")
    assert "USER 10001" in text
