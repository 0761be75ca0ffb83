"""`expril reproduce`: run what is missing, then write every file of the folder anew from the finished cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from expril.report.provenance import read_provenance
from lab.paper.experiments import Setup
from lab.paper.files import closures_csv, curves_csv, table_csv, wilcoxon_csv
from lab.paper.finished import Finished
from lab.paper.markdown import build_markdown
from lab.paper.model import Closure, Reproduction
from lab.paper.page import build_page
from lab.paper.runner import run_experiment
from lab.paper.settings import SETTINGS
from lab.paper.summary import closures, learning_curves, table_cells, wilcoxon_tests
from lab.problems import PAPER_DATASETS
from protocol.errors import ConfigurationError
from protocol.strict_toml import suggest
from simulations.campaign.runner import Campaign
from simulations.campaign.store import Store, read_cells, read_settings
from simulations.campaign.study import write_texts
from simulations.campaign.workers import Jobs, Progress

TABLE, FIGURE, PAGE, MARKDOWN = "table2", "figure1", "report.html", "README.md"
CELLS = "cells"
"""Folder of the finished cells, one file per experiment and setting."""


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        experiment: key of `EXPERIMENTS`.
        datasets: keys of `PAPER_DATASETS`.
        runs: per data set.
        jobs: who computes.
        seed: of the first run.
        setting: key of `SETTINGS`, "" for the paper's own.
        noise_seed: of the curators' noise; None takes OpenDP's.
        out: folder of results.
        command: as typed, for the report.
    """

    experiment: str
    datasets: Sequence[str]
    runs: int
    jobs: Jobs
    seed: int
    setting: str
    noise_seed: int | None
    out: Path
    command: str

    @property
    def name(self) -> str:
        """Of the file of finished cells."""
        return f"{self.experiment}-{self.setting}" if self.setting else self.experiment


def reproduce(order: Order, progress: Progress) -> Reproduction:
    """Compute the missing cells, then write the tables, the curves and the report.

    Raises:
        ConfigurationError: an unknown setting, one for Figure 1, or a folder that was begun with other settings.
        DataUnavailableError: the CTG records are not to be had.
    """
    if order.setting and order.experiment != TABLE:
        raise ConfigurationError(f"settings change {TABLE}; leave --setting out for {order.experiment}")
    setups = _setups(order.setting, order.noise_seed)
    chosen = {name: setups[name] for name in order.datasets}
    for setup in chosen.values():
        setup.problem.draw(order.seed)  # records that are not to be had stop the command before any work
    path = order.out / CELLS / f"{order.name}.jsonl"
    noise = "OpenDP" if order.noise_seed is None else f"seed {order.noise_seed}, not private"
    campaign = Campaign(order.name, order.out, order.seed, order.jobs, order.command, noise)
    with Store(path, _identity(order, setups), Finished) as store, campaign.session() as finish:
        run_experiment(
            "settings" if order.setting else order.experiment,
            chosen,
            runs=order.runs,
            seed=order.seed,
            jobs=order.jobs,
            store=store,
            progress=progress,
            finish=finish,
        )
    return write_results(order.out)


def write_results(out: Path) -> Reproduction:
    """Write the CSV files, the Markdown and the page of a folder from its finished cells."""
    found = gather(out)
    files: dict[str, str] = {MARKDOWN: build_markdown(found), PAGE: build_page(found)}
    if found.table:
        files |= {f"{TABLE}.csv": table_csv(found.table), "wilcoxon.csv": wilcoxon_csv(found.wilcoxon)}
    if found.closures:
        files["closures.csv"] = closures_csv(found.closures)
    if found.curves:
        files[f"{FIGURE}.csv"] = curves_csv(found.curves)
    write_texts(out, files)
    return found


def gather(out: Path) -> Reproduction:
    """All that a folder of results holds."""
    setups = _setups("", None)

    def finished(name: str) -> list[Finished]:
        path = out / CELLS / f"{name}.jsonl"
        return read_cells(path, Finished) if path.exists() else []

    def of_the_same_seeds(name: str) -> bool:
        both = [
            read_settings(path) for path in (out / CELLS / f"{each}.jsonl" for each in (TABLE, name)) if path.exists()
        ]
        return len({(each.get("seed"), each.get("noise_seed")) for each in both}) < 2

    table, figure = finished(TABLE), finished(FIGURE)
    cells = table_cells(table)
    changed: list[Closure] = []
    for setting, meaning in SETTINGS.items():
        if not of_the_same_seeds(f"{TABLE}-{setting}"):
            continue
        changed += closures(setting, finished(f"{TABLE}-{setting}"), meaning.columns)
    provenance = read_provenance(out)
    return Reproduction(
        table=cells,
        table_provenance=provenance.get(TABLE),
        wilcoxon=wilcoxon_tests(table),
        closures=tuple(changed),
        curves=learning_curves(figure, setups),
        curves_provenance=provenance.get(FIGURE),
        settings={name: setup.shown() for name, setup in setups.items()},
        changes={name: setting.title for name, setting in SETTINGS.items()},
    )


def _setups(setting: str, noise_seed: int | None) -> dict[str, Setup]:
    if setting and setting not in SETTINGS:
        known = ", ".join(SETTINGS)
        raise ConfigurationError(f"unknown setting {setting!r}{suggest(setting, list(SETTINGS))}; there are {known}")
    change: Callable[[Setup], Setup] = SETTINGS[setting].change if setting else lambda setup: setup
    return {name: change(Setup.of(name, noise_seed)) for name in PAPER_DATASETS}


def _identity(order: Order, setups: Mapping[str, Setup]) -> dict[str, object]:
    return {
        "experiment": order.experiment,
        "setting": order.setting,
        "seed": order.seed,
        "noise_seed": order.noise_seed,
        "setups": {name: setup.shown() for name, setup in setups.items()},
    }
