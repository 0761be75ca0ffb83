"""`expril simulate sample`: the built-in study of integrally private sampling, the MBDE paper run again."""

from pathlib import Path

from expril.commands.terminal import plain_errors, print_json, wide_console, work_bar

SAMPLE = "sample"
WIDTH = 170
"""Of the widest of its tables, in columns."""
KEPT = "finished cells are kept in {}; the same command goes on"


def simulate_sample(
    *,
    out: Path,
    repeats: int | None,
    seed: int | None,
    epsilons: tuple[str, ...],
    typed: str,
    silent: bool,
) -> None:
    """Run the study, or what is missing of it; print its claims and theorems and leave a report with figures.

    Args:
        out: folder under which that of the study is.
        repeats: of each cell; None takes the study's own number.
        seed: of the first repeat; None takes the study's own.
        epsilons: of MBDE and DPB, exact texts; none takes the study's own.
        typed: the command.
        silent: print JSON alone.
    """
    folder = out / SAMPLE
    with plain_errors(part="simulations", kept=KEPT.format(folder)):
        from expril.report.files import as_object
        from expril.report.provenance import cores
        from expril.report.terminal import rich_tables
        from lab.sample import cells, command, tables
        from lab.sample.claims import claims_of

        order = command.Order(
            folder,
            typed,
            jobs=cores(),
            epsilons=epsilons or command.EPSILONS,
            repeats=repeats or cells.REPEATS,
            seed=command.SEED if seed is None else seed,
        )
        with work_bar(silent) as tick:
            found = command.simulate_sample(order, tick)
    if silent:
        print_json({"run": str(folder), "claims": as_object(claims_of(found))})
        return
    console = wide_console(WIDTH)
    for claim in claims_of(found):
        console.print(f"[bold]{claim.verdict}[/] {claim.says}: {claim.measured}", highlight=False)
    console.print(*rich_tables(tables.measures(found, found.domains)))
    console.print(*rich_tables(tables.checks(found)))
    console.print(f"report: {folder / command.MARKDOWN}", soft_wrap=True, highlight=False)
