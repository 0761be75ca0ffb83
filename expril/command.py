"""The command `expril`: who it is for is in the files of the roles, and what it does in the packages."""

import logging
import os
import sys
from typing import Annotated

import typer

from expril import (
    audit_game,  # noqa: F401
    audit_mechanism,  # noqa: F401
    enrolment,  # noqa: F401 - its commands register themselves
)
from expril.audit import audit_app
from expril.auditor import transcript_app, verify
from expril.curator import curator_app
from expril.folder import curator_answer
from expril.learner import quote
from expril.researcher import compare, compare_synthetic, report, reproduce, scenarios, simulate
from expril.shell import Shell
from expril.steward import keys, ledger_app
from expril.studies import learner_app

app = typer.Typer(
    cls=Shell,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (verify, simulate, reproduce, compare, compare_synthetic, quote, scenarios, keys, report):
    app.command()(command)
app.add_typer(audit_app, name="audit")
app.add_typer(ledger_app, name="ledger")
curator_app.command("answer")(curator_answer)
app.add_typer(curator_app, name="curator")
app.add_typer(learner_app, name="learner")
app.add_typer(transcript_app, name="transcript")


@app.callback(invoke_without_command=True)
def main(show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Learn from records that their owners never release."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    logging.basicConfig(level=logging.CRITICAL)
    if show_version:
        from importlib.metadata import version

        sys.stdout.write(f"expril {version('expril')}\n")
        raise typer.Exit
