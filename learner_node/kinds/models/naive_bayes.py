"""Naive Bayes from noisy sums by class: cells of attributes, or their moments."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.model import ModelAnswer
from learner_node.kinds.models.totals import class_totals
from protocol.kinds.models import Attributes, Moments, NaiveBayes
from protocol.partitions import FeatureBins
from protocol.records import Records

Floats = NDArray[np.float64]
LEAST_SHARE = 0.1
"""A cell's probability is never below this share of the source's."""
LEAST_VARIANCE = 0.05
"""A class's variance of an attribute is never below this share of the source's."""


@dataclass(frozen=True)
class NaiveBayesModel:
    """log P(class | x) = log P(class) + sum over attributes of log P(x_j | class), up to what makes it add up.

    Attributes:
        binned: attributes that are counted in cells.
        tables: of each, log P(cell | class), (cells, C).
        moments: attributes that are normal given the class.
        means: of each, (moments, C), as shares of its range.
        variances: likewise.
        prior: log P(class), (C,).
    """

    binned: tuple[FeatureBins, ...]
    tables: tuple[NDArray[np.float64], ...]
    moments: tuple[Moments, ...]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    prior: NDArray[np.float64]

    def probabilities(self, records: Records) -> Floats:
        """Class probabilities of each record: (n, C), rows adding up to 1."""
        logs = np.tile(self.prior, (len(records), 1))
        for partition, table in zip(self.binned, self.tables, strict=True):
            logs += table[partition.cells(records)]
        for place, told in enumerate(self.moments):
            shares = share_of_range(told, records)[:, None]
            density = -((shares - self.means[place]) ** 2) / (2 * self.variances[place])
            logs += np.where(np.isnan(shares), 0.0, density - 0.5 * np.log(self.variances[place]))
        odds = np.exp(logs - logs.max(axis=1, keepdims=True))
        found: Floats = odds / odds.sum(axis=1, keepdims=True)
        return found

    def probability(self, records: Records) -> Floats:
        """Of two classes, P(class 1) for each record: (n,) in [0, 1]."""
        return self.probabilities(records)[:, 1]


def naive_bayes(
    answer: ModelAnswer, source: Records, declared: float, most_records_per_unit: int
) -> tuple[NaiveBayesModel, Floats]:
    """The model of all curators' sums, and the estimated number of private records of each class, (C,).

    Cells' counts are shrunk to the class's total times the source's share of the cell, and moments to the source's, by
    what noise explains of their difference.

    Args:
        answer: of one query for one model.
        source: the learner's records.
        declared: private records of all curators together, as they declare them.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, NaiveBayes) and isinstance(body, Attributes)):
        raise TypeError("the answer is not one of naive Bayes")
    tables = [each / method.weight for each in method.tables(answer.summed(), body, source.schema)]
    noise = answer.sites * answer.variance(most_records_per_unit) / method.weight**2
    counted = [place for place, told in enumerate(body.attributes) if isinstance(told, FeatureBins)]
    binned = tuple(told for told in body.attributes if isinstance(told, FeatureBins))
    there = [np.bincount(each.cells(source), minlength=each.cell_count(source.schema)) for each in binned]
    used = [np.ones(len(table), np.bool_) for table in tables]
    for place, seen in zip(counted, there, strict=True):
        used[place] = seen > 0
    totals = class_totals(*noisy_totals(tables, used, noise), declared)
    shapes = [(seen + 1.0) / (seen + 1.0).sum() for seen in there]
    moments = tuple(told for told in body.attributes if isinstance(told, Moments))
    others = [tables[place] for place in range(len(tables)) if place not in counted]
    found = [_normal(table, told, source, noise) for table, told in zip(others, moments, strict=True)]
    model = NaiveBayesModel(
        binned,
        tuple(log_shares([tables[place] for place in counted], totals, shapes, noise)),
        moments,
        np.array([mean for mean, _ in found]).reshape(len(moments), len(totals)),
        np.array([variance for _, variance in found]).reshape(len(moments), len(totals)),
        np.log(totals / totals.sum()),
    )
    return model, totals


def noisy_totals(tables: Sequence[Floats], used: Sequence[NDArray[np.bool_]], noise: float) -> tuple[Floats, float]:
    """Records of each class, (C,), and the variance of their noise.

    Each attribute counts all of them; it is weighed by the number of its noises. Cells in which the source has no
    record add noise, and next to no record: they are left out.

    Args:
        tables: (cells, C) noisy counts.
        used: (cells,) which of them count; at least one of each.
        noise: variance of a count's noise.
    """
    weights = np.array([1.0 / mask.sum() for mask in used])
    sums = [table[mask].sum(axis=0) for table, mask in zip(tables, used, strict=True)]
    found: Floats = np.average(sums, axis=0, weights=weights)
    return found, noise / float(weights.sum())


def log_shares(tables: Sequence[Floats], totals: Floats, shapes: Sequence[Floats], noise: float) -> list[Floats]:
    """Of each table log P(cell | class), (cells, C).

    A count is its class's total times the source's share of the cell, times 1 + deviation. Deviations are shrunk as if
    drawn from one law of mean 0, whose variance is what the counts show beyond their noise.

    Args:
        tables: (cells, C) noisy counts.
        totals: (C,) records of each class.
        shapes: (cells,) the source's shares, positive.
        noise: variance of a count's noise.
    """
    expected = [shape[:, None] * totals for shape in shapes]
    excess = sum(float(((seen - mean) ** 2 - noise).sum()) for seen, mean in zip(tables, expected, strict=True))
    spread = max(excess, 0.0) / max(sum(float((mean**2).sum()) for mean in expected), 1e-9)
    found = []
    for seen, mean in zip(tables, expected, strict=True):
        kept = spread * mean**2 / (spread * mean**2 + noise + 1e-9)
        likely = np.maximum(mean + kept * (seen - mean), LEAST_SHARE * mean)
        found.append(np.log(likely / likely.sum(axis=0)))
    return found


def share_of_range(told: Moments, records: Records) -> Floats:
    """Where between its bounds an attribute is, (n,) in [0, 1], NaN where it is missing."""
    column = np.asarray(records.column(told.attribute), np.float64)
    shares: Floats = (np.clip(column, told.lower, told.upper) - told.lower) / (told.upper - told.lower)
    return shares


def _normal(table: Floats, told: Moments, source: Records, noise: float) -> tuple[Floats, Floats]:
    """Mean and variance of an attribute in each class, (C,) each, in shares of its range."""
    known = share_of_range(told, source)
    known = known[~np.isnan(known)]
    mean, spread = (float(known.mean()), max(float(known.var()), 1e-4)) if len(known) else (0.5, 1 / 12)
    records = np.maximum(table[:3].sum(axis=0), 1.0)
    first, second = table[1] / 2 + table[2], table[2]
    kept = records**2 * spread / (records**2 * spread + noise)
    means = np.clip(mean + kept * (first / records - mean), 0.0, 1.0)
    own = second / records - (first / records) ** 2
    kept = records**2 * spread**2 / (records**2 * spread**2 + noise)
    return means, np.clip(spread + kept * (own - spread), LEAST_VARIANCE * spread, 1.0)
