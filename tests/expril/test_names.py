"""`import expril` loads nothing, and what it names is there; who takes a table of the report takes no study with it."""

import json
import re
import subprocess
import sys
from pkgutil import resolve_name

import pytest

import expril
from absent import OF_EXTRAS
from simulations.run_order import choose
from simulations.scenario import load_scenario
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
    process = subprocess.run(
        [sys.executable, "-c", LOADED, *names], capture_output=True, text=True, check=True, cwd=ROOT
    )
    absent, modules = json.loads(process.stdout)
    return absent, {name for name in modules if room_of(name)}


def test_every_name_is_where_it_says_and_documented():
    assert expril.__all__ == list(expril.NAMES)
    page = (ROOT / "docs" / "researcher" / "python.md").read_text(encoding="utf-8")
    assert set(expril.NAMES) <= set(re.findall(r"`(\w+)", page))
    for name, place in expril.NAMES.items():
        assert getattr(expril, name) is resolve_name(place)
        assert name in dir(expril)
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        _ = expril.lode


PAGES = ("auditor/game", "steward/omop", "steward/site", "researcher/python", "researcher/runs", "researcher/tour")
USERS = [*(ROOT / "docs" / "tour").glob("*.md"), *(ROOT / "docs" / "tour").glob("*.py")]
USERS += [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in PAGES)]


@pytest.mark.parametrize("page", USERS, ids=lambda page: page.name)
def test_what_users_read_imports_from_expril_alone(page):
    text = page.read_text(encoding="utf-8")
    blocks = [text] if page.suffix == ".py" else re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    imports = set(re.findall(r"^\s*(?:from|import) ([\w.]+)", "\n".join(blocks), re.MULTILINE))
    assert not {name for name in imports if room_of(name)} - {"expril"}
    assert set(re.findall(r"\bexpril\.(\w+)", "\n".join(blocks))) <= set(expril.NAMES)


@pytest.mark.processes
def test_the_report_s_room_loads_no_side_of_a_study():
    names = [name for name in Modules() if room_of(name) == "expril.report"]
    assert "expril.report.table" in names
    absent, modules = loaded_by(*names)
    assert {name.partition(".")[0] for name in absent} <= set(OF_EXTRAS)
    assert {room_of(name) for name in modules - {"expril"}} <= {"expril.report", "expril.files", "protocol"}
    assert len(modules) > len(names) - len(absent)


@pytest.mark.slow
def test_a_researcher_s_day_takes_names_of_expril_alone(tmp_path):
    report, run = expril.simulate("wdbc", out=tmp_path, repeats=1)
    assert (run / "report.html").is_file()
    assert report.repeats == 1
    proof = expril.recompute(run)
    assert not proof.wrong
    (row, *_) = expril.quote("wdbc", epsilons=["1/2"], problems=20)
    assert str(row.epsilon) == "1/2"
    assert list(expril.load(run).classes_) == ["benign", "malignant"]
    with pytest.raises(expril.ExprilError, match="did you mean 'wdbc'"):
        expril.simulate("wbdc", out=tmp_path)
    with pytest.raises(expril.ExprilError, match="did you mean 'all'"):
        expril.simulate("wdbc", out=tmp_path, models="al")
    with pytest.raises(expril.ExprilError, match="confirm it with large_epsilon=True"):
        expril.simulate("wdbc", out=tmp_path, epsilon=100)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["latest", run.name]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"repeats": 0}, "repeats = 0: it must be a whole number, at least 1"),
        ({"repeats": "2"}, "repeats = '2': it must be a whole number, not text"),
        ({"seed": -1}, "seed = -1: it must be a whole number, at least 0"),
    ],
)
def test_what_replaces_a_scenario_s_value_is_checked_like_it(changes, wrong, tmp_path):
    """From a caller, or in the folder of a run that somebody edited."""
    with pytest.raises(expril.ExprilError, match=re.escape(wrong)):
        choose("wdbc", changes)
    text, _ = load_scenario("wdbc")[1:]
    (tmp_path / "scenario.toml").write_text(text, encoding="utf-8")
    (tmp_path / "report.json").write_text("{}", encoding="utf-8")
    (tmp_path / "again.json").write_text(json.dumps({"changes": changes}), encoding="utf-8")
    with pytest.raises(expril.ExprilError, match=r"repeats|seed|cannot be read"):
        choose(str(tmp_path), {})
