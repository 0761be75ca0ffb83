"""Naive Bayes on noisy histograms, linear models from noisy sums: the plainest private classifiers, in our own code.

Naive Bayes has a histogram per attribute and class; a record is in one cell of each, so d attributes have an L1
sensitivity of d when one record is added or removed, and every count gets discrete Laplace noise of scale d / epsilon.
Where that drowns them, half of epsilon goes to the two class totals, of sensitivity 1.

For linear models a record x is standardised by the source, extended by a constant column, and clipped to a norm that
half of the source's records keep; labels are -1 and 1. `public_covariance` releases the sum of y x alone, and takes the
columns' covariance from the source: a pure guarantee. `adassp` (Wang 2018, Algorithm 2) releases the covariance, too.

All that follows the releases is post-processing. Noise is numpy's and seeded: a comparison, not a release.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from lab.peers.preparation import attribute_columns, noise_multiplier, standardise
from lab.peers.task import Labels, Matrix, PeerTask, Vector
from protocol.noise import DiscreteLaplace

FEWEST_BINS, MOST_BINS = 4, 16
RECORDS_PER_BIN = 10
"""A numeric attribute has about n epsilon / (10 d) bins: a class's count of a bin is some noise deviations."""
SPARSE_BINS = 0.5
"""Below this n epsilon / (10 d), histograms say less than the class totals, which then get half of epsilon."""
LEAST_CLASS_SHARE = 0.02
LEAST_SHARE = 0.1  # a cell's probability is never below this share of the source's

Cells = list[tuple[Labels, int]]  # per attribute: the cell of each record, and the number of cells


def histogram_naive_bayes(task: PeerTask) -> Vector:
    """Probability of class 1 for each test record: (m,)."""
    epsilon = task.private_epsilon()
    attributes = attribute_columns(task.columns)
    bins = bin_count(len(task.train), len(attributes), epsilon)
    for_totals = epsilon / 2 if is_sparse(len(task.labels), len(attributes), epsilon) else 0.0
    scale = len(attributes) / (epsilon - for_totals)
    source, train, test = (_cells(task, attributes, records, bins) for records in (task.source, task.train, task.test))
    rng = np.random.default_rng(task.entropy())
    counts = [noisy_counts(cells, task.labels, size, scale, rng) for cells, size in train]
    if for_totals:
        # One histogram more, of a single cell, with noise of its own scale.
        one_cell = np.zeros(len(task.labels), dtype=np.int64)
        totals = class_totals([noisy_counts(one_cell, task.labels, 1, 1 / for_totals, rng)])
    else:
        totals = class_totals(counts)
    shapes = [np.bincount(cells, minlength=size) + 1.0 for cells, size in source]
    ratios = log_ratios(
        counts, totals, [shape / shape.sum() for shape in shapes], DiscreteLaplace(Fraction(scale)).variance()
    )
    score = np.full(len(task.test), np.log(totals[1] / totals[0]))
    for (cells, _), ratio in zip(test, ratios, strict=True):
        score += ratio[cells]
    return np.asarray(1 / (1 + np.exp(-np.clip(score, -500, 500))))


def bin_count(records: int, attributes: int, epsilon: float) -> int:
    """Bins of a numeric attribute; from public numbers alone, n counted as one."""
    return int(np.clip(round(records * epsilon / (RECORDS_PER_BIN * attributes)), FEWEST_BINS, MOST_BINS))


def is_sparse(records: int, attributes: int, epsilon: float) -> bool:
    """Whether the class totals get a question of their own; from public numbers alone."""
    return records * epsilon / (RECORDS_PER_BIN * attributes) < SPARSE_BINS


def noisy_counts(cells: Labels, labels: Labels, size: int, scale: float, rng: np.random.Generator) -> Matrix:
    """(2, size) counts per class and cell plus discrete Laplace noise."""
    exact = np.bincount(labels * size + cells, minlength=2 * size).reshape(2, size)
    return np.asarray((exact + DiscreteLaplace(Fraction(scale)).simulate(rng, exact.shape)).astype(float))


def class_totals(counts: list[Matrix]) -> Vector:
    """(2,) records per class: each attribute's sum counts by the number of its noises; positive."""
    sizes = np.array([histogram.shape[1] for histogram in counts], dtype=np.float64)
    sums = np.array([histogram.sum(axis=1) for histogram in counts])
    totals: Vector = np.average(sums, axis=0, weights=1 / sizes)
    return np.maximum(totals, max(1.0, LEAST_CLASS_SHARE * totals.sum()))


def log_ratios(counts: list[Matrix], totals: Vector, shapes: list[Vector], noise: float) -> list[Vector]:
    """Per attribute: (cells,) log P(cell | 1) - log P(cell | 0).

    A count is its class's total times the source's share of the cell, times 1 + deviation. Deviations are shrunk as
    if drawn from one distribution of mean 0, whose variance is what the counts show beyond their noise (moments).

    `counts`: per attribute (2, cells), noisy; `totals` (2,) records per class; `shapes`: per attribute (cells,) the
    source's shares, positive; `noise`: variance of a count's noise.
    """
    expected = [totals[:, None] * shape for shape in shapes]
    excess = sum(((count - mean) ** 2 - noise).sum() for count, mean in zip(counts, expected, strict=True))
    spread = max(float(excess), 0.0) / sum(float((mean**2).sum()) for mean in expected)
    ratios = []
    for count, mean in zip(counts, expected, strict=True):
        weight = spread * mean**2 / (spread * mean**2 + noise)
        likely = np.maximum(mean + weight * (count - mean), LEAST_SHARE * mean)
        shares = likely / likely.sum(axis=1, keepdims=True)
        ratios.append(np.log(shares[1]) - np.log(shares[0]))
    return ratios


def _cells(task: PeerTask, attributes: list[tuple[int, ...]], records: Matrix, bins: int) -> Cells:
    """Numbers fall into bins that hold about as many source records each, levels into their own cells."""
    cells: Cells = []
    for places in attributes:
        if "=" in task.columns[places[0]]:
            levels = records[:, places]
            none = levels.max(axis=1) < 0.5
            cells.append((np.where(none, len(places), levels.argmax(axis=1)).astype(np.int64), len(places) + 1))
            continue
        edges = np.unique(np.quantile(task.source[:, places[0]], np.linspace(0, 1, bins + 1)[1:-1]))
        cells.append((np.searchsorted(edges, records[:, places[0]], "right").astype(np.int64), len(edges) + 1))
    return cells


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
