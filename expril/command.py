"""The command `expril`: thin; what it does is in `run`, `run_folder`, `verification` and `ledger_view`."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from expril.auditor import transcript_app, verify
from expril.steward import ledger_app
from expril.terminal import Json, err, plain_errors, print_json

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(transcript_app, name="transcript")
app.command()(verify)


class Experiment(StrEnum):
    """What of the paper can be made again."""

    table2 = "table2"
    figure1 = "figure1"


Runs = Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes. [one per core]")]


@app.callback(invoke_without_command=True)
def main(show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Learn from records that their owners never release."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    logging.basicConfig(level=logging.CRITICAL)
    if show_version:
        sys.stdout.write(f"expril {version('expril')}\n")
        raise typer.Exit


@app.command()
def simulate(
    scenario: Annotated[str, typer.Argument(help="A built-in scenario (expril scenarios) or a TOML file.")] = "wdbc",
    out: Annotated[Path, typer.Option(help="Folder under which the run's folder is made.")] = Path("runs"),
    repeats: Annotated[int | None, typer.Option(min=1, help="Repeats, instead of what the scenario says.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of splits and learners, never of noise.")] = None,
    json_: Json = False,
) -> None:
    """Run a scenario: curators, learners, signed rounds, real noise; print a table and leave a report."""
    with plain_errors():
        import msgspec
        from threadpoolctl import threadpool_limits

        from simulations.records import load_records
        from simulations.run import run_scenario, summary
        from simulations.run_folder import NewFolder, save_run
        from simulations.run_index import LEDGERS, PAGE
        from simulations.scenario import load_scenario
        from simulations.tables import result_table, wide_console

        chosen, text, base = load_scenario(scenario)
        changes = {key: value for key, value in (("repeats", repeats), ("seed", seed)) if value is not None}
        chosen = msgspec.structs.replace(chosen, **changes)
        records = load_records(chosen, base)
        # Several BLAS threads on matrices this small cost more than they give.
        with NewFolder(out, chosen.title) as folder, _progress(json_) as tick, threadpool_limits(1):
            run = run_scenario(
                chosen,
                records,
                text=text,
                command=_command(scenario, changes),
                version=version("expril"),
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                ledgers=folder.path / LEDGERS,
                tick=tick,
            )
            save_run(run, folder.path)
        if json_:
            print_json(summary(run, str(folder.path)))
            return
        console = wide_console()
        console.print(result_table(run.report))
        for note in run.report.notes:
            console.print(f"[yellow]note[/] {escape(note)}", highlight=False, soft_wrap=True)
        console.print(f"report: {folder.path / PAGE}", soft_wrap=True, highlight=False)


@app.command()
def reproduce(
    experiment: Annotated[Experiment, typer.Argument(help="What to make again.")],
    datasets: Annotated[str, typer.Option(help="Comma-separated: A, B, C, D, E, CTG-A, CTG-B, or all.")] = "all",
    runs: Annotated[int, typer.Option(min=1, help="Runs per data set.")] = 100,
    jobs: Jobs = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first run's records and networks, never of noise.")] = 0,
    setting: Annotated[str, typer.Option(help="Make Table 2 with one named setting changed.")] = "",
    noise_seed: Annotated[
        int | None, typer.Option(min=0, help="Noise from a seed, to debug; every file then says so.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of results; go on where an earlier run stopped.")] = Path(
        "runs/reproduction"
    ),
    json_: Json = False,
) -> None:
    """Reproduce Table 2 or Figure 1 of the paper; a killed run goes on where it stopped."""
    with plain_errors(kept=f"finished cells are kept in {out}; the same command goes on"):
        from experiments.campaign.names import parse_names
        from experiments.campaign.provenance import cores
        from experiments.paper.command import PAGE, Request
        from experiments.paper.command import reproduce as run
        from experiments.problems import PAPER_DATASETS
        from simulations.tables import wide_console

        given = {"datasets": datasets, "runs": runs, "seed": seed, "setting": setting, "noise-seed": noise_seed}
        request = Request(
            experiment=experiment.value,
            datasets=parse_names(datasets, PAPER_DATASETS, "data set"),
            runs=runs,
            jobs=jobs or cores(),
            seed=seed,
            setting=setting,
            noise_seed=noise_seed,
            out=out,
            command=f"expril reproduce {experiment.value}"
            + "".join(f" --{name} {value}" for name, value in given.items() if value not in ("", None)),
        )
        with _work_bar(json_) as tick:
            found = run(request, tick)
        if json_:
            from experiments.publish.files import as_object

            print_json(as_object(found))
            return
        from experiments.paper.tables import found_table
        from experiments.publish.terminal import LEAST_WIDTH

        wide_console(LEAST_WIDTH).print(found_table(found, request.experiment, request.setting))
        sys.stdout.write(f"report: {out / PAGE}\n")


@app.command()
def compare(
    strategies: Annotated[
        str, typer.Option(help="Comma-separated, or all: ours, peers and what is trained in site.")
    ] = "all",
    datasets: Annotated[
        str, typer.Option(help="Comma-separated: A, B, C, D, E, CTG-A, CTG-B, heart, heart-cleveland, wdbc, or all.")
    ] = "all",
    epsilons: Annotated[str, typer.Option(help="Comma-separated, each in total per study.")] = "1,0.3,0.1",
    runs: Annotated[int, typer.Option(min=1, help="Runs per data set; slow strategies may have fewer.")] = 20,
    jobs: Jobs = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the first run's split and learners, never of noise; develop from 5000 on.")
    ] = 1000,
    out: Annotated[Path, typer.Option(help="Folder of results; go on where an earlier run stopped.")] = Path(
        "runs/comparison"
    ),
    json_: Json = False,
) -> None:
    """Compare every strategy and every peer on the same records at the same epsilon; a killed run goes on."""
    with plain_errors(kept=f"finished cells are kept in {out}; the same command goes on"):
        from experiments.campaign.names import parse_names
        from experiments.campaign.provenance import cores
        from experiments.learning.command import PAGE, Request, parse_epsilons
        from experiments.learning.command import compare as run
        from experiments.learning.entries import ENTRIES
        from experiments.learning.runner import Work
        from experiments.problems import PROBLEMS
        from simulations.tables import wide_console

        given = {"strategies": strategies, "datasets": datasets, "epsilons": epsilons, "runs": runs, "seed": seed}
        request = Request(
            work=Work(
                problems=parse_names(datasets, PROBLEMS, "data set"),
                strategies=parse_names(strategies, ENTRIES, "strategy"),
                epsilons=parse_epsilons(epsilons),
                runs=runs,
                seed=seed,
                jobs=jobs or cores(),
            ),
            out=out,
            command="expril compare" + "".join(f" --{name} {value}" for name, value in given.items()),
        )
        with _work_bar(json_) as tick:
            found = run(request, tick)
        if json_:
            from experiments.publish.files import as_object

            print_json(as_object(found))
            return
        from experiments.learning.tables import found_tables
        from experiments.publish.terminal import LEAST_WIDTH

        console = wide_console(LEAST_WIDTH)
        for table in found_tables(found):
            console.print(table)
        _print_skipped(found.provenance.skipped if found.provenance else {})
        sys.stdout.write(f"report: {out / PAGE}\n")


@app.command("compare-synthetic")
def compare_synthetic(
    generators: Annotated[
        str, typer.Option(help="Comma-separated: cells, aim, mst, source, real, fresh, or all.")
    ] = "all",
    datasets: Annotated[str, typer.Option(help="Comma-separated, as for compare, or all.")] = "all",
    epsilons: Annotated[str, typer.Option(help="Comma-separated, each in total per data set.")] = "1,0.1",
    runs: Annotated[int, typer.Option(min=1, help="Runs per data set.")] = 5,
    jobs: Jobs = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the first run's split, never of noise; develop from 5000 on.")
    ] = 1000,
    out: Annotated[Path, typer.Option(help="Folder of results; go on where an earlier run stopped.")] = Path(
        "runs/comparison"
    ),
    json_: Json = False,
) -> None:
    """Compare our synthetic data with AIM's and MST's on the same records and epsilon; a killed run goes on."""
    with plain_errors(kept=f"finished cells are kept in {out}; the same command goes on"):
        from experiments.campaign.names import parse_names
        from experiments.campaign.provenance import cores
        from experiments.learning.command import parse_epsilons
        from experiments.problems import PROBLEMS
        from experiments.synthetic.comparison import PAGE, Request
        from experiments.synthetic.comparison import compare_synthetic as run
        from experiments.synthetic.generators import GENERATORS

        given = {"generators": generators, "datasets": datasets, "epsilons": epsilons, "runs": runs, "seed": seed}
        request = Request(
            problems=parse_names(datasets, PROBLEMS, "data set"),
            generators=parse_names(generators, GENERATORS, "generator"),
            epsilons=parse_epsilons(epsilons),
            runs=runs,
            seed=seed,
            jobs=jobs or cores(),
            out=out,
            command="expril compare-synthetic" + "".join(f" --{name} {value}" for name, value in given.items()),
        )
        with _work_bar(json_) as tick:
            rows = run(request, tick)
        if json_:
            from experiments.publish.files import as_object

            print_json(as_object(rows))
            return
        sys.stdout.write(f"table: {out / PAGE}\n")


def _print_skipped(skipped: Mapping[str, str]) -> None:
    for name, why in skipped.items():
        err.print(f"[yellow]note[/] {escape(name)} was left out: {escape(why)}", highlight=False, soft_wrap=True)


@app.command()
def quote(  # noqa: PLR0913, PLR0917 - one argument an option
    source: Annotated[
        str, typer.Argument(help="Unlabelled records (.csv, .parquet, .pq), or a scenario: its name or TOML file.")
    ] = "wdbc",
    schema: Annotated[Path | None, typer.Option(help="The steward's schema file; needed with records.")] = None,
    learner: Annotated[str, typer.Option(help="Which learner of the scenario. [its first]")] = "",
    epsilons: Annotated[str, typer.Option(help="Comma-separated, each a decimal or a/b.")] = "1,0.3,0.1",
    sites: Annotated[
        int | None, typer.Option(min=1, help="Curators whose answers are summed. [1, or the scenario's]")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Private records at all of them. [as declared]")] = None,
    contribution: Annotated[int | None, typer.Option(min=1, help="Bound c. [as declared]")] = None,
    strategy: Annotated[str, typer.Option(help="A strategy. [cells, or the learner's]")] = "",
    option: Annotated[list[str] | None, typer.Option(help="Of the strategy, as name=value; repeatable.")] = None,
    problems: Annotated[int, typer.Option(min=3, help="Simulated problems per row.")] = 9,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulated problems and their noise.")] = 0,
    json_: Json = False,
) -> None:
    """Say what a study would cost and bring, before anything is asked: noise, cells, expected accuracy."""
    with plain_errors():
        from threadpoolctl import threadpool_limits

        from simulations import quoting
        from simulations.tables import wide_console

        request = quoting.read_request(source, schema=schema, learner=learner)
        request = request.changed(
            sites=sites, target_size=size, most_records_per_unit=contribution, strategy=strategy, options=option or []
        )
        with _progress(json_) as tick, threadpool_limits(1):
            rows = quoting.run(request, quoting.parse_epsilons(epsilons), problems=problems, seed=seed, tick=tick)
        if json_:
            print_json(quoting.as_object(request, rows))
            return
        wide_console().print(quoting.quote_table(request, rows))


@app.command()
def scenarios(
    name: Annotated[str | None, typer.Argument(help="Print this scenario's TOML, to start one's own from.")] = None,
) -> None:
    """List the built-in scenarios, or print one."""
    with plain_errors():
        from simulations.scenario import builtin_scenarios, load_scenario
        from simulations.tables import scenario_table, wide_console

        if name is not None:
            sys.stdout.write(load_scenario(name)[1])
            return
        wide_console().print(scenario_table({name: load_scenario(name)[0] for name in builtin_scenarios()}))


@app.command()
def keys(path: Annotated[Path, typer.Argument(help="Where to write the private key (PEM).")]) -> None:
    """Make a signing key; print the public key that goes into a curator's policy."""
    with plain_errors():
        from curator_node.key_files import write_key

        sys.stdout.write(f"{write_key(path)}\n")


@app.command()
def report(runs: Runs) -> None:
    """Write the HTML report of runs anew and print its path."""
    with plain_errors():
        from simulations.run_folder import rewrite_page

        for run in runs:
            sys.stdout.write(f"{rewrite_page(run)}\n")


@contextmanager
def _progress(silent: bool) -> Iterator[Callable[[str, int, int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=silent or not err.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def tick(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield tick


@contextmanager
def _work_bar(silent: bool) -> Iterator[Callable[[str, float, float], None]]:
    """One bar over work of very different sizes, with the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    shown = not silent and err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=not shown, speed_estimate_period=600) as bar:
        task = bar.add_task("starting", total=None)

        def tick(what: str, done: float, total: float) -> None:
            bar.update(task, completed=done, total=total, description=what or "computing")

        yield tick


def _command(scenario: str, changes: dict[str, int]) -> str:
    options = "".join(f" --{key} {value}" for key, value in changes.items())
    return f"expril simulate {scenario}{options}"
