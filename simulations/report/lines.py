"""Curves with marks and bands on a plot of fixed height; see `simulations.report.plots` for the coordinates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulations.report.plots import Axis, Grid, percent

TOP, BOTTOM = 24, 30


@dataclass(frozen=True)
class Place:
    """One point of a curve before it is drawn: `x` in percent of the width, values on the vertical axis, and words."""

    x: float
    value: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Mark:
    """One point of a curve: `x` is a percentage, `y` pixels from the top."""

    x: str
    y: float
    text: str


@dataclass(frozen=True)
class Line:
    """One curve: marks and the paths of mean and band in the 100 x 100 box (empty for a single point)."""

    index: int
    hollow: bool
    title: str
    marks: tuple[Mark, ...]
    line: str
    band: str


@dataclass(frozen=True)
class Stage:
    """The drawing area of curves: a vertical axis on a plot of so many pixels."""

    axis: Axis
    height: int

    @property
    def box(self) -> tuple[int, int]:
        """Top and height of the drawing area, in pixels."""
        return TOP, self.height - TOP - BOTTOM

    @property
    def grid(self) -> tuple[Grid, ...]:
        """The axis's horizontal lines."""
        return tuple(Grid(tick.label.replace("-", "−"), self.y(float(tick.label))) for tick in self.axis.ticks)

    def y(self, value: float) -> float:
        """Pixels from the top; values outside are drawn at the end."""
        share = min(1.0, max(0.0, (value - self.axis.low) / (self.axis.high - self.axis.low)))
        top, height = self.box
        return round(top + height * (1 - share), 1)

    def path(self, places: Iterable[tuple[float, float]]) -> str:
        """A path through (percent of the width, value) in the 100 x 100 box."""
        top, height = self.box
        return "M" + "L".join(f"{x:.2f} {100 * (self.y(value) - top) / height:.2f}" for x, value in places)

    def line(self, index: int, hollow: bool, title: str, places: Sequence[Place], *, band: bool = True) -> Line:
        """A curve through places, from left to right."""
        alone = len(places) == 1
        upper = [(place.x, place.high) for place in places]
        lower = [(place.x, place.low) for place in places]
        return Line(
            index=index,
            hollow=hollow,
            title=title,
            marks=tuple(Mark(percent(place.x), self.y(place.value), place.text) for place in places),
            line="" if alone else self.path((place.x, place.value) for place in places),
            band="" if alone or not band else self.path([*upper, *reversed(lower)]) + "Z",
        )
