"""What several peers share: scaling that costs no privacy, the exact guarantee of DP-SGD, and models without privacy.

All of the scaling is decided on the learner's source, which is public. The guarantee is of T steps of DP-SGD that take
all records each. Without sampling there is nothing to amplify: T Gaussian mechanisms with noise multiplier z are one
with multiplier z / sqrt(T), also when a step depends on the answers before it. What is trained on the private records
without any privacy is the most that privacy can cost.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lab.peers.task import Matrix, PeerTask, Vector

DEVIATIONS = 3.0  # standardised values are clipped to this many


def standardise(source: Matrix, records: Matrix) -> Matrix:
    """Subtract the source's means, divide by its standard deviations (1 where 0)."""
    deviation = source.std(axis=0)
    return np.asarray((records - source.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def clipped(source: Matrix, records: Matrix) -> Matrix:
    """`standardise`, clipped to +-`DEVIATIONS`."""
    return np.clip(standardise(source, records), -DEVIATIONS, DEVIATIONS)


def ranks(source: Matrix, records: Matrix) -> Matrix:
    """Each value's mid-rank among the source's values of its column, in [-1, 1]: about uniform on the source."""
    ordered = np.sort(source, axis=0)
    columns = [
        np.searchsorted(ordered[:, place], column, "left") + np.searchsorted(ordered[:, place], column, "right")
        for place, column in enumerate(records.T)
    ]
    return np.stack(columns, axis=1) / len(source) - 1.0


def attribute_columns(columns: Sequence[str]) -> list[tuple[int, ...]]:
    """The columns of each attribute, in order of first appearance: one of numbers, or one a level.

    Columns "attribute=level" of the same attribute are one categorical attribute; any other column is numeric.
    """
    places_of: dict[tuple[str, int], list[int]] = {}
    for place, name in enumerate(columns):
        attribute, is_level, _ = name.partition("=")
        places_of.setdefault((attribute, -1) if is_level else (name, place), []).append(place)
    return [tuple(places) for places in places_of.values()]


def gaussian_delta(epsilon: float, multiplier: float) -> float:
    """The delta of a Gaussian mechanism whose noise is `multiplier` times the L2 sensitivity, at epsilon; Theorem 8."""
    half, shift = 1 / (2 * multiplier), epsilon * multiplier
    return float(ndtr(half - shift) - math.exp(epsilon + log_ndtr(-half - shift)))


def gaussian_epsilon(shift: float, delta: float) -> float:
    """The epsilon at delta of a Gaussian mechanism whose mean moves by `shift` deviations: Theorem 8, by bisection."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, 1 / shift) > delta:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, 1 / shift) > delta else (low, middle)
    return high


@lru_cache
def noise_multiplier(epsilon: float, delta: float, steps: int) -> float:
    """Least noise per step, rounded up by at most 1e-9 of it, of that many steps with all records."""
    low = high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(epsilon, middle) <= delta else (middle, high)
    return high * math.sqrt(steps)


def logistic_regression(task: PeerTask) -> Vector:
    """scikit-learn's, on columns standardised by the private records: (m,) probabilities of class 1."""
    return _fitted(task, make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)))


def gradient_boosting(task: PeerTask) -> Vector:
    """scikit-learn's histogram gradient boosting, as it comes: (m,) probabilities of class 1."""
    return _fitted(task, HistGradientBoostingClassifier(random_state=task.entropy()))


def majority(task: PeerTask) -> Vector:
    """The private records' share of class 1, for every test record: (m,)."""
    return np.full(len(task.test), float(task.labels.mean()))


def _fitted(task: PeerTask, model: LogisticRegression) -> Vector:
    if len(np.unique(task.labels)) < 2:
        return majority(task)
    return np.asarray(model.fit(task.train, task.labels).predict_proba(task.test)[:, 1])
