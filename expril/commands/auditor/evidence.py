"""The commands around witnesses: `expril ledger checkpoint`, `expril audit witness` and `expril audit evidence`."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape

from expril.commands.audit import audit_app
from expril.commands.steward import CuratorKey, OneLedger, ledger_app
from expril.commands.terminal import Json, err, plain_errors, print_json


@ledger_app.command("checkpoint")
def ledger_checkpoint(
    ledger: OneLedger,
    key: CuratorKey,
    out: Annotated[Path, typer.Option(help="The file to make, for a witness.")],
    since: Annotated[
        str, typer.Option(help="An older checkpoint that the witness has co-signed, or its number of entries.")
    ] = "",
    mark: Annotated[
        Path | None, typer.Option(help="Of a process that serves: the ledger must hold what it names. [the one beside]")
    ] = None,
    json_: Json = False,
) -> None:
    """Sign how many entries a ledger has and the root over them, for a witness. Exit 1: halted, rolled back, edited."""
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.keyring import first_key
        from curator_node.ledger.checkpointing import write_checkpoint
        from curator_node.ledger.places import ledger_place
        from protocol.ledger.checkpoints import CheckpointError
        from protocol.ledger.notes import PLAIN, verifier_key

        where, owner = ledger_place(ledger), read_key(key)
        try:
            made, marked = write_checkpoint(where, owner, out, since=since, mark=mark, first=first_key(key))
        except CheckpointError as error:
            _refuse({"refused": str(error)}, json_)
        checkpoint = made.signed.checkpoint
        if json_:
            print_json(
                {
                    "curator": checkpoint.first.hex(),
                    "entries": checkpoint.size,
                    "since": made.old,
                    "root": checkpoint.root.hex(),
                    "head": checkpoint.head.hex(),
                    "verifier_key": verifier_key(checkpoint.origin, PLAIN, owner.public),
                    "mark": marked,
                }
            )
            return
        proven = f", going on from {made.old}" if made.old else ""
        sys.stdout.write(f"{out}: {checkpoint.size} entries{proven}; head {checkpoint.head.hex()[:16]}\n")
        if not marked:
            err.print("no mark was at hand: that this is the newest state rests on your word (--mark)", soft_wrap=True)


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
        from curator_node.new_files import replace_text
        from curator_node.text_files import read_text_file
        from expril.audit.witness import EquivocationError, open_state, witness
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
            _refuse({"co_signed": False, "refused": str(error), **evidence}, json_)
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
        from curator_node.text_files import read_text_file
        from protocol.ledger.checkpoints import CheckpointError, read_equivocation

        try:
            one, other = read_equivocation(read_text_file(file, "evidence").encode(), where=str(file))
        except CheckpointError as error:
            _refuse({"proven": False, "refused": str(error)}, json_)
        facts = one.checkpoint
        if json_:
            roots = [each.checkpoint.root.hex() for each in (one, other)]
            print_json({"proven": True, "curator": facts.first.hex(), "entries": facts.size, "roots": roots})
            return
        sys.stdout.write(
            f"proven: the curator {facts.first.hex()} signed two different ledgers of {facts.size} entries\n"
        )


def _refuse(told: dict[str, object], as_json: bool) -> NoReturn:
    if as_json:
        print_json(told)
    err.print(f"[bold red]refused[/] {escape(str(told['refused']))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1)
