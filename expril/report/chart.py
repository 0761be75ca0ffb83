"""What plots are made of: axes, ticks, dots, lines and figures. `macros.html.j2` draws them, and escapes their words.

Plots are SVG whose horizontal coordinates are percentages, so that a plot fills any width while its text and marks keep
their size, and whose colours are CSS variables, so that they follow the reader's theme. Lines, which SVG cannot state
in percentages, live in a 100 x 100 box that is stretched to the plot (`Stage.path`). Heights are pixels from the top.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    """A labelled place on a horizontal axis; `at` is a CSS percentage."""

    label: str
    at: str


@dataclass(frozen=True)
class Dot:
    """A value with its error on both sides (None where it has none), as CSS percentages, and in words."""

    at: str
    bar: tuple[str, str] | None
    text: str


@dataclass(frozen=True)
class Axis:
    """A linear axis from `low` to `high`, drawn from `left` to `right`, both in percent of the width.

    By default a mark at an end is not cut.
    """

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()
    left: float = 2.5
    right: float = 97.5

    def share(self, value: float) -> float:
        """Return how far a value lies from `low` (0) to `high` (1); values outside are drawn at the end."""
        if self.low == self.high:
            return 0.5
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

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
    ticks = tuple(Tick(f"{n * step:.{digits}f}", bare.at(n * step)) for n in range(first, last + 1))
    return Axis(bare.low, bare.high, ticks, left, right)


def count_axis(numbers: Iterable[int], *, left: float, right: float) -> Axis:
    """Return an axis over whole numbers (at least one), with a tick at the last and at as many others as have room."""
    known = sorted(set(numbers))
    first, last = known[0], known[-1]
    bare = Axis(first, last, (), left, right)
    every = max(1, math.ceil(_LEAST_GAP * max(1, last - first) / (right - left)))
    ticks = tuple(Tick(str(number), bare.at(number)) for number in known if (last - number) % every == 0)
    return Axis(first, last, ticks, left, right)


@dataclass(frozen=True)
class Rule:
    """A horizontal line that means something: its class in the style sheet, its height, and words."""

    style: str
    y: float
    text: str


@dataclass(frozen=True)
class Place:
    """One point of a line before it is drawn: `x` in percent of the width; value and ends of its error; words."""

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
        return tuple((tick.label.replace("-", "−"), self.y(float(tick.label))) for tick in self.axis.ticks)

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
    """

    stage: Stage
    name: str
    ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    text: str
    below: int = 0
    rules: tuple[Rule, ...] = ()
    diagonal: str = ""

    @property
    def height(self) -> int:
        """In pixels."""
        return self.stage.height + self.below

    @property
    def foot(self) -> int:
        """Height of the labels below the axis."""
        return sum(self.stage.box) + 20
