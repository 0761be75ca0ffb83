"""The one runner of all experiments: computes the cells that a campaign's files lack, and keeps each at once.

A campaign is a list of tasks, a function that other processes can import, and files of cells. It goes on after a kill;
what fails is named and costs the others nothing.
"""

import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from threadpoolctl import threadpool_limits

from curator_node.records.dataset import StewardWarning
from expril.report.provenance import Provenance, commit_of, cores, note_provenance, now, versions
from simulations.campaign.store import AnyCell, Cell, Store, Task
from simulations.campaign.workers import FailedRunsError, Jobs, Progress, UnavailableError, computed_by

ROOT = Path(__file__).resolve().parents[2]
GUESS_SECONDS = 5.0
"""Of a cell of which nothing is known yet."""


class MadeCell(Cell, Protocol):
    """A cell whose key is its task."""

    @property
    def key(self) -> Task:
        """Which cell it is."""

    @property
    def seconds(self) -> float:
        """That it took; 0 lets the runner say it."""


class Wanted(Protocol):
    """What one call computes: a `Task`, or several runs that are computed together; its text names it to people."""

    @property
    def maker(self) -> str:
        """Who makes its cells: where that is not installed, all its tasks are left out."""


class Batch(Wanted, Protocol):
    """Several tasks that one call computes together."""

    @property
    def work(self) -> float:
        """In any unit."""


AnyMade = TypeVar("AnyMade", bound=MadeCell)
AnyTask = TypeVar("AnyTask", bound=Wanted)


@dataclass(frozen=True)
class Computed(Generic[AnyCell]):
    """What a task gave. Errors travel as text: not all can be rebuilt in another process.

    Attributes:
        cells: those that are finished.
        failures: one sentence a run that failed.
        unavailable: why the maker cannot be run here, and how that is changed; "" where it can.
    """

    cells: Sequence[AnyCell] = ()
    failures: Sequence[str] = ()
    unavailable: str = ""


@dataclass
class Finish:
    """How far a session came; filled while the work goes on, for whoever wants it after an interrupt.

    Attributes:
        read_versions: of other environments, by name; asked after the first cell, as an interrupt at the end also
            reaches their processes, which then say nothing.
        kept: number of cells.
        versions: what `read_versions` said.
        skipped: maker -> why it cannot be run here; its other tasks are left out.
        failures: one sentence a run; all other runs are finished and kept.
    """

    read_versions: Callable[[], Mapping[str, str]] = dict
    kept: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise FailedRunsError where a run failed."""
        if self.failures:
            raise FailedRunsError(self.failures)


def says_nothing(_what: str, _done: float, _total: float) -> None:
    """A `Progress` that nobody watches."""


def run_tasks(
    tasks: Sequence[AnyTask],
    compute: Callable[[AnyTask], Computed[AnyCell]],
    keep: Callable[[AnyTask, AnyCell], None],
    *,
    jobs: Jobs,
    work: Callable[[AnyTask], float],
    progress: Progress = says_nothing,
    finish: Finish | None = None,
) -> Finish:
    """Compute tasks in their order, side by side.

    Args:
        tasks: what is missing.
        compute: a function that other processes can import; whatever it raises is one failure.
        keep: given each finished cell.
        jobs: who computes.
        work: of a task, in any unit; asked anew whenever progress is told.
        progress: called with (what was finished, finished work, all work).
        finish: filled while the work goes on; None makes one.

    Returns:
        What could not be computed.
    """
    finish = Finish() if finish is None else finish
    skipped = finish.skipped
    left = {id(task): task for task in tasks}
    done = 0.0
    progress("", done, sum(map(work, tasks)))
    found: Iterator[tuple[AnyTask, Computed[AnyCell]]] = computed_by(
        partial(_guarded, compute), tasks, jobs, lost=_lost, wanted=lambda task: task.maker not in skipped
    )
    for task, computed in found:
        left.pop(id(task), None)  # what was begun before its maker was skipped is no longer counted
        for cell in computed.cells:
            keep(task, cell)
            if not finish.kept:
                finish.versions = finish.read_versions()
            finish.kept += 1
        if computed.unavailable:
            skipped[task.maker] = computed.unavailable
            left = {name: other for name, other in left.items() if other.maker not in skipped}
        finish.failures += computed.failures
        done += work(task)
        progress(str(task), done, done + sum(map(work, left.values())))
    return finish


def run_missing(
    tasks: Sequence[Task],
    compute: Callable[[Task], AnyMade],
    kind: type[AnyMade],
    file_of: Callable[[Task], tuple[Path, Mapping[str, Any]]],
    *,
    jobs: Jobs = 1,
    progress: Progress = says_nothing,
    finish: Finish | None = None,
) -> Finish:
    """Compute the cells that their files lack; a cell takes what its maker's took on average on its problem.

    Args:
        tasks: what is wanted, whether it is there or not.
        compute: a function that other processes can import; whatever it raises is one failure.
        kind: of the cells.
        file_of: a task -> the file of its cell and the settings that this file begins with.
        jobs: who computes.
        progress: called with (what was finished, seconds of work done, seconds of all work), estimated.
        finish: filled while the work goes on; None makes one.

    Returns:
        What could not be computed.

    Raises:
        ConfigurationError: a file of cells was begun with other settings, or another process works on it.
    """
    seconds: dict[tuple[str, str], list[float]] = {}

    def learn(cell: AnyMade) -> None:
        seconds.setdefault(cell.key[:2], []).append(cell.seconds)

    def guess(task: Task) -> float:
        known = seconds.get(task[:2])
        return sum(known) / len(known) if known else GUESS_SECONDS

    with ExitStack() as stack:
        stores = {
            path: stack.enter_context(Store(path, settings, kind))
            for path, settings in dict(map(file_of, tasks)).items()
        }
        for store in stores.values():
            for cell in store.finished.values():
                learn(cell)

        def keep(task: Task, cell: AnyMade) -> None:
            stores[file_of(task)[0]].add(cell)
            learn(cell)

        missing = [task for task in tasks if task not in stores[file_of(task)[0]].finished]
        return run_tasks(
            missing, partial(_one_cell, compute), keep, jobs=jobs, work=guess, progress=progress, finish=finish
        )


def run_batches(
    path: Path,
    settings: Mapping[str, Any],
    kind: type[AnyCell],
    batches: Callable[[Container[Any]], Sequence[Batch]],
    compute: Callable[[Any], Computed[AnyCell]],
    *,
    jobs: Jobs = 1,
    progress: Progress = says_nothing,
    finish: Finish | None = None,
) -> Finish:
    """Compute the cells that one file lacks, several in a call.

    Args:
        path: of the file of cells.
        settings: that it begins with.
        kind: of the cells.
        batches: the keys that the file has -> what is missing.
        compute: a function that other processes can import; whatever it raises is one failure.
        jobs: who computes.
        progress: called with (what was finished, finished work, all work).
        finish: filled while the work goes on; None makes one.

    Returns:
        What could not be computed.

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
        )


@dataclass(frozen=True)
class Campaign:
    """A named experiment, as one command runs it.

    Attributes:
        name: of the experiment.
        out: folder of results, where the provenance is noted.
        seed: of the first run.
        jobs: who computes.
        command: as typed.
        noise: its source, in words.
        read_versions: see `Finish`.
    """

    name: str
    out: Path
    seed: int
    jobs: Jobs
    command: str
    noise: str = "OpenDP"
    read_versions: Callable[[], Mapping[str, str]] = dict

    @contextmanager
    def session(self) -> Iterator[Finish]:
        """However it ends, where its cells come from is noted.

        Raises:
            FailedRunsError: some runs failed; all others are kept.
        """
        finish, start = Finish(self.read_versions), time.monotonic()
        try:
            yield finish
        finally:
            if finish.kept or finish.skipped:
                where = Provenance(
                    command=self.command,
                    created=now(),
                    seed=self.seed,
                    seconds=time.monotonic() - start,
                    jobs=self.jobs if isinstance(self.jobs, int) else self.jobs.jobs,
                    workers="" if isinstance(self.jobs, int) else str(self.jobs),
                    versions=versions(finish.versions),
                    noise=self.noise,
                    commit=commit_of(ROOT),
                    cores=cores(),
                    skipped=finish.skipped,
                )
                note_provenance(self.out, self.name, where)
        finish.check()

    def run_file(
        self,
        path: Path,
        tasks: Sequence[Task],
        compute: Callable[[Task], AnyMade],
        kind: type[AnyMade],
        progress: Progress = says_nothing,
        **settings: object,
    ) -> None:
        """A session of `run_missing` with one file of cells.

        Args:
            path: of the file.
            tasks: what is wanted, whether it is there or not.
            compute: a function that other processes can import.
            kind: of the cells.
            progress: told of finished and estimated work.
            settings: what the numbers depend on, beside the experiment.

        Raises:
            ConfigurationError: the file was begun with other settings, or another process works on it.
            FailedRunsError: some runs failed; all others are kept.
        """
        file = path, {"experiment": self.name, **settings}
        with self.session() as finish:
            run_missing(tasks, compute, kind, lambda _: file, jobs=self.jobs, progress=progress, finish=finish)


def _guarded(compute: Callable[[AnyTask], Computed[AnyCell]], task: AnyTask) -> Computed[AnyCell]:
    """In whichever process: one thread for matrices, and nothing of what stewards would be warned of."""
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", StewardWarning)
            return compute(task)
    except UnavailableError as error:
        return Computed(unavailable=str(error))
    except Exception as error:  # noqa: BLE001 - one task that fails must not cost the others their runs
        return Computed(failures=(f"{task}: {type(error).__name__}: {error}",))


def _lost(task: AnyTask, why: str) -> Computed[AnyCell]:
    return Computed(failures=(f"{task}: {why}",))


def _one_cell(compute: Callable[[Task], AnyMade], task: Task) -> Computed[AnyMade]:
    """A cell that does not say how long it took gets the seconds of its call."""
    start = time.monotonic()
    cell: Any = compute(task)
    seconds = round(time.monotonic() - start, 3)
    return Computed((cell if cell.seconds else msgspec.structs.replace(cell, seconds=seconds),))
