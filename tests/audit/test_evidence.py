"""Evidence that lacks or hides something: each attack was once believed, and is now named."""

import json
import shutil
from fractions import Fraction

import msgspec
import pytest

from audit_results import FACTS, full_audit
from expril.audit.package.evidence import Replay, spent_by_curators
from expril.audit.package.writer import write_package
from expril.audit.recompute import recompute
from expril.audit.recompute.reports import RECOMPUTED, TOLD, check_report
from expril.audit.recompute.verdicts import IN_PART
from expril.audit.tables import sum_table
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.run_index import LEDGERS, TRANSCRIPTS
from run_forger import Forger, exit_code, leaves, make_run, other, replaced, said
from simulations.report.model import LearnerReport, RunReport
from simulations.run_folder import EPSILONS, epsilon_folder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


# Which folders are looked at


def destroy(folder):
    (folder / "report.json").write_text("{}")
    (folder / TRANSCRIPTS / "index.json").write_text("{}")


@pytest.fixture
def epsilons(honest_run, tmp_path):
    """Two runs in one folder, as `simulate --epsilon 0.1,1` leaves them."""
    for epsilon in ("0.1", "1"):
        shutil.copytree(honest_run[0], tmp_path / "both" / epsilon_folder(epsilon))
    list_epsilons(tmp_path / "both", "0.1", "1")
    return tmp_path / "both"


def list_epsilons(folder, *epsilons):
    (folder / EPSILONS).write_text(json.dumps({"epsilons": epsilons}))


def test_runs_at_several_epsilons_are_all_looked_at(epsilons):
    (epsilons / "report.html").write_text("a page")
    result = recompute(epsilons, delta=None)
    assert [run.folder.name for run in result.runs] == ["epsilon-0.1", "epsilon-1"]
    assert "in no run's list, and not looked at: report.html" in result.remarks
    assert all(run.proven for run in result.runs)


def test_an_unsigned_list_of_epsilons_drops_the_forged_run(epsilons):
    destroy(epsilons / "epsilon-0.1")
    assert "nothing in this folder is proven" in said(epsilons)
    list_epsilons(epsilons, "1")
    text = said(epsilons)
    assert "nothing in this folder is proven" in text
    assert "epsilon-0.1 is the folder of a run that epsilons.json beside it does not name" in text
    assert exit_code(epsilons) == 1


def test_a_destroyed_run_holds_an_honest_copy(honest_run, tmp_path):
    forger = Forger(honest_run[0], tmp_path / "outer")
    shutil.copytree(honest_run[0], forger.folder / "epsilon-1")
    list_epsilons(forger.folder, "1")
    assert "looks like a run, and epsilons.json in it says" in said(forger.folder)
    destroy(forger.folder)
    assert "nothing in this folder is proven" in said(forger.folder)
    assert exit_code(forger.folder) == 1


@pytest.mark.parametrize("link", [False, True], ids=["missing", "link"])
def test_a_folder_that_the_list_of_epsilons_names_is_missing(link, epsilons, honest_run):
    shutil.rmtree(epsilons / "epsilon-0.1")
    if link:
        (epsilons / "epsilon-0.1").symlink_to(honest_run[0])
    assert "names epsilon 0.1, and epsilon-0.1 is no run's folder" in said(epsilons)
    assert exit_code(epsilons) == 1


@pytest.mark.parametrize("text", ["{}", "[", '{"epsilons": 3}'])
def test_a_list_of_epsilons_that_cannot_be_read(text, epsilons):
    (epsilons / EPSILONS).write_text(text)
    assert "epsilons.json is damaged" in said(epsilons)
    assert exit_code(epsilons) == 1


def test_a_folder_of_runs_without_any_list(epsilons):
    (epsilons / EPSILONS).unlink()
    assert len(recompute(epsilons, delta=None).runs) == 2


def test_a_forged_run_behind_a_link_or_in_a_folder_of_progress_is_named_as_not_looked_at(epsilons, tmp_path):
    (epsilons / "epsilon-0.1").rename(tmp_path / "forged")
    destroy(tmp_path / "forged")
    list_epsilons(epsilons, "1")
    (epsilons / "epsilon-0.1").symlink_to(tmp_path / "forged")
    shutil.copytree(tmp_path / "forged", epsilons / ".progress" / "forged")
    assert "in no run's list, and not looked at: .progress/, epsilon-0.1/" in recompute(epsilons, delta=None).remarks


# What a transcript that was cut proves


def cut(forger, signers, end, **wanted):
    """Cut transcripts after `end` envelopes, and let all learners sign that."""
    for line in forger.transcripts(**wanted):
        forger.rewrite(line, forger.envelopes(line)[:end])
    forger.relist(signers)


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """A run of two repeats, of which the second keeps no ledger, and its learners' keys."""
    folder, run = make_run(tmp_path_factory.mktemp("twice"), repeats=2)
    return folder, run.signers


@pytest.fixture
def forger(twice, tmp_path):
    return Forger(twice[0], tmp_path / "copy")


GRACE = {"repeat": 1, "learner": "grace", "curator": "north"}


@pytest.mark.parametrize("end", [0, 2], ids=["emptied", "cut to its card"])
def test_a_transcript_that_shows_no_proposal_is_not_refused_and_bounds_nothing(end, forger, twice):
    cut(forger, twice[1], end, **GRACE)
    result = recompute(forger.folder, delta=None)
    assert result.wrong == []
    transcript = next(item for item in result.runs[0].transcripts if GRACE.items() <= vars_of(item.entry).items())
    assert (transcript.verdict, transcript.at_most) == (IN_PART, None)
    assert "it ends before any proposal" in transcript.remarks[0]
    rows = {row.learner: row for row in result.transcript_sums if row.curator == "north, repeat 1"}
    assert rows["grace"].at_most is rows[""].at_most is None
    assert rows["ada"].at_most == Fraction(1, 2)
    assert result.as_object()["runs"][0]["transcripts"][-1]["at_most"] != "unknown"
    assert "unknown over all" in sum_table(result).note
    with pytest.raises(ConfigurationError, match="nothing here bounds what north charged"):
        spent_by_curators(Replay(forger.folder, result, []), one_curator_each=True)


def vars_of(entry):
    return {name: getattr(entry, name) for name in GRACE}


@pytest.mark.parametrize(("end", "spent"), [(3, "0"), (4, "0"), (6, "1/3")])
def test_a_transcript_that_ends_early_may_have_been_charged_its_whole_plan(end, spent, forger, twice):
    cut(forger, twice[1], end, **GRACE)
    result = recompute(forger.folder, delta=None)
    assert result.wrong == []
    row = next(row for row in result.transcript_sums if (row.curator, row.learner) == ("north, repeat 1", "grace"))
    assert (str(row.spent), row.at_most) == (spent, 1)


def test_a_transcript_that_is_cut_to_its_card_is_contradicted_by_its_curators_ledger(forger, twice):
    cut(forger, twice[1], 2, **{**GRACE, "repeat": 0})
    assert "it charges 1 to study" in said(forger.folder)
    assert exit_code(forger.folder) == 1


# Ledgers that were dropped


@pytest.mark.parametrize("name", ["north", "east"])
def test_a_ledger_that_was_dropped_with_its_line(name, forger, twice):
    line = next(line for line in forger.index["ledgers"] if line["curator"] == name)
    (forger.folder / LEDGERS / line["file"]).unlink()
    for mark in (forger.folder / LEDGERS).glob(f"{name}.mark*"):
        mark.unlink()
    forger.index["ledgers"].remove(line)
    forger.relist(twice[1])
    assert f"the run's list names no ledger of {name}" in said(forger.folder)
    assert exit_code(forger.folder) == 1


# Every leaf of a report is computed anew, or is named as told


def names_of(place):
    return ".".join(key for key in place if isinstance(key, str))


def is_told(name):
    return any(f"{name}.".startswith(f"{told}.") for told in TOLD) and name not in RECOMPUTED


@pytest.mark.parametrize("only_first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_every_leaf_of_a_report_is_computed_anew_or_told(only_first, forger, twice):
    """All learners sign the report that was changed; so only what curators signed can contradict it."""
    proof = recompute(forger.folder, delta=None).runs[0]
    ledgers = {item.entry.curator: item.audit.replayed for item in proof.ledgers}
    path = forger.folder / "report.json"
    report = json.loads(path.read_bytes())
    passed, caught, met = set(), set(), set()
    for place, leaf in leaves(report):
        name = names_of(place)
        if only_first and name in met:
            continue
        met.add(name)
        for value in filter(leaf.__ne__, other(leaf)):
            path.write_text(json.dumps(replaced(report, place, value)))
            wrong = check_report(forger.folder, proof.index, proof.transcripts, ledgers)
            (caught if wrong else passed).add(name)
    assert {name for name in passed if not is_told(name)} == set()
    assert len(caught - passed) > 25
    assert {"learners.epsilon_spent", "learners.studies.claimed", "curators.spent_by_round.spent"} <= caught


def test_every_field_of_a_report_is_computed_anew_or_told():
    """Fields that the run above leaves out, too; the checks that these name are in `reports`."""

    def below(struct, place=""):
        for item in msgspec.structs.fields(struct):
            yield f"{place}{item.encode_name}"

    computed = {
        *("title", "created", "version", "seeded_noise", "repeats", "config_toml", "learners"),
        *("measure", "curators", "positive", "label", "classes", "units"),
        *("learners.learner", "learners.strategy", "learners.pooling", "learners.epsilon_claimed"),
        *("learners.epsilon_spent", "learners.studies", "learners.rounds_answered", "learners.purpose"),
    }
    fields = {*below(RunReport), *below(LearnerReport, "learners.")}
    assert fields == computed | {name for name in TOLD if name in fields}
    assert {name for name in TOLD if name not in fields} == {
        "learners.rounds_answered.outcomes",
        "learners.studies.failed",
    }


def test_what_is_told_is_named_in_the_output(forger):
    remarks = recompute(forger.folder, delta=None).unproven
    (told,) = [text for text in remarks if text.startswith("told by the learners, and not computed anew: ")]
    assert all(words in told for words in TOLD.values())


def test_a_page_and_local_files_are_named_as_no_evidence(forger):
    (forger.folder / "local").mkdir()
    (forger.folder / ".progress").mkdir()
    remarks = recompute(forger.folder, delta=None).unproven
    assert "no evidence, in no list, and not looked at: report.html, local/, .progress/" in remarks


def test_a_simulation_that_is_dressed_as_a_deployed_study(forger, twice):
    (forger.folder / "study.toml").write_text("x = 1")
    (forger.folder / "scenario.toml").unlink()
    (forger.folder / "cost.json").write_text('{"curators": {}}')
    forger.relist(twice[1])
    text = said(forger.folder)
    assert "report.json is of a simulation, and study.toml of a deployed study" in text
    assert "a deployed study has one repeat, one learner and no ledger" in text
    assert exit_code(forger.folder) == 1


# What a package claims follows from these verdicts


def refusal(folder, out):
    """Why no package of a run is written."""
    key = SigningKey.from_seed(bytes(32))
    with pytest.raises(ConfigurationError) as error:
        write_package([folder], out, key=key, facts=FACTS, audit=(full_audit(), "then"), schema=None, created="now")
    assert not out.exists()
    return str(error.value)


def test_no_package_claims_less_because_transcripts_were_emptied(forger, twice, tmp_path):
    cut(forger, twice[1], 0, repeat=1)
    assert "nothing here bounds what" in refusal(forger.folder, tmp_path / "package")


def test_no_package_is_written_where_ledgers_were_dropped(forger, twice, tmp_path):
    for line in forger.index["ledgers"]:
        (forger.folder / LEDGERS / line["file"]).unlink()
    for mark in (forger.folder / LEDGERS).glob("*.mark*"):
        mark.unlink()
    forger.index["ledgers"] = []
    forger.relist(twice[1])
    assert "the run's list names no ledger of" in refusal(forger.folder, tmp_path / "package")
