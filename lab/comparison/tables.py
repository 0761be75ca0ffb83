"""The tables of a comparison, and its two CSV files."""

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from expril.report.numbers import decimal, points, signed, with_error
from expril.report.table import Cell, Column, Group, Table, Written, attributes, numbers, text_table
from lab.cells import INFINITE
from lab.comparison.bars import Standing, standings
from lab.comparison.contestants import GROUP_TITLES, SECURE_DEFAULT
from lab.comparison.findings import Average, Comparison, Row, averages

# --- files


def _claimed(name: str, row: Row) -> str:
    return "" if row.claims is None else points(getattr(row.claims, name))


RESULTS: tuple[Column[Row], ...] = (
    *attributes("dataset strategy epsilon"),
    *attributes("mean std", points),
    *attributes("runs"),
)
"""One line for each strategy, data set and epsilon: mean and sample standard deviation of the accuracy in percent."""
DETAILS: tuple[Column[Row], ...] = (
    *attributes("dataset strategy epsilon runs"),
    *attributes("auc auc_std", points),
    *attributes("brier", "{:.4f}".format),
    *attributes("ece", points),
    *attributes("seconds", "{:.3f}".format),
    *attributes("difference difference_error", points),
    *attributes("pairs"),
    *(
        Column(heading, partial(_claimed, name))
        for heading, name in (("estimated_accuracy", "estimated"), ("interval_low", "low"), ("interval_high", "high"))
    ),
    *attributes("coverage", points),
    Column("epsilon_spent", lambda row: row.spent),
)
"""The other numbers of the same rows; what a row does not have is empty.

`difference` is accuracy minus the default strategy's over the `pairs` runs that both have, with its standard error;
`estimated_accuracy` and the interval's ends are means of what the learner says of itself; `coverage` is the share of
runs whose interval agrees with the accuracy on the test records, within its binomial error; `epsilon_spent` is exact.
AUC and calibration errors are in percent.
"""


# --- where the default strategy stands


@dataclass(frozen=True)
class Leaders:
    """The default strategy at one epsilon, beside the peers that have all data sets."""

    epsilon: str  # of these runs
    default: Average | None  # its averages; None where it was not run
    peer: Average | None  # the peer with the highest average accuracy
    bars: Sequence[Standing]  # those of this epsilon that the default strategy was run for
    # what it gains where curators sum its answers securely, in points, and the standard error; None where that was not
    # run twice
    gain: tuple[float, float] | None


def leaders(found: Comparison) -> list[Leaders]:
    """At each finite epsilon."""
    bars = [bar for bar in standings(found) if bar.met is not None]
    lines = []
    for epsilon in found.private:
        everyone = averages(found, epsilon)
        peers = [average for average in everyone if average.strategy.group == "peer"]
        lines.append(
            Leaders(
                epsilon,
                next((average for average in everyone if average.strategy.name == found.default), None),
                max((peer for peer in peers if peer.mean is not None), key=lambda peer: peer.mean or 0, default=None),
                [bar for bar in bars if bar.epsilon == epsilon],
                secure_gain(found, epsilon),
            )
        )
    return lines


def secure_gain(found: Comparison, epsilon: str) -> tuple[float, float] | None:
    """Mean over data sets of what secure sums gain, run by run, and its standard error."""
    rows = [found.find(dataset, SECURE_DEFAULT, epsilon) for dataset in found.averaged]
    known = [
        (row.difference, row.difference_error or 0.0)
        for row in rows
        if row is not None and row.difference is not None and row.pairs > 1
    ]
    if not known:
        return None
    return sum(gain for gain, _ in known) / len(known), math.hypot(*(error for _, error in known)) / len(known)


def leaders_table(found: Comparison) -> Table[Leaders]:
    """The default strategy beside the best peer, the bars that it meets, and what secure sums give."""
    return Table.of(
        f"Where {found.default} stands",
        [
            Column("epsilon", lambda line: line.epsilon, names=True),
            *numbers("accuracy = default", lambda default: decimal(default.mean)),
            Column("best peer", lambda line: line.peer.strategy.name if line.peer else "–"),
            *numbers("its accuracy = peer", lambda peer: decimal(peer.mean)),
            *numbers("AUC = default", lambda default: decimal(default.auc)),
            *numbers("bars met = bars", lambda bars: _of(bar.met for bar in bars)),
            *numbers("within a point of h* = bars", lambda bars: _of(bar.aim for bar in bars)),
            *numbers("gain by secure sums = gain", lambda gain: with_error(signed(gain[0]), gain[1])),
        ],
        leaders(found),
    )


def _of(values: Iterable[bool | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known)} of {len(known)}" if known else "–"


def bars_table(found: Comparison) -> Table[Standing]:
    """Every bar, and who meets it."""
    return Table.of(
        "Bars, and whether they are met",
        [
            Column("data set", lambda bar: Cell(bar.dataset, strong=True), names=True, quiet=True),
            *numbers("epsilon = epsilon"),
            Column("bar", needed, number=True),
            *numbers("h* = in_site", decimal),
            *numbers(f"{found.default} = default", spread),
            Column("bar", lambda bar: _met(bar.met)),
            Column("aim", lambda bar: "–" if bar.aim is None else _met(bar.aim)),
            Column(
                "best of ours",
                lambda bar: "–" if bar.best is None else f"{bar.best.strategy}, {spread(bar.best)}",
                number=True,
            ),
            Column("bar", lambda bar: _met(bar.best_met)),
        ],
        standings(found),
    )


def needed(bar: Standing) -> str:
    """The bar's number, and what our h* makes of it where that is less."""
    return f"{bar.number:.1f}" if bar.needed == bar.number else f"{bar.number:.1f}, by distance {bar.needed:.1f}"


def _met(value: bool | None) -> Cell:
    text = {None: "not run", True: "met", False: "not met"}[value]
    return Cell(text, tone="" if value is None else "within" if value else "below")


# --- strategies by data sets


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
        numbers = [row.runs for row in self.rows if row is not None]
        return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


@dataclass(frozen=True)
class Measure:
    """What a table of strategies by data sets shows."""

    caption: str
    value: Callable[[Row], float]  # of a row, in percent
    error: Callable[[Row], float]  # its standard deviation over the runs
    average: Callable[[Average], float | None]  # of a line
    ranked: tuple[str, ...]  # the data sets in which the best is marked
    averaged: tuple[str, ...]  # those that the average is over; they stand before it

    def spread(self, row: Row | None) -> str:
        """Mean ± standard deviation in percent; one run has no deviation."""
        return "–" if row is None else with_error(decimal(self.value(row)), self.error(row) if row.runs > 1 else None)


def accuracy(found: Comparison) -> Measure:
    """Accuracy; where a class is rare, none is marked as the best."""
    common = tuple(dataset for dataset in found.problems if dataset not in found.rare)
    return Measure(
        "Accuracy", lambda row: row.mean, lambda row: row.std, lambda line: line.mean, common, found.averaged
    )


def auc(found: Comparison) -> Measure:
    """Area under the ROC curve."""
    everything = tuple(found.problems)
    return Measure("AUC", lambda row: row.auc, lambda row: row.auc_std, lambda line: line.auc, everything, everything)


def spread(row: Row | None) -> str:
    """Mean accuracy ± standard deviation in percent; one run has no deviation."""
    return "–" if row is None else with_error(decimal(row.mean), row.std if row.runs > 1 else None)


def measure_tables(found: Comparison, measure: Measure) -> dict[str, Table[Line]]:
    """For each finite epsilon everything at it, and what is not private below; that alone where there is no other."""
    silent = _lines(found, INFINITE)
    reference = Group(silent, "not private, for reference")
    tables = {
        epsilon: _table(found, measure, epsilon, [*_grouped(found, epsilon), reference]) for epsilon in found.private
    }
    return tables or ({INFINITE: _table(found, measure, INFINITE, [Group(silent, "not private")])} if silent else {})


def brief(shown: Table[Line]) -> Table[Line]:
    """The same for a terminal: no deviations, the runs after the names, a line between the groups."""
    first, *columns, _ = shown.columns

    def name(line: Line) -> str:
        return f"{first.text(line).text} ({line.runs})"

    def mean(column: Column[Line], line: Line) -> Cell:
        cell = column.text(line)
        return replace(cell, text=cell.text.partition(" ± ")[0])

    written = [Column("strategy (runs)", name), *(replace(each, show=partial(mean, each)) for each in columns)]
    return replace(shown, columns=written, groups=[Group(group.rows) for group in shown.groups])


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


def best_private(found: Comparison, epsilon: str, measure: Measure) -> set[tuple[str, str, str]]:
    """Keys of the rows with the highest value of their data set, to the decimal shown; nothing without privacy."""
    if epsilon == INFINITE:
        return set()
    best: set[tuple[str, str, str]] = set()
    for dataset in measure.ranked:
        rows = [row for row in found.rows if row.dataset == dataset and row.epsilon == epsilon]
        most = max((round(measure.value(row), 1) for row in rows), default=0.0)
        best |= {row.key for row in rows if round(measure.value(row), 1) == most}
    return best


def _table(found: Comparison, measure: Measure, epsilon: str, groups: Sequence[Group[Line]]) -> Table[Line]:
    best = best_private(found, epsilon, measure)
    columns = {
        dataset: Column[Line](dataset, partial(_shown, measure, best, place), number=True, title=title)
        for place, (dataset, title) in enumerate(found.problems.items())
    }
    others = [dataset for dataset in columns if dataset not in measure.averaged]
    average = f"average of {len(measure.averaged)}" if others else "average"
    return Table(
        f"{measure.caption} {'without privacy' if epsilon == INFINITE else f'at epsilon {epsilon}'}",
        [
            Column("strategy", _strategy, names=True, quiet=True),
            *(columns[dataset] for dataset in measure.averaged),
            Column(average, lambda line: decimal(measure.average(line.average)), number=True),
            *(columns[dataset] for dataset in others),
            Column("runs", lambda line: line.runs, number=True),
        ],
        [group for group in groups if group.rows],
        "dense",
        row_style=lambda line: "chosen" if line.name == found.default else "",
    )


def _shown(measure: Measure, best: Container[tuple[str, str, str]], place: int, line: Line) -> Cell:
    row = line.rows[place]
    first = row is not None and row.key in best
    return Cell(measure.spread(row), strong=first, tone="best" if first else "", title="best" if first else "")


def _strategy(line: Line) -> Cell:
    silent = line.average.strategy.group == "ours" and line.average.epsilon == INFINITE
    return Cell(f"{line.name} without noise" if silent else line.name, title=line.average.strategy.title)


# --- beside them


def difference_tables(found: Comparison) -> dict[str, Written]:
    """For each finite epsilon, how far each strategy is from the default one, run by run."""
    tables = {}
    for epsilon in found.private:
        lines = [line for group in _grouped(found, epsilon) for line in group.rows if line.name != found.default]
        tables[epsilon] = text_table(
            f"Differences from {found.default} at epsilon {epsilon}",
            ("strategy", *found.problems),
            [(line.name, *map(_difference, line.rows)) for line in lines],
            numbers=True,
            style="dense",
        )
    return tables


def _difference(row: Row | None) -> str:
    """The paired difference with its standard error; one pair has none."""
    if row is None or row.difference is None:
        return "–"
    return with_error(signed(row.difference), row.difference_error if row.pairs > 1 else None)


def other_measures(found: Comparison) -> Written:
    """Means of the other measures over the data sets, by strategy and epsilon, in the order of the rows."""
    rows = []
    for epsilon in found.epsilons:
        for strategy in found.strategies:
            there = [row for row in found.rows if (row.strategy, row.epsilon) == (strategy.name, epsilon)]
            claims = [row.claims for row in there if row.claims is not None]
            if there:
                intervals = f"{sum(each.holds for each in claims)} of {sum(each.runs for each in claims)}"
                rows.append(
                    (
                        strategy.name,
                        "∞" if epsilon == INFINITE else epsilon,
                        f"{fmean(row.auc for row in there):.1f}",
                        f"{fmean(row.brier for row in there):.3f}",
                        f"{fmean(row.ece for row in there):.1f}",
                        f"{fmean(row.seconds for row in there):.2f}",
                        intervals if claims else "–",
                    )
                )
    headings = ("strategy", "epsilon", "AUC", "Brier", "ECE", "seconds", "intervals that hold")
    return text_table("Other measures", headings, rows, numbers=True)
