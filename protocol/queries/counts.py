"""The `counts` query: per-cell counts over a workload of partitions, with discrete Laplace noise.

Cost: a privacy unit of at most c records moves the vector by at most c m (L1), so scale s gives pure epsilon
c m / s (Laplace mechanism; Dwork, McSherry, Nissim and Smith 2006, for integers Ghosh, Roughgarden and
Sundararajan 2009).
"""

from fractions import Fraction
from typing import Annotated

import msgspec

from protocol.codec import decode
from protocol.errors import RemoteProtocolError
from protocol.hypotheses import Hypothesis
from protocol.partitions import Partition, ScoreBins
from protocol.plans import PlannedQuery
from protocol.queries.limits import Limits
from protocol.rationals import MOST
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema


class CountsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked: a workload and, for error counts, the hypothesis whose errors are counted."""

    partitions: Annotated[tuple[Partition, ...], msgspec.Meta(min_length=1, max_length=100_000)]
    hypothesis: Hypothesis | None


class CountsRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is answered: noisy numbers, cell by cell, partition by partition.

    `counts` holds (sum of cell counts) x columns little-endian int64, row by row. `ratios` replaces it for
    `paper_ratio` (float64, NaN-free) and is empty otherwise.
    """

    counts: bytes
    ratios: bytes


def check_planned(planned: PlannedQuery) -> None:
    """Raise RemoteProtocolError(BAD_PLAN) for an unknown release kind."""
    if planned.release not in RELEASE_KINDS:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.release", ", ".join(RELEASE_KINDS))


def cost(planned: PlannedQuery, most_records_per_unit: int) -> Fraction:
    """Exact epsilon c m / scale. For `paper_ratio` it is the *claim* of Eq. 14, not the truth."""
    value = Fraction(most_records_per_unit * planned.partitions) / planned.scale.fraction
    if value.numerator > MOST or value.denominator > MOST:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.scale", "a cost of at most 32 bits")
    return value


def read_body(data: bytes, planned: PlannedQuery, schema: Schema, limits: Limits) -> CountsBody:
    """Decode and check a body against its planned query, the schema and the limits; reads no record.

    Raises:
        RemoteProtocolError: MALFORMED, NOT_IN_PLAN, BAD_QUERY or OVER_LIMIT.
    """
    body = decode(data, CountsBody, limit=limits.message_bytes, field="body")
    if len(body.partitions) != planned.partitions:
        raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "body.partitions", f"exactly {planned.partitions}")
    wanted = RELEASE_KINDS[planned.release].wants_hypothesis
    if wanted is not None and wanted != (body.hypothesis is not None):
        limit = f"{'a' if wanted else 'no'} hypothesis with {planned.release}"
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.hypothesis", limit)
    for index, partition in enumerate(body.partitions):
        where = f"body.partitions[{index}]"
        if isinstance(partition, ScoreBins):
            _check_parameters(partition.hypothesis, limits, f"{where}.hypothesis")
        partition.check(schema, where)
    cells = sum(partition.cell_count(schema) for partition in body.partitions)
    if cells > limits.cells:
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, "body.partitions", f"at most {limits.cells} cells")
    if body.hypothesis is not None:
        _check_parameters(body.hypothesis, limits, "body.hypothesis")
        body.hypothesis.check(schema, "body.hypothesis")
    return body


def _check_parameters(hypothesis: Hypothesis, limits: Limits, field: str) -> None:
    if hypothesis.parameter_count() > limits.parameters:
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, field, f"at most {limits.parameters} parameters")


def multiply_adds(body: CountsBody) -> int:
    """Multiply-adds per record that answering `body` takes."""
    hypothesis = body.hypothesis.multiply_adds() if body.hypothesis is not None else 0
    return hypothesis + sum(partition.multiply_adds() for partition in body.partitions)


def read_release(data: bytes, body: CountsBody, planned: PlannedQuery, schema: Schema) -> bytes:
    """The released numbers, after a check of their shape: little-endian int64, or float64 for `paper_ratio`.

    Raises:
        RemoteProtocolError: not a CountsRelease, or not of the asked shape.
    """
    release = decode(data, CountsRelease, field="release")
    cells = sum(partition.cell_count(schema) for partition in body.partitions)
    kind = RELEASE_KINDS[planned.release]
    payload, unused = (release.counts, release.ratios) if kind.exact else (release.ratios, release.counts)
    if len(payload) != 8 * cells * kind.columns or unused:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release", f"{cells} x {kind.columns} numbers")
    return payload
