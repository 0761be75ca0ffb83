"""Clinical results of a run, as values: calibration, ROC, what a threshold does, and how many records there are.

All are means over repeats, each computed on the test records of that repeat; a standard error is over repeats, None
where there is one. What each figure means is in docs/clinical.md.
"""

import msgspec

from simulations.report.checks import check_errors, check_shares

GRID = tuple(k / 100 for k in range(101))
"""False positive rates at which a ROC curve is kept."""


class CalibrationCurve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Predicted against observed share of the positive class, in tenths of the test records by risk.

    Attributes:
        counts: records of each bin, over all repeats.
        predicted: mean probability of each bin.
        observed: share of the positive class.
        observed_se: its standard error.
    """

    counts: tuple[int, ...]
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    observed_se: tuple[float | None, ...]

    def __post_init__(self) -> None:
        """Refuse bins that do not fit each other."""
        if not len(self.counts) == len(self.predicted) == len(self.observed) == len(self.observed_se):
            raise ValueError("a calibration curve has one count, prediction, observation and error a bin")
        for predicted, observed, error in zip(self.predicted, self.observed, self.observed_se, strict=True):
            check_shares(predicted=predicted, observed=observed)
            check_errors(observed_se=error)


class RocCurve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sensitivity at the false positive rates of `GRID`, averaged over repeats at each rate.

    Attributes:
        sensitivity: 101 values.
        sensitivity_se: their standard errors; None where there is one repeat.
    """

    sensitivity: tuple[float, ...]
    sensitivity_se: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a curve that does not fit the grid."""
        for values in (self.sensitivity, self.sensitivity_se or self.sensitivity):
            if len(values) != len(GRID):
                raise ValueError(f"a ROC curve has {len(GRID)} values, not {len(values)}")
            for value in values:
                check_shares(sensitivity=value)


class ThresholdScore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    threshold: float
    flagged: float
    sensitivity: float | None
    specificity: float | None
    ppv: float | None
    npv: float | None
    sensitivity_se: float | None = None
    specificity_se: float | None = None
    ppv_se: float | None = None
    npv_se: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        check_shares(
            threshold=self.threshold,
            flagged=self.flagged,
            sensitivity=self.sensitivity,
            specificity=self.specificity,
            ppv=self.ppv,
            npv=self.npv,
        )
        check_errors(
            sensitivity_se=self.sensitivity_se,
            specificity_se=self.specificity_se,
            ppv_se=self.ppv_se,
            npv_se=self.npv_se,
        )


class RecordCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    positive: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        check_shares(positive=self.positive)

    @property
    def total(self) -> int:
        """Records of the site."""
        return self.private + self.source + self.test
