"""`expril simulate sites`: the built-in study that is no scenario, since it has many numbers of sites."""

from pathlib import Path

from expril.commands.terminal import plain_errors, print_json, wide_console, work_bar

SITES = "sites"
WIDTH = 150
"""Of the widest of its tables, in columns."""
KEPT = "finished cells are kept in {}; the same command goes on"


def simulate_sites(
    *,
    out: Path,
    repeats: int | None,
    seed: int | None,
    epsilons: tuple[str, ...],
    typed: str,
    silent: bool,
) -> None:
    """Run the study of sites, or what is missing of it; print its tables and leave a report.

    Args:
        out: folder under which that of the study is.
        repeats: of each study; None takes its own number.
        seed: of the first split; None takes the study's own.
        epsilons: exact texts, from the smallest on; none takes the study's own.
        typed: the command.
        silent: print JSON alone.
    """
    folder = out / SITES
    with plain_errors(part="simulations", kept=KEPT.format(folder)):
        from expril.report.files import as_object
        from expril.report.provenance import cores
        from expril.report.terminal import rich_table, rich_tables
        from lab.sites import command, tables

        order = command.Order(
            folder,
            typed,
            jobs=cores(),
            epsilons=epsilons[::-1] or command.EPSILONS,
            repeats=repeats or command.REPEATS,
            seed=command.SEED if seed is None else seed,
        )
        with work_bar(silent) as tick:
            found = command.simulate_sites(order, tick)
    if silent:
        print_json({"run": str(folder), "found": as_object(found)})
        return
    console = wide_console(WIDTH)
    for accuracy in tables.accuracies(found).values():
        console.print(*rich_tables(accuracy))
    console.print(rich_table(tables.noises(found)))
    console.print(rich_table(tables.traffic(found)))
    console.print(*rich_tables(tables.fates(found)))
    console.print(f"report: {folder / command.PAGE}", soft_wrap=True, highlight=False)
