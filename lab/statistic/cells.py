"""One cell of the study: records drawn once, and every method's error on them over many draws of its noise."""

import time
from fractions import Fraction

import msgspec
import numpy as np

from lab.statistic.methods import ESTIMANDS, METHODS, Sample
from lab.statistic.populations import POPULATIONS
from simulations.campaign.store import Task


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Errors of all methods on one sample.

    Attributes:
        population: key of `POPULATIONS`.
        estimand: key of `ESTIMANDS`.
        records: n.
        epsilon: exact text.
        seed: of the sample and of all noise.
        errors: method -> mean absolute distance from the population's quantile, in percent of its interquartile range.
        seconds: that it took.
    """

    population: str
    estimand: str
    records: int
    epsilon: str
    seed: int
    errors: dict[str, float]
    seconds: float

    @property
    def key(self) -> Task:
        """Which cell it is."""
        return task_of(self.population, self.estimand, self.records, self.epsilon, self.seed)


def task_of(population: str, estimand: str, records: int, epsilon: str, seed: int) -> Task:
    """The task of a cell; its maker names estimand and records."""
    return Task(population, f"{estimand} {records}", epsilon, seed)


def compute(task: Task) -> Measured:
    """One cell."""
    start = time.monotonic()
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
    seconds = round(time.monotonic() - start, 3)
    return Measured(task.problem, estimand, int(records), task.epsilon, task.seed, errors, seconds)
