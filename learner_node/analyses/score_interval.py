"""The values that a test does not reject, by looking closer where its score leaves the accepted range."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Scores = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""Places, (M,) -> values of the parameter, standardised scores and their limits, each (M,)."""

Z = float(ndtri(0.975))
_MOST_EXCESS = 6.0
"""Excess kurtosis up to which the expansion is used."""
_NORMAL = 1e-6
"""Excess kurtosis below which a law is taken as normal."""
_POINTS = 41
_TURNS = 3
_FINE = 0.02
"""Change of a standardised score between neighbours below which nothing is looked at more closely."""


def noise_limit(variance: Floats, fourth: Floats, critical: float = Z) -> Floats:
    """Critical values of a standardised sum with this variance and fourth cumulant (Cornish and Fisher's)."""
    excess = np.minimum(fourth / np.maximum(variance, 1e-100) ** 2, _MOST_EXCESS)
    limit: Floats = critical + (critical**3 - 3 * critical) / 24 * excess
    return limit


def normal_score(score: float, excess: float) -> float:
    """The value of a normal variable whose tail is that of a score with this excess kurtosis: `noise_limit` inverted.

    It is the one root of excess / 24 (x^3 - 3 x) + x = score, in closed form.
    """
    excess = min(excess, _MOST_EXCESS)
    if excess < _NORMAL:
        return score
    slope = 24 / excess - 3
    return float(2 * np.sqrt(slope / 3) * np.sinh(np.arcsinh(36 * score / (excess * slope) * np.sqrt(3 / slope)) / 3))


def score_interval(scores: Scores, places: Floats) -> tuple[float, float]:
    """Least and greatest value whose standardised score is within its limit.

    Where none is, the best decides: values are accepted whose squared score exceeds its by the squared limit.

    Args:
        scores: of a parameter along a path; monotone but for noise.
        places: rising, (M,), on which to begin; their ends are the ends of the path.
    """
    values, heights, limits = scores(places)
    for _ in range(_TURNS):
        narrow = _brackets(heights, limits)
        finer = [
            np.linspace(places[index], places[index + 1], _POINTS)[1:-1]
            for index in narrow
            if abs(heights[index + 1] - heights[index]) > _FINE and values[index] != values[index + 1]
        ]
        if not finer:
            break
        added = np.concatenate(finer)
        more = scores(added)
        order = np.argsort(np.concatenate([places, added]), kind="stable")
        places = np.concatenate([places, added])[order]
        values, heights, limits = (
            np.concatenate([before, after])[order]
            for before, after in zip((values, heights, limits), more, strict=True)
        )
    return _ends(values, heights, limits)


def _excess(heights: Floats, limits: Floats) -> Floats:
    """How far scores are beyond their limits, negative for accepted ones; a crossing of 0 counts as accepted."""
    excess: Floats = np.abs(heights) - limits
    if excess.min() > 0 and not np.any(heights[1:] * heights[:-1] <= 0):
        excess = np.abs(heights) - np.sqrt(np.abs(heights).min() ** 2 + limits**2)
    return excess


def _brackets(heights: Floats, limits: Floats) -> NDArray[np.intp]:
    """Intervals between places in which the first or the last accepted value ends, or the score crosses 0."""
    excess = _excess(heights, limits)
    changes = np.flatnonzero((excess[1:] > 0) != (excess[:-1] > 0))
    if len(changes) == 0:
        changes = np.flatnonzero(heights[1:] * heights[:-1] <= 0)
    return np.unique(changes[[0, -1]]) if len(changes) else changes


def _ends(values: Floats, heights: Floats, limits: Floats) -> tuple[float, float]:
    """Least and greatest accepted value, ends interpolated."""
    excess = _excess(heights, limits)
    crossing = np.flatnonzero((excess[1:] > 0) != (excess[:-1] > 0))
    parts = excess[crossing] / (excess[crossing] - excess[crossing + 1])
    ends = values[crossing] + parts * (values[crossing + 1] - values[crossing])
    zero = np.flatnonzero(heights[1:] * heights[:-1] <= 0)
    parts = heights[zero] / np.where(heights[zero] == heights[zero + 1], 1.0, heights[zero] - heights[zero + 1])
    zeros = values[zero] + parts * (values[zero + 1] - values[zero])
    every = np.concatenate([ends, zeros, values[excess <= 0]])
    if len(every) == 0:
        every = values[[int(np.argmin(excess))]]
    return float(every.min()), float(every.max())
