"""Many attributes of which ten carry the signal: what `cells` learns with attributes chosen first, and without.

Records are invented. Source, private and test records are drawn apart; the curators and their noise are the real ones.
"""

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score

from curator_node.records.schema_file import SchemaFile
from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Table
from lab.averages import RUNS, Averages, averages, mean, names, number, plain
from lab.cells import Run, epsilon_order
from lab.comparison.contestants import SELECTING
from lab.learning import make_study
from lab.splits import BOUND, CLASSES, LABEL_COLUMN, Site, Split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from protocol.schema import NumericAttribute
from simulations.campaign.store import Task

READING = (
    "Area under the ROC curve on test records, and how far below logistic regression of all private records, tuned "
    "without privacy, that is: mean of the paired differences with its standard error."
)
IN_SITE = "in site"  # the way without privacy
SIGNAL, STRENGTH = 10, 2.0  # columns that carry the signal, and the deviation of the log odds
SOURCE, TEST = 2000, 6000
FACTORS = 5  # of correlated noise columns; each has half of its variance from them, about
SMALL = 0.1  # deviation of a signal column of low variance; of noise it is 1 and more
KINDS = {"equal": 0.5, "low variance": 0.5, "low variance, 25 %": 0.25, "low variance, 10 %": 0.1, "all carry": 0.5}
"""Kind of records -> prevalence. Where variance is low it is that of signal columns, and the noise's are correlated;
where all carry, there is no column of noise."""
WAYS: dict[str, dict[str, object]] = {
    "cells": {},
    "cells, none chosen": {"chosen": 0},
    "cells, chosen": {"chosen": 6},
    "cells, three chosen": {"chosen": 3},
    "without networks": {"networks": False},
    "without networks, none chosen": {"networks": False, "chosen": 0},
    "without networks, chosen": {"networks": False, "chosen": 6},
}
"""Options of `cells`."""
Floats = NDArray[np.float64]
QUIET: dict[str, Any] = {"use_legacy_attributes": False, "l1_ratios": (0.0,)}
"""Of scikit-learn 1.8, what 1.10 does unasked."""


def wide_split(kind: str, columns: int, sites: int, size: int, seed: int) -> Split:
    """Records of a logistic model of ten columns in random places. Its slopes differ by a factor of at most three.

    `kind` is a key of `KINDS`; there are at least 10 columns, and about `size` records at each site.
    """
    rng = np.random.default_rng(seed)
    slopes, carriers = np.zeros(columns), columns if kind == "all carry" else SIGNAL
    places = rng.permutation(columns)[:carriers]
    slopes[places] = rng.choice([-1.0, 1.0], carriers) * rng.uniform(0.5, 1.5, carriers)
    slopes *= STRENGTH / np.linalg.norm(slopes)
    count = SOURCE + sites * size + TEST
    records = rng.standard_normal((count, columns))
    signal = records @ slopes
    if kind.startswith("low"):
        noise_columns = np.setdiff1d(np.arange(columns), places)
        records[:, noise_columns] += rng.standard_normal((count, FACTORS)) @ rng.normal(
            0, 0.5, (FACTORS, len(noise_columns))
        )
        records[:, places] *= SMALL
    start = brentq(lambda b: float(expit(signal + b).mean()) - KINDS[kind], -20, 20)
    labels = (rng.random(count) < expit(signal + start)).astype(int)
    names = [f"x{index}" for index in range(columns)]
    frame = pl.DataFrame(records.clip(-BOUND, BOUND), schema=names)
    frame = frame.with_columns(pl.Series(LABEL_COLUMN, labels).cast(pl.String))
    attributes = tuple(NumericAttribute(name, -BOUND, BOUND) for name in names)
    steward = SchemaFile(label=LABEL_COLUMN, classes=CLASSES, attributes=attributes, round_size=size)
    parts = [frame[SOURCE + TEST + at * size : SOURCE + TEST + (at + 1) * size] for at in range(sites)]
    sites_of = [Site.of(f"site {at + 1}", part, steward) for at, part in enumerate(parts)]
    return Split.of(f"{kind}, {columns} columns", seed, sites_of, frame[:SOURCE], frame[SOURCE : SOURCE + TEST])


def in_site(split: Split) -> Floats:
    """Logistic regression of the pooled private records; its penalty by cross-validation."""
    mean, spread = split.private.numeric.mean(axis=0), split.private.numeric.std(axis=0)
    model = LogisticRegressionCV(
        Cs=np.logspace(-3, 1, 5), cv=5, scoring="neg_log_loss", max_iter=500, use_legacy_attributes=False
    )
    model.fit((split.private.numeric - mean) / spread, split.private_labels)
    return np.asarray(model.decision_function((split.test.numeric - mean) / spread))


def private(split: Split, way: str, epsilon: Fraction) -> Floats:
    """P(class 1) of the test records by a study; curators count, and choose attributes when asked."""
    model = make_study(split, "cells", WAYS[way], epsilon, kinds=SELECTING).model()
    return np.asarray(model.probability(split.test))  # type: ignore[union-attr]  # two classes


_split = lru_cache(1)(wide_split)  # the same records for all ways


def compute(task: Task) -> Run:
    """One run: the area on the test records."""
    kind, *numbers = task.problem.split("; ")
    columns, sites, size = map(int, numbers)
    split, begun = _split(kind, columns, sites, size, task.seed), time.process_time()
    score = in_site(split) if task.maker == IN_SITE else private(split, task.maker, Fraction(task.epsilon))
    auc = float(roc_auc_score(split.test_labels, score))
    return Run(*task, {"auc": auc}, time.process_time() - begun)


def tasks(order: Order) -> list[Task]:
    """For each set of records the regression in site, and all ways at all epsilons."""
    axes, epsilons = order.size.axes, order.size.epsilons
    problems = ["; ".join(chosen) for chosen in product(*(axes[axis] for axis in PROBLEM))]
    ways = [("", IN_SITE), *product(epsilons, axes["ways"])]
    return [Task(problem, way, epsilon, seed) for seed in order.seeds for problem in problems for epsilon, way in ways]


NUMBERS = {
    "in_site": plain(lambda pair: pair[1]),
    "auc": mean(lambda pair: pair[0].numbers["auc"]),
    "below": mean(lambda pair: pair[1] - pair[0].numbers["auc"]),
    "seconds": plain(lambda pair: pair[0].seconds),
}
"""Of pairs (run, area of the regression in site of the same records)."""


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Averages of the runs whose records have a regression in site."""
    areas = {(run.problem, run.seed): run.numbers["auc"] for run in cells["runs"] if run.maker == IN_SITE}
    named = (
        ((*run.problem.split("; "), run.epsilon, run.maker), (run, areas[run.problem, run.seed]))
        for run in cells["runs"]
        if run.maker != IN_SITE and (run.problem, run.seed) in areas
    )
    order = (list(KINDS), int, int, int, epsilon_order, list(WAYS))
    return averages(named, NUMBERS, order, provenance)


def document(results: Averages) -> Document:
    """A table of areas."""
    columns = [
        *names("kind; columns; sites; size; epsilon; way"),
        number("regression in site", "in_site", ".3f"),
        number("AUC", "auc", ".3f"),
        number("below", "below", ".3f"),
        number("seconds", "seconds", ".1f"),
        RUNS,
    ]
    title = "Area under the ROC curve"
    section = Section(title, [Text(READING), Table.of(title, columns, results.rows)])
    return document_of("wide", [section], results.provenance)


PROBLEM = ("kinds", "columns", "sites", "sizes")  # axes that make a problem, "equal; 200; 2; 2000"
CHOICES = {
    "kinds": tuple(KINDS),
    "columns": ("30", "60", "100", "200"),
    "sites": ("2", "4"),
    "sizes": ("1000", "2000", "4000", "8000"),
    "ways": tuple(WAYS),
}
USUAL = {"columns": ("200",), "sites": ("2",), "sizes": ("2000",), "ways": ("cells", "cells, none chosen")}
STUDY = Study(
    name="wide",
    parts=[Part("runs", Run, tasks, compute)],
    findings=findings,
    document=document,
    choices=CHOICES,
    short=Size(1, ("1",), {**USUAL, "kinds": ("equal",), "columns": ("100",)}, "a minute"),
    full=Size(6, ("1",), {**USUAL, "kinds": tuple(KINDS)}, "an hour"),
    seed=7000,
    width=160,
)
