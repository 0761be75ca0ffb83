"""Linear regression and principal components: sums of products of a record's coordinates, and of its label."""

from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.kinds.models.method import MOST_RADIUS, Body, Mapped, Points, Work, check_map, wrong_body
from protocol.limits import CALL_ONCE
from protocol.schema import Schema

_ROW_COST = 200
"""Work per record and coordinate of clipping: square, root, product and rounding."""
_ONCE = 100 * CALL_ONCE


class SecondMoments(NamedTuple):
    """Released sums over records of v = (x, constant) and label y, as whole numbers."""

    # (D, D) int64, of v_i v_j; symmetric, with noise of its own in each of the D (D + 1) / 2
    products: NDArray[np.int64]
    label_products: NDArray[np.int64]  # (D,) int64, of y v_j; empty where there is no label
    label_square: NDArray[np.int64]  # (1,) int64, of y^2; likewise


def split_moments(numbers: NDArray[np.int64], coordinates: int) -> SecondMoments:
    """Split the released numbers of one model: products v_i v_j with i <= j row by row, y v_j, and y^2."""
    size = coordinates * (coordinates + 1) // 2
    products = np.zeros((coordinates, coordinates), np.int64)
    upper = np.triu_indices(coordinates)
    products[upper] = numbers[:size]
    products.T[upper] = numbers[:size]
    return SecondMoments(products, numbers[size : size + coordinates], numbers[size + coordinates :])


class PrincipalComponents(
    msgspec.Struct, frozen=True, kw_only=True, tag="principal_components", forbid_unknown_fields=True
):
    """Sums of v_i v_j for i <= j, where v is a record's vector.

    If v has a constant coordinate, the means and the number of records are among them.
    """

    points: Points  # how a record becomes its vector

    @property
    def parts(self) -> int:
        """1: all numbers form one part."""
        return 1

    def complaint(self) -> str:
        """What the settings must be, if they do not fit together; "" if they do."""
        return ""

    def label_complaint(self, schema: Schema) -> str:
        """Always "": no label is read."""
        return ""

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change, by `Points.most_products`."""
        return most_records_per_unit * self.points.most_products

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """0: no label is read."""
        return 0

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Twice the sensitivity, as for a removal and an addition; nothing less is proved."""
        return 2 * self.sensitivity(most_records_per_unit)

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) if the body does not fit."""
        if not isinstance(body, Mapped):
            raise wrong_body(Mapped, field)
        check_map(body.features, self.points.width, schema, field)

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers of one model."""
        return self.points.coordinates * (self.points.coordinates + 1) // 2

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model."""
        return product_work(body, self.points)


class LinearRegression(msgspec.Struct, frozen=True, kw_only=True, tag="linear_regression", forbid_unknown_fields=True):
    """The squared error's coefficients, with noise: the functional mechanism (Zhang et al. 2012, section 4.2).

    Sums of v_i v_j for i <= j, of y v_j and of y^2, for a record's vector v and its label y in -label_steps ..
    label_steps over its range. A learner adds the ridge that it likes, and minimises.
    """

    points: Points  # how a record becomes its vector
    label_steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_RADIUS)]  # whole steps of half the label's range

    @property
    def parts(self) -> int:
        """1: all numbers form one part."""
        return 1

    def complaint(self) -> str:
        """What the settings must be, if they do not fit together; "" if they do."""
        return ""

    def label_complaint(self, schema: Schema) -> str:
        """The label that the method needs, if the schema has another; "" if it fits."""
        return "" if schema.label_bounds is not None else "a numeric label"

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change: the sum of `Points.most_products` and the largest |y| ||v||_1 and y^2."""
        most = self.label_steps
        return most_records_per_unit * (self.points.most_products + most * self.points.most_sum + most**2)

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """Largest L1 change by a label: at most |y - y'| (A + |y + y'|) from y to y', where A is the length of v (L1).

        If |y - y'| = x and labels are at most Y, this is at most x (A + 2 Y - x), where x is at most 2 Y. The largest
        value is found in whole numbers.
        """
        length = self.points.most_sum
        moved = min(2 * self.label_steps, (length + 2 * self.label_steps) // 2)
        return most_records_per_unit * moved * (length + 2 * self.label_steps - moved)

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Twice the sensitivity, as for a removal and an addition; nothing less is proved."""
        return 2 * self.sensitivity(most_records_per_unit)

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) if the body does not fit."""
        if not isinstance(body, Mapped):
            raise wrong_body(Mapped, field)
        check_map(body.features, self.points.width, schema, field)

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers of one model."""
        return self.points.coordinates * (self.points.coordinates + 3) // 2 + 1

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model."""
        return product_work(body, self.points)


def product_work(body: Body, points: Points) -> Work:
    """Work of mapping, clipping and multiplying, for methods of this module."""
    if not isinstance(body, Mapped):
        raise wrong_body(Mapped, "body")
    size = points.coordinates
    per_record = body.features.multiply_adds() + _ROW_COST * size + (size + 1) ** 2
    return Work(per_record, body.features.multiply_adds_once() + _ONCE + 50 * size**2)
