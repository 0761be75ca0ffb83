"""The paper's data sets: A to E generated, CTG-A and CTG-B divided, as section 4.1 and Table 1 describe them.

What the paper leaves open is a constant here; ADR 4 says what else was tried. Settings are in `lab.problems`.

Every generator can be asked for more source or oracle records than the paper has. Those of the frozen draw come first
and are the same to the last bit, labels and test records too; the others have streams of their own.

CTG's 2126 rows are treated as independent, as the paper does, though they come from 352 exams.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from simulations.datasets.ctg import load_ctg, load_ctg3

Records = NDArray[np.float64]
Labels = NDArray[np.int64]

STREAMS = {"A": 0, "B": 1, "C": 2, "D": 3, "E": 4, "CTG-A": 5, "CTG-B": 6}
"""The second word of each data set's seed: equal seeds of two data sets share no randomness."""


@dataclass(frozen=True)
class Draw:
    """The data of one run. All records are float64 and finite, all labels int64 in {0, 1}."""

    name: str  # of the data set, as in Table 1
    attributes: tuple[str, ...]  # (d,) names of the columns
    source: Records  # (n_s, d) the learner's records
    source_labels: Labels  # (n_s,) what the labelling rule says of them; for diagnosis only, no learner sees them
    oracle: Records  # (n, d) the paper's target validation set: the private records that answer queries
    oracle_labels: Labels  # (n,)
    test: Records  # (m, d) the target test set, on which accuracies are reported
    test_labels: Labels  # (m,)


def stream(name: str, seed: int) -> np.random.Generator:
    """The random stream of that data set and seed (>= 0)."""
    return np.random.default_rng([seed, STREAMS[name]])


FLIPPED_SHARE = 1 / 3
"""Of the target's records, those nearest to the middle of the sum of their attributes have their label flipped."""

COMPONENTS = 5  # gaussians in a latent mixture

MEAN_SHIFT = 0.5  # standard deviation of a target component's mean about the source component's

FEATURE_UNITS = 64
LABEL_UNITS = 32
BIAS_SHARE = 0.3  # standard deviation of a random network's biases, relative to its gain


_SOURCE_STREAM, _ORACLE_STREAM = 1, 2


def _more(size: int, count: int | None) -> int:
    """How many records are wanted beyond the frozen ones. Raises ValueError: fewer are wanted than those."""
    if count is not None and count < size:
        raise ValueError(f"a draw has at least its frozen {size} records, not {count}")
    return 0 if count is None else count - size


def _more_stream(name: str, seed: int, part: int) -> np.random.Generator:
    """The random stream of records beyond the frozen ones, so that they move nothing else."""
    return np.random.default_rng([seed, STREAMS[name], part])


def _labelled_clusters(
    name: str,
    seed: int,
    *,
    dimensions: int,
    clusters: int,
    size: int,
    source_size: int | None = None,
    oracle_size: int | None = None,
) -> Draw:
    """Uniform records, clusters of the target labelled by halves, a diagonal band flipped.

    The target's ``2 * size`` records are clustered; the first half of them is the oracle's. Source records, and those
    beyond `size`, take the label of the nearest centre and the same band.
    """
    more_source, more_oracle = (
        _more_stream(name, seed, part).random((_more(size, count), dimensions))
        for part, count in ((_SOURCE_STREAM, source_size), (_ORACLE_STREAM, oracle_size))
    )
    rng = stream(name, seed)
    target = rng.random((2 * size, dimensions))
    source = rng.random((size, dimensions))
    kmeans = KMeans(clusters, init="random", n_init=1, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1):  # several threads would add up centres in the order in which they finish
        kmeans.fit(target)
        nearest, *more_nearest = (
            kmeans.predict(records) if len(records) else np.empty(0, np.int64)
            for records in (source, more_source, more_oracle)
        )
    ones = clusters // 2 + clusters % 2 * int(rng.integers(2))
    cluster_labels = rng.permutation(np.arange(clusters) < ones).astype(np.int64)

    def from_middle(records: Records) -> Records:
        return np.asarray(np.abs(records.sum(axis=1) - dimensions / 2))

    half_width = np.quantile(from_middle(target), FLIPPED_SHARE)

    def labels_of(records: Records, cells: Labels) -> Labels:
        return np.asarray(cluster_labels[cells] ^ (from_middle(records) <= half_width))

    target_labels = labels_of(target, kmeans.labels_)
    return Draw(
        name=name,
        attributes=tuple(f"x{index + 1}" for index in range(dimensions)),
        source=np.concatenate([source, more_source]),
        source_labels=np.concatenate([labels_of(source, nearest), labels_of(more_source, more_nearest[0])]),
        oracle=np.concatenate([target[:size], more_oracle]),
        oracle_labels=np.concatenate([target_labels[:size], labels_of(more_oracle, more_nearest[1])]),
        test=target[size:],
        test_labels=target_labels[size:],
    )


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
        return np.asarray(values @ W + b)

    return apply


def _latent_mixtures(
    name: str,
    seed: int,
    *,
    latent: int,
    dimensions: int,
    label_gain: float,
    size: int,
    source_size: int | None = None,
    oracle_size: int | None = None,
) -> Draw:
    """Two overlapping mixtures of Gaussians through one random network; labels threshold another one.

    Both mixtures have the same component widths; the target's means are moved by MEAN_SHIFT and its proportions are
    drawn anew. Records are scaled by the mean and standard deviation of the source's first `size` records; the labels'
    threshold is the median of the first `size` on either side.
    """
    rng = stream(name, seed)
    source_means = rng.normal(size=(COMPONENTS, latent))
    target_means = source_means + MEAN_SHIFT * rng.normal(size=(COMPONENTS, latent))
    widths = rng.uniform(0.5, 1.5, (COMPONENTS, latent))

    def sample(means: Records, count: int, more: int, part: int) -> tuple[Records, Records]:
        """Frozen records, and those beyond them from the same mixture."""
        proportions = rng.dirichlet(np.full(COMPONENTS, 2.0))
        parts: list[Records] = []
        for generator, number in ((rng, count), (_more_stream(name, seed, part), more)):
            components = generator.choice(COMPONENTS, number, p=proportions)
            parts.append(generator.normal(means[components], widths[components]))
        return parts[0], parts[1]

    source_latent, more_source = sample(source_means, size, _more(size, source_size), _SOURCE_STREAM)
    target_latent, more_oracle = sample(target_means, 2 * size, _more(size, oracle_size), _ORACLE_STREAM)
    features = _random_network(rng, (latent, FEATURE_UNITS, dimensions), 1.0)
    score = _random_network(rng, (latent, LABEL_UNITS, LABEL_UNITS, 1), label_gain)
    source, target = features(source_latent), features(target_latent)
    source_scores, target_scores = score(source_latent)[:, 0], score(target_latent)[:, 0]
    threshold = np.median(np.concatenate([source_scores, target_scores[:size]]))
    centre, scale = source.mean(axis=0), source.std(axis=0)
    target_labels = (target_scores > threshold).astype(np.int64)
    target = (target - centre) / scale

    def scaled(frozen: Records, more: Records) -> Records:
        return np.concatenate([frozen, (features(more) - centre) / scale])

    def labels_of(frozen: Labels, more: Records) -> Labels:
        return np.concatenate([frozen, (score(more)[:, 0] > threshold).astype(np.int64)])

    return Draw(
        name=name,
        attributes=tuple(f"x{index + 1}" for index in range(dimensions)),
        source=scaled((source - centre) / scale, more_source),
        source_labels=labels_of((source_scores > threshold).astype(np.int64), more_source),
        oracle=scaled(target[:size], more_oracle),
        oracle_labels=labels_of(target_labels[:size], more_oracle),
        test=target[size:],
        test_labels=target_labels[size:],
    )


draw_a = partial(_labelled_clusters, "A", dimensions=2, clusters=15, size=2500)
"""A: the unit square, 15 clusters; 2500 records each for source, oracle and test."""
draw_b = partial(_labelled_clusters, "B", dimensions=4, clusters=64, size=2500)
"""B: the unit cube of 4 dimensions, 64 clusters; 2500 records each for source, oracle and test."""
draw_c = partial(_latent_mixtures, "C", latent=3, dimensions=10, label_gain=1.6, size=5000)
"""C: 3 latent dimensions to 10; 5000 records each for source, oracle and test."""
draw_d = partial(_latent_mixtures, "D", latent=5, dimensions=15, label_gain=1.8, size=5000)
"""D: 5 latent dimensions to 15; 5000 records each for source, oracle and test."""
draw_e = partial(_latent_mixtures, "E", latent=10, dimensions=25, label_gain=5.5, size=5000)
"""E: 10 latent dimensions to 25; 5000 records each for source, oracle and test."""


Rows = NDArray[np.int64]

CTG_A_SOURCE = 708
CTG_A_ORACLE = 709  # thirds of the 2126 records; the test part is what remains, 709

CTG_B_HALF = 1063  # records on either side: 'source and target datasets have the same size'
CTG_B_SOURCE = 708
CTG_B_ORACLE = 708  # of the halves, the records that are used; the test part is what remains of the target, 355

HEART_RATE = "LB"
LEAST_SHARE, LARGEST_SHARE = 0.1, 0.9


@cache
def _records() -> tuple[tuple[str, ...], Records, Labels]:
    """Names (22), values (2126, 22) and labels (2126,) of the file's records, in its order; 1 is a normal state.

    Raises DataUnavailableError: the workbook is not to be had.
    """
    dataset = load_ctg()
    values = dataset.frame.select(dataset.attributes).to_numpy()
    labels = (dataset.frame["state"] == "normal").to_numpy().astype(np.int64)
    values.setflags(write=False)
    labels.setflags(write=False)
    return tuple(dataset.attributes), values, labels


def rows_a(seed: int) -> tuple[Rows, Rows, Rows]:
    """Source, oracle and test rows of CTG-A: a random division of all 2126 into 708, 709 and 709."""
    order = stream("CTG-A", seed).permutation(len(_records()[1]))
    source, oracle, test = np.split(order, [CTG_A_SOURCE, CTG_A_SOURCE + CTG_A_ORACLE])
    return source, oracle, test


def target_probability() -> Records:
    """(2126,) f(x): the baseline heart rate LB, scaled linearly from its range to [.1, .9].

    The paper says that f(x) is the probability of the source; its h0* fits that of the target (ADR 4).
    """
    attributes, values, _ = _records()
    rate = values[:, attributes.index(HEART_RATE)]
    share = (rate - rate.min()) / (rate.max() - rate.min())
    return np.asarray(LEAST_SHARE + (LARGEST_SHARE - LEAST_SHARE) * share)


def rows_b(seed: int) -> tuple[Rows, Rows, Rows]:
    """Source (708), oracle (708) and test (355) rows of CTG-B.

    The rows are visited in random order; one is put in the target with probability f(x), else in the source, until one
    side has 1063; the other side takes the rest. Fast hearts are thus more frequent in the target.
    """
    rng = stream("CTG-B", seed)
    probability = target_probability()
    order = rng.permutation(len(probability))
    chosen = rng.random(len(order)) < probability[order]
    full = np.flatnonzero(np.maximum(np.cumsum(chosen), np.cumsum(~chosen)) == CTG_B_HALF)[0] + 1
    chosen[full:] = not chosen[full - 1]
    target, source = order[chosen], order[~chosen]
    return source[:CTG_B_SOURCE], target[:CTG_B_ORACLE], target[CTG_B_ORACLE:]


@cache
def _pathologic() -> Labels:
    """(2126,) 1 where the state is pathologic (NSP 3), in the file's order."""
    labels: Labels = (load_ctg3().frame["state"] == "pathologic").to_numpy().astype(np.int64)
    labels.setflags(write=False)
    return labels


def _draw(name: str, rows: tuple[Rows, Rows, Rows], labels: Labels | None = None) -> Draw:
    attributes, values, normal = _records()
    labels = normal if labels is None else labels
    source, oracle, test = rows
    centre, deviation = values[source].mean(axis=0), values[source].std(axis=0)
    scaled = (values - centre) / np.where(deviation > 0, deviation, 1.0)
    return Draw(
        name=name,
        attributes=attributes,
        source=scaled[source],
        source_labels=labels[source],
        oracle=scaled[oracle],
        oracle_labels=labels[oracle],
        test=scaled[test],
        test_labels=labels[test],
    )


def draw_ctg_a(seed: int) -> Draw:
    """CTG-A: source and target alike; a random division into thirds, scaled by the source's mean and deviation."""
    return _draw("CTG-A", rows_a(seed))


def draw_ctg_b(seed: int) -> Draw:
    """CTG-B: source and target differ in heart rate, but overlap; scaled by the source's mean and deviation."""
    return _draw("CTG-B", rows_b(seed))


def draw_ctg_pathologic(seed: int) -> Draw:
    """CTG-A's division and scaling, with another label: pathologic (176 of the 2126) against normal and suspect."""
    return _draw("CTG-pathologic", rows_a(seed), _pathologic())
