"""Whole vectors of bounded length: what a record adds to the sums of a model.

A record's point is that of a feature map, on the grid of 2^-12. It is shrunk into the unit ball, scaled to `radius`
whole steps, and extended by a constant coordinate. All of it is a function of that record and the plan alone, to the
last bit.
"""

import math
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.feature_map import MOST_WIDTH, STEPS

MOST_RADIUS = STEPS
"""Squares of coordinates stay below 2^24, so that the sums of a block of records are exact in float64."""

Width = Annotated[int, msgspec.Meta(ge=1, le=MOST_WIDTH)]
Radius = Annotated[int, msgspec.Meta(ge=1, le=MOST_RADIUS)]
Constant = Annotated[int, msgspec.Meta(ge=0, le=MOST_RADIUS)]


class Points(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Vectors (x, constant) of whole numbers, with the length of x at most `radius` (L2).

    Attributes:
        width: d, coordinates of the feature map.
        radius: steps of one unit of the map; longer points are shrunk to this length.
        constant: the last coordinate, in the same steps; 0: there is none.
    """

    width: Width
    radius: Radius
    constant: Constant = 0

    @property
    def coordinates(self) -> int:
        """Of a vector, the constant one among them."""
        return self.width + (self.constant > 0)

    @property
    def most_sum(self) -> int:
        """Largest L1 length of a vector: ||x||_1 <= sqrt(d) ||x||_2, and the constant."""
        return math.isqrt(self.width * self.radius**2) + self.constant

    @property
    def most_products(self) -> int:
        """Largest sum of |v_i v_j| over i <= j.

        For x alone it is (||x||_1^2 + ||x||_2^2) / 2 <= (d + 1) radius^2 / 2; the constant adds its square and its
        products with x.
        """
        own = (self.width + 1) * self.radius**2 // 2
        return own + self.constant * self.most_sum

    @property
    def length_above(self) -> int:
        """The smallest whole number that is at least the length (L2) of every vector."""
        return root_above(self.radius**2 + self.constant**2)

    def rows(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vectors of grid points: (n, width) whole steps of 2^-12 -> (n, coordinates) whole numbers.

        x = p radius / max(4096, ||p||), rounded towards 0. The square of the length is below 2^49, so it is exact, and
        so is its root rounded up: a root that is not whole lies further than 2^-26 from every whole number. The
        quotient lies 2^-25 from the next whole number, or is one: the division cannot round across it.
        """
        lengths = np.ceil(np.sqrt(np.sum(points * points, axis=1)))
        shrunk: NDArray[np.float64] = np.trunc(points * self.radius / np.maximum(lengths, STEPS)[:, None])
        if not self.constant:
            return shrunk
        return np.hstack([shrunk, np.full((len(points), 1), float(self.constant))])


def root_above(square: int) -> int:
    """The smallest whole number that is at least the root of a whole number."""
    root = math.isqrt(square)
    return root + (root * root < square)
