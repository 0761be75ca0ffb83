"""What an additive model adds up, on a run's page: where its marks are, and what it refuses."""

import re

import msgspec
import pytest

from simulations.report.clinical import FEW_PARTS, part_sections
from simulations.report.model import LearnerReport, Part, PartBin, RunReport, Score


def part(name, *values):
    """Bins of equal shares with bands of 0.1 on either side."""
    bins = [
        PartBin(label=f"bin {n}", share=1 / len(values), log_odds=v, lower=v - 0.1, upper=v + 0.1)
        for n, v in enumerate(values)
    ]
    return Part(attribute=name, numeric=True, bins=tuple(bins))


def blocks(*parts):
    """What a page shows of a model that adds these up."""
    score = Score(value=0.9, value_se=None, constant=0.5, ceiling=None)
    names = dict.fromkeys(("learner", "strategy"), "ada")
    ada = LearnerReport(**names, pooling="sum", epsilon_claimed="1", epsilon_spent="1", pooled=score, parts=parts)
    words = dict.fromkeys(("title", "description", "created", "version", "command", "config_toml"), "")
    (section,) = part_sections(RunReport(**words, seeded_noise=False, repeats=1, learners=(ada,)))
    return section.present


def test_marks_are_in_proportion_and_within_their_bars():
    _, grid = blocks(part("age", -1.0, 0.0, 1.0), part("ward", 0.5))
    tables = [table for _, table in grid.groups]
    columns = {column.heading: column for column in tables[0].columns}
    strips = [
        columns["log-odds, plotted"].drawing(row) for table in tables for group in table.groups for row in group.rows
    ]
    assert len({strip.axis for strip in strips}) == 1
    axis = strips[0].axis
    at = []
    for strip in strips:
        ((_, value, bar, text),) = strip.dots
        low, high = map(axis.place, bar)
        assert 0 <= low < axis.place(value) < high <= 100
        assert strip.text == text
        at.append(axis.place(value))
    assert at[1] == pytest.approx(axis.place(0))
    assert at[2] - at[1] == pytest.approx(at[1] - at[0])
    assert at[3] == pytest.approx((at[1] + at[2]) / 2)
    assert [columns["log-odds"].text(row).text for row in tables[0].groups[0].rows] == ["−1.00", "0.00", "+1.00"]


def test_the_weaker_of_many_are_named():
    _, grid, others = blocks(*(part(f"attribute {n}", 0.1) for n in range(FEW_PARTS + 2)))
    assert len(grid.groups) == FEW_PARTS
    assert others.text == f"2 weaker attributes not drawn: attribute {FEW_PARTS}, attribute {FEW_PARTS + 1}."


def test_nothing_is_drawn_of_a_model_that_adds_up_nothing():
    assert blocks() == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [({"share": 1.5}, "share"), ({"log_odds": float("nan")}, "finite"), ({"lower": 0.5}, "does not lie")],
)
def test_what_is_no_bin_is_refused(change, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        PartBin(**{"label": "a", "share": 0.5, "log_odds": 0.1, "lower": 0.0, "upper": 0.2} | change)


def test_a_part_survives_json():
    one = part("age", 0.1, 0.4)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Part) == one
