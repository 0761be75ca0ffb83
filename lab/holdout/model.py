"""What the study of holdouts found, as plain data: its tables, its page and its files are made of it."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec
import numpy as np

from expril.report.provenance import Provenance
from lab.holdout.blog import TOLERANCE, BlogCost, blog_cost, questions
from lab.holdout.claims import Claim, bias, claims_of, peak_at
from lab.holdout.draws import BLOG, SETTINGS, VARIABLES
from lab.holdout.runs import NO_EPSILON, PROCEDURES, THRESHOLDOUT, Run
from lab.means import Mean

SPREAD = (0.1, 0.9)
"""Quantiles between which a band lies: eight of ten data sets."""


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

    believed: Mean
    true: Mean
    excess: Mean
    variables: Mean
    signals: Mean
    off: Mean


class Shown(msgspec.Struct, frozen=True):
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
    peak: Mean
    peak_at: Mean
    final: Mean
    bias: Mean
    signals: Mean
    reported: Reported
    asked: Mean | None
    counted: Mean | None
    charged: tuple[str, str]
    seconds: float


class Cost(msgspec.Struct, frozen=True):
    """What the blog's variant costs; see `BlogCost`."""

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
    def of(cls, records: int, cost: BlogCost) -> "Cost":
        """With so many test records."""
        return cls(
            records,
            cost.questions,
            str(TOLERANCE),
            *(
                float(value)
                for value in (
                    cost.moved,
                    cost.noise_alone,
                    cost.usual,
                    cost.question,
                    cost.run_by_noise,
                    cost.run,
                    cost.honest_scale,
                )
            ),
        )


class Found(msgspec.Struct, frozen=True):
    """Everything that a report shows.

    Attributes:
        shown: in the order of settings, then of procedures, then by epsilon.
        claims: the blog's, beside what was measured.
        cost: of the blog's variant; None before it was run.
        provenance: None before anything was computed.
    """

    shown: tuple[Shown, ...]
    claims: tuple[Claim, ...]
    cost: Cost | None
    provenance: Provenance | None = None

    @property
    def main(self) -> tuple[Shown, ...]:
        """In the blog's setting."""
        return tuple(each for each in self.shown if each.setting == BLOG)

    @property
    def others(self) -> tuple[Shown, ...]:
        """In all settings, procedures that ask no curator."""
        return tuple(each for each in self.shown if each.epsilon == NO_EPSILON)


def found_of(runs: Sequence[Run]) -> Found:
    """All that these cells show, whatever is still missing."""
    grouped: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.setting, run.procedure, run.epsilon), []).append(run)
    settings = list(SETTINGS)

    def order(key: tuple[str, str, str]) -> tuple[int, int, Fraction]:
        setting, procedure, epsilon = key
        return settings.index(setting), PROCEDURES.index(procedure), Fraction(0 if epsilon == NO_EPSILON else epsilon)

    held = [run for run in runs if run.procedure == THRESHOLDOUT and run.setting == BLOG]
    return Found(
        tuple(_shown(key, sorted(grouped[key], key=lambda run: run.seed)) for key in sorted(grouped, key=order)),
        claims_of(runs),
        _cost(held[0]) if held else None,
    )


def _cost(run: Run) -> Cost:
    return Cost.of(run.sizes[1], blog_cost(run.sizes[1], questions(VARIABLES, len(run.signal))))


def _shown(key: tuple[str, str, str], runs: Sequence[Run]) -> Shown:
    asks = bool(runs[0].charged)
    charged = sorted(Fraction(run.charged) for run in runs) if asks else []
    return Shown(
        *key,
        runs=len(runs),
        train=Band.of([run.percent("train") for run in runs]),
        test=Band.of([run.percent("test") for run in runs]),
        fresh=Band.of([run.percent("fresh") for run in runs]),
        believed=Band.of([run.believed for run in runs]),
        found=Band.of([run.found for run in runs]),
        peak=Mean.of(max(run.percent("fresh")) for run in runs),
        peak_at=Mean.of(peak_at(run) for run in runs),
        final=Mean.of(run.percent("fresh")[-1] for run in runs),
        bias=Mean.of(bias(run) for run in runs),
        signals=Mean.of(sum(run.signal) for run in runs),
        reported=_reported(runs),
        asked=Mean.of(run.asked for run in runs) if asks else None,
        counted=Mean.of(run.counted for run in runs) if asks else None,
        charged=(str(charged[0]), str(charged[-1])) if asks else ("", ""),
        seconds=round(float(np.mean([run.seconds for run in runs])), 2),
    )


def _reported(runs: Sequence[Run]) -> Reported:
    kept = [kept_of(run) for run in runs]
    fresh = [run.percent("fresh") for run in runs]
    believed = [run.believed for run in runs]
    off = [
        float(np.mean(np.abs(np.subtract(said, true))[: _steps(run)]))
        for run, said, true in zip(runs, believed, fresh, strict=True)
    ]
    return Reported(
        believed=Mean.of(said[step] for said, step in zip(believed, kept, strict=True)),
        true=Mean.of(true[step] for true, step in zip(fresh, kept, strict=True)),
        excess=Mean.of(said[step] - true[step] for said, true, step in zip(believed, fresh, kept, strict=True)),
        variables=Mean.of(step + 1 for step in kept),
        signals=Mean.of(run.found[step] for run, step in zip(runs, kept, strict=True)),
        off=Mean.of(off),
    )


def _steps(run: Run) -> int:
    """How many steps were asked about: all of them where no curator was."""
    return run.last + 1 if run.charged else len(run.signal)


def kept_of(run: Run) -> int:
    """The step whose model is believed to be best, the first of them."""
    return int(np.argmax(run.believed[: _steps(run)]))
