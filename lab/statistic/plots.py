"""Where each mark of the study's figures goes; the template draws them."""

import math

from expril.report.chart import Axis, Figure, Key, Place, Stage, Tick, make_axis
from lab.statistic.methods import METHODS
from lab.statistic.model import Found, Point
from lab.statistic.populations import POPULATIONS
from lab.statistic.tables import SHORT

KEYS = {name: Key(index, name == "none", SHORT[name]) for index, name in enumerate(METHODS)}
_LEFT, _RIGHT, _HEIGHT, _BELOW = 15.0, 93.0, 300, 18
LEAST = 0.01
"""Errors below are drawn there, in percent of the interquartile range."""


class PercentStage(Stage):
    """One whose axis is of logarithms to base 10, and is labelled with what they stand for: -2 is 0.01 %."""

    @property
    def grid(self) -> tuple[tuple[str, float], ...]:
        """See `Stage`."""
        return tuple((f"{10.0 ** float(tick.label):,g} %", self.y(float(tick.label))) for tick in self.axis.ticks)


def figures(found: Found, estimand: str, epsilon: str) -> tuple[Figure, ...]:
    """A panel of each population: error against records, both logarithmic."""
    return tuple(_figure(name, points) for name, points in found.of(estimand, epsilon).items())


def _figure(name: str, points: tuple[Point, ...]) -> Figure:
    across = Axis(0.0, math.log(points[-1].records / points[0].records) or 1.0, left=_LEFT, right=_RIGHT)
    places = {point.records: across.place(math.log(point.records / points[0].records)) for point in points}
    lines = {
        method: [
            Place(
                places[point.records],
                _log(point.errors[method]),
                (_log(point.errors[method]),) * 2,
                f"{point.errors[method]:.3g} % with {point.records:,} records",
            )
            for point in points
        ]
        for method in METHODS
    }
    values = [place.value for line in lines.values() for place in line]
    stage = PercentStage(make_axis(min(values), max(values), (1.0, 2.0)), _HEIGHT)
    return Figure(
        stage,
        f"{name}: {POPULATIONS[name].title}",
        tuple(Tick(f"{records:,}", f"{place:.2f}%") for records, place in places.items()),
        tuple(
            stage.line(KEYS[method].index, KEYS[method].hollow, KEYS[method].name, line, errors=False)
            for method, line in lines.items()
        ),
        " ".join(f"{SHORT[method]}: {'; '.join(place.text for place in line)}." for method, line in lines.items()),
        below=_BELOW,
    )


def _log(error: float) -> float:
    return math.log10(max(error, LEAST))
