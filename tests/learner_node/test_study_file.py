"""STUDY.toml: strict, with errors that name the key; and what stewards read of a study and of its validation."""

from fractions import Fraction

import msgspec
import pytest

from learner_fakes import (
    LEARNER,
    Clock,
    Entropy,
    NoNoise,
    Scripted,
    account,
    federate,
    halts_at,
    key,
    open_curator,
    ring,
    silent_from,
)
from learner_node.carriers.journal import Journal, Settings
from learner_node.estimator import ExPriLClassifier
from learner_node.questions.validation import validate
from learner_node.result.deployed import run_study
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from learner_node.study.study import NoCuratorError
from learner_node.study_file import TEMPLATE, StudyFile, about, curator_keys, read_study
from protocol.announcements import MOST_WORDS, Notice, read_notice
from protocol.envelopes import open_envelope
from protocol.errors import ConfigurationError
from protocol.identity import IdentityCard, write_identity
from protocol.messages import MOST_PURPOSE
from secure_fakes import members

NOW = 1_800_000_000
BASEL = key("basel").public.hex()
TEXT = f"""
title = "t"
source = "s.csv"
epsilon = "1/3"
[curators]
basel = "{BASEL}"
"""


def study(text=TEXT):
    return read_study(text.encode(), where="STUDY.toml")


def test_the_template_asks_to_be_filled_in():
    with pytest.raises(ConfigurationError, match="names nobody to ask"):
        study(TEMPLATE)
    filled = TEMPLATE.replace("# north", "north")
    assert study(filled).superlink.address == "superlink.example.org:8000"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("title", "titel", "unknown key 'titel'; did you mean 'title'"),
        ('"1/3"', '"1/0"', "epsilon: "),
        ('"1/3"', "500", "large_epsilon = true"),
        ('"s.csv"', '"s.csv"\nlifetime_seconds = 2592001', "lifetime_seconds"),
        ('"s.csv"', '"s.csv"\nstrategy = "cell"', "unknown strategy 'cell'; did you mean 'cells'"),
        ('"s.csv"', '"s.csv"\noptions = {cels = 4}', "takes no option 'cels'; did you mean 'cells'"),
        ('"s.csv"', '"s.csv"\nsuperlink = {address = "https://x/", secret = "s"}', "address"),
        ('"s.csv"', '"s.csv"\nrecalibrate = true', 'add validate = "1/4", or leave recalibrate out'),
        ('"s.csv"', '"s.csv"\ndropouts = 1', 'dropouts = 1 needs pooling = "secure"'),
        ('"s.csv"', '"s.csv"\npooling = "secure"\ncolluders = 0', "colluders"),
        ('"s.csv"', '"s.csv', "not valid TOML"),
    ],
)
def test_a_mistake_is_named(old, new, complaint):
    with pytest.raises(ConfigurationError) as raised:
        study(TEXT.replace(old, new))
    assert complaint in str(raised.value)
    assert "STUDY.toml" in str(raised.value) or "strategy" in complaint


def test_curators_by_key_and_by_card(tmp_path):
    card = IdentityCard(role="curator", name="Bern", key=key("bern").public, issued=NOW, until=NOW + 10)
    (tmp_path / "bern.card").write_text(write_identity(card, key("bern")))
    told = msgspec.structs.replace(study(), curators={"basel": BASEL, "bern": "bern.card"})
    keys = curator_keys(told, tmp_path, now=NOW, where="STUDY.toml")
    assert keys == {"basel": key("basel").public, "bern": key("bern").public}
    with pytest.raises(ConfigurationError, match="no longer valid"):
        curator_keys(told, tmp_path, now=NOW + 11, where="STUDY.toml")


@pytest.mark.parametrize(
    ("curators", "complaint"),
    [
        ({"basel": "nowhere.card"}, "neither a public key"),
        ({"basel": "00" * 32}, "no public key that anybody could hold"),
        ({"basel": "ab"}, "no public key that anybody could hold"),
        ({"basel": BASEL, "bern": BASEL}, "basel and bern are one curator"),
        ({"basel": "learner.card"}, "is a learner's, not a curator's"),
        ({"basel": "text"}, "holds no identity card"),
    ],
)
def test_who_is_no_curator(tmp_path, curators, complaint):
    card = IdentityCard(role="learner", name="Ann", key=key("ann").public, issued=NOW)
    (tmp_path / "learner.card").write_text(write_identity(card, key("ann")))
    (tmp_path / "text").write_text("hello")
    told = msgspec.structs.replace(study(), curators=curators)
    with pytest.raises(ConfigurationError, match=complaint):
        curator_keys(told, tmp_path, now=NOW, where="STUDY.toml")


def test_what_decides_a_study_s_course():
    told, curators = study(), {"basel": key("basel").public}
    digest = about(told, curators, bytes(32), key("ann").public)
    same = msgspec.structs.replace(
        told, title="another", timeout_seconds=1.0, folder="post", attempts=5, recalibrate=True
    )
    assert about(same, curators, bytes(32), key("ann").public) == digest
    for change in (
        {"epsilon": 1},
        {"seed": 1},
        {"validate": 1},
        {"purpose": "x"},
        {"options": {"cells": 4}},
        {"all_or_none": True},
    ):
        other = msgspec.structs.replace(told, **change)
        assert about(other, curators, bytes(32), key("ann").public) != digest
    assert about(told, {"b": key("basel").public}, bytes(32), key("ann").public) != digest
    assert about(told, curators, b"1" * 32, key("ann").public) != digest
    assert about(told, curators, bytes(32), key("bob").public) != digest


NAMES = ("basel", "bern")
SOURCE = ring(60, seed=9).drop("sick")
CELLS = {"networks": False, "cells": 6}


def two():
    return {name: open_curator(name, noise=NoNoise()) for name in NAMES}


def read(carrier, name):
    """The purposes that one curator's steward was told, in order, without repeats."""
    found = [open_envelope(data)[1].purpose for data in carrier.bytes_sent(name, "StudyProposal")]
    return list(dict.fromkeys(found))


def deployed(path, curators, carrier, **told):
    asked = StudyFile(title="t", source="s", epsilon=1, curators={"basel": "-"}, options=CELLS, **told)
    keys = {name: curator.identity for name, curator in curators.items()}
    with Journal(path, Settings("1", bytes(32), {}), clock=Clock(), entropy=Entropy()) as journal:
        return run_study(asked, SOURCE, curators=keys, key=key(LEARNER), journal=journal, carrier=carrier)


@pytest.fixture
def curators():
    return two()


@pytest.mark.slow
def test_a_deployed_study_announces_its_validation_which_names_each_curator_s_own_study(tmp_path, curators):
    carrier = Scripted(curators)
    found = deployed(tmp_path / "journal", curators, carrier, validate="1/4", purpose="a score")
    ids = set()
    for name in NAMES:
        first, second = read(carrier, name)
        assert first == "a score [expril: a validation follows, of at most epsilon 1/4]"
        study = found.learned.study.sessions[name].study
        assert second == f"Validation. a score [expril: it validates the model of study {study.hex()}]"
        assert account(curators[name]).spent[key(LEARNER).public] == Fraction(5, 4)
        ids.add(study)
    assert len(ids) == 2
    again = Scripted(curators)
    deployed(tmp_path / "journal", curators, again, validate="1/4", purpose="a score")
    assert not again.sent


def test_without_a_validation_the_purpose_is_what_the_learner_wrote(tmp_path, curators):
    carrier = Scripted(curators)
    deployed(tmp_path / "journal", curators, carrier, purpose="a score")
    assert read(carrier, "basel") == ["a score"]


@pytest.mark.slow
def test_the_classifier_announces_what_it_is_told_and_its_validation_names_the_study(curators):
    federation = federate(curators)
    model = ExPriLClassifier(federation, options=CELLS, purpose="a score", validation="1/4").fit(SOURCE)
    model.validate("1/4")
    first, second = read(federation.carrier, "bern")
    assert read_notice(first) == Notice(most=Fraction(1, 4))
    assert read_notice(second) == Notice(study=model.study_.sessions["bern"].study)


@pytest.mark.slow
def test_a_curator_that_took_no_part_in_the_study_is_told_of_no_study(curators):
    federation = federate(curators, {"bern": halts_at(curators["bern"], 0)})
    learned = learn(federation, SOURCE, Budget(1), strategy="cells", options=CELLS)
    budget = Budget("1/4", validates=learned.study.accepted)
    with pytest.raises(NoCuratorError):
        validate(federate({"bern": curators["bern"]}), learned.final_model, budget, source=SOURCE)
    fresh = {"bern": open_curator("bern", noise=NoNoise())}
    others = federate(fresh)
    validate(others, learned.final_model, Budget("1/4", "how good?", validates=learned.study.accepted), source=SOURCE)
    assert read(others.carrier, "bern") == ["how good?"]


def test_a_plan_that_is_drafted_again_announces_the_same():
    curators = members(4)
    federation = federate(curators, {"site 01": silent_from(0)})
    how = {"strategy": "cells", "options": {"networks": False}, "pooling": Pooling("secure")}
    learned = learn(federation, SOURCE, Budget(1, "a score", validation="1/4"), **how)
    assert learned.study.retired["site 00"]
    sent = [open_envelope(data)[1] for data in federation.carrier.bytes_sent("site 00", "StudyProposal")]
    assert [read_notice(each.purpose).most for each in sent] == [Fraction(1, 4)] * 2


@pytest.mark.slow
def test_the_learner_s_own_words_have_to_leave_room_for_what_is_announced():
    federation = federate(two())
    for validation, most in ((None, MOST_PURPOSE), (Fraction(1, 4), MOST_WORDS)):
        with pytest.raises(ConfigurationError, match=f"{most + 1} characters; at most {most} fit"):
            Budget(1, purpose="x" * (most + 1), validation=validation)
    budget = Budget(1, "x" * MOST_WORDS, validation=Fraction(4294967295, 4294967294))
    learned = learn(federation, SOURCE, budget, strategy="cells", options=CELLS)
    budget = Budget("1/4", purpose="x" * MOST_WORDS, validates=learned.study.accepted)
    validate(federation, learned.final_model, budget, source=SOURCE)
    assert all(len(purpose) <= MOST_PURPOSE for purpose in read(federation.carrier, "basel"))
