"""STUDY.toml: strict, with errors that name the key; curators by key or card; what decides a study's course."""

import msgspec
import pytest

from learner_fakes import key
from learner_node.study_file import TEMPLATE, about, curator_keys, read_study
from protocol.errors import ConfigurationError
from protocol.identity import IdentityCard, write_identity

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
