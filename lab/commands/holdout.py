"""`expril simulate holdout`: the blog's experiment on a holdout that is asked thousands of times."""

from pathlib import Path

from expril.commands.terminal import plain_errors, print_json, wide_console, work_bar

HOLDOUT = "holdout"
WIDTH = 190
"""Of the widest of its tables, in columns."""
KEPT = "finished runs are kept in {}; the same command goes on"


def simulate_holdout(
    *,
    out: Path,
    repeats: int | None,
    seed: int | None,
    epsilons: tuple[str, ...],
    typed: str,
    silent: bool,
) -> None:
    """Run the study of holdouts, or what is missing of it; print its tables and leave a report.

    Args:
        out: folder under which that of the study is.
        repeats: data sets; None takes its own number.
        seed: of the first data set; None takes the study's own.
        epsilons: exact texts, from the smallest on, that a curator may charge; none takes the study's own.
        typed: the command.
        silent: print JSON alone.
    """
    folder = out / HOLDOUT
    with plain_errors(part="simulations", kept=KEPT.format(folder)):
        from expril.report.files import as_object
        from expril.report.provenance import cores
        from expril.report.terminal import rich_table, rich_tables
        from lab.holdout import command, tables

        order = command.Order(
            folder,
            typed,
            jobs=cores(),
            epsilons=epsilons or command.EPSILONS,
            repeats=repeats or command.REPEATS,
            seed=command.SEED if seed is None else seed,
        )
        with work_bar(silent) as tick:
            found = command.simulate_holdout(order, tick)
    if silent:
        print_json({"run": str(folder), "found": as_object(found)})
        return
    console = wide_console(WIDTH)
    console.print(*rich_tables(tables.claims(found)))
    console.print(rich_table(tables.reported(found)))
    console.print(rich_table(tables.paid(found)))
    console.print(f"report: {folder / command.PAGE}", soft_wrap=True, highlight=False)
