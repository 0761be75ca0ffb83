"""From finished runs to the table, the tests and the curves, and what they amount to beside the paper."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from lab.reproduction.model import CHOSEN, COLUMNS, Curve, Entry, Noise, Point, Reproduction, Standing, Wilcoxon
from lab.reproduction.runs import Finished

CELLS = "cells"
"""Folder of the finished cells, one file per experiment."""
PAIRS: tuple[tuple[Noise, str], ...] = (("none", ""), ("printed", "1DP-"), ("valid", "valid-1DP-"))


def findings(
    cells: Mapping[str, Sequence[Finished]], provenance: Mapping[str, Provenance] | None = None
) -> Reproduction:
    """All that the cells show, whatever is still missing."""
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
        settings={name: setup.shown() for name, setup in setups.items()},
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
            both = [(cell.value(f"{prefix}C-ExPriL"), cell.value(f"{prefix}I-ExPriL")) for cell in cells]
            differences = np.array([c - i for c, i in both])
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
                entry = _entry(dataset, "", [each.value(f"{key} {rounds}") for each in cells])
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
        """What the setting did."""
        if self.nearest is None:
            return "open: no setting found"
        return "closed" if self.nearest.closes(self.entry) else "not closed"


def gaps(found: Reproduction) -> list[Gap]:
    """The entries outside, in the order of the table."""
    tried = grouped(found.closures, lambda closure: (closure.dataset, closure.column))
    return [
        Gap(entry, min(tried.get((entry.dataset, entry.column), ()), key=_distance, default=None))
        for entry in found.table
        if entry.standing in {"above", "below"}
    ]


def _distance(entry: Entry) -> float:
    """How far it is from the paper, in standard errors."""
    errors = entry.standard_errors
    return math.inf if errors is None or math.isnan(errors) else abs(errors)


@dataclass(frozen=True)
class Counts:
    """Where entries stand beside the paper."""

    title: str  # which ones
    runs: int  # the fewest of an entry
    sides: tuple[Standing, ...]  # of each entry that the paper has with a deviation
    closed: int = 0  # those above or below that one changed setting brings within


def table_counts(found: Reproduction) -> list[Counts]:
    """Of the method's columns of Table 2, and of those that the data sets were chosen by."""
    closed = {
        (entry.dataset, entry.column)
        for entry in found.table
        for closure in found.closures
        if (closure.dataset, closure.column) == (entry.dataset, entry.column) and closure.closes(entry)
    }
    counts = []
    for title, chosen in (("of the method", False), ("references h* and h0*", True)):
        compared = [entry for entry in found.table if (entry.column in CHOSEN) == chosen and entry.standing]
        shut = [each for each in compared if each.standing != "within" and (each.dataset, each.column) in closed]
        if compared:
            counts.append(_counts(title, compared, len(shut)))
    return counts


def setting_counts(found: Reproduction) -> list[Counts]:
    """Of each changed setting: all the method's entries that were made with it, not only those it was meant for."""
    counts = []
    for setting in dict.fromkeys(closure.setting for closure in found.closures):
        made = [each for each in found.closures if each.setting == setting and each.column not in CHOSEN]
        if made:
            counts.append(_counts(change(found, setting), made))
    return counts


def _counts(title: str, made: Sequence[Entry], closed: int = 0) -> Counts:
    sides = tuple(each.standing for each in made if each.standing is not None)
    return Counts(title, min(each.runs for each in made), sides, closed)


def change(found: Reproduction, setting: str) -> str:
    """A setting's name and what it is."""
    meaning = found.changes.get(setting, "")
    return f"{setting}: {meaning}" if meaning else setting
