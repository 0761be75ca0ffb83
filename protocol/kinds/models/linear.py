"""Linear classifiers by output perturbation: logistic regression, linear support vectors, and both on random features.

Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1, with sums in place of means, since the number of records is
private. The curator minimises J(w) = sum of loss(y w.v / radius) + (regulariser / 2) ||w||^2 over all records with
vectors v and labels y = 1 or -1. The loss of a margin m is softplus(k (a - m)) / k, whose slopes lie in [-1, 0]. With a
= 0 and k = 1 it is the logistic loss; with a = 1 it is the hinge, rounded less for larger k.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.feature_map import STEPS
from protocol.kinds.models.method import (
    Body,
    Constant,
    Mapped,
    Points,
    Radius,
    Seed,
    Width,
    Work,
    check_map,
    normals,
    root_above,
    wrong_body,
)
from protocol.limits import CALL_ONCE
from protocol.rationals import Rational
from protocol.schema import Schema

# Random Fourier features (Rahimi and Recht 2007) are vectors whose inner products approximate the kernel
# exp(-||x - x'||^2 / 2). Frequencies are drawn from a planned seed and put on a grid, phases are whole numbers, and
# cosines come from one table: a record's vector is the same to the last bit alone or among a million others.
TABLE = 4096
"""Number of tabulated cosines per turn."""
QUARTER = TABLE // 4
TURN = STEPS * STEPS
"""Steps of a phase in a turn: frequencies are whole steps of 2^-12 turns a unit, points of 2^-12 units."""


@lru_cache(maxsize=8)
def frequencies(seed: int, width: int, count: int) -> NDArray[np.float64]:
    """Random frequencies, (width, count) whole steps of 2^-12 turns a unit: normal, of deviation one radian a unit."""
    numbers = normals(seed, "frequencies", width * count).reshape(width, count)
    steps: NDArray[np.float64] = np.rint(numbers * (STEPS / (2 * math.pi)))
    steps.flags.writeable = False
    return steps


@lru_cache(maxsize=8)
def cosines(radius: int, count: int) -> NDArray[np.float64]:
    """The values radius / sqrt(count) cos(phase), rounded towards 0, at `TABLE` phases of a turn: (TABLE,) float64.

    The squares of `count` cosines and sines add up to at most radius^2: a cosine that rounding makes too long is
    shortened by one step.
    """
    amplitude = radius / math.sqrt(count)
    table: NDArray[np.float64] = np.trunc(
        np.array([amplitude * math.cos(2 * math.pi * place / TABLE) for place in range(TABLE)])
    )
    while (over := count * (table**2 + np.roll(table, QUARTER) ** 2) > radius**2).any():
        table[over] -= np.sign(table[over])
    table.flags.writeable = False
    return table


def feature_rows(points: NDArray[np.float64], seed: int, count: int, radius: int) -> NDArray[np.float64]:
    """Random features, (n, 2 count) whole numbers: first cosines, then sines. A row's length is at most `radius` (L2).

    Args:
        points: (n, width) whole steps of 2^-12.
        seed: seed of the frequencies.
        count: number of frequencies.
        radius: largest length, in whole steps.
    """
    # Whole numbers below 2^45: exact in whatever order they are added.
    phases = (points @ frequencies(seed, points.shape[1], count)).astype(np.int64)
    places = (phases & (TURN - 1)) >> 12
    table = cosines(radius, count)
    rows: NDArray[np.float64] = np.hstack([table[places], table[(places - QUARTER) & (TABLE - 1)]])
    return rows


TOLERANCE = Fraction(1, 256)
"""Largest L2 norm of the gradient at which the curator stops, with rounding errors. One record's gradient has norm at
most 1."""
MOST_FREQUENCIES = 511
MOST_COORDINATES = 1024
NEWTON_STEPS = 25
"""Number of Newton steps that the stated work allows; most data sets take fewer than ten."""
_ROW_COST = 120
_LOSS_COST = 500
"""Work per record and Newton step of the loss's exponentials."""
_COSINE_COST = 200
_FREQUENCY_ONCE = CALL_ONCE
"""Work per coordinate of each frequency of drawing it."""
_ONCE = 200 * CALL_ONCE

Steps = Annotated[int, msgspec.Meta(ge=16, le=2**20)]
Sharpness = Annotated[int, msgspec.Meta(ge=1, le=8)]


class LinearModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the three linear classifiers.

    One whole number q is released for each coordinate; w = q / (steps * regulariser), and a record's score is w.v /
    radius.
    """

    regulariser: Rational  # of the sum of losses, at least 1 (not of their mean)
    steps: Steps  # of the released grid; a record moves the minimiser by at most about so many

    margin: ClassVar[int] = 0

    @property
    def sharpness_of_loss(self) -> int:
        """Sharpness k of the loss, as in the module's docstring."""
        return 1

    @property
    def coordinates(self) -> int:
        """Number of coordinates of a record's vector."""
        raise NotImplementedError

    @property
    def width_of_map(self) -> int:
        """Number of coordinates of the feature map."""
        raise NotImplementedError

    @property
    def unit(self) -> int:
        """Number of steps of a vector that make one unit."""
        raise NotImplementedError

    @property
    def length_above(self) -> int:
        """Upper bound on the length (L2) of every vector, in steps."""
        raise NotImplementedError

    def rows(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vectors of grid points: (n, width of the map) -> (n, coordinates) whole numbers, exact per record."""
        raise NotImplementedError

    def weights(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Turn released numbers into w / radius, whose product with a record's vector is its score."""
        return numbers / (self.steps * float(self.regulariser.fraction) * self.unit)

    @property
    def parts(self) -> int:
        """1: all numbers form one part."""
        return 1

    def complaint(self) -> str:
        """What the settings must be, if they do not fit together; "" if they do."""
        if self.regulariser.fraction < 1:
            return "a regulariser of at least 1"
        if self.length_above > root_above(2 * self.unit**2):  # errors of floats grow with the length
            return "a constant of at most the radius"
        return "" if self.coordinates <= MOST_COORDINATES else f"at most {MOST_COORDINATES} coordinates"

    def label_complaint(self, schema: Schema) -> str:
        """The label that the method needs, if the schema has another; "" if it fits."""
        return "" if len(schema.classes) == 2 else "a label of two classes"

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change, floor(sqrt(D) steps (c b + 2 tolerance)) + D, for D coordinates and vectors of length b.

        J is strongly convex with the regulariser, and c records change its gradient by at most c b anywhere, so they
        move its minimiser by at most c b / regulariser (L2). The solver stops within tolerance / regulariser of the
        minimiser. In steps, and in L1, the change is sqrt(D) steps (c b + 2 tolerance); rounding to whole numbers adds
        at most one for each coordinate.
        """
        return self._moved(most_records_per_unit)

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """Largest L1 change by a label, which moves the gradient by at most 1 vector (logistic loss) or 2 (hinge)."""
        return self._moved((2 if self.margin else 1) * most_records_per_unit)

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Largest L1 change if c records, whose vectors have length at most b, are replaced by others."""
        return self._moved(2 * most_records_per_unit)

    def _moved(self, vectors: int) -> int:
        """Largest L1 change, as in `sensitivity`, if the gradient moves by at most this number of vectors."""
        moved = vectors * Fraction(self.length_above, self.unit) + 2 * TOLERANCE
        return math.isqrt(math.floor(self.coordinates * (self.steps * moved) ** 2)) + self.coordinates

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) if the body does not fit."""
        if not isinstance(body, Mapped):
            raise wrong_body(Mapped, field)
        check_map(body.features, self.width_of_map, schema, field)

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers of one model."""
        return self.coordinates

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model."""
        if not isinstance(body, Mapped):
            raise wrong_body(Mapped, "body")
        size = self.coordinates
        mapping = body.features.multiply_adds() + _ROW_COST * size + self.work_of_features
        step = size * (size + 20) + _LOSS_COST
        once = body.features.multiply_adds_once() + self.work_once_of_features + _ONCE
        solving = _ONCE + 20 * size**2 + size**3
        return Work(mapping + NEWTON_STEPS * step, once + NEWTON_STEPS * solving)

    @property
    def work_of_features(self) -> int:
        """Work per record of computing the vector, in addition to the feature map."""
        return 0

    @property
    def work_once_of_features(self) -> int:
        """Work of preparing these features, whatever the number of records."""
        return 0


class LogisticRegression(LinearModel, frozen=True, kw_only=True, tag="logistic_regression", forbid_unknown_fields=True):
    """Logistic regression: the score is the log odds of the second class."""

    points: Points  # how a record becomes its vector

    @property
    def coordinates(self) -> int:
        """Coordinates of a record's vector."""
        return self.points.coordinates

    @property
    def width_of_map(self) -> int:
        """Coordinates of the feature map."""
        return self.points.width

    @property
    def unit(self) -> int:
        """Steps of a vector that are one unit."""
        return self.points.radius

    @property
    def length_above(self) -> int:
        """At least the length (L2) of every vector, in steps."""
        return self.points.length_above

    def rows(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vectors of grid points: (n, width of the map) -> (n, coordinates) whole numbers."""
        return self.points.rows(points)


class LinearSvm(LogisticRegression, frozen=True, kw_only=True, tag="linear_svm", forbid_unknown_fields=True):
    """A support vector machine, with a hinge loss whose corner is rounded."""

    sharpness: Sharpness = 4  # k; the rounded loss exceeds the hinge by at most log(2) / k

    margin: ClassVar[int] = 1

    @property
    def sharpness_of_loss(self) -> int:
        """The sharpness k of the loss."""
        return self.sharpness


class KernelSvm(LinearModel, frozen=True, kw_only=True, tag="kernel_svm", forbid_unknown_fields=True):
    """A support vector machine on random Fourier features, which approximate the kernel exp(-||x - x'||^2 / 2).

    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 3. The bandwidth is in the factors of the feature map.
    """

    width: Width  # coordinates of the feature map
    # F; a vector has 2 F coordinates, and the constant
    frequencies: Annotated[int, msgspec.Meta(ge=1, le=MOST_FREQUENCIES)]
    seed: Seed  # of the frequencies, public
    radius: Radius  # length of a vector, in steps, without its constant
    constant: Constant = 0  # the last coordinate; 0: there is none
    sharpness: Sharpness = 4  # as of `LinearSvm`

    margin: ClassVar[int] = 1

    @property
    def sharpness_of_loss(self) -> int:
        """The sharpness k of the loss."""
        return self.sharpness

    @property
    def coordinates(self) -> int:
        """Coordinates of a record's vector."""
        return 2 * self.frequencies + (self.constant > 0)

    @property
    def width_of_map(self) -> int:
        """Coordinates of the feature map."""
        return self.width

    @property
    def unit(self) -> int:
        """Steps of a vector that are one unit."""
        return self.radius

    @property
    def length_above(self) -> int:
        """At least the length (L2) of every vector, in steps."""
        return root_above(self.radius**2 + self.constant**2)

    @property
    def work_of_features(self) -> int:
        """Work of computing a record's random Fourier features, in addition to the feature map."""
        return self.frequencies * (self.width + _COSINE_COST)

    @property
    def work_once_of_features(self) -> int:
        """Work of preparing the random features."""
        return self.frequencies * self.width * _FREQUENCY_ONCE + 10 * _ONCE

    def rows(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vectors of grid points: (n, width of the map) -> (n, coordinates) whole numbers."""
        rows = feature_rows(points, self.seed, self.frequencies, self.radius)
        if not self.constant:
            return rows
        return np.hstack([rows, np.full((len(rows), 1), float(self.constant))])
