"""The study: every case in every setting of the design, counted, and held to the bars of docs/results/intervals.md."""

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from zlib import crc32

import msgspec
import numpy as np
from scipy.stats import binom

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Cell, Column, Table, attributes
from lab.cells import TaskCell, grouped
from lab.curators import NOISE
from lab.intervals import of_effects, of_regression, of_table_one, of_tables, of_times
from lab.intervals.case import Case, Compared, Interval
from lab.intervals.design import DESIGN
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from simulations.campaign.store import Task

LEAST, MOST, LEVEL = 0.94, 0.985, 0.05
"""Coverage is at least the first; at most the second where an interval says something; a test rejects at most this."""
ERROR = 1e-3
"""Chance that all settings of a quantity together raise a false alarm."""
BATCH = 100
"""Repeats of one cell in the full study."""
SAYS = 0.9
"""A setting's intervals say something if this share of them is narrow."""
CASES: dict[str, Case] = {
    name: case
    for module in (of_tables, of_effects, of_times, of_regression, of_table_one)
    for name, case in module.CASES.items()
}
"""All cases by name; each module has those of one sort of analysis."""


class Tally(msgspec.Struct):
    """Repeats of one quantity."""

    repeats: int = 0
    good: int = 0  # intervals that cover, or tests that do not reject
    low: int = 0  # intervals below the truth
    narrow: int = 0  # intervals that say something
    width: float = 0.0  # sum of finite widths
    finite: int = 0
    test: bool = False

    def add(self, compared: Compared) -> None:
        """Count one more."""
        self.repeats += 1
        if isinstance(compared, Interval):
            self.good += compared.covers
            self.low += compared.high < compared.truth and not compared.covers
            self.narrow += compared.narrow
            if np.isfinite(compared.high - compared.low):
                self.finite += 1
                self.width += compared.high - compared.low
        else:
            self.test = True
            self.good += compared.p is None or compared.p > LEVEL
            self.narrow += compared.p is not None

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(
            self.repeats + other.repeats,
            self.good + other.good,
            self.low + other.low,
            self.narrow + other.narrow,
            self.width + other.width,
            self.finite + other.finite,
            self.test,
        )


class Batch(TaskCell, frozen=True):
    """Some repeats of a case in a setting; `problem` is the case, `maker` the setting."""

    tallies: dict[str, Tally]
    seconds: float = 0.0


def compute(task: Task, repeats: int = BATCH) -> Batch:
    """Some repeats of a case in a setting."""
    begun = time.perf_counter()
    condition = DESIGN[task.maker]
    rng = np.random.default_rng([crc32(f"{task.problem} {task.maker}".encode()), task.seed])
    tallies: dict[str, Tally] = {}
    for _ in range(repeats):
        for compared in CASES[task.problem].repeat(condition, rng):
            tallies.setdefault(compared.quantity, Tally()).add(compared)
    return Batch(*task, tallies, time.perf_counter() - begun)


def compute_short(task: Task) -> Batch:
    """The repeats of the short form."""
    return compute(task, CASES[task.problem].short)


def _tasks(full: bool, order: Order) -> list[Task]:
    """The first batch of all cases and settings before the second of any."""
    if full != (order.size.repeats == 0):
        return []
    cases = {name: CASES[name] for name in order.size.axes["cases"]}
    settings = [DESIGN[name] for name in order.size.axes["settings"]]
    batches = max(-(-case.full // BATCH) for case in cases.values()) if full else 1
    return [
        Task(name, str(setting), setting.epsilon, order.seed + number)
        for number in range(batches)
        for name, case in cases.items()
        for setting in settings
        if case.applies(setting) and (not full or number * BATCH < case.full)
    ]


class Row(msgspec.Struct, frozen=True):
    """One quantity of a case in one setting."""

    case: str
    quantity: str
    setting: str
    repeats: int
    coverage: float  # of intervals; of a test, the share that does not reject
    least: float  # what coverage must reach
    most: float  # what it must not pass; 1 where nothing is asked
    low: float  # share of intervals below the truth
    width: float | None  # mean of the finite ones
    test: bool

    @property
    def fault(self) -> str:
        """What is wrong, in a word."""
        if self.coverage < self.least:
            return "rejects" if self.test else "short"
        return "wide" if self.coverage > self.most else ""


class Findings(msgspec.Struct, frozen=True):
    """All rows, and where they come from."""

    rows: tuple[Row, ...]
    provenance: Provenance | None = None


def bars(tally: Tally, settings: int) -> tuple[float, float]:
    """The least and the most coverage that are in order, with the error of the repeats.

    Each bar is passed with a probability of at most `ERROR` / `settings` where the true coverage is just in order.
    """
    runs, chance = tally.repeats, ERROR / settings
    least = float(binom.ppf(chance, runs, 1.0 - LEVEL if tally.test else LEAST)) / runs
    if tally.test or tally.narrow < SAYS * runs:
        return least, 1.0
    return least, float(binom.isf(chance, runs, MOST)) / runs


def findings(cells: Mapping[str, Sequence[Batch]], provenance: Provenance | None = None) -> Findings:
    """Coverage by case, quantity and setting, in the order of cases and of the design."""
    sums: dict[tuple[str, str, str], Tally] = {}
    for batch in [batch for name in cells for batch in cells[name]]:
        if batch.problem in CASES and batch.maker in DESIGN:
            for quantity, tally in batch.tallies.items():
                key = (batch.problem, quantity, batch.maker)
                sums[key] = sums[key].plus(tally) if key in sums else tally
    cases, settings = list(CASES), list(DESIGN)
    places = {quantity: place for place, (_, quantity, _) in enumerate(sums)}
    order = sorted(sums, key=lambda key: (cases.index(key[0]), places[key[1]], settings.index(key[2])))
    rows = []
    for case, quantity, setting in order:
        tally = sums[case, quantity, setting]
        least, most = bars(tally, len(DESIGN))
        runs = tally.repeats
        width = tally.width / tally.finite if tally.finite else None
        rows.append(
            Row(case, quantity, setting, runs, tally.good / runs, least, most, tally.low / runs, width, tally.test)
        )
    return Findings(tuple(rows), provenance)


class Summary(msgspec.Struct, frozen=True):
    """One quantity of a case over all settings."""

    case: str
    quantity: str
    rows: tuple[Row, ...]

    @property
    def worst(self) -> Row:
        """The setting of the least coverage."""
        return min(self.rows, key=lambda row: row.coverage - row.least)

    @property
    def mean(self) -> float:
        """Mean coverage over the settings."""
        return float(np.mean([row.coverage for row in self.rows]))


def _summaries(rows: Iterable[Row], *, tests: bool) -> list[Summary]:
    groups = grouped((row for row in rows if row.test == tests), lambda row: (row.case, row.quantity))
    return [Summary(*key, tuple(group)) for key, group in groups.items()]


def _faults(fault: str, summary: Summary) -> object:
    count = sum(row.fault == fault for row in summary.rows)
    return Cell(str(count), tone="bad") if count else "0"


def _columns(*, tests: bool) -> list[Column[Summary]]:
    def share(value: float) -> str:
        return f"{100 * (1 - value if tests else value):.1f}"

    what = "rejects" if tests else "covers"
    columns: list[Column[Summary]] = [
        Column("analysis", lambda row: row.case, names=True),
        Column("test" if tests else "interval", lambda row: row.quantity, names=True),
        Column("settings", lambda row: len(row.rows), number=True),
        Column("repeats", lambda row: min(part.repeats for part in row.rows), number=True),
        Column(f"{what}, mean %", lambda row: share(row.mean), number=True),
        Column("worst %", lambda row: share(row.worst.coverage), number=True),
        Column("bar %", lambda row: share(row.worst.least), number=True),
        Column("worst in", lambda row: row.worst.setting),
        Column(
            "below the bar" if not tests else "above the bar",
            partial(_faults, "rejects" if tests else "short"),
            number=True,
        ),
    ]
    if not tests:
        columns.append(Column("needlessly wide", partial(_faults, "wide"), number=True))
    return columns


READING = (
    "Each line is one number of an analysis at one fixed truth. A setting is epsilon / records at each site / sites / "
    "noise / records of a unit; noise is each site's own, or that of a secure sum with t = 1 and u = 0 (t1u0) or 1 "
    "(t1u1). Worst is the setting that is nearest to its bar, or furthest below it. The bar is 94 % less the error of "
    "the repeats, at 1 in 1,000 for all settings of a line together. Needlessly wide are settings that cover more than "
    "98.5 % and that error, although nine in ten intervals are narrower than half of what the number may be."
)
READING_TESTS = "A test of a null that is true should reject in at most 5 %, and the error of the repeats."
SETTING_COLUMNS = "case quantity setting repeats coverage least most low width fault"


def document(results: Findings) -> Document:
    """Intervals, tests, and a file of every setting."""
    intervals, tests = _summaries(results.rows, tests=False), _summaries(results.rows, tests=True)
    faults = [row for row in results.rows if row.fault]
    settings_table = Table.of("Every setting", attributes(SETTING_COLUMNS), results.rows)
    summary = [
        (
            f"{len(intervals)} intervals and {len(tests)} tests of true nulls in {len(DESIGN)} settings: "
            f"{len(faults)} of {len(results.rows)} miss their bar."
        )
    ]
    sections = [
        Section("Intervals", [Text(READING), Table.of("Coverage of 95 % intervals", _columns(tests=False), intervals)]),
        Section("Tests", [Text(READING_TESTS), Table.of("True nulls", _columns(tests=True), tests)]),
    ]
    if faults:
        columns = attributes("case quantity setting repeats fault") + attributes("coverage least most", "{:.3f}".format)
        sections.append(Section("What misses its bar", [Table.of("Settings that miss their bar", columns, faults)]))
    return document_of("intervals", sections, results.provenance, {"settings.csv": settings_table}, summary=summary)


STUDY = Study(
    name="intervals",
    parts=[
        Part("batches", Batch, partial(_tasks, True), compute),
        Part("short", Batch, partial(_tasks, False), compute_short),
    ],
    findings=findings,
    document=document,
    choices={"cases": tuple(CASES), "settings": tuple(DESIGN)},
    short=Size(1, (), {"cases": tuple(CASES), "settings": tuple(DESIGN)[:6]}, "two minutes"),
    full=Size(0, (), {"cases": tuple(CASES), "settings": tuple(DESIGN)}, "hours"),
    seed=3100,
    noise=NOISE,
    width=170,
)
