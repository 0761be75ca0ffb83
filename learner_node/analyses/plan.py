"""One plan for all parts of a study: epsilon is split exactly, and tables of equal noise share a query.

A unit of c records moves the counts of one table by c. So a query of m tables at scale c / e costs m e, whatever m is:
tables of equal e share a query, which keeps messages and the turns of secure sums few, and changes no noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np

from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.noisy_table import Axis, NoisyTable, TableQuestion
from learner_node.analyses.part import Part
from learner_node.analyses.parts import weight_of
from learner_node.analyses.variables import variable_of
from learner_node.kinds.counts import CountsAnswer, tightest
from learner_node.strategies.base import summed
from learner_node.study.plan import counts_limits, secure_pool
from learner_node.study.pooling import Pooling
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds.counts import CountsBody, CountsLimits, PlannedCounts
from protocol.messages import Card
from protocol.plans import Plan
from protocol.query_kind import Kinds
from protocol.rationals import MOST, Rational
from protocol.schema import Schema

GRID = 10**6
"""Where exact shares of epsilon do not fit the wire, they are rounded down to multiples of 1 / GRID."""

_MOST_ANSWER = 2.0**53


@dataclass(frozen=True)
class Tables:
    """The tables of all parts, and the epsilon of each."""

    questions: tuple[tuple[TableQuestion, ...], ...]  # of each part, in the order of the parts
    epsilons: tuple[tuple[Fraction, ...], ...]  # of each table

    @property
    def costs(self) -> tuple[Fraction, ...]:
        """Exact epsilon of each part."""
        return tuple(sum(row, Fraction(0)) for row in self.epsilons)


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tables that one query asks: all of one release kind and epsilon."""

    release: str
    epsilon: Rational  # of each table
    tables: tuple[tuple[int, int], ...]  # (part, table within the part)
    body: CountsBody


class Draft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked, and of whom."""

    plan: Plan
    queries: tuple[Query, ...]  # in the order of the plan
    names: list[str]
    most_records_per_unit: int  # the largest among the curators that are asked
    left_out: dict[str, str] = {}


def questions_of(parts: Sequence[Part], schema: Schema) -> tuple[tuple[TableQuestion, ...], ...]:
    """The tables of each part. Raises ConfigurationError, which names the part; it depends on no record."""
    tables = []
    for part in parts:
        try:
            questions = tuple(part.questions(schema))
            _check(questions, schema)
        except ConfigurationError as error:
            raise ConfigurationError(f"analysis {part.name!r}: {error}") from None
        tables.append(questions)
    return tuple(tables)


def split(parts: Sequence[Part], schema: Schema, epsilon: Fraction, most: int) -> Tables:
    """Split epsilon by the parts' weights, and each part's share by its tables' weights.

    Shares are exact if scales and costs then fit the wire's 32 bits, else each is rounded down to a multiple of one
    millionth (coarser for a c above 4,294). So the costs never add up to more than `epsilon`.

    Args:
        parts: checked by `check_parts`.
        schema: of the cards.
        epsilon: of the whole plan.
        most: the largest contribution bound c among the curators that are asked.

    Raises:
        ConfigurationError: a part does not fit the schema, or epsilon is too small for so many tables.
    """
    questions = questions_of(parts, schema)
    total = sum((weight_of(part) for part in parts), Fraction(0))
    exact = []
    for part, tables in zip(parts, questions, strict=True):
        weights = [table.weight for table in tables]
        share = epsilon * weight_of(part) / total
        exact.append(tuple(share * weight / sum(weights, Fraction(0)) for weight in weights))
    if not _fit(exact, most):
        grid = min(GRID, MOST // (most * max(1, math.ceil(epsilon))))
        exact = [tuple(Fraction(math.floor(value * grid), grid) for value in row) for row in exact]
        if any(value == 0 for row in exact for value in row):
            count = sum(map(len, exact))
            raise ConfigurationError(f"epsilon {epsilon} is too small for {count} tables; ask for less, or spend more")
    return Tables(questions, tuple(exact))


def draft(tables: Tables, schema: Schema, cards: Mapping[str, Card], pooling: Pooling, kinds: Kinds) -> Draft:
    """The plan for exactly these curators. Raises ConfigurationError: they cannot be summed securely."""
    most = max(card.most_records_per_unit for card in cards.values())
    limits = tightest([counts_limits(pooling, card, kinds) for card in cards.values()])
    pool = secure_pool(pooling, cards)
    groups: dict[tuple[str, Fraction], list[tuple[int, int]]] = {}
    for part, questions in enumerate(tables.questions):
        for index, question in enumerate(questions):
            key = question.release(schema), tables.epsilons[part][index]
            groups.setdefault(key, []).append((part, index))
    queries, planned = [], []
    for (release, epsilon), places in groups.items():
        for chunk in _chunks(places, tables, schema, limits):
            partitions = tuple(tables.questions[part][index].partition for part, index in chunk)
            body = CountsBody(partitions=partitions, hypothesis=None)
            queries.append(Query(release, Rational.of(epsilon), tuple(chunk), body))
            scale = Rational.of(Fraction(most) / epsilon)
            query = PlannedCounts(release=release, partitions=len(chunk), scale=scale)
            planned.append(query if pool is None else summed(query, pool))
    return Draft(Plan.of(planned), tuple(queries), list(cards), most)


def read_table(
    question: TableQuestion, answer: CountsAnswer, block: int, schema: Schema, most_records_per_unit: int
) -> NoisyTable:
    """One table of an answer, whose partition has number `block`."""
    axes = tuple(Axis.of(bins, schema) for bins in question.factors)
    # a float holds no larger whole numbers exactly; no honest count is near
    values = np.clip(answer.blocks[block][:, 0], -_MOST_ANSWER, _MOST_ANSWER)
    cells = int(np.prod([len(axis) for axis in axes], dtype=np.int64))
    outside = float(values[cells]) if len(values) > cells else None
    table = values[:cells].reshape(tuple(map(len, axes)))
    noise = NoiseLaw(float(answer.scale), float(answer.noises))
    return NoisyTable(axes, table, noise, most_records_per_unit, answer.sites, outside)


def _check(questions: Sequence[TableQuestion], schema: Schema) -> None:
    if not questions:
        raise ConfigurationError("it asks for no table")
    for question in questions:
        for name in question.partition.variables():
            variable_of(schema, name)
        try:
            question.partition.check(schema, "table")
        except RemoteProtocolError as error:
            raise ConfigurationError(f"{error.field} needs {error.limit}") from None


def _fit(epsilons: Sequence[Sequence[Fraction]], most: int) -> bool:
    """Whether scales, costs, every partial sum of costs and the total take at most 32 bits at any bound up to most."""
    values = [value for row in epsilons for value in row]
    scales = [most / value for value in values]
    common = math.lcm(*(value.denominator for value in values)) * max(1, math.ceil(sum(values)))
    # At a curator of a smaller bound, costs are multiples of 1 / (common most), and at most the total.
    return common * most <= MOST and all(max(scale.numerator, scale.denominator) <= MOST for scale in scales)


def _chunks(
    places: Sequence[tuple[int, int]], tables: Tables, schema: Schema, limits: CountsLimits
) -> list[list[tuple[int, int]]]:
    """The tables in order, in as few groups as the limits on partitions and cells allow."""
    chunks: list[list[tuple[int, int]]] = []
    cells = 0
    for part, index in places:
        size = tables.questions[part][index].partition.cell_count(schema)
        if not chunks or len(chunks[-1]) >= limits.partitions or cells + size > limits.cells:
            chunks.append([])
            cells = 0
        chunks[-1].append((part, index))
        cells += size
    return chunks
