"""A deployed study's folder that lacks or hides something, though its learner signs it: the attack is named."""

import json
import shutil
from types import SimpleNamespace

import pytest

from curator_node.daemon.folder import answer_folder
from curator_node.key_files import read_key
from curator_node.site import open_site
from expril.audit.recompute import recompute
from protocol.envelopes import digest, open_envelope
from protocol.run_index import COST, FIT, RESULTS, STUDY, VALIDATION
from protocol.transcript import replay
from run_forger import Forger, exit_code, leaves, other, replaced, said
from studies import LearnerFolder, make_hospitals

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of two hospitals by post, with a validation."""
    base = tmp_path_factory.mktemp("post")
    ada = LearnerFolder(base)
    hospitals = make_hospitals(base / "sites", {"ada": ada.public}, only=2)
    ada.write(hospitals, folder="stick", validate="1/2")
    code = 3
    while code == 3:
        with ada.start() as process:
            _, output = process.communicate(timeout=300)
        code = process.returncode
        for site in hospitals.folders.values():
            with open_site(site) as opened:
                list(answer_folder(ada.path / "stick", opened))
    assert code == 0, output
    ledgers = [site / "curator.ledger" for site in hospitals.folders.values()]
    key = read_key(ada.path / "learner.pem")
    return SimpleNamespace(folder=ada.result, key=key, ledgers=ledgers, curators=list(hospitals.folders))


class Insider(Forger):
    """The learner, who signs whatever it wrote."""

    def __init__(self, study, copy):
        super().__init__(study.folder, copy)
        self.key = study.key

    def cost(self, change):
        path = self.folder / COST
        cost = json.loads(path.read_bytes())
        path.write_text(json.dumps(change(cost) or cost))

    def sign(self):
        self.relist({"ada": self.key})
        return self.folder


@pytest.fixture
def insider(study, tmp_path):
    return Insider(study, tmp_path / "copy")


def test_an_honest_study_is_proven_alone_and_with_its_curators_ledgers(insider, study):
    assert said(insider.sign()) == ""
    assert said(insider.folder, *study.ledgers) == ""
    assert said(*study.ledgers) == ""
    result = recompute(insider.folder, *study.ledgers, delta=None)
    assert {item.ledger for item in result.runs[0].transcripts} == {"held"}
    assert any(text.startswith("told by the learner, and not computed anew") for text in result.unproven)


def test_every_leaf_of_the_cost_is_computed_anew(insider):
    cost = json.loads((insider.folder / COST).read_bytes())
    for place, leaf in leaves(cost):
        for value in filter(leaf.__ne__, other(leaf)):
            (insider.folder / COST).write_text(json.dumps(replaced(cost, place, value)))
            assert COST in said(insider.sign()), place


@pytest.mark.parametrize("name", ["one curator", "all curators", "claimed", "a plan"])
def test_a_cost_that_leaves_something_out(name, insider, study):
    def without(cost):
        if name == "one curator":
            cost["curators"].popitem()
        elif name == "all curators":
            cost["curators"].clear()
        elif name == "claimed":
            cost["claimed"].pop("validation")
        else:
            cost["curators"][study.curators[0]].pop("validation")

    insider.cost(without)
    assert "is missing, which is" in said(insider.sign())
    assert exit_code(insider.folder) == 1


def test_a_cost_that_states_more(insider):
    insider.cost(lambda cost: {**cost, "epsilon": "1/100"})
    assert "cost.json: epsilon is stated, and nothing here shows it" in said(insider.sign())


def hide_validation(insider):
    """No transcript of it, and a cost that says 1 instead of 3/2."""
    insider.remove([line for line in insider.index["transcripts"] if line.get("study", FIT) == VALIDATION])

    def change(cost):
        cost["claimed"].pop("validation")
        for curator in cost["curators"].values():
            curator.pop("validation")
            curator.update(spent="1", at_most="1")

    insider.cost(change)


def test_a_hidden_validation_is_contradicted_by_receipts_in_the_same_folder(insider):
    hide_validation(insider)
    assert "is not the newest receipt that a transcript of" in said(insider.sign())
    assert exit_code(insider.folder) == 1


def test_a_hidden_validation_without_its_receipts(insider, study):
    """The receipts are those of the fit: a signed proposal announced the validation, and a ledger holds it."""
    hide_validation(insider)
    newest = {}
    for line in insider.index["transcripts"]:
        keys = {(one["role"], one["name"]): bytes.fromhex(one["key"]) for one in insider.index["participants"]}
        envelopes = insider.envelopes(line)
        assert replay(envelopes, keys["curator", line["curator"]], keys["learner", "ada"]).state == "closed"
        newest[line["curator"]] = open_envelope(envelopes[-1])[1].receipt
    for name, receipt in newest.items():
        (insider.folder / "receipts" / f"{name}.receipt").write_bytes(receipt)
    insider.cost(
        lambda cost: (
            [cost["curators"][name].update(newest_receipt=digest(receipt).hex()) for name, receipt in newest.items()]
            and None
        )
    )
    result = recompute(insider.sign(), delta=None)
    assert result.wrong == []
    assert any("it announces a validation, of at most epsilon 1/2" in text for text in result.unproven)
    assert {row.at_most for row in result.transcript_sums} == {None}
    text = said(insider.folder, *study.ledgers)
    assert text.count("no transcript is here, and 0000") == len(study.ledgers)
    assert exit_code(insider.folder, *study.ledgers) == 1


def test_a_curator_that_was_dropped_with_its_transcripts(insider, study):
    name = study.curators[0]
    insider.remove([line for line in insider.index["transcripts"] if line["curator"] == name])
    insider.index["participants"] = [one for one in insider.index["participants"] if one["name"] != name]
    insider.cost(lambda cost: cost["curators"].pop(name) and None)
    text = said(insider.sign())
    assert "study.toml: its curators is another than in the run's list" in text or "its curators" in text
    assert f"receipts/{name}.receipt is of no curator of this run" in text
    assert exit_code(insider.folder) == 1


def test_a_transcript_that_was_cut_to_its_card(insider, study):
    line = insider.index["transcripts"][0]
    insider.rewrite(line, insider.envelopes(line)[:2])
    text = said(insider.sign())
    assert f"cost.json: curators, {line['curator']}, fit, spent is 1, and the evidence gives 0" in text
    assert "by a request that" in said(insider.folder, *study.ledgers) or "of which no transcript" in "\n".join(
        recompute(insider.folder, *study.ledgers, delta=None).unproven
    )
    assert exit_code(insider.folder) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("epsilon", "epsilon_"), "study.toml cannot be read"),
        (("epsilon = 1", 'epsilon = "1/10"'), "its epsilon is 1/10, and the plan in 00000.msgpack costs 1"),
        (('validate = "1/2"', ""), "asks for no validation, and"),
        (('validate = "1/2"', 'validate = "1/3"'), "the purpose that 00000.msgpack proposes is another"),
        (("to test", "to do good"), "the purpose that 00000.msgpack proposes is another"),
        (("Who is ill", "Who is well"), "its title is another"),
    ],
)
def test_a_study_file_that_was_changed(change, words, insider):
    path = insider.folder / STUDY
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change, 1))
    assert words in said(insider.sign())
    assert exit_code(insider.folder) == 1


@pytest.mark.parametrize("name", [COST, STUDY, "receipts"])
def test_a_part_that_was_removed_with_its_line(name, insider):
    path = insider.folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert said(insider.sign())
    assert exit_code(insider.folder) == 1


def test_a_copy_of_the_cost_beside_results_is_compared(insider):
    (insider.folder / RESULTS).write_text(json.dumps({"cost": {"curators": {}}}))
    assert "results.json: learner is missing" in said(insider.sign())


def test_damage_by_somebody_without_a_key_is_always_named(study, tmp_path):
    for number, path in enumerate(sorted(study.folder.rglob("*"))):
        name = path.relative_to(study.folder).as_posix()
        if path.is_dir() or name.startswith("local/") or name == "report.html":
            continue
        for how in ("delete", "cut", "flip"):
            copy = tmp_path / f"{number}-{how}"
            shutil.copytree(study.folder, copy)
            data = path.read_bytes()
            if how == "delete":
                (copy / name).unlink()
            else:
                (copy / name).write_bytes(data[: len(data) // 2] if how == "cut" else bytes([data[0] ^ 1]) + data[1:])
            assert said(copy), (name, how)
            shutil.rmtree(copy)
