"""The paper's published table, tests and curves beside those of our runs, and the settings that close gaps."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from scipy.stats import wilcoxon

from expril.report.provenance import Provenance
from lab.cells import grouped
from lab.problems import PAPER_DATASETS
from lab.reproduction.experiments import (
    CURVES,
    EXPERIMENTS,
    FIGURE,
    PLAN_LENGTHS,
    SETTINGS,
    TABLE,
    Setup,
    curve_epsilon,
)
from lab.reproduction.laboratory import Noise
from lab.reproduction.runs import Finished

COLUMNS = {
    "h_star": "h*",
    "C-ExPriL": "C-ExPriL",
    "I-ExPriL": "I-ExPriL",
    "1DP-C-ExPriL": "1DP-C-ExPriL, printed",
    "1DP-I-ExPriL": "1DP-I-ExPriL, printed",
    "valid-1DP-C-ExPriL": "1DP-C-ExPriL, valid",
    "valid-1DP-I-ExPriL": "1DP-I-ExPriL, valid",
    "h0_star": "h0*",
    "ratio": "ratio",
    "epsilon_claimed": "epsilon claimed",
    "epsilon_printed_worst": "epsilon of the printed mechanism, worst case",
    "epsilon_printed_at_data": "epsilon of the printed mechanism at the run's records, by the formula for errors",
    "epsilon_printed_masses": "epsilon of its mass query alone at the run's records, by that query's own formula",
}
"""Names in the CSV file -> titles. Accuracies are in percent, `ratio` and the epsilons plain numbers."""
TABLE_COLUMNS = tuple(name for name in COLUMNS if not name.startswith("epsilon"))
"""Those of Table 2 as printed, and the valid mechanism's."""
EPSILON_COLUMNS = tuple(name for name in COLUMNS if name.startswith("epsilon"))
ACCURACIES = tuple(name for name in TABLE_COLUMNS if name != "ratio")
CHOSEN = frozenset({"h_star", "h0_star"})
"""Columns that the method does not influence: the data sets were chosen so that they come near the paper's (ADR 4)."""
RUNS = 100  # over which the paper averages
LIMIT = 2.0  # standard errors up to which two means agree: if nothing differed, 1 entry in 22 would still lie outside
LEVEL = 0.05  # the paper tests at 95 % confidence (section 4.3)
Standing = Literal["within", "above", "below"]


class Published(NamedTuple):
    """Mean and standard deviation over 100 runs; the deviation of a ratio is not published."""

    mean: float
    std: float | None


_COLUMNS = ("h_star", "C-ExPriL", "I-ExPriL", "1DP-C-ExPriL", "1DP-I-ExPriL", "h0_star", "ratio")
_TABLE_2 = {
    "A": ((94.3, 2.3), (76.8, 4.6), (74.9, 5.0), (74.0, 4.8), (71.9, 4.6), (56.2, 5.0), (0.18, None)),
    "B": ((79.9, 2.0), (58.5, 2.5), (57.4, 2.4), (53.8, 2.7), (53.5, 2.7), (52.9, 2.3), (0.27, None)),
    "C": ((96.2, 1.5), (88.8, 3.3), (88.7, 3.8), (85.8, 4.0), (85.6, 4.0), (55.6, 3.9), (0.077, None)),
    "D": ((90.9, 2.1), (82.2, 3.5), (80.7, 3.9), (75.1, 4.4), (74.1, 4.7), (54.6, 2.8), (0.095, None)),
    "E": ((80.3, 2.5), (72.3, 3.4), (70.4, 3.7), (63.0, 4.1), (60.1, 3.9), (54.0, 2.4), (0.10, None)),
    "CTG-A": ((92.0, 1.0), (87.8, 1.5), (86.9, 1.6), (73.0, 3.7), (70.5, 3.2), (77.7, 1.2), (0.045, None)),
    "CTG-B": ((91.2, 1.1), (86.1, 1.4), (84.9, 1.8), (70.1, 3.8), (65.1, 4.0), (75.5, 1.4), (0.055, None)),
}
TABLE_2: dict[tuple[str, str], Published] = {
    (dataset, column): Published(*numbers)
    for dataset, row in _TABLE_2.items()
    for column, numbers in zip(_COLUMNS, row, strict=True)
}
"""(data set, column) -> what the paper reports (full paper, Table 2): facts only, in percent.

Its `ratio` is (acc(h*) - acc(C-ExPriL)) / acc(h*), without privacy.
"""
NOT_SIGNIFICANT = frozenset({"B", "C"})
"""Data sets where the paper does not find C-ExPriL better than I-ExPriL at 95 % (section 4.3)."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Our entry at one place of Table 2: mean and sample standard deviation over the runs."""

    dataset: str  # its place
    column: str
    mean: float  # infinite where one run's value is; `std` is then 0
    std: float  # as above; 0 for a single run
    runs: int
    median: float  # of all runs
    infinite_runs: int = 0  # runs with an infinite value
    setting: str = ""  # which one was changed; "" for none

    @property
    def published(self) -> Published | None:
        """The paper's number, where it has one."""
        return TABLE_2.get((self.dataset, self.column))

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.published is None else self.mean - self.published.mean

    @property
    def standard_errors(self) -> float | None:
        """The difference in standard errors of the difference (both sides' added); None without two deviations."""
        if self.published is None or self.published.std is None:
            return None
        error = math.hypot(self.std / math.sqrt(self.runs), self.published.std / math.sqrt(RUNS))
        return (self.mean - self.published.mean) / error if error > 0 else None

    @property
    def standing(self) -> Standing | None:
        """On which side of the paper's number the entry lies; None if the paper has none."""
        errors = self.standard_errors
        if errors is None or math.isnan(errors):
            return None
        if abs(errors) <= LIMIT:
            return "within"
        return "above" if errors > 0 else "below"

    def closes(self, other: "Entry") -> bool:
        """Whether this entry is within two standard errors of the paper, and nearer to it than the other.

        Being nearer is required because fewer runs alone make a standard error larger.
        """
        if self.difference is None or other.difference is None:
            return False
        return self.standing == "within" and abs(self.difference) < abs(other.difference)


class Wilcoxon(msgspec.Struct, frozen=True):
    """Signed-rank test of C-ExPriL against I-ExPriL over paired runs, two-sided.

    `difference` is the mean of C - I in percentage points.
    """

    dataset: str
    noise: Noise
    difference: float
    p_value: float
    runs: int

    @property
    def ours(self) -> str:
        """The result of our test at the paper's level."""
        if not self.p_value < LEVEL:  # NaN, too: a test that could not be made
            return "no significant difference"
        return "C-ExPriL better" if self.difference > 0 else "I-ExPriL better"

    @property
    def paper(self) -> str:
        """The claim of the paper's section 4.3 on this data set; it has no valid mechanism."""
        if self.noise == "valid":
            return "not in the paper"
        return "no significant difference" if self.dataset in NOT_SIGNIFICANT else "C-ExPriL better"

    @property
    def agreement(self) -> Literal["agrees", "differs", "–"]:
        """Whether our result and the paper's claim agree."""
        if self.noise == "valid":
            return "–"
        return "agrees" if self.paper == self.ours else "differs"


class Point(msgspec.Struct, frozen=True):
    """One point of a learning curve: acc(h_t) - acc(h*) in percentage points, and what h_t cost by its claim.

    `epsilon` is infinite where there is no noise.
    """

    rounds: int
    mean: float
    std: float
    runs: int
    epsilon: float


class Curve(msgspec.Struct, frozen=True):
    """A learning curve of Figure 1.

    With a scale that fits the plan, each point is a study of its own with t rounds; otherwise one study gives all.
    """

    dataset: str
    learner: Literal["C", "I"]  # "C" (cumulative) or "I" (instantaneous)
    noise: Noise  # see `Noise`
    fixed: bool  # the paper's fixed scale for three queries (its cost grows with t), instead of one that fits the plan
    points: tuple[Point, ...]  # by t


class Reproduction(msgspec.Struct, frozen=True):
    """Everything that a report shows; the parts that were not run are empty."""

    table: tuple[Entry, ...] = ()
    wilcoxon: tuple[Wilcoxon, ...] = ()
    closures: tuple[Entry, ...] = ()
    """With a setting changed."""
    curves: tuple[Curve, ...] = ()
    settings: dict[str, dict[str, str]] = {}
    """Data set -> name of a setting -> value, as shown in the report."""
    changes: dict[str, str] = {}
    """Name of a change (of `Entry.setting`) -> what it is."""
    provenance: dict[str, Provenance] = {}
    """By experiment."""


CELLS = "cells"  # folder of the finished cells, one file per experiment
PAIRS: tuple[tuple[Noise, str], ...] = (("none", ""), ("printed", "1DP-"), ("valid", "valid-1DP-"))


def findings(
    cells: Mapping[str, Sequence[Finished]], provenance: Mapping[str, Provenance] | None = None
) -> Reproduction:
    """Findings of the cells that there are."""
    finished = {name: cells.get(f"{CELLS}/{name}", ()) for name in EXPERIMENTS}
    setups = EXPERIMENTS[TABLE].setups()
    return Reproduction(
        table=entries(finished[TABLE]),
        wilcoxon=wilcoxon_tests(finished[TABLE]),
        closures=tuple(
            entry
            for name, setting in SETTINGS.items()
            for entry in entries(finished[f"{TABLE}-{name}"], setting.columns, name)
        ),
        curves=learning_curves(finished[FIGURE], setups),
        settings={name: setup.described() for name, setup in setups.items()},
        changes={name: setting.title for name, setting in SETTINGS.items()},
        provenance=dict(provenance or {}),
    )


def entries(finished: Iterable[Finished], columns: Iterable[str] = COLUMNS, setting: str = "") -> tuple[Entry, ...]:
    """Mean, sample standard deviation and median of the columns that all runs of a data set have."""
    return tuple(
        _entry(dataset, column, [cell.value(column) for cell in cells], setting)
        for dataset, cells in _by_dataset(finished).items()
        for column in columns
        if all(column in cell.values for cell in cells)
    )


def wilcoxon_tests(finished: Iterable[Finished]) -> tuple[Wilcoxon, ...]:
    """C-ExPriL against I-ExPriL over paired runs, as in section 4.3."""
    tests = []
    for dataset, cells in _by_dataset(finished).items():
        for noise, prefix in PAIRS:
            pairs = [(cell.value(f"{prefix}C-ExPriL"), cell.value(f"{prefix}I-ExPriL")) for cell in cells]
            differences = np.array([c - i for c, i in pairs])
            # Without one difference that is not 0 the test has nothing to rank.
            p_value = float(wilcoxon(differences).pvalue) if np.any(differences) else 1.0
            tests.append(Wilcoxon(dataset, noise, float(differences.mean()), p_value, len(cells)))
    return tuple(tests)


def learning_curves(finished: Iterable[Finished], setups: Mapping[str, Setup]) -> tuple[Curve, ...]:
    """The curves of Figure 1."""
    curves = []
    for dataset, cells in _by_dataset(finished).items():
        setup = setups[dataset]
        for key in CURVES:
            points = []
            for rounds in PLAN_LENGTHS:
                entry = _entry(dataset, "", [cell.value(f"{key} {rounds}") for cell in cells])
                claimed = math.inf if key.noise == "none" else float(curve_epsilon(setup, key, rounds))
                points.append(Point(rounds, entry.mean, entry.std, entry.runs, claimed))
            curves.append(Curve(dataset, key.learner, key.noise, key.fixed, tuple(points)))
    return tuple(curves)


def _entry(dataset: str, column: str, values: Sequence[float], setting: str = "") -> Entry:
    numbers = np.array(values)
    finite = bool(np.isfinite(numbers).all())
    return Entry(
        dataset,
        column,
        mean=float(numbers.mean()) if finite else math.inf,
        std=float(numbers.std(ddof=1)) if finite and len(numbers) > 1 else 0.0,
        runs=len(numbers),
        median=float(np.median(numbers)),
        infinite_runs=int(np.isinf(numbers).sum()),
        setting=setting,
    )


def _by_dataset(finished: Iterable[Finished]) -> dict[str, list[Finished]]:
    """Finished cells by data set, in the order of the paper, each in the order of the runs."""
    cells = sorted(finished, key=lambda cell: cell.run)
    return {
        name: group for (name,), group in grouped(cells, lambda cell: (cell.dataset,), list(PAPER_DATASETS)).items()
    }


@dataclass(frozen=True)
class Gap:
    """An entry outside two standard errors, and the change of a setting that came nearest to the paper, if any."""

    entry: Entry
    nearest: Entry | None

    @property
    def outcome(self) -> str:
        """Whether the setting closed the gap."""
        if self.nearest is None:
            return "open: no setting found"
        return "closed" if self.nearest.closes(self.entry) else "not closed"


def gaps(reproduction: Reproduction) -> list[Gap]:
    """The entries outside, in the order of the table."""
    tried = grouped(reproduction.closures, lambda closure: (closure.dataset, closure.column))
    return [
        Gap(entry, min(tried.get((entry.dataset, entry.column), ()), key=_distance, default=None))
        for entry in reproduction.table
        if entry.standing in {"above", "below"}
    ]


def _distance(entry: Entry) -> float:
    """The entry's distance from the paper, in standard errors."""
    errors = entry.standard_errors
    return math.inf if errors is None or math.isnan(errors) else abs(errors)


@dataclass(frozen=True)
class Counts:
    """How many entries lie on each side of the paper's."""

    title: str  # which ones
    runs: int  # the fewest of an entry
    sides: tuple[Standing, ...]  # of each entry that the paper has with a deviation
    closed: int = 0  # those above or below that one changed setting brings within


def table_counts(reproduction: Reproduction) -> list[Counts]:
    """Counts for the method's columns of Table 2, and for the references that data sets were chosen by."""
    closed = {
        (entry.dataset, entry.column)
        for entry in reproduction.table
        for closure in reproduction.closures
        if (closure.dataset, closure.column) == (entry.dataset, entry.column) and closure.closes(entry)
    }
    counts = []
    for title, chosen in (("of the method", False), ("references h* and h0*", True)):
        compared = [entry for entry in reproduction.table if (entry.column in CHOSEN) == chosen and entry.standing]
        shut = [entry for entry in compared if entry.standing != "within" and (entry.dataset, entry.column) in closed]
        if compared:
            counts.append(_counts(title, compared, len(shut)))
    return counts


def setting_counts(reproduction: Reproduction) -> list[Counts]:
    """Counts for each changed setting, over all the method's entries that were made with it."""
    counts = []
    for setting in dict.fromkeys(closure.setting for closure in reproduction.closures):
        entries_of = [
            entry for entry in reproduction.closures if entry.setting == setting and entry.column not in CHOSEN
        ]
        if entries_of:
            counts.append(_counts(change(reproduction, setting), entries_of))
    return counts


def _counts(title: str, entries_of: Sequence[Entry], closed: int = 0) -> Counts:
    sides = tuple(entry.standing for entry in entries_of if entry.standing is not None)
    return Counts(title, min(entry.runs for entry in entries_of), sides, closed)


def change(reproduction: Reproduction, setting: str) -> str:
    """A setting's name and what it is."""
    meaning = reproduction.changes.get(setting, "")
    return f"{setting}: {meaning}" if meaning else setting
