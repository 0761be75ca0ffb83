"""Clinical results of a run, as values: calibration, ROC, thresholds, numbers of records, parts of an additive model.

All are means over repeats, each computed on the test records of that repeat; a standard error is over repeats, None
where there is one. What each figure means is in docs/clinical.md.
"""

import math

from simulations.report.checks import Checked, ErrorValue, Share, check_interval

GRID = tuple(k / 100 for k in range(101))
"""False positive rates at which a ROC curve is kept."""


class CalibrationCurve(Checked, frozen=True, kw_only=True):
    """Predicted against observed share of the positive class, in tenths of the test records by risk.

    Attributes:
        counts: records of each bin, over all repeats.
        predicted: mean probability of each bin.
        observed: share of the positive class.
        observed_se: its standard error.
    """

    counts: tuple[int, ...]
    predicted: tuple[Share, ...]
    observed: tuple[Share, ...]
    observed_se: tuple[ErrorValue | None, ...]

    def __post_init__(self) -> None:
        """Refuse bins that do not fit each other."""
        if not len(self.counts) == len(self.predicted) == len(self.observed) == len(self.observed_se):
            raise ValueError("a calibration curve has one count, prediction, observation and error a bin")
        super().__post_init__()


class RocCurve(Checked, frozen=True, kw_only=True):
    """Sensitivity at the false positive rates of `GRID`, averaged over repeats at each rate.

    Attributes:
        sensitivity: 101 values.
        sensitivity_se: their standard errors; None where there is one repeat.
    """

    sensitivity: tuple[Share, ...]
    sensitivity_se: tuple[Share, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a curve that does not fit the grid."""
        for values in (self.sensitivity, self.sensitivity_se or self.sensitivity):
            if len(values) != len(GRID):
                raise ValueError(f"a ROC curve has {len(GRID)} values, not {len(values)}")
        super().__post_init__()


class ThresholdScore(Checked, frozen=True, kw_only=True):
    """What follows from flagging every record whose probability lies above a threshold.

    Attributes:
        rule: how the threshold was chosen, in words.
        threshold: probability.
        flagged: share of records that are flagged.
        sensitivity: share of the positive class that is flagged.
        specificity: share of the negative class that is not.
        ppv: share of the positive class among the flagged.
        npv: share of the negative class among the others.
        sensitivity_se, specificity_se, ppv_se, npv_se: standard errors.

    Each is None where no repeat has a record that it is a share of.
    """

    rule: str
    threshold: Share
    flagged: Share
    sensitivity: Share | None
    specificity: Share | None
    ppv: Share | None
    npv: Share | None
    sensitivity_se: ErrorValue | None = None
    specificity_se: ErrorValue | None = None
    ppv_se: ErrorValue | None = None
    npv_se: ErrorValue | None = None


class RecordCounts(Checked, frozen=True, kw_only=True):
    """How many records a site has in the first repeat: counted by a simulation, which owns them, never by a curator.

    Attributes:
        curator: the site.
        private: records that its curator counts.
        source: records that learners may hold, without labels.
        test: records for scores.
        positive: share of the positive class among all three; None where there are not two classes.
        held: records that its curator holds: those beyond the bound of a privacy unit are not counted.
    """

    curator: str
    private: int
    source: int
    test: int
    held: int
    positive: Share | None = None

    @property
    def total(self) -> int:
        """Records of the site."""
        return self.private + self.source + self.test


class PartBin(Checked, frozen=True, kw_only=True):
    """One bin of an attribute.

    Attributes:
        label: a range, a level, "other" or "missing".
        share: of the records that are in it, 0 to 1.
        log_odds: contribution to the log-odds of the positive class, less its mean over the records.
        lower, upper: its 95 % band.
    """

    label: str
    share: Share
    log_odds: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse what is no share, no number, or outside its band."""
        super().__post_init__()
        if not all(map(math.isfinite, (self.log_odds, self.lower, self.upper))):
            raise ValueError("log-odds and their band must be finite")
        check_interval(self.log_odds, self.lower, self.upper)


class Part(Checked, frozen=True, kw_only=True):
    """What one attribute contributes; numeric bins are in their order."""

    attribute: str
    numeric: bool
    bins: tuple[PartBin, ...]
