"""Data frames are encoded as records here: values, missing values, and labels as classes or numbers.

`curator_node.records.files` reads the files. A program that reads no records needs only `protocol.records`, which does
not load a library of data frames.
"""

import difflib
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.records import MISSING_CODE, Records, label_steps
from protocol.schema import (
    FIRST_DAY,
    LAST_DAY,
    MISSING_TEXTS,
    Attribute,
    CategoricalAttribute,
    NumericAttribute,
    Schema,
    day_number,
)

MOST_COLUMNS_NAMED = 20
"""Most existing columns that an error names."""
SHORT = 1000
"""Longest column of texts that is read text by text; a data frame's engine pays off from there on."""
SPACE = "".join(map(chr, (*range(9, 14), 32, 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)))
"""What is trimmed from texts: Unicode's white space. Python's own `strip` takes four characters more."""
_LONGEST_NAME_SHOWN = 80
_TEXT_LIKE = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null, pl.Date, pl.Datetime, pl.Time)


class UnknownClassError(ConfigurationError):
    """A label that is none of the declared classes.

    `likeness` is a text to append to the error, which says how the label differs from a similar class; "" if none is
    similar. It reveals a record's class, so only the steward may see it, on the steward's own machine.
    """

    def __init__(self, text: str, *, likeness: str = "") -> None:
        super().__init__(text)
        self.likeness = likeness


def encode_frame(frame: pl.DataFrame, schema: Schema) -> Records:
    """Encode the attribute columns of a data frame; other columns are ignored.

    Null, NaN, `MISSING_TEXTS` and an attribute's own sentinels mean missing. Then numbers outside the bounds move to
    the nearer bound, and an undeclared level becomes "other". A date becomes the days since the declared one.

    Raises:
        ConfigurationError: a column is absent; one declared as numbers holds text or infinity; or one declared as dates
            holds something else. The error names the column and the first offending row (counted from 1), never a
            value.
    """
    return encode_and_mark_moved(frame, schema)[0]


def encode_and_count_moved(frame: pl.DataFrame, schema: Schema) -> tuple[Records, dict[str, int]]:
    """Encode a frame as `encode_frame`, and count each numeric attribute's clipped values. The counts are private."""
    records, moved = encode_and_mark_moved(frame, schema)
    return records, {name: int(np.count_nonzero(rows)) for name, rows in moved.items()}


def encode_and_mark_moved(frame: pl.DataFrame, schema: Schema) -> tuple[Records, dict[str, NDArray[np.bool_]]]:
    """Encode a frame as `encode_frame`, and mark the rows of each numeric attribute whose value is clipped, (n,)."""
    columns, moved = _encoded(frame, schema.attributes)
    numeric = [columns[a.name] for a in schema.attributes if a.name in moved]
    codes = [columns[a.name] for a in schema.attributes if a.name not in moved]
    n = frame.height
    records = Records(
        schema,
        np.column_stack(numeric) if numeric else np.empty((n, 0)),
        np.column_stack(codes) if codes else np.empty((n, 0), np.int16),
    )
    return records, moved


def encode_outcomes(frame: pl.DataFrame, schema: Schema) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """Encode the outcomes of a data frame by the rules of `encode_frame`; raises as it does.

    Returns:
        Each outcome's column, (n,) float64 or int16 codes, for `Records.further`; and for each numeric one the number
        of values that are clipped. Both are private.
    """
    columns, moved = _encoded(frame, schema.outcomes)
    return columns, {name: int(np.count_nonzero(rows)) for name, rows in moved.items()}


def _encoded(
    frame: pl.DataFrame, variables: Sequence[Attribute]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]]]:
    """Each variable's values or codes, (n,), and for each numeric one which rows are clipped, (n,)."""
    require_columns([variable.name for variable in variables], frame.columns)
    columns: dict[str, NDArray[Any]] = {}
    moved: dict[str, NDArray[np.bool_]] = {}
    for variable in variables:
        if isinstance(variable, CategoricalAttribute):
            columns[variable.name] = _codes(frame[variable.name], variable)
            continue
        values = numbers_of(frame[variable.name], variable)
        moved[variable.name] = (values < variable.lower) | (values > variable.upper)
        columns[variable.name] = np.clip(values, variable.lower, variable.upper)
    return columns, moved


def require_columns(declared: Sequence[str], there: Sequence[str]) -> None:
    """Raise a ConfigurationError that names every absent declared column."""
    absent = [name for name in declared if name not in there]
    if absent:
        raise ConfigurationError(
            f"the records lack the declared column(s) {describe_absent(absent, declared=declared, there=there)}"
        )


def describe_absent(absent: Sequence[str], *, declared: Collection[str], there: Sequence[str]) -> str:
    """Describe the absent columns, each with the nearest undeclared one, and list the columns that exist.

    If no declared column exists, in any letter case, the file may lack a header, and its first record is taken for
    column names. Then no column is shown.
    """
    folded = {name.strip().casefold(): name for name in there if name not in declared}
    header = any(name in there or name.strip().casefold() in folded for name in declared)
    if not header:
        names = ", ".join(map(repr, absent))
        return f"{names}; no declared column is there: does the first row hold the column names?"
    described = []
    for name in absent:
        near = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.6)
        described.append(f"{name!r} (did you mean {_quoted(folded[near[0]])}?)" if near else repr(name))
    rest = len(there) - MOST_COLUMNS_NAMED
    names = ", ".join(map(_quoted, there[:MOST_COLUMNS_NAMED])) + (f" and {rest} more" if rest > 0 else "")
    return f"{', '.join(described)}; the columns are {names}"


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_NAME_SHOWN else f"{name[:_LONGEST_NAME_SHOWN]}…")


def encode_label_column(column: pl.Series, schema: Schema) -> NDArray[np.unsignedinteger]:
    """Encode labels by `encode_labels` or `encode_numeric_labels`, as the schema says; raises what these raise."""
    if schema.label_bounds is None:
        return encode_labels(column, schema.classes)
    return encode_numeric_labels(column, schema.label_bounds)


def encode_labels(column: pl.Series, classes: Sequence[str]) -> NDArray[np.uint8]:
    """Labels as class indices, (n,) uint8.

    Raises:
        ConfigurationError: a label is missing or is none of the classes. The error names the first such row (counted
            from 1), never a value.
    """
    if column.dtype == pl.String and len(column) <= SHORT and (short := _labels_of(column, classes)) is not None:
        return short
    texts = column_texts(column, classes)
    _require_labels(texts, column.name)
    indices = texts.replace_strict(list(classes), list(range(len(classes))), default=None, return_dtype=pl.UInt8)
    if indices.null_count():
        row = int(indices.is_null().arg_true()[0]) + 1
        named = [repr(name) for name in classes[: MOST_COLUMNS_NAMED - 1]]
        rest = len(classes) - len(named)
        last = named.pop() if not rest else f"{rest} more"
        raise UnknownClassError(
            f"label column {column.name!r} holds something other than the declared classes {', '.join(named)} and "
            f"{last} in row {row}, header not counted; correct it, or declare its class",
            likeness=_likeness(str(texts[row - 1]), classes),
        )
    codes: NDArray[np.uint8] = indices.to_numpy()
    return codes


def _likeness(label: str, classes: Sequence[str]) -> str:
    """How a label differs from the first class similar to it."""
    forms: dict[str, Callable[[str], str | float | None]] = {
        "upper and lower case": str.casefold,
        "how the number is written, as 1 and 1.0 are": _as_number,
        "spaces and signs": lambda text: "".join(filter(str.isalnum, text.casefold())) or None,
    }
    for rule, form in forms.items():
        alike = [name for name in classes if form(name) == form(label) is not None]
        if alike:
            return f". It is the class {alike[0]!r}, but for {rule}"
    return ""


def encode_numeric_labels(column: pl.Series, bounds: tuple[float, float]) -> NDArray[np.uint16]:
    """Labels in steps of 2^-12 of their range, (n,) uint16 in 0 .. 4096; values outside the range are clipped.

    A label is rounded only here: everything computed from it later is in whole numbers.

    Raises:
        ConfigurationError: a label is missing, infinite or no number. The error names the first such row (counted from
            1), never a value.
    """
    return label_steps(encode_numbers(column, bounds), bounds).astype(np.uint16)


def encode_numbers(column: pl.Series, bounds: tuple[float, float]) -> NDArray[np.float64]:
    """Numeric labels before rounding, (n,) float64, clipped to the bounds; raises as `encode_numeric_labels`."""
    values = _numbers(column)
    _require_labels(pl.Series(values).fill_nan(None), column.name)
    return np.clip(values, *bounds)


def count_moved_labels(column: pl.Series, bounds: tuple[float, float]) -> int:
    """Number of numeric labels that are clipped to a bound. The count is private."""
    values = _numbers(column)
    return int(np.count_nonzero((values < bounds[0]) | (values > bounds[1])))


def _labels_of(column: pl.Series, classes: Sequence[str]) -> NDArray[np.uint8] | None:
    """Labels of a short column of texts; None unless each is one of the classes."""
    indices = {name: index for index, name in enumerate(classes)}
    codes = [None if text is None else indices.get(text) for text in _trimmed(column)]
    return None if None in codes else np.array(codes, np.uint8)


def _trimmed(column: pl.Series) -> list[str | None]:
    """The texts of a short column without space around them, None for null."""
    return [None if text is None else text.strip(SPACE) for text in column.to_list()]


def _require_labels(values: pl.Series, name: str) -> None:
    if values.null_count():
        row = int(values.is_null().arg_true()[0]) + 1
        raise ConfigurationError(
            f"label column {name!r} is empty in row {row}, header not counted; remove or label the record"
        )


def numbers_of(column: pl.Series, attribute: NumericAttribute) -> NDArray[np.float64]:
    """A numeric attribute's values before they are clipped, (n,) float64, NaN if missing; raises as `encode_frame`.

    Dates are days since `attribute.days_since`, earlier ones negative. A time with an offset or a zone is taken in UTC,
    one without as it is written; its fraction of the day is added.
    """
    if attribute.days_since:
        return _days(column, attribute, day_number(attribute.days_since) or 0)
    return _numbers(column, attribute.missing or ())


def texts_of(column: pl.Series, attribute: CategoricalAttribute) -> pl.Series:
    """The values of a categorical attribute as trimmed texts, null if missing; raises as `encode_frame`."""
    return _without(column_texts(column, attribute.levels), attribute.missing or ())


def times_of(days: NDArray[np.float64], attribute: NumericAttribute) -> pl.Series:
    """Times of days since `attribute.days_since`, (n,) Datetime in microseconds, null for NaN: `numbers_of` backwards.

    Days before the year 1 or after 9999 move to the nearer of these.
    """
    start = day_number(attribute.days_since or "") or 0
    present = ~np.isnan(days)
    inside = np.clip(days[present], FIRST_DAY - start, LAST_DAY - start)
    whole_days = np.floor(inside)
    ticks = np.zeros(len(days), np.int64)
    ticks[present] = (whole_days.astype(np.int64) + start) * _TICKS["us"]
    ticks[present] += np.rint((inside - whole_days) * _TICKS["us"]).astype(np.int64)
    times = pl.Series(attribute.name, ticks).cast(pl.Datetime("us"))
    return times.set(pl.Series(~present), None)


def _numbers(column: pl.Series, sentinels: Sequence[float | str] | None = None) -> NDArray[np.float64]:
    """The numbers as written, not clipped to bounds; NaN if missing. `sentinels` are None for a label."""
    remedy = " or leave it empty" if sentinels is None else f", leave it empty, or {_DECLARE}"
    sentinels = sentinels or ()
    if column.dtype == pl.String:
        texts = _without(column_texts(column), sentinels)
        values = texts.cast(pl.Float64, strict=False)
        wrong = values.is_null() & texts.is_not_null()
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        values, wrong = column.cast(pl.Float64), None
    else:
        hint = "; declare dates with days_since" if column.dtype.base_type() in (pl.Date, pl.Datetime) else ""
        raise ConfigurationError(
            f"column {column.name!r} is declared numeric but has type {column.dtype.base_type()}{hint}"
        )
    if wrong is not None and wrong.any():
        row = int(wrong.arg_true()[0]) + 1
        raise ConfigurationError(
            f"column {column.name!r} is declared numeric but holds text in row {row}, header not counted; correct "
            f"it{remedy}"
        )
    array: NDArray[np.float64] = (values.fill_null(np.nan) if values.null_count() else values).to_numpy()
    if np.isinf(array).any():
        row = int(np.flatnonzero(np.isinf(array))[0]) + 1
        raise ConfigurationError(
            f"column {column.name!r} holds infinity, or a number too large to be held, in row {row}, header not "
            "counted; correct it or leave it empty"
        )
    numbers = np.array([item for item in sentinels if not isinstance(item, str)])
    if column.dtype == pl.Float32:  # -9.9 is another number there
        numbers = numbers.astype(np.float32).astype(np.float64)
    return np.where(np.isin(array, numbers), np.nan, array) if len(numbers) else array


_DECLARE = "declare the text in the schema: missing = [...]"
_DATE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})"
_TIME = r"(?:[T ]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]{1,9}))?)?"
_OFFSET = r"(?:Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)?)?$"
_DATE_LENGTH = len("2015-01-31")
_TICKS = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""Ticks of a day, by the unit of a column of times."""


def _days(column: pl.Series, attribute: NumericAttribute, start: int) -> NDArray[np.float64]:
    """Days since the day of that number, not clipped to bounds; NaN if missing."""
    sentinels = [item for item in attribute.missing or () if isinstance(item, str)]
    if isinstance(column.dtype, pl.Datetime):
        ticks = _TICKS[column.dtype.time_unit]
        times = column.to_physical()  # in UTC where the column has a zone
        days = _since(start, times // ticks, times % ticks, ticks)
    elif column.dtype == pl.Date:
        days = _since(start, column.to_physical())
    elif column.dtype in (pl.String, pl.Null):
        texts = _without(column_texts(column), sentinels)
        days = _days_of_texts(texts, start)
        wrong = np.isnan(days) & texts.is_not_null().to_numpy()
        if wrong.any():
            raise ConfigurationError(
                f"column {column.name!r} is declared with days_since but holds no date in row {wrong.argmax() + 1}, "
                "header not counted; write it as 2015-01-31 or 2015-01-31T14:30, leave it empty, or " + _DECLARE
            )
    else:
        raise ConfigurationError(
            f"column {column.name!r} is declared with days_since but has type {column.dtype.base_type()}; dates, times "
            "with a date, or texts such as 2015-01-31 are wanted"
        )
    # A sentinel without a time of day is that whole day.
    for value, text in zip(_days_of_texts(pl.Series(sentinels, dtype=pl.String), start), sentinels, strict=True):
        days = np.where((np.floor(days) if len(text) == _DATE_LENGTH else days) == value, np.nan, days)
    return days


def _since(start: int, epoch_days: pl.Series, rest: pl.Series | None = None, ticks: int = 1) -> NDArray[np.float64]:
    """Days since `start`, NaN for null, of whole days since 1970-01-01 and a rest in ticks of a day."""
    days: NDArray[np.float64] = (epoch_days.cast(pl.Int64) - start).cast(pl.Float64).fill_null(np.nan).to_numpy()
    # numpy divides; polars multiplies by the inverse, which is rounded.
    return days if rest is None else days + rest.cast(pl.Float64).fill_null(np.nan).to_numpy() / ticks


def _days_of_texts(texts: pl.Series, start: int) -> NDArray[np.float64]:
    """Days since `start` of ISO 8601 dates and times; NaN where a text is neither."""
    names = ("date", "hour", "minute", "second", "fraction", "sign", "hours", "minutes")
    parts = texts.str.extract_groups(_DATE + _TIME + _OFFSET).struct.rename_fields(names).struct.unnest()

    def integers(name: str) -> pl.Series:
        return parts[name].cast(pl.Int64).fill_null(0)

    sign = (parts["sign"] == "-").fill_null(value=False).cast(pl.Int64) * -2 + 1
    minutes = integers("hour") * 60 + integers("minute") - sign * (integers("hours") * 60 + integers("minutes"))
    nanoseconds = parts["fraction"].str.pad_end(9, "0").cast(pl.Int64).fill_null(0)
    ticks = (minutes * 60 + integers("second")) * 1_000_000_000 + nanoseconds
    dates = parts["date"].set(parts["date"].str.starts_with("0000"), None)  # no calendar has a year 0
    days = dates.str.to_date("%Y-%m-%d", strict=False).to_physical()
    return _since(start, days + ticks // _TICKS["ns"], ticks % _TICKS["ns"], _TICKS["ns"])


def _without(texts: pl.Series, sentinels: Sequence[float | str]) -> pl.Series:
    """The texts, null where one is a sentinel."""
    absent = [item for item in sentinels if isinstance(item, str)]
    if not absent:
        return texts
    return texts.to_frame("t").select(pl.when(~pl.col("t").is_in(absent)).then("t").alias(texts.name)).to_series()


def _codes(column: pl.Series, attribute: CategoricalAttribute) -> NDArray[np.int16]:
    others = len(attribute.levels)
    indices = {level: index for index, level in enumerate(attribute.levels)}
    if column.dtype == pl.String and len(column) <= SHORT:
        indices = dict.fromkeys((text for text in MISSING_TEXTS if text not in indices), MISSING_CODE) | indices
        indices |= {text: MISSING_CODE for text in attribute.missing or () if isinstance(text, str)}
        texts = _trimmed(column)
        return np.array([MISSING_CODE if text is None else indices.get(text, others) for text in texts], np.int16)
    values = texts_of(column, attribute)
    codes = values.replace_strict(list(indices), list(indices.values()), default=others, return_dtype=pl.Int16)
    return np.where(values.is_null().to_numpy(), np.int16(MISSING_CODE), codes.to_numpy())


def column_texts(column: pl.Series, levels: Sequence[str] = ()) -> pl.Series:
    """A column as trimmed text, null if missing and no declared level; 1.0 and 1 both become "1".

    Raises ConfigurationError: the column holds lists, bytes or objects.
    """
    if not (column.dtype.is_numeric() or column.dtype.base_type() in _TEXT_LIKE):
        raise ConfigurationError(
            f"column {column.name!r} has type {column.dtype.base_type()}; text, numbers, booleans or dates are wanted"
        )
    if column.dtype.is_decimal():
        # Never through a float: two 20-digit identities must stay two.
        digits = column.cast(pl.String)
        shortened = digits.str.replace(r"0+$", "").str.replace(r"\.$", "")
        return digits.zip_with(~digits.str.contains(".", literal=True), shortened)
    if column.dtype.is_float():
        is_whole = (column == column.floor()) & (column.abs() < 2**53)
        as_integer = column.fill_nan(None).cast(pl.Int64, strict=False).cast(pl.String)
        frame = pl.DataFrame({"whole": is_whole, "integer": as_integer, "text": column.fill_nan(None).cast(pl.String)})
        return frame.select(pl.when(pl.col("whole")).then("integer").otherwise("text").alias(column.name)).to_series()
    absent = [text for text in MISSING_TEXTS if text not in levels]
    if column.dtype == pl.String and len(column) <= SHORT:
        return pl.Series(column.name, [None if text in absent else text for text in _trimmed(column)], pl.String)
    text = pl.col("t").str.strip_chars()
    missing = text.is_in(absent)
    texts = pl.DataFrame({"t": column.cast(pl.String)})
    return texts.select(pl.when(missing).then(None).otherwise(text).alias(column.name)).to_series()
