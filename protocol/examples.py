"""What a query kind gives its auditors: questions to attack it with, and values at which records are awkward.

An audit names no kind. It takes these questions, invents records under their schemas, and plays on what is released.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol.schema import Schema

Value = float | str | None
"""What a cell of a table of records holds."""


@dataclass(frozen=True)
class Asked:
    """A planned query and the encoded body of each of its turns, in order."""

    planned: Any
    bodies: tuple[bytes, ...]


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
    """

    about: str
    schema: Schema
    ask: Callable[[int], Asked]
    copies: int = 1
    most_records_per_unit: int = 1
    values: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
