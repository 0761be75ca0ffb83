"""The command in a process in which some libraries are absent."""

import json
import subprocess
import sys
from pathlib import Path

from expril.commands.terminal import APART, PARTS

ROOT = Path(__file__).resolve().parents[2]
OF_EXTRAS = ("torch", "sklearn", "scipy", "jinja2", "fastexcel", "pooch")
"""Libraries that a bare installation is without."""
OF_ANY_PART = frozenset({*OF_EXTRAS, *APART, "psycopg"}).union(*PARTS.values())
"""And all that any extra brings."""
WITHOUT = """
import json, sys
from traceback import format_exception
from typer.testing import CliRunner

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

blocked, calls = json.loads(sys.stdin.read())
sys.meta_path.insert(0, Blocked())
from expril.commands.app import app
told = []
for arguments in calls:
    done = CliRunner().invoke(app, arguments)
    crash = [] if isinstance(done.exception, SystemExit | None) else format_exception(done.exception)
    told.append((done.exit_code, done.stdout, done.stderr + "".join(crash)))
print(json.dumps([told, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def in_one_process(*calls, blocked=(), before=(), python=(sys.executable,), cwd=ROOT):
    """Give commands to a new process in which some libraries are absent, itself begun by the command `before`; exit
    status and output of each, with the traceback where it is one, and what was loaded in the end."""
    given = json.dumps([sorted(blocked), [[str(argument) for argument in call] for call in calls]])
    done = subprocess.run(
        [*before, *python, "-c", WITHOUT], input=given, capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
