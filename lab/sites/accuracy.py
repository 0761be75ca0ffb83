"""How good a model is that is learnt from so many sites: whole studies with real curators, noise and ledgers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import polars as pl

from lab.learning import run_study
from lab.measures import measure
from lab.problems import load_split
from lab.splits import Options, Site, Split
from learner_node.study.pooling import PoolingName
from protocol.rationals import parse_rational
from simulations.campaign.store import Task

LOCAL: PoolingName = "sum"  # every site adds noise of its own
SECURE: PoolingName = "secure"  # all sites together add about one noise


@dataclass(frozen=True)
class Question:
    """What is asked of a problem's sites."""

    strategy: str  # key of `STRATEGIES`
    options: Options = field(default_factory=dict)
    title: str = ""  # in words


_CELLS = Question("cells", {"networks": False}, "cells, without networks")
QUESTIONS: dict[str, Question] = {"CTG-A": _CELLS, "C": _CELLS, "readmission": Question("additive", {}, "additive")}
"""By problem. Readmission has 17,500 source records, for which `cells` takes a minute and `additive` a second."""


class Studied(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One study."""

    problem: str  # key of `QUESTIONS`
    pooling: PoolingName  # "sum" or "secure"
    sites: int  # at how many the records are
    epsilon: str  # as asked for, an exact text; it is what the costliest curator's ledger charged
    seed: int  # of the split, of how it is dealt and of the learner's own choices, never of noise
    accuracy: float  # on the test records, in percent
    auc: float
    seconds: float = 0.0  # that it took

    @property
    def key(self) -> Task:
        """Which study it is."""
        return task_of(self.problem, self.pooling, self.sites, self.epsilon, self.seed)


def task_of(problem: str, pooling: PoolingName, sites: int, epsilon: str, seed: int) -> Task:
    """The task of a study; its maker names pooling and sites."""
    return Task(problem, f"{pooling} {sites}", epsilon, seed)


def compute(task: Task) -> Studied:
    """One study."""
    name, sites = task.maker.split()
    pooling = SECURE if name == SECURE else LOCAL
    question = QUESTIONS[task.problem]
    split = spread_over(load_split(task.problem, task.seed), int(sites))
    answer = run_study(split, question.strategy, question.options, parse_rational(task.epsilon), pooling=pooling)
    measures = measure(answer.probability, split.test_labels)
    return Studied(task.problem, pooling, int(sites), task.epsilon, task.seed, measures.accuracy, measures.auc)


def poolings_of(sites: int) -> tuple[PoolingName, ...]:
    """How answers of so many sites can become one model; one alone has nobody to sum with."""
    return (LOCAL, SECURE) if sites > 1 else (LOCAL,)


def spread_over(split: Split, sites: int) -> Split:
    """The problem with its private records at so many sites, all of the same size but for one record.

    Each site declares its share of what the problem's own sites declare. A split of the same seed is always dealt
    alike, so studies of it differ in their noise alone.

    `split`: of a problem where each record is a unit of its own; `sites`: 1 or more.

    Raises ValueError: there are fewer records than sites, or a unit has several records.
    """
    if split.units is not None:
        raise ValueError(f"units of {split.problem} have several records; these would go to different sites")
    frame = pl.concat(site.frame for site in split.sites)
    if not 1 <= sites <= frame.height:
        raise ValueError(f"{frame.height} records cannot be dealt to {sites} sites")
    declared = _declared([site.steward.round_size for site in split.sites])
    size = None if declared is None else max(1, round(declared / sites))
    steward = msgspec.structs.replace(split.sites[0].steward, round_size=size)
    rows = np.random.default_rng([split.seed, sites]).permutation(frame.height)
    return replace(
        split,
        sites=tuple(
            Site.of(f"site {number + 1}", frame[np.sort(part)], steward)
            for number, part in enumerate(np.array_split(rows, sites))
        ),
    )


def _declared(sizes: Sequence[int | None]) -> int | None:
    declared = [size for size in sizes if size is not None]
    return sum(declared) if len(declared) == len(sizes) else None
