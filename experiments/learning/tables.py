"""What the tables of a comparison hold, on its page, in its Markdown and in the terminal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from rich.table import Table as RichTable

from experiments.learning.bars import Average, Standing, averages, standings
from experiments.learning.entries import GROUP_TITLES
from experiments.learning.model import Comparison, Row
from experiments.learning.outcome import INFINITE
from experiments.learning.words import bar_sentence, best_private, difference, met, needed, span, spread
from experiments.publish.numbers import decimal
from experiments.publish.table import Column, Group, Table, Text
from experiments.publish.terminal import rich_table

# --- the bars


def bars(found: Comparison) -> Table[Standing]:
    """Every bar, and who meets it."""
    return Table.of(
        "Bars, and whether they are met",
        [
            Column("data set", lambda bar: Text(bar.dataset, strong=True), names=True, quiet=True),
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
    )


def _met(value: bool | None) -> Text:
    return Text(met(value), tone="" if value is None else "within" if value else "below")


# --- accuracies


@dataclass(frozen=True)
class Accuracies:
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


def _lines(found: Comparison, epsilon: str) -> list[Accuracies]:
    return [
        Accuracies(average, tuple(found.find(dataset, average.strategy.name, epsilon) for dataset in found.problems))
        for average in averages(found, epsilon)
    ]


def accuracy_tables(found: Comparison) -> dict[str, Table[Accuracies]]:
    """For each finite epsilon everything at it, and what is not private below; that alone where there is no other."""
    silent = _lines(found, INFINITE)
    tables = {}
    for epsilon in [each for each in found.epsilons if each != INFINITE]:
        lines = _lines(found, epsilon)
        groups = [
            Group([line for line in lines if line.average.strategy.group == group], title)
            for group, title in GROUP_TITLES.items()
        ]
        tables[epsilon] = _accuracies(found, epsilon, [*groups, Group(silent, "not private, for reference")])
    return tables or ({INFINITE: _accuracies(found, INFINITE, [Group(silent, "not private")])} if silent else {})


def _accuracies(found: Comparison, epsilon: str, groups: Sequence[Group[Accuracies]]) -> Table[Accuracies]:
    best = best_private(found, epsilon)
    return Table(
        f"Accuracy {'without privacy' if epsilon == INFINITE else f'at epsilon {epsilon}'}",
        [
            Column("strategy", _strategy, names=True, quiet=True),
            *(
                Column(dataset, partial(_accuracy, place, best), number=True, title=title)
                for place, (dataset, title) in enumerate(found.problems.items())
            ),
            Column("average", lambda line: decimal(line.average.mean), number=True),
            Column("runs", lambda line: line.runs, number=True),
        ],
        [group for group in groups if group.rows],
        "accuracies totals",
        lambda line: "default" if line.name == found.default else "",
    )


def _strategy(line: Accuracies) -> Text:
    silent = line.average.strategy.group == "ours" and line.average.epsilon == INFINITE
    return Text(f"{line.name} without noise" if silent else line.name, title=line.average.strategy.title)


def _accuracy(place: int, best: set[tuple[str, str, str]], line: Accuracies) -> Text:
    row = line.rows[place]
    first = row is not None and row.key in best
    return Text(spread(row), strong=first, tone="best" if first else "", title="best" if first else "")


def difference_tables(found: Comparison) -> dict[str, Table[Accuracies]]:
    """For each finite epsilon, how far each strategy is from the default one, run by run."""
    tables = {}
    for epsilon in [each for each in found.epsilons if each != INFINITE]:
        order = list(GROUP_TITLES)
        lines = [line for line in _lines(found, epsilon) if line.name != found.default]
        tables[epsilon] = Table.of(
            f"Differences from {found.default} at epsilon {epsilon}",
            [
                Column[Accuracies]("strategy", lambda line: line.name, names=True, quiet=True),
                *(
                    Column[Accuracies](dataset, partial(_difference, place), number=True)
                    for place, dataset in enumerate(found.problems)
                ),
            ],
            sorted(lines, key=lambda line: order.index(line.average.strategy.group)),
            "accuracies",
        )
    return tables


def _difference(place: int, line: Accuracies) -> str:
    return difference(line.rows[place])


# --- other measures


def other_measures(found: Comparison) -> Table[list[Row]]:
    """Means of the other measures over the data sets, by strategy and epsilon, in the order of the rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for epsilon in found.epsilons:
        for strategy in found.strategies:
            rows = [row for row in found.rows if (row.strategy, row.epsilon) == (strategy.name, epsilon)]
            if rows:
                groups[strategy.name, epsilon] = rows
    return Table.of(
        "Other measures",
        [
            Column("strategy", lambda rows: rows[0].strategy, names=True, quiet=True),
            Column("epsilon", lambda rows: "∞" if rows[0].epsilon == INFINITE else rows[0].epsilon, number=True),
            Column("AUC", lambda rows: f"{fmean(row.auc for row in rows):.1f}", number=True),
            Column("Brier", lambda rows: f"{fmean(row.brier for row in rows):.3f}", number=True),
            Column("ECE", lambda rows: f"{fmean(row.ece for row in rows):.1f}", number=True),
            Column("seconds", lambda rows: f"{fmean(row.seconds for row in rows):.2f}", number=True),
            Column("intervals that hold", _coverage, number=True),
        ],
        list(groups.values()),
    )


def _coverage(rows: Iterable[Row]) -> str:
    claims = [claim for row in rows for claim in row.claims]
    return f"{sum(claim.holds for claim in claims)} of {len(claims)}" if claims else "–"


# --- the terminal


def found_tables(found: Comparison) -> Iterator[RichTable]:
    """What `expril compare` prints: for each epsilon, strategies by data sets; the best that is private is bold."""
    for epsilon in found.epsilons:
        best = best_private(found, epsilon)
        table = Table.of(
            f"accuracy in percent, {'not private' if epsilon == INFINITE else f'epsilon {epsilon}'}",
            [
                Column("strategy", lambda line: f"{line.name} ({line.runs})"),
                *(
                    Column(dataset, partial(_short, place, best), number=True)
                    for place, dataset in enumerate(found.problems)
                ),
                Column("average", lambda line: decimal(line.average.mean), number=True),
            ],
            _lines(found, epsilon),
        )
        last = epsilon == found.epsilons[-1]
        yield rich_table(table, f"in brackets: runs. {bar_sentence(found)}" if last else "")


def _short(place: int, best: set[tuple[str, str, str]], line: Accuracies) -> Text:
    row = line.rows[place]
    return Text("–") if row is None else Text(decimal(row.mean), strong=row.key in best)
