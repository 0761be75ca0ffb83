"""Release kinds: what is counted in a cell. One record moves the numbers of its cell by exactly S steps (L1).

S is 1, except in the last three kinds, whose plan states it as `steps`.

| kind | numbers per cell | replaces in the paper |
|---|---|---|
| mass | n | p of Eq. 1 |
| signed_error | (correct) - (errors) = n - 2U | q of Eq. 3, at half the variance near q = 1/2 |
| error_correct | U, n - U | q and p at once |
| class_counts | n of class 0, ..., n of class C - 1 | for more than two classes |
| label_total | T, S n - T: T the sum of the labels in steps of 1/S of their range | a numeric label |
| squared_error | T, S n - T: T the sum of squared errors in steps of 1/S of their range | section 5: regression |
| outcome_counts | n, as mass; but partitions may read labels and outcomes | |
| error_sums | T, A - T, S n - A: T of squared, A of absolute errors, each in steps of 1/S of its range | |

U is the number of errors in the cell. In the last three kinds, a record adds whole numbers to the columns that add up
to S, and that depend on this record and the query alone. So the number of records comes free, as in error_correct. An
error that is a share u of its range adds u^2, u - u^2 and 1 - u of S to the columns of error_sums. They add up to 1, so
squared and absolute errors cost no more than either alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from protocol.records import LABEL_STEPS
from protocol.schema import Schema

Counts = NDArray[np.int64]

MOST_STEPS = 2**16
"""Most steps S: 2^40 records of 2^16 steps add up to 2^56, far below what int64 holds."""
MOST_SQUARED_ERROR = LABEL_STEPS**2
"""The largest squared error on the label's grid: the whole range, squared."""


def _mass(errors: Counts, correct: Counts) -> Counts:
    return (errors + correct)[:, None]


def _signed_error(errors: Counts, correct: Counts) -> Counts:
    return (correct - errors)[:, None]


def _error_correct(errors: Counts, correct: Counts) -> Counts:
    return np.column_stack([errors, correct])


def _label_steps(labels: Counts, _predictions: Counts | None, steps: int, _most: int) -> Counts:
    return _and_rest(steps, _rounded(labels * steps, LABEL_STEPS))


def _squared_error_steps(labels: Counts, predictions: Counts | None, steps: int, most: int) -> Counts:
    if predictions is None:
        raise TypeError("a squared error needs a hypothesis")
    return _and_rest(steps, _rounded(np.minimum((labels - predictions) ** 2, most) * steps, most))


def _error_sums_steps(labels: Counts, predictions: Counts | None, steps: int, most: int) -> Counts:
    if predictions is None:
        raise TypeError("an error needs a hypothesis")
    reach = isqrt(most)
    errors = np.minimum(np.abs(labels - predictions), reach)
    absolute = _rounded(errors * steps, reach)
    squared = _rounded(errors**2 * steps, reach**2)
    return np.column_stack([squared, absolute - squared, steps - absolute])


def _and_rest(steps: int, sums: Counts) -> Counts:
    return np.column_stack([sums, steps - sums])


def _rounded(numerator: Counts, denominator: int) -> Counts:
    """Round numerator / denominator to the nearest whole number, halves upwards, by whole-number arithmetic alone."""
    rounded: Counts = (2 * numerator + denominator) // (2 * denominator)
    return rounded


def _one_column(_schema: Schema) -> int:
    return 1


def _two_columns(_schema: Schema) -> int:
    return 2


def _three_columns(_schema: Schema) -> int:
    return 3


def _any_label(_schema: Schema) -> bool:
    return True


def _two_classes(schema: Schema) -> bool:
    return len(schema.classes) == 2


def _classes(schema: Schema) -> bool:
    return schema.label_bounds is None


def _number(schema: Schema) -> bool:
    return schema.label_bounds is not None


@dataclass(frozen=True)
class ReleaseKind:
    """One way to count, which exactly one of `of_errors`, `by_class` and `of_steps` computes."""

    columns: Callable[[Schema], int]  # numbers released per cell, given the schema
    wants_hypothesis: bool | None  # True where a hypothesis must be given, False where it must not, None where it may
    fits: Callable[[Schema], bool]  # whether it can be asked where labels are as the schema says
    label: str  # what `fits` wants, in words
    words: str  # what is counted, in words for a steward
    of_errors: Callable[[Counts, Counts], Counts] | None = None  # (errors (k,), correct (k,)) -> (k, columns) int64
    by_class: bool = False  # one count a class
    # (labels (n,) and predictions (n,) in grid steps 0 .. 4096 of their range, int64; steps S; largest squared error,
    # in squared grid steps) -> what each adds to its cell, (n, columns) int64, not negative, S in all. Of absolute
    # errors the largest is the root of the largest squared one, rounded down.
    of_steps: Callable[[Counts, Counts | None, int, int], Counts] | None = None
    ranged: bool = False  # whether a body may state the largest squared error
    reads_label: bool = True  # whether it hangs on labels; where it does not, they may change and no number moves
    reads_outcomes: bool = False  # whether partitions may read outcomes and the label; its words then say so


_BINARY = "a label of two classes"
_NUMERIC = "a numeric label"

RELEASE_KINDS: dict[str, ReleaseKind] = {
    "mass": ReleaseKind(
        _one_column,
        wants_hypothesis=False,
        fits=_any_label,
        label="any label",
        words="counts of the records",
        of_errors=_mass,
        reads_label=False,
    ),
    "signed_error": ReleaseKind(
        _one_column,
        wants_hypothesis=True,
        fits=_two_classes,
        label=_BINARY,
        words="counts of the records that a model gets right, less those that it gets wrong,",
        of_errors=_signed_error,
    ),
    "error_correct": ReleaseKind(
        _two_columns,
        wants_hypothesis=True,
        fits=_two_classes,
        label=_BINARY,
        words="counts of the records that a model gets wrong, and of those that it gets right,",
        of_errors=_error_correct,
    ),
    "class_counts": ReleaseKind(
        lambda schema: len(schema.classes),
        wants_hypothesis=False,
        fits=_classes,
        label="a label of classes",
        words="counts of the records of each class",
        by_class=True,
    ),
    "label_total": ReleaseKind(
        _two_columns,
        wants_hypothesis=False,
        fits=_number,
        label=_NUMERIC,
        words="the sum of the labels, and the number of records,",
        of_steps=_label_steps,
    ),
    "squared_error": ReleaseKind(
        _two_columns,
        wants_hypothesis=True,
        fits=_number,
        label=_NUMERIC,
        words="the sum of a model's squared errors, and the number of records,",
        of_steps=_squared_error_steps,
        ranged=True,
    ),
    "error_sums": ReleaseKind(
        _three_columns,
        wants_hypothesis=True,
        fits=_number,
        label=_NUMERIC,
        words="the sums of a model's squared and absolute errors, and the number of records,",
        of_steps=_error_sums_steps,
        ranged=True,
    ),
    "outcome_counts": ReleaseKind(
        _one_column,
        wants_hypothesis=False,
        fits=_any_label,
        label="any label",
        words="counts of the records, which may be grouped by label and outcomes,",
        of_errors=_mass,
        reads_outcomes=True,
    ),
}
