"""`expril audit studies`: attacks on whole studies, and what each gains against what epsilon allows."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.audit import audit_app
from expril.commands.terminal import Json, bars, plain_errors, print_json, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from expril.audit.results import StudyAttack


@audit_app.command("studies")
def studies(
    names: Annotated[list[str] | None, typer.Argument(help="Attacks, or all.", show_default="all")] = None,
    epsilon: Annotated[str, typer.Option(help="Budgets of the curators under attack.")] = "0.1,1,10",
    trials: Annotated[int | None, typer.Option(min=2, help="Games of each attack. [each attack's own]")] = None,
    records: Annotated[str, typer.Option(help="Invented ones, or a data set: wdbc, heart.")] = "invented",
    json_: Json = False,
) -> None:
    """Attack whole studies: is somebody's record among a curator's or not?

    Real curators with real noise answer real envelopes. The gain of an attack is the share of right guesses "in" less
    the share of false ones. Exit status: 1 where a gain is proven to be above what epsilon allows, or below what theory
    gives the attack, such as on a service of rounded counts, which must leak; correct curators bring that about in one
    bench of 20 at most.
    """
    with plain_errors(part="simulations"):
        import msgspec

        from expril.audit.studies.attacks import ATTACKS, FALSE_ALARM, attack_study, false_alarm_share, to_play

        wanted = [] if not names or names == ["all"] else names
        calls = to_play(wanted, [each.strip() for each in epsilon.split(",")])
        found: list[StudyAttack] = []
        with bars(json_) as tick:
            for number, (name, each) in enumerate(calls):
                tick("attacks", number, len(calls))
                share = false_alarm_share(name, calls)
                found += attack_study(name, each, trials=trials, error_rate=share, records=records)
        passed = all(one.holds and one.reaches for one in found)
        if json_:
            told = [msgspec.to_builtins(one) for one in found]
            print_json({"studies": told, "false_alarm": FALSE_ALARM, "passed": passed})
        else:
            wide_console().print(_table(found, f"Attacks on whole studies, {records} records"))
            for one in found:
                sys.stdout.write(f"{one.attack} on {one.target}, epsilon {one.epsilon}: {one.verdict}\n")
            for name in dict.fromkeys(name for name, _ in calls):
                sys.stdout.write(f"{name}: {ATTACKS[name].does} It knows: {ATTACKS[name].knows}\n")
        if not passed:
            raise typer.Exit(1)


def _table(found: "list[StudyAttack]", title: str) -> "Table":
    """One row an attack."""
    from rich.table import Table

    table = Table("attack", "on", title=title)
    for name in ("epsilon", "games", "gain", "95 %", "theory", "bound"):
        table.add_column(name, justify="right")
    table.add_column("")
    for one in found:
        theory = "" if one.expected is None else f"{one.expected:.4f}"
        low, high = one.interval
        numbers = (f"{one.trials}", f"{one.gain:.4f}", f"{low:.3f} to {high:.3f}", theory, f"{one.bound:.4f}")
        judged = "above" if not one.holds else "short" if not one.reaches else "ok"
        table.add_row(one.attack, one.target, one.epsilon, *numbers, judged)
    return table
