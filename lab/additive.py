"""The gain of an additive question beside cells.

The question is about named attributes, all, or chosen ones; or half of the budget is spent on it and half on cells.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Table
from lab.averages import RUNS, Averages, averages, mean, names, number, plain
from lab.cells import Run, epsilon_order
from lab.comparison.contestants import LACE_OR_HOSPITAL, OF_READMISSION
from lab.learning import make_study
from lab.measures import scores
from lab.problems import PROBLEMS, load_split
from lab.splits import Options, Split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from simulations.campaign.store import Task

EPSILONS = ("1", "3/10", "1/10")
READING = "Accuracy and area under the ROC curve of the test records in percent, mean and standard error of the runs."
SUREST = 1e-4
Floats = NDArray[np.float64]


def learnt(split: Split, strategy: str, options: Options, epsilon: Fraction) -> Floats:
    """P(class 1) of the test records."""
    model = make_study(split, strategy, options, epsilon).model()
    return np.asarray(model.probability(split.test))  # type: ignore[union-attr]  # two classes


def half_and_half(split: Split, epsilon: Fraction) -> Floats:
    """Half of the budget for either question, their models' log-odds averaged."""
    models = [learnt(split, name, {}, epsilon / 2) for name in ("cells", "additive")]
    return np.asarray(expit(np.mean([logit(np.clip(model, SUREST, 1 - SUREST)) for model in models], axis=0)))


WAYS: dict[str, Callable[[Split, Fraction], Floats]] = {
    "cells": lambda split, epsilon: learnt(split, "cells", {}, epsilon),
    "additive": lambda split, epsilon: learnt(split, "additive", {}, epsilon),
    "chosen by half": lambda split, epsilon: learnt(split, "additive", {"choice_share": "1/2"}, epsilon),
    "half and half": half_and_half,
    "published": lambda split, epsilon: learnt(split, "additive", {"attributes": list(LACE_OR_HOSPITAL)}, epsilon),
    "named": lambda split, epsilon: learnt(split, "additive", {"attributes": list(OF_READMISSION)}, epsilon),
}
OF_READMISSION_ALONE = {"named", "published"}


def compute(task: Task) -> Run:
    """One run: accuracy and area on the test records, in percent."""
    split, begun = load_split(task.problem, task.seed), time.process_time()
    accuracy, area = scores(WAYS[task.maker](split, Fraction(task.epsilon)), split.test_labels)
    return Run(*task, {"accuracy": accuracy, "auc": area}, time.process_time() - begun)


NUMBERS = {"accuracy": mean("accuracy"), "auc": mean("auc"), "seconds": plain(lambda run: run.seconds)}


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Average the runs of each problem, epsilon and way."""
    named = (((run.problem, run.epsilon, run.maker), run) for run in cells["runs"])
    return averages(named, NUMBERS, (list(PROBLEMS), epsilon_order, list(WAYS)), provenance)


def document(results: Averages) -> Document:
    """The document: a table of accuracy and AUC."""
    columns = [
        *names("problem; epsilon; way"),
        number("accuracy", "accuracy", ".1f"),
        number("AUC", "auc", ".1f"),
        number("seconds", "seconds", ".1f"),
        RUNS,
    ]
    section = Section("Accuracy and AUC", [Text(READING), Table.of("Accuracy and AUC", columns, results.rows)])
    return document_of("additive", [section], results.provenance)


def tasks(order: Order) -> list[Task]:
    """All runs; strategies of named attributes are for the readmission problems alone."""
    return [
        task
        for task in order.tasks("problems", "ways")
        if task.maker not in OF_READMISSION_ALONE or task.problem.startswith("readmission")
    ]


STUDY = Study(
    name="additive",
    parts=[Part("runs", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices={"problems": tuple(PROBLEMS), "ways": tuple(WAYS)},
    short=Size(1, EPSILONS, {"problems": ("heart", "wdbc"), "ways": tuple(WAYS)}, "a minute"),
    full=Size(4, EPSILONS, {"problems": tuple(PROBLEMS), "ways": tuple(WAYS)}, "an hour"),
    seed=5000,
)
