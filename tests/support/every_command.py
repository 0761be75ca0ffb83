"""Every command of `expril`, called so that each gets as far as it can, and the extras that it needs."""

import re
from pathlib import Path

import typer

ROOT = Path(__file__).resolve().parents[2]
INSTALLATION = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
SCHEMA = ROOT / "docs" / "tour" / "schema.toml"


def commands():
    """The names of all, as they are typed."""
    from expril.commands.app import app

    def walk(command, path):
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*path, name))
        if not hasattr(command, "commands"):
            yield " ".join(path)

    return set(walk(typer.main.get_command(app), ()))


def documented():
    """Beginning of a command line -> extras in the table of installations; none of a bare one."""
    table = re.search(r"^\| who \| install \|.*?\n\n", INSTALLATION, re.DOTALL | re.MULTILINE)[0]
    extras = {"verify": set()}  # a former name of audit run, which no help lists
    for row in table.strip().splitlines()[2:]:
        _, _, install, commands, _ = row.split("|")
        named = re.search(r"pip install '\.\[([\w,]+)\]'", install)
        extras |= dict.fromkeys(re.findall(r"`([\w -]+)`", commands), set(named[1].split(",")) if named else set())
    return extras


def part_of(call, table):
    """The extras that a call needs by that table."""
    line = " ".join(map(str, call))
    return table[max((begin for begin in table if f"{line} ".startswith(f"{begin} ")), key=len)]


def calls(folder):
    """One call of each command or more, in an order in which they find what they need."""
    key, card, ward, book = folder / "ann.pem", folder / "ann.card", folder / "ward", folder / "ward.ledger"
    signed = ("--key", key)
    return [
        ("keys", key),
        ("learner", "card", key, "--name", "ann", "--out", card),
        ("learner", "rotate", key, folder / "new.pem", "--card", card, "--out", folder / "new.card"),
        ("learner", "init", folder / "ann"),
        ("learner", "run", folder / "ann" / "STUDY.toml"),
        ("learner", "ask", folder / "ann" / "STUDY.toml"),
        ("schema", "draft", SCHEMA.parent / "records.csv", "--out", folder / "drafted.toml"),
        ("curator", "init", ward, "--name", "ward", "--schema", SCHEMA),
        ("curator", "card", ward, "--out", folder / "ward.card"),
        ("curator", "enrol", ward, card, "--cap", "1", "--fingerprint", "not hers"),
        ("curator", "revoke", ward, "ann"),
        ("curator", "rotate", ward),
        ("curator", "learners", ward),
        ("curator", "studies", ward),
        ("curator", "approve", ward, "0123", "--yes"),
        ("curator", "decline", ward, "0123", "--reason", "none", "--yes"),
        ("curator", "plug-ins"),
        ("curator", "check", ward),
        ("curator", "status", ward),
        ("curator", "answer", folder, "--site", ward),
        ("curator", "serve", folder / "nowhere"),
        ("ledger", "create", book, *signed),
        ("ledger", "create", "postgresql://localhost:1/nowhere", *signed, "--mark", folder / "far.mark"),
        ("ledger", "show", book),
        ("ledger", "verify", book),
        ("ledger", "backup", book, folder / "copy.ledger"),
        ("ledger", "resume", book, *signed, "--note", "nothing happened"),
        ("ledger", "export", book),
        ("ledger", "receipt", book, *signed, "--learner", "00" * 32),
        ("ledger", "mark", book, *signed, "--mark", folder / "other.mark", "--confirm"),
        ("ledger", "upgrade", book),
        ("ledger", "checkpoint", book, *signed, "--out", folder / "ward.head"),
        ("audit", "witness", folder / "ward.head", "--key", folder / "new.pem", "--state", folder / "state"),
        ("audit", "evidence", folder / "none.json"),
        ("audit", "run", book),
        ("verify", book),
        ("transcript", "show", folder / "none.msgpack"),
        ("scenarios",),
        ("scenarios", "heart"),
        ("quote", "--problems", "3", "--epsilons", "1"),
        ("predict", folder / "none.safetensors", folder / "none.csv"),
        ("simulate",),
        ("report", folder),
        ("audit", "all"),
        ("audit", "game", "nowhere:game"),
        ("audit", "mechanism", "counts"),
        ("audit", "package", "--template", folder / "facts.toml"),
        ("audit", "check-package", folder),
        ("audit", "studies"),
        ("conformance", "no such kind"),
        ("new", "kind", "above", "--out", folder / "new"),
    ]


def complaint_in(code, out, err):
    """The extras that a command asks for, in one line and with nothing else."""
    assert (code, out, err.count("\n")) == (2, "", 1), err
    line = r'error this command needs a part that is not installed \(\w+\): pip install "expril\[([\w,]+)\]"\n'
    return set(re.fullmatch(line, err)[1].split(","))


def hold(outcomes, typed, there=frozenset()):
    """No call ended in a traceback; one names a part exactly if it needs one that is not there."""
    table = documented()
    for call, (code, out, err) in zip(typed, outcomes, strict=True):
        assert code in (0, 1, 2), (call, err)
        assert "Traceback" not in err, (call, err)
        lacking = part_of(call, table) - there
        if lacking:
            assert complaint_in(code, out, err) <= lacking, call
        else:
            assert "error this command needs a part" not in err, call
