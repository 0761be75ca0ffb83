"""The command's outermost layer: wrong options, interrupts, closed pipes and terminals without UTF-8, in one place.

A mistake within a command is `terminal.plain_errors`' business; what is left reaches this layer.
"""

import codecs
import sys
from collections.abc import Sequence
from typing import Any

import click
from typer.core import TyperGroup

from expril.commands.faults import INTERRUPTED, NOBODY_READS, WRONG, Fault
from expril.commands.terminal import ignore_output, tell_fault, tell_interrupt

_SUBSTITUTES = str.maketrans({"±": "+-", "²": "2", "–": "-", "—": "-", "…": "...", "·": "-", "×": "x", "≥": ">="})


class Shell(TyperGroup):
    """The group of all commands; whatever happens, one sentence and an exit status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """See `click.Command.main`; always ends in SystemExit, unless `standalone_mode` is off."""
        given = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(given, prog_name, complete_var, False, windows_expand_args, **extra)
        tolerate_any_terminal()
        try:
            status = super().main(given, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            status = error.exit_code
        except click.ClickException as error:
            tell_fault(_of_the_command_line(error), as_json="--json" in given)
            status = WRONG
        except (KeyboardInterrupt, click.Abort):
            tell_interrupt("nothing of this command was kept", as_json="--json" in given)
            status = INTERRUPTED
        except BrokenPipeError:
            ignore_output()
            status = NOBODY_READS
        sys.exit(status if isinstance(status, int) else 0)


def _of_the_command_line(error: click.ClickException) -> Fault:
    context = getattr(error, "ctx", None)
    where = "" if context is None else f"; see: {context.command_path} --help"
    return Fault("usage", f"{error.format_message().rstrip('.')}{where}")


def tolerate_any_terminal() -> None:
    """A sign that the terminal or a file name's encoding lacks is written in another way, and is no error."""
    codecs.register_error("expril", _substitute)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="expril")


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end].translate(_SUBSTITUTES)
    return missing.encode("ascii", "replace").decode("ascii"), error.end
