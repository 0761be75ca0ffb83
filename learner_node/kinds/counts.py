"""Reads `counts` releases into arrays, of one curator or summed over several."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from learner_node.study.cards import FALSE_ALARM, GROWTH, MOST_RECORDS
from learner_node.study.reading import Precision, Reader
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS, counts
from protocol.kinds.counts import CountsBody, CountsLimits
from protocol.messages import Card
from protocol.noise import DiscreteLaplace
from protocol.query_kind import Kinds, Question, Turn
from protocol.records import Records
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema

_TELL_SHARES = ("error_correct", "class_counts", "label_total")


@dataclass(frozen=True)
class CountsAnswer:
    """Noisy numbers of one query."""

    # what was asked: its partitions are those to read `values` with. Where another process asked, they are not what
    # would be drawn now.
    body: CountsBody
    values: NDArray[np.float64]  # (sum of cell counts, columns) float64
    sizes: tuple[int, ...]  # cell count of each partition
    release: str  # the release kind
    scale: Fraction  # of one discrete Laplace noise
    sites: int = 1  # number of curators whose records are counted
    # number of independent noises summed in each value: one for each curator, or what the shares of a secure sum amount
    # to, which need not be a whole number
    noises: float = 1
    steps: int = 1  # whole numbers that a record adds to a cell; 1 but for release kinds of a numeric label

    @property
    def blocks(self) -> list[NDArray[np.float64]]:
        """`values` per partition."""
        return np.split(self.values, np.cumsum(self.sizes)[:-1])

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in one value."""
        return DiscreteLaplace(self.scale).variance(self.noises)


def read(data: bytes, question: Question) -> CountsAnswer:
    """Decode a release body. Raises RemoteProtocolError: it is no CountsRelease, or has another shape than asked."""
    planned, body, schema = question.turn.planned, question.body, question.schema
    sizes = body.sizes(schema)
    columns = RELEASE_KINDS[planned.release].columns(schema)
    values = counts.COUNTS.read_release(data, question).astype(np.float64).reshape(-1, columns)
    return CountsAnswer(body, values, sizes, planned.release, planned.scale.fraction, steps=planned.steps)


def add(answers: Sequence[CountsAnswer]) -> CountsAnswer:
    """The sum of several curators' answers to the same query."""
    first = answers[0]
    values = np.sum([answer.values for answer in answers], axis=0)
    sites, noises = (sum(getattr(answer, name) for answer in answers) for name in ("sites", "noises"))
    return replace(first, values=values, sites=sites, noises=noises)


def complaint_about(answer: CountsAnswer, round_size: int | None) -> str:
    """Say why a curator with so many records cannot have given this answer; "" if it can have.

    Every record is in one cell of each partition. So a partition's counts are non-negative and sum to the number of
    records, up to noise; signed counts lie between minus and plus that number. Noise bounds apply to each value and
    each partition's total. An honest curator that declares at least 1 / `GROWTH` of its records violates any of them
    with probability at most `FALSE_ALARM`. There is no lower bound but 0: a curator with too few records brings little
    and harms nobody.

    `answer` comes from one curator. `round_size` is its declared number of records; None means `MOST_RECORDS`.
    """
    excess = beyond(answer, MOST_RECORDS if round_size is None else round_size)
    if excess is None:
        return ""
    declared = "which no curator holds" if round_size is None else f"and its card declares {round_size}"
    return f"its answer counts {excess.records:.3g} records in {excess.where}, {declared}"


class Beyond(NamedTuple):
    """An impossibly large count, in records, and its place."""

    records: float
    where: str


def beyond(answer: CountsAnswer, declared: int) -> Beyond | None:
    """A count in an answer that is too large for the declared number of records; see `complaint_about`."""
    most = declared * GROWTH * answer.steps
    least = -most if answer.release == "signed_error" else 0
    law = DiscreteLaplace(answer.scale)
    # Half of the rate for values, half for totals; each of both sides.
    value_noise = law.bound(FALSE_ALARM / (4 * max(answer.values.size, 1)), answer.noises)
    if answer.values.size and (answer.values.max() > most + value_noise or answer.values.min() < least - value_noise):
        largest = float(answer.values.flat[int(np.abs(answer.values).argmax())])
        return Beyond(largest / answer.steps, "a cell")
    for block in answer.blocks:
        noise = law.bound(FALSE_ALARM / (4 * len(answer.sizes)), block.size * answer.noises)
        total = float(block.sum())
        if not least - noise <= total <= most + noise:
            return Beyond(total / answer.steps, "all cells together")
    return None


def rehearse(
    body: CountsBody, turn: Turn, records: Records, tally: NDArray[np.int64], sites: int, rng: np.random.Generator
) -> CountsAnswer:
    """Simulate the curators' answer on invented records, so that the noise needs no secure source.

    Raises ConfigurationError: the release is not private as claimed, or not about two classes.
    """
    exact = exact_answer(body, turn, records, tally)
    noise = turn.planned.law.simulate(rng, (sites, *exact.values.shape)).sum(axis=0)
    return replace(exact, values=exact.values + noise, sites=sites, noises=sites)


def exact_answer(body: CountsBody, turn: Turn, records: Records, tally: NDArray[np.int64]) -> CountsAnswer:
    """The simulated answer of one curator without noise."""
    planned = turn.planned
    kind = RELEASE_KINDS.get(planned.release)
    if kind is None or kind.of_errors is None:
        raise ConfigurationError(
            f"{planned.release} is not private or not about two classes; a quote is for plans that are both"
        )
    # Without a hypothesis all are counted as correct.
    predictions = np.zeros(len(tally), np.bool_) if body.hypothesis is None else body.hypothesis.predict(records)
    errors = np.zeros(len(tally)) if body.hypothesis is None else np.where(predictions, tally[:, 0], tally[:, 1])
    sizes = tuple(partition.cell_count(records.schema) for partition in body.partitions)
    blocks = []
    for partition, size in zip(body.partitions, sizes, strict=True):
        cells = partition.cells(records)
        wrong, all_there = (
            np.bincount(cells, weights, minlength=size).astype(np.int64) for weights in (errors, tally.sum(axis=1))
        )
        blocks.append(kind.of_errors(wrong, all_there - wrong))
    values = np.concatenate(blocks).astype(np.float64)
    return CountsAnswer(body, values, sizes, planned.release, planned.scale.fraction)


def precision(body: CountsBody, turn: Turn, schema: Schema, target_size: int, sites: int) -> Precision:
    """Expected precision of the answer. Errors of a numeric label are in records and in shares of its range."""
    return precision_with(turn.planned.law.variance(sites), body, turn, schema, target_size)


def precision_with(variance: float, body: CountsBody, turn: Turn, schema: Schema, target_size: int) -> Precision:
    """`precision` for noise of this variance in each pooled number."""
    planned, cells = turn.planned, body.cells(schema)
    deviation = float(np.sqrt(variance)) / planned.steps
    records = target_size * len(body.partitions) / cells
    share_error = None
    if planned.release in _TELL_SHARES:
        # At 1/2 the noise of a share s = n1 / (n1 + n0) is that of (1 - s) n1 - s n0, over all columns but its own.
        columns = RELEASE_KINDS[planned.release].columns(schema)
        share_error = float(min(0.5, np.sqrt(columns * deviation**2 / 4 + records / 4) / records))
    return Precision(cells, planned.scale.fraction, deviation, records, share_error)


def limits_of(card: Card, kind: str = counts.COUNTS.name, kinds: Kinds = QUERY_KINDS) -> CountsLimits:
    """A curator's limits on counts asked by query kind `kind`; the defaults if it does not allow them."""
    return allowed_by(card, kind, kinds) or CountsLimits()


def allowed_by(card: Card, kind: str, kinds: Kinds = QUERY_KINDS) -> CountsLimits | None:
    """A curator's limits on counts asked by query kind `kind`; None if it does not allow them."""
    try:
        limits: CountsLimits = kinds.limits(card.limits, kind)
    except RemoteProtocolError:
        return None
    return limits


def tightest(limits: Sequence[CountsLimits]) -> CountsLimits:
    """The limits that satisfy all of the given ones."""
    first, *rest = (item.release_kinds for item in limits)
    return msgspec.structs.replace(
        limits[0],
        release_kinds=tuple(kind for kind in first if all(kind in kinds for kinds in rest)),
        cells=min(item.cells for item in limits),
        partitions=min(item.partitions for item in limits),
        parameters=min(item.parameters for item in limits),
    )


COUNTS = Reader(
    kind=counts.COUNTS, read=read, pool=add, complaint=complaint_about, rehearse=rehearse, precision=precision
)
