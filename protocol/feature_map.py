"""Feature maps turn records into points of a fixed grid by scaling, imputation and one-hot, all stated in the query.

Every coordinate is a whole number of steps of 2^-12 within +-64. Distances and network layers computed from such
points are sums of whole numbers below 2^53, hence exact in float64 in any order of summation. So a record's point, cell
and prediction are the same to the last bit, whatever other records are there (PRIVACY rule 7).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.limits import CALL_ONCE
from protocol.records import MISSING_CODE, Records
from protocol.refusals import RefusalCode
from protocol.schema import MOST_MAGNITUDE, Name, NumericAttribute, Schema

STEPS = 4096
"""Grid steps per unit: the grid is 2^-12."""
MOST_COORDINATE = 64
"""Coordinates are clipped to +- this many units."""
MAP_COST = 300
"""Work (see `protocol.limits`) per record, whatever the map's width."""
COORDINATE_COST = 100
"""Work of scaling and rounding, per record and numeric feature."""
CATEGORY_COST = 500
"""Work per record and categorical feature: a scattered write of one coordinate, in small blocks if the map is wide."""
HOT_COST = 10
"""Work of clearing, per record and coordinate of categorical features."""
MAP_ONCE = 15 * CALL_ONCE
NUMBER_ONCE = 2 * CALL_ONCE
CATEGORY_ONCE = 5 * CALL_ONCE
HOT_ONCE = CALL_ONCE // 2
"""Work of reading, checking and preparing a map, and each numeric feature, categorical feature and coordinate of the
latter."""
MOST_WIDTH = 8192
"""Most coordinates of a point. A sum of three products of grid numbers for each coordinate is then below 2^51."""
BLOCK_ENTRIES = 262_144
"""Numbers in one block (2 MB), which fits the second-level cache."""
TILE_ENTRIES = 2048
"""Numbers of several records that are scaled in one run, since a run for each record of a narrow map takes longer."""
MOST_BLOCK_WIDTH = 1024
"""A block of a wider map has as many records as if it had this width: each block takes a step per categorical
feature."""


class NumericFeature(msgspec.Struct, frozen=True, tag="numeric", forbid_unknown_fields=True):
    """One coordinate: (x - offset) * factor; a missing x is first replaced by `imputation`."""

    attribute: Name
    offset: float
    factor: float
    imputation: float

    def __post_init__(self) -> None:
        for name in ("offset", "factor", "imputation"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))


class CategoricalFeature(msgspec.Struct, frozen=True, tag="categorical", forbid_unknown_fields=True):
    """One coordinate per level plus one for "other": `factor` at the record's level, 0 elsewhere.

    `levels` may be any of the attribute's declared levels; a record at another level counts as "other".
    A missing value is first replaced by `imputation` (a level; "" means "other").
    """

    attribute: Name
    levels: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=1000)]
    factor: float
    imputation: Annotated[str, msgspec.Meta(max_length=200)]

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "factor", float(self.factor))


Feature = NumericFeature | CategoricalFeature


class FeatureMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A map from records to grid points of `width` coordinates."""

    features: Annotated[tuple[Feature, ...], msgspec.Meta(min_length=1, max_length=MOST_WIDTH)]

    @property
    def width(self) -> int:
        """Number of coordinates of a point."""
        return sum(1 if isinstance(f, NumericFeature) else len(f.levels) + 1 for f in self.features)

    def multiply_adds(self) -> int:
        """Work of mapping one record."""
        numbers = sum(isinstance(feature, NumericFeature) for feature in self.features)
        categories, hot = len(self.features) - numbers, self.width - numbers
        return MAP_COST + COORDINATE_COST * numbers + CATEGORY_COST * categories + HOT_COST * hot

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing the map, whatever the number of records."""
        numbers = sum(isinstance(feature, NumericFeature) for feature in self.features)
        categories, hot = len(self.features) - numbers, self.width - numbers
        return MAP_ONCE + NUMBER_ONCE * numbers + CATEGORY_ONCE * categories + HOT_ONCE * hot

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) if the map does not fit the schema; reads no record."""
        if self.width > MOST_WIDTH:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, f"at most {MOST_WIDTH} coordinates")
        for index, feature in enumerate(self.features):
            if complaint := _complaint(feature, schema):
                part, limit = complaint
                raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.features[{index}]{part}", limit)

    def points(self, records: Records) -> NDArray[np.float64]:
        """Grid points in steps of 2^-12: (n, width) float64, whole numbers within +-2^18."""
        return _mapping(self, records).points(records.numeric, records.categorical)

    def blocks(self, records: Records, width: int = 1) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield (rows, points of these rows) block by block, covering every record once, in order.

        `width` is the most numbers per record that the caller computes from the points; larger values make smaller
        blocks.
        """
        mapping = _mapping(self, records)
        rows = max(1, BLOCK_ENTRIES // max(width, min(self.width, MOST_BLOCK_WIDTH)))
        for start in range(0, len(records), rows):
            block = slice(start, start + rows)
            yield block, mapping.points(records.numeric[block], records.categorical[block])


@dataclass(frozen=True)
class _Mapping:
    """A feature map prepared for the columns of one schema."""

    width: int
    # the numeric features' coordinates; `columns`, `offsets`, `factors`, `imputations` are in this order
    numeric: NDArray[np.intp]
    columns: NDArray[np.intp]
    offsets: NDArray[np.float64]
    factors: NDArray[np.float64]
    imputations: NDArray[np.float64]
    # for each categorical feature its column, first coordinate, hot coordinate by code, and value
    categorical: list[tuple[int, int, NDArray[np.intp], NDArray[np.float64]]]

    @cached_property
    def tiles(self) -> tuple[NDArray[np.float64], ...]:
        """Imputations less offsets, offsets and factors, repeated for as many records as are scaled in one run."""
        count = max(1, TILE_ENTRIES // max(1, len(self.columns)))
        rows = (self.imputations - self.offsets, self.offsets, self.factors)
        return tuple(np.tile(row, count) for row in rows)

    def points(self, numeric: NDArray[np.float64], categorical: NDArray[np.int16]) -> NDArray[np.float64]:
        """The grid points, as `FeatureMap.points`; each number undergoes the same operations."""
        alike = np.array_equal(self.columns, np.arange(numeric.shape[1])) and numeric.flags.c_contiguous
        numbers = numeric if alike else np.take(numeric, self.columns, axis=1)
        values = np.empty_like(numbers) if alike else numbers
        count = len(self.tiles[0]) // max(1, len(self.columns))
        even = len(values) - len(values) % max(1, count)
        for part, length in ((slice(even), len(self.tiles[0])), (slice(even, None), len(self.columns))):
            if not values[part].size:
                continue
            runs = values[part].reshape(-1, length)
            imputed, offsets, factors = (tile[:length] for tile in self.tiles)
            np.subtract(numbers[part].reshape(-1, length), offsets, out=runs)
            np.copyto(runs, imputed, where=np.isnan(runs))
            runs *= factors
        values = to_grid(values, out=values)
        if not self.categorical:
            return values
        points = np.zeros((len(values), self.width))
        points[:, self.numeric] = values
        rows = np.arange(len(points))
        for column, start, hot, value in self.categorical:
            points[rows, start + hot[categorical[:, column]]] = value
        return points


def _mapping(features: FeatureMap, records: Records) -> _Mapping:
    numeric: list[tuple[int, int, NumericFeature]] = []
    categorical = []
    start = 0
    for feature in features.features:
        _, column = records.positions[feature.attribute]
        if isinstance(feature, NumericFeature):
            numeric.append((start, column, feature))
            start += 1
        else:
            value = to_grid(np.float64(feature.factor))
            categorical.append((column, start, _hot_positions(feature, records.schema), value))
            start += len(feature.levels) + 1
    return _Mapping(
        width=start,
        numeric=np.array([at for at, _, _ in numeric], np.intp),
        columns=np.array([column for _, column, _ in numeric], np.intp),
        offsets=np.array([feature.offset for _, _, feature in numeric]),
        factors=np.array([feature.factor for _, _, feature in numeric]),
        imputations=np.array([feature.imputation for _, _, feature in numeric]),
        categorical=categorical,
    )


def to_grid(values: NDArray[np.float64] | np.float64, *, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Round numbers to the grid: whole steps of 2^-12, clipped to +-64 units.

    `values` are in units. `out` receives the steps and may be `values` itself; None makes a new array. Each number is
    rounded by itself, so a record's result depends on no other.
    """
    limit = float(MOST_COORDINATE)
    steps = np.clip(values, -limit, limit, out=out)
    steps = np.multiply(steps, STEPS, out=out)
    return np.rint(steps, out=out)


def _hot_positions(feature: CategoricalFeature, schema: Schema) -> NDArray[np.intp]:
    """Table from a record's code to its hot coordinate; the last entry is for code -1 (missing)."""
    codes = schema.level_codes[feature.attribute]
    other = len(feature.levels)
    hot = np.full(len(codes) + 2, other)
    hot[[codes[level] for level in feature.levels]] = np.arange(other)
    hot[MISSING_CODE] = hot[codes[feature.imputation]] if feature.imputation else other
    return hot


def _complaint(feature: Feature, schema: Schema) -> tuple[str, str] | None:
    """None if a feature fits the schema; else the path of the offending field, and what would be accepted."""
    if isinstance(feature, NumericFeature):
        fits = isinstance(schema.find(feature.attribute), NumericAttribute)
        numbers: tuple[float, ...] = (feature.factor, feature.offset, feature.imputation)
    else:
        codes = schema.level_codes.get(feature.attribute)
        fits = codes is not None
        numbers = (feature.factor,)
        levels = set(feature.levels)
        if len(levels) != len(feature.levels):
            return ".levels", "each level once"
        if codes is not None and not codes.keys() >= levels:
            return ".levels", "levels of the card"
        if codes is not None and feature.imputation and feature.imputation not in codes:
            return ".imputation", "a level of the card, or empty"
    if not fits:
        return ".attribute", "an attribute of the card, of this kind"
    # A NaN fails the comparison as well.
    if not all(-MOST_MAGNITUDE <= number <= MOST_MAGNITUDE for number in numbers):
        return "", f"finite numbers within +-{MOST_MAGNITUDE:g}"
    return None
