"""The kinds of analyses, and how a file's tables become parts of a plan.

A new kind is one module under `learner_node/analyses` and one line in `PART_KINDS`. A kind's module is loaded when a
part of it is read: a study file without analyses loads none.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from learner_node.strategies import DEFAULT_STRATEGY
from protocol.errors import ConfigurationError
from protocol.mistakes import first_repeated
from protocol.rationals import Rational, parse_rational
from protocol.strict_toml import convert, suggest

if TYPE_CHECKING:
    from learner_node.analyses.part import Part

PART_KINDS: dict[str, str] = {
    "counts": "learner_node.analyses.counts:Counts",
    "regression": "learner_node.analyses.regression:Regression",
    "survival": "learner_node.analyses.survival:Survival",
    "effects": "learner_node.analyses.effects:Effects",
    "table_one": "learner_node.analyses.table_one:TableOne",
}
"""Tag of a part -> "module:class" of its struct."""


OF_MODELS: dict[str, Any] = {
    "source": "",
    "strategy": DEFAULT_STRATEGY,
    "options": {},
    "validate": None,
    "recalibrate": False,
}
"""Keys of a study's file or a scenario's learner that analyses leave at these defaults."""


def check_no_model(keys: Mapping[str, Any]) -> None:
    """Raise ConfigurationError: one of these values of `OF_MODELS` asks for a model, beside analyses."""
    for key, value in keys.items():
        if value != OF_MODELS[key]:
            raise ConfigurationError(
                f"{key} is of a model, and [[analyses]] are asked instead of one; leave one of them out, or write a "
                "file for each"
            )


def part_kind(kind: str) -> type[Any]:
    """The struct of a kind of part. Raises KeyError: there is none."""
    struct: type[Any] = resolve_name(PART_KINDS[kind])
    return struct


def read_parts(tables: Sequence[Mapping[str, Any]], *, where: str) -> "tuple[Part, ...]":
    """Parts of a plan from a file's `[[analyses]]` tables.

    Raises ConfigurationError: a kind is unknown, a key is misspelt, missing or wrong, or two parts have one name.
    """
    parts: list[Part] = []
    for number, table in enumerate(tables, 1):
        place = f"{where}: analyses[{number}]"
        kind = table.get("kind")
        if kind not in PART_KINDS:
            kinds = ", ".join(PART_KINDS)
            raise ConfigurationError(f"{place}: kind must be one of {kinds}{suggest(str(kind), list(PART_KINDS))}")
        parts.append(convert(dict(table), part_kind(kind), where=place))
    try:
        check_parts(parts)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
    return tuple(parts)


def check_parts(parts: "Sequence[Part]") -> None:
    """Raise ConfigurationError: there is no part, two have one name, or a weight is not positive."""
    if not parts:
        raise ConfigurationError("no analysis is asked for; name at least one")
    if again := first_repeated([part.name for part in parts]):
        raise ConfigurationError(f"two analyses have the name {again!r}; give each a name of its own")
    for part in parts:
        weight_of(part)


def weight_of(part: "Part") -> Fraction:
    """The weight of a part's share of epsilon. Raises ConfigurationError: it is no positive rational."""
    try:
        return parse_rational(part.weight.fraction if isinstance(part.weight, Rational) else part.weight)
    except ConfigurationError as error:
        raise ConfigurationError(f"analysis {part.name!r}: weight: {error}") from None
