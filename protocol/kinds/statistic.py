"""The `statistic` query: quantiles, estimates by sample and aggregate, and selected features.

Each statistic of a query is made private by itself, and the costs add up (basic composition). The method defines the
cost of one; docs/explanation/statistics.md has the proofs.
"""

import math
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.kinds.statistics.items import ESTIMATORS, Item, Quantile, Selection, item_for
from protocol.kinds.statistics.methods import (
    LEAST_DECAY,
    METHODS,
    MOST_DECAY,
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Method,
    Smooth,
)
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE, Positive
from protocol.odds import NOTHING, Odds, PrivacyUnit
from protocol.plans import Planned
from protocol.query_kind import KindTerms, QueryKind, Question, Turn
from protocol.rationals import MOST
from protocol.refusals import RefusalCode
from protocol.schema import Schema
from protocol.strict_toml import suggest

MOST_STATISTICS = 10_000
QUERY_ONCE = 1_000 * CALL_ONCE
"""Work per query of signatures, the ledger's two writes and the codec: two milliseconds."""
STATISTIC_ONCE = 50 * CALL_ONCE
CHOICE_ONCE = 40_000
"""Work per choice and candidate: its score and its exact exponential noise."""
SMOOTH_STEP_ONCE = 8_000
"""Work per step of a smooth sensitivity's decay."""
NOISE_ONCE = 2_000_000
"""Work per quantile or estimate of its noise, heavy-tailed or discrete Laplace."""
BLOCK_ONCE = 100 * CALL_ONCE
"""Work of an estimator, per estimate and block."""
COLUMN_COST = 300
"""Work per record and attribute of rounding a value to a grid and counting it."""
BLOCK_COST = 75_000
"""Work per estimate and record of the keyed hash, which determines the record's block."""
CELL_COST = 350
"""Work per record and candidate partition of counting by cell and class."""
RELEASE_FRAME_BYTES = 14


class PlannedStatistic(Planned, frozen=True, tag="statistic"):
    """A future query with the settings that its cost depends on; attributes and grids may be chosen later."""

    method: Method  # by which each statistic is made private
    statistics: Annotated[int, msgspec.Meta(ge=1, le=MOST_STATISTICS)] = 1  # m, how many

    @property
    def length(self) -> int:
        """Number of numbers in the release."""
        return self.statistics * (self.method.chosen if isinstance(self.method, Features) else 1)


class StatisticLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's limits on a statistic query."""

    methods: tuple[str, ...] = tuple(METHODS)  # allowed names of `METHODS`
    statistics: Positive = 1_000  # most statistics of a query
    candidates: Positive = 10_001  # most points of a grid among which one is chosen, or on which noise is added
    cells: Positive = 100_000  # most cells of all candidates of a selection together
    blocks: Positive = 10_000  # most blocks

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise ValueError(f"unknown method {name!r}{suggest(name, list(METHODS))}")


class StatisticBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question: as many items as planned, of the method's type."""

    asked: Annotated[tuple[Item, ...], msgspec.Meta(min_length=1, max_length=MOST_STATISTICS)]


class StatisticRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer: little-endian int64 numbers, one for each item; for `features`, as many as are chosen.

    A number is a grid index. For `aggregate_mean` it is a noisy sum of indices over blocks; for `features` it is the
    index of a candidate, in order of choice.
    """

    numbers: bytes


class Statistic(QueryKind):
    """Query kind for single statistics of the records."""

    name = "statistic"
    reveals = "quantiles, averages and other single figures of the records"
    planned = PlannedStatistic
    limits = StatisticLimits

    def check_planned(self, planned: PlannedStatistic) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) if a decay is out of range, or the cost needs more than 32 bits."""
        method = planned.method
        if isinstance(method, Smooth) and not LEAST_DECAY <= method.decay.fraction <= MOST_DECAY:
            limit = f"{LEAST_DECAY} to {MOST_DECAY}"
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.method.decay", limit)
        self.cost(planned, 1)

    def check_allowed(self, planned: PlannedStatistic, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError (KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT) if a curator would refuse the query."""
        method, limits = planned.method, terms.limits
        if method.name not in limits.methods:
            raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, f"{field}.method", ", ".join(limits.methods))
        if isinstance(method, Features) and not terms.schema.classes:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, f"{field}.method", "features need a label of classes")
        if planned.statistics > limits.statistics:
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.statistics", f"at most {limits.statistics}")
        if isinstance(method, AggregateMean | AggregateMedian) and method.blocks > limits.blocks:
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.method.blocks", f"at most {limits.blocks}")
        if isinstance(method, AggregateMean) and method.steps >= limits.candidates:
            limit = f"at most {limits.candidates - 1}"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.method.steps", limit)

    def cost(self, planned: PlannedStatistic, most_records_per_unit: int) -> Fraction:
        """Exact epsilon: the number of statistics times the cost of one by its method."""
        value = planned.statistics * planned.method.cost(most_records_per_unit)
        if value.numerator > MOST or value.denominator > MOST:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.method.scale", "a cost of at most 32 bits")
        return value

    def odds(self, planned: PlannedStatistic, unit: PrivacyUnit, readers: int | None) -> Odds:
        """The bound of one statistic times their number; for an attribute, times the number of those that read it.

        A record without a unit name is put into a block by its whole content, so blocks then depend on every attribute.
        """
        single, count = planned.method.odds(unit), planned.statistics
        by_content = isinstance(planned.method, AggregateMean | AggregateMedian) and not unit.name
        parts = count if readers is None or by_content else min(readers, count)
        return Odds(count * single.presence, count * single.label, parts * single.attribute)

    def most_odds(self, limits: StatisticLimits, unit: PrivacyUnit) -> Odds:
        """The largest bound among the allowed methods."""
        most = NOTHING
        for name in limits.methods:
            blocks = METHODS[name] in (AggregateMean, AggregateMedian)
            label = (1 if unit.name else 2) if blocks else 2 if unit.numeric or name == "features" else 0
            attribute = 1 if blocks and unit.name else 2
            most = most.or_more(Odds(Fraction(1), Fraction(label), Fraction(attribute)))
        return most

    def precision(self, planned: PlannedStatistic, unit: PrivacyUnit) -> str:
        """The precision of each statistic, in words."""
        method = planned.method
        scale = f"scale {method.scale.fraction}"
        return f"{planned.statistics} single figures, each {method.precision}; {method.name}, {scale}"

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> StatisticBody:
        """Decode and check a body against its planned query, the schema and the limits.

        Raises RemoteProtocolError: MALFORMED, NOT_IN_PLAN, BAD_QUERY or OVER_LIMIT.
        """
        planned: PlannedStatistic = turn.planned
        body = decode(data, StatisticBody, field="body")
        if len(body.asked) != planned.statistics:
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "body.asked", f"exactly {planned.statistics}")
        item_type = item_for(planned.method)
        for index, item in enumerate(body.asked):
            field = f"body.asked[{index}]"
            if not isinstance(item, item_type):
                limit = f"a {item_type.__struct_config__.tag} with {planned.method.name}"
                raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, field, limit)
            _check_size(item, terms, field)
            item.check(planned.method, terms.schema, field)  # type: ignore[arg-type]
        return body

    def work(self, question: Question, round_size: int | None) -> int:
        """Work of a query, in the unit of `protocol.limits`; it depends on question and card alone."""
        method: Method = question.turn.planned.method
        records = round_size or ASSUMED_ROUND_SIZE
        return QUERY_ONCE + sum(_work_of(item, method, question.schema, records) for item in question.body.asked)

    def release_bytes(self, question: Question) -> int:
        """Eight bytes for each number, and a frame."""
        return RELEASE_FRAME_BYTES + 8 * int(question.turn.planned.length)

    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """The released numbers, int64, after a check of their shape and range.

        Raises RemoteProtocolError: `data` is not a StatisticRelease, or cannot answer the question.
        """
        release = decode(data, StatisticRelease, field="release")
        planned: PlannedStatistic = question.turn.planned
        items: tuple[Item, ...] = question.body.asked
        if len(release.numbers) != 8 * planned.length:
            raise RemoteProtocolError(RefusalCode.MALFORMED, "release.numbers", f"{planned.length} numbers")
        numbers = np.frombuffer(release.numbers, "<i8")
        if not isinstance(planned.method, AggregateMean):
            for item, row in zip(items, numbers.reshape(len(items), -1), strict=True):
                points = len(item.candidates) if isinstance(item, Selection) else item.grid.points
                if row.min() < 0 or row.max() >= points or len(set(row.tolist())) < len(row):
                    raise RemoteProtocolError(
                        RefusalCode.MALFORMED, "release.numbers", "different indices of what was asked"
                    )
        return numbers


STATISTIC = Statistic()


def _check_size(item: Item, terms: KindTerms, field: str) -> None:
    """Raise RemoteProtocolError(OVER_LIMIT) if an item is too large for checks whose time grows with its size."""
    if isinstance(item, Selection):
        if sum(partition.cell_count(terms.schema) for partition in item.candidates) > terms.limits.cells:
            limit = f"at most {terms.limits.cells} cells"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.candidates", limit)
    elif item.grid.points > terms.limits.candidates:
        limit = f"at most {terms.limits.candidates - 1}"
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.grid.steps", limit)


def _work_of(item: Item, method: Method, schema: Schema, records: int) -> int:
    if isinstance(item, Selection):
        once = sum(partition.multiply_adds_once() for partition in item.candidates)
        per_record = sum(CELL_COST + partition.multiply_adds() for partition in item.candidates)
        cells = sum(partition.cell_count(schema) for partition in item.candidates) * len(schema.classes)
        choices = CHOICE_ONCE * len(item.candidates) * method.chosen if isinstance(method, Features) else 0
        return STATISTIC_ONCE + once + choices + cells * CALL_ONCE // 100 + per_record * records
    once = STATISTIC_ONCE + NOISE_ONCE
    if isinstance(method, Exponential | AggregateMedian):
        once += CHOICE_ONCE * item.grid.points
    if isinstance(item, Quantile):
        smooth = SMOOTH_STEP_ONCE * decay_steps(method) if isinstance(method, Smooth) else 0
        return once + smooth + item.grid.points * 100 + COLUMN_COST * records
    blocks = method.blocks if isinstance(method, AggregateMean | AggregateMedian) else 0
    width, estimator = len(item.attributes), ESTIMATORS[item.estimator]
    per_record = BLOCK_COST + COLUMN_COST * width + estimator.work(width)
    return once + (BLOCK_ONCE + estimator.work_once(width)) * blocks + per_record * records


def decay_steps(method: Smooth) -> int:
    """Most steps of a smooth sensitivity's decay: 2^40 falls to 1 in 40 log 2 / log(1 + beta) steps."""
    return math.ceil(40 * math.log(2) / math.log1p(float(method.decay.fraction))) + 1
