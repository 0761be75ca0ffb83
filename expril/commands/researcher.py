"""The commands of a researcher, who simulates studies on public records and publishes what they show."""

import sys
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.terminal import (
    MOST_REPEATS,
    MOST_SEED,
    WRONG,
    CarrierName,
    Fault,
    FilesFolder,
    Json,
    KeptModels,
    LargeEpsilon,
    Png,
    bars,
    check_files,
    plain_errors,
    print_json,
    readable,
    say,
    tell_fault,
    wide_console,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from simulations.report.model import RunReport
    from simulations.run_cells import UnfinishedRun
    from simulations.scenario import Scenario

RUNS = Path("runs")


def simulate(  # noqa: PLR0913, PLR0917 - the options of a command
    scenario: Annotated[str, typer.Argument(help="A built-in scenario (expril scenarios), or a TOML file.")] = "wdbc",
    out: Annotated[Path, typer.Option(help="Folder under which the run's folder is made.")] = RUNS,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=MOST_REPEATS, help="Repeats, instead of what the scenario says.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help="Seed of splits and learners, never of noise.")
    ] = None,
    epsilon: Annotated[
        str, typer.Option(help="Every learner's epsilon, instead of its own; several, as 0.1,0.3,1, make a curve.")
    ] = "",
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out", help="Also learn, for each site, from all other sites (docs/learner/joining.md)."
        ),
    ] = False,
    models: Annotated[KeptModels, typer.Option(help="Repeats whose models are kept.")] = KeptModels.first,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, although an interrupted run could go on.")
    ] = False,
    base: Annotated[
        Path | None, typer.Option(help="Folder that the scenario's paths start from. [the scenario file's own]")
    ] = None,
    carrier: Annotated[
        CarrierName | None,
        typer.Option(help="How envelopes travel (docs/researcher/carriers.md). [process, or that of the run's folder]"),
    ] = None,
    large_epsilon: LargeEpsilon = False,
    json_: Json = False,
) -> None:
    """Run a scenario with curators, learners, signed rounds and real noise; print a table and write a report.

    Finished repeats survive an interrupt, a full disk and a kill; the same command goes on after them. A run's folder
    is a scenario, too, and can be run again.

    Exit status: 0 finished; 2 nothing could be run, or a learner learned nothing in any repeat
    (docs/reference/errors.md).
    """
    making: list[UnfinishedRun] = []
    with (
        plain_errors(part="simulations", on_interrupt=lambda: making[-1].progress_note if making else ""),
        bars(json_) as tick,
    ):
        tick("starting", 0, 0)
        from simulations.run_folder import name_newest, of_newest
        from simulations.run_order import choose, typed_command, typed_options
        from simulations.scenario import at_epsilon, read_epsilons

        scenario = of_newest(scenario)
        changed = {key: value for key, value in (("repeats", repeats), ("seed", seed)) if value is not None}
        if leave_one_out:
            changed["leave_one_out"] = True
        epsilons = read_epsilons(epsilon) if epsilon else ()
        if epsilons and not large_epsilon:
            from learner_node.study.doubts import require_confirmed
            from protocol.rationals import parse_rational

            require_confirmed(map(parse_rational, epsilons), how="--large-epsilon")
        chosen = choose(scenario, changed, base)
        tick("starting", 1, 1)
        tick("reading the records", 0, 0)
        from simulations.records import (
            doubts_of,  # what is wrong in a file is told before more is loaded
            load_records,
        )

        records = load_records(chosen.scenario, chosen.folder)
        doubts = doubts_of(at_epsilon(chosen.scenario, epsilons[-1]).scenario if epsilons else chosen.scenario, records)
        tick("reading the records", 1, 1)
        for doubt in doubts:
            say("warning", doubt)
        from simulations.run import run_epsilons, run_one
        from simulations.run_order import Order

        # A report names no place of this machine; who goes on with a run needs them.
        kept_models, elsewhere = "" if models is KeptModels.first else models.value, "" if out == RUNS else out
        places = {"models": kept_models, "carrier": carrier, "base": base, "out": elsewhere}
        again = f"expril simulate {scenario}{typed_options({**changed, 'epsilon': epsilon, **places})}"

        def order_of(changes: Mapping[str, int | str], several: str = "") -> Order:
            there = choose(scenario, changes, base)
            options = {**changes, **({"epsilon": several} if several else {}), "carrier": carrier}
            command = readable(typed_command(scenario, options) + (" --large-epsilon" if large_epsilon else ""))
            return Order(there, records, command, models.value, fresh, again, (carrier or there.carrier))

        def run_at(epsilon_text: str, where: Path) -> "tuple[RunReport, Path]":
            changes = changed | ({"epsilon": epsilon_text} if epsilon_text else {})
            return run_one(order_of(changes), where, making, tick, say)

        if len(epsilons) > 1:
            order = order_of(changed, epsilon)
            reports, folder = run_epsilons(order, epsilons, out, run_at, say)
        else:
            report, folder = run_at("".join(epsilons), out)
            reports = [report]
        name_newest(folder)
    _show_runs(reports, folder, epsilons, silent=json_)


def _show_runs(reports: "Sequence[RunReport]", folder: Path, epsilons: Sequence[str], *, silent: bool) -> None:
    """Print the result of one run, or of several with different epsilons."""
    from expril.report.terminal import LEAST_WIDTH, as_terminal
    from protocol.run_index import PAGE
    from simulations.run import nothing_learned, summary_of_all
    from simulations.run_page import read_document

    if silent:
        print_json(summary_of_all(reports, epsilons, folder))
    else:
        console = wide_console(LEAST_WIDTH)
        for result in reports:
            if any(learner.is_of_analyses for learner in result.learners):
                from simulations.report.analyses import terminal_text

                sys.stdout.write(f"{terminal_text(result)}\n")
        for block in as_terminal(read_document(folder)):
            console.print(block, highlight=False, soft_wrap=not hasattr(block, "columns"))
        console.print(f"report: {folder / PAGE}", soft_wrap=True, highlight=False)
    if wrong := nothing_learned(reports, epsilons):
        tell_fault(Fault("study", wrong), as_json=False)
        raise typer.Exit(WRONG)


def scenarios(
    name: Annotated[
        str | None, typer.Argument(help="A scenario whose TOML is printed, to start your own from.")
    ] = None,
) -> None:
    """List the built-in scenarios, or print one."""
    with plain_errors():
        from simulations.scenario import builtin_scenarios, load_scenario

        if name is not None:
            sys.stdout.write(load_scenario(name)[1])
            return
        wide_console().print(_scenario_table({name: load_scenario(name)[0] for name in builtin_scenarios()}))


def _scenario_table(scenarios: "Mapping[str, Scenario]") -> "RenderableType":
    """Name, learners and description of each scenario, the default first."""
    from expril.report.table import Column, Group, Table
    from expril.report.terminal import rich_table

    columns: list[Column[tuple[str, Scenario]]] = [
        Column("scenario", itemgetter(0)),
        Column(
            "learners",
            lambda item: "\n".join(
                f"{'analyses' if learner.analyses else learner.strategy} at {learner.epsilon}"
                for learner in item[1].learners
            ),
        ),
        Column("what it is", lambda item: " ".join(item[1].description.split()), wraps=True),
    ]
    ordered = sorted(scenarios.items(), key=lambda item: (item[0] != "wdbc", item[0]))
    note = "print one: expril scenarios NAME; all keys: docs/researcher/scenarios.md"
    return rich_table(Table("", columns, [Group([item]) for item in ordered], note=note))


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    files: FilesFolder = None,
    png: Png = False,
) -> None:
    """Write the HTML report of runs anew and print its path.

    With --files, figures and tables are written, too: of several runs, each in a folder of the run's name.
    """
    with plain_errors(part="simulations"):
        check_files(files, png)
        from expril.report.page_files import write_page_files
        from simulations.run_page import read_document, rewrite_page

        with bars(silent=False) as tick:
            pages = []
            for number, run in enumerate(runs):
                tick("reports", number, len(runs))
                pages.append(rewrite_page(run))
                if files is not None:
                    target = files / run.resolve().name if len(runs) > 1 else files
                    pages += write_page_files(read_document(run), target, png=png)
        sys.stdout.write("".join(f"{page}\n" for page in pages))
