"""Answers `statistic`: whole numbers of `curator_node.estimators`, on which exact noise is drawn."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from curator_node.answering import Answered, Answerer, Question
from curator_node.dataset import PrivateDataset
from curator_node.estimators import blocks, columns, heavy_tails, quantiles, selection
from curator_node.mechanisms import NoiseSource
from protocol.codec import encode
from protocol.queries import statistic
from protocol.queries.statistic import StatisticRelease
from protocol.statistics.asked import Estimate, Quantile, Selection
from protocol.statistics.methods import (
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Smooth,
    SmoothLaplace,
)


def answer(question: Question, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded StatisticRelease. Total over all data sets: no record can make it fail or differ in kind."""
    method, asked = question.turn.planned.method, question.body.asked
    match method:
        case Exponential():
            found = [_chosen_point(item, method, dataset, noise, question) for item in asked]
        case Smooth():
            random_bytes = noise.randomness(question.stamp)
            found = [_heavy_tailed(item, method, dataset, random_bytes) for item in asked]
        case SmoothLaplace():
            drawn = noise.laplace(len(asked), method.scale.fraction, question.stamp)
            found = [_laplace(item, method, dataset, one) for item, one in zip(asked, drawn, strict=True)]
        case Features():
            found = [index for item in asked for index in _selected(item, method, dataset, noise, question)]
        case _:
            found = _aggregated(asked, method, dataset, noise, question)
    return Answered(encode(StatisticRelease(np.array(found, "<i8").tobytes())))


def _chosen_point(
    item: Quantile, method: Exponential, dataset: PrivateDataset, noise: NoiseSource, question: Question
) -> int:
    counts = columns.grid_counts(dataset, item.attribute, item.grid)
    moved = method.sensitivity(dataset.steward.most_records_per_unit)
    return noise.choose(quantiles.rank_scores(counts, *item.sides), moved, method.law, question.stamp)


def _heavy_tailed(
    item: Quantile, method: Smooth, dataset: PrivateDataset, random_bytes: Callable[[int], bytes]
) -> int:
    centre, sensitivity = _smooth(item, method, dataset)
    scale = method.scale.fraction * sensitivity
    return heavy_tails.draw_rounded(centre, scale, method.degrees, item.grid.steps, random_bytes)


def _laplace(item: Quantile, method: SmoothLaplace, dataset: PrivateDataset, drawn: float) -> int:
    centre, sensitivity = _smooth(item, method, dataset)
    return int(np.clip(np.rint(centre + float(sensitivity) * drawn), 0, item.grid.steps))


def _smooth(item: Quantile, method: Smooth | SmoothLaplace, dataset: PrivateDataset) -> tuple[int, Fraction]:
    """The quantile on its grid, and the smooth sensitivity, in steps."""
    counts = columns.grid_counts(dataset, item.attribute, item.grid)
    bound = dataset.steward.most_records_per_unit
    found = quantiles.smooth_sensitivity(counts, *item.sides, method.decay.fraction, bound)
    return quantiles.quantile(counts, *item.sides), Fraction(found, quantiles.ONE)


def _aggregated(
    asked: tuple[Estimate, ...],
    method: AggregateMean | AggregateMedian,
    dataset: PrivateDataset,
    noise: NoiseSource,
    question: Question,
) -> list[int]:
    own = dataset.blocks(method.blocks, blocks.SPLIT)
    values = [blocks.block_values(dataset, item, own, method.blocks) for item in asked]
    moved = method.sensitivity(dataset.steward.most_records_per_unit)
    if isinstance(method, AggregateMean):
        sums = np.array([one.sum() for one in values], np.int64)
        return noise.discrete_laplace(sums, moved * len(asked), method.law, question.stamp).tolist()
    found = []
    for item, one in zip(asked, values, strict=True):
        scores = quantiles.block_scores(np.bincount(one, minlength=item.grid.points))
        found.append(noise.choose(scores, moved, method.law, question.stamp))
    return found


def _selected(
    item: Selection, method: Features, dataset: PrivateDataset, noise: NoiseSource, question: Question
) -> list[int]:
    """One after the other, each from those that are left."""
    scores = selection.class_scores(dataset, item)
    moved = method.sensitivity(dataset.steward.most_records_per_unit)
    left = list(range(len(scores)))
    found = []
    for _ in range(method.chosen):
        found.append(left.pop(noise.choose(scores[left], moved, method.law, question.stamp)))
    return found


STATISTIC = Answerer(statistic.STATISTIC, answer)
