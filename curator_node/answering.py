"""What an answerer of a query kind is told, and what it gives back. No kind is named here."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from curator_node.dataset import PrivateDataset
from curator_node.mechanisms import NoiseSource, Stamp
from protocol.kinds import Past, QueryKind, Turn


@dataclass(frozen=True)
class Question:
    """A checked question, after it was charged.

    Attributes:
        body: as the kind read it.
        turn: of the plan.
        past: the study's answered turns of this kind, in order; empty unless what the kind charges depends on them.
        state: what the answerer last kept of this study; empty at first.
        stamp: which answer its noise is for.
    """

    body: Any
    turn: Turn
    past: tuple[Past, ...]
    state: bytes
    stamp: Stamp


@dataclass(frozen=True)
class Answered:
    """An answer.

    Attributes:
        release: the encoded release body.
        state: what to keep of this study for its next turns, stored together with the reply; None keeps what is there.
    """

    release: bytes
    state: bytes | None = None


@dataclass(frozen=True)
class Answerer:
    """How a curator answers a query kind.

    Attributes:
        kind: which.
        answer: must not fail, nor take another path, because of a record.
    """

    kind: QueryKind
    answer: Callable[[Question, PrivateDataset, NoiseSource], Answered]
