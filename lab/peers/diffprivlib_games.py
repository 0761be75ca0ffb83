"""What diffprivlib's models release on given records, many times over, for the distinguishing game.

A task's `train` and `labels` are one of the two inputs, `test` has one row for each outcome that is wanted, and the
norm or the range of a record is in `upper`. The library draws from the operating system's randomness.
"""

import warnings
from collections.abc import Callable

import numpy as np
from diffprivlib.models import GaussianNB, LogisticRegression

from lab.peers.task import Matrix, PeerTask

FAILED = -1.0
"""Released where a fit raises an error; an answer has 1 in its place."""


def class_counts(task: PeerTask) -> Matrix:
    """Gaussian naive Bayes: the sum of its class counts, and the first of them, (draws, 2)."""
    bounds = (task.lower, task.upper)

    def release() -> tuple[float, float]:
        counts = GaussianNB(epsilon=task.private_epsilon(), bounds=bounds).fit(task.train, task.labels).class_count_
        return float(counts.sum()), float(counts[0])

    return _many(release, len(task.test))


def weight(task: PeerTask) -> Matrix:
    """Logistic regression of one attribute: (1, its weight), or (`FAILED`, 0) where the fit raises, (draws, 2)."""
    norm = float(task.upper[0])

    def release() -> tuple[float, float]:
        model = LogisticRegression(
            epsilon=task.private_epsilon(), data_norm=norm, C=1.0, fit_intercept=False, max_iter=1000
        )
        try:
            return 1.0, float(model.fit(task.train, task.labels).coef_[0, 0])
        except ValueError:
            return FAILED, 0.0

    return _many(release, len(task.test))


GAMES = {"class-counts": class_counts, "weight": weight}


def _many(release: Callable[[], tuple[float, float]], draws: int) -> Matrix:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Matrix = np.array([release() for _ in range(draws)], np.float64)
    return found
