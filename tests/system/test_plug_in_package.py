"""A package of somebody else in a fresh environment: installed, named, used in two studies, upgraded, uninstalled."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from plug_in_wheels import toy_wheel

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "toy_program.py"


@pytest.mark.slow
def test_a_package_is_used_upgraded_and_uninstalled(tmp_path):
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "beside.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"COLUMNS": "200"}

    def call(*command):
        done = subprocess.run(list(map(str, command)), env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def pip(*arguments):
        call(sys.executable, "-m", "pip", "--quiet", "--python", python, *arguments)

    install = ["install", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    pip(*install, toy_wheel(tmp_path))
    call(python, "-P", PROGRAM, "use", tmp_path)
    pip(*install, "--upgrade", toy_wheel(tmp_path, "2.0", "\nNEWER = True\n"))
    call(python, "-P", PROGRAM, "refuse", tmp_path)
    pip("uninstall", "--yes", "expril-toy")
    call(python, "-P", PROGRAM, "read", tmp_path)
