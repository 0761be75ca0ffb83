"""What a model predicts for a table of records, as a table: `expril predict` writes it.

It is apart from the command so that a program that holds a data frame gets the same columns, and apart from the models'
files since those know nothing of ids, of a column that names sites, or of values that no schema foresaw.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from learner_node.models.files import StudyModel
from learner_node.study.pooling import POOLED
from protocol.errors import ConfigurationError
from protocol.record_frames import column_texts, describe_absent, encode_and_mark_moved
from protocol.records import Records
from protocol.schema import CategoricalAttribute, Schema

PREDICTED, UNFORESEEN, ROW = "predicted", "unforeseen", "row"
"""Columns: the likeliest class or the expected number; the attributes whose value the schema does not foresee, with
`SEPARATOR` between them; the row's number, from 1, where no column is kept."""
SEPARATOR = "; "
WRITERS: dict[str, Callable[[pl.DataFrame, io.BytesIO], object]] = {
    ".csv": lambda frame, file: frame.write_csv(file),
    ".parquet": lambda frame, file: frame.write_parquet(file),
}
"""Writer of a table, by the file name's ending."""


@dataclass(frozen=True)
class Site:
    """Whose model predicts where each curator has one; nothing is set where the answers were pooled."""

    name: str = ""  # a curator's, for all records
    column: str = ""  # of the table: it holds the name of each record's curator
    mixed: bool = False  # all curators' models, mixed by the number of private records behind each


@dataclass(frozen=True)
class Predictions:
    """Predictions for n records, all of it private: it is about single people."""

    frame: pl.DataFrame  # n rows in the order of the records
    values: NDArray[np.float64]  # (n, C) probabilities, or (n,) numbers
    records: Records  # as the models saw them
    moved: Mapping[str, int]  # by numeric attribute, how many values were moved to a bound


def predictions_of(
    model: StudyModel,
    table: pl.DataFrame,
    *,
    keep: Sequence[str] = (),
    site: Site | None = None,
    schema: Schema | None = None,
) -> Predictions:
    """Predict for each row of a table.

    The columns are those of `keep`, or the row's number; `predicted`, with the units that the schema states; P(class)
    for each class, where the label is a class; and `unforeseen`. That names the attributes in which this record has a
    level that is not declared, and so counts as "other", or a number that was moved to a bound; it is null for none.

    Args:
        model: of a study; recalibrated risks are those of `model.recalibrated_`.
        table: n rows with the schema's attributes. A label is not needed, and other columns are ignored.
        keep: columns of the table to copy.
        site: whose model predicts, if each curator has one.
        schema: of the table, whose own sentinels mean missing; None takes the model's.

    Raises:
        ConfigurationError: a column is absent or has a name that is needed, a number is text, the schemas differ in
            more than sentinels and descriptions, or it is not clear which curator's model predicts. The text names
            column and row, counted from 1, and no value.
    """
    chances, units = [f"P({name})" for name in model.schema.classes], model.schema.measure(model.schema.label)
    heading = f"{PREDICTED} ({units})" if units else PREDICTED
    columns = [heading, *chances, UNFORESEEN]
    site = site or Site()
    _check_site(model, site)
    records, moved = encode_and_mark_moved(table, _read_by(model.schema, schema))
    kept = _kept(table, keep, columns, model.schema)
    values = _predict(model, records, table, site)
    if model.schema.label_bounds is None:
        likeliest = pl.Series(heading, model.classes_[values.argmax(axis=1)].tolist(), pl.String)
        predicted = [likeliest, *(pl.Series(name, values[:, place]) for place, name in enumerate(chances))]
    else:
        predicted = [pl.Series(heading, values)]
    frame = pl.DataFrame([*kept, *predicted, _unforeseen(records, moved)])
    return Predictions(frame, values, records, {name: int(np.count_nonzero(rows)) for name, rows in moved.items()})


def encode_table(frame: pl.DataFrame, suffix: str) -> bytes:
    """The bytes of a table's file, whose name ends in a key of `WRITERS`.

    Raises ConfigurationError: a kept column holds what a CSV cannot, such as lists.
    """
    file = io.BytesIO()
    try:
        WRITERS[suffix](frame, file)
    except pl.exceptions.PolarsError:
        nested = [name for name, kind in frame.schema.items() if kind.is_nested() or kind in (pl.Binary, pl.Object)]
        raise ConfigurationError(
            f"the column(s) {', '.join(map(repr, nested))} cannot be written as {suffix}; write .parquet"
        ) from None
    return file.getvalue()


def _read_by(models: Schema, local: Schema | None) -> Schema:
    """The model's schema with a site's own sentinels."""
    if local is None:
        return models
    if local.differences(models):
        raise ConfigurationError(
            f"the schema differs from the model's in {local.differences_in_words(models)[0]}; the model predicts for "
            "records that mean the same"
        )
    attributes = {attribute.name: attribute for attribute in local.attributes}
    return msgspec.structs.replace(
        models, attributes=tuple(attributes[attribute.name] for attribute in models.attributes)
    )


def _require(names: Sequence[str], table: pl.DataFrame, schema: Schema, role: str) -> None:
    """Raise ConfigurationError, which says what the columns are for, if one is absent. The schema's are there."""
    absent = [name for name in names if name not in table.columns]
    if absent:
        declared = [*names, *(attribute.name for attribute in schema.attributes)]
        where = describe_absent(absent, declared=declared, there=table.columns)
        raise ConfigurationError(f"the records lack the column {role} {where}")


def _kept(table: pl.DataFrame, keep: Sequence[str], needed: Sequence[str], schema: Schema) -> list[pl.Series]:
    if not keep:
        return [pl.Series(ROW, np.arange(1, table.height + 1))]
    _require(keep, table, schema, "to keep,")
    for name in keep:
        if name in needed:
            raise ConfigurationError(f"a column {name!r} cannot be kept: the predictions have one of that name")
    return [table[name] for name in dict.fromkeys(keep)]


def _check_site(model: StudyModel, site: Site) -> None:
    """Raise ConfigurationError unless it is clear whose model predicts."""
    choices = sum(map(bool, (site.name, site.column, site.mixed)))
    names = [name for name in model.models if name != POOLED]
    if not names:
        if choices:
            raise ConfigurationError("this study's answers were pooled: it has one model, and no site is to be chosen")
        return
    if choices != 1:
        problem = "say which one predicts" if not choices else "choose it in one way"
        raise ConfigurationError(
            f"each site has a model of its own ({', '.join(names)}): {problem}, by a site's name (--site), by a "
            "column that names each record's site (--site-column), or by mixing all (--mixed)"
        )


def _predict(model: StudyModel, records: Records, table: pl.DataFrame, site: Site) -> NDArray[np.float64]:
    if not site.column:
        return model.predict_records(records, site.name or None)
    _require([site.column], table, model.schema, "of sites,")
    texts = column_texts(table[site.column])
    strange = texts.is_null() | ~texts.is_in(list(model.models))
    if strange.any():
        row = int(strange.arg_true()[0]) + 1
        raise ConfigurationError(
            f"column {site.column!r} names no site of the model in row {row}, header not counted; its sites are "
            f"{', '.join(model.models)}"
        )
    here: dict[str, NDArray[np.bool_]] = {name: (texts == name).to_numpy() for name in model.models}
    parts = {name: model.predict_records(records.take(rows), name) for name, rows in here.items() if rows.any()}
    values = np.empty((len(records), *next(iter(parts.values())).shape[1:]))
    for name, part in parts.items():
        values[here[name]] = part
    return values


def _unforeseen(records: Records, moved: Mapping[str, NDArray[np.bool_]]) -> pl.Series:
    """For each record the names of the attributes whose value is no declared level or was moved to a bound."""
    marks = []
    for attribute in records.schema.attributes:
        if isinstance(attribute, CategoricalAttribute):
            rows = records.column(attribute.name) == len(attribute.levels)
        else:
            rows = moved[attribute.name]
        if rows.any():
            marks.append(pl.when(pl.Series(rows)).then(pl.lit(attribute.name)))
    if not marks:
        return pl.Series(UNFORESEEN, [None], pl.String).new_from_index(0, len(records))
    joined = pl.select(pl.concat_str(marks, separator=SEPARATOR, ignore_nulls=True).alias(UNFORESEEN)).to_series()
    return joined.replace("", None)
