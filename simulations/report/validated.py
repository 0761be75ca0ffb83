"""What a validation told a learner, beside what only the harness knows, as values."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from simulations.report.checks import Checked, Share, check_interval


class Told(Checked, frozen=True, kw_only=True):
    """One quantity as the answers tell it, with its 95 % interval; a share, 0 to 1.

    Attributes:
        value, low, high: posterior median, and ends of the interval.
        exact: of the private records that are counted; only the harness knows it. None where it is a share of none.
    """

    value: Share
    low: Share
    high: Share
    exact: Share | None

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its value."""
        super().__post_init__()
        check_interval(self.value, self.low, self.high)

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the exact value; None where there is none."""
        return None if self.exact is None else self.low <= self.exact <= self.high


class ValidatedPoint(Checked, frozen=True, kw_only=True):
    """What flagging the records at or above a threshold does; `rule` is "" for an edge that nobody asked for."""

    rule: str
    threshold: float
    flagged: Told
    sensitivity: Told
    specificity: Told
    ppv: Told
    npv: Told


class ValidatedBin(Checked, frozen=True, kw_only=True):
    """A bin of the score: mean probability foretold on the source, and the share of the positive class."""

    predicted: float
    observed: Told


class ValidatedSite(Checked, frozen=True, kw_only=True):
    """One curator; `exact` of its area is None where its records lack a class."""

    curator: str
    area: Told
    prevalence: Told


class Recalibrated(Checked, frozen=True, kw_only=True):
    """What a validation's answers make of the model's risks; fitted to them, so no validation.

    Attributes:
        on: whether the answers speak for the map; where they do not, the risks stay as they are.
        factor: the Bayes factor that decides it.
        intercept, slope: of the logit: posterior median, and ends of the 95 % interval.
        fitted: in each bin of the score, the mean risk that the recalibrated model gives the source's records, 0 to 1.
        brier, brier_raw: on the test records, by the harness: of the recalibrated model, and of the model as it was;
            None where there are none.
    """

    on: bool
    factor: float
    intercept: tuple[float, float, float]
    slope: tuple[float, float, float]
    fitted: tuple[Share, ...]
    brier: Share | None = None
    brier_raw: Share | None = None

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its value."""
        super().__post_init__()
        check_interval(*self.intercept)
        check_interval(*self.slope)


class ValidationReport(Checked, frozen=True, kw_only=True):
    """A learner's validation; of the first repeat that has one, where nothing else is said.

    Attributes:
        epsilon_claimed: exact cost of the question.
        epsilon_spent: exact; the most that any ledger charged to it, over the repeats.
        records: estimated number of records.
        prevalence: share of the positive class.
        points: operating points by rising threshold.
        calibration: bins by rising score.
        sites: by curator.
        rank_correlation, same_class: of the network that was validated with the model; None where it is the model.
        areas: area under the ROC curve, one for each repeat that has a validation.
        recalibrated: by the same answers; None where nobody asked for it.
    """

    epsilon_claimed: str
    epsilon_spent: str
    records: float
    prevalence: Told
    points: tuple[ValidatedPoint, ...]
    calibration: tuple[ValidatedBin, ...]
    sites: tuple[ValidatedSite, ...]
    areas: tuple[Told, ...]
    rank_correlation: float | None = None
    same_class: float | None = None
    recalibrated: Recalibrated | None = None

    @property
    def area(self) -> Told:
        """Of the first repeat that has a validation."""
        return self.areas[0]

    @property
    def asked(self) -> tuple[ValidatedPoint, ...]:
        """The operating points that were asked for."""
        return tuple(point for point in self.points if point.rule)

    @property
    def held(self) -> str:
        """How many repeats' intervals of the area hold the exact one, in words."""
        known = [area.holds for area in self.areas if area.holds is not None]
        return f"{sum(known)} of {len(known)}"


def joined(reports: Sequence[ValidationReport]) -> ValidationReport | None:
    """The reports of several repeats as one; None where there is none."""
    if not reports:
        return None
    return msgspec.structs.replace(
        reports[0],
        areas=tuple(area for report in reports for area in report.areas),
        epsilon_spent=max((report.epsilon_spent for report in reports), key=Fraction),
    )
