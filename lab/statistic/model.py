"""What the study of statistics found, as plain data: its tables, its page and its files are made of it."""

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from expril.report.provenance import Provenance
from lab.comparison.outcome import epsilon_order
from lab.statistic.cells import Measured
from lab.statistic.methods import ESTIMANDS, METHODS
from lab.statistic.populations import POPULATIONS

REAL = tuple(name for name in METHODS if name != "none")
"""Methods that are private."""


class Point(msgspec.Struct, frozen=True):
    """One population's errors at one size and epsilon.

    Attributes:
        population, estimand, records, epsilon: as of `Measured`.
        errors: method -> mean absolute error over samples and noise, in percent of the interquartile range.
        deviations: method -> standard error of that mean over samples; 0 for a single one.
        samples: how many.
    """

    population: str
    estimand: str
    records: int
    epsilon: str
    errors: dict[str, float]
    deviations: dict[str, float]
    samples: int

    def best(self, names: Iterable[str] = REAL) -> str:
        """The method of the smallest error; of equal ones the first."""
        return min(names, key=lambda name: self.errors[name])


class Found(msgspec.Struct, frozen=True):
    """Everything that the page, the tables and the files show."""

    points: tuple[Point, ...]
    provenance: Provenance | None = None

    def panels(self) -> tuple[tuple[str, str], ...]:
        """(estimand, epsilon) of the points, in order."""
        return tuple(dict.fromkeys((point.estimand, point.epsilon) for point in self.points))

    def of(self, estimand: str, epsilon: str) -> dict[str, tuple[Point, ...]]:
        """Population -> its points by records."""
        chosen = [point for point in self.points if (point.estimand, point.epsilon) == (estimand, epsilon)]
        return {
            name: tuple(point for point in chosen if point.population == name)
            for name in dict.fromkeys(point.population for point in chosen)
        }


def found_of(cells: Sequence[Measured], provenance: Provenance | None = None) -> Found:
    """All that these cells show, whatever is still missing."""
    grouped: dict[tuple[str, str, int, str], list[Measured]] = {}
    for cell in sorted(cells, key=lambda each: each.seed):
        grouped.setdefault((cell.population, cell.estimand, cell.records, cell.epsilon), []).append(cell)
    names, estimands = list(POPULATIONS), list(ESTIMANDS)
    ordered = sorted(
        grouped, key=lambda key: (estimands.index(key[1]), epsilon_order(key[3]), names.index(key[0]), key[2])
    )
    return Found(tuple(_point(key, grouped[key]) for key in ordered), provenance)


def _point(key: tuple[str, str, int, str], cells: Sequence[Measured]) -> Point:
    errors = {name: np.array([cell.errors[name] for cell in cells]) for name in METHODS}
    count = len(cells)
    return Point(
        *key,
        errors={name: float(each.mean()) for name, each in errors.items()},
        deviations={
            name: float(each.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0 for name, each in errors.items()
        },
        samples=count,
    )
