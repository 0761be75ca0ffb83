"""Regression tables: which z keeps its star under noise, and what bins of a confounder leave."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import norm

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Table
from lab.averages import RUNS, Averages, averages, names, number
from lab.cells import INFINITE, Run, epsilon_order
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.regression_design import Calibration, Moments, choose_blocks
from learner_node.analyses.regression_fit import Fit, Rows, fit
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

Floats = NDArray[np.float64]
Cells = NDArray[np.intp]

RECORDS, CORRELATION = 20_000, 0.3
LEVELS = (4,) * 8
EFFECTS = (0.0, 0.0, 0.1, 0.2, -0.3, 0.4, -0.55, 0.8)
"""Log odds ratio of the highest level of each covariate against the lowest; those between rise evenly."""
NULLS = 6
LAWS = {"t = 1, u = 0": 5 / 4, "t = u = 1": 5 / 3}
"""Secure sums of five sites -> discrete Laplace variables in each answer."""
BANDS = ((2, 3), (3, 4), (4, 5), (5, 6), (6, 8), (8, 10), (10, 14), (14, 100))
BINS = {"4 bins": 4, "10 bins": 10, "20 bins": 20}
CONFOUNDING, CONFOUNDER = 0.5, 0.7
"""Correlation of exposure and confounder, and log odds ratio of a standard deviation of the confounder."""
STAR = 0.05
PROMISED = "1"
"""Epsilon at which most draws are made; two in five of them at any other."""
READING = (
    "Logistic regression, eight covariates of four levels, correlation .3, 20,000 records over five sites that sum "
    "securely. By the exact fit's |z|: share of coefficients that keep their sign and their significance. "
    "False: share of coefficients of zero that are significant. Deviation: median of the standard error over the exact "
    "one. Estimable: share of coefficients with an estimate."
)
BINS_READING = (
    "Logistic regression of an outcome on an exposure of four levels that has no effect, and a confounder of "
    "correlation .5 in bins; 20,000 records at one site. Share of draws in which the exposure's trend is significant."
)


def _design(levels: Sequence[int], points: Cells) -> Floats:
    columns = [points[:, [index]] == np.arange(1, count) for index, count in enumerate(levels)]
    return np.concatenate(columns, axis=1).astype(float)


def _events() -> Rows:
    return Rows("logit", np.array([[0.0, 1.0]]), np.ones((1, 2)))


def _table(levels: Sequence[int], block: Sequence[int], cells: Cells, events: Cells) -> Floats:
    table = np.zeros((2, *(levels[index] for index in block)))
    np.add.at(table, (events, *(cells[:, index] for index in block)), 1.0)
    return table


def _scores(solution: Fit) -> tuple[Floats, Floats]:
    deviations = np.sqrt(np.diag(solution.covariance))[1:]
    return solution.coefficients[1:] / deviations, deviations


def compute_kept(task: Task) -> Run:
    """One draw of records and noise."""
    begun = time.process_time()
    rng = np.random.default_rng(task.seed)
    latent = np.sqrt(CORRELATION) * rng.standard_normal((RECORDS, 1))
    latent = latent + np.sqrt(1 - CORRELATION) * rng.standard_normal((RECORDS, len(LEVELS)))
    cells = np.searchsorted(norm.ppf([0.25, 0.5, 0.75]), latent)
    slopes = np.concatenate([effect * np.array([1 / 3, 2 / 3, 1.0]) for effect in EFFECTS])
    events = (rng.random(RECORDS) < expit(_design(LEVELS, cells) @ slopes - 1.0)).astype(np.intp)
    joint = Calibration.joint(LEVELS, _table(LEVELS, range(len(LEVELS)), cells, events), 0.0)
    exact, exact_deviations = _scores(fit(_events(), _design(LEVELS, joint.points), joint))
    blocks = choose_blocks(LEVELS, 2)
    law = NoiseLaw(float(len(blocks) / parse_rational(task.epsilon)), LAWS[task.problem])
    tables = []
    for block in blocks:
        table = _table(LEVELS, block, cells, events)
        tables.append(table + law.simulate(rng, table.shape))
    answers = Calibration.pairs(Moments.of(LEVELS, blocks, tables, [law.variance] * len(blocks)))
    solution = fit(_events(), _design(LEVELS, answers.points), answers)
    z, deviations = _scores(solution)
    estimable = solution.estimable[1:]
    star = estimable & (2 * ndtr(-np.abs(z)) < STAR)
    kept = star & (np.sign(z) == np.sign(exact))
    numbers = {
        "false": float(star[:NULLS].mean()),
        "estimable": float(estimable.mean()),
    }
    if estimable.any():
        numbers["deviation"] = float(np.median(deviations / exact_deviations))
    for low, high in BANDS:
        inside = (np.abs(exact) >= low) & (np.abs(exact) < high)
        numbers[f"count {low}"] = float(inside.sum())
        numbers[f"kept {low}"] = float(kept[inside].sum())
    return Run(*task, numbers, time.process_time() - begun)


def compute_bins(task: Task) -> Run:
    """One draw of records, and of noise unless epsilon is infinite."""
    begun = time.process_time()
    rng = np.random.default_rng(task.seed)
    exposure, other = rng.standard_normal((2, RECORDS))
    confounder = CONFOUNDING * exposure + np.sqrt(1 - CONFOUNDING**2) * other
    events = (rng.random(RECORDS) < expit(CONFOUNDER * confounder - 1.0)).astype(np.intp)
    count = BINS[task.problem]
    cuts = norm.ppf(np.arange(1, count) / count)
    cells = np.stack([np.searchsorted(norm.ppf([0.25, 0.5, 0.75]), exposure), np.searchsorted(cuts, confounder)], 1)
    table = _table((4, count), (0, 1), cells, events)
    law = NoiseLaw(0.0 if task.epsilon == INFINITE else float(1 / parse_rational(task.epsilon)))
    answers = Calibration.joint((4, count), table + law.simulate(rng, table.shape), law.variance)
    design = np.column_stack([answers.points[:, 0].astype(float), _design((count,), answers.points[:, [1]])])
    solution = fit(_events(), design, answers)
    z, _ = _scores(solution)
    star = bool(solution.estimable[1]) and 2 * ndtr(-abs(z[0])) < STAR
    return Run(*task, {"significant": float(star)}, time.process_time() - begun)


def _plain_mean(name: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: float(np.mean([run.numbers[name] for run in runs if name in run.numbers] or [0.0]))


def _median(name: str) -> Callable[[Sequence[Run]], float]:
    return lambda runs: float(np.median([run.numbers[name] for run in runs if name in run.numbers] or [0.0]))


def _share(low: int) -> Callable[[Sequence[Run]], float]:
    def share(runs: Sequence[Run]) -> float:
        kept, count = (sum(run.numbers.get(f"{name} {low}", 0.0) for run in runs) for name in ("kept", "count"))
        return kept / max(count, 1.0)

    return share


NUMBERS = {
    "false": _plain_mean("false"),
    "significant": _plain_mean("significant"),
    "deviation": _median("deviation"),
    "estimable": _plain_mean("estimable"),
    **{f"share {low}": _share(low) for low, _ in BANDS},
}


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Average the runs of each law or number of bins, and epsilon."""
    runs = [*cells["kept"], *cells["bins"]]
    named = (((run.problem, run.maker, run.epsilon), run) for run in runs)
    return averages(named, NUMBERS, ([*LAWS, *BINS], ["regression", "confounder"], epsilon_order), provenance)


def document(results: Averages) -> Document:
    """Two tables."""
    kept = [row for row in results.rows if row.names[1] == "regression"]
    bins = [row for row in results.rows if row.names[1] == "confounder"]
    bands = [number(f"{low} to {high}" if high < 100 else f"{low} on", f"share {low}", ".2f") for low, high in BANDS]
    columns = [
        *names("secure sum; table; epsilon"),
        *bands,
        number("false", "false", ".3f"),
        number("deviation", "deviation", ".2f"),
        number("estimable", "estimable", ".2f"),
        RUNS,
    ]
    few = [*names("bins; table; epsilon"), number("significant", "significant", ".3f"), RUNS]
    sections = [
        Section("Which z keeps its star", [Text(READING), Table.of("Kept, by the exact |z|", columns, kept)]),
        Section("What bins leave", [Text(BINS_READING), Table.of("Significant without an effect", few, bins)]),
    ]
    return document_of("regressions", sections, results.provenance)


def _kept_tasks(order: Order) -> list[Task]:
    """All repeats at the epsilon of the promise, and fewer at the others."""
    seeds = list(order.seeds)
    fewer = seeds[: -(-2 * len(seeds) // 5)]
    return [
        Task(law, "regression", epsilon, seed)
        for seed in seeds
        for law in LAWS
        for epsilon in order.size.epsilons
        if epsilon == PROMISED or seed in fewer
    ]


def _bins_tasks(order: Order) -> list[Task]:
    return [
        Task(name, "confounder", epsilon, seed)
        for seed in order.seeds
        for name in BINS
        for epsilon in (INFINITE, *order.size.epsilons)
    ]


STUDY = Study(
    name="regressions",
    parts=[Part("kept", Run, _kept_tasks, compute_kept), Part("bins", Run, _bins_tasks, compute_bins)],
    findings=findings,
    document=document,
    short=Size(3, ("3", "1"), {}, "half a minute"),
    full=Size(100, ("3", "1", "3/10", "1/10"), {}, "ten minutes"),
    seed=7000,
    noise="simulated",
)
