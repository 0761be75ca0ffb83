"""Answers `statistic`: whole numbers of `curator_node.kinds.statistics`, on which exact noise is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.kinds.statistics import blocks, columns, quantiles, selection
from curator_node.kinds.statistics.heavy_tails import draw_rounded
from curator_node.mechanisms import NoiseSource, Stamp
from curator_node.records.dataset import PrivateDataset
from protocol.codec import encode
from protocol.kinds import statistic
from protocol.kinds.statistic import StatisticRelease
from protocol.kinds.statistics.asked import Item, Quantile
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
    """The encoded StatisticRelease. Total over all data sets: no record can make it fail or differ in kind."""
    method, asked, stamp = question.turn.planned.method, question.body.asked, question.stamp
    match method:
        case Exponential() | AggregateMedian():
            scores = _each_once(asked, _points_scored(method, dataset))
            found = _choices([(one, 1) for one in scores], method, dataset, noise, stamp)
        case Features():
            scores = _each_once(asked, lambda item: selection.class_scores(dataset, item))
            found = _choices([(one, method.chosen) for one in scores], method, dataset, noise, stamp)
        case AggregateMean():
            values = _each_once(asked, _values_of_blocks(method, dataset))
            sums = np.array([one.sum() for one in values], np.int64)
            moved = method.sensitivity(dataset.steward.most_records_per_unit)
            found = noise.discrete_laplace(sums, moved * len(asked), method.law, stamp).tolist()
        case _:
            found = _scaled_noise(asked, method, dataset, noise, stamp)
    return Answered(encode(StatisticRelease(np.array(found, "<i8").tobytes())))


def _each_once(asked: Sequence[Item], compute: Callable[[Any], T]) -> list[T]:
    """What is computed of each item, once where one is asked several times over."""
    known = {item: compute(item) for item in dict.fromkeys(asked)}
    return [known[item] for item in asked]


def _points_scored(method: Exponential | AggregateMedian, dataset: PrivateDataset) -> Callable[[Any], Scores]:
    """Item -> score of each point of its grid."""
    if isinstance(method, Exponential):
        return lambda item: quantiles.rank_scores(columns.grid_counts(dataset, item.attribute, item.grid), *item.sides)
    values = _values_of_blocks(method, dataset)
    return lambda item: quantiles.block_scores(np.bincount(values(item), minlength=item.grid.points))


def _values_of_blocks(method: AggregateMean | AggregateMedian, dataset: PrivateDataset) -> Callable[[Any], Scores]:
    """Item -> what its estimator says in each block."""
    own = dataset.blocks(method.blocks, blocks.SPLIT)
    return lambda item: blocks.block_values(dataset, item, own, method.blocks)


def _choices(
    asked: Sequence[tuple[Scores, int]],
    method: Exponential | AggregateMedian | Features,
    dataset: PrivateDataset,
    noise: NoiseSource,
    stamp: Stamp,
) -> list[int]:
    """As many choices as are wanted of each vector of scores, one after the other, each from those that are left."""
    moved = method.sensitivity(dataset.steward.most_records_per_unit)
    found: list[int] = []
    for scores, wanted in asked:
        left = list(range(len(scores)))
        for _ in range(wanted):
            place = noise.choose(scores[left], moved, method.law, replace(stamp, part=len(found)))
            found.append(left.pop(place))
    return found


def _scaled_noise(
    asked: Sequence[Item], method: Smooth, dataset: PrivateDataset, noise: NoiseSource, stamp: Stamp
) -> list[int]:
    """Quantiles with noise in scales of their smooth sensitivity, each moved to its grid."""
    bound = dataset.steward.most_records_per_unit

    def known(item: Quantile) -> tuple[int, Fraction, int]:
        counts = columns.grid_counts(dataset, item.attribute, item.grid)
        sensitivity = quantiles.smooth_sensitivity(counts, *item.sides, method.decay.fraction, bound)
        scale = method.scale.fraction * Fraction(sensitivity, quantiles.ONE)
        return quantiles.quantile(counts, *item.sides), scale, item.grid.steps

    found = _each_once(asked, known)
    random_bytes = noise.randomness(stamp)
    return [draw_rounded(centre, scale, method.degrees, most, random_bytes) for centre, scale, most in found]


STATISTIC = Answerer(statistic.STATISTIC, answer)
