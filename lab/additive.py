"""What an additive question brings beside cells.

It may be about named attributes, all, or chosen ones; or half of the budget is spent on either.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.comparison.contestants import LACE_OR_HOSPITAL, OF_READMISSION
from lab.comparison.outcome import epsilon_order
from lab.comparison.studies import make_study
from lab.coverage import Mean, Rows
from lab.problems import PROBLEMS, load_split
from lab.splits import Options, Split
from simulations.campaign.store import Task
from simulations.campaign.study import Order, Part, Size, Study

EPSILONS = ("1", "3/10", "1/10")
READING = "Accuracy and area under the ROC curve of the test records in percent, mean and standard error of the runs."
SUREST = 1e-4
Floats = NDArray[np.float64]


def learnt(split: Split, strategy: str, options: Options, epsilon: Fraction) -> Floats:
    """P(class 1) of the test records."""
    model = make_study(split, strategy, options, epsilon).model()
    probability: Floats = model.probability(split.test)  # type: ignore[union-attr]  # two classes
    return probability


def half_and_half(split: Split, epsilon: Fraction) -> Floats:
    """Half of the budget for either question, their models' log-odds averaged."""
    models = [learnt(split, name, {}, epsilon / 2) for name in ("cells", "additive")]
    mean: Floats = expit(np.mean([logit(np.clip(model, SUREST, 1 - SUREST)) for model in models], axis=0))
    return mean


WAYS: dict[str, Callable[[Split, Fraction], Floats]] = {
    "cells": lambda split, epsilon: learnt(split, "cells", {}, epsilon),
    "additive": lambda split, epsilon: learnt(split, "additive", {}, epsilon),
    "chosen by half": lambda split, epsilon: learnt(split, "additive", {"choice_share": "1/2"}, epsilon),
    "half and half": half_and_half,
    "published": lambda split, epsilon: learnt(split, "additive", {"attributes": list(LACE_OR_HOSPITAL)}, epsilon),
    "named": lambda split, epsilon: learnt(split, "additive", {"attributes": list(OF_READMISSION)}, epsilon),
}
OF_READMISSION_ALONE = {"named", "published"}


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One study.

    Attributes:
        problem: key of `PROBLEMS`.
        seed: of the split.
        epsilon: exact text.
        way: key of `WAYS`.
        accuracy, auc: on the test records, in percent.
        seconds: of the processor.
    """

    problem: str
    seed: int
    epsilon: str
    way: str
    accuracy: float
    auc: float
    seconds: float

    @property
    def key(self) -> Task:
        """Which run it is."""
        return Task(self.problem, self.way, self.epsilon, self.seed)


def compute(task: Task) -> Run:
    """One run."""
    split, begun = load_split(task.problem, task.seed), time.process_time()
    probability, truth = WAYS[task.maker](split, Fraction(task.epsilon)), split.test_labels
    return Run(
        problem=task.problem,
        seed=task.seed,
        epsilon=task.epsilon,
        way=task.maker,
        accuracy=100 * float(np.mean((probability > 0.5) == truth)),
        auc=100 * float(roc_auc_score(truth, probability)),
        seconds=time.process_time() - begun,
    )


class Way(msgspec.Struct, frozen=True):
    """All runs of one way.

    Attributes:
        problem, epsilon, way: as of `Run`.
        accuracy, auc: in percent.
        seconds: mean.
    """

    problem: str
    epsilon: str
    way: str
    accuracy: Mean
    auc: Mean
    seconds: float


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Rows[Way]:
    """All that the runs show, whatever is still missing."""
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in cells["runs"]:
        groups[run.problem, run.epsilon, run.way].append(run)
    problems, ways = list(PROBLEMS), list(WAYS)
    ordered = sorted(groups, key=lambda key: (problems.index(key[0]), epsilon_order(key[1]), ways.index(key[2])))
    return Rows(tuple(_row(key, groups[key]) for key in ordered), provenance)


def _row(key: tuple[str, str, str], runs: Sequence[Run]) -> Way:
    accuracy, auc = (Mean.of([getattr(run, name) for run in runs]) for name in ("accuracy", "auc"))
    return Way(*key, accuracy, auc, float(np.mean([run.seconds for run in runs])))


def document(found: Rows[Way]) -> Document:
    """One table."""
    columns: list[Column[Way]] = [
        Column("problem", lambda row: row.problem, names=True),
        Column("epsilon", lambda row: row.epsilon),
        Column("way", lambda row: row.way, names=True),
        Column("accuracy", lambda row: row.accuracy.text(".1f"), number=True),
        Column("AUC", lambda row: row.auc.text(".1f"), number=True),
        Column("seconds", lambda row: f"{row.seconds:.1f}", number=True),
        Column("runs", lambda row: row.auc.runs, number=True),
    ]
    return Document(
        kind="ExPriL: an additive question",
        subject="what it brings beside cells",
        headline="An additive question beside cells",
        sections=[Section("Accuracy and AUC", [Text(READING), Table.of("Accuracy and AUC", columns, found.rows)])],
        note="docs/strategies.md says what the table shows.",
        sources=[("Study of an additive question", found.provenance)],
    )


def tasks(order: Order) -> list[Task]:
    """All but the named attributes of other problems than readmissions."""
    return [
        task
        for task in order.tasks("problems", "ways")
        if task.maker not in OF_READMISSION_ALONE or task.problem.startswith("readmission")
    ]


STUDY = Study(
    name="additive",
    title="An additive question beside cells (docs/strategies.md).",
    parts=[Part("runs", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices={"problems": tuple(PROBLEMS), "ways": tuple(WAYS)},
    short=Size(1, EPSILONS, {"problems": ("heart", "wdbc"), "ways": tuple(WAYS)}, "a minute"),
    full=Size(4, EPSILONS, {"problems": tuple(PROBLEMS), "ways": tuple(WAYS)}, "an hour"),
    seed=5000,
)
