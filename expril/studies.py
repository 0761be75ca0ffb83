"""The commands of a learner who asks deployed curators: `expril learner ...`."""

import typer

learner_app = typer.Typer(no_args_is_help=True, help="A learner's studies with deployed curators: prepare, run.")
