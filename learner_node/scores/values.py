"""Scores, shares and errors whose types state bounds that are checked at construction, and a share's interval."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

LEAST_SCORE = -1e6
"""Lower bound at which reports clip R^2."""
NORMAL = 1.959964
"""Half-width of a 95 % interval in standard errors."""
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
ScoreValue = Annotated[float, msgspec.Meta(ge=LEAST_SCORE, le=1)]
ErrorValue = Annotated[float, msgspec.Meta(ge=0, le=-LEAST_SCORE)]


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A struct that refuses numbers beyond the bounds of its fields' types, also in tuples; NaN is refused."""

    def __post_init__(self) -> None:
        for name, bounds in _bounds(type(self)).items():
            check_bounds(bounds, **{name: getattr(self, name)})


@cache
def _bounds(kind: type) -> dict[str, msgspec.Meta]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: bounds for name, hint in hints.items() if (bounds := next(_metas(hint), None))}


def _metas(hint: Any) -> Iterator[msgspec.Meta]:
    yield from getattr(hint, "__metadata__", ())
    for inner in get_args(hint):
        yield from _metas(inner)


def check_bounds(bounds: msgspec.Meta, **values: Any) -> None:
    """Raise ValueError for values beyond the bounds."""
    low, high = bounds.ge or 0, bounds.le or 0
    for name, value in values.items():
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not low <= number <= high:
                raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {number!r}")


def check_shares(**shares: float | None) -> None:
    """Raise ValueError for numbers outside 0 to 1."""
    check_bounds(get_args(Share)[1], **shares)


def check_interval(value: float | None, low: float | None, high: float | None) -> None:
    """Raise ValueError for an interval that does not contain its value; None passes."""
    if not (low or 0.0) <= (value or 0.0) <= (high or 0.0):
        raise ValueError(f"{value} does not lie between {low} and {high}")


def check_distinct(noun: str, names: Iterable[str]) -> None:
    """Raise ValueError for a repeated name."""
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count > 1:
        raise ValueError(f"{noun} named twice: {name!r}")


class CalibrationCurve(Checked, frozen=True, kw_only=True):
    """Predicted against observed frequency of class 1, in b bins of equal mass, by ascending probability.

    Over several repeats, counts are summed and frequencies averaged; errors are those of the means.
    """

    counts: tuple[int, ...]  # records of each bin, at least 1
    predicted: tuple[Share, ...]  # mean probability of class 1, not decreasing
    observed: tuple[Share, ...]  # share of class 1; records of one probability each count as their common share
    observed_se: tuple[ErrorValue | None, ...]  # binomial, or over repeats

    def __post_init__(self) -> None:
        if not len(self.counts) == len(self.predicted) == len(self.observed) == len(self.observed_se):
            raise ValueError("a calibration curve has one count, prediction, observation and error a bin")
        super().__post_init__()


class ThresholdScore(Checked, frozen=True, kw_only=True):
    """The result of flagging every record whose probability exceeds a threshold.

    A share is None if its denominator is 0. Standard errors are over repeats, None for a single one.
    """

    rule: str  # how the threshold was chosen, in words
    threshold: Share
    flagged: Share
    sensitivity: Share | None  # share of class 1 that is flagged
    specificity: Share | None  # share of class 0 that is not
    ppv: Share | None  # share of class 1 among the flagged
    npv: Share | None  # share of class 0 among the others
    sensitivity_se: ErrorValue | None = None
    specificity_se: ErrorValue | None = None
    ppv_se: ErrorValue | None = None
    npv_se: ErrorValue | None = None


def wilson(share: float, records: float, quantile: float = NORMAL) -> tuple[float, float]:
    """Ends of the interval of a share of records (Wilson 1927); `records`, greater than 0, may be a mean.

    `quantile` is the half-width in standard errors, by default of a 95 % interval.
    """
    weight = quantile**2 / records
    middle = (share + weight / 2) / (1 + weight)
    half = quantile / (1 + weight) * math.sqrt(share * (1 - share) / records + weight / (4 * records))
    # Rounding does not put an end beyond the share.
    return min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half))
