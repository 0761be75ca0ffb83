"""Each query kind has a page of one form, whose methods and costs are those of the program."""

import doctest
import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

from protocol.kinds import QUERY_KINDS
from protocol.kinds.holdout import PlannedHoldout
from protocol.kinds.models import METHODS as MODEL_METHODS
from protocol.kinds.sample import PlannedSample
from protocol.kinds.statistics.methods import METHODS as STATISTIC_METHODS
from protocol.release_kinds import RELEASE_KINDS
from protocol.secure_sum.aggregator import STEPS

PAGES = Path(__file__).resolve().parents[2] / "docs" / "kinds"
METHODS = {
    "counts": set(RELEASE_KINDS),
    "secure_counts": set(STEPS),
    "holdout": {field.name for field in msgspec.structs.fields(PlannedHoldout) if field.name.endswith("_scale")},
    "sample": set(get_args(get_type_hints(PlannedSample)["learner"])),
    "model": set(MODEL_METHODS),
    "statistic": set(STATISTIC_METHODS),
}
"""What the table under "Cost" has a row for: methods, releases, turns or parts of the cost."""


def page(name):
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def sections(text):
    """Heading -> text under it, in the order of the page."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_kind_has_its_page_and_a_row_of_the_index_with_what_the_code_says():
    assert {path.stem for path in PAGES.glob("*.md")} == {"index", *QUERY_KINDS}
    rows = re.findall(r"^\| \[`(\w+)`\]\((\w+)\.md\) \| (.+) \| (.+) \| (.+) \|$", page("index"), re.MULTILINE)
    assert [name for name, *_ in rows] == list(QUERY_KINDS)
    for name, link, told, allowed, relation in rows:
        kind = QUERY_KINDS[name]
        assert (link, allowed, relation) == (name, "yes" if kind.by_default else "no", kind.relation)
        assert told.startswith(kind.reveals)


@pytest.mark.parametrize("name", QUERY_KINDS)
def test_the_table_of_costs_has_a_row_for_each_method_and_no_other(name):
    told = re.findall(r"^\| `(\w+)` \|", sections(page(name))["Cost"], re.MULTILINE)
    assert len(told) == len(set(told))
    assert set(told) == METHODS[name]


@pytest.mark.parametrize("name", QUERY_KINDS)
def test_the_program_says_the_same_costs_as_the_worked_example(name):
    (example,) = re.findall(r"```python\n(.*?)```", sections(page(name))["Cost"], re.DOTALL)
    test = doctest.DocTestParser().get_doctest(example, {}, name, None, None)
    assert "cost" in example
    told = []
    assert doctest.DocTestRunner().run(test, out=told.append).failed == 0, "".join(told)


@pytest.mark.parametrize("name", QUERY_KINDS)
def test_what_attacks_gain_is_told_on_a_page_that_the_kind_links_to(name):
    """Figures are measured elsewhere; here they are repeated, and must not go stale."""
    links = set(re.findall(r"\]\((\.\./[\w/-]+\.md)", page(name)))
    sources = "".join((PAGES / link).read_text(encoding="utf-8") for link in links)
    told = sections(page(name))
    text = told["Known attacks and what they gain"] + told["How it is audited"]
    figures = set(re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", text))
    assert not {figure for figure in figures if not re.search(rf"(?<![\d.]){figure}(?!\d)", sources)}
