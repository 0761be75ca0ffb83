"""What IBM's diffprivlib releases on given records, many times over, run in the peers' environment.

One library a file: a process loads what one environment has, and no other. A table of `worker` names this file.

Records are rows (value, label). The library draws from the operating system's randomness.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from diffprivlib.mechanisms import GaussianAnalytic, Geometric, Laplace
from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression

from lab.peers.task import Matrix, Setting

LIBRARIES = ("diffprivlib", "scikit-learn", "numpy", "scipy")
FAILED = -1.0  # released where a fit raises an error; an answer has 1 in its place


def _many(release: Callable[[], Sequence[float]], draws: int) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes: Matrix = np.array([release() for _ in range(draws)], np.float64)
    return outcomes


def class_counts(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Gaussian naive Bayes: the sum of its class counts, and the first of them, (draws, 2)."""
    bounds = ([0.0], [float(setting["most"])])

    def release() -> tuple[float, float]:
        model = GaussianNB(epsilon=float(setting["epsilon"]), bounds=bounds)
        counts = model.fit(records[:, :1], records[:, 1].astype(int)).class_count_
        return float(counts.sum()), float(counts[0])

    return _many(release, draws)


def weight(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Logistic regression of one attribute: (1, its weight), or (`FAILED`, 0) where the fit raises, (draws, 2)."""

    def release() -> tuple[float, float]:
        model = LogisticRegression(
            epsilon=float(setting["epsilon"]),
            data_norm=float(setting["most"]),
            C=1.0,
            fit_intercept=False,
            max_iter=1000,
        )
        try:
            return 1.0, float(model.fit(records[:, :1], records[:, 1].astype(int)).coef_[0, 0])
        except ValueError:
            return FAILED, 0.0

    return _many(release, draws)


def slope(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """Linear regression of one attribute in [`least`, `most`] on outcomes in [0, 1]: its coefficient, (draws, 1)."""
    bounds = (float(setting["least"]), float(setting["most"]))

    def release() -> tuple[float]:
        model = LinearRegression(
            epsilon=float(setting["epsilon"]), bounds_X=bounds, bounds_y=(0.0, 1.0), fit_intercept=False
        )
        return (float(model.fit(records[:, :1], records[:, 1]).coef_[0]),)

    return _many(release, draws)


def noise(records: Matrix, setting: Setting, draws: int) -> Matrix:
    """One of its mechanisms on the first value, at sensitivity 1, (draws, 1)."""
    epsilon, value = float(setting["epsilon"]), float(records[0, 0])
    if setting["mechanism"] == "geometric":
        integers = Geometric(epsilon=epsilon, sensitivity=1)
        return _many(lambda: (integers.randomise(int(value)),), draws)
    if setting["mechanism"] == "gaussian":
        gaussian = GaussianAnalytic(epsilon=epsilon, delta=float(setting["delta"]), sensitivity=1.0)
        return _many(lambda: (gaussian.randomise(value),), draws)
    laplace = Laplace(epsilon=epsilon, sensitivity=1.0)
    return _many(lambda: (laplace.randomise(value),), draws)


RELEASES = {"class-counts": class_counts, "weight": weight, "slope": slope, "noise": noise}
