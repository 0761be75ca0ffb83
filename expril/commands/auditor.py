"""The command `expril transcript show`, of an auditor who holds no records; see also `audit_run`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.terminal import Json, plain_errors, print_json

transcript_app = typer.Typer(no_args_is_help=True, help="A transcript: every message of a learner with a curator.")


@transcript_app.command("show")
def transcript_show(
    path: Annotated[Path, typer.Argument(help="A transcript (.msgpack), or a run's folder with the options below.")],
    learner: Annotated[str, typer.Option(help="Of a run's folder: whose. [the first]")] = "",
    curator: Annotated[str, typer.Option(help="Of a run's folder: with whom. [the first]")] = "",
    repeat: Annotated[int, typer.Option(min=0, help="Of a run's folder: in which repeat.")] = 0,
    values: Annotated[bool, typer.Option("--values", help="Print the noisy numbers of releases, too.")] = False,
    json_: Json = False,
) -> None:
    """Print every message: who, what, when; bounds, plans with c m S / scale = cost, charges, totals, refusals.

    Signatures and order are not checked here: that is what expril audit run does. Exit status: 0, or 2 where the file
    cannot be read.
    """
    with plain_errors():
        from expril.audit.shown import find_transcript, read_transcript_view

        file = find_transcript(path, learner=learner, curator=curator, repeat=repeat)
        view = read_transcript_view(file, values=values)
        if json_:
            print_json(view)
            return
        from expril.audit.shown import as_lines

        for line in as_lines(view):
            sys.stdout.write(f"{line}\n")
