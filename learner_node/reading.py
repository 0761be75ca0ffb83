"""What a learner does with the answers of a query kind. No kind is named here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.kinds import QueryKind, Turn
from protocol.schema import Schema


@dataclass(frozen=True)
class Reader:
    """How a learner reads a query kind.

    Attributes:
        kind: which.
        read: (release body, what was asked, turn, schema) -> answer; RemoteProtocolError for a wrong shape or for what
            is no number.
        pool: several curators' answers to the same question -> what they say together.
        complaint: (answer, declared round size) -> why one curator cannot have given it; empty where it can.
    """

    kind: QueryKind
    read: Callable[[bytes, Any, Turn, Schema], Any]
    pool: Callable[[Sequence[Any]], Any]
    complaint: Callable[[Any, int | None], str]
