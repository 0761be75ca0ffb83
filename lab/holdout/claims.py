"""What the blog says of its one data set, and what many data sets say of that."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np

from lab.averages import COVERAGE, Interval
from lab.holdout.draws import BLOG, SETTINGS
from lab.holdout.runs import LARGE, NAIVE, THRESHOLDOUT, Run

Verdict = Literal["holds", "possible", "not seen", "open"]
HOLDS: Verdict = "holds"
POSSIBLE: Verdict = "possible"
NOT_SEEN: Verdict = "not seen"
OPEN: Verdict = "open"
MOST = 50.0
"""Percentage of data sets above which a statement without a number holds."""
EARLY = 10
WITHIN_ERRORS = 2.0

Runs = Mapping[str, Run]
"""One data set's runs by procedure."""


@dataclass(frozen=True)
class Statement:
    """One sentence of the blog, made so exact that a run can be held against it.

    Attributes:
        procedure: that it is about.
        says: the blog's statement.
        made_exact: what is measured for it.
        value: of one data set; for a statement without a number, whether it is so (1 or 0).
        claimed: the blog's number; None for a statement without one.
        rounding: how far from it a number still is what the blog says.
    """

    procedure: str
    says: str
    made_exact: str
    value: Callable[[Runs], float]
    claimed: float | None = None
    rounding: float = 0.5


class Claim(msgspec.Struct, frozen=True):
    """A statement beside what was measured.

    Attributes:
        procedure, says, made_exact, claimed: of the statement.
        mean: over data sets; of a statement without a number, the percentage of them in which it is so.
        low, high: ends of the central 95 % of data sets; of a statement without a number, of the interval of its share.
        verdict: "holds" where the whole interval of the mean is what the blog states, or that of the share is above
            one half; "open" where the interval has both sides, so that these data sets cannot tell; where it has the
            other side only, "possible" if it happened (of a number: some data sets reach it), else "not seen".
    """

    procedure: str
    says: str
    made_exact: str
    claimed: float | None
    mean: Interval
    low: float
    high: float
    verdict: Verdict


def _last(part: str, procedure: str) -> Callable[[Runs], float]:
    return lambda runs: runs[procedure].percent(part)[-1]


def _peak(procedure: str) -> Callable[[Runs], float]:
    return lambda runs: max(runs[procedure].percent("fresh"))


def peak_at(run: Run) -> int:
    """With how many variables true accuracy is largest, the fewest of them."""
    return int(np.argmax(run.fresh)) + 1


def bias(run: Run) -> float:
    """How much better the test records say that the last model is than it is, in points."""
    return run.percent("test")[-1] - run.percent("fresh")[-1]


def _near_chance(runs: Runs) -> float:
    run = runs[NAIVE]
    return float(run.percent("fresh")[-1] < (50 + SETTINGS[run.problem].ceiling) / 2)


def _estimates_well(runs: Runs) -> float:
    run = runs[THRESHOLDOUT]
    share = run.fresh[-1] / run.sizes[2]
    error = 100 * (share * (1 - share) * (1 / run.sizes[1] + 1 / run.sizes[2])) ** 0.5
    return float(abs(bias(run)) <= WITHIN_ERRORS * error)


STATEMENTS = (
    Statement(
        NAIVE,
        "it picked one of the ten signal variables",
        "signal variables among the chosen",
        lambda runs: float(sum(runs[NAIVE].signal)),
        1.0,
    ),
    Statement(
        NAIVE,
        "that one was the first selected",
        "the first variable carries signal",
        lambda runs: float(runs[NAIVE].signal[0]),
    ),
    Statement(
        NAIVE,
        "test estimates are more upwardly biased than training estimates",
        "in the end test accuracy is above training accuracy",
        lambda runs: float(_last("test", NAIVE)(runs) > _last("train", NAIVE)(runs)),
    ),
    Statement(
        NAIVE,
        "true performance is not much better than random",
        "in the end true accuracy is nearer to 50 % than to that of the best rule",
        _near_chance,
    ),
    Statement(
        NAIVE,
        "performance degrades as noise swamps the single signal",
        "in the end true accuracy is lower than with the first variable alone",
        lambda runs: float(runs[NAIVE].fresh[-1] < runs[NAIVE].fresh[0]),
    ),
    Statement(
        THRESHOLDOUT,
        "it found all ten signal variables",
        "signal variables among the chosen",
        lambda runs: float(sum(runs[THRESHOLDOUT].signal)),
        10.0,
    ),
    Statement(
        THRESHOLDOUT,
        "a peak accuracy of about 61 %",
        "largest true accuracy, in percent",
        _peak(THRESHOLDOUT),
        61.0,
    ),
    Statement(
        THRESHOLDOUT,
        "at around 36 variables",
        "variables at the largest true accuracy",
        lambda runs: float(peak_at(runs[THRESHOLDOUT])),
        36.0,
        2.0,
    ),
    Statement(
        THRESHOLDOUT,
        "it started picking noise variables fairly early",
        f"there is a noise variable among the first {EARLY}",
        lambda runs: float(not all(runs[THRESHOLDOUT].signal[:EARLY])),
    ),
    Statement(
        THRESHOLDOUT,
        "the test set estimates the true accuracies quite well",
        "in the end test accuracy is within two standard errors of the true one",
        _estimates_well,
    ),
    Statement(
        LARGE,
        "it picks nine of the signal variables immediately",
        "signal variables among the first nine",
        lambda runs: float(sum(runs[LARGE].signal[:9])),
        9.0,
    ),
    Statement(LARGE, "an accuracy of 62 %", "largest true accuracy, in percent", _peak(LARGE), 62.0),
    Statement(
        LARGE,
        "test performance is still upwardly biased",
        "in the end test accuracy is above the true one",
        lambda runs: float(bias(runs[LARGE]) > 0),
    ),
    Statement(
        LARGE,
        "but much less so than with the naive method",
        "its bias is less than half of the naive one on the same data set",
        lambda runs: float(bias(runs[LARGE]) < bias(runs[NAIVE]) / 2),
    ),
)


def claims_of(runs: Sequence[Run]) -> tuple[Claim, ...]:
    """Each statement beside the data sets of the blog's setting that all three of its procedures have."""
    by_seed: dict[int, dict[str, Run]] = {}
    for run in runs:
        if run.problem == BLOG and run.maker in (NAIVE, THRESHOLDOUT, LARGE):
            by_seed.setdefault(run.seed, {})[run.maker] = run
    whole = [found for _, found in sorted(by_seed.items()) if len(found) == 3]
    return tuple(hold(statement, whole) for statement in STATEMENTS) if whole else ()


def hold(statement: Statement, data_sets: Sequence[Runs]) -> Claim:
    """A statement beside at least one data set."""
    values = [statement.value(runs) for runs in data_sets]
    if statement.claimed is None:
        mean = Interval.of(100 * value for value in values)
        low, high = wilson(sum(values), len(values))
        verdict = _verdict(low, high, MOST, 100.0, happened=any(values))
    else:
        mean = Interval.of(values)
        low, high = (float(end) for end in np.quantile(values, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))
        near = statement.rounding
        error = mean.error if mean.runs > 1 else math.inf
        least, most = statement.claimed - near, statement.claimed + near
        reached = min(values) <= most and max(values) >= least
        verdict = _verdict(mean.value - error, mean.value + error, least, most, happened=reached)
    return Claim(statement.procedure, statement.says, statement.made_exact, statement.claimed, mean, low, high, verdict)


def _verdict(low: float, high: float, least: float, most: float, *, happened: bool) -> Verdict:
    """Of an interval from low to high, where least to most is what holds."""
    if least <= low and high <= most:
        return HOLDS
    if low <= most and least <= high:
        return OPEN
    return POSSIBLE if happened else NOT_SEEN


def wilson(hits: float, trials: int) -> tuple[float, float]:
    """Ends in percent of Wilson's 95 % interval of a share."""
    z = 1.959964
    share, weight = hits / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * (share * (1 - share) / trials + weight / (4 * trials)) ** 0.5
    low, high = (round(100 * end, 9) for end in (middle - half, middle + half))
    return max(0.0, low), min(100.0, high)
