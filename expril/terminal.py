"""What every command shares: errors as one clear line, JSON for machines."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from protocol.errors import ExprilError

INTERRUPTED = 130

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]

err = Console(stderr=True)


@contextmanager
def plain_errors(kept: str = "nothing of this command was kept") -> Iterator[None]:
    """A mistake of the user is one clear line and exit status 2, never a traceback."""
    try:
        yield
    except ExprilError as error:
        err.print(f"[bold red]error[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        err.print(f"interrupted; {escape(kept)}", highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


def print_json(value: object) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
