"""A score's performance with intervals, from draws of the class counts in its bins, and its tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from learner_node.scores.thresholds import Threshold, read_thresholds
from protocol.errors import ConfigurationError

if TYPE_CHECKING:
    import polars as pl

    from learner_node.scores.score_posterior import CountDraws

Floats = NDArray[np.float64]

LEVEL = 0.95
"""Level of every interval."""
HALF_A_RECORD = 0.5
RESOLUTION = 1000
"""Interval ends of shares are rounded outwards to multiples of one over this."""
RULES = ", "
"""Separator between the rules of one threshold."""
_SAME = 1e-9


@dataclass(frozen=True)
class Interval:
    """A quantity: posterior median, and the ends of its central 95 % interval; `low <= value <= high`."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    @classmethod
    def of(cls, draws: Floats) -> "Interval":
        """The interval of (S,) draws."""
        low, value, high = np.quantile(draws, ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
        return cls(float(value), float(low), float(high))

    @classmethod
    def of_share(cls, part: Floats, rest: Floats) -> "Interval":
        """The interval of part / (part + rest), from draws of expected counts, (S,) each.

        An end that leaves less than half a record on one side is set to 0 or 1, as in the modified Jeffreys interval
        (Brown, Cai and DasGupta 2001, section 4.1.1). Ends are rounded outwards. An area is such a share of the rarer
        class.
        """
        share = cls.of(part / (part + rest))
        none, all_ = (float(np.quantile(side, (1 - LEVEL) / 2)) < HALF_A_RECORD for side in (part, rest))
        low = 0.0 if none else float(np.floor(share.low * RESOLUTION)) / RESOLUTION
        high = 1.0 if all_ else float(np.ceil(share.high * RESOLUTION)) / RESOLUTION
        return cls(share.value, max(low, 0.0), min(high, 1.0))


Estimate = TypeVar("Estimate", bound=Interval)
SHARES = ("flagged", "sensitivity", "specificity", "ppv", "npv")
"""Names of an operating point's shares."""


@dataclass(frozen=True)
class OperatingPoint(Generic[Estimate]):
    """Shares, 0 to 1, if every record at or above a threshold is called positive."""

    rule: str  # that asked for it, in words; "" for any other edge between bins
    threshold: float  # probability; at exactly 1/2 it is the class that the hypothesis predicts: above one half
    flagged: Estimate  # share of the records that are called positive
    sensitivity: Estimate  # share of class 1 that is
    specificity: Estimate  # share of class 0 that is not
    ppv: Estimate  # share of class 1 among those that are
    npv: Estimate  # share of class 0 among those that are not


@dataclass(frozen=True)
class CalibrationBin:
    """Predicted and observed shares of class 1 in one bin of the score; shares, 0 to 1."""

    lower: float  # probabilities that the bin holds, the upper end excluded
    upper: float
    predicted: float  # mean probability of the source's records in the bin; the middle of the bin where it has none
    records: Interval  # share of the private records that lie in it
    observed: Interval  # share of class 1 among these


@dataclass(frozen=True)
class Performance:
    """Performance of a score on the population behind some records."""

    records: Interval  # estimated number of records that were counted
    prevalence: Interval  # share of class 1
    area: Interval  # under the ROC curve
    points: tuple[OperatingPoint[Interval], ...]  # one for each edge between bins, by rising threshold
    calibration: tuple[CalibrationBin, ...]  # the bins, by rising score

    @property
    def auc(self) -> float:
        """Area under the ROC curve, posterior median."""
        return self.area.value

    @property
    def auc_interval(self) -> tuple[float, float]:
        """Ends of its 95 % interval."""
        return self.area.low, self.area.high

    @cached_property
    def roc(self) -> Floats:
        """The ROC curve, (k + 1, 2): false and true positive rates, both non-decreasing, from (0, 0) to (1, 1).

        Rows are posterior medians at the edges between bins; the curve between them is linear.
        """
        inner = [(1.0 - point.specificity.value, point.sensitivity.value) for point in reversed(self.points)]
        return np.array([(0.0, 0.0), *inner, (1.0, 1.0)])

    def at(self, threshold: Threshold) -> OperatingPoint[Interval]:
        """The operating point at a threshold: a probability at an edge, or a rule as requested, "10%" or "prevalence".

        Raises ConfigurationError: no bin ends there; the text lists the thresholds.
        """
        (rule,) = read_thresholds([threshold])
        for point in self.points:
            near = rule.kind == "probability" and abs(point.threshold - rule.value) < _SAME
            if near or rule.name in point.rule.split(RULES):
                return point
        edges = ", ".join(f"{point.threshold:.4g}" for point in self.points)
        raise ConfigurationError(
            f"no bin ends at the threshold {threshold}: name it in thresholds when you ask. Known: {edges or 'none'}"
        )

    @property
    def chosen_points(self) -> tuple[OperatingPoint[Interval], ...]:
        """The requested operating points."""
        return tuple(point for point in self.points if point.rule)


def performance(
    draws: "CountDraws", thresholds: Sequence[float], predicted: Sequence[float], rules: Sequence[str] = ()
) -> Performance:
    """Summarise draws of the counts in k bins.

    `thresholds` (k - 1,) are the probabilities between bins, rising; `predicted` (k,) are the bins' mean probabilities;
    `rules` (k - 1,) requested the thresholds, "" for none; an empty sequence means no rules at all.
    """
    counts = draws.expected
    total = counts.sum(axis=(1, 2))
    ones = counts[..., 1].sum(axis=1)
    rarer = np.minimum(ones, total - ones)
    below = np.cumsum(counts, axis=1)
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    edges = [0.0, *thresholds, 1.0]
    named = rules or [""] * len(thresholds)
    points = []
    for index, threshold in enumerate(thresholds):
        (negative, missed), (false, hit) = below[:, index].T, above[:, index + 1].T
        points.append(
            OperatingPoint(
                threshold=float(threshold),
                rule=named[index],
                flagged=Interval.of_share(hit + false, missed + negative),
                sensitivity=Interval.of_share(hit, missed),
                specificity=Interval.of_share(negative, false),
                ppv=Interval.of_share(hit, false),
                npv=Interval.of_share(negative, missed),
            )
        )
    sizes = counts.sum(axis=2)
    return Performance(
        records=Interval.of(total),
        prevalence=Interval.of_share(ones, counts[..., 0].sum(axis=1)),
        area=Interval.of_share(draws.area * rarer, (1.0 - draws.area) * rarer),
        points=tuple(points),
        calibration=tuple(
            CalibrationBin(
                lower=float(edges[j]),
                upper=float(edges[j + 1]),
                predicted=float(predicted[j]),
                records=Interval.of(sizes[:, j] / total),
                observed=Interval.of_share(counts[:, j, 1], counts[:, j, 0]),
            )
            for j in range(counts.shape[1])
        ),
    )


def point_rows(site: str, performance: Performance) -> list[dict[str, float | str]]:
    """One row for each operating point, for a data frame."""
    rows = []
    for point in performance.points:
        row: dict[str, float | str] = {"site": site, "rule": point.rule, "threshold": point.threshold}
        for name in SHARES:
            interval: Interval = getattr(point, name)
            row |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
        rows.append(row)
    return rows


def calibration_rows(site: str, performance: Performance) -> list[dict[str, float | str]]:
    """One row for each bin, for a data frame."""
    return [
        {
            "site": site,
            "lower": bin_.lower,
            "upper": bin_.upper,
            "predicted": bin_.predicted,
            "records": bin_.records.value,
            "observed": bin_.observed.value,
            "observed_low": bin_.observed.low,
            "observed_high": bin_.observed.high,
        }
        for bin_ in performance.calibration
    ]


def points_table(performance: Performance) -> list[str]:
    """Lines of a table of the requested operating points."""
    points = performance.chosen_points or performance.points
    width = max((len(point.rule) for point in points), default=0)
    heads = "".join(f"{name.upper() if len(name) == 3 else name:>18}" for name in SHARES)
    lines = [f"  {'':{width}}  threshold{heads}"]
    for point in points:
        shares = "".join(f"{_cell(getattr(point, name)):>18}" for name in SHARES)
        lines.append(f"  {point.rule:{width}}{point.threshold:>11.3f}{shares}")
    return lines


def calibration_table(performance: Performance) -> list[str]:
    """Lines of a table of the bins."""
    lines = ["  predicted              observed   share of records"]
    lines += [
        f"  {bin_.predicted:>9.3f}{_cell(bin_.observed):>22}{bin_.records.value:>19.3f}"
        for bin_ in performance.calibration
    ]
    return lines


def as_frame(rows: Sequence[dict[str, float | str]]) -> "pl.DataFrame":
    """Turn rows into a data frame."""
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame(rows, infer_schema_length=None)


def _cell(interval: Interval) -> str:
    return f"{interval.value:.2f} ({interval.low:.2f}-{interval.high:.2f})"
