"""The protocol's pages say what the code does: every table and example is as the code has it, nothing is left out."""

import re

import pytest

import protocol_pages
from protocol.kinds import QUERY_KINDS
from protocol.ledger.entries import Entry, EntryKind
from protocol.messages import MESSAGE_TYPES
from protocol_pages import BODIES, ENTRY_FIELDS, LABELS, MISSING, STRUCTS, TABLES, fields, marks, pages, rewritten
from trees import FILES, ROOT

PAGES = pages()
MARKS = [mark for text in PAGES.values() for mark in marks(text)]
NAMES = {kind.__name__ for kind in MESSAGE_TYPES.values()}
COMMAND = "python tests/support/protocol_pages.py"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_table_and_every_example_is_as_the_code_has_it(path):
    assert rewritten(PAGES[path]) == PAGES[path], f"write it anew, and read what changed: {COMMAND}"


def test_every_row_has_a_meaning():
    nameless = [
        f"{path.name}: {line}" for path, text in PAGES.items() for line in text.splitlines() if f"| {MISSING} |" in line
    ]
    assert nameless == []


def test_every_struct_on_the_wire_has_its_table_and_no_other_has_one():
    told = [title.partition(" less ")[0] for what, title in MARKS if what == "fields"]
    of_their_own = [name for name in STRUCTS if fields(f"{name} less Message" if name in NAMES else name)[1]]
    assert sorted(told) == sorted(of_their_own)


def test_every_other_table_and_every_example_stands_once():
    once = [what for what, _ in MARKS if what not in ("fields", "example")]
    assert sorted(once) == sorted(TABLES.keys() - {"fields"})
    assert sorted(title for what, title in MARKS if what == "example") == sorted(protocol_pages.EXAMPLES)


def test_every_kind_has_its_bodies_here():
    assert BODIES.keys() == QUERY_KINDS.keys()


def test_every_label_of_the_code_is_on_the_page():
    found = set()
    for path in FILES:
        found |= set(re.findall(r'"(expril/[12](?: [^"{]*)?)["{]', path.read_text(encoding="utf-8")))
    version_1 = {"expril/1", "expril/1 simulation, not private"}
    assert found - version_1 == set(LABELS.values()) - version_1


def test_every_kind_of_entry_is_told_by_fields_that_an_entry_has():
    assert ENTRY_FIELDS.keys() == {str(kind) for kind in EntryKind}
    names = {name for used in ENTRY_FIELDS.values() for name in used.split(", ")}
    assert names == set(Entry.__struct_encode_fields__) - {"index", "previous", "nonce", "kind", "at"}


def test_every_page_is_in_the_index_and_every_link_among_them_leads_somewhere():
    index = PAGES[protocol_pages.PAGES / "index.md"]
    assert {path.name for path in PAGES} - {"index.md"} == set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    for path, text in PAGES.items():
        for target, anchor in re.findall(r"\]\(([\w./-]*)#?([\w-]*)\)", text):
            there = (path.parent / target).resolve() if target else path
            assert there.is_file(), f"{path.name}: {target}"
            if anchor and there in PAGES:
                assert anchor in _anchors(PAGES[there]), f"{path.name}: {target}#{anchor}"


def _anchors(text):
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_command_of_the_index_is_this_one():
    assert COMMAND in PAGES[protocol_pages.PAGES / "index.md"]
    assert (ROOT / COMMAND.removeprefix("python ")).is_file()
