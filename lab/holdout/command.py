"""`expril simulate holdout`: run what is missing, then write every file of the folder anew from the finished runs."""

from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path

import msgspec

from expril.report.files import as_object
from expril.report.provenance import read_provenance
from lab.holdout.asked import SOLVERS
from lab.holdout.draws import BLOG, SETTINGS, Sizes
from lab.holdout.files import curves_csv
from lab.holdout.markdown import build_markdown
from lab.holdout.model import Found, found_of
from lab.holdout.page import build_curves, build_page, build_signals
from lab.holdout.runs import EACH_CANDIDATE, EACH_STEP, Run, compute_run, free_tasks
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

NAME = "holdout"
RUNS = "runs.jsonl"
PAGE, MARKDOWN, FOUND, CURVES = "report.html", "README.md", "results.json", "curves.csv"
CURVES_DRAWN, SIGNALS_DRAWN = "curves.svg", "signals.svg"
EPSILONS = ("1", "3")
REPEATS = 50
OTHER_REPEATS = 10
"""Data sets of the other settings."""
CANDIDATE_REPEATS = 3
"""Data sets on which a curator is asked about every candidate: a thousand signed questions take a minute. Below an
epsilon of 1 nobody is: noise would hide any gap, and curators refuse plans whose questions cost next to nothing."""
SEED = 1000


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        out: folder of results.
        command: as typed.
        jobs: who computes.
        epsilons: exact texts, each once, that a curator may charge.
        repeats: data sets; repeat r is drawn from `seed + r`.
        seed: of the first data set.
        sizes: of a data set.
    """

    out: Path
    command: str
    jobs: Jobs = 1
    epsilons: tuple[str, ...] = EPSILONS
    repeats: int = REPEATS
    seed: int = SEED
    sizes: Sizes = field(default_factory=Sizes)

    def seeds(self, most: int | None = None) -> range:
        """One a repeat, at most so many."""
        return range(self.seed, self.seed + (self.repeats if most is None else min(most, self.repeats)))

    def tasks(self) -> list[Task]:
        """All runs: those of the blog's setting first."""
        others = [name for name in SETTINGS if name != BLOG]
        return [
            *free_tasks(BLOG, self.seeds()),
            *self._asked(EACH_STEP, self.seeds()),
            *(task for name in others for task in free_tasks(name, self.seeds(OTHER_REPEATS))),
            *(
                task
                for task in self._asked(EACH_CANDIDATE, self.seeds(CANDIDATE_REPEATS))
                if Fraction(task.epsilon) >= 1
            ),
        ]

    def _asked(self, procedure: str, seeds: range) -> list[Task]:
        return [Task(BLOG, procedure, epsilon, seed) for seed in seeds for epsilon in self.epsilons]


def simulate_holdout(order: Order, progress: Progress) -> Found:
    """Compute the missing runs, then write the tables and the report; what was interrupted is written as far as it is.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: runs of other settings, or another process works on them.
    """
    path = order.out / RUNS
    campaign = Campaign(NAME, order.out, order.seed, order.jobs, order.command, noise="OpenDP; the blog's is seeded")
    try:
        compute = partial(compute_run, order.sizes, SOLVERS)
        campaign.run_file(path, order.tasks(), compute, Run, progress, sizes=asdict(order.sizes))
    finally:
        if path.exists():
            found = write_results(order.out)
    return found


def write_results(out: Path) -> Found:
    """Write every file of a folder from its finished runs."""
    found = found_of(read_cells(out / RUNS, Run))
    found = msgspec.structs.replace(found, provenance=read_provenance(out).get(NAME))
    encoded = msgspec.json.format(msgspec.json.encode(as_object(found)), indent=0).decode()
    write_texts(
        out,
        {
            CURVES: curves_csv(found),
            FOUND: f"{encoded}\n",
            CURVES_DRAWN: build_curves(found),
            SIGNALS_DRAWN: build_signals(found),
            MARKDOWN: build_markdown(found, CURVES_DRAWN, SIGNALS_DRAWN),
            PAGE: build_page(found),
        },
    )
    return found
