"""The command `expril audit all`: every release, every broken mechanism, every check, one verdict."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from expril.commands.audit import audit_app
from expril.commands.terminal import Json, err, plain_errors, print_json, wide_console, work_bar


@audit_app.command("all")
def audit_all(
    draws: Annotated[
        int, typer.Option(min=2000, max=10_000_000, help="From each of two inputs, of every mechanism.")
    ] = 100_000,
    out: Annotated[Path, typer.Option(help="Folder for audit.html and audit.json.")] = Path("audit"),
    runs: Annotated[
        list[Path] | None,
        typer.Option("--run", help="A run or an export, to recompute what it spent; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few draws and trials: to try it out, not to rely on.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 2,
    json_: Json = False,
) -> None:
    """Attack every release that is installed, and mechanisms that are broken on purpose; check noise and studies.

    Needs no data and no network. Of correct software, one audit in twenty raises a false alarm at most.

    Exit status: 0 all is in order; 1 a release gives away more than claimed, a broken mechanism was not caught, a check
    failed, an attack gained more than its bound, or a run does not add up; 2 wrong use.
    """
    with plain_errors(part="simulations"):
        from curator_node.new_files import replace_text
        from expril.audit.document import QUICK, audit_document, rows_of
        from expril.audit.everything import CELLS, audit_everything
        from expril.audit.files import as_object, write_result
        from expril.audit.recompute import Recomputed, recompute
        from expril.audit.results import DRAWS
        from expril.report.page import as_page
        from expril.report.terminal import as_terminal
        from protocol.errors import ConfigurationError

        spent = recompute(*runs) if runs else Recomputed()
        if spent.unread:
            raise ConfigurationError(spent.unread[0])
        out.mkdir(parents=True, exist_ok=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with work_bar(json_) as tick:
            result = audit_everything(draws=draws, quick=quick, workers=workers, tick=tick, cells=out / CELLS)
        named = [f"--run {path}" for path in runs or ()]
        few = [f"--draws {draws}"] if draws != DRAWS else []
        command = " ".join(("expril audit all", *few, *(["--quick"] if quick else []), *named))
        write_result(result, out / "audit.json", created=created)
        document = audit_document(result, created=created, command=command, spent=rows_of(spent))
        replace_text(out / "audit.html", as_page(document))
        if json_:
            print_json(as_object(result, created=created, pictures=False))
        else:
            for shown in as_terminal(document):
                wide_console().print(shown, "")
            for text in spent.wrong:
                err.print(f"[bold red]not proven[/] {escape(text)}", highlight=False, soft_wrap=True)
            sys.stdout.write(
                f"{document.headline}.\n{f'{QUICK}{chr(10)}' if result.quick else ''}{out / 'audit.html'}\n"
            )
            err.print(f"{result.seconds:.0f} seconds", highlight=False)
        if not result.passed or not spent.proven:
            raise typer.Exit(1)
