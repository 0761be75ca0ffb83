"""`expril audit mechanism`: what it prints, and its exit status; the audit itself is played by a stand-in."""

import json
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from expril.audit.attack import calibration, kinds
from expril.audit.attack import handle_checks as checks
from expril.audit.attack.controls import curators as controls
from expril.audit.results import Attack, Check, ControlResult, KindResult
from expril.commands.app import app

ATTACK = Attack(
    claimed="1", lower_bound=0.9, error_rate=0.001, draws=1000, neighbours="two sets", event="one", shares=(0.5, 0.2)
)


class Audit:
    """Answers as an audit would."""

    def __init__(self, monkeypatch, *, violation=False, caught=True, passed=True):
        self.asked = []
        check = Check(name="c", question="?", finding="[all] well", false_alarm=1e-9, power="all", passed=passed)

        def kind(name, *, draws, **_):
            self.asked.append((name, draws))
            verdict = "Holds" if not violation else "Breaks"
            return KindResult(kind=name, attack=ATTACK, exact=1.0, searched=7, violation=violation, verdict=verdict)

        def control(name, *, draws):
            self.asked.append((name, draws))
            return ControlResult(name=name, fault="It is broken.", truth="infinite", attack=ATTACK, caught=caught)

        monkeypatch.setattr(kinds, "audit_kind", kind)
        monkeypatch.setattr(controls, "audit_path_control", control)
        monkeypatch.setattr(checks, "path_checks", lambda name, **_: (check,))
        monkeypatch.setattr(calibration, "calibrate", lambda: (check,))


def run(*words):
    return CliRunner().invoke(app, ["audit", "mechanism", *words])


def test_everything_is_asked_and_printed(monkeypatch):
    audit = Audit(monkeypatch)
    result = run("all", "--draws", "5000")
    assert result.exit_code == 0, result.output
    assert audit.asked == [(name, 5000) for name in (*kinds.kinds_to_audit(), *controls.PATH_CONTROLS)]
    for word in ("counts/mass", "0.9000", "Holds", "paper_ratio_n0", "infinite", "[all] well"):
        assert word in result.output


def test_one_kind_and_no_controls_as_json(monkeypatch):
    audit = Audit(monkeypatch)
    result = run("counts/mass", "--no-controls", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert audit.asked == [("counts/mass", 100_000)]
    assert report["controls"] == []
    (kind_result,) = report["kinds"]
    fields = {name: kind_result[name] for name in ("kind", "claimed", "lower_bound", "exact", "violation")}
    assert fields == {"kind": "counts/mass", "claimed": "1", "lower_bound": 0.9, "exact": 1.0, "violation": False}
    assert Fraction(kind_result["claimed"]) == 1
    assert {"name": "c", "passed": True, "found": "[all] well", "false_alarm": 1e-9} in report["checks"]


@pytest.mark.parametrize("wrong", [{"violation": True}, {"caught": False}, {"passed": False}])
@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_what_is_wrong_is_exit_status_one(wrong, json_, monkeypatch):
    Audit(monkeypatch, **wrong)
    assert run("all", *json_).exit_code == 1


def test_an_unknown_kind_is_told_with_the_known(monkeypatch):
    Audit(monkeypatch)
    result = run("count")
    assert result.exit_code == 2
    assert "unknown query kind 'count' (did you mean 'counts'?)" in result.output.replace("\n", " ") or (
        "did you mean 'counts'" in result.output
    )
    assert "counts/squared_error" in result.output
