"""A cell of the comparison: what one strategy gave on one run of one problem at one epsilon; which ones are wanted."""

import time
from collections.abc import Sequence

import msgspec

from lab.cells import INFINITE, TaskCell, shortest
from lab.comparison.contestants import CONTESTANTS, Contestant
from lab.comparison.measures import Measures, measure
from lab.problems import PROBLEMS, load_split
from protocol.rationals import parse_rational
from simulations.campaign.store import Task
from simulations.campaign.study import Order


class Outcome(TaskCell, frozen=True):
    """One cell: the problem is a key of `PROBLEMS`, the maker one of `CONTESTANTS`.

    Attributes:
        measures: on the test records.
        seconds: from the records to the predictions.
        spent: exact epsilon by the ledger of the costliest curator, "" for a peer, whose library accounts for it, and
            for what is not private.
        extras: further numbers by name. `estimated_accuracy`, `interval_low` and `interval_high` are what the learner
            itself claims, in percent.
    """

    maker: str = msgspec.field(name="strategy")
    measures: Measures
    seconds: float
    spent: str = ""
    extras: dict[str, float] = msgspec.field(default_factory=dict)


def tasks(order: Order) -> list[Task]:
    """All cells, the first run of everything before the second of anything."""
    size = order.size
    epsilons = shortest(size.epsilons)
    return [
        Task(problem, name, epsilon, order.seed + run)
        for run in range(size.repeats)
        for problem in size.axes["datasets"]
        for name in size.axes["strategies"]
        if run < runs_of(CONTESTANTS[name], problem, size.repeats)
        for epsilon in asked_epsilons(CONTESTANTS[name], epsilons)
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


def cells_file(task: Task) -> str:
    """The file of a strategy's cells, so that new strategies are added without touching the others."""
    return f"cells/{task.maker.replace('*', '_star')}.jsonl"


def file_settings(name: str, seed: int) -> dict[str, object]:
    """What a strategy's file begins with."""
    return {"strategy": name, "seed": seed, "settings": CONTESTANTS[name].settings}


def compute(task: Task) -> Outcome:
    """One cell."""
    split = load_split(task.problem, task.seed)
    start = time.monotonic()
    answer = CONTESTANTS[task.maker].solve(split, None if task.epsilon == INFINITE else parse_rational(task.epsilon))
    seconds = time.monotonic() - start if answer.seconds is None else answer.seconds
    charged = answer.spent is not None and task.epsilon != INFINITE
    spent = str(answer.spent) if charged else ""
    return Outcome(*task, measure(answer.probability, split.test_labels), round(seconds, 3), spent, dict(answer.extras))
