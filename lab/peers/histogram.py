"""Naive Bayes on noisy histograms: the plainest private classifier that deserves the name, in our own code.

Each attribute is a histogram per class; a record is in one cell of each, so d attributes have an L1 sensitivity of d
when one record is added or removed, and every count gets discrete Laplace noise of scale d / epsilon. Where that drowns
them, half of epsilon goes to the two class totals, of sensitivity 1. All that follows is post-processing. The noise is
numpy's and seeded: a comparison, not a release.
"""

from fractions import Fraction

import numpy as np

from lab.peers.preparation import attribute_columns
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
