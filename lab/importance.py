"""Importance weights as a second way to do Pb. 1, beside the least squares of Eq. 2: on C, D, E and CTG-B.

The tables are those of docs/explanation/importance-weights.md. The published mechanism of Ji and Elkan (2013) is
computed with floats, outside of any curator. It is a reference for the weights alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.averages import Interval
from lab.cells import by_seed, grouped
from lab.comparison.contestants import paper_options
from lab.learning import SILENT_EPSILON, make_study
from lab.problems import PAPER_DATASETS, PROBLEMS, load_split
from lab.reproduction.experiments import MOST_BINS
from lab.splits import Split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.kinds.counts import CountsAnswer
from learner_node.models.masses import BinWorkload, consistent_masses
from learner_node.models.source import coordinates, even_bins, paper_bin_count, standardising_map
from learner_node.solvers import solve_weights
from learner_node.strategies.base import AnyModel, class_probabilities
from learner_node.strategies.options import LEAST_SQUARES, TILT
from learner_node.study.learn import Learned
from learner_node.study.pooling import POOLED
from protocol.kinds.counts import CountsBody
from protocol.noise import DiscreteLaplace
from simulations.campaign.store import Task

EPSILON = Fraction(1)
RUNS = {"C": 20, "D": 20, "E": 12, "CTG-B": 12}  # the most of each problem; the seeds count from 0
NAMES = tuple(RUNS)
FIRST_DEVELOPMENT_SEED, DEVELOPMENT_RUNS = 5000, 5
REGULARISERS = (3.0, 10.0, 30.0, 100.0, 300.0)
"""Of the published mechanism; the best of them on development seeds is used, problem by problem."""
SHRINKAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
"""Of Eq. 2's regularisation, relative to that of `paper-c`; the best is used likewise."""
PARTS = 4  # of each attribute, cut at the source's quartiles, in the distance of two sets of records
METHODS: dict[str, tuple[str, Mapping[str, object]]] = {
    "paper-c": ("paper-c", {"weighting": LEAST_SQUARES}),
    "paper-c, tilt": ("paper-c", {"weighting": TILT}),
    "paper-i": ("paper-i", {"weighting": LEAST_SQUARES}),
    "paper-i, tilt": ("paper-i", {"weighting": TILT}),
    "importance": ("importance", {}),
}
BEST_ALPHA, PUBLISHED = "Eq. 2, best regularisation", "published"
DIFFERENCES = {
    f"{method} less {against}": (method, against)
    for method, against in (("paper-c, tilt", "paper-c"), ("paper-i, tilt", "paper-i"), ("importance", "paper-c"))
}
WEIGHTED = (
    "unweighted",
    "paper-c",
    BEST_ALPHA,
    "paper-c, tilt",
    "importance",
    PUBLISHED,
    "paper-c, no noise",
    "paper-c, tilt, no noise",
    "importance, no noise",
    "private records",
)
READING = (
    "Means with intervals of 95 %, Student's; differences are paired by run. Distance: the total variation of the "
    "weighted source from fresh private records over 16 cells of a pair of attributes, mean over all pairs. The "
    "published mechanism and Eq. 2 with its best regularisation are played outside of any curator, at a third of "
    "epsilon."
)
SILENT = ("paper-c", "paper-c, tilt", "importance")  # those that are also asked with next to no noise
SILENT_BINS = 16
"""Bins of each attribute without noise, as in the paper's reproduction: the rule for noise would give a bin to each
record."""
Vector = NDArray[np.float64]
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """Quartile cells of every pair of attributes, by the source."""

    edges: Points  # (d, 3) the source's quartiles

    @classmethod
    def of(cls, source: Points) -> "Plane":
        """The plane of source points, (n, d)."""
        return cls(np.quantile(source, np.arange(1, PARTS) / PARTS, axis=0).T)

    def shares(self, points: Points, weights: Vector | None = None) -> Points:
        """Shares of weighted records in each cell of each pair: (pairs, 16)."""
        places = np.stack([np.searchsorted(e, x, side="right") for e, x in zip(self.edges, points.T, strict=True)])
        counted = np.ones(len(points)) if weights is None else weights
        pairs = [
            np.bincount(PARTS * places[a] + places[b], counted, PARTS**2)
            for a, b in combinations(range(len(places)), 2)
        ]
        return np.asarray(np.array(pairs) / counted.sum())


def distance(first: Points, second: Points) -> float:
    """Total variation between two sets of records over the cells of a pair, as a mean over all pairs, in percent."""
    return float(50 * np.abs(first - second).sum(axis=1).mean())


def effective(weights: Vector) -> float:
    """Kish's effective sample size, in percent of the records."""
    return float(100 * weights.sum() ** 2 / (weights @ weights) / len(weights))


def _bounded(points: Points, radius: float) -> Points:
    """Points with a constant column, scaled into the unit ball, as the published mechanism needs them."""
    extended = np.column_stack([points / radius, np.ones(len(points))]) / np.sqrt(2)
    return np.asarray(extended / np.maximum(1.0, np.linalg.norm(extended, axis=1))[:, None])


def discriminator(private: Points, public: Points, regulariser: float) -> Vector:
    """Coefficients b (k,) of a regularised logistic regression that separates private from public records.

    It minimises the logistic losses, private records as positive and public ones as negative, plus regulariser |b|^2 /
    2. One private record more or less moves the minimiser by at most 1 / regulariser in the Euclidean norm, as a loss
    has a slope of at most 1 and the objective is strongly convex. The objective is a sum, not a mean: the number of
    private records is private.

    `private` (m, k), rows in the unit ball; `public` (n, k), likewise; `regulariser` is positive.
    """
    signed = np.concatenate([private, -public])

    def value(b: Vector) -> tuple[float, Vector]:
        margin = signed @ b
        loss = float(np.logaddexp(0, -margin).sum() + regulariser * (b @ b) / 2)
        return loss, regulariser * b - signed.T @ expit(-margin)

    start = np.zeros(signed.shape[1])
    return np.asarray(minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x)


def published_weights(private: Points, public: Points, regulariser: float, epsilon: float, seed: int) -> Vector:
    """Weights of the public records by a noisy discriminator, (n,), as the survey tells of Ji and Elkan (2013).

    The noise on b has a density proportional to exp(-epsilon regulariser |noise|).

    `private` (m, d); `public` (n, d); `regulariser` is positive; `epsilon` is positive, for one record added or
    removed.
    """
    radius = float(np.quantile(np.linalg.norm(public, axis=1), 0.95))
    records = _bounded(public, radius)
    b = discriminator(_bounded(private, radius), records, regulariser)
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=len(b))
    noise = direction / np.linalg.norm(direction) * rng.gamma(len(b), 1 / (epsilon * regulariser))
    score = records @ (b + noise)
    return np.asarray(np.exp(score - score.max()))


def _points(split: Split) -> tuple[Points, Points, Points]:
    """Source, private and test records, standardised by the source."""
    features = standardising_map(split.source)
    source, private, test = (coordinates(features, records) for records in (split.source, split.private, split.test))
    return source, private, test


def _published_distance(name: str, seed: int, regulariser: float) -> tuple[float, float]:
    split = load_split(name, seed)
    source, private, test = _points(split)
    plane = Plane.of(source)
    share = float(EPSILON) / PAPER_DATASETS[name].queries  # as much as the paper's learner spends on the masses
    weights = published_weights(private, source, regulariser, share, seed)
    return distance(plane.shares(source, weights), plane.shares(test)), effective(weights)


def _study(name: str, split: Split, method: str, epsilon: Fraction) -> Learned:
    """One study of a method, with networks and bins as the paper has them."""
    strategy, own_options = METHODS[method]
    chosen = PROBLEMS[name].network if strategy == "importance" else paper_options(split, epsilon)
    bins = {"bins": SILENT_BINS} if epsilon == SILENT_EPSILON else {}
    return make_study(split, strategy, {**chosen, **own_options, **bins}, epsilon)


def _weights(learned: Learned) -> Vector:
    return learned.estimates[POOLED].weights


def _model(learned: Learned) -> AnyModel:
    models = [model for model in learned.models[POOLED] if model is not None]
    return models[-1]


def _least_squares_distance(name: str, seed: int, shrinkage: float) -> tuple[float, float]:
    """Eq. 2 on masses as noisy as those of `paper-c`, with another regularisation: distance and effective size."""
    split, row = load_split(name, seed), PAPER_DATASETS[name]
    source, _, test = _points(split)
    scale = row.dimensions * row.queries / EPSILON
    bins = paper_bin_count(row.target_size, scale, most=MOST_BINS)
    workload = BinWorkload.of(split.source, tuple(even_bins(split.source, bins)))
    law, rng = DiscreteLaplace(scale), np.random.default_rng(seed)
    sizes = tuple(bins_of.cell_count(split.schema) for bins_of in workload.partitions)
    pairs = zip(workload.partitions, sizes, strict=True)
    exact = np.concatenate([np.bincount(bins_of.cells(split.private), minlength=k) for bins_of, k in pairs])
    counted = exact.astype(np.int64) + law.simulate(rng, exact.shape)
    body = CountsBody(partitions=workload.partitions, hypothesis=None)
    answer = CountsAnswer(body, counted[:, None].astype(np.float64), sizes, "mass", scale)
    masses = consistent_masses(answer.values[:, 0], answer)
    prior = float(masses.sum()) / len(sizes) / len(split.source)
    alpha = shrinkage * answer.noise_variance / 2
    weights = solve_weights(workload.R, masses, alpha=alpha, prior=prior, tolerance=1e-8).x
    plane = Plane.of(source)
    return distance(plane.shares(source, weights), plane.shares(test)), effective(weights)


def _best(choices: Sequence[float], score: Callable[[int, float], tuple[float, float]]) -> float:
    """The choice of least distance on development seeds."""
    seeds = range(FIRST_DEVELOPMENT_SEED, FIRST_DEVELOPMENT_SEED + DEVELOPMENT_RUNS)
    means = [np.mean([score(seed, choice)[0] for seed in seeds]) for choice in choices]
    return choices[int(np.argmin(means))]


@cache
def _choices(name: str) -> tuple[float, float]:
    """The best regulariser of the published mechanism, and the best shrinkage of Eq. 2, on a problem."""
    regulariser = _best(REGULARISERS, partial(_published_distance, name))
    return regulariser, _best(SHRINKAGES, partial(_least_squares_distance, name))


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All methods on one split."""

    problem: str  # key of `RUNS`
    seed: int
    regulariser: float  # those that were best on the development seeds of the problem
    shrinkage: float
    # method -> accuracy, distance and effective size, in percent, as far as it has them
    measures: dict[str, dict[str, float]]
    seconds: float = 0.0  # that it took

    @property
    def key(self) -> Task:
        """The task of the run."""
        return task_of(self.problem, self.seed)


def task_of(problem: str, seed: int) -> Task:
    """The task of a run."""
    return Task(problem, "importance", str(EPSILON), seed)


def compute(task: Task) -> Run:
    """One run."""
    name, seed = task.problem, task.seed
    regulariser, shrinkage = _choices(name)
    split = load_split(name, seed)
    source, private, test = _points(split)
    plane = Plane.of(source)
    truth = plane.shares(test)
    measures: dict[str, dict[str, float]] = {
        "unweighted": {"distance": distance(plane.shares(source), truth), "effective": 100.0},
        "private records": {"distance": distance(plane.shares(private), truth)},
    }
    for method in METHODS:
        learned = _study(name, split, method, EPSILON)
        predicted = class_probabilities(_model(learned), split.test)[:, 1] > 0.5
        measures[method] = {
            "accuracy": float(100 * np.mean(predicted == split.test_labels)),
            "distance": distance(plane.shares(source, _weights(learned)), truth),
            "effective": effective(_weights(learned)),
        }
    for method in SILENT:
        learned = _study(name, split, method, SILENT_EPSILON)
        measures[f"{method}, no noise"] = {"distance": distance(plane.shares(source, _weights(learned)), truth)}
    for method, (away, size) in {
        PUBLISHED: _published_distance(name, seed, regulariser),
        BEST_ALPHA: _least_squares_distance(name, seed, shrinkage),
    }.items():
        measures[method] = {"distance": away, "effective": size}
    return Run(name, seed, regulariser, shrinkage, measures)


class Findings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the runs say."""

    regulariser: dict[str, float]  # of each problem, see `Run`
    # of each problem, in the order of their seeds: method -> measures
    runs: dict[str, list[dict[str, dict[str, float]]]]
    shrinkage: dict[str, float]  # as regulariser
    provenance: Provenance | None = None

    def values(self, name: str, method: str, measure: str) -> list[float]:
        """A measure of a method's runs on a problem, of those that have it."""
        return [run[method][measure] for run in self.runs[name] if measure in run[method]]


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Findings:
    """Findings of the runs that there are."""
    groups = grouped(by_seed(cells["runs"]), lambda run: (run.problem,), NAMES)
    runs = {name: group for (name,), group in groups.items()}
    return Findings(
        {name: group[0].regulariser for name, group in runs.items()},
        {name: [run.measures for run in group] for name, group in runs.items()},
        {name: group[0].shrinkage for name, group in runs.items()},
        provenance,
    )


def interval(values: Sequence[float], form: str = ".1f") -> str:
    """Mean, and half the width of its 95 % interval (Student's); "" of fewer than two."""
    return Interval.of(values).text(form) if len(values) > 1 else ""


def document(results: Findings) -> Document:
    """Three tables: accuracy, distance, effective sample size."""
    sections: list[Section] = []
    for title, measure, methods in (
        ("accuracy, %", "accuracy", [*METHODS, *DIFFERENCES]),
        ("distance to the private population, %", "distance", WEIGHTED),
        ("effective sample size, % of the source", "effective", WEIGHTED[1:6]),
    ):
        columns: list[Column[str]] = [
            Column(title, str, names=True),
            *(_column(results, name, measure) for name in results.runs),
        ]
        table = Table.of(title, columns, methods if results.runs else ())
        sections.append(Section(title.capitalize(), [Text(READING) if not sections else None, table]))
    return document_of("importance", sections, results.provenance)


def _column(results: Findings, name: str, measure: str) -> Column[str]:
    def show(method: str) -> str:
        if method not in DIFFERENCES:
            return interval(results.values(name, method, measure))
        first, second = (results.values(name, contender, measure) for contender in DIFFERENCES[method])
        return interval(np.subtract(first, second).tolist(), "+.1f")

    return Column(name, show, number=True)


def tasks(order: Order) -> list[Task]:
    """All runs of the chosen problems; `RUNS` limits their number."""
    return [task_of(name, seed) for seed in order.seeds for name in order.size.axes["problems"] if seed < RUNS[name]]


STUDY = Study(
    name="importance",
    parts=[Part("runs", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices={"problems": NAMES},
    short=Size(2, (), {"problems": ("CTG-B",)}, "half a minute"),
    full=Size(max(RUNS.values()), (), {"problems": NAMES}, "an hour"),
    seed=0,
)
