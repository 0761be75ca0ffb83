"""Trains the networks of several studies together: each study runs in a thread of its own and waits for the others.

A study stops where it needs a network. Once every study that still runs has stopped, whoever came last trains all the
networks at once. Which networks share a computation is then settled by the studies alone, not by timing. One thread
works at a time, so that they do not fight over the interpreter.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from learner_node.models.networks import TrainedNetwork, TrainingSet, train_networks
from learner_node.models.training_options import TrainingOptions
from learner_node.strategies.base import Trainer
from simulations.campaign.runner import LISTEN_SECONDS

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass
class _Order:
    data: TrainingSet
    options: TrainingOptions
    network: TrainedNetwork | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.network is not None or self.error is not None


class StoppedError(Exception):
    """The whole was stopped from outside."""


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
        """A `Trainer` for one thread; its number settles the order in which networks are stacked."""

        def train(data: TrainingSet, options: TrainingOptions) -> TrainedNetwork:
            order = _Order(data, options)
            self._waiting[party] = order
            self._train_if_all_wait()
            self._met.wait_for(lambda: order.done or self._stopped)
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
        """All that one thread does, while no other one works; at its end it trains no more."""
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


def run_together(
    items: Sequence[Item], work: Callable[[Item, Trainer], Found]
) -> tuple[dict[int, Found], dict[int, Exception]]:
    """`work(item, train)` for every item, each in a thread; networks are trained together.

    An interrupt stops every study where it next needs a network.

    Returns:
        The results, and the errors of the items that failed, by place.
    """
    meeting = Lockstep(len(items))
    found: dict[int, Found] = {}
    failed: dict[int, Exception] = {}

    def run(party: int) -> None:
        try:
            with meeting.turn():
                found[party] = work(items[party], meeting.trainer(party))
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
    return found, failed
