"""The commands of a steward who runs a curator: `expril curator ...`."""

import typer

curator_app = typer.Typer(no_args_is_help=True, help="A curator's daemon: prepare, check, serve, look at.")
