"""A scenario whose learner validates its model: what is told beside what is so, and both studies under audit."""

import json
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from expril.audit.recompute import recompute
from expril.audit.recompute.verdicts import PROVEN
from expril.commands.app import app
from expril.report.document import tables
from expril.report.page import as_page
from protocol.errors import ConfigurationError
from protocol.ledger.entries import EntryKind
from run_forger import Forger, make_run
from simulations.campaign.store import Store, read_cells
from simulations.records import load_records
from simulations.repeats import spent_by_round
from simulations.report.document import run_document
from simulations.report.model import JudgedInterval, decode_report, encode_report, joined_validations
from simulations.run import run_scenario, summary
from simulations.run_cells import RepeatCell
from simulations.run_order import ChosenScenario, Order
from simulations.scenario import Scenario, load_scenario

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ASKED = ('epsilon = "1/2"\nstrategy = "cells"', 'epsilon = "1/2"\nvalidate = "1/4"\nstrategy = "cells"')


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("validated"), repeats=1, change=ASKED)


@pytest.fixture
def complaints(finished, tmp_path):
    """What an auditor says of the run after a change to it, signed again."""

    def forge(change):
        folder, run = finished
        forger = Forger(folder, tmp_path / "copy")
        change(forger)
        forger.relist(run.signers)
        return "\n".join(recompute(forger.folder).runs[0].wrong)

    return forge


@pytest.mark.slow
def test_what_is_told_stands_beside_what_is_so(finished):
    _, run = finished
    ada, grace = run.report.learners
    told = ada.validation
    assert grace.validation is None
    assert (told.epsilon_claimed, told.epsilon_spent) == ("1/4", "1/4")
    assert (ada.epsilon_claimed, ada.epsilon_spent) == ("3/4", "3/4")
    assert [(one.what, one.claimed, one.spent) for one in ada.studies] == [
        ("model", "1/2", "1/2"),
        ("validation", "1/4", "1/4"),
    ]
    assert len(grace.studies) == 1
    assert 0.9 < told.area.exact <= 1
    assert told.prevalence.exact == pytest.approx(0.37, abs=0.08)
    assert told.rank_correlation > 0.9
    assert {site.curator for site in told.sites} <= {"north", "east", "south", "west"}
    exact = [point.sensitivity.exact for point in told.points]
    assert exact == sorted(exact, reverse=True)
    assert any(point.rule == "above 0.5" for point in told.chosen_points)
    assert told.hits in ("0 of 1", "1 of 1")


def terminal_tables(document):
    return list(tables(block for section in document.in_medium("terminal") for block in section.present))


def test_a_cell_is_read_back_as_it_was_to_the_last_bit(finished, tmp_path):
    cells = finished[1].cells
    assert all(learner.scores[""].last.roc for learner in cells[0].learners.values())
    with Store(tmp_path / "cells.jsonl", {}, RepeatCell) as store:
        for cell in cells:
            store.add(cell)
    assert read_cells(tmp_path / "cells.jsonl", RepeatCell) == cells


def test_report_page_table_and_json_have_it(finished):
    _, run = finished
    report = decode_report(encode_report(run.report))
    assert report == run.report
    document = run_document(report)
    page = as_page(document)
    assert "Validated by the curators" in page
    assert f"{report.learners[0].validation.area.exact:.3f}" in page
    results, *_, validated = terminal_tables(document)
    assert len(validated.groups[0].rows) >= 3
    told = summary(report, "runs/x")["learners"]
    assert told[0]["validation"]["areas"][0]["exact"] == report.learners[0].validation.area.exact
    assert told[1]["validation"] is None
    assert (told[0]["epsilon_spent"], [one["spent"] for one in told[0]["studies"]]) == ("3/4", ["1/2", "1/4"])
    assert set(run.metrics_frame().filter(pl.col("learner") == "ada")["epsilon_spent"]) == {"3/4"}
    assert "0.75 (model 0.5, validation 0.25)" in page
    assert "ada spent epsilon 0.75 (model 0.5, validation 0.25)" in results.note
    plain = msgspec.structs.replace(report, learners=report.learners[1:])
    assert "Validated by the curators" not in as_page(run_document(plain))
    assert not any("validated" in table.caption for table in terminal_tables(run_document(plain)))


@pytest.mark.slow
def test_both_studies_are_kept_and_proven(finished):
    folder, run = finished
    proof = recompute(folder).runs[0]
    assert proof.wrong == []
    of_ada = {(one.entry.curator, one.entry.study): one for one in proof.transcripts if one.entry.learner == "ada"}
    assert {study for _, study in of_ada} == {0, 1}
    assert of_ada["west", 1].verdict == PROVEN
    assert of_ada["west", 1].proof.epsilon_spent == Fraction(1, 4)
    spent = {point.round: point.spent for point in run.report.curators[-1].spent_by_round if point.learner == "ada"}
    assert spent == {1: "1/2", 2: "3/4"}


def test_another_cost_of_the_validation_is_noticed(finished, tmp_path):
    folder, run = finished
    for number, (key, value) in enumerate([("epsilon_spent", "1/8"), ("epsilon_claimed", "1/3")]):
        forger = Forger(folder, tmp_path / str(number))
        forger.report(lambda told, key=key, value=value: told["learners"][0]["validation"].update({key: value}))
        forger.relist(run.signers)
        assert "the validation of ada" in "\n".join(recompute(forger.folder).runs[0].wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon_spent": "1/2"}, "ada spent 1/2, transcripts and ledgers prove 3/4"),
        ({"epsilon_claimed": "1"}, "ada claimed 1, its plans cost 3/4"),
        (
            {"studies": [{"what": "model", "claimed": "1/2", "spent": "1/2"}]},
            "the validation of ada has transcripts, and no cost is told",
        ),
        (
            {
                "studies": [
                    {"what": "model", "claimed": "1/2", "spent": "1/4"},
                    {"what": "validation", "claimed": "1/4", "spent": "1/4"},
                ]
            },
            "the model of ada spent 1/4, transcripts and ledgers prove 1/2",
        ),
    ],
)
def test_another_cost_of_all_studies_is_noticed(complaints, change, said):
    assert said in complaints(lambda forger: forger.report(lambda told: told["learners"][0].update(change)))


def test_a_report_of_an_earlier_version_which_told_the_models_cost_alone_is_proven(complaints):
    old = {"studies": [], "epsilon_spent": "1/2", "epsilon_claimed": "1/2"}
    assert complaints(lambda forger: forger.report(lambda told: told["learners"][0].update(old))) == ""


def test_a_validation_left_out_of_the_list_is_noticed(complaints):
    def leave_out(forger):
        forger.remove([line for line in forger.transcripts(learner="ada", curator="west") if line.get("study")])

    assert "of which the run has no transcript" in complaints(leave_out)


def test_a_list_of_an_older_run_reads_as_one_of_fits(finished, tmp_path):
    folder, _ = finished
    lines = json.loads((folder / "transcripts" / "index.json").read_bytes())["transcripts"]
    assert all("study" not in line for line in lines if line["learner"] == "grace")


@pytest.mark.slow
def test_a_validation_that_is_refused_is_a_note_and_costs_nothing(tmp_path):
    change = (ASKED[0], ASKED[1].replace('validate = "1/4"', "validate = 2"))
    _, run = make_run(tmp_path, repeats=1, change=change)
    ada = run.report.learners[0]
    assert ada.validation is None
    assert ada.epsilon_spent == "1/2"
    assert any("ada's validation" in note for note in run.report.notes)


def test_several_classes_cannot_be_validated_and_nothing_is_asked(tmp_path):
    scenario, text, folder = load_scenario("ctg3")
    learners = (msgspec.structs.replace(scenario.learners[0], validate="1/4"),)
    changed = msgspec.structs.replace(scenario, learners=learners, repeats=1)
    try:
        records = load_records(changed, folder)
    except ConfigurationError as error:
        pytest.skip(f"set EXPRIL_DATA_DIR to a folder with the data set: {error}")
    with pytest.raises(ConfigurationError, match="validate is for a label of two classes"):
        run_scenario(Order(ChosenScenario(changed, text, folder, {}), records, ""))


@pytest.mark.parametrize("epsilon", ["0", "-1", "much", 100])
def test_an_epsilon_that_is_none_is_an_error_of_the_scenario(epsilon):
    learner = {"name": "ada", "validate": epsilon}
    wrong = {"title": "x", "data": {"name": "wdbc", "sites": {"how": "site"}}, "learners": [learner]}
    with pytest.raises(msgspec.ValidationError, match=r"validate: .*\$\.learners\[0\]"):
        msgspec.convert(wrong, Scenario)


class Charge:
    kind = EntryKind.CHARGE

    def __init__(self, study, sequence, amount):
        self.learner, self.study, self.sequence, self.amount = b"ada", study, sequence, amount


def test_rounds_of_a_later_study_are_counted_on():
    entries = [Charge(b"1", 1, "1/2"), Charge(b"1", 2, "1/4"), Charge(b"2", 1, "1/8")]
    points = spent_by_round(entries, {b"ada": "ada"})
    assert [(point.round, point.spent) for point in points] == [(1, "1/2"), (2, "3/4"), (3, "7/8")]


def test_repeats_are_joined_and_coverage_is_counted(finished):
    _, run = finished
    told = run.report.learners[0].validation
    missed = msgspec.structs.replace(told, areas=(JudgedInterval(value=0.5, low=0.4, high=0.6, exact=0.9),))
    both = joined_validations(
        [msgspec.structs.replace(told, areas=(JudgedInterval(value=0.5, low=0.4, high=0.6, exact=0.55),)), missed]
    )
    assert both.hits == "1 of 2"
    assert len(both.areas) == 2
    assert joined_validations([]) is None
    with pytest.raises(ValueError, match="does not lie between"):
        JudgedInterval(value=0.5, low=0.6, high=0.7, exact=None)


@pytest.mark.slow
def test_the_command_shows_the_exact_curve_beside_the_private_one(tmp_path):
    """With noise of a seed, what is near once is near again."""
    (tmp_path / "own.toml").write_text(
        "noise_seed = 1\n"
        + load_scenario("wdbc")[1]
        .replace("repeats = 12", "repeats = 1")
        .replace('strategy = "cells"', 'strategy = "cells"\nvalidate = 3\noptions = { networks = false }')
        .replace("cap = 2", "cap = 4")
    )
    result = CliRunner().invoke(app, ["simulate", str(tmp_path / "own.toml"), "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout.splitlines()[-1])["learners"][0]["validation"]
    assert abs(told["areas"][0]["value"] - told["areas"][0]["exact"]) < 0.05
    for point in told["points"]:
        assert abs(point["sensitivity"]["value"] - point["sensitivity"]["exact"]) < 0.2
    assert np.isfinite(told["rank_correlation"])
