"""The numbers of a reproduction as CSV files.

Accuracies, their differences and their deviations are in percent or percentage points with 2 decimals, `ratio` has 4
decimals, epsilons and p values have 4 significant digits. Infinite values are written "inf", which `float` reads.
"""

from collections.abc import Sequence

from experiments.paper.findings import EPSILON_COLUMNS
from experiments.paper.model import Cell, Closure, Curve, Wilcoxon
from experiments.paper.words import scale
from experiments.publish.files import csv_text
from experiments.publish.numbers import points
from experiments.publish.table import Column


def _significant(value: float) -> str:
    return f"{value:.4g}"


def _number(column: str, value: float) -> str:
    if column in EPSILON_COLUMNS:
        return _significant(value)
    return f"{value:z.4f}" if column == "ratio" else points(value)


def table_csv(cells: Sequence[Cell]) -> str:
    """Return Table 2: one line a cell, mean and sample standard deviation over the runs."""
    return csv_text(
        (
            Column("dataset", lambda cell: cell.dataset),
            Column("column", lambda cell: cell.column),
            Column("mean", lambda cell: _number(cell.column, cell.mean)),
            Column("std", lambda cell: _number(cell.column, cell.std)),
            Column("runs", lambda cell: cell.runs),
        ),
        cells,
    )


def curves_csv(curves: Sequence[Curve]) -> str:
    """Return Figure 1: one line a point; the mean is acc(h_t) - acc(h*) in percentage points, epsilon is claimed.

    `scale` is "fixed" for the paper's noise scale for three queries, "plan" for one that fits the number of rounds.
    """
    return csv_text(
        (
            Column("dataset", lambda both: both[0].dataset),
            Column("learner", lambda both: both[0].learner),
            Column("noise", lambda both: both[0].noise),
            Column("scale", lambda both: scale(both[0])),
            Column("rounds", lambda both: both[1].rounds),
            Column("mean", lambda both: points(both[1].mean)),
            Column("std", lambda both: points(both[1].std)),
            Column("runs", lambda both: both[1].runs),
            Column("epsilon", lambda both: _significant(both[1].epsilon)),
        ),
        [(curve, point) for curve in curves for point in curve.points],
    )


def wilcoxon_csv(rows: Sequence[Wilcoxon]) -> str:
    """Return the signed-rank tests: mean difference C - I in percentage points, two-sided p value, pairs."""
    return csv_text(
        (
            Column("dataset", lambda row: row.dataset),
            Column("noise", lambda row: row.noise),
            Column("difference", lambda row: points(row.difference)),
            Column("p_value", lambda row: _significant(row.p_value)),
            Column("runs", lambda row: row.runs),
        ),
        rows,
    )


def closures_csv(rows: Sequence[Closure]) -> str:
    """Return the cells that were made again with one changed setting."""
    return csv_text(
        (
            Column("dataset", lambda row: row.dataset),
            Column("column", lambda row: row.column),
            Column("setting", lambda row: row.setting),
            Column("mean", lambda row: _number(row.column, row.mean)),
            Column("std", lambda row: _number(row.column, row.std)),
            Column("runs", lambda row: row.runs),
        ),
        rows,
    )
