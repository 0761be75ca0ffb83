"""The numbers of one simulation run, as values: what a report shows and nothing else.

Every type is frozen, checks itself when it is made, and survives JSON without loss. Budgets are text, because they
are exact rationals ("1", "0.25", "1/3"); accuracies are shares between 0 and 1, R^2 is at most 1.
Scores are means over repeats, each computed on the test records of that repeat; a standard error is over repeats, None
where there is one. docs/clinical.md says what each clinical figure means.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from learner_node.scores.performance import Interval, OperatingPoint
from learner_node.scores.values import (
    CalibrationCurve,
    Checked,
    ErrorValue,
    ScoreValue,
    Share,
    ThresholdScore,
    check_distinct,
    check_interval,
    check_shares,
)
from simulations.report.budget import CuratorReport, StudyReport, exact

RELEASE = "release"
REFUSAL = "refusal"
LATE = "late"
VANISHED = "vanished"
LEFT_OUT = "left out"
RARE = 0.3
"""An outcome is rare where its smaller class has less than this share of the test records: then AUC leads."""

_OUTCOME = re.compile(r"release|late|vanished|left out|refusal:[^\s:][^\n]*")

MeasureName = Literal["accuracy", "R²", "AUC"]
CHANCE = 0.5
"""AUC of any ranking that does not look at the records."""
GRID = tuple(k / 100 for k in range(101))
"""False positive rates at which a ROC curve is kept."""


class RocCurve(Checked, frozen=True, kw_only=True):
    """Sensitivity at the 101 false positive rates of `GRID`, averaged over repeats at each rate."""

    sensitivity: tuple[Share, ...]
    sensitivity_se: tuple[Share, ...] | None = None  # None where there is one repeat

    def __post_init__(self) -> None:
        """Refuse a curve that does not fit the grid."""
        for values in (self.sensitivity, self.sensitivity_se or self.sensitivity):
            if len(values) != len(GRID):
                raise ValueError(f"a ROC curve has {len(GRID)} values, not {len(values)}")
        super().__post_init__()


class RecordCounts(Checked, frozen=True, kw_only=True):
    """How many records a site has in the first repeat: counted by a simulation, which owns them, never by a curator."""

    curator: str
    private: int  # records that its curator counts
    source: int  # records that learners may hold, without labels
    test: int  # records for scores
    held: int  # records that its curator holds: those beyond the bound of a privacy unit are not counted
    positive: Share | None = None  # share of the positive class among all of them; None where there are not two classes

    @property
    def total(self) -> int:
        """Records of the site."""
        return self.private + self.source + self.test


class PartBin(Checked, frozen=True, kw_only=True):
    """One bin of an attribute, as `ShapeBin` of the additive model has it."""

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


class Expected(Checked, frozen=True, kw_only=True):
    """What a learner expected of its model, from the noisy answers alone: means over repeats.

    Each estimate has the ends of its 95 % interval, and a coverage: the share of repeats whose interval agrees with the
    score on the test records, which only the harness sees. For that the interval is widened by the chance error of the
    score. What the learner cannot tell, or was not asked, is None.
    """

    value: ScoreValue = msgspec.field(name="accuracy")  # the report's measure: accuracy, or R^2
    low: ScoreValue
    high: ScoreValue
    beats_majority: Share  # share of repeats in which it concluded that its model beats the best constant
    coverage: Share
    auc: Share | None = None
    auc_low: Share | None = None
    auc_high: Share | None = None
    ranks: Share | None = None  # share of repeats in which it concluded that its model ranks better than chance
    auc_coverage: Share | None = None
    absolute: ErrorValue | None = None  # mean absolute error of a number, in its units
    absolute_low: ErrorValue | None = None
    absolute_high: ErrorValue | None = None
    absolute_coverage: Share | None = None

    def __post_init__(self) -> None:
        """Refuse what is not a share or score, and an interval that does not hold its estimate."""
        super().__post_init__()
        check_interval(self.value, self.low, self.high)
        check_interval(self.auc, self.auc_low, self.auc_high)
        check_interval(self.absolute, self.absolute_low, self.absolute_high)


class ClassRecall(Checked, frozen=True, kw_only=True):
    """The recall of one of several classes: the share of its test records that the model calls so.

    Means over the repeats whose test records have any of it, None where none has; beside it that of the ceiling, and
    what the learner expected, with a 95 % interval and its `Expected.coverage`, None where its answers cannot tell.
    """

    name: str  # of the class
    recall: Share | None
    ceiling: Share | None
    expected: Share | None = None
    low: Share | None = None
    high: Share | None = None
    coverage: Share | None = None


class ClassShare(Checked, frozen=True, kw_only=True):
    """How common a class is among the private records that count; means over the repeats that tell it."""

    name: str  # of the class
    share: Share  # among those records of the curators that answered, by the harness
    expected: Share  # by the learner, from the totals of the noisy answers
    low: Share  # of the 95 % interval for the population behind the records
    high: Share
    coverage: Share  # fraction of these repeats whose interval holds `share`
    repeats: int  # their number

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its estimate."""
        super().__post_init__()
        check_interval(self.expected, self.low, self.high)
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")

    @property
    def hits(self) -> str:
        """How many repeats' intervals hold the share, in words."""
        return f"{round(self.coverage * self.repeats)} of {self.repeats}"


@dataclass(frozen=True)
class JudgedInterval(Interval):
    """A share as a learner estimates it, with its 95 % interval, beside the exact one, which only the harness knows."""

    value: Share
    low: Share
    high: Share
    exact: Share | None  # of the private records that are counted; None where it is a share of none

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its value."""
        check_shares(value=self.value, low=self.low, high=self.high, exact=self.exact)
        check_interval(self.value, self.low, self.high)

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the exact value; None where there is none."""
        return None if self.exact is None else self.exact in self


ValidatedPoint = OperatingPoint[JudgedInterval]


class ValidatedBin(Checked, frozen=True, kw_only=True):
    """A bin of the score: the mean probability that the model gives the source's records, and the share of class 1."""

    predicted: float
    observed: JudgedInterval


class ValidatedSite(Checked, frozen=True, kw_only=True):
    """One curator; `exact` of its area is None where its records lack a class."""

    curator: str
    area: JudgedInterval
    prevalence: JudgedInterval


class Recalibrated(Checked, frozen=True, kw_only=True):
    """The model's risks, recalibrated by a validation's answers; fitted to them, so no validation."""

    on: bool  # whether the answers speak for the map; where they do not, the risks stay as they are
    factor: float  # the Bayes factor that decides it
    intercept: tuple[float, float, float]  # of the logit: posterior median, and ends of the 95 % interval
    slope: tuple[float, float, float]
    fitted: tuple[Share, ...]  # in each bin of the score, the mean recalibrated risk of the source's records
    brier: Share | None = None  # of the recalibrated model on the test records; None where there are none
    brier_raw: Share | None = None  # of the model as it was

    def __post_init__(self) -> None:
        """Refuse what is no share, and an interval that does not hold its value."""
        super().__post_init__()
        check_interval(*self.intercept)
        check_interval(*self.slope)


class ValidationReport(Checked, frozen=True, kw_only=True):
    """A learner's validation in the first repeat that has one; `areas` and `epsilon_spent` are over all repeats."""

    epsilon_claimed: str  # exact cost of the question
    epsilon_spent: str  # exact; the most that any ledger charged to it, over the repeats
    records: float  # estimated number of records
    prevalence: JudgedInterval  # share of the positive class
    points: tuple[ValidatedPoint, ...]  # by rising threshold
    calibration: tuple[ValidatedBin, ...]  # by rising score
    sites: tuple[ValidatedSite, ...]
    areas: tuple[JudgedInterval, ...]  # area under the ROC curve, one for each repeat that has a validation
    rank_correlation: float | None = (
        None  # of the network that was validated with the model; None where it is the model
    )
    same_class: float | None = None  # likewise: share of the source's records that both call alike
    recalibrated: Recalibrated | None = None  # None where nobody asked for it

    @property
    def area(self) -> JudgedInterval:
        """Of the first repeat that has a validation."""
        return self.areas[0]

    @property
    def chosen_points(self) -> tuple[ValidatedPoint, ...]:
        """The operating points that were asked for."""
        return tuple(point for point in self.points if point.rule)

    @property
    def hits(self) -> str:
        """How many repeats' intervals of the area hold the exact one, in words."""
        hits = [area.holds for area in self.areas if area.holds is not None]
        return f"{sum(hits)} of {len(hits)}"


def joined_validations(reports: Sequence[ValidationReport]) -> ValidationReport | None:
    """The reports of several repeats as one; None where there is none."""
    if not reports:
        return None
    return msgspec.structs.replace(
        reports[0],
        areas=tuple(area for report in reports for area in report.areas),
        epsilon_spent=max((report.epsilon_spent for report in reports), key=Fraction),
    )


@dataclass(frozen=True)
class Headline:
    """A score in the measure that a page shows first, beside the two numbers that give it a meaning.

    For AUC the constant is `CHANCE`. A point of a curve has neither constant nor ceiling.
    """

    value: float | None
    error: float | None  # standard error
    constant: float | None = None
    ceiling: float | None = None


class Score(Checked, frozen=True, kw_only=True):
    """A learner's scores on some test records, means over repeats; `value` is in the report's measure.

    Accuracy is a share of test records; R^2, of a numeric label, is negative where a model is worse than the mean. A
    ceiling is of a model trained in place, without privacy. The clinical scores, from `auc` on, are those of
    `ClinicalScores`: None where there are not two classes with probabilities, or where test records lack a class.
    Curves are of all curators together. The JSON has the names that runs of earlier versions have.
    """

    value: ScoreValue | None = msgspec.field(name="accuracy")  # None where nothing was learned: no answer was released
    value_se: ErrorValue | None = msgspec.field(name="accuracy_se")  # over repeats; of one, binomial, or None
    constant: ScoreValue = msgspec.field(name="majority")  # what the most frequent class, or the mean, would score
    ceiling: ScoreValue | None  # None where it was not computed
    expected: Expected | None = None  # by the learner; None where its answers cannot tell
    further: float | None = None  # a second score, the report's `further`
    further_ceiling: float | None = None
    absolute: ErrorValue | None = None  # mean absolute error of a number, in its units
    absolute_ceiling: ErrorValue | None = None
    recalls: tuple[ClassRecall, ...] = ()  # of more than two classes
    shares: tuple[ClassShare, ...] = ()  # how common the positive one of two classes is, or each of more
    auc: Share | None = None
    auc_se: ErrorValue | None = None  # over repeats; of one, by its test records (Hanley and McNeil 1982)
    auc_ceiling: Share | None = None
    average_precision: Share | None = None  # a ranking by chance has about `prevalence`
    average_precision_ceiling: Share | None = None
    brier: Share | None = None
    brier_ceiling: Share | None = None
    prevalence: Share | None = None  # share of the positive class among the test records
    calibration: CalibrationCurve | None = None
    operating_points: tuple[ThresholdScore, ...] = ()  # one for each threshold
    roc: RocCurve | None = None
    roc_ceiling: RocCurve | None = None

    def headline(self, measure: MeasureName) -> Headline:
        """The score in the measure that leads: AUC, or `value` in the report's own."""
        if measure == "AUC":
            return Headline(self.auc, self.auc_se, CHANCE, self.auc_ceiling)
        return Headline(self.value, self.value_se, self.constant, self.ceiling)


class SiteScore(Score, frozen=True, kw_only=True):
    """The score on the test records of one curator."""

    curator: str


class CurvePoint(Checked, frozen=True):
    """Pooled score and AUC of the hypothesis that the learner held after a round (rounds count from 1)."""

    round: int
    value: ScoreValue = msgspec.field(name="accuracy")
    value_se: ErrorValue | None = msgspec.field(name="accuracy_se")
    auc: Share | None = None
    auc_se: ErrorValue | None = None

    def headline(self, measure: MeasureName) -> Headline:
        """As `Score.headline`."""
        return Headline(self.auc, self.auc_se) if measure == "AUC" else Headline(self.value, self.value_se)


class SiteAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of each question to one curator, in the order of the rounds.

    An outcome is "release", "refusal:<code>", "late" (came after the round closed), "vanished" (never came) or "left
    out" (its answer, or its card before anything was asked, cannot be true or rules the study out).
    """

    curator: str
    outcomes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse an unknown outcome."""
        for outcome in self.outcomes:
            if not _OUTCOME.fullmatch(outcome):
                raise ValueError(f"unknown outcome: {outcome!r}")

    @property
    def kinds(self) -> list[str]:
        """The outcomes without their codes."""
        return [outcome.partition(":")[0] for outcome in self.outcomes]

    @property
    def questions(self) -> int:
        """How many questions were asked."""
        return len(self.outcomes) - self.outcomes.count(LEFT_OUT)

    @property
    def trouble(self) -> int:
        """How many outcomes are no release."""
        return len(self.outcomes) - self.outcomes.count(RELEASE)


class LearnerReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One learner: what it asked for, what it paid, and how good it became."""

    learner: str  # its name, distinct within a run
    strategy: str
    pooling: Literal["sum", "site", "secure"]  # of the curators' answers: added up, kept apart, or summed in secret
    epsilon_claimed: str  # exact; the privacy loss that the plans of all its studies announced
    epsilon_spent: str  # exact; the most that any one curator's ledger charged for all of them
    pooled: Score  # on the test records of all curators together
    studies: tuple[StudyReport, ...] = ()  # empty in runs of earlier versions: the two above are the model's alone
    sites: tuple[SiteScore, ...] = ()
    curve: tuple[CurvePoint, ...] = ()  # pooled, by round; one point for a strategy that asks one question
    rounds_answered: tuple[SiteAnswers, ...] = ()  # of the first repeat
    left_out: dict[str, str] = {}  # curators whose answers are in no model -> why; of the first repeat
    parts: tuple[Part, ...] = ()  # of an additive pooled model, the strongest attribute first; of the first repeat
    validation: ValidationReport | None = None  # by a second study; None where none was asked for, or answered it

    def __post_init__(self) -> None:
        """Refuse budgets that are not numbers, curators named twice and a curve that does not go forward."""
        exact(self.epsilon_claimed)
        exact(self.epsilon_spent)
        check_distinct("curator", (site.curator for site in self.sites))
        check_distinct("curator", (answers.curator for answers in self.rounds_answered))
        rounds = [point.round for point in self.curve]
        if rounds != sorted(set(rounds)):
            raise ValueError("the rounds of a curve must increase")

    @property
    def failed(self) -> int:
        """Repeats in which it learned nothing."""
        return self.studies[0].failed if self.studies else 0


class RunReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that the page of one run shows."""

    title: str  # name of the scenario
    description: str  # a sentence or two for a reader who has not seen the scenario
    created: str  # when the run ended, ISO 8601; the only date on the page
    version: str  # of ExPriL
    seeded_noise: bool  # True when the noise came from a seed, so that the releases were not private
    repeats: int  # how many runs the means and standard errors are over
    command: str  # what to type to run it again
    config_toml: str  # the scenario as it was run
    learners: tuple[LearnerReport, ...]  # at least one
    measure: Literal["accuracy", "R²"] = "accuracy"  # what `Score.value` is
    further: str = ""  # name of the second score, "macro AUC" or "RMSE"; "" where there is none
    curators: tuple[CuratorReport, ...] = ()
    notes: tuple[str, ...] = ()  # warnings for the reader
    positive: str = ""  # of two classes, the one whose probability is scored; "" where there are not two
    records: tuple[RecordCounts, ...] = ()  # by site, counted by the harness; empty in runs of earlier versions
    carrier: str = "process"  # by which envelopes travelled, as `expril simulate --carrier` names it

    def __post_init__(self) -> None:
        """Refuse a report on nobody, and names used twice."""
        if not self.learners:
            raise ValueError("a report needs a learner")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")
        if self.measure != "R²":
            for learner in self.learners:
                for score in (learner.pooled, *learner.sites):
                    check_shares(value=score.value, constant=score.constant, ceiling=score.ceiling)
                    if score.expected:
                        check_shares(value=score.expected.value, low=score.expected.low, high=score.expected.high)
                for point in learner.curve:
                    check_shares(value=point.value)
        check_distinct("learner", (learner.learner for learner in self.learners))
        check_distinct("curator", (curator.name for curator in self.curators))
        check_distinct("site", (site.curator for site in self.records))

    @property
    def prevalence(self) -> float | None:
        """Share of the positive class among the test records that learners were scored on."""
        pooled = [learner.pooled.prevalence for learner in self.learners]
        shares = [share for share in pooled if share is not None]
        return sum(shares) / len(shares) if shares else None

    @property
    def lead(self) -> MeasureName:
        """The measure that is shown first: AUC where the outcome is rare, else `measure`."""
        share = self.prevalence
        ranks = any(learner.pooled.auc is not None for learner in self.learners)
        return "AUC" if ranks and share is not None and min(share, 1 - share) < RARE else self.measure

    @property
    def ranks(self) -> bool:
        """Whether any score has an AUC."""
        return any(score.auc is not None for score in self._scores)

    @property
    def expects(self) -> bool:
        """Whether a learner said what it expected of its model."""
        return any(score.expected is not None for score in self._scores)

    @property
    def _scores(self) -> list[Score]:
        return [score for learner in self.learners for score in (learner.pooled, *learner.sites)]


def encode_report(report: RunReport) -> bytes:
    """Return the report as indented JSON (UTF-8) that `decode_report` turns back into an equal report."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def decode_report(data: bytes) -> RunReport:
    """Return the report that the JSON describes.

    Raises msgspec.DecodeError: not JSON, or a missing, unknown or unlawful field (msgspec.ValidationError).
    """
    return msgspec.json.decode(data, type=RunReport)


def save_report(report: RunReport, path: Path) -> None:
    """Write the report to a JSON file."""
    path.write_bytes(encode_report(report))


def load_report(path: Path) -> RunReport:
    """Read a report that `save_report` wrote.

    Raises:
        msgspec.DecodeError: as `decode_report`.
        OSError: the file cannot be read.
    """
    return decode_report(path.read_bytes())
