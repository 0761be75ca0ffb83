"""What a learner does with the answers of a query kind. No kind is named here."""

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
    """What curators say together was not opened; the text says at which step, and names the curators concerned."""

    kind = "query"


@dataclass(frozen=True)
class Led:
    """What a learner knows as it begins to lead a query of several turns.

    Attributes:
        turn: the first of them.
        bodies: what the strategy asks, by curator's name; who is not among them is not asked.
        learner: its own public key.
        keys: the curators' public keys, by name.
        cards: theirs, by name.
        label: under which they sign.
        entropy: n -> n random bytes, the same again where another process goes on with the study; never for noise.
        decided: what is found by floats and decides how the study goes on, likewise.
    """

    turn: Turn
    bodies: Mapping[str, Any]
    learner: bytes
    keys: Mapping[str, bytes]
    cards: Mapping[str, Card]
    label: str
    entropy: Callable[[int], bytes]
    decided: Decide = as_found


@dataclass(frozen=True)
class Pooled:
    """What a query of several turns opened.

    Attributes:
        answer: what the curators say together.
        took_part: names of those that it is of, at least one.
        out: name of a curator that broke the protocol -> how; nothing more is asked there.
        stranded: name of a curator that did nothing wrong and could not go on without others -> why; likewise.
    """

    answer: Any
    took_part: tuple[str, ...]
    out: Mapping[str, str] = field(default_factory=dict)
    stranded: Mapping[str, str] = field(default_factory=dict)


Leading = Generator[Mapping[str, Any], Mapping[str, Any], Pooled]
"""Yields the body of the next turn for each curator that is to be asked, and is sent what those released that answered,
as `Reader.read` reads it. Returns what was opened; raises QueryFailedError where nothing can be."""


@dataclass(frozen=True)
class Precision:
    """How precise the pooled answers to a question will be, foreseen.

    Attributes:
        cells: of the question, all partitions together.
        scale: of the noise of one curator in one number, exact.
        count_error: standard error of the sum over curators of one released number, in records.
        records_per_cell: target records in the average cell of one partition.
        share_error: standard error of the share of one class in such a cell where it is 1/2, or of the mean of a
            numeric label in the middle of its range where labels are at its ends, as a share of the range; from noise
            and sampling, at most 1/2. None where the release does not tell it.
    """

    cells: int
    scale: Fraction
    count_error: float
    records_per_cell: float
    share_error: float | None


def not_foreseen(body: Any, turn: Turn, *_others: Any) -> NoReturn:  # noqa: ARG001
    """Of a query kind whose answers nobody can invent; ConfigurationError."""
    raise ConfigurationError(
        f"a study that asks queries of kind {turn.planned.kind!r} cannot be foreseen: there is no quote for it; run it "
        "on records of your own with expril simulate"
    )


@dataclass(frozen=True)
class Reader:
    """How a learner reads a query kind.

    Attributes:
        kind: which.
        read: (release body, question) -> answer; RemoteProtocolError for a wrong shape or for what is no number.
        pool: several curators' answers to the same question -> what they say together.
        complaint: (answer, declared round size) -> why one curator cannot have given it; empty where it can.
        rehearse: (body, turn, n invented records, int64 (n, 2) how many private ones of label 0 and of label 1 are
            like each, curators, numpy Generator) -> the pooled answer that curators with these together would give;
            raises ConfigurationError where studies of this kind cannot be foreseen.
        precision: (body, turn, schema, target records, curators) -> of their pooled answers; raises likewise.
        lead: how all turns of a query are taken together, where each follows from what all curators answered to the one
            before, and only what they say together is opened; None: every turn is a question of its own.
        opening: (what a strategy asks, the query's first turn) -> the first turn's body, to be held against a card.
    """

    kind: QueryKind
    read: Callable[[bytes, Question], Any]
    pool: Callable[[Sequence[Any]], Any]
    complaint: Callable[[Any, int | None], str]
    rehearse: Callable[[Any, Turn, Records, NDArray[np.int64], int, np.random.Generator], Any] = not_foreseen
    precision: Callable[[Any, Turn, Schema, int, int], Precision] = not_foreseen
    lead: Callable[[Led], Leading] | None = None
    opening: Callable[[Any, Turn], Any] = lambda body, turn: body  # noqa: ARG005


@dataclass(frozen=True)
class Round:
    """What was asked and who answered.

    Attributes:
        turn: of the plan; the first one, of a query of several turns that the learner leads.
        bodies: what was asked, by curator.
        answers: each curator's own; none where only what they say together was opened.
        alive: curators that answered all of it.
        pooled: what they say together, where only that was opened.
        took_part: curators that `pooled` is of; some of them may have dropped out later.
    """

    turn: Turn
    bodies: Mapping[str, Any]
    answers: Mapping[str, Any]
    alive: frozenset[str]
    pooled: Any = None
    took_part: tuple[str, ...] = ()


def questions(turns: Sequence[Turn], readers: Mapping[str, Reader]) -> tuple[Turn, ...]:
    """The turns of a plan with which a question begins: the first of a query that is led, else every one."""
    return tuple(turn for turn in turns if turn.number == 0 or readers[turn.planned.kind].lead is None)
