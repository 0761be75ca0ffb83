"""Answers `statistic`: exact noise on the whole numbers of `curator_node.kinds.statistics`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds.statistics import estimates, quantiles
from curator_node.kinds.statistics.heavy_tails import draw_rounded
from curator_node.mechanisms import NoiseSource, Stamp
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.kinds import statistic
from protocol.kinds.statistic import StatisticRelease
from protocol.kinds.statistics.items import Item, Quantile, Selection
from protocol.kinds.statistics.methods import (
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Smooth,
)

T = TypeVar("T")
Scores = NDArray[np.int64]


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded StatisticRelease. No record can make this function fail or change the form of its answer."""
    method, items, stamp = question.turn.planned.method, question.body.asked, question.stamp
    match method:
        case Exponential() | AggregateMedian():
            scores = _each_once(items, _points_scored(method, dataset))
            numbers = _choices([(vector, 1) for vector in scores], method, dataset, noise, stamp)
        case Features():
            scores = _each_once(items, lambda item: class_scores(dataset, item))
            numbers = _choices([(vector, method.chosen) for vector in scores], method, dataset, noise, stamp)
        case AggregateMean():
            values = _each_once(items, _values_of_blocks(method, dataset))
            sums = np.array([block_values.sum() for block_values in values], np.int64)
            moved = method.sensitivity(dataset.steward.most_records_per_unit)
            numbers = noise.discrete_laplace(sums, moved * len(items), method.law, stamp).tolist()
        case _:
            numbers = _scaled_noise(items, method, dataset, noise, stamp)
    return Answered(encode(StatisticRelease(np.array(numbers, "<i8").tobytes())))


def _each_once(items: Sequence[Item], compute: Callable[[Any], T]) -> list[T]:
    """The result for each item. Equal items are computed once."""
    results = {item: compute(item) for item in dict.fromkeys(items)}
    return [results[item] for item in items]


def _points_scored(method: Exponential | AggregateMedian, dataset: PrivateDataset) -> Callable[[Any], Scores]:
    """The score of each point of an item's grid, by item."""
    if isinstance(method, Exponential):
        return lambda item: quantiles.rank_scores(
            estimates.grid_counts(dataset, item.attribute, item.grid), *item.sides
        )
    values = _values_of_blocks(method, dataset)
    return lambda item: quantiles.block_scores(np.bincount(values(item), minlength=item.grid.points))


def _values_of_blocks(method: AggregateMean | AggregateMedian, dataset: PrivateDataset) -> Callable[[Any], Scores]:
    """The estimate in each block, by item."""
    block_of = dataset.blocks(method.blocks, estimates.SPLIT)
    return lambda item: estimates.block_values(dataset, item, block_of, method.blocks)


def _choices(
    draws: Sequence[tuple[Scores, int]],
    method: Exponential | AggregateMedian | Features,
    dataset: PrivateDataset,
    noise: NoiseSource,
    stamp: Stamp,
) -> list[int]:
    """Draw k distinct indices of each vector of scores, one noisy maximum at a time, without replacement."""
    moved = method.sensitivity(dataset.steward.most_records_per_unit)
    choices: list[int] = []
    for scores, count in draws:
        candidates = list(range(len(scores)))
        for _ in range(count):
            place = noise.choose(scores[candidates], moved, method.law, replace(stamp, part=len(choices)))
            choices.append(candidates.pop(place))
    return choices


def _scaled_noise(
    items: Sequence[Item], method: Smooth, dataset: PrivateDataset, noise: NoiseSource, stamp: Stamp
) -> list[int]:
    """Quantiles with noise proportional to their smooth sensitivity, each rounded and clipped to its grid."""
    bound = dataset.steward.most_records_per_unit

    def centre_and_scale(item: Quantile) -> tuple[int, Fraction, int]:
        counts = estimates.grid_counts(dataset, item.attribute, item.grid)
        sensitivity = quantiles.smooth_sensitivity(counts, *item.sides, method.decay.fraction, bound)
        scale = method.scale.fraction * Fraction(sensitivity, quantiles.ONE)
        return quantiles.quantile(counts, *item.sides), scale, item.grid.steps

    centred = _each_once(items, centre_and_scale)
    random_bytes = noise.randomness(stamp)
    return [draw_rounded(centre, scale, method.degrees, most, random_bytes) for centre, scale, most in centred]


def class_scores(dataset: PrivateDataset, item: Selection) -> NDArray[np.int64]:
    """For each candidate: the sum over its cells of the largest weighted count of a class, (candidates,).

    With weights of 1 this is the number of records that a stump classifies correctly if each cell gets its majority
    class. A record adds between 0 and W, the largest weight, to every score.
    """
    classes = len(dataset.schema.classes)
    weights = np.array(item.weights or (1,) * classes, np.int64)
    labels = dataset.labels.astype(np.intp)
    scores = np.zeros(len(item.candidates), np.int64)
    for at, partition in enumerate(item.candidates):
        count = partition.cell_count(dataset.schema) * classes
        cells = partition.cells(dataset.records) * classes + labels
        scores[at] = (np.bincount(cells, minlength=count).reshape(-1, classes) * weights).max(axis=1).sum()
    return scores


STATISTIC = Answerer(statistic.STATISTIC, answer)
