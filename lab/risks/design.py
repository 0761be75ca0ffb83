"""The settings of the sweep, and populations whose class probabilities are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from learner_node.prevalence import matching_factors, rescaled

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
    """Records whose class probabilities are known.

    Attributes:
        records: (20,000, 6).
        probabilities: (20,000, C) of each class.
    """

    records: Floats
    probabilities: Floats


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
