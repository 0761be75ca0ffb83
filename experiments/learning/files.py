"""The numbers of a comparison as CSV files; accuracies, AUC and calibration errors are in percent."""

from collections.abc import Iterable

from experiments.learning.model import Comparison, Row
from experiments.publish.files import csv_text
from experiments.publish.numbers import points
from experiments.publish.table import Column

_KEY = (
    Column[Row]("dataset", lambda row: row.dataset),
    Column[Row]("strategy", lambda row: row.strategy),
    Column[Row]("epsilon", lambda row: row.epsilon),
)
RESULTS = (
    *_KEY,
    Column[Row]("mean", lambda row: points(row.mean)),
    Column[Row]("std", lambda row: points(row.std)),
    Column[Row]("runs", lambda row: row.runs),
)
DETAILS = (
    *_KEY,
    Column[Row]("runs", lambda row: row.runs),
    Column[Row]("auc", lambda row: points(row.auc)),
    Column[Row]("brier", lambda row: f"{row.brier:.4f}"),
    Column[Row]("ece", lambda row: points(row.ece)),
    Column[Row]("seconds", lambda row: f"{row.seconds:.3f}"),
    Column[Row]("difference", lambda row: _points(row.difference)),
    Column[Row]("difference_error", lambda row: _points(row.difference_error)),
    Column[Row]("pairs", lambda row: row.pairs),
    Column[Row]("estimated_accuracy", lambda row: _mean(claim.estimated for claim in row.claims)),
    Column[Row]("interval_low", lambda row: _mean(claim.low for claim in row.claims)),
    Column[Row]("interval_high", lambda row: _mean(claim.high for claim in row.claims)),
    Column[Row]("coverage", lambda row: _points(row.coverage)),
    Column[Row]("epsilon_spent", lambda row: row.spent),
)


def _points(value: float | None) -> str:
    return "" if value is None else points(value)


def _mean(values: Iterable[float]) -> str:
    known = list(values)
    return points(sum(known) / len(known)) if known else ""


def results_csv(found: Comparison) -> str:
    """One line for each strategy, data set and epsilon: mean and sample standard deviation of the accuracy."""
    return csv_text(RESULTS, found.rows)


def details_csv(found: Comparison) -> str:
    """The other numbers of the same rows; what a row does not have is empty.

    `difference` is accuracy minus the default strategy's over the `pairs` runs that both have, with its standard
    error; `estimated_accuracy` and the interval's ends are means of what the learner says of itself; `coverage` is
    the share of runs whose interval agrees with the accuracy on the test records, within its binomial error;
    `epsilon_spent` is exact.
    """
    return csv_text(DETAILS, found.rows)
