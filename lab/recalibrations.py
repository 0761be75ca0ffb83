"""The gain of a validation's recalibration if risks are wrong, and its loss if they are right.

The true risks of a population are known: logits are normal about a centre that gives the prevalence. The model says
other ones, logit P = (truth - m) / slope + m + shift, m their mean, so an intercept and a slope mend them. Differences
are paired: the recalibrated model less the same model as it is, in the population's expected log loss and Brier score.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, xlogy

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.averages import Average, Averages, Summary, averages, mean, number, plain
from lab.cells import Run
from lab.curators import NOISE
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.questions.score_question import bin_count
from learner_node.scores.recalibration import LEAST_FACTOR, recalibrate
from protocol.noise import DiscreteLaplace
from simulations.campaign.store import Task

Floats = NDArray[np.float64]

POPULATION, SOURCE, SITES = 20_000, 1_000, 3
STRENGTH = 1.0  # deviation of the true logits: an AUC of about .76
SIZES = ((400, Fraction(1, 4)), (1_000, Fraction(1)))
"""Private records at all sites together, and epsilon of the validation."""
PREVALENCES = (0.05, 0.3)
WRONG = ((0.0, 1.0), (-0.4, 1.0), (-0.8, 1.0), (0.0, 0.6), (0.3, 1.5))
"""Shift of the model's logits, and the slope that they need."""
RULES = {"always": 0.0, "factor > 1": LEAST_FACTOR, "factor > 3": 3.0}
"""When the map is used -> the Bayes factor above which it is."""
READING = (
    "How often a rule uses the map, and what that changes in expected log loss and Brier score, times 1,000, against "
    "the same model left alone; means with their standard errors. Slope is what the risks need. Held: the share of "
    "intervals that hold the true slope and intercept."
)


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    size: int  # private records at all sites together
    epsilon: Fraction  # of the validation
    prevalence: float  # true mean risk
    shift: float  # of the model's logits
    slope: float  # that they need

    @property
    def name(self) -> str:
        """The setting's name for people, which is also the key of its results."""
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
            stated = (truth - mean) / self.slope + mean + self.shift
            source, private = stated[rng.choice(POPULATION, SOURCE)], rng.choice(POPULATION, self.size)
            count = bin_count(expit(source), target_size=self.size, scale=float(1 / epsilon), noises=SITES)
            edges = np.unique(np.quantile(source, np.arange(1, count) / count))
            cells = 2 * np.searchsorted(edges, stated[private]) + (rng.random(self.size) < expit(truth[private]))
            counts = np.bincount(cells, minlength=2 * len(edges) + 2).reshape(-1, 2)
            noisy = counts + DiscreteLaplace(1 / epsilon).simulate(rng, (SITES, *counts.shape)).sum(axis=0)
            yield Answer(truth, stated, source, edges, noisy.astype(np.float64))


@dataclass(frozen=True)
class Answer:
    """The data of one repeat."""

    truth: Floats  # true logits of the population, and the model's
    stated: Floats
    source: Floats  # the model's logits of the learner's records
    edges: Floats  # of the bins
    counts: Floats  # (k, 2) noisy


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(size, epsilon, prevalence, shift, slope)
        for (size, epsilon), prevalence, (shift, slope) in product(SIZES, PREVALENCES, WRONG)
    )
}


def task_of(setting: str, seed: int) -> Task:
    """The task of a trial."""
    return Task(setting, "recalibration", str(SETTINGS[setting].epsilon), seed)


def compute(task: Task) -> Run:
    """One trial. All draws of a setting are one stream; the seed is the trial's place in it."""
    setting = SETTINGS[task.problem]
    answer = next(islice(setting.answers(), task.seed, None))
    source, scale = answer.source, float(1 / setting.epsilon)
    fitted = recalibrate(answer.counts, expit(source), np.searchsorted(answer.edges, source), scale=scale, noises=SITES)
    risks, raw, mapped = expit(answer.truth), expit(answer.stated), fitted.mapped(expit(answer.stated))
    mean_logit = float(answer.truth.mean())
    numbers = {
        "log_loss": _log_loss(risks, mapped) - _log_loss(risks, raw),
        "brier": _brier(risks, mapped) - _brier(risks, raw),
        "factor": fitted.factor,
        "slope_held": float(setting.slope in fitted.slope),
        "intercept_held": float(mean_logit - setting.slope * (mean_logit + setting.shift) in fitted.intercept),
    }
    return Run(*task, numbers)


def _log_loss(risks: Floats, stated: Floats) -> float:
    return float(-np.mean(xlogy(risks, stated) + xlogy(1.0 - risks, 1.0 - stated)))


def _brier(risks: Floats, stated: Floats) -> float:
    return float(np.mean(risks * (1.0 - stated) ** 2 + (1.0 - risks) * stated**2))


def _gain(score: str, least: float) -> Summary:
    """The mean change by a rule, times 1,000. A run in which the rule does not apply counts as 0."""
    return mean(lambda run: 1000.0 * run.numbers[score] if run.numbers["factor"] > least else 0.0)


def _on(least: float, run: Run) -> bool:
    return run.numbers["factor"] > least


NUMBERS = {
    **{f"{rule}: on": plain(partial(_on, least)) for rule, least in RULES.items()},
    **{f"{rule}: log loss": _gain("log_loss", least) for rule, least in RULES.items()},
    **{f"{rule}: Brier": _gain("brier", least) for rule, least in RULES.items()},
    "slope held": plain("slope_held"),
    "intercept held": plain("intercept_held"),
}


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Averages by setting."""
    return averages((((run.problem,), run) for run in cells["trials"]), NUMBERS, (list(SETTINGS),), provenance)


def document(results: Averages) -> Document:
    """A table of the rules."""

    def setting_column(heading: str, show: Callable[[Setting], object]) -> Column[Average]:
        return Column(heading, lambda row: show(SETTINGS[row.names[0]]), number=True)

    forms = {"on": ".2f", "log loss": "+.2f", "Brier": "+.2f"}
    rules = [(f"{rule}: {measure}", form) for rule in RULES for measure, form in forms.items()]
    columns = [
        setting_column("records", lambda setting: f"{setting.size:,}"),
        setting_column("epsilon", lambda setting: setting.epsilon),
        setting_column("prevalence", lambda setting: f"{setting.prevalence:g}"),
        setting_column("shift", lambda setting: f"{setting.shift:+g}"),
        setting_column("slope", lambda setting: f"{setting.slope:g}"),
        *(number(name, name, form) for name, form in rules[1:]),
        number("slope held", "slope held", ".2f"),
        number("intercept held", "intercept held", ".2f"),
    ]
    section = Section("Rules", [Text(READING), Table.of("Rules", columns, results.rows)])
    return document_of("recalibrations", [section], results.provenance)


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
    parts=[Part("trials", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices=CHOICES,
    short=Size(4, (), CHOICES, "a minute"),
    full=Size(20, (), CHOICES, "five minutes"),
    seed=0,
    noise=NOISE,
    width=260,
)
