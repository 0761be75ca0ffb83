"""The numbers of the study as CSV files; likelihoods and divergences are in nats."""

from functools import partial

from expril.report.files import csv_text
from expril.report.table import Column, attributes
from lab.sample.model import Check, Found, Mean, Row

_six = "{:.6f}".format


def _of(measure: str, part: str, row: Row) -> str:
    mean: Mean = getattr(row, measure)
    return _six(getattr(mean, part))


def _runs(row: Row) -> str:
    return str(row.nll.runs)


ROWS: tuple[Column[Row], ...] = (
    *attributes("domain method variant epsilon"),
    Column("repeats", _runs),
    *(
        Column(measure if part == "value" else f"{measure}_{part}", partial(_of, measure, part))
        for measure in ("nll", "coverage", "printed")
        for part in ("value", "deviation")
    ),
    *attributes("entropy base", _six),
    *attributes("settings"),
)
THEORY: tuple[Column[Check], ...] = (
    *attributes("domain method epsilon densities in_range"),
    *attributes("furthest gain most", _six),
    *attributes("below_most high above_least above_least_proved steps weak high_steps above_printed above_proved"),
)


def rows_csv(found: Found) -> str:
    """One line for each domain, method and epsilon; `_deviation` is the standard deviation over the repeats."""
    return csv_text(ROWS, found.rows)


def theory_csv(found: Found) -> str:
    """One line for each domain and epsilon of MBDE: how often each theorem was kept."""
    return csv_text(THEORY, found.checks)
