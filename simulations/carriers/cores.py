"""Curators in processes of this machine, one process a core, for simulations of hundreds of curators and more.

The learner stays in this process, and envelopes go through pipes: all requests of an exchange to a process at once,
and replies as they are ready, so that the learner checks some while curators make others.
"""

import gc
import logging
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from curator_node.ledger.checks import CheckedLedger
from curator_node.policy import Policy
from curator_node.records.schema_file import SchemaFile
from expril.report.provenance import cores
from protocol.envelopes import SigningKey
from simulations.carriers import Handle
from simulations.carriers.sites import CuratorFacts, Simulated, SiteOrder, facts_of, open_here

if TYPE_CHECKING:
    from learner_node.study.federation import Carrier

log = logging.getLogger(__name__)

STOP_SECONDS = 30.0
REPLIES = 8
"""Replies that a worker sends at once."""
PROGRAM = "import sys; from simulations.carriers.cores import serve; serve(int(sys.argv[1]))"
Parcel = tuple[pl.DataFrame, SchemaFile, Policy, Simulated, str, str]
"""The fields of a `SiteOrder`, its key as PEM."""
Answers = list[tuple[int, bytes | None]]
"""Some curators' places, and their replies; None where there is none."""


class Worker:
    """A process that keeps some curators open, in the order of its site orders."""

    def __init__(self) -> None:
        self.pipe, far = Pipe()
        path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
        with far:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                [sys.executable, "-c", PROGRAM, str(far.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                env={**os.environ, "PYTHONPATH": path},
            )

    def tell(self, request: object) -> None:
        """Hand over what the process waits for: what to open, then requests, at last None. `take` gives its replies.

        Raises ConnectionError: the process has ended.
        """
        self.pipe.send(request)

    def take(self) -> Any:
        """What the process sends next. Raises what it raised, and ConnectionError if it has ended."""
        try:
            reply = self.pipe.recv()
        except (EOFError, OSError):
            raise ConnectionError("a process with simulated curators has ended") from None
        if isinstance(reply, Exception):
            raise reply
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Replies(Mapping[bytes, bytes]):
    """Replies by curator's public key. They arrive while they are read; who asks how many there are waits for all."""

    def __init__(self, awaited: Mapping[Worker, Mapping[int, bytes]], lock: threading.Lock) -> None:
        self._awaited = {worker: dict(curators) for worker, curators in awaited.items()}
        self._there: dict[bytes, bytes] = {}
        self._order: list[bytes] = []
        self._lock = lock

    def __getitem__(self, curator: bytes) -> bytes:
        while curator not in self._there and self._arrives():
            pass
        return self._there[curator]

    def __iter__(self) -> Iterator[bytes]:
        place = 0
        while place < len(self._order) or self._arrives():
            yield from self._order[place : (place := len(self._order))]

    def __len__(self) -> int:
        while self._arrives():
            pass
        return len(self._there)

    def _arrives(self) -> bool:
        """Wait for more. False if there are no more."""
        with self._lock:
            before = len(self._order)
            while self._awaited and len(self._order) == before:
                ready = wait([worker.pipe for worker in self._awaited])
                for worker in [worker for worker in self._awaited if worker.pipe in ready]:
                    self._read(worker)
            return len(self._order) > before

    def _read(self, worker: Worker) -> None:
        curators = self._awaited[worker]
        try:
            answers: Answers = worker.take()
        except ConnectionError:
            curators.clear()  # they send no reply
        else:
            for place, reply in answers:
                curator = curators.pop(place)
                if reply is not None:
                    self._there[curator] = reply
                    self._order.append(curator)
        if not curators:
            del self._awaited[worker]


class PipeCarrier:
    """Carries envelopes to curators in workers; several threads may use it.

    `places`: curator's public key -> its worker, and its place among that worker's orders.
    """

    def __init__(self, places: Mapping[bytes, tuple[Worker, int]]) -> None:
        self._places = dict(places)
        self._turn, self._reads = threading.Lock(), threading.Lock()
        self._newest = Replies({}, self._reads)

    def exchange(self, requests: Mapping[bytes, bytes]) -> Replies:
        """See `learner_node.study.federation.Carrier`. A curator whose process has ended sends no reply."""
        batches: dict[Worker, list[tuple[int, bytes]]] = defaultdict(list)
        awaited: dict[Worker, dict[int, bytes]] = defaultdict(dict)
        for curator, data in requests.items():
            if curator in self._places:
                worker, place = self._places[curator]
                batches[worker].append((place, data))
                awaited[worker][place] = curator
        with self._turn:
            len(self._newest)  # no process has replies left that nobody has read
            for worker, batch in batches.items():
                try:
                    worker.tell(batch)
                except ConnectionError:
                    del awaited[worker]
            self._newest = Replies(awaited, self._reads)
            return self._newest


def stage(
    orders: Sequence[SiteOrder],
    ask: "Callable[[Mapping[str, CuratorFacts], Carrier], None]",
    ledgers: Path | None = None,
    *,
    processes: int | None = None,
) -> dict[str, CheckedLedger]:
    """A `simulations.carriers.stages.Stage`; `processes` is one a core, at most one a curator."""
    number = min(processes or cores(), len(orders))
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker()) for _ in range(number)]
        for first, worker in enumerate(workers):
            worker.tell(([_parcel(order) for order in orders[first::number]], ledgers))
        openings: list[list[CuratorFacts]] = [worker.take() for worker in workers]
        facts: dict[str, CuratorFacts] = {}
        places: dict[bytes, tuple[Worker, int]] = {}
        for index, order in enumerate(orders):
            place, first = divmod(index, number)
            facts[order.name] = openings[first][place]
            places[facts[order.name].identity] = workers[first], place
        carrier = PipeCarrier(places)
        ask(facts, carrier)
        carrier.exchange({})  # whatever the learner has not read is read
        for worker in workers:
            worker.tell(None)
        exports: list[list[CheckedLedger]] = [worker.take() for worker in workers]
        return {order.name: exports[index % number][index // number] for index, order in enumerate(orders)}


def serve(descriptor: int) -> None:
    """What a worker's process does until the pipe of this descriptor ends."""
    with suppress(EOFError, ConnectionError):
        _serve(Connection(descriptor))


def _serve(pipe: Connection) -> None:
    parcels, ledgers = pipe.recv()
    gc.disable()  # curators stay until the end
    with ExitStack() as stack:
        try:
            orders = list(map(_order, parcels))
            sites = [stack.enter_context(open_here(order, ledgers)) for order in orders]
        except Exception as error:  # noqa: BLE001 - raised again where the orders came from
            pipe.send(error)
            return
        handles = [order.simulated.handle_of(site) for order, site in zip(orders, sites, strict=True)]
        pipe.send([facts_of(site) for site in sites])
        del parcels, orders
        gc.freeze()
        gc.enable()
        while (batch := pipe.recv()) is not None:
            for start in range(0, len(batch), REPLIES):
                part = batch[start : start + REPLIES]
                pipe.send([(place, _reply(handles[place], data)) for place, data in part])
        pipe.send(_exports(sites))


def _parcel(order: SiteOrder) -> Parcel:
    return order.private, order.steward, order.policy, order.simulated, order.note, order.key.to_pem().decode()


def _order(parcel: Parcel) -> SiteOrder:
    *_, key = parcel
    return SiteOrder(*parcel[:5], SigningKey.from_pem(key.encode()))


def _reply(handle: Handle, data: bytes) -> bytes | None:
    """A curator's reply; None where there is none, as across a network."""
    try:
        return handle(data)
    except ConnectionError:
        return None
    except Exception as error:  # noqa: BLE001 - a curator that fails never stops the learner
        log.error("a simulated curator failed: %s", type(error).__name__)  # noqa: TRY400
        return None


def _exports(sites: Sequence[Any]) -> Any:
    """The checked ledgers, or the error that reading one raises."""
    try:
        return [site.export() for site in sites]
    except Exception as error:  # noqa: BLE001 - raised again on the other side
        return error
