"""Where each mark of the comparison's figures goes; the template draws them."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from expril.report.chart import Axis, Figure, Key, Line, Place, Rule, Stage, Tick, make_axis
from lab.comparison.measures import Reliability
from lab.comparison.model import Comparison, Row
from lab.comparison.outcome import INFINITE
from lab.comparison.words import accuracy_of, auc_of, auc_spread, private_epsilons, spread
from protocol.rationals import parse_rational

_STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_LEFT, _RIGHT = 12.0, 97.0
_CURVES_HEIGHT, _SQUARE_HEIGHT = 300, 260
_SHARE_BINS = 10
_WORDS_BELOW = 16
"""Pixels below the ticks, for what the horizontal axis is."""
_RULES = {"h*": "ceiling", "majority": "majority"}
"""Ceilings that are drawn as horizontal rules, and their style."""


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
    """Accuracy against epsilon, or AUC where a class is rare, one panel a data set, each on its own axis."""
    epsilons = private_epsilons(found)[::-1]
    if not epsilons:
        return ()
    return tuple(_epsilon_figure(found, dataset, epsilons) for dataset in found.problems)


def _epsilon_figure(found: Comparison, dataset: str, epsilons: Sequence[str]) -> Figure:
    table = found.table
    logs = [math.log(parse_rational(epsilon)) for epsilon in epsilons]
    axis = Axis(logs[0], logs[-1], left=_LEFT + 3, right=_RIGHT - 3)
    curves: dict[Key, list[tuple[float, Row]]] = {}
    for key in strategy_keys(found):
        rows = [(log, table.get((dataset, key.name, each))) for log, each in zip(logs, epsilons, strict=True)]
        there = [(log, row) for log, row in rows if row is not None]
        if there:
            curves[key] = there
    references = {name: table.get((dataset, name, INFINITE)) for name in _RULES}
    mean, std, text = (auc_of, _auc_std, auc_spread) if dataset in found.rare else (accuracy_of, _std, spread)
    values = [mean(row) for places in curves.values() for _, row in places]
    values += [mean(row) for row in references.values() if row is not None]
    values = values or [0.0, 100.0]
    stage = Stage(make_axis(min(values), max(values), _STEPS), _CURVES_HEIGHT)
    lines = tuple(
        stage.line(
            key.index,
            key.hollow,
            key.name,
            [
                Place(
                    axis.place(log),
                    mean(row),
                    (mean(row) - std(row), mean(row) + std(row)),
                    f"{text(row)} at ε = {row.epsilon}",
                )
                for log, row in places
            ],
            errors=key.name == found.default,
        )
        for key, places in curves.items()
    )
    rules = tuple(
        Rule(_RULES[name], stage.y(mean(row)), f"{name}: {text(row)}")
        for name, row in references.items()
        if row is not None
    )
    ends = [f"{line.title}: {line.marks[-1].text}" for line in lines] + [rule.text for rule in rules]
    return Figure(
        stage,
        f"{dataset}: AUC" if dataset in found.rare else dataset,
        tuple(Tick(epsilon, axis.at(log)) for epsilon, log in zip(epsilons, logs, strict=True)),
        # The default strategy is drawn last, above the others.
        tuple(sorted(lines, key=lambda line: line.title == found.default)),
        "; ".join(ends),
        below=_WORDS_BELOW,
        rules=rules,
    )


def _std(row: Row) -> float:
    return row.std


def _auc_std(row: Row) -> float:
    return row.auc_std


def epsilon_keys(found: Comparison) -> tuple[Key, ...]:
    """Of the reliability diagrams: one colour an epsilon."""
    return tuple(
        Key(index, False, "no noise" if epsilon == INFINITE else f"ε = {epsilon}")
        for index, epsilon in enumerate(found.epsilons)
    )


def reliability_figures(found: Comparison) -> tuple[Figure, ...]:
    """Predicted probability against the share of class 1, one panel a strategy, over all data sets and runs."""
    figures = []
    for strategy in found.strategies:
        lines = []
        stage = _square(0.0, 100.0, (20.0,))
        for epsilon, key in zip(found.epsilons, epsilon_keys(found), strict=True):
            rows = [row for row in found.rows if row.strategy == strategy.name and row.epsilon == epsilon]
            places = [
                Place(stage.axis.place(p), o, (o, o), f"{p:.0f} % predicted, {o:.0f} % observed, {n} records")
                for n, p, o in by_share([row.reliability for row in rows])
            ]
            if places:
                lines.append(stage.line(key.index, False, key.name, places, errors=False))
        if lines:
            figures.append(_diagram(strategy.name, stage, lines))
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
        stage = _square(min(values), max(values), _STEPS)
        lines = [
            # Points of different data sets are no curve.
            stage.line(key.index, False, f"{row.dataset}, {key.name}", [_claimed(row, stage.axis)], errors=False)
            for epsilon, key in zip(found.epsilons, epsilon_keys(found), strict=True)
            for row in rows
            if row.epsilon == epsilon
        ]
        figures.append(_diagram(strategy.name, stage, lines))
    return tuple(figures)


def _claimed(row: Row, axis: Axis) -> Place:
    estimated, observed = _mean(row, "estimated"), _mean(row, "observed")
    text = f"{estimated:.1f} % expected, {observed:.1f} % observed"
    return Place(axis.place(estimated), observed, (observed, observed), text)


def _mean(row: Row, name: str) -> float:
    values: list[float] = [getattr(claim, name) for claim in row.claims]
    return sum(values) / len(values)


def _square(low: float, high: float, steps: Iterable[float]) -> Stage:
    """A stage whose axis is the horizontal one, too."""
    return Stage(make_axis(low, high, steps, left=_LEFT, right=_RIGHT), _SQUARE_HEIGHT)


def _diagram(name: str, stage: Stage, lines: Sequence[Line]) -> Figure:
    axis = stage.axis
    return Figure(
        stage,
        name,
        axis.ticks,
        tuple(lines),
        "; ".join(f"{line.title}: {', '.join(mark.text for mark in line.marks)}" for line in lines),
        below=_WORDS_BELOW,
        diagonal=stage.path([(_LEFT, axis.low), (_RIGHT, axis.high)]),
    )
