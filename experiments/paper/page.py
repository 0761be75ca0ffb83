"""The page of a reproduction: one HTML file that holds every number, loads nothing and runs no script.

Text of the reproduction (settings, versions, the command) is untrusted and reaches the page through one Jinja template
with autoescape. The style is the one of a run's report, with a sheet of its own on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from experiments.paper import findings, plots
from experiments.paper.model import COLUMNS, NOISE_TITLES, Cell, Curve, Noise, Point, Reproduction
from experiments.paper.published import TABLE_2, Published
from simulations.report.page import count, moment
from simulations.report.plots import COLOURS, SHAPES
from simulations.report.templates import Template, page_template, sheet

PACKAGE = "experiments.paper"


@dataclass(frozen=True)
class Entry:
    """One column of one data set in Table 2; either side may be missing."""

    column: str
    ours: Cell | None
    paper: Published | None
    standing: findings.Standing | None


@dataclass(frozen=True)
class TableRow:
    """One data set of Table 2."""

    dataset: str
    entries: tuple[Entry, ...]


def _table(cells: dict[tuple[str, str], Cell], datasets: Sequence[str], columns: Sequence[str]) -> list[TableRow]:
    rows = []
    for dataset in datasets:
        entries = []
        for column in columns:
            ours = cells.get((dataset, column))
            side = None if ours is None else findings.standing(ours)
            entries.append(Entry(column, ours, TABLE_2.get((dataset, column)), side))
        rows.append(TableRow(dataset, tuple(entries)))
    return rows


@dataclass(frozen=True)
class EpsilonRow:
    """One data set in the table of privacy losses; the values are words."""

    dataset: str
    values: tuple[str, ...]


def _epsilons(cells: dict[tuple[str, str], Cell]) -> list[EpsilonRow]:
    datasets = findings.in_order(dataset for dataset, column in cells if column in findings.EPSILON_COLUMNS)
    return [
        EpsilonRow(
            dataset,
            tuple(findings.epsilon_summary(cells.get((dataset, column))) for column in findings.EPSILON_COLUMNS),
        )
        for dataset in datasets
    ]


@dataclass(frozen=True)
class NumbersRow:
    """One curve in the table under its figure: a point for each t of the head, or None; costs for those with noise."""

    title: str
    points: tuple[Point | None, ...]
    costs: bool


@dataclass(frozen=True)
class Numbers:
    """The numbers of one data set's curves."""

    dataset: str
    rounds: tuple[int, ...]
    rows: tuple[NumbersRow, ...]


def _numbers(curves: Sequence[Curve], dataset: str) -> Numbers:
    here = plots.by_style(curve for curve in curves if curve.dataset == dataset)
    rounds = sorted({point.rounds for curve in here for point in curve.points})
    rows = []
    for curve in here:
        points = {point.rounds: point for point in curve.points}
        rows.append(NumbersRow(plots.curve_title(curve), tuple(map(points.get, rounds)), curve.noise != "none"))
    return Numbers(dataset, tuple(rounds), tuple(rows))


@dataclass(frozen=True)
class Key:
    """One entry of the legend of Figure 1."""

    index: int
    title: str


def _keys(curves: Sequence[Curve]) -> list[Key]:
    return [Key(*style) for style in dict.fromkeys(plots.STYLES[c.noise, c.fixed] for c in plots.by_style(curves))]


def _noise(name: Noise) -> str:
    return NOISE_TITLES[name]


@cache
def _template() -> Template:
    return page_template(
        PACKAGE,
        {
            "count": count,
            "moment": moment,
            "noise": _noise,
            "epsilon": findings.epsilon,
            "signed": findings.signed,
            "probability": findings.probability,
            "point": plots.point_text,
            "difference": findings.difference,
            "errors": findings.errors,
            "paper_says": findings.paper_says,
            "we_say": findings.we_say,
            "agreement": findings.agreement,
        },
    )


def build_page(found: Reproduction) -> str:
    """Return the page as one HTML document that loads nothing.

    The same reproduction gives the same text. Every string of it is treated as untrusted and is shown as text.
    """
    cells = {(cell.dataset, cell.column): cell for cell in found.table}
    datasets = findings.in_order(dataset for dataset, column in cells if column in findings.TABLE_COLUMNS)
    columns = [column for column in findings.TABLE_COLUMNS if any((name, column) in cells for name in datasets)]
    curve_sets = findings.in_order(curve.dataset for curve in found.curves if curve.points)
    setting_sets, settings = findings.settings_by_dataset(found)
    return _template().render(
        found=found,
        headline=findings.headline(found),
        verdict=findings.verdict(found),
        columns=columns,
        titles=COLUMNS,
        spread=findings.spread,
        marks=findings.MARKS,
        standings=findings.STANDING_TITLES,
        table=_table(cells, datasets, columns),
        dots=plots.dot_plots(found.table, datasets),
        epsilons=_epsilons(cells),
        meaning=findings.EPSILON_MEANING,
        why=findings.WHY_NOT_PRIVATE,
        instead=findings.VALID_INSTEAD,
        tests=findings.ordered_tests(found),
        gaps=findings.gaps(found),
        setting_rows=findings.setting_rows(found),
        closing=findings.CLOSING,
        one_setting=findings.ONE_SETTING,
        epsilon_heads=findings.EPSILON_HEADS,
        epsilon_note=findings.EPSILON_NOTE,
        figures=plots.curve_figures(found.curves, curve_sets),
        numbers={dataset: _numbers(found.curves, dataset) for dataset in curve_sets},
        keys=_keys([curve for curve in found.curves if curve.points]),
        setting_sets=setting_sets,
        settings=settings,
        provenances=[
            (title, where)
            for title, where in (("Table 2", found.table_provenance), ("Figure 1", found.curves_provenance))
            if where is not None
        ],
        shapes=SHAPES,
        colours=COLOURS,
        style=sheet(PACKAGE),
    )
