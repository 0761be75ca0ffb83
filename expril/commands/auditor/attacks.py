"""The command `expril audit mechanism`: the installed query kinds are attacked, by the way that an answer takes."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from expril.commands.audit import audit_app
from expril.commands.terminal import Json, bars, plain_errors, print_json, wide_console

if TYPE_CHECKING:
    from expril.audit.results import Check, ControlResult, KindResult

LEAST_DRAWS, MOST_DRAWS = 1_000, 10_000_000


@audit_app.command("mechanism")
def audit_mechanism(
    kind: Annotated[str, typer.Argument(help='"all", a query kind, or one of its releases.', metavar="KIND|all")],
    draws: Annotated[
        int, typer.Option(min=LEAST_DRAWS, max=MOST_DRAWS, help="Draws from either set of records.")
    ] = 100_000,
    controls: Annotated[bool, typer.Option(help="Attack what is broken on purpose, too.")] = True,
    json_: Json = False,
) -> None:
    """Attack the installed query kinds with real noise, and compute their exact loss on the worst records found.

    Every registered kind gives its own questions. Whether a curator's answers come from what was attacked is checked,
    the installed noise is held to its law, and mechanisms that are broken on purpose must be caught.

    Exit status: 0 all in order; 1 a kind breaks its claim or cannot be audited, a check fails, or a broken mechanism
    was not caught; 2 there is no such kind.
    """
    with plain_errors(part="simulations"), bars(json_) as tick:
        from expril.audit.calibration import calibrate
        from expril.audit.kinds import PATH_CONTROLS, audit_kind, audit_path_control, chosen_kinds, path_checks

        names = chosen_kinds(kind)
        broken = tuple(PATH_CONTROLS) if controls else ()
        kinds: list[KindResult] = []
        checks: list[Check] = []
        caught: list[ControlResult] = []
        for number, name in enumerate(names):
            tick("kinds", number, len(names))
            kinds.append(audit_kind(name, draws=draws))
            checks += path_checks(name)
        tick("noise", 0, 1)
        checks += calibrate()
        for number, name in enumerate(broken):
            tick("controls", number, len(broken))
            caught.append(audit_path_control(name, draws=draws))
    if json_:
        print_json(
            {
                "kinds": [
                    {
                        "kind": one.kind,
                        "claimed": one.attack.claimed,
                        "lower_bound": one.attack.lower_bound,
                        "exact": one.exact,
                        "violation": one.violation,
                        "searched": one.searched,
                        "draws": one.attack.draws,
                        "error_rate": one.attack.error_rate,
                        "neighbours": one.attack.neighbours,
                        "event": one.attack.event,
                        "verdict": one.verdict,
                    }
                    for one in kinds
                ],
                "controls": [
                    {
                        "name": one.name,
                        "caught": one.caught,
                        "claimed": one.attack.claimed,
                        "lower_bound": one.attack.lower_bound,
                        "truth": one.truth,
                        "fault": one.fault,
                    }
                    for one in caught
                ],
                "checks": [
                    {"name": one.name, "passed": one.passed, "found": one.found, "false_alarm": one.false_alarm}
                    for one in checks
                ],
            }
        )
    else:
        _show(kinds, caught, checks)
    if any(one.violation for one in kinds) or not all(one.caught for one in caught):
        raise typer.Exit(1)
    if not all(one.passed for one in checks):
        raise typer.Exit(1)


def _show(kinds: "list[KindResult]", controls: "list[ControlResult]", checks: "list[Check]") -> None:
    """Tables: what is shipped, what is broken on purpose, and what has no two neighbours."""
    from rich.table import Table

    console = wide_console()
    table = Table("kind", "claimed", "proven by draws", "exact", "pairs searched", "verdict", title="Installed kinds")
    for one in kinds:
        exact = "-" if one.exact is None else f"{one.exact:.9g}"
        bound = f"{one.attack.lower_bound:.4f}"
        word = "[bold red]violation[/] " if one.violation else ""
        table.add_row(one.kind, one.attack.claimed, bound, exact, str(one.searched), word + escape(one.verdict))
    console.print(table)
    if controls:
        table = Table(
            "control", "claimed", "true", "proven by draws", "caught", "what is wrong", title="Broken on purpose"
        )
        for each in controls:
            mark = "yes" if each.caught else "[bold red]NO[/]"
            bound = f"{each.attack.lower_bound:.4f}"
            table.add_row(each.name, each.attack.claimed, each.truth, bound, mark, escape(each.fault))
        console.print(table)
    table = Table("check", "passed", "found", title="Checks")
    for check in checks:
        table.add_row(check.name, "yes" if check.passed else "[bold red]NO[/]", escape(check.found))
    console.print(table)
