"""`expril simulate sites`: run what is missing, then write every file of the folder anew from the finished cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from expril.report.files import as_object
from expril.report.provenance import read_provenance
from lab.problems import load_split
from lab.sites.files import fates_csv, noise_csv, points_csv
from lab.sites.markdown import build_markdown
from lab.sites.model import Found, found_of
from lab.sites.page import build_page
from lab.sites.rounds import Ask, Round, compute_round
from lab.sites.spread import SECURE, poolings_of
from lab.sites.studies import QUESTIONS, Studied, compute_study, study_tasks
from protocol.secure_sum.aggregator import STEPS
from simulations.campaign.runner import Campaign, run_missing
from simulations.campaign.store import Task, read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

NAME = "sites"
STUDIES, ROUNDS = "studies.jsonl", "rounds.jsonl"
PAGE, MARKDOWN, FOUND = "report.html", "README.md", "results.json"
POINTS, NOISE, FATES = "accuracy.csv", "noise.csv", "dropouts.csv"
SITES = (1, 2, 3, 5, 10, 20, 50, 100)
EPSILONS = ("1", "0.1")
REPEATS = 3
SEED = 1000
NUMBERS = 1000
"""In a question whose noise and bytes are measured."""
LOSING, FEW_NUMBERS = 20, 50
"""Sites among which some fall silent, and numbers of the question then."""
SILENT = (2, 6)
"""A tenth of them, and three tenths."""
TOLERATED = (4, 6)
"""What a learner tolerates of so many where it is told nothing, and three tenths."""
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        problems: keys of `QUESTIONS`.
        sites: numbers of sites, each once.
        epsilons: texts, each once.
        repeats: studies of each; repeat r takes the split of `seed + r`.
        seed: of the first split.
        jobs: who computes.
        out: folder of results.
        command: as typed.
    """

    out: Path
    command: str
    jobs: Jobs = 1
    problems: tuple[str, ...] = tuple(QUESTIONS)
    sites: tuple[int, ...] = SITES
    epsilons: tuple[str, ...] = EPSILONS
    repeats: int = REPEATS
    seed: int = SEED

    @property
    def seeds(self) -> range:
        """One a repeat."""
        return range(self.seed, self.seed + self.repeats)

    def studies(self) -> list[Task]:
        """All studies."""
        return study_tasks(self.problems, self.sites, self.epsilons, self.seeds)

    def rounds(self) -> list[Task]:
        """All single questions: those in which nobody is silent at every number of sites, then the others."""
        asked = [
            Ask(pooling, number, NUMBERS) for number in self.sites if number > 1 for pooling in poolings_of(number)
        ]
        asked += losses()
        return [ask.task(self.seed + run) for run in range(LEAST_ROUNDS) for ask in asked]


def losses() -> list[Ask]:
    """Nobody, a tenth and three tenths of the sites silent from each step on, under two plans."""
    found = []
    for tolerated in TOLERATED:
        found.append(Ask(SECURE, LOSING, FEW_NUMBERS, dropouts=tolerated))
        found += [Ask(SECURE, LOSING, FEW_NUMBERS, tolerated, silent, step) for step in STEPS for silent in SILENT]
    return found


def simulate_sites(order: Order, progress: Progress) -> Found:
    """Compute the missing cells, then write the tables and the report; what was interrupted is written as far as it is.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: cells of other settings, or another process works on them.
        DataUnavailableError: a problem's records are not to be had.
    """
    for problem in order.problems:
        load_split(problem, order.seed)  # records that are not to be had stop the command before any work
    rounds, studies = order.out / ROUNDS, order.out / STUDIES
    campaign = Campaign(NAME, order.out, order.seed, order.jobs, order.command)
    try:
        with campaign.session() as finish:
            kept: Mapping[str, object] = {"experiment": NAME, "seed": order.seed}
            asked = {**kept, **_questions()}
            run_missing(
                order.rounds(),
                compute_round,
                Round,
                lambda _: (rounds, kept),
                jobs=order.jobs,
                progress=progress,
                finish=finish,
            )
            run_missing(
                order.studies(),
                compute_study,
                Studied,
                lambda _: (studies, asked),
                jobs=order.jobs,
                progress=progress,
                finish=finish,
            )
    finally:
        if rounds.exists():
            found = write_results(order.out)
    return found


def write_results(out: Path) -> Found:
    """Write every file of a folder from its finished cells."""
    found = gather(out)
    encoded = msgspec.json.format(msgspec.json.encode(as_object(found)), indent=1).decode()
    write_texts(
        out,
        {
            POINTS: points_csv(found),
            NOISE: noise_csv(found),
            FATES: fates_csv(found),
            FOUND: f"{encoded}\n",
            MARKDOWN: build_markdown(found),
            PAGE: build_page(found),
        },
    )
    return found


def gather(out: Path) -> Found:
    """All that a folder of results holds."""
    studies: Sequence[Studied] = read_cells(out / STUDIES, Studied) if (out / STUDIES).exists() else []
    found = found_of(studies, read_cells(out / ROUNDS, Round))
    return msgspec.structs.replace(found, provenance=read_provenance(out).get(NAME))


def _questions() -> dict[str, object]:
    return {problem: [question.strategy, question.options] for problem, question in QUESTIONS.items()}
