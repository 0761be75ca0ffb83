"""Runs of an experiment: several are computed together, their networks too, and each leaves one cell.

Each run has a thread of its own, which waits when it needs a network. When all unfinished runs wait, the last of them
trains all the networks at once. So the runs alone decide which networks share a computation, not timing. One thread
works at a time, so that threads do not compete for the interpreter.
"""

import hashlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from lab.reproduction.experiments import EXPERIMENTS, Setup
from learner_node.models.networks import TrainedNetwork, TrainingSet, train_networks
from learner_node.models.training_options import TrainingOptions
from learner_node.strategies.base import Trainer
from simulations.campaign.runner import LISTEN_SECONDS, Computed
from simulations.campaign.store import Task

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class _Order:
    data: TrainingSet
    options: TrainingOptions
    network: TrainedNetwork | None = None
    error: BaseException | None = None

    @property
    def finished(self) -> bool:
        return self.network is not None or self.error is not None


class StoppedError(Exception):
    """All runs were stopped from outside."""


class Lockstep:
    """The meeting point of `parties` threads.

    Each thread trains within its `turn`.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._waiting: dict[int, _Order] = {}
        self._stopped = False
        self._met = threading.Condition()

    def trainer(self, party: int) -> Trainer:
        """A `Trainer` for one thread; its number settles the order in which networks are stacked.

        What it has trained is not trained again: without noise the first hypotheses of C and I are one.
        """
        networks: dict[tuple[object, ...], TrainedNetwork] = {}

        def train(data: TrainingSet, options: TrainingOptions) -> TrainedNetwork:
            key = (options, data.seed, *(_content(values) for values in (data.X, data.y, data.weights)))
            if key not in networks:
                networks[key] = trained(data, options)
            return networks[key]

        def trained(data: TrainingSet, options: TrainingOptions) -> TrainedNetwork:
            order = _Order(data, options)
            self._waiting[party] = order
            self._train_if_all_wait()
            self._met.wait_for(lambda: order.finished or self._stopped)
            if self._stopped:
                raise StoppedError
            if order.error is not None:
                raise RuntimeError("networks that were trained together failed") from order.error
            if order.network is None:
                raise AssertionError("an order is done when it has a network or an error")
            return order.network

        return train

    def stop(self) -> None:
        """Let no thread train or begin any more. May be called while another thread works."""
        self._stopped = True
        if self._met.acquire(blocking=False):
            self._met.notify_all()
            self._met.release()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The work of one thread, while no other works; afterwards the thread trains no more."""
        with self._met:
            try:
                if self._stopped:
                    raise StoppedError
                yield
            finally:
                self._parties -= 1
                self._train_if_all_wait()
                if self._stopped:
                    self._met.notify_all()

    def _train_if_all_wait(self) -> None:
        if self._stopped or not self._waiting or len(self._waiting) < self._parties:
            return
        orders = [self._waiting[party] for party in sorted(self._waiting)]
        self._waiting = {}
        groups: dict[TrainingOptions, list[_Order]] = {}
        for order in orders:
            groups.setdefault(order.options, []).append(order)
        for options, group in groups.items():
            try:
                networks = train_networks([order.data for order in group], options)
            except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
                for order in group:
                    order.error = error
            else:
                for order, network in zip(group, networks, strict=True):
                    order.network = network
        self._met.notify_all()


def _content(values: ArrayLike | None) -> tuple[tuple[int, ...], bytes]:
    array = np.empty(0) if values is None else np.asarray(values, np.float64)
    return array.shape, hashlib.sha256(array.tobytes()).digest()


def run_together(
    items: Sequence[Item], work: Callable[[Item, Trainer], Result]
) -> tuple[dict[int, Result], dict[int, Exception]]:
    """Results of `work(item, train)` by place, and the errors of items that failed; each item has a thread.

    Networks are trained together. An interrupt stops every study where it next needs a network.
    """
    meeting = Lockstep(len(items))
    results: dict[int, Result] = {}
    failed: dict[int, Exception] = {}

    def run(party: int) -> None:
        try:
            with meeting.turn():
                results[party] = work(items[party], meeting.trainer(party))
        except Exception as error:  # noqa: BLE001 - handed to the caller
            failed[party] = error

    threads = [
        threading.Thread(target=run, args=(party,), name=f"study {party}", daemon=True) for party in range(len(items))
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(LISTEN_SECONDS)
    finally:
        meeting.stop()
    return results, failed


STACKED_PARAMETERS = 40_000
"""Networks of more parameters gain nothing from being stacked by the dozen, and are trained with few runs at a time."""
MANY_RUNS, FEW_RUNS = 20, 5
MANY_NETWORKS = 100
"""Runs of so many networks are computed a fifth as many at a time, so that little is lost where one is killed."""


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of one run on one data set."""

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
    parts_of = []
    for name in dict.fromkeys(task.problem for task in tasks):
        runs, setup = [task.seed for task in tasks if task.problem == name], setups[name]
        size = MANY_RUNS if _parameters(setup) <= STACKED_PARAMETERS else FEW_RUNS
        if EXPERIMENTS[experiment].networks(setup) > MANY_NETWORKS:
            size //= 5
        parts = (tuple(runs[start : start + size]) for start in range(0, len(runs), size))
        parts_of += [Chunk(experiment, name, setup, part, seed) for part in parts]
    return sorted(parts_of, key=lambda chunk: chunk.work, reverse=True)


def compute(chunk: Chunk) -> Computed[Finished]:
    """All runs of a chunk, their networks trained together."""
    measure = EXPERIMENTS[chunk.experiment].measure

    def work(run: int, train: Trainer) -> dict[str, float]:
        return measure(chunk.setup.laboratory(run, chunk.seed, train), chunk.setup)

    start = time.monotonic()
    results, failed = run_together(chunk.runs, work)
    seconds = (time.monotonic() - start) / len(chunk.runs)
    return Computed(
        cells=[
            Finished(
                chunk.dataset, chunk.runs[place], {name: _stored(x) for name, x in values.items()}, round(seconds, 3)
            )
            for place, values in sorted(results.items())
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
