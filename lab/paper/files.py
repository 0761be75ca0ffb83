"""The numbers of a reproduction as CSV files.

Accuracies, their differences and their deviations are in percent or percentage points with 2 decimals, `ratio` has 4
decimals, epsilons and p values have 4 significant digits. Infinite values are written "inf", which `float` reads.
"""

from collections.abc import Sequence
from typing import Any

from expril.report.files import csv_text
from expril.report.numbers import points
from expril.report.table import Column, attributes
from lab.paper.findings import EPSILON_COLUMNS
from lab.paper.model import Cell, Closure, Curve, Point, Wilcoxon
from lab.paper.words import scale

_significant = "{:.4g}".format


def _number(column: str, value: float) -> str:
    if column in EPSILON_COLUMNS:
        return _significant(value)
    return f"{value:z.4f}" if column == "ratio" else points(value)


_NUMBERS = (
    Column[Cell | Closure]("mean", lambda cell: _number(cell.column, cell.mean)),
    Column[Cell | Closure]("std", lambda cell: _number(cell.column, cell.std)),
    *attributes("runs"),
)


def table_csv(cells: Sequence[Cell]) -> str:
    """Return Table 2: one line a cell, mean and sample standard deviation over the runs."""
    return csv_text((*attributes("dataset column"), *_NUMBERS), cells)


def curves_csv(curves: Sequence[Curve]) -> str:
    """Return Figure 1: one line a point; the mean is acc(h_t) - acc(h*) in percentage points, epsilon is claimed.

    `scale` is "fixed" for the paper's noise scale for three queries, "plan" for one that fits the number of rounds.
    """
    of_curve = (*attributes("dataset learner noise"), Column("scale", scale))
    of_point = (
        *attributes("rounds"),
        *attributes("mean std", points),
        *attributes("runs"),
        *attributes("epsilon", _significant),
    )
    shown = [*(_of(0, column) for column in of_curve), *(_of(1, column) for column in of_point)]
    return csv_text(shown, [(curve, point) for curve in curves for point in curve.points])


def _of(place: int, column: Column[Any]) -> Column[tuple[Curve, Point]]:
    return Column(column.heading, lambda both: column.show(both[place]))


def wilcoxon_csv(rows: Sequence[Wilcoxon]) -> str:
    """Return the signed-rank tests: mean difference C - I in percentage points, two-sided p value, pairs."""
    shown = (*attributes("dataset noise"), *attributes("difference", points), *attributes("p_value", _significant))
    return csv_text((*shown, *attributes("runs")), rows)


def closures_csv(rows: Sequence[Closure]) -> str:
    """Return the cells that were made again with one changed setting."""
    return csv_text((*attributes("dataset column setting"), *_NUMBERS), rows)
