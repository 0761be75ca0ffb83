"""The study `comparison`: every strategy of ours and every peer on the same splits of the same data sets."""

from collections.abc import Mapping, Sequence

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
from expril.report.table import Table
from lab.cells import INFINITE, epsilon_number
from lab.comparison.contestants import CONTESTANTS, Outcome, cells_file, compute, file_settings, tasks
from lab.comparison.findings import Claims, Comparison, Row, ShareBin, findings
from lab.comparison.tables import (
    DETAILS,
    RESULTS,
    accuracy,
    auc,
    bars_table,
    brief,
    difference_tables,
    leaders_table,
    measure_tables,
    other_measures,
)
from lab.peers import peer_versions
from lab.problems import PROBLEMS, check_problems
from lab.studies import document_of
from lab.study import Order, Part, Size, Study

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
OTHERS = (
    "Means over the data sets that a strategy was run on: area under the ROC curve and expected calibration error (15 "
    "bins of equal mass) in percent, Brier score, seconds a run on one core, and how many of the learner's own "
    "intervals agree with the accuracy on the test records, within its binomial error. details.csv has them for each "
    "data set."
)
STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
RULES = {"h*": "solid", "majority": "dashes"}
"""Ceilings that are drawn as horizontal rules, and their style."""
SQUARE = 260
"""Height of a diagram whose axes are one, in pixels."""


def document(found: Comparison) -> Document:
    """Where the default strategy stands, the bars, tables for each epsilon, charts, other measures."""
    measures = {ACCURACY: measure_tables(found, accuracy(found)), AREA: measure_tables(found, auc(found))}
    shown = [
        Section(table.caption, [Text(reading) if number == 0 else None, table], PAPER)
        for reading, tables in measures.items()
        for number, table in enumerate(tables.values())
    ]
    differences: list[Block] = [
        Fold(f"at epsilon {epsilon}", [Text(DIFFERENCE, "fine"), table])
        for epsilon, table in difference_tables(found).items()
        if table
    ]
    by_epsilon = [Key(index, False, _epsilon(epsilon)) for index, epsilon in enumerate(found.epsilons)]
    curves, diagrams, claims = (
        curve_charts(found),
        reliability_charts(found, by_epsilon),
        claim_charts(found, by_epsilon),
    )
    rules = tuple((style, {"h*": "h*, in site"}.get(name, name)) for name, style in RULES.items())
    leaders = leaders_table(found)
    bars = bars_table(found)
    others = other_measures(found)
    named = [(each.name, each.title) for each in found.strategies], list(found.problems.items())
    glossary: list[Block] = [
        Heading("Strategies"),
        Facts(named[0], "glossary"),
        Heading("Data sets"),
        Facts(named[1], "glossary"),
    ]
    skipped = found.provenance.skipped if found.provenance else {}
    return document_of(
        "comparison",
        [
            Section(leaders.caption, [Text(LEADERS), leaders] if leaders else []),
            Section("The bars", [Text(BARS), bars] if bars else [], PAPER),
            *shown,
            Section(f"Differences from {found.default}, run by run", differences, PAGE),
            _charted("Accuracy against epsilon", CURVES, Charts(curves, strategy_keys(found), rules)),
            _charted("Are the probabilities honest?", HONESTY, Charts(diagrams, by_epsilon, columns=4)),
            _charted("Does the learner know how good it is?", CLAIMS, Charts(claims, by_epsilon)),
            Section("Other measures", [Text(OTHERS), others] if others else [], PAGE),
            Section("What is compared", glossary, PAPER),
            Section("", [brief(table) for tables in measures.values() for table in tables.values()], TERMINAL),
            Section("", [Notes([Note(f"{name} was left out: {why}") for name, why in skipped.items()])], TERMINAL),
        ],
        found.provenance,
        {
            "results.csv": Table.of("results", RESULTS, found.rows),
            "details.csv": Table.of("details", DETAILS, found.rows),
        },
    )


def _charted(title: str, reading: str, charts: Charts) -> Section:
    return Section(title, [Text(reading), charts] if charts.figures else [], PAGE)


def _epsilon(text: str) -> str:
    return "no noise" if text == INFINITE else f"epsilon {text}"


# --- charts


def strategy_keys(found: Comparison) -> tuple[Key, ...]:
    """Ours filled, peers hollow; the default strategy has the first colour."""
    ours = [each for each in found.strategies if each.group == "ours"]
    ours.sort(key=lambda each: each.name != found.default)
    peers = [each for each in found.strategies if each.group == "peer"]
    return tuple(
        Key(index, hollow, each.name, each.title)
        for hollow, group in ((False, ours), (True, peers))
        for index, each in enumerate(group)
    )


def curve_charts(found: Comparison) -> list[Figure]:
    """Accuracy against epsilon, or AUC where a class is rare, one panel a data set, each on its own axis."""
    return [_curves(found, dataset) for dataset in found.problems] if found.private else []


def _curves(found: Comparison, dataset: str) -> Figure:
    measure = auc(found) if dataset in found.rare else accuracy(found)
    axis = log_axis(map(epsilon_number, found.private), reversed(found.private), left=15.0)

    def place(row: Row) -> Place:
        mean, error = measure.value(row), measure.error(row)
        text = f"{measure.spread(row)} at epsilon {row.epsilon}"
        return Place(epsilon_number(row.epsilon), mean, (mean - error, mean + error), text)

    series = []
    for key in strategy_keys(found):
        rows = [found.find(dataset, key.name, epsilon) for epsilon in reversed(found.private)]
        default = key.name == found.default
        series.append(Series(key, [place(row) for row in rows if row is not None], errors=default))
    series.sort(key=lambda one: one.key.name == found.default)  # drawn last, above the others
    levels = [
        Level(style, measure.value(row), f"{name}: {measure.spread(row)}")
        for name, style in RULES.items()
        if (row := found.find(dataset, name, INFINITE)) is not None
    ]
    ends = [f"{one.key.name}: {one.places[-1].text}" for one in series if one.places]
    return line_chart(
        f"{dataset}: AUC" if dataset in found.rare else dataset,
        series,
        axis,
        STEPS,
        levels=levels,
        height=300,
        unit="%",
        across="epsilon",
        text="; ".join([*ends, *(level.text for level in levels)]),
    )


def reliability_charts(found: Comparison, keys: Sequence[Key]) -> list[Figure]:
    """Predicted probability against the share of class 1, one panel a strategy, over all data sets and runs."""
    axis = make_axis(0, 100, (20.0,), left=12.0, right=97.0)

    def place(each: ShareBin) -> Place:
        text = f"{each.predicted:.0f} % predicted, {each.observed:.0f} % observed, {each.records} records"
        return Place(each.predicted, each.observed, (each.observed, each.observed), text)

    def series(bins: Mapping[str, Sequence[ShareBin]]) -> list[Series]:
        pairs = zip(found.epsilons, keys, strict=True)
        return [Series(key, [place(each) for each in bins.get(epsilon, ())]) for epsilon, key in pairs]

    return [_square(name, series(bins), axis, "predicted, %") for name, bins in found.reliability.items()]


def claim_charts(found: Comparison, keys: Sequence[Key]) -> list[Figure]:
    """Expected against observed accuracy, a point a data set and epsilon, one panel a strategy that claims any."""
    colours = dict(zip(found.epsilons, keys, strict=True))

    def series(row: Row, claims: Claims) -> Series:
        """One point: those of different data sets are no curve."""
        colour = colours[row.epsilon]
        text = f"{claims.estimated:.1f} % expected, {claims.observed:.1f} % observed"
        place = Place(claims.estimated, claims.observed, (claims.observed, claims.observed), text)
        return Series(Key(colour.index, False, f"{row.dataset}, {colour.name}"), [place])

    figures = []
    for strategy in found.strategies:
        claimed = [(row, row.claims) for row in found.rows if row.strategy == strategy.name and row.claims is not None]
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
    """Of the peers' environment, where a peer is asked for."""
    asked = any(CONTESTANTS[name].group == "peer" for name in order.size.axes["strategies"])
    return peer_versions() if asked else {}


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
    full=Size(
        20,
        ("1", "0.3", "0.1"),
        {"strategies": tuple(CONTESTANTS), "datasets": tuple(PROBLEMS)},
        "three hours",
    ),
    seed=1000,
    width=200,
    check=check_problems,
    read_versions=read_versions,
)
"""Seeds from 5000 on are for development: no choice is made on those that are reported."""
