"""What the tables of the study of statistics hold."""

from collections.abc import Callable

from expril.report.table import Column, Group, Table, Text
from lab.statistic.methods import METHODS
from lab.statistic.model import Found, Point
from lab.statistic.populations import POPULATIONS

ESTIMATORS = {"median": "median", "upper_quartile": "quantile at 3/4"}
SHORT = {
    "exponential": "exponential",
    "smooth": "smooth, t",
    "smooth_laplace": "smooth, Laplace",
    "aggregate_median": "blocks' median",
    "aggregate_mean": "blocks' mean",
    "global": "global",
    "none": "no noise",
}


def title_of(estimand: str, epsilon: str) -> str:
    """Of a table."""
    return f"Error of the {ESTIMATORS[estimand]} at epsilon {epsilon}, in percent of the interquartile range"


def errors(found: Found) -> dict[tuple[str, str], Table[Point]]:
    """For each estimand and epsilon, every population against the number of records."""
    return {panel: _errors(found, *panel) for panel in found.panels()}


def _errors(found: Found, estimand: str, epsilon: str) -> Table[Point]:
    groups = [
        Group(points, f"{name}: {POPULATIONS[name].title}") for name, points in found.of(estimand, epsilon).items()
    ]
    columns: list[Column[Point]] = [Column("records", lambda point: f"{point.records:,}", number=True, names=True)]
    columns += [Column(SHORT[name], _shown(name), number=True, title=METHODS[name][0]) for name in METHODS]
    return Table(title_of(estimand, epsilon), columns, groups)


def _shown(name: str) -> Callable[[Point], object]:
    def show(point: Point) -> object:
        text = f"{point.errors[name]:,.3g}" if point.errors[name] < 1000 else f"{point.errors[name]:,.0f}"
        return Text(text, strong=name == point.best())

    return show
