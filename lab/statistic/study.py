"""The study of statistics: how far private medians and quartiles are off, by method, against the number of records."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from expril.report.chart import Figure, Key, Place, Series, Stage, decade_axis
from expril.report.document import Charts, Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Group, Table, attributes
from lab.averages import Mean, log_chart
from lab.cells import by_seed, epsilon_order, grouped
from lab.statistic.methods import (
    DEGREES,
    DELTA,
    DRAWS,
    ESTIMANDS,
    LEAST_BLOCKS,
    METHODS,
    MOST_BLOCKS,
    POPULATIONS,
    Measured,
    compute,
    task_of,
)
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from simulations.campaign.store import Task

REAL = tuple(name for name in METHODS if name != "none")
"""Methods that are private."""
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
LEAST = 0.01
"""Errors below are drawn there, in percent of the interquartile range."""
READING = (
    "Mean absolute distance between what is told and the population's own quantile, in percent of its interquartile "
    f"range, over {DRAWS} draws of noise on each sample; sampling error is in it, and is all that there is without "
    "noise. The smallest private error of a row is bold. Grids have 10,001 points between the bounds, of stays 14. The "
    f"decay of smooth sensitivity takes half of epsilon, Student's t has {DEGREES} degrees of freedom, and its Laplace "
    f"variant, for simulations only, a delta of {DELTA:g}. There are about as many blocks as records in a block, from "
    f"{LEAST_BLOCKS} to {MOST_BLOCKS}. Scores, sensitivities and estimators are those of a curator, noise and blocks "
    f"are numpy's. Charts show errors below {LEAST} % at {LEAST} %."
)


class Point(msgspec.Struct, frozen=True):
    """One population's errors at one size and epsilon."""

    population: str  # as of `Measured`
    estimand: str
    records: int
    epsilon: str
    # method -> mean absolute error over samples and noise, in percent of the interquartile range
    errors: dict[str, float]
    deviations: dict[str, float]  # method -> standard error of that mean over samples; 0 for a single one
    samples: int

    def best(self, names: Iterable[str] = REAL) -> str:
        """The method of the smallest error; of equal ones the first."""
        return min(names, key=lambda name: self.errors[name])


class Findings(msgspec.Struct, frozen=True):
    """What the cells say, in the order in which it is shown."""

    points: tuple[Point, ...]
    provenance: Provenance | None = None


def findings(cells: Mapping[str, Sequence[Measured]], provenance: Provenance | None = None) -> Findings:
    """All that the cells show, whatever is still missing."""
    points = []
    for (estimand, epsilon, population, records), held in grouped(
        by_seed(cells["cells"]),
        lambda cell: (cell.estimand, cell.epsilon, cell.population, cell.records),
        list(ESTIMANDS),
        epsilon_order,
        list(POPULATIONS),
        int,
    ).items():
        means = {name: Mean.of(cell.errors[name] for cell in held) for name in METHODS}
        errors = {name: mean.value for name, mean in means.items()}
        deviations = {name: mean.error for name, mean in means.items()}
        points.append(Point(population, estimand, records, epsilon, errors, deviations, len(held)))
    return Findings(tuple(points), provenance)


def document(found: Findings) -> Document:
    """A section for each estimand and epsilon, after the counts of all."""
    keys = {name: Key(index, name == "none", SHORT[name]) for index, name in enumerate(METHODS)}
    sections = [Section("Where each method errs least", [_wins(found.points)])]
    for (estimand, epsilon), panel in grouped(found.points, lambda point: (point.estimand, point.epsilon)).items():
        title = f"Error of the {ESTIMATORS[estimand]} at epsilon {epsilon}, in percent of the interquartile range"
        columns: list[Column[Point]] = [Column("records", lambda point: f"{point.records:,}", number=True, names=True)]
        columns += [Column(SHORT[name], _error(name), number=True, title=METHODS[name][0]) for name in METHODS]
        named = grouped(panel, lambda point: f"{point.population}: {POPULATIONS[point.population].title}")
        table = Table(title, columns, [Group(points, name) for name, points in named.items()])
        charts = [_chart(name, points, keys) for name, points in named.items()]
        lead = [Text(READING)] if len(sections) == 1 else []
        sections.append(Section(title, [*lead, Charts(charts, tuple(keys.values()), columns=2), table]))
    both = [_column(name, part) for name in METHODS for part in ("errors", "deviations")]
    columns = [*attributes("population estimand records epsilon samples"), *both]
    files = {"errors.csv": Table.of("errors", columns, found.points)}
    return document_of("statistic", sections, found.provenance, files)


def _wins(points: Sequence[Point]) -> Table[str]:
    """Of each private method: in how many cases it errs least, and in how many at most twice the sampling error."""

    def least(name: str) -> int:
        return sum(point.best() == name for point in points)

    def near(name: str) -> int:
        return sum(point.errors[name] <= 2 * point.errors["none"] for point in points)

    columns: list[Column[str]] = [
        Column("method", lambda name: METHODS[name][0], names=True),
        Column(f"errs least, of {len(points)} cases", least, number=True),
        Column("within twice the error without noise", near, number=True),
    ]
    return Table.of("Where each method errs least", columns, REAL if points else ())


def _error(name: str) -> Callable[[Point], Cell]:
    def show(point: Point) -> Cell:
        text = f"{point.errors[name]:,.3g}" if point.errors[name] < 1000 else f"{point.errors[name]:,.0f}"
        return Cell(text, strong=name == point.best())

    return show


def _column(name: str, part: str) -> Column[Point]:
    return Column(f"{name}_{part}", lambda point: f"{getattr(point, part)[name]:.6g}")


def _chart(name: str, points: Sequence[Point], keys: Mapping[str, Key]) -> Figure:
    """Error against records, both logarithmic."""

    def place(point: Point, method: str) -> Place:
        error = max(point.errors[method], LEAST)
        return Place(
            point.records, error, (error, error), f"{point.errors[method]:.3g} % with {point.records:,} records"
        )

    series = [Series(keys[method], [place(point, method) for point in points]) for method in METHODS]
    values = [place.value for one in series for place in one.places]
    stage = Stage(decade_axis(min(values), max(values), "%"), 300)
    return log_chart(name, series, (), "records", stage=stage, unit="error, logarithmic")


def tasks(order: Order) -> list[Task]:
    """All cells; a population with fewer records is asked no more of."""
    return [
        task_of(name, estimand, int(records), epsilon, seed)
        for seed in order.seeds
        for name in order.size.axes["populations"]
        for records in order.size.axes["records"]
        if int(records) < (POPULATIONS[name].most or math.inf)
        for estimand in ESTIMANDS
        for epsilon in order.size.epsilons
    ]


RECORDS = ("100", "300", "1000", "3000", "10000", "100000", "1000000")
STUDY = Study(
    name="statistic",
    parts=[Part("cells", Measured, tasks, compute, lambda _order: {"methods": list(METHODS)})],
    findings=findings,
    document=document,
    choices={"populations": tuple(POPULATIONS), "records": RECORDS},
    short=Size(2, ("1",), {"populations": tuple(POPULATIONS), "records": RECORDS[:5]}, "half a minute"),
    full=Size(5, ("1", "1/10"), {"populations": tuple(POPULATIONS), "records": RECORDS}, "two minutes"),
    noise="seeded generators of NumPy",
    width=150,
)
