"""`expril simulate statistic`: private quantiles by every method, against the number of records."""

from pathlib import Path

from expril.commands.terminal import plain_errors, print_json, wide_console, work_bar

KEPT = "finished cells are kept in {}; the same command goes on"
WIDTH = 150
"""Of the widest of its tables, in columns."""


def simulate_statistic(
    *,
    out: Path,
    repeats: int | None,
    seed: int | None,
    epsilons: tuple[str, ...],
    typed: str,
    silent: bool,
) -> None:
    """Run the study of statistics, or what is missing of it; see `built_in.run_built_in`."""
    folder = out / "statistic"
    with plain_errors(part="simulations", kept=KEPT.format(folder)):
        from expril.report.files import as_object
        from expril.report.provenance import cores
        from expril.report.terminal import rich_tables
        from lab.statistic import command, tables

        order = command.Order(
            folder,
            typed,
            jobs=cores(),
            epsilons=epsilons[::-1] or command.EPSILONS,
            repeats=repeats or command.REPEATS,
            seed=command.SEED if seed is None else seed,
        )
        with work_bar(silent) as tick:
            found = command.simulate_statistic(order, tick)
    if silent:
        print_json({"run": str(folder), "found": as_object(found)})
        return
    console = wide_console(WIDTH)
    for shown in tables.errors(found).values():
        console.print(*rich_tables(shown))
    console.print(f"report: {folder / command.PAGE}", soft_wrap=True, highlight=False)
