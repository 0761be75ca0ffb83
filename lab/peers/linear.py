"""Linear models of the label from sums over the private records: our own code, two peers.

A record x is standardised by the source, extended by a constant column, and clipped to a norm that half of the source's
records keep; labels are -1 and 1. `public_covariance` releases the sum of y x alone, and takes the columns' covariance
from the source: a pure guarantee. `adassp` (Wang 2018, Algorithm 2) releases the covariance, too. All that follows the
releases is post-processing. Noise is numpy's and seeded: a comparison, not a release.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from lab.peers.preparation import noise_multiplier, standardise
from lab.peers.task import Matrix, PeerTask, Vector
from protocol.noise import DiscreteLaplace

GRID = 2**20
"""Clipped records are whole numbers of L1 norm at most this, so that the noise is integers and its cost exact."""
UNCLIPPED = 0.5  # share of the source's records whose norm is not clipped
VARIANCES = np.geomspace(0.01, 1.0, 20)
"""Prior variances of a record's score that are tried: the mean of labels of -1 and 1 has a square of at most 1."""
FAILURE = 0.05  # of AdaSSP's bound on the noise: with this probability the ridge is not what makes the matrix regular
SUREST, MOST_SCALE = 0.95, 50.0


def public_covariance(task: PeerTask) -> Vector:
    """Weights from one noisy sum and the source's covariance: (m,) probabilities of class 1.

    Adding or removing a record moves the sum, in integers, by at most `GRID` in L1. The weights w have a normal prior:
    the mean of y x is C w, for the covariance C, plus noise and what chance gave the records. The prior's variance is
    the one under which the noisy mean is likeliest.
    """
    source, train, test = (whole_rows(task.source, records) for records in (task.source, task.train, task.test))
    law = DiscreteLaplace(GRID / Fraction(task.private_epsilon()))
    rng = np.random.default_rng(task.entropy())
    noisy = signed_sum(train, task.labels) + law.simulate(rng, (train.shape[1],))
    rows, n = source / GRID, len(task.train)
    covariance = rows.T @ rows / len(rows)
    weights = shrunk_weights(covariance, noisy / (GRID * n), law.variance() / (GRID * n) ** 2, n)
    return probabilities(rows @ weights, test / GRID @ weights)


def adassp(task: PeerTask) -> Vector:
    """Ridge regression on noisy sufficient statistics, the ridge as large as the noise needs: (m,) probabilities.

    Adding or removing a record moves least eigenvalue, matrix and vector by at most 1 each. Instead of the paper's
    constants, which split epsilon and delta in three, the three Gaussian mechanisms are accounted for exactly as one.
    """
    source, train, test = (unit_rows(task.source, records) for records in (task.source, task.train, task.test))
    deviation = noise_multiplier(task.private_epsilon(), task.delta, 3)
    rng = np.random.default_rng(task.entropy())
    d = train.shape[1]
    matrix, vector = train.T @ train, signed_sum(train, task.labels)
    least = float(np.linalg.eigvalsh(matrix)[0]) + deviation * float(rng.standard_normal())
    certain = max(least - deviation * math.sqrt(math.log(6.0 / task.delta)), 0.0)
    ridge = max(deviation * math.sqrt(d * math.log(2 * d * d / FAILURE)) - certain, 0.0)
    noise = np.triu(rng.standard_normal((d, d)))
    matrix += deviation * (noise + np.triu(noise, 1).T)
    vector += deviation * rng.standard_normal(d)
    weights = np.linalg.solve(matrix + ridge * np.eye(d), vector)
    return probabilities(source @ weights, test @ weights)


def whole_rows(source: Matrix, records: Matrix) -> NDArray[np.int64]:
    """Records on the scale of the source, int64 (n, p + 1), each of L1 norm at most `GRID`: rounded towards 0."""
    rows = _clipped(source, records, order=1)
    integers: NDArray[np.int64] = np.trunc(rows * GRID).astype(np.int64)
    # A norm may exceed 1 by a rounding; one unit less of the largest entry mends that.
    largest = np.abs(integers).argmax(axis=1)
    over = np.abs(integers).sum(axis=1) > GRID
    integers[over, largest[over]] -= np.sign(integers[over, largest[over]])
    return integers


def unit_rows(source: Matrix, records: Matrix) -> Matrix:
    """Records on the scale of the source, float64 (n, p + 1), each of L2 norm at most 1."""
    return _clipped(source, records, order=2)


def _clipped(source: Matrix, records: Matrix, *, order: int) -> Matrix:
    """Standardised, with a constant of half the root of their number, divided by the greater of own and public norm."""
    norms = np.linalg.norm(_extended(source, source), ord=order, axis=1)
    rows = _extended(source, records)
    longest = np.maximum(np.linalg.norm(rows, ord=order, axis=1), float(np.quantile(norms, UNCLIPPED)))
    return np.asarray(rows / longest[:, None])


def _extended(source: Matrix, records: Matrix) -> Matrix:
    constant = 0.5 * math.sqrt(records.shape[1])
    return np.hstack([standardise(source, records), np.full((len(records), 1), constant)])


def signed_sum(rows: Matrix | NDArray[np.int64], labels: NDArray[np.int64]) -> Vector:
    """Sum of y x, y = 1 for class 1 and -1 for class 0: (p,) float64, exact for whole numbers."""
    return np.asarray((rows[labels == 1].sum(axis=0) - rows[labels == 0].sum(axis=0)).astype(np.float64))


def shrunk_weights(covariance: Matrix, mean: Vector, noise: float, n: int) -> Vector:
    """Posterior mean of w in mean = C w + e, e normal of covariance noise I + C / n, w of the likeliest variance.

    `covariance`: C, (p, p), positive semidefinite, not 0; `mean` (p,) noisy mean of y x; `noise`: variance of its
    noise, positive; n records.
    """
    values, vectors = np.linalg.eigh(covariance)
    values, turned = np.maximum(values, 0.0), vectors.T @ mean
    error = noise + values / n
    variances = VARIANCES / values.sum()
    total = values**2 * variances[:, None] + error
    likeliest = variances[np.argmin((np.log(total) + turned**2 / total).sum(axis=1))]
    return np.asarray(vectors @ (likeliest * values * turned / (values**2 * likeliest + error)))


def probabilities(source_scores: Vector, scores: Vector) -> Vector:
    """P = Phi(a score), (m,), for scores that estimate E[y]; the scale a is chosen without a label.

    Over the source the mean of (2 P - 1) score is what it would be if E[y] were the score, kept within +-`SUREST`.
    """
    target = float(np.mean(np.clip(source_scores, -SUREST, SUREST) * source_scores))

    def excess(scale: float) -> float:
        return float(np.mean((2.0 * ndtr(scale * source_scores) - 1.0) * source_scores)) - target

    scale = brentq(excess, 0.0, MOST_SCALE) if excess(MOST_SCALE) > 0 else 1.0  # scores of 0 have no scale
    return np.asarray(ndtr(scale * scores))
