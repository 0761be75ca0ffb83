"""How good a model is that is learnt from so many sites: whole studies with real curators, noise and ledgers."""

import time
from dataclasses import dataclass, field

import msgspec

from lab.comparison.measures import measure
from lab.comparison.studies import run_study
from lab.problems import load_split
from lab.sites.spread import LOCAL, SECURE, spread_over
from lab.splits import Options
from learner_node.pooling import Pooling
from protocol.rationals import parse_rational
from simulations.campaign.store import Task


@dataclass(frozen=True)
class Question:
    """What is asked of a problem's sites.

    Attributes:
        strategy: key of `STRATEGIES`.
        options: of it.
        title: in words.
    """

    strategy: str
    options: Options = field(default_factory=dict)
    title: str = ""


_CELLS = Question("cells", {"networks": False}, "cells, without networks")
QUESTIONS: dict[str, Question] = {
    "CTG-A": _CELLS,
    "C": _CELLS,
    "readmission": Question("additive", {}, "additive"),
}
"""By problem. Readmission has 17,500 source records, for which `cells` takes a minute and `additive` a second."""


class Studied(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One study.

    Attributes:
        problem: key of `QUESTIONS`.
        pooling: "sum" or "secure".
        sites: at how many the records are.
        epsilon: as asked for, an exact text; it is what the costliest curator's ledger charged.
        seed: of the split, of how it is dealt and of the learner's own choices, never of noise.
        accuracy: on the test records, in percent.
        auc: likewise.
        seconds: of the study.
    """

    problem: str
    pooling: Pooling
    sites: int
    epsilon: str
    seed: int
    accuracy: float
    auc: float
    seconds: float

    @property
    def key(self) -> Task:
        """Which study it is."""
        return task_of(self.problem, self.pooling, self.sites, self.epsilon, self.seed)


def task_of(problem: str, pooling: Pooling, sites: int, epsilon: str, seed: int) -> Task:
    """The task of a study; its maker names pooling and sites."""
    return Task(problem, f"{pooling} {sites}", epsilon, seed)


def compute(task: Task) -> Studied:
    """One study."""
    name, sites = task.maker.split()
    pooling = SECURE if name == SECURE else LOCAL
    question = QUESTIONS[task.problem]
    split = spread_over(load_split(task.problem, task.seed), int(sites))
    start = time.monotonic()
    answer = run_study(split, question.strategy, question.options, parse_rational(task.epsilon), pooling=pooling)
    seconds = round(time.monotonic() - start, 3)
    found = measure(answer.probability, split.test_labels)
    return Studied(task.problem, pooling, int(sites), task.epsilon, task.seed, found.accuracy, found.auc, seconds)
