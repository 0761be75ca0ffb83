"""What `expril quote` foretells of `cells`, held against what came true: the tables of docs/quote.md.

`python -m lab.quotes` quotes each problem of the comparison and each built-in scenario of two classes, once
knowing nothing, once with the prevalence and the AUC of the best model without privacy stated. Problems came true in
docs/learning (20 splits each); scenarios are run here, on exact counts with seeded noise in the form that curators
answer, without their faults: `--repeats 4` of them, those of the readmission data one. `--only scenarios` leaves the
problems out, and `--only problems` the scenarios. About half an hour of one core.
"""

import argparse
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from curator_node.dataset import StewardWarning
from lab.problems import load_split
from learner_node.kinds import READERS
from learner_node.label_model.prior import Belief
from learner_node.quote import QuoteRow, quote
from learner_node.source import coordinates, standardising_map
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Conversation, Problem, assumed_size, class_probabilities
from learner_node.strategies.cells import CellsStrategy
from protocol.kinds import QUERY_KINDS
from protocol.record_frames import encode_frame, encode_labels
from protocol.records import Records
from simulations.quoted import request_of
from simulations.records import load_records, read_quoted, sites_of, split_records
from simulations.scenario import builtin_scenarios, load_scenario

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "learning" / "cells" / "cells.jsonl"
EPSILONS = tuple(map(Fraction, ("1", "0.3", "0.1")))
SPLIT = 5000
LARGE = 10_000
"""From so many source records on, a scenario is run once: chance is small there."""
STATED_PREVALENCE, STATED_AUC = (-0.05, 0.05), (-0.02, 0.05)
"""What is stated: the true prevalence, and the AUC of the better of two models without privacy, within these."""

Scores = NDArray[np.float64]
"""(runs, 2): accuracy and AUC, in [0, 1]."""


@dataclass(frozen=True)
class Case:
    """What is quoted, and what came true.

    Attributes:
        name: of the problem or scenario.
        source: the learner's records.
        sites, size, most: curators, their declared records, contribution bound.
        prevalence: true share of label 1.
        ceiling: AUC of the better of two models without privacy.
        realised: scores at each epsilon.
    """

    name: str
    source: Records
    sites: int
    size: int
    most: int
    prevalence: float
    ceiling: float
    realised: dict[Fraction, Scores]

    def row(self, epsilon: Fraction, belief: Belief) -> QuoteRow:
        """Of the rule's number of cells."""
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
        return row

    @property
    def beliefs(self) -> dict[str, Belief]:
        """What is stated, by its name in the tables."""
        prevalence = _within(self.prevalence, STATED_PREVALENCE, 0.001)
        auc = _within(self.ceiling, STATED_AUC, 0.51)
        return {"nothing": Belief(), "prevalence and best AUC": Belief(prevalence, auc)}


def _within(value: float, around: tuple[float, float], least: float) -> tuple[float, float]:
    low, high = (float(np.clip(value + each, least, 0.999)) for each in around)
    return low, high


def problem_cases() -> Iterator[Case]:
    """Those of the comparison that have results."""
    measured: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    with RESULTS.open(encoding="utf-8") as file:
        for cell in filter(lambda line: "problem" in line, map(json.loads, file)):
            values = cell["measures"]
            measured[cell["problem"], cell["epsilon"]].append((values["accuracy"] / 100, values["auc"] / 100))
    for name in dict.fromkeys(name for name, _ in measured):
        split = load_split(name, SPLIT)
        yield Case(
            name=name,
            source=split.source,
            sites=len(split.sites),
            size=assumed_size([site.steward.round_size for site in split.sites], len(split.source)),
            most=1,
            prevalence=float(split.private_labels.mean()),
            ceiling=_ceiling([split.source, split.private, split.test], [split.private_labels, split.test_labels]),
            realised={epsilon: np.array(measured[name, _decimal(epsilon)]) for epsilon in EPSILONS},
        )


def _decimal(epsilon: Fraction) -> str:
    return f"{float(epsilon):g}"


def scenario_cases(repeats: int) -> Iterator[Case]:
    """Built-in ones whose first learner pools `cells` answers about two classes."""
    # The large ones last: what has been printed is kept if they take too long.
    for name in sorted(builtin_scenarios(), key=lambda name: name.startswith("readmission")):
        request = request_of(read_quoted(name, schema=None, learner=""))
        if len(request.source.schema.classes) != 2 or request.strategy != "cells":
            continue
        scenario, _, folder = load_scenario(name)
        records = load_records(scenario, folder)
        realised: dict[Fraction, list[tuple[float, float]]] = defaultdict(list)
        for repeat in range(1 if len(request.source) > LARGE else repeats):
            sites = split_records(scenario, records, repeat)
            asked, held = sites_of(scenario.learners[0], sites)
            schema = sites[asked[0]].steward.schema
            private, source, test = (
                pl.concat(frames)
                for frames in (
                    [sites[site].counted for site in asked],
                    [sites[site].source for site in held],
                    [sites[site].test for site in asked],
                )
            )
            encoded = [encode_frame(frame, schema) for frame in (source, private, test)]
            label = sites[asked[0]].steward.label
            labels = [encode_labels(frame[label], schema.classes) > 0 for frame in (private, test)]
            if not repeat:
                prevalence, ceiling = float(labels[0].mean()), _ceiling(encoded, labels)
            for epsilon in EPSILONS:
                problem = Problem(
                    encoded[0], epsilon, len(asked), request.target_size, request.most_records_per_unit, repeat
                )
                realised[epsilon].append(_run(problem, encoded[1], encoded[2], labels[0], labels[1]))
        yield Case(
            name=name,
            source=request.source,
            sites=request.sites,
            size=request.target_size,
            most=request.most_records_per_unit,
            prevalence=prevalence,
            ceiling=ceiling,
            realised={epsilon: np.array(runs) for epsilon, runs in realised.items()},
        )


def _run(
    problem: Problem, private: Records, test: Records, labels: NDArray[np.bool_], test_labels: NDArray[np.bool_]
) -> tuple[float, float]:
    """Accuracy and AUC of one study."""
    rng = np.random.default_rng([problem.seed, problem.epsilon.numerator, problem.epsilon.denominator])
    strategy = make_strategy("cells", {})
    conversation = Conversation(strategy, problem)
    tally = np.column_stack([~labels, labels]).astype(np.int64)
    answers = []
    for turn in QUERY_KINDS.turns(strategy.plan(problem)):
        read = READERS[turn.planned.kind].rehearse
        answers.append(read(conversation.body, turn, private, tally, problem.sites, rng))
        conversation.hear(answers)
    model = conversation.models[-1]
    if model is None:
        raise RuntimeError("no model")
    positive = class_probabilities(model, test)[:, 1]
    return float(np.mean((positive > 0.5) == test_labels)), float(roc_auc_score(test_labels, positive))


def _ceiling(encoded: Sequence[Records], labels: Sequence[NDArray[np.bool_]]) -> float:
    """AUC on the test records of the better of two models that were trained on all private records."""
    features = standardising_map(encoded[0])
    private, test = (coordinates(features, each) for each in encoded[1:])
    models = (LogisticRegression(C=0.1, max_iter=500), HistGradientBoostingClassifier(random_state=0))
    scores = [model.fit(private, labels[0]).predict_proba(test)[:, 1] for model in models]
    return max(float(roc_auc_score(labels[1], score)) for score in scores)


@dataclass(frozen=True)
class Held:
    """One range against what came true.

    Attributes:
        share: of the runs that lie in it.
        width: of it.
    """

    share: float
    width: float


def main(arguments: Sequence[str]) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m lab.quotes", description=__doc__)
    parser.add_argument("--repeats", type=int, default=4, help="of a scenario")
    parser.add_argument("--only", choices=("problems", "scenarios"))
    chosen = parser.parse_args(arguments)
    wanted: list[Iterator[Case]] = [] if chosen.only == "scenarios" else [problem_cases()]
    wanted += [] if chosen.only == "problems" else [scenario_cases(chosen.repeats)]
    held: dict[tuple[str, str, Fraction], list[Held]] = defaultdict(list)
    out = sys.stdout.write
    out("| data | epsilon | accuracy quoted | came true | AUC quoted | came true | accuracy stated | AUC stated |\n")
    out(f"|{'---|' * 8}\n")
    for case in chain(*wanted):
        for epsilon in EPSILONS:
            cells = []
            for belief, told in case.beliefs.items():
                simulated = case.row(epsilon, told).simulated
                if simulated is None:
                    raise RuntimeError("not of two classes")
                for what, scores, runs in zip(
                    ("accuracy", "AUC"),
                    (simulated.accuracy, simulated.auc),
                    case.realised[epsilon].T,
                    strict=True,
                ):
                    inside = (runs >= scores.low) & (runs <= scores.high)
                    held[belief, what, epsilon].append(Held(float(inside.mean()), scores.high - scores.low))
                    cells += [f"{scores.low:.2f}-{scores.high:.2f}", f"{runs.mean():.3f}"]
            out(f"| {case.name} | {_decimal(epsilon)} | {' | '.join(cells[:4])} | {cells[4]} | {cells[6]} |\n")
            sys.stdout.flush()
    out(f"\n| stated | score | epsilon | cases | holds | mean width |\n|{'---|' * 6}\n")
    for (belief, what, epsilon), found in sorted(held.items()):
        share, width = (np.mean([getattr(each, name) for each in found]) for name in ("share", "width"))
        out(f"| {belief} | {what} | {_decimal(epsilon)} | {len(found)} | {share:.2f} | {width:.2f} |\n")


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", StewardWarning)
        main(sys.argv[1:])
