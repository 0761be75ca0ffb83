"""The command line, as a person and as a machine use it."""

import json
import stat
import sys
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from absent import OF_EXTRAS, in_one_process
from command_line import run
from curator_node.key_files import read_key
from simulations.notes import failure_notes
from simulations.report.budget import StudyReport
from simulations.report.model import LearnerReport, RunReport, Score
from simulations.run import nothing_learned


def quick(folder, name, *changes):
    """A built-in scenario in a file, without networks, which take most of its time."""
    text = run("scenarios", name).output.replace(
        'strategy = "cells"', 'strategy = "cells"\noptions = { networks = false }'
    )
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / f"{name}.toml").write_text(text)
    return folder / f"{name}.toml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    result = run("simulate", quick(base, "wdbc-faults"), "--repeats", 2, "--out", base, "--json")
    return json.loads(result.stdout)


@pytest.mark.processes
def test_json_has_the_documented_shape(finished):
    fields = "run learners measure further lead positive records seeded_noise notes carrier"
    assert finished.keys() == set(fields.split())
    assert finished["carrier"] == "process"
    assert (finished["measure"], finished["further"]) == ("accuracy", "")
    assert finished["seeded_noise"] is False
    assert any("east dropped out at question 2" in note for note in finished["notes"])
    assert any("north answered only when asked again" in note for note in finished["notes"])
    ada, grace = finished["learners"]
    assert {"learner", "strategy", "epsilon_claimed", "epsilon_spent", "pooled", "sites"} <= ada.keys()
    assert grace["outcomes"]["west"] == ["refusal:over_budget"]
    assert ada["left_out"] == {}
    assert {name: why.split(";")[0] for name, why in grace["left_out"].items()} == {
        "east": "no reply",
        "west": "the plan costs more than is left",
    }
    assert [ada[name] for name in ("learner", "strategy", "epsilon_claimed", "epsilon_spent")] == [
        "ada",
        "cells",
        "1/2",
        "1/2",
    ]
    assert [site["curator"] for site in grace["sites"]] == ["north", "east", "south", "west"]
    for learner in finished["learners"]:
        assert Fraction(learner["epsilon_spent"]) <= Fraction(learner["epsilon_claimed"])
        for score in (learner["pooled"], *learner["sites"]):
            assert {"accuracy", "accuracy_se", "majority", "ceiling"} <= score.keys()
            assert all(0 <= score[key] <= 1 for key in ("accuracy", "accuracy_se", "majority", "ceiling"))
            assert all(0 <= score[key] <= 1 for key in ("auc", "auc_ceiling", "average_precision", "brier"))
        assert sum(learner["pooled"]["calibration"]["counts"]) > 100
        rules = [point["rule"] for point in learner["pooled"]["operating_points"]]
        assert rules == ["above 0.5", "above the prevalence", "highest 20 %", "highest 10 %", "highest 5 %"]
    assert (finished["lead"], finished["positive"]) == ("accuracy", "malignant")
    assert sum(site["held"] + site["source"] + site["test"] for site in finished["records"]) == 569
    assert ada["pooled"]["accuracy"] > ada["pooled"]["majority"] + 0.1


LIARS = """
title = "liars"
repeats = 1
seed = 2
[data]
name = "wdbc"
sites = { how = "random", fractions = { north = 0.4, east = 0.3, west = 0.3 } }
[[curators]]
name = "east"
round_size = 1_000_000_000
[[curators]]
name = "west"
limits = { kinds = { counts = { cells = 1 } } }
[[learners]]
name = "ada"
options = { networks = false }
"""


def left_out(report):
    """Notes of who was left out of ada's study."""
    (ada,) = report["learners"]
    return [f"First repeat, ada: {name} was {reason}." for name, reason in ada["left_out"].items()]


def test_a_run_names_who_was_left_out_and_why_on_its_page(tmp_path):
    (tmp_path / "liars.toml").write_text(LIARS)
    report = json.loads(run("simulate", tmp_path / "liars.toml", "--out", tmp_path, "--json").stdout)
    (ada,) = report["learners"]
    assert ada["outcomes"] == {"north": ["release"], "east": ["left out"], "west": ["left out"]}
    assert ada["left_out"].keys() == {"east", "west"}
    assert "declares 1000000000 records" in ada["left_out"]["east"]
    assert "its limit of 1 cells" in ada["left_out"]["west"]
    notes = left_out(report)
    assert [note for note in report["notes"] if "left out" in note] == notes
    page = (Path(report["run"]) / "report.html").read_text()
    assert all(note in page for note in notes)
    assert "1 of 1 question was answered with a release." in page
    assert "The learner went on without east, west; the notes say why." in page


@pytest.mark.slow
def test_a_run_prints_who_was_left_out_and_its_audit_holds(tmp_path):
    (tmp_path / "liars.toml").write_text(LIARS)
    report = json.loads(run("simulate", tmp_path / "liars.toml", "--out", tmp_path, "--json").stdout)
    printed = run("simulate", tmp_path / "liars.toml", "--out", tmp_path).stdout
    assert all(note in printed for note in left_out(report))
    assert "or was left out; its answers are not in the model" in printed
    assert "not proven" not in run("audit", "run", report["run"]).output.lower()


REFUSED = """
title = "refused"
repeats = 2
[data]
name = "wdbc"
sites = { how = "random", fractions = { north = 0.5, south = 0.5 } }
[[curators]]
name = "*"
cap = "1/10"
[[learners]]
name = "ada"
"""
UNHEARD = """
title = "unheard"
[data]
name = "wdbc"
sites = { how = "random", fractions = { north = 0.5, south = 0.5 } }
[[learners]]
name = "ada"
pooling = "secure"
[[faults]]
curator = "north"
kind = "vanish"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "why"), [(REFUSED, "at most 0.1 (scales times 10)"), (UNHEARD, "the secure sum failed")]
)
def test_where_nothing_was_learned_a_run_says_so_and_its_status_is_not_0(tmp_path, scenario, why):
    (tmp_path / "nothing.toml").write_text(scenario)
    result = run("simulate", tmp_path / "nothing.toml", "--out", tmp_path, "--json", code=2)
    report = json.loads(result.stdout)
    assert (report["kind"], report["error"]) == ("study", "nothing was learned by ada; the notes say why")
    repeats = 2 if scenario is REFUSED else 1
    assert report["learners"][0]["studies"][0]["failed"] == repeats
    assert why in report["notes"][0]
    assert ("ada learned nothing in 2 of 2 repeats." in report["notes"]) is (repeats == 2)
    assert "Nothing learned at epsilon 1" in (Path(report["run"]) / "report.html").read_text()


def test_several_repeats_say_how_many_brought_nothing_and_several_epsilons_at_which():
    reason = "no curator accepted the plan"
    failures = {"model": {3: reason, 5: "x"}, "validation": {0: "y"}}
    assert failure_notes("ada", failures, 12) == [
        f"ada learned nothing in 2 of 12 repeats; repeat 3: {reason}.",
        "ada's validation brought nothing in 1 of 12 repeats.",
    ]
    assert failure_notes("ada", failures, 1) == failure_notes("grace", {}, 12) == []
    reports = [learned_in(2), learned_in(2, failed=1), learned_in(2, failed=2)]
    assert nothing_learned(reports, ("0.1", "0.3", "1")) == "nothing was learned by ada at epsilon 1; the notes say why"
    assert nothing_learned(reports[:1], ()) == nothing_learned(reports[1:2], ()) == ""


def learned_in(repeats, *, failed=0):
    nothing = Score(value=None, value_se=None, constant=0.6, regression=0.9)
    learner = LearnerReport(
        learner="ada",
        strategy="cells",
        pooling="sum",
        epsilon_claimed="1",
        epsilon_spent="1",
        pooled=nothing,
        studies=(StudyReport("model", "1", "1", failed),),
    )
    words = dict.fromkeys(("title", "description", "created", "version", "command", "config_toml"), "")
    return RunReport(**words, seeded_noise=False, repeats=repeats, learners=(learner,))


def test_a_run_leaves_its_folder(finished, tmp_path):
    folder = Path(finished["run"])
    names = "scenario.toml metrics.parquet report.json report.html transcripts ledgers models again.json local"
    assert {path.name for path in folder.iterdir()} == set(names.split())
    metrics = pl.read_parquet(folder / "metrics.parquet")
    final = metrics.filter((pl.col("learner") == "ada") & (pl.col("curator") == ""))
    assert final["accuracy"].mean() == pytest.approx(finished["learners"][0]["pooled"]["accuracy"])
    page = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    assert str(folder) in run("report", folder).output
    assert (folder / "report.html").read_text() == page


def test_a_report_leaves_figures_and_tables_as_files(finished, tmp_path, monkeypatch):
    folder = Path(finished["run"])
    told = run("report", folder, "--files", tmp_path / "files").output.split()
    assert told[1:] == [str(path) for path in map(Path, told[1:]) if path.parent == tmp_path / "files"]
    assert {path.suffix for path in (tmp_path / "files").iterdir()} == {".svg", ".csv"}
    page = (folder / "report.html").read_text()
    assert len({Path(path).stem for path in told[1:]}) == page.count('<div class="save" hidden')
    assert all(f'-{Path(path).stem}" data-title=' in page for path in told[1:])
    run("report", folder, folder, "--files", tmp_path / "two")
    assert [path.name for path in (tmp_path / "two").iterdir()] == [folder.name]
    assert "name their folder with --files" in run("report", folder, "--png", code=2).output
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    told = run("report", folder, "--files", tmp_path / "png", "--png", code=2).output
    assert 'not installed (resvg_py): pip install "expril[simulations,figures]"' in told
    assert not (tmp_path / "png").exists()


def test_audit_run_replays_every_transcript_and_notices_a_changed_byte(finished):
    folder = Path(finished["run"])
    assert "not proven" not in run("audit", "run", folder).output.lower()
    file = min((folder / "transcripts").glob("*.msgpack"))
    original = file.read_bytes()
    try:
        file.write_bytes(original[:-10] + bytes([original[-10] ^ 1]) + original[-9:])
        assert "not proven" in run("audit", "run", folder, code=1).output
        file.unlink()
        assert "missing" in run("audit", "run", folder, code=1).output
    finally:
        file.write_bytes(original)


def test_audit_run_holds_receipts_against_the_ledgers_beside_them(finished):
    folder = Path(finished["run"])
    ledgers = folder / "ledgers"
    original = (ledgers / "north.ledger").read_bytes()
    try:
        (ledgers / "north.ledger").write_bytes((ledgers / "south.ledger").read_bytes())
        assert "opened by another key" in run("audit", "run", folder, code=1).output
    finally:
        (ledgers / "north.ledger").write_bytes(original)
    assert "not proven" not in run("audit", "run", folder, folder).output.lower()


@pytest.mark.slow
def test_an_epsilon_list_is_a_run_at_each_that_goes_on_is_verified_and_has_one_page(tmp_path):
    command = (
        "simulate",
        quick(tmp_path, "wdbc"),
        "--repeats",
        1,
        "--epsilon",
        "3,1/2",
        "--out",
        tmp_path / "runs",
        "--json",
    )
    report = json.loads(run(*command).stdout)
    folder = Path(report["run"])
    assert [run_report["epsilon"] for run_report in report["epsilons"]] == ["1/2", "3"]
    assert [run_report["learners"][0]["epsilon_claimed"] for run_report in report["epsilons"]] == ["1/2", "3"]
    assert [len(run_report["notes"]) for run_report in report["epsilons"]][1] > len(report["epsilons"][0]["notes"])
    assert report["epsilons"][0]["records"] == report["epsilons"][1]["records"]
    assert {path.name for path in folder.iterdir()} == {"epsilons.json", "report.html", "epsilon-1-2", "epsilon-3"}
    proven = json.loads(run("audit", "run", folder, "--json").stdout)
    assert len(proven["runs"]) == 2
    page = (folder / "report.html").read_text()
    (folder / "report.html").unlink()  # as an interrupted command leaves it
    again = json.loads(run(*command).stdout)
    assert again["run"] == report["run"]
    assert again["epsilons"] == report["epsilons"]
    assert (folder / "report.html").read_text() == page
    assert str(folder) in run("report", folder).output
    assert "result" not in run("simulate", "wdbc", "--epsilon", "1,x", code=2).stdout


@pytest.mark.slow
def test_noise_from_a_seed_is_never_just_proven(tmp_path):
    seeded = quick(tmp_path, "wdbc", ("repeats = 12", "repeats = 1\nnoise_seed = 7"))
    report = json.loads(run("simulate", seeded, "--out", tmp_path, "--json").stdout)
    assert report["seeded_noise"] is True
    output = run("audit", "run", report["run"]).output
    assert "3 proven, NOT PRIVATE" in output
    assert "3 proven\n" not in output


def test_a_run_that_fails_leaves_no_folder(tmp_path, monkeypatch):
    def fail(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("simulations.run.run_repeat", fail)
    assert "interrupted" in run("simulate", "wdbc", "--out", tmp_path, code=130).output
    assert list(tmp_path.iterdir()) == []


def test_help_and_version():
    assert run("--version").output.startswith("expril ")
    assert "built-in scenario" in run("simulate", "-h").output


def test_help_shows_what_stands_in_brackets(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert "[standard output]" in run("audit", "witness", "--help").output
    assert "[curators] and [learners]" in run("audit", "run", "--help").output


@pytest.mark.parametrize(
    "columns", ["40", pytest.param("80", marks=pytest.mark.slow), pytest.param("200", marks=pytest.mark.slow)]
)
def test_a_table_keeps_its_columns_whatever_the_width(columns, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", columns)
    output = run("simulate", quick(tmp_path, "wdbc"), "--repeats", 1, "--out", tmp_path).output
    assert all(word in output for word in ("ada (cells)", "north", "accuracy ± se", "claimed"))


def test_keys_are_private_and_never_overwritten(tmp_path):
    path = tmp_path / "deep" / "ada.pem"
    printed = run("keys", path).output.strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path).public.hex() == printed
    assert "never overwritten" in run("keys", path, code=2).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "wdbcc"], "did you mean 'wdbc'"),
        (["report", "nowhere"], "not the folder of a run"),
        (["audit", "run", "nowhere"], "holds no run"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, message):
    output = run(*arguments, code=2).output
    assert message in output
    assert "Traceback" not in output


def test_missing_data_files_are_a_clear_message(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPRIL_DATA_DIR", str(tmp_path))
    output = run("simulate", "heart", "--out", tmp_path, code=2).output
    assert "EXPRIL_DATA_DIR" in output
    assert "processed.cleveland.data" in output


def test_scenarios_lists_the_built_in_ones():
    output = run("scenarios").output
    assert all(name in output for name in ("wdbc", "heart", "ctg"))


@pytest.mark.slow
def test_an_auditor_needs_no_extra(finished):
    """No library of a learner or of a report can be imported, and all is said as before but for (epsilon, delta)."""
    run_ = finished["run"]
    calls = [["audit", "run", run_], ["transcript", "show", run_], ["ledger", "show", f"{run_}/ledgers/north.ledger"]]
    outcomes, loaded = in_one_process(*calls, blocked=OF_EXTRAS)
    assert not set(loaded) & set(OF_EXTRAS)
    for call, (code, out, err) in zip(calls, outcomes, strict=True):
        result = run(*call)
        if call[0] == "audit":
            assert (code, out.count(" proven ")) == (0, result.stdout.count(" proven "))
            assert 'pip install "expril[audit]"' in err
        else:
            assert (code, out, err) == (0, result.stdout, result.stderr)
