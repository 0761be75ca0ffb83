"""Charts: lines over an axis (`line_chart`), and strips in the rows of a table. `chart.html.j2` draws them.

Charts are SVG whose horizontal coordinates are percentages, so that a chart fills any width while its text and marks
keep their size, and whose colours are CSS variables, so that they follow the reader's theme. Lines, which SVG cannot
state in percentages, live in a 100 x 100 box that is stretched to the chart (`Stage.path`). Heights are pixels from the
top.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

COLOURS = 6
"""How many colours the style sheet defines; together with the shapes, 12 indices can be told apart."""

SHAPES = (
    "M5.5 0A5.5 5.5 0 1 1-5.5 0A5.5 5.5 0 1 1 5.5 0Z",
    "M-4.8-4.8H4.8V4.8H-4.8Z",
    "M0-6.8L6.8 0L0 6.8L-6.8 0Z",
    "M0-6.2L6.2 4.8H-6.2Z",
)
"""Circle, square, diamond and triangle about the origin, in pixels: an index differs in shape as well as in colour."""

_MOST_TICKS = 6
_LEAST_GAP = 7.0
"""Percent of the width between two labels below an axis of whole numbers."""
_TOP, _BOTTOM = 24, 30
"""Pixels above and below the drawing area of a stage."""


def percent(value: float) -> str:
    """Return a coordinate or length as a short CSS percentage."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis; `at` is a CSS percentage of a horizontal one, `value` what it stands for."""

    label: str
    at: str
    value: float = math.nan


@dataclass(frozen=True)
class Dot:
    """A value with its error on both sides (None where it has none), as CSS percentages, and in words."""

    at: str
    bar: tuple[str, str] | None
    text: str


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, drawn from `left` to `right`, both in percent of the width.

    By default a mark at an end is not cut. Where it is `log`, equal distances are equal ratios.
    """

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()
    left: float = 2.5
    right: float = 97.5
    log: bool = False

    def share(self, value: float) -> float:
        """Return how far a value lies from `low` (0) to `high` (1); values outside are drawn at the end."""
        if self.low == self.high:
            return 0.5
        part = (
            math.log(value / self.low, self.high / self.low)
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return min(1.0, max(0.0, part))

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
        return Dot(self.at(value), (self.at(low), self.at(high)) if high > low else None, text)


def make_axis(low: float, high: float, steps: Iterable[float], *, left: float = 2.5, right: float = 97.5) -> Axis:
    """Return an axis over whole steps that covers both values, with the first step that needs few ticks."""
    step = 1.0
    for candidate in steps:
        step = candidate
        if math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9) < _MOST_TICKS:
            break
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    bare = Axis(first * step, last * step, (), left, right)
    ticks = tuple(Tick(f"{n * step:.{digits}f}", bare.at(n * step), n * step) for n in range(first, last + 1))
    return Axis(bare.low, bare.high, ticks, left, right)


def count_axis(numbers: Iterable[int], *, left: float, right: float) -> Axis:
    """Return an axis over whole numbers (at least one), with a tick at the last and at as many others as have room."""
    known = sorted(set(numbers))
    first, last = known[0], known[-1]
    bare = Axis(first, last, (), left, right)
    every = max(1, math.ceil(_LEAST_GAP * max(1, last - first) / (right - left)))
    ticks = tuple(Tick(str(number), bare.at(number), number) for number in known if (last - number) % every == 0)
    return Axis(first, last, ticks, left, right)


def log_axis(values: Iterable[float], labels: Iterable[str] = (), *, left: float = 14.0, right: float = 94.0) -> Axis:
    """Return a logarithmic axis over positive values, with a tick at each that has room, the last one in any case.

    Args:
        values: in any order.
        labels: of the ticks, in the order of the values from the least on; a number says itself otherwise.
        left: where it begins, in percent of the width.
        right: where it ends.
    """
    known = sorted(set(values))
    high = known[-1] if known[-1] > known[0] else 2 * known[0]
    bare = Axis(known[0], high, (), left, right, log=True)
    names = dict(zip(known, labels, strict=False))
    ticks: list[Tick] = []
    room = math.inf
    for value in reversed(known):
        label = names.get(value, f"{value:,.10g}")
        if room - bare.place(value) > _LEAST_GAP + len(label) / 2:
            room = bare.place(value)
            ticks.insert(0, Tick(label, bare.at(value), value))
    return replace(bare, ticks=tuple(ticks))


def decade_axis(low: float, high: float, unit: str = "") -> Axis:
    """Return a logarithmic axis over whole powers of ten that covers both values, for a chart's heights."""
    first = math.floor(math.log10(low) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(high) - 1e-9))
    every = math.ceil((last - first) / _MOST_TICKS)
    bare = Axis(10.0**first, 10.0**last, log=True)
    values = [10.0**n for n in range(first, last + 1, every)]
    return replace(bare, ticks=tuple(Tick(f"{value:,.10g} {unit}".rstrip(), bare.at(value), value) for value in values))


@dataclass(frozen=True)
class Strip:
    """What stands in one row of a table over an axis that the rows share. All places are values of the axis.

    Attributes:
        axis: of all rows; the column's heading shows its ticks.
        dots: (index of colour and shape, value, ends of its error or None, words); a hollow one has index + 0.5.
        spans: (from, to, class in the style sheet, words).
        marks: (value, class in the style sheet): upright lines.
        text: the strip in words, for who hears the page; "" where other cells of the row say it.
    """

    axis: Axis
    dots: Sequence[tuple[float, float, tuple[float, float] | None, str]] = ()
    spans: Sequence[tuple[float, float, str, str]] = ()
    marks: Sequence[tuple[float, str]] = ()
    text: str = ""


@dataclass(frozen=True)
class Rule:
    """A horizontal line that means something: its class in the style sheet, its height, and words.

    Its words are a hint for who points at it; where it is `named`, they stand above its right end, too.
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
    """Marks that belong together, in one colour and shape.

    Attributes:
        index: of colour and shape.
        hollow: its marks are, and its line is dashed.
        title: its name.
        marks: from left to right.
        line: path through the marks in the 100 x 100 box; "" for a mark alone.
        band: path around their errors, likewise; "" where none are shown.
        bar: ends of the error of a mark alone; None where it has none, or none is shown.
    """

    index: int
    hollow: bool
    title: str
    marks: tuple[Mark, ...]
    line: str
    band: str
    bar: tuple[float, float] | None

    @property
    def alone(self) -> bool:
        """Whether there is one mark, which makes no line."""
        return len(self.marks) == 1


@dataclass(frozen=True)
class Key:
    """One entry of a legend: colour and shape, a name, `title` for whoever points at it, and `text` after it."""

    index: int
    hollow: bool
    name: str
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class Stage:
    """The drawing area of lines: a vertical axis on a plot of so many pixels."""

    axis: Axis
    height: int

    @property
    def box(self) -> tuple[int, int]:
        """Top and height of the drawing area, in pixels."""
        return _TOP, self.height - _TOP - _BOTTOM

    @property
    def grid(self) -> tuple[tuple[str, float], ...]:
        """Label and height of the axis's horizontal lines."""
        return tuple((tick.label.replace("-", "−"), self.y(tick.value)) for tick in self.axis.ticks)

    def y(self, value: float) -> float:
        """Pixels from the top; values outside are drawn at the end."""
        top, height = self.box
        return round(top + height * (1 - self.axis.share(value)), 1)

    def path(self, places: Iterable[tuple[float, float]]) -> str:
        """A path through (percent of the width, value) in the 100 x 100 box."""
        top, height = self.box
        return "M" + "L".join(f"{x:.2f} {100 * (self.y(value) - top) / height:.2f}" for x, value in places)

    def line(self, index: int, hollow: bool, title: str, places: Sequence[Place], *, errors: bool = True) -> Line:
        """A line through places, from left to right, with a band of their errors; a place alone has a bar."""
        alone = len(places) == 1
        lower = [(place.x, place.error[0]) for place in places]
        upper = [(place.x, place.error[1]) for place in places]
        low, high = places[0].error
        return Line(
            index=index,
            hollow=hollow,
            title=title,
            marks=tuple(Mark(percent(place.x), self.y(place.value), place.text) for place in places),
            line="" if alone else self.path((place.x, place.value) for place in places),
            band="" if alone or not errors else self.path([*upper, *reversed(lower)]) + "Z",
            bar=(self.y(low), self.y(high)) if alone and errors and high > low else None,
        )


@dataclass(frozen=True)
class Figure:
    """One plot of lines.

    Attributes:
        stage: where they are.
        name: what it shows.
        ticks: below the horizontal axis.
        lines: from the back to the front.
        text: the figure in words.
        below: pixels below the ticks, for more words.
        rules: over the whole width.
        diagonal: a path in the 100 x 100 box, "" where there is none.
        unit: words above the vertical axis.
        across: words below the horizontal axis.
        zero: label of the level that is drawn stronger; "" for none.
        second: a name, and a second row of labels below the ticks.
    """

    stage: Stage
    name: str
    ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    text: str
    below: int = 0
    rules: tuple[Rule, ...] = ()
    diagonal: str = ""
    unit: str = ""
    across: str = ""
    zero: str = ""
    second: tuple[str, tuple[Tick, ...]] = ("", ())

    @property
    def height(self) -> int:
        """In pixels."""
        return self.stage.height + self.below

    @property
    def foot(self) -> int:
        """Height of the labels below the axis."""
        return sum(self.stage.box) + 20


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes:
        key: its colour, shape and name, as in the legend.
        places: from left to right; `x` is a value of the horizontal axis.
        every: so many places apart are marked, beside the first and the last; the line goes through all.
        errors: whether a band, or a bar at a place alone, shows them. A series that lacks the error of some place has
            none: a band that is pinched there would say that its value is exact.
        pinched: there it is.
        marks: what is marked instead of the line's places.
    """

    key: Key
    places: Sequence[Place]
    every: int = 1
    errors: bool = True
    pinched: bool = False
    marks: Sequence[Place] | None = None

    @property
    def banded(self) -> bool:
        """Whether errors are shown."""
        return self.errors and (self.pinched or all(place.error[0] < place.error[1] for place in self.places))


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
    """Return lines over one axis.

    Args:
        name: what it shows, for its heading and for who hears the page.
        series: from the back to the front; one without places is left out.
        axis: the horizontal one: `log_axis`, `count_axis` or `make_axis`.
        steps: between two levels of the vertical axis, the first that needs few of them is taken.
        levels: further horizontal lines.
        least: what the vertical axis holds in any case.
        most: where it ends in any case.
        stage: the vertical axis, where panels share one; else it is made of the values.
        height: in pixels.
        unit: words above the vertical axis.
        across: words below the horizontal axis.
        text: the chart in words; "" takes those of all places.
        zero: label of the level that is drawn stronger.
        second: a name, and a second row of labels below the ticks.
        diagonal: whether what is equal on both axes is drawn.
    """
    shown = [one for one in series if one.places]
    if stage is None:
        values = [
            end for one in shown for place in one.places for end in (place.error if one.banded else (place.value,))
        ]
        values += [level.value for level in levels] + ([] if least is None else [least])
        stage = Stage(make_axis(min(values), min(max(values), most), steps), height)
    lines = []
    for one in shown:
        places = [replace(place, x=axis.place(place.x)) for place in one.places]
        line = stage.line(one.key.index, one.key.hollow, one.key.name, places, errors=one.banded)
        marks = [mark for n, mark in enumerate(line.marks, 1) if n in (1, len(places)) or n % one.every == 0]
        if one.marks is not None:
            marks = [Mark(axis.at(place.x), stage.y(place.value), place.text) for place in one.marks]
        lines.append(replace(line, marks=tuple(marks)))
    ends = [(axis.low, stage.axis.low), (axis.high, stage.axis.high)]
    return Figure(
        stage,
        name,
        axis.ticks,
        tuple(lines),
        text or " ".join(f"{one.key.name}: {'; '.join(place.text for place in one.places)}." for one in shown),
        below=18 * (bool(across) + bool(second[1])),
        rules=tuple(Rule(level.style, stage.y(level.value), level.text, level.named) for level in levels),
        diagonal=stage.path((axis.place(x), y) for x, y in ends) if diagonal else "",
        unit=unit,
        across=across,
        zero=zero,
        second=second,
    )
