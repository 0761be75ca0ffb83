"""Curators in processes of this machine, one process a core, for simulations of hundreds of curators and more.

The learner and its Flower Grid stay in this process, and hand each envelope to the process that keeps its curator open.
A script that starts such a simulation needs `if __name__ == "__main__":`, since new processes import it.
"""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import polars as pl

from curator_node.ledger.checks import CheckedLedger
from curator_node.policy import Policy
from curator_node.records.schema_file import SchemaFile
from expril.report.provenance import cores
from protocol.envelopes import SigningKey
from simulations.carriers import Carry, Handle
from simulations.carriers.sites import CuratorFacts, Simulated, SiteOrder, facts_of, open_here

STOP_SECONDS = 30.0
Parcel = tuple[pl.DataFrame, SchemaFile, Policy, Simulated, str, str]
"""The fields of a `SiteOrder`, its key as PEM."""


class Worker:
    """A process that keeps some curators open; it answers one request at a time. Threads may share it."""

    def __init__(self, orders: Sequence[SiteOrder], ledgers: Path | None) -> None:
        parcels = [_parcel(order) for order in orders]
        context = get_context("spawn")
        self._pipe, far = context.Pipe()
        self._lock = threading.Lock()
        self._process = context.Process(target=_serve, args=(far, ledgers), daemon=True)
        self._process.start()
        far.close()
        self._pipe.send(parcels)

    def facts(self) -> list[CuratorFacts]:
        """Public facts of its curators, in the orders' order, once all are open. Raises what opening one raised."""
        return cast("list[CuratorFacts]", self._take())

    def answer(self, place: int, data: bytes) -> bytes:
        """The reply of the curator at a place of the orders. Raises what its handle raised."""
        with self._lock:
            self._pipe.send((place, data))
            return cast("bytes", self._take())

    def export(self) -> list[CheckedLedger]:
        """The curators' ledgers, checked, in the orders' order; the last request."""
        with self._lock:
            self._pipe.send(None)
            return cast("list[CheckedLedger]", self._take())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.close()
        self._process.join(STOP_SECONDS)
        self._process.kill()

    def _take(self) -> Any:
        try:
            reply = self._pipe.recv()
        except EOFError:
            raise ConnectionError("a process with simulated curators has ended") from None
        if isinstance(reply, Exception):
            raise reply
        return reply


def stage(
    carry: Carry,
    orders: Sequence[SiteOrder],
    ask: Any,
    ledgers: Path | None = None,
    *,
    processes: int | None = None,
) -> dict[str, CheckedLedger]:
    """A `simulations.carriers.stages.Stage` once `carry` is given; `processes` is one a core, at most one a curator."""
    number = min(processes or cores(), len(orders))
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(orders[first::number], ledgers)) for first in range(number)]
        facts: dict[str, CuratorFacts] = {}
        handles: dict[bytes, Handle] = {}
        openings = [worker.facts() for worker in workers]
        for index, order in enumerate(orders):
            place, first = divmod(index, number)
            facts[order.name] = openings[first][place]
            handles[facts[order.name].identity] = partial(workers[first].answer, place)
        carry(handles, lambda carrier: ask(facts, carrier))
        exports = [worker.export() for worker in workers]
        return {order.name: exports[index % number][index // number] for index, order in enumerate(orders)}


def _parcel(order: SiteOrder) -> Parcel:
    return order.private, order.steward, order.policy, order.simulated, order.note, order.key.to_pem().decode()


def _order(parcel: Parcel) -> SiteOrder:
    *_, key = parcel
    return SiteOrder(*parcel[:5], SigningKey.from_pem(key.encode()))


def _serve(pipe: Connection, ledgers: Path | None) -> None:
    """What a worker's process does until the pipe ends."""
    with ExitStack() as stack:
        try:
            orders = list(map(_order, pipe.recv()))
            sites = [stack.enter_context(open_here(order, ledgers)) for order in orders]
        except Exception as error:  # noqa: BLE001 - raised again where the orders came from
            pipe.send(error)
            return
        handles = [order.simulated.handle_of(site) for order, site in zip(orders, sites, strict=True)]
        pipe.send([facts_of(site) for site in sites])
        del orders
        try:
            while (request := pipe.recv()) is not None:
                place, data = request
                pipe.send(_outcome(partial(handles[place], data)))
            pipe.send(_outcome(lambda: [site.export() for site in sites]))
        except (EOFError, ConnectionError):
            return


def _outcome(task: Any) -> Any:
    """What a task returns, or the error that it raises."""
    try:
        return task()
    except Exception as error:  # noqa: BLE001 - raised again on the other side
        return error
