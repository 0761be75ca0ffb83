"""`expril compare-synthetic`: synthetic data sets for the same records at the same epsilon, and what each is worth."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np

from expril.report.provenance import read_provenance
from lab.epsilons import INFINITE, epsilon_order
from lab.peers import discrete, graphical, marginals, peer_versions
from lab.peers.environment import peers_python
from lab.problems import PROBLEMS, load_split
from lab.synthetic.generators import DELTA, GENERATORS
from lab.synthetic.tables import SECONDS, SyntheticRow, build_page, rows_csv
from lab.synthetic.utility import BINS, MEASURES, Columns, WeightedRecords, utility
from protocol.rationals import parse_rational
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

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
    def key(self) -> Task:
        """Which cell it is."""
        return Task(self.problem, self.generator, self.epsilon, self.seed)


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        problems: keys of `PROBLEMS`.
        generators: keys of `GENERATORS`.
        epsilons: texts, the largest first.
        runs: per problem; run r takes the split of `seed + r`.
        seed: of the first split.
        jobs: who computes.
        out: folder of results.
        command: as typed.
    """

    problems: Sequence[str]
    generators: Sequence[str]
    epsilons: Sequence[str]
    runs: int
    seed: int
    jobs: Jobs
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


def compute(task: Task) -> Finished:
    """Generate one data set and measure it."""
    generator = GENERATORS[task.maker]
    split = load_split(task.problem, task.seed)
    matrices = split.matrices
    start = time.monotonic()
    made = generator.generate(split, Fraction(0) if task.epsilon == INFINITE else parse_rational(task.epsilon))
    seconds = time.monotonic() - start
    private = WeightedRecords.of(matrices.train, matrices.labels)
    test = WeightedRecords.of(matrices.test, matrices.test_labels)
    values = utility(made, private, test, Columns.of(matrices.columns, matrices.lower, matrices.upper))
    rounded = {name: round(values[name], 6) for name in (MEASURES if generator.trains else DISTANCES)}
    return Finished(task.problem, task.maker, task.epsilon, task.seed, rounded, round(seconds, 3))


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


def compare_synthetic(order: Order, progress: Progress) -> list[SyntheticRow]:
    """Compute what is missing, then write the CSV file and the page anew from all finished cells.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: no environment for AIM and MST, or cells of other settings.
        DataUnavailableError: a problem's records are not to be had.
    """
    if order.needs_environment:
        peers_python()
    for problem in order.problems:
        load_split(problem, order.seed)  # records that are not to be had stop the command before any work
    path = order.out / CELLS
    campaign = Campaign(
        NAME,
        order.out,
        order.seed,
        order.jobs,
        order.command,
        read_versions=peer_versions if order.needs_environment else dict,
    )
    try:
        campaign.run_file(path, order.tasks(), compute, Finished, progress, **_settings(order.seed))
    finally:
        rows = write_results(order.out) if path.exists() else []
    return rows


def write_results(out: Path) -> list[SyntheticRow]:
    """Write the CSV file and the page of a folder from its finished cells."""
    rows = synthetic_rows(read_cells(out / CELLS, Finished))
    write_texts(out, {TABLE: rows_csv(rows), PAGE: build_page(rows, read_provenance(out).get(NAME))})
    return rows


def _settings(seed: int) -> Mapping[str, object]:
    return {
        "seed": seed,
        "delta": DELTA,
        "bins": [discrete.BINS, BINS],
        "fit_steps": graphical.FIT_STEPS,
        "aim": [marginals.MOST_ROUNDS, marginals.MOST_MEGABYTES, marginals.MOST_CANDIDATE_CELLS],
    }
