"""What the tables of a comparison hold, on its page, in its Markdown and in the terminal."""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from rich.table import Table as RichTable

from expril.report.numbers import decimal
from expril.report.table import Cell, Column, Group, Table, Written, text_table
from expril.report.terminal import rich_table
from lab.comparison.bars import Average, Standing, averages, standings
from lab.comparison.contestants import GROUP_TITLES
from lab.comparison.model import Comparison, Row
from lab.comparison.outcome import INFINITE
from lab.comparison.words import (
    accuracy_of,
    auc_of,
    auc_spread,
    bar_sentence,
    best_private,
    common,
    difference,
    met,
    needed,
    private_epsilons,
    span,
    spread,
)

# --- the bars


def bars(found: Comparison) -> Table[Standing]:
    """Every bar, and who meets it."""
    return Table.of(
        "Bars, and whether they are met",
        [
            Column("data set", lambda bar: Cell(bar.dataset, strong=True), names=True, quiet=True),
            Column("epsilon", lambda bar: bar.epsilon, number=True),
            Column("bar", needed, number=True),
            Column("h*", lambda bar: decimal(bar.in_site), number=True),
            Column(found.default, lambda bar: spread(bar.default), number=True),
            Column("bar", lambda bar: _met(bar.met)),
            Column("aim", lambda bar: "–" if bar.aim is None else _met(bar.aim)),
            Column(
                "best of ours",
                lambda bar: "–" if bar.best is None else f"{bar.best.strategy}, {spread(bar.best)}",
            ),
            Column("bar", lambda bar: _met(bar.best_met)),
        ],
        standings(found),
        "bars",
    )


def _met(value: bool | None) -> Cell:
    return Cell(met(value), tone="" if value is None else "within" if value else "below")


# --- accuracies


@dataclass(frozen=True)
class Line:
    """One strategy at one epsilon; its rows lie in the order of the data sets."""

    average: Average
    rows: tuple[Row | None, ...]

    @property
    def name(self) -> str:
        """Of the strategy."""
        return self.average.strategy.name

    @property
    def runs(self) -> str:
        """Of the rows."""
        return span([row.runs for row in self.rows if row is not None])


def _lines(found: Comparison, epsilon: str) -> list[Line]:
    return [
        Line(average, tuple(found.find(dataset, average.strategy.name, epsilon) for dataset in found.problems))
        for average in averages(found, epsilon)
    ]


def _grouped(found: Comparison, epsilon: str) -> list[Group[Line]]:
    lines = _lines(found, epsilon)
    return [
        Group([line for line in lines if line.average.strategy.group == group], title)
        for group, title in GROUP_TITLES.items()
    ]


@dataclass(frozen=True)
class Measure:
    """What a table of strategies by data sets shows.

    Attributes:
        caption: of the table.
        value: of a row, in percent.
        shown: the same as text, with its deviation.
        average: of a line.
        ranked: the data sets in which the best is marked.
        averaged: those that the average is over; they stand before it.
    """

    caption: str
    value: Callable[[Row], float]
    shown: Callable[[Row | None], str]
    average: Callable[[Average], float | None]
    ranked: tuple[str, ...]
    averaged: tuple[str, ...]


def accuracy(found: Comparison) -> Measure:
    """Accuracy; where a class is rare, none is marked as the best."""
    return Measure("Accuracy", accuracy_of, spread, lambda line: line.mean, tuple(common(found)), found.averaged)


def auc(found: Comparison) -> Measure:
    """Area under the ROC curve."""
    everything = tuple(found.problems)
    return Measure("AUC", auc_of, auc_spread, lambda line: line.auc, everything, everything)


def measure_tables(found: Comparison, measure: Measure) -> dict[str, Table[Line]]:
    """For each finite epsilon everything at it, and what is not private below; that alone where there is no other."""
    silent = _lines(found, INFINITE)
    reference = Group(silent, "not private, for reference")
    tables = {
        epsilon: _table(found, measure, epsilon, [*_grouped(found, epsilon), reference])
        for epsilon in private_epsilons(found)
    }
    return tables or ({INFINITE: _table(found, measure, INFINITE, [Group(silent, "not private")])} if silent else {})


def _table(found: Comparison, measure: Measure, epsilon: str, groups: Sequence[Group[Line]]) -> Table[Line]:
    best = best_private(found, epsilon, measure.ranked, measure.value)
    columns = {
        dataset: Column[Line](dataset, partial(_shown, measure, best, place), number=True, title=title)
        for place, (dataset, title) in enumerate(found.problems.items())
    }
    others = [dataset for dataset in columns if dataset not in measure.averaged]
    return Table(
        f"{measure.caption} {'without privacy' if epsilon == INFINITE else f'at epsilon {epsilon}'}",
        [
            Column("strategy", _strategy, names=True, quiet=True),
            *(columns[dataset] for dataset in measure.averaged),
            Column(average_heading(measure, others), lambda line: decimal(measure.average(line.average)), number=True),
            *(columns[dataset] for dataset in others),
            Column("runs", lambda line: line.runs, number=True),
        ],
        [group for group in groups if group.rows],
        "accuracies totals",
        lambda line: "default" if line.name == found.default else "",
    )


def average_heading(measure: Measure, others: Sequence[str]) -> str:
    """Of the column of averages, which says of how many where that is not all."""
    return f"average of {len(measure.averaged)}" if others else "average"


def _shown(measure: Measure, best: Container[tuple[str, str, str]], place: int, line: Line) -> Cell:
    row = line.rows[place]
    first = row is not None and row.key in best
    return Cell(measure.shown(row), strong=first, tone="best" if first else "", title="best" if first else "")


def _strategy(line: Line) -> Cell:
    silent = line.average.strategy.group == "ours" and line.average.epsilon == INFINITE
    return Cell(f"{line.name} without noise" if silent else line.name, title=line.average.strategy.title)


def difference_tables(found: Comparison) -> dict[str, Written]:
    """For each finite epsilon, how far each strategy is from the default one, run by run."""
    tables = {}
    for epsilon in private_epsilons(found):
        lines = [line for group in _grouped(found, epsilon) for line in group.rows if line.name != found.default]
        tables[epsilon] = text_table(
            f"Differences from {found.default} at epsilon {epsilon}",
            ("strategy", *found.problems),
            [(line.name, *map(difference, line.rows)) for line in lines],
            numbers=True,
            style="accuracies",
        )
    return tables


# --- other measures


def other_measures(found: Comparison) -> Written:
    """Means of the other measures over the data sets, by strategy and epsilon, in the order of the rows."""
    rows = []
    for epsilon in found.epsilons:
        for strategy in found.strategies:
            there = [row for row in found.rows if (row.strategy, row.epsilon) == (strategy.name, epsilon)]
            claims = [claim for row in there for claim in row.claims]
            if there:
                rows.append(
                    (
                        strategy.name,
                        "∞" if epsilon == INFINITE else epsilon,
                        f"{fmean(row.auc for row in there):.1f}",
                        f"{fmean(row.brier for row in there):.3f}",
                        f"{fmean(row.ece for row in there):.1f}",
                        f"{fmean(row.seconds for row in there):.2f}",
                        f"{sum(claim.holds for claim in claims)} of {len(claims)}" if claims else "–",
                    )
                )
    headings = ("strategy", "epsilon", "AUC", "Brier", "ECE", "seconds", "intervals that hold")
    return text_table("Other measures", headings, rows, numbers=True)


# --- the terminal


def found_tables(found: Comparison) -> Iterator[RichTable]:
    """What `expril compare` prints: for each epsilon, strategies by data sets; the best that is private is bold.

    Accuracies first, then areas under the ROC curve.
    """
    for measure in (accuracy(found), auc(found)):
        others = [dataset for dataset in found.problems if dataset not in measure.averaged]
        headings = ("strategy", *measure.averaged, average_heading(measure, others), *others)
        places = [list(found.problems).index(dataset) for dataset in (*measure.averaged, *others)]
        for epsilon in found.epsilons:
            best = best_private(found, epsilon, measure.ranked, measure.value)
            rows = []
            for line in _lines(found, epsilon):
                shown = [
                    "–" if row is None else Cell(decimal(measure.value(row)), strong=row.key in best)
                    for row in (line.rows[place] for place in places)
                ]
                shown.insert(len(measure.averaged), decimal(measure.average(line.average)))
                rows.append((f"{line.name} ({line.runs})", *shown))
            what = measure.caption if measure.caption.isupper() else measure.caption.lower()
            caption = f"{what} in percent, {'not private' if epsilon == INFINITE else f'epsilon {epsilon}'}"
            table = text_table(caption, headings, rows, numbers=True)
            last = epsilon == found.epsilons[-1]
            yield rich_table(table, f"in brackets: runs. {bar_sentence(found)}" if last else "")
