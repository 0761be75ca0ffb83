"""Commands as they are typed, and a ledger that a steward's commands and a process have made."""

from test_ledger import spend
from typer.testing import CliRunner

from curator_fakes import NOW, key
from curator_node.key_files import read_key
from curator_node.ledger.places import open_ledger_file
from expril.commands.app import app
from protocol.envelopes import LABEL
from protocol.ledger.entries import ledger_terms

TERMS = ledger_terms(None, LABEL)


def run(*arguments, code=0, typed=None):
    """The result of a command, which ends with this status and without a traceback."""
    result = CliRunner().invoke(app, list(map(str, arguments)), input=typed)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def ledger_and_key(folder, *, studies=0):
    """A ledger and its curator's key, as the commands make them, and what a process wrote since."""
    path, pem = folder / "ward.ledger", folder / "curator.pem"
    run("keys", pem)
    run("ledger", "create", path, "--key", pem, "--note", "the first")
    ledger = open_ledger_file(path, read_key(pem))
    ledger.begin(TERMS, NOW)
    for number in range(1, studies + 1):
        spend(ledger, number, learner=key("ann").public)
    ledger.settle()
    ledger.close()
    return path, pem
