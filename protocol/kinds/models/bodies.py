"""What is asked of one model beside its plan: public data, chosen without a look at a private record."""

import math
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import MOST_WIDTH, FeatureMap
from protocol.partitions import FeatureBins
from protocol.refusals import RefusalCode
from protocol.schema import MOST_MAGNITUDE, Name, NumericAttribute, Schema

MOST_ATTRIBUTES = MOST_WIDTH


class Mapped(msgspec.Struct, frozen=True, tag="mapped", forbid_unknown_fields=True):
    """Points of a feature map."""

    features: FeatureMap


class Moments(msgspec.Struct, frozen=True, tag="moments", forbid_unknown_fields=True):
    """Mean and variance of a numeric attribute within [lower, upper]; values outside count as the nearer bound."""

    attribute: Name
    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the attribute is a number and the bounds rise."""
        if not isinstance(schema.find(self.attribute), NumericAttribute):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attribute", "a numeric attribute of the card")
        finite = all(-MOST_MAGNITUDE <= bound <= MOST_MAGNITUDE for bound in (self.lower, self.upper))
        if not finite or self.lower >= self.upper or not math.isfinite(1 / (self.upper - self.lower)):
            limit = f"lower < upper, both within +-{MOST_MAGNITUDE:g}"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, limit)


class Attributes(msgspec.Struct, frozen=True, tag="attributes", forbid_unknown_fields=True):
    """Attributes, each counted in bins or by its moments."""

    attributes: Annotated[tuple[FeatureBins | Moments, ...], msgspec.Meta(min_length=1, max_length=MOST_ATTRIBUTES)]


class Centres(msgspec.Struct, frozen=True, tag="centres", forbid_unknown_fields=True):
    """Points of a feature map, and the centres with which k-means begins.

    `centres` holds clusters x width little-endian int32 in steps of the plan's points, row by row.
    """

    features: FeatureMap
    centres: bytes

    @classmethod
    def of(cls, features: FeatureMap, centres: NDArray[np.int64]) -> "Centres":
        """From whole numbers (clusters, width)."""
        return cls(features, np.ascontiguousarray(centres, "<i4").tobytes())

    def table(self, width: int) -> NDArray[np.float64]:
        """The centres, (clusters, width) float64 whole numbers."""
        return np.frombuffer(self.centres, "<i4").reshape(-1, width).astype(np.float64)


Body = Mapped | Attributes | Centres


def check_map(features: FeatureMap, width: int, schema: Schema, field: str) -> None:
    """Raise RemoteProtocolError (BAD_QUERY, NOT_IN_PLAN) unless a map fits the schema and has the planned width."""
    features.check(schema, f"{field}.features")
    if features.width != width:
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.features", f"a map of {width} coordinates")


def wrong_body(wanted: type[Body], field: str) -> RemoteProtocolError:
    """The refusal of a body that is another method's."""
    return RemoteProtocolError(RefusalCode.NOT_IN_PLAN, field, f"a body of type {wanted.__struct_config__.tag!r}")
