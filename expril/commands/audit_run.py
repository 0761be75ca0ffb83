"""The command `expril audit run`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from expril.commands.audit import audit_app
from expril.commands.terminal import Json, bars, err, plain_errors, print_json, wide_console


@audit_app.command("run")
def audit_run(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs, exports of ledgers, SQLite ledgers.", metavar="RUN_OR_EXPORT..."),
    ],
    keys: Annotated[
        Path | None, typer.Option(help="TOML with public keys from elsewhere: [curators] and [learners], name = key.")
    ] = None,
    receipt: Annotated[list[Path] | None, typer.Option(help="A receipt that a learner holds; may be repeated.")] = None,
    witnessed: Annotated[
        list[Path] | None, typer.Option(help="A ledger's head that a witness co-signed; may be repeated.")
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of a witness, known from elsewhere: 64 digits; may be repeated. Others count not."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="For (epsilon, delta), of each accepted plan.")] = 1e-6,
    every_signature: Annotated[
        bool,
        typer.Option("--every-signature", help="Check all signatures of ledgers of more than 50,000 entries, too."),
    ] = False,
    json_: Json = False,
) -> None:
    """Recompute what was spent, from transcripts, receipts and ledgers alone: no records, no curator's code, no belief.

    Nothing is written. What is left open although nothing is wrong is said, line by line.

    Exit status: 0 all proven, but for what is said to be unproven; 1 something is not proven; 2 nothing could be read
    (no run, no ledger, one of ExPriL 0.1, or a wrong file in an option).
    """
    with plain_errors():
        from expril.audit.recompute import read_pins, read_witnesses, recompute
        from expril.audit.recompute.tables import TABLE_WIDTH, proof_tables, sum_table, verdict

        pins = None if keys is None else read_pins(keys)
        with bars(json_) as tick:
            result = recompute(
                *paths,
                pins=pins,
                receipts=receipt or (),
                witnessed=witnessed or (),
                witnesses=read_witnesses(witness) if witness else None,
                delta=delta,
                every_signature=every_signature,
                tick=tick,
            )
        if json_:
            print_json(result.as_object())
        else:
            console = wide_console(TABLE_WIDTH)
            for proof in result.runs:
                for table in proof_tables(proof) if proof.index is not None else ():
                    console.print(table)
            if result.sums:
                console.print(sum_table(result))
            for what, texts in (
                ("[bold red]not proven[/]", result.wrong),
                ("[yellow]unproven[/]", result.unproven),
                ("[yellow]unwitnessed[/]", result.unwitnessed),
                ("[bold red]error[/]", result.unread),
            ):
                for text in texts:
                    err.print(f"{what} {escape(text)}", highlight=False, soft_wrap=True)
            sys.stdout.write(f"{verdict(result)}\n")
        if not result.proven:
            raise typer.Exit(1)
        if result.unread:
            raise typer.Exit(2)
