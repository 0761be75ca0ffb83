"""A Ray cluster: one of this machine, started for a while, or one that is named. All use of Ray is in this file.

Ray pickles what it carries between processes. So functions go there that its processes can import, paths, cells and
signed envelopes, but neither records nor keys; and no deployed curator or learner has anything to do with Ray.
"""

import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from protocol.errors import ConfigurationError

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}
"""Ray tells nobody of its use, and warns of nothing that is not ours."""
for _name, _value in QUIET.items():  # read when Ray is imported
    os.environ.setdefault(_name, _value)

import ray  # noqa: E402 - as above

OBJECT_BYTES = 80 * 2**20
"""Of the store that Ray's processes share; little is ever in it."""
CLIENT = "ray://"
CONNECT_SECONDS = 10.0
LONGEST_BASE = 40
"""Characters of the folder of a cluster's sockets, whose names may have about a hundred in all."""

Job = Any
"""A call that is under way."""


class LostProcessError(Exception):
    """The process that worked on a call is gone; another one takes the next."""


@dataclass(frozen=True)
class Host:
    """A process of the cluster that made something and keeps it; calls go there, one at a time.

    It may be given to other processes of the cluster.
    """

    actor: Any

    def __call__(self, *values: Any) -> Any:
        """Call what was made; raises what it raises."""
        return ray.get(self.actor.call.remote(*values))


class Cluster:
    """A cluster that this process is connected to."""

    @property
    def cpus(self) -> int:
        """Its processors, at this moment."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[..., Any], *values: Any) -> Job:
        """Begin a call, on one processor; it is never begun a second time."""
        return ray.remote(num_cpus=1, max_retries=0)(_named).remote(function, *values)

    def finished(self, jobs: Sequence[Job], timeout: float) -> list[Job]:
        """Those that have ended, once one has or seconds have passed."""
        return list(ray.wait(list(jobs), num_returns=1, timeout=timeout)[0])

    def result(self, job: Job) -> Any:
        """Of a call that has ended; raises what it raised.

        Raises:
            LostProcessError: its process was killed, by the system or by somebody.
        """
        try:
            return ray.get(job)
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError, ray.exceptions.NodeDiedError):
            raise LostProcessError from None

    def hosts(self, make: Callable[..., Callable[..., Any]], each: Sequence[Any]) -> list[Host]:
        """Start processes, one for each value; each makes something of it and keeps that. Raises what `make` raises."""
        started = [Host(ray.remote(num_cpus=0, max_restarts=0)(_Keeper).remote()) for _ in each]
        ray.get([host.actor.make.remote(make, value) for host, value in zip(started, each, strict=True)])
        return started


@contextmanager
def cluster(address: str = "", *, cpus: int | None = None) -> Iterator[Cluster]:
    """Connect to a cluster, or start one on this machine; it ends with the context, and with this process.

    Args:
        address: "ray://host:port" of a Ray client server; "" is the environment's `RAY_ADDRESS`, or a new local one.
        cpus: of a new one; None takes all that this process may use.

    Raises:
        ConfigurationError: nothing answers there, or no cluster can be started.
    """
    where = address or os.environ.get("RAY_ADDRESS", "")
    options: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    folder = ""
    if not where:
        base = tempfile.gettempdir()
        folder = tempfile.mkdtemp(prefix="expril-ray-", dir=base if len(base) <= LONGEST_BASE else "/tmp")  # noqa: S108
        path = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")]))
        options |= {
            "address": "local",
            "num_cpus": cpus or _cores(),
            "include_dashboard": False,
            "object_store_memory": OBJECT_BYTES,
            "runtime_env": {"env_vars": {"PYTHONPATH": path}},
            "_temp_dir": folder,
        }
    try:
        _connect(where, options)
        yield Cluster()
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _connect(where: str, options: dict[str, Any]) -> None:
    try:
        if where.startswith(CLIENT):
            host, _, port = where.removeprefix(CLIENT).rpartition(":")
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()  # Ray itself tries for a minute
        ray.init(**({"address": where} | options))
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        what = f"no Ray cluster answers at {where}" if where else "no Ray cluster can be started here"
        reason = str(error).strip().partition("\n")[0]
        remedy = (
            "see that it runs, and that the port is its Ray client server's" if where else "ray start --head says why"
        )
        raise ConfigurationError(f"{what} ({reason}); {remedy}") from None


class _Keeper:
    """What a host's process makes and keeps."""

    def make(self, make: Callable[..., Callable[..., Any]], value: Any) -> None:
        self._made = make(value)

    def call(self, *values: Any) -> Any:
        return self._made(*values)


def _named(function: Callable[..., Any], *values: Any) -> Any:
    return function(*values)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
