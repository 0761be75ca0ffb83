"""Random features of a rough-tailed stationary kernel plus a linear one, and their averages over cells.

The stationary part has a Student-t spectrum with five degrees of freedom: heavier tails than a Gaussian
kernel's, so that edges between labels need not be smooth. Random Fourier features: Rahimi & Recht,
"Random Features for Large-Scale Kernel Machines" (2007), cosine and sine pairs.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

LEVEL_SHARE = 0.09
"""Default prior variance of the constant part of f, as a share of the amplitude."""
_FREQUENCIES = 500
_SPECTRUM_DEGREES = 5
_BLOCK = 1024
_MOST_AVERAGED = 20_000
_FEWEST_AVERAGED = 16
# Standardised features of n records are below sqrt(n); past this bound they could only break the algebra.
_LARGEST_FEATURE = 1e3


@dataclass(frozen=True)
class Kernel:
    """Parameters of one prior covariance of f."""

    length_scale: float  # In units of the typical distance sqrt(d), positive
    linear: float  # Weight of the linear part, non-negative
    amplitude: float  # Prior variance of the stationary part, positive
    constant: float  # Prior variance of what f is everywhere, non-negative


@dataclass(frozen=True)
class CellAverages:
    """Averages of features over the source records of the used cells."""

    centres: Floats  # Mean instance, float64 (K, d)
    stationary: dict[float, Singles]  # Per length-scale, mean stationary features, float32 (K, 1000)
    square: Floats  # Mean of |z|^2 / d, float64 (K,)
    counts: Floats  # Instances that were averaged, float64 (K,), at least 1


class Covariances:
    """Prior covariances of the cells' means of f.

    Args:
        averages: averages of the features over the cells.
    """

    def __init__(self, averages: CellAverages) -> None:
        self.averages = averages
        self._linear_gram = averages.centres @ averages.centres.T / averages.centres.shape[1]
        self._grams: dict[float, Floats] = {}

    def keep(self, length_scales: Collection[float]) -> None:
        """Forget what was computed for other length-scales, 8 MB each for a thousand cells."""
        self._grams = {scale: gram for scale, gram in self._grams.items() if scale in length_scales}

    def of(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """A new float64 (K, K) of the averaged features, and the variance of f within a cell, float64 (K,)."""
        if kernel.length_scale not in self._grams:
            rows = self.averages.stationary[kernel.length_scale].astype(np.float64)
            self._grams[kernel.length_scale] = rows @ rows.T
        covariance: Floats = kernel.linear * self._linear_gram
        covariance += self._grams[kernel.length_scale]
        covariance *= kernel.amplitude
        covariance += kernel.constant
        within = np.maximum(kernel_diagonal(kernel, self.averages.square) - np.diag(covariance), 0.0)
        return covariance, within


def draw_frequencies(dimensions: int, seed: int) -> Floats:
    """Return the frequencies of the stationary kernel at length-scale 1, float64 (d, 500)."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((dimensions, _FREQUENCIES))
    radial = np.sqrt(rng.chisquare(_SPECTRUM_DEGREES, _FREQUENCIES) / _SPECTRUM_DEGREES)
    frequencies: Floats = normal / (radial * np.sqrt(dimensions))
    return frequencies


def bounded(features: Floats) -> Floats:
    """Return the features clipped to [-1000, 1000]: themselves where none lies outside."""
    if features.size and features.min() >= -_LARGEST_FEATURE and features.max() <= _LARGEST_FEATURE:
        return features
    return np.clip(features, -_LARGEST_FEATURE, _LARGEST_FEATURE)


def blocks(count: int) -> Iterator[slice]:
    """Yield slices of 1,024 that cover `count` records, so that features never fill the memory."""
    for start in range(0, count, _BLOCK):
        yield slice(start, min(start + _BLOCK, count))


def stationary_features(phases: Floats) -> Singles:
    """Return features whose inner product is the stationary kernel.

    Args:
        phases: Instances times frequencies over the length-scale, float64 (n, 500).

    Returns:
        float32 (n, 1000); the squared norm of every row is 1.
    """
    count = phases.shape[1]
    features = np.empty((len(phases), 2 * count), dtype=np.float32)
    # Single precision is a tenth of the time; its error is far below that of random features.
    single = phases.astype(np.float32)
    np.cos(single, out=features[:, :count])
    np.sin(single, out=features[:, count:])
    features *= np.float32(1.0 / np.sqrt(count))
    return features


def kernel_diagonal(kernel: Kernel, square: Floats) -> Floats:
    """Return k(z, z) for instances with the given |z|^2 / d, float64 (n,)."""
    return kernel.constant + kernel.amplitude * (1.0 + kernel.linear * square)


def average_over_cells(
    features: Floats,
    cells: Sequence[NDArray[np.int64]],
    frequencies: Floats,
    length_scales: tuple[float, ...],
    *,
    seed: int = 0,
) -> CellAverages:
    """Average instances and their features over the cells of one or more partitions.

    In a partition of more than 20,000 instances and K cells, a random sample of each cell is averaged: max(16, 20,000
    // K) instances, or the whole cell if it has fewer.

    Args:
        features: Instances, float64 (n_s, d), bounded.
        cells: Per partition, the cell of each instance, int64 (n_s,). The cells of all partitions are numbered together
            from 0, and none is empty.
        frequencies: From `draw_frequencies`.
        length_scales: Length-scales of the averaged features.
        seed: Seed of the random samples.
    """
    samples = [_averaged(numbers, seed) for numbers in cells]
    averaged = np.concatenate([numbers[keep] for numbers, keep in zip(cells, samples, strict=True)])
    counts = np.bincount(averaged).astype(np.float64)
    weights = [np.where(keep, 1.0 / counts[numbers], 0.0) for numbers, keep in zip(cells, samples, strict=True)]
    anywhere = np.flatnonzero(np.any(samples, axis=0))
    size, dimensions = len(counts), features.shape[1]
    centres = np.zeros((size, dimensions))
    square = np.zeros(size)
    stationary = {scale: np.zeros((size, 2 * frequencies.shape[1]), np.float32) for scale in length_scales}
    for block in blocks(len(anywhere)):
        chosen = anywhere[block]
        rows = features[chosen]
        entries = (
            np.concatenate([weight[chosen] for weight in weights]),
            (np.concatenate([numbers[chosen] for numbers in cells]), np.tile(np.arange(len(rows)), len(cells))),
        )
        average = csr_matrix(entries, shape=(size, len(rows)))
        average.eliminate_zeros()
        centres += average @ rows
        square += average @ np.mean(rows**2, axis=1)
        single = average.astype(np.float32)
        phases = rows @ frequencies
        for scale in length_scales:
            stationary[scale] += single @ stationary_features(phases / scale)
    return CellAverages(centres, stationary, square, counts)


def _averaged(cells: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Mask (n_s,) of the instances that are averaged."""
    counts = np.bincount(cells - int(cells.min()))
    most = max(_FEWEST_AVERAGED, _MOST_AVERAGED // len(counts))
    if len(cells) <= _MOST_AVERAGED or counts.max() <= most:
        return np.ones(len(cells), dtype=bool)
    return sample_of_cells(cells, most, seed)


def sample_of_cells(cells: NDArray[np.int64], most: int | NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Mask (n,) of a random sample without replacement of each cell.

    Args:
        cells: cell of each instance, int64 (n,), n at least 1.
        most: size of each cell's sample, or (K,) of each from the smallest number on; a smaller cell is taken whole.
        seed: seed of the sample.
    """
    first = int(cells.min())
    counts = np.bincount(cells - first)
    order = np.argsort(np.random.default_rng(seed).random(len(cells)), kind="stable")
    # A stable sort of short numbers takes time in proportion to their number.
    numbers = (cells - first).astype(np.min_scalar_type(len(counts)))
    order = order[np.argsort(numbers[order], kind="stable")]
    rank = np.empty(len(cells), dtype=np.int64)
    rank[order] = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank < (most if isinstance(most, int) else most[cells - first])
