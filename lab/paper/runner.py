"""Runs an experiment over data sets and runs, in several processes, and keeps every finished cell."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.paper.experiments import EXPERIMENTS, Setup
from lab.paper.finished import Finished
from lab.paper.lockstep import run_together
from learner_node.strategies.base import Trainer
from simulations.campaign.runner import Computed, Finish, run_tasks, says_nothing
from simulations.campaign.store import Store
from simulations.campaign.workers import Jobs, Progress

STACKED_PARAMETERS = 40_000
"""Networks of more parameters gain nothing from being stacked by the dozen, and are trained with few runs at a time."""
MANY_RUNS, FEW_RUNS = 20, 5
MANY_NETWORKS = 100
"""Runs of so many networks are computed a fifth as many at a time, so that little is lost where one is killed."""


@dataclass(frozen=True)
class Chunk:
    """Runs of one data set that are computed together."""

    experiment: str
    dataset: str
    setup: Setup
    runs: tuple[int, ...]
    seed: int

    @property
    def maker(self) -> str:
        """The experiment."""
        return self.experiment

    def __str__(self) -> str:
        """The data set, for people."""
        return self.dataset


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


def run_experiment(
    experiment: str,
    setups: Mapping[str, Setup],
    *,
    runs: int,
    seed: int,
    jobs: Jobs,
    store: Store[Finished],
    progress: Progress = says_nothing,
    finish: Finish | None = None,
) -> None:
    """Compute what the store lacks.

    Args:
        experiment: key of `EXPERIMENTS`.
        setups: data set -> setup.
        runs: per data set.
        seed: of the first run's records and networks; run r takes `seed + r`.
        jobs: who computes.
        store: where finished cells are, and are added.
        progress: called with (data set, finished work, all work), in units of estimated time.
        finish: filled while the work goes on; None makes one.

    Raises:
        FailedRunsError: some runs failed; all others are finished and kept.
    """
    chunks = [
        Chunk(experiment, name, setup, part, seed)
        for name, setup in setups.items()
        for part in _parts(
            [run for run in range(runs) if (name, run) not in store.finished],
            setup,
            EXPERIMENTS[experiment].networks(setup),
        )
    ]
    # The dearest first, so that no process is left with a long one at the end.
    chunks.sort(key=_work, reverse=True)
    finish = run_tasks(
        chunks,
        compute,
        lambda _chunk, cell: store.add(cell),
        jobs=jobs,
        work=_work,
        progress=progress,
        finish=finish,
    )
    finish.check()


def _parts(runs: Sequence[int], setup: Setup, networks: int) -> list[tuple[int, ...]]:
    """Runs that are computed together; the same whatever the number of processes."""
    size = MANY_RUNS if _parameters(setup) <= STACKED_PARAMETERS else FEW_RUNS
    if networks > MANY_NETWORKS:
        size //= 5
    return [tuple(runs[start : start + size]) for start in range(0, len(runs), size)]


def _parameters(setup: Setup) -> int:
    sizes = [setup.problem.dimensions, *setup.problem.hidden, 1]
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


def _work(chunk: Chunk) -> float:
    """Roughly proportional to time: training steps times parameters, and a constant for all else of a network."""
    problem = chunk.setup.problem
    trained = problem.training.epochs * problem.target_size * (_parameters(chunk.setup) + 2000)
    return len(chunk.runs) * EXPERIMENTS[chunk.experiment].networks(chunk.setup) * float(trained)


def _stored(value: float) -> float | str:
    return "inf" if math.isinf(value) else round(value, 6)
