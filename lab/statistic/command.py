"""`expril simulate statistic`: run what is missing, then write every file anew from the finished cells."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from expril.report.files import as_object, csv_text
from expril.report.markdown import origin, plain, table
from expril.report.page import page
from expril.report.provenance import read_provenance
from expril.report.table import Column, attributes
from lab.statistic import plots, tables, words
from lab.statistic.cells import Measured, compute, task_of
from lab.statistic.methods import ESTIMANDS, METHODS
from lab.statistic.model import Found, Point, found_of
from lab.statistic.populations import POPULATIONS
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

NAME = "statistic"
CELLS = "cells.jsonl"
PAGE, MARKDOWN, FOUND, ERRORS = "report.html", "README.md", "results.json", "errors.csv"
RECORDS = (100, 300, 1_000, 3_000, 10_000, 100_000, 1_000_000)
EPSILONS = ("1", "1/10")
REPEATS, SEED = 5, 1


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        out: folder of results.
        command: as typed.
        jobs: who computes.
        epsilons: exact texts, each once.
        repeats: samples of each cell.
        seed: of the first sample.
        records: sizes of samples, each once.
    """

    out: Path
    command: str
    jobs: Jobs = 1
    epsilons: tuple[str, ...] = EPSILONS
    repeats: int = REPEATS
    seed: int = SEED
    records: tuple[int, ...] = RECORDS

    def tasks(self) -> list[Task]:
        """All cells; a population with fewer records is asked no more of."""
        return [
            task_of(name, estimand, records, epsilon, seed)
            for seed in range(self.seed, self.seed + self.repeats)
            for name, population in POPULATIONS.items()
            for records in self.records
            if population.most is None or records < population.most
            for estimand in ESTIMANDS
            for epsilon in self.epsilons
        ]


def simulate_statistic(order: Order, progress: Progress) -> Found:
    """Compute the missing cells, then write the tables and the report.

    Raises:
        FailedRunsError: some cells failed; all others are kept and written.
        ConfigurationError: cells of other settings, or another process works on them.
        DataUnavailableError: the stays' records are not to be had.
    """
    campaign = Campaign(NAME, order.out, order.seed, order.jobs, order.command, noise="seeded generators of NumPy")
    campaign.run_file(order.out / CELLS, order.tasks(), compute, Measured, progress, methods=list(METHODS))
    return write_results(order.out)


def write_results(out: Path) -> Found:
    """Write every file of a folder from its finished cells."""
    found = found_of(read_cells(out / CELLS, Measured), read_provenance(out).get(NAME))
    encoded = msgspec.json.format(msgspec.json.encode(as_object(found)), indent=1).decode()
    files = {FOUND: f"{encoded}\n", ERRORS: _csv(found), MARKDOWN: _markdown(found), PAGE: _page(found)}
    write_texts(out, files)
    return found


def _csv(found: Found) -> str:
    """One line for each population, estimand, size and epsilon: each method's error and its standard error."""

    def column(name: str, part: str) -> Column[Point]:
        return Column(f"{name}_{part}", lambda point: f"{getattr(point, part)[name]:.6g}")

    both = [column(name, part) for name in METHODS for part in ("errors", "deviations")]
    return csv_text((*attributes("population estimand records epsilon samples"), *both), found.points)


def _markdown(found: Found) -> str:
    parts = [f"# {plain(words.headline(found))}", plain(" ".join(words.summary(found))), plain(words.READING)]
    parts.append(
        "[report.html](report.html) shows them with figures; `errors.csv` and `results.json` hold the numbers."
    )
    for shown in tables.errors(found).values():
        parts += [f"## {shown.caption}", table(shown)]
    return "\n\n".join([*parts, *origin([("Study of statistics", found.provenance)])]) + "\n"


def _page(found: Found) -> str:
    shown = tables.errors(found)
    return page(
        "lab.statistic",
        kind="ExPriL: statistics",
        subject="private quantiles, method by method",
        headline=words.headline(found),
        summary=words.summary(found),
        sources=[("Study of statistics", found.provenance)],
        settings=None,
        words=words,
        keys=tuple(plots.KEYS.values()),
        panels=[(tables.title_of(*panel), plots.figures(found, *panel), shown[panel]) for panel in found.panels()],
    )
