"""The numbers of a comparison as CSV files; accuracies, AUC and calibration errors are in percent."""

from functools import partial
from statistics import fmean

from expril.report.files import csv_text
from expril.report.numbers import points
from expril.report.table import Column, attributes
from lab.comparison.model import Comparison, Row

RESULTS = (*attributes("dataset strategy epsilon"), *attributes("mean std", points), *attributes("runs"))


def _claimed(name: str, row: Row) -> str:
    return points(fmean(getattr(claim, name) for claim in row.claims)) if row.claims else ""


DETAILS = (
    *attributes("dataset strategy epsilon runs"),
    *attributes("auc auc_std", points),
    *attributes("brier", "{:.4f}".format),
    *attributes("ece", points),
    *attributes("seconds", "{:.3f}".format),
    *attributes("difference difference_error", points),
    *attributes("pairs"),
    Column[Row]("estimated_accuracy", partial(_claimed, "estimated")),
    Column[Row]("interval_low", partial(_claimed, "low")),
    Column[Row]("interval_high", partial(_claimed, "high")),
    *attributes("coverage", points),
    Column[Row]("epsilon_spent", lambda row: row.spent),
)


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
