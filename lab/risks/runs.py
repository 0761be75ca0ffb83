"""The settings of the sweep, and one run of one: what a model says of a population that is known exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from lab.cells import TaskCell
from lab.exact_counts import learn_from_counts
from learner_node.scores.auc import expected_auc
from learner_node.scores.prevalence import Prevalence, matching_factors, rescaled
from learner_node.strategies.base import ClassesEstimate, Problem, SourceEstimate, class_probabilities
from learner_node.strategies.cells_by_label import CellsByLabel
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
        """For people, and key of the results."""
        unit = "" if self.most == 1 else f", {self.most} a unit"
        return (
            f"{self.prevalence:g} of {self.classes}, {SITES} x {self.records:,}{unit}, {self.signal}, {self.pooling}, "
            f"epsilon {self.epsilon}"
        )


@lru_cache(1)
def design() -> dict[str, Setting]:
    """Every prevalence with every size; the other factors' levels are chosen one row after the other.

    Of the candidates for a row that is taken which meets most pairs of levels that have not met.
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
        row = max(rows, key=lambda row: len(_pairs(row) - met))
        met |= _pairs(row)
        settings.append(Setting(*(levels[at] for levels, at in zip(factors, row, strict=True))))  # type: ignore[arg-type]
    return {setting.name: setting for setting in settings}


def _pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


@dataclass(frozen=True)
class Population:
    """Records whose class probabilities are known."""

    records: Floats  # (20,000, 6)
    probabilities: Floats  # (20,000, C) of each class


@lru_cache(2)
def population(setting: Setting) -> Population:
    """The same for all seeds; log odds have a linear part, a bend and a product of two attributes."""
    rng = np.random.default_rng([710, list(design()).index(setting.name)])
    records = rng.standard_normal((POPULATION, DIMENSIONS))
    records[:, 1] += 0.5 * records[:, 0]
    scores = np.zeros((POPULATION, setting.classes))
    for number in range(1, setting.classes):
        x = np.roll(records, -2 * (setting.classes - 1 - number), axis=1)
        score = 0.8 * x[:, 0] + 0.5 * x[:, 1] - 0.4 * x[:, 2] * x[:, 3] + 0.3 * np.abs(x[:, 4])
        scores[:, number] = STRENGTH[setting.signal] * score
    wanted = [(1.0 - setting.prevalence) / (setting.classes - 1)] * (setting.classes - 1) + [setting.prevalence]
    apart = np.exp(scores - scores.max(axis=1, keepdims=True))
    apart /= apart.sum(axis=1, keepdims=True)
    factors = matching_factors(apart, np.ones(POPULATION), wanted)
    return Population(records, rescaled(apart, factors))


SOURCE = 900
CELLS, SMOOTH, REGRESSION = "cells", "cells-smooth", "regression"
MAKERS = (CELLS, SMOOTH, REGRESSION)
"""`cells` as it comes, without networks, and tuned logistic regression on the private records, without privacy."""
TUNED_UP_TO = 20_000
"""Records from which on regression is hardly penalised, and not tuned: its slope is then near 1."""
SUREST = 1e-6


class RiskRun(TaskCell, frozen=True):
    """What one model says of a population. Of two classes the second's; of more, each class's in turn.

    Attributes:
        problem: name of the setting.
        maker: of `MAKERS`.
        seed: of source, private records and noise.
        truth: mean probabilities of the population.
        said: means of the model's.
        low, high, error: 95 % interval of the shares, and the standard error that the answers imply; empty for
            regression.
        slope: of the true log odds on the model's, over the population; NaN where the model says one probability.
        auc: expected, of the last class against the rest.
        brier: expected mean squared error of the last class's probability.
        accuracy: expected share of records whose likeliest class is right.
    """

    problem: str = msgspec.field(name="setting")
    truth: tuple[float, ...]
    said: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    error: tuple[float, ...]
    slope: tuple[float | None, ...]
    auc: float
    brier: float
    accuracy: float
    seconds: float = 0.0


def compute(task: Task) -> RiskRun:
    """One run."""
    setting = design()[task.problem]
    known = population(setting)
    rng = np.random.default_rng([711, task.seed])
    source = rng.choice(POPULATION, SOURCE, replace=False)
    private, labels = _private(setting, known, rng)
    counted: tuple[Prevalence, ...] = ()
    if task.maker == REGRESSION:
        probabilities = _regression(known, private, labels, setting.classes, task.seed)
    else:
        probabilities, counted = _cells(setting, known, source, private, labels, rng, networks=task.maker == CELLS)
    shown = range(1, 2) if setting.classes == 2 else range(setting.classes)
    last = probabilities[:, -1]
    true = known.probabilities[:, -1]
    right = known.probabilities[np.arange(POPULATION), probabilities.argmax(axis=1)]
    return RiskRun(
        *task,
        truth=tuple(float(known.probabilities[:, c].mean()) for c in shown),
        said=tuple(float(probabilities[:, c].mean()) for c in shown),
        low=tuple(each.low for each in counted),
        high=tuple(each.high for each in counted),
        error=tuple(each.error for each in counted),
        slope=tuple(calibration_slope(probabilities[:, c], known.probabilities[:, c]) for c in shown),
        auc=expected_auc(last, true),
        brier=float(np.mean((last - true) ** 2 + true * (1.0 - true))),
        accuracy=float(right.mean()),
    )


def _private(
    setting: Setting, known: Population, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the population and classes of all sites' records; a unit's are one record, so often as is allowed."""
    units = SITES * setting.records // setting.most
    rows = rng.integers(POPULATION, size=units)
    above = rng.random(units)[:, None] > np.cumsum(known.probabilities[rows], axis=1)[:, :-1]
    return np.repeat(rows, setting.most), np.repeat(above.sum(axis=1), setting.most)


def _cells(
    setting: Setting,
    known: Population,
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
    everyone = Records(schema, known.records, np.zeros((POPULATION, 0), dtype=np.int64))
    keys = tuple(bytes([number]) * 32 for number in range(SITES))
    problem = Problem(
        Records(schema, known.records[source], np.zeros((SOURCE, 0), dtype=np.int64)),
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
    known: Population, private: NDArray[np.int64], labels: NDArray[np.int64], classes: int, seed: int
) -> Floats:
    """Logistic regression, its penalty chosen by five-fold log loss where records are few; no class is ruled out."""
    found, numbers = np.unique(labels, return_counts=True)
    result = np.full((POPULATION, classes), SUREST)
    rows = known.records[private]
    if len(found) == 1:
        result[:, found[0]] = 1.0
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
        result[:, found] = model.fit(rows, labels).predict_proba(known.records)
    result = np.maximum(result, SUREST)
    return np.asarray(result / result.sum(axis=1, keepdims=True))


def calibration_slope(probability: Floats, truth: Floats) -> float | None:
    """Slope b of logit P = a + b logit(probability) that is likeliest for labels of the true probabilities.

    None where the model says one probability. With expected labels: no chance of a test set enters.

    `probability` (n,) that the model says; `truth` (n,) true ones.
    """
    score = logit(np.clip(probability, SUREST, 1.0 - SUREST))
    if np.ptp(score) < 1e-9:
        return None
    centre, spread = score.mean(), score.std()
    design_matrix = np.column_stack([np.ones(len(score)), (score - centre) / spread])
    beta = np.array([logit(truth.mean()), 0.0])
    for _ in range(50):
        said = expit(design_matrix @ beta)
        weight = said * (1.0 - said)
        step = np.linalg.solve((design_matrix.T * weight) @ design_matrix, design_matrix.T @ (truth - said))
        beta += np.clip(step, -2.0, 2.0)
        if np.max(np.abs(step)) < 1e-10:
            break
    return float(beta[1] / spread)
