"""The grid that synthetic records lie on, and the base law from which they are drawn before anything is learnt.

Grid and law depend on plan and schema, never on a record. All weights are whole numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.schema import MOST_MAGNITUDE, CategoricalAttribute, Name, Schema

MOST_POINTS = 4096
"""Most points of one axis: an index fits sixteen bits."""
MOST_AXES = 1000
WEIGHT = 2**40
"""Weight of the likeliest point; the weights of an axis sum to less than 2^53."""
LEAST_RANGE = 1e-100
"""Smallest range of an axis. Below it, squares in units of the range could overflow float64."""

Cells = NDArray[np.int64]
"""(n, d) array: index of each record's cell on each axis, from 0."""


class NumberAxis(msgspec.Struct, frozen=True, tag="number", forbid_unknown_fields=True, omit_defaults=True):
    """Cells of equal width on a number's range; a synthetic record lies in the middle of one.

    Values outside the range count as the nearer bound. `name` is a numeric attribute or label, `lower` and `upper`
    bound the range, `points` is the number of cells. `centre` and `deviation` give the base law's Gaussian on this
    axis; None is a uniform law.
    """

    name: Name
    lower: float
    upper: float
    points: Annotated[int, msgspec.Meta(ge=2, le=MOST_POINTS)]
    centre: float | None = None
    deviation: float | None = None

    def __post_init__(self) -> None:
        for field in ("lower", "upper", "centre", "deviation"):
            value = getattr(self, field)
            if value is None:
                continue
            msgspec.structs.force_setattr(self, field, float(value))
            if not math.isfinite(value) or abs(value) > MOST_MAGNITUDE:
                raise ValueError(f"{field} of axis {self.name!r} must be a number within +-{MOST_MAGNITUDE:g}")
        if self.lower >= self.upper:
            raise ValueError(f"axis {self.name!r} needs lower < upper")
        if self.upper - self.lower < LEAST_RANGE:
            raise ValueError(f"axis {self.name!r} needs a range of at least {LEAST_RANGE:g}")
        if (self.centre is None) != (self.deviation is None):
            raise ValueError(f"axis {self.name!r} needs both centre and deviation, or neither")
        if self.deviation is not None and self.deviation < (self.upper - self.lower) / WEIGHT:
            raise ValueError(f"axis {self.name!r} needs a deviation that is no smaller than its range by 2^40")


class LevelAxis(msgspec.Struct, frozen=True, tag="levels", forbid_unknown_fields=True):
    """The declared levels of a category, or the classes of a label, all equally likely under the base law."""

    name: Name  # a categorical attribute, or a label with classes


Axis = NumberAxis | LevelAxis


@dataclass(frozen=True)
class BaseLaw:
    """The base law Q_0: the axes are independent, and each has whole-number weights."""

    axes: tuple[Axis, ...]  # in order
    levels: Mapping[str, int]  # name of a `LevelAxis` -> its number of levels
    label: str = ""  # name of the label's axis; "" if there is none

    @classmethod
    def of(cls, axes: Sequence[Axis], schema: Schema | None = None) -> "BaseLaw":
        """Make the law on these axes; only axes of levels need `schema`. Raises ValueError: `why_not` says why."""
        if schema is not None and (fault := why_not(axes, schema)):
            raise ValueError(fault)
        names = [axis.name for axis in axes if isinstance(axis, LevelAxis)]
        if names and schema is None:
            raise ValueError("levels are counted in a schema; give it")
        label = schema.label if schema is not None and any(axis.name == schema.label for axis in axes) else ""
        return cls(tuple(axes), {name: len(levels_of(name, schema)) for name in names if schema is not None}, label)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of points of each axis."""
        return tuple(axis.points if isinstance(axis, NumberAxis) else self.levels[axis.name] for axis in self.axes)

    @cached_property
    def weights(self) -> tuple[NDArray[np.int64], ...]:
        """Weights of each axis' points: whole numbers of at least 1, which depend on no record."""
        return tuple(
            np.ones(size, np.int64) if isinstance(axis, LevelAxis) or axis.deviation is None else _bell(axis)
            for axis, size in zip(self.axes, self.sizes, strict=True)
        )

    @cached_property
    def values(self) -> tuple[NDArray[np.float64], ...]:
        """The value at each point of each axis: the middle of a cell, or the index of a level."""
        return tuple(
            middles(axis) if isinstance(axis, NumberAxis) else np.arange(size, dtype=np.float64)
            for axis, size in zip(self.axes, self.sizes, strict=True)
        )

    def cells(self, points: NDArray[np.float64]) -> Cells:
        """The cell of each point.

        Args:
            points: (n, d) numbers, or levels from 0.

        Returns:
            (m, d) cells. Points with a missing number (NaN), or with a value that is no level of the axis, are left
            out.
        """
        there = ~np.isnan(points).any(axis=1)
        cells = np.zeros(points.shape, np.int64)
        for column, (axis, size) in enumerate(zip(self.axes, self.sizes, strict=True)):
            values = np.where(there, points[:, column], 0.0)
            if isinstance(axis, NumberAxis):
                # Clipped first: a number far outside would overflow a whole one.
                shares = (np.clip(values, axis.lower, axis.upper) - axis.lower) / (axis.upper - axis.lower)
                cells[:, column] = np.minimum(np.floor(shares * size), size - 1)
            else:
                there &= (values >= 0) & (values < size)
                cells[:, column] = np.clip(values, 0, size - 1)
        return cells[there]

    def points(self, cells: Cells) -> NDArray[np.float64]:
        """The `values` of these cells, (n, d)."""
        return np.column_stack([values[cells[:, column]] for column, values in enumerate(self.values)])

    def log_masses(self, cells: Cells) -> NDArray[np.float64]:
        """Logarithm of each cell's probability, (n,)."""
        logs = [np.log(weights / weights.sum()) for weights in self.weights]
        total: NDArray[np.float64] = np.sum([log[cells[:, column]] for column, log in enumerate(logs)], axis=0)
        return total

    @property
    def log_volume(self) -> float:
        """Logarithm of a cell's volume in the axes' units; axes of levels have cells of width 1."""
        widths = [(a.upper - a.lower) / a.points for a in self.axes if isinstance(a, NumberAxis)]
        return float(np.sum(np.log(widths)))


def why_not(axes: Sequence[Axis], schema: Schema) -> str:
    """Why records of the schema cannot be drawn on these axes; "" if they can."""
    names = [axis.name for axis in axes]
    if len(set(names)) != len(names):
        return "each attribute once"
    for number, axis in enumerate(axes):
        attribute = schema.find(axis.name)
        if attribute is None and axis.name != schema.label:
            return f"axis {number}: an attribute of the schema, or its label"
        level = bool(schema.classes) if attribute is None else isinstance(attribute, CategoricalAttribute)
        if level != isinstance(axis, LevelAxis):
            return f"axis {number}: {'levels' if level else 'a number'}"
    return ""


def levels_of(name: str, schema: Schema) -> tuple[str, ...]:
    """The levels of a categorical attribute, or the classes of the label."""
    attribute = schema.find(name)
    return attribute.levels if isinstance(attribute, CategoricalAttribute) else schema.classes


def middles(axis: NumberAxis) -> NDArray[np.float64]:
    """The middles of the cells, (points,), increasing."""
    return axis.lower + (axis.upper - axis.lower) * ((np.arange(axis.points) + 0.5) / axis.points)


def _bell(axis: NumberAxis) -> NDArray[np.int64]:
    z = (middles(axis) - float(axis.centre or 0.0)) / float(axis.deviation or 1.0)
    weights: NDArray[np.int64] = np.maximum(np.rint(WEIGHT * np.exp(-0.5 * z**2)), 1).astype(np.int64)
    return weights
