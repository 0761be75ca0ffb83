"""`expril compare`: run what is missing, then write every file of the folder anew from the finished cells."""

import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec

from expril.report.provenance import read_provenance
from lab.comparison.contestants import CONTESTANTS
from lab.comparison.files import details_csv, results_csv
from lab.comparison.markdown import build_markdown
from lab.comparison.model import Comparison
from lab.comparison.outcome import Outcome, epsilon_text
from lab.comparison.page import build_page
from lab.comparison.runner import CELLS, Work, run_all
from lab.comparison.summary import compare_outcomes
from lab.peers import peer_versions
from lab.problems import load_split
from protocol.errors import ConfigurationError
from protocol.rationals import parse_rational
from simulations.campaign.runner import Campaign
from simulations.campaign.store import read_cells
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Progress

NAME = "comparison"
RESULTS, DETAILS, PAGE, MARKDOWN = "results.csv", "details.csv", "report.html", "README.md"
WRITE_SECONDS = 60.0
"""The CSV files are written anew so often while cells come in."""


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        work: the cells.
        out: folder of results.
        command: as typed, for the report.
    """

    work: Work
    out: Path
    command: str


def parse_epsilons(text: str) -> tuple[str, ...]:
    """Comma-separated positive decimals or rationals, each once, the largest first.

    Raises:
        ConfigurationError: something else, or none.
    """
    found: set[Fraction] = {parse_rational(part.strip()) for part in text.split(",") if part.strip()}
    if not found:
        raise ConfigurationError("name at least one epsilon, such as 1,0.3,0.1")
    return tuple(epsilon_text(epsilon) for epsilon in sorted(found, reverse=True))


def compare(order: Order, progress: Progress) -> Comparison:
    """Compute the missing cells, then write the tables and the report; what was interrupted is written as far as it is.

    Raises:
        FailedRunsError: some runs failed; all others are kept and written.
        ConfigurationError: cells of other settings, or another process works on them.
        DataUnavailableError: a problem's records are not to be had.
    """
    for problem in order.work.problems:
        load_split(problem, order.work.seed)  # records that are not to be had stop the command before any work
    written = time.monotonic()

    def kept() -> None:
        nonlocal written
        if time.monotonic() - written >= WRITE_SECONDS:
            write_numbers(order.out)
            written = time.monotonic()

    work = order.work
    asks_peers = any(CONTESTANTS[name].group == "peer" for name in work.strategies)
    campaign = Campaign(
        NAME,
        order.out,
        work.seed,
        work.jobs,
        order.command,
        read_versions=peer_versions if asks_peers else dict,
    )
    try:
        with campaign.session() as finish:
            run_all(work, order.out, progress=progress, kept=kept, finish=finish)
    finally:
        if (order.out / CELLS).is_dir():
            found = write_results(order.out)
    return found


def write_numbers(out: Path) -> Comparison:
    """Write the CSV files of a folder from its finished cells."""
    found = gather(out)
    write_texts(out, {RESULTS: results_csv(found), DETAILS: details_csv(found)})
    return found


def write_results(out: Path) -> Comparison:
    """Write every file of a folder from its finished cells."""
    found = write_numbers(out)
    write_texts(out, {MARKDOWN: build_markdown(found), PAGE: build_page(found)})
    return found


def gather(out: Path) -> Comparison:
    """All that a folder of results holds."""
    outcomes = [cell for path in sorted((out / CELLS).glob("*.jsonl")) for cell in read_cells(path, Outcome)]
    found = compare_outcomes(outcomes)
    return msgspec.structs.replace(found, provenance=read_provenance(out).get(NAME))
