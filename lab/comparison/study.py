"""The study `comparison`: every strategy of ours and every peer on the same splits of the same data sets."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from expril.report.chart import Axis, Figure, Key, Level, Place, Series, Stage, line_chart, log_axis, make_axis
from expril.report.document import (
    PAGE,
    PAPER,
    TERMINAL,
    Block,
    Charts,
    Document,
    Facts,
    Fold,
    Heading,
    Note,
    Notes,
    Section,
    Text,
)
from expril.report.numbers import decimal, points, signed, with_error
from expril.report.table import Cell, Column, Group, Table, Written, attributes, numbers, text_table
from lab.cells import INFINITE, epsilon_number
from lab.comparison.contestants import (
    CONTESTANTS,
    GROUP_TITLES,
    SECURE_DEFAULT,
    Outcome,
    cells_file,
    compute,
    file_settings,
    tasks,
)
from lab.comparison.findings import Average, Claims, Comparison, Row, ShareBin, Standing, averages, findings, standings
from lab.peers import peer_versions
from lab.problems import PROBLEMS, check_problems
from lab.studies import document_of
from lab.study import Order, Part, Size, Study

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


def leaders(comparison: Comparison) -> list[Leaders]:
    """The leaders at each finite epsilon."""
    bars = [bar for bar in standings(comparison) if bar.met is not None]
    lines = []
    for epsilon in comparison.private:
        everyone = averages(comparison, epsilon)
        peers = [average for average in everyone if average.strategy.group == "peer"]
        lines.append(
            Leaders(
                epsilon,
                next((average for average in everyone if average.strategy.name == comparison.default), None),
                max((peer for peer in peers if peer.mean is not None), key=lambda peer: peer.mean or 0, default=None),
                [bar for bar in bars if bar.epsilon == epsilon],
                secure_gain(comparison, epsilon),
            )
        )
    return lines


def secure_gain(comparison: Comparison, epsilon: str) -> tuple[float, float] | None:
    """Mean gain of secure sums over the data sets, from paired runs, and its standard error."""
    rows = [comparison.find(dataset, SECURE_DEFAULT, epsilon) for dataset in comparison.averaged]
    gains = [
        (row.difference, row.difference_error or 0.0)
        for row in rows
        if row is not None and row.difference is not None and row.pairs > 1
    ]
    if not gains:
        return None
    return sum(gain for gain, _ in gains) / len(gains), math.hypot(*(error for _, error in gains)) / len(gains)


def leaders_table(comparison: Comparison) -> Table[Leaders]:
    """A table of the default strategy beside the best peer, its met bars, and the gain of secure sums."""
    return Table.of(
        f"Where {comparison.default} stands",
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
        leaders(comparison),
    )


def _of(values: Iterable[bool | None]) -> str:
    answers = [value for value in values if value is not None]
    return f"{sum(answers)} of {len(answers)}" if answers else "–"


def bars_table(comparison: Comparison) -> Table[Standing]:
    """Every bar, and who meets it."""
    return Table.of(
        "Bars, and whether they are met",
        [
            Column("data set", lambda bar: Cell(bar.dataset, strong=True), names=True, quiet=True),
            *numbers("epsilon = epsilon"),
            Column("bar", needed, number=True),
            *numbers("h* = in_site", decimal),
            *numbers(f"{comparison.default} = default", spread),
            Column("bar", lambda bar: _met(bar.met)),
            Column("aim", lambda bar: "–" if bar.aim is None else _met(bar.aim)),
            Column(
                "best of ours",
                lambda bar: "–" if bar.best is None else f"{bar.best.strategy}, {spread(bar.best)}",
                number=True,
            ),
            Column("bar", lambda bar: _met(bar.best_met)),
        ],
        standings(comparison),
    )


def needed(bar: Standing) -> str:
    """The bar's number, and the lowered number if our h* is below the reference."""
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
        """The strategy's name."""
        return self.average.strategy.name

    @property
    def runs(self) -> str:
        """The number of runs, or "least to most" where rows differ."""
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


def accuracy(comparison: Comparison) -> Measure:
    """Accuracy; where a class is rare, none is marked as the best."""
    common = tuple(dataset for dataset in comparison.problems if dataset not in comparison.rare)
    return Measure(
        "Accuracy", lambda row: row.mean, lambda row: row.std, lambda line: line.mean, common, comparison.averaged
    )


def auc(comparison: Comparison) -> Measure:
    """Area under the ROC curve."""
    everything = tuple(comparison.problems)
    return Measure("AUC", lambda row: row.auc, lambda row: row.auc_std, lambda line: line.auc, everything, everything)


def spread(row: Row | None) -> str:
    """Mean accuracy ± standard deviation in percent; one run has no deviation."""
    return "–" if row is None else with_error(decimal(row.mean), row.std if row.runs > 1 else None)


def measure_tables(comparison: Comparison, measure: Measure) -> dict[str, Table[Line]]:
    """A table for each finite epsilon, with results without privacy below; those alone if there is no epsilon."""
    silent = _lines(comparison, INFINITE)
    reference = Group(silent, "not private, for reference")
    tables = {
        epsilon: _table(comparison, measure, epsilon, [*_grouped(comparison, epsilon), reference])
        for epsilon in comparison.private
    }
    return tables or (
        {INFINITE: _table(comparison, measure, INFINITE, [Group(silent, "not private")])} if silent else {}
    )


def brief(table: Table[Line]) -> Table[Line]:
    """A table in a form for a terminal: no deviations, the runs after the names, a line between the groups."""
    first, *columns, _ = table.columns

    def name(line: Line) -> str:
        return f"{first.text(line).text} ({line.runs})"

    def mean(column: Column[Line], line: Line) -> Cell:
        cell = column.text(line)
        return replace(cell, text=cell.text.partition(" ± ")[0])

    written = [Column("strategy (runs)", name), *(replace(column, show=partial(mean, column)) for column in columns)]
    return replace(table, columns=written, groups=[Group(group.rows) for group in table.groups])


def _lines(comparison: Comparison, epsilon: str) -> list[Line]:
    return [
        Line(
            average, tuple(comparison.find(dataset, average.strategy.name, epsilon) for dataset in comparison.problems)
        )
        for average in averages(comparison, epsilon)
    ]


def _grouped(comparison: Comparison, epsilon: str) -> list[Group[Line]]:
    lines = _lines(comparison, epsilon)
    return [
        Group([line for line in lines if line.average.strategy.group == group], title)
        for group, title in GROUP_TITLES.items()
    ]


def best_private(comparison: Comparison, epsilon: str, measure: Measure) -> set[tuple[str, str, str]]:
    """Keys of the rows with the highest value of their data set, to the decimal shown; nothing without privacy."""
    if epsilon == INFINITE:
        return set()
    best: set[tuple[str, str, str]] = set()
    for dataset in measure.ranked:
        rows = [row for row in comparison.rows if row.dataset == dataset and row.epsilon == epsilon]
        most = max((round(measure.value(row), 1) for row in rows), default=0.0)
        best |= {row.key for row in rows if round(measure.value(row), 1) == most}
    return best


def _table(comparison: Comparison, measure: Measure, epsilon: str, groups: Sequence[Group[Line]]) -> Table[Line]:
    best = best_private(comparison, epsilon, measure)
    columns = {
        dataset: Column[Line](dataset, partial(_score_cell, measure, best, place), number=True, title=title)
        for place, (dataset, title) in enumerate(comparison.problems.items())
    }
    beside = [dataset for dataset in columns if dataset not in measure.averaged]
    average = f"average of {len(measure.averaged)}" if beside else "average"
    return Table(
        f"{measure.caption} {'without privacy' if epsilon == INFINITE else f'at epsilon {epsilon}'}",
        [
            Column("strategy", _strategy, names=True, quiet=True),
            *(columns[dataset] for dataset in measure.averaged),
            Column(average, lambda line: decimal(measure.average(line.average)), number=True),
            *(columns[dataset] for dataset in beside),
            Column("runs", lambda line: line.runs, number=True),
        ],
        [group for group in groups if group.rows],
        "dense",
        row_style=lambda line: "chosen" if line.name == comparison.default else "",
    )


def _score_cell(measure: Measure, best: Container[tuple[str, str, str]], place: int, line: Line) -> Cell:
    row = line.rows[place]
    first = row is not None and row.key in best
    return Cell(measure.spread(row), strong=first, tone="best" if first else "", title="best" if first else "")


def _strategy(line: Line) -> Cell:
    silent = line.average.strategy.group == "ours" and line.average.epsilon == INFINITE
    return Cell(f"{line.name} without noise" if silent else line.name, title=line.average.strategy.title)


# --- beside them


def difference_tables(comparison: Comparison) -> dict[str, Written]:
    """For each finite epsilon, how far each strategy is from the default one, run by run."""
    tables = {}
    for epsilon in comparison.private:
        lines = [
            line for group in _grouped(comparison, epsilon) for line in group.rows if line.name != comparison.default
        ]
        tables[epsilon] = text_table(
            f"Differences from {comparison.default} at epsilon {epsilon}",
            ("strategy", *comparison.problems),
            [(line.name, *map(_difference, line.rows)) for line in lines],
            numbers=True,
            style="dense",
        )
    return tables


def _difference(row: Row | None) -> str:
    """The paired difference with its standard error; a single pair has no error."""
    if row is None or row.difference is None:
        return "–"
    return with_error(signed(row.difference), row.difference_error if row.pairs > 1 else None)


def other_measures(comparison: Comparison) -> Written:
    """Means of the other measures over the data sets, by strategy and epsilon, in the order of the rows."""
    rows = []
    for epsilon in comparison.epsilons:
        for strategy in comparison.strategies:
            there = [row for row in comparison.rows if (row.strategy, row.epsilon) == (strategy.name, epsilon)]
            claims = [row.claims for row in there if row.claims is not None]
            if there:
                intervals = f"{sum(claim.holds for claim in claims)} of {sum(claim.runs for claim in claims)}"
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


LEADERS = (
    "Mean accuracy over the data sets that have an average below, and mean area under the ROC curve (AUC) over all, in "
    "percent: the strategy that a learner uses who names none, beside the best peer, which sees the private records. "
    "A gain by secure sums is in points, run by run, the mean over the data sets of several sites."
)
BARS = (
    "Least mean accuracy in percent that the project set itself before these runs. A bar on the paper's data sets is "
    "met at its number, or at the same distance from h*, the paper's network trained in site on the same records, as "
    "it had from h* when it was set. The aim is to be within one point of h*. Choices are made on other seeds, from "
    "the source and the noisy answers alone."
)
ACCURACY = (
    "Accuracy on the test records in percent, mean ± standard deviation over the runs; bold is the best of a column "
    "that is private. Strategies of ours ask curators and never see a private record; peers and what is trained in "
    "site see all private records, pooled. An average is over the data sets before it, and a strategy has one where "
    "it has them all; those after it stand beside."
)
AREA = (
    "Area under the ROC curve on the test records in percent, mean ± standard deviation over the runs: how often a "
    "record of class 1 is ranked above one of class 0; 50 is chance. Where a class is rare it says more than accuracy. "
    "Averages are over all data sets."
)
DIFFERENCE = "Percentage points, mean ± standard error over the runs that both have."
CURVES = (
    "Mean accuracy in percent, or AUC where a class is rare and the panel says so; epsilon on a logarithmic scale. The "
    "band is ± 1 standard deviation over the runs of the default strategy. Each data set has its own vertical axis. "
    "Filled marks on a solid line ask curators; hollow ones on a dashed line see the records."
)
HONESTY = (
    "Predicted probability of class 1 against the share of class 1 among the test records with such predictions, over "
    "all data sets and runs, in percent. On the dotted diagonal a prediction of 70 % comes true in 70 of 100 records."
)
CLAIMS = (
    "The accuracy that a learner expects of its own model, from the same noisy answers and without a label, against "
    "the accuracy on the test records; a point for each data set and epsilon, mean over the runs, in percent. How "
    "often its interval holds is in the table below."
)
FURTHER = (
    "Means over the data sets that a strategy was run on: area under the ROC curve and expected calibration error (15 "
    "bins of equal mass) in percent, Brier score, seconds a run on one core, and how many of the learner's own "
    "intervals agree with the accuracy on the test records, within its binomial error. details.csv has them for each "
    "data set."
)
STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
RULES = {"h*": "solid", "majority": "dashes"}  # contestants that are drawn as horizontal rules, and their style
SQUARE = 260  # height of a diagram whose axes are one, in pixels


def document(comparison: Comparison) -> Document:
    """Where the default strategy stands, the bars, tables for each epsilon, charts, other measures."""
    measures = {
        ACCURACY: measure_tables(comparison, accuracy(comparison)),
        AREA: measure_tables(comparison, auc(comparison)),
    }
    scores = [
        Section(table.caption, [Text(reading) if number == 0 else None, table], PAPER)
        for reading, tables in measures.items()
        for number, table in enumerate(tables.values())
    ]
    differences: list[Block] = [
        Fold(f"at epsilon {epsilon}", [Text(DIFFERENCE, "fine"), table])
        for epsilon, table in difference_tables(comparison).items()
        if table
    ]
    by_epsilon = [Key(index, False, _epsilon(epsilon)) for index, epsilon in enumerate(comparison.epsilons)]
    curves, diagrams, claims = (
        curve_charts(comparison),
        reliability_charts(comparison, by_epsilon),
        claim_charts(comparison, by_epsilon),
    )
    rules = tuple((style, {"h*": "h*, in site"}.get(name, name)) for name, style in RULES.items())
    leaders = leaders_table(comparison)
    bars = bars_table(comparison)
    further = other_measures(comparison)
    named = [(strategy.name, strategy.title) for strategy in comparison.strategies], list(comparison.problems.items())
    glossary: list[Block] = [
        Heading("Strategies"),
        Facts(named[0], "glossary"),
        Heading("Data sets"),
        Facts(named[1], "glossary"),
    ]
    skipped = comparison.provenance.skipped if comparison.provenance else {}
    return document_of(
        "comparison",
        [
            Section(leaders.caption, [Text(LEADERS), leaders] if leaders else []),
            Section("The bars", [Text(BARS), bars] if bars else [], PAPER),
            *scores,
            Section(f"Differences from {comparison.default}, run by run", differences, PAGE),
            _charted("Accuracy against epsilon", CURVES, Charts(curves, strategy_keys(comparison), rules)),
            _charted("Are the probabilities honest?", HONESTY, Charts(diagrams, by_epsilon, columns=4)),
            _charted("Does the learner know how good it is?", CLAIMS, Charts(claims, by_epsilon)),
            Section("Other measures", [Text(FURTHER), further] if further else [], PAGE),
            Section("What is compared", glossary, PAPER),
            Section("", [brief(table) for tables in measures.values() for table in tables.values()], TERMINAL),
            Section("", [Notes([Note(f"{name} was left out: {why}") for name, why in skipped.items()])], TERMINAL),
        ],
        comparison.provenance,
        {
            "results.csv": Table.of("results", RESULTS, comparison.rows),
            "details.csv": Table.of("details", DETAILS, comparison.rows),
        },
    )


def _charted(title: str, reading: str, charts: Charts) -> Section:
    return Section(title, [Text(reading), charts] if charts.figures else [], PAGE)


def _epsilon(text: str) -> str:
    return "no noise" if text == INFINITE else f"epsilon {text}"


# --- charts


def strategy_keys(comparison: Comparison) -> tuple[Key, ...]:
    """Ours filled, peers hollow; the default strategy has the first colour."""
    ours = [strategy for strategy in comparison.strategies if strategy.group == "ours"]
    ours.sort(key=lambda strategy: strategy.name != comparison.default)
    peers = [strategy for strategy in comparison.strategies if strategy.group == "peer"]
    return tuple(
        Key(index, hollow, strategy.name, strategy.title)
        for hollow, group in ((False, ours), (True, peers))
        for index, strategy in enumerate(group)
    )


def curve_charts(comparison: Comparison) -> list[Figure]:
    """Accuracy against epsilon, or AUC where a class is rare, one panel a data set, each on its own axis."""
    return [_curves(comparison, dataset) for dataset in comparison.problems] if comparison.private else []


def _curves(comparison: Comparison, dataset: str) -> Figure:
    measure = auc(comparison) if dataset in comparison.rare else accuracy(comparison)
    axis = log_axis(map(epsilon_number, comparison.private), reversed(comparison.private), left=15.0)

    def place(row: Row) -> Place:
        mean, error = measure.value(row), measure.error(row)
        text = f"{measure.spread(row)} at epsilon {row.epsilon}"
        return Place(epsilon_number(row.epsilon), mean, (mean - error, mean + error), text)

    series = []
    for key in strategy_keys(comparison):
        rows = [comparison.find(dataset, key.name, epsilon) for epsilon in reversed(comparison.private)]
        default = key.name == comparison.default
        series.append(Series(key, [place(row) for row in rows if row is not None], errors=default))
    series.sort(key=lambda line: line.key.name == comparison.default)  # drawn last, above the others
    levels = [
        Level(style, measure.value(row), f"{name}: {measure.spread(row)}")
        for name, style in RULES.items()
        if (row := comparison.find(dataset, name, INFINITE)) is not None
    ]
    ends = [f"{line.key.name}: {line.places[-1].text}" for line in series if line.places]
    return line_chart(
        f"{dataset}: AUC" if dataset in comparison.rare else dataset,
        series,
        axis,
        STEPS,
        levels=levels,
        height=300,
        unit="%",
        across="epsilon",
        text="; ".join([*ends, *(level.text for level in levels)]),
    )


def reliability_charts(comparison: Comparison, keys: Sequence[Key]) -> list[Figure]:
    """Predicted probability against the share of class 1, one panel a strategy, over all data sets and runs."""
    axis = make_axis(0, 100, (20.0,), left=12.0, right=97.0)

    def place(share: ShareBin) -> Place:
        text = f"{share.predicted:.0f} % predicted, {share.observed:.0f} % observed, {share.records} records"
        return Place(share.predicted, share.observed, (share.observed, share.observed), text)

    def series(bins: Mapping[str, Sequence[ShareBin]]) -> list[Series]:
        pairs = zip(comparison.epsilons, keys, strict=True)
        return [Series(key, [place(share) for share in bins.get(epsilon, ())]) for epsilon, key in pairs]

    return [_square(name, series(bins), axis, "predicted, %") for name, bins in comparison.reliability.items()]


def claim_charts(comparison: Comparison, keys: Sequence[Key]) -> list[Figure]:
    """Expected against observed accuracy, a point a data set and epsilon, one panel a strategy that claims any."""
    colours = dict(zip(comparison.epsilons, keys, strict=True))

    def series(row: Row, claims: Claims) -> Series:
        """A series of one point, since points of different data sets are no curve."""
        colour = colours[row.epsilon]
        text = f"{claims.estimated:.1f} % expected, {claims.observed:.1f} % observed"
        place = Place(claims.estimated, claims.observed, (claims.observed, claims.observed), text)
        return Series(Key(colour.index, False, f"{row.dataset}, {colour.name}"), [place])

    figures = []
    for strategy in comparison.strategies:
        claimed = [
            (row, row.claims) for row in comparison.rows if row.strategy == strategy.name and row.claims is not None
        ]
        if claimed:
            values = [value for _, claims in claimed for value in (claims.estimated, claims.observed)]
            axis = make_axis(min(values), max(values), STEPS, left=12.0, right=97.0)
            figures.append(_square(strategy.name, [series(*pair) for pair in claimed], axis, "expected, %"))
    return figures


def _square(name: str, series: Sequence[Series], axis: Axis, across: str) -> Figure:
    """A diagram whose vertical axis is the horizontal one, too."""
    stage = Stage(axis, SQUARE)
    return line_chart(name, series, axis, (), stage=stage, diagonal=True, unit="observed, %", across=across)


# --- the study


def read_versions(order: Order) -> Mapping[str, str]:
    """Versions in the peers' environment, where the order has a peer."""
    peers = any(CONTESTANTS[name].group == "peer" for name in order.size.axes["strategies"])
    return peer_versions() if peers else {}


STUDY = Study(
    name="comparison",
    parts=[
        Part(
            "cells",
            Outcome,
            tasks,
            compute,
            file_of=cells_file,
            header=lambda order, task: file_settings(task.maker, order.seed),
        )
    ],
    findings=findings,
    document=document,
    choices={"strategies": tuple(CONTESTANTS), "datasets": tuple(PROBLEMS)},
    short=Size(
        3,
        ("1", "0.1"),
        {
            "strategies": ("cells", "histogram-naive-bayes", "h*", "gradient-boosting", "majority"),
            "datasets": ("A", "C", "wdbc"),
        },
        "a minute",
    ),
    full=Size(20, ("1", "0.3", "0.1"), {"strategies": tuple(CONTESTANTS), "datasets": tuple(PROBLEMS)}, "three hours"),
    seed=1000,
    width=200,
    check=check_problems,
    read_versions=read_versions,
)
"""Seeds from 5000 on are for development: no choice is made on those that are reported."""
