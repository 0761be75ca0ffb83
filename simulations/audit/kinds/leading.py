"""How a question is led through its turns, by whoever asks: of one curator, or of several together."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.examples import Asking, Example, Lead, Seen
from protocol.kinds import QueryKind, Turn
from protocol.schema import Schema

Answer = Callable[[int, int, bytes], bytes]
"""(number of the turn, place of the curator, body) -> what it releases."""
Reads = Callable[[bytes, Any, Turn, Schema], NDArray[np.number[Any]]]
"""`QueryKind.numbers`."""


def curators_of(example: Example) -> int:
    """How many curators answer an example by the registered answerer."""
    return 1 if example.company is None else len(example.company.curators)


def lead_of(kind: QueryKind, example: Example, asking: Asking) -> Lead:
    """Who leads a question: the example's own company, or the bodies that it has, asked in order.

    Raises:
        ConfigurationError: the kind does not say which numbers it releases.
    """
    if kind.numbers is None:
        raise ConfigurationError(f"query kind {kind.name!r} does not say which numbers it releases")
    if example.company is not None:
        return example.company.lead(asking)
    return _in_order(kind, kind.numbers, example, asking)


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


def _in_order(kind: QueryKind, numbers: Reads, example: Example, asking: Asking) -> Lead:
    asked, limits = example.ask(asking.copies), kind.limits()
    parts = []
    for number, data in enumerate(asked.bodies):
        told = yield {0: data}
        turn = Turn(asked.planned, asking.query, number)
        body = kind.read_body(data, turn, example.schema, limits)
        parts.append(numbers(told[0], body, turn, example.schema).reshape(asking.copies, -1))
    return Seen(np.hstack(parts), np.empty((asking.copies, 0), np.int64))
