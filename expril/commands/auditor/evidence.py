"""The commands of an auditor who holds no records, but what was signed: `expril audit run`, `witness`, `evidence`.

And `expril transcript show`.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.auditor import audit_app, transcript_app
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
        from expril.audit.tables import TABLE_WIDTH, recomputed_tables, verdict

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
        from expril.audit.kinds.shown import as_lines, find_transcript, read_transcript_view

        file = find_transcript(path, learner=learner, curator=curator, repeat=repeat)
        view = read_transcript_view(file, values=values)
        if json_:
            print_json(view)
        else:
            sys.stdout.write("".join(f"{line}\n" for line in as_lines(view)))


@audit_app.command("witness")
def audit_witness(
    checkpoint: Annotated[Path, typer.Argument(help="A curator's checkpoint: expril ledger checkpoint makes it.")],
    key: Annotated[Path, typer.Option(help="The witness's private key (PEM): expril keys makes one.")],
    state: Annotated[Path, typer.Option(help="Folder of what was co-signed; made at the first time.")],
    curator: Annotated[
        str, typer.Option(help="At the first time: the curator's public key, as it told you by another way.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Where to write the co-signed checkpoint. [standard output]")] = None,
    json_: Json = False,
) -> None:
    """Co-sign a ledger's checkpoint, if it goes on from the newest one that was co-signed. No entry is needed.

    Exit status: 0 co-signed; 1 refused, since something does not fit; 2 a file, a key or an option is wrong.
    """
    with plain_errors():
        import time

        from curator_node.key_files import read_key
        from curator_node.ledger.view import public_key
        from expril.audit.witness import EquivocationError, open_state, witness
        from expril.files import read_text_file, replace_text
        from protocol.ledger.checkpoints import CheckpointError, read_submission, witness_name, witnesses_of
        from protocol.ledger.notes import COSIGNATURE, verifier_key

        own = read_key(key)
        trusted = public_key(curator, "--curator") if curator else None
        try:
            submission = read_submission(read_text_file(checkpoint, "checkpoint"), where=str(checkpoint))
            with open_state(state, own.public) as kept:
                signed = witness(submission, own, kept, now=int(time.time()), trusted=trusted)
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
                    "witness": own.public.hex(),
                    "verifier_key": verifier_key(witness_name(own.public), COSIGNATURE, own.public),
                    "at": witnesses_of(signed)[own.public],
                    "checkpoint": str(signed.note),
                }
            )
        elif out is None:
            sys.stdout.write(str(signed.note))
        else:
            sys.stdout.write(f"{out}: {facts.size} entries of {facts.first.hex()[:16]}, co-signed\n")


@audit_app.command("evidence")
def audit_evidence(
    file: Annotated[Path, typer.Argument(help="What a witness kept: equivocation-*.json.")], json_: Json = False
) -> None:
    """Check the evidence that a curator signed two different ledgers, believing nobody.

    Exit status: 0 it is proven; 1 it is not; 2 the file cannot be read.
    """
    with plain_errors():
        from expril.files import read_text_file
        from protocol.ledger.checkpoints import CheckpointError, read_equivocation

        try:
            one, other = read_equivocation(read_text_file(file, "evidence").encode(), where=str(file))
        except CheckpointError as error:
            refuse({"proven": False, "refused": str(error)}, as_json=json_)
        facts = one.checkpoint
        if json_:
            roots = [each.checkpoint.root.hex() for each in (one, other)]
            print_json({"proven": True, "curator": facts.first.hex(), "entries": facts.size, "roots": roots})
            return
        sys.stdout.write(
            f"proven: the curator {facts.first.hex()} signed two different ledgers of {facts.size} entries\n"
        )
