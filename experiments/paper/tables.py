"""What the tables of a reproduction hold, on its page, in its Markdown and in the terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rich.table import Table as RichTable

from experiments.paper import findings, words
from experiments.paper.findings import EPSILON_COLUMNS, TABLE_COLUMNS, Gap
from experiments.paper.model import COLUMNS, NOISE_TITLES, Cell, Closure, Curve, Point, Reproduction, Wilcoxon
from experiments.paper.published import TABLE_2
from experiments.publish.numbers import signed
from experiments.publish.table import MARKS, Column, Group, Table, Text, Tone, text_table
from experiments.publish.terminal import rich_table

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


# --- Table 2


def by_place(found: Reproduction) -> Places:
    """The cells of Table 2 by data set and column."""
    return {(cell.dataset, cell.column): cell for cell in found.table}


def _shown(cells: Places) -> tuple[tuple[str, ...], list[str]]:
    """Data sets and columns of Table 2 that there are."""
    datasets = findings.in_order(dataset for dataset, column in cells if column in TABLE_COLUMNS)
    return datasets, [column for column in TABLE_COLUMNS if any((name, column) in cells for name in datasets)]


def accuracies(found: Reproduction) -> Table[str]:
    """Table 2 in short: a row a data set, in each place ours, the paper's, and how far they are apart."""
    cells = by_place(found)
    datasets, columns = _shown(cells)
    return Table.of(
        "Table 2: accuracy",
        [
            Column("data set", _name, names=True, quiet=True),
            *(Column(COLUMNS[column], partial(_beside, cells, column)) for column in columns),
        ],
        datasets,
    )


def _name(dataset: str) -> Text:
    return Text(dataset, strong=True)


def _beside(cells: Places, column: str, dataset: str) -> str:
    cell, published = cells.get((dataset, column)), TABLE_2.get((dataset, column))
    text = "–" if cell is None else words.spread(column, cell)
    if published is not None:
        text += f" ({words.spread(column, published)})"
    side = None if cell is None else findings.standing(cell)
    if cell is not None and side is not None:
        text += f" {MARKS[side]} {words.errors(cell)}"
    return text


@dataclass(frozen=True)
class Side:
    """One of the four rows that a data set has in Table 2 on the page; its places are by column."""

    dataset: str
    title: str
    style: str
    cells: Mapping[str, Text]


def _sides(cells: Places, dataset: str, columns: Sequence[str]) -> tuple[Side, ...]:
    ours = {column: cells[dataset, column] for column in columns if (dataset, column) in cells}
    published = {column: TABLE_2[dataset, column] for column in columns if (dataset, column) in TABLE_2}
    return (
        Side(
            dataset,
            "ours",
            "ours",
            {column: Text(words.spread(column, cell), strong=True) for column, cell in ours.items()},
        ),
        Side(
            dataset,
            "paper",
            "paper",
            {column: Text(words.spread(column, number)) for column, number in published.items()},
        ),
        Side(
            dataset,
            "difference",
            "gap",
            {column: Text(words.difference(cell)) for column, cell in ours.items()},
        ),
        Side(dataset, "in std. errors", "errors", {column: _standing(cell) for column, cell in ours.items()}),
    )


def _standing(cell: Cell) -> Text:
    side = findings.standing(cell)
    if side is None:
        return Text("–")
    return Text(words.errors(cell), tone=side, title=words.STANDING_TITLES[side])


def _in(column: str, side: Side) -> Text:
    return side.cells.get(column, Text("–"))


def table2(found: Reproduction) -> Table[Side]:
    """Table 2 in full: ours, the paper's, the difference, and the difference in standard errors."""
    cells = by_place(found)
    datasets, columns = _shown(cells)
    return Table(
        "Table 2, ours and the paper’s",
        [
            Column("data set", lambda side: side.title, names=True, quiet=True),
            *(Column(COLUMNS[column], partial(_in, column), number=True) for column in columns),
        ],
        [Group(_sides(cells, dataset, columns), dataset) for dataset in datasets],
        "table2",
        lambda side: side.style,
    )


def epsilons(found: Reproduction) -> Table[str]:
    """Privacy loss of the printed mechanism, claimed and true, by data set."""
    cells = by_place(found)
    headings = ("claimed", "true, worst case", *words.EPSILON_HEADS)
    return Table.of(
        "Privacy loss of the printed mechanism",
        [
            Column("data set", _name, names=True, quiet=True),
            *(
                Column(heading, partial(_loss, cells, column))
                for heading, column in zip(headings, EPSILON_COLUMNS, strict=True)
            ),
        ],
        findings.in_order(dataset for dataset, column in cells if column in EPSILON_COLUMNS),
    )


def _loss(cells: Places, column: str, dataset: str) -> str:
    return words.epsilon_summary(cells.get((dataset, column)))


# --- what it amounts to

_AGREEMENTS: dict[str, Tone] = {"agrees": "within", "differs": "apart"}


def tests(found: Reproduction) -> Table[Wilcoxon]:
    """C-ExPriL against I-ExPriL, by our runs and by the paper."""
    return Table.of(
        "C-ExPriL against I-ExPriL",
        [
            Column("data set", lambda row: _name(row.dataset), names=True, quiet=True),
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
            Column("data set", lambda gap: _name(gap.dataset), names=True, quiet=True),
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


def changes(found: Reproduction) -> Table[Sequence[str]]:
    """For each changed setting, how many cells of the method lie within two standard errors of the paper."""
    rows = [tuple(map(str, row)) for row in findings.setting_rows(found)]
    return text_table(
        "Settings over all cells",
        ("setting changed", "runs", "cells of the method", "within", "above", "below"),
        rows,
        numbers=True,
    )


def settings(found: Reproduction) -> Table[Sequence[str]]:
    """Settings by data set."""
    datasets, rows = findings.settings_by_dataset(found)
    return text_table(
        "Settings by data set", ("setting", *datasets), [(name, *values) for name, values in rows], quiet=True
    )


# --- Figure 1


def curve_ends(found: Reproduction) -> Table[Curve]:
    """The first and the last point of every curve."""
    drawn = [curve for curve in found.curves if curve.points]
    return Table.of(
        "Figure 1: first and last points of the learning curves",
        [
            Column("data set", lambda curve: _name(curve.dataset), names=True, quiet=True),
            Column("curve", words.curve_title),
            Column("first t", lambda curve: _at(curve, 0).rounds),
            Column("points", lambda curve: words.point_text(_at(curve, 0))),
            Column("last t", lambda curve: _at(curve, -1).rounds),
            Column("points", lambda curve: words.point_text(_at(curve, -1))),
            Column(
                "epsilon claimed there",
                lambda curve: "–" if curve.noise == "none" else words.epsilon(_at(curve, -1).epsilon),
            ),
        ],
        [
            curve
            for dataset in findings.in_order(curve.dataset for curve in drawn)
            for curve in words.by_style(each for each in drawn if each.dataset == dataset)
        ],
    )


def _at(curve: Curve, place: int) -> Point:
    return sorted(curve.points, key=lambda point: point.rounds)[place]


def curve_numbers(found: Reproduction, dataset: str) -> Table[Curve]:
    """Every point of a data set's curves; below it, what it claims to cost."""
    curves = words.by_style(curve for curve in found.curves if curve.dataset == dataset)
    rounds = sorted({point.rounds for curve in curves for point in curve.points})
    return Table.of(
        f"Numbers of the learning curves of {dataset}",
        [
            Column("curve", words.curve_title, names=True),
            *(Column(f"t = {number}", partial(_point, number), number=True) for number in rounds),
        ],
        curves,
        "numbers",
    )


def _point(rounds: int, curve: Curve) -> Text:
    point = next((point for point in curve.points if point.rounds == rounds), None)
    if point is None:
        return Text("–")
    cost = "" if curve.noise == "none" else f"ε {words.epsilon(point.epsilon)}"
    return Text(words.point_text(point), under=cost)


# --- the terminal


def found_table(found: Reproduction, experiment: str, setting: str) -> RichTable:
    """What `expril reproduce` prints: Table 2, the runs with a setting changed, or the curves' points."""
    if experiment == "figure1":
        return rich_table(_some_points(found))
    if setting:
        return rich_table(_changed(found, setting))
    cells = by_place(found)
    return rich_table(
        Table(
            "Table 2, percent: ours, and the paper's below",
            [
                Column("data set", partial(_with_runs, cells)),
                *(Column(title, partial(_in, column), number=True) for column, title in SHORT.items()),
                Column("printed\nepsilon", partial(_printed_epsilon, cells), number=True),
            ],
            [
                Group(_sides(cells, dataset, tuple(SHORT))[:2])
                for dataset in dict.fromkeys(cell.dataset for cell in found.table)
            ],
        ),
        "printed epsilon: at the run's records, median; the worst case is infinite, the paper's claim 1",
    )


def _with_runs(cells: Places, side: Side) -> Text:
    runs = cells[side.dataset, "epsilon_printed_at_data"].runs
    return Text(f"{side.dataset} ({runs})" if side.title == "ours" else "", strong=True)


def _printed_epsilon(cells: Places, side: Side) -> str:
    return f"{cells[side.dataset, 'epsilon_printed_at_data'].median:.3g}" if side.title == "ours" else "1"


def _changed(found: Reproduction, setting: str) -> Table[Closure]:
    cells = by_place(found)

    def default(row: Closure) -> str:
        cell = cells.get((row.dataset, row.column))
        return "" if cell is None else words.spread(row.column, cell)

    def published(row: Closure) -> str:
        number = TABLE_2.get((row.dataset, row.column))
        return "" if number is None else words.spread(row.column, number)

    return Table.of(
        f"Table 2 with the setting {setting}: ours as set, ours by default, the paper's",
        [
            Column("data set", lambda row: f"{row.dataset} ({row.runs})"),
            Column("column", lambda row: COLUMNS[row.column]),
            Column("as set", lambda row: words.spread(row.column, row)),
            Column("by default", default),
            Column("paper", published),
        ],
        [row for row in found.closures if row.setting == setting],
    )


def _some_points(found: Reproduction) -> Table[Curve]:
    return Table.of(
        "Figure 1: acc(h_t) - acc(h*), percentage points",
        [
            Column("data set", lambda curve: curve.dataset),
            Column("learner", lambda curve: curve.learner),
            Column("mechanism", lambda curve: curve.noise),
            Column("scale", words.scale),
            *(Column(f"t = {number}", partial(_mean, number)) for number in (1, 2, 5, 10)),
        ],
        found.curves,
    )


def _mean(rounds: int, curve: Curve) -> str:
    return next((f"{point.mean:+.1f}" for point in curve.points if point.rounds == rounds), "")
