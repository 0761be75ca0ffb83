"""Charts: lines over an axis (`line_chart`), and strips in the rows of a table. `chart.html.j2` draws them.

Charts are SVG whose horizontal coordinates are percentages, so that a chart fills any width while its text and marks
keep their size, and whose colours are CSS variables, so that they follow the reader's theme. Lines, which SVG cannot
state in percentages, live in a 100 x 100 box that is stretched to the chart (`Stage.path`). Heights are pixels from the
top.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Literal

from expril.report.labels import LEAST_WIDTH, STRIP_WIDTHS, Words, clear_of, cut, spaced, stacked
from expril.report.numbers import axis_texts, plain_number

COLOURS = 6
"""Number of colours in the style sheet; with the shapes, 12 indices look different."""

SHAPES = (
    "M5.5 0A5.5 5.5 0 1 1-5.5 0A5.5 5.5 0 1 1 5.5 0Z",
    "M-4.8-4.8H4.8V4.8H-4.8Z",
    "M0-6.8L6.8 0L0 6.8L-6.8 0Z",
    "M0-6.2L6.2 4.8H-6.2Z",
)
"""Circle, square, diamond and triangle about the origin, in pixels."""

_LEAST_TICKS, _MOST_TICKS = 4, 6
_LEAST_GAP = 7.0
"""Least distance of two labels below an axis of whole numbers, in percent of the width."""
_PLAIN = (1e-4, 1e9)
"""Least and greatest value that a logarithmic axis writes in full."""
_TWO = 2
_LINE = 14
"""Least distance of two labels above one another, in pixels."""
_ROW = 17
"""Height of a line of words below a figure, in pixels."""
_TOP, _BOTTOM = 24, 30
"""Pixels above and below the drawing area of a stage."""


def percent(value: float) -> str:
    """Return a coordinate or length as a short CSS percentage."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis: `at` is its CSS percentage on a horizontal axis, `value` the number there."""

    label: str
    at: str
    value: float = math.nan

    @property
    def share(self) -> float:
        """The place in percent of the width."""
        return float(self.at.removesuffix("%"))


@dataclass(frozen=True)
class Dot:
    """A value and the ends of its error (None if it has none), as CSS percentages, and its words."""

    at: str
    bar: tuple[str, str] | None
    text: str
    arrows: tuple[str, ...] = ()  # ends of the axis that the error goes beyond: "low", "high"


@dataclass(frozen=True)
class Axis:
    """An axis of values from `low` to `high`, drawn from `left` to `right` in percent of the width.

    The default leaves room for a mark at either end. On a `log` axis equal distances are equal ratios.
    """

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()
    left: float = 2.5
    right: float = 97.5
    log: bool = False
    cut: bool = False  # whether an arrow says that an error goes beyond an end of the axis

    def labels(self, width: float) -> list[Words]:
        """The ticks' labels for the heading of a column of strips, those that fit into so many pixels."""
        return spaced([Words(tick.label, tick.share, 12) for tick in self.ticks], width, overhang=3.0)

    @property
    def scales(self) -> list[tuple[str, list[Words]]]:
        """(class in the style sheet, labels) for columns of strips of each least width; one if all have the same."""
        labels = [self.labels(width) for width in STRIP_WIDTHS]
        if all(words == labels[0] for words in labels):
            return [("", labels[0])]
        return list(zip(("narrow", "middle", "broad"), labels, strict=True))

    def stacked(self, labels: Sequence[tuple[float, str]]) -> list[Words]:
        """Words at values, below one another where they do not fit beside each other."""
        places = [(self.place(value), text) for value, text in labels]
        words = [Words(text, x, 14, "start" if x < 50 else "end") for x, text in places]
        return stacked(words, LEAST_WIDTH, 16, 13)

    def share(self, value: float) -> float:
        """Return how far a value lies from `low` (0) to `high` (1); values outside are drawn at the end."""
        if self.low == self.high:
            return 0.5
        if value <= self.low or value >= self.high:
            return float(value >= self.high)
        if self.log:
            return math.log(value / self.low, self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def place(self, value: float) -> float:
        """Return where a value lies, in percent of the width."""
        return self.left + (self.right - self.left) * self.share(value)

    def at(self, value: float) -> str:
        """Return where a value lies as a CSS percentage."""
        return percent(self.place(value))

    def between(self, first: float, second: float) -> str:
        """Return the distance of two values as a CSS percentage."""
        return percent(abs(self.place(second) - self.place(first)))

    def dot(self, value: float, error: tuple[float, float], text: str = "") -> Dot:
        """Return a value whose error reaches from one number to the other."""
        low, high = error
        beyond = [name for name, ends in (("low", low < self.low), ("high", high > self.high)) if self.cut and ends]
        return Dot(self.at(value), (self.at(low), self.at(high)) if high > low else None, text, tuple(beyond))


def make_axis(low: float, high: float, steps: Iterable[float] = (), *, left: float = 2.5, right: float = 97.5) -> Axis:
    """Return an axis over whole steps that covers both values, with the first step that needs few ticks.

    After the given steps, or without any, steps of 1, 2 and 5 times the powers of ten are tried.
    """
    step = 1.0
    for candidate in chain(steps, _round_steps(high - low)):
        step = candidate
        if math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9) < _MOST_TICKS:
            break
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    bare = Axis(first * step, last * step, (), left, right)
    values = [n * step for n in range(first, last + 1)]
    ticks = tuple(Tick(text, bare.at(value), value) for text, value in zip(axis_texts(values), values, strict=True))
    return Axis(bare.low, bare.high, ticks, left, right)


def tight_axis(low: float, high: float, *, left: float = 2.5, right: float = 97.5) -> Axis:
    """Return an axis from one value to the other, with ticks at the round numbers between them, at least two."""
    bare = Axis(low, high if high > low else low + (abs(low) or 1.0), (), left, right)
    span = bare.high - bare.low
    for step in reversed(list(_round_steps(span / 10))):
        first, last = math.ceil(bare.low / step - 1e-9), math.floor(bare.high / step + 1e-9)
        if last - first >= _LEAST_TICKS - 1:
            break
    values = [n * step for n in range(first, last + 1)]
    ticks = (Tick(text, bare.at(value), value) for text, value in zip(axis_texts(values), values, strict=True))
    return replace(bare, ticks=tuple(ticks))


def _round_steps(span: float) -> Iterator[float]:
    """1, 2 and 5 times the powers of ten, from a tenth of a span; 0.2, 0.5 and 1 for a span of 0."""
    power = math.floor(math.log10(span)) - 1 if span > 0 else -1
    for exponent in range(power, power + 4):
        yield from (float(f"{digit}e{exponent}") for digit in (1, 2, 5))


def count_axis(numbers: Iterable[int], *, left: float, right: float) -> Axis:
    """Return an axis over at least one whole number, with a tick at the last and at as many others as fit."""
    counts = sorted(set(numbers))
    first, last = counts[0], counts[-1]
    bare = Axis(first, last, (), left, right)
    every = max(1, math.ceil(_LEAST_GAP * max(1, last - first) / (right - left)))
    ticks = tuple(Tick(str(number), bare.at(number), number) for number in counts if (last - number) % every == 0)
    return Axis(first, last, ticks, left, right)


def log_axis(values: Iterable[float], labels: Iterable[str] = (), *, left: float = 14.0, right: float = 94.0) -> Axis:
    """Return a logarithmic axis over positive values, with a tick at each that fits and always at the last.

    `values`: the values to cover, in any order. `labels`: the ticks' labels, for ascending values; by default the
    numbers. `left`, `right`: ends of the axis, in percent of the width.
    """
    distinct = sorted(set(values))
    high = distinct[-1] if distinct[-1] > distinct[0] else 2 * distinct[0]
    bare = Axis(distinct[0], high, (), left, right, log=True)
    names = dict(zip(distinct, labels, strict=False))
    ticks: list[Tick] = []
    room = math.inf
    for value in reversed(distinct):
        label = names.get(value, _of_ratio(value))
        if room - bare.place(value) > _LEAST_GAP + len(label) / 2:
            room = bare.place(value)
            ticks.insert(0, Tick(label, bare.at(value), value))
    return replace(bare, ticks=tuple(ticks))


def _of_ratio(value: float) -> str:
    """Text of a tick of a logarithmic axis."""
    return f"{value:,.10g}" if _PLAIN[0] <= value <= _PLAIN[1] else plain_number(value)


def decade_axis(low: float, high: float, unit: str = "") -> Axis:
    """Return a logarithmic axis over whole powers of ten that covers both values, for a chart's heights."""
    first = math.floor(math.log10(low) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(high) - 1e-9))
    every = math.ceil((last - first) / _MOST_TICKS)
    bare = Axis(10.0**first, 10.0**last, log=True)
    values = [10.0**n for n in range(first, last + 1, every)]
    return replace(
        bare, ticks=tuple(Tick(f"{_of_ratio(value)} {unit}".rstrip(), bare.at(value), value) for value in values)
    )


@dataclass(frozen=True)
class Strip:
    """A drawing in one row of a table, over an axis that all rows share. All places are values of the axis."""

    axis: Axis  # shared by all rows; the column's heading shows its ticks
    # (index of colour and shape, value, ends of its error or None, words); index + 0.5 draws it hollow
    dots: Sequence[tuple[float, float, tuple[float, float] | None, str]] = ()
    spans: Sequence[tuple[float, float, str, str]] = ()  # (from, to, class in the style sheet, words)
    marks: Sequence[tuple[float, str]] = ()  # (value, class in the style sheet): upright lines
    # (low, value, high, index of colour and shape, words): as wide as the interval, and highest at the value
    diamonds: Sequence[tuple[float, float, float, int, str]] = ()
    text: str = ""  # the strip in words, for a screen reader; "" if other cells of the row say the same
    apart: bool = False  # whether each dot is below the one before, so that no two bars cover each other

    def peak(self, low: float, value: float, high: float) -> str:
        """How far along a diamond its value is, in percent of its width."""
        first, last = self.axis.share(low), self.axis.share(high)
        return f"{100 * (self.axis.share(value) - first) / (last - first) if last > first else 50:.2f}"

    def height(self, number: int) -> str:
        """Height of a dot, numbered from 0, as a CSS percentage."""
        return percent(100 * (number + 1) / (len(self.dots) + 1)) if self.apart else "50%"


@dataclass(frozen=True)
class Rule:
    """A horizontal line with a meaning: its class in the style sheet, its height, and words.

    The words are its tooltip; a `named` rule also shows them above its right end.
    """

    style: str
    y: float
    text: str
    named: bool = False


@dataclass(frozen=True)
class Place:
    """One point of a line before it is drawn: its value, ends of its error, and words.

    `x` is in percent of the width for a `Stage`, and a value of the horizontal axis for `line_chart`.
    """

    x: float
    value: float
    error: tuple[float, float]
    text: str


@dataclass(frozen=True)
class Mark:
    """One point of a line: `x` is a CSS percentage."""

    x: str
    y: float
    text: str


@dataclass(frozen=True)
class Line:
    """Marks of one colour and shape, and the line through them."""

    index: int  # of colour and shape
    hollow: bool  # whether its marks are hollow and its line dashed
    title: str
    marks: tuple[Mark, ...]  # from left to right
    line: str  # path through the marks in the 100 x 100 box; "" for a single mark, or for a band alone
    band: str  # path around the errors, in the same box; "" if none are shown
    bars: tuple[tuple[str, float, float], ...] = ()  # errors as upright lines: CSS percentage, and the two ends

    @property
    def is_single(self) -> bool:
        """Whether it has a single mark, which makes no line."""
        return len(self.marks) == 1


@dataclass(frozen=True)
class Key:
    """An entry of a legend: colour and shape, a name, a tooltip `title`, and `text` after the name."""

    index: int
    hollow: bool
    name: str
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class Stage:
    """The drawing area of a plot of lines: its vertical axis and its height in pixels."""

    axis: Axis
    height: int

    @property
    def box(self) -> tuple[int, int]:
        """Top and height of the drawing area, in pixels."""
        return _TOP, self.height - _TOP - _BOTTOM

    @property
    def grid(self) -> tuple[tuple[str, float], ...]:
        """Return the label and height of each horizontal line."""
        return tuple((tick.label.replace("-", "−"), self.y(tick.value)) for tick in self.axis.ticks)

    @property
    def heights(self) -> tuple[Words, ...]:
        """Labels of the horizontal lines, above them at the left: all, or each second, third and so on that fit."""
        labels = [Words(label, 0.0, y - 4, "start") for label, y in self.grid]
        for every in range(1, len(labels)):
            chosen = labels[::every]
            if all(before.y - after.y >= _LINE for before, after in pairwise(chosen)):
                return tuple(chosen)
        return tuple(labels[:1])

    def y(self, value: float) -> float:
        """Return a value's pixels from the top; a value outside of the axis is drawn at its end."""
        top, height = self.box
        return round(top + height * (1 - self.axis.share(value)), 1)

    def path(self, places: Iterable[tuple[float, float]]) -> str:
        """A path through (percent of the width, value) in the 100 x 100 box."""
        top, height = self.box
        return "M" + "L".join(f"{x:.2f} {100 * (self.y(value) - top) / height:.2f}" for x, value in places)

    def line(
        self, index: int, hollow: bool, title: str, places: Sequence[Place], *, errors: bool = True, bars: bool = False
    ) -> Line:
        """A line through places, from left to right, with a band of their errors; `bars`, or a single one, has bars."""
        is_single = len(places) == 1
        upright = bars or is_single
        lower = [(place.x, place.error[0]) for place in places]
        upper = [(place.x, place.error[1]) for place in places]
        return Line(
            index=index,
            hollow=hollow,
            title=title,
            marks=tuple(Mark(percent(place.x), self.y(place.value), place.text) for place in places),
            line="" if is_single else self.path((place.x, place.value) for place in places),
            band="" if upright or not errors else self.path([*upper, *reversed(lower)]) + "Z",
            bars=tuple(
                (percent(place.x), self.y(place.error[0]), self.y(place.error[1]))
                for place in places
                if upright and errors and place.error[1] > place.error[0]
            ),
        )


@dataclass(frozen=True)
class Row:
    """Numbers below a figure's axis, under a line with the colour, shape and name of what they belong to."""

    key: Key
    ticks: tuple[Tick, ...]  # the numbers at their places


@dataclass(frozen=True)
class Figure:
    """One plot of lines."""

    stage: Stage
    name: str
    ticks: tuple[Tick, ...]  # below the horizontal axis
    lines: tuple[Line, ...]  # from the back to the front
    text: str  # the figure in words
    below: int = 0  # pixels below the ticks, for more words
    rules: tuple[Rule, ...] = ()  # across the whole width
    diagonal: str = ""  # a path in the 100 x 100 box; "" for none
    unit: str = ""  # words above the vertical axis
    across: str = ""  # words below the horizontal axis
    zero: str = ""  # label of the level that is drawn stronger; "" for none
    second: tuple[str, tuple[Tick, ...]] = ("", ())  # name and labels of a second row below the ticks
    flat: bool = False  # whether its lines have at most two points each, of equal value: a page leaves it out
    rows: tuple[Row, ...] = ()  # numbers below the axis and its words, such as the numbers at risk
    title: str = ""  # what these numbers are

    @property
    def height(self) -> int:
        """The height in pixels."""
        return self.stage.height + self.below + (_ROW * (1 + _TWO * len(self.rows)) if self.rows else 0)

    @property
    def rows_top(self) -> int:
        """Base line of the title of the numbers below the axis."""
        return self.stage.height + self.below + _ROW - 6

    @property
    def row_keys(self) -> tuple[tuple[Key, int], ...]:
        """Each row's key and the height of its mark."""
        return tuple((row.key, self.rows_top + _ROW * (_TWO * n + 1) - 4) for n, row in enumerate(self.rows))

    @property
    def foot(self) -> int:
        """Height of the labels below the axis."""
        return sum(self.stage.box) + 20

    def words(self, width: int = LEAST_WIDTH) -> list[Words]:
        """Return all words of the figure, placed so that no two overlap where it is at least so many pixels wide.

        What has no room is cut or left out: the tooltips and `text` have it.
        """
        heights = list(self.stage.heights)
        placed = [*heights, *spaced([Words(tick.label, tick.share, self.foot) for tick in self.ticks], width)]
        if self.second[1]:
            name = cut(Words(self.second[0], 0.0, self.foot + 18, "start"), width / 2)
            values = [Words(tick.label, tick.share, self.foot + 18) for tick in self.second[1]]
            placed += [name, *spaced(values, width, [name.box(width)])]
        if self.across:
            placed.append(cut(Words(self.across, 54.0, self.stage.height + self.below - 10), 0.9 * width))
        if self.rows:
            placed.append(cut(Words(self.title, 0.0, self.rows_top, "start"), width))
        for n, row in enumerate(self.rows):
            y = self.rows_top + _ROW * (_TWO * n + 1)
            placed.append(cut(Words(row.key.name, 5.0, y, "start", style="name"), 0.9 * width))
            placed += spaced([Words(tick.label, tick.share, y + _ROW - 3) for tick in row.ticks], width)
        if self.unit:
            placed.append(cut(Words(self.unit, 0.0, self.stage.box[0] - 18, "start"), width))
        # From the top: a label that gives way goes on below the one it would overlap.
        for rule in sorted(self.rules, key=lambda rule: rule.y):
            label = cut(Words(rule.text, 100.0, rule.y - 5, "end", style="level"), width)
            boxes = [words.box(width) for words in placed]
            if rule.named and (words := clear_of(label, boxes, width, 0.0, sum(self.stage.box) + 4.0)):
                placed.append(words)
        return placed


@dataclass(frozen=True)
class Series:
    """One line of a chart."""

    key: Key  # its colour, shape and name, as in the legend
    places: Sequence[Place]  # from left to right; `x` is a value of the horizontal axis
    every: int = 1  # every so many places there is a mark, and at the first and the last; the line goes through all
    # whether a band, or a bar at a single place, shows the errors. It is left out if the error of some place is
    # unknown, as a band without width would say that the value is exact
    errors: bool = True
    pinched: bool = False  # draw the band even so
    marks: Sequence[Place] | None = None  # places to mark in place of the line's own
    # "bars" shows errors as upright lines at all places, "band" nothing but the band
    form: Literal["line", "bars", "band"] = "line"

    @property
    def banded(self) -> bool:
        """Whether the line shows errors."""
        return self.errors and (
            self.pinched or self.form != "line" or all(place.error[0] < place.error[1] for place in self.places)
        )


@dataclass(frozen=True)
class Level:
    """A horizontal line at a value: its class in the style sheet, and words."""

    style: str
    value: float
    text: str
    named: bool = False


def line_chart(  # noqa: PLR0913 - what may differ from chart to chart
    name: str,
    series: Sequence[Series],
    axis: Axis,
    steps: Iterable[float],
    *,
    levels: Sequence[Level] = (),
    least: float | None = None,
    most: float = math.inf,
    stage: Stage | None = None,
    height: int = 270,
    unit: str = "",
    across: str = "",
    text: str = "",
    zero: str = "",
    second: tuple[str, tuple[Tick, ...]] = ("", ()),
    diagonal: bool = False,
) -> Figure:
    """Draw lines over one axis.

    Args:
        name: what it shows, for its heading and for a screen reader.
        series: the lines, from the back to the front; those without places are left out.
        axis: the horizontal axis, of `log_axis`, `count_axis` or `make_axis`.
        steps: possible distances of the vertical axis' levels; the first that needs few levels is taken.
        levels: further horizontal lines.
        least: a value that the vertical axis must hold.
        most: the upper end of the vertical axis.
        stage: a vertical axis that several panels share; by default it is made for the values.
        height: in pixels.
        unit: words above the vertical axis.
        across: words below the horizontal axis.
        text: the chart in words; "" joins the words of all places.
        zero: label of the level that is drawn stronger.
        second: name and labels of a second row below the ticks.
        diagonal: whether to draw the line of equal values, as far as both axes have them.
    """
    drawn_series = [entry for entry in series if entry.places]
    if stage is None:
        values = [
            end
            for entry in drawn_series
            for place in entry.places
            for end in (place.error if entry.banded else (place.value,))
        ]
        values += [level.value for level in levels] + ([] if least is None else [least])
        stage = Stage(make_axis(min(values), min(max(values), most), steps), height)
    lines = []
    for entry in drawn_series:
        places = [replace(place, x=axis.place(place.x)) for place in entry.places]
        key, bars = entry.key, entry.form == "bars"
        line = stage.line(key.index, key.hollow, key.name, places, errors=entry.banded, bars=bars)
        marks = [mark for n, mark in enumerate(line.marks, 1) if n in (1, len(places)) or n % entry.every == 0]
        if entry.marks is not None:
            marks = [Mark(axis.at(place.x), stage.y(place.value), place.text) for place in entry.marks]
        is_band = entry.form == "band"
        lines.append(replace(line, line="" if is_band else line.line, marks=() if is_band else tuple(marks)))
    level_lines = all(len({(place.value, *place.error) for place in entry.places}) == 1 for entry in drawn_series)
    low, high = max(axis.low, stage.axis.low), min(axis.high, stage.axis.high)
    return Figure(
        stage,
        name,
        axis.ticks,
        tuple(lines),
        text or " ".join(filter(None, map(_in_words, drawn_series))),
        below=18 * (bool(across) + bool(second[1])),
        rules=tuple(Rule(level.style, stage.y(level.value), level.text, level.named) for level in levels),
        diagonal=stage.path((axis.place(end), end) for end in (low, high)) if diagonal and low < high else "",
        unit=unit,
        across=across,
        zero=zero,
        second=second,
        flat=level_lines and max((len(entry.places) for entry in drawn_series), default=0) == _TWO,
    )


def _in_words(series: Series) -> str:
    """The words of a line's marks; "" if they have none."""
    texts = [place.text for place in (series.places if series.marks is None else series.marks) if place.text]
    return f"{series.key.name}: {'; '.join(texts)}." if texts else ""
