"""Naive Bayes: for each attribute, counts by class and level, or moments by class."""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.kinds.models.method import MOST_ATTRIBUTES, Attributes, Body, Moments, Work, wrong_body
from protocol.limits import CALL_ONCE
from protocol.partitions import FeatureBins
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOMENT_CELLS = 4
"""Number of cells of an attribute that is counted by its moments; `NaiveBayes` describes them."""
_ATTRIBUTE_COST = 1000
_ATTRIBUTE_ONCE = 60 * CALL_ONCE


class NaiveBayes(msgspec.Struct, frozen=True, kw_only=True, tag="naive_bayes", forbid_unknown_fields=True):
    """Sums by class (Vaidya, Shafiq, Basu and Hong 2013). For each attribute, a record adds numbers that sum to S^2.

    The numbers of an attribute are a table (cells, classes); a record adds to the column of its class. If the attribute
    is counted in bins, it adds S^2 to its bin. An attribute counted by its moments has four cells: a value at u of S
    steps between the bounds adds (S - u)^2, 2 u (S - u) and u^2 to the first three, and a missing value adds S^2 to the
    fourth. So a class's sum of u is (second / 2 + third) / S, its sum of u^2 is the third cell, and its number of
    records is the sum of all cells of any attribute, divided by S^2.
    """

    binned: Annotated[int, msgspec.Meta(ge=0, le=MOST_ATTRIBUTES)]  # how many attributes are counted in bins
    moments: Annotated[int, msgspec.Meta(ge=0, le=MOST_ATTRIBUTES)] = 0  # how many are told by their moments
    steps: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1  # S; 1 where there are no moments

    @property
    def weight(self) -> int:
        """Total that one record adds to the cells of each attribute: S^2, where S is `steps`."""
        return self.steps**2

    @property
    def parts(self) -> int:
        """Number of attributes."""
        return self.binned + self.moments

    def complaint(self) -> str:
        """What the settings must be, if they do not fit together; "" if they do."""
        if not self.binned + self.moments:
            return "at least one attribute"
        return "" if self.moments or self.steps == 1 else "steps of 1 where there are no moments"

    def label_complaint(self, schema: Schema) -> str:
        """The label that the method needs, if the schema has another; "" if it fits."""
        return "" if schema.classes else "a label of classes"

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change: a record adds numbers of at least 0 that sum to S^2, in each attribute."""
        return most_records_per_unit * (self.binned + self.moments) * self.weight

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """Largest L1 change by a label: in each attribute, S^2 moves from one class's column to another's."""
        return 2 * self.sensitivity(most_records_per_unit)

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Largest L1 change by other attributes: in each attribute, S^2 moves from some cells to others."""
        return 2 * self.sensitivity(most_records_per_unit)

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) if the body does not fit."""
        if not isinstance(body, Attributes):
            raise wrong_body(Attributes, field)
        moments = sum(isinstance(attribute, Moments) for attribute in body.attributes)
        if (len(body.attributes) - moments, moments) != (self.binned, self.moments):
            limit = f"{self.binned} in bins and {self.moments} by moments"
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.attributes", limit)
        for index, attribute in enumerate(body.attributes):
            attribute.check(schema, f"{field}.attributes[{index}]")

    def cells(self, body: Attributes, schema: Schema) -> tuple[int, ...]:
        """Number of rows of each attribute's table."""
        return tuple(
            entry.cell_count(schema) if isinstance(entry, FeatureBins) else MOMENT_CELLS for entry in body.attributes
        )

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers of one model."""
        if not isinstance(body, Attributes):
            raise wrong_body(Attributes, "body")
        return sum(self.cells(body, schema)) * len(schema.classes)

    def tables(self, numbers: NDArray[np.int64], body: Attributes, schema: Schema) -> list[NDArray[np.int64]]:
        """The released numbers of one model by attribute, each (cells, classes)."""
        rows = numbers.reshape(-1, len(schema.classes))
        return np.split(rows, np.cumsum(self.cells(body, schema))[:-1])

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model."""
        if not isinstance(body, Attributes):
            raise wrong_body(Attributes, "body")
        binned = [attribute for attribute in body.attributes if isinstance(attribute, FeatureBins)]
        per_record = sum(attribute.multiply_adds() for attribute in binned) + _ATTRIBUTE_COST * len(body.attributes)
        once = sum(attribute.multiply_adds_once() for attribute in binned) + _ATTRIBUTE_ONCE * len(body.attributes)
        return Work(per_record, once)
