"""The commands of a steward, who keeps a curator: `expril keys` and `expril ledger ...`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from expril.terminal import Json, err, plain_errors, print_json, wide_console

Ledgers = Annotated[list[Path], typer.Argument(help="SQLite ledgers.", metavar="PATH...")]

ledger_app = typer.Typer(
    no_args_is_help=True, help="A curator's ledger: make, look at, check, copy, resume after a halt."
)


def keys(path: Annotated[Path, typer.Argument(help="Where to write the private key (PEM).")]) -> None:
    """Make a signing key; print the public key that goes into a curator's policy."""
    with plain_errors():
        from curator_node.key_files import write_key

        sys.stdout.write(f"{write_key(path)}\n")


@ledger_app.command("create")
def ledger_create(
    path: Annotated[Path, typer.Argument(help="Where to make it.")],
    key: Annotated[Path, typer.Option(help="The curator's private key (PEM).")],
    mark: Annotated[
        Path | None, typer.Option(help="Where the process keeps its mark; best on another disk. [NAME.mark beside it]")
    ] = None,
    note: Annotated[str, typer.Option(help="Kept in the ledger.")] = "",
) -> None:
    """Make a new ledger. Only this makes one: a ledger that is absent later was lost."""
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.ledger import view as ledger_view

        ledger_view.create(path, read_key(key), mark=mark, note=note)
        sys.stdout.write(f"{path}\n")


@ledger_app.command("show")
def ledger_show(
    paths: Ledgers,
    policy: Annotated[
        Path | None, typer.Option(help="The curator's policy: names, caps, what is left. [NAME.policy.toml beside it]")
    ] = None,
    json_: Json = False,
) -> None:
    """Check a ledger; show what each learner reserved, spent and has left, and every entry. Exit 1: not in order."""
    with plain_errors():
        from curator_node.ledger import view as ledger_view

        wrong = []
        for path in paths:
            view = ledger_view.read(path, policy)
            wrong += [(path, finding.text) for finding in view.findings]
            if json_:
                print_json(view.as_object())
                continue
            for table in view.tables():
                wide_console().print(table)
        _complain(wrong)


@ledger_app.command("verify")
def ledger_verify(
    paths: Ledgers,
    curator: Annotated[str, typer.Option(help="Public key that must have signed it. [the one it names]")] = "",
    json_: Json = False,
) -> None:
    """Check every entry's place, content and signature, and every stored reply. Exit 1: not in order."""
    with plain_errors():
        from curator_node.ledger import view as ledger_view

        pinned = ledger_view.public_key(curator, "--curator") if curator else None
        wrong = []
        for path in paths:
            view = ledger_view.read(path, curator=pinned)
            wrong += [(path, finding.text) for finding in view.findings]
            if json_:
                print_json(view.as_object())
            elif not view.findings:
                kept = len(view.account.answers) - len(view.account.evicted)
                sys.stdout.write(
                    f"{path}: {len(view.entries)} entries and {kept} stored replies in order, signed by "
                    f"{view.account.curator.hex()}; head {view.account.head.hex()}\n"
                )
        _complain(wrong)


@ledger_app.command("backup")
def ledger_backup(
    path: Annotated[Path, typer.Argument(help="A SQLite ledger; its curator may be serving.")],
    copy: Annotated[Path, typer.Argument(help="The copy to make.")],
) -> None:
    """Copy a ledger, its write-ahead log included. Never copy the file alone while a curator serves."""
    with plain_errors():
        from curator_node.ledger.store import backup

        backup(path, copy)
        sys.stdout.write(f"{copy}\n")


@ledger_app.command("resume")
def ledger_resume(
    path: Annotated[Path, typer.Argument(help="A SQLite ledger that is halted.")],
    key: Annotated[Path, typer.Option(help="The curator's private key (PEM); it signs the entry.")],
    note: Annotated[str, typer.Option(help="Why it is safe to go on; kept in the ledger.")],
    learner: Annotated[str, typer.Option(help="Public key of one who is known to have spent more.")] = "",
    restored: Annotated[str, typer.Option(help="How much more, such as 1/3.")] = "",
) -> None:
    """The steward's act after a halt: go on, with what the ledger is known to have lost entered as spent."""
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.ledger import view as ledger_view

        for line in ledger_view.resume(path, read_key(key), note=note, learner=learner, restored=restored):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write("resumed\n")


def _complain(wrong: Sequence[tuple[Path, str]]) -> None:
    for path, text in wrong:
        err.print(f"[bold red]not in order[/] {escape(f'{path}: {text}')}", highlight=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(1)
