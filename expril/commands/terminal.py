"""What every command shares: errors as one clear line, JSON for machines, consoles and bars."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import click
import typer
from rich.console import Console
from rich.markup import escape

from expril.commands.faults import INTERRUPTED, LATER, NOBODY_READS, UNFINISHED, WRONG, Fault, fault_of, require

LEAST_WIDTH = 120
"""Columns that a table gets, whatever the terminal's width: enough for every run's."""
MOST_SEED, MOST_REPEATS = 2**31 - 1, 100_000
"""A seed that every library takes, with room for a number a run; repeats of a scenario, or runs of an experiment."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
LargeEpsilon = Annotated[
    bool, typer.Option("--large-epsilon", help="Confirm an epsilon of 100 or more, which protects nothing.")
]
Tick = Callable[[str, int, int], None]
"""(what, done, total), of one of several things."""
WorkTick = Callable[[str, float, float], None]
"""(what, done, total), of all the work."""

err = Console(stderr=True)


@contextmanager
def plain_errors(
    *, part: str = "", kept: str | Callable[[], str] = "nothing of this command was kept"
) -> Iterator[None]:
    """A mistake of the user, a full disk or a part that is not installed is one sentence and status 2, no traceback.

    With `--json`, standard output gets {"error": the sentence, "kind": one word} instead of a result.

    Args:
        part: the extra that the command needs, a key of `PARTS`, looked for first; "" for a command of every
            installation.
        kept: what is said where the command is interrupted; a function is asked in the end, and after an error, too,
            where it says anything.
    """
    try:
        if part:
            require(part)
        yield
    except BrokenPipeError:
        ignore_output()
        raise typer.Exit(NOBODY_READS) from None
    except Exception as error:
        fault = fault_of(error, part=part)
        if fault is None:
            raise  # a fault of ours, or of the installation
        tell_fault(fault, as_json=_wants_json())
        if not isinstance(kept, str) and kept():
            say("note", kept())
        raise typer.Exit(LATER if fault.kind in UNFINISHED else WRONG) from None
    except KeyboardInterrupt:
        told = (kept if isinstance(kept, str) else kept()) or "nothing of this command was kept"
        tell_interrupt(told, as_json=_wants_json())
        raise typer.Exit(INTERRUPTED) from None


def say(what: str, text: str) -> None:
    """One line for people, beside the results: on standard error, so that it is in nobody's way."""
    err.print(f"[yellow]{what}[/] {escape(_plain(text))}", highlight=False, soft_wrap=True)


def _plain(text: str) -> str:
    """Without control characters: a name in it may be anybody's."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def _wants_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("json_"))


def tell_fault(fault: Fault, *, as_json: bool) -> None:
    """One sentence on standard error; for machines also one object on standard output."""
    what = "[yellow]waiting[/]" if fault.kind in UNFINISHED else "[bold red]error[/]"
    err.print(f"{what} {escape(_plain(fault.text))}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({"error": fault.text, "kind": fault.kind})


def tell_interrupt(kept: str, *, as_json: bool) -> None:
    """As `tell_fault`, of an interrupt, and what was kept."""
    err.print(f"interrupted; {escape(kept)}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({"error": f"interrupted; {kept}", "kind": "interrupted"})


def print_json(value: object) -> None:
    """One line of JSON on standard output, in ASCII where the terminal or a file's name is not in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        text = json.dumps(value, allow_nan=False)
    sys.stdout.write(f"{text}\n")


def readable(text: str) -> str:
    """A text from the command line as Unicode: a file's name may hold bytes that are none."""
    return os.fsencode(text).decode("utf-8", "replace")


def ignore_output() -> None:
    """Nobody reads what is left (`expril scenarios | head -1`), so that not even the flush at the end may fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Left to `plain_errors`, which ends as a process that SIGPIPE ended does."""
        raise BrokenPipeError


def wide_console(least: int = LEAST_WIDTH) -> Console:
    """A console that never squeezes a table below `least` columns."""
    console = _Console()
    return console if console.width >= least else _Console(width=least)


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
