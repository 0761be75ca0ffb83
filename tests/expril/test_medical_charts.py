"""Forest plots and curves with numbers at risk: what they say to a reader, a screen reader and a program."""

import csv
import io
import math
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from expril.report.chart import Key
from expril.report.curves import Curve, curve_charts, curve_figure, curve_table
from expril.report.document import Document, Section
from expril.report.files import as_markdown
from expril.report.forest import (
    ForestRow,
    difference_text,
    forest_axis,
    forest_legend,
    forest_table,
    interval_text,
    p_text,
    ratio_axis,
    ratio_text,
)
from expril.report.labels import LEAST_WIDTH
from expril.report.page import as_page
from expril.report.page_files import page_files

ROWS = (
    ForestRow("north", 1.9, 1.3, 2.8, "their population", 0.0004, "part", more=("812",)),
    ForestRow("south", 0.8, 0.05, 14.0, "their population", 0.83, "part", more=("61",)),
    ForestRow("east", None, 0.0, math.inf, "their population", None, "part", more=("12",)),
    ForestRow("all three", 1.7, 1.2, 2.4, "their population", 0.003, "whole", more=("885",)),
    ForestRow("a further hospital", None, 0.6, 4.8, "their population", None, "range"),
)
YEARS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
CURVES = (
    Curve("heart failure", YEARS, (1, 0.8, 0.66, 0.5, 0.42, 0.3), (1, 0.7, 0.5, 0.4, 0.3, 0.2),
          (1, 0.9, 0.7, 0.6, 0.5, 0.4), (12105, 9800, 7012, 5133, 3002, 1204)),
    Curve("cancer", YEARS, (1, 0.5, 0.36, 0.2, 0.12, 0.1), (1, 0.4, 0.3, 0.1, 0.1, 0.0),
          (1, 0.6, 0.5, 0.3, 0.2, 0.2), (903.4, 411, 202, 87, 12, -3)),
)  # fmt: skip


def document(*blocks):
    return Document("Study", "curves and forests", "A headline", sections=[Section("Results", blocks)])


def forest():
    return forest_table("By hospital", ROWS, measure="odds ratio", null=1.0, log=True, headings=["records"])


def test_a_forest_says_its_numbers_in_markdown_and_csv():
    table = forest()
    (file,) = page_files(document(table))
    rows = list(csv.reader(io.StringIO(file.csv.removeprefix("\ufeff"))))
    assert rows[0][2:] == ["odds ratio (95 % interval)", "p", "of whom"]
    assert [row[2] for row in rows[1:]] == [
        "1.90 (1.30 to 2.80)",
        "0.80 (0.05 to 14)",
        "not estimable",
        "1.70 (1.20 to 2.40)",
        "0.60 to 4.80",
    ]
    assert {row[4] for row in rows[1:]} == {"their population"}
    assert "**1.70 \\(1.20" in as_markdown(document(table)) or "**1.70 (1.20 to 2.40)**" in as_markdown(document(table))


def test_an_interval_that_leaves_the_axis_ends_in_an_arrow_and_a_row_without_a_value_has_no_mark():
    table = forest()
    column = next(column for column in table.columns if column.drawn)
    strips = {row.label: column.drawing(row) for row in ROWS}
    axis = strips["south"].axis
    assert axis.low > 0.05
    assert axis.high < 14
    assert axis.dot(0.8, (0.05, 14.0)).arrows == ("low", "high")
    assert axis.dot(1.9, (1.3, 2.8)).arrows == ()
    assert not strips["east"].dots
    assert strips["east"].text == "east: not estimable"
    assert strips["all three"].diamonds[0][:3] == (1.2, 1.7, 2.4)
    assert strips["a further hospital"].spans[0][:3] == (0.6, 4.8, "track")
    page = as_page(document(forest_legend(ROWS, "no effect"), table))
    assert 'class="lozenge"' in page
    assert "prediction interval" in page


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (0.3, 40.0), (1e-5, 1e5), (2.0, 3.0), (0.0, math.inf)])
def test_the_axis_of_a_ratio_covers_and_names_one(low, high):
    axis = ratio_axis(low, high)
    assert axis.low <= max(low, 1e-6) <= min(high, 1e6) <= axis.high * (1 + 1e-9)
    assert "1" in {tick.label for tick in axis.ticks}
    assert len(axis.ticks) <= 7


def test_a_forest_of_nothing_estimable_is_a_table_all_the_same():
    row = ForestRow("ward", None, -math.inf, math.inf, "these records")
    assert forest_axis([row], 0.0, log=False).low < 0 < forest_axis([row], 0.0, log=False).high
    assert "not estimable" in as_page(document(forest_table("x", [row], measure="risk difference", null=0.0)))
    assert "not estimable" in as_page(document(forest_table("x", [row], measure="odds ratio", null=1.0, log=True)))


def test_numbers_as_journals_print_them():
    assert [p_text(p) for p in (None, 0.00001, 0.0123, 0.25, 0.991, 0.999)] == [
        "–", "< 0.001", "0.012", "0.25", "0.99", "> 0.99",
    ]  # fmt: skip
    assert [ratio_text(value) for value in (0.0, 0.002, 0.5, 9.999, 12.34, math.inf)] == [
        "0", "0.002", "0.50", "10.00", "12.3", "∞",
    ]  # fmt: skip
    assert difference_text(-0.0312) == "−0.0312"
    assert interval_text(None, 0.2, 3.0, ratio_text) == "not estimable (0.20 to 3.00)"
    assert interval_text(None, 0.2, math.inf, ratio_text) == "not estimable"


def figure(curves=CURVES, **options):
    return curve_figure("Survival", curves, [Key(n, False, c.name) for n, c in enumerate(curves)], measure="alive",
                        unit="years", **options)  # fmt: skip


@pytest.mark.parametrize("steps", [False, True])
def test_numbers_at_risk_stand_under_their_times_and_words_do_not_meet_on_a_phone(steps):
    shown = figure(steps=steps)
    places = [tick.at for tick in shown.ticks]
    assert all([tick.at for tick in row.ticks] == places for row in shown.rows)
    assert [row.ticks[0].label for row in shown.rows] == ["12,105", "903"]
    words = shown.words()
    labels = {(word.text, word.y) for word in words}
    assert {tick.label for row in shown.rows for tick in row.ticks} <= {text for text, _ in labels}
    boxes = [word.box(LEAST_WIDTH) for word in words]
    assert not any(a.meets(b) for n, a in enumerate(boxes) for b in boxes[:n])
    assert max(box.bottom for box in boxes) <= shown.height
    assert all(box.right <= LEAST_WIDTH + 14 for box in boxes)


def test_uneven_times_have_numbers_at_risk_at_as_many_as_have_room():
    times = (0.0, 30.0, 60.0, 90.0, 120.0, 180.0, 270.0, 365.0, 545.0, 730.0)
    level = (0.5,) * len(times)
    curve = Curve("all", times, level, level, level, (1200,) * len(times))
    places = [tick.value for tick in figure([curve]).rows[0].ticks]
    assert places[0] == 0
    assert places[-1] == 730
    assert len(places) >= 4


def test_curves_are_between_nothing_and_all_and_are_told_in_words():
    shown = figure()
    assert [tick.label for tick in shown.stage.axis.ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    assert "cancer: 50 % (40 to 60) at 1 years" in shown.text
    longer = replace(CURVES[0], times=tuple(range(60)), values=(0.5,) * 60, lows=(0.4,) * 60, highs=(0.6,) * 60)
    assert figure([longer]).text.count("%") <= 6


def test_curves_are_saved_as_figure_and_table():
    blocks = [curve_charts("Survival by disease", CURVES, unit="years", about="their population"),
              curve_table("Survival by disease, numbers", CURVES, measure="alive", unit="years")]  # fmt: skip
    chart, numbers = page_files(document(*blocks))
    assert ET.fromstring(chart.svg).tag.endswith("svg")
    assert "Number at risk" in chart.svg
    assert "9,800" in chart.svg
    rows = list(csv.reader(io.StringIO(numbers.csv.removeprefix("\ufeff"))))
    assert rows[1] == ["heart failure", "0", "1.0000", "1.0000", "1.0000", "12105"]
    assert rows[-1][-1] == "0"
