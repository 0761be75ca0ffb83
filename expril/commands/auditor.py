"""The commands of an auditor that need no extra: `expril audit run`, `witness`, `evidence`, and `transcript show`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.terminal import (
    BAD,
    WRONG,
    Json,
    bars,
    exit_unless,
    plain_errors,
    print_json,
    print_table,
    refuse,
    say,
)

audit_app = typer.Typer(no_args_is_help=True, help="Check claims about privacy: by proof, by attack, by enumeration.")
transcript_app = typer.Typer(no_args_is_help=True, help="A transcript: every message of a learner with a curator.")

RunsOrExports = typer.Argument(
    help="Folders of runs, exports of ledgers, SQLite ledgers.", metavar="RUN_OR_EXPORT...", show_default=False
)
Pins = Annotated[
    Path | None, typer.Option(help="TOML with public keys from elsewhere: [curators] and [learners], name = key.")
]
Receipts = Annotated[list[Path] | None, typer.Option(help="A receipt that a learner holds; repeatable.")]
Witnessed = Annotated[list[Path] | None, typer.Option(help="A ledger's head that a witness co-signed; repeatable.")]
PlugIns = Annotated[
    list[str] | None, typer.Option(help="An installed package whose query kinds are known, too; repeatable.")
]


def _include(names: list[str] | None) -> None:
    if names:
        from expril.audit.plug_ins import include

        for name in names:
            include(name)


@audit_app.command("run")
def audit_run(
    paths: Annotated[list[Path], RunsOrExports],
    keys: Pins = None,
    receipt: Receipts = None,
    witnessed: Witnessed = None,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            help="Public key of a witness from elsewhere, 64 digits; repeatable. Other witnesses then do not count."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="For the (epsilon, delta) of each accepted plan.")] = 1e-6,
    every_signature: Annotated[
        bool,
        typer.Option("--every-signature", help="Check every signature of ledgers of more than 50,000 entries, too."),
    ] = False,
    plug_in: PlugIns = None,
    json_: Json = False,
) -> None:
    """Recompute what was spent from signed transcripts, receipts and ledgers alone, without records or curator's code.

    Nothing is written. Each line "unproven" names something that these files leave open, although nothing is wrong.

    Exit status: 0 all is proven, but for the unproven lines; 1 something is not proven; 2 nothing could be read (no
    run, no ledger, one of ExPriL 0.1, or a wrong file in an option).
    """
    with plain_errors():
        from expril.audit.recompute import read_pins, read_witnesses, recompute
        from expril.audit.tables import TABLE_WIDTH, recomputed_tables, verdict

        _include(plug_in)
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
            for table in recomputed_tables(result):
                print_table(table, TABLE_WIDTH)
            say("not proven", *result.wrong, style=BAD)
            say("unproven", *result.unproven)
            say("unwitnessed", *result.unwitnessed)
            say("error", *result.unread, style=BAD)
            sys.stdout.write(f"{verdict(result)}\n")
        exit_unless(result.proven)
        if result.unread:
            raise typer.Exit(WRONG)


@transcript_app.command("show")
def transcript_show(
    path: Annotated[Path, typer.Argument(help="A transcript (.msgpack), or a run's folder.")],
    learner: Annotated[str, typer.Option(help="Learner, in a run's folder. [the first]")] = "",
    curator: Annotated[str, typer.Option(help="Curator, in a run's folder. [the first]")] = "",
    repeat: Annotated[int, typer.Option(min=0, help="Repeat, in a run's folder.")] = 0,
    values: Annotated[bool, typer.Option("--values", help="Print the noisy numbers of releases, too.")] = False,
    plug_in: PlugIns = None,
    json_: Json = False,
) -> None:
    """Print every message: who, what, when; bounds, plans with c m S / scale = cost, charges, totals, refusals.

    Signatures and order are not checked here; expril audit run checks them.

    Exit status: 0 printed; 2 the file cannot be read.
    """
    with plain_errors():
        from expril.audit.transcript_view import as_lines, find_transcript, read_transcript_view

        _include(plug_in)
        file = find_transcript(path, learner=learner, curator=curator, repeat=repeat)
        view = read_transcript_view(file, values=values)
        if json_:
            print_json(view)
        else:
            sys.stdout.write("".join(f"{line}\n" for line in as_lines(view)))


@audit_app.command("witness")
def audit_witness(
    checkpoint: Annotated[Path, typer.Argument(help="A curator's checkpoint: expril ledger checkpoint makes it.")],
    key: Annotated[Path, typer.Option(help="The witness's private key (PEM); expril keys makes one.")],
    state: Annotated[Path, typer.Option(help="The witness's folder of co-signed checkpoints; made the first time.")],
    curator: Annotated[
        str, typer.Option(help="The first time: the curator's public key, from elsewhere than the checkpoint.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="The file to make. [standard output]")] = None,
    json_: Json = False,
) -> None:
    """Co-sign a ledger's checkpoint if it extends the newest one that was co-signed; no entry is needed.

    Exit status: 0 co-signed; 1 refused, as something does not fit; 2 a file, a key or an option is wrong.
    """
    with plain_errors():
        import time

        from curator_node.key_files import read_key
        from curator_node.ledger.view import public_key
        from expril.audit.witness import EquivocationError, open_state, witness
        from expril.files import read_text_file, replace_text
        from protocol.ledger.checkpoints import CheckpointError, read_submission, witness_name, witnesses_of
        from protocol.ledger.notes import COSIGNATURE, verifier_key

        witness_key = read_key(key)
        trusted = public_key(curator, "--curator") if curator else None
        try:
            submission = read_submission(read_text_file(checkpoint, "checkpoint"), where=str(checkpoint))
            with open_state(state, witness_key.public) as history:
                signed = witness(submission, witness_key, history, now=int(time.time()), trusted=trusted)
        except CheckpointError as error:
            evidence = {"evidence": str(error.evidence)} if isinstance(error, EquivocationError) else {}
            refuse({"co_signed": False, "refused": str(error), **evidence}, as_json=json_)
        if out is not None:
            replace_text(out, str(signed.note))
        facts = signed.checkpoint
        if json_:
            print_json(
                {
                    "co_signed": True,
                    "curator": facts.first.hex(),
                    "entries": facts.size,
                    "root": facts.root.hex(),
                    "head": facts.head.hex(),
                    "witness": witness_key.public.hex(),
                    "verifier_key": verifier_key(witness_name(witness_key.public), COSIGNATURE, witness_key.public),
                    "at": witnesses_of(signed)[witness_key.public],
                    "checkpoint": str(signed.note),
                }
            )
        elif out is None:
            sys.stdout.write(str(signed.note))
        else:
            sys.stdout.write(f"{out}: {facts.size} entries of {facts.first.hex()[:16]}, co-signed\n")


@audit_app.command("evidence")
def audit_evidence(
    file: Annotated[Path, typer.Argument(help="A witness's file equivocation-*.json.")], json_: Json = False
) -> None:
    """Check the evidence that a curator signed two different ledgers, from signatures alone.

    Exit status: 0 it is proven; 1 it is not proven; 2 the file cannot be read.
    """
    with plain_errors():
        from expril.files import read_text_file
        from protocol.ledger.checkpoints import CheckpointError, read_equivocation

        try:
            first, second = read_equivocation(read_text_file(file, "evidence").encode(), where=str(file))
        except CheckpointError as error:
            refuse({"proven": False, "refused": str(error)}, as_json=json_)
        facts = first.checkpoint
        if json_:
            roots = [signed.checkpoint.root.hex() for signed in (first, second)]
            print_json({"proven": True, "curator": facts.first.hex(), "entries": facts.size, "roots": roots})
            return
        sys.stdout.write(
            f"proven: the curator {facts.first.hex()} signed two different ledgers of {facts.size} entries\n"
        )
