"""What all methods of the query kind `model` share: the interface, points, bodies, and public randomness.

A method is a tagged struct of its public settings.
"""

import hashlib
import math
from statistics import NormalDist
from typing import Annotated, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.feature_map import MOST_WIDTH, STEPS, FeatureMap
from protocol.partitions import FeatureBins
from protocol.refusals import RefusalCode
from protocol.schema import MOST_MAGNITUDE, Name, NumericAttribute, Schema

Seed = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_BYTES = 8
_NORMAL = NormalDist()


def words(seed: int, purpose: str, count: int) -> NDArray[np.uint64]:
    """`count` pseudorandom 64-bit words from SHAKE-256 of seed and purpose: (count,) uint64."""
    head = b"expril/1 public randomness " + purpose.encode() + seed.to_bytes(4, "big")
    return np.frombuffer(hashlib.shake_256(head).digest(_BYTES * count), "<u8")


def normals(seed: int, purpose: str, count: int) -> NDArray[np.float64]:
    """`count` standard normal numbers, (count,) float64: the quantile function of 53 random bits each."""
    shares = ((words(seed, purpose, count) >> np.uint64(11)).astype(np.float64) + 0.5) / 2**53
    return np.array([_NORMAL.inv_cdf(share) for share in shares.tolist()])


MOST_RADIUS = STEPS
"""Largest radius: squares of coordinates stay below 2^24, so that a block's sums are exact in float64."""

Width = Annotated[int, msgspec.Meta(ge=1, le=MOST_WIDTH)]
Radius = Annotated[int, msgspec.Meta(ge=1, le=MOST_RADIUS)]
Constant = Annotated[int, msgspec.Meta(ge=0, le=MOST_RADIUS)]


class Points(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Vectors (x, constant) of whole numbers, with the length of x at most `radius` (L2).

    A record's point is that of a feature map, on the grid of 2^-12. It is shrunk into the unit ball, scaled to `radius`
    whole steps, and extended by a constant coordinate. The vector is a function of that record and the query alone, to
    the last bit.
    """

    width: Width  # d, coordinates of the feature map
    radius: Radius  # steps of one unit of the map; longer points are shrunk to this length
    constant: Constant = 0  # the last coordinate, in the same steps; 0: there is none

    @property
    def coordinates(self) -> int:
        """Number of coordinates of a vector, including the constant."""
        return self.width + (self.constant > 0)

    @property
    def most_sum(self) -> int:
        """Largest L1 length of a vector: ||x||_1 <= sqrt(d) ||x||_2 for d coordinates of x, plus the constant."""
        return math.isqrt(self.width * self.radius**2) + self.constant

    @property
    def most_products(self) -> int:
        """Largest sum of |v_i v_j| over i <= j.

        For x alone it is (||x||_1^2 + ||x||_2^2) / 2 <= (d + 1) radius^2 / 2; the constant adds its square and its
        products with x.
        """
        of_points = (self.width + 1) * self.radius**2 // 2
        return of_points + self.constant * self.most_sum

    @property
    def length_above(self) -> int:
        """The smallest whole number that is at least the length (L2) of every vector."""
        return root_above(self.radius**2 + self.constant**2)

    def rows(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The vectors of grid points: (n, width) whole steps of 2^-12 -> (n, coordinates) whole numbers.

        x = p radius / max(4096, ||p||) for a point p, rounded towards 0. ||p||^2 is a whole number below 2^49, so it is
        exact, and so is its root rounded up: a root that is not whole lies further than 2^-26 from every whole number.
        A quotient that is not whole lies at least 2^-25 from every whole number, so the division cannot round across
        one.
        """
        lengths = np.ceil(np.sqrt(np.sum(points * points, axis=1)))
        shrunk: NDArray[np.float64] = np.trunc(points * self.radius / np.maximum(lengths, STEPS)[:, None])
        if not self.constant:
            return shrunk
        return np.hstack([shrunk, np.full((len(points), 1), float(self.constant))])


def root_above(square: int) -> int:
    """The square root of a whole number, rounded up to a whole number."""
    root = math.isqrt(square)
    return root + (root * root < square)


MOST_ATTRIBUTES = MOST_WIDTH


class Mapped(msgspec.Struct, frozen=True, tag="mapped", forbid_unknown_fields=True):
    """The question for a method that reads the points of a feature map."""

    features: FeatureMap


class Moments(msgspec.Struct, frozen=True, tag="moments", forbid_unknown_fields=True):
    """A numeric attribute counted by mean and variance; values outside [lower, upper] count as the nearer bound."""

    attribute: Name
    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))

    def check(self, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the attribute is numeric and `lower` is below `upper`."""
        if not isinstance(schema.find(self.attribute), NumericAttribute):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attribute", "a numeric attribute of the card")
        finite = all(-MOST_MAGNITUDE <= bound <= MOST_MAGNITUDE for bound in (self.lower, self.upper))
        if not finite or self.lower >= self.upper or not math.isfinite(1 / (self.upper - self.lower)):
            limit = f"lower < upper, both within +-{MOST_MAGNITUDE:g}"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, limit)


class Attributes(msgspec.Struct, frozen=True, tag="attributes", forbid_unknown_fields=True):
    """The question for naive Bayes: attributes, each counted in bins or by its moments."""

    attributes: Annotated[tuple[FeatureBins | Moments, ...], msgspec.Meta(min_length=1, max_length=MOST_ATTRIBUTES)]


class Centres(msgspec.Struct, frozen=True, tag="centres", forbid_unknown_fields=True):
    """The question for k-means: a feature map, and the centres with which it begins.

    `centres` holds clusters x width little-endian int32 in steps of the plan's points, row by row.
    """

    features: FeatureMap
    centres: bytes

    @classmethod
    def of(cls, features: FeatureMap, centres: NDArray[np.int64]) -> "Centres":
        """Make the question from whole-number centres (clusters, width)."""
        return cls(features, np.ascontiguousarray(centres, "<i4").tobytes())

    def table(self, width: int) -> NDArray[np.float64]:
        """The centres, (clusters, width) float64 whole numbers."""
        return np.frombuffer(self.centres, "<i4").reshape(-1, width).astype(np.float64)


Body = Mapped | Attributes | Centres


def check_map(features: FeatureMap, width: int, schema: Schema, field: str) -> None:
    """Raise RemoteProtocolError (BAD_QUERY, NOT_IN_PLAN) unless the map fits the schema and has the planned width."""
    features.check(schema, f"{field}.features")
    if features.width != width:
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.features", f"a map of {width} coordinates")


def wrong_body(body_type: type[Body], field: str) -> RemoteProtocolError:
    """The error for another method's body."""
    return RemoteProtocolError(RefusalCode.NOT_IN_PLAN, field, f"a body of type {body_type.__struct_config__.tag!r}")


class Work(NamedTuple):
    """Work in the unit of `protocol.limits`."""

    per_record: int  # of each record
    once: int  # whatever the number of records, noise not among it


class Method(Protocol):
    """A way to fit a model. Everything that its privacy depends on is planned and independent of records."""

    @property
    def parts(self) -> int:
        """Number of parts of a release; one unit moves each by at most an equal share of the sensitivity."""

    def complaint(self) -> str:
        """What would be accepted instead if the settings are inconsistent; "" if they are consistent."""

    def label_complaint(self, schema: Schema) -> str:
        """The label that the method needs, if the schema's is another; "" if it fits."""

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 change of one model's exact numbers by a privacy unit; at least 1.

        Cost, noise scale and answer all take it from here.
        """

    def moved_by_label(self, most_records_per_unit: int) -> int:
        """Largest L1 change if only the labels of a unit's records change; 0 if no label is read."""

    def moved_by_change(self, most_records_per_unit: int) -> int:
        """Largest L1 change if a unit's records change arbitrarily."""

    def check_body(self, body: Body, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError (NOT_IN_PLAN, BAD_QUERY) if the body does not fit; reads no record."""

    def length(self, body: Body, schema: Schema) -> int:
        """Number of released numbers of one model; only the type of `body` must be right."""

    def work(self, body: Body, schema: Schema) -> Work:
        """Work of fitting one model, for a checked body."""
