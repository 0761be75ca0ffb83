"""Runs experiments: computes the cells that are missing from a campaign's files, and stores each at once.

A campaign is a list of tasks, a function that other processes can import, and files of cells. It can be resumed after a
kill. A task that fails is reported and does not affect the others.
"""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from threadpoolctl import threadpool_limits

from curator_node.records.dataset import StewardWarning
from expril.report.provenance import Provenance, commit_of, cores, note_provenance, now, versions
from protocol.errors import ConfigurationError, ExprilError
from simulations.campaign.store import AnyCell, Cell, Store, Task

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("protocol", "curator_node", "learner_node", "simulations", "expril", "lab")
"""Packages whose source determines the numbers; the last exists in a checkout only."""
GUESS_SECONDS = 5.0
"""Assumed seconds of a cell while none of its kind is finished."""
LISTEN_SECONDS = 0.5
"""Seconds between wake-ups of the waiting thread, since an interrupt may reach another thread."""
ADDRESS = "RAY_ADDRESS"
"""Ray's environment variable with a cluster's address, such as "10.0.0.1:6379"; campaigns follow it."""
AHEAD = 3
"""Tasks handed out per process: enough that it never waits, and few enough to call back."""
MOST_SHOWN = 3

Progress = Callable[[str, float, float], None]
"""Called with (finished task, finished work, total work); work is in any unit."""


class FailedRunsError(ExprilError):
    """Runs failed; the text names the first. `failures` has one sentence per run."""

    kind = "runs"

    def __init__(self, failures: Sequence[str]) -> None:
        self.failures = failures
        super().__init__(
            f"{len(failures)} run(s) failed, all others are kept; the same command tries them again: "
            + "; ".join(failures[:MOST_SHOWN])
        )


class UnavailableError(ConfigurationError):
    """The method that makes a cell cannot run here, so its tasks are left out; the text says how to enable it."""

    kind = "installation"


class TimedCell(Cell, Protocol):
    """A cell whose key is its task."""

    @property
    def key(self) -> Task:
        """Its task."""

    @property
    def seconds(self) -> float:
        """Duration in seconds; the runner measures it if it is 0."""


class Work(Protocol):
    """The work of one call: a `Task`, or several runs computed together. Its text names it to people."""

    @property
    def maker(self) -> str:
        """The method that makes its cells. If it is not installed, all its tasks are left out."""


class Batch(Work, Protocol):
    """Several tasks that one call computes together."""

    @property
    def work(self) -> float:
        """Amount of work, in any unit."""


AnyTimed = TypeVar("AnyTimed", bound=TimedCell)
AnyWork = TypeVar("AnyWork", bound=Work)


@dataclass(frozen=True)
class Computed(Generic[AnyCell]):
    """The result of a call. Errors are texts, since not all can be rebuilt in another process."""

    cells: Sequence[AnyCell] = ()
    failures: Sequence[str] = ()  # one sentence a run that failed
    unavailable: str = ""  # why the maker cannot be run here, and how that is changed; "" where it can


@dataclass
class Finish:
    """How far a session came. It is filled during the work, so that it can be read after an interrupt."""

    # of other environments, by name; asked after the first cell, as an interrupt at the end also reaches their
    # processes, which then say nothing
    read_versions: Callable[[], Mapping[str, str]] = dict
    kept: int = 0  # number of cells
    versions: Mapping[str, str] = field(default_factory=dict)  # the result of `read_versions`
    # maker -> why it cannot be run here; its other tasks are left out
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  # one sentence a run; all other runs are finished and kept

    def check(self) -> None:
        """Raise FailedRunsError if a run failed."""
        if self.failures:
            raise FailedRunsError(self.failures)


@lru_cache
def installed() -> dict[str, str]:
    """What determines the numbers: versions, and a digest of ExPriL's source."""
    digest = sha256()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + sha256(path.read_bytes()).digest())
    return versions({"ExPriL's source": digest.hexdigest()[:16]})


def says_nothing(_task: str, _done: float, _total: float) -> None:
    """A `Progress` that does nothing."""


def run_tasks(
    tasks: Sequence[AnyWork],
    compute: Callable[[AnyWork], Computed[AnyCell]],
    keep: Callable[[AnyWork, AnyCell], None],
    *,
    jobs: int,
    work: Callable[[AnyWork], float],
    progress: Progress = says_nothing,
    finish: Finish | None = None,
    cluster: str = "",
) -> Finish:
    """Compute tasks in parallel, started in their order; return what could not be computed.

    Args:
        tasks: the work to be done.
        compute: a function that other processes can import; anything it raises is one failure.
        keep: called with each finished cell.
        jobs: number of processes; 1 computes in this one.
        cluster: address of a Ray cluster that computes instead, if `jobs` is not 1; "" is this machine.
        work: a task's amount of work, in any unit; called again at each progress.
        progress: called after each task.
        finish: filled during the work; None makes one.
    """
    finish = Finish() if finish is None else finish
    skipped = finish.skipped
    waiting = {id(task): task for task in tasks}
    done = 0.0
    progress("", done, sum(map(work, tasks)))
    for task, computed in _computed(
        partial(_guarded, compute), (task for task in tasks if task.maker not in skipped), jobs, cluster
    ):
        waiting.pop(id(task), None)  # a task that was begun before its maker was skipped is no longer counted
        for cell in computed.cells:
            keep(task, cell)
            if not finish.kept:
                finish.versions = finish.read_versions()
            finish.kept += 1
        if computed.unavailable:
            skipped[task.maker] = computed.unavailable
            waiting = {key: other for key, other in waiting.items() if other.maker not in skipped}
        finish.failures += computed.failures
        done += work(task)
        progress(str(task), done, done + sum(map(work, waiting.values())))
    return finish


def run_missing(
    tasks: Sequence[Task],
    compute: Callable[[Task], AnyTimed],
    kind: type[AnyTimed],
    file_of: Callable[[Task], tuple[Path, Mapping[str, Any]]],
    *,
    jobs: int = 1,
    progress: Progress = says_nothing,
    finish: Finish | None = None,
) -> Finish:
    """Compute the cells that are missing from their files; return what could not be computed.

    A cell's work is estimated by the mean seconds of its maker's cells on its problem. Other arguments are as in
    `run_tasks`.

    Args:
        tasks: the tasks of all cells, including finished ones.
        compute: as in `run_tasks`.
        kind: type of the cells.
        file_of: maps a task to the file of its cell and the settings that the file begins with.
        jobs: as in `run_tasks`.
        progress: as in `run_tasks`; in estimated seconds.
        finish: as in `run_tasks`.

    Raises:
        ConfigurationError: a file of cells was begun with other settings, or another process works on it.
    """
    seconds: dict[tuple[str, str], list[float]] = {}

    def learn(cell: AnyTimed) -> None:
        seconds.setdefault(cell.key[:2], []).append(cell.seconds)

    def guess(task: Task) -> float:
        times = seconds.get(task[:2])
        return sum(times) / len(times) if times else GUESS_SECONDS

    with ExitStack() as stack:
        stores = {
            path: stack.enter_context(Store(path, settings, kind))
            for path, settings in dict(map(file_of, tasks)).items()
        }
        for store in stores.values():
            for cell in store.finished.values():
                learn(cell)

        def keep(task: Task, cell: AnyTimed) -> None:
            stores[file_of(task)[0]].add(cell)
            learn(cell)

        missing = [task for task in tasks if task not in stores[file_of(task)[0]].finished]
        return run_tasks(
            missing,
            partial(_one_cell, compute),
            keep,
            jobs=jobs,
            work=guess,
            progress=progress,
            finish=finish,
            cluster=os.environ.get(ADDRESS, ""),
        )


def run_batches(
    path: Path,
    settings: Mapping[str, Any],
    kind: type[AnyCell],
    batches: Callable[[Container[Any]], Sequence[Batch]],
    compute: Callable[[Any], Computed[AnyCell]],
    *,
    jobs: int = 1,
    progress: Progress = says_nothing,
    finish: Finish | None = None,
) -> Finish:
    """Compute the cells that are missing from one file, several per call; return what could not be computed.

    `settings` are those that the file at `path` begins with, and `kind` is the type of its cells. `batches` is called
    with the finished cells by key, and returns the batches still to be computed. Other arguments are as in `run_tasks`.

    Raises:
        ConfigurationError: the file was begun with other settings, or another process works on it.
    """
    with Store(path, settings, kind) as store:
        return run_tasks(
            batches(store.finished),
            compute,
            lambda _, cell: store.add(cell),
            jobs=jobs,
            work=lambda batch: batch.work,
            progress=progress,
            finish=finish,
            cluster=os.environ.get(ADDRESS, ""),
        )


@dataclass(frozen=True)
class Campaign:
    """A named experiment that one command runs."""

    name: str
    out: Path  # folder of results, where the provenance is noted
    seed: int  # of the first run
    jobs: int
    command: str  # as typed
    noise: str = "exact"  # its source, in words
    read_versions: Callable[[], Mapping[str, str]] = dict  # as of `Finish`

    @contextmanager
    def session(self) -> Iterator[Finish]:
        """Context of a session. At its end, however it ends, the origin of its cells is recorded.

        Raises FailedRunsError: some runs failed; all others are kept.
        """
        finish, start = Finish(self.read_versions), time.monotonic()
        try:
            yield finish
        finally:
            if finish.kept or finish.skipped:
                provenance = Provenance(
                    command=self.command,
                    created=now(),
                    seed=self.seed,
                    seconds=time.monotonic() - start,
                    jobs=self.jobs,
                    versions=versions(finish.versions),
                    noise=self.noise,
                    commit=commit_of(ROOT),
                    cores=cores(),
                    skipped=finish.skipped,
                )
                note_provenance(self.out, self.name, provenance)
        finish.check()


def _computed(
    compute: Callable[[AnyWork], Computed[AnyCell]], tasks: Iterator[AnyWork], jobs: int, cluster: str
) -> Iterator[tuple[AnyWork, Computed[AnyCell]]]:
    """Yield each task with its result, in order of completion."""
    if jobs == 1:
        for task in tasks:
            yield task, compute(task)
        return
    if cluster:
        from simulations.campaign.cluster import computed_there  # noqa: PLC0415 - Ray is an extra

        yield from computed_there(compute, tasks, cluster, ahead=AHEAD, seconds=LISTEN_SECONDS)
        return
    # Fresh processes: a fork would copy threads' locks. They leave an interrupt to this one, which ends them: a pool
    # would first finish what it has begun.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin_worker)
    try:
        pending: dict[Future[Computed[AnyCell]], AnyWork] = {}
        while True:
            pending |= {pool.submit(compute, task): task for task in islice(tasks, AHEAD * jobs - len(pending))}
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


def _begin_worker() -> None:
    """Ignore interrupts, which the parent handles, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _guarded(compute: Callable[[AnyWork], Computed[AnyCell]], task: AnyWork) -> Computed[AnyCell]:
    """Call `compute` with one BLAS thread and without warnings meant for stewards."""
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", StewardWarning)
            return compute(task)
    except UnavailableError as error:
        return Computed(unavailable=str(error))
    except Exception as error:  # noqa: BLE001 - one task that fails must not cost the others their runs
        return Computed(failures=(f"{task}: {type(error).__name__}: {error}",))


def _one_cell(compute: Callable[[Task], AnyTimed], task: Task) -> Computed[AnyTimed]:
    """Compute one cell; a cell without a duration gets the seconds of its call."""
    start = time.monotonic()
    cell: Any = compute(task)
    seconds = round(time.monotonic() - start, 3)
    return Computed((cell if cell.seconds else msgspec.structs.replace(cell, seconds=seconds),))
