"""`expril simulate insite`: run what is missing, then write every file of the folder anew from the finished cells."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from expril.report.files import as_object
from expril.report.provenance import read_provenance
from lab.epsilons import INFINITE
from lab.model.files import points_csv
from lab.model.markdown import build_markdown
from lab.model.model import Found, found_of
from lab.model.page import build_page
from lab.model.studies import LABELS, WAYS, Fitted, compute
from lab.problems import load_split
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

NAME = "insite"
CELLS = "studies.jsonl"
PAGE, MARKDOWN, FOUND, SCORES = "report.html", "README.md", "results.json", "scores.csv"
PROBLEMS = tuple(LABELS)
EPSILONS = ("10", "1", "0.1")
REPEATS = 3
SEED = 1000


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        out: folder of results.
        command: as typed.
        jobs: who computes.
        problems: keys of `LABELS`.
        epsilons: texts, each once.
        repeats: studies of each; repeat r takes the split of `seed + r`.
        seed: of the first split.
    """

    out: Path
    command: str
    jobs: Jobs = 1
    problems: tuple[str, ...] = PROBLEMS
    epsilons: tuple[str, ...] = EPSILONS
    repeats: int = REPEATS
    seed: int = SEED

    def tasks(self) -> list[Task]:
        """All studies, the first repeat of everything before the second of anything."""
        return [
            Task(problem, name, epsilon, self.seed + run)
            for run in range(self.repeats)
            for problem in self.problems
            for name, way in WAYS.items()
            for epsilon in (self.epsilons if way.ceiling else (INFINITE,))
        ]


def simulate_insite(order: Order, progress: Progress) -> Found:
    """Compute the missing cells, then write the tables and the report; what was interrupted is written as far as it is.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: cells of other settings, or another process works on them.
        DataUnavailableError: a problem's records are not to be had.
    """
    for problem in order.problems:
        load_split(problem, order.seed)  # records that are not to be had stop the command before any work
    cells = order.out / CELLS
    titles = {name: way.title for name, way in WAYS.items()}
    campaign = Campaign(NAME, order.out, order.seed, order.jobs, order.command)
    try:
        campaign.run_file(cells, order.tasks(), compute, Fitted, progress, seed=order.seed, ways=titles)
    finally:
        if cells.exists():
            found = write_results(order.out)
    return found


def write_results(out: Path) -> Found:
    """Write every file of a folder from its finished cells."""
    found = found_of(read_cells(out / CELLS, Fitted))
    found = msgspec.structs.replace(found, provenance=read_provenance(out).get(NAME))
    encoded = msgspec.json.format(msgspec.json.encode(as_object(found)), indent=1).decode()
    write_texts(
        out,
        {
            SCORES: points_csv(found),
            FOUND: f"{encoded}\n",
            MARKDOWN: build_markdown(found),
            PAGE: build_page(found),
        },
    )
    return found
