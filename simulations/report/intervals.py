"""Intervals of a report's scores, wide enough that chance alone rarely makes a hospital look different.

A report has the standard error of a score over its repeats. Repeats draw other test records and other noise, but from
the same patients: where these are few, all repeats may err alike. So the variance that repeats share is added. Nothing
is imported that takes time to load, as a stored run's page is made without the libraries that make a run.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

from learner_node.scores.auc import auc_error

LEVEL = 0.95
_MANY = 200
"""Degrees of freedom above which Student's t is taken for normal."""


@dataclass(frozen=True)
class Estimate:
    """A number and the two parts of its standard error; a part that is None is not known."""

    value: float
    repeats_se: float | None  # what differs from repeat to repeat: noise, models, the records drawn for the test
    records_se: float | None = None  # what all repeats share: the hospital's patients
    freedom: float = math.inf  # degrees of freedom of `repeats_se`

    @property
    def se(self) -> float | None:
        """Standard error; None if no part is known."""
        parts = [part for part in (self.repeats_se, self.records_se) if part is not None]
        return math.hypot(*parts) if parts else None

    def half_width(self, level: float = LEVEL) -> float | None:
        """Half the width of the interval at a level; None if there is none.

        Degrees of freedom are those of Welch (1947, Eq. 28), with the records' part taken as exact.
        """
        if self.se is None:
            return None
        share = (self.repeats_se or 0.0) / self.se if self.se else 0.0
        return student(level, self.freedom / share**4 if share else math.inf) * self.se

    def ends(self, least: float, most: float) -> tuple[float, float] | None:
        """The 95 % interval within bounds; None if there is none."""
        wide = self.half_width()
        return None if wide is None else (max(least, self.value - wide), min(most, self.value + wide))

    def minus(self, other: "Estimate") -> "Estimate":
        """The difference to an independent estimate."""
        return Estimate(
            self.value - other.value,
            _joint(self.repeats_se, other.repeats_se),
            _joint(self.records_se, other.records_se),
            min(self.freedom, other.freedom),
        )

    def side(self, level: float = LEVEL) -> int:
        """1 if the interval at that level lies above 0, -1 if below, else 0."""
        wide = self.half_width(level)
        return 0 if wide is None or abs(self.value) <= wide else int(math.copysign(1, self.value))


def _joint(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else math.hypot(first, second)


@dataclass(frozen=True)
class Sample:
    """How the records of a score were drawn: in each repeat anew, so many of all."""

    test: int  # records of a repeat
    total: int  # different records in all
    repeats: int

    def parts(self, error: float) -> tuple[float, float]:
        """The parts of a mean over repeats: what differs between repeats and what they share.

        `error` is the standard error of a score of one repeat by its `test` records. Two random tests of a hospital's
        records share the part test / total of their variance.
        """
        shared = self.test / max(self.total, self.test)
        return error / math.sqrt(self.repeats), error * math.sqrt((1 - 1 / self.repeats) * shared)


def with_common_scale(
    estimates: Mapping[str, Estimate], units: Mapping[str, float], repeats: int
) -> dict[str, Estimate]:
    """Estimates of several hospitals whose errors over repeats are told by all of them together.

    Three repeats tell a standard error poorly; three repeats of each of four hospitals tell it better. A hospital's
    error over repeats is its unit times a factor that all share, the root of the mean square.

    Args:
        estimates: by hospital, each with an error over repeats.
        units: by hospital, to what the error of one repeat is proportional if nothing but the drawn records differ.
        repeats: at least 2.
    """
    squares = [repeats * ((estimate.repeats_se or 0.0) / units[name]) ** 2 for name, estimate in estimates.items()]
    factor, freedom = math.sqrt(sum(squares) / len(squares)), len(squares) * (repeats - 1)
    return {
        name: replace(estimate, repeats_se=units[name] * factor / math.sqrt(repeats), freedom=freedom)
        for name, estimate in estimates.items()
    }


def share_error(share: float, records: float) -> float:
    """Standard error of a share of so many records; never 0, as half a record is added on both sides."""
    near = (share * records + 0.5) / (records + 1)
    return math.sqrt(near * (1 - near) / records)


def area_error(area: float, records: float, positive: float) -> float:
    """Standard error of an area under the ROC curve by so many records, of which the share `positive` is of class 1.

    It is never 0, as half a record of the rarer class is added on both sides: a ranking of few that is all right, or
    all wrong, may be so by chance.
    """
    ones = max(1.0, positive * records)
    zeros = max(1.0, records - ones)
    near = (area * min(ones, zeros) + 0.5) / (min(ones, zeros) + 1)
    return float(auc_error(near, ones, zeros))


def difference_error(value: float, constant: float, records: float) -> float:
    """Most that the standard error of accuracy less a constant's accuracy on the same records can be.

    The variance of a record's difference is at most the share of records on which the two disagree in being right. That
    share is largest where all that one gets wrong is right in the other.
    """
    disagree = min(2 * min(value, 1 - constant) - (value - constant), 2 * min(1 - value, constant) + (value - constant))
    return math.sqrt(max(disagree - (value - constant) ** 2, 0.25 / records) / records)


def student(level: float, freedom: float) -> float:
    """The number that Student's t exceeds in absolute value with probability 1 - `level`; `freedom` is at least 1.

    Degrees of freedom are rounded down. The distribution function is the finite sum of Abramowitz and Stegun (1964),
    26.7.3 and 26.7.4.
    """
    if freedom > _MANY:
        return NormalDist().inv_cdf((1 + level) / 2)
    return _inverse(lambda t: _within(t, math.floor(freedom + 1e-9)), level)


def _within(t: float, freedom: int) -> float:
    """Probability that abs(T) <= t."""
    angle = math.atan2(t, math.sqrt(freedom))
    term, total = (1.0, 0.0) if freedom % 2 == 0 else (math.cos(angle), 0.0)
    for k in range(1 + freedom % 2, freedom, 2):
        total += term
        term *= math.cos(angle) ** 2 * k / (k + 1)
    total *= math.sin(angle)
    return total if freedom % 2 == 0 else 2 / math.pi * (angle + total)


def _inverse(rising: Callable[[float], float], level: float) -> float:
    """Where a rising function of a positive number reaches a level, by bisection."""
    low, high = 0.0, 1.0
    while rising(high) < level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return high
