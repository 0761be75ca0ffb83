"""Naive Bayes from noisy sums by class: cells of attributes, or their moments."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learner_node.readers.model import ModelAnswer
from protocol.models import Attributes, Moments, NaiveBayes
from protocol.partitions import FeatureBins
from protocol.records import Records

Floats = NDArray[np.float64]
LEAST_CLASS_SHARE = 0.02
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


def naive_bayes(answer: ModelAnswer, source: Records, most_records_per_unit: int) -> tuple[NaiveBayesModel, Floats]:
    """The model of all curators' sums, and the estimated number of private records of each class, (C,).

    Cells' counts are shrunk to the class's total times the source's share of the cell, and moments to the source's, by
    what noise explains of their difference.

    Args:
        answer: of one query for one model.
        source: the learner's records.
        most_records_per_unit: the largest contribution bound among the curators.
    """
    method, (body,) = answer.planned.method, answer.body.models
    if not (isinstance(method, NaiveBayes) and isinstance(body, Attributes)):
        raise TypeError("the answer is not one of naive Bayes")
    tables = [each / method.weight for each in method.tables(answer.summed(), body, source.schema)]
    noise = answer.sites * answer.variance(most_records_per_unit) / method.weight**2
    totals = class_totals(tables)
    counted = [place for place, told in enumerate(body.attributes) if isinstance(told, FeatureBins)]
    binned = tuple(told for told in body.attributes if isinstance(told, FeatureBins))
    shapes = []
    for partition in binned:
        seen = np.bincount(partition.cells(source), minlength=partition.cell_count(source.schema)) + 1.0
        shapes.append(seen / seen.sum())
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


def class_totals(tables: Sequence[Floats]) -> Floats:
    """Records of each class, (C,), positive: each table's sum counts by the number of its noises."""
    sizes = np.array([1.0 / len(table) for table in tables])
    totals: Floats = np.average([table.sum(axis=0) for table in tables], axis=0, weights=sizes)
    return np.maximum(totals, max(1.0, LEAST_CLASS_SHARE * float(totals.sum())))


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
