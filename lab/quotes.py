"""What `expril quote` foretells of `cells`, held against what came true: the tables of docs/quote.md.

Each problem of the comparison and each built-in scenario of two classes is quoted, once knowing nothing, once with the
prevalence and the AUC of the best model without privacy stated. Problems came true in docs/learning (20 splits each);
scenarios are run here, on exact counts with seeded noise, without their faults, those of the readmission data once.
"""

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from expril.report.document import Document, Section, Text
from expril.report.provenance import Provenance
from expril.report.table import Column, Table
from lab.comparison.outcome import epsilon_order
from lab.coverage import Rows
from lab.exact_counts import NOISE, last_model
from lab.problems import PROBLEMS, load_split
from learner_node.label_model.prior import Belief
from learner_node.quote import Simulated, quote
from learner_node.source import coordinates, standardising_map
from learner_node.strategies.base import Problem, assumed_size, class_probabilities
from learner_node.strategies.cells import CellsStrategy
from protocol.rationals import parse_rational
from protocol.record_frames import encode_frame, encode_labels
from protocol.records import Records
from simulations.campaign.store import Task
from simulations.campaign.study import Order, Part, Size, Study
from simulations.quoting import Request, request_of
from simulations.records import load_records, read_quoted, sites_of, split_records
from simulations.scenario import builtin_scenarios, load_scenario

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "learning" / "cells" / "cells.jsonl"
EPSILONS = ("1", "0.3", "0.1")
SPLIT = 5000
LARGE = 10_000
"""From so many source records on, a scenario is run once: chance is small there."""
STATED_PREVALENCE, STATED_AUC = (-0.05, 0.05), (-0.02, 0.05)
"""What is stated: the true prevalence, and the AUC of the better of two models without privacy, within these."""
NOTHING, BOTH = "nothing", "prevalence and best AUC"
STATED = (NOTHING, BOTH)
SCENARIO = "scenario "
"""Before the name of a scenario."""
READING = (
    "Came true: means of the runs. Stated: the true prevalence within .05, and the best AUC as from .02 below to .05 "
    "above that of the better of logistic regression and gradient boosting on the private records."
)
READING_HELD = "The share of runs that the range holds, and its mean width."


@dataclass(frozen=True)
class Case:
    """What is quoted.

    Attributes:
        source: the learner's records.
        sites, size, most: curators, their declared records, contribution bound.
        prevalence: true share of label 1.
        ceiling: AUC of the better of two models without privacy.
    """

    source: Records
    sites: int
    size: int
    most: int
    prevalence: float
    ceiling: float

    def simulated(self, epsilon: Fraction, stated: str) -> Simulated:
        """Of the rule's number of cells."""
        belief = Belief()
        if stated == BOTH:
            auc = _within(self.ceiling, STATED_AUC, 0.51)
            belief = Belief(_within(self.prevalence, STATED_PREVALENCE, 0.001), auc)
        problem = Problem(self.source, epsilon, self.sites, self.size, self.most, 0)
        (row,) = quote(
            self.source,
            options={"cells": CellsStrategy().cell_count(problem)},
            epsilons=[epsilon],
            sites=self.sites,
            target_size=self.size,
            most_records_per_unit=self.most,
            belief=belief,
        )
        if row.simulated is None:
            raise ValueError("the label is not of two classes")
        return row.simulated


def _within(value: float, around: tuple[float, float], least: float) -> tuple[float, float]:
    low, high = (float(np.clip(value + each, least, 0.999)) for each in around)
    return low, high


@lru_cache(1)
def case(data: str) -> Case:
    """A problem of the comparison, or a scenario."""
    if data.startswith(SCENARIO):
        told, parts = request_for(data), parts_of(data, 0)
        return Case(
            source=told.source,
            sites=told.sites,
            size=told.target_size,
            most=told.most_records_per_unit,
            prevalence=float(parts.labels.mean()),
            ceiling=_ceiling([parts.source, parts.private, parts.test], [parts.labels, parts.test_labels]),
        )
    split = load_split(data, SPLIT)
    return Case(
        source=split.source,
        sites=len(split.sites),
        size=assumed_size([site.steward.round_size for site in split.sites], len(split.source)),
        most=1,
        prevalence=float(split.private_labels.mean()),
        ceiling=_ceiling([split.source, split.private, split.test], [split.private_labels, split.test_labels]),
    )


@cache
def measured() -> dict[str, dict[tuple[Fraction, int], tuple[float, float]]]:
    """Problem of the comparison -> (epsilon, seed) -> accuracy and AUC that `cells` had."""
    known: dict[str, dict[tuple[Fraction, int], tuple[float, float]]] = defaultdict(dict)
    with RESULTS.open(encoding="utf-8") as file:
        for cell in filter(lambda line: "problem" in line, map(json.loads, file)):
            values = cell["measures"]
            scores = values["accuracy"] / 100, values["auc"] / 100
            known[cell["problem"]][parse_rational(cell["epsilon"]), cell["seed"]] = scores
    return dict(known)


@cache
def request_for(data: str) -> Request:
    """What the first learner of a scenario asks."""
    return request_of(read_quoted(data.removeprefix(SCENARIO), schema=None, learner=""))


@dataclass(frozen=True)
class Parts:
    """Records of one repeat of a scenario, as its first learner and the curators that it asks have them."""

    source: Records
    private: Records
    test: Records
    labels: NDArray[np.bool_]
    test_labels: NDArray[np.bool_]
    sites: int


@lru_cache(2)
def parts_of(data: str, repeat: int) -> Parts:
    """The records of one repeat."""
    scenario, _, folder = load_scenario(data.removeprefix(SCENARIO))
    sites = split_records(scenario, load_records(scenario, folder), repeat)
    asked, held = sites_of(scenario.learners[0], sites)
    steward = sites[asked[0]].steward
    source = pl.concat([sites[site].source for site in held])
    private, test = (pl.concat([getattr(sites[site], part) for site in asked]) for part in ("counted", "test"))
    labels, test_labels = (encode_labels(frame[steward.label], steward.classes) > 0 for frame in (private, test))
    encoded, encoded_private, encoded_test = (encode_frame(frame, steward.schema) for frame in (source, private, test))
    return Parts(encoded, encoded_private, encoded_test, labels, test_labels, len(asked))


def _ceiling(encoded: Sequence[Records], labels: Sequence[NDArray[np.bool_]]) -> float:
    """AUC on the test records of the better of two models that were trained on all private records."""
    features = standardising_map(encoded[0])
    private, test = (coordinates(features, each) for each in encoded[1:])
    models = (LogisticRegression(C=0.1, max_iter=500), HistGradientBoostingClassifier(random_state=0))
    scores = [model.fit(private, labels[0]).predict_proba(test)[:, 1] for model in models]
    return max(float(roc_auc_score(labels[1], score)) for score in scores)


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was foretold.

    Attributes:
        data: a problem, or `SCENARIO` and a name.
        stated: of `STATED`.
        epsilon: exact text.
        accuracy, auc: low and high.
        seconds: that it took.
    """

    data: str
    stated: str
    epsilon: str
    accuracy: tuple[float, float]
    auc: tuple[float, float]
    seconds: float

    @property
    def key(self) -> Task:
        """Which range it is."""
        return Task(self.data, self.stated, self.epsilon, 0)


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came true.

    Attributes:
        data: as of `Range`.
        epsilon: exact text.
        seed: of the comparison's split, or the repeat of the scenario.
        accuracy, auc: on the test records.
        seconds: that it took; next to nothing where it is the comparison's.
    """

    data: str
    epsilon: str
    seed: int
    accuracy: float
    auc: float
    seconds: float

    @property
    def key(self) -> Task:
        """Which run it is."""
        return Task(self.data, "cells", self.epsilon, self.seed)


def foretell(task: Task) -> Range:
    """One range."""
    start = time.monotonic()
    told = case(task.problem).simulated(parse_rational(task.epsilon), task.maker)
    accuracy, auc = ((scores.low, scores.high) for scores in (told.accuracy, told.auc))
    return Range(task.problem, task.maker, task.epsilon, accuracy, auc, round(time.monotonic() - start, 3))


def come_true(task: Task) -> Outcome:
    """One run of a scenario; of a problem what the comparison has."""
    start, epsilon = time.monotonic(), parse_rational(task.epsilon)
    scores = _run(task.problem, epsilon, task.seed) if task.problem.startswith(SCENARIO) else None
    accuracy, auc = scores or measured()[task.problem][epsilon, task.seed]
    return Outcome(task.problem, task.epsilon, task.seed, accuracy, auc, round(time.monotonic() - start, 3))


def _run(data: str, epsilon: Fraction, repeat: int) -> tuple[float, float]:
    """Accuracy and AUC of one study."""
    parts, told = parts_of(data, repeat), request_for(data)
    problem = Problem(parts.source, epsilon, parts.sites, told.target_size, told.most_records_per_unit, repeat)
    rng = np.random.default_rng([repeat, epsilon.numerator, epsilon.denominator])
    model = last_model(CellsStrategy(), problem, parts.private, parts.labels, rng)
    positive = class_probabilities(model, parts.test)[:, 1]
    return float(np.mean((positive > 0.5) == parts.test_labels)), float(roc_auc_score(parts.test_labels, positive))


class Quoted(msgspec.Struct, frozen=True):
    """One data set at one epsilon.

    Attributes:
        data, epsilon: as of `Range`.
        ranges: stated -> score -> low and high.
        means: score -> of the runs that came true.
        holds: stated -> score -> share of the runs that lie in the range.
    """

    data: str
    epsilon: str
    ranges: dict[str, dict[str, tuple[float, float]]]
    means: dict[str, float]
    holds: dict[str, dict[str, float]]


SCORES = {"accuracy": "accuracy", "auc": "AUC"}


def findings(cells: Mapping[str, Sequence[Range | Outcome]], provenance: Provenance | None = None) -> Rows[Quoted]:
    """Of all data that are quoted in both ways and ran."""
    ranges: dict[tuple[str, str], dict[str, dict[str, tuple[float, float]]]] = defaultdict(dict)
    runs: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for cell in (*cells["ranges"], *cells["outcomes"]):
        if isinstance(cell, Range):
            ranges[cell.data, cell.epsilon][cell.stated] = {name: getattr(cell, name) for name in SCORES}
        else:
            runs[cell.data, cell.epsilon].append(cell)
    whole = [key for key in ranges if key in runs and len(ranges[key]) == len(STATED)]
    ordered = sorted(whole, key=lambda key: (DATA.index(key[0]), epsilon_order(key[1])))
    return Rows(tuple(_row(key, ranges[key], runs[key]) for key in ordered), provenance)


def _row(key: tuple[str, str], ranges: dict[str, dict[str, tuple[float, float]]], runs: Sequence[Outcome]) -> Quoted:
    values = {name: np.array([getattr(run, name) for run in runs]) for name in SCORES}

    def held(told: Mapping[str, tuple[float, float]]) -> dict[str, float]:
        return {
            name: float(np.mean((values[name] >= low) & (values[name] <= high))) for name, (low, high) in told.items()
        }

    return Quoted(
        *key,
        ranges=ranges,
        means={name: float(each.mean()) for name, each in values.items()},
        holds={stated: held(told) for stated, told in ranges.items()},
    )


def document(found: Rows[Quoted]) -> Document:
    """How often ranges hold, and each of them."""
    columns: list[Column[Quoted]] = [
        Column("data", lambda row: row.data, names=True),
        Column("epsilon", lambda row: row.epsilon, number=True),
    ]
    for name, score in SCORES.items():
        columns += [_range(f"{score} quoted", NOTHING, name), _mean(name)]
    columns += [_range(f"{score}, stated", BOTH, name) for name, score in SCORES.items()]
    epsilons = sorted({row.epsilon for row in found.rows}, key=epsilon_order)
    kinds = [(stated, name, epsilon) for stated in STATED for name in SCORES for epsilon in epsilons]
    ways: list[Column[tuple[str, str, str]]] = [
        Column("stated", lambda way: way[0], names=True),
        Column("score", lambda way: SCORES[way[1]]),
        Column("epsilon", lambda way: way[2], number=True),
    ]
    for what, rows in (
        ("problems", [row for row in found.rows if not row.data.startswith(SCENARIO)]),
        ("scenarios", [row for row in found.rows if row.data.startswith(SCENARIO)]),
    ):
        ways += _held(what, rows) if rows else []
    return Document(
        kind="ExPriL: quotes",
        subject="what is foretold of cells, and what came true",
        headline="Quotes against what came true",
        sections=[
            Section("How often the range holds", [Text(READING_HELD), Table.of("Ranges that hold", ways, kinds)]),
            Section("By data", [Text(READING), Table.of("By data", columns, found.rows)]),
        ],
        note="docs/quote.md says what the tables show.",
        sources=[("Study of quotes", found.provenance)],
    )


def _range(heading: str, stated: str, name: str) -> Column[Quoted]:
    def show(row: Quoted) -> str:
        low, high = row.ranges[stated][name]
        return f"{low:.2f}-{high:.2f}"

    return Column(heading, show, number=True)


def _mean(name: str) -> Column[Quoted]:
    return Column("came true", lambda row: f"{row.means[name]:.3f}", number=True)


def _held(what: str, rows: Sequence[Quoted]) -> list[Column[tuple[str, str, str]]]:
    """Of the problems or of the scenarios."""

    def share(way: tuple[str, str, str]) -> str:
        stated, name, epsilon = way
        return f"{np.mean([row.holds[stated][name] for row in rows if row.epsilon == epsilon]):.2f}"

    def width(way: tuple[str, str, str]) -> str:
        stated, name, epsilon = way
        ranges = [row.ranges[stated][name] for row in rows if row.epsilon == epsilon]
        return f"{np.mean([high - low for low, high in ranges]):.2f}"

    cases = len({row.data for row in rows})
    return [
        Column(f"holds, {cases} {what}", share, number=True),
        Column(f"mean width, {what}", width, number=True),
    ]


def _two_classes(data: str) -> bool:
    """Whether it is a problem with results, or a scenario whose first learner asks `cells` about two classes."""
    if not data.startswith(SCENARIO):
        return data in measured()
    told = request_for(data)
    return len(told.source.schema.classes) == 2 and told.strategy == "cells"


def ranges_wanted(order: Order) -> list[Task]:
    """Each data set once, in both ways."""
    chosen = [data for data in order.size.axes["data"] if _two_classes(data)]
    return [Task(data, stated, epsilon, 0) for data in chosen for epsilon in order.size.epsilons for stated in STATED]


def outcomes_wanted(order: Order) -> list[Task]:
    """What the comparison has of problems; of a scenario all repeats, or one."""
    wanted = []
    for data in filter(_two_classes, order.size.axes["data"]):
        for epsilon in order.size.epsilons:
            if data.startswith(SCENARIO):
                large = len(request_for(data).source) > LARGE
                seeds: Sequence[int] = order.seeds[:1] if large else order.seeds
            else:
                seeds = [seed for known, seed in measured()[data] if known == parse_rational(epsilon)]
            wanted += [Task(data, "cells", epsilon, seed) for seed in seeds]
    return wanted


DATA = (*PROBLEMS, *(f"{SCENARIO}{name}" for name in builtin_scenarios()))
STUDY = Study(
    name="quotes",
    title="What a quote foretells of cells, and what came true (docs/quote.md).",
    parts=[Part("ranges", Range, ranges_wanted, foretell), Part("outcomes", Outcome, outcomes_wanted, come_true)],
    findings=findings,
    document=document,
    choices={"data": DATA},
    short=Size(1, EPSILONS, {"data": ("heart", "wdbc", f"{SCENARIO}heart")}, "a minute"),
    full=Size(3, EPSILONS, {"data": DATA}, "half an hour"),
    seed=0,
    noise=NOISE,
    width=150,
)
