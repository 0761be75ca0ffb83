"""The numbers of a reproduction as CSV files (RFC 4180 quoting, one header line, lines end in a newline).

Accuracies, their differences and their deviations are in percent or percentage points with 2 decimals, `ratio` has 4
decimals, epsilons and p values have 4 significant digits. Infinite values are written "inf", which `float` reads.
"""

from collections.abc import Sequence

from experiments.campaign.files import csv_text, points
from experiments.paper.findings import EPSILON_COLUMNS
from experiments.paper.model import Cell, Closure, Curve, Wilcoxon

TABLE_HEADER = ("dataset", "column", "mean", "std", "runs")
CURVES_HEADER = ("dataset", "learner", "noise", "scale", "rounds", "mean", "std", "runs", "epsilon")
WILCOXON_HEADER = ("dataset", "noise", "difference", "p_value", "runs")
CLOSURES_HEADER = ("dataset", "column", "setting", "mean", "std", "runs")


def _number(column: str, value: float) -> str:
    if column in EPSILON_COLUMNS:
        return _significant(value)
    return f"{value:z.4f}" if column == "ratio" else points(value)


def _significant(value: float) -> str:
    return f"{value:.4g}"


def table_csv(cells: Sequence[Cell]) -> str:
    """Return Table 2: one line a cell, mean and sample standard deviation over the runs."""
    return csv_text(
        TABLE_HEADER,
        ((c.dataset, c.column, _number(c.column, c.mean), _number(c.column, c.std), c.runs) for c in cells),
    )


def curves_csv(curves: Sequence[Curve]) -> str:
    """Return Figure 1: one line a point; the mean is acc(h_t) - acc(h*) in percentage points, epsilon is claimed.

    `scale` is "fixed" for the paper's noise scale for three queries, "plan" for one that fits the number of rounds.
    """
    return csv_text(
        CURVES_HEADER,
        (
            (
                curve.dataset,
                curve.learner,
                curve.noise,
                "fixed" if curve.fixed else "plan",
                point.rounds,
                points(point.mean),
                points(point.std),
                point.runs,
                _significant(point.epsilon),
            )
            for curve in curves
            for point in curve.points
        ),
    )


def wilcoxon_csv(rows: Sequence[Wilcoxon]) -> str:
    """Return the signed-rank tests: mean difference C - I in percentage points, two-sided p value, pairs."""
    return csv_text(
        WILCOXON_HEADER,
        ((r.dataset, r.noise, points(r.difference), _significant(r.p_value), r.runs) for r in rows),
    )


def closures_csv(rows: Sequence[Closure]) -> str:
    """Return the cells that were made again with one changed setting."""
    return csv_text(
        CLOSURES_HEADER,
        ((r.dataset, r.column, r.setting, _number(r.column, r.mean), _number(r.column, r.std), r.runs) for r in rows),
    )
