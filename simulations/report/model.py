"""The numbers of one simulation run, as values: what a report shows and nothing else.

Every type is frozen, checks itself when it is made, and survives JSON without loss. Budgets are text, because they
are exact rationals ("1", "0.25", "1/3"); accuracies are shares between 0 and 1, R^2 is at most 1.
Scores are means over repeats, each computed on the test records of that repeat; a standard error is over repeats, None
where there is one. docs/learner/clinical.md says what each clinical figure means.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from expril.files import read_plain
from learner_node.scores.performance import Interval, OperatingPoint
from learner_node.scores.values import (
    LEAST_SCORE,
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
from protocol.strict_json import MOST_BYTES, decode_json
from simulations.report.budget import ANALYSES, CuratorReport, StudyReport, exact
from simulations.report.outcome_values import Agreement, Amount, Confusion

RELEASE = "release"
REFUSAL = "refusal"
LATE = "late"
LEFT_OUT = "left out"
RARE = 0.3
"""Share of the smaller class, among the test records, below which an outcome is rare and AUC is shown first."""

_OUTCOME = re.compile(r"release|late|vanished|left out|refusal:[^\s:][^\n]*")

MeasureName = Literal["accuracy", "R²", "AUC"]
Difference = Annotated[float, msgspec.Meta(ge=LEAST_SCORE, le=-LEAST_SCORE)]
"""A score, or a difference of two; of R^2 it may exceed 1."""
JoiningVerdict = Literal["pays", "does not pay", "not shown", "no answer"]
CHANCE = 0.5
"""AUC of a ranking that ignores the records."""
GRID = tuple(k / 100 for k in range(101))
"""False positive rates at which a ROC curve is stored."""


class RocCurve(Checked, frozen=True, kw_only=True):
    """Sensitivity at the 101 false positive rates of `GRID`, averaged over repeats at each rate."""

    sensitivity: tuple[Share, ...]
    sensitivity_se: tuple[Share, ...] | None = None  # None where there is one repeat

    def __post_init__(self) -> None:
        for values in (self.sensitivity, self.sensitivity_se or self.sensitivity):
            if len(values) != len(GRID):
                raise ValueError(f"a ROC curve has {len(GRID)} values, not {len(values)}")
        super().__post_init__()


class RecordCounts(Checked, frozen=True, kw_only=True):
    """A site's numbers of records in the first repeat. The simulation, which owns them, counts; never a curator."""

    curator: str
    private: int  # records that its curator counts
    source: int  # records that learners may hold, without labels
    test: int  # records for scores
    held: int  # records that its curator holds: those beyond the bound of a privacy unit are not counted
    positive: Share | None = None  # share of the positive class among all of them; None where there are not two classes
    units: int | None = None  # privacy units that `private` belong to; None in runs of earlier versions

    @property
    def total(self) -> int:
        """Records of the site."""
        return self.private + self.source + self.test


class PartBin(Checked, frozen=True, kw_only=True):
    """One bin of an attribute, like `ShapeBin` of the additive model."""

    label: str
    share: Share
    log_odds: float
    lower: float
    upper: float
    low: float | None = None  # low, high: edges of a bin of numbers, as of `ShapeBin`; None in earlier versions
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(map(math.isfinite, (self.log_odds, self.lower, self.upper))):
            raise ValueError("log-odds and their band must be finite")
        check_interval(self.log_odds, self.lower, self.upper)


class Part(Checked, frozen=True, kw_only=True):
    """What one attribute contributes to the model; numeric bins are in their order."""

    attribute: str
    numeric: bool
    bins: tuple[PartBin, ...]
    units: str = ""  # of measurement; "" where the schema states none, and in earlier versions
    description: str = ""  # likewise
    bounds: tuple[float, float] | None = None  # of a number; None for levels, and in earlier versions


class Expected(Checked, frozen=True, kw_only=True):
    """A learner's own estimates of its model's scores, from the noisy answers alone; means over repeats.

    Each estimate has the ends of its 95 % interval, and a coverage: the share of repeats whose interval agrees with the
    score on the test records, which only the simulation knows. For this comparison the interval is widened by the
    score's sampling error. None stands for what the learner cannot tell or was not asked.
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
    absolute: Amount | None = None  # mean absolute error of a number, in its units
    absolute_low: Amount | None = None
    absolute_high: Amount | None = None
    absolute_coverage: Share | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.value, self.low, self.high)
        check_interval(self.auc, self.auc_low, self.auc_high)
        check_interval(self.absolute, self.absolute_low, self.absolute_high)


class ClassRecall(Checked, frozen=True, kw_only=True):
    """The recall of one of several classes, beside a regression's recall and the learner's estimate.

    Recalls are means over the repeats with test records of the class; None if there are none. The estimate has a 95 %
    interval and an `Expected.coverage`; None if the answers cannot tell.
    """

    name: str  # of the class
    recall: Share | None
    regression: Share | None = msgspec.field(name="ceiling")  # of a regression on all records, without privacy
    expected: Share | None = None
    low: Share | None = None
    high: Share | None = None
    coverage: Share | None = None


class ClassShare(Checked, frozen=True, kw_only=True):
    """A class's share of the private records that count; means over the repeats that estimate it."""

    name: str  # of the class
    share: Share  # among those records of the curators that answered, by the harness
    expected: Share  # by the learner, from the totals of the noisy answers
    low: Share  # of the 95 % interval for the population behind the records
    high: Share
    coverage: Share  # fraction of these repeats whose interval holds `share`
    repeats: int  # their number

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(self.expected, self.low, self.high)
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")

    @property
    def hits(self) -> str:
        """In words: how many repeats' intervals contain the exact share."""
        return f"{round(self.coverage * self.repeats)} of {self.repeats}"


@dataclass(frozen=True)
class JudgedInterval(Interval):
    """A learner's estimate of a share with its 95 % interval, beside the exact share, which the simulation knows."""

    value: Share
    low: Share
    high: Share
    exact: Share | None  # of the private records that are counted; None where it is a share of none

    def __post_init__(self) -> None:
        check_shares(value=self.value, low=self.low, high=self.high, exact=self.exact)
        check_interval(self.value, self.low, self.high)

    @property
    def holds(self) -> bool | None:
        """Whether the interval contains the exact value; None if that is unknown."""
        return None if self.exact is None else self.exact in self


ValidatedPoint = OperatingPoint[JudgedInterval]


class ValidatedBin(Checked, frozen=True, kw_only=True):
    """A bin of the score: the model's mean probability on the source, and the share of class 1."""

    predicted: float
    observed: JudgedInterval


class ValidatedSite(Checked, frozen=True, kw_only=True):
    """One curator's validation; the `exact` area is None if its records lack a class."""

    curator: str
    area: JudgedInterval
    prevalence: JudgedInterval


class Recalibrated(Checked, frozen=True, kw_only=True):
    """Risks recalibrated with a validation's answers. These answers do not validate the recalibrated risks."""

    on: bool  # whether the answers speak for the map; where they do not, the risks stay as they are
    factor: float  # the Bayes factor that decides it
    intercept: tuple[float, float, float]  # of the logit: posterior median, and ends of the 95 % interval
    slope: tuple[float, float, float]
    fitted: tuple[Share, ...]  # in each bin of the score, the mean recalibrated risk of the source's records
    brier: Share | None = None  # of the recalibrated model on the test records; None where there are none
    brier_raw: Share | None = None  # of the model as it was

    def __post_init__(self) -> None:
        super().__post_init__()
        check_interval(*self.intercept)
        check_interval(*self.slope)


class ValidationReport(Checked, frozen=True, kw_only=True):
    """A learner's first validation; `areas` and `epsilon_spent` cover all repeats."""

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
        """Area in the first repeat that has a validation."""
        return self.areas[0]

    @property
    def chosen_points(self) -> tuple[ValidatedPoint, ...]:
        """The operating points that the user asked for."""
        return tuple(point for point in self.points if point.rule)

    @property
    def hits(self) -> str:
        """In words: how many repeats' intervals contain the exact area."""
        hits = [area.holds for area in self.areas if area.holds is not None]
        return f"{sum(hits)} of {len(hits)}"


def joined_validations(reports: Sequence[ValidationReport]) -> ValidationReport | None:
    """Combine the reports of several repeats; None if there are none."""
    if not reports:
        return None
    return msgspec.structs.replace(
        reports[0],
        areas=tuple(area for report in reports for area in report.areas),
        epsilon_spent=max((report.epsilon_spent for report in reports), key=Fraction),
    )


class JudgedEstimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An estimate of an analysis with its 95 % interval, beside the exact value of the same records without noise."""

    part: str  # name of the analysis
    place: tuple[str, ...]  # keys and names that lead to it in the result
    value: float | None  # None where it is not estimable
    low: float | None  # None where it has no end, as with `high`
    high: float | None
    exact: float | None  # None where it is not defined
    hits: int = 0  # repeats whose interval holds their exact value
    judged: int = 0  # repeats with an exact value

    @property
    def holds(self) -> bool | None:
        """Whether the interval contains the exact value; None if that is not defined."""
        if self.exact is None:
            return None
        low = -math.inf if self.low is None else self.low
        return low <= self.exact <= (math.inf if self.high is None else self.high)


class AnalysesReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner's analyses in the first repeat that has any, and how often the intervals of all repeats held."""

    answers: dict[str, Any]  # the raw answers, as of `learner_node.analyses.results.WrittenAnalyses`
    exact: dict[str, Any]  # the same tables without noise
    estimates: tuple[JudgedEstimate, ...]


@dataclass(frozen=True)
class Headline:
    """A score in the measure that a page shows first, beside the constant's and a regression's without privacy.

    For AUC the constant is `CHANCE`. A point of a curve has neither.
    """

    value: float | None
    error: float | None  # standard error
    constant: float | None = None
    regression: float | None = None


class Score(Checked, frozen=True, kw_only=True):
    """A learner's scores on some test records, means over repeats; `value` is in the report's measure.

    The measure is accuracy, or for numeric labels R^2, which is negative if a model is worse than the mean. A
    `regression` is learnt without privacy: of one site from its own private records, of all sites from all of them. A
    model may pass it. The clinical scores, from `auc` on, are those of `ClinicalScores`: None unless there are two
    classes with probabilities and both occur in the test records. Curves cover all curators. JSON keeps the names of
    earlier versions, "ceiling" for a regression.
    """

    value: ScoreValue | None = msgspec.field(name="accuracy")  # None where nothing was learned: no answer was released
    value_se: ErrorValue | None = msgspec.field(name="accuracy_se")  # over repeats; of one, by its test records
    constant: ScoreValue = msgspec.field(name="majority")  # what the most frequent class, or the mean, would score
    regression: ScoreValue | None = msgspec.field(name="ceiling")  # None where it was not computed
    expected: Expected | None = None  # by the learner; None where its answers cannot tell
    further: float | None = None  # a second score, the report's `further`
    further_regression: float | None = msgspec.field(default=None, name="further_ceiling")
    absolute: Amount | None = None  # mean absolute error of a number, in its units
    absolute_regression: Amount | None = msgspec.field(default=None, name="absolute_ceiling")
    recalls: tuple[ClassRecall, ...] = ()  # of more than two classes
    shares: tuple[ClassShare, ...] = ()  # how common the positive one of two classes is, or each of more
    auc: Share | None = None
    auc_se: ErrorValue | None = None  # over repeats; of one, by its test records (Hanley and McNeil 1982)
    auc_regression: Share | None = msgspec.field(default=None, name="auc_ceiling")
    average_precision: Share | None = None  # a ranking by chance has about `prevalence`
    average_precision_regression: Share | None = msgspec.field(default=None, name="average_precision_ceiling")
    brier: Share | None = None
    brier_regression: Share | None = msgspec.field(default=None, name="brier_ceiling")
    prevalence: Share | None = None  # share of the positive class among the test records
    calibration: CalibrationCurve | None = None
    operating_points: tuple[ThresholdScore, ...] = ()  # one for each threshold
    roc: RocCurve | None = None
    roc_regression: RocCurve | None = msgspec.field(default=None, name="roc_ceiling")
    absolute_se: Amount | None = None  # over repeats; of one, by its test records
    absolute_constant: Amount | None = None  # of always predicting the mean
    agreement: Agreement | None = None  # predicted against observed numbers; None for classes and few records
    confusion: Confusion | None = None  # of classes; of all sites only

    def headline(self, measure: MeasureName) -> Headline:
        """The score in the measure that leads: AUC, or `value` in the report's own."""
        if measure == "AUC":
            return Headline(self.auc, self.auc_se, CHANCE, self.auc_regression)
        return Headline(self.value, self.value_se, self.constant, self.regression)


class SiteScore(Score, frozen=True, kw_only=True):
    """The score on the test records of one curator."""

    curator: str


class ScoreInterval(Checked, frozen=True, kw_only=True):
    """A score, or the difference of two, with the ends of its 95 % interval; `low <= value <= high`."""

    value: Difference
    low: Difference
    high: Difference

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} does not lie between {self.low} and {self.high}")


class Joining(Checked, frozen=True, kw_only=True):
    """Whether joining pays for one hospital: scores on its own test records, in the report's leading measure.

    Scores are means over repeats; a difference is paired, of two models on the same records. docs/learner/joining.md
    says what the intervals cover. None stands for a score that no repeat has, `reason` says why.
    """

    curator: str  # whose test records they are
    constant: ScoreInterval | None  # of the most frequent class, the mean, or chance
    regression: ScoreInterval | None  # of its own regression, without privacy, tuned on its own private records
    federation: ScoreInterval | None  # of the learner's model
    pooled: ScoreInterval | None  # of a regression on all private records in one place, without privacy
    gain: ScoreInterval | None  # federation - regression: what joining brings
    price: ScoreInterval | None  # pooled - federation: what privacy and distance cost
    regression_lift: ScoreInterval | None  # regression - constant
    federation_lift: ScoreInterval | None  # federation - constant
    better: int  # repeats in which the federation's model had the higher score than the own regression
    equal: int  # repeats in which both had the same
    repeats: int  # those with both scores; with one, intervals cover the patients alone
    records: int  # test records, mean over repeats
    others: ScoreInterval | None = None  # of a model of all others; None unless leave_one_out is set
    contribution: ScoreInterval | None = None  # federation - others: what the hospital's own answers bring to it
    reason: str = ""  # why scores are absent, in words

    @property
    def verdict(self) -> JoiningVerdict:
        """What the interval of `gain` says."""
        if self.gain is None:
            return "no answer"
        if self.gain.low > 0:
            return "pays"
        return "does not pay" if self.gain.high < 0 else "not shown"

    @property
    def useless(self) -> bool:
        """Whether neither model is shown to be better than the constant."""
        return not any(lift is not None and lift.low > 0 for lift in (self.regression_lift, self.federation_lift))


class CurvePoint(Checked, frozen=True):
    """Pooled score and AUC of the model that the learner had after a round; rounds count from 1."""

    round: int
    value: ScoreValue = msgspec.field(name="accuracy")
    value_se: ErrorValue | None = msgspec.field(name="accuracy_se")
    auc: Share | None = None
    auc_se: ErrorValue | None = None

    def headline(self, measure: MeasureName) -> Headline:
        """The score in the leading measure, like `Score.headline`."""
        return Headline(self.auc, self.auc_se) if measure == "AUC" else Headline(self.value, self.value_se)


class SiteAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome of each question to one curator, by round.

    An outcome is "release", "refusal:<code>", "late" (came after the round closed), "vanished" (never came) or "left
    out" (its card or answer cannot be true, or its card rules the study out).
    """

    curator: str
    outcomes: tuple[str, ...]

    def __post_init__(self) -> None:
        for outcome in self.outcomes:
            if not _OUTCOME.fullmatch(outcome):
                raise ValueError(f"unknown outcome: {outcome!r}")

    @property
    def kinds(self) -> list[str]:
        """The outcomes without their codes."""
        return [outcome.partition(":")[0] for outcome in self.outcomes]

    @property
    def questions(self) -> int:
        """Number of questions asked."""
        return len(self.outcomes) - self.outcomes.count(LEFT_OUT)

    @property
    def trouble(self) -> int:
        """Number of outcomes other than a release."""
        return len(self.outcomes) - self.outcomes.count(RELEASE)


class LearnerReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One learner: its request, its spending and its scores."""

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
    joining: tuple[Joining, ...] = ()  # by curator; empty where there is no joint model, and in earlier versions
    purpose: str = ""  # what it tells the stewards
    analyses: AnalysesReport | msgspec.UnsetType = msgspec.UNSET  # of a learner that asks these instead of a model

    def __post_init__(self) -> None:
        exact(self.epsilon_claimed)
        exact(self.epsilon_spent)
        check_distinct("curator", (site.curator for site in self.sites))
        check_distinct("curator", (answers.curator for answers in self.rounds_answered))
        check_distinct("curator", (joining.curator for joining in self.joining))
        rounds = [point.round for point in self.curve]
        if rounds != sorted(set(rounds)):
            raise ValueError("the rounds of a curve must increase")

    @property
    def is_of_analyses(self) -> bool:
        """Whether the learner asks analyses instead of a model."""
        return any(study.what == ANALYSES for study in self.studies)

    @property
    def failed(self) -> int:
        """Number of repeats in which the learner learned nothing."""
        return self.studies[0].failed if self.studies else 0


class RunReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All numbers on a run's page."""

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
    label: str = ""  # name of the label's column; "" in runs of earlier versions
    classes: tuple[str, ...] = ()  # of the label, class 0 first; empty for a number, and in runs of earlier versions
    units: str = ""  # unit of measurement of a label that is a number; "" where none is stated

    def __post_init__(self) -> None:
        if not self.learners:
            raise ValueError("a report needs a learner")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")
        if self.measure != "R²":
            for learner in self.learners:
                for score in (learner.pooled, *learner.sites):
                    check_shares(value=score.value, constant=score.constant, regression=score.regression)
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
        """The measure shown first: AUC if the outcome is rare, else `measure`."""
        share = self.prevalence
        ranks = any(learner.pooled.auc is not None for learner in self.learners)
        return "AUC" if ranks and share is not None and min(share, 1 - share) < RARE else self.measure

    @property
    def ranks(self) -> bool:
        """Whether any score has an AUC."""
        return any(score.auc is not None for score in self._scores)

    @property
    def expects(self) -> bool:
        """Whether a learner estimated its own score."""
        return any(score.expected is not None for score in self._scores)

    @property
    def _scores(self) -> list[Score]:
        return [score for learner in self.learners for score in (learner.pooled, *learner.sites)]


def encode_report(report: RunReport) -> bytes:
    """Return the report as indented JSON (UTF-8) that `decode_report` turns back into an equal report."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def decode_report(data: bytes) -> RunReport:
    """Return the report that the JSON describes.

    Raises ConfigurationError: the data is no JSON, or a field is missing, unknown or invalid.
    """
    return decode_json(data, RunReport, where="the report")


def save_report(report: RunReport, path: Path) -> None:
    """Write the report to a JSON file."""
    path.write_bytes(encode_report(report))


def load_report(path: Path) -> RunReport:
    """Read a report that `save_report` wrote.

    Raises:
        ConfigurationError: the file holds no report.
        OSError: the file cannot be read.
    """
    return decode_report(read_plain(path, most=MOST_BYTES))
