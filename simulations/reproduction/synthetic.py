"""Data sets A to E: generated, as section 4.1 and Table 1 of the paper describe them.

What the paper leaves open is a constant here; ADR 4 says what else was tried.
"""

import itertools
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from simulations.reproduction.draws import Draw, Records, stream

FLIPPED_SHARE = 1 / 3
"""Of the target's records, those nearest to the middle of the sum of their attributes have their label flipped."""

COMPONENTS = 5
"""Gaussians in a latent mixture."""

MEAN_SHIFT = 0.5
"""Standard deviation of a target component's mean about the source component's."""

FEATURE_UNITS = 64
LABEL_UNITS = 32
BIAS_SHARE = 0.3
"""Standard deviation of a random network's biases, relative to its gain."""


def _labelled_clusters(name: str, seed: int, *, dimensions: int, clusters: int, size: int) -> Draw:
    """Uniform records, clusters of the target labelled by halves, a diagonal band flipped.

    The target's ``2 * size`` records are clustered; the first half of them is the oracle's. Source records take the
    label of the nearest centre and the same band.
    """
    rng = stream(name, seed)
    target = rng.random((2 * size, dimensions))
    source = rng.random((size, dimensions))
    kmeans = KMeans(clusters, init="random", n_init=1, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1):  # several threads would add up centres in the order in which they finish
        kmeans.fit(target)
        nearest = kmeans.predict(source)
    ones = clusters // 2 + clusters % 2 * int(rng.integers(2))
    cluster_labels = rng.permutation(np.arange(clusters) < ones).astype(np.int64)

    def from_middle(records: Records) -> Records:
        distances: Records = np.abs(records.sum(axis=1) - dimensions / 2)
        return distances

    half_width = np.quantile(from_middle(target), FLIPPED_SHARE)
    target_labels = cluster_labels[kmeans.labels_] ^ (from_middle(target) <= half_width)
    source_labels = cluster_labels[nearest] ^ (from_middle(source) <= half_width)
    return Draw(
        name=name,
        attributes=tuple(f"x{index + 1}" for index in range(dimensions)),
        source=source,
        source_labels=source_labels,
        oracle=target[:size],
        oracle_labels=target_labels[:size],
        test=target[size:],
        test_labels=target_labels[size:],
    )


def draw_a(seed: int) -> Draw:
    """A: the unit square, 15 clusters; 2500 records each for source, oracle and test."""
    return _labelled_clusters("A", seed, dimensions=2, clusters=15, size=2500)


def draw_b(seed: int) -> Draw:
    """B: the unit cube of 4 dimensions, 64 clusters; 2500 records each for source, oracle and test."""
    return _labelled_clusters("B", seed, dimensions=4, clusters=64, size=2500)


def _random_network(rng: np.random.Generator, sizes: tuple[int, ...], gain: float) -> Callable[[Records], Records]:
    """A tanh network (linear at its end) with Gaussian weights of variance ``gain**2 / inputs``."""
    layers = [
        (rng.normal(0, gain / np.sqrt(inputs), (inputs, outputs)), rng.normal(0, BIAS_SHARE * gain, outputs))
        for inputs, outputs in itertools.pairwise(sizes)
    ]

    def apply(values: Records) -> Records:
        for W, b in layers[:-1]:
            values = np.tanh(values @ W + b)
        W, b = layers[-1]
        outputs: Records = values @ W + b
        return outputs

    return apply


def _latent_mixtures(name: str, seed: int, *, latent: int, dimensions: int, label_gain: float, size: int) -> Draw:
    """Two overlapping mixtures of Gaussians through one random network; labels threshold another one.

    Both mixtures have the same component widths; the target's means are moved by MEAN_SHIFT and its proportions are
    drawn anew. Records are scaled by the source's mean and standard deviation.
    """
    rng = stream(name, seed)
    source_means = rng.normal(size=(COMPONENTS, latent))
    target_means = source_means + MEAN_SHIFT * rng.normal(size=(COMPONENTS, latent))
    widths = rng.uniform(0.5, 1.5, (COMPONENTS, latent))

    def sample(means: Records, count: int) -> Records:
        components = rng.choice(COMPONENTS, count, p=rng.dirichlet(np.full(COMPONENTS, 2.0)))
        values: Records = rng.normal(means[components], widths[components])
        return values

    source_latent, target_latent = sample(source_means, size), sample(target_means, 2 * size)
    features = _random_network(rng, (latent, FEATURE_UNITS, dimensions), 1.0)
    score = _random_network(rng, (latent, LABEL_UNITS, LABEL_UNITS, 1), label_gain)
    source, target = features(source_latent), features(target_latent)
    source_scores, target_scores = score(source_latent)[:, 0], score(target_latent)[:, 0]
    threshold = np.median(np.concatenate([source_scores, target_scores[:size]]))
    centre, scale = source.mean(axis=0), source.std(axis=0)
    target_labels = (target_scores > threshold).astype(np.int64)
    target = (target - centre) / scale
    return Draw(
        name=name,
        attributes=tuple(f"x{index + 1}" for index in range(dimensions)),
        source=(source - centre) / scale,
        source_labels=(source_scores > threshold).astype(np.int64),
        oracle=target[:size],
        oracle_labels=target_labels[:size],
        test=target[size:],
        test_labels=target_labels[size:],
    )


def draw_c(seed: int) -> Draw:
    """C: 3 latent dimensions to 10; 5000 records each for source, oracle and test."""
    return _latent_mixtures("C", seed, latent=3, dimensions=10, label_gain=1.6, size=5000)


def draw_d(seed: int) -> Draw:
    """D: 5 latent dimensions to 15; 5000 records each for source, oracle and test."""
    return _latent_mixtures("D", seed, latent=5, dimensions=15, label_gain=1.8, size=5000)


def draw_e(seed: int) -> Draw:
    """E: 10 latent dimensions to 25; 5000 records each for source, oracle and test."""
    return _latent_mixtures("E", seed, latent=10, dimensions=25, label_gain=5.5, size=5000)
