"""What the runs of the study of holdouts say, as plain data: its document is made of it.

Among it is what the blog says of its one data set, and what many data sets say of that.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import msgspec
import numpy as np

from expril.report.provenance import Provenance
from lab.averages import COVERAGE, Interval
from lab.cells import INFINITE, by_seed, grouped
from lab.holdout.blog import TOLERANCE, blog_cost, questions
from lab.holdout.draws import BLOG, SETTINGS, VARIABLES
from lab.holdout.runs import LARGE, NAIVE, PROCEDURES, SOURCE, THRESHOLDOUT, Run
from learner_node.scores.values import wilson

Verdict = Literal["holds", "possible", "not seen", "open"]
HOLDS: Verdict = "holds"
POSSIBLE: Verdict = "possible"
NOT_SEEN: Verdict = "not seen"
OPEN: Verdict = "open"
MOST = 50.0  # percentage of data sets above which a statement without a number holds
EARLY = 10
WITHIN_ERRORS = 2.0

Runs = Mapping[str, Run]  # one data set's runs by procedure


@dataclass(frozen=True)
class Statement:
    """One sentence of the blog, made so exact that a run can be held against it."""

    procedure: str  # that it is about
    says: str  # the blog's statement
    made_exact: str  # what is measured for it
    value: Callable[[Runs], float]  # of one data set; for a statement without a number, whether it is so (1 or 0)
    claimed: float | None = None  # the blog's number; None for a statement without one
    rounding: float = 0.5  # how far from it a number still is what the blog says


class Claim(msgspec.Struct, frozen=True):
    """A statement beside what was measured."""

    procedure: str  # of the statement
    says: str
    made_exact: str
    claimed: float | None
    mean: Interval  # over data sets; of a statement without a number, the percentage of them in which it is so
    low: float  # ends of the central 95 % of data sets; of a statement without a number, of the interval of its share
    high: float
    # "holds" where the whole interval of the mean is what the blog states, or that of the share is above one half;
    # "open" where the interval has both sides, so that these data sets cannot tell; where it has the other side only,
    # "possible" if it happened (of a number: some data sets reach it), else "not seen"
    verdict: Verdict


def _last(part: str, procedure: str) -> Callable[[Runs], float]:
    return lambda runs: runs[procedure].percent(part)[-1]


def _peak(procedure: str) -> Callable[[Runs], float]:
    return lambda runs: max(runs[procedure].percent("fresh"))


def peak_at(run: Run) -> int:
    """The least number of variables at which true accuracy is largest."""
    return int(np.argmax(run.fresh)) + 1


def bias(run: Run) -> float:
    """How much better the test records say that the last model is than it is, in points."""
    return run.percent("test")[-1] - run.percent("fresh")[-1]


def _near_chance(runs: Runs) -> float:
    run = runs[NAIVE]
    return float(run.percent("fresh")[-1] < (50 + SETTINGS[run.problem].best) / 2)


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
        THRESHOLDOUT, "a peak accuracy of about 61 %", "largest true accuracy, in percent", _peak(THRESHOLDOUT), 61.0
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
    complete = [by_procedure for _, by_procedure in sorted(by_seed.items()) if len(by_procedure) == 3]
    return tuple(hold(statement, complete) for statement in STATEMENTS) if complete else ()


def hold(statement: Statement, data_sets: Sequence[Runs]) -> Claim:
    """A statement beside at least one data set."""
    values = [statement.value(runs) for runs in data_sets]
    if statement.claimed is None:
        mean = Interval.of(100 * value for value in values)
        low, high = (round(100 * end, 9) for end in wilson(sum(values) / len(values), len(values)))
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
    """The verdict on an interval from low to high, for a statement that holds from least to most."""
    if least <= low and high <= most:
        return HOLDS
    if low <= most and least <= high:
        return OPEN
    return POSSIBLE if happened else NOT_SEEN


SPREAD = (0.1, 0.9)  # quantiles between which a band lies: eight of ten data sets
TITLES = {
    NAIVE: "naive, 1,000 test rows",
    THRESHOLDOUT: "the blog's Thresholdout, eps 0.04",
    LARGE: "naive, 10,000 test rows",
    SOURCE: "training likelihood",
}


class Band(msgspec.Struct, frozen=True):
    """A number of each step over data sets: its mean, and quantiles between which eight of ten lie."""

    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> "Band":
        """The band of at least one data set; all have the same number of steps."""
        values = np.array(rows, dtype=float)
        low, high = np.quantile(values, SPREAD, axis=0)
        return cls(
            *(tuple(round(float(value), 4) for value in numbers) for numbers in (values.mean(axis=0), low, high))
        )


class Reported(msgspec.Struct, frozen=True):
    """The model that a procedure's user keeps, of the steps asked about the one believed to be best."""

    believed: Interval  # its accuracy, as its user believes, in percent
    true: Interval  # its accuracy on fresh records
    excess: Interval  # the first less the second, in points
    variables: Interval
    signals: Interval  # that carry signal among them
    off: Interval  # mean distance of belief and truth over all steps asked about, in points


class Procedure(msgspec.Struct, frozen=True):
    """One procedure in one setting."""

    setting: str  # key of `SETTINGS`
    procedure: str  # see `Run`
    epsilon: str
    runs: int  # data sets
    train: Band  # accuracy in percent by step
    test: Band
    fresh: Band
    believed: Band
    signals_by_step: Band = msgspec.field(name="found")  # signal variables chosen up to a step
    peak: Interval  # largest true accuracy of a data set, in percent
    peak_at: Interval  # with how many variables
    final: Interval  # true accuracy in the end
    bias: Interval  # test less true accuracy in the end, in points
    signals: Interval  # found in the end
    reported: Reported  # what its user keeps
    questions: Interval | None = msgspec.field(
        name="asked"
    )  # questions to the curator, and how many were answered by counts; None where none is asked
    counted: Interval | None
    # exact epsilon by the curators' ledgers, smallest and largest of a run; "" where none is asked
    charged: tuple[str, str]
    seconds: float  # of a run

    @property
    def title(self) -> str:
        """The procedure in words, with its epsilon."""
        title = TITLES.get(self.procedure, self.procedure)
        return title if self.epsilon == INFINITE else f"{title}, epsilon {self.epsilon}"


class Cost(msgspec.Struct, frozen=True):
    """What the blog's variant costs; see `lab.holdout.blog.BlogCost`."""

    records: int
    questions: int
    tolerance: str
    moved: float
    noise_alone: float
    usual: float
    question: float
    run_by_noise: float
    run: float
    honest_scale: float

    @classmethod
    def of(cls, run: Run) -> "Cost":
        """The cost of one run of the variant."""
        records = run.sizes[1]
        cost = blog_cost(records, questions(VARIABLES, len(run.signal)))
        names = ("moved", "noise_alone", "usual", "question", "run_by_noise", "run", "honest_scale")
        return cls(records, cost.questions, str(TOLERANCE), *(float(getattr(cost, name)) for name in names))


class Findings(msgspec.Struct, frozen=True):
    """What the runs say."""

    procedures: tuple[Procedure, ...] = msgspec.field(
        name="shown"
    )  # in the order of settings, then of procedures, then by epsilon
    claims: tuple[Claim, ...]  # the blog's, beside what was measured
    cost: Cost | None  # of the blog's variant; None before it was run
    provenance: Provenance | None = None  # None before anything was computed

    @property
    def main(self) -> tuple[Procedure, ...]:
        """Procedures in the blog's setting."""
        return tuple(procedure for procedure in self.procedures if procedure.setting == BLOG)


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Findings:
    """Findings of the runs that there are."""
    runs = cells["runs"]
    groups = grouped(
        by_seed(runs),
        lambda run: (run.problem, run.maker, run.epsilon),
        list(SETTINGS),
        PROCEDURES,
        lambda epsilon: Fraction(0 if epsilon == INFINITE else epsilon),
    )
    variants = [run for run in runs if run.maker == THRESHOLDOUT and run.problem == BLOG]
    return Findings(
        tuple(_procedure(key, group) for key, group in groups.items()),
        claims_of(runs),
        Cost.of(variants[0]) if variants else None,
        provenance,
    )


def _procedure(key: tuple[str, str, str], runs: Sequence[Run]) -> Procedure:
    asks = bool(runs[0].charged)
    charged = sorted(Fraction(run.charged) for run in runs) if asks else []
    return Procedure(
        *key,
        runs=len(runs),
        train=Band.of([run.percent("train") for run in runs]),
        test=Band.of([run.percent("test") for run in runs]),
        fresh=Band.of([run.percent("fresh") for run in runs]),
        believed=Band.of([run.believed for run in runs]),
        signals_by_step=Band.of([run.signals_found for run in runs]),
        peak=Interval.of(max(run.percent("fresh")) for run in runs),
        peak_at=Interval.of(peak_at(run) for run in runs),
        final=Interval.of(run.percent("fresh")[-1] for run in runs),
        bias=Interval.of(bias(run) for run in runs),
        signals=Interval.of(sum(run.signal) for run in runs),
        reported=_reported(runs),
        questions=Interval.of(run.questions for run in runs) if asks else None,
        counted=Interval.of(run.counted for run in runs) if asks else None,
        charged=(str(charged[0]), str(charged[-1])) if asks else ("", ""),
        seconds=round(float(np.mean([run.seconds for run in runs])), 2),
    )


def _reported(runs: Sequence[Run]) -> Reported:
    steps = [kept_step(run) for run in runs]
    fresh = [run.percent("fresh") for run in runs]
    believed = [run.believed for run in runs]
    off = [
        float(np.mean(np.abs(np.subtract(belief, true))[: _steps(run)]))
        for run, belief, true in zip(runs, believed, fresh, strict=True)
    ]
    return Reported(
        believed=Interval.of(belief[step] for belief, step in zip(believed, steps, strict=True)),
        true=Interval.of(true[step] for true, step in zip(fresh, steps, strict=True)),
        excess=Interval.of(
            belief[step] - true[step] for belief, true, step in zip(believed, fresh, steps, strict=True)
        ),
        variables=Interval.of(step + 1 for step in steps),
        signals=Interval.of(run.signals_found[step] for run, step in zip(runs, steps, strict=True)),
        off=Interval.of(off),
    )


def _steps(run: Run) -> int:
    """How many steps were asked about: all of them where no curator was."""
    return run.last + 1 if run.charged else len(run.signal)


def kept_step(run: Run) -> int:
    """The step whose model is believed to be best, the first of them."""
    return int(np.argmax(run.believed[: _steps(run)]))
