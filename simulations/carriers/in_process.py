"""A Flower Grid in threads: real ServerApp and ClientApps, no server, no Ray, milliseconds a round.

Every message goes through Flower's own serialisation in both directions, so no state is shared by accident.
"""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from curator_node.client_app import make_client_app
from learner_node.carriers.flower import FlowerCarrier, make_server_app
from learner_node.study.federation import Carrier
from protocol.flower_internals import NodeInfo, Run, TaskIdentity, message_from_proto, message_to_proto
from simulations.carriers import Handle

log = logging.getLogger(__name__)

UNKNOWN_NODE = 5
"""Flower's error code for a node that is not there."""
APP_FAILED = 2
"""Flower's error code for a ClientApp that raised. Unlike Flower's error, ours omits the exception's text."""
SERVER_NODE = 1
FIRST_NODE = 100


class InProcessGrid(Grid):
    """Carries messages to ClientApps in a thread pool; one message at a time per node, as a SuperNode does.

    Args:
        nodes: node id -> ClientApp.
        run_id: Flower's number of the run.
        workers: threads.
    """

    def __init__(self, nodes: Mapping[int, ClientApp], *, run_id: int = 1, workers: int = 4) -> None:
        self._nodes = dict(nodes)
        self._run = Run.create_empty(run_id)
        self._locks = {node: threading.Lock() for node in nodes}
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="curator")
        self._pending: dict[str, Future[Message]] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def set_run(self, run: Run) -> None:
        """Flower's hook; takes the run's description."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run's description."""
        return self._run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """A message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> list[int]:
        """All nodes."""
        return list(self._nodes)

    def get_nodes(self) -> list[NodeInfo]:
        """All nodes, as Flower describes them."""
        return [NodeInfo(node_id=node) for node in self._nodes]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        """Serialise, hand to the pool; the messages' ids."""
        return [self._push(message) for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """Replies that are there, once each."""
        ready = [key for key in message_ids if key in self._pending and self._pending[key].done()]
        return [self._pending.pop(key).result() for key in ready]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Push and wait; replies that miss the timeout are left out, as in Flower."""
        end = None if timeout is None else time.monotonic() + timeout
        replies = []
        for key in self.push_messages(messages):
            seconds = None if end is None else max(0.0, end - time.monotonic())
            try:
                replies.append(self._pending[key].result(seconds))
            except TimeoutError:
                continue
            finally:
                self._pending.pop(key, None)
        return replies

    def _push(self, message: Message) -> str:
        key = str(next(self._numbers))
        metadata = message.metadata
        metadata.__dict__["_run_id"] = self._run.run_id
        metadata.__dict__["_src_node_id"] = SERVER_NODE
        metadata.__dict__["_message_id"] = key
        self._pending[key] = self._pool.submit(self._deliver, _copy(message))
        return key

    def _deliver(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        app = self._nodes.get(node)
        if app is None:
            return _copy(Message(Error(UNKNOWN_NODE, "unknown node"), reply_to=message))
        with self._locks[node]:
            context = Context(run_id=self._run.run_id, node_id=node, node_config={}, state=RecordDict(), run_config={})
            try:
                return _copy(app(message=message, context=context))
            except Exception as error:  # noqa: BLE001 - as across a network: a failing node never stops the learner
                log.error("the ClientApp of node %d raised %s", node, type(error).__name__)  # noqa: TRY400
                return _copy(Message(Error(APP_FAILED, ""), reply_to=message))


def run_in_process(server: ServerApp, nodes: Mapping[int, ClientApp], *, workers: int = 4) -> None:
    """Run a ServerApp against ClientApps in this process; what it raises is raised here."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SERVER_NODE, 1
    with InProcessGrid(nodes, workers=workers) as grid:
        context = Context(run_id=1, node_id=SERVER_NODE, node_config={}, state=RecordDict(), run_config={})
        server(grid=grid, context=context)


def flower_nodes(handles: Mapping[bytes, Handle]) -> tuple[dict[int, ClientApp], dict[bytes, int]]:
    """Turn handles (by curators' public keys) into Flower nodes; also return each key's node."""
    addresses = {identity: FIRST_NODE + number for number, identity in enumerate(handles)}
    return {addresses[identity]: make_client_app(handle) for identity, handle in handles.items()}, addresses


def carry(handles: Mapping[bytes, Handle], work: Callable[[Carrier], None]) -> None:
    """Carry envelopes through an `InProcessGrid`; a `simulations.carriers.Carry`."""
    nodes, addresses = flower_nodes(handles)
    run_in_process(make_server_app(lambda grid, _context: work(FlowerCarrier(grid, addresses))), nodes)


def _copy(message: Message) -> Message:
    """Pass a message through Flower's wire format and back."""
    return message_from_proto(message_to_proto(message))
