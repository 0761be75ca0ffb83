"""The command `expril audit`; each part registers itself from a file of its own."""

import typer

audit_app = typer.Typer(no_args_is_help=True, help="Check claims about privacy: by proof, by attack, by enumeration.")
