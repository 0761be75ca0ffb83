"""Runs of an experiment: several are computed together, and each leaves one cell."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from lab.reproduction.experiments import EXPERIMENTS, Setup
from lab.reproduction.lockstep import run_together
from learner_node.strategies.base import Trainer
from simulations.campaign.runner import Computed
from simulations.campaign.store import Task

STACKED_PARAMETERS = 40_000
"""Networks of more parameters gain nothing from being stacked by the dozen, and are trained with few runs at a time."""
MANY_RUNS, FEW_RUNS = 20, 5
MANY_NETWORKS = 100
"""Runs of so many networks are computed a fifth as many at a time, so that little is lost where one is killed."""


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that one run on one data set gave."""

    dataset: str
    run: int  # its number, from 0
    values: dict[str, float | str]  # name -> number; an infinite one is the text "inf"
    seconds: float  # of computing, its share of the runs that were computed together

    @property
    def key(self) -> Task:
        """Data set and run."""
        return task_of(self.dataset, self.run)

    def value(self, name: str) -> float:
        """A number by name."""
        return float(self.values[name])


def task_of(dataset: str, run: int) -> Task:
    """The task of a run; its seed is the run's number, which the experiment's own is added to."""
    return Task(dataset, "paper", "1", run)


@dataclass(frozen=True)
class Chunk:
    """Runs of one data set that are computed together; run r takes records and networks of seed `seed + r`."""

    experiment: str
    dataset: str
    setup: Setup
    runs: tuple[int, ...]
    seed: int

    @property
    def maker(self) -> str:
        """The experiment."""
        return self.experiment

    @property
    def work(self) -> float:
        """Roughly proportional to time: training steps times parameters, and a constant for all else of a network."""
        problem = self.setup.problem
        trained = problem.training.epochs * problem.target_size * (_parameters(self.setup) + 2000)
        return len(self.runs) * EXPERIMENTS[self.experiment].networks(self.setup) * float(trained)

    def __str__(self) -> str:
        """The data set, for people."""
        return self.dataset


def chunks(experiment: str, setups: Mapping[str, Setup], seed: int, tasks: Sequence[Task]) -> list[Chunk]:
    """Tasks as they are computed: the dearest first, so that no process is left with a long one at the end.

    Which runs are computed together is the same whatever the number of processes.
    """
    made = []
    for name in dict.fromkeys(task.problem for task in tasks):
        runs, setup = [task.seed for task in tasks if task.problem == name], setups[name]
        size = MANY_RUNS if _parameters(setup) <= STACKED_PARAMETERS else FEW_RUNS
        if EXPERIMENTS[experiment].networks(setup) > MANY_NETWORKS:
            size //= 5
        parts = (tuple(runs[start : start + size]) for start in range(0, len(runs), size))
        made += [Chunk(experiment, name, setup, part, seed) for part in parts]
    return sorted(made, key=lambda chunk: chunk.work, reverse=True)


def compute(chunk: Chunk) -> Computed[Finished]:
    """All runs of a chunk, their networks trained together."""
    measure = EXPERIMENTS[chunk.experiment].measure

    def work(run: int, train: Trainer) -> dict[str, float]:
        return measure(chunk.setup.laboratory(run, chunk.seed, train), chunk.setup)

    start = time.monotonic()
    found, failed = run_together(chunk.runs, work)
    seconds = (time.monotonic() - start) / len(chunk.runs)
    return Computed(
        cells=[
            Finished(
                chunk.dataset, chunk.runs[place], {name: _stored(x) for name, x in values.items()}, round(seconds, 3)
            )
            for place, values in sorted(found.items())
        ],
        failures=[
            f"run {chunk.runs[place]} of {chunk.dataset}: {type(error).__name__}: {error}"
            for place, error in sorted(failed.items())
        ],
    )


def _parameters(setup: Setup) -> int:
    sizes = [setup.problem.dimensions, *setup.problem.hidden, 1]
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


def _stored(value: float) -> float | str:
    return "inf" if math.isinf(value) else round(value, 6)
