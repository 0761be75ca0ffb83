"""What the tables of a reproduction hold, on its page, in its Markdown and in the terminal."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table as RichTable

from expril.report.numbers import signed
from expril.report.table import Cell as Text
from expril.report.table import Column, Group, Table, Tone, Written, text_table
from expril.report.terminal import rich_table
from lab.paper import findings, words
from lab.paper.findings import EPSILON_COLUMNS, TABLE_COLUMNS, Gap
from lab.paper.model import COLUMNS, NOISE_TITLES, Cell, Closure, Reproduction, Wilcoxon
from lab.paper.published import TABLE_2, Published

Places = Mapping[tuple[str, str], Cell]
"""(data set, column) -> cell of Table 2."""
SHORT = {
    "h_star": "h*",
    "C-ExPriL": "C",
    "I-ExPriL": "I",
    "1DP-C-ExPriL": "1DP-C",
    "1DP-I-ExPriL": "1DP-I",
    "valid-1DP-C-ExPriL": "valid C",
    "valid-1DP-I-ExPriL": "valid I",
    "h0_star": "h0*",
}
"""Columns that the terminal has room for."""
_SOME_ROUNDS = (1, 2, 5, 10)
"""Points of a curve that it has room for."""


# --- Table 2


def by_place(found: Reproduction) -> Places:
    """The cells of Table 2 by data set and column."""
    return {(cell.dataset, cell.column): cell for cell in found.table}


@dataclass(frozen=True)
class Side:
    """One of the four rows of a data set: ours, the paper's, their difference, and in standard errors, by column."""

    dataset: str
    title: str
    texts: Mapping[str, Text]

    @property
    def style(self) -> str:
        """On the page."""
        return self.title.split()[-1]

    def text(self, column: str) -> Text:
        """What stands in a column."""
        return self.texts.get(column, Text("–"))


def _sides(cells: Places, dataset: str, columns: Iterable[str]) -> tuple[Side, ...]:
    ours = {column: cells[dataset, column] for column in columns if (dataset, column) in cells}
    paper = {column: TABLE_2[dataset, column] for column in columns if (dataset, column) in TABLE_2}
    return (
        Side(dataset, "ours", {name: Text(words.spread(name, cell), strong=True) for name, cell in ours.items()}),
        Side(dataset, "paper", {name: Text(words.spread(name, number)) for name, number in paper.items()}),
        Side(dataset, "difference", {name: Text(words.difference(cell)) for name, cell in ours.items()}),
        Side(dataset, "in std. errors", {name: _standing(cell) for name, cell in ours.items()}),
    )


def _standing(cell: Cell) -> Text:
    side = findings.standing(cell)
    return Text(words.errors(cell), tone=side or "", title=words.STANDING_TITLES[side] if side else "")


def _shown(found: Reproduction) -> tuple[list[str], list[tuple[Side, ...]]]:
    """Columns of Table 2 that there are, and the rows of each data set."""
    cells = by_place(found)
    datasets = findings.in_order(dataset for dataset, column in cells if column in TABLE_COLUMNS)
    columns = [column for column in TABLE_COLUMNS if any((name, column) in cells for name in datasets)]
    return columns, [_sides(cells, dataset, columns) for dataset in datasets]


def table2(found: Reproduction) -> Table[Side]:
    """Table 2 in full: four rows a data set."""
    columns, sides = _shown(found)
    return Table(
        "Table 2, ours and the paper’s",
        [Column("data set", lambda side: side.title, names=True, quiet=True), *_of_sides(columns)],
        [Group(group, group[0].dataset) for group in sides],
        "table2",
        lambda side: side.style,
    )


def _of_sides(columns: Iterable[str], titles: Mapping[str, str] = COLUMNS) -> list[Column[Side]]:
    return [Column(titles[column], partial(Side.text, column=column), number=True) for column in columns]


def accuracies(found: Reproduction) -> Written:
    """Table 2 in short: a row a data set, in each place ours, the paper's, and how far they are apart."""
    columns, sides = _shown(found)
    rows = [[_name(group[0].dataset), *(_beside(column, group) for column in columns)] for group in sides]
    return text_table("Table 2: accuracy", ["data set", *(COLUMNS[column] for column in columns)], rows, quiet=True)


def _name(dataset: str) -> Text:
    return Text(dataset, strong=True)


_DATASET: Column[Any] = Column("data set", lambda row: _name(row.dataset), names=True, quiet=True)


def _beside(column: str, sides: tuple[Side, ...]) -> str:
    ours, paper, _, errors = (side.text(column) for side in sides)
    text = f"{ours.text} ({paper.text})" if column in sides[1].texts else ours.text
    return f"{text} {errors.mark} {errors.text}" if errors.tone else text


def epsilons(found: Reproduction) -> Written:
    """Privacy loss of the printed mechanism, claimed and true, by data set."""
    cells = by_place(found)
    rows = [
        [_name(dataset), *(words.epsilon_summary(cells.get((dataset, column))) for column in EPSILON_COLUMNS)]
        for dataset in findings.in_order(dataset for dataset, column in cells if column in EPSILON_COLUMNS)
    ]
    headings = ("data set", "claimed", "true, worst case", *words.EPSILON_HEADS)
    return text_table("Privacy loss of the printed mechanism", headings, rows, quiet=True)


# --- what it amounts to

_AGREEMENTS: dict[str, Tone] = {"agrees": "within", "differs": "apart"}


def tests(found: Reproduction) -> Table[Wilcoxon]:
    """C-ExPriL against I-ExPriL, by our runs and by the paper."""
    return Table.of(
        "C-ExPriL against I-ExPriL",
        [
            _DATASET,
            Column("noise", lambda row: NOISE_TITLES[row.noise]),
            Column("C − I", lambda row: signed(row.difference), number=True),
            Column("p value", lambda row: words.probability(row.p_value), number=True),
            Column("runs", lambda row: row.runs, number=True),
            Column("ours", findings.we_say),
            Column("paper", findings.paper_says),
            Column("verdict", _agreement),
        ],
        findings.ordered_tests(found),
    )


def _agreement(row: Wilcoxon) -> Text:
    answer = findings.agreement(row)
    return Text(answer, tone=_AGREEMENTS.get(answer, ""))


def gaps(found: Reproduction) -> Table[Gap]:
    """The cells that differ from the paper, with and without a changed setting."""
    return Table.of(
        "Cells that differ from the paper",
        [
            _DATASET,
            Column("column", lambda gap: COLUMNS.get(gap.column, gap.column)),
            Column("paper", _published, number=True),
            Column("ours", lambda gap: words.spread(gap.column, gap.default), number=True),
            Column("setting changed", lambda gap: gap.change or "–"),
            Column(
                "with it",
                lambda gap: "–" if gap.closure is None else words.spread(gap.column, gap.closure),
                number=True,
            ),
            Column("runs", lambda gap: "–" if gap.closure is None else gap.closure.runs, number=True),
            Column("outcome", lambda gap: Text(gap.outcome, tone="within" if gap.closed else "apart")),
        ],
        findings.gaps(found),
    )


def _published(gap: Gap) -> str:
    published = gap.default.published
    return "–" if published is None else words.spread(gap.column, published)


def changes(found: Reproduction) -> Written:
    """For each changed setting, how many cells of the method lie within two standard errors of the paper."""
    return text_table(
        "Settings over all cells",
        ("setting changed", "runs", "cells of the method", "within", "above", "below"),
        findings.setting_rows(found),
        numbers=True,
    )


def settings(found: Reproduction) -> Written:
    """Settings by data set."""
    datasets, rows = findings.settings_by_dataset(found)
    return text_table(
        "Settings by data set", ("setting", *datasets), [(name, *values) for name, values in rows], quiet=True
    )


# --- Figure 1


def curve_ends(found: Reproduction) -> Written:
    """The first and the last point of every curve."""
    rows = []
    for dataset in findings.in_order(curve.dataset for curve in found.curves if curve.points):
        for curve in words.by_style(each for each in found.curves if each.dataset == dataset and each.points):
            points = sorted(curve.points, key=lambda point: point.rounds)
            first, last = points[0], points[-1]
            cost = "–" if curve.noise == "none" else words.epsilon(last.epsilon)
            ends = [text for point in (first, last) for text in (point.rounds, words.point_text(point))]
            rows.append([_name(dataset), words.curve_title(curve), *ends, cost])
    return text_table(
        "Figure 1: first and last points of the learning curves",
        ("data set", "curve", "first t", "points", "last t", "points", "epsilon claimed there"),
        rows,
        quiet=True,
    )


def curve_numbers(found: Reproduction, dataset: str) -> Written:
    """Every point of a data set's curves; below it, what it claims to cost."""
    curves = words.by_style(curve for curve in found.curves if curve.dataset == dataset)
    rounds = sorted({point.rounds for curve in curves for point in curve.points})
    rows = []
    for curve in curves:
        points = {
            point.rounds: Text(
                words.point_text(point), under="" if curve.noise == "none" else f"ε {words.epsilon(point.epsilon)}"
            )
            for point in curve.points
        }
        rows.append([words.curve_title(curve), *(points.get(number, "–") for number in rounds)])
    return text_table(
        f"Numbers of the learning curves of {dataset}",
        ["curve", *(f"t = {number}" for number in rounds)],
        rows,
        numbers=True,
        style="numbers",
    )


# --- the terminal


def found_table(found: Reproduction, experiment: str, setting: str) -> RichTable:
    """What `expril reproduce` prints: Table 2, the runs with a setting changed, or points of the curves."""
    if experiment == "figure1":
        return rich_table(_some_points(found))
    cells = by_place(found)
    if setting:
        return rich_table(_changed(found, cells, setting))

    def with_runs(side: Side) -> Text:
        runs = cells[side.dataset, "epsilon_printed_at_data"].runs
        return Text(f"{side.dataset} ({runs})" if side.title == "ours" else "", strong=True)

    def printed_epsilon(side: Side) -> str:
        return f"{cells[side.dataset, 'epsilon_printed_at_data'].median:.3g}" if side.title == "ours" else "1"

    columns = [
        Column("data set", with_runs),
        *_of_sides(SHORT, SHORT),
        Column("printed\nepsilon", printed_epsilon, number=True),
    ]
    datasets = dict.fromkeys(cell.dataset for cell in found.table)
    return rich_table(
        Table(
            "Table 2, percent: ours, and the paper's below",
            columns,
            [Group(_sides(cells, dataset, SHORT)[:2]) for dataset in datasets],
        ),
        "printed epsilon: at the run's records, median; the worst case is infinite, the paper's claim 1",
    )


def _changed(found: Reproduction, cells: Places, setting: str) -> Written:
    def text(row: Closure, number: Cell | Closure | Published | None) -> str:
        return "" if number is None else words.spread(row.column, number)

    return text_table(
        f"Table 2 with the setting {setting}: ours as set, ours by default, the paper's",
        ("data set", "column", "as set", "by default", "paper"),
        [
            (f"{row.dataset} ({row.runs})", COLUMNS[row.column], *(text(row, number) for number in numbers))
            for row in found.closures
            if row.setting == setting
            for numbers in [(row, cells.get((row.dataset, row.column)), TABLE_2.get((row.dataset, row.column)))]
        ],
    )


def _some_points(found: Reproduction) -> Written:
    rows = []
    for curve in found.curves:
        means = {point.rounds: signed(point.mean) for point in curve.points}
        head = (curve.dataset, curve.learner, curve.noise, words.scale(curve))
        rows.append((*head, *(means.get(number, "") for number in _SOME_ROUNDS)))
    return text_table(
        "Figure 1: acc(h_t) - acc(h*), percentage points",
        ("data set", "learner", "mechanism", "scale", *(f"t = {number}" for number in _SOME_ROUNDS)),
        rows,
    )
