"""How a question is led through its turns, by whoever asks: of one curator, or of several together."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.examples import Asked, Asking, Example, Lead, Seen
from protocol.query_kind import QueryKind, Turn
from protocol.schema import Schema

Answer = Callable[[int, int, bytes], bytes]
"""(number of the turn, place of the curator, body) -> what it releases."""
Reads = Callable[[bytes, Any, Turn, Schema], NDArray[np.number[Any]]]
"""`QueryKind.numbers`."""
Body = Callable[[Turn, bytes], Any]
"""(turn, what was asked in it) -> the checked body."""


def curators_of(example: Example) -> int:
    """How many curators answer an example by the registered answerer."""
    return 1 if example.company is None else len(example.company.curators)


def lead_of(kind: QueryKind, example: Example, asking: Asking, body: Body | None = None) -> Lead:
    """Who leads a question: the example's own company, or the bodies that it has, asked in order.

    Args:
        kind: of the question.
        example: the question.
        asking: how it is asked.
        body: reads a turn's body, for who has read it before; None reads it anew.

    Raises:
        ConfigurationError: the kind does not say which numbers it releases.
    """
    if kind.numbers is None:
        raise ConfigurationError(f"query kind {kind.name!r} does not say which numbers it releases")
    if example.company is not None:
        return example.company.lead(asking)
    limits = kind.limits()
    read = body or (lambda turn, data: kind.read_body(data, turn, example.schema, limits))
    return _in_order(kind.numbers, example, asking, read)


def led(lead: Lead, answer: Answer) -> Seen:
    """Go through all turns; what was seen of them."""
    number, bodies = 0, next(lead)
    while True:
        told = {place: answer(number, place, body) for place, body in bodies.items()}
        try:
            number, bodies = number + 1, lead.send(told)
        except StopIteration as end:
            seen: Seen = end.value
            return seen


@lru_cache(maxsize=4)
def _asked(ask: Callable[[int], Asked], copies: int) -> Asked:
    """A long question is put together once, not for every draw."""
    return ask(copies)


def _in_order(numbers: Reads, example: Example, asking: Asking, read: Body) -> Lead:
    asked = _asked(example.ask, asking.copies)
    parts = []
    for number, data in enumerate(asked.bodies):
        told = yield {0: data}
        turn = Turn(asked.planned, asking.query, number)
        parts.append(numbers(told[0], read(turn, data), turn, example.schema).reshape(asking.copies, -1))
    return Seen(np.hstack(parts), np.empty((asking.copies, 0), np.int64))
