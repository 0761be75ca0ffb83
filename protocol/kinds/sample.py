"""The `sample` query: synthetic records, drawn exactly from a density in an epsilon-mollifier.

Cost: k epsilon for k synthetic records, however many records a privacy unit has. The curator learns a density (MBDE;
Husain, Cranko and Nock 2019, algorithm 1) whose exponent lies within +-epsilon / 4 on a grid that the plan and the
schema fix, and draws from it by rejection. Any two such densities differ by a factor of at most exp(epsilon) at every
point. So one draw is epsilon-integrally private (their lemma 4): the bound holds between any two sets of records,
whether neighbours or not. Draws of one answer are independent given the density, and their losses add up.
docs/explanation/integral-privacy.md has the proofs.
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.grids import MOST_AXES, Axis, BaseLaw, NumberAxis, levels_of, why_not
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE
from protocol.odds import Odds, PrivacyUnit, factor
from protocol.plans import Planned
from protocol.query_kind import KindTerms, QueryKind, Question, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_RECORDS = 100_000
MOST_EPSILON = 16
"""Largest epsilon per record; beyond it, a draw may need more than exp(8) trials."""
MOST_DENOMINATOR = 2**16
"""Largest denominator of epsilon for which the sampler can represent a coin's chance."""
MOST_EXAMPLES = 10_000
EXPONENT_STEPS = 2**14
"""Steps of an exponent in epsilon / 4, of which it is a whole number."""
REACHES = 2**8
"""A reach below epsilon / 4 is a multiple of this part of it, so that costs are short."""
LOG_TWO = Fraction(6_931_471_805, 10**10), Fraction(6_931_471_806, 10**10)
"""Just below and just above log 2."""
RELEASE_FRAME_BYTES = 22
NUMBER = "<u2"
"""Encoding of the index of a cell on an axis."""

RECORD_COST = 1_500
RECORD_AXIS_COST = 800
"""`RECORD_COST` is work of choosing records, per record and once more per round; `RECORD_AXIS_COST` is work per record
and axis of finding its cell."""
TRIED_ONCE = 8_000
TRIED_AXIS_ONCE = 2_000
"""Work per proposed record, and per axis of it: drawing it from the base law, and the coin that accepts it."""
SCORED_ONCE = 50_000
SCORED_INPUT_ONCE = 100
"""Work of the network's score, per proposed record and round, and per input of it."""
COUNTED_AXIS_ONCE = 1_000
"""Work of naive Bayes' score, per proposed record, round and axis."""
EPOCH_ONCE = 10_000
EPOCH_INPUT_ONCE = 200
"""Work of training, per example, round and pass, and per input of it."""
STEP_ONCE = 3_000_000
"""Work per training step, for any number of examples."""
QUERY_ONCE = 1_000 * CALL_ONCE


class PlannedSample(Planned, frozen=True, tag="sample"):
    """A future query for synthetic records."""

    # k, drawn independently of each other given the density
    records: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECORDS)]
    epsilon: Rational  # of each; at most 16, of a denominator of at most 65,536
    # the attributes that are drawn, and the label where it is among them, with the base law on each
    axes: Annotated[tuple[Axis, ...], msgspec.Meta(min_length=1, max_length=MOST_AXES)]
    rounds: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3  # T, of boosting
    # of the classifiers: the paper's network, or naive Bayes over binned axes
    learner: Literal["network", "naive_bayes"] = "network"
    # records, and as many draws, that each is trained on, at most
    examples: Annotated[int, msgspec.Meta(ge=1, le=MOST_EXAMPLES)] = MOST_EXAMPLES
    epochs: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 750  # the network's passes over them
    # records of one step of the network; 0 takes all
    batch: Annotated[int, msgspec.Meta(ge=0, le=MOST_EXAMPLES)] = 1_000
    bins: Annotated[int, msgspec.Meta(ge=2, le=256)] = 16  # of an axis, for naive Bayes
    # of the price: 1 clips exponents to epsilon / 4; 2 where T rounds end, which changes no draw's law and costs less
    version: Literal[1, 2] = 1

    @property
    def reach(self) -> int:
        """Steps to which an exponent is clipped, on either side of 0: at most `EXPONENT_STEPS`."""
        return EXPONENT_STEPS if self.version == 1 else reach_of(self.epsilon.fraction, self.rounds)

    @property
    def cost_of_one(self) -> Fraction:
        """Exact cost of one synthetic record: four times the size of the largest exponent."""
        return self.epsilon.fraction * Fraction(self.reach, EXPONENT_STEPS)

    def base_law(self, schema: Schema) -> BaseLaw:
        """The law Q_0 of synthetic records before anything is learnt; the query must be checked."""
        return BaseLaw.of(self.axes, schema)


@lru_cache(maxsize=4096)
def reach_of(epsilon: Fraction, rounds: int) -> int:
    """Steps that no exponent leaves after so many rounds: at least log 2 (theta + theta^2 + ...), rounded up.

    theta = epsilon / (epsilon + 4 log 2), and the classifier of each round lies within +-log 2. All is in rationals,
    with log 2 on the side that makes more. Privacy rests on the clipping alone.
    """
    less, more = LOG_TWO
    theta = epsilon / (epsilon + 4 * less)
    most = more * theta * (1 - theta**rounds) / (1 - theta)
    return min(REACHES, math.ceil(4 * most / epsilon * REACHES)) * (EXPONENT_STEPS // REACHES)


class SampleLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's limits on a sample, apart from its work."""

    records: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECORDS)] = 10_000  # most of one query
    axes: Annotated[int, msgspec.Meta(ge=1, le=MOST_AXES)] = 100  # most of one record


class SampleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty question: the plan states everything."""


class SampleRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The synthetic records."""

    cells: bytes  # k rows of a place on each axis, from 0, little-endian uint16


class Sample(QueryKind):
    """Query kind for synthetic records."""

    name = "sample"
    relation = "any set of records against any other"
    reveals = "made-up records that are like those here"
    planned = PlannedSample
    limits = SampleLimits

    def check_planned(self, planned: PlannedSample) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) if the sampler does not support the epsilon or the axes."""
        epsilon = planned.epsilon.fraction
        if epsilon > MOST_EPSILON or epsilon.denominator > MOST_DENOMINATOR:
            limit = f"at most {MOST_EPSILON}, of a denominator of at most {MOST_DENOMINATOR}"
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.epsilon", limit)
        if len({axis.name for axis in planned.axes}) < len(planned.axes):
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.axes", "each attribute once")

    def check_allowed(self, planned: PlannedSample, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError (BAD_PLAN, OVER_LIMIT) if a curator would refuse the query."""
        limits: SampleLimits = terms.limits
        _check_axes(planned, terms.schema, RefusalCode.BAD_PLAN, f"{field}.axes")
        sizes = (("records", planned.records, limits.records), ("axes", len(planned.axes), limits.axes))
        for name, size, most in sizes:
            if size > most:
                raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.{name}", f"at most {most}")

    def cost(self, planned: PlannedSample, most_records_per_unit: int) -> Fraction:
        """Exact cost, k times that of one; it holds between any two sets of records, so for units of any size."""
        value = planned.records * planned.cost_of_one
        if value.numerator > MOST:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.epsilon", "a cost of at most 32 bits")
        return value

    def integral(self, planned: PlannedSample) -> Fraction:
        """The full cost, which holds between any two sets of records."""
        return self.cost(planned, 1)

    def odds(self, planned: PlannedSample, unit: PrivacyUnit, readers: int | None) -> Odds:
        """The full cost for any change; 0 for the label if it is not drawn."""
        cost = self.cost(planned, unit.records)
        reads_label = any(axis.name == unit.label for axis in planned.axes)
        return Odds(cost, cost if reads_label else Fraction(0), cost)

    def most_odds(self, limits: SampleLimits, unit: PrivacyUnit) -> Odds:
        """The largest `odds` per epsilon: 1 for any change."""
        return Odds(Fraction(1), Fraction(1), Fraction(1))

    def precision(self, planned: PlannedSample, unit: PrivacyUnit) -> str:
        """The precision of the synthetic records, in words."""
        axes = ", ".join(axis.name for axis in planned.axes)
        return (
            f"{planned.records} made-up records of {axes}, each drawn from a law that lies within a factor of "
            f"{factor(planned.cost_of_one / 2)} of a public one; epsilon {planned.cost_of_one} each"
        )

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> SampleBody:
        """Decode the body; check the axes against the schema. Raises RemoteProtocolError (MALFORMED, BAD_QUERY)."""
        body = decode(data, SampleBody, field="body")
        _check_axes(turn.planned, terms.schema, RefusalCode.BAD_QUERY, "plan.queries.axes")
        return body

    def work(self, question: Question, round_size: int | None) -> int:
        """Work of a query, in the unit of `protocol.limits`, if rejection takes the most trials that epsilon allows."""
        planned: PlannedSample = question.turn.planned
        axes, schema = len(planned.axes), question.schema
        inputs = sum(1 if isinstance(axis, NumberAxis) else len(levels_of(axis.name, schema)) for axis in planned.axes)
        network = planned.learner == "network"
        score_work = SCORED_ONCE + SCORED_INPUT_ONCE * inputs if network else COUNTED_AXIS_ONCE * axes
        tried = TRIED_ONCE + TRIED_AXIS_ONCE * axes + planned.rounds * score_work
        # Each round draws its examples anew; that of the answer comes on top.
        draws = planned.rounds * planned.examples + planned.records
        trials = math.ceil(draws * math.exp(float(planned.cost_of_one) / 2) * 1.1) + 100 * (planned.rounds + 1)
        passes = planned.epochs if network else 1
        examples = 2 * planned.examples
        steps = math.ceil(examples / (planned.batch or examples)) if network else 0
        trained = planned.rounds * passes * (examples * (EPOCH_ONCE + EPOCH_INPUT_ONCE * inputs) + steps * STEP_ONCE)
        per_record = RECORD_COST + RECORD_AXIS_COST * axes + RECORD_COST * planned.rounds
        total: int = QUERY_ONCE + trials * tried + trained + per_record * (round_size or ASSUMED_ROUND_SIZE)
        return total

    def release_bytes(self, question: Question) -> int:
        """Two bytes for each record and axis, and a frame."""
        planned: PlannedSample = question.turn.planned
        return RELEASE_FRAME_BYTES + 2 * planned.records * len(planned.axes)

    def read_release(self, data: bytes, question: Question) -> NDArray[np.int64]:
        """All released cells, record by record, after a check that each lies on its axis.

        Raises RemoteProtocolError: `data` is not a SampleRelease, or not of the planned shape.
        """
        release, planned = decode(data, SampleRelease, field="release"), question.turn.planned
        sizes = planned.base_law(question.schema).sizes
        cells = np.frombuffer(release.cells[: len(release.cells) // 2 * 2], NUMBER)
        if len(release.cells) != 2 * planned.records * len(sizes) or (cells.reshape(-1, len(sizes)) >= sizes).any():
            shape = f"{planned.records} x {len(sizes)} places on the planned axes"
            raise RemoteProtocolError(RefusalCode.MALFORMED, "release", shape)
        return cells.astype(np.int64)


SAMPLE = Sample()


def _check_axes(planned: PlannedSample, schema: Schema, code: RefusalCode, field: str) -> None:
    if fault := why_not(planned.axes, schema):
        raise RemoteProtocolError(code, field, fault)
