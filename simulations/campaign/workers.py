"""Shares tasks out to processes, which end with this one however it ends."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from typing import Protocol, TypeVar

from protocol.errors import ConfigurationError, ExprilError

Task = TypeVar("Task")
Found = TypeVar("Found")
Progress = Callable[[str, float, float], None]
"""Called with (what was finished, finished work, all work), in any unit."""

LISTEN_SECONDS = 0.5
"""An interrupt may reach another thread; the one that waits only hears of it when it wakes."""
AHEAD = 3
"""Tasks per process that are handed out at a time: a process never waits, and little is left to call back."""
MOST_SHOWN = 3
RAY = "ray"


class FailedRunsError(ExprilError):
    """Runs failed; the text names the first.

    Attributes:
        failures: one sentence a run.
    """

    kind = "runs"

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = failures
        super().__init__(
            f"{len(failures)} run(s) failed, all others are kept; the same command tries them again: "
            + "; ".join(failures[:MOST_SHOWN])
        )


class UnavailableError(ConfigurationError):
    """What makes a cell cannot be run here: all its tasks are left out; the text says how that is changed."""

    kind = "installation"


class Workers(Protocol):
    """Processes elsewhere: `spread.RayWorkers`."""

    @property
    def jobs(self) -> int:
        """Tasks at the same time."""

    def computed_by(
        self,
        compute: Callable[[Task], Found],
        tasks: Sequence[Task],
        *,
        wanted: Callable[[Task], bool] | None,
        lost: Callable[[Task, str], Found],
    ) -> Iterator[tuple[Task, Found]]:
        """See the function of this name."""


Jobs = int | Workers
"""Processes of this machine; with 1, everything happens in this one. Or workers elsewhere."""


def computed_by(
    compute: Callable[[Task], Found],
    tasks: Sequence[Task],
    jobs: Jobs,
    *,
    lost: Callable[[Task, str], Found],
    wanted: Callable[[Task], bool] | None = None,
) -> Iterator[tuple[Task, Found]]:
    """Each task with what `compute` made of it, in the order in which they finish.

    Args:
        compute: a function that other processes can import.
        tasks: begun in this order.
        jobs: who computes.
        lost: what is found of a task whose worker was killed, and why; processes of this machine end the command then.
        wanted: asked before a task is begun; one that is not wanted any more is left out.
    """
    if not isinstance(jobs, int):
        yield from jobs.computed_by(compute, tasks, wanted=wanted, lost=lost)
        return
    left = (task for task in tasks if wanted is None or wanted(task))
    if jobs == 1:
        for task in left:
            yield task, compute(task)
        return
    # Fresh processes: a fork would copy threads' locks. They leave an interrupt to this one, which ends them: a pool
    # would first finish what it has begun.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=begin_worker)
    try:
        pending: dict[Future[Found], Task] = {}
        while True:
            pending |= {pool.submit(compute, task): task for task in islice(left, AHEAD * jobs - len(pending))}
            if not pending:
                break
            finished, _ = wait(pending, timeout=LISTEN_SECONDS, return_when=FIRST_COMPLETED)
            for future in finished:
                yield pending.pop(future), future.result()
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
        raise


def begin_worker() -> None:
    """Leave interrupts to the parent, and end with it however it ends: nobody would hear of the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def ray_address(workers: str) -> str:
    """Where the Ray cluster of `--workers` is; "" is this machine.

    Raises:
        ConfigurationError: something else was typed.
    """
    if workers == RAY:
        return ""
    if not workers.startswith(f"{RAY}://"):
        raise ConfigurationError(f"--workers is {RAY}, or {RAY}://host:port, not {workers!r}")
    return workers
