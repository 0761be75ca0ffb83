"""Reads the answers of a query kind. This interface names no kind."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from learner_node.study.decisions import Decide, as_found
from protocol.errors import ConfigurationError, ExprilError
from protocol.messages import Card
from protocol.query_kind import QueryKind, Question, Turn
from protocol.records import Records
from protocol.schema import Schema


class QueryFailedError(ExprilError):
    """A joint answer could not be opened; the text names the step and the curators concerned."""

    kind = "query"


@dataclass(frozen=True)
class LeadContext:
    """What a learner knows at the start of a query of several turns."""

    turn: Turn  # the first of them
    bodies: Mapping[str, Any]  # what the strategy asks, by curator's name; who is not among them is not asked
    learner: bytes  # its own public key
    keys: Mapping[str, bytes]  # the curators' public keys, by name
    cards: Mapping[str, Card]  # theirs, by name
    label: str  # under which they sign
    # n -> n random bytes, the same again where another process goes on with the study; never for noise
    entropy: Callable[[int], bytes]
    decided: Decide = as_found  # what is found by floats and decides how the study goes on, likewise


@dataclass(frozen=True)
class Pooled:
    """What a query of several turns opened."""

    answer: Any  # what the curators say together
    took_part: tuple[str, ...]  # names of those that it is of, at least one
    # name of a curator that broke the protocol -> how; nothing more is asked there
    out: Mapping[str, str] = field(default_factory=dict)
    # name of a curator that did nothing wrong and could not go on without others -> why; likewise
    stranded: Mapping[str, str] = field(default_factory=dict)


Leading = Generator[Mapping[str, Any], Mapping[str, Any], Pooled]
"""A generator that yields the next turn's body for each curator to ask, and is sent the decoded releases of those that
answered. It returns what was opened, or raises QueryFailedError."""


@dataclass(frozen=True)
class Precision:
    """Expected precision of the pooled answers to a question."""

    cells: int  # of the question, all partitions together
    scale: Fraction  # of the noise of one curator in one number, exact
    count_error: float  # standard error of the sum over curators of one released number, in records
    records_per_cell: float  # target records in the average cell of one partition
    # standard error of the share of one class in such a cell where it is 1/2, or of the mean of a numeric label in the
    # middle of its range where labels are at its ends, as a share of the range; from noise and sampling, at most 1/2.
    # None where the release does not tell it.
    share_error: float | None


def not_foreseen(_body: Any, turn: Turn, *_rest: Any) -> NoReturn:
    """Raise ConfigurationError: the answers of this query kind cannot be simulated."""
    raise ConfigurationError(
        f"a study that asks queries of kind {turn.planned.kind!r} cannot be foreseen: there is no quote for it; run it "
        "on records of your own with expril simulate"
    )


@dataclass(frozen=True)
class Reader:
    """How a learner reads a query kind."""

    kind: QueryKind  # which
    # (release body, question) -> answer; RemoteProtocolError for a wrong shape or for what is no number
    read: Callable[[bytes, Question], Any]
    pool: Callable[[Sequence[Any]], Any]  # several curators' answers to the same question -> what they say together
    # (answer, declared round size) -> why one curator cannot have given it; empty where it can
    complaint: Callable[[Any, int | None], str]
    # (body, turn, n invented records, int64 (n, 2) how many private ones of label 0 and of label 1 are like each,
    # curators, numpy Generator) -> the pooled answer that curators with these together would give; raises
    # ConfigurationError where studies of this kind cannot be foreseen
    rehearse: Callable[[Any, Turn, Records, NDArray[np.int64], int, np.random.Generator], Any] = not_foreseen
    # (body, turn, schema, target records, curators) -> of their pooled answers; raises likewise
    precision: Callable[[Any, Turn, Schema, int, int], Precision] = not_foreseen
    # how all turns of a query are taken together, where each follows from what all curators answered to the one before,
    # and only what they say together is opened; None: every turn is a question of its own
    lead: Callable[[LeadContext], Leading] | None = None
    # (what a strategy asks, the query's first turn) -> the first turn's body, to be held against a card
    opening: Callable[[Any, Turn], Any] = lambda body, _turn: body
    # answer -> what JSON can hold, for a study that asks this kind without a strategy; None shows it field by field
    show: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Round:
    """The questions and answers of one round."""

    turn: Turn  # of the plan; the first one, of a query of several turns that the learner leads
    bodies: Mapping[str, Any]  # what was asked, by curator
    answers: Mapping[str, Any]  # each curator's own; none where only what they say together was opened
    alive: frozenset[str]  # curators that answered all of it
    pooled: Any = None  # what they say together, where only that was opened
    took_part: tuple[str, ...] = ()  # curators that `pooled` is of; some of them may have dropped out later


def questions(turns: Sequence[Turn], readers: Mapping[str, Reader]) -> tuple[Turn, ...]:
    """The turns that begin a question: of a query that the learner leads only the first, of any other every turn."""
    return tuple(turn for turn in turns if turn.number == 0 or readers[turn.planned.kind].lead is None)
