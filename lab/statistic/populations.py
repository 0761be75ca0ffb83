"""What records are drawn from: invented populations that are hard for a mean, and stays in hospital."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from protocol.kinds.statistics.asked import Grid
from simulations.datasets import load_dataset

STEPS = 10_000
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """A law of one attribute.

    Attributes:
        title: in words.
        grid: on which its quantiles are asked: the declared bounds are its ends.
        draw: (generator, n) -> n values.
        quantile: share -> the value below which that share lies.
        most: records that there are; None: any number.
    """

    title: str
    grid: Grid
    draw: Callable[[np.random.Generator, int], Values]
    quantile: Callable[[float], float]
    most: int | None = None


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
