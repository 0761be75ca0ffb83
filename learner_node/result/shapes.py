"""Drawn shape functions of an additive model: a curve of steps for a number, points with bars for levels.

A simulation's page and a deployed study's page share them; both know the model's bins, which the noisy answers tell.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import NamedTuple, Protocol

from expril.report.chart import Axis, Figure, Key, Place, Series, Stage, Strip, Tick, line_chart, make_axis, tight_axis
from expril.report.document import Block, Charts, Grid, Heading, Text
from expril.report.numbers import count, plain_number, signed
from expril.report.table import Column, Table

MOST = 12
"""Most attributes that are drawn, the strongest first; the others are only named."""
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
_LEAST_SPAN = 0.2
_PLAIN = (0.01, 1000.0)
"""Odds that are written with two decimals."""
_MOST_EXPONENT = 700.0
"""Exponent whose power of e is a finite number."""
_HEIGHT = 190
_LEFT, _RIGHT, _RIGHT_OF_MISSING, _MISSING = 11.0, 97.0, 82.0, 93.0
"""In percent of the width: ends of the axis of a number, its end beside missing values, and the place of these."""
_OUTER = 0.15
"""Least width of the outer steps, whose bins have no end, as a share of what lies between the edges."""


class Bin(Protocol):
    """A bin of an attribute, such as `learner_node.models.label_model.additive.ShapeBin`."""

    @property
    def label(self) -> str:
        """The bin in words."""

    @property
    def low(self) -> float | None:
        """Lower edge of a bin of numbers, which is in it; None if it has none."""

    @property
    def high(self) -> float | None:
        """Upper edge, which is not in it; None if it has none."""

    @property
    def share(self) -> float:
        """Share of the records in it."""

    @property
    def log_odds(self) -> float:
        """Contribution to the log-odds."""

    @property
    def lower(self) -> float:
        """Lower end of its band."""

    @property
    def upper(self) -> float:
        """Upper end of its band."""


class NamedBin(NamedTuple):
    """A bin as a result's file names its parts."""

    label: str
    low: float | None
    high: float | None
    share: float
    log_odds: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Shape:
    """What an attribute contributes, and what the schema says of it."""

    attribute: str
    bins: Sequence[Bin]
    units: str = ""
    description: str = ""
    bounds: tuple[float, float] | None = None  # of a number, if known

    @property
    def ranges(self) -> list[Bin]:
        """The bins that are ranges of a number, by rising edges."""
        return [bin_ for bin_ in self.bins if bin_.low is not None or bin_.high is not None]

    @property
    def others(self) -> list[Bin]:
        """The other bins: levels, or missing values."""
        return [bin_ for bin_ in self.bins if bin_.low is None and bin_.high is None]


def shape_blocks(shapes: Sequence[Shape], index: int, name: str) -> Iterator[Block]:
    """Drawings of the strongest attributes side by side, and a sentence on the others.

    `shapes` are sorted from the strongest; `index` is the colour; `name` is the learner's.
    """
    drawn, weaker = shapes[:MOST], shapes[MOST:]
    ends = [end for shape in drawn for bin_ in shape.bins for end in (bin_.lower, bin_.upper)]
    axis = make_axis(min(*ends, -_LEAST_SPAN), max(*ends, _LEAST_SPAN), _STEPS)
    key = Key(index, False, name)
    yield Grid([list(_drawing(shape, key, axis)) for shape in drawn])
    if weaker:
        names = ", ".join(shape.attribute for shape in weaker)
        yield Text(f"{count(len(weaker), 'weaker attribute')} not drawn: {names}.", "fine")


def _drawing(shape: Shape, key: Key, axis: Axis) -> Iterator[Block]:
    yield Heading(shape.attribute)
    if shape.description and shape.description.casefold() != shape.attribute.casefold():
        yield Text(shape.description)
    if len(shape.ranges) > 1:
        yield Charts([shape_figure(shape, key, axis)], columns=1, size=0.6)
    else:
        yield level_table(shape, key, axis)


def bin_in_words(bin_: Bin) -> str:
    """A bin's contribution in words."""
    odds = f"{signed(bin_.log_odds, 2)} ({signed(bin_.lower, 2)} to {signed(bin_.upper, 2)})"
    factor = math.exp(max(-_MOST_EXPONENT, min(bin_.log_odds, _MOST_EXPONENT)))
    times = f"{factor:.2f}" if _PLAIN[0] <= factor <= _PLAIN[1] else plain_number(factor, 2)
    return f"log-odds {odds}, odds times {times}"


def share_in_words(share: float) -> str:
    """A share of records as a percentage."""
    return f"{100 * share:.0f} %" if share >= 0.005 else "< 1 %"


def shape_figure(shape: Shape, key: Key, log_odds: Axis) -> Figure:
    """The steps of a number's bins, as wide as these are, with their bands; missing values apart at the right.

    `log_odds` is the vertical axis. Outer bins have no end: they are drawn as wide as the middle one of the others, at
    most to the attribute's bounds.
    """
    ranges = sorted(shape.ranges, key=lambda bin_: -math.inf if bin_.low is None else bin_.low)
    edges = [bin_.low for bin_ in ranges if bin_.low is not None]
    edges += [bin_.high for bin_ in ranges[-1:] if bin_.high is not None]
    if ranges[0].high is not None and (not edges or ranges[0].high < edges[0]):
        edges.insert(0, ranges[0].high)  # a gap: no record lies in the bin after the first
    inner = [after - before for before, after in pairwise(edges)]
    outer = max(median(inner), _OUTER * (edges[-1] - edges[0])) if inner else abs(edges[0]) or 1.0
    least, most = shape.bounds or (-math.inf, math.inf)
    first, last = max(least, edges[0] - outer), min(most, edges[-1] + outer)
    axis = tight_axis(first, last, left=_LEFT, right=_RIGHT_OF_MISSING if shape.others else _RIGHT)
    stage = Stage(log_odds, _HEIGHT)
    places, marks = [], []
    for bin_ in ranges:
        low = min(first, edges[0]) if bin_.low is None else bin_.low
        high = max(last, edges[-1]) if bin_.high is None else bin_.high
        words = f"{bin_.label}: {bin_in_words(bin_)}, {share_in_words(bin_.share)} of the records"
        ends = (bin_.lower, bin_.upper)
        places += [Place(end, bin_.log_odds, ends, "") for end in (low, high)]
        marks.append(Place((low + high) / 2, bin_.log_odds, ends, words))
    zero = next((tick.label for tick in log_odds.ticks if tick.value == 0), "")
    figure = line_chart(
        shape.attribute,
        [Series(key, places, marks=marks, pinched=True)],
        axis,
        (),
        stage=stage,
        unit="log-odds",
        across=shape.units,
        zero=zero,
    )
    for bin_ in shape.others:
        words = f"{bin_.label}: {bin_in_words(bin_)}, {share_in_words(bin_.share)} of the records"
        place = Place(_MISSING, bin_.log_odds, (bin_.lower, bin_.upper), words)
        line = stage.line(key.index, True, key.name, [place])
        ticks = (*figure.ticks, Tick(bin_.label, f"{_MISSING}%"))
        figure = replace(figure, lines=(*figure.lines, line), ticks=ticks, text=f"{figure.text} {words}.")
    return figure


def level_table(shape: Shape, key: Key, axis: Axis) -> Table[Bin]:
    """A row for each level, with its contribution as a point and its band as a bar."""

    def strip(bin_: Bin) -> Strip:
        words = bin_in_words(bin_)
        dot = (key.index, bin_.log_odds, (bin_.lower, bin_.upper), words)
        return Strip(axis, [dot], marks=[(0.0, "zero")], text=words)

    columns: list[Column[Bin]] = [
        Column("level", lambda bin_: bin_.label, names=True),
        Column("records", lambda bin_: share_in_words(bin_.share), number=True),
        Column("log-odds, plotted", strip, drawn=True, axis=axis),
        Column("log-odds", lambda bin_: signed(bin_.log_odds, 2), number=True),
    ]
    return Table.of(shape.attribute, columns, shape.bins, "panel")


def shape_table(shapes: Sequence[Shape]) -> Table[tuple[Shape, Bin]]:
    """All bins of all attributes, as numbers."""
    columns: list[Column[tuple[Shape, Bin]]] = [
        Column("attribute", lambda row: row[0].attribute),
        Column("bin", lambda row: row[1].label, names=True),
        Column("units", lambda row: row[0].units),
        Column("share of records", lambda row: f"{row[1].share:.4f}", number=True),
        Column("log-odds", lambda row: f"{row[1].log_odds:.4f}", number=True),
        Column("lower", lambda row: f"{row[1].lower:.4f}", number=True),
        Column("upper", lambda row: f"{row[1].upper:.4f}", number=True),
    ]
    rows = [(shape, bin_) for shape in shapes for bin_ in shape.bins]
    return Table.of("What each attribute adds, by bin", columns, rows)
