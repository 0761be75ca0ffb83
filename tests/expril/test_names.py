"""`import expril` loads nothing, and what it names is there; who takes a table of the report takes no study with it."""

import json
import subprocess
import sys
from pkgutil import resolve_name

import pytest

import expril
from absent import OF_EXTRAS
from trees import ROOT, Modules, room_of

LOADED = """
import importlib, json, sys
absent = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        absent.append(error.name)
print(json.dumps([absent, sorted(sys.modules)]))
"""


def loaded_by(*names):
    """What of ours a new process holds after these imports, and what they lacked."""
    done = subprocess.run([sys.executable, "-c", LOADED, *names], capture_output=True, text=True, check=True, cwd=ROOT)
    absent, held = json.loads(done.stdout)
    return absent, {name for name in held if room_of(name)}


def test_every_name_is_where_it_says():
    assert expril.__all__ == list(expril.NAMES)
    for name, place in expril.NAMES.items():
        assert getattr(expril, name) is resolve_name(place)
        assert name in dir(expril)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = expril.lode


@pytest.mark.processes
def test_the_report_s_room_loads_no_side_of_a_study():
    names = [name for name in Modules() if room_of(name) == "expril.report"]
    assert "expril.report.table" in names
    absent, held = loaded_by(*names)
    assert {name.partition(".")[0] for name in absent} <= set(OF_EXTRAS)
    assert {room_of(name) for name in held - {"expril"}} <= {"expril.report", "expril.files", "protocol"}
    assert len(held) > len(names) - len(absent)
