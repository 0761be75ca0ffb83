"""Runs every strategy on every split that its file of cells lacks, and keeps each cell as soon as it is there."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from threadpoolctl import threadpool_limits

from curator_node.dataset import StewardWarning
from experiments.campaign.store import Store
from experiments.campaign.workers import Progress, computed_by
from experiments.learning.entries import ENTRIES, Entry
from experiments.learning.measures import measure
from experiments.learning.outcome import INFINITE, Outcome
from experiments.peers import PeerUnavailableError
from experiments.problems import load_split
from protocol.rationals import parse_rational

CELLS = "cells"
"""Folder of the finished cells, one file per strategy."""
GUESS_SECONDS = 5.0
"""Of a cell of which nothing is known yet."""


@dataclass(frozen=True)
class Task:
    """One cell that is wanted."""

    problem: str
    strategy: str
    epsilon: str
    seed: int


@dataclass(frozen=True)
class Computed:
    """A cell, or why there is none. Errors travel as text: not all can be rebuilt in another process."""

    outcome: Outcome | None = None
    failure: str = ""
    unavailable: str = ""


@dataclass(frozen=True)
class Work:
    """What is to be run.

    Attributes:
        problems: keys of `PROBLEMS`.
        strategies: keys of `ENTRIES`.
        epsilons: texts of `epsilon_text`, without "inf".
        runs: splits per problem; run r takes `seed + r`.
        seed: of the first split.
        jobs: processes.
    """

    problems: Sequence[str]
    strategies: Sequence[str]
    epsilons: Sequence[str]
    runs: int
    seed: int
    jobs: int

    def tasks(self) -> list[Task]:
        """All cells, the first run of everything before the second of anything."""
        return [
            Task(problem, name, epsilon, self.seed + run)
            for run in range(self.runs)
            for problem in self.problems
            for name in self.strategies
            if run < (ENTRIES[name].most_runs or self.runs) and ENTRIES[name].speaks_of(problem)
            for epsilon in asked_epsilons(ENTRIES[name], self.epsilons)
        ]


def asked_epsilons(entry: Entry, epsilons: Sequence[str]) -> tuple[str, ...]:
    """At which epsilons an entry is run."""
    if entry.group == "ceiling":
        return (INFINITE,)
    private = tuple(epsilon for epsilon in epsilons if parse_rational(epsilon) >= entry.lowest_epsilon)
    return (*private, INFINITE) if entry.silent else private


def cells_path(out: Path, strategy: str) -> Path:
    """The file of a strategy's cells."""
    return out / CELLS / f"{strategy.replace('*', '_star')}.jsonl"


def compute(task: Task) -> Computed:
    """One cell."""
    entry = ENTRIES[task.strategy]
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", StewardWarning)
            split = load_split(task.problem, task.seed)
            start = time.monotonic()
            answer = entry.solve(split, None if task.epsilon == INFINITE else parse_rational(task.epsilon))
            seconds = time.monotonic() - start if answer.seconds is None else answer.seconds
    except PeerUnavailableError as error:
        return Computed(unavailable=str(error))
    except Exception as error:  # noqa: BLE001 - one strategy that fails must not cost the others their runs
        return Computed(failure=f"{type(error).__name__}: {error}")
    charged = answer.spent is not None and task.epsilon != INFINITE
    return Computed(
        Outcome(
            problem=task.problem,
            strategy=task.strategy,
            epsilon=task.epsilon,
            seed=task.seed,
            measures=measure(answer.probability, split.test_labels),
            seconds=round(seconds, 3),
            spent=str(answer.spent) if charged else "",
            extras=dict(answer.extras),
        )
    )


@dataclass(frozen=True)
class Finish:
    """What could not be computed.

    Attributes:
        skipped: strategy -> why it cannot be run here and how that is changed; its other tasks are left out.
        failures: one sentence a run; all other runs are finished and kept.
    """

    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@dataclass
class _Clock:
    """Estimates the work that is left: a cell takes what its strategy's cells took on average on its problem."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def learn(self, outcome: Outcome) -> None:
        self.seconds.setdefault((outcome.problem, outcome.strategy), []).append(outcome.seconds)

    def guess(self, task: Task) -> float:
        known = self.seconds.get((task.problem, task.strategy))
        return sum(known) / len(known) if known else GUESS_SECONDS


def run_all(
    work: Work,
    out: Path,
    *,
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005
    kept: Callable[[], None] = lambda: None,
    finish: Finish | None = None,
) -> Finish:
    """Compute what the files lack.

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
    finish = Finish() if finish is None else finish
    with ExitStack() as stack:
        stores = {
            name: stack.enter_context(Store(cells_path(out, name), file_settings(name, work.seed), Outcome))
            for name in work.strategies
        }
        clock = _Clock()
        for store in stores.values():
            for outcome in store.finished.values():
                clock.learn(outcome)
        tasks = _missing(work, stores)
        left = dict.fromkeys(tasks)

        def wanted(task: Task) -> bool:
            return task.strategy not in finish.skipped

        done = 0.0
        progress("", done, sum(map(clock.guess, left)))
        for task, computed in computed_by(
            compute, tasks, work.jobs, wanted=lambda task: task.strategy not in finish.skipped
        ):
            left.pop(task, None)  # what was begun before its strategy was skipped is no longer counted
            if computed.outcome is not None:
                stores[task.strategy].add(computed.outcome)
                clock.learn(computed.outcome)
                done += computed.outcome.seconds
                kept()
            elif computed.unavailable:
                finish.skipped[task.strategy] = computed.unavailable
                left = dict.fromkeys(filter(wanted, left))
            else:
                finish.failures.append(f"{task.strategy} on {task.problem}, seed {task.seed}: {computed.failure}")
            progress(f"{task.strategy} on {task.problem}", done, done + sum(map(clock.guess, left)))
    return finish


def file_settings(name: str, seed: int) -> dict[str, object]:
    """The header of a strategy's file."""
    return {"strategy": name, "seed": seed, "settings": ENTRIES[name].settings}


def _missing(work: Work, stores: Mapping[str, Store[Outcome]]) -> list[Task]:
    return [
        task
        for task in work.tasks()
        if (task.problem, task.strategy, task.epsilon, task.seed) not in stores[task.strategy].finished
    ]
