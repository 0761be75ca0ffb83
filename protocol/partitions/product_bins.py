"""The product of two attributes' bins: what the paper's bins cannot see, an interaction of two attributes."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.partitions.feature_bins import FeatureBins
from protocol.records import Records
from protocol.schema import Schema


class ProductBins(msgspec.Struct, frozen=True, tag="product_bins", forbid_unknown_fields=True):
    """Cell i * k_2 + j of a record in bin i of `first` and bin j of `second`; k_1 k_2 cells, at most 100,001^2.

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
        """Work of both searches for one record; joining the two bins takes no more than writing them."""
        return self.first.multiply_adds() + self.second.multiply_adds()

    def multiply_adds_once(self) -> int:
        """Work of preparing both."""
        return self.first.multiply_adds_once() + self.second.multiply_adds_once()

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The cell of each record, shape (n,): comparisons and whole numbers only, hence exact."""
        return self.first.cells(records) * self.second.cell_count(records.schema) + self.second.cells(records)
