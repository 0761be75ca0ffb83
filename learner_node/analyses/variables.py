"""Bins and filters as an asker writes them, made into the partition's own; they depend on the public schema alone."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from learner_node.analyses.noisy_table import MISSING, OTHER
from protocol.errors import ConfigurationError
from protocol.partitions.cross_bins import Range
from protocol.partitions.feature_bins import FeatureBins
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from protocol.strict_toml import suggest

BINS = 10
"""Bins of a number, about, if the asker states none."""
MOST_BINS = 200
_STEPS = (1.0, 2.0, 2.5, 5.0)


class Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"low": "from", "high": "below"}):
    """A range of a number: from `low` up to, but without, `high`. An end that is left out is open."""

    low: float | None = None
    high: float | None = None


Condition = str | tuple[str | float, ...] | Between
"""A level, several levels, [from, below] of a number, or a `Between`; "missing" and "other" are levels, too."""


def variable_of(schema: Schema, name: str, role: str = "") -> CategoricalAttribute | NumericAttribute:
    """The variable of that name, "a covariate" for `role`. Raises ConfigurationError: there is none."""
    variable = schema.variable(name)
    if variable is None:
        names = [attribute.name for attribute in (*schema.attributes, *schema.outcomes)] + [schema.label]
        missing = f"the schema has no variable {name!r}"
        fault = f"{name!r} is {role}, and the schema has no such variable" if role else missing
        raise ConfigurationError(f"{fault}{suggest(name, names)}")
    return variable


def readable_edges(low: float, high: float, bins: int = BINS) -> tuple[float, ...]:
    """Inner edges at multiples of 1, 2, 2.5 or 5 times a power of ten that cut [low, high] into about `bins` bins.

    Args:
        low: public lower bound.
        high: public upper bound, above `low`.
        bins: how many there should be, at least 1. There are at most that many, and one more at most.
    """
    width = (high - low) / bins
    power = 10.0 ** math.floor(math.log10(width))
    step = next((unit * power for unit in _STEPS if unit * power >= width * (1 - 1e-9)), 10.0 * power)
    first = math.floor(low / step * (1 + 1e-12)) + 1
    last = math.ceil(high / step) - 1
    # multiples of a step are written as few digits as it has
    edges = (float(f"{number * step:.12g}") for number in range(first, last + 1))
    return tuple(edge for edge in edges if low < edge < high)


def bins_of(
    schema: Schema, name: str, edges: Mapping[str, Sequence[float]], bins: Mapping[str, int] | None = None
) -> FeatureBins:
    """The bins of a variable: the levels of a category; of a number the stated edges, or readable ones.

    Raises ConfigurationError: there is no such variable, or its edges do not fit.
    """
    variable = variable_of(schema, name)
    count = (bins or {}).get(name)
    if isinstance(variable, CategoricalAttribute):
        if name in edges or count is not None:
            raise ConfigurationError(f"{name!r} is a category, which has levels; take its edges or bins out")
        return FeatureBins(name, ())
    if name in edges:
        if count is not None:
            raise ConfigurationError(f"{name!r} has both edges and bins; state one of the two")
        inner = tuple(map(float, edges[name]))
        rising = all(a < b for a, b in pairwise(inner))
        if not rising or not all(variable.lower < edge <= variable.upper for edge in inner):
            raise ConfigurationError(
                f"the edges of {name!r} must rise and lie within its bounds, {variable.lower:g} to {variable.upper:g}"
            )
        return FeatureBins(name, inner)
    if count is not None and not 1 <= count <= MOST_BINS:
        raise ConfigurationError(f"{name!r} may have 1 to {MOST_BINS} bins, not {count}")
    return FeatureBins(name, readable_edges(variable.lower, variable.upper, BINS if count is None else count))


def check_names(names: Sequence[str], used: Sequence[str], key: str) -> None:
    """Raise ConfigurationError: a key names a variable that the analysis does not count."""
    for name in names:
        if name not in used:
            raise ConfigurationError(f"{key} names {name!r}, which is not counted here{suggest(name, list(used))}")


def range_of(schema: Schema, name: str, condition: Condition, key: str = "where") -> Range:
    """One condition of a filter, or of the `key` that states it. Raises ConfigurationError: it does not fit."""
    variable = variable_of(schema, name)
    where = f"{key}: {name}"
    if isinstance(variable, CategoricalAttribute):
        return _level_range(variable, name, condition, where)
    if condition == MISSING:
        return Range(FeatureBins(name, ()), (1,))
    low, high = _ends(condition, where)
    edges = tuple(edge for edge in (low, high) if edge is not None)
    if len(edges) > 1 and edges[0] >= edges[1]:
        raise ConfigurationError(f"{where}: from must be less than below")
    if any(not math.isfinite(edge) for edge in edges):
        raise ConfigurationError(f"{where}: ends must be finite; leave an open end out")
    return Range(FeatureBins(name, edges), (0 if low is None else 1,))


def _level_range(variable: CategoricalAttribute, name: str, condition: Condition, where: str) -> Range:
    if isinstance(condition, Between) or not condition:
        raise ConfigurationError(f"{where}: it is a category; name one of its levels, or several")
    texts = (condition,) if isinstance(condition, str) else condition
    names = list(variable.levels)
    names += [text for text in (OTHER, MISSING) if text not in names]
    codes = set()
    for text in texts:
        if text not in names:
            raise ConfigurationError(f"{where}: no level {text!r}{suggest(str(text), names)}")
        level = str(text)
        code = variable.levels.index(level) if level in variable.levels else len(variable.levels) + (level == MISSING)
        codes.add(code)
    return Range(FeatureBins(name, ()), tuple(sorted(codes)))


def _ends(condition: Condition, where: str) -> tuple[float | None, float | None]:
    if isinstance(condition, Between):
        if condition.low is None and condition.high is None:
            raise ConfigurationError(f"{where}: state from, below, or both")
        return condition.low, condition.high
    if isinstance(condition, str) or len(condition) != 2 or any(isinstance(end, str) for end in condition):
        raise ConfigurationError(f"{where}: it is a number; write [from, below], such as [60, 75]")
    return float(condition[0]), float(condition[1])


def filter_of(schema: Schema, where: Mapping[str, Condition]) -> tuple[Range, ...]:
    """The conditions of a filter. Raises ConfigurationError: one does not fit."""
    return tuple(range_of(schema, name, condition) for name, condition in where.items())


def filter_words(schema: Schema, where: Mapping[str, Condition], before: str = ", of") -> str:
    """A filter in words, ", of those with age from 60 to below 75 and sex f"; "" for none."""
    texts = [range_words(schema, name, condition) for name, condition in where.items()]
    return f"{before} those with {' and '.join(texts)}" if texts else ""


def range_words(schema: Schema, name: str, condition: Condition) -> str:
    """A condition in words: "age from 60 to below 75", "sex f or m"."""
    variable = variable_of(schema, name)
    if isinstance(variable, CategoricalAttribute) or condition == MISSING:
        texts = (condition,) if isinstance(condition, str) else tuple(map(str, condition))  # type: ignore[arg-type]
        return f"{name} {' or '.join(texts)}"
    low, high = _ends(condition, f"where: {name}")
    if low is None:
        return f"{name} below {high:g}"
    return f"{name} from {low:g}" + ("" if high is None else f" to below {high:g}")
