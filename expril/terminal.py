"""What every command shares: errors as one clear line, JSON for machines, consoles and bars."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from protocol.errors import ExprilError

INTERRUPTED = 130
LEAST_WIDTH = 100
"""Columns that a table gets, whatever the terminal's width: enough for every run's."""
PARTS = {
    "learner": frozenset({"scipy", "sklearn", "torch"}),
    "simulations": frozenset({"fastexcel", "jinja2", "pooch", "tomli_w"}),
    "experiments": frozenset[str](),
}
"""Extra of the package -> the modules that come with it; each extra has all of those before it."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Tick = Callable[[str, int, int], None]
"""(what, done, total), of one of several things."""
WorkTick = Callable[[str, float, float], None]
"""(what, done, total), of all the work."""

err = Console(stderr=True)


@contextmanager
def plain_errors(
    *, part: str = "", kept: str | Callable[[], str] = "nothing of this command was kept"
) -> Iterator[None]:
    """A mistake of the user, or a part that is not installed, is one clear line and exit status 2, never a traceback.

    Args:
        part: the extra that the command needs, a key of `PARTS`; "" for a command of every installation.
        kept: what is said where the command is interrupted; a function is asked in the end, and after an error, too,
            where it says anything.
    """
    try:
        yield
    except ExprilError as error:
        err.print(f"[bold red]error[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        if not isinstance(kept, str) and kept():
            say("note", kept())
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        parts = [name for name, modules in PARTS.items() if missing in modules]
        if not part or not parts:
            raise  # a fault of ours, or of the installation
        extra = max(part, *parts, key=list(PARTS).index)
        text = f'this command needs a part that is not installed ({missing}): pip install "expril[{extra}]"'
        err.print(f"[bold red]error[/] {escape(text)}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        told = (kept if isinstance(kept, str) else kept()) or "nothing of this command was kept"
        err.print(f"interrupted; {escape(told)}", highlight=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None


def say(what: str, text: str) -> None:
    """One line for people, beside the results: on standard error, so that it is in nobody's way."""
    err.print(f"[yellow]{what}[/] {escape(text)}", highlight=False, soft_wrap=True)


def print_json(value: object) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")


def wide_console(least: int = LEAST_WIDTH) -> Console:
    """A console that never squeezes a table below `least` columns."""
    console = Console()
    return console if console.width >= least else Console(width=least)


@contextmanager
def bars(silent: bool) -> Iterator[Tick]:
    """A bar for each thing that is ticked; one of a single thing, ticked with a total of 0, moves until it is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
    with Progress(*columns, console=err, transient=True, disable=silent or not err.is_terminal) as shown:
        tasks: dict[str, TaskID] = {}
        moving: set[str] = set()

        def tick(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total or None)
                moving.update({what} if not total else ())
            if what in moving:
                shown.update(tasks[what], visible=not total)
            else:
                shown.update(tasks[what], completed=done, total=total)

        yield tick


@contextmanager
def work_bar(silent: bool) -> Iterator[WorkTick]:
    """One bar over work of very different sizes, with the time left."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    left = Left(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), left)
    disable = silent or not err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=disable, speed_estimate_period=600) as shown:
        task = shown.add_task("starting", total=None)

        def tick(what: str, done: float, total: float) -> None:
            shown.update(task, completed=done, total=total, description=what or "computing")

        yield tick
