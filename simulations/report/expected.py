"""What a learner expected of its model, as values of a run's report."""

import msgspec

from simulations.report.checks import check_errors, check_scores, check_shares


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    accuracy: float
    low: float
    high: float
    beats_majority: float
    coverage: float
    auc: float | None = None
    auc_low: float | None = None
    auc_high: float | None = None
    ranks: float | None = None
    auc_coverage: float | None = None
    absolute: float | None = None
    absolute_low: float | None = None
    absolute_high: float | None = None
    absolute_coverage: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a share or score, and an interval that does not hold its estimate."""
        check_scores(accuracy=self.accuracy, low=self.low, high=self.high)
        check_errors(absolute=self.absolute, absolute_low=self.absolute_low, absolute_high=self.absolute_high)
        check_shares(
            absolute_coverage=self.absolute_coverage,
            beats_majority=self.beats_majority,
            coverage=self.coverage,
            auc=self.auc,
            auc_low=self.auc_low,
            auc_high=self.auc_high,
            ranks=self.ranks,
            auc_coverage=self.auc_coverage,
        )
        for low, middle, high in (
            (self.low, self.accuracy, self.high),
            (self.auc_low, self.auc, self.auc_high),
            (self.absolute_low, self.absolute, self.absolute_high),
        ):
            known = (low or 0.0, middle or 0.0, high or 0.0)
            if not known[0] <= known[1] <= known[2]:
                raise ValueError(f"expected: {middle} does not lie between {low} and {high}")


class ClassRecall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    recall: float | None
    ceiling: float | None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    coverage: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        check_shares(**{name: getattr(self, name) for name in self.__struct_fields__ if name != "name"})


class ClassShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    share: float
    expected: float
    low: float
    high: float
    coverage: float
    repeats: int

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its estimate."""
        check_shares(share=self.share, expected=self.expected, low=self.low, high=self.high, coverage=self.coverage)
        if not self.low <= self.expected <= self.high:
            raise ValueError(f"expected share: {self.expected} does not lie between {self.low} and {self.high}")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")

    @property
    def held(self) -> str:
        """How many repeats' intervals hold the share, in words."""
        return f"{round(self.coverage * self.repeats)} of {self.repeats}"
