"""What a learner expected of its model, as values of a run's report."""

from simulations.report.checks import Checked, ErrorValue, ScoreValue, Share, check_interval


class Expected(Checked, frozen=True, kw_only=True):
    """What a learner expected of its model, from the noisy answers alone; all but R^2 and errors are shares, 0 to 1.

    Attributes:
        accuracy: mean over repeats of its estimates of the score: accuracy, or R^2.
        low, high: mean ends of its 95 % intervals.
        beats_majority: share of repeats in which it concluded that its model beats the majority class, or the mean.
        coverage: share of repeats whose interval agrees with the score on the test records, which the harness
            alone sees; the interval is widened by the chance error of that score.
        auc, auc_low, auc_high: as `accuracy`, `low` and `high`, of the AUC; None where there was no such estimate.
        ranks: share of repeats in which it concluded that its model ranks records better than chance.
        auc_coverage: as `coverage`, of the AUC; None where no repeat's test records have both classes.
        absolute, absolute_low, absolute_high, absolute_coverage: likewise, of the mean absolute error of a number, in
            its units; None where it was not asked.
    """

    accuracy: ScoreValue
    low: ScoreValue
    high: ScoreValue
    beats_majority: Share
    coverage: Share
    auc: Share | None = None
    auc_low: Share | None = None
    auc_high: Share | None = None
    ranks: Share | None = None
    auc_coverage: Share | None = None
    absolute: ErrorValue | None = None
    absolute_low: ErrorValue | None = None
    absolute_high: ErrorValue | None = None
    absolute_coverage: Share | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a share or score, and an interval that does not hold its estimate."""
        super().__post_init__()
        check_interval(self.accuracy, self.low, self.high)
        check_interval(self.auc, self.auc_low, self.auc_high)
        check_interval(self.absolute, self.absolute_low, self.absolute_high)


class ClassRecall(Checked, frozen=True, kw_only=True):
    """Of several classes, the share of one's records that are called so; shares, 0 to 1.

    Attributes:
        name: of the class.
        recall: on the test records, mean over the repeats whose test records have any of it; None where none has.
        ceiling: that of the ceiling.
        expected, low, high: by the learner, means over repeats of estimate and 95 % interval; None where its answers
            cannot tell.
        coverage: share of repeats whose interval agrees with the recall on the test records, as `Expected.coverage`.
    """

    name: str
    recall: Share | None
    ceiling: Share | None
    expected: Share | None = None
    low: Share | None = None
    high: Share | None = None
    coverage: Share | None = None


class ClassShare(Checked, frozen=True, kw_only=True):
    """How common a class is among the private records that count, 0 to 1; means over the repeats that tell it.

    Attributes:
        name: of the class.
        share: of those records of the curators that answered, by the harness.
        expected, low, high: by the learner, from the totals of the noisy answers, with a 95 % interval for the
            population behind the records.
        coverage: fraction of these repeats whose interval holds `share`.
        repeats: their number.
    """

    name: str
    share: Share
    expected: Share
    low: Share
    high: Share
    coverage: Share
    repeats: int

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its estimate."""
        super().__post_init__()
        check_interval(self.expected, self.low, self.high)
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")

    @property
    def held(self) -> str:
        """How many repeats' intervals hold the share, in words."""
        return f"{round(self.coverage * self.repeats)} of {self.repeats}"
