"""The numbers of a comparison as CSV files; accuracies, AUC and calibration errors are in percent."""

from experiments.campaign.files import csv_text, points
from experiments.learning.model import Comparison, Row

RESULTS_HEADER = ("dataset", "strategy", "epsilon", "mean", "std", "runs")
DETAILS_HEADER = (
    "dataset",
    "strategy",
    "epsilon",
    "runs",
    "auc",
    "brier",
    "ece",
    "seconds",
    "difference",
    "difference_error",
    "pairs",
    "estimated_accuracy",
    "interval_low",
    "interval_high",
    "coverage",
    "epsilon_spent",
)


def results_csv(found: Comparison) -> str:
    """One line for each strategy, data set and epsilon: mean and sample standard deviation of the accuracy."""
    return csv_text(
        RESULTS_HEADER,
        ((r.dataset, r.strategy, r.epsilon, points(r.mean), points(r.std), r.runs) for r in found.rows),
    )


def details_csv(found: Comparison) -> str:
    """The other numbers of the same rows; what a row does not have is empty.

    `difference` is accuracy minus the default strategy's over the `pairs` runs that both have, with its standard
    error; `estimated_accuracy` and the interval's ends are means of what the learner says of itself; `coverage` is
    the share of runs whose interval agrees with the accuracy on the test records, within its binomial error;
    `epsilon_spent` is exact.
    """
    return csv_text(DETAILS_HEADER, map(_details, found.rows))


def _details(row: Row) -> tuple[str | int, ...]:
    claims = row.claims

    def mean(values: list[float]) -> str:
        return points(sum(values) / len(values)) if values else ""

    return (
        row.dataset,
        row.strategy,
        row.epsilon,
        row.runs,
        points(row.auc),
        f"{row.brier:.4f}",
        points(row.ece),
        f"{row.seconds:.3f}",
        "" if row.difference is None else points(row.difference),
        "" if row.difference_error is None else points(row.difference_error),
        row.pairs,
        mean([claim.estimated for claim in claims]),
        mean([claim.low for claim in claims]),
        mean([claim.high for claim in claims]),
        "" if row.coverage is None else points(row.coverage),
        row.spent,
    )
