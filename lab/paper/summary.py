"""From finished cells to the table, the tests and the curves."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.stats import wilcoxon

from lab.paper.experiments import CURVES, PLAN_LENGTHS, Setup, curve_epsilon
from lab.paper.finished import Finished
from lab.paper.model import COLUMNS, Cell, Closure, Curve, Noise, Point, Wilcoxon
from lab.problems import PAPER_DATASETS

PAIRS: tuple[tuple[Noise, str], ...] = (("none", ""), ("printed", "1DP-"), ("valid", "valid-1DP-"))


def table_cells(finished: Iterable[Finished]) -> tuple[Cell, ...]:
    """Mean, sample standard deviation and median of every column of every data set, in the order of the paper."""
    return tuple(
        _cell(dataset, column, [cell.value(column) for cell in cells])
        for dataset, cells in _by_dataset(finished).items()
        for column in COLUMNS
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


def closures(setting: str, finished: Iterable[Finished], columns: Sequence[str]) -> tuple[Closure, ...]:
    """Those of the columns that were made with one setting changed."""
    found = []
    for dataset, cells in _by_dataset(finished).items():
        for column in columns:
            if any(column not in each.values for each in cells):
                continue
            cell = _cell(dataset, column, [each.value(column) for each in cells])
            found.append(Closure(dataset, column, setting, cell.mean, cell.std, cell.runs))
    return tuple(found)


def learning_curves(finished: Iterable[Finished], setups: Mapping[str, Setup]) -> tuple[Curve, ...]:
    """The curves of Figure 1."""
    curves = []
    for dataset, cells in _by_dataset(finished).items():
        setup = setups[dataset]
        for key in CURVES:
            points = []
            for rounds in PLAN_LENGTHS:
                cell = _cell(dataset, "", [each.value(f"{key} {rounds}") for each in cells])
                claimed = math.inf if key.noise == "none" else float(curve_epsilon(setup, key, rounds))
                points.append(Point(rounds, cell.mean, cell.std, cell.runs, claimed))
            curves.append(Curve(dataset, key.learner, key.noise, key.fixed, tuple(points)))
    return tuple(curves)


def _cell(dataset: str, column: str, values: Sequence[float]) -> Cell:
    numbers = np.array(values)
    finite = bool(np.isfinite(numbers).all())
    return Cell(
        dataset,
        column,
        mean=float(numbers.mean()) if finite else math.inf,
        std=float(numbers.std(ddof=1)) if finite and len(numbers) > 1 else 0.0,
        runs=len(numbers),
        median=float(np.median(numbers)),
        infinite_runs=int(np.isinf(numbers).sum()),
    )


def _by_dataset(finished: Iterable[Finished]) -> dict[str, list[Finished]]:
    """Finished cells by data set, in the order of the paper, each in the order of the runs."""
    cells = sorted(finished, key=lambda cell: cell.run)
    grouped = {name: [cell for cell in cells if cell.dataset == name] for name in PAPER_DATASETS}
    return {name: group for name, group in grouped.items() if group}
