"""Records in the one numeric form that partitions and hypotheses read.

Reading files is not done here; see `curator_node.record_files`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.schema import MISSING_TEXTS, CategoricalAttribute, NumericAttribute, Schema

MISSING_CODE = -1
"""Code of a missing category; declared levels are 0 .. L-1 and L is "other"."""
_TEXT_LIKE = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Null, pl.Date, pl.Datetime, pl.Time)


@dataclass(frozen=True)
class Records:
    """n encoded records.

    Attributes:
        schema: what the columns mean.
        numeric: (n, d_numeric) float64, within the schema's bounds, NaN = missing; columns in schema order.
        categorical: (n, d_categorical) int16 codes: level index, L = other, -1 = missing.
    """

    schema: Schema
    numeric: NDArray[np.float64]
    categorical: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.numeric)

    @cached_property
    def _columns(self) -> dict[str, tuple[bool, int]]:
        positions: dict[str, tuple[bool, int]] = {}
        counts = [0, 0]
        for attribute in self.schema.attributes:
            is_numeric = isinstance(attribute, NumericAttribute)
            positions[attribute.name] = (is_numeric, counts[is_numeric])
            counts[is_numeric] += 1
        return positions

    def column(self, name: str) -> NDArray[np.float64] | NDArray[np.int16]:
        """The values (float64) or codes (int16) of one attribute, shape (n,)."""
        is_numeric, index = self._columns[name]
        return self.numeric[:, index] if is_numeric else self.categorical[:, index]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "Records":
        """The records at `rows`, in that order."""
        return Records(self.schema, self.numeric[rows], self.categorical[rows])


def encode_frame(frame: pl.DataFrame, schema: Schema) -> Records:
    """Encode the attribute columns of a data frame; other columns are ignored.

    Null, NaN, and the texts "", "?", "NA", "NaN" and "null" mean missing. Numbers outside the bounds,
    infinities among them, move to the nearer bound. An undeclared level becomes "other".

    Raises:
        ConfigurationError: a column is absent or holds text where numbers are declared. The text names the
            column and the first offending row (counted from 1), never a value.
    """
    absent = [a.name for a in schema.attributes if a.name not in frame.columns]
    if absent:
        raise ConfigurationError(f"the records lack the declared column(s) {', '.join(map(repr, absent))}")
    numeric = [_numbers(frame[a.name], a) for a in schema.attributes if isinstance(a, NumericAttribute)]
    codes = [_codes(frame[a.name], a) for a in schema.attributes if isinstance(a, CategoricalAttribute)]
    n = frame.height
    return Records(
        schema,
        np.column_stack(numeric) if numeric else np.empty((n, 0)),
        np.column_stack(codes) if codes else np.empty((n, 0), np.int16),
    )


def encode_labels(column: pl.Series, classes: Sequence[str]) -> NDArray[np.bool_]:
    """Labels as booleans, True for the second class.

    Raises:
        ConfigurationError: a label is missing or is none of the two classes; names the first row, no value.
    """
    texts = column_texts(column)
    if texts.null_count():
        row = int(texts.is_null().arg_true()[0]) + 1
        raise ConfigurationError(f"label column {column.name!r} is empty in row {row}; remove or label the record")
    known = texts.is_in(list(classes))
    if not known.all():
        row = int((~known).arg_true()[0]) + 1
        raise ConfigurationError(
            f"label column {column.name!r} holds something other than the declared classes in row {row}"
        )
    return (texts == classes[1]).to_numpy()


def _numbers(column: pl.Series, attribute: NumericAttribute) -> NDArray[np.float64]:
    if column.dtype == pl.String:
        texts = column_texts(column)
        values = texts.cast(pl.Float64, strict=False)
        wrong = values.is_null() & texts.is_not_null()
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        values, wrong = column.cast(pl.Float64), None
    else:
        raise ConfigurationError(f"column {column.name!r} is declared numeric but has type {column.dtype.base_type()}")
    if wrong is not None and wrong.any():
        row = int(wrong.arg_true()[0]) + 1
        raise ConfigurationError(
            f"column {column.name!r} is declared numeric but row {row} holds text; correct it or leave it empty"
        )
    array: NDArray[np.float64] = values.fill_null(np.nan).to_numpy()
    return np.clip(array, attribute.lower, attribute.upper)


def _codes(column: pl.Series, attribute: CategoricalAttribute) -> NDArray[np.int16]:
    texts = column_texts(column)
    codes = texts.replace_strict(
        list(attribute.levels),
        list(range(len(attribute.levels))),
        default=len(attribute.levels),
        return_dtype=pl.Int16,
    )
    missing = texts.is_null().to_numpy()
    return np.where(missing, np.int16(MISSING_CODE), codes.to_numpy())


def column_texts(column: pl.Series) -> pl.Series:
    """A column as trimmed text, null where missing; 1.0 and 1 are the same text "1".

    Raises:
        ConfigurationError: the column holds lists, bytes or objects.
    """
    if not (column.dtype.is_numeric() or column.dtype.base_type() in _TEXT_LIKE):
        raise ConfigurationError(
            f"column {column.name!r} has type {column.dtype.base_type()}; text, numbers, booleans or dates are wanted"
        )
    if column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    if column.dtype.is_float():
        whole = (column == column.floor()) & (column.abs() < 2**53)
        as_integer = column.fill_nan(None).cast(pl.Int64, strict=False).cast(pl.String)
        frame = pl.DataFrame({"whole": whole, "integer": as_integer, "text": column.fill_nan(None).cast(pl.String)})
        return frame.select(pl.when(pl.col("whole")).then("integer").otherwise("text").alias(column.name)).to_series()
    texts = column.cast(pl.String).str.strip_chars()
    return (
        pl.DataFrame({"t": texts})
        .select(pl.when(pl.col("t").is_in(MISSING_TEXTS)).then(None).otherwise("t").alias(column.name))
        .to_series()
    )
