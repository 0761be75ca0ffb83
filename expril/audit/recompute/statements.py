"""Statements of a JSON file for people, compared leaf by leaf with what signed evidence gives.

What is expected has the file's own form: objects, and at their leaves the values that the evidence gives, or `OneOf`
several. A key that is not expected is a fault, too: nothing here shows whether it is true.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from expril.audit.recompute.entries import as_text
from protocol.errors import printable
from simulations.report.budget import exact


@dataclass(frozen=True)
class OneOf:
    """Several values, each of which fits the evidence."""

    values: tuple[Any, ...]


ANYTHING = OneOf(())
"""What nothing here shows, and is told."""


def differing_leaves(stated: Any, expected: Any, place: str = "") -> Iterator[str]:
    """Yield a sentence for each leaf that is another than expected, is missing, or is not expected.

    `place`: where `stated` stands in its file, for people.
    """
    if isinstance(expected, Mapping):
        if not isinstance(stated, Mapping):
            yield f"{place or 'it'} is not as it is written"
            return
        for key in stated:
            if key not in expected:
                yield f"{_below(place, key)} is stated, and nothing here shows it"
        for key, value in expected.items():
            if key in stated:
                yield from differing_leaves(stated[key], value, _below(place, key))
            else:
                yield f"{_below(place, key)} is missing, which is {_text(value)}"
        return
    if expected is ANYTHING:
        return
    values = expected.values if isinstance(expected, OneOf) else (expected,)
    if not any(_equal(stated, value) for value in values):
        yield f"{place} is {_text(stated)}, and the evidence gives {' or '.join(map(_text, values))}"


def _below(place: str, key: object) -> str:
    name = printable(str(key), 100)
    return f"{place}, {name}" if place else name


def _equal(stated: object, value: object) -> bool:
    if isinstance(value, Fraction):
        try:
            return isinstance(stated, str) and exact(stated) == value
        except ValueError:
            return False
    return type(stated) is type(value) and stated == value


def _text(value: object) -> str:
    if isinstance(value, Fraction):
        return as_text(value)
    if isinstance(value, OneOf):
        return " or ".join(map(_text, value.values))
    if isinstance(value, str):
        return printable(value, 100)
    return "nothing" if value is None else "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"
