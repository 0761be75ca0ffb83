"""A run's report as the brief on its page sees it: the learner it speaks of, its scores with intervals, and in words.

Shares are written as whole numbers of 100, and the ends of intervals are rounded outwards.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from learner_node.result.phrases import RECORD, Noun, hundred, outward, quoted, unit_noun
from learner_node.scores.values import ThresholdScore
from simulations.report.intervals import Estimate, Sample, area_error, difference_error, share_error
from simulations.report.model import CHANCE, LearnerReport, RunReport, Score

MOST_NAMED = 3
"""Most hospitals or classes that one answer names."""


@dataclass(frozen=True)
class View:
    """A report, and the learner that the answers speak of: the best, or the first where none has a score."""

    report: RunReport
    learner: LearnerReport

    @classmethod
    def of(cls, report: RunReport) -> "View":
        """The view of a report on its best learner."""

        def value(learner: LearnerReport) -> float:
            score = learner.pooled.headline(report.lead).value
            return -math.inf if score is None else score

        return cls(report, max(report.learners, key=value))

    @property
    def pooled(self) -> Score:
        """The learner's score over all hospitals."""
        return self.learner.pooled

    @property
    def noun(self) -> Noun:
        """The noun for what is scored."""
        return scored_noun(self.report)

    @property
    def hospitals(self) -> list[str]:
        """Names of the hospitals, in order."""
        return [curator.name for curator in self.report.curators] or [site.curator for site in self.learner.sites]

    @property
    def absent(self) -> list[str]:
        """The hospitals whose answers are not in the model."""
        silent = {site.curator for site in self.learner.rounds_answered if site.trouble} | set(self.learner.left_out)
        return [name for name in self.hospitals if name in silent]

    @property
    def learned(self) -> bool:
        """Whether there is a model with a score."""
        return self.pooled.value is not None

    @property
    def repeats(self) -> int:
        """How many repeats the learner's scores are means over: those that brought a model."""
        return max(1, self.report.repeats - self.learner.failed)

    @property
    def negative(self) -> str:
        """The class that is not the positive one; "" if it is not known, or there are not two."""
        others = [name for name in self.report.classes if name != self.report.positive]
        return others[0] if len(others) == 1 and self.report.positive else ""

    def sample(self, curator: str = "") -> Sample | None:
        """How the test records of a hospital (or of all) were drawn; None if it is not known."""
        sites = [site for site in self.report.records if curator in ("", site.curator)]
        test = sum(site.test for site in sites)
        return Sample(test, sum(site.total for site in sites), self.repeats) if test else None

    def estimate(
        self, value: float, error: float | None, of_test: Callable[[int], float], curator: str = ""
    ) -> Estimate:
        """A score of a hospital (or of all), with the two parts of its error.

        `error` is the report's, which for one repeat is by its records alone. `of_test` is the standard error by so
        many test records, and may be infinite if it is not known.
        """
        sample, repeats = self.sample(curator), self.repeats
        by_records = None if sample is None else of_test(sample.test)
        if sample is None or by_records is None or math.isinf(by_records):
            return Estimate(value, error, None, math.inf if repeats == 1 else repeats - 1)
        first, shared = sample.parts(by_records)
        return Estimate(value, first, 0.0) if repeats == 1 else Estimate(value, error, shared, repeats - 1)

    def area(self, score: Score, curator: str = "") -> Estimate | None:
        """The area under the ROC curve; None if there is none."""
        if score.auc is None:
            return None
        area, positive = score.auc, score.prevalence or 0.0
        both_classes = 0 < positive < 1
        return self.estimate(
            area, score.auc_se, lambda test: area_error(area, test, positive) if both_classes else math.inf, curator
        )

    def value(self, score: Score, curator: str = "") -> Estimate | None:
        """The accuracy or R^2; None if there is none."""
        if score.value is None:
            return None
        value, counts = score.value, self.report.measure == "accuracy"
        return self.estimate(
            value, score.value_se, lambda test: share_error(value, test) if counts else math.inf, curator
        )

    def gain(self, score: Score, curator: str = "") -> Estimate:
        """The accuracy or R^2 less that of the constant answer."""
        value, constant, counts = score.value or 0.0, score.constant, self.report.measure == "accuracy"
        return self.estimate(
            value - constant,
            score.value_se,
            lambda test: difference_error(value, constant, test) if counts else math.inf,
            curator,
        )


def noun_of(report: RunReport) -> Noun:
    """The noun of the privacy unit."""
    units = {curator.private_unit for curator in report.curators}
    return unit_noun(units.pop()) if len(units) == 1 else RECORD


def scored_noun(report: RunReport) -> Noun:
    """The noun of what a model is tried on: patients, if each is known to have one record, or else records."""
    noun = noun_of(report)
    is_single = bool(report.records) and all(site.units == site.private for site in report.records)
    return noun if noun.person and is_single else RECORD


def private_units(report: RunReport) -> str:
    """How many privacy units, or records where their units are not known, the answers are about; "" for none."""
    units = [site.units for site in report.records if site.units is not None]
    if len(units) == len(report.records):
        return noun_of(report).counted(sum(units)) if sum(units) else ""
    private = sum(site.private for site in report.records)
    return RECORD.counted(private) if private else ""


def of_hundred(estimate: Estimate, noun: str = "") -> str:
    """A share with its interval, rounded outwards: "77 of 100 pairs (75 to 79)"."""
    words = f"{hundred(estimate.value)} of 100{noun and ' '}{noun}"
    ends = estimate.ends(0.0, 1.0)
    if ends is None:
        return words
    return f"{words} ({outward(*ends)})"


def explained(estimate: Estimate, unit: str, last: str = "") -> str:
    """A share of the variance with its interval: "40 % (38 to 42 %)"; R^2 has no lower bound."""
    limits = estimate.ends(-math.inf, 1.0)
    between = "" if limits is None else f" ({outward(*limits)}{last and ' '}{last})"
    return f"{hundred(estimate.value)} {unit}{between}"


def always(view: View, prevalence: float | None = None) -> str:
    """The constant answer in words."""
    share = prevalence if prevalence is not None else view.pooled.prevalence
    if share is None or not view.negative:
        return "always naming the most frequent class"
    return f"always saying {quoted(view.report.positive if share > CHANCE else view.negative)}"


def point_of(score: Score, rule: str) -> ThresholdScore | None:
    """The operating point of a rule; None if there is none."""
    return next((point for point in score.operating_points if point.rule == rule), None)


def rate(view: View, point: ThresholdScore, name: str, share: float) -> Estimate:
    """A share of an operating point; `share` is its denominator's share of the records."""
    value, error = getattr(point, name), getattr(point, f"{name}_se")
    return view.estimate(value, error, lambda test: share_error(value, max(1.0, test * share)))
