"""The commands of the laboratory."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from expril.commands.terminal import (
    MOST_REPEATS,
    MOST_SEED,
    Jobs,
    Json,
    LargeEpsilon,
    plain_errors,
    print_json,
    say,
    wide_console,
    work_bar,
)

KEPT = "finished cells are kept in {}; the same command goes on"


def study(  # noqa: PLR0913, PLR0917 - the options of a command
    name: Annotated[str, typer.Argument(help="Of the study; none lists them.", show_default=False)] = "",
    out: Annotated[Path, typer.Option(help="Folder under which that of the study is.")] = Path("runs"),
    full: Annotated[bool, typer.Option("--full", help="All that is published, instead of two minutes of it.")] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=MOST_REPEATS, help="Of each cell. [the study's own]")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help="Of the first repeat, never of noise. [the study's own]")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Comma-separated. [the study's own]")] = "",
    only: Annotated[
        list[str] | None, typer.Option(help="Of one axis of the study: AXIS=NAME,NAME; repeatable.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A further option of the study: NAME=VALUE; repeatable.")
    ] = None,
    jobs: Jobs = None,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Compute nothing; write all from the cells.")] = False,
    large_epsilon: LargeEpsilon = False,
    json_: Json = False,
) -> None:
    """Run a study, or what is missing of it; print its tables and leave a page, Markdown, CSV and JSON.

    A killed run goes on with the same command. Without --full it takes at most two minutes on two cores.
    """
    folder = out / name
    with plain_errors(part="simulations", on_interrupt=KEPT.format(folder)):
        from expril.report.provenance import cores
        from expril.report.terminal import as_terminal
        from lab.studies import STUDIES, load_study
        from lab.study import PAGE, Order
        from learner_node.study.doubts import require_confirmed
        from protocol.rationals import parse_rational
        from simulations.scenario import read_epsilons

        if not name:
            sys.stdout.write("".join(f"{known:<15} {it.headline} ({it.page})\n" for known, it in STUDIES.items()))
            return
        chosen = load_study(name)
        epsilons = read_epsilons(epsilon)[::-1] if epsilon else ()
        if not large_epsilon:
            require_confirmed(map(parse_rational, epsilons), how="--large-epsilon")
        size = chosen.size(full=full, repeats=repeats, epsilons=epsilons, only=only or ())
        typed = {"repeats": repeats, "seed": seed, "epsilon": epsilon}
        options = [f"--{option} {value}" for option, value in typed.items() if value not in (None, "")]
        options += [
            *["--full"] * full,
            *(f"--only {axis}" for axis in only or ()),
            *(f"--set {option}" for option in set_ or ()),
            *["--large-epsilon"] * large_epsilon,
        ]
        command = " ".join(["expril-lab study", name, *options])
        further = chosen.read_options(set_ or ())
        order = Order(size, chosen.seed if seed is None else seed, folder, command, jobs or cores(), further)
        if rewrite:
            document = chosen.write(folder)
        else:
            with work_bar(json_) as tick:
                document = chosen.run(order, tick)
        if json_:
            print_json({"run": str(folder), "found": chosen.published(chosen.found(folder))})
            return
    console = wide_console(chosen.width)
    for shown in as_terminal(document):
        console.print(shown, soft_wrap=not hasattr(shown, "columns"), highlight=False)
    if not (full or rewrite or size == chosen.full):
        say("note", f"this is the short form; --full is what is published, and takes {chosen.full.takes} on two cores")
    console.print(f"report: {folder / PAGE}", soft_wrap=True, highlight=False)
