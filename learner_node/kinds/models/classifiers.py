"""Classifiers from what curators released: naive Bayes, a forest of random trees, and linear classifiers.

The sums of all curators make one naive Bayes model or one forest. Each curator releases the weights of a linear model,
and these are averaged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from protocol.feature_map import FeatureMap
from protocol.kinds.models import (
    Attributes,
    Forest,
    KernelSvm,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
)
from protocol.kinds.models.linear import LinearModel
from protocol.partitions import FeatureBins
from protocol.records import Records

Floats = NDArray[np.float64]
CLASS_SPREAD = 0.5
"""Prior standard deviation of a class's number of records, as a share of the classes' mean."""
LEAST_SHARE = 0.02
"""Smallest share of a class among all records."""


def class_totals(released: Floats, variance: float, declared: float) -> Floats:
    """Estimated number of records of each class, (C,), positive: the noisier, the nearer to equal shares.

    `released` (C,) are noisy with the given `variance`; `declared` is the total at all curators, positive.
    """
    even = declared / len(released)
    prior = (CLASS_SPREAD * even) ** 2
    totals = even + prior / (prior + variance) * (released - even)
    least = max(1.0, LEAST_SHARE * float(totals.sum()))
    floored: Floats = np.maximum(totals, least)
    return floored


LEAST_CELL_SHARE = 0.1
"""Smallest probability of a cell, relative to its share of the source."""
LEAST_VARIANCE = 0.05
"""Smallest variance of an attribute within a class, relative to the source's."""


@dataclass(frozen=True)
class NaiveBayesModel:
    """Naive Bayes: log P(class | x) = log P(class) + sum over attributes of log P(x_j | class) + constant."""

    binned: tuple[FeatureBins, ...]  # attributes that are counted in cells
    tables: tuple[NDArray[np.float64], ...]  # of each, log P(cell | class), (cells, C)
    moments: tuple[Moments, ...]  # attributes that are normal given the class
    means: NDArray[np.float64]  # of each, (moments, C), as shares of its range
    variances: NDArray[np.float64]  # likewise
    prior: NDArray[np.float64]  # log P(class), (C,)

    def probabilities(self, records: Records) -> Floats:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        logs = np.tile(self.prior, (len(records), 1))
        for partition, table in zip(self.binned, self.tables, strict=True):
            logs += table[partition.cells(records)]
        for place, attribute in enumerate(self.moments):
            shares = share_of_range(attribute, records)[:, None]
            density = -((shares - self.means[place]) ** 2) / (2 * self.variances[place])
            logs += np.where(np.isnan(shares), 0.0, density - 0.5 * np.log(self.variances[place]))
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares_of_classes: Floats = odds / odds.sum(axis=1, keepdims=True)
        return shares_of_classes

    def probability(self, records: Records) -> Floats:
        """P(class 1) for each record, with two classes: (n,) in [0, 1]."""
        return self.probabilities(records)[:, 1]


def naive_bayes(
    answer: ModelAnswer, source: Records, declared: float, most_records_per_unit: int
) -> tuple[NaiveBayesModel, Floats]:
    """Return the model of all curators' sums, and the estimated number of private records of each class, (C,).

    Cell counts are shrunk towards the class's total times the source's share of the cell, and moments towards the
    source's, to the degree that noise explains their difference.

    Args:
        answer: of one query for one model.
        source: the learner's records.
        declared: total number of private records as the curators declare it.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, NaiveBayes) and isinstance(body, Attributes)):
        raise TypeError("the answer is not one of naive Bayes")
    tables = [partition / method.weight for partition in method.tables(answer.summed(), body, source.schema)]
    noise = answer.sites * answer.variance(most_records_per_unit) / method.weight**2
    counted = [place for place, attribute in enumerate(body.attributes) if isinstance(attribute, FeatureBins)]
    binned = tuple(attribute for attribute in body.attributes if isinstance(attribute, FeatureBins))
    there = [
        np.bincount(partition.cells(source), minlength=partition.cell_count(source.schema)) for partition in binned
    ]
    used = [np.ones(len(table), np.bool_) for table in tables]
    for place, cell_counts in zip(counted, there, strict=True):
        used[place] = cell_counts > 0
    totals = class_totals(*noisy_totals(tables, used, noise), declared)
    shapes = [(cell_counts + 1.0) / (cell_counts + 1.0).sum() for cell_counts in there]
    moments = tuple(attribute for attribute in body.attributes if isinstance(attribute, Moments))
    moment_tables = [tables[place] for place in range(len(tables)) if place not in counted]
    moments_of_classes = [
        _normal(table, attribute, source, noise) for table, attribute in zip(moment_tables, moments, strict=True)
    ]
    model = NaiveBayesModel(
        binned,
        tuple(log_shares([tables[place] for place in counted], totals, shapes, noise)),
        moments,
        np.array([mean for mean, _ in moments_of_classes]).reshape(len(moments), len(totals)),
        np.array([variance for _, variance in moments_of_classes]).reshape(len(moments), len(totals)),
        np.log(totals / totals.sum()),
    )
    return model, totals


def noisy_totals(tables: Sequence[Floats], used: Sequence[NDArray[np.bool_]], noise: float) -> tuple[Floats, float]:
    """Number of records of each class, (C,), and its noise variance.

    Every attribute counts all records, so attributes are averaged by the inverse of their noise. Cells without source
    records are left out, since they hold much noise and hardly a record.

    `tables` are (cells, C) noisy counts, `used` (cells,) marks cells with source records (at least one each), `noise`
    is a count's noise variance.
    """
    weights = np.array([1.0 / mask.sum() for mask in used])
    sums = [table[mask].sum(axis=0) for table, mask in zip(tables, used, strict=True)]
    mean_counts: Floats = np.average(sums, axis=0, weights=weights)
    return mean_counts, noise / float(weights.sum())


def log_shares(tables: Sequence[Floats], totals: Floats, shapes: Sequence[Floats], noise: float) -> list[Floats]:
    """Return log P(cell | class) for each table, (cells, C).

    A count is its class's total times the source's share of the cell, times 1 + deviation. Deviations are shrunk as
    draws from a law of mean 0 whose variance is that of the counts beyond their noise.

    `tables` are (cells, C) noisy counts, `totals` (C,) records of each class, `shapes` (cells,) the source's shares,
    positive, and `noise` is a count's noise variance.
    """
    expected = [shape[:, None] * totals for shape in shapes]
    excess = sum(
        float(((counted_cells - mean) ** 2 - noise).sum()) for counted_cells, mean in zip(tables, expected, strict=True)
    )
    spread = max(excess, 0.0) / max(sum(float((mean**2).sum()) for mean in expected), 1e-9)
    logs = []
    for counted_cells, mean in zip(tables, expected, strict=True):
        weight = spread * mean**2 / (spread * mean**2 + noise + 1e-9)
        likely = np.maximum(mean + weight * (counted_cells - mean), LEAST_CELL_SHARE * mean)
        logs.append(np.log(likely / likely.sum(axis=0)))
    return logs


def share_of_range(moment: Moments, records: Records) -> Floats:
    """An attribute's values as shares of its range, (n,) in [0, 1]; NaN for a missing value."""
    column = np.asarray(records.column(moment.attribute), np.float64)
    shares: Floats = (np.clip(column, moment.lower, moment.upper) - moment.lower) / (moment.upper - moment.lower)
    return shares


def _normal(table: Floats, moment: Moments, source: Records, noise: float) -> tuple[Floats, Floats]:
    """Mean and variance of an attribute in each class, (C,) each, in shares of its range."""
    present = share_of_range(moment, source)
    present = present[~np.isnan(present)]
    mean, spread = (float(present.mean()), max(float(present.var()), 1e-4)) if len(present) else (0.5, 1 / 12)
    records = np.maximum(table[:3].sum(axis=0), 1.0)
    first, second = table[1] / 2 + table[2], table[2]
    trust = records**2 * spread / (records**2 * spread + noise)
    means = np.clip(mean + trust * (first / records - mean), 0.0, 1.0)
    variances = second / records - (first / records) ** 2
    trust = records**2 * spread**2 / (records**2 * spread**2 + noise)
    return means, np.clip(spread + trust * (variances - spread), LEAST_VARIANCE * spread, 1.0)


LEAST_VOTE = 1e-3
"""Smallest mean vote for a class."""
VOTE_SPREAD = 0.1
"""Variance over records of a class's probability around its share; sets the shrinkage of noisy votes."""


@dataclass(frozen=True)
class ForestModel:
    """Random trees: class shares of each leaf, and a weight by which to trust them.

    A record's leaves, one per tree, are averaged by trust, and the average is shrunk to the class shares by its noise
    and sampling error. A mean over T random trees, most of whose splits are uninformative, is too close to the class
    shares, so its ratio to them is raised to the power sqrt(T).
    """

    features: FeatureMap  # the map
    method: Forest  # the trees
    # (trees, leaves, C) class probabilities by the counts alone, each times its trust; not clipped
    votes: NDArray[np.float64]
    trust: NDArray[np.float64]  # (trees, leaves) one over the variance of a vote
    shares: NDArray[np.float64]  # (C,) of the classes

    def probabilities(self, records: Records) -> Floats:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        votes, weight = np.zeros((len(records), len(self.shares))), np.zeros((len(records), 1))
        for place, tree in enumerate(self.method.partitions(Mapped(self.features))):
            leaves = tree.cells(records)
            votes += self.votes[place, leaves]
            weight += self.trust[place, leaves, None]
        trust = VOTE_SPREAD * weight / (VOTE_SPREAD * weight + 1.0)
        mean = np.maximum(self.shares + trust * (votes / np.maximum(weight, 1e-12) - self.shares), LEAST_VOTE)
        odds = self.shares * (mean / self.shares) ** math.sqrt(self.method.trees)
        rows: Floats = odds / odds.sum(axis=1, keepdims=True)
        return rows

    def probability(self, records: Records) -> Floats:
        """P(class 1) for each record, with two classes: (n,) in [0, 1]."""
        return self.probabilities(records)[:, 1]


def forest(
    answer: ModelAnswer, source: Records, declared: float, most_records_per_unit: int
) -> tuple[ForestModel, Floats]:
    """Return the forest of all curators' counts, and the estimated number of private records of each class, (C,).

    A leaf's number of records is taken from the source's share of it, since its noisy number may be close to 0.
    Arguments are those of `naive_bayes`.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, Forest) and isinstance(body, Mapped)):
        raise TypeError("the answer is not one of a forest")
    counts = answer.summed().reshape(method.trees, method.leaves, -1).astype(np.float64)
    noise = answer.sites * answer.variance(most_records_per_unit)
    totals = class_totals(counts.sum(axis=1).mean(axis=0), noise * method.leaves / method.trees, declared)
    there = np.stack(
        [np.bincount(tree.cells(source), minlength=method.leaves) for tree in method.partitions(body)]
    ).astype(np.float64)
    mass = (there + 0.5) / (there + 0.5).sum(axis=1, keepdims=True) * totals.sum()
    trust = 1.0 / (noise / mass**2 + 0.25 / mass)
    # Of the noisy number of records a leaf says something, too: where it is precise, votes are shares of it.
    leaf_counts = counts.sum(axis=2)
    noisy_or_one = np.maximum(leaf_counts, 1.0)
    precise = mass / (mass + counts.shape[2] * noise / mass)
    size = (precise * noisy_or_one + (1.0 - precise) * mass)[:, :, None]
    votes = counts / size * trust[:, :, None]
    # All votes together are more precise than the totals, to which every leaf's noise adds up.
    all_votes = votes.sum(axis=(0, 1))
    shares = np.maximum(all_votes, LEAST_VOTE * np.abs(all_votes).sum() + 1e-12)
    return ForestModel(body.features, method, votes, trust, shares / shares.sum()), totals


MOST_LOG_ODDS = 30.0
SPREADS = tuple(10.0 ** (step / 4) for step in range(-8, 9))
"""Candidate variances of a weight."""


@dataclass(frozen=True)
class LinearInSite:
    """P(class 1) = 1 / (1 + exp(-w.v)), where w are the weights and v is a record's vector.

    A support vector machine's score is treated as log odds, too.
    """

    features: FeatureMap  # the map
    method: LogisticRegression | LinearSvm | KernelSvm  # how a point becomes a vector
    weights: NDArray[np.float64]  # (D,) of the vector's coordinates in whole steps

    def scores(self, records: Records) -> Floats:
        """Log odds of class 1, (n,)."""
        log_odds: Floats = self.method.rows(self.features.points(records)) @ self.weights
        return log_odds

    def probability(self, records: Records) -> Floats:
        """P(class 1) for each record: (n,) in [0, 1]."""
        chances: Floats = 1.0 / (1.0 + np.exp(-np.clip(self.scores(records), -MOST_LOG_ODDS, MOST_LOG_ODDS)))
        return chances


def linear(answer: ModelAnswer, source: Records, records: float, most_records_per_unit: int) -> LinearInSite:
    """Return the classifier of the curators' mean weights, corrected for regularisation and noise.

    All curators' noise is equal, so the unweighted mean has the least noise. The regulariser draws a small curator's
    weights to 0. With the loss approximated by a parabola of curvature 1/4, regulariser L shrinks weights by h / (L +
    h) along an eigenvector of the source's second moments with eigenvalue s, where h = s n / 4. The original weights
    get a normal prior whose variance maximises the likelihood, and their posterior mean is returned.

    Args:
        answer: of one query for one model.
        source: the learner's records, which give the curvature.
        records: total number of private records as the curators declare it.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, LinearModel) and isinstance(body, Mapped)):
        raise TypeError("the answer is not one of a linear classifier")
    rows = method.rows(body.features.points(source)) / method.unit
    moments, axes = np.linalg.eigh(rows.T @ rows / len(rows))
    curvature = np.maximum(moments, 0.0) * records / answer.sites / 4
    regulariser = float(method.regulariser.fraction)
    kept_share = curvature / (regulariser + curvature)
    projected = axes.T @ (method.weights(answer.of()).mean(axis=0) * method.unit)
    noise = answer.variance(most_records_per_unit) / (method.steps * regulariser) ** 2
    error = (noise + curvature / (regulariser + curvature) ** 2) / answer.sites
    spread = min(
        SPREADS,
        key=lambda variance: float(np.sum(np.log(total := kept_share**2 * variance + error) + projected**2 / total)),
    )
    weights = axes @ (kept_share * spread / (kept_share**2 * spread + error) * projected)
    return LinearInSite(body.features, method, weights / method.unit)
