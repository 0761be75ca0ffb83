"""`expril simulate sample`: run what is missing, then write every file of the folder anew from the finished cells."""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec

from expril.report.files import as_object
from expril.report.provenance import read_provenance
from lab.sample import boosting, gan
from lab.sample.cells import CELLS as GRID
from lab.sample.cells import DPB, DPGAN, MBDE, RECORDS, REPEATS, WHOLE, Sampled, compute_cell, lattices
from lab.sample.claims import claims_of
from lab.sample.domains import MIXTURE, MOST_RANDOM, RANDOM_1D, RANDOM_2D, RING, WIDE_RING
from lab.sample.figures import figures
from lab.sample.files import rows_csv, theory_csv
from lab.sample.markdown import build_markdown
from lab.sample.model import Found, found_of
from protocol.rationals import parse_rational
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Task, read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

NAME = "sample"
CELLS, MARKDOWN, FOUND = "cells.jsonl", "README.md", "results.json"
ROWS, THEORY = "measures.csv", "theory.csv"
LINES = (MIXTURE, *(f"{RANDOM_1D}-{modes}" for modes in range(1, MOST_RANDOM + 1)))
PLANES = (RING, RANDOM_2D, WIDE_RING)
EPSILONS = ("0.1", "0.5", "1", "2", "5", "10")
BEYOND = ("20", "50", "100", "400", "1000")
"""At which DPB alone is run, in the plane, to see where it reaches what MBDE does at less."""
GAN_EPSILONS = ("1", "10")
SEED = 1000


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        out: folder of results.
        command: as typed.
        jobs: who computes.
        domains: each once.
        epsilons: texts, each once, of MBDE and DPB.
        beyond: those of DPB in the plane alone; the largest of `epsilons` is below them.
        repeats: of each cell; repeat r has the seed `seed + r`.
        seed: of the first repeat.
        gan: epsilons of DPGAN, on the ring.
    """

    out: Path
    command: str
    jobs: Jobs = 1
    domains: tuple[str, ...] = (*LINES, *PLANES)
    epsilons: tuple[str, ...] = EPSILONS
    beyond: tuple[str, ...] = BEYOND
    repeats: int = REPEATS
    seed: int = SEED
    gan: tuple[str, ...] = GAN_EPSILONS

    def tasks(self) -> list[Task]:
        """All cells: the first repeat of everything before the second of anything, and DPGAN, which is slow, last."""
        seeds = range(self.seed, self.seed + self.repeats)
        found = [
            Task(domain, method, epsilon, seed)
            for seed in seeds
            for domain in self.domains
            for method, epsilons in self._asked(domain, seed)
            for epsilon in epsilons
        ]
        if RING in self.domains:
            found += [Task(RING, DPGAN, epsilon, seed) for seed in seeds for epsilon in self.gan]
        return found

    def _asked(self, domain: str, seed: int) -> list[tuple[str, tuple[str, ...]]]:
        largest = max(map(parse_rational, self.epsilons), default=Fraction(0))
        further = tuple(text for text in self.beyond if parse_rational(text) > largest) if domain in PLANES else ()
        asked = [(MBDE, self.epsilons), (DPB, self.epsilons + further)]
        if domain == RING and seed == self.seed:
            asked.append((WHOLE, self.epsilons))
        return asked


def simulate_sample(order: Order, progress: Progress) -> Found:
    """Compute the missing cells, then write tables and figures; what was interrupted is written as far as it is.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: cells of other settings, an unknown domain, or another process works on them.
    """
    campaign = Campaign(NAME, order.out, order.seed, order.jobs, order.command, noise="seeded generators of NumPy")
    cells = order.out / CELLS
    try:
        campaign.run_file(cells, order.tasks(), compute_cell, Sampled, progress, seed=order.seed, **cell_settings())
    finally:
        if cells.exists():
            found = write_results(order.out)
    return found


def cell_settings() -> dict[str, object]:
    """What every cell depends on: cells that were computed under other settings are not gone on with."""
    return {
        "records": RECORDS,
        "grid": list(GRID.values()),
        "lattices": [[str(lattice) for lattice in lattices(dimensions)] for dimensions in GRID],
        "training": [str(boosting.TRAINING[dimensions]) for dimensions in GRID],
        "gan": gan.SETTINGS,
    }


def write_results(out: Path) -> Found:
    """Write every file of a folder from its finished cells."""
    found = gather(out)
    said = {"claims": claims_of(found), "found": msgspec.structs.replace(found, pictures=())}
    encoded = msgspec.json.format(msgspec.json.encode(as_object(said)), indent=1).decode()
    texts = {
        ROWS: rows_csv(found),
        THEORY: theory_csv(found),
        FOUND: f"{encoded}\n",
        MARKDOWN: build_markdown(found),
        **figures(found),
    }
    write_texts(out, texts)
    return found


def gather(out: Path) -> Found:
    """All that a folder of results holds."""
    found = found_of(read_cells(out / CELLS, Sampled))
    return msgspec.structs.replace(found, provenance=read_provenance(out).get(NAME))
