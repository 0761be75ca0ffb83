"""The `counts` query: per-cell counts over a workload of partitions, with discrete Laplace noise.

Cost: a privacy unit of at most c records moves all numbers together by at most c m S (L1), for m partitions and S steps
(1 if records are counted). So noise of scale s gives pure epsilon c m S / s (Laplace mechanism; Dwork, McSherry, Nissim
and Smith 2006, for integers Ghosh, Roughgarden and Sundararajan 2009).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from types import GenericAlias
from typing import Annotated, Any, ClassVar, NamedTuple, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.codec import decode, encode
from protocol.errors import NotInstalledError, RemoteProtocolError
from protocol.hypotheses import Hypothesis
from protocol.limits import ASSUMED_ROUND_SIZE, CALL_ONCE, Positive
from protocol.noise import DiscreteLaplace
from protocol.odds import MISSES, OFTEN, Odds, PrivacyUnit
from protocol.partitions import PARTITION_KINDS, CrossBins, Partition, ScoreBins
from protocol.plans import Planned
from protocol.query_kind import KindTerms, QueryKind, Question, Turn
from protocol.rationals import MOST, Rational
from protocol.refusals import RefusalCode
from protocol.release_kinds import MOST_SQUARED_ERROR, MOST_STEPS, RELEASE_KINDS, ReleaseKind
from protocol.schema import Schema
from protocol.shared_types import shared_type
from protocol.strict_toml import suggest

_PAIR = 2
"""Numbers per cell that a limit of cells assumes; kinds with more numbers per cell are allowed fewer cells."""


RECORD_COST = 300
"""Work per record apart from partitions: its label, error and steps."""
COUNT_COST = 150
"""Work per record and partition of joining its cell with those of the partition's group, and counting it: a scattered
write."""
CLASS_COST = 350
"""Work per record and partition of counting by class, instead; with many classes a group needs several passes."""
SUM_COST = 250
"""Work per record and partition of summing amounts in columns, instead."""
QUERY_ONCE = 1_000 * CALL_ONCE
"""Work per query of signatures, the ledger's two writes and the codec: two milliseconds."""
PARTITION_ONCE = 10 * CALL_ONCE
"""Work per partition of extracting its counts from those of its group."""
EASY_SCALE = 2
NOISE_ONCE = 150_000
"""Work per released number of exact noise, by the slower source, OpenDP: 8 to 15 microseconds at scales of 2 to 2^32.
"""
SMALL_SCALE_NOISE_ONCE = 300_000
"""The same for scales from 2^-32 to 2, which reject more: up to 29 microseconds."""
RELEASE_FRAME_BYTES = 22
"""Bytes of a map of two values: its keys, and the longest head of each value."""

MOST_AT_ONCE = 2**16
"""Bytes of partitions that are read at once; of more, the first that is wrong ends the reading."""
MOST_SHORT = 32
"""Most sets of so few partitions that are kept as they were read and checked, by all their bytes and their terms."""
MOST_PARTITIONS = 100_000
"""Most partitions of a body, whatever a curator's limits."""

MostSquaredError = Annotated[int, msgspec.Meta(ge=1, le=MOST_SQUARED_ERROR)]


class PlannedCounts(Planned, frozen=True, tag="counts"):
    """A future counts query with the settings that its cost depends on.

    The partitions may be chosen later, from earlier answers, but their number and the scale are fixed.
    """

    release: Annotated[str, msgspec.Meta(max_length=100)]  # key of `RELEASE_KINDS`
    # m; a record moves the numbers of each by `steps` (L1)
    partitions: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARTITIONS)]
    scale: Rational  # of the discrete Laplace noise, in steps (in records, where steps is 1)
    # S, whole numbers that a record adds to a cell; 1 but for release kinds of a numeric label
    steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)] = 1

    @property
    def law(self) -> DiscreteLaplace:
        """Law of the noise in each released number."""
        return DiscreteLaplace(self.scale.fraction)

    def sensitivity(self, most_records_per_unit: int) -> int:
        """Largest L1 distance, c m S, by which a unit of c records moves all released numbers together."""
        return most_records_per_unit * self.partitions * self.steps


class CountsLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A curator's limits on a counts query."""

    installed: ClassVar[Mapping[str, ReleaseKind]] = RELEASE_KINDS
    release_kinds: tuple[str, ...] = tuple(RELEASE_KINDS)  # allowed release kinds
    # most cells of a workload; 500,000 pairs of counts fill the longest message. Where more than two numbers are
    # released per cell, proportionately fewer.
    cells: Annotated[int, msgspec.Meta(ge=1, le=500_000)] = 100_000
    partitions: Positive = 10_000  # most partitions of a workload
    parameters: Positive = 2_000_000  # most parameters of a hypothesis

    def __post_init__(self) -> None:
        for name in self.release_kinds:
            if name not in self.installed:
                raise ValueError(f"unknown release kind {name!r}{suggest(name, list(self.installed))}")


class CountsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, dict=True):
    """The question: a workload and, for errors, the hypothesis whose errors are counted.

    `most_squared_error` clips the squared errors of a numeric label, in squared grid steps (2^-24 of the squared label
    range); None does not clip. It is divided into the planned steps, so with a smaller value an error has less noise at
    the same cost.
    """

    partitions: Annotated[tuple[Partition, ...], msgspec.Meta(min_length=1, max_length=MOST_PARTITIONS)]
    hypothesis: Hypothesis | None
    most_squared_error: MostSquaredError | None = None

    @property
    def wire_type(self) -> type["CountsBody"]:
        """The type that decodes this body: with partitions of others, one that knows them."""
        return _body_with(frozenset(map(type, self.partitions)) - _SHIPPED)

    def sizes(self, schema: Schema) -> tuple[int, ...]:
        """Number of cells of each partition. It is kept for the schema that was asked for last."""
        cached_sizes: tuple[Schema, tuple[int, ...]] | None = self.__dict__.get("_sizes")
        if cached_sizes is None or cached_sizes[0] is not schema:
            cached_sizes = schema, tuple(partition.cell_count(schema) for partition in self.partitions)
            self.__dict__["_sizes"] = cached_sizes
        return cached_sizes[1]

    def cells(self, schema: Schema) -> int:
        """Number of cells of all partitions."""
        return sum(self.sizes(schema))

    def multiply_adds(self) -> int:
        """Work of partitions and hypothesis for each record, without counting."""
        return (self.hypothesis.multiply_adds() if self.hypothesis is not None else 0) + self._work[0]

    def multiply_adds_once(self) -> int:
        """Work of reading, checking and preparing partitions and hypothesis."""
        return (self.hypothesis.multiply_adds_once() if self.hypothesis is not None else 0) + self._work[1]

    @cached_property
    def _work(self) -> tuple[int, int]:
        return _work_of(self.partitions)


def _work_of(partitions: Sequence[Partition]) -> tuple[int, int]:
    """Work of partitions for each record, and of preparing them."""
    times = Counter(map(id, partitions))
    different = {id(partition): partition for partition in partitions}.items()
    return (
        sum(times[name] * partition.multiply_adds() for name, partition in different),
        sum(times[name] * (PARTITION_ONCE + partition.multiply_adds_once()) for name, partition in different),
    )


_SHIPPED = frozenset(PARTITION_KINDS.values())


@lru_cache(maxsize=64)
def _body_with(types: frozenset[type[Any]]) -> type[CountsBody]:
    if not types:
        return CountsBody
    partition: Any = Partition
    for kind in types:
        partition |= kind
    length = msgspec.Meta(min_length=1, max_length=MOST_PARTITIONS)
    # All fields anew, since one alone would move to the end
    fields: list[Any] = [
        ("partitions", Annotated[tuple[partition, ...], length]),
        ("hypothesis", Hypothesis | None),
        ("most_squared_error", MostSquaredError | None, None),
    ]
    wider: Any = msgspec.defstruct("CountsBody", fields, bases=(CountsBody,), frozen=True)
    return wider  # type: ignore[no-any-return]


_HYPOTHESIS: Any = Hypothesis | None


class _Outline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A CountsBody whose parts are not decoded, so that a long body can be refused early."""

    partitions: Annotated[tuple[msgspec.Raw, ...], msgspec.Meta(min_length=1, max_length=MOST_PARTITIONS)]
    hypothesis: msgspec.Raw
    most_squared_error: MostSquaredError | None = None


class _Rest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CountsBody whose partitions are read apart."""

    partitions: tuple[()]
    hypothesis: Hypothesis | None
    most_squared_error: MostSquaredError | None = None


class CountsRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer: noisy numbers, cell by cell, partition by partition.

    `counts` holds (sum of cell counts) x columns little-endian int64, row by row. `ratios` is empty, except in a
    release kind of simulations that fills it instead of `counts`.
    """

    counts: bytes
    ratios: bytes


class Counts(QueryKind):
    """Query kind for counts over partitions, with discrete Laplace noise in each number."""

    name = "counts"
    reveals = "how many records fall into groups"
    planned: ClassVar[type[PlannedCounts]] = PlannedCounts
    limits: ClassVar[type[CountsLimits]] = CountsLimits
    by_default = True
    partition: Any = Partition  # the union of the types that it reads
    partitions: Any = tuple[Partition, ...]

    def with_partitions(self, partitions: Sequence[type[Any]]) -> "Counts":
        """The same kind for bodies that may also hold these types."""
        if not partitions:
            return self
        wider = copy(self)
        for kind in partitions:
            wider.partition |= kind
        wider.partitions = GenericAlias(tuple, (wider.partition, ...))
        return wider

    @property
    def body_type(self) -> type[CountsBody]:
        """The type that decodes a body with any of `partition`."""
        return _body_with(frozenset(get_args(self.partition)) - _SHIPPED)

    def written_body(self, fields: Mapping[str, Any], number: int) -> CountsBody:
        """The body, also with partitions of others; `hypothesis` may be left out."""
        partitions = msgspec.convert(fields.get("partitions", ()), shared_type(self.partitions))
        rest = {"hypothesis": None, **fields, "partitions": ()}
        body = msgspec.convert(rest, shared_type(_Rest))
        return CountsBody(partitions, body.hypothesis, body.most_squared_error)

    def check_planned(self, planned: PlannedCounts) -> None:
        """Raise RemoteProtocolError(BAD_PLAN) if the release kind is unknown, or cannot have the planned steps."""
        kind = self.limits.installed.get(planned.release)
        if kind is None:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.release", ", ".join(self.limits.installed))
        if planned.steps != 1 and kind.of_steps is None:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.steps", f"1 with {planned.release}")

    def check_allowed(self, planned: PlannedCounts, terms: KindTerms, field: str) -> None:
        """Raise RemoteProtocolError (KIND_NOT_ALLOWED, BAD_PLAN, OVER_LIMIT) if a curator would refuse the query."""
        limits: CountsLimits = terms.limits
        if planned.release not in limits.release_kinds:
            allowed = ", ".join(limits.release_kinds)
            raise RemoteProtocolError(RefusalCode.KIND_NOT_ALLOWED, f"{field}.release", allowed)
        self._check_label(planned, terms.schema, RefusalCode.BAD_PLAN, f"{field}.release")
        if planned.partitions > limits.partitions:
            limit = f"at most {limits.partitions} partitions"
            raise RemoteProtocolError(RefusalCode.OVER_LIMIT, f"{field}.partitions", limit)

    def _check_label(self, planned: PlannedCounts, schema: Schema, code: RefusalCode, field: str) -> None:
        """Raise RemoteProtocolError(`code`) if the schema's label does not fit the release."""
        kind = self.limits.installed[planned.release]
        if not kind.fits(schema):
            there = f"{len(schema.classes)} classes" if schema.label_bounds is None else "a number"
            raise RemoteProtocolError(code, field, f"{planned.release} needs {kind.label}; this one is {there}")

    def cost(self, planned: PlannedCounts, most_records_per_unit: int) -> Fraction:
        """Exact epsilon c m S / scale."""
        value = planned.law.loss(planned.sensitivity(most_records_per_unit))
        if value.numerator > MOST or value.denominator > MOST:
            raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.scale", "a cost of at most 32 bits")
        return value

    def odds(self, planned: PlannedCounts, unit: PrivacyUnit, readers: int | None) -> Odds:
        """Bounds from how far a change moves the counts. A record adds S to one cell of each partition.

        A changed label moves S from one column of that cell to another (a signed error moves by 2), and no mass. Other
        changed attributes move S from one cell to another in each partition that reads them.
        """
        presence = self.cost(planned, unit.records)
        parts = planned.partitions if readers is None else min(readers, planned.partitions)
        label = 2 * presence if self.limits.installed[planned.release].reads_label else Fraction(0)
        return Odds(presence, label, 2 * presence * parts / planned.partitions)

    def most_odds(self, limits: CountsLimits, unit: PrivacyUnit) -> Odds:
        """Twice the bound for presence; 0 for the label if only masses are allowed."""
        label = any(self.limits.installed[name].reads_label for name in limits.release_kinds)
        return Odds(Fraction(1), Fraction(2 * label), Fraction(2))

    def precision(self, planned: PlannedCounts, unit: PrivacyUnit) -> str:
        """The precision of each number, in words."""
        kind, parts, width = self.limits.installed[planned.release], planned.partitions, planned.law.width(MISSES)
        within = f"{width} records" if kind.of_steps is None else f"what {width / planned.steps:.3g} records can add"
        return (
            f"{kind.words} in each group of {f'{parts} groupings' if parts > 1 else '1 grouping'} of all records, each "
            f"number right within {within} in {OFTEN}; scale {planned.scale.fraction} of {planned.release}"
        )

    def read_body(self, data: bytes, turn: Turn, terms: KindTerms) -> CountsBody:
        """Decode and check a body against its planned query, the schema and the limits.

        Raises RemoteProtocolError: MALFORMED, NOT_IN_PLAN, BAD_QUERY or OVER_LIMIT.
        """
        planned: PlannedCounts = turn.planned
        schema, limits = terms.schema, terms.limits
        outline = decode(data, _Outline, field="body")
        if len(outline.partitions) != planned.partitions:
            raise RemoteProtocolError(RefusalCode.NOT_IN_PLAN, "body.partitions", f"exactly {planned.partitions}")
        kind = self.limits.installed[planned.release]
        self._check_label(planned, schema, RefusalCode.BAD_QUERY, "plan.queries.release")
        hypothesis: Hypothesis | None = decode(bytes(outline.hypothesis), _HYPOTHESIS, field="body")
        wants_hypothesis = kind.wants_hypothesis
        if wants_hypothesis is not None and wants_hypothesis != (hypothesis is not None):
            limit = f"{'a' if wants_hypothesis else 'no'} hypothesis with {planned.release}"
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.hypothesis", limit)
        if outline.most_squared_error is not None and not kind.ranged:
            raise RemoteProtocolError(RefusalCode.BAD_QUERY, "body.most_squared_error", f"none with {planned.release}")
        checked = self._read_partitions(outline.partitions, planned.release, schema, limits)
        if hypothesis is not None:
            _check_parameters(hypothesis, limits, "body.hypothesis")
            hypothesis.check(schema, "body.hypothesis")
        body = CountsBody(checked.partitions, hypothesis, outline.most_squared_error)
        body.__dict__.update(_sizes=(schema, checked.sizes), _work=checked.work)
        return body

    def _read_partitions(
        self, raw: Sequence[msgspec.Raw], release: str, schema: Schema, limits: CountsLimits
    ) -> "_CheckedPartitions":
        """The checked partitions of a body. One that is repeated is one object, which is read and checked once.

        Raises RemoteProtocolError (MALFORMED, BAD_QUERY, OVER_LIMIT).
        """
        if sum(memoryview(part).nbytes for part in raw) <= MOST_AT_ONCE:
            return _short_partitions(self, len(raw), b"".join(map(bytes, raw)), release, schema, limits)
        return self._check_partitions(map(cache(self._partition), map(bytes, raw)), release, schema, limits)

    def _check_partitions(
        self, partitions: Iterable[Partition], release: str, schema: Schema, limits: CountsLimits
    ) -> "_CheckedPartitions":
        kind = self.limits.installed[release]
        columns = kind.columns(schema)
        most_cells = limits.cells * _PAIR // max(columns, _PAIR)
        cells = 0
        checked, sizes = [], []
        size_of: dict[int, int] = {}  # identity of a checked partition -> its size
        for index, partition in enumerate(partitions):
            where = f"body.partitions[{index}]"
            is_new = id(partition) not in size_of
            if is_new and isinstance(partition, ScoreBins):
                _check_parameters(partition.hypothesis, limits, f"{where}.hypothesis")
            sizes.append(partition.cell_count(schema) if is_new else size_of[id(partition)])
            cells += sizes[-1]
            if cells > most_cells:
                # Before the check, which takes time in the number of cells.
                numbers = f" of {columns} numbers" if columns > _PAIR else ""
                raise RemoteProtocolError(
                    RefusalCode.OVER_LIMIT, "body.partitions", f"at most {most_cells} cells{numbers}"
                )
            checked.append(partition)
            if not is_new:
                continue  # what is the same is checked once
            size_of[id(partition)] = sizes[-1]
            partition.check(schema, where)
            if not kind.reads_outcomes and isinstance(partition, CrossBins) and partition.beyond_attributes(schema):
                # A steward who does not allow outcome_counts, or approves of another release, has agreed to none.
                limit = "attributes alone with this release; ask outcome_counts for a table of outcomes or the label"
                raise RemoteProtocolError(RefusalCode.BAD_QUERY, where, limit)
        return _CheckedPartitions(tuple(checked), tuple(sizes), _work_of(checked))

    def read_short(
        self, count: int, data: bytes, release: str, schema: Schema, limits: CountsLimits
    ) -> "_CheckedPartitions":
        """The checked partitions of a short body, read at once; where one of them is wrong, read one by one."""
        content = _array_head(count) + data
        parts = list(map(bytes, msgspec.msgpack.decode(content, type=tuple[msgspec.Raw, ...])))
        partitions: Iterable[Partition] = map(cache(self._partition), parts)
        if len(set(parts)) == len(parts):
            with suppress(RemoteProtocolError):
                partitions = decode(content, self.partitions, field="body")
        return self._check_partitions(partitions, release, schema, limits)

    def _partition(self, data: bytes) -> Partition:
        """One partition. Raises RemoteProtocolError(MALFORMED); NotInstalledError where its type is unknown."""
        try:
            partition: Partition = decode(data, self.partition, field="body")
        except RemoteProtocolError as error:
            name = _tag_of(data)
            if not name or name in {kind.__struct_config__.tag for kind in get_args(self.partition)}:
                raise
            raise NotInstalledError(error.code, error.field, f"partition {name}") from None
        return partition

    def work(self, question: Question, round_size: int | None) -> int:
        """Work of a query from its bytes to the stored reply, in the unit of `protocol.limits`.

        It depends on question and card only, so a refusal for too much work reveals nothing about records. A round size
        of None stands for `ASSUMED_ROUND_SIZE`.
        """
        planned: PlannedCounts = question.turn.planned
        body: CountsBody = question.body
        kind = self.limits.installed[planned.release]
        counting = SUM_COST if kind.of_steps is not None else CLASS_COST if kind.by_class else COUNT_COST
        per_record = RECORD_COST + body.multiply_adds() + counting * len(body.partitions)
        once = QUERY_ONCE + body.multiply_adds_once()
        noise = NOISE_ONCE if planned.scale.fraction >= EASY_SCALE else SMALL_SCALE_NOISE_ONCE
        once += noise * self.length(question)
        return once + per_record * (round_size or ASSUMED_ROUND_SIZE)

    def release_bytes(self, question: Question) -> int:
        """Eight bytes for each number, and a frame."""
        return RELEASE_FRAME_BYTES + 8 * self.length(question)

    def length(self, question: Question) -> int:
        """Number of numbers in the release: a row of columns for each cell."""
        body: CountsBody = question.body
        return body.cells(question.schema) * self._columns(question)

    def _columns(self, question: Question) -> int:
        return self.limits.installed[question.turn.planned.release].columns(question.schema)

    def read_release(self, data: bytes, question: Question) -> NDArray[np.number[Any]]:
        """All released numbers, cell by cell, int64.

        Raises RemoteProtocolError: `data` is not a CountsRelease, or not of the shape asked for.
        """
        release = decode(data, CountsRelease, field="release")
        return np.frombuffer(self._checked(release.counts, release.ratios, question), "<i8")

    def _checked(self, numbers: bytes, unused: bytes, question: Question) -> bytes:
        if len(numbers) != 8 * self.length(question) or unused:
            shape = f"{question.body.cells(question.schema)} x {self._columns(question)} numbers"
            raise RemoteProtocolError(RefusalCode.MALFORMED, "release", shape)
        return numbers


class _CheckedPartitions(NamedTuple):
    partitions: tuple[Partition, ...]
    sizes: tuple[int, ...]  # cells of each
    work: tuple[int, int]  # see `_work_of`


@lru_cache(maxsize=MOST_SHORT)
def _short_partitions(
    kind: Counts, count: int, data: bytes, release: str, schema: Schema, limits: CountsLimits
) -> _CheckedPartitions:
    """See `Counts.read_short`. A learner asks about the same partitions in every round, and at every curator."""
    return kind.read_short(count, data, release, schema, limits)


def _array_head(count: int) -> bytes:
    """The bytes before an array's values; each of no values has one byte."""
    return encode([None] * count)[:-count]


class _Tag(msgspec.Struct):
    type: str


def _tag_of(data: bytes) -> str:
    """The type that a partition's bytes name; "" where they name none."""
    try:
        return msgspec.msgpack.decode(data, type=shared_type(_Tag)).type[:100]
    except msgspec.MsgspecError:
        return ""


def _check_parameters(hypothesis: Hypothesis, limits: CountsLimits, field: str) -> None:
    if hypothesis.parameter_count() > limits.parameters:
        raise RemoteProtocolError(RefusalCode.OVER_LIMIT, field, f"at most {limits.parameters} parameters")


COUNTS = Counts()
