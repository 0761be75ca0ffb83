"""Flower's simulation engine (Ray): real ServerApp and ClientApps, in the engine's own processes.

The engine's ClientApps are stateless and run in any of its processes. So each curator is kept open by an actor of the
cluster for the whole simulation, and its node's ClientApp passes bytes to that actor.
"""

import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.simulation import run_simulation

from curator_node.client_app import make_client_app
from expril.report.provenance import cores
from learner_node.carriers.flower import FlowerCarrier, make_server_app
from learner_node.study.federation import Carrier
from protocol.carriage import ACTION, FIELD, RECORD
from protocol.errors import ConfigurationError
from simulations.carriers import Handle
from simulations.carriers.sites import open_simulated

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}
"""Environment that stops Ray's telemetry and its warnings about matters that are not ours."""
for _name, _value in QUIET.items():  # read when Ray is imported
    os.environ.setdefault(_name, _value)


import ray  # noqa: E402 - as above

PARTITION = "partition-id"
"""Key of a node's configuration that holds its index, from 0."""
WHO = "who"
"""Message type that asks a node for its curator; in simulations only."""
LOOK_SECONDS = 0.02
START_SECONDS = 300.0
"""Seconds allowed for the engine's processes to load Flower on a busy machine."""
FLOWER_LOG = "flwr"
STORE_BYTES = 80 * 2**20
"""Size of the memory shared by Ray's processes, which is hardly used."""
LONGEST_BASE = 40
"""Longest folder name of Ray's sockets, in characters; their full names may have about a hundred."""


class StoppedError(Exception):
    """The engine was stopped during a study."""


def serve(folders: Mapping[bytes, Path], work: Callable[[Carrier], None]) -> None:
    """Serve the folders by actors; a `simulations.carriers.Serve`."""
    stopped = threading.Event()
    with _cluster(), _silent():
        number = min(len(folders), max(1, int(ray.cluster_resources().get("CPU", 1))))
        places = list(folders.values())
        hosts = [
            Host(ray.remote(num_cpus=0, max_restarts=0)(_Curators).remote([str(place) for place in places[at::number]]))
            for at in range(number)
        ]
        curators = [(key, hosts[place % number]) for place, key in enumerate(folders)]

        def study(grid: Grid, _context: Context) -> None:
            watched = _Interruptible(grid, stopped)
            work(FlowerCarrier(watched, watched.curators(len(curators))))

        try:
            run_simulation(
                make_server_app(study),
                _client_app(curators),
                num_supernodes=len(curators),
                backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
            )
        finally:
            stopped.set()


@dataclass(frozen=True)
class Host:
    """An actor that keeps curators open: (public key, envelope) -> envelope. The engine's processes call it, too."""

    actor: Any

    def __call__(self, curator: bytes, data: bytes) -> bytes:
        """Let the curator answer, one request at a time. Raises what its `handle` raises."""
        reply: bytes = ray.get(self.actor.answer.remote(curator, data))
        return reply


class _Curators:
    """The curators of some folders, open in an actor's process."""

    def __init__(self, folders: list[str]) -> None:
        sites = [open_simulated(Path(folder)) for folder in folders]
        self._handles: dict[bytes, Handle] = {site.identity: site.handle for site in sites}

    def answer(self, curator: bytes, data: bytes) -> bytes:
        return self._handles[curator](data)


def _client_app(curators: list[tuple[bytes, Host]]) -> ClientApp:
    """The ClientApp of every node: node n belongs to curator n."""
    app = ClientApp()

    @app.query(ACTION)
    def answer(message: Message, context: Context) -> Message:
        key, host = curators[int(context.node_config[PARTITION])]
        reply: Message = make_client_app(partial(host, key))(message, context)
        return reply

    @app.query(WHO)
    def who(message: Message, context: Context) -> Message:
        key, _ = curators[int(context.node_config[PARTITION])]
        return Message(RecordDict({RECORD: ConfigRecord({FIELD: key})}), reply_to=message)

    return app


class _Interruptible:
    """A Grid whose `send_and_receive` polls more often and ends when the engine does."""

    def __init__(self, grid: Grid, stopped: threading.Event) -> None:
        self._grid = grid
        self._stopped = stopped

    def curators(self, number: int) -> dict[bytes, int]:
        """Ask all nodes for their curators, once all are online: public key -> node."""
        while len(nodes := list(self._grid.get_node_ids())) < number:
            self._look_later()
        questions = [Message(RecordDict(), node, f"query.{WHO}") for node in nodes]
        replies = self.send_and_receive(questions, timeout=START_SECONDS)
        return {bytes(reply.content[RECORD][FIELD]): reply.metadata.src_node_id for reply in replies}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        """Push and wait; replies that miss the timeout are left out."""
        waiting = set(self._grid.push_messages(messages))
        end = time.monotonic() + timeout
        replies: list[Message] = []
        while waiting and time.monotonic() < end:
            arrived = list(self._grid.pull_messages(waiting))
            waiting -= {reply.metadata.reply_to_message_id for reply in arrived}
            replies += arrived
            if not arrived:
                self._look_later()
        return replies

    def _look_later(self) -> None:
        if self._stopped.wait(LOOK_SECONDS):
            raise StoppedError


@contextmanager
def _cluster() -> Iterator[None]:
    """Context of a local Ray cluster, which also ends with this process.

    Raises ConfigurationError if it cannot start.
    """
    base = tempfile.gettempdir()
    folder = tempfile.mkdtemp(prefix="expril-ray-", dir=base if len(base) <= LONGEST_BASE else "/tmp")  # noqa: S108
    path = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")]))
    try:
        try:
            ray.init(
                address="local",
                num_cpus=cores(),
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                runtime_env={"env_vars": {"PYTHONPATH": path}},
                _temp_dir=folder,
                logging_level=logging.CRITICAL,
                log_to_driver=False,
            )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ConfigurationError(
                f"no Ray cluster can be started here ({reason}); ray start --head says why"
            ) from None
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _silent() -> Iterator[None]:
    """Context without Flower's log, which reports a deprecated entry and every action."""
    log = logging.getLogger(FLOWER_LOG)
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
