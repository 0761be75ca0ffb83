"""The page on OMOP tables: every block of it, in order, in an empty folder, in SQLite and in a PostgreSQL that runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (DOCS / "steward" / "omop.md").read_text(), re.DOTALL | re.MULTILINE)
DATABASES = ("SQLite", "PostgreSQL")
PLACES = ("north", "south", "clinic")


def blocks_of(database):
    """Those for any database, and those that name this one in their first line."""
    others = [f"in {name}" for name in DATABASES if name != database]
    return [(kind, text) for kind, text in BLOCKS if not text.splitlines()[0].endswith(tuple(others))]


def steps_of(database, folder):
    """A Python program of all blocks: files are written, shell blocks run between Python's."""
    steps = ["import subprocess", "from pathlib import Path"]
    for kind, text in blocks_of(database):
        if kind in ("toml", "sql"):
            names = re.findall(r"[\w/]+\.(?:toml|sql)", text.splitlines()[0])
            steps += [f"Path({name!r}).write_text({text!r})" for name in names]
        elif kind == "sh":
            steps.append(f"subprocess.run(['sh', '-e', '-c', {text!r}], check=True)")
        elif kind == "python":
            steps.append(text)
    return "\n".join(steps)


def test_the_page_s_python_compiles_and_names_both_databases():
    assert {kind for kind, _ in BLOCKS} == {"sh", "sql", "toml", "python"}
    for database in DATABASES:
        compile(steps_of(database, Path()), "omop.md", "exec")
        assert 0 < len(blocks_of(database)) < len(BLOCKS)


@pytest.mark.slow
@pytest.mark.parametrize("database", DATABASES)
def test_every_block_of_the_page_runs_in_order(database, tmp_path, request):
    urls = {}
    if database == "PostgreSQL":
        server = request.getfixturevalue("postgres")
        urls = {f"{place.upper()}_URL": server.new_url() for place in PLACES}
    shutil.copyfile(DOCS / "omop" / "make_omop.py", tmp_path / "make_omop.py")
    for name, module in (("expril", "-m expril"), ("python", "")):
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        command.chmod(0o755)
    paths = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-u", "-c", steps_of(database, tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, **paths, **urls},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    stays, right, frequent = re.search(r"(\d+) stays: model right in (0\.\d\d), .* in (0\.\d\d)", done.stdout).groups()
    assert int(stays) > 2500
    assert float(right) > float(frequent) + 0.05
    assert len(set(re.findall(r"spent 1, records ([0-9a-f]{32})", done.stdout))) == 2
    assert all(url not in done.stdout + done.stderr for url in urls.values())
