"""What every command shares: errors as one clear line, JSON for machines, options, consoles, tables and bars.

`plain_errors` reports mistakes within a command. `Shell`, the outermost layer, reports all others: wrong options,
interrupts, closed pipes and terminals without UTF-8.
"""

import codecs
import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import click
import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperArgument, TyperGroup, TyperOption

from expril.report.table import Table
from expril.report.terminal import rich_table
from protocol.errors import ConfigurationError, ExprilError

FAILED, WRONG, LATER, INTERRUPTED, NOBODY_READS = 1, 2, 3, 130, 141
"""Exit statuses. `FAILED`: what was checked is not in order. `LATER`: a reply is awaited, and the same command goes on.
The last two are those of a process that SIGINT or SIGPIPE ended."""
UNFINISHED = frozenset({"unfinished", "network"})
"""Kinds of faults that only need time."""
PARTS = {
    "learner": frozenset({"jinja2", "scipy", "sklearn"}),
    "simulations": frozenset({"fastexcel", "pooch", "tomli_w", "uvloop"}),
}
"""Extra of the package -> the modules that come with it; each extra has all of those before it."""
FASTER = frozenset({"uvloop"})
"""Those of them that no command needs: they make it faster, and some systems lack them."""
APART = {
    "hypothesis": "extend",
    "opendp": "opendp",
    "pytest": "extend",
    "ray": "ray",
    "resvg_py": "figures",
    "dp_accounting": "audit",
    "jsonschema": "audit",
    "yaml": "audit",
    "torch": "networks",
}
"""Module -> an extra beside these."""
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but line feeds, and marks that turn the direction of writing."""
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would be larger than is allowed here",
}
_LOCKED = {
    errno.EROFS: "it is on a read-only disk",
    errno.EACCES: "you may not read or write there",
    errno.EPERM: "you may not read or write there",
}


class Fault(NamedTuple):
    """What went wrong."""

    kind: str  # one word for machines; docs/reference/errors.md lists them
    text: str  # one sentence for people: what is wrong, where, what to do


def fault_of(error: Exception, *, part: str = "") -> Fault | None:
    """The fault to report for an error that ended a command; None for a bug, which deserves its traceback.

    `part` is the extra that the command needs, a key of `PARTS`.
    """
    if isinstance(error, ExprilError):
        return Fault(error.kind, str(error))
    if isinstance(error, BrokenPipeError):
        return None
    if isinstance(error, OSError):
        return _of_the_system(error)
    if isinstance(error, MemoryError):
        return Fault("memory", "there is not enough memory; ask for less at a time, or use a larger machine")
    if isinstance(error, ModuleNotFoundError):
        return _missing_part(error, part)
    return None


def require(part: str) -> None:
    """Raise ModuleNotFoundError at once if a module of an extra is missing, and not after an hour's work."""
    for name, modules in PARTS.items():
        for module in sorted(modules - FASTER):
            if find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        if name == part:
            return


def _of_the_system(error: OSError) -> Fault | None:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in _FULL:
        return Fault("disk", f"{where}{_FULL[error.errno]}; free some space, or write to another folder")
    if error.errno in _LOCKED:
        return Fault("disk", f"{where}{_LOCKED[error.errno]}; choose another folder, or copy it to one of your own")
    if error.errno is None:
        return None
    return Fault("disk", f"{where}{error.strerror}")


def _missing_part(error: ModuleNotFoundError, part: str) -> Fault | None:
    missing = (error.name or "").partition(".")[0]
    parts = [name for name, modules in PARTS.items() if missing in modules]
    if not part or not (parts or missing in APART):
        return None
    extra = f"{part},{APART[missing]}" if missing in APART else max(part, *parts, key=list(PARTS).index)
    return Fault(
        "installation", f'this command needs a part that is not installed ({missing}): pip install "expril[{extra}]"'
    )


def check_files(folder: Path | None, png: bool) -> None:
    """Refuse at once what `write_page_files` could not write in the end.

    Raises:
        ConfigurationError: PNG without a folder, or no font for its letters.
        ModuleNotFoundError: PNG without resvg_py.
    """
    if not png:
        return
    if folder is None:
        raise ConfigurationError("--png says how to write figures; name their folder with --files")
    from expril.report.png import has_letters

    if not has_letters():
        raise ConfigurationError(
            "--png: no font is installed, so that figures would lack their words; install one, such as DejaVu Sans"
        )


class KeptModels(StrEnum):
    """The repeats whose models are kept, in the words of `simulations.run_cells`."""

    first = "first"
    all = "all"
    none = "none"


Jobs = Annotated[int | None, typer.Option(min=1, help="Processes at the same time. [one per core]")]


class CarrierName(StrEnum):
    """What carries the envelopes, in the words of `simulations.carriers`."""

    process = "process"
    cores = "cores"
    ray = "ray"
    deploy = "deploy"


Out = Annotated[Path, typer.Option(help="Folder of results; go on where an earlier run stopped.")]


LEAST_WIDTH = 120
"""Columns that a table gets at least, whatever the terminal's width."""
MOST_SEED, MOST_REPEATS = 2**31 - 1, 100_000
"""Every library takes such a seed, and there is room to add a run's number; repeats are a scenario's or a study's."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
LargeEpsilon = Annotated[
    bool, typer.Option("--large-epsilon", help="Confirm an epsilon of 100 or more, which protects nothing.")
]
FilesFolder = Annotated[
    Path | None,
    typer.Option("--files", help="Also write the page's figures as SVG and its tables as CSV into this folder."),
]
Png = Annotated[bool, typer.Option("--png", help="Write the figures of --files as PNG, too (expril[figures]).")]
Tick = Callable[[str, int, int], None]
"""(what, done, total), of one of several things."""
WorkTick = Callable[[str, float, float], None]
"""(what, done, total), of all the work."""

err = Console(stderr=True)
BAD = "bold red"
"""Style of what is wrong."""
_SUBSTITUTES = str.maketrans({"±": "+-", "²": "2", "–": "-", "—": "-", "…": "...", "·": "-", "×": "x", "≥": ">="})


@contextmanager
def plain_errors(
    *, part: str = "", on_interrupt: str | Callable[[], str] = "nothing of this command was kept"
) -> Iterator[None]:
    """Report a user's mistake, a full disk or a missing part in one sentence with status 2, without a traceback.

    With `--json`, standard output gets {"error": the sentence, "kind": one word} instead of a result.

    `part`: the extra that the command needs, a key of `PARTS`; its modules are looked for first. "" for none.
    `on_interrupt`: what an interrupted command says of what it kept. A function is called at the end; after an error
    its text, if any, is added as a note.
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
        if not isinstance(on_interrupt, str) and on_interrupt():
            say("note", on_interrupt())
        raise typer.Exit(LATER if fault.kind in UNFINISHED else WRONG) from None
    except KeyboardInterrupt:
        note = (on_interrupt if isinstance(on_interrupt, str) else on_interrupt()) or "nothing of this command was kept"
        tell_interrupt(note, as_json=_wants_json())
        raise typer.Exit(INTERRUPTED) from None


def say(label: str, *texts: str, style: str = "yellow") -> None:
    """Write lines for people to standard error, apart from the results."""
    for text in texts:
        err.print(f"[{style}]{label}[/] {escape(_plain(text))}", highlight=False, soft_wrap=True)


def exit_unless(passed: bool) -> None:
    """End the command with status `FAILED` unless what was checked is in order."""
    if not passed:
        raise typer.Exit(FAILED)


def _plain(text: str) -> str:
    """The text without control characters: names in it come from anybody."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def without_controls(text: str) -> str:
    """The text, lines and all, without what a terminal takes for a command: levels on a card come from anybody."""
    return _CONTROLS.sub("?", text)


def _wants_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("json_"))


def tell_fault(fault: Fault, *, as_json: bool) -> None:
    """Write one sentence to standard error; for machines also one object to standard output."""
    if fault.kind in UNFINISHED:
        say("waiting", fault.text)
    else:
        say("error", fault.text, style=BAD)
    if as_json:
        print_json({"error": fault.text, "kind": fault.kind})


def tell_interrupt(note: str, *, as_json: bool) -> None:
    """Report an interrupt as `tell_fault` reports a fault; the note says what was kept."""
    err.print(f"interrupted; {escape(note)}", highlight=False, soft_wrap=True)
    if as_json:
        print_json({"error": f"interrupted; {note}", "kind": "interrupted"})


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
    """Discard all further output: after `expril scenarios | head -1`, not even the last flush may fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the error to `plain_errors`, which ends with the status of SIGPIPE."""
        raise BrokenPipeError


def wide_console(least: int = LEAST_WIDTH) -> Console:
    """A console that never squeezes a table below `least` columns."""
    console = _Console()
    return console if console.width >= least else _Console(width=least)


def print_table(table: Table[Any], least: int = LEAST_WIDTH) -> None:
    """Print a table on standard output, at least so many columns wide."""
    wide_console(least).print(rich_table(table))


def refuse(outcome: dict[str, object], *, as_json: bool) -> NoReturn:
    """End with status `FAILED`; the key "refused" of the outcome says why."""
    if as_json:
        print_json(outcome)
    say("refused", str(outcome["refused"]), style=BAD)
    raise typer.Exit(FAILED)


@contextmanager
def bars(silent: bool) -> Iterator[Tick]:
    """Show a bar for each label that is ticked; one with a total of 0 moves to and fro until it is ticked with more."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Remaining())
    with Progress(*columns, console=err, transient=True, disable=silent or not err.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}
        moving: set[str] = set()

        def tick(label: str, finished: int, total: int) -> None:
            if label not in tasks:
                tasks[label] = progress.add_task(label, total=total or None)
                moving.update({label} if not total else ())
            if label in moving:
                progress.update(tasks[label], visible=not total)
            else:
                progress.update(tasks[label], completed=finished, total=total)

        yield tick


@contextmanager
def work_bar(silent: bool) -> Iterator[WorkTick]:
    """One bar over work of very different sizes, with the time left."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    remaining = Left(elapsed_when_finished=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), remaining)
    disable = silent or not err.is_terminal
    with Progress(*columns, console=err, transient=True, disable=disable, speed_estimate_period=600) as progress:
        task = progress.add_task("starting", total=None)

        def tick(label: str, finished: float, total: float) -> None:
            progress.update(task, completed=finished, total=total, description=label or "computing")

        yield tick


def _escape_help(command: click.Command) -> None:
    """Escape the help texts of a command and of those in it: rich would take "[one per core]" for a style."""
    for parameter in command.params:
        if isinstance(parameter, TyperArgument | TyperOption) and parameter.help:
            parameter.help = escape(parameter.help)
    for subcommand in command.commands.values() if isinstance(command, click.Group) else ():
        _escape_help(subcommand)


class Shell(TyperGroup):
    """The group of all commands: whatever happens, the user gets one sentence and an exit status."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        _escape_help(self)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as `click.Command.main` does; ends in SystemExit, unless `standalone_mode` is off."""
        arguments = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(arguments, prog_name, complete_var, False, windows_expand_args, **extra)
        tolerate_any_terminal()
        try:
            status = super().main(arguments, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            status = error.exit_code
        except click.ClickException as error:
            tell_fault(_of_the_command_line(error), as_json="--json" in arguments)
            status = WRONG
        except (KeyboardInterrupt, click.Abort):
            tell_interrupt("nothing of this command was kept", as_json="--json" in arguments)
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
    """Replace a character that the terminal's encoding lacks by an ASCII substitute, instead of failing."""
    codecs.register_error("expril", _substitute)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="expril")


def _substitute(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end].translate(_SUBSTITUTES)
    return missing.encode("ascii", "replace").decode("ascii"), error.end
