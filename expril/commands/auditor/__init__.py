"""The commands of an auditor: `expril audit ...` and `expril transcript ...`; its files register theirs."""

import typer

audit_app = typer.Typer(no_args_is_help=True, help="Check claims about privacy: by proof, by attack, by enumeration.")
transcript_app = typer.Typer(no_args_is_help=True, help="A transcript: every message of a learner with a curator.")
