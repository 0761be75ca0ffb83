"""Cross tables: products of several variables' bins among the records that a filter keeps, and one cell for all others.

A variable is an attribute, an outcome or the label. What reads outcomes or labels is counted only by release kinds
that say so: `protocol.release_kinds`.
"""

import math
from collections.abc import Iterator
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.limits import CALL_ONCE
from protocol.partitions.feature_bins import FeatureBins
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_FACTORS = 8
"""Most factors of a table."""
MOST_CONDITIONS = 16
"""Most conditions of a filter."""
JOIN_COST = 50
"""Work (see `protocol.limits`) per record and factor of joining its bin to the cell."""
CONDITION_COST = 50
"""Work per record and condition of looking up whether its bin is allowed."""
CELL_ONCE = 1_000
"""Work per allowed bin of reading and checking its number."""


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition of a filter: the record's bin is one of `cells`.

    Of a category the cells are the codes of levels, then "other", then missing; of a number they are its bins, then
    missing.
    """

    bins: FeatureBins
    # increasing, in 0 .. k-1
    cells: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0)], ...], msgspec.Meta(min_length=1, max_length=100_002)]

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the bins fit a variable, and the cells are some of theirs."""
        _check_bins(self.bins, schema, f"{field}.bins")
        most = self.bins.cell_count(schema) - 1
        if self.cells[-1] > most or any(b <= a for a, b in zip(self.cells, self.cells[1:], strict=False)):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.cells", f"strictly increasing, at most {most}")

    def holds(self, records: Records) -> NDArray[np.bool_]:
        """Whether the condition holds of each record, shape (n,)."""
        allowed = np.zeros(self.bins.cell_count(records.schema), np.bool_)
        allowed[list(self.cells)] = True
        return allowed[self.bins.cells(records)]


class CrossBins(msgspec.Struct, frozen=True, tag="cross_bins", forbid_unknown_fields=True, omit_defaults=True):
    """Products of the bins of one to eight factors; a record in bins b_1, ..., b_f is in cell (b_1 k_2 + b_2) k_3 + ...

    With a filter, `within`, records of which a condition does not hold are in one further cell, the last.
    """

    factors: Annotated[tuple[FeatureBins, ...], msgspec.Meta(min_length=1, max_length=MOST_FACTORS)]
    within: Annotated[tuple[Range, ...], msgspec.Meta(max_length=MOST_CONDITIONS)] = ()

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless factors and conditions fit variables of the schema."""
        for index, factor in enumerate(self.factors):
            _check_bins(factor, schema, f"{field}.factors[{index}]")
        for index, condition in enumerate(self.within):
            condition.check(schema, f"{field}.within[{index}]")

    def cell_count(self, schema: Schema) -> int:
        """Number of cells k: the product of the factors', and one more with a filter."""
        return math.prod(factor.cell_count(schema) for factor in self.factors) + bool(self.within)

    def multiply_adds(self) -> int:
        """Work of all searches for one record, and of joining and filtering."""
        joining = JOIN_COST * len(self.factors) + CONDITION_COST * len(self.within)
        return joining + sum(bins.multiply_adds() for bins in self._all_bins())

    def multiply_adds_once(self) -> int:
        """Work of preparing all bins and the filter."""
        allowed = sum(CALL_ONCE + CELL_ONCE * len(condition.cells) for condition in self.within)
        return allowed + sum(bins.multiply_adds_once() for bins in self._all_bins())

    def cells(self, records: Records) -> NDArray[np.intp]:
        """The cell of each record, shape (n,). Only comparisons and whole numbers are used, so it is exact."""
        cells = np.zeros(len(records), np.intp)
        for factor in self.factors:
            cells *= factor.cell_count(records.schema)
            cells += factor.cells(records)
        if not self.within:
            return cells
        inside = np.ones(len(records), np.bool_)
        for condition in self.within:
            inside &= condition.holds(records)
        return np.where(inside, cells, self.cell_count(records.schema) - 1)

    def variables(self) -> tuple[str, ...]:
        """Names of the variables that it reads, without repeats, in order."""
        return tuple(dict.fromkeys(bins.attribute for bins in self._all_bins()))

    def beyond_attributes(self, schema: Schema) -> tuple[str, ...]:
        """Those of them that are no attributes of the schema: outcomes, and the label."""
        return tuple(name for name in self.variables() if schema.find(name) is None)

    def _all_bins(self) -> Iterator[FeatureBins]:
        yield from self.factors
        yield from (condition.bins for condition in self.within)


def _check_bins(bins: FeatureBins, schema: Schema, field: str) -> None:
    """Raise RemoteProtocolError(BAD_QUERY) unless the bins fit an attribute, an outcome or the label."""
    variable = schema.variable(bins.attribute)
    bins.check_as(variable, field, "an attribute, an outcome or the label of the card")
