"""The paper's partition: bins of one attribute, plus a bin of their own for missing values."""

import math
import operator
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.partitions.grid_edges import search_cost, search_once
from protocol.records import MISSING_CODE, Records
from protocol.refusals import RefusalCode
from protocol.schema import CategoricalAttribute, Name, NumericAttribute, Schema


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
        attribute = schema.find(self.attribute)
        if attribute is None:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attribute", "an attribute of the card")
        if isinstance(attribute, CategoricalAttribute) and self.edges:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.edges", "none for a categorical attribute")
        rising = all(map(operator.lt, self.edges, self.edges[1:]))
        # Between finite ends that rise there is no room for an infinity or a NaN.
        finite = all(map(math.isfinite, (*self.edges[:1], *self.edges[-1:])))
        if not (rising and finite):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.edges", "finite and strictly increasing")

    def cell_count(self, schema: Schema) -> int:
        """Number of cells k, the missing one among them."""
        attribute = None if self.edges else schema.find(self.attribute)
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
        """The bin of each record, shape (n,): comparisons only, hence exact."""
        column = records.column(self.attribute)
        last = self.cell_count(records.schema) - 1
        if isinstance(records.schema.find(self.attribute), NumericAttribute):
            found = np.searchsorted(np.asarray(self.edges, np.float64), column, side="right")
            missing = np.isnan(column)
        else:
            found = column.astype(np.intp)
            missing = column == MISSING_CODE
        return np.where(missing, last, found)
