"""The command `expril`: thin; what it does is in `harness`, `run_folder` and `ledger_view`."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from threadpoolctl import threadpool_limits

from protocol.errors import ExprilError
from simulations import ledger_view
from simulations.datasets import DataUnavailableError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
ledger_app = typer.Typer(no_args_is_help=True, help="Look at a curator's ledger, or resume it after a halt.")
app.add_typer(ledger_app, name="ledger")

out = Console()
err = Console(stderr=True)


@app.callback()
def main() -> None:
    """Learn from records that their owners never release."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    logging.basicConfig(level=logging.CRITICAL)


@app.command()
def simulate(
    scenario: Annotated[
        str, typer.Argument(help="A built-in scenario (see: expril scenarios) or a TOML file.")
    ] = "wdbc",
    out_: Annotated[Path, typer.Option("--out", help="Folder under which the run's folder is made.")] = Path("runs"),
    repeats: Annotated[int | None, typer.Option(help="Repeat this often instead of what the scenario says.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of splits and learners instead of the scenario's.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")] = False,
) -> None:
    """Run a scenario: curators, learners, signed rounds, real noise; print a table and leave a report."""
    with _plain_errors():
        from simulations.federation import load_records
        from simulations.harness import run_scenario, summary
        from simulations.run_folder import LEDGERS, new_folder, save_run
        from simulations.scenario import load_scenario
        from simulations.tables import result_table

        chosen, text, base = load_scenario(scenario)
        changes = {key: value for key, value in (("repeats", repeats), ("seed", seed)) if value is not None}
        chosen = msgspec.convert(msgspec.to_builtins(chosen) | changes, type(chosen))
        records = load_records(chosen, base)
        folder = new_folder(out_, chosen.title)
        # Several BLAS threads on matrices this small cost more than they give.
        with _progress(json_) as tick, threadpool_limits(1):
            run = run_scenario(
                chosen,
                records,
                text=text,
                command=_command(scenario, changes),
                version=version("expril"),
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                ledgers=folder / LEDGERS,
                tick=tick,
            )
        page = save_run(run, folder)
        if json_:
            sys.stdout.write(json.dumps(summary(run, str(folder))) + "\n")
            return
        out.print(result_table(run.report))
        for note in run.report.notes:
            out.print(f"[yellow]note[/] {escape(note)}", highlight=False)
        out.print(f"report: {page}", soft_wrap=True, highlight=False)


@app.command()
def scenarios() -> None:
    """List the built-in scenarios."""
    with _plain_errors():
        from simulations.scenario import builtin_scenarios, load_scenario
        from simulations.tables import scenario_table

        out.print(scenario_table({name: load_scenario(name)[0] for name in builtin_scenarios()}))


@app.command()
def keys(path: Annotated[Path, typer.Argument(help="Where to write the private key (PEM).")]) -> None:
    """Make a signing key; print the public key that goes into a curator's policy."""
    with _plain_errors():
        from simulations.key_files import write_key

        out.print(write_key(path), highlight=False, soft_wrap=True)


@app.command()
def report(run: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Write the HTML report of a run anew and print its path."""
    with _plain_errors():
        from simulations.run_folder import rewrite_page

        out.print(str(rewrite_page(run)), highlight=False, soft_wrap=True)


@app.command()
def verify(run: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Replay a run's transcripts without any data: signatures, order, costs, receipts."""
    with _plain_errors():
        from simulations.run_folder import verify_run
        from simulations.tables import proof_table

        rows = verify_run(run)
        out.print(proof_table(rows))
        complaints = [str(row["why"]) for row in rows if "why" in row]
        for complaint in complaints:
            err.print(f"[bold red]not proven[/] {escape(complaint)}", highlight=False, soft_wrap=True)
        if complaints:
            raise typer.Exit(1)


@ledger_app.command("show")
def ledger_show(
    path: Annotated[Path, typer.Argument(help="A SQLite ledger.")],
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")] = False,
) -> None:
    """Check a ledger's hash chain; show what each learner reserved and spent, and every entry."""
    with _plain_errors():
        view = ledger_view.read(path)
        if json_:
            sys.stdout.write(json.dumps(view.as_object()) + "\n")
            return
        for table in view.tables():
            out.print(table)


@ledger_app.command("resume")
def ledger_resume(
    path: Annotated[Path, typer.Argument(help="A SQLite ledger that is halted.")],
    note: Annotated[str, typer.Option(help="Why it is safe to go on; kept in the ledger.")],
    learner: Annotated[str, typer.Option(help="Public key whose lost spending is entered anew.")] = "",
    restored: Annotated[str, typer.Option(help="Epsilon to enter as spent, such as 1/3.")] = "",
) -> None:
    """The steward's act after a halt: go on, with lost spending entered as spent."""
    with _plain_errors():
        ledger_view.resume(path, note=note, learner=learner, restored=restored)
        out.print("resumed")


@contextmanager
def _plain_errors() -> Iterator[None]:
    """A mistake of the user is one clear line and exit status 2, never a traceback."""
    try:
        yield
    except (ExprilError, DataUnavailableError) as error:
        err.print(f"[bold red]error[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None


@contextmanager
def _progress(silent: bool) -> Iterator[Callable[[str, int, int], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=silent) as bar:
        tasks: dict[str, TaskID] = {}

        def tick(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield tick


def _command(scenario: str, changes: dict[str, int]) -> str:
    options = "".join(f" --{key} {value}" for key, value in changes.items())
    return f"expril simulate {Path(scenario).name}{options}"
