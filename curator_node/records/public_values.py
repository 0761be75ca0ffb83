"""Kinds, levels and rounded bounds from the values of records that are public, as a first draft of their schema.

It is apart from what drafts a schema because nothing else of that may look at a value. Of private records no such
figure is public: the largest age is somebody's age.
"""

import datetime as dt
import math
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.dictionaries import Entry, Kind
from protocol.record_frames import column_texts
from protocol.schema import MOST_MAGNITUDE

MOST_LEVELS = 50
"""A text with more distinct values is taken for free text or a name."""
_MANY = 20
_SENTINELS = (99, 999, 9999, 99999, -1, -9, -99, -999, -9999, 888, 8888, 777, 7777)
_DAY = r"^\d{4}-\d{2}-\d{2}(?:[T ].*)?$"


def with_values(entry: Entry, column: pl.Series) -> Entry:
    """The entry with what it leaves open taken from the column's values, as far as they show it.

    Raises ConfigurationError: the column holds lists, bytes or objects.
    """
    texts = column_texts(column)
    texts = texts.filter(texts.is_not_null() & ~texts.is_in(list(entry.missing)))
    if texts.is_empty():
        return entry
    numbers = texts.cast(pl.Float64, strict=False)
    numeric = numbers.is_not_null().all() and bool(numbers.is_finite().all())
    dated = bool(texts.str.contains(_DAY).all())
    if not entry.kind and numeric and len(texts) >= _MANY and texts.n_unique() == len(texts) and _are_whole(numbers):
        return replace(entry, left_out="another whole number in every record, such as a record's own")
    kind = entry.kind or _kind(texts, numeric=numeric, dated=dated)
    if not kind:
        return replace(entry, left_out="text of many values, such as a name or a remark")
    entry = replace(entry, kind=kind)
    if kind == "categorical" and not entry.levels:
        return _with_levels(entry, texts)
    if kind == "numeric" and numeric and (entry.lower is None or entry.upper is None):
        return _with_bounds(entry, numbers)
    if kind == "date" and dated and (entry.lower is None or entry.upper is None):
        return _with_years(entry, texts)
    return entry


def _are_whole(numbers: pl.Series) -> bool:
    return bool((numbers == numbers.floor()).all())


def _kind(texts: pl.Series, *, numeric: bool, dated: bool) -> Kind:
    distinct = texts.n_unique()
    if numeric and distinct > 2:
        return "numeric"
    if dated:
        return "date"
    return "categorical" if distinct <= MOST_LEVELS and (distinct <= 2 or 2 * distinct <= len(texts)) else ""


def _with_levels(entry: Entry, texts: pl.Series) -> Entry:
    levels = texts.unique().sort().to_list()
    if len(levels) > MOST_LEVELS:
        return replace(entry, notes=(*entry.notes, f"{len(levels)} values occur, too many to be listed"))
    return replace(entry, levels=tuple(levels), notes=(*entry.notes, "levels from the values that occur"))


def _with_bounds(entry: Entry, numbers: pl.Series) -> Entry:
    values = np.unique(numbers.to_numpy())
    if max(abs(values[0]), abs(values[-1])) > MOST_MAGNITUDE / 10:
        return replace(entry, notes=(*entry.notes, "the values are too large for bounds"))
    lower, upper = rounded_bounds(float(values[0]), float(values[-1]))
    notes = [*entry.notes, "bounds from the values that occur, rounded"]
    notes += [f"if {sentinel:g} means a missing value: missing = [{sentinel:g}]" for sentinel in _sentinels(values)]
    lower = entry.lower if isinstance(entry.lower, float) and entry.lower < upper else lower
    upper = entry.upper if isinstance(entry.upper, float) and entry.upper > lower else upper
    return replace(entry, lower=lower, upper=upper, notes=tuple(notes))


def _sentinels(values: NDArray[np.float64]) -> list[float]:
    """Extreme values that are usual codes, and as far from all others as those are from each other."""
    suspects = []
    for suspect, rest in ((values[0], values[1:]), (values[-1], values[:-1])):
        if suspect in _SENTINELS and len(rest) > 1 and np.abs(rest - suspect).min() >= (rest[-1] - rest[0]) / 2:
            suspects.append(float(suspect))
    return suspects


def rounded_bounds(least: float, most: float) -> tuple[float, float]:
    """Round numbers at or beyond both: multiples of a half of the power of ten below their distance."""
    if least == most:
        return math.floor(least) - 1.0, math.ceil(most) + 1.0
    exponent = math.floor(math.log10(most - least))
    digits = max(0, 1 - exponent)
    step = 10.0**exponent / 2
    return round(math.floor(least / step) * step, digits), round(math.ceil(most / step) * step, digits)


def _with_years(entry: Entry, texts: pl.Series) -> Entry:
    years = texts.str.slice(0, 4).cast(pl.Int64)
    first, last = (max(1, min(9999, int(year))) for year in (years.min(), years.max()))  # type: ignore[arg-type]
    lower = entry.lower or dt.date(first, 1, 1)
    upper = entry.upper or dt.date(last, 12, 31)
    return replace(entry, lower=lower, upper=upper, notes=(*entry.notes, "bounds from the years that occur"))
