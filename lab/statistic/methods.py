"""What records are drawn from, and the methods that are compared: nobody's records.

Populations are invented ones that are hard for a mean, and stays in hospital. Each method does as a curator but for the
noise, which is numpy's. A cell is records drawn once, and every method's error on them over many draws of its noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from curator_node.kinds.statistics import quantiles
from curator_node.kinds.statistics.columns import FINE_STEPS
from curator_node.kinds.statistics.estimates import Block, estimate
from protocol.kinds.statistics.asked import Grid
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Smooth, SmoothLaplace
from protocol.kinds.statistics.tails import Degrees
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
    days: Values = frame["time_in_hospital"].cast(pl.Float64).to_numpy()
    return days


def _contaminated(rng: np.random.Generator, count: int) -> Values:
    drawn: Values = np.where(rng.random(count) < CONTAMINATED, rng.normal(60, 5, count), rng.normal(0, 1, count))
    return drawn


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
STRETCH_SHARE = Fraction(1, 2)
"""Of epsilon, for the stretch of heavy-tailed noise; the rest is for its shift."""
DELTA = 1e-6
MOST_BLOCKS, LEAST_BLOCKS = 1000, 10
DRAWS = 40
Drawn = NDArray[np.float64]


class Sample:
    """Records of one attribute, and a quantile to be told of them.

    The quantile lies on `grid`; `estimand` is a key of `ESTIMANDS`.
    """

    def __init__(self, values: Drawn, grid: Grid, estimand: str, epsilon: Fraction, rng: np.random.Generator) -> None:
        self.grid, self.epsilon, self.rng = grid, epsilon, rng
        self.sides = ESTIMANDS[estimand]
        self.counts = np.bincount(grid.indices(values), minlength=grid.points)
        self.centre = quantiles.quantile(self.counts, *self.sides)
        self._values, self._estimand = values, estimand

    def blocks(self) -> NDArray[np.int64]:
        """What each of about sqrt(n) blocks says, as an index of the grid."""
        count = min(MOST_BLOCKS, max(LEAST_BLOCKS, math.isqrt(len(self._values))))
        ends = (self.grid.lower, self.grid.upper)
        steps = Grid(*ends, FINE_STEPS).indices(self._values)[:, None]
        own = self.rng.integers(count, size=len(steps))
        order = np.argsort(own, kind="stable")
        parts = np.split(steps[order], np.cumsum(np.bincount(own, minlength=count))[:-1])
        said = [estimate(self._estimand, Block(part, np.empty(0, np.uint8), (ends,))) for part in parts]
        middle = self.grid.value(self.grid.steps // 2)
        return self.grid.indices(np.array([middle if one is None else one for one in said]))


def no_noise(sample: Sample) -> Drawn:
    """The quantile of the records itself."""
    return np.full(DRAWS, float(sample.centre))


def global_laplace(sample: Sample) -> Drawn:
    """Laplace noise by the worst case: the whole grid."""
    scale = sample.grid.steps / sample.epsilon
    noise = DiscreteLaplace(scale).simulate(sample.rng, (DRAWS,))
    return np.clip(sample.centre + noise, 0, sample.grid.steps)


def exponential(sample: Sample) -> Drawn:
    """A choice among the points of the grid."""
    weight = max(sample.sides)
    method = Exponential(Rational.of(2 * weight / sample.epsilon), weight)
    scores = quantiles.rank_scores(sample.counts, *sample.sides)
    return _choices(scores, method.law, sample)


def smooth(sample: Sample) -> Drawn:
    """Student's t scaled by smooth sensitivity: pure."""
    beta = Rational.of(STRETCH_SHARE * sample.epsilon / DEGREES)
    scale = Fraction(DEGREES + 1, 2) / ((1 - STRETCH_SHARE) * sample.epsilon)
    method = Smooth(Rational.of(scale), beta, DEGREES)
    noise = sample.rng.standard_t(DEGREES, DRAWS) / math.sqrt(DEGREES)
    return _scaled(sample, method, noise)


def smooth_laplace(sample: Sample) -> Drawn:
    """Laplace noise scaled by smooth sensitivity: private but for delta."""
    beta = Fraction(float(sample.epsilon) / (2 * math.log(2 / DELTA))).limit_denominator(10**6)
    method = SmoothLaplace(Rational.of(2 / sample.epsilon), Rational.of(beta))
    return _scaled(sample, method, sample.rng.laplace(size=DRAWS))


def aggregate_mean(sample: Sample) -> Drawn:
    """The noisy mean of blocks."""
    values, steps = sample.blocks(), sample.grid.steps
    method = AggregateMean(len(values), steps, Rational.of(steps / sample.epsilon))
    noise = method.law.simulate(sample.rng, (DRAWS,))
    means: Drawn = np.clip((values.sum() + noise) / len(values), 0, steps)
    return means


def aggregate_median(sample: Sample) -> Drawn:
    """The median of blocks, a choice."""
    values = sample.blocks()
    method = AggregateMedian(len(values), Rational.of(2 / sample.epsilon))
    scores = quantiles.block_scores(np.bincount(values, minlength=sample.grid.points))
    return _choices(scores, method.law, sample)


def _choices(scores: NDArray[np.int64], law: NoisyMax, sample: Sample) -> Drawn:
    return np.array([law.simulate(sample.rng, scores) for _ in range(DRAWS)], np.float64)


def _scaled(sample: Sample, method: Smooth | SmoothLaplace, noise: Drawn) -> Drawn:
    found = quantiles.smooth_sensitivity(sample.counts, *sample.sides, method.decay.fraction, 1) / quantiles.ONE
    return np.clip(np.rint(sample.centre + float(method.scale.fraction) * found * noise), 0, sample.grid.steps)


METHODS: dict[str, tuple[str, Callable[[Sample], Drawn]]] = {
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
        """Which cell it is."""
        return task_of(self.population, self.estimand, self.records, self.epsilon, self.seed)


def task_of(population: str, estimand: str, records: int, epsilon: str, seed: int) -> Task:
    """The task of a cell; its maker names estimand and records."""
    return Task(population, f"{estimand} {records}", epsilon, seed)


def compute(task: Task) -> Measured:
    """One cell."""
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
        found = population.grid.lower + draw(sample) * (population.grid.value(1) - population.grid.lower)
        errors[name] = round(float(np.abs(found - truth).mean() / spread * 100), 6)
    return Measured(task.problem, estimand, int(records), task.epsilon, task.seed, errors)
