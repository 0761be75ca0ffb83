"""Evidence that lacks or hides something: each attack was once believed, and is now named."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from expril.audit.recompute import recompute
from expril.commands.app import app
from protocol.run_index import TRANSCRIPTS
from run_forger import Forger
from simulations.run_folder import EPSILONS, epsilon_folder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def exit_code(*paths):
    result = CliRunner().invoke(app, ["audit", "run", "--json", *map(str, paths)])
    assert "Traceback" not in result.output
    return result.exit_code


def said(*paths):
    return "\n".join(recompute(*paths, delta=None).wrong)


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
