"""The paper's two measures (section 5), of densities on a grid: no sample of the target or of the model is needed."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COVERED = 0.95
"""Mass of the model's region."""


@dataclass(frozen=True)
class Coverage:
    """The target's mass in a region that holds 0.95 of the model.

    Attributes:
        dense: the region where the model is densest, P(dQ >= t) with Q(dQ >= t) = 0.95: what the paper describes in
            words, and what its authors' code computes.
        printed: the region where it is least dense, P(dQ < t) with Q(dQ < t) = 0.95: the formula as it is printed.
    """

    dense: float
    printed: float


def negative_log_likelihood(target: Floats, model: Floats, volume: float) -> float:
    """-E_P[log Q], with cells' probabilities and the volume of a cell; infinite where Q misses a part of P.

    It is exact for a model that is constant on each cell.
    """
    held = target > 0
    if np.any(model[held] <= 0):
        return math.inf
    return float(-np.sum(target[held] * np.log(model[held] / volume)))


def divergence(target: Floats, model: Floats) -> float:
    """KL(P, Q) (Eq. 2) over the cells."""
    held = target > 0
    if np.any(model[held] <= 0):
        return math.inf
    return float(np.sum(target[held] * np.log(target[held] / model[held])))


def coverage(target: Floats, model: Floats) -> Coverage:
    """Mode coverage, both ways; a level that several cells share belongs to the region in part, so that it holds 0.95.

    Args:
        target: (n,) probabilities of the cells under P.
        model: (n,) under Q.
    """
    return Coverage(_mass(target, model, -model), _mass(target, model, model))


def _mass(target: Floats, model: Floats, order: Floats) -> float:
    """P's mass of the cells in increasing order, up to 0.95 of Q."""
    _, level = np.unique(order, return_inverse=True)
    under_model = np.bincount(level, weights=model) / model.sum()
    under_target = np.bincount(level, weights=target)
    before = np.concatenate([[0.0], np.cumsum(under_model)[:-1]])
    share = np.clip((COVERED - before) / np.maximum(under_model, np.finfo(float).tiny), 0.0, 1.0)
    return float(np.sum(share * under_target))
