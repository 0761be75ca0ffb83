"""docs/explanation/survey.md: every section of the survey has its rows, and everything that they name exists."""

import re
from pathlib import Path

import pytest

from lab.peers import PEERS
from learner_node.strategies import STRATEGIES, option_names
from protocol.kinds import QUERY_KINDS
from protocol.kinds.models import METHODS as MODELS
from protocol.kinds.statistics.items import ESTIMATORS
from protocol.kinds.statistics.methods import METHODS as STATISTICS
from protocol.release_kinds import RELEASE_KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "survey.md").read_text(encoding="utf-8")
NAMED = {
    "kind": QUERY_KINDS,
    "strategy": STRATEGIES,
    "peer": PEERS,
    "release": RELEASE_KINDS,
    "model method": MODELS,
    "statistic method": STATISTICS,
    "estimator": ESTIMATORS,
}
SECTIONS = [
    *("1.1", "1.3", "1.4", "1.5", "1.6", "2.2", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7"),
    *("4.1", "5.1", "5.2", "6.1", "6.2", "6.3", "7", "8", "9"),
]
ROWS = re.findall(r"^\| ([\w.]+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)


def names(what, text):
    return re.findall(rf"{what}\s`([^`]+)`", text, re.IGNORECASE)


@pytest.mark.parametrize("what", NAMED)
def test_what_the_page_names_exists(what):
    # "model method `x`" is no "method `x`" of another kind: each word is told apart by what stands before it.
    assert names(what, PAGE)
    assert set(names(what, PAGE)) <= set(NAMED[what])


def test_every_file_that_the_page_names_exists():
    files = re.findall(r"`([\w/]+\.\w+)`", PAGE)
    assert len(files) >= 10
    assert [name for name in files if not (ROOT / name).is_file()] == []
    pages = re.findall(r"\]\(([\w/.-]+\.md)", PAGE)
    assert [name for name in pages if not (ROOT / "docs" / "explanation" / name).is_file()] == []


def test_the_options_that_it_names_exist():
    assert "tree" in option_names("adaptive-cells")
    assert "weighting" in option_names("paper-c")


def test_every_section_of_the_survey_has_a_row_that_says_where_or_why():
    assert [section for section in SECTIONS if section not in {row[0] for row in ROWS}] == []
    for section, method, here in ROWS:
        if section == "section":
            continue
        found = "`" in here or "](" in here or here.startswith("a view")
        reason = re.search(r"left out[^:|]*: \w", here)
        assert found or reason, method


def test_all_kinds_models_and_private_statistics_are_on_the_page():
    assert set(QUERY_KINDS) == set(names("kind", PAGE))
    assert set(MODELS) == set(names("model method", PAGE))
    assert set(STATISTICS) == set(names("statistic method", PAGE))
