"""The command `expril`, put together from the files of the roles.

It is apart from them so that they can be imported without running it.
"""

import logging
import os
import sys
from typing import Annotated

import typer

from expril.commands import attacks  # noqa: F401 - its commands register themselves, as do those of learners
from expril.commands.auditor import audit_app, audit_run, transcript_app
from expril.commands.author import conformance, new
from expril.commands.learner import learner_app, predict, quote
from expril.commands.researcher import report, scenarios, simulate
from expril.commands.steward import learners  # noqa: F401
from expril.commands.steward.ledger import keys, ledger_app
from expril.commands.steward.schema import schema_app
from expril.commands.steward.site import curator_app
from expril.commands.terminal import Shell

app = typer.Typer(
    cls=Shell,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (simulate, quote, predict, scenarios, keys, report, conformance, new):
    app.command()(command)
app.command("verify", hidden=True)(audit_run)
app.add_typer(audit_app, name="audit")
app.add_typer(ledger_app, name="ledger")
app.add_typer(curator_app, name="curator")
app.add_typer(schema_app, name="schema")
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
