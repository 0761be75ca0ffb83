"""Studies that were given up for another, since not all curators accepted a plan of secure sums, in a run's folder."""

import pytest

from expril.audit.recompute import recompute
from expril.audit.recompute.verdicts import PROVEN, REFUSED
from protocol.run_index import GIVEN_UP
from run_forger import Forger, make_run_of

SCENARIO = """
title = "spent"
description = "What east may spend is spent when bob asks."
repeats = 1
seed = 1
[data]
name = "wdbc"
[data.sites]
how = "random"
fractions = { north = 0.4, east = 0.3, south = 0.3 }
[[curators]]
name = "north"
cap = 4
[[curators]]
name = "east"
cap = 1
[[curators]]
name = "south"
cap = 4
[[learners]]
name = "ada"
epsilon = 1
strategy = "cells"
options = { networks = false }
pooling = "secure"
[[learners]]
name = "bob"
epsilon = 1
validate = "1/2"
strategy = "cells"
options = { networks = false }
pooling = "secure"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run_of(SCENARIO, tmp_path_factory.mktemp("spent"))


@pytest.mark.slow
def test_they_are_kept_beside_the_others_and_proven(folder):
    (proof,) = recompute(folder[0]).runs
    assert proof.wrong == []
    bob = {(item.entry.curator, item.entry.study): item for item in proof.transcripts if item.entry.learner == "bob"}
    assert {key: item.verdict for key, item in bob.items()} == {
        ("north", 0): PROVEN,
        ("east", 0): REFUSED,
        ("south", 0): PROVEN,
        ("north", 1): PROVEN,
        ("east", 1): REFUSED,
        ("south", 1): PROVEN,
        ("north", GIVEN_UP): PROVEN,
        ("south", GIVEN_UP): PROVEN,
        ("north", GIVEN_UP + 1): PROVEN,
        ("south", GIVEN_UP + 1): PROVEN,
    }
    given_up = [item for (_, number), item in bob.items() if number >= GIVEN_UP]
    assert {item.proof.epsilon_at_most for item in given_up} == {0}
    # The model's study and the validation.
    assert folder[1].report.learners[1].epsilon_spent == "3/2"


@pytest.mark.slow
def test_one_that_was_charged_was_not_given_up(folder, tmp_path):
    forger = Forger(folder[0], tmp_path / "copy")
    for line in forger.transcripts(learner="bob", curator="north"):
        line["study"] = {0: GIVEN_UP, GIVEN_UP: 0}.get(line.get("study", 0), line.get("study", 0))
    forger.relist(folder[1].signers)
    (proof,) = recompute(forger.folder).runs
    assert "is of a study that was given up for another, and may have been charged" in "\n".join(proof.wrong)
