"""Statistics that are broken on purpose: noise by local sensitivity, and blocks that hang on the number of a row."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from curator_node.answering import Answered, Question
from curator_node.dataset import PrivateDataset
from curator_node.kinds import ANSWERERS
from curator_node.kinds.statistics.blocks import SPLIT, block_values
from curator_node.kinds.statistics.columns import grid_counts
from curator_node.kinds.statistics.heavy_tails import draw_rounded
from curator_node.kinds.statistics.quantiles import quantile
from curator_node.mechanisms import NoiseSource
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.kinds.invented import Neighbours, Record, held
from expril.audit.kinds.path import Path
from protocol.codec import encode
from protocol.examples import Asked, Example
from protocol.kinds.statistic import PlannedStatistic, StatisticBody, StatisticRelease
from protocol.kinds.statistics.asked import Estimate, Grid, Item, Quantile
from protocol.kinds.statistics.methods import AggregateMean, Method, Smooth
from protocol.rationals import Rational
from protocol.schema import NumericAttribute, Schema

COPIES = 250
FEW_DRAWS = 5_000
"""Where what one set of records gives is hardly ever given by the other."""
STEPS = 7
BLOCKS = 4
_GRID = Grid(0.0, float(STEPS), STEPS)
_SCHEMA = Schema((NumericAttribute("x", 0.0, float(STEPS)),), "outcome", ("no", "yes"))
_MEDIAN = Quantile("x", Rational(1, 2), _GRID)
_SPREAD = Estimate("interquartile_range", ("x",), _GRID)
_KIND = ANSWERERS["statistic"]


def local_path() -> Path:
    """A median whose noise is that of `Smooth`, in scales of its local sensitivity, at a cost of 1."""
    path = _path(Smooth(Rational(2, 1), Rational(1, 8), degrees=2), _MEDIAN)
    return replace(path, answerer=replace(_KIND, answer=local_answer))


def local_pair() -> Neighbours:
    """One record, whose median moves when another comes; and two alike, whose median no record moves."""
    return _pair(3, 3)


def local_answer(question: Question, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """As the registered answerer, but for the sensitivity; where that is 0 there is no noise."""
    method, asked = question.turn.planned.method, question.body.asked
    counts = grid_counts(dataset, asked[0].attribute, asked[0].grid)
    centre, scale = quantile(counts, *asked[0].sides), method.scale.fraction * local_sensitivity(counts)
    random_bytes = noise.randomness(question.stamp)
    told = [draw_rounded(centre, scale, method.degrees, STEPS, random_bytes) if scale else centre for _ in asked]
    return Answered(encode(StatisticRelease(np.array(told, "<i8").tobytes())))


def local_sensitivity(counts: NDArray[np.int64]) -> int:
    """How far the median of these records moves, in steps, where one is added or removed."""
    centre, one = quantile(counts, 1, 1), np.eye(len(counts), dtype=np.int64)
    others = [*(counts + one), *(counts - one)[counts > 0]]
    return max(abs(quantile(other, 1, 1) - centre) for other in others)


class BlocksOfRows(PrivateDataset):
    """Splits its records into blocks of as many rows each, as they come."""

    def blocks(self, count: int, name: bytes) -> NDArray[np.int64]:  # noqa: ARG002
        """See `PrivateDataset`."""
        rows = len(self.labels)
        return np.arange(rows) * count // rows


def rows_path() -> Path:
    """The mean of the interquartile ranges of such blocks, at a cost of 1."""
    path = _path(AggregateMean(BLOCKS, STEPS, Rational(STEPS, 1)), _SPREAD)
    return replace(path, hold=partial(held, kind=BlocksOfRows))


def rows_pair() -> Neighbours:
    """Records that are alike two by two, and one more before them: then no two of a block are alike."""
    return _pair(STEPS, 0, 0, STEPS, STEPS, 0, 0, STEPS)


def rows_truth() -> Fraction:
    """Its true loss on these records: how far the sum over the blocks moves, over the scale."""
    path = rows_path()
    sets = [path.hold(units, path.example) for units in rows_pair().both]
    few, more = (int(block_values(one, _SPREAD, one.blocks(BLOCKS, SPLIT), BLOCKS).sum()) for one in sets)
    return Fraction(abs(more - few), STEPS)


def _path(method: Method, item: Item) -> Path:
    def ask(copies: int) -> Asked:
        return Asked(PlannedStatistic(method=method, statistics=copies), (encode(StatisticBody((item,) * copies)),))

    return Path(_KIND, Example("a control", _SCHEMA, ask, copies=COPIES), COPIES, QuickNoise)


def _pair(unit: float, *others: float) -> Neighbours:
    return Neighbours(tuple((_record(x),) for x in others), (_record(unit),))


def _record(x: float) -> Record:
    return {"x": float(x), "outcome": "yes"}
