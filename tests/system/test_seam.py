"""A query kind is one file a room and a line in each table: counted by `benchmarks.seam`, and held here."""

import re

import pytest

from benchmarks.seam import ROOMS, ROOT, footprint_of, own_modules
from protocol.kinds import QUERY_KINDS

FIRST = {"counts", "secure_counts"}
"""Older than the seam: parts of the curator and of the learner were made for them."""


@pytest.mark.parametrize("kind", QUERY_KINDS)
def test_a_kind_has_a_file_in_every_room_and_lines_in_every_table(kind):
    told = footprint_of(kind)
    assert all(told.files[room] for room in ROOMS)
    assert all(told.lines[room] > 10 for room in ROOMS)
    assert told.table_lines == 8  # an import and an entry in each of four


@pytest.mark.parametrize("kind", [kind for kind in QUERY_KINDS if kind not in FIRST])
def test_neither_protocol_nor_curator_names_a_kind_outside_of_its_own_files(kind):
    elsewhere = footprint_of(kind).named_elsewhere
    assert not [name for name in elsewhere if name.startswith(("protocol/", "curator_node/"))]


def test_no_file_belongs_to_two_kinds():
    seen = [module for kind in QUERY_KINDS for module in own_modules(kind)]
    assert len(seen) == len(set(seen))


def test_a_file_that_names_a_kind_is_noticed():
    """Power: the first two kinds are named outside of their files, by import and by name."""
    assert "curator_node/records/dataset.py" in footprint_of("counts").named_elsewhere
    assert "curator_node/steward/check.py" in footprint_of("secure_counts").named_elsewhere


def test_the_worked_example_of_contributing_is_there():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = re.findall(r"^\| `([\w/]+\.py)`: `(\w+)` \|", page, re.MULTILINE)
    assert len(places) >= 12
    for path, name in places:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(def|class) {name}\b|^{name}\b.* = ", text, re.MULTILINE), (path, name)
    assert set(re.findall(r"^\| `(\w+)` \| \d+: \d+", page, re.MULTILINE)) == set(QUERY_KINDS)
