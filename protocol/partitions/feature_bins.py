"""Bins of one attribute, as in the paper, and pairs of two attributes' bins, whose counts show interactions.

Missing values have a bin of their own.
"""

import math
import operator
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.partitions.grid_edges import at_or_below, search_cost, search_once
from protocol.records import LABEL_STEPS, MISSING_CODE, Records, label_steps
from protocol.refusals import RefusalCode
from protocol.schema import Attribute, CategoricalAttribute, Name, NumericAttribute, Schema


class FeatureBins(msgspec.Struct, frozen=True, tag="feature_bins", forbid_unknown_fields=True):
    """Bins of one attribute.

    Numeric: `edges` e_1 < ... < e_b give b + 1 bins, bin j holding e_j <= x < e_{j+1} (the end bins are
    unbounded), and one last bin for missing values: b + 2 cells.
    Categorical: `edges` is empty; one cell per declared level, then "other", then missing.
    """

    attribute: Name
    edges: Annotated[tuple[float, ...], msgspec.Meta(max_length=100_000)]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "edges", tuple(map(float, self.edges)))

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the edges are finite, increasing and fit the attribute."""
        self.check_as(schema.find(self.attribute), field)

    def check_as(self, attribute: Attribute | None, field: str, noun: str = "an attribute of the card") -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the edges fit what the card declares by the attribute's name.

        `attribute` is None if the card has no such `noun`.
        """
        if attribute is None:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attribute", noun)
        if isinstance(attribute, CategoricalAttribute) and self.edges:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.edges", "none for a categorical attribute")
        rising = all(map(operator.lt, self.edges, self.edges[1:]))
        # Between finite ends that rise there is no room for an infinity or a NaN.
        finite = all(map(math.isfinite, (*self.edges[:1], *self.edges[-1:])))
        if not (rising and finite):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.edges", "finite and strictly increasing")

    def cell_count(self, schema: Schema) -> int:
        """Number of cells k, with the one for missing values."""
        attribute = None if self.edges else schema.variable(self.attribute)
        if isinstance(attribute, CategoricalAttribute):
            return len(attribute.levels) + 2
        return len(self.edges) + 2

    def multiply_adds(self) -> int:
        """Work of a binary search for one record."""
        return search_cost(self.edges)

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing the edges."""
        return search_once(self.edges)

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The bin of each record, shape (n,). Only comparisons are used, so it is exact.

        A label that is a number is held in whole steps of its range. It is compared with the edges in the same steps.
        """
        schema = records.schema
        column = records.column(self.attribute)
        last = self.cell_count(schema) - 1
        if self.attribute == schema.label and schema.label_bounds is not None:
            return np.searchsorted(_steps_of(self.edges, schema.label_bounds), column, side="right")
        if isinstance(schema.variable(self.attribute), NumericAttribute):
            bins = at_or_below(np.asarray(self.edges, np.float64), column)
            missing = np.isnan(column)
        else:
            bins = column.astype(np.intp)
            missing = column == MISSING_CODE
        return np.where(missing, last, bins)


def _steps_of(edges: tuple[float, ...], bounds: tuple[float, float]) -> NDArray[np.int64]:
    """Edges of a numeric label, rounded to its grid as labels are, (b,) in 0 .. 4097; no label reaches 4097."""
    values = np.asarray(edges, np.float64)
    return np.where(values > bounds[1], LABEL_STEPS + 1, label_steps(values, bounds)).astype(np.int64)


class ProductBins(msgspec.Struct, frozen=True, tag="product_bins", forbid_unknown_fields=True):
    """Pairs of bins: a record in bin i of the k_1 of `first` and bin j of the k_2 of `second` is in cell i * k_2 + j.

    The two may be bins of the same attribute; cells that no record can reach then stay empty.
    """

    first: FeatureBins
    second: FeatureBins

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless both factors pass their own check."""
        self.first.check(schema, f"{field}.first")
        self.second.check(schema, f"{field}.second")

    def cell_count(self, schema: Schema) -> int:
        """Number of cells k_1 k_2, those of missing values among them."""
        return self.first.cell_count(schema) * self.second.cell_count(schema)

    def multiply_adds(self) -> int:
        """Work of both searches for one record. Joining the two bins takes no more than writing them."""
        return self.first.multiply_adds() + self.second.multiply_adds()

    def multiply_adds_once(self) -> int:
        """Work of preparing both."""
        return self.first.multiply_adds_once() + self.second.multiply_adds_once()

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The cell of each record, shape (n,). Only comparisons and whole numbers are used, so it is exact."""
        return self.first.cells(records) * self.second.cell_count(records.schema) + self.second.cells(records)
