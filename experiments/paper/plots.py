"""Where each mark of the two figures goes; the template draws them.

As in `simulations.report.plots`: horizontal coordinates are percentages, heights are pixels, curves live in a 100 x 100
box that is stretched to the plot, and colours and shapes are indices into the style sheet and `SHAPES`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from experiments.paper.findings import MARKS, Standing, epsilon, signed, spread, standing
from experiments.paper.model import ACCURACIES, COLUMNS, Cell, Curve, Point
from experiments.paper.published import Published
from simulations.report.lines import Line, Place, Stage
from simulations.report.plots import Axis, Grid, Tick, make_axis, percent

_STEPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_ROW, _HEAD = 40, 6
_COST = 18
_LEFT, _RIGHT = 11.0, 96.0
_LEAST_GAP = 7.0
"""Percent of the width between two labels below an axis."""

STYLES: dict[tuple[str, bool], tuple[int, str]] = {
    ("printed", False): (0, "printed mechanism, noise that fits the plan"),
    ("valid", False): (2, "valid mechanism, noise that fits the plan"),
    ("printed", True): (1, "printed mechanism, noise fixed for three queries"),
    ("valid", True): (3, "valid mechanism, noise fixed for three queries"),
    ("none", False): (5, "no privacy"),
    ("none", True): (5, "no privacy"),
}
"""(noise, fixed) -> index of colour and shape, and words."""


@dataclass(frozen=True)
class Dot:
    """A mean with its standard deviation on both sides, as CSS percentages, and in words."""

    at: str
    bar: tuple[str, str] | None
    text: str


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
    std = value.std or 0.0
    bar = (axis.at(value.mean - std), axis.at(value.mean + std)) if std > 0 else None
    return Dot(axis.at(value.mean), bar, spread(column, value))


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
        height: of the plot, in pixels.
        box: top and height of the drawing area, in pixels.
        grid: horizontal lines; percentage points above or below the in-site model.
        rounds: t below the axis.
        costs: what the fixed scale has spent at that t by its claim, below `rounds`; empty without such a curve.
        lines: the curves.
        text: the ends of all curves in words.
    """

    title: str
    height: int
    box: tuple[int, int]
    grid: tuple[Grid, ...]
    rounds: tuple[Tick, ...]
    costs: tuple[Tick, ...]
    lines: tuple[Line, ...]
    text: str


@dataclass(frozen=True)
class CurveFigure:
    """The two panels of a data set on one vertical axis, with the claimed costs in words."""

    dataset: str
    panels: tuple[Panel, ...]
    costs: tuple[str, ...]


def curve_title(curve: Curve) -> str:
    """Return the name of a curve in words."""
    return f"{curve.learner}-ExPriL, {STYLES[curve.noise, curve.fixed][1]}"


def by_style(curves: Iterable[Curve]) -> list[Curve]:
    """Return the curves in the order of the legend: by mechanism and scale, C before I."""
    order = list(STYLES)
    return sorted(curves, key=lambda curve: (order.index((curve.noise, curve.fixed)), curve.learner))


def curve_figures(curves: Sequence[Curve], datasets: Iterable[str], height: int = 280) -> tuple[CurveFigure, ...]:
    """Return Figure 1: a data set's curves with privacy at the left and without at the right."""
    figures = []
    for dataset in datasets:
        here = by_style(curve for curve in curves if curve.dataset == dataset and curve.points)
        if not here:
            continue
        values = [end for curve in here for point in curve.points for end in _ends(point)]
        axis = make_axis(min(values), max(values), (0.5, *_STEPS))
        private = [curve for curve in here if curve.noise != "none"]
        public = [curve for curve in here if curve.noise == "none"]
        panels = [
            _panel(title, half, axis, height)
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


def _panel(title: str, curves: Sequence[Curve], axis: Axis, height: int) -> Panel:
    rounds = sorted({point.rounds for curve in curves for point in curve.points})
    first, last = rounds[0], rounds[-1]

    def x(number: int) -> float:
        if first == last:
            return (_LEFT + _RIGHT) / 2
        return _LEFT + (_RIGHT - _LEFT) * (number - first) / (last - first)

    spent = {point.rounds: point.epsilon for curve in curves if curve.fixed for point in curve.points}
    every = max(1, math.ceil(_LEAST_GAP * max(1, last - first) / (_RIGHT - _LEFT)))
    ticks = [number for number in rounds if (last - number) % every == 0]
    full = height + (_COST if spent else 0)
    stage = Stage(axis, height)
    lines = tuple(_line(curve, stage, x) for curve in curves)
    ends = [f"{line.title}: {line.marks[-1].text}" for line in lines]
    return Panel(
        title=title,
        height=full,
        box=stage.box,
        grid=stage.grid,
        rounds=tuple(Tick(str(number), percent(x(number))) for number in ticks),
        costs=tuple(Tick(_short(spent[number]), percent(x(number))) for number in ticks if number in spent),
        lines=lines,
        text="; ".join(ends),
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) and abs(value) < 100 else epsilon(value)


def _line(curve: Curve, stage: Stage, x: Callable[[int], float]) -> Line:
    places = [
        Place(x(point.rounds), point.mean, *_ends(point), f"{point_text(point)} at t = {point.rounds}")
        for point in sorted(curve.points, key=lambda point: point.rounds)
    ]
    return stage.line(STYLES[curve.noise, curve.fixed][0], curve.learner == "I", curve_title(curve), places)


def point_text(point: Point) -> str:
    """Return a point's mean and deviation in percentage points."""
    return f"{signed(point.mean)} ± {point.std:.1f}"
