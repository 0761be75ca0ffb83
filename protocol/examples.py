"""What a query kind gives its auditors: questions to attack it with, and values at which records are awkward.

An audit names no kind. It takes these questions, invents records under their schemas, and plays on what is released.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.envelopes import SigningKey
from protocol.schema import Schema

Value = float | str | None
"""What a cell of a table of records holds."""


@dataclass(frozen=True)
class Asked:
    """A planned query and the encoded body of each of its turns, in order; none where somebody must lead it."""

    planned: Any
    bodies: tuple[bytes, ...]


class Seen(NamedTuple):
    """All that whoever asks, and who colludes with them, saw of one query.

    Attributes:
        told: (n, k) numbers, the same for the same records but for noise.
        hidden: (n, j) whole numbers under masks that are drawn anew each time, and that nobody among them can take off.
    """

    told: NDArray[np.number[Any]]
    hidden: NDArray[np.int64]


@dataclass(frozen=True)
class Asking:
    """One query as it is led.

    Attributes:
        copies: how many times it asks its question.
        query: its index in the plan.
        learner: public key of who asks.
        entropy: n -> n random bytes.
    """

    copies: int
    query: int
    learner: bytes
    entropy: Callable[[int], bytes]


Lead = Generator[Mapping[int, bytes], Mapping[int, bytes], Seen]
"""Yields what is asked in each turn, by the curator's place in `Company.curators`, and is sent what these released."""


@dataclass(frozen=True)
class Company:
    """Those with whom a curator answers a query whose turns depend on each other, and on others' answers.

    Attributes:
        curators: keys of those who answer as they should, by the registered answerer; the first has the records that
            are attacked. They are nobody's: everybody can read them here.
        lead: how the query is led by a learner that colludes with all others whom the plan names.
    """

    curators: tuple[SigningKey, ...]
    lead: Callable[[Asking], Lead]


@dataclass(frozen=True)
class Example:
    """A question that is hard to answer privately.

    Attributes:
        about: what makes it hard, in words.
        schema: of the records.
        ask: (n, 1 to `copies`) -> the question, asked n times over within one query: all numbers released in it are n
            parts of equal length, one after the other, each with noise of its own, each at an n-th of the query's cost.
        copies: 1 where a query cannot ask the same several times over.
        most_records_per_unit: contribution bound c under which it is attacked; units are named where it is above 1.
        values: of an attribute or the label -> values worth trying beside bounds and levels: edges, ties.
        limits: of the kind, for a curator that is asked; what is not said is the kind's default.
        pairs: sets of neighbours that are drawn to find one that matters; None: as many as an audit tries.
        company: who else answers, and who leads; None where a curator answers alone and `ask` has all bodies.
        draws: most draws from either set, where each takes many calls of exact noise; None: as many as an audit draws.
    """

    about: str
    schema: Schema
    ask: Callable[[int], Asked]
    copies: int = 1
    most_records_per_unit: int = 1
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    pairs: int | None = None
    company: Company | None = None
    draws: int | None = None
