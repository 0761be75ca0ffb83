"""The `sample` query: synthetic records, drawn exactly from a density in an epsilon-mollifier.

Cost: k epsilon for k records, whatever the records and however many a privacy unit has. The curator learns a density
(MBDE; Husain, Cranko and Nock 2019, algorithm 1) whose exponent lies within +-epsilon / 4 on a grid that the plan and
the schema fix, and draws from it by rejection. Any two such densities differ by a factor of at most exp(epsilon) on
every point, so one draw is epsilon-integrally private (their lemma 4): the bound holds between any two sets of records,
neighbours among them. Draws of one answer are independent given the density, and their losses add up.
docs/integral-privacy.md has the proofs.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.examples import Example
from protocol.grids import MOST_AXES, Axis, BaseLaw, NumberAxis, levels_of, why_not
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE
from protocol.odds import Odds, PrivacyUnit, factor
from protocol.plans import Planned
from protocol.query_kind import QueryKind, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode
from protocol.schema import Schema

MOST_RECORDS = 100_000
MOST_EPSILON = 16
"""Of a record: beyond, a draw may take more than exp(8) trials."""
MOST_DENOMINATOR = 2**16
"""Of epsilon: the largest with which a coin's chance is a ratio that the sampler takes."""
MOST_EXAMPLES = 10_000
RELEASE_FRAME_BYTES = 22
NUMBER = "<u2"
"""How a place on an axis is released."""

RECORD_COST = 1_500
RECORD_AXIS_COST = 800
"""Finding a record's cell on an axis, and choosing among the records: 0.15 microseconds and less."""
TRIED_ONCE = 8_000
TRIED_AXIS_ONCE = 2_000
"""Drawing a record from the base law, and the coin that keeps it."""
SCORED_ONCE = 50_000
SCORED_INPUT_ONCE = 100
"""The network's score of a record that is tried, a round."""
COUNTED_AXIS_ONCE = 1_000
"""Naive Bayes' score of it, an axis and a round."""
EPOCH_ONCE = 10_000
EPOCH_INPUT_ONCE = 200
"""An example in one pass of training."""
STEP_ONCE = 3_000_000
"""A step of training, however few examples it is of."""
QUERY_ONCE = 1_000 * CALL_ONCE


class PlannedSample(Planned, frozen=True, tag="sample"):
    """A future sample.

    Attributes:
        records: k, drawn independently of each other given the density.
        epsilon: of each; at most 16, of a denominator of at most 65,536.
        axes: the attributes that are drawn, and the label where it is among them, with the base law on each.
        rounds: T, of boosting.
        learner: of the classifiers: the paper's network, or naive Bayes over binned axes.
        examples: records, and as many draws, that each is trained on, at most.
        epochs: the network's passes over them.
        batch: records of one step of the network; 0 takes all.
        bins: of an axis, for naive Bayes.
    """

    records: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECORDS)]
    epsilon: Rational
    axes: Annotated[tuple[Axis, ...], msgspec.Meta(min_length=1, max_length=MOST_AXES)]
    rounds: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    learner: Literal["network", "naive_bayes"] = "network"
    examples: Annotated[int, msgspec.Meta(ge=1, le=MOST_EXAMPLES)] = MOST_EXAMPLES
    epochs: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 750
    batch: Annotated[int, msgspec.Meta(ge=0, le=MOST_EXAMPLES)] = 1_000
    bins: Annotated[int, msgspec.Meta(ge=2, le=256)] = 16


class SampleLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a curator limits of a sample, beyond its work.

    Attributes:
        records: most of one query.
        axes: most of one record.
    """

    records: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECORDS)] = 10_000
    axes: Annotated[int, msgspec.Meta(ge=1, le=MOST_AXES)] = 100


class SampleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing: the plan says all."""


class SampleRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is answered.

    Attributes:
        cells: k rows of a place on each axis, from 0, little-endian uint16.
    """

    cells: bytes


def check_planned(planned: PlannedSample) -> None:
    """Raise RemoteProtocolError(BAD_PLAN) for an epsilon or axes that cannot be drawn by."""
    epsilon = planned.epsilon.fraction
    if epsilon > MOST_EPSILON or epsilon.denominator > MOST_DENOMINATOR:
        limit = f"at most {MOST_EPSILON}, of a denominator of at most {MOST_DENOMINATOR}"
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.epsilon", limit)
    if len({axis.name for axis in planned.axes}) < len(planned.axes):
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.axes", "each attribute once")


def check_allowed(planned: PlannedSample, schema: Schema, limits: SampleLimits, field: str) -> None:
    """Raise RemoteProtocolError (BAD_PLAN, OVER_LIMIT) where a curator would not accept it."""
    _check_axes(planned, schema, RefusalCode.BAD_PLAN, f"{field}.axes")
    for name in ("records", "axes"):
        asked, most = getattr(planned, name), getattr(limits, name)
        if (asked if name == "records" else len(asked)) > most:
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.{name}", f"at most {most}")


def _check_axes(planned: PlannedSample, schema: Schema, code: RefusalCode, field: str) -> None:
    fault = why_not(planned.axes, schema)
    if fault:
        raise RemoteProtocolError(code, field, fault)


def cost(planned: PlannedSample, most_records_per_unit: int) -> Fraction:  # noqa: ARG001
    """Exact epsilon k epsilon, the same for units of any number of records: it holds between any two sets."""
    value = planned.records * planned.epsilon.fraction
    if value.numerator > MOST:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.epsilon", "a cost of at most 32 bits")
    return value


def odds(planned: PlannedSample, unit: PrivacyUnit, readers: int | None = None) -> Odds:  # noqa: ARG001
    """The cost holds between any two sets of records: no change costs more. A label that is not drawn is not read."""
    whole = cost(planned, unit.records)
    read = any(axis.name == unit.label for axis in planned.axes)
    return Odds(whole, whole if read else Fraction(0), whole)


def precision(planned: PlannedSample, unit: PrivacyUnit) -> str:  # noqa: ARG001
    """Of the made-up records."""
    axes = ", ".join(axis.name for axis in planned.axes)
    return (
        f"{planned.records} made-up records of {axes}, each drawn from a law that lies within a factor of "
        f"{factor(planned.epsilon.fraction / 2)} of a public one; epsilon {planned.epsilon.fraction} each"
    )


def base_of(planned: PlannedSample, schema: Schema) -> BaseLaw:
    """The law that records are drawn by before anything is learnt, Q_0; of a checked query."""
    return BaseLaw.of(planned.axes, schema)


def read_body(data: bytes, turn: Turn, schema: Schema, limits: SampleLimits) -> SampleBody:  # noqa: ARG001
    """Decode the body, and hold the plan against today's schema; RemoteProtocolError (MALFORMED, BAD_QUERY)."""
    body = decode(data, SampleBody, field="body")
    _check_axes(turn.planned, schema, RefusalCode.BAD_QUERY, "plan.queries.axes")
    return body


def work(body: SampleBody, turn: Turn, schema: Schema, round_size: int | None) -> int:  # noqa: ARG001
    """Work of a query, in multiply-adds: the worst density for rejection, as many records as declared."""
    planned: PlannedSample = turn.planned
    axes = len(planned.axes)
    inputs = sum(1 if isinstance(a, NumberAxis) else len(levels_of(a.name, schema)) for a in planned.axes)
    network = planned.learner == "network"
    scored = SCORED_ONCE + SCORED_INPUT_ONCE * inputs if network else COUNTED_AXIS_ONCE * axes
    tried = TRIED_ONCE + TRIED_AXIS_ONCE * axes + planned.rounds * scored
    # Each round draws its examples anew; that of the answer comes on top.
    draws = planned.rounds * planned.examples + planned.records
    trials = math.ceil(draws * math.exp(float(planned.epsilon.fraction) / 2) * 1.1) + 100 * (planned.rounds + 1)
    passes = planned.epochs if network else 1
    shown = 2 * planned.examples
    steps = math.ceil(shown / (planned.batch or shown)) if network else 0
    trained = planned.rounds * passes * (shown * (EPOCH_ONCE + EPOCH_INPUT_ONCE * inputs) + steps * STEP_ONCE)
    per_record = RECORD_COST + RECORD_AXIS_COST * axes + RECORD_COST * planned.rounds
    total: int = QUERY_ONCE + trials * tried + trained + per_record * (round_size or ASSUMED_ROUND_SIZE)
    return total


def release_bytes(body: SampleBody, turn: Turn, schema: Schema) -> int:  # noqa: ARG001
    """Most bytes of the encoded release."""
    planned: PlannedSample = turn.planned
    return RELEASE_FRAME_BYTES + 2 * planned.records * len(planned.axes)


def read_release(data: bytes, body: SampleBody, turn: Turn, schema: Schema) -> bytes:  # noqa: ARG001
    """The released places, after a check that each lies on its axis.

    Raises:
        RemoteProtocolError: not a SampleRelease, or not of the planned shape.
    """
    release, planned = decode(data, SampleRelease, field="release"), turn.planned
    sizes = base_of(planned, schema).sizes
    cells = np.frombuffer(release.cells[: len(release.cells) // 2 * 2], NUMBER)
    if len(release.cells) != 2 * planned.records * len(sizes) or (cells.reshape(-1, len(sizes)) >= sizes).any():
        shape = f"{planned.records} x {len(sizes)} places on the planned axes"
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release", shape)
    return release.cells


def cells_of(data: bytes, body: SampleBody, turn: Turn, schema: Schema) -> NDArray[np.int64]:
    """(k, axes) the released places; raises as `read_release`."""
    places = np.frombuffer(read_release(data, body, turn, schema), NUMBER).astype(np.int64)
    return places.reshape(-1, len(turn.planned.axes))


def numbers(data: bytes, body: SampleBody, turn: Turn, schema: Schema) -> NDArray[np.number[Any]]:
    """All released places, record by record; raises as `read_release`."""
    return cells_of(data, body, turn, schema).ravel()


def examples() -> Mapping[str, Sequence[Example]]:
    """What an auditor asks."""
    from protocol.kinds.sample_examples import EXAMPLES  # noqa: PLC0415 - made of the structs above

    return {"": EXAMPLES}


SAMPLE = QueryKind(
    name="sample",
    relation="any set of records against any other",
    planned=PlannedSample,
    limits=SampleLimits,
    check_planned=check_planned,
    check_allowed=check_allowed,
    cost=cost,
    integral=lambda planned: cost(planned, 1),
    odds=odds,
    most_odds=lambda limits, unit: Odds(Fraction(1), Fraction(1), Fraction(1)),  # noqa: ARG005
    precision=precision,
    tells="made-up records that are like those here",
    read_body=read_body,
    work=work,
    release_bytes=release_bytes,
    read_release=read_release,
    examples=examples,
    numbers=numbers,
)
