"""A learner's analyses by the command, over a folder: asked, cut off between letters, resumed, written, shown again."""

import json
import time
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from curator_node.daemon.folder import answer_folder
from curator_node.site import Site
from expril.audit.recompute import recompute
from expril.commands.app import app
from learner_fakes import LEARNER, NoNoise, account, key, open_curator
from learner_node.analyses.parts import PART_KINDS
from protocol.run_index import PAGE

WAITING = 3
STUDY = """
title = "Who they are"
purpose = "To see."
epsilon = "1/2"
learner = "ann"
folder = "post"
wait_seconds = 0
lifetime_seconds = 3_600
{more}
[curators]
basel = "{basel}"
bern = "{bern}"

[[analyses]]
kind = "raw"
name = "by x"
tables = [["x"]]

[[analyses]]
kind = "raw"
name = "by x and y"
tables = [["x", "y"]]
weight = 3
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setitem(PART_KINDS, "raw", "analysis_fakes:RawTables")
    return World(tmp_path)


class World:
    """Two curators that read a folder, and a learner's command."""

    def __init__(self, folder, more=""):
        self.folder = folder
        self.curators = {
            name: open_curator(name, noise=NoNoise(), clock=lambda: int(time.time())) for name in ("basel", "bern")
        }
        keys = {name: curator.identity.hex() for name, curator in self.curators.items()}
        (folder / "STUDY.toml").write_text(STUDY.format(more=more, **keys))
        pem = folder / "learner.pem"
        pem.write_bytes(key(LEARNER).to_pem())
        pem.chmod(0o600)

    def run(self, *options):
        return CliRunner().invoke(app, ["learner", "run", str(self.folder / "STUDY.toml"), *options])

    def answer(self):
        for curator in self.curators.values():
            list(answer_folder(self.folder / "post", Site(curator, curator._ledger)))

    def finish(self, *options):
        for trips in range(10):
            result = self.run(*options)
            if result.exit_code != WAITING:
                return result, trips
            self.answer()
        raise AssertionError(result.output)


def test_analyses_by_post_are_asked_once_resumed_and_shown_again(world):
    result, trips = world.finish("--json")
    assert result.exit_code == 0, result.output
    assert trips == 5  # cards, proposals, two questions, closes
    told = json.loads(result.stdout)
    assert [(part["name"], part["epsilon"]) for part in told["analyses"]] == [("by x", "1/8"), ("by x and y", "3/8")]
    assert told["cost"]["curators"]["basel"]["spent"] == "1/2"
    assert all(account(curator).total_spent == Fraction(1, 2) for curator in world.curators.values())
    folder = world.folder / "result"
    assert {path.name for path in (folder / "tables").iterdir()} == {"by-x-1.csv", "by-x-and-y-1.csv"}
    assert json.loads((folder / "results.json").read_bytes())["analyses"] == told["analyses"]
    page = (folder / PAGE).read_bytes()
    assert b"by x and y" in page
    again = CliRunner().invoke(app, ["report", str(folder)])
    assert again.exit_code == 0, again.output
    assert (folder / PAGE).read_bytes() == page
    audited = recompute(folder)
    assert (audited.wrong, audited.runs[0].wrong) == ([], [])
    assert world.run().exit_code == 0
    assert "result" in world.run().output
    assert all(account(curator).total_spent == Fraction(1, 2) for curator in world.curators.values())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('source = "s.csv"', "source is of a model"),
        ('strategy = "paper-c"', "strategy is of a model"),
        ("validate = 1", "validate is of a model"),
    ],
)
def test_a_file_asks_a_model_or_analyses(tmp_path, monkeypatch, more, words):
    monkeypatch.setitem(PART_KINDS, "raw", "analysis_fakes:RawTables")
    result = World(tmp_path, more).run()
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
