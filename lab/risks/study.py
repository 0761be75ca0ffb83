"""How right the stated risks are: their mean, its interval, and their spread, over populations that are known exactly.

The settings are a design in which each pair of levels of any two of seven factors meets. A population is 20,000
records whose class probabilities are known, so that means, slopes and scores are expectations over labels, not chance.
Private records are drawn from it, with replacement; no curator is involved: see `exact_counts`.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table, numbers
from lab.averages import Mean, covers, marked
from lab.cells import by_seed, grouped
from lab.exact_counts import NOISE
from lab.risks.runs import CELLS, MAKERS, REGRESSION, SMOOTH, RiskRun, compute, design
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from simulations.campaign.store import Task

SLOPES = (0.8, 1.25)
SLOPE_RUNS = 40
FORGIVEN = 3.0
"""Standard errors by which a bar may be missed."""
MEASURES = ("auc", "brier", "accuracy")
READING = (
    "Bias / error: the mean of what the model says less the true prevalence, over the implied standard error; it "
    "should be within a quarter. Holds: how often the interval holds the true prevalence; at least .93. Slope: of the "
    "true log odds on the model's, of the first forty runs; in [.8, 1.25] where regression without privacy has it "
    "there, and else no farther from 1 than that and .1. Three standard errors are forgiven; (!) marks what misses."
)
READING_PAIRS = (
    "Mean of the paired differences of `cells` from the model without networks, times 100, with its standard error."
)


class Row(msgspec.Struct, frozen=True):
    """One class of one setting, over its runs."""

    setting: str  # name of its row
    place: int  # which of the shown classes
    runs: int  # of `cells`
    truth: float  # the class's share of the population
    error: float  # standard error that the answers imply, mean
    bias: Mean  # of what the model says less the truth, over that error
    holds: float  # share of runs in which the interval holds the true prevalence
    slope: Mean | None  # over the first runs that have one; None where none has
    regression: Mean | None  # the same of regression

    @property
    def unbiased(self) -> bool:
        """Whether the bias is at most a quarter of the implied error, less three of its own standard errors."""
        return abs(self.bias.value) <= 0.25 + FORGIVEN * self.bias.error

    @property
    def covers(self) -> bool:
        """Whether the interval holds in at least 93 of 100, less three standard errors of that share."""
        return covers(self.holds, self.runs, FORGIVEN)

    @property
    def calibrated(self) -> bool | None:
        """Whether the slope is as right as that of regression, see docs/risks.md; None where it cannot be told."""
        if self.slope is None or self.regression is None:
            return None
        (low, high), slope, other = SLOPES, self.slope.value, self.regression.value
        slack = FORGIVEN * self.slope.error
        if low <= other <= high:
            return low - slack <= slope <= high + slack
        return abs(slope - 1.0) <= abs(other - 1.0) + 0.1 + slack


class Pairs(msgspec.Struct, frozen=True):
    """`cells` less the model without networks, over all settings of one epsilon, or of all."""

    epsilon: str  # exact text, or "all"
    differences: dict[str, Mean]  # of each of `MEASURES`


class Findings(msgspec.Struct, frozen=True):
    """What the runs say, in the design's order."""

    rows: tuple[Row, ...]
    pairs: tuple[Pairs, ...]
    provenance: Provenance | None = None


def findings(cells: Mapping[str, Sequence[RiskRun]], provenance: Provenance | None = None) -> Findings:
    """Every setting and class of which there are runs of `cells`."""
    by = grouped(cells["runs"], lambda run: (run.problem, run.maker))
    rows = [
        _row(name, place, own, by.get((name, REGRESSION), ()))
        for name in design()
        if (own := by.get((name, CELLS)))
        for place in range(len(own[0].truth))
    ]
    return Findings(tuple(rows), _pairs(cells["runs"]), provenance)


def _row(name: str, place: int, own: Sequence[RiskRun], other: Sequence[RiskRun]) -> Row:
    truth = own[0].truth[place]
    return Row(
        setting=name,
        place=place,
        runs=len(own),
        truth=truth,
        error=float(np.mean([run.error[place] for run in own])),
        bias=Mean.of([(run.said[place] - truth) / run.error[place] for run in own]),
        holds=float(np.mean([run.low[place] <= truth <= run.high[place] for run in own])),
        slope=_slope(own, place),
        regression=_slope(other, place),
    )


def _slope(runs: Sequence[RiskRun], place: int) -> Mean | None:
    """Of the first runs by seed, those that have one."""
    return Mean.of_any(slope for run in by_seed(runs)[:SLOPE_RUNS] if (slope := run.slope[place]) is not None)


def _pairs(runs: Sequence[RiskRun]) -> tuple[Pairs, ...]:
    by = {run.key: run for run in runs}
    pairs = [
        (key, (own, run))
        for run in runs
        if run.maker == SMOOTH and (own := by.get(run.key._replace(maker=CELLS)))
        for key in (run.epsilon, "all")
    ]
    groups = grouped(pairs, lambda pair: pair[0])
    return tuple(
        Pairs(
            key,
            {name: Mean.of(getattr(one, name) - getattr(other, name) for _, (one, other) in held) for name in MEASURES},
        )
        for key, held in sorted(groups.items())
    )


def document(found: Findings) -> Document:
    """Each setting and class, how many meet each bar, and the paired differences."""

    def slope(row: Row) -> str:
        return "–" if row.slope is None else marked(row.slope.text(".2f"), fine=row.calibrated is not False)

    def difference(name: str, means: Mapping[str, Mean]) -> str:
        return means[name].text("+.3f", 100.0)

    columns: list[Column[Row]] = [
        Column("setting", lambda row: row.setting, names=True),
        Column("class", lambda row: row.place),
        Column("runs", lambda row: row.runs, number=True, page=True),
        *numbers("prevalence = truth", "{:.3f}".format),
        *numbers("implied error = error", "{:.4f}".format),
        Column("bias / error", lambda row: marked(row.bias.text("+.2f"), fine=row.unbiased), number=True),
        Column("holds", lambda row: marked(f"{row.holds:.3f}", fine=row.covers), number=True),
        Column("slope", slope, number=True),
        *numbers("regression = regression", lambda regression: f"{regression.value:.2f}"),
    ]
    judged = {
        "unbiased": [row.unbiased for row in found.rows],
        "interval holds": [row.covers for row in found.rows],
        "slope right": [row.calibrated for row in found.rows if row.calibrated is not None],
    }
    counted: list[Column[str]] = [
        Column("bar", str, names=True),
        Column("met", lambda bar: sum(judged[bar]), number=True),
        Column("of", lambda bar: len(judged[bar]), number=True),
    ]
    pairs: list[Column[Pairs]] = [
        Column("epsilon", lambda row: row.epsilon, names=True),
        Column("pairs", lambda row: row.differences["auc"].runs, number=True),
        *(numbers(f"{name} = differences", partial(difference, name))[0] for name in MEASURES),
    ]
    counts = Table.of("Bars met", counted, tuple(judged) if found.rows else ())
    differences = Table.of("Against the model without networks", pairs, found.pairs)
    sections = [
        Section("Settings and classes", [Text(READING), Table.of("Settings and classes", columns, found.rows)]),
        Section("Bars met", [counts]),
        Section("Against the model without networks", [Text(READING_PAIRS), differences]),
    ]
    return document_of("risks", sections, found.provenance)


def tasks(order: Order) -> list[Task]:
    """All runs; the model without networks is of two classes."""
    known, axes = design(), order.size.axes
    return [
        Task(name, maker, known[name].epsilon, seed)
        for seed in order.seeds
        for name in axes["settings"]
        for maker in axes["makers"]
        if maker != SMOOTH or known[name].classes == 2
    ]


SETTINGS = tuple(design())
STUDY = Study(
    name="risks",
    parts=[Part("runs", RiskRun, tasks, compute)],
    findings=findings,
    document=document,
    choices={"settings": SETTINGS, "makers": MAKERS},
    short=Size(2, (), {"settings": SETTINGS[:6], "makers": (CELLS, REGRESSION)}, "a minute"),
    full=Size(200, (), {"settings": SETTINGS, "makers": (CELLS,)}, "half a day"),
    seed=7000,
    noise=NOISE,
    width=180,
)
