"""A campaign's tasks on a Ray cluster of several machines, each a Ray task with one core.

It is loaded only where `RAY_ADDRESS` names a cluster, since Ray is an extra. A task of a machine that is lost runs
again on another one. What a task finds on its machine's disk, such as data sets, has to be on every machine.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

import ray

from protocol.errors import ConfigurationError

AnyTask = TypeVar("AnyTask")
AnyResult = TypeVar("AnyResult")


def _result(compute: Callable[[AnyTask], AnyResult], task: AnyTask) -> AnyResult:
    return compute(task)


def computed_there(
    compute: Callable[[AnyTask], AnyResult], tasks: Iterator[AnyTask], address: str, *, ahead: int, seconds: float
) -> Iterator[tuple[AnyTask, AnyResult]]:
    """Yield each task with its result, in order of completion.

    Args:
        compute: a function that the cluster's processes can import from this process's path; it raises nothing.
        tasks: taken as cores become free.
        address: of the cluster.
        ahead: tasks handed out per core.
        seconds: between two looks at how many cores there are.

    Raises:
        ConfigurationError: no cluster answers there.
    """
    path = os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")]))
    try:
        ray.init(
            address=address,
            runtime_env={"env_vars": {"PYTHONPATH": path}},
            logging_level=logging.CRITICAL,
            log_to_driver=False,
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigurationError(f"no Ray cluster answers at {address} ({reason})") from None
    try:
        call = ray.remote(num_cpus=1, max_retries=-1)(_result)
        pending: dict[ray.ObjectRef, AnyTask] = {}
        while True:
            room = ahead * max(1, int(ray.cluster_resources().get("CPU", 1))) - len(pending)
            pending |= {call.remote(compute, task): task for task in islice(tasks, max(0, room))}
            if not pending:
                break
            finished, _ = ray.wait(list(pending), timeout=seconds)
            for reference in finished:
                result = ray.get(reference)
                yield pending.pop(reference), result
    finally:
        ray.shutdown()
