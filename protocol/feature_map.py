"""Records to points of a fixed grid: scaling, imputation and one-hot, all stated in the query.

Every coordinate is a whole number of steps of 2^-12 within +-64. Distances and network layers computed from such
points are sums of whole numbers below 2^53, hence exact in float64 whatever the order of summation: a record's
point, cell and prediction are the same to the last bit alone or among a million others (PRIVACY rule 7).
"""

import math
from collections.abc import Iterator
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.records import MISSING_CODE, Records
from protocol.refusals import RefusalCode
from protocol.schema import MOST_MAGNITUDE, CategoricalAttribute, Name, NumericAttribute, Schema

STEPS = 4096
"""Grid steps per unit: the grid is 2^-12."""
MOST_COORDINATE = 64
"""Coordinates are clipped to +- this many units."""
COORDINATE_COST = 100
"""Scaling and rounding a coordinate takes about as long as this many multiply-adds of a matrix product."""
MOST_WIDTH = 8192
"""Most coordinates of a point: 8192 * 2^18 * 2^18 * 2 < 2^51."""
BLOCK_ENTRIES = 262_144
"""Numbers of one array that are worked on at once (2 MB): it stays in the second-level cache between steps."""


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
        """What mapping one record costs, in multiply-adds of a matrix product."""
        return COORDINATE_COST * self.width

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) where the map does not fit the schema; needs no record."""
        if self.width > MOST_WIDTH:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, f"at most {MOST_WIDTH} coordinates")
        levels = {a.name: frozenset(a.levels) for a in schema.attributes if isinstance(a, CategoricalAttribute)}
        for index, feature in enumerate(self.features):
            _check_feature(feature, schema, levels, f"{field}.features[{index}]")

    def points(self, records: Records) -> NDArray[np.float64]:
        """Grid points in steps of 2^-12: (n, width) float64 holding whole numbers within +-2^18."""
        points = np.zeros((len(records), self.width))
        start = 0
        for feature in self.features:
            column = records.column(feature.attribute)
            if isinstance(feature, NumericFeature):
                filled = np.where(np.isnan(column), feature.imputation, column)
                points[:, start] = to_grid((filled - feature.offset) * feature.factor)
                start += 1
            else:
                hot = _hot_positions(feature, records.schema)[column]
                points[np.arange(len(records)), start + hot] = to_grid(np.float64(feature.factor))
                start += len(feature.levels) + 1
        return points

    def blocks(self, records: Records, width: int = 1) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """The points block by block: (rows of the block, their points), covering every record once, in order.

        Args:
            records: n records.
            width: of the widest array that is made of a point; blocks are as many rows as keep it small.
        """
        rows = max(1, BLOCK_ENTRIES // max(width, self.width))
        for start in range(0, len(records), rows):
            block = slice(start, start + rows)
            yield block, self.points(records.take(block))


def to_grid(values: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    """Round to the grid: whole steps of 2^-12, clipped to +-64 units. Elementwise, hence exact per record."""
    limit = float(MOST_COORDINATE)
    return np.rint(np.clip(values, -limit, limit) * STEPS)


def _hot_positions(feature: CategoricalFeature, schema: Schema) -> NDArray[np.intp]:
    """Lookup from a record's code to the hot coordinate; the last entry serves code -1 (missing)."""
    attribute = schema.find(feature.attribute)
    if not isinstance(attribute, CategoricalAttribute) or MISSING_CODE != -1:
        raise TypeError(feature.attribute)
    position = {level: index for index, level in enumerate(feature.levels)}
    other = len(feature.levels)
    by_code = [position.get(level, other) for level in attribute.levels]
    return np.array([*by_code, other, position.get(feature.imputation, other)])


def _check_feature(feature: Feature, schema: Schema, levels: dict[str, frozenset[str]], field: str) -> None:
    attribute = schema.find(feature.attribute)
    numbers = [feature.factor]
    if isinstance(feature, NumericFeature):
        fits = isinstance(attribute, NumericAttribute)
        numbers += [feature.offset, feature.imputation]
    else:
        fits = isinstance(attribute, CategoricalAttribute)
        if len(set(feature.levels)) != len(feature.levels):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.levels", "each level once")
        if fits and not levels[feature.attribute].issuperset(feature.levels):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.levels", "levels of the card")
        if fits and feature.imputation and feature.imputation not in levels[feature.attribute]:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.imputation", "a level of the card, or empty")
    if not fits:
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attribute", "an attribute of the card, of this kind")
    if not all(math.isfinite(number) and abs(number) <= MOST_MAGNITUDE for number in numbers):
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, f"finite numbers within +-{MOST_MAGNITUDE:g}")
