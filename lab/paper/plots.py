"""Where each mark of the two figures goes; the template draws them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from expril.report.chart import Axis, Dot, Figure, Key, Place, Stage, Tick, count_axis, make_axis
from expril.report.table import MARKS
from lab.paper.findings import Standing, standing
from lab.paper.model import ACCURACIES, COLUMNS, Cell, Curve, Point
from lab.paper.published import Published
from lab.paper.words import STYLES, by_style, curve_title, epsilon, point_text, spread

_STEPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_ROW, _HEAD = 40, 6
_HEIGHT, _COST = 280, 18


@dataclass(frozen=True)
class DotRow:
    """One column of Table 2: where its two dots lie; `y` is the height of its title in pixels from the top."""

    title: str
    y: int
    ours: Dot
    paper: Dot | None
    standing: Standing | None
    mark: str


@dataclass(frozen=True)
class DotPlot:
    """All accuracies of one data set beside the paper's; `text` says it in words."""

    dataset: str
    height: int
    rows: tuple[DotRow, ...]
    ticks: tuple[Tick, ...]
    text: str


def _dot(column: str, value: Cell | Published, axis: Axis) -> Dot:
    return axis.dot(value.mean, _ends(value), spread(column, value))


def _ends(value: Cell | Published | Point) -> tuple[float, float]:
    std = value.std if value.std is not None and value.std > 0 else 0.0
    return value.mean - std, value.mean + std


def dot_plots(cells: Sequence[Cell], datasets: Iterable[str]) -> tuple[DotPlot, ...]:
    """Return one plot a data set, all on the same axis (percent); nothing without an accuracy."""
    shown = [cell for cell in cells if cell.column in ACCURACIES and math.isfinite(cell.mean)]
    if not shown:
        return ()
    values = [end for cell in shown for side in (cell, cell.published) if side is not None for end in _ends(side)]
    axis = make_axis(min(values), max(values), _STEPS)
    found = {(cell.dataset, cell.column): cell for cell in shown}
    plots = []
    for dataset in datasets:
        row_cells = [found[dataset, column] for column in ACCURACIES if (dataset, column) in found]
        if row_cells:
            plots.append(_dot_plot(dataset, row_cells, axis))
    return tuple(plots)


def _dot_plot(dataset: str, cells: Sequence[Cell], axis: Axis) -> DotPlot:
    rows = []
    for n, cell in enumerate(cells):
        side = standing(cell)
        paper = None if cell.published is None else _dot(cell.column, cell.published, axis)
        ours = _dot(cell.column, cell, axis)
        mark = "" if side is None else MARKS[side]
        rows.append(DotRow(COLUMNS[cell.column], _HEAD + n * _ROW, ours, paper, side, mark))
    text = "; ".join(
        f"{row.title}: ours {row.ours.text}" + (f", paper {row.paper.text}" if row.paper else "") for row in rows
    )
    return DotPlot(dataset, _HEAD + len(rows) * _ROW, tuple(rows), axis.ticks, text)


@dataclass(frozen=True)
class Panel:
    """One half of a small multiple: with privacy, or without.

    Attributes:
        title: over the panel.
        plot: percentage points above or below the in-site model, by t.
        costs: what the fixed scale has spent at that t by its claim, below the axis; empty without such a curve.
    """

    title: str
    plot: Figure
    costs: tuple[Tick, ...]


@dataclass(frozen=True)
class CurveFigure:
    """The two panels of a data set on one vertical axis, with the claimed costs in words."""

    dataset: str
    panels: tuple[Panel, ...]
    costs: tuple[str, ...]


def curve_keys(curves: Iterable[Curve]) -> tuple[Key, ...]:
    """Return the legend of these curves."""
    styles = dict.fromkeys(STYLES[curve.noise, curve.fixed] for curve in by_style(curves))
    return tuple(Key(index, False, title) for index, title in styles)


def curve_figures(curves: Sequence[Curve], datasets: Iterable[str]) -> tuple[CurveFigure, ...]:
    """Return Figure 1: a data set's curves with privacy at the left and without at the right."""
    figures = []
    for dataset in datasets:
        here = by_style(curve for curve in curves if curve.dataset == dataset and curve.points)
        if not here:
            continue
        values = [end for curve in here for point in curve.points for end in _ends(point)]
        stage = Stage(make_axis(min(values), max(values), (0.5, *_STEPS)), _HEIGHT)
        private = [curve for curve in here if curve.noise != "none"]
        public = [curve for curve in here if curve.noise == "none"]
        panels = [
            _panel(title, half, stage)
            for title, half in (("Differentially private (1-DP in the paper)", private), ("No privacy", public))
            if half
        ]
        figures.append(CurveFigure(dataset, tuple(panels), _costs(private)))
    return tuple(figures)


def _costs(curves: Iterable[Curve]) -> tuple[str, ...]:
    sentences: dict[str, None] = {}
    for curve in curves:
        points = sorted(curve.points, key=lambda point: point.rounds)
        low, high = epsilon(min(p.epsilon for p in points)), epsilon(max(p.epsilon for p in points))
        if curve.fixed:
            cost = f"at t = {points[-1].rounds} it has spent {epsilon(points[-1].epsilon)}"
        else:
            cost = f"each point claims {low if low == high else f'{low} to {high}'}"
        sentences[f"{STYLES[curve.noise, curve.fixed][1]}: {cost}"] = None
    return tuple(sentences)


def _panel(title: str, curves: Sequence[Curve], stage: Stage) -> Panel:
    axis = count_axis((point.rounds for curve in curves for point in curve.points), left=11.0, right=96.0)
    spent = {str(point.rounds): point.epsilon for curve in curves if curve.fixed for point in curve.points}
    lines = [
        stage.line(
            STYLES[curve.noise, curve.fixed][0],
            curve.learner == "I",
            curve_title(curve),
            [
                Place(axis.place(point.rounds), point.mean, _ends(point), f"{point_text(point)} at t = {point.rounds}")
                for point in sorted(curve.points, key=lambda point: point.rounds)
            ],
        )
        for curve in curves
    ]
    ends = "; ".join(f"{line.title}: {line.marks[-1].text}" for line in lines)
    return Panel(
        title,
        Figure(stage, curves[0].dataset, axis.ticks, tuple(lines), ends, _COST if spent else 0),
        tuple(Tick(_short(spent[tick.label]), tick.at) for tick in axis.ticks if tick.label in spent),
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) and abs(value) < 100 else epsilon(value)
