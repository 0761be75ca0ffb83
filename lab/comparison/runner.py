"""Every strategy on every split: which cells are wanted, how one is computed, and which file keeps it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.comparison.contestants import CONTESTANTS, Contestant
from lab.comparison.measures import measure
from lab.comparison.outcome import INFINITE, Outcome
from lab.problems import PROBLEMS, load_split
from protocol.rationals import parse_rational
from simulations.campaign.runner import Finish, run_missing, says_nothing
from simulations.campaign.store import Task
from simulations.campaign.workers import Jobs, Progress

CELLS = "cells"
"""Folder of the finished cells, one file per strategy."""


@dataclass(frozen=True)
class Work:
    """What is to be run.

    Attributes:
        problems: keys of `PROBLEMS`.
        strategies: keys of `CONTESTANTS`.
        epsilons: texts of `epsilon_text`, without "inf".
        runs: splits per problem; run r takes `seed + r`.
        seed: of the first split.
        jobs: who computes.
    """

    problems: Sequence[str]
    strategies: Sequence[str]
    epsilons: Sequence[str]
    runs: int
    seed: int
    jobs: Jobs

    def tasks(self) -> list[Task]:
        """All cells, the first run of everything before the second of anything."""
        return [
            Task(problem, name, epsilon, self.seed + run)
            for run in range(self.runs)
            for problem in self.problems
            for name in self.strategies
            if run < runs_of(CONTESTANTS[name], problem, self.runs)
            for epsilon in asked_epsilons(CONTESTANTS[name], self.epsilons)
        ]


def runs_of(contestant: Contestant, problem: str, runs: int) -> int:
    """How many of `runs` a contestant gets on a problem: the least of its own cap, the problem's, and that of both."""
    if not contestant.speaks_of(problem):
        return 0
    big = PROBLEMS[problem].most_runs
    caps = (contestant.most_runs, big, None if big is None else contestant.big_runs)
    return min([runs, *(cap for cap in caps if cap is not None)])


def asked_epsilons(contestant: Contestant, epsilons: Sequence[str]) -> tuple[str, ...]:
    """At which epsilons a contestant is run."""
    if contestant.group == "ceiling":
        return (INFINITE,)
    private = tuple(epsilon for epsilon in epsilons if parse_rational(epsilon) >= contestant.lowest_epsilon)
    return (*private, INFINITE) if contestant.silent else private


def cells_path(out: Path, strategy: str) -> Path:
    """The file of a strategy's cells."""
    return out / CELLS / f"{strategy.replace('*', '_star')}.jsonl"


def compute(task: Task) -> Outcome:
    """One cell."""
    split = load_split(task.problem, task.seed)
    start = time.monotonic()
    answer = CONTESTANTS[task.maker].solve(split, None if task.epsilon == INFINITE else parse_rational(task.epsilon))
    seconds = time.monotonic() - start if answer.seconds is None else answer.seconds
    charged = answer.spent is not None and task.epsilon != INFINITE
    return Outcome(
        problem=task.problem,
        strategy=task.maker,
        epsilon=task.epsilon,
        seed=task.seed,
        measures=measure(answer.probability, split.test_labels),
        seconds=round(seconds, 3),
        spent=str(answer.spent) if charged else "",
        extras=dict(answer.extras),
    )


def run_all(
    work: Work,
    out: Path,
    *,
    progress: Progress = says_nothing,
    kept: Callable[[], None] = lambda: None,
    finish: Finish | None = None,
) -> Finish:
    """Compute what the files lack; see `run_missing`.

    Args:
        work: what is wanted.
        out: folder of results.
        progress: called with (what was finished, seconds of work done, seconds of all work), estimated.
        kept: called after each cell that was kept.
        finish: filled while the work goes on, for whoever wants it after an interrupt; None makes one.

    Returns:
        What could not be computed.

    Raises:
        ConfigurationError: a file of cells was begun with other settings, or another process works on it.
    """

    def file_of(task: Task) -> tuple[Path, dict[str, object]]:
        return cells_path(out, task.maker), file_settings(task.maker, work.seed)

    return run_missing(
        work.tasks(), compute, Outcome, file_of, jobs=work.jobs, progress=progress, kept=kept, finish=finish
    )


def file_settings(name: str, seed: int) -> dict[str, object]:
    """The header of a strategy's file."""
    return {"strategy": name, "seed": seed, "settings": CONTESTANTS[name].settings}
