"""The minimiser of a sum of smooth losses and a regulariser, to a tolerance that does not depend on the records.

Newton's method with a damped step. The losses are such that the second derivative along a step p changes by a factor of
at most exp(b |t|) within t p, b = sharpness length ||p|| (Bach 2010), so that J falls by at least

    lambda^2 ((1 + b) log(1 + b) - b) / b^2,   lambda^2 = p.H p,   at t = log(1 + b) / b

(Sun and Tran-Dinh 2019, Theorem 2). The regulariser keeps this decrease above a constant while b >= 1. Below b = 1 the
gradient shrinks by a factor, and soon quadratically. So the stop is reached for all records.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.kinds.models.linear import TOLERANCE

STOP = float(TOLERANCE) / 4
"""The computed gradient is no longer than this; the rest of the tolerance is left to rounding errors of floats."""
MOST_STEPS = 10_000
"""Most steps, in case floating-point arithmetic does not behave as assumed."""
BLOCK = 4096
"""Records that are summed at once: a short sum has small errors."""
BITS, SLICES = 26, 3
"""Weights are multiplied in slices of so many bits: whole numbers of 13 bits times these add up without rounding."""


@dataclass(frozen=True)
class Losses:
    """J(w) = sum of softplus(k (a - y w.v / unit)) / k + (regulariser / 2) ||w||^2."""

    rows: NDArray[np.int16]  # v, (n, D) int16 whole numbers
    signs: NDArray[np.float64]  # y, (n,) float64 of 1 and -1
    unit: int  # whole numbers that are one unit
    length: float  # of every v / unit, at most
    regulariser: float  # at least 1
    margin: int  # a
    sharpness: int  # k

    def derivatives(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradient (D,) and Hessian (D, D) of J."""
        gradient = self.regulariser * weights
        hessian = self.regulariser * np.eye(len(weights))
        slices = sliced(weights)
        for start in range(0, len(self.rows), BLOCK):
            block = self.rows[start : start + BLOCK].astype(np.float64)
            signs = self.signs[start : start + BLOCK]
            slopes = _logistic(self.sharpness * (self.margin - signs * self._scores(block, slices)))
            rows = block / self.unit
            gradient -= (signs * slopes) @ rows
            bends = self.sharpness * slopes * (1.0 - slopes)
            hessian += (rows * bends[:, None]).T @ rows
        return gradient, hessian

    def value(self, weights: NDArray[np.float64]) -> float:
        """J."""
        value = self.regulariser / 2 * float(weights @ weights)
        slices = sliced(weights)
        for start in range(0, len(self.rows), BLOCK):
            scores = self._scores(self.rows[start : start + BLOCK].astype(np.float64), slices)
            bent = self.sharpness * (self.margin - self.signs[start : start + BLOCK] * scores)
            value += float(np.sum(np.logaddexp(0.0, bent))) / self.sharpness
        return value

    def _scores(self, block: NDArray[np.float64], slices: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Scores w.v / unit of a block of rows, each within a few units of its own last place."""
        first, *rest = (block @ part for part in slices)
        scores: NDArray[np.float64] = (first + sum(rest)) / self.unit
        return scores


def sliced(weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Vectors of at most `BITS` bits, largest first, that add up to the weights, but for 2^-78 of the largest.

    A whole number of 13 bits times one of them, added up over 1,024 coordinates, has at most 49 bits: however the
    library adds them, it does not round.
    """
    step = math.ldexp(1.0, math.frexp(float(np.abs(weights).max(initial=0.0)))[1])
    slices, rest = [], weights
    for _ in range(SLICES):
        step = max(math.ldexp(step, -BITS), math.ulp(0.0))  # of tiny weights: all floats are multiples of that
        slices.append(np.rint(rest / step) * step)
        rest = rest - slices[-1]
    return slices


def minimise(losses: Losses) -> NDArray[np.float64]:
    """Weights (D,) at which the gradient of J is no longer than `TOLERANCE` (L2)."""
    weights = np.zeros(losses.rows.shape[1])
    for _ in range(MOST_STEPS):
        gradient, hessian = losses.derivatives(weights)
        if np.linalg.norm(gradient) <= STOP:
            break
        step: NDArray[np.float64] = np.linalg.solve(hessian, -gradient).astype(np.float64)
        weights = weights + step * _stride(losses, weights, step)
    return weights


def _stride(losses: Losses, weights: NDArray[np.float64], step: NDArray[np.float64]) -> float:
    """The fraction of a step that is taken.

    It starts at the fraction proven to lower J, and doubles while J falls further.
    """
    bend = losses.sharpness * losses.length * float(np.linalg.norm(step))
    stride = math.log1p(bend) / bend
    if bend <= 1:
        return stride
    value = losses.value(weights + stride * step)
    while 2 * stride <= 1 and (next_value := losses.value(weights + 2 * stride * step)) < value:
        stride, value = 2 * stride, next_value
    return stride


def _logistic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-value)), without overflow."""
    small = np.exp(-np.abs(values))
    slopes: NDArray[np.float64] = np.where(values >= 0, 1.0, small) / (1.0 + small)
    return slopes
