"""What the runs of the study of holdouts say, as plain data: its document is made of it."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from expril.report.provenance import Provenance
from lab.averages import Interval
from lab.cells import INFINITE, by_seed, grouped
from lab.holdout.blog import TOLERANCE, blog_cost, questions
from lab.holdout.claims import Claim, bias, claims_of, peak_at
from lab.holdout.draws import BLOG, SETTINGS, VARIABLES
from lab.holdout.runs import LARGE, NAIVE, PROCEDURES, SOURCE, THRESHOLDOUT, Run

SPREAD = (0.1, 0.9)
"""Quantiles between which a band lies: eight of ten data sets."""
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
        """Of at least one data set; all have as many steps."""
        values = np.array(rows, dtype=float)
        low, high = np.quantile(values, SPREAD, axis=0)
        return cls(*(tuple(round(float(value), 4) for value in each) for each in (values.mean(axis=0), low, high)))


class Reported(msgspec.Struct, frozen=True):
    """The model that a procedure's user keeps, of the steps asked about the one believed to be best.

    Attributes:
        believed: its accuracy, as its user believes, in percent.
        true: its accuracy on fresh records.
        excess: the first less the second, in points.
        variables: of it.
        signals: that carry signal among them.
        off: mean distance of belief and truth over all steps asked about, in points.
    """

    believed: Interval
    true: Interval
    excess: Interval
    variables: Interval
    signals: Interval
    off: Interval


class Procedure(msgspec.Struct, frozen=True):
    """One procedure in one setting.

    Attributes:
        setting: key of `SETTINGS`.
        procedure, epsilon: see `Run`.
        runs: data sets.
        train, test, fresh, believed: accuracy in percent by step.
        found: signal variables chosen up to a step.
        peak: largest true accuracy of a data set, in percent.
        peak_at: with how many variables.
        final: true accuracy in the end.
        bias: test less true accuracy in the end, in points.
        signals: found in the end.
        reported: what its user keeps.
        asked, counted: questions to the curator, and how many were answered by counts; None where none is asked.
        charged: exact epsilon by the curators' ledgers, smallest and largest of a run; "" where none is asked.
        seconds: of a run.
    """

    setting: str
    procedure: str
    epsilon: str
    runs: int
    train: Band
    test: Band
    fresh: Band
    believed: Band
    found: Band
    peak: Interval
    peak_at: Interval
    final: Interval
    bias: Interval
    signals: Interval
    reported: Reported
    asked: Interval | None
    counted: Interval | None
    charged: tuple[str, str]
    seconds: float

    @property
    def title(self) -> str:
        """In words."""
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
        """Of one run of it."""
        records = run.sizes[1]
        cost = blog_cost(records, questions(VARIABLES, len(run.signal)))
        names = ("moved", "noise_alone", "usual", "question", "run_by_noise", "run", "honest_scale")
        return cls(records, cost.questions, str(TOLERANCE), *(float(getattr(cost, name)) for name in names))


class Findings(msgspec.Struct, frozen=True):
    """What the runs say.

    Attributes:
        shown: in the order of settings, then of procedures, then by epsilon.
        claims: the blog's, beside what was measured.
        cost: of the blog's variant; None before it was run.
        provenance: None before anything was computed.
    """

    shown: tuple[Procedure, ...]
    claims: tuple[Claim, ...]
    cost: Cost | None
    provenance: Provenance | None = None

    @property
    def main(self) -> tuple[Procedure, ...]:
        """In the blog's setting."""
        return tuple(each for each in self.shown if each.setting == BLOG)


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Findings:
    """All that the runs show, whatever is still missing."""
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
        tuple(_procedure(key, held) for key, held in groups.items()),
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
        found=Band.of([run.found for run in runs]),
        peak=Interval.of(max(run.percent("fresh")) for run in runs),
        peak_at=Interval.of(peak_at(run) for run in runs),
        final=Interval.of(run.percent("fresh")[-1] for run in runs),
        bias=Interval.of(bias(run) for run in runs),
        signals=Interval.of(sum(run.signal) for run in runs),
        reported=_reported(runs),
        asked=Interval.of(run.asked for run in runs) if asks else None,
        counted=Interval.of(run.counted for run in runs) if asks else None,
        charged=(str(charged[0]), str(charged[-1])) if asks else ("", ""),
        seconds=round(float(np.mean([run.seconds for run in runs])), 2),
    )


def _reported(runs: Sequence[Run]) -> Reported:
    kept = [kept_step(run) for run in runs]
    fresh = [run.percent("fresh") for run in runs]
    believed = [run.believed for run in runs]
    off = [
        float(np.mean(np.abs(np.subtract(said, true))[: _steps(run)]))
        for run, said, true in zip(runs, believed, fresh, strict=True)
    ]
    return Reported(
        believed=Interval.of(said[step] for said, step in zip(believed, kept, strict=True)),
        true=Interval.of(true[step] for true, step in zip(fresh, kept, strict=True)),
        excess=Interval.of(said[step] - true[step] for said, true, step in zip(believed, fresh, kept, strict=True)),
        variables=Interval.of(step + 1 for step in kept),
        signals=Interval.of(run.found[step] for run, step in zip(runs, kept, strict=True)),
        off=Interval.of(off),
    )


def _steps(run: Run) -> int:
    """How many steps were asked about: all of them where no curator was."""
    return run.last + 1 if run.charged else len(run.signal)


def kept_step(run: Run) -> int:
    """The step whose model is believed to be best, the first of them."""
    return int(np.argmax(run.believed[: _steps(run)]))
