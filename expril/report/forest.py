"""Forest plots: a row for each estimate, with its interval over one axis, a line at no effect, and the numbers as text.

A forest is a table with strips (`expril.report.table`), so it becomes a page's table that is stacked on a phone, a
figure (SVG, PNG), Markdown and CSV as every other table. An interval that leaves the axis ends in an arrow.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Literal

from expril.report.chart import Axis, Key, Strip, Tick, make_axis
from expril.report.document import Legend
from expril.report.numbers import plain_number
from expril.report.table import Cell, Column, Group, Table

Form = Literal["single", "part", "whole", "range"]
"""An estimate by itself, one of several that are pooled, the pooled one, or a prediction interval without a value."""
_INDICES: dict[Form, int] = {"single": 0, "part": 5, "whole": 6, "range": 5}
"""Colour and shape: a blue circle, a grey square, a blue diamond."""
_WIDER = 2.0
"""How many median half-widths of an interval the axis goes beyond the outermost value."""
_MOST_TICKS = 6
_LEAST_RATIO, _MOST_RATIO = 1e-6, 1e6
NOT_ESTIMABLE = "not estimable"


@dataclass(frozen=True)
class ForestRow:
    """One estimate. `low` and `high` may be infinite; without a value all that is said is the interval, if finite."""

    label: str
    value: float | None
    low: float
    high: float
    about: str = ""  # of whom it speaks: "these records" or "their population"
    p: float | None = None  # two-sided p-value; None without a test
    form: Form = "single"
    note: str = ""  # below the label
    more: tuple[str, ...] = ()  # texts of further columns, between label and drawing


def p_text(p: float | None) -> str:
    """A p-value as journals print it: two digits, "< 0.001" below that, "–" for none."""
    if p is None:
        return "–"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{min(p, 0.99):.2f}" if p < 0.995 else "> 0.99"


def ratio_text(value: float) -> str:
    """A ratio with three significant digits, at least two decimals below ten; "∞" for an infinity."""
    if math.isinf(value):
        return "∞"
    if 0.01 <= value < 10:
        return f"{value:.2f}"
    return "0" if value == 0 else plain_number(value, 3 if value >= 10 else 2)


def difference_text(value: float) -> str:
    """A difference with three significant digits and a true minus sign; "∞" or "−∞" for an infinity."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return plain_number(value)


def interval_text(value: float | None, low: float, high: float, form: Callable[[float], str]) -> str:
    """An estimate as text: "1.42 (1.10 to 1.83)"; or "not estimable", with its interval if finite."""
    ends = f"({form(low)} to {form(high)})"
    if value is not None:
        return f"{form(value)} {ends}"
    return f"{NOT_ESTIMABLE} {ends}" if math.isfinite(low) and math.isfinite(high) else NOT_ESTIMABLE


def ratio_axis(low: float, high: float) -> Axis:
    """A logarithmic axis from `low` to `high`, and over 1, with ticks at powers of 2, 4 or 10.

    Ticks are evenly spaced, so that those that fit a narrow column stay so.
    """
    low, high = max(min(low, 0.8), _LEAST_RATIO), min(max(high, 1.25), _MOST_RATIO)
    base = next((base for base in (2.0, 4.0) if math.log(high / low, base) <= _MOST_TICKS), 10.0)
    bare = Axis(low, high, log=True, cut=True)
    first, last = math.ceil(math.log(low, base) - 1e-9), math.floor(math.log(high, base) + 1e-9)
    every = max(1, math.ceil((last - first) / _MOST_TICKS))
    powers = [base**n for n in range(-(-first // every) * every, last + 1, every)]
    if len(powers) == 1:
        powers = [value for value in (0.8, 0.9, 1.0, 1.1, 1.25) if low <= value <= high]
    return replace(bare, ticks=tuple(Tick(_power_text(value), bare.at(value), value) for value in powers))


def _power_text(value: float) -> str:
    return f"{value:,.10g}" if value >= 1e-3 else plain_number(value)


def forest_axis(rows: Sequence[ForestRow], null: float | None, *, log: bool) -> Axis:
    """An axis over all values and intervals, but for what is far beyond them: there intervals end in an arrow."""
    to, back = (math.log, math.exp) if log else (float, float)
    clear = [_MOST_RATIO if log else math.inf, _LEAST_RATIO if log else -math.inf]
    values = [to(row.value) for row in rows if row.value is not None and clear[1] < row.value < clear[0]]
    values += [] if null is None else [to(null)]
    ends = [to(end) for row in rows for end in (row.low, row.high) if clear[1] < end < clear[0]]
    widths = [(to(row.high) - to(row.low)) / 2 for row in rows if clear[1] < row.low < row.high < clear[0]]
    values = values or ends or [0.0]
    reach = _WIDER * median(widths) if widths else 1.0
    low = max(min(ends + values), min(values) - reach) if ends else min(values) - reach
    high = min(max(ends + values), max(values) + reach) if ends else max(values) + reach
    if log:
        return ratio_axis(back(low), back(high))
    return replace(make_axis(low, high), cut=True)


def forest_table(
    caption: str,
    rows: Sequence[ForestRow],
    *,
    measure: str,
    null: float | None = None,
    log: bool = False,
    headings: Sequence[str] = (),
    first: str = "estimate",
    form: Callable[[float], str] | None = None,
    groups: Sequence[Group[ForestRow]] = (),
    note: str = "",
) -> Table[ForestRow]:
    """Make a forest plot of rows, from the top.

    Args:
        caption: what it shows.
        rows: the estimates; or () where `groups` has them under titles.
        measure: what is estimated: "odds ratio", "risk difference".
        null: value of no effect, at which there is a line; None for none.
        log: whether equal distances are equal ratios.
        headings: of the further columns, one for each of a row's `more`.
        first: heading of the labels.
        form: value -> text; by default `ratio_text` on a logarithmic axis and else `difference_text`.
        groups: rows under titles, in place of `rows`.
        note: below the table.
    """
    write = form or (ratio_text if log else difference_text)
    parts = tuple(groups) or ((Group(rows),) if rows else ())
    every = [row for group in parts for row in group.rows]
    scale = forest_axis(every, null, log=log)
    columns: list[Column[ForestRow]] = [Column(first, lambda row: Cell(row.label, under=row.note), names=True)]
    columns += [Column(heading, partial(_more, n), number=True) for n, heading in enumerate(headings)]
    columns += [
        Column(measure, lambda row: _strip(row, scale, null, write), drawn=True, axis=scale),
        Column(f"{measure} (95 % interval)", lambda row: _cell(row, write), number=True),
        Column("p", lambda row: p_text(row.p), number=True),
        Column("of whom", lambda row: row.about or "–"),
    ]
    return Table(caption, columns, parts, "forest", note=note)


def forest_legend(rows: Sequence[ForestRow], null: str = "", part: str = "one of them") -> Legend:
    """Say what a forest's marks are; `null` are the words of the line at no effect, `part` those of one row."""
    names: dict[Form, str] = {"single": "estimate", "part": part, "whole": "pooled"}
    forms = {row.form for row in rows}
    keys = [Key(_INDICES[form], False, name) for form, name in names.items() if form in forms and len(forms) > 1]
    marks = [("track", "prediction interval")] if "range" in forms else []
    return Legend(keys, [*marks, *([("zero", null)] if null else [])])


def _more(number: int, row: ForestRow) -> str:
    return row.more[number] if number < len(row.more) else "–"


def _cell(row: ForestRow, write: Callable[[float], str]) -> Cell:
    if row.form == "range" and row.value is None:
        return Cell(f"{write(row.low)} to {write(row.high)}")
    return Cell(interval_text(row.value, row.low, row.high, write), strong=row.form == "whole")


def _strip(row: ForestRow, axis: Axis, null: float | None, write: Callable[[float], str]) -> Strip:
    words = _cell(row, write).text
    text = f"{row.label}: {words}"
    marks = [] if null is None else [(null, "zero")]
    index = _INDICES[row.form]
    if row.value is None:
        drawn = row.form == "range"
        spans = [(max(row.low, axis.low), min(row.high, axis.high), "track", words)] if drawn else []
        return Strip(axis, spans=spans, marks=marks, text=text, apart=True)
    ends = (row.low, row.high)
    if row.form == "whole":
        diamond = (row.low, row.value, row.high, index, words)
        return Strip(
            axis, dots=[(index, row.value, ends, words)], diamonds=[diamond], marks=marks, text=text, apart=True
        )
    return Strip(axis, dots=[(index, row.value, ends, words)], marks=marks, text=text, apart=True)
