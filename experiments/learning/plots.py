"""Where each mark of the comparison's figures goes; the template draws them (see `simulations.report.lines`)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.learning.measures import Reliability
from experiments.learning.model import Claim, Comparison, Row
from experiments.learning.outcome import INFINITE
from experiments.learning.words import spread
from protocol.rationals import parse_rational
from simulations.report.lines import Line, Place, Stage
from simulations.report.plots import Axis, Grid, Tick, make_axis, percent

_STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_LEFT, _RIGHT = 12.0, 97.0
_CURVES_HEIGHT, _SQUARE_HEIGHT = 300, 260
_SHARE_BINS = 10
_RULES = {"h*": "in-site", "majority": "majority"}
"""Ceilings that are drawn as horizontal rules, and their style."""


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    index: int
    hollow: bool
    name: str
    title: str


@dataclass(frozen=True)
class Rule:
    """A horizontal rule over the whole plot: a ceiling, or the majority."""

    style: str
    y: float
    text: str


@dataclass(frozen=True)
class Figure:
    """One panel.

    Attributes:
        name: the data set or strategy.
        height: in pixels.
        box: top and height of the drawing area, in pixels.
        grid: horizontal lines.
        ticks: below the horizontal axis.
        lines: the curves.
        rules: horizontal ones.
        diagonal: the path of "as promised" in the 100 x 100 box, "" where there is none.
        text: the figure in words.
    """

    name: str
    height: int
    box: tuple[int, int]
    grid: tuple[Grid, ...]
    ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    rules: tuple[Rule, ...]
    diagonal: str
    text: str


def _across(axis: Axis, value: float) -> float:
    """Percent of the width, beside the labels of the vertical axis."""
    share = min(1.0, max(0.0, (value - axis.low) / (axis.high - axis.low)))
    return _LEFT + (_RIGHT - _LEFT) * share


def private_epsilons(found: Comparison) -> tuple[str, ...]:
    """The finite ones, upwards."""
    return tuple(reversed([epsilon for epsilon in found.epsilons if epsilon != INFINITE]))


def strategy_keys(found: Comparison) -> tuple[Key, ...]:
    """Ours filled, peers hollow; the default strategy has the first colour."""
    ours = [each for each in found.strategies if each.group == "ours"]
    ours.sort(key=lambda each: each.name != found.default)
    peers = [each for each in found.strategies if each.group == "peer"]
    return tuple(
        Key(index, hollow, each.name, each.title)
        for hollow, group in ((False, ours), (True, peers))
        for index, each in enumerate(group)
    )


def epsilon_figures(found: Comparison) -> tuple[Figure, ...]:
    """Accuracy against epsilon, one panel a data set, each on its own axis."""
    epsilons = private_epsilons(found)
    if not epsilons:
        return ()
    return tuple(_epsilon_figure(found, dataset, epsilons) for dataset in found.problems)


def _epsilon_figure(found: Comparison, dataset: str, epsilons: Sequence[str]) -> Figure:
    table = found.table
    logs = [math.log(parse_rational(epsilon)) for epsilon in epsilons]
    first, last = logs[0], logs[-1]

    def x(log: float) -> float:
        middle, width = (_LEFT + _RIGHT) / 2, _RIGHT - _LEFT - 6
        return middle if first == last else _LEFT + 3 + width * (log - first) / (last - first)

    curves: dict[Key, list[tuple[float, Row]]] = {}
    for key in strategy_keys(found):
        rows = [(log, table.get((dataset, key.name, each))) for log, each in zip(logs, epsilons, strict=True)]
        there = [(log, row) for log, row in rows if row is not None]
        if there:
            curves[key] = there
    references = {name: table.get((dataset, name, INFINITE)) for name in _RULES}
    values = [row.mean for places in curves.values() for _, row in places]
    values += [row.mean for row in references.values() if row is not None]
    values = values or [0.0, 100.0]
    stage = Stage(make_axis(min(values), max(values), _STEPS), _CURVES_HEIGHT)
    lines = tuple(
        stage.line(
            key.index,
            key.hollow,
            key.name,
            [
                Place(x(log), row.mean, row.mean - row.std, row.mean + row.std, f"{spread(row)} at ε = {row.epsilon}")
                for log, row in places
            ],
            band=key.name == found.default,
        )
        for key, places in curves.items()
    )
    rules = tuple(
        Rule(_RULES[name], stage.y(row.mean), f"{name}: {spread(row)}")
        for name, row in references.items()
        if row is not None
    )
    ends = [f"{line.title}: {line.marks[-1].text}" for line in lines] + [rule.text for rule in rules]
    return Figure(
        name=dataset,
        height=_CURVES_HEIGHT,
        box=stage.box,
        grid=stage.grid,
        ticks=tuple(Tick(epsilon, percent(x(log))) for epsilon, log in zip(epsilons, logs, strict=True)),
        # The default strategy is drawn last, above the others.
        lines=tuple(sorted(lines, key=lambda line: line.title == found.default)),
        rules=rules,
        diagonal="",
        text="; ".join(ends),
    )


def epsilon_keys(found: Comparison) -> tuple[Key, ...]:
    """Of the reliability diagrams: one colour an epsilon."""
    return tuple(
        Key(index, False, epsilon, "no noise" if epsilon == INFINITE else f"ε = {epsilon}")
        for index, epsilon in enumerate(found.epsilons)
    )


def reliability_figures(found: Comparison) -> tuple[Figure, ...]:
    """Predicted probability against the share of class 1, one panel a strategy, over all data sets and runs."""
    figures = []
    for strategy in found.strategies:
        lines = []
        stage = Stage(make_axis(0.0, 100.0, (20.0,)), _SQUARE_HEIGHT)
        for key in epsilon_keys(found):
            rows = [row for row in found.rows if row.strategy == strategy.name and row.epsilon == key.name]
            places = [
                Place(_across(stage.axis, p), o, o, o, f"{p:.0f} % predicted, {o:.0f} % observed, {n} records")
                for n, p, o in by_share([row.reliability for row in rows])
            ]
            if places:
                lines.append(stage.line(key.index, False, key.title, places, band=False))
        if lines:
            figures.append(_square(strategy.name, stage, stage.axis, lines))
    return tuple(figures)


def by_share(parts: Iterable[Reliability]) -> list[tuple[int, float, float]]:
    """Bins sorted anew into ten of equal width: records, mean predicted and observed share in percent, none empty."""
    records, predicted, observed = (np.zeros(_SHARE_BINS) for _ in range(3))
    for part in parts:
        for count, p, o in zip(part.counts, part.predicted, part.observed, strict=True):
            place = min(int(p * _SHARE_BINS), _SHARE_BINS - 1)
            records[place] += count
            predicted[place] += count * p
            observed[place] += count * o
    return [
        (int(n), float(100 * p / n), float(100 * o / n))
        for n, p, o in zip(records, predicted, observed, strict=True)
        if n
    ]


def claim_figures(found: Comparison) -> tuple[Figure, ...]:
    """Expected against observed accuracy, a point a data set and epsilon, one panel a strategy that claims any."""
    figures = []
    for strategy in found.strategies:
        rows = [row for row in found.rows if row.strategy == strategy.name and row.claims]
        if not rows:
            continue
        points = {row.key: (_mean(row, "estimated"), _mean(row, "observed")) for row in rows}
        values = [value for point in points.values() for value in point]
        stage = Stage(make_axis(min(values), max(values), _STEPS), _SQUARE_HEIGHT)
        lines = [
            # Points of different data sets are no curve.
            stage.line(key.index, False, f"{row.dataset}, {key.title}", [_claimed(row, stage.axis)], band=False)
            for key in epsilon_keys(found)
            for row in rows
            if row.epsilon == key.name
        ]
        figures.append(_square(strategy.name, stage, stage.axis, lines))
    return tuple(figures)


def _claimed(row: Row, axis: Axis) -> Place:
    estimated, observed = _mean(row, "estimated"), _mean(row, "observed")
    return Place(
        _across(axis, estimated), observed, observed, observed, f"{estimated:.1f} % expected, {observed:.1f} % observed"
    )


def _mean(row: Row, name: str) -> float:
    values: list[float] = [getattr(claim, name) for claim in row.claims]
    return sum(values) / len(values)


def coverage(rows: Iterable[Row]) -> tuple[int, int]:
    """Intervals that hold the observed accuracy, and all intervals."""
    claims: list[Claim] = [claim for row in rows for claim in row.claims]
    return sum(claim.holds for claim in claims), len(claims)


def _square(name: str, stage: Stage, axis: Axis, lines: Sequence[Line]) -> Figure:
    return Figure(
        name=name,
        height=stage.height,
        box=stage.box,
        grid=stage.grid,
        ticks=tuple(Tick(tick.label, percent(_across(axis, float(tick.label)))) for tick in axis.ticks),
        lines=tuple(lines),
        rules=(),
        diagonal=stage.path([(_LEFT, axis.low), (_RIGHT, axis.high)]),
        text="; ".join(f"{line.title}: {', '.join(mark.text for mark in line.marks)}" for line in lines),
    )
