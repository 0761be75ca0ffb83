"""Cases of survival: curves in continuous time at the ends of bins, medians, means, and comparisons of groups.

It is a module of its own, as that of each sort of analysis, so that the study is a list of modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from lab.intervals.answers import Columns
from lab.intervals.case import WHOLE_LINE, Case, PartCase
from lab.intervals.design import Condition
from learner_node.analyses.part import POPULATION, Estimate
from learner_node.analyses.survival import Survival
from learner_node.analyses.survival_estimates import Quantity
from learner_node.analyses.survival_result import SurvivalResult
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent

HORIZON, BINS = 10.0, 5
SCHEMA = Schema(
    (CategoricalAttribute("arm", ("old", "new")),),
    "label",
    ("no", "yes"),
    outcomes=(
        NumericAttribute("months", 0.0, 100.0),
        CategoricalAttribute("exit", ("censored", "death", "transfer")),
    ),
    time_to_event=TimeToEvent("months", "exit", "censored", bins=BINS, horizon=HORIZON),
)


@dataclass(frozen=True)
class Course:
    """Exponential times of two groups; a second cause competes."""

    rate: float  # of the event, of the first group
    ratio: float  # of hazards of the second group to the first
    other: float  # rate of the second cause
    lumpy: bool  # half of the group's censoring comes shortly after a bin begins, all in one moment
    share: float = 0.5  # of the second group
    unlike: bool = False  # the first group is censored shortly before bins end, the second shortly after they begin

    def draw(self, rng: np.random.Generator, size: int) -> Columns:
        """Independent records."""
        arm = (rng.random(size) < self.share).astype(float)
        death = rng.exponential(1.0 / (self.rate * self.ratio**arm))
        transfer = rng.exponential(1.0 / self.other, size) if self.other else np.full(size, np.inf)
        censored = rng.uniform(0.0, 2.5 * HORIZON, size)
        if self.lumpy:
            width = HORIZON / BINS
            lumps = np.floor(censored / width) * width + 0.1
            censored = np.where(rng.random(size) < 0.5, lumps, censored)
        if self.unlike:
            width = HORIZON / BINS
            censored = np.floor(censored / width) * width + np.where(arm == 1, 0.01, 0.99) * width
        months = np.minimum(np.minimum(death, transfer), censored)
        cause = np.where(months == death, 1.0, np.where(months == transfer, 2.0, 0.0))
        return {"arm": arm, "months": months, "exit": cause}

    def survival(self, time: float) -> float:
        """Of the first group: no event of the cause that the curve is of; the other is as if censored."""
        return exp(-self.rate * time)

    @property
    def truths(self) -> dict[str, float]:
        """By quantity."""
        total = self.rate + self.other
        share = self.rate / total
        truths = {f"survival at {time:g}": self.survival(time) for time in (2.0, 6.0, 10.0)}
        truths |= {"cumulative incidence at 6": share * (1.0 - exp(-6.0 * total)), "hazard ratio": log(self.ratio)}
        truths |= {"hazard ratio, unlike censoring": log(self.ratio), "rate": self.rate}
        truths |= {"median": log(2.0) / self.rate, "restricted mean": (1.0 - self.survival(HORIZON)) / self.rate}
        return truths


def _logarithm(estimate: Estimate) -> Estimate:
    with np.errstate(divide="ignore"):
        low, high = float(np.log(estimate.low)), float(np.log(estimate.high))
        value = None if estimate.value is None else float(np.log(estimate.value))
    return Estimate(value, low, high, estimate.of, estimate.p)


def _quantities(result: SurvivalResult) -> Iterator[tuple[str, Quantity]]:
    group = result.estimates.groups[0]
    for place in (1, 3, 5):
        yield f"survival at {place * HORIZON / BINS:g}", group.survival[place]
    if "death" in group.incidence:
        yield "cumulative incidence at 6", group.incidence["death"][3]
    yield "median", group.median


def _estimates(result: SurvivalResult) -> Iterator[tuple[str, Estimate]]:
    for name, quantity in _quantities(result):
        yield name, quantity.population
        yield name, quantity.sample
    group = result.estimates.groups[0]
    mean = group.mean.population
    yield "restricted mean", Estimate(mean.value, *group.mean_span)
    yield "rate", group.rate.population
    yield "hazard ratio", _logarithm(result.estimates.comparisons[0].ratio.population)


def _estimates_unlike(result: SurvivalResult) -> Iterator[tuple[str, Estimate]]:
    """Those that hold whatever the times of censoring in bins of each group, of the population."""
    for name, estimate in _estimates(result):
        if name != "hazard ratio" and estimate.of == POPULATION:
            yield name, estimate
    comparison = result.estimates.comparisons[0]
    yield (
        "hazard ratio, unlike censoring",
        _logarithm(Estimate(comparison.ratio.population.value, *comparison.ratio_span)),
    )


def _test(result: SurvivalResult) -> Iterator[tuple[str, float | None]]:
    if result.estimates.test is not None:
        yield "log-rank", result.estimates.test.p


def _test_unlike(result: SurvivalResult) -> Iterator[tuple[str, float | None]]:
    if result.estimates.test is not None:
        yield "log-rank, unlike censoring", result.estimates.test.p_any


def _ranges(quantity: str, _condition: Condition) -> tuple[float, float]:
    if quantity.startswith(("survival", "cumulative")):
        return 0.0, 1.0
    if quantity == "rate":
        return 0.0, inf
    return (0.0, HORIZON) if quantity in ("median", "restricted mean") else WHOLE_LINE


def _unsure(quantity: str, of: str, condition: Condition) -> bool:
    """Intervals of the population hold every course within bins, or all times of censoring; few records are coarse."""
    few = condition.size * condition.sites < 1_000
    return few or of == "these records" or quantity in ("median", "restricted mean", "rate") or "unlike" in quantity


COURSES = {
    "equal groups, even censoring": Course(0.08, 1.0, 0.0, lumpy=False),
    "hazard ratio 2, lumps of censoring": Course(0.05, 2.0, 0.05, lumpy=True, share=0.3),
    "equal groups, censored unlike": Course(0.08, 1.0, 0.0, lumpy=False, unlike=True),
}


def _case(course: Course) -> PartCase:
    part = Survival("survival", group="arm", cause=None if not course.other else "death")
    if course.unlike:
        return PartCase(part, SCHEMA, course.draw, _estimates_unlike, course.truths, _ranges, _test_unlike, _unsure)
    nulls = _test if course.ratio == 1.0 else lambda _result: ()
    return PartCase(part, SCHEMA, course.draw, _estimates, course.truths, _ranges, nulls, _unsure)


CASES: dict[str, Case] = {f"survival: {name}": Case(_case(course), 400, 1) for name, course in COURSES.items()}
