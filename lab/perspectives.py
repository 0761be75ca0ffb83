"""Accuracy of the strategies of the paper's perspectives against `cells`, on the paper's problems: development seeds.

The noise is a curator's own, the curators are real and called in process.
"""

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.averages import Average, Averages, Summary, averages, mean, number
from lab.cells import Run, epsilon_order
from lab.learning import run_study
from lab.problems import PAPER_DATASETS, load_split
from lab.studies import document_of
from lab.study import Part, Size, Study
from simulations.campaign.store import Task

BASELINE, ALL = "cells", "all"
READING = (
    "Mean accuracy of `cells` in percent; of the others the difference from it on the same splits, in points, with its "
    "standard error; the median of the processor's seconds."
)
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "cells": ("cells", {}),
    "random-subsets": ("random-subsets", {}),
    "random-subsets, 4 rounds": ("random-subsets", {"rounds": 4}),
    "informative": ("informative", {}),
    "informative, 3 pairs": ("informative", {"pairs": 3}),
    "varying-bins": ("varying-bins", {}),
    "varying-bins, cells": ("varying-bins", {"cells": True}),
    "varying-bins, cells, 4 rounds": ("varying-bins", {"cells": True, "rounds": 4}),
    "new-features": ("new-features", {}),
    "new-features, random": ("new-features", {"learned": False}),
    "new-features, score": ("new-features", {"score": True, "projections": 0}),
    "new-features, shares 3:1": ("new-features", {"shares": [3, 1]}),
    "adaptive-cells": ("adaptive-cells", {}),
    "adaptive-cells, shares 1:3": ("adaptive-cells", {"shares": [1, 3]}),
    "adaptive-cells, shares 3:1": ("adaptive-cells", {"shares": [3, 1]}),
    "adaptive-cells, tree": ("adaptive-cells", {"tree": True}),
    "paper-c": ("paper-c", {}),
    "paper-i": ("paper-i", {}),
}


def compute(task: Task) -> Run:
    """One study: accuracy on the test records in percent, log loss in nats a record, seconds of the processor."""
    split = load_split(task.problem, task.seed)
    strategy, options = SETTINGS[task.maker]
    if strategy.startswith("paper-"):
        paper = PAPER_DATASETS[task.problem]
        options = {"rounds": paper.rounds, "reweight": paper.reweight}
    start = time.process_time()
    probability = np.clip(run_study(split, strategy, options, Fraction(task.epsilon)).probability, 1e-6, 1 - 1e-6)
    seconds = time.process_time() - start
    right = (probability > 0.5) == split.test_labels
    log_loss = -float(np.mean(np.log(np.where(split.test_labels, probability, 1 - probability))))
    return Run(*task, {"accuracy": 100 * float(np.mean(right)), "log_loss": log_loss}, seconds)


NUMBERS: dict[str, Summary] = {
    "accuracy": mean(lambda pair: pair[1]),
    "seconds": lambda pairs: float(np.median([cell.seconds for cell, _ in pairs])),
}
"""Of pairs (study, accuracy of the baseline, or how far above it)."""


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Averages of the runs whose split has a run of the baseline."""
    accuracies = {cell.key: cell.numbers["accuracy"] for cell in cells["runs"]}

    def above(cell: Run) -> float:
        return cell.numbers["accuracy"] - (
            0.0 if cell.maker == BASELINE else accuracies[cell.key._replace(maker=BASELINE)]
        )

    named = (
        ((cell.epsilon, cell.maker, name), (cell, above(cell)))
        for cell in cells["runs"]
        if cell.key._replace(maker=BASELINE) in accuracies
        for name in (ALL, cell.problem)
    )
    order = (epsilon_order, list(SETTINGS), [ALL, *PAPER_DATASETS])
    return averages(named, NUMBERS, order, provenance)


def document(results: Averages) -> Document:
    """A table for each epsilon: a row for each setting, a column for each data set."""
    by, tables = {row.names: row for row in results.rows}, []
    for epsilon in dict.fromkeys(row.names[0] for row in results.rows):
        rows = [row for row in results.rows if (row.names[0], row.names[2]) == (epsilon, ALL)]
        datasets = [name for name in PAPER_DATASETS if any((*row.names[:2], name) in by for row in rows)]
        columns: list[Column[Average]] = [
            Column(f"epsilon {epsilon}", lambda row: row.names[1], names=True),
            *(_accuracy(by, name) for name in datasets),
            number("seconds", "seconds", ".1f"),
        ]
        tables.append(Table.of(f"Accuracy at epsilon {epsilon}", columns, rows))
    section = Section("Accuracy", [Text(READING), *tables])
    return document_of("perspectives", [section], results.provenance)


def _accuracy(by: Mapping[tuple[str, ...], Average], name: str) -> Column[Average]:
    def show(row: Average) -> str:
        there = by.get((*row.names[:2], name))
        if there is None or row.names[1] == BASELINE:
            return f"{there.value('accuracy'):.1f}" if there else ""
        return str(number("", "accuracy", "+.1f").show(there))

    return Column(name, show, number=True)


STUDY = Study(
    name="perspectives",
    parts=[Part("runs", Run, lambda order: order.tasks("datasets", "settings"), compute)],
    findings=findings,
    document=document,
    choices={"datasets": tuple(PAPER_DATASETS), "settings": tuple(SETTINGS)},
    short=Size(2, ("1",), {"datasets": ("A", "CTG-A"), "settings": tuple(SETTINGS)[:6]}, "half a minute"),
    full=Size(5, ("1", "1/10"), {"datasets": tuple(PAPER_DATASETS), "settings": tuple(SETTINGS)}, "an hour"),
    seed=5000,
)
