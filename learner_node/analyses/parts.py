"""The kinds of analyses, and how a file's tables become parts of a plan.

A new kind is one module under `learner_node/analyses` and one line in `PART_KINDS`. A kind's module is loaded when a
part of it is read: a study file without analyses loads none.
"""

from collections.abc import Mapping, Sequence
from pkgutil import resolve_name
from typing import Any

from learner_node.analyses.part import Part
from protocol.errors import ConfigurationError
from protocol.mistakes import first_repeated
from protocol.strict_toml import convert, suggest

PART_KINDS: dict[str, str] = {}
"""Tag of a part -> "module:class" of its struct."""


def part_kind(kind: str) -> type[Any]:
    """The struct of a kind of part. Raises KeyError: there is none."""
    struct: type[Any] = resolve_name(PART_KINDS[kind])
    return struct


def read_parts(tables: Sequence[Mapping[str, Any]], *, where: str) -> tuple[Part, ...]:
    """Parts of a plan from a file's `[[analyses]]` tables.

    Raises ConfigurationError: a kind is unknown, a key is misspelt, missing or wrong, or two parts have one name.
    """
    parts = []
    for number, table in enumerate(tables, 1):
        place = f"{where}: analyses[{number}]"
        kind = table.get("kind")
        if kind not in PART_KINDS:
            kinds = ", ".join(PART_KINDS)
            raise ConfigurationError(f"{place}: kind must be one of {kinds}{suggest(str(kind), list(PART_KINDS))}")
        part: Part = convert(dict(table), part_kind(kind), where=place)
        parts.append(part)
    if again := first_repeated([part.name for part in parts]):
        raise ConfigurationError(f"{where}: two analyses have the name {again!r}; give each a name of its own")
    return tuple(parts)
