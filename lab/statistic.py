"""The study of statistics: how far private medians and quartiles are off, by method, against the number of records.

Populations are invented ones that are hard for a mean, and stays in hospital. Each method computes as a curator does,
except that numpy draws the noise. A cell is records drawn once, and every method's error on them over many draws of its
noise.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from curator_node.kinds.statistics import quantiles
from curator_node.kinds.statistics.estimates import FINE_STEPS, Block, estimate
from expril.report.chart import Figure, Key, Place, Series, Stage, decade_axis
from expril.report.document import Charts, Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes
from lab.averages import Mean, log_chart
from lab.cells import by_seed, epsilon_order, grouped
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from protocol.kinds.statistics.items import Grid
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Degrees, Exponential, Smooth
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.rationals import Rational
from simulations.campaign.store import Task
from simulations.datasets import load_dataset

STEPS = 10_000
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """A law of one attribute."""

    title: str  # in words
    grid: Grid  # on which its quantiles are asked: the declared bounds are its ends
    draw: Callable[[np.random.Generator, int], Values]  # (generator, n) -> n values
    quantile: Callable[[float], float]  # share -> the value below which that share lies
    most: int | None = None  # records that there are; None: any number


@cache
def stays() -> Values:
    """Days in hospital of the diabetes data, (99,343,), 1 to 14."""
    frame = load_dataset("readmission").frame
    return np.asarray(frame["time_in_hospital"].cast(pl.Float64).to_numpy())


def _contaminated(rng: np.random.Generator, count: int) -> Values:
    return np.asarray(np.where(rng.random(count) < CONTAMINATED, rng.normal(60, 5, count), rng.normal(0, 1, count)))


def _of_mixture(share: float) -> float:
    """A quantile below the contamination, which starts far above all others."""
    return float(stats.norm.ppf(share / (1 - CONTAMINATED)))


CONTAMINATED = 0.1
POPULATIONS: dict[str, Population] = {
    "skewed": Population(
        "log-normal, bounds 0 to 100",
        Grid(0.0, 100.0, STEPS),
        lambda rng, count: rng.lognormal(0.0, 1.0, count),
        lambda share: float(stats.lognorm(1.0).ppf(share)),
    ),
    "heavy-tailed": Population(
        "Student's t with 1.5 degrees of freedom, bounds -100 to 100",
        Grid(-100.0, 100.0, STEPS),
        lambda rng, count: rng.standard_t(1.5, count),
        lambda share: float(stats.t(1.5).ppf(share)),
    ),
    "contaminated": Population(
        "standard normal, a tenth of the records about 60 instead, bounds -100 to 100",
        Grid(-100.0, 100.0, STEPS),
        _contaminated,
        _of_mixture,
    ),
    "stays": Population(
        "days in hospital of 99,343 stays, 1 to 14",
        Grid(1.0, 14.0, 13),
        lambda rng, count: rng.choice(stays(), count, replace=False),
        lambda share: float(np.quantile(stays(), share, method="inverted_cdf")),
        99_343,
    ),
}


ESTIMANDS: dict[str, tuple[int, int]] = {"median": (1, 1), "upper_quartile": (3, 1)}
"""Estimator -> (a, b) of the quantile a / (a + b)."""
DEGREES: Degrees = 4
STRETCH_SHARE = Fraction(1, 2)  # of epsilon, for the stretch of heavy-tailed noise; the rest is for its shift
DELTA = 1e-6
MOST_BLOCKS, LEAST_BLOCKS = 1000, 10
DRAWS = 40


class Sample:
    """Records of one attribute, and a quantile to be told of them.

    The quantile lies on `grid`; `estimand` is a key of `ESTIMANDS`.
    """

    def __init__(self, values: Values, grid: Grid, estimand: str, epsilon: Fraction, rng: np.random.Generator) -> None:
        self.grid, self.epsilon, self.rng = grid, epsilon, rng
        self.sides = ESTIMANDS[estimand]
        self.counts = np.bincount(grid.indices(values), minlength=grid.points)
        self.centre = quantiles.quantile(self.counts, *self.sides)
        self._values, self._estimand = values, estimand

    def blocks(self) -> NDArray[np.int64]:
        """Estimates of about sqrt(n) blocks, as indices of the grid."""
        count = min(MOST_BLOCKS, max(LEAST_BLOCKS, math.isqrt(len(self._values))))
        ends = (self.grid.lower, self.grid.upper)
        steps = Grid(*ends, FINE_STEPS).indices(self._values)[:, None]
        block_of = self.rng.integers(count, size=len(steps))
        order = np.argsort(block_of, kind="stable")
        parts = np.split(steps[order], np.cumsum(np.bincount(block_of, minlength=count))[:-1])
        estimates = [estimate(self._estimand, Block(part, np.empty(0, np.uint8), (ends,))) for part in parts]
        middle = self.grid.value(self.grid.steps // 2)
        return self.grid.indices(np.array([middle if value is None else value for value in estimates]))


def no_noise(sample: Sample) -> Values:
    """The quantile of the records, without noise."""
    return np.full(DRAWS, float(sample.centre))


def global_laplace(sample: Sample) -> Values:
    """Laplace noise for the worst-case sensitivity, which is the whole grid."""
    scale = sample.grid.steps / sample.epsilon
    noise = DiscreteLaplace(scale).simulate(sample.rng, (DRAWS,))
    return np.clip(sample.centre + noise, 0, sample.grid.steps)


def exponential(sample: Sample) -> Values:
    """A choice among the points of the grid."""
    weight = max(sample.sides)
    method = Exponential(Rational.of(2 * weight / sample.epsilon), weight)
    scores = quantiles.rank_scores(sample.counts, *sample.sides)
    return _choices(scores, method.law, sample)


def smooth(sample: Sample) -> Values:
    """Student's t scaled by smooth sensitivity: pure."""
    method = smooth_within(sample.epsilon)
    noise = sample.rng.standard_t(DEGREES, DRAWS) / math.sqrt(DEGREES)
    return _scaled(sample, method.scale.fraction, method.decay.fraction, noise)


@cache
def smooth_within(epsilon: Fraction) -> Smooth:
    """The narrowest noise that costs at most epsilon, of a thousand scales, where the stretch alone costs its share."""
    beta = Rational.of(STRETCH_SHARE * epsilon / DEGREES)
    widest = Fraction(DEGREES + 1, 2) / ((1 - STRETCH_SHARE) * epsilon)
    methods = (Smooth(Rational.of(widest * n / 1000), beta, DEGREES, version=2) for n in range(1, 1001))
    return next(method for method in methods if method.cost(1) <= epsilon)


def smooth_laplace(sample: Sample) -> Values:
    """Laplace noise scaled by smooth sensitivity: epsilon = 2 / scale, but for a delta of 2 exp(-1 / (scale beta)).

    See Nissim, Raskhodnikova and Smith 2007. It is not pure, so no curator has it.
    """
    beta = Fraction(float(sample.epsilon) / (2 * math.log(2 / DELTA))).limit_denominator(10**6)
    return _scaled(sample, 2 / sample.epsilon, beta, sample.rng.laplace(size=DRAWS))


def aggregate_mean(sample: Sample) -> Values:
    """The noisy mean of blocks."""
    values, steps = sample.blocks(), sample.grid.steps
    method = AggregateMean(len(values), steps, Rational.of(steps / sample.epsilon))
    noise = method.law.simulate(sample.rng, (DRAWS,))
    return np.asarray(np.clip((values.sum() + noise) / len(values), 0, steps))


def aggregate_median(sample: Sample) -> Values:
    """The median of blocks, a choice."""
    values = sample.blocks()
    method = AggregateMedian(len(values), Rational.of(2 / sample.epsilon))
    scores = quantiles.block_scores(np.bincount(values, minlength=sample.grid.points))
    return _choices(scores, method.law, sample)


def _choices(scores: NDArray[np.int64], law: NoisyMax, sample: Sample) -> Values:
    return np.array([law.simulate(sample.rng, scores) for _ in range(DRAWS)], np.float64)


def _scaled(sample: Sample, scale: Fraction, decay: Fraction, noise: Values) -> Values:
    sensitivity = quantiles.smooth_sensitivity(sample.counts, *sample.sides, decay, 1) / quantiles.ONE
    return np.clip(np.rint(sample.centre + float(scale) * sensitivity * noise), 0, sample.grid.steps)


METHODS: dict[str, tuple[str, Callable[[Sample], Values]]] = {
    "exponential": ("exponential mechanism", exponential),
    "smooth": ("smooth sensitivity, Student's t", smooth),
    "smooth_laplace": (f"smooth sensitivity, Laplace, delta {DELTA:g}", smooth_laplace),
    "aggregate_median": ("median of blocks", aggregate_median),
    "aggregate_mean": ("mean of blocks", aggregate_mean),
    "global": ("global sensitivity, Laplace", global_laplace),
    "none": ("no noise", no_noise),
}
"""Name -> title, and what draws indices of the grid."""


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Errors of all methods on one sample."""

    population: str  # key of `POPULATIONS`
    estimand: str  # key of `ESTIMANDS`
    records: int  # n
    epsilon: str  # exact text
    seed: int  # of the sample and of all noise
    # method -> mean absolute distance from the population's quantile, in percent of its interquartile range
    errors: dict[str, float]
    seconds: float = 0.0

    @property
    def key(self) -> Task:
        """The task of the cell."""
        return task_of(self.population, self.estimand, self.records, self.epsilon, self.seed)


def task_of(population: str, estimand: str, records: int, epsilon: str, seed: int) -> Task:
    """The task of a cell; its maker names estimand and records."""
    return Task(population, f"{estimand} {records}", epsilon, seed)


def compute(task: Task) -> Measured:
    """The errors of one cell."""
    estimand, records = task.maker.split()
    population = POPULATIONS[task.problem]
    rng = np.random.default_rng([task.seed, int(records), list(ESTIMANDS).index(estimand)])
    values = population.draw(rng, int(records))
    sample = Sample(values, population.grid, estimand, Fraction(task.epsilon), rng)
    above, below = ESTIMANDS[estimand]
    truth = population.quantile(above / (above + below))
    spread = population.quantile(0.75) - population.quantile(0.25)
    errors = {}
    for name, (_, draw) in METHODS.items():
        answers = population.grid.lower + draw(sample) * (population.grid.value(1) - population.grid.lower)
        errors[name] = round(float(np.abs(answers - truth).mean() / spread * 100), 6)
    return Measured(task.problem, estimand, int(records), task.epsilon, task.seed, errors)


REAL = tuple(name for name in METHODS if name != "none")  # methods that are private
ESTIMATORS = {"median": "median", "upper_quartile": "quantile at 3/4"}
SHORT = {
    "exponential": "exponential",
    "smooth": "smooth, t",
    "smooth_laplace": "smooth, Laplace",
    "aggregate_median": "blocks' median",
    "aggregate_mean": "blocks' mean",
    "global": "global",
    "none": "no noise",
}
LEAST = 0.01  # errors below are drawn there, in percent of the interquartile range
READING = (
    "Mean absolute distance between what is told and the population's own quantile, in percent of its interquartile "
    f"range, over {DRAWS} draws of noise on each sample; sampling error is in it, and is all that there is without "
    "noise. The smallest private error of a row is bold. Grids have 10,001 points between the bounds, of stays 14. The "
    f"decay of smooth sensitivity takes half of epsilon, Student's t has {DEGREES} degrees of freedom, and its Laplace "
    f"variant, for simulations only, a delta of {DELTA:g}. There are about as many blocks as records in a block, from "
    f"{LEAST_BLOCKS} to {MOST_BLOCKS}. Scores, sensitivities and estimators are those of a curator, noise and blocks "
    f"are numpy's. Charts show errors below {LEAST} % at {LEAST} %."
)


class Point(msgspec.Struct, frozen=True):
    """One population's errors at one size and epsilon."""

    population: str  # as of `Measured`
    estimand: str
    records: int
    epsilon: str
    # method -> mean absolute error over samples and noise, in percent of the interquartile range
    errors: dict[str, float]
    deviations: dict[str, float]  # method -> standard error of that mean over samples; 0 for a single one
    samples: int

    def best(self, names: Iterable[str] = REAL) -> str:
        """The method of the smallest error; of equal ones the first."""
        return min(names, key=lambda name: self.errors[name])


class Findings(msgspec.Struct, frozen=True):
    """What the cells say, in the order in which it is shown."""

    points: tuple[Point, ...]
    provenance: Provenance | None = None


def findings(cells: Mapping[str, Sequence[Measured]], provenance: Provenance | None = None) -> Findings:
    """Findings of the cells that there are."""
    points = []
    for (estimand, epsilon, population, records), group in grouped(
        by_seed(cells["cells"]),
        lambda cell: (cell.estimand, cell.epsilon, cell.population, cell.records),
        list(ESTIMANDS),
        epsilon_order,
        list(POPULATIONS),
        int,
    ).items():
        means = {name: Mean.of(cell.errors[name] for cell in group) for name in METHODS}
        errors = {name: mean.value for name, mean in means.items()}
        deviations = {name: mean.error for name, mean in means.items()}
        points.append(Point(population, estimand, records, epsilon, errors, deviations, len(group)))
    return Findings(tuple(points), provenance)


def document(results: Findings) -> Document:
    """A section for each estimand and epsilon, after the counts of all."""
    keys = {name: Key(index, name == "none", SHORT[name]) for index, name in enumerate(METHODS)}
    sections = [Section("Where each method errs least", [_wins(results.points)])]
    for (estimand, epsilon), panel in grouped(results.points, lambda point: (point.estimand, point.epsilon)).items():
        title = f"Error of the {ESTIMATORS[estimand]} at epsilon {epsilon}, in percent of the interquartile range"
        columns: list[Column[Point]] = [Column("records", lambda point: f"{point.records:,}", number=True, names=True)]
        columns += [Column(SHORT[name], _error(name), number=True, title=METHODS[name][0]) for name in METHODS]
        named = grouped(panel, lambda point: f"{point.population}: {POPULATIONS[point.population].title}")
        table = Table(title, columns, [Group(points, name) for name, points in named.items()])
        charts = [_chart(name, points, keys) for name, points in named.items()]
        lead = [Text(READING)] if len(sections) == 1 else []
        sections.append(Section(title, [*lead, Charts(charts, tuple(keys.values()), columns=2), table]))
    further = [_column(name, part) for name in METHODS for part in ("errors", "deviations")]
    columns = [*attributes("population estimand records epsilon samples"), *further]
    files = {"errors.csv": Table.of("errors", columns, results.points)}
    return document_of("statistic", sections, results.provenance, files)


def _wins(points: Sequence[Point]) -> Table[str]:
    """Cases in which each private method errs least, and in which it errs at most twice the sampling error."""

    def least(name: str) -> int:
        return sum(point.best() == name for point in points)

    def near(name: str) -> int:
        return sum(point.errors[name] <= 2 * point.errors["none"] for point in points)

    columns: list[Column[str]] = [
        Column("method", lambda name: Cell(METHODS[name][0], under=f"below: {SHORT[name]}"), names=True),
        Column(f"errs least, of {len(points)} cases", least, number=True),
        Column("within twice the error without noise", near, number=True),
    ]
    return Table.of("Where each method errs least", columns, REAL if points else ())


def _error(name: str) -> Callable[[Point], Cell]:
    def show(point: Point) -> Cell:
        text = f"{point.errors[name]:,.3g}" if point.errors[name] < 1000 else f"{point.errors[name]:,.0f}"
        return Cell(text, strong=name == point.best())

    return show


def _column(name: str, part: str) -> Column[Point]:
    return Column(f"{name}_{part}", lambda point: f"{getattr(point, part)[name]:.6g}")


def _chart(name: str, points: Sequence[Point], keys: Mapping[str, Key]) -> Figure:
    """Error against records, both logarithmic."""

    def place(point: Point, method: str) -> Place:
        error = max(point.errors[method], LEAST)
        return Place(
            point.records, error, (error, error), f"{point.errors[method]:.3g} % with {point.records:,} records"
        )

    series = [Series(keys[method], [place(point, method) for point in points]) for method in METHODS]
    values = [place.value for line in series for place in line.places]
    stage = Stage(decade_axis(min(values), max(values), "%"), 300)
    return log_chart(name, series, (), "records", stage=stage, unit="error, logarithmic")


def tasks(order: Order) -> list[Task]:
    """All cells that the populations have enough records for."""
    return [
        task_of(name, estimand, int(records), epsilon, seed)
        for seed in order.seeds
        for name in order.size.axes["populations"]
        for records in order.size.axes["records"]
        if int(records) < (POPULATIONS[name].most or math.inf)
        for estimand in ESTIMANDS
        for epsilon in order.size.epsilons
    ]


RECORDS = ("100", "300", "1000", "3000", "10000", "100000", "1000000")
STUDY = Study(
    name="statistic",
    parts=[Part("cells", Measured, tasks, compute, lambda _order: {"methods": list(METHODS)})],
    findings=findings,
    document=document,
    choices={"populations": tuple(POPULATIONS), "records": RECORDS},
    short=Size(2, ("1",), {"populations": tuple(POPULATIONS), "records": RECORDS[:5]}, "half a minute"),
    full=Size(5, ("1", "1/10"), {"populations": tuple(POPULATIONS), "records": RECORDS}, "two minutes"),
    noise="seeded generators of NumPy",
    width=150,
)
