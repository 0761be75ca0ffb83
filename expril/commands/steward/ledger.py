"""The commands of a steward who keeps a ledger: `expril keys` and `expril ledger ...`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.terminal import BAD, Json, err, exit_unless, plain_errors, print_json, print_table, refuse, say
from expril.report.table import Written, strong, text_table

if TYPE_CHECKING:
    from curator_node.ledger.view import LedgerView

Ledgers = Annotated[list[str], typer.Argument(help="SQLite ledgers, exports, or databases' URLs.", metavar="LEDGER...")]
OneLedger = Annotated[str, typer.Argument(help="A SQLite ledger, or a database's URL.", metavar="LEDGER")]
CuratorKey = Annotated[Path, typer.Option(help="The curator's private key (PEM).")]

ledger_app = typer.Typer(no_args_is_help=True, help="A curator's ledger: make, show, check, copy, resume after a halt.")


def keys(path: Annotated[Path, typer.Argument(help="Where to write the private key (PEM).")]) -> None:
    """Make a signing key, and print its public key, which goes into a curator's policy."""
    with plain_errors():
        from curator_node.key_files import write_key

        sys.stdout.write(f"{write_key(path)}\n")


@ledger_app.command("create")
def ledger_create(
    ledger: Annotated[str, typer.Argument(help="The SQLite file to make, or a database's URL.")],
    key: CuratorKey,
    mark: Annotated[
        Path | None, typer.Option(help="The serving process's mark; best on another disk. [NAME.mark beside it]")
    ] = None,
    note: Annotated[str, typer.Option(help="Kept in the ledger.")] = "",
) -> None:
    """Make a new ledger. Only this command makes one, so a ledger that is missing later was lost."""
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.ledger import view as ledger_view
        from curator_node.ledger.places import ledger_place, place_text

        where = ledger_place(ledger)
        ledger_view.create(where, read_key(key), mark=mark, note=note)
        sys.stdout.write(f"{place_text(where)}\n")


@ledger_app.command("show")
def ledger_show(
    ledgers: Ledgers,
    policy: Annotated[
        Path | None, typer.Option(help="The curator's policy: names, caps, what is left. [NAME.policy.toml beside it]")
    ] = None,
    json_: Json = False,
) -> None:
    """Check a ledger; show what each learner reserved, spent and has left, and every entry.

    Exit status: 0 in order; 1 not in order; 2 it cannot be read.
    """
    with plain_errors():
        from curator_node.ledger import view as ledger_view
        from curator_node.ledger.places import ledger_place, place_text

        wrong = []
        for where in map(ledger_place, ledgers):
            view = ledger_view.read(where, policy)
            wrong += [(place_text(where), finding.text) for finding in view.findings]
            if json_:
                print_json(view.as_object())
                continue
            print_table(_learners(view))
            print_table(_entries(view))
        _complain(wrong)


@ledger_app.command("verify")
def ledger_verify(
    ledgers: Ledgers,
    curator: Annotated[str, typer.Option(help="Public key that must have signed it. [the one it names]")] = "",
    receipt: Annotated[
        list[Path] | None, typer.Option(help="A receipt whose entry the ledger must hold; repeatable.")
    ] = None,
    json_: Json = False,
) -> None:
    """Check every entry's place, content and signature, and every stored reply.

    Exit status: 0 in order; 1 not in order; 2 it cannot be read.
    """
    with plain_errors():
        from curator_node.ledger import view as ledger_view
        from curator_node.ledger.places import ledger_place, place_text

        pinned = ledger_view.public_key(curator, "--curator") if curator else None
        wrong = []
        for where in map(ledger_place, ledgers):
            view, name = ledger_view.read(where, curator=pinned), place_text(where)
            wrong += [(name, finding.text) for finding in view.findings]
            if receipt:
                from curator_node.steward.desk import read_receipt
            for path in receipt or ():
                if read_receipt(path, view.account).ledger_head not in view.account.hashes:
                    wrong.append((name, f"it lacks the entry that {path} names: rolled back, or an older export"))
            if json_:
                print_json(view.as_object())
            elif not view.findings:
                stored = len(view.account.answers) - len(view.account.evicted)
                sys.stdout.write(
                    f"{name}: {len(view.entries)} entries and {stored} stored replies in order, signed by "
                    f"{view.account.curator.hex()}; head {view.account.head.hex()}\n"
                )
        _complain(wrong)


@ledger_app.command("backup")
def ledger_backup(
    ledger: Annotated[str, typer.Argument(help="A SQLite ledger; its curator may be serving.", metavar="LEDGER")],
    copy: Annotated[Path, typer.Argument(help="The file to make.")],
) -> None:
    """Copy a ledger, its write-ahead log included. Never copy the file alone while a curator serves."""
    with plain_errors():
        from curator_node.ledger.places import ledger_place, place_text
        from curator_node.ledger.store import backup
        from protocol.errors import ConfigurationError

        where = ledger_place(ledger)
        if not isinstance(where, Path):
            raise ConfigurationError(
                f"{place_text(where)} is no file; PostgreSQL's own program copies it while curators serve: "
                f"pg_dump --format=custom --file={copy} and the database's name"
            )
        backup(where, copy)
        sys.stdout.write(f"{copy}\n")


@ledger_app.command("resume")
def ledger_resume(
    ledger: OneLedger,
    key: CuratorKey,
    note: Annotated[str, typer.Option(help="Why it is safe to go on; kept in the ledger.")],
    learner: Annotated[
        str, typer.Option(help="Public key of a learner who is known to have spent more than the ledger says.")
    ] = "",
    restored: Annotated[str, typer.Option(help="How much more, such as 1/3; it is entered as spent.")] = "",
) -> None:
    """Let a curator go on after a halt, with the spending that its ledger is known to have lost entered as spent."""
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.ledger import view as ledger_view
        from curator_node.ledger.places import ledger_place

        where = ledger_place(ledger)
        for line in ledger_view.resume(where, read_key(key), note=note, learner=learner, restored=restored):
            sys.stdout.write(f"{line}\n")
        sys.stdout.write("resumed\n")


@ledger_app.command("export")
def ledger_export(
    ledger: OneLedger,
    out: Annotated[Path | None, typer.Option(help="The file to make. [NAME.export beside a SQLite ledger]")] = None,
) -> None:
    """Write entries, signatures and digests of stored replies to a file, which `verify` and `show` can read."""
    with plain_errors():
        from curator_node.ledger.places import ledger_place
        from curator_node.steward.desk import write_export

        where = ledger_place(ledger)
        path = out or _beside(where, "export")
        sys.stdout.write(f"{path}: {write_export(where, path)} entries\n")


@ledger_app.command("receipt")
def ledger_receipt(
    ledger: OneLedger,
    key: CuratorKey,
    study: Annotated[str, typer.Option(help="Identity of the study, 32 hexadecimal digits.")] = "",
    learner: Annotated[
        str, typer.Option(help="Public key of the learner; without --study, for all of its studies.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="The file to make. [NAME.receipt beside a SQLite ledger]")] = None,
) -> None:
    """Sign a receipt of the ledger's state for a study or a learner: what was spent, up to which entry."""
    with plain_errors():
        import time

        from curator_node.key_files import read_key
        from curator_node.ledger.places import ledger_place
        from curator_node.ledger.view import public_key
        from curator_node.steward.desk import study_identity, write_receipt

        where = ledger_place(ledger)
        path = out or _beside(where, "receipt")
        who = public_key(learner, "--learner") if learner else b""
        which = study_identity(study, who)
        receipt = write_receipt(where, read_key(key), path, study=which, learner=who, now=int(time.time()))
        sys.stdout.write(
            f"{path}: learner {receipt.learner.hex()[:16]} has spent {receipt.spent_by_learner}"
            + (f", and {receipt.spent_by_study} of it by this study" if study else "")
            + f"; head {receipt.ledger_head.hex()[:16]}\n"
        )


@ledger_app.command("mark")
def ledger_mark(
    ledger: OneLedger,
    key: CuratorKey,
    mark: Annotated[Path, typer.Option(help="The mark to make; best on another disk than the ledger.")],
    beside: Annotated[
        Path | None, typer.Option(help="Another process's mark; the ledger must hold the entry that it names.")
    ] = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Confirm that no copy was restored, if there is no other mark.")
    ] = False,
) -> None:
    """Make the mark of a further process that will serve from the same ledger as others."""
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.ledger.places import ledger_place
        from curator_node.steward.desk import join_ledger, newest_entry
        from curator_node.steward.keyring import first_key

        where, owner = ledger_place(ledger), read_key(key)
        if beside is None and not confirm:
            sys.stdout.write(f"the newest is {newest_entry(where, owner)}\n")
            question = "Do you know that no copy was restored into this ledger since its other processes last served?"
            if not typer.confirm(question):
                sys.stdout.write("no mark was made; a process that serves finds it out: let it start\n")
                raise typer.Exit(1)
        sys.stdout.write(f"{mark} starts at {join_ledger(where, owner, mark, beside=beside, first=first_key(key))}\n")


@ledger_app.command("upgrade")
def ledger_upgrade(ledger: OneLedger) -> None:
    """Bring a ledger's tables to this program's version; a copy of a SQLite file is kept."""
    with plain_errors():
        from curator_node.ledger.places import ledger_place, place_text
        from curator_node.ledger.tables import VERSIONS
        from curator_node.ledger.upgrades import upgrade

        where = ledger_place(ledger)
        version, copy = upgrade(where)
        how = "had it already" if version == VERSIONS[-1] and copy is None else f"had version {version}"
        copy_note = f"; {copy} is as it was" if copy else ""
        sys.stdout.write(f"{place_text(where)} has tables of version {VERSIONS[-1]}, and {how}{copy_note}\n")


@ledger_app.command("checkpoint")
def ledger_checkpoint(
    ledger: OneLedger,
    key: CuratorKey,
    out: Annotated[Path, typer.Option(help="The file to make, for a witness.")],
    since: Annotated[
        str, typer.Option(help="An older checkpoint that the witness has co-signed, or its number of entries.")
    ] = "",
    mark: Annotated[
        Path | None, typer.Option(help="A serving process's mark; the ledger must hold its entry. [the one beside]")
    ] = None,
    json_: Json = False,
) -> None:
    """Sign the number of a ledger's entries and the root over them, for a witness.

    Exit status: 0 signed; 1 refused, as the ledger is halted, rolled back or edited; 2 wrong use.
    """
    with plain_errors():
        from curator_node.key_files import read_key
        from curator_node.ledger.places import ledger_place
        from curator_node.ledger.view import write_checkpoint
        from curator_node.steward.keyring import first_key
        from protocol.ledger.checkpoints import CheckpointError
        from protocol.ledger.notes import PLAIN, verifier_key

        where, owner = ledger_place(ledger), read_key(key)
        try:
            submission, marked = write_checkpoint(where, owner, out, since=since, mark=mark, first=first_key(key))
        except CheckpointError as error:
            refuse({"refused": str(error)}, as_json=json_)
        checkpoint = submission.signed.checkpoint
        if json_:
            print_json(
                {
                    "curator": checkpoint.first.hex(),
                    "entries": checkpoint.size,
                    "since": submission.old,
                    "root": checkpoint.root.hex(),
                    "head": checkpoint.head.hex(),
                    "verifier_key": verifier_key(checkpoint.origin, PLAIN, owner.public),
                    "mark": marked,
                }
            )
            return
        proven = f", going on from {submission.old}" if submission.old else ""
        sys.stdout.write(f"{out}: {checkpoint.size} entries{proven}; head {checkpoint.head.hex()[:16]}\n")
        if not marked:
            err.print("no mark was at hand: that this is the newest state rests on your word (--mark)", soft_wrap=True)


def _beside(where: Path | str, suffix: str) -> Path:
    from protocol.errors import ConfigurationError

    if not isinstance(where, Path):
        raise ConfigurationError("nothing is beside a database; say where to write: --out FILE")
    return where.with_name(f"{where.name.removesuffix('.ledger')}.{suffix}")


def _complain(wrong: Sequence[tuple[str, str]]) -> None:
    say("not in order", *(f"{place}: {text}" for place, text in wrong), style=BAD)
    exit_unless(not wrong)


def _learners(view: "LedgerView") -> Written:
    """Reserved, spent and remaining budget of each learner."""
    from fractions import Fraction

    from protocol.errors import printable
    from protocol.rationals import written

    zero = Fraction(0)
    account, policy, rows = view.account, view.policy, list[Sequence[object]]()
    for keys, cap, remaining in view.learners():
        newest, more = keys[-1], f" +{len(keys) - 1}" if len(keys) > 1 else ""
        spending = (
            written(sum((sums.get(key, zero) for key in keys), zero)) for sums in (account.spent, account.reserved)
        )
        allowed = (written(amount) if amount else "?" for amount in (cap, remaining))
        rows.append((printable(view.name_of(newest) or "?"), newest.hex()[:16] + more, *spending, *allowed))
    total = (written(account.total_spent), written(account.total_reserved))
    rows.append(strong("all", "", *total, "?" if policy is None else written(policy.total_cap), ""))
    title = "spent and left" + (" - HALTED" if account.halted else "")
    note = "" if policy else "names, caps and what is left: add --policy FILE"
    return text_table(title, ("learner", "key", "spent", "set aside", "cap", "left"), rows, note=note)


def _entries(view: "LedgerView") -> Written:
    from datetime import UTC, datetime

    from protocol.errors import printable
    from protocol.ledger.entries import EntryKind
    from protocol.messages import NO_STUDY, NOBODY
    from protocol.rationals import written

    rows = []
    for entry in view.entries:
        when = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
        who = "" if entry.learner == NOBODY else view.name_of(entry.learner) or entry.learner.hex()[:8]
        question = str(entry.sequence) if entry.kind in (EntryKind.CHARGE, EntryKind.ANSWERED) else ""
        study = "" if entry.study == NO_STUDY else entry.study.hex()[:8]
        note = printable(view.note_of(entry), 400)
        rows.append((entry.index, when, entry.kind, who, study, question, written(entry.amount), note))
    how = "NOT IN ORDER; up to" if view.findings else "chain and signatures verified to"
    headings = ("#", "when (UTC)", "what", "learner", "study", "question", "epsilon", "note")
    return text_table(f"entries, {how} {view.account.head.hex()[:16]}", headings, rows, wraps=["note"])
