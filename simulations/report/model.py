"""The numbers of one simulation run, as values: what a report shows and nothing else.

Every type is frozen, checks itself when it is made, and survives JSON without loss. Budgets are text, because they
are exact rationals ("1", "0.25", "1/3"); accuracies are shares between 0 and 1, R^2 is at most 1.
`document` says them.
"""

import re
from pathlib import Path
from typing import Literal

import msgspec

from simulations.report.budget import CuratorReport, StudyReport, exact
from simulations.report.checks import Checked, ErrorValue, ScoreValue, Share, check_distinct, check_shares
from simulations.report.clinical_model import CalibrationCurve, Part, RecordCounts, RocCurve, ThresholdScore
from simulations.report.expected import ClassRecall, ClassShare, Expected
from simulations.report.validated import ValidationReport

RELEASE = "release"
REFUSAL = "refusal"
LATE = "late"
VANISHED = "vanished"
LEFT_OUT = "left out"
RARE = 0.3
"""An outcome is rare where its smaller class has less than this share of the test records: then AUC leads."""

_OUTCOME = re.compile(r"release|late|vanished|left out|refusal:[^\s:][^\n]*")


class Score(Checked, frozen=True, kw_only=True):
    """A score beside the two numbers that give it a meaning.

    The score is the report's `measure`: accuracy, a share of test records; or of a numeric label R^2, which is negative
    where a model is worse than the mean.

    Attributes:
        accuracy: the score, mean over repeats; None when nothing was learned (no curator released an answer).
        accuracy_se: standard error of that mean over repeats; None when there is one repeat.
        majority: what always answering the most frequent class, or the mean, would score.
        ceiling: what a model trained in place, without privacy, scores; None when it was not computed.
        expected: what the learner expected; None where its answers cannot tell.
        further: a second score (the report's `further`), mean over repeats; None when there is none.
        further_ceiling: that of the ceiling.
        absolute, absolute_ceiling: mean absolute error of a number, in its units, mean over repeats, and that of the
            ceiling; None where the label has classes.
        recalls: of more than two classes, each one's, of all curators together.
        shares: how common the positive one of two classes is, or each of more, and what the learner's answers told of
            it; empty where they tell nothing.
        auc: area under the ROC curve, mean over repeats. This and what follows is None where there are not two classes
            with probabilities, or where test records lack a class.
        auc_se: its standard error over repeats; with one repeat by its test records (Hanley and McNeil 1982).
        auc_ceiling: AUC of the ceiling.
        average_precision: mean over repeats; `prevalence` is about what a ranking by chance has.
        average_precision_ceiling: that of the ceiling.
        brier: mean squared error of the probabilities, mean over repeats.
        brier_ceiling: that of the ceiling.
        prevalence: share of the positive class among the test records.
        calibration: of all curators together.
        operating_points: likewise, one for each threshold.
        roc, roc_ceiling: likewise.
    """

    accuracy: ScoreValue | None
    accuracy_se: ErrorValue | None
    majority: ScoreValue
    ceiling: ScoreValue | None
    expected: Expected | None = None
    further: float | None = None
    further_ceiling: float | None = None
    absolute: ErrorValue | None = None
    absolute_ceiling: ErrorValue | None = None
    recalls: tuple[ClassRecall, ...] = ()
    shares: tuple[ClassShare, ...] = ()
    auc: Share | None = None
    auc_se: ErrorValue | None = None
    auc_ceiling: Share | None = None
    average_precision: Share | None = None
    average_precision_ceiling: Share | None = None
    brier: Share | None = None
    brier_ceiling: Share | None = None
    prevalence: Share | None = None
    calibration: CalibrationCurve | None = None
    operating_points: tuple[ThresholdScore, ...] = ()
    roc: RocCurve | None = None
    roc_ceiling: RocCurve | None = None


class SiteScore(Score, frozen=True, kw_only=True):
    """The score on the test records of one curator."""

    curator: str


class CurvePoint(Checked, frozen=True):
    """Pooled accuracy and AUC of the hypothesis that the learner held after a round (rounds count from 1)."""

    round: int
    accuracy: ScoreValue
    accuracy_se: ErrorValue | None
    auc: Share | None = None
    auc_se: ErrorValue | None = None


class SiteAnswers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of each question to one curator, in the order of the rounds.

    Attributes:
        curator: its name.
        outcomes: "release", "refusal:<code>", "late" (came after the round closed), "vanished" (never came) or "left
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
    def asked(self) -> int:
        """How many questions were asked."""
        return len(self.outcomes) - self.outcomes.count(LEFT_OUT)

    @property
    def trouble(self) -> int:
        """How many outcomes are no release."""
        return len(self.outcomes) - self.outcomes.count(RELEASE)


class LearnerReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One learner: what it asked for, what it paid, and how good it became.

    Attributes:
        learner: its name, distinct within a run.
        strategy: how it chose its questions and learned from the answers.
        pooling: "sum" when answers of the curators were added up, "site" when they were kept apart, "secure" when only
            their sum was opened.
        epsilon_claimed: exact; the privacy loss that the plans of all its studies announced.
        epsilon_spent: exact; the most that any one curator's ledger charged for all of them.
        studies: what each of them cost; empty in runs of earlier versions, where the two above are the model's alone.
        pooled: the score on the test records of all curators together.
        sites: the score by curator.
        curve: pooled accuracy by round; one point for a strategy that asks one question; empty when unknown.
        rounds_answered: what became of its questions, by curator; of the first repeat.
        left_out: curators whose answers are in no model -> why; of the first repeat.
        parts: what the pooled model adds up, the strongest attribute first; of the first repeat; empty where it is not
            additive.
        validation: what a second study told of the model; None where none was asked for, or answered it.
    """

    learner: str
    strategy: str
    pooling: Literal["sum", "site", "secure"]
    epsilon_claimed: str
    epsilon_spent: str
    pooled: Score
    studies: tuple[StudyReport, ...] = ()
    sites: tuple[SiteScore, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    rounds_answered: tuple[SiteAnswers, ...] = ()
    left_out: dict[str, str] = {}
    parts: tuple[Part, ...] = ()
    validation: ValidationReport | None = None

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
    """Everything that the page of one run shows.

    Attributes:
        title: name of the scenario.
        description: a sentence or two for a reader who has not seen the scenario.
        created: when the run ended, ISO 8601; the only date on the page.
        version: of ExPriL.
        seeded_noise: True when the noise came from a seed, so that the releases were not private.
        repeats: how many runs the means and standard errors are over.
        command: what to type to run it again.
        config_toml: the scenario as it was run.
        learners: at least one.
        measure: what is scored, "accuracy" or "R²"; the first lies between 0 and 1. "AUC" is never stored: a
            page whose outcome is rare is drawn from what `lead.by_ranking` returns.
        further: name of the second score, "macro AUC" or "RMSE"; "" where there is none.
        curators: their ledgers.
        notes: warnings for the reader.
        positive: of two classes, the one whose probability is scored; "" where there are not two.
        records: how many there are at each site, counted by the harness; empty in runs of earlier versions.
        carrier: by which envelopes travelled, as `expril simulate --carrier` names it.
    """

    title: str
    description: str
    created: str
    version: str
    seeded_noise: bool
    repeats: int
    command: str
    config_toml: str
    learners: tuple[LearnerReport, ...]
    measure: Literal["accuracy", "R²", "AUC"] = "accuracy"
    further: str = ""
    curators: tuple[CuratorReport, ...] = ()
    notes: tuple[str, ...] = ()
    positive: str = ""
    records: tuple[RecordCounts, ...] = ()
    carrier: str = "process"

    def __post_init__(self) -> None:
        """Refuse a report on nobody, and names used twice."""
        if not self.learners:
            raise ValueError("a report needs a learner")
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, not {self.repeats}")
        if self.measure != "R²":
            for learner in self.learners:
                for score in (learner.pooled, *learner.sites):
                    check_shares(accuracy=score.accuracy, majority=score.majority, ceiling=score.ceiling)
                    if told := score.expected:
                        check_shares(accuracy=told.accuracy, low=told.low, high=told.high)
                for point in learner.curve:
                    check_shares(accuracy=point.accuracy)
        check_distinct("learner", (learner.learner for learner in self.learners))
        check_distinct("curator", (curator.name for curator in self.curators))
        check_distinct("site", (site.curator for site in self.records))

    @property
    def prevalence(self) -> float | None:
        """Share of the positive class among the test records that learners were scored on."""
        shares = [one.pooled.prevalence for one in self.learners if one.pooled.prevalence is not None]
        return sum(shares) / len(shares) if shares else None

    @property
    def lead(self) -> Literal["accuracy", "R²", "AUC"]:
        """What is shown first: AUC where the outcome is rare, else `measure`."""
        share = self.prevalence
        ranks = any(learner.pooled.auc is not None for learner in self.learners)
        return "AUC" if ranks and share is not None and min(share, 1 - share) < RARE else self.measure

    @property
    def ranks(self) -> bool:
        """Whether any score has an AUC."""
        return any(score.auc is not None for one in self.learners for score in (one.pooled, *one.sites))

    @property
    def expects(self) -> bool:
        """Whether a learner said what it expected of its model."""
        scores = [score for learner in self.learners for score in (learner.pooled, *learner.sites)]
        return any(score.expected is not None for score in scores)


def encode_report(report: RunReport) -> bytes:
    """Return the report as indented JSON (UTF-8) that `decode_report` turns back into an equal report."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def decode_report(data: bytes) -> RunReport:
    """Return the report that the JSON describes.

    Raises:
        msgspec.DecodeError: not JSON, or a missing, unknown or unlawful field (msgspec.ValidationError).
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
