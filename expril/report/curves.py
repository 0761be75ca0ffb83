"""Curves over time by group, such as survival: lines or steps with bands, and the numbers at risk below the axis.

Numbers at risk stand under the times to which they belong, each group's below its name, so that they are read on a
phone, too. What the figure shows is in a table as well (`curve_table`), for CSV and for a screen reader.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

from expril.report.chart import Axis, Figure, Key, Place, Row, Series, Stage, Tick, line_chart, make_axis
from expril.report.document import Charts
from expril.report.labels import LEAST_WIDTH, text_width
from expril.report.numbers import plain_number
from expril.report.table import Column, Table

_LEFT, _RIGHT = 11.0, 97.0
"""Ends of the axis of time, in percent of the width."""
_HEIGHT = 300
_NAMED = 5
"""Most times of which a figure's text tells, for each group."""
_SHARES = make_axis(0.0, 1.0, (0.2,))
_EVEN = 0.02
"""Largest relative difference of the distances of times that count as evenly spaced."""
_GAP = 7.0
"""Least distance of two numbers on one line, in pixels."""


@dataclass(frozen=True)
class Curve:
    """One group's curve at rising times, of which the first is usually 0.

    Values, ends of intervals and numbers at risk are as long as `times`; a number at risk is None where it is not told.
    """

    name: str
    times: Sequence[float]
    values: Sequence[float]  # shares, 0 to 1
    lows: Sequence[float]
    highs: Sequence[float]
    at_risk: Sequence[float | None] = ()  # estimates at these times, or () for none


def curve_charts(
    name: str,
    curves: Sequence[Curve],
    *,
    measure: str = "alive",
    unit: str = "",
    steps: bool = False,
    about: str = "",
    note: str = "",
) -> Charts:
    """Draw curves over one axis of time, from 0 to 1, under a legend of their names.

    Args:
        name: what it shows.
        curves: the groups', in the order of the legend.
        measure: what share is shown: "alive", "dead of cancer".
        unit: of time: "days".
        steps: whether a value stays until the next time; by default a line joins them.
        about: of whom it speaks: "these records" or "their population".
        note: below it.
    """
    keys = [Key(n, False, curve.name) for n, curve in enumerate(curves)]
    named = f"{measure}, {about}" if about else measure
    figure = curve_figure(name, curves, keys, measure=named, unit=unit, steps=steps)
    rules = [("band c0", "95 % interval at each time")]
    return Charts([figure], keys if len(keys) > 1 else (), rules, columns=1, note=note, size=0.5)


def curve_figure(
    name: str, curves: Sequence[Curve], keys: Sequence[Key], *, measure: str, unit: str = "", steps: bool = False
) -> Figure:
    """Draw curves over one axis of time, from 0 to 1, with the numbers at risk below; each has its colour and shape."""
    times = sorted({time for curve in curves for time in curve.times})
    bare = Axis(min(0.0, times[0]), times[-1], (), _LEFT, _RIGHT)
    risks = [dict(zip(curve.times, curve.at_risk, strict=False)) for curve in curves]
    texts = {time: [_risk_text(risk.get(time)) for risk in risks] for time in times}
    labelled = _apart(times, texts, bare)
    axis = replace(bare, ticks=tuple(Tick(_time_text(time), bare.at(time), time) for time in labelled))
    series = []
    for curve, key in zip(curves, keys, strict=True):
        marks = [
            Place(time, value, (low, high), _words(time, value, low, high, unit))
            for time, value, low, high in zip(curve.times, curve.values, curve.lows, curve.highs, strict=True)
        ]
        line = _stepped(marks) if steps else marks
        series.append(Series(key, [replace(place, text="") for place in line], marks=marks, pinched=True))
    stage, text = Stage(_SHARES, _HEIGHT), _text(curves, unit)
    figure = line_chart(name, series, axis, (), stage=stage, unit=measure, across=unit, text=text)
    rows = tuple(
        Row(key, tuple(Tick(texts[time][n], bare.at(time), time) for time in labelled))
        for n, key in enumerate(keys)
        if any(number is not None for number in risks[n].values())
    )
    return replace(figure, rows=rows, title="Number at risk" if rows else "", flat=False)


def curve_table(caption: str, curves: Sequence[Curve], *, measure: str, unit: str = "", about: str = "") -> Table[Any]:
    """All numbers of curves: a row for each group and time."""
    rows = [
        (curve.name, time, curve.values[n], curve.lows[n], curve.highs[n], dict(enumerate(curve.at_risk)).get(n))
        for curve in curves
        for n, time in enumerate(curve.times)
    ]
    columns: list[Column[Any]] = [
        Column("group", itemgetter(0), names=True),
        Column(f"time in {unit}" if unit else "time", lambda row: _time_text(row[1]), number=True),
        Column(f"share {measure}", lambda row: f"{row[2]:.4f}", number=True),
        Column("from", lambda row: f"{row[3]:.4f}", number=True),
        Column("to", lambda row: f"{row[4]:.4f}", number=True),
        Column("at risk", lambda row: _risk_text(row[5]), number=True),
    ]
    if about:
        columns.append(Column("of", lambda _row: about))
    return Table.of(caption, columns, rows)


def _apart(times: Sequence[float], texts: Mapping[float, Sequence[str]], axis: Axis) -> list[float]:
    """Times whose labels and numbers at risk stand beside each other on a phone: evenly spaced ones if times are so.

    Of other times the last, and from there each next that has room, and the first.
    """
    widths = {time: max(map(text_width, (_time_text(time), *texts[time]))) for time in times}

    def clear(first: float, second: float) -> bool:
        room = (axis.place(second) - axis.place(first)) * LEAST_WIDTH / 100
        return room >= (widths[first] + widths[second]) / 2 + _GAP

    steps = [after - before for before, after in pairwise(times)]
    if steps and max(steps) - min(steps) < _EVEN * max(steps):
        for every in range(1, len(times)):
            chosen = list(times[::every])
            if all(clear(*pair) for pair in pairwise(chosen)):
                return chosen
    chosen = [times[-1]] if len(times) == 1 or clear(times[0], times[-1]) else []
    for time in reversed(times[1:-1]):
        if chosen and clear(time, chosen[0]) and clear(times[0], time):
            chosen.insert(0, time)
    return [times[0], *chosen] if len(times) > 1 else chosen


def _stepped(places: Sequence[Place]) -> list[Place]:
    """The corners of steps: a value stays until the next time."""
    corners = list(places[:1])
    for before, after in pairwise(places):
        corners += [replace(before, x=after.x), after]
    return corners


def _time_text(time: float) -> str:
    return plain_number(time, 4)


def _risk_text(number: float | None) -> str:
    return "–" if number is None else f"{max(0, round(number)):,}"


def _words(time: float, value: float, low: float, high: float, unit: str) -> str:
    at = f"{_time_text(time)} {unit}".rstrip()
    return f"{100 * value:.0f} % ({100 * low:.0f} to {100 * high:.0f}) at {at}"


def _text(curves: Sequence[Curve], unit: str) -> str:
    """A few times of each group in words; the table has all."""
    sentences = []
    for curve in curves:
        every = max(1, math.ceil((len(curve.times) - 1) / _NAMED))
        chosen = list(range(len(curve.times) - 1, 0, -every))[::-1]
        words = [_words(curve.times[n], curve.values[n], curve.lows[n], curve.highs[n], unit) for n in chosen]
        sentences.append(f"{curve.name}: {'; '.join(words)}.")
    return " ".join(sentences)
