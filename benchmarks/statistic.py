"""Statistics of a million records: processor time of an answer, by the registered answerer, noise included.

Encoded records are there already, as they are in a curator that serves; one thread computes, and waits for nothing.
"""

import time

import numpy as np
import polars as pl

from benchmarks.common import Result, at_most, median, own_noise, spread
from curator_node.answering import CuratorQuestion, Seat
from curator_node.kinds import ANSWERERS
from curator_node.mechanisms import Stamp
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import SchemaFile
from protocol.envelopes import LABEL, SigningKey
from protocol.kinds.statistic import PlannedStatistic, StatisticBody
from protocol.kinds.statistics.items import Estimate, Grid, Item, Quantile, Selection
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features, Method, Smooth
from protocol.partitions import FeatureBins
from protocol.query_kind import Turn
from protocol.rationals import Rational
from protocol.schema import NumericAttribute

RECORDS, REPEATS, LIMIT = 1_000_000, 9, 50
GRID = Grid(0.0, 100.0, 1000)
NAMES = ("x", "z", "w")
HALF = Rational(1, 2)
CANDIDATES = Selection(tuple(FeatureBins(name, (50.0,)) for name in NAMES))
MEDIANS, MEANS = (Estimate(name, ("x",), GRID) for name in ("median", "mean"))
COEFFICIENTS = Estimate("logistic_coefficient", NAMES, GRID)
ASKED: tuple[tuple[str, Method, Item, int | None], ...] = (
    ("a median by the exponential mechanism", Exponential(Rational(2, 1), 1), Quantile("x", HALF, GRID), LIMIT),
    (
        "a quantile at 9/10 by the exponential mechanism",
        Exponential(Rational(18, 1), 9),
        Quantile("x", Rational(9, 10), GRID),
        LIMIT,
    ),
    ("a median by smooth sensitivity", Smooth(Rational(5, 1), Rational(1, 8)), Quantile("x", HALF, GRID), LIMIT),
    ("one of three features", Features(1, 1, Rational(1, 1)), CANDIDATES, None),
)
BLOCKS: tuple[tuple[str, Method, Item], ...] = (
    ("the mean of 1,000 blocks' medians", AggregateMean(1000, 1000, Rational(1000, 1)), MEDIANS),
    ("the median of 1,000 blocks' means", AggregateMedian(1000, Rational(2, 1)), MEANS),
    ("the mean of 1,000 blocks' logistic coefficients", AggregateMean(1000, 1000, Rational(1000, 1)), COEFFICIENTS),
)


def run() -> list[Result]:
    """See the module."""
    dataset = _records()
    rows = []
    for name, method, item, limit in ASKED:
        durations = [_milliseconds(dataset, method, item) for _ in range(REPEATS + 1)][1:]
        note = f"{RECORDS:,} records; median of {REPEATS}"
        if limit is None:
            rows.append(Result(name, median(durations), "ms", spread=spread(durations), note=note))
        else:
            rows.append(at_most(name, median(durations), limit, "ms", spread=spread(durations), note=note))
    for name, method, item in BLOCKS:
        note = f"{RECORDS:,} records, each a unit of its own: nearly all of it is the keyed hash of each record; once"
        rows.append(Result(name, _milliseconds(dataset, method, item) / 1000, "s", note=note))
    return rows


def _records() -> PrivateDataset:
    rng = np.random.default_rng(1)
    columns = {name: rng.gamma(2.0, 10.0, RECORDS) for name in NAMES}
    frame = pl.DataFrame({**columns, "y": np.where(rng.random(RECORDS) < 0.3, "yes", "no")})
    steward = SchemaFile(
        label="y",
        attributes=tuple(NumericAttribute(name, 0.0, 200.0) for name in NAMES),
        classes=("no", "yes"),
        round_size=RECORDS,
    )
    return PrivateDataset(frame, steward, unit_key=bytes(32), cache_bytes=0)


def _milliseconds(dataset: PrivateDataset, method: Method, item: Item) -> float:
    """Processor time of one answer."""
    turn = Turn(PlannedStatistic(method=method))
    seat = Seat.of(SigningKey.generate(), LABEL, bytes(32), bytes)
    stamp = Stamp("benchmark", 0, 1)
    question = CuratorQuestion(turn, StatisticBody((item,)), dataset.schema, (), b"", stamp, seat)
    noise = own_noise()
    start = time.process_time()
    ANSWERERS["statistic"].answer(question, dataset, noise)
    return (time.process_time() - start) * 1e3
