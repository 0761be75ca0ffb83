"""The methods that are compared: MBDE, as curators learn it, and DPB, a kernel estimate under the Bernstein mechanism.

DPB (Alda and Rubinstein, AAAI 2017) takes the estimate f at the (k + 1)^d points of a lattice of the unit cube, and
adds Laplace noise of scale S (k + 1)^d / epsilon to each. The noisy values are the coefficients of a Bernstein
polynomial: the density that is released is that polynomial, which anybody may evaluate anywhere. With the iterated
operator of order h, 1 - (1 - B)^h, it bends faster, and so does the noise.

S is the most that one record can move f at a point. A Gaussian kernel of deviation s has values between 0 and
(2 pi s^2)^(-d/2), so replacing one of n records moves the mean of n kernels by at most (2 pi s^2)^(-d/2) / n.
Neighbours replace a record, and n is public, as in Alda and Rubinstein's paper. The deviation s is chosen by 10-fold
cross-validation on the same records, which is not paid for: this is what the MBDE paper does, and it is to the
contender's advantage.

A polynomial may be negative. The MBDE paper shifts and scales it. What is shifted here is the released polynomial
alone, so that this costs no privacy. Cutting it off below instead keeps more of its shape.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.stats import binom

from curator_node.exact_draws import RandomBytes
from curator_node.kinds.samples.learning import NetworkLearner, clipped, learn_density
from lab.sample.domains import Box
from protocol.grids import BaseLaw, NumberAxis

Floats = NDArray[np.float64]

FOLDS = 10
BANDWIDTHS = tuple(0.004 * 1.35**step for step in range(13))  # of the unit cube's side: 0.004 to 0.15
BINS = {1: 2048, 2: 256}
"""Of each coordinate, by dimensions, in which cross-validation counts records; a bin is at most the least bandwidth."""
_REACH = 8.0  # deviations after which cross-validation's kernels are 0
FLOOR = 1e-3  # least density after shifting or cutting, where 1 is that of the uniform one


@dataclass(frozen=True)
class Lattice:
    """How the estimate is approximated: degree `k` in each coordinate, `order` of the operator, `positive` how."""

    k: int
    order: int = 1
    cut: bool = False

    def __str__(self) -> str:
        """For tables."""
        return f"k {self.k}, order {self.order}, {'cut off' if self.cut else 'shifted'}"


def choose_bandwidth(records: Floats, folds: int = FOLDS, candidates: Sequence[float] = BANDWIDTHS) -> float:
    """The candidate under which records are likeliest given those of the other folds.

    Records (n, d) lie in the unit cube in random order; record i is of fold i mod `folds`. Candidates are deviations of
    the kernel, in increasing order.
    """
    dimensions = records.shape[1]
    bins = BINS[dimensions]
    places = np.minimum((records * bins).astype(np.int64), bins - 1)
    flat = np.ravel_multi_index(tuple(places.T), (bins,) * dimensions)
    counts = np.stack([np.bincount(flat[fold::folds], minlength=bins**dimensions) for fold in range(folds)])
    total = counts.sum(axis=0)

    def likelihood(bandwidth: float) -> float:
        log_likelihood = 0.0
        for fold in counts:
            rest = (total - fold).astype(np.float64)
            smooth = gaussian_filter(
                rest.reshape((bins,) * dimensions), bandwidth * bins, mode="constant", truncate=_REACH
            ).ravel()
            filled = fold > 0
            density = np.maximum(smooth[filled] * bins**dimensions / rest.sum(), np.finfo(float).tiny)
            log_likelihood += float(fold[filled] @ np.log(density))
        return log_likelihood

    return float(max(candidates, key=likelihood))


def sensitivity(bandwidth: float, records: int, dimensions: int) -> float:
    """The most that replacing one record moves the kernel density estimate at a point."""
    return float((2 * math.pi * bandwidth**2) ** (-dimensions / 2) / records)


def lattice_values(records: Floats, bandwidth: float, k: int) -> Floats:
    """The kernel density estimate at the lattice, shape (k + 1,) * d: exact, of (n, d) records in the unit cube."""
    points = np.arange(k + 1) / k
    sides = [
        np.exp(-(((column[:, None] - points) / bandwidth) ** 2) / 2) / (math.sqrt(2 * math.pi) * bandwidth)
        for column in records.T
    ]
    if len(sides) == 1:
        return np.asarray(sides[0].mean(axis=0))
    return np.asarray(sides[0].T @ sides[1] / len(records))


def noise_scale(lattice: Lattice, bandwidth: float, records: int, dimensions: int, epsilon: float) -> float:
    """The scale of Laplace noise on each of (k + 1)^d coefficients; one record may move all by the sensitivity."""
    return float(sensitivity(bandwidth, records, dimensions) * (lattice.k + 1) ** dimensions / epsilon)


@cache
def _basis(k: int, order: int, cells: int) -> Floats:
    """(cells, k + 1): what each lattice value adds to the polynomial at the middles of the unit interval's cells."""

    def bernstein(points: Floats) -> Floats:
        return np.asarray(binom.pmf(np.arange(k + 1), k, points[:, None]))

    at_lattice = bernstein(np.arange(k + 1) / k)
    series, power = np.zeros((k + 1, k + 1)), np.eye(k + 1)
    for term in range(1, order + 1):
        series += math.comb(order, term) * (-1) ** (term - 1) * power
        power = at_lattice @ power
    return np.asarray(bernstein((np.arange(cells) + 0.5) / cells) @ series)


def polynomial(values: Floats, order: int, cells: int) -> Floats:
    """The Bernstein polynomial of order h of lattice values at the middles of cells ** d cells, flat.

    In two dimensions it is the tensor product of the operators of one dimension.
    """
    basis = _basis(len(values) - 1, order, cells)
    return np.asarray(basis @ values if values.ndim == 1 else (basis @ values @ basis.T).ravel())


def as_probabilities(density: Floats, *, cut: bool) -> Floats:
    """Probabilities of equal cells from a density that may be negative: cut off below, or shifted up, then scaled."""
    positive = np.maximum(density, FLOOR) if cut else density - min(0.0, float(density.min())) + FLOOR
    return np.asarray(positive / positive.sum())


def release(
    records: Floats, bandwidth: float, lattice: Lattice, epsilon: float, cells: int, rng: np.random.Generator
) -> Floats:
    """Probabilities of the cells ** d cells of the unit cube under the released density.

    Records (n, d) lie in the unit cube; epsilon is of the whole density, under ordinary differential privacy.
    """
    values = lattice_values(records, bandwidth, lattice.k)
    scale = noise_scale(lattice, bandwidth, len(records), records.shape[1], epsilon)
    noisy = values + rng.laplace(scale=scale, size=values.shape)
    return as_probabilities(polynomial(noisy, lattice.order, cells), cut=lattice.cut)


ROUNDS, EXAMPLES = 3, 10_000  # T, and records and draws of each classifier, as in the paper


@dataclass(frozen=True)
class Training:
    """Passes over all examples, and examples of a step; None takes all of them."""

    epochs: int
    batch: int | None

    def __str__(self) -> str:
        """For tables."""
        return f"{self.epochs} epochs in {'one batch' if self.batch is None else f'batches of {self.batch}'}"


ONE_BATCH = Training(750, None)  # the paper's number of epochs; it names no batch
TRAINING = {1: ONE_BATCH, 2: Training(75, 250)}
"""By dimensions. In the plane 750 steps with all examples hardly leave the first weights; a tenth of the epochs in
small batches costs half and has 8 times as many steps."""


@dataclass(frozen=True)
class Learnt:
    """A density that MBDE learnt, on the grid of its base."""

    masses: Floats  # (n,) probabilities of the cells, the last coordinate fastest
    classifiers: tuple[Floats, ...]  # c_t at each cell, clipped
    thetas: tuple[float, ...]  # the leverage of each
    settings: str  # of the training, in words


@lru_cache(maxsize=4)
def base_law(box: Box, cells: int) -> BaseLaw:
    """A standard Gaussian on a box with `cells` cells in each coordinate."""
    axes = [
        NumberAxis(f"x{place}", low, high, cells, 0.0, 1.0)
        for place, (low, high) in enumerate(zip(box.low, box.high, strict=True))
    ]
    return BaseLaw.of(axes)


def base_masses(box: Box, cells: int) -> Floats:
    """(n,) probabilities of the cells under Q_0."""
    law = base_law(box, cells)
    return np.asarray(np.exp(law.log_masses(_every(law))))


def learn(box: Box, cells: int, records: Floats, epsilon: Fraction, seed: int, training: Training) -> Learnt:
    """Learn a density, and evaluate it and its classifiers on the whole grid.

    `box` bounds Q_0, and `records` are (n, d). The seed gives the learner's draws and first weights.
    """
    law = base_law(box, cells)
    learner = NetworkLearner(epochs=training.epochs, batch=training.batch)
    density = learn_density(
        records, law, epsilon, ROUNDS, learner=learner, examples=EXAMPLES, random_bytes=_seeded(seed)
    )
    every = _every(law)
    return Learnt(
        density.masses().ravel(),
        tuple(clipped(classifier.log_odds(every)) for classifier in density.classifiers),
        density.thetas,
        f"T = {ROUNDS}, {EXAMPLES:,} records and draws, {training}",
    )


def _every(law: BaseLaw) -> NDArray[np.int64]:
    """(n, d) all cells, the last coordinate fastest."""
    return np.column_stack(np.unravel_index(np.arange(math.prod(law.sizes)), law.sizes)).astype(np.int64)


def _seeded(seed: int) -> RandomBytes:
    return np.random.default_rng(seed).bytes
