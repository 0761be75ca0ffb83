"""The blog's synthetic data, from what its authors' published code says of them.

The post describes 2000 rows, a class of 50 % prevalence, ten variables with signal and a hundred without, but not how
strong the signal is. Its authors' code says it (github.com/WinVector/Examples, DiffPriv/PrivStep): a fair coin gives
the class, and a variable is normal with variance 1 and mean +0.1 or -0.1 by the class where it carries signal, else 0.
The best rule, the sign of the sum of the ten, is then right for 62.4 % of records, which is what the post's plots come
up to.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

SIGNALS, NOISES = 10, 100
VARIABLES = SIGNALS + NOISES


@dataclass(frozen=True)
class Setting:
    """How data sets are drawn."""

    name: str  # of the setting, in results
    shift: float  # how far a signal variable's mean lies from 0, in its standard deviations
    # whether the variables stand in a random order. The blog's stand with the ten signals first, and of candidates with
    # equal scores the first is taken, which then is a signal.
    shuffled: bool
    title: str  # in words

    @property
    def best(self) -> float:
        """Accuracy of the best rule there is, in percent."""
        return 100 * NormalDist().cdf(self.shift * math.sqrt(SIGNALS))


BLOG = "blog"
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(BLOG, 0.1, False, "as the blog's code draws them: shift 0.1"),
        Setting("shuffled", 0.1, True, "shift 0.1, variables in random order"),
        Setting("weak", 0.05, False, "half the signal: shift 0.05"),
        Setting("strong", 0.2, False, "twice the signal: shift 0.2"),
    )
}


@dataclass(frozen=True)
class Sizes:
    """Numbers of records, and of variables to choose; the blog's by default."""

    train: int = 1000
    test: int = 1000
    large: int = 10_000
    fresh: int = 10_000
    steps: int = 50


@dataclass(frozen=True)
class Part:
    """Records: (n, 110) variables and (n,) whether they are of class 1."""

    columns: NDArray[np.float64]
    labels: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class DataSet:
    """One data set, of independent records."""

    train: Part  # to fit on
    test: Part  # to choose variables by
    large: Part  # the same, ten times as many
    fresh: Part  # to measure true accuracy on; nothing else looks at them
    signal: NDArray[np.bool_]  # (110,) whether a variable carries signal


def draw(setting: Setting, seed: int, sizes: Sizes) -> DataSet:
    """The data set of a seed (>= 0)."""
    random = np.random.default_rng([seed, 0])
    signal = np.arange(VARIABLES) < SIGNALS
    if setting.shuffled:
        signal = random.permutation(signal)
    mean = np.where(signal, setting.shift, 0.0)
    train, test, large, fresh = (
        _part(random, mean, size) for size in (sizes.train, sizes.test, sizes.large, sizes.fresh)
    )
    return DataSet(train, test, large, fresh, signal)


def _part(random: np.random.Generator, mean: NDArray[np.float64], size: int) -> Part:
    labels = random.random(size) < 0.5
    return Part(random.standard_normal((size, VARIABLES)) + np.where(labels, 1.0, -1.0)[:, None] * mean, labels)
