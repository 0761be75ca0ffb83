"""`expril audit game`: somebody else's mechanism, and the exhibits of docs/game.md."""

import json
import sys
from pathlib import Path

import pytest

from command_line import run as command

EXHIBITS = Path(__file__).resolve().parents[2] / "docs" / "exhibits"
CLEAN_GAME = """
import numpy as np
from expril.audit.attack.game import Game, one_by_one

rng = np.random.default_rng(1)

def add(value, n):
    return value + rng.geometric(0.5, n) - rng.geometric(0.5, n)

def game():
    return Game(add, 0, 1, epsilon=0.7)

def slow():
    return Game(one_by_one(lambda value: [value, rng.integers(0, 2)]), 0, 1, epsilon="1")

def raises():
    return Game(lambda value, n: 1 / value, 0, 1, epsilon="1")

def shape():
    return Game(lambda value, n: [value], 0, 1, epsilon="1")

def nothing():
    return Game(lambda value, n: [float("nan")] * n, 0, 1, epsilon="1")

def statistic():
    return Game(add, 0, 1, epsilon="1", statistics={"odd": lambda rows: rows})

def unstated():
    return Game(add, 0, 1, epsilon="much")

def fails():
    raise RuntimeError("no data")

def none():
    return Game(add, 0, 1, epsilon=None)

def prints():
    print("loud")
    return Game(add, 0, 1, epsilon=1)

def other():
    return 3
"""


@pytest.fixture
def play(tmp_path, monkeypatch):
    def run(*arguments, code=0):
        (tmp_path / "theirs.py").write_text(CLEAN_GAME)
        (tmp_path / "needs.py").write_text("import a_module_that_is_not_there")
        (tmp_path / "wrong.py").write_text("1 / 0")
        (tmp_path / "leaves.py").write_text("import sys; sys.exit(0)")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", sys.path[:])
        for name in ("theirs", "needs", "wrong", "leaves"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return command("audit", "game", *arguments, code=code).output

    return run


def test_a_correct_mechanism_is_not_broken(play):
    """True epsilon ln 2; the error rate is 1e-9."""
    output = play("theirs:game", "--draws", "20000", "--error-rate", "1e-9")
    assert output.startswith("Not broken by this game: 20,000 draws")
    assert "0 and 1" in output


def test_a_smaller_claim_is_broken(play):
    result = json.loads(play("theirs:game", "--draws", "20000", "--claimed", "1/3", "--json", code=1))
    assert result["broken"]
    assert result["claimed"] == "1/3"
    assert 0.5 < result["lower_bound"] < 0.75
    assert result["verdict"].startswith("Broken: ")


def test_a_function_that_gives_one_outcome_a_call_will_do(play):
    assert "number 0 is at most 0" in play("theirs:slow", "--draws", "2000", code=1)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("theirs", "write the module and its function"),
        ("nowhere_at_all:game", "there is no such module"),
        ("needs:game", "a_module_that_is_not_there"),
        ("wrong:game", "ZeroDivisionError"),
        ("theirs:absent", "has no function 'absent'"),
        ("theirs:fails", "RuntimeError: no data"),
        ("theirs:other", "returns int"),
        ("theirs:raises", "fails on the first input: ZeroDivisionError: division by zero (line 17 of"),
        ("theirs:shape", "got an array of shape (1,)"),
        ("theirs:nothing", "not finite"),
        ("theirs:statistic", "the statistic 'odd'"),
        ("theirs:unstated", "'much' is no number"),
        ("theirs:none", "None is no number"),
        ("theirs.inner:game", "there is no such module"),
        ("theirs.py:game", "name it without .py"),
        ("leaves:game", "ends when it is imported"),
    ],
)
def test_a_game_that_cannot_be_played_is_told_in_a_sentence(play, where, told):
    output = play(where, "--draws", "1000", code=2)
    assert told in " ".join(output.split())
    assert len(output.splitlines()) == 1


def test_what_a_mechanism_prints_is_no_result(play):
    output = play("theirs:prints", "--draws", "1000", "--json")
    (line,) = [line for line in output.splitlines() if line != "loud"]
    assert json.loads(line)["claimed"] == "1"


def test_the_fault_is_an_object_for_machines(play):
    assert json.loads(play("theirs:other", "--json", code=2).splitlines()[-1])["kind"] == "input"


@pytest.mark.parametrize(
    ("name", "draws", "code"), [("printed_ratio", 100_000, 1), ("clock_seed", 2_000, 1), ("opendp_laplace", 1_000, 0)]
)
def test_the_exhibits_run(monkeypatch, name, draws, code):
    """At 1e-9 a correct one is never flagged. The printed ratio's true epsilon is 0.71 against 1/30."""
    monkeypatch.chdir(EXHIBITS)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, name, raising=False)
    options = ("--draws", draws, "--error-rate", "1e-9", "--json")
    result = command("audit", "game", f"{name}:game", *options, code=code)
    assert json.loads(result.output)["broken"] == bool(code)
