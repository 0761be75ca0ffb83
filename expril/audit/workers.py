"""Tasks over worker processes of this machine."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import active_children, get_context

from threadpoolctl import threadpool_limits

from simulations.worker_processes import begin_worker


@dataclass(frozen=True)
class Task:
    """One piece of work.

    Attributes:
        name: for people.
        work: that another process can import; called without arguments.
        seconds: of one core, roughly; the longest are begun first, and the progress is told in them.
    """

    name: str
    work: Callable[[], object]
    seconds: float


def finished(tasks: Sequence[Task], workers: int) -> Iterator[tuple[int, object]]:
    """The place of each task in `tasks`, and what it gave, in the order in which they finish.

    Args:
        tasks: in any order.
        workers: processes; 1 works here.
    """
    order = sorted(range(len(tasks)), key=lambda place: -tasks[place].seconds)
    if workers == 1:
        for place in order:
            yield place, tasks[place].work()
        return
    # Fresh processes: a fork would copy the locks of threads. They leave an interrupt to this one, which ends them.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin)
    try:
        pending = {pool.submit(tasks[place].work): place for place in order}
        for future in as_completed(pending):
            yield pending[future], future.result()
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
        raise


def _begin() -> None:
    """One thread a process, beside what every worker begins with."""
    threadpool_limits(1)
    begin_worker()
