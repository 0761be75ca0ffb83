"""The study of the paper: its Table 2 and its Figure 1 made again, and what closes a gap between ours and its own."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from expril.commands.terminal import MOST_SEED
from expril.report.chart import Axis, Figure, Key, Place, Series, Stage, Strip, Tick, count_axis, line_chart, make_axis
from expril.report.document import PAGE, Block, Charts, Document, Fold, Medium, Section, Text
from expril.report.numbers import decimal, points, signed, with_error
from expril.report.table import Cell, Column, Group, Table, Tone, Written, attributes, numbers, text_table
from lab.cells import grouped
from lab.problems import PAPER_DATASETS
from lab.reproduction.experiments import EXPERIMENTS, FIGURE, LEARNERS, TABLE
from lab.reproduction.findings import (
    ACCURACIES,
    CELLS,
    COLUMNS,
    EPSILON_COLUMNS,
    TABLE_COLUMNS,
    Counts,
    Curve,
    Entry,
    Gap,
    Point,
    Published,
    Reproduction,
    Standing,
    Wilcoxon,
    change,
    findings,
    gaps,
    setting_counts,
    table_counts,
)
from lab.reproduction.laboratory import NOISE_TITLES, Noise
from lab.reproduction.runs import Finished, chunks, compute, task_of
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from protocol.errors import ConfigurationError
from simulations.campaign.runner import Batch
from simulations.campaign.store import Task, read_settings

UNDRAWN: frozenset[Medium] = frozenset({"markdown", "terminal"})

# --- numbers in words

STANDING_TITLES: dict[Standing, str] = {
    "within": "within two standard errors of the paper",
    "above": "above the paper by more than two standard errors",
    "below": "below the paper by more than two standard errors",
}
AGREEMENTS: dict[str, Tone] = {"agrees": "within", "differs": "apart"}
STYLES: dict[tuple[Noise, bool], tuple[int, str]] = {
    ("printed", False): (0, "printed mechanism, noise that fits the plan"),
    ("valid", False): (2, "valid mechanism, noise that fits the plan"),
    ("printed", True): (1, "printed mechanism, noise fixed for three queries"),
    ("none", False): (5, "no privacy"),
}
"""Of a curve, (noise, fixed) -> index of colour and shape, and words; in the order of the legend."""


def epsilon_text(value: float) -> str:
    """A privacy loss with three significant digits."""
    if not math.isfinite(value):
        return decimal(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def probability(value: float) -> str:
    """A p value with two significant digits."""
    if math.isnan(value):
        return "–"
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _digits(column: str) -> int:
    return 3 if column == "ratio" else 1


def spread(column: str, value: Entry | Published | None) -> str:
    """Mean ± standard deviation, as the column is written; the mean alone where no deviation is known."""
    return "–" if value is None else with_error(decimal(value.mean, _digits(column)), value.std, _digits(column))


def _standing(entry: Entry) -> Cell:
    """How many standard errors an entry is from the paper's, and on which side."""
    errors, side = entry.standard_errors, entry.standing
    if errors is None or side is None:
        return Cell("–")
    return Cell(decimal(abs(errors)), tone=side, title=STANDING_TITLES[side])


def epsilons_summary(entry: Entry | None) -> str:
    """Median and mean over the runs, and how often a value is infinite.

    The worst case is one number, the same in all runs.
    """
    if entry is None:
        return "–"
    if entry.column == "epsilon_printed_worst":
        return epsilon_text(entry.mean)
    if entry.mean == 0:
        return "not asked"
    if math.isinf(entry.mean):
        median = "" if math.isinf(entry.median) else f"median {epsilon_text(entry.median)}, "
        return f"{median}infinite in {entry.infinite_runs} of {entry.runs} runs"
    if epsilon_text(entry.median) == epsilon_text(entry.mean):
        return epsilon_text(entry.mean)
    return f"median {epsilon_text(entry.median)}, mean {epsilon_text(entry.mean)}"


def curve_title(curve: Curve) -> str:
    """The name of a curve."""
    return f"{curve.learner}-ExPriL, {STYLES[curve.noise, curve.fixed][1]}"


def scale(curve: Curve) -> str:
    """Whether the noise is the paper's for three queries, "fixed", or one that fits the "plan"."""
    return "fixed" if curve.fixed else "plan"


def point_text(point: Point) -> str:
    """A point's mean and deviation in percentage points."""
    return with_error(signed(point.mean), point.std)


def _strong(row: Any) -> Cell:
    return Cell(row.dataset, strong=True)


_DATASET: Column[Any] = Column("data set", _strong, names=True, quiet=True)


def _by_dataset(rows: Iterable[Any]) -> dict[str, list[Any]]:
    return grouped(rows, lambda row: row.dataset)


# --- Table 2

READING = (
    "Accuracy on the target’s test records in percent: mean ± standard deviation over the runs. In the pictures a dot "
    "is ours, with a bar of one deviation on both sides; the paper’s is an upright line, with a grey bar. The "
    "difference is ours minus the paper’s in percentage points, then in standard errors of the difference (both sides’ "
    "errors added): = within two, ▲ above, ▼ below. C-ExPriL keeps all answers, I-ExPriL only the last. h* is trained "
    "on the target itself, h0* answers its most frequent class; neither asks the curator anything. Ratio is "
    "(h* − C-ExPriL) / h*, without privacy; the paper gives no deviation for it, so it is not counted."
)
COUNTS_READING = (
    "Of the accuracies that the paper reports with a deviation, how many of ours lie within two standard errors of "
    "it, above and below; if nothing differed, 1 in 22 would lie outside by chance. References say nothing about the "
    "method: data sets and training were chosen so that they come near the paper’s (ADR 4). Closed: outside, and one "
    "setting that the paper leaves open brings it within and nearer."
)


def _where(reproduction: Reproduction) -> Table[Counts]:
    counts = table_counts(reproduction)
    columns = [*_counts_columns("accuracies"), Column[Counts]("closed", lambda row: row.closed, number=True)]
    return Table.of("Where ours lie beside the paper’s", columns, counts)


def _counts_columns(heading: str) -> list[Column[Counts]]:
    def many(side: Standing, row: Counts) -> int:
        return row.sides.count(side)

    return [
        Column(heading, lambda row: row.title, names=True),
        *numbers("runs = runs"),
        Column("compared", lambda row: len(row.sides), number=True),
        *(Column[Counts](side, partial(many, side), number=True) for side in STANDING_TITLES),
    ]


def _pictured(reproduction: Reproduction) -> Table[Entry] | None:
    """Table 2, a row an entry: drawn, ours, the paper's and how far they are apart."""
    entries = [entry for entry in reproduction.table if entry.column in TABLE_COLUMNS]
    accuracies = [entry for entry in entries if entry.column in ACCURACIES]
    if not accuracies:
        return None
    ends = [end for entry in accuracies for side in (entry, entry.published) if side for end in _ends(side)]
    axis = make_axis(min(ends), max(ends), _STEPS)
    columns: list[Column[Entry]] = [
        Column("column", lambda entry: COLUMNS[entry.column], names=True),
        Column("percent", partial(_strip, axis), drawn=True, axis=axis),
        Column("ours", lambda entry: Cell(spread(entry.column, entry), strong=True), number=True),
        Column("paper", lambda entry: spread(entry.column, entry.published), number=True),
        Column("difference", _difference, number=True),
        Column("in std. errors", _standing, number=True),
        Column("runs", lambda entry: entry.runs, number=True),
    ]
    return Table("Table 2, ours and the paper’s", columns, [Group(g, name) for name, g in _by_dataset(entries).items()])


def _difference(entry: Entry) -> str:
    return "–" if entry.difference is None else signed(entry.difference, _digits(entry.column))


def _ends(value: Entry | Published | Point) -> tuple[float, float]:
    std = value.std or 0.0
    return value.mean - std, value.mean + std


def _strip(axis: Axis, entry: Entry) -> Strip | None:
    if entry.column not in ACCURACIES:
        return None
    paper = entry.published
    return Strip(
        axis,
        dots=[(0, entry.mean, _ends(entry), f"ours: {spread(entry.column, entry)}")],
        spans=[(*_ends(paper), "track", f"paper: {spread(entry.column, paper)}")] if paper else (),
        marks=[(paper.mean, "dashes")] if paper else (),
    )


def _places(reproduction: Reproduction) -> dict[str, dict[str, Entry]]:
    """Data set -> column -> entry."""
    return {name: {entry.column: entry for entry in group} for name, group in _by_dataset(reproduction.table).items()}


# --- privacy, tests, gaps

PRIVACY_READING = (
    "Epsilon bounds what one record’s presence can change: the odds that a record was among the data move by at most "
    "the factor e to the power of epsilon, 2.7 at epsilon 1. The printed mechanism divides noisy errors by the exact, "
    "private number of records in a bin; docs/results/reproduction.md says why its claim does not hold, and what the "
    "valid mechanism does instead."
)
EPSILON_NOTE = (
    "Epsilon of one study with the printed mechanism. “At the records” compares each run’s private records only "
    "with those that have one record more or one fewer, sums over queries and attributes, and is infinite as soon "
    "as some bin holds no record or one. It takes every query for one about errors. Where the masses are asked, "
    "their query alone costs what the last column says, so the study costs at least the larger of the two. “Not "
    "asked”: the paper skips the masses where source and target have the same distribution. Median and mean are "
    "over the runs."
)
TESTS_READING = (
    "Wilcoxon signed-rank test over paired runs, two-sided; the difference C − I is in percentage points. A small p "
    "value means that a difference this clear would be rare if the two were equally good; below 0.05 it counts as "
    "significant, as in the paper (section 4.3)."
)
CLOSING = (
    "The paper leaves settings open. For each entry outside two standard errors, the run with one changed setting "
    "that came nearest to the paper stands beside ours; “closed” means nearer and within two standard errors of it, of "
    "which fewer runs have larger ones. Every attempt is in closures.csv. Longer or shorter training changes h* "
    "itself."
)
ONE_SETTING = (
    "A different setting for every entry explains little. How many of the method’s entries does one setting bring "
    "within two standard errors of the paper?"
)


def _epsilons(reproduction: Reproduction) -> Written:
    """Privacy loss of the printed mechanism, claimed and true, by data set."""
    rows = [
        [Cell(name, strong=True), *(epsilons_summary(places.get(column)) for column in EPSILON_COLUMNS)]
        for name, places in _places(reproduction).items()
        if not places.keys().isdisjoint(EPSILON_COLUMNS)
    ]
    headings = (
        "data set",
        "claimed",
        "true, worst case",
        "at the records of each run, by the formula for errors",
        "the query for the masses, by its own formula",
    )
    return text_table(
        "Privacy loss of the printed mechanism", headings, rows, quiet=True, note=EPSILON_NOTE, wraps=headings[1:]
    )


def _tests(reproduction: Reproduction) -> Table[Wilcoxon]:
    """C-ExPriL against I-ExPriL, by our runs and by the paper."""
    columns: list[Column[Wilcoxon]] = [
        _DATASET,
        Column("noise", lambda row: NOISE_TITLES[row.noise]),
        *numbers("C − I = difference", signed),
        *numbers("p value = p_value", probability),
        Column("runs", lambda row: row.runs, number=True, page=True),
        *attributes("ours paper"),
        Column("verdict", lambda row: Cell(row.agreement, tone=AGREEMENTS.get(row.agreement, ""))),
    ]
    return Table.of("C-ExPriL against I-ExPriL", columns, reproduction.wilcoxon)


def _gaps(reproduction: Reproduction) -> Table[Gap]:
    """The entries that differ from the paper, with and without a changed setting."""

    def near(show: Callable[[Entry], object]) -> Callable[[Gap], object]:
        return lambda gap: "–" if gap.nearest is None else show(gap.nearest)

    columns: list[Column[Gap]] = [
        Column("data set", lambda gap: _strong(gap.entry), names=True, quiet=True),
        Column("column", lambda gap: COLUMNS.get(gap.entry.column, gap.entry.column)),
        Column("paper", lambda gap: spread(gap.entry.column, gap.entry.published), number=True),
        Column("ours", lambda gap: spread(gap.entry.column, gap.entry), number=True),
        Column("setting changed", near(lambda entry: change(reproduction, entry.setting)), wraps=True),
        Column("with it", near(lambda entry: spread(entry.column, entry)), number=True),
        Column("runs", near(lambda entry: entry.runs), number=True),
        Column("outcome", lambda gap: Cell(gap.outcome, tone="within" if gap.outcome == "closed" else "apart")),
    ]
    return Table.of("Entries that differ from the paper", columns, gaps(reproduction))


# --- Figure 1

CURVES_READING = (
    "How many percentage points the hypothesis after t questions about errors lies above or below h*, the model "
    "trained on the target itself. Lines are means, bands ± 1 standard deviation over the runs; C-ExPriL is filled and "
    "solid, I-ExPriL hollow and dashed. The paper fixes the noise for three queries and draws the curve on, so that "
    "further rounds are paid for on top of the 1 that is claimed: the row ε under the axis says how much, by the "
    "paper’s own count. With noise that fits the plan, each point is a study of its own, of t rounds, and claims at "
    "most 1."
)
ENDS_READING = (
    "Percentage points from h*, the model trained on the target itself; epsilon by the mechanism's own claim."
)
_STEPS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_HEIGHT = 280


def _styled(reproduction: Reproduction) -> dict[str, list[Curve]]:
    """Data set -> its curves, in the order of the legend, C before I."""
    order = list(STYLES)
    curves = sorted(reproduction.curves, key=lambda curve: (order.index((curve.noise, curve.fixed)), curve.learner))
    grouped = _by_dataset(curve for curve in curves if curve.points)
    return {
        name: grouped[name] for name in dict.fromkeys(curve.dataset for curve in reproduction.curves) if name in grouped
    }


def _figure1(reproduction: Reproduction) -> list[Block]:
    """Two charts under their legend and a table of all numbers, for each data set."""
    styled = _styled(reproduction)
    keys = {STYLES[curve.noise, curve.fixed]: None for curves in styled.values() for curve in curves}
    legend = [Key(index, False, title) for index, title in sorted(keys, key=list(STYLES.values()).index)]
    blocks: list[Block] = [Text(CURVES_READING)] if styled else []
    for name, curves in styled.items():
        blocks.append(Charts(_panels(name, curves), legend, columns=2))
        blocks.append(Fold(f"Numbers of {name}", [_numbers(name, curves)]))
    return blocks


def _panels(dataset: str, curves: Sequence[Curve]) -> list[Figure]:
    """A panel with privacy at the left and one without at the right, on one vertical axis."""
    ends = [end for curve in curves for point in curve.points for end in _ends(point)]
    stage = Stage(make_axis(min(ends), max(ends), (0.5, *_STEPS)), _HEIGHT)
    halves = {
        "differentially private (1-DP in the paper)": [curve for curve in curves if curve.noise != "none"],
        "no privacy": [curve for curve in curves if curve.noise == "none"],
    }
    return [_panel(f"{dataset}, {title}", half, stage) for title, half in halves.items() if half]


def _panel(title: str, curves: Sequence[Curve], stage: Stage) -> Figure:
    axis = count_axis((point.rounds for curve in curves for point in curve.points), left=11.0, right=96.0)
    spent = {point.rounds: point.epsilon for curve in curves if curve.fixed for point in curve.points}
    costs = tuple(Tick(f"{spent[round(t.value)]:.2f}", t.at, t.value) for t in axis.ticks if round(t.value) in spent)
    series = []
    for curve in curves:
        key = Key(STYLES[curve.noise, curve.fixed][0], curve.learner == "I", curve_title(curve))
        at = sorted(curve.points, key=lambda point: point.rounds)
        places = [Place(p.rounds, p.mean, _ends(p), f"{point_text(p)} at t = {p.rounds}") for p in at]
        series.append(Series(key, places))
    ends = "; ".join(f"{line.key.name}: {line.places[-1].text}" for line in series)
    return line_chart(
        title,
        series,
        axis,
        (),
        stage=stage,
        unit="percentage points from h*",
        across="t",
        text=f"Accuracy minus that of h*, in percentage points, by t. {ends}",
        zero="0",
        second=("ε", costs),
    )


def _numbers(dataset: str, curves: Sequence[Curve]) -> Written:
    """Every point of a data set's curves, C-ExPriL beside I-ExPriL, and what it claims to cost."""
    groups: list[Group[Sequence[object]]] = []
    for style, (_, title) in STYLES.items():
        by_learner = {curve.learner: curve for curve in curves if (curve.noise, curve.fixed) == style}
        at = {
            learner: {point.rounds: point for point in by_learner[learner].points} if learner in by_learner else {}
            for learner in LEARNERS
        }
        rows = []
        for rounds in sorted({rounds for places in at.values() for rounds in places}):
            points_of = [places.get(rounds) for places in at.values()]
            claimed = next(point.epsilon for point in points_of if point)
            texts = ["–" if point is None else point_text(point) for point in points_of]
            rows.append([rounds, *texts, "–" if style[0] == "none" else epsilon_text(claimed)])
        groups += [Group(rows, title)] if rows else []
    headings = ("t", *(f"{learner}-ExPriL" for learner in LEARNERS), "epsilon claimed")
    empty = text_table(f"Numbers of the learning curves of {dataset}", headings, (), numbers=True)
    return replace(empty, groups=groups)


def _curve_ends(reproduction: Reproduction) -> Written:
    """The first and the last point of every curve."""
    rows = []
    for name, curves in _styled(reproduction).items():
        for curve in curves:
            at = sorted(curve.points, key=lambda point: point.rounds)
            cost = "–" if curve.noise == "none" else epsilon_text(at[-1].epsilon)
            ends = [text for point in (at[0], at[-1]) for text in (point.rounds, point_text(point))]
            rows.append([Cell(name, strong=True), curve_title(curve), *ends, cost])
    return text_table(
        "Figure 1: first and last points of the learning curves",
        ("data set", "curve", "first t", "points", "last t", "points", "epsilon claimed there"),
        rows,
        quiet=True,
    )


# --- the document

SUMMARY = (
    "Lacombe, Jetley and Sebag, full paper: its seven data sets through the same curator, learner and messages as any "
    "study: without privacy, with the mechanism as the paper prints it, and with the valid one at the same epsilon."
)


def _with_reading(reading: str, table: Table[Any] | None) -> list[Block]:
    """A table below the text that explains it; nothing if the table has no row."""
    return [Text(reading), table] if table else []


def document(reproduction: Reproduction) -> Document:
    """Table 2, the privacy of its mechanism, what closes its gaps, and Figure 1."""
    counts = Table.of("Settings over all entries", _counts_columns("setting changed"), setting_counts(reproduction))
    names = [name for name, setups in reproduction.settings.items() if setups]
    rows = [
        [setting, *(reproduction.settings[name].get(setting, "–") for name in names)]
        for setting in dict.fromkeys(setting for name in names for setting in reproduction.settings[name])
    ]
    return document_of(
        "reproduction",
        [
            Section("Beside the paper", _with_reading(COUNTS_READING, _where(reproduction))),
            Section("Table 2: accuracy", _with_reading(READING, _pictured(reproduction))),
            Section("Privacy of the printed mechanism", _with_reading(PRIVACY_READING, _epsilons(reproduction))),
            Section("C-ExPriL against I-ExPriL", _with_reading(TESTS_READING, _tests(reproduction))),
            Section("Entries that differ, and what closes them", _with_reading(CLOSING, _gaps(reproduction))),
            Section("One setting for all entries", _with_reading(ONE_SETTING, counts)),
            Section("Figure 1: learning curves", _figure1(reproduction), PAGE),
            Section("Figure 1: first and last points", _with_reading(ENDS_READING, _curve_ends(reproduction)), UNDRAWN),
        ],
        {title: reproduction.provenance.get(name) for name, title in ((TABLE, "Table 2"), (FIGURE, "Figure 1"))},
        files(reproduction),
        summary=[SUMMARY],
        settings=text_table("Settings by data set", ("setting", *names), rows, quiet=True),
    )


def files(reproduction: Reproduction) -> dict[str, Table[Any]]:
    """The numbers as CSV files. Parts that were not run have no file.

    Accuracies, their differences and their deviations are in percent or percentage points with 2 decimals, `ratio` has
    4 decimals, epsilons and p values have 4 significant digits. Infinite values are written "inf", which `float` reads.
    """
    numbers = (
        Column[Entry]("mean", lambda entry: _number(entry.column, entry.mean)),
        Column[Entry]("std", lambda entry: _number(entry.column, entry.std)),
        *attributes("runs"),
    )
    curve_columns = (*attributes("dataset learner noise"), Column("scale", scale))
    point_columns = (
        *attributes("rounds"),
        *attributes("mean std", points),
        *attributes("runs"),
        *attributes("epsilon", _significant),
    )
    curves = [*(_of(0, column) for column in curve_columns), *(_of(1, column) for column in point_columns)]
    tests = (*attributes("dataset noise"), *attributes("difference", points), *attributes("p_value", _significant))
    places = [(curve, point) for curve in reproduction.curves for point in curve.points]
    tables: dict[str, Table[Any]] = {
        f"{TABLE}.csv": Table.of("Table 2", (*attributes("dataset column"), *numbers), reproduction.table),
        "wilcoxon.csv": Table.of("Tests", (*tests, *attributes("runs")), reproduction.wilcoxon),
        "closures.csv": Table.of("Closures", (*attributes("dataset column setting"), *numbers), reproduction.closures),
        f"{FIGURE}.csv": Table.of("Figure 1", curves, places),
    }
    return {name: table for name, table in tables.items() if table}


_significant = "{:.4g}".format


def _number(column: str, value: float) -> str:
    if column in EPSILON_COLUMNS:
        return _significant(value)
    return f"{value:z.4f}" if column == "ratio" else points(value)


def _of(place: int, column: Column[Any]) -> Column[tuple[Curve, Point]]:
    return Column(column.heading, lambda pair: column.show(pair[place]))


# --- the study


def part_of(name: str) -> Part:
    """The cells of an experiment: the published number of runs, or as many as an order says."""
    experiment = EXPERIMENTS[name]

    def tasks(order: Order) -> list[Task]:
        if name not in order.size.axes["experiments"]:
            return []
        return [
            task_of(dataset, run)
            for dataset in order.size.axes["datasets"]
            for run in range(order.size.repeats or experiment.published.get(dataset, 0))
        ]

    def settings(order: Order) -> Mapping[str, object]:
        return {
            "experiment": TABLE if experiment.setting else name,
            "setting": experiment.setting,
            "seed": order.seed,
            "noise_seed": order.options.get("noise_seed"),
            "setups": {dataset: setup.described() for dataset, setup in experiment.setups().items()},
        }

    def batches(order: Order, missing: Sequence[Task]) -> Sequence[Batch]:
        return chunks(name, experiment.setups(order.options.get("noise_seed")), order.seed, missing)

    return Part(f"{CELLS}/{name}", Finished, tasks, compute, settings, batches=batches, source=name)


def check(order: Order) -> None:
    """Stop an order that cannot be done before any work.

    Raises ConfigurationError: another epsilon, no run, or a folder that was begun with other seeds;
    DataUnavailableError: the CTG records are not to be had.
    """
    if order.size.epsilons != STUDY.full.epsilons:
        raise ConfigurationError("the paper's epsilon is 1; leave --epsilon out")
    tasks = [task for part in STUDY.parts for task in part.tasks(order)]
    if not tasks:
        raise ConfigurationError("no run of these is published; say with --repeats how many to make")
    seeds = {"seed": order.seed, "noise_seed": order.options.get("noise_seed")}
    for path in sorted((order.out / CELLS).glob("*.jsonl")):
        begun = read_settings(path)
        if any(begun.get(name, seed) != seed for name, seed in seeds.items()):
            raise ConfigurationError(f"{path} was begun with other seeds; name another folder with --out")
    for name in dict.fromkeys(task.problem for task in tasks):
        PAPER_DATASETS[name].draw(order.seed)


def _noise(order: Order) -> str:
    seed = order.options.get("noise_seed")
    return "exact" if seed is None else f"seed {seed}, not private"


def _noise_seed(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST_SEED:
        raise ValueError(f"a noise_seed is a whole number from 0 to {MOST_SEED}")
    return int(text)


STUDY = Study(
    name="reproduction",
    parts=[part_of(name) for name in EXPERIMENTS],
    findings=findings,
    document=document,
    choices={"experiments": tuple(EXPERIMENTS), "datasets": tuple(PAPER_DATASETS)},
    short=Size(5, ("1",), {"experiments": (TABLE,), "datasets": tuple("ABCDE")}, "one minute"),
    full=Size(0, ("1",), {"experiments": tuple(EXPERIMENTS), "datasets": tuple(PAPER_DATASETS)}, "an hour"),
    seed=0,
    noise=_noise,
    check=check,
    options={"noise_seed": _noise_seed},
)
"""`--set noise_seed=N` draws noise from a seed, to debug and to compare; every file then says so."""
