"""Whether a study's model is better for a hospital's own patients than what the hospital reaches alone.

Nobody but the hospital can know it after a study of deployed curators: it alone has these labels. In a simulation
`joining` compares models on test records that were set aside. A hospital has them where patients came after the study:
its own regression then learns from the records that its curator serves. Otherwise the regression predicts each fifth of
the records from the rest (cross-validation), and the study's model predicts them all; if it has learnt from them, its
score is too good (docs/learner/learner.md has measurements).

The scores are exact numbers of private records. They are for the hospital's own eyes.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from curator_node.records.dataset import unit_names
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_frame, encode_labels, encode_numbers
from protocol.schema import Schema
from simulations.joining import CONSTANT, FEDERATION, REGRESSION, JoiningScores, joining_of, scores_by_measure
from simulations.references import Answers, LabelledRecords, Labels, cross_validated, tuned_regression
from simulations.report.model import Joining, MeasureName

MOST_COMPARED = 20_000
"""Of more records so many are drawn: some seconds of 27 attributes, and intervals of about 0.01."""
OWN = "own"


@dataclass(frozen=True)
class Patients:
    """A hospital's own labelled records, and the privacy unit of each, (n,), numbered from 0; None: each is one."""

    labelled: LabelledRecords
    units: NDArray[np.intp] | None

    @classmethod
    def of(cls, table: pl.DataFrame, schema: Schema, unit: str | None = None) -> "Patients":
        """Encode a table.

        Args:
            table: n rows with the schema's attributes and label.
            schema: of the table.
            unit: column that names each record's privacy unit, if the table has it.

        Raises:
            ConfigurationError: there is no column of labels, a label is missing or unknown, a record has no unit, or
                there are fewer than two records or units; or as `encode_frame`. The text names column and row, and no
                value.
        """
        if schema.label not in table.columns:
            raise ConfigurationError(
                f"the records lack the label's column {schema.label!r}, by which a model is scored"
            )
        if table.height < 2:
            raise ConfigurationError("a single record tells nothing of how good a model is")
        labels: Labels = (
            encode_labels(table[schema.label], schema.classes)
            if schema.label_bounds is None
            else encode_numbers(table[schema.label], schema.label_bounds)
        )
        units = None
        if unit in table.columns:
            names, units = np.unique(unit_names(table[unit]), return_inverse=True)
            if len(names) < 2:
                raise ConfigurationError(
                    f"all records are of one {unit!r}, which tells nothing of how good a model is for the next"
                )
        return cls(LabelledRecords(encode_frame(table, schema), labels, len(schema.classes)), units)

    def __len__(self) -> int:
        return len(self.labelled.labels)

    def take(self, rows: NDArray[np.intp]) -> "Patients":
        """The records at `rows`, in that order."""
        return Patients(self.labelled.take(rows), None if self.units is None else self.units[rows])

    def drawn(self) -> NDArray[np.intp]:
        """Rows of all, or of `MOST_COMPARED` of them, in order."""
        if len(self) <= MOST_COMPARED:
            return np.arange(len(self))
        return np.sort(np.random.default_rng(0).choice(len(self), MOST_COMPARED, replace=False))


def own_patients(
    patients: Patients, values: NDArray[np.float64], learnt: Patients | None = None
) -> dict[MeasureName, Joining]:
    """Compare a study's model with the hospital's own regression and the best constant, on the hospital's records.

    Args:
        patients: n records, with labels.
        values: (n, C) probabilities of the study's model, or (n,) numbers.
        learnt: other records of the hospital, from which the regression learns; None: it is cross-validated.

    Returns:
        By measure ("accuracy", and "AUC" of two classes; or "R²"): scores with 95 % intervals, and paired differences.
        The regression's are None where a class is too rare for it.
    """
    rows = patients.drawn()
    here, values = patients.take(rows), values[rows]
    test = here.labelled
    constant = float(np.bincount(test.labels).argmax()) if test.classes else float(test.labels.mean())
    answers = {
        CONSTANT: Answers(test.labels, np.full(len(test.labels), constant)),
        FEDERATION: Answers(test.labels, values.argmax(axis=1), values)
        if test.classes
        else Answers(test.labels, values),
    }
    if learnt is None:
        regression = cross_validated(test, here.units)
    else:
        private = learnt.take(learnt.drawn())
        regression = tuned_regression(private.labelled, test, private.units)
    if regression is not None:
        answers[REGRESSION] = regression
    measures, reasons = scores_by_measure(answers, here.units)
    scores = JoiningScores(measures, len(test.labels), 1.0, 0.0, reasons)
    order: tuple[MeasureName, ...] = ("accuracy", "AUC", "R²")
    return {measure: joining_of(OWN, [scores], measure) for measure in order if measure in measures}
