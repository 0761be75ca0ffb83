"""A partition that is not shipped: the decade of a number, in cells of equal width."""

from typing import Annotated

import msgspec
import numpy as np

from protocol.errors import RemoteProtocolError
from protocol.refusals import RefusalCode
from protocol.schema import NumericAttribute


class ToyDecades(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="toy_decades"):
    """Cells [10 i, 10 i + 10) for i from 0 to count - 1; the first and the last have what lies beyond.

    One more cell, the last, has the missing values.
    """

    attribute: str
    count: Annotated[int, msgspec.Meta(ge=1, le=1000)]

    def check(self, schema, field):
        if not isinstance(schema.find(self.attribute), NumericAttribute):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attribute", "a number of the card")

    def cell_count(self, schema):
        return self.count + 1

    def multiply_adds(self):
        return 40

    def multiply_adds_once(self):
        return 20_000

    def cells(self, records):
        values = records.column(self.attribute)
        decades = np.clip(np.floor(np.nan_to_num(values) / 10), 0, self.count - 1).astype(np.intp)
        return np.where(np.isnan(values), self.count, decades)
