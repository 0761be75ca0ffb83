"""How right the stated risks are: their mean, its interval, and their spread, over populations known exactly.

The settings are a design in which each pair of levels of any two of seven factors meets. A population is 20,000 records
whose class probabilities are known, so that means, slopes and scores are expectations over labels, not chance. Private
records are drawn from it, with replacement; no curator is involved: see `exact_counts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table, numbers
from lab.averages import Mean, covers, marked
from lab.cells import TaskCell, by_seed, grouped
from lab.curators import NOISE, learn_from_counts
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.scores.auc import expected_auc
from learner_node.scores.prevalence import Prevalence, matching_factors, rescaled
from learner_node.strategies.base import ClassesEstimate, Problem, SourceEstimate, class_probabilities
from learner_node.strategies.cells import CellsByLabel
from learner_node.study.pooling import SecurePool
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema
from simulations.campaign.store import Task

Floats = NDArray[np.float64]

FACTORS = {
    "prevalence": (0.02, 0.05, 0.10, 0.17, 0.25, 0.50, 0.80, 0.98),
    "records a site": (30, 300, 3_000, 30_000, 100_000),
    "epsilon": ("0.1", "0.3", "1", "3"),
    "classes": (2, 3),
    "pooling": ("sum", "secure"),
    "records a unit": (1, 3),
    "signal": ("weak", "strong"),
}
"""Factor -> its levels. The prevalence is that of the last class; others share the rest evenly."""
POPULATION, DIMENSIONS = 20_000, 6
STRENGTH = {"weak": 0.5, "strong": 1.6}
"""Of the signal, by which the log odds vary: areas under the ROC curve of about .63 and .83 at a prevalence of .25."""
SITES = 3


@dataclass(frozen=True)
class Setting:
    """One row of the design; fields in the order of `FACTORS`."""

    prevalence: float
    records: int
    epsilon: str
    classes: int
    pooling: str
    most: int
    signal: str

    @property
    def name(self) -> str:
        """The setting's name for people, which is also the key of its results."""
        unit = "" if self.most == 1 else f", {self.most} a unit"
        return (
            f"{self.prevalence:g} of {self.classes}, {SITES} x {self.records:,}{unit}, {self.signal}, {self.pooling}, "
            f"epsilon {self.epsilon}"
        )


@lru_cache(1)
def design() -> dict[str, Setting]:
    """Every prevalence with every size; the other factors' levels are chosen one row after the other.

    Each row is the candidate with the most pairs of levels that no earlier row has.
    """
    factors = list(FACTORS.values())
    sizes = [len(levels) for levels in factors]
    met: set[tuple[int, int, int, int]] = set()
    rest = np.stack(np.meshgrid(*map(np.arange, sizes[2:]), indexing="ij"), axis=-1).reshape(-1, len(sizes) - 2)
    settings = []
    for number in range(sizes[0] * sizes[1]):
        first = (number % sizes[0], (number // sizes[0] + number) % sizes[1])
        shifted = np.roll(rest, 37 * number, axis=0)
        rows = [(*first, *map(int, row)) for row in shifted]
        row = max(rows, key=lambda row: len(_level_pairs(row) - met))
        met |= _level_pairs(row)
        settings.append(Setting(*(levels[at] for levels, at in zip(factors, row, strict=True))))  # type: ignore[arg-type]
    return {setting.name: setting for setting in settings}


def _level_pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


@dataclass(frozen=True)
class Population:
    """Records whose class probabilities are known."""

    records: Floats  # (20,000, 6)
    probabilities: Floats  # (20,000, C) of each class


@lru_cache(2)
def population(setting: Setting) -> Population:
    """The population of a setting, equal for all seeds; log odds have a linear part, a bend and a product."""
    rng = np.random.default_rng([710, list(design()).index(setting.name)])
    records = rng.standard_normal((POPULATION, DIMENSIONS))
    records[:, 1] += 0.5 * records[:, 0]
    scores = np.zeros((POPULATION, setting.classes))
    for number in range(1, setting.classes):
        x = np.roll(records, -2 * (setting.classes - 1 - number), axis=1)
        score = 0.8 * x[:, 0] + 0.5 * x[:, 1] - 0.4 * x[:, 2] * x[:, 3] + 0.3 * np.abs(x[:, 4])
        scores[:, number] = STRENGTH[setting.signal] * score
    shares = [(1.0 - setting.prevalence) / (setting.classes - 1)] * (setting.classes - 1) + [setting.prevalence]
    apart = np.exp(scores - scores.max(axis=1, keepdims=True))
    apart /= apart.sum(axis=1, keepdims=True)
    factors = matching_factors(apart, np.ones(POPULATION), shares)
    return Population(records, rescaled(apart, factors))


SOURCE = 900
CELLS, SMOOTH, REGRESSION = "cells", "cells-smooth", "regression"
MAKERS = (CELLS, SMOOTH, REGRESSION)
"""`cells` as it comes, without networks, and tuned logistic regression on the private records, without privacy."""
TUNED_UP_TO = 20_000  # records from which on regression is hardly penalised, and not tuned: its slope is then near 1
SUREST = 1e-6


class RiskRun(TaskCell, frozen=True):
    """What one model says of a population. Of two classes the second's; of more, each class's in turn."""

    problem: str = msgspec.field(name="setting")
    truth: tuple[float, ...]  # mean probabilities of the population
    stated: tuple[float, ...] = msgspec.field(name="said")  # means of the model's
    low: tuple[float, ...]  # of the 95 % interval of the shares; empty for regression
    high: tuple[float, ...]
    error: tuple[float, ...]  # standard error that the answers imply; empty for regression
    # of the true log odds on the model's, over the population; None where the model says one probability
    slope: tuple[float | None, ...]
    auc: float  # expected, of the last class against the rest
    brier: float  # expected mean squared error of the last class's probability
    accuracy: float  # expected share of records whose likeliest class is right
    seconds: float = 0.0


def compute(task: Task) -> RiskRun:
    """One run."""
    setting = design()[task.problem]
    truth = population(setting)
    rng = np.random.default_rng([711, task.seed])
    source = rng.choice(POPULATION, SOURCE, replace=False)
    private, labels = _private(setting, truth, rng)
    counted: tuple[Prevalence, ...] = ()
    if task.maker == REGRESSION:
        probabilities = _regression(truth, private, labels, setting.classes, task.seed)
    else:
        probabilities, counted = _cells(setting, truth, source, private, labels, rng, networks=task.maker == CELLS)
    classes = range(1, 2) if setting.classes == 2 else range(setting.classes)
    last = probabilities[:, -1]
    true = truth.probabilities[:, -1]
    right = truth.probabilities[np.arange(POPULATION), probabilities.argmax(axis=1)]
    return RiskRun(
        *task,
        truth=tuple(float(truth.probabilities[:, c].mean()) for c in classes),
        stated=tuple(float(probabilities[:, c].mean()) for c in classes),
        low=tuple(share.low for share in counted),
        high=tuple(share.high for share in counted),
        error=tuple(share.error for share in counted),
        slope=tuple(calibration_slope(probabilities[:, c], truth.probabilities[:, c]) for c in classes),
        auc=expected_auc(last, true),
        brier=float(np.mean((last - true) ** 2 + true * (1.0 - true))),
        accuracy=float(right.mean()),
    )


def _private(
    setting: Setting, truth: Population, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the population and classes of all sites' records; a unit's are one record, so often as is allowed."""
    units = SITES * setting.records // setting.most
    rows = rng.integers(POPULATION, size=units)
    above = rng.random(units)[:, None] > np.cumsum(truth.probabilities[rows], axis=1)[:, :-1]
    return np.repeat(rows, setting.most), np.repeat(above.sum(axis=1), setting.most)


def _cells(
    setting: Setting,
    truth: Population,
    source: NDArray[np.int64],
    private: NDArray[np.int64],
    labels: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    networks: bool,
) -> tuple[Floats, tuple[Prevalence, ...]]:
    """Class probabilities of the population, and the shares of the classes as the totals tell them."""
    attributes = tuple(NumericAttribute(name=f"x{i}", lower=-32.0, upper=32.0) for i in range(DIMENSIONS))
    schema = Schema(label="y", attributes=attributes, classes=tuple(map(str, range(setting.classes))))
    everyone = Records(schema, truth.records, np.zeros((POPULATION, 0), dtype=np.int64))
    keys = tuple(bytes([number]) * 32 for number in range(SITES))
    problem = Problem(
        Records(schema, truth.records[source], np.zeros((SOURCE, 0), dtype=np.int64)),
        Fraction(setting.epsilon),
        SITES,
        len(private),
        setting.most,
        seed=int(rng.integers(2**31)),
        pool=SecurePool.of(keys) if setting.pooling == "secure" else None,
    )
    options = {"networks": networks} if setting.classes == 2 else {}
    model, estimate = learn_from_counts(CellsByLabel(**options), problem, everyone, private, labels, rng)
    counted: tuple[Prevalence, ...] = ()
    if isinstance(estimate, SourceEstimate) and estimate.counted is not None:
        counted = (estimate.counted,)
    elif isinstance(estimate, ClassesEstimate):
        counted = estimate.counted
    return class_probabilities(model, everyone), counted


def _regression(
    truth: Population, private: NDArray[np.int64], labels: NDArray[np.int64], classes: int, seed: int
) -> Floats:
    """Logistic regression, its penalty chosen by five-fold log loss where records are few; no class is ruled out."""
    classes_there, numbers = np.unique(labels, return_counts=True)
    result = np.full((POPULATION, classes), SUREST)
    rows = truth.records[private]
    if len(classes_there) == 1:
        result[:, classes_there[0]] = 1.0
    else:
        tuned = len(rows) <= TUNED_UP_TO and numbers.min() >= 5
        if tuned:
            model = LogisticRegressionCV(
                Cs=9,
                cv=5,
                l1_ratios=(0,),
                scoring="neg_log_loss",
                max_iter=500,
                random_state=seed,
                use_legacy_attributes=False,
            )
        else:
            model = LogisticRegression(C=1.0 if len(rows) <= TUNED_UP_TO else 1e4, max_iter=500)
        result[:, classes_there] = model.fit(rows, labels).predict_proba(truth.records)
    result = np.maximum(result, SUREST)
    return np.asarray(result / result.sum(axis=1, keepdims=True))


def calibration_slope(probability: Floats, truth: Floats) -> float | None:
    """Slope b of logit P = a + b logit(probability) that is likeliest for labels of the true probabilities.

    None if the model states one probability for all. Labels are taken in expectation, so the slope has no test-set
    noise.

    `probability` (n,) that the model says; `truth` (n,) true ones.
    """
    score = logit(np.clip(probability, SUREST, 1.0 - SUREST))
    if np.ptp(score) < 1e-9:
        return None
    centre, spread = score.mean(), score.std()
    design_matrix = np.column_stack([np.ones(len(score)), (score - centre) / spread])
    beta = np.array([logit(truth.mean()), 0.0])
    for _ in range(50):
        stated = expit(design_matrix @ beta)
        weight = stated * (1.0 - stated)
        step = np.linalg.solve((design_matrix.T * weight) @ design_matrix, design_matrix.T @ (truth - stated))
        beta += np.clip(step, -2.0, 2.0)
        if np.max(np.abs(step)) < 1e-10:
            break
    return float(beta[1] / spread)


SLOPES = (0.8, 1.25)
SLOPE_RUNS = 40
FORGIVEN = 3.0  # standard errors by which a bar may be missed
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
        """Whether the slope is as right as that of regression (docs/results/risks.md); None where it cannot be told."""
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
        _row(name, place, runs, by.get((name, REGRESSION), ()))
        for name in design()
        if (runs := by.get((name, CELLS)))
        for place in range(len(runs[0].truth))
    ]
    return Findings(tuple(rows), _pairs(cells["runs"]), provenance)


def _row(name: str, place: int, runs: Sequence[RiskRun], beside: Sequence[RiskRun]) -> Row:
    truth = runs[0].truth[place]
    return Row(
        setting=name,
        place=place,
        runs=len(runs),
        truth=truth,
        error=float(np.mean([run.error[place] for run in runs])),
        bias=Mean.of([(run.stated[place] - truth) / run.error[place] for run in runs]),
        holds=float(np.mean([run.low[place] <= truth <= run.high[place] for run in runs])),
        slope=_slope(runs, place),
        regression=_slope(beside, place),
    )


def _slope(runs: Sequence[RiskRun], place: int) -> Mean | None:
    """The mean slope of the first runs by seed, of those that have one."""
    return Mean.of_any(slope for run in by_seed(runs)[:SLOPE_RUNS] if (slope := run.slope[place]) is not None)


def _pairs(runs: Sequence[RiskRun]) -> tuple[Pairs, ...]:
    by = {run.key: run for run in runs}
    pairs = [
        (key, (run_of_cells, run))
        for run in runs
        if run.maker == SMOOTH and (run_of_cells := by.get(run.key._replace(maker=CELLS)))
        for key in (run.epsilon, "all")
    ]
    groups = grouped(pairs, lambda pair: pair[0])
    return tuple(
        Pairs(
            key,
            {
                name: Mean.of(getattr(first, name) - getattr(second, name) for _, (first, second) in group)
                for name in MEASURES
            },
        )
        for key, group in sorted(groups.items())
    )


def document(results: Findings) -> Document:
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
        "unbiased": [row.unbiased for row in results.rows],
        "interval holds": [row.covers for row in results.rows],
        "slope right": [row.calibrated for row in results.rows if row.calibrated is not None],
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
    counts = Table.of("Bars met", counted, tuple(judged) if results.rows else ())
    differences = Table.of("Against the model without networks", pairs, results.pairs)
    sections = [
        Section("Settings and classes", [Text(READING), Table.of("Settings and classes", columns, results.rows)]),
        Section("Bars met", [counts]),
        Section("Against the model without networks", [Text(READING_PAIRS), differences]),
    ]
    return document_of("risks", sections, results.provenance)


def tasks(order: Order) -> list[Task]:
    """All runs; the model without networks is of two classes."""
    settings, axes = design(), order.size.axes
    return [
        Task(name, maker, settings[name].epsilon, seed)
        for seed in order.seeds
        for name in axes["settings"]
        for maker in axes["makers"]
        if maker != SMOOTH or settings[name].classes == 2
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
