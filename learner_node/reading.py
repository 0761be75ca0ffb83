"""What a learner does with the answers of a query kind. No kind is named here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.kinds import QueryKind, Turn
from protocol.records import Records
from protocol.schema import Schema


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


@dataclass(frozen=True)
class Reader:
    """How a learner reads a query kind.

    Attributes:
        kind: which.
        read: (release body, what was asked, turn, schema) -> answer; RemoteProtocolError for a wrong shape or for what
            is no number.
        pool: several curators' answers to the same question -> what they say together.
        complaint: (answer, declared round size) -> why one curator cannot have given it; empty where it can.
        rehearse: (body, turn, n invented records, int64 (n, 2) how many private ones of label 0 and of label 1 are
            like each, curators, numpy Generator) -> the pooled answer that curators with these together would give.
        precision: (body, turn, schema, target records, curators) -> of their pooled answers.
    """

    kind: QueryKind
    read: Callable[[bytes, Any, Turn, Schema], Any]
    pool: Callable[[Sequence[Any]], Any]
    complaint: Callable[[Any, int | None], str]
    rehearse: Callable[[Any, Turn, Records, NDArray[np.int64], int, np.random.Generator], Any]
    precision: Callable[[Any, Turn, Schema, int, int], Precision]
