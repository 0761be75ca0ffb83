"""The forecasts of `expril quote` for `cells` beside the results: the tables of docs/learner/quote.md.

Each problem of the comparison and each built-in scenario of two classes is quoted, once knowing nothing, once with the
prevalence and the AUC of the best model without privacy stated. Problems came true in docs/results/learning (20 splits
each); scenarios are run here, on exact counts with seeded noise, without their faults, those of the readmission data
once.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.averages import Average, Averages, Summary, averages, mean, names, plain
from lab.cells import Run, epsilon_order
from lab.curators import NOISE, last_model
from lab.problems import PROBLEMS, load_split
from lab.splits import Site, Split
from lab.studies import document_of
from lab.study import Order, Part, Size, Study
from learner_node.models.label_model.prior import Belief
from learner_node.models.source import coordinates, standardising_map
from learner_node.questions.quote import Target, quote
from learner_node.questions.quote_report import Request
from learner_node.strategies.base import Problem, assumed_size, class_probabilities
from learner_node.strategies.cells import CellsStrategy
from protocol.rationals import parse_rational
from simulations.campaign.store import Task
from simulations.quote_source import read_quoted, request_of
from simulations.records import load_records, sites_of, split_records
from simulations.scenario import builtin_scenarios, load_scenario

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "learning" / "cells" / "cells.jsonl"
EPSILONS = ("1", "0.3", "0.1")
SPLIT = 5000
LARGE = 10_000  # from so many source records on, a scenario is run once: chance is small there
STATED_PREVALENCE, STATED_AUC = (-0.05, 0.05), (-0.02, 0.05)
"""What is stated: the true prevalence, and the AUC of the better of two models without privacy, within these."""
NOTHING, PREVALENCE_AND_AUC = "nothing", "prevalence and best AUC"
STATED = (NOTHING, PREVALENCE_AND_AUC)
SCORES, ENDS = {"accuracy": "accuracy", "auc": "AUC"}, ("low", "high")
SCENARIO = "scenario "  # before the name of a scenario
READING = (
    "Came true: means of the runs. Stated: the true prevalence within .05, and the best AUC as from .02 below to .05 "
    "above that of the better of logistic regression and gradient boosting on the private records."
)
READING_HELD = "The share of runs that the range holds, and its mean width."


class Data(NamedTuple):
    """Records of a problem or of a scenario's first learner and the curators that it asks."""

    split: Split
    quoted_sites: int  # curators whose answers are pooled
    size: int  # their declared records
    most: int  # contribution bound


@lru_cache(2)
def data_of(name: str, repeat: int) -> Data:
    """The records of a problem, or of one repeat of a scenario."""
    if not name.startswith(SCENARIO):
        split = load_split(name, SPLIT)
        size = assumed_size([site.steward.round_size for site in split.sites], len(split.source))
        return Data(split, len(split.sites), size, 1)
    scenario, _, folder = load_scenario(name.removeprefix(SCENARIO))
    parts = split_records(scenario, load_records(scenario, folder), repeat)
    asked_sites, sources = sites_of(scenario.learners[0], parts)
    steward, request = parts[asked_sites[0]].steward, request_for(name)
    sites = [Site.of(site, parts[site].counted, steward) for site in asked_sites]
    source = pl.concat([parts[site].source for site in sources])
    split = Split.of(name, repeat, sites, source, pl.concat([parts[site].test for site in asked_sites]))
    return Data(split, request.target.sites, request.size, request.target.most_records_per_unit)


@lru_cache(1)
def beliefs(name: str) -> dict[str, Belief]:
    """The belief for each key of `STATED`."""
    data = data_of(name, 0)
    prevalence = _within(float(data.split.private_labels.mean()), STATED_PREVALENCE, 0.001)
    return {
        NOTHING: Belief(),
        PREVALENCE_AND_AUC: Belief(prevalence, _within(_area_without_privacy(data.split), STATED_AUC, 0.51)),
    }


def _within(value: float, around: tuple[float, float], least: float) -> tuple[float, float]:
    low, high = (float(np.clip(value + offset, least, 0.999)) for offset in around)
    return low, high


def _area_without_privacy(split: Split) -> float:
    """AUC on the test records of the better of two models that were trained on all private records."""
    features = standardising_map(split.source)
    private, test = (coordinates(features, records) for records in (split.private, split.test))
    models = (LogisticRegression(C=0.1, max_iter=500), HistGradientBoostingClassifier(random_state=0))
    scores = [model.fit(private, split.private_labels).predict_proba(test)[:, 1] for model in models]
    return max(float(roc_auc_score(split.test_labels, score)) for score in scores)


@cache
def measured() -> dict[str, dict[tuple[Fraction, int], dict[str, float]]]:
    """Problem of the comparison -> (epsilon, seed) -> accuracy and AUC that `cells` had."""
    scores_by_problem: dict[str, dict[tuple[Fraction, int], dict[str, float]]] = defaultdict(dict)
    with RESULTS.open(encoding="utf-8") as file:
        for cell in filter(lambda line: "problem" in line, map(json.loads, file)):
            scores = {name: cell["measures"][name] / 100 for name in SCORES}
            scores_by_problem[cell["problem"]][parse_rational(cell["epsilon"]), cell["seed"]] = scores
    return dict(scores_by_problem)


@cache
def request_for(data: str) -> Request:
    """The request of a scenario's first learner."""
    return request_of(read_quoted(data.removeprefix(SCENARIO), schema=None, learner=""))


def foretell(task: Task) -> Run:
    """The ranges of one quote, with the number of cells by the rule."""
    epsilon, data = parse_rational(task.epsilon), data_of(task.problem, 0)
    problem = Problem(data.split.source, epsilon, data.quoted_sites, data.size, data.most, 0)
    (row,) = quote(
        data.split.source,
        Target(data.quoted_sites, size=data.size, most_records_per_unit=data.most),
        options={"cells": CellsStrategy().cell_count(problem)},
        epsilons=[epsilon],
        belief=beliefs(task.problem)[task.maker],
    )
    if row.simulated is None:
        raise ValueError("the label is not of two classes")
    numbers = {f"{name}_{end}": getattr(getattr(row.simulated, name), end) for name in SCORES for end in ENDS}
    return Run(*task, numbers)


def come_true(task: Task) -> Run:
    """Accuracy and AUC of one run of a scenario; of a problem what the comparison has."""
    epsilon = parse_rational(task.epsilon)
    if not task.problem.startswith(SCENARIO):
        return Run(*task, measured()[task.problem][epsilon, task.seed])
    data = data_of(task.problem, task.seed)
    split = data.split
    problem = Problem(split.source, epsilon, len(split.sites), data.size, data.most, task.seed)
    rng = np.random.default_rng([task.seed, epsilon.numerator, epsilon.denominator])
    model = last_model(CellsStrategy(), problem, split.private, split.private_labels, rng)
    positive = class_probabilities(model, split.test)[:, 1]
    numbers = {
        "accuracy": float(np.mean((positive > 0.5) == split.test_labels)),
        "auc": float(roc_auc_score(split.test_labels, positive)),
    }
    return Run(*task, numbers)


def _numbers(name: str) -> dict[str, Summary]:
    """Numbers of pairs (quote, outcome): a score's range, its mean outcome, and how often the range holds it."""
    low, high = (f"{name}_{end}" for end in ENDS)
    return {
        low: lambda pairs: float(pairs[0][0].numbers[low]),
        high: lambda pairs: float(pairs[0][0].numbers[high]),
        name: mean(lambda pair: pair[1].numbers[name]),
        f"{name}_holds": plain(lambda pair: pair[0].numbers[low] <= pair[1].numbers[name] <= pair[0].numbers[high]),
    }


NUMBERS = {key: make for name in SCORES for key, make in _numbers(name).items()}


def findings(cells: Mapping[str, Sequence[Run]], provenance: Provenance | None = None) -> Averages:
    """Averages by data, epsilon and statement, of what was both quoted and run."""
    ranges = {run.key: run for run in cells["ranges"]}
    named = (
        ((run.problem, run.epsilon, stated), (ranges[key], run))
        for run in cells["outcomes"]
        for stated in STATED
        if (key := Task(run.problem, stated, run.epsilon, 0)) in ranges
    )
    return averages(named, NUMBERS, (DATA, epsilon_order, STATED), provenance)


def document(results: Averages) -> Document:
    """The document: how often ranges hold, and each range."""
    stated = {row.names: row for row in results.rows if row.names[2] == PREVALENCE_AND_AUC}
    nothing = [
        row for row in results.rows if (*row.names[:2], PREVALENCE_AND_AUC) in stated and row.names[2] == NOTHING
    ]

    def beside(name: str) -> Column[Average]:
        return Column(
            f"{SCORES[name]}, stated", lambda row: _range(stated[*row.names[:2], PREVALENCE_AND_AUC], name), number=True
        )

    columns = [*names("data; epsilon")]
    for name, score in SCORES.items():
        quoted: Column[Average] = Column(f"{score} quoted", lambda row, name=name: _range(row, name), number=True)  # type: ignore[misc]
        columns += [quoted, Column("came true", lambda row, name=name: f"{row.value(name):.3f}", number=True)]  # type: ignore[misc]
    columns += map(beside, SCORES)
    epsilons = sorted({row.names[1] for row in results.rows}, key=epsilon_order)
    ways = [(belief, name, epsilon) for belief in STATED for name in SCORES for epsilon in epsilons]
    shares: list[Column[tuple[str, str, str]]] = [
        Column("stated", itemgetter(0), names=True),
        Column("score", lambda way: SCORES[way[1]], names=True),
        Column("epsilon", itemgetter(2), number=True),
    ]
    for sort in ("problems", "scenarios"):
        rows = [row for row in results.rows if row.names[0].startswith(SCENARIO) == (sort == "scenarios")]
        shares += _shares_that_hold(sort, rows) if rows else []
    sections = [
        Section("How often the range holds", [Text(READING_HELD), Table.of("Ranges that hold", shares, ways)]),
        Section("By data", [Text(READING), Table.of("By data", columns, nothing)]),
    ]
    return document_of("quotes", sections, results.provenance)


def _range(row: Average, name: str) -> str:
    low, high = (row.value(f"{name}_{end}") for end in ENDS)
    return f"{low:.2f}-{high:.2f}"


def _shares_that_hold(sort: str, rows: Sequence[Average]) -> list[Column[tuple[str, str, str]]]:
    """How often ranges hold, over the problems or over the scenarios."""

    def over(way: tuple[str, str, str], value: Callable[[Average, str], float]) -> str:
        stated, name, epsilon = way
        values = [value(row, name) for row in rows if row.names[1:] == (epsilon, stated)]
        return f"{np.mean(values):.2f}" if values else ""

    def holds(row: Average, name: str) -> float:
        return row.value(f"{name}_holds")

    def width(row: Average, name: str) -> float:
        return row.value(f"{name}_high") - row.value(f"{name}_low")

    cases = len({row.names[0] for row in rows})
    return [
        Column(f"holds, {cases} {sort}", lambda way: over(way, holds), number=True),
        Column(f"mean width, {sort}", lambda way: over(way, width), number=True),
    ]


def _two_classes(data: str) -> bool:
    """Whether it is a problem with results, or a scenario whose first learner asks `cells` about two classes."""
    if not data.startswith(SCENARIO):
        return data in measured()
    request = request_for(data)
    return len(request.source.schema.classes) == 2 and request.strategy == "cells"


def range_tasks(order: Order) -> list[Task]:
    """Each data set once, in both ways."""
    chosen = filter(_two_classes, order.size.axes["data"])
    return [Task(*choice, 0) for choice in product(chosen, STATED, order.size.epsilons)]


def outcome_tasks(order: Order) -> list[Task]:
    """Problems' runs in the comparison, and a scenario's repeats: one of a large one, else all."""
    tasks = []
    for data, epsilon in product(filter(_two_classes, order.size.axes["data"]), order.size.epsilons):
        seeds: Sequence[int] = order.seeds
        if not data.startswith(SCENARIO):
            seeds = [seed for asked_epsilon, seed in measured()[data] if asked_epsilon == parse_rational(epsilon)]
        elif len(request_for(data).source) > LARGE:
            seeds = seeds[:1]
        tasks += [Task(data, "cells", epsilon, seed) for seed in seeds]
    return tasks


DATA = (*PROBLEMS, *(f"{SCENARIO}{name}" for name in builtin_scenarios()))
STUDY = Study(
    name="quotes",
    parts=[Part("ranges", Run, range_tasks, foretell), Part("outcomes", Run, outcome_tasks, come_true)],
    findings=findings,
    document=document,
    choices={"data": DATA},
    short=Size(1, EPSILONS, {"data": ("heart", "wdbc", f"{SCENARIO}heart")}, "a minute"),
    full=Size(3, EPSILONS, {"data": DATA}, "half an hour"),
    seed=0,
    noise=NOISE,
    width=150,
)
