"""The command `expril-lab`, or `python -m lab`: studies of the protocol, the paper reproduced, strategies compared."""

import typer

from expril.commands.terminal import Shell
from lab.command import audit_peers, difference, study

app = typer.Typer(
    cls=Shell,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Studies of ExPriL, and what it is compared with.",
)
app.command()(study)
app.command("peers")(audit_peers)
app.command("differencing")(difference)


def main() -> None:
    """Run the command; ends in SystemExit."""
    app(prog_name="expril-lab")


if __name__ == "__main__":
    main()
