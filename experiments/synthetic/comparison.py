"""`expril compare-synthetic`: synthetic data sets for the same records at the same epsilon, and what each is worth."""

import time
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from curator_node.dataset import StewardWarning
from experiments.campaign.provenance import (
    Provenance,
    commit_of,
    cores,
    note_provenance,
    now,
    read_provenance,
    versions,
)
from experiments.campaign.store import Store, read_cells
from experiments.campaign.workers import FailedRunsError, Progress, computed_by
from experiments.learning.outcome import INFINITE, epsilon_order
from experiments.learning.problems import PROBLEMS, load_split
from experiments.peers import marginals, peer_versions
from experiments.peers.environment import peers_python
from experiments.publish.files import write_texts
from experiments.synthetic.generators import DELTA, GENERATORS
from experiments.synthetic.tables import SECONDS, SyntheticRow, build_page, rows_csv
from experiments.synthetic.utility import BINS, MEASURES, Columns, WeightedRecords, utility
from protocol.errors import ExprilError
from protocol.rationals import parse_rational

NAME, TABLE, PAGE, CELLS = "synthetic", "synthetic.csv", "synthetic.md", "cells-synthetic.jsonl"
DISTANCES = ("marginal-tv", "wasserstein", "pair-tv", "label-gap")


class Finished(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One data set that was generated and measured.

    Attributes:
        problem: key of `PROBLEMS`.
        generator: key of `GENERATORS`.
        epsilon: as asked for, "inf" for what is not private.
        seed: of the split.
        values: key of `MEASURES` -> value; only the `DISTANCES` where it is no training data.
        seconds: of generating.
    """

    problem: str
    generator: str
    epsilon: str
    seed: int
    values: dict[str, float]
    seconds: float

    @property
    def key(self) -> Hashable:
        """Which cell it is."""
        return self.problem, self.generator, self.epsilon, self.seed


@dataclass(frozen=True)
class Task:
    """One cell that is wanted."""

    problem: str
    generator: str
    epsilon: str
    seed: int


@dataclass(frozen=True)
class Computed:
    """A cell, or why there is none; errors travel as text."""

    cell: Finished | None = None
    failure: str = ""


@dataclass(frozen=True)
class Request:
    """What the command line asks for.

    Attributes:
        problems: keys of `PROBLEMS`.
        generators: keys of `GENERATORS`.
        epsilons: texts, the largest first.
        runs: per problem; run r takes the split of `seed + r`.
        seed: of the first split.
        jobs: processes.
        out: folder of results.
        command: as typed.
    """

    problems: Sequence[str]
    generators: Sequence[str]
    epsilons: Sequence[str]
    runs: int
    seed: int
    jobs: int
    out: Path
    command: str

    @property
    def needs_environment(self) -> bool:
        """Whether AIM or MST is asked for."""
        return any(GENERATORS[name].needs_environment for name in self.generators)

    def tasks(self) -> list[Task]:
        """All cells, the first run of everything before the second of anything."""
        return [
            Task(problem, name, epsilon, self.seed + run)
            for run in range(self.runs)
            for problem in self.problems
            for name in self.generators
            for epsilon in (self.epsilons if GENERATORS[name].private else (INFINITE,))
        ]


def compute(task: Task) -> Computed:
    """Generate one data set and measure it."""
    generator = GENERATORS[task.generator]
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", StewardWarning)
            split = load_split(task.problem, task.seed)
            matrices = split.matrices
            start = time.monotonic()
            epsilon = Fraction(0) if task.epsilon == INFINITE else parse_rational(task.epsilon)
            made = generator.generate(split, epsilon)
            seconds = time.monotonic() - start
            private = WeightedRecords.of(matrices.train, matrices.labels)
            test = WeightedRecords.of(matrices.test, matrices.test_labels)
            values = utility(made, private, test, Columns.of(matrices.columns, matrices.lower, matrices.upper))
    except Exception as error:  # noqa: BLE001 - one generator that fails must not cost the others their runs
        text = str(error) if isinstance(error, ExprilError) else ""
        return Computed(failure=f"{type(error).__name__}: {text}".removesuffix(": "))
    kept = MEASURES if generator.trains else DISTANCES
    rounded = {name: round(values[name], 6) for name in kept}
    return Computed(Finished(task.problem, task.generator, task.epsilon, task.seed, rounded, round(seconds, 3)))


def synthetic_rows(cells: Iterable[Finished]) -> list[SyntheticRow]:
    """Every measure of every generator at every epsilon, in the order of problems, generators and measures."""
    grouped: dict[tuple[str, str, str], list[Finished]] = {}
    for cell in sorted(cells, key=lambda each: each.seed):
        grouped.setdefault((cell.problem, cell.generator, cell.epsilon), []).append(cell)
    order = {name: place for place, name in enumerate([*PROBLEMS, *GENERATORS])}
    rows = []
    for (problem, generator, epsilon), group in sorted(
        grouped.items(), key=lambda item: (order[item[0][0]], epsilon_order(item[0][2]), order[item[0][1]])
    ):
        columns = {name: [cell.values[name] for cell in group] for name in MEASURES if name in group[0].values}
        for measure, values in (columns | {SECONDS: [cell.seconds for cell in group]}).items():
            std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            rows.append(SyntheticRow(problem, generator, epsilon, measure, float(np.mean(values)), std, len(values)))
    return rows


def compare_synthetic(request: Request, progress: Progress) -> list[SyntheticRow]:
    """Compute what is missing, then write the CSV file and the page anew from all finished cells.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: no environment for AIM and MST, or cells of other settings.
        DataUnavailableError: a problem's records are not to be had.
    """
    if request.needs_environment:
        peers_python()
    for problem in request.problems:
        load_split(problem, request.seed)  # records that are not to be had stop the command before any work
    start, failures, count = time.monotonic(), [], 0
    try:
        with Store(request.out / CELLS, _settings(request.seed), Finished) as store:
            tasks = [
                task
                for task in request.tasks()
                if (task.problem, task.generator, task.epsilon, task.seed) not in store.finished
            ]
            progress("", 0, len(tasks))
            for done, (task, computed) in enumerate(computed_by(compute, tasks, request.jobs), 1):
                if computed.cell is None:
                    failures.append(f"{task.generator} on {task.problem}, seed {task.seed}: {computed.failure}")
                else:
                    store.add(computed.cell)
                    count += 1
                progress(f"{task.generator} on {task.problem}", done, len(tasks))
    finally:
        if count:
            _note(request, time.monotonic() - start)
        rows = write_results(request.out) if (request.out / CELLS).exists() else []
    if failures:
        raise FailedRunsError(failures)
    return rows


def write_results(out: Path) -> list[SyntheticRow]:
    """Write the CSV file and the page of a folder from its finished cells."""
    rows = synthetic_rows(read_cells(out / CELLS, Finished))
    write_texts(out, {TABLE: rows_csv(rows), PAGE: build_page(rows, read_provenance(out).get(NAME))})
    return rows


def _settings(seed: int) -> Mapping[str, object]:
    return {
        "experiment": NAME,
        "seed": seed,
        "delta": DELTA,
        "bins": [marginals.BINS, BINS],
        "fit_steps": marginals.FIT_STEPS,
        "aim": [marginals.MOST_ROUNDS, marginals.MOST_MEGABYTES, marginals.MOST_CANDIDATE_CELLS],
    }


def _note(request: Request, seconds: float) -> None:
    session = Provenance(
        command=request.command,
        created=now(),
        seed=request.seed,
        seconds=seconds,
        jobs=request.jobs,
        versions=versions(peer_versions() if request.needs_environment else None),
        noise="OpenDP",
        commit=commit_of(Path(__file__).resolve().parents[2]),
        cores=cores(),
    )
    note_provenance(request.out, NAME, session)
