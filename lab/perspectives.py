"""Accuracy of the strategies of the paper's perspectives against `cells`, on the paper's problems: development seeds.

The noise is OpenDP's, the curators are real and called in process.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.comparison.outcome import epsilon_order
from lab.comparison.studies import run_study
from lab.coverage import Mean, Rows
from lab.problems import PAPER_DATASETS, load_split
from simulations.campaign.store import Task
from simulations.campaign.study import Part, Size, Study

BASELINE = "cells"
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


class Screening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One finished study.

    Attributes:
        dataset: key of `PAPER_DATASETS`.
        seed: of the split and of the learner.
        epsilon: exact text.
        setting: key of `SETTINGS`.
        accuracy: on the test records, in percent.
        log_loss: in nats a record.
        seconds: of the processor.
    """

    dataset: str
    seed: int
    epsilon: str
    setting: str
    accuracy: float
    log_loss: float
    seconds: float

    @property
    def key(self) -> Task:
        """Which study it is."""
        return Task(self.dataset, self.setting, self.epsilon, self.seed)


def compute(task: Task) -> Screening:
    """Make one study."""
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
    return Screening(task.problem, task.seed, task.epsilon, task.maker, 100 * float(np.mean(right)), log_loss, seconds)


class Setting(msgspec.Struct, frozen=True):
    """One strategy at one epsilon.

    Attributes:
        epsilon, setting: as of `Screening`.
        seconds: median.
        accuracy: data set -> of the baseline its mean accuracy; of others the paired difference from it.
    """

    epsilon: str
    setting: str
    seconds: float
    accuracy: dict[str, Mean]


def findings(cells: Mapping[str, Sequence[Screening]], provenance: Provenance | None = None) -> Rows[Setting]:
    """Differences of what has a baseline on the same split; the rest has none yet."""
    known = {cell.key: cell.accuracy for cell in cells["runs"]}
    groups: dict[tuple[str, str], list[Screening]] = defaultdict(list)
    for cell in cells["runs"]:
        groups[cell.epsilon, cell.setting].append(cell)
    rows = []
    for epsilon, setting in sorted(groups, key=lambda key: (epsilon_order(key[0]), list(SETTINGS).index(key[1]))):
        own = groups[epsilon, setting]
        values: dict[str, list[float]] = defaultdict(list)
        for cell in own:
            beside = cell.key._replace(maker=BASELINE)
            if beside in known:
                values[cell.dataset].append(cell.accuracy - (0.0 if setting == BASELINE else known[beside]))
        seconds = float(np.median([cell.seconds for cell in own]))
        rows.append(Setting(epsilon, setting, seconds, {name: Mean.of(values[name]) for name in values}))
    return Rows(tuple(rows), provenance)


def document(found: Rows[Setting]) -> Document:
    """A table for each epsilon."""
    tables = []
    for epsilon in dict.fromkeys(row.epsilon for row in found.rows):
        rows = [row for row in found.rows if row.epsilon == epsilon]
        columns: list[Column[Setting]] = [
            Column(f"epsilon {epsilon}", lambda row: row.setting, names=True),
            *(_accuracy(name) for name in PAPER_DATASETS if any(name in row.accuracy for row in rows)),
            Column("seconds", lambda row: f"{row.seconds:.1f}", number=True),
        ]
        tables.append(Table.of(f"Accuracy at epsilon {epsilon}", columns, rows))
    return Document(
        kind="ExPriL: perspectives",
        subject="strategies of several rounds",
        headline="The strategies of the paper's perspectives against cells",
        sections=[Section("Accuracy", [Text(READING), *tables])],
        note="docs/strategies.md says what the tables show.",
        sources=[("Study of perspectives", found.provenance)],
    )


def _accuracy(name: str) -> Column[Setting]:
    def show(row: Setting) -> str:
        mean = row.accuracy.get(name)
        if mean is None or row.setting == BASELINE:
            return f"{mean.value:.1f}" if mean else ""
        return mean.text("+.1f")

    return Column(name, show, number=True)


STUDY = Study(
    name="perspectives",
    title="The strategies of the paper's perspectives against cells (docs/strategies.md).",
    parts=[Part("runs", Screening, lambda order: order.tasks("datasets", "settings"), compute)],
    findings=findings,
    document=document,
    choices={"datasets": tuple(PAPER_DATASETS), "settings": tuple(SETTINGS)},
    short=Size(2, ("1",), {"datasets": ("A", "CTG-A"), "settings": tuple(SETTINGS)[:6]}, "half a minute"),
    full=Size(5, ("1", "1/10"), {"datasets": tuple(PAPER_DATASETS), "settings": tuple(SETTINGS)}, "an hour"),
    seed=5000,
)
