"""Much of one kind is told briefly, and nothing of another kind with it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from expril.report.document import Note
from simulations.report.model import SiteScore
from simulations.report.scores import Row, few_rows
from simulations.report.words import FEW, MOST_ALIKE, fold_notes, some_of

WARDS = [f"ward {number:02d}" for number in range(1, 91)]


def site(name, accuracy):
    score = SiteScore(curator=name, value=accuracy, value_se=None, constant=0.5, ceiling=None)
    return Row(0, None, score, score.headline("accuracy"), name)


def test_notes_that_differ_in_a_name_or_a_number_are_told_once():
    notes = [f"The steward of {name} is warned: {n} records." for n, name in enumerate(WARDS, start=3)]
    one, other = fold_notes([*notes, "All is well."], WARDS)
    assert one.text == "The steward of ward 01 is warned: 3 records."
    assert one.more.startswith("(89 more like this: ward 02, ward 03, ")
    assert one.more.endswith("ward 09 and 81 more)")
    assert other == Note("All is well.")


def test_a_few_stay_as_they_are():
    notes = [f"{name} vanished." for name in WARDS[:MOST_ALIKE]]
    assert fold_notes(notes, WARDS) == [Note(note) for note in notes]


def test_names_that_hold_one_another_are_told_apart():
    names = ["a", "a b", "a b c", "b", "data"]
    notes = [f"{name} says no." for name in names]
    (one,) = fold_notes([*notes, *notes], names)
    assert one.more.startswith("(9 more like this: ")
    assert len(fold_notes(["data is lost."] * 5 + ["the past is lost."] * 5, ["data", "past"])) == 2


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(WARDS), st.integers(0, 99)), max_size=40))
def test_nothing_is_lost_and_the_order_is_that_of_the_first(drawn):
    notes = [f"{kind}: {name} has {number}." for kind, name, number in drawn]
    folded = fold_notes(notes, WARDS)
    assert sum(1 + int(note.more[1:].split()[0] if note.more else 0) for note in folded) == len(notes)
    assert {note.text for note in folded} <= set(notes)
    kinds = list(dict.fromkeys(kind for kind, _, _ in drawn))
    assert list(dict.fromkeys(note.text[0] for note in folded)) == kinds


def test_of_many_sites_a_table_keeps_the_best_the_middle_and_the_worst():
    sites = [site(name, 1 - number / 100) for number, name in enumerate(WARDS)]
    assert [(row.rank, row.site) for row in few_rows(sites[::-1])] == [
        ("best of 90", "ward 01"),
        ("median of 90", "ward 45"),
        ("worst of 90", "ward 90"),
    ]
    assert few_rows(sites[:FEW]) == sites[:FEW]
    silent = [site(name, None) for name in WARDS]
    assert few_rows(silent) == []
    assert few_rows([*silent, sites[0]])[0] == replace(sites[0], rank="best of 1")


def test_names_in_a_sentence():
    assert some_of(["a", "b"]) == "a, b"
    assert some_of(WARDS).endswith("ward 08 and 82 more")
