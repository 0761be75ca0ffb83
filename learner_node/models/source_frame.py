"""The source records as users hold them: tables and arrays of any library, as a polars data frame."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.schema import NumericAttribute, Schema


def as_frame(X: Any, schema: Schema) -> pl.DataFrame:
    """A table, or a 2-d array whose columns are the schema's attributes in order, as a polars data frame.

    Raises:
        ConfigurationError: an array of another shape. The text speaks of "features", as scikit-learn's does.
    """
    if isinstance(X, pl.DataFrame):
        return X
    if isinstance(X, pl.LazyFrame):
        return X.collect()
    if hasattr(X, "columns"):
        return pl.DataFrame([_series(str(name), np.asarray(X[name]), schema) for name in X.columns])
    array = np.asarray(X)
    names = [attribute.name for attribute in schema.attributes]
    if array.ndim != 2:
        raise ConfigurationError(
            f"expected a 2-d array (records x attributes), got {array.ndim} dimension(s); reshape your data"
        )
    if array.shape[1] != len(names):
        raise ConfigurationError(f"X has {array.shape[1]} features, but the curators' card has {len(names)} attributes")
    return pl.DataFrame([_series(name, array[:, index], schema) for index, name in enumerate(names)])


def _series(name: str, values: NDArray[Any], schema: Schema) -> pl.Series:
    """A column; Python objects become numbers where numbers are declared and they are, else texts."""
    if values.dtype.kind in "biuf":
        return pl.Series(name, values)
    known = [None if value is None or value != value else value for value in values.tolist()]  # noqa: PLR0124
    numbers = all(value is None or isinstance(value, int | float) for value in known)
    if numbers and isinstance(schema.find(name), NumericAttribute):
        return pl.Series(name, known, pl.Float64, strict=False)
    return pl.Series(name, [None if value is None else _text(value) for value in known], pl.String)


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def height_of(X: Any) -> int:
    """How many records there are in whatever `as_frame` takes."""
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)
