"""What a validation's recalibration gains where risks are wrong, and loses where they are right.

The true risks of a population are known: logits are normal about a centre that gives the prevalence. The model says
other ones, logit P = (truth - m) / slope + m + shift, m their mean, so an intercept and a slope mend them. Differences
are paired: the recalibrated model less the same model as it is, in the population's expected log loss and Brier score.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, xlogy

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.coverage import Mean, Rows
from lab.exact_counts import NOISE
from learner_node.recalibration import LEAST_FACTOR, recalibrate
from learner_node.scored import bin_count
from protocol.noise import DiscreteLaplace
from simulations.campaign.store import Task
from simulations.campaign.study import Order, Part, Size, Study

Floats = NDArray[np.float64]

POPULATION, SOURCE, SITES = 20_000, 1_000, 3
STRENGTH = 1.0
"""Deviation of the true logits: an AUC of about .76."""
SIZES = ((400, Fraction(1, 4)), (1_000, Fraction(1)))
"""Private records at all sites together, and epsilon of the validation."""
PREVALENCES = (0.05, 0.3)
WRONG = ((0.0, 1.0), (-0.4, 1.0), (-0.8, 1.0), (0.0, 0.6), (0.3, 1.5))
"""Shift of the model's logits, and the slope that they need."""
ALWAYS = "always"
RULES = {ALWAYS: 0.0, "factor > 1": LEAST_FACTOR, "factor > 3": 3.0}
"""When the map is used -> the Bayes factor above which it is."""
READING = (
    "How often a rule uses the map, and what that changes in expected log loss and Brier score, times 1,000, against "
    "the same model left alone; means with their standard errors. Slope is what the risks need. Held: the share of "
    "intervals that hold the true slope and intercept."
)


@dataclass(frozen=True)
class Setting:
    """One line of the table.

    Attributes:
        size: private records at all sites together.
        epsilon: of the validation.
        prevalence: true mean risk.
        shift: of the model's logits.
        slope: that they need.
    """

    size: int
    epsilon: Fraction
    prevalence: float
    shift: float
    slope: float

    @property
    def name(self) -> str:
        """For people, and key of the results."""
        return f"{self.size} records, prevalence {self.prevalence:g}, shift {self.shift:+g}, slope {self.slope:g}"

    def answers(self) -> Iterator["Answer"]:
        """One repeat after the other: a population, private records and their noisy counts; all from one generator."""
        epsilon = self.epsilon
        rng = np.random.default_rng(
            [
                self.size,
                epsilon.denominator,
                round(100 * self.prevalence),
                round(10 * self.shift + 100),
                round(10 * self.slope),
            ]
        )
        while True:
            spread = STRENGTH * rng.standard_normal(POPULATION)
            truth = spread + brentq(lambda centre, s=spread: expit(centre + s).mean() - self.prevalence, -12.0, 12.0)
            mean = float(truth.mean())
            said = (truth - mean) / self.slope + mean + self.shift
            source, own = said[rng.choice(POPULATION, SOURCE)], rng.choice(POPULATION, self.size)
            count = bin_count(expit(source), target_size=self.size, scale=float(1 / epsilon), noises=SITES)
            edges = np.unique(np.quantile(source, np.arange(1, count) / count))
            cells = 2 * np.searchsorted(edges, said[own]) + (rng.random(self.size) < expit(truth[own]))
            counts = np.bincount(cells, minlength=2 * len(edges) + 2).reshape(-1, 2)
            noisy = counts + DiscreteLaplace(1 / epsilon).simulate(rng, (SITES, *counts.shape)).sum(axis=0)
            yield Answer(truth, said, source, edges, noisy.astype(np.float64))


@dataclass(frozen=True)
class Answer:
    """What one repeat starts with.

    Attributes:
        truth, said: true logits of the population, and the model's.
        source: the model's logits of the learner's records.
        edges: of the bins.
        counts: (k, 2) noisy.
    """

    truth: Floats
    said: Floats
    source: Floats
    edges: Floats
    counts: Floats


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(size, epsilon, prevalence, shift, slope)
        for (size, epsilon), prevalence, (shift, slope) in product(SIZES, PREVALENCES, WRONG)
    )
}


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer, if it recalibrates.

    Attributes:
        setting: key of `SETTINGS`.
        seed: number of the repeat.
        log_loss, brier: of the recalibrated model less the model's.
        factor: Bayes factor of the map.
        slope_held, intercept_held: whether the intervals hold the truth.
        seconds: that it took.
    """

    setting: str
    seed: int
    log_loss: float
    brier: float
    factor: float
    slope_held: bool
    intercept_held: bool
    seconds: float

    @property
    def key(self) -> Task:
        """Which trial it is."""
        return task_of(self.setting, self.seed)


def task_of(setting: str, seed: int) -> Task:
    """The task of a trial."""
    return Task(setting, "recalibration", str(SETTINGS[setting].epsilon), seed)


def compute(task: Task) -> Trial:
    """One trial: the draws of a setting are one stream, in which the seed is the place."""
    start, setting = time.monotonic(), SETTINGS[task.problem]
    answer = next(islice(setting.answers(), task.seed, None))
    source, scale = answer.source, float(1 / setting.epsilon)
    fitted = recalibrate(answer.counts, expit(source), np.searchsorted(answer.edges, source), scale=scale, noises=SITES)
    risks, raw, mapped = expit(answer.truth), expit(answer.said), fitted.mapped(expit(answer.said))
    mean = float(answer.truth.mean())
    return Trial(
        setting=task.problem,
        seed=task.seed,
        log_loss=_log_loss(risks, mapped) - _log_loss(risks, raw),
        brier=_brier(risks, mapped) - _brier(risks, raw),
        factor=fitted.factor,
        slope_held=setting.slope in fitted.slope,
        intercept_held=mean - setting.slope * (mean + setting.shift) in fitted.intercept,
        seconds=round(time.monotonic() - start, 3),
    )


def _log_loss(risks: Floats, said: Floats) -> float:
    return float(-np.mean(xlogy(risks, said) + xlogy(1.0 - risks, 1.0 - said)))


def _brier(risks: Floats, said: Floats) -> float:
    return float(np.mean(risks * (1.0 - said) ** 2 + (1.0 - risks) * said**2))


class Rule(msgspec.Struct, frozen=True):
    """What one rule does.

    Attributes:
        on: share of the trials in which it uses the map.
        log_loss, brier: what that changes.
    """

    on: float
    log_loss: Mean
    brier: Mean


class Recalibrations(msgspec.Struct, frozen=True):
    """All trials of one setting.

    Attributes:
        setting: key of `SETTINGS`.
        trials: how many.
        rules: key of `RULES` -> what it does.
        slope_held, intercept_held: shares of the intervals that hold.
    """

    setting: str
    trials: int
    rules: dict[str, Rule]
    slope_held: float
    intercept_held: float


def findings(cells: Mapping[str, Sequence[Trial]], provenance: Provenance | None = None) -> Rows[Recalibrations]:
    """All that the trials show, whatever is still missing."""
    groups: dict[str, list[Trial]] = defaultdict(list)
    for trial in sorted(cells["trials"], key=lambda trial: trial.seed):
        groups[trial.setting].append(trial)
    return Rows(tuple(_row(name, groups[name]) for name in SETTINGS if name in groups), provenance)


def _row(name: str, trials: Sequence[Trial]) -> Recalibrations:
    def rule(least: float) -> Rule:
        on = np.array([trial.factor > least for trial in trials])
        log_loss, brier = (
            Mean.of(np.where(on, [getattr(trial, score) for trial in trials], 0.0)) for score in ("log_loss", "brier")
        )
        return Rule(float(on.mean()), log_loss, brier)

    slope, intercept = (
        float(np.mean([getattr(trial, name) for trial in trials])) for name in ("slope_held", "intercept_held")
    )
    return Recalibrations(name, len(trials), {name: rule(least) for name, least in RULES.items()}, slope, intercept)


def document(found: Rows[Recalibrations]) -> Document:
    """One table."""

    def told(show: Callable[[Setting], str]) -> Callable[[Recalibrations], str]:
        return lambda row: show(SETTINGS[row.setting])

    columns: list[Column[Recalibrations]] = [
        Column("records", told(lambda setting: f"{setting.size:,}"), number=True),
        Column("epsilon", told(lambda setting: str(setting.epsilon)), number=True),
        Column("prevalence", told(lambda setting: f"{setting.prevalence:g}"), number=True),
        Column("shift", told(lambda setting: f"{setting.shift:+g}"), number=True),
        Column("slope", told(lambda setting: f"{setting.slope:g}"), number=True),
        *(column for name in RULES for column in _rule(name)),
        Column("slope held", lambda row: f"{row.slope_held:.2f}", number=True),
        Column("intercept held", lambda row: f"{row.intercept_held:.2f}", number=True),
        Column("trials", lambda row: row.trials, number=True, page=True),
    ]
    return Document(
        kind="ExPriL: recalibrations",
        subject="risks that are known, mended by a validation's answer",
        headline="What recalibration gains and loses",
        sections=[Section("Rules", [Text(READING), Table.of("Rules", columns, found.rows)])],
        note="docs/validation.md says what the table shows.",
        sources=[("Study of recalibrations", found.provenance)],
    )


def _rule(name: str) -> list[Column[Recalibrations]]:
    columns: list[Column[Recalibrations]] = [
        Column(f"{name}: on", lambda row: f"{row.rules[name].on:.2f}", number=True),
        Column(f"{name}: log loss", lambda row: row.rules[name].log_loss.text("+.2f", factor=1000.0), number=True),
        Column(f"{name}: Brier", lambda row: row.rules[name].brier.text("+.2f", factor=1000.0), number=True),
    ]
    return columns[1:] if name == ALWAYS else columns


def tasks(order: Order) -> list[Task]:
    """All trials of the chosen sizes and prevalences."""
    axes = order.size.axes
    return [
        task_of(name, seed)
        for name, setting in SETTINGS.items()
        if str(setting.size) in axes["records"] and f"{setting.prevalence:g}" in axes["prevalences"]
        for seed in order.seeds
    ]


CHOICES = {
    "records": tuple(str(size) for size, _ in SIZES),
    "prevalences": tuple(f"{prevalence:g}" for prevalence in PREVALENCES),
}
STUDY = Study(
    name="recalibrations",
    title="What recalibration gains where risks are wrong, and loses where they are right (docs/validation.md).",
    parts=[Part("trials", Trial, tasks, compute)],
    findings=findings,
    document=document,
    choices=CHOICES,
    short=Size(4, (), CHOICES, "a minute"),
    full=Size(20, (), CHOICES, "five minutes"),
    seed=0,
    noise=NOISE,
    width=220,
)
