"""The commands of an auditor, who holds no records: `expril verify` and `expril transcript show`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from expril.terminal import Json, bars, err, plain_errors, print_json, wide_console
from protocol.errors import ConfigurationError

transcript_app = typer.Typer(no_args_is_help=True, help="A transcript: every message of a learner with a curator.")


def verify(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    keys: Annotated[
        Path | None, typer.Option(help="TOML with public keys from elsewhere: [curators] and [learners], name = key.")
    ] = None,
    json_: Json = False,
) -> None:
    """Check runs without any records: the signed list, every file, every transcript, ledgers both ways, the report.

    Nothing is written. What is left open although nothing is wrong is said, line by line.

    Exit status: 0 all proven, but for what is said to be unproven; 1 something is not proven; 2 nothing could be read
    (no run, one of ExPriL 0.1, or a wrong keys file).
    """
    with plain_errors():
        from simulations.run_index import epsilon_runs
        from simulations.verification import read_pins, verify_run
        from simulations.verification.tables import PROOF_WIDTH, proof_tables

        pins = None if keys is None else read_pins(keys)
        proofs, unread = [], []
        with bars(json_) as tick:
            for number, run in enumerate(runs):
                tick("runs", number, len(runs))
                try:
                    proofs += [verify_run(each, pins, tick=tick) for each in epsilon_runs(run).values() or [run]]
                except ConfigurationError as error:
                    unread.append(str(error))
        if json_:
            print_json({"runs": [proof.as_object() for proof in proofs], "unread": unread})
        for proof in proofs:
            if json_:
                continue
            if proof.index is not None:
                for table in proof_tables(proof):
                    wide_console(PROOF_WIDTH).print(table)
            for text in proof.wrong:
                _say("[bold red]not proven[/]", f"{proof.folder}: {text}")
            for text in proof.unproven:
                _say("[yellow]unproven[/]", text)
        for text in unread:
            _say("[bold red]error[/]", text)
        if any(not proof.proven for proof in proofs):
            raise typer.Exit(1)
        if unread:
            raise typer.Exit(2)


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

    Signatures and order are not checked here: that is what expril verify does. Exit status: 0, or 2 where the file
    cannot be read.
    """
    with plain_errors():
        from simulations.verification.transcript_view import find_transcript, read_transcript_view

        file = find_transcript(path, learner=learner, curator=curator, repeat=repeat)
        view = read_transcript_view(file, values=values)
        if json_:
            print_json(view)
            return
        from simulations.verification.transcript_view import as_lines

        for line in as_lines(view):
            sys.stdout.write(f"{line}\n")


def _say(what: str, text: str) -> None:
    err.print(f"{what} {escape(text)}", highlight=False, soft_wrap=True)
