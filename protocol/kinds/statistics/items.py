"""What a `statistic` query asks: a quantile on a grid, an estimate of blocks, or a selection among partitions."""

import math
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.kinds.statistics.methods import (
    MOST_WEIGHT,
    AggregateMean,
    Exponential,
    Features,
    Method,
    Smooth,
    Steps,
    Weight,
)
from protocol.partitions import Partition
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.schema import MOST_MAGNITUDE, CategoricalAttribute, Name, Schema


class Estimator(NamedTuple):
    """Public facts about an estimator.

    `about` says in words what it estimates. It takes `fewest` to `most` attributes; if `of_classes`, it needs a label
    of two classes. Three fields state work in the unit of `protocol.limits`: `cost` per record, beyond reading
    attributes; `pair_cost` per record and pair; `pair_once` per block and pair. A constant counts as one more
    attribute, and pairs are ordered.
    """

    about: str
    fewest: int = 1
    most: int = 1
    of_classes: bool = False
    cost: int = 300
    pair_cost: int = 0
    pair_once: int = 0

    def work(self, attributes: int) -> int:
        """Work for each record, for an estimate of so many attributes."""
        return self.cost + self.pair_cost * (attributes + 1) ** 2

    def work_once(self, attributes: int) -> int:
        """Work for each block, for an estimate of so many attributes."""
        return self.pair_once * (attributes + 1) ** 2


ESTIMATORS: dict[str, Estimator] = {
    "mean": Estimator("the mean of one attribute"),
    "trimmed_mean": Estimator("the mean of one attribute without its lowest and highest tenth", cost=1000),
    "median": Estimator("the median of one attribute", cost=1000),
    "lower_quartile": Estimator("the quantile at 1/4 of one attribute", cost=1000),
    "upper_quartile": Estimator("the quantile at 3/4 of one attribute", cost=1000),
    "interquartile_range": Estimator("the difference of both quartiles of one attribute", cost=1000),
    "variance": Estimator("the variance of one attribute"),
    "standard_deviation": Estimator("the square root of the variance of one attribute"),
    "correlation": Estimator("Pearson's correlation of two attributes", 2, 2),
    "slope": Estimator("the slope of the second attribute on the first, by least squares", 2, 2),
    "linear_coefficient": Estimator(
        "the coefficient of the first attribute, for the last one on all others by least squares",
        2,
        20,
        pair_cost=100,
        pair_once=100_000,
    ),
    "logistic_coefficient": Estimator(
        "the log-odds of the second class per unit of the first attribute, given all others",
        1,
        20,
        True,
        pair_cost=4_000,
        pair_once=2_000_000,
    ),
}


MOST_CANDIDATES = 1000
"""Most partitions that a selection chooses from, whatever a curator's limits."""
MOST_ATTRIBUTES = 20
"""Most attributes of an estimate."""


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Equally spaced points, lower + (upper - lower) j / steps for j = 0 .. steps, independent of records.

    A number is rounded to the nearest point, after it is clipped to the ends.
    """

    lower: float
    upper: float
    steps: Steps

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "lower", float(self.lower))
        msgspec.structs.force_setattr(self, "upper", float(self.upper))

    def check(self, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY) unless the ends are finite, and `lower` is below `upper`."""
        finite = math.isfinite(self.lower) and math.isfinite(self.upper)
        if not finite or max(abs(self.lower), abs(self.upper)) > MOST_MAGNITUDE or self.lower >= self.upper:
            limit = f"lower < upper, both within +-{MOST_MAGNITUDE:g}"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.lower", limit)

    @property
    def points(self) -> int:
        """Number of points, steps + 1."""
        return self.steps + 1

    def indices(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Index of the nearest point of each number, (n,) in 0 .. steps, exact per number; no NaN allowed."""
        with np.errstate(over="ignore"):  # two ends may be so close that a quotient has no float: it is clipped
            shares = np.clip((values - self.lower) / (self.upper - self.lower), 0.0, 1.0)
        grid_indices: NDArray[np.int64] = np.rint(shares * self.steps).astype(np.int64)
        return grid_indices

    def value(self, index: float) -> float:
        """Value of a point, in the unit of the ends; interpolated between points for a fractional index."""
        return self.lower + (self.upper - self.lower) * index / self.steps


class Quantile(msgspec.Struct, frozen=True, tag="quantile", forbid_unknown_fields=True):
    """The quantile of an attribute or a numeric label; records with a missing value are left out."""

    attribute: Name  # its name
    quantile: Rational  # a / (a + b) in (0, 1), a and b at most `MOST_WEIGHT`; 1/2 is the median
    grid: Grid  # on which it is told

    @property
    def sides(self) -> tuple[int, int]:
        """Whole numbers (a, b) such that the quantile is a / (a + b) in lowest terms."""
        return self.quantile.numerator, self.quantile.denominator - self.quantile.numerator

    def check(self, method: Exponential | Smooth, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY or NOT_IN_PLAN) if it breaks a rule."""
        _check_number(self.attribute, schema, f"{field}.attribute")
        self.grid.check(f"{field}.grid")
        above, below = self.sides
        if not 1 <= above <= MOST_WEIGHT or not 1 <= below <= MOST_WEIGHT:
            limit = f"a / (a + b) in lowest terms, a and b from 1 to {MOST_WEIGHT}"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.quantile", limit)
        if isinstance(method, Exponential) and max(above, below) > method.weight:
            limit = f"a / (a + b), a and b at most the planned weight of {method.weight}"
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.quantile", limit)


class Estimate(msgspec.Struct, frozen=True, tag="estimate", forbid_unknown_fields=True):
    """An estimator's value in each block of records. A block that is too small for it counts as the grid's middle."""

    estimator: Annotated[str, msgspec.Meta(max_length=100)]  # key of `ESTIMATORS`
    # of which; a record that lacks one of them is left out
    attributes: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=MOST_ATTRIBUTES)]
    grid: Grid  # to whose nearest point a block's value is moved

    @property
    def constant(self) -> int:
        """Index for a block that is empty or too small for the estimator."""
        return self.grid.steps // 2

    def check(self, method: Method, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY or NOT_IN_PLAN) if it breaks a rule."""
        kind = ESTIMATORS.get(self.estimator)
        if kind is None:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.estimator", ", ".join(ESTIMATORS))
        if not kind.fewest <= len(self.attributes) <= kind.most:
            limit = f"{kind.fewest}" if kind.fewest == kind.most else f"{kind.fewest} to {kind.most}"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attributes", f"{limit} of them")
        if len(set(self.attributes)) < len(self.attributes):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.attributes", "none twice")
        for index, name in enumerate(self.attributes):
            _check_number(name, schema, f"{field}.attributes[{index}]")
        if kind.of_classes and len(schema.classes) != 2:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.estimator", "one that needs no two classes")
        self.grid.check(f"{field}.grid")
        if isinstance(method, AggregateMean) and self.grid.steps != method.steps:
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.grid.steps", f"exactly {method.steps}")


class Selection(msgspec.Struct, frozen=True, tag="selection", forbid_unknown_fields=True):
    """A question for the partitions that best predict the class."""

    # as many as are chosen, at least
    candidates: Annotated[tuple[Partition, ...], msgspec.Meta(min_length=1, max_length=MOST_CANDIDATES)]
    # of each class, at most the planned weight; empty: 1 each. Where one is rare, its weight lets it count.
    weights: Annotated[tuple[Weight, ...], msgspec.Meta(max_length=256)] = ()

    def check(self, method: Features, schema: Schema, field: str) -> None:
        """Raise RemoteProtocolError(BAD_QUERY or NOT_IN_PLAN) if it breaks a rule."""
        if not schema.classes:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, "a label of classes; this one is a number")
        if len(self.candidates) < method.chosen:
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.candidates", f"at least {method.chosen}")
        if len(self.weights) not in (0, len(schema.classes)):
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, f"{field}.weights", f"none, or {len(schema.classes)}")
        if max(self.weights, default=1) > method.weight:
            limit = f"at most the planned weight of {method.weight}"
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, f"{field}.weights", limit)
        for index, partition in enumerate(self.candidates):
            partition.check(schema, f"{field}.candidates[{index}]")


Item = Quantile | Estimate | Selection


def item_for(method: Method) -> type[Item]:
    """Type of the items that a method answers."""
    if isinstance(method, Features):
        return Selection
    return Quantile if isinstance(method, Exponential | Smooth) else Estimate


def _check_number(name: str, schema: Schema, field: str) -> None:
    """Raise RemoteProtocolError(BAD_QUERY) unless the name is a numeric attribute or numeric label."""
    attribute: Any = schema.find(name)
    is_label = name == schema.label and schema.label_bounds is not None
    if not is_label and (attribute is None or isinstance(attribute, CategoricalAttribute)):
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, field, "a numeric attribute of the card, or a numeric label")
