"""Whether a study's model is better for a hospital's own patients than what the hospital reaches alone.

Nobody but the hospital can know it after a study of deployed curators: it alone has these labels. In a simulation
`joining` compares models on test records that were set aside. A hospital has set none aside, so its own regression
predicts each fifth of its records from the rest (cross-validation), and the study's model predicts them all. That
model may have learnt from noisy counts of the same records. Its privacy bounds what it can know of any one of them, so
that its score is hardly too good; with a large epsilon it may be.

The scores are exact numbers of private records. They are for the hospital's own eyes.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.errors import ConfigurationError
from protocol.record_frames import column_texts, encode_labels, encode_numbers
from protocol.records import Records
from protocol.schema import Schema
from simulations.joining import CONSTANT, FEDERATION, REGRESSION, JoiningScores, joining_of, scores_by_measure
from simulations.references import Answers, LabelledRecords, Labels, cross_validated
from simulations.report.model import Joining, MeasureName

MOST_COMPARED = 20_000
"""Of more records so many are drawn: some seconds of 27 attributes, and intervals of about 0.01."""
OWN = "own"


def own_patients(
    table: pl.DataFrame, records: Records, values: NDArray[np.float64], schema: Schema, unit: str | None = None
) -> dict[MeasureName, Joining]:
    """Compare a study's model with the hospital's own regression and the best constant, on the hospital's records.

    Args:
        table: n rows with the schema's label.
        records: the same, encoded.
        values: (n, C) probabilities of the study's model, or (n,) numbers.
        schema: the model's.
        unit: column that names each record's privacy unit; None: each record is one.

    Returns:
        By measure ("accuracy", and "AUC" of two classes; or "R²"): scores with 95 % intervals, and paired differences.
        The regression's are None where a class is too rare for it.

    Raises:
        ConfigurationError: there is no column of labels, a label is missing or unknown, or there are fewer than two
            records. The text names column and row, and no value.
    """
    if schema.label not in table.columns:
        raise ConfigurationError(f"the records lack the label's column {schema.label!r}, by which a model is scored")
    if table.height < 2:
        raise ConfigurationError("a single record tells nothing of how good a model is")
    labels: Labels = (
        encode_labels(table[schema.label], schema.classes)
        if schema.label_bounds is None
        else encode_numbers(table[schema.label], schema.label_bounds)
    )
    units = None if unit is None else column_texts(table[unit]).fill_null("").rank("dense").to_numpy().astype(np.intp)
    patients = LabelledRecords(records, labels, len(schema.classes))
    if len(labels) > MOST_COMPARED:
        rows = np.sort(np.random.default_rng(0).choice(len(labels), MOST_COMPARED, replace=False))
        patients, values, units = patients.take(rows), values[rows], None if units is None else units[rows]
    constant = float(np.bincount(patients.labels).argmax()) if patients.classes else float(patients.labels.mean())
    answers = {
        CONSTANT: Answers(patients.labels, np.full(len(patients.labels), constant)),
        FEDERATION: Answers(patients.labels, values.argmax(axis=1), values)
        if patients.classes
        else Answers(patients.labels, values),
    }
    if (regression := cross_validated(patients, units)) is not None:
        answers[REGRESSION] = regression
    measures, reasons = scores_by_measure(answers, units)
    scores = JoiningScores(measures, len(patients.labels), 1.0, 0.0, reasons)
    order: tuple[MeasureName, ...] = ("accuracy", "AUC", "R²")
    return {measure: joining_of(OWN, [scores], measure) for measure in order if measure in measures}
