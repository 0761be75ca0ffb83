"""The page of a comparison: one HTML file that holds every number, loads nothing and runs no script.

Every string of the comparison is untrusted and reaches the page through one Jinja template with autoescape.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from experiments.learning import plots
from experiments.learning.bars import Average, averages, standings
from experiments.learning.entries import GROUP_TITLES, Group
from experiments.learning.model import Comparison, Row
from experiments.learning.outcome import INFINITE
from experiments.learning.words import (
    best_private,
    difference,
    headline,
    met,
    needed,
    span,
    spread,
    verdict,
)
from simulations.report.page import moment
from simulations.report.plots import COLOURS, SHAPES
from simulations.report.templates import Template, page_template, sheet

PACKAGE = "experiments.learning"


@dataclass(frozen=True)
class TableRow:
    """One strategy of one table; its rows lie in the order of the data sets."""

    average: Average
    rows: tuple[Row | None, ...]
    runs: str


@dataclass(frozen=True)
class Part:
    """The strategies of one kind in one table."""

    group: Group
    title: str
    rows: tuple[TableRow, ...]


@dataclass(frozen=True)
class EpsilonTable:
    """Everything at one epsilon, and what is not private below it."""

    epsilon: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Other:
    """Means over the data sets of a strategy's other measures, at one epsilon."""

    name: str
    epsilon: str
    auc: float
    brier: float
    ece: float
    seconds: float
    coverage: tuple[int, int]


def epsilon_tables(found: Comparison) -> tuple[EpsilonTable, ...]:
    """One table for each finite epsilon; one without privacy alone where there is no other."""
    silent = _part_rows(found, INFINITE)
    private = [epsilon for epsilon in found.epsilons if epsilon != INFINITE]
    if not private:
        return (EpsilonTable(INFINITE, (Part("ceiling", "not private", tuple(silent)),)),) if silent else ()
    tables = []
    for epsilon in private:
        rows = _part_rows(found, epsilon)
        parts = [
            Part(group, title, tuple(row for row in rows if row.average.strategy.group == group))
            for group, title in GROUP_TITLES.items()
        ]
        parts.append(Part("ceiling", "not private, for reference", tuple(silent)))
        tables.append(EpsilonTable(epsilon, tuple(part for part in parts if part.rows)))
    return tuple(tables)


def _part_rows(found: Comparison, epsilon: str) -> list[TableRow]:
    result = []
    for average in averages(found, epsilon):
        rows = tuple(found.find(dataset, average.strategy.name, epsilon) for dataset in found.problems)
        result.append(TableRow(average, rows, span([row.runs for row in rows if row is not None])))
    return result


def other_measures(found: Comparison) -> list[Other]:
    """In the order of the rows."""
    result = []
    for epsilon in found.epsilons:
        for strategy in found.strategies:
            rows = [row for row in found.rows if row.strategy == strategy.name and row.epsilon == epsilon]
            if rows:
                means = {
                    name: sum(getattr(row, name) for row in rows) / len(rows)
                    for name in ("auc", "brier", "ece", "seconds")
                }
                result.append(Other(strategy.name, epsilon, coverage=plots.coverage(rows), **means))
    return result


@cache
def _template() -> Template:
    filters: dict[str, Callable[..., str]] = {
        "moment": moment,
        "spread": spread,
        "difference": difference,
        "met": met,
        "needed": needed,
    }
    return page_template(PACKAGE, filters)


def build_page(found: Comparison) -> str:
    """Return the page as one HTML document that loads nothing.

    The same comparison gives the same text. Every string of it is treated as untrusted and is shown as text.
    """
    return _template().render(
        found=found,
        headline=headline(found),
        verdict=verdict(found),
        tables=epsilon_tables(found),
        best={key for epsilon in found.epsilons for key in best_private(found, epsilon)},
        bars=standings(found),
        keys=plots.strategy_keys(found),
        figures=plots.epsilon_figures(found),
        epsilon_keys=plots.epsilon_keys(found),
        diagrams=plots.reliability_figures(found),
        claims=plots.claim_figures(found),
        others=other_measures(found),
        infinite=INFINITE,
        shapes=SHAPES,
        colours=COLOURS,
        style=sheet(PACKAGE),
    )
