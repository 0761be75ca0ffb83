"""The commands of an auditor who attacks what is installed: `expril audit all`, `mechanism`, `game`, `studies`."""

import sys
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from expril.commands.auditor import audit_app
from expril.commands.terminal import (
    BAD,
    Json,
    bars,
    err,
    exit_unless,
    plain_errors,
    print_json,
    print_table,
    say,
    wide_console,
    work_bar,
)

if TYPE_CHECKING:
    from expril.audit.attack.game import Game
    from expril.audit.results import Check, ControlResult, KindResult, StudyAttack

DRAWS, ERROR_RATE = 100_000, 0.05
OF_A_KIND = (
    *("kind", "attack.claimed", "attack.lower_bound", "exact", "violation", "searched"),
    *("attack.draws", "attack.error_rate", "attack.neighbours", "attack.event", "verdict"),
)
OF_A_CONTROL = ("name", "caught", "attack.claimed", "attack.lower_bound", "truth", "fault")
OF_A_CHECK = ("name", "passed", "found", "false_alarm")
"""What machines are told of each."""


@audit_app.command("all")
def audit_all(
    draws: Annotated[
        int, typer.Option(min=2000, max=10_000_000, help="From each of two inputs, of every mechanism.")
    ] = DRAWS,
    out: Annotated[Path, typer.Option(help="Folder for audit.html and audit.json.")] = Path("audit"),
    runs: Annotated[
        list[Path] | None,
        typer.Option("--run", help="A run or an export, to recompute what it spent; may be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few draws and trials: to try it out, not to rely on.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 2,
    json_: Json = False,
) -> None:
    """Attack every release that is installed, and mechanisms that are broken on purpose; check noise and studies.

    Needs no data and no network. Of correct software, one audit in twenty raises a false alarm at most.

    Exit status: 0 all is in order; 1 a release gives away more than claimed, a broken mechanism was not caught, a check
    failed, an attack gained more than its bound, or a run does not add up; 2 wrong use.
    """
    with plain_errors(part="simulations"):
        from datetime import UTC, datetime

        from expril.audit.attack.whole_audit import CELLS, audit_everything
        from expril.audit.document import QUICK, audit_document, rows_of
        from expril.audit.recompute import Recomputed, recompute
        from expril.audit.results import as_object, write_result
        from expril.files import replace_text
        from expril.report.page import as_page
        from expril.report.terminal import as_terminal
        from protocol.errors import ConfigurationError

        spent = recompute(*runs) if runs else Recomputed()
        if spent.unread:
            raise ConfigurationError(spent.unread[0])
        out.mkdir(parents=True, exist_ok=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with work_bar(json_) as tick:
            result = audit_everything(draws=draws, quick=quick, workers=workers, tick=tick, cells=out / CELLS)
        named = [f"--run {path}" for path in runs or ()]
        few = [f"--draws {draws}"] if draws != DRAWS else []
        command = " ".join(("expril audit all", *few, *(["--quick"] if quick else []), *named))
        write_result(result, out / "audit.json", created=created)
        document = audit_document(result, created=created, command=command, spent=rows_of(spent))
        replace_text(out / "audit.html", as_page(document))
        if json_:
            print_json(as_object(result, created=created, pictures=False))
        else:
            for shown in as_terminal(document):
                wide_console().print(shown, "")
            say("not proven", *spent.wrong, style=BAD)
            lines = (f"{document.headline}.", *([QUICK] if result.quick else []), str(out / "audit.html"))
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            err.print(f"{result.seconds:.0f} seconds", highlight=False)
        exit_unless(result.passed and spent.proven)


@audit_app.command("mechanism")
def audit_mechanism(
    kind: Annotated[str, typer.Argument(help='"all", a query kind, or one of its releases.', metavar="KIND|all")],
    draws: Annotated[int, typer.Option(min=1_000, max=10_000_000, help="Draws from either set of records.")] = DRAWS,
    controls: Annotated[bool, typer.Option(help="Attack what is broken on purpose, too.")] = True,
    json_: Json = False,
) -> None:
    """Attack the installed query kinds with real noise, and compute their exact loss on the worst records found.

    Every registered kind gives its own questions. Whether a curator's answers come from what was attacked is checked,
    the installed noise is held to its law, and mechanisms that are broken on purpose must be caught.

    Exit status: 0 all in order; 1 a kind breaks its claim or cannot be audited, a check fails, or a broken mechanism
    was not caught; 2 there is no such kind.
    """
    with plain_errors(part="simulations"):
        from expril.audit.attack.calibration import calibrate
        from expril.audit.attack.controls.curators import PATH_CONTROLS, audit_path_control
        from expril.audit.attack.handle_checks import path_checks
        from expril.audit.attack.kinds import audit_kind, chosen_kinds

        names = chosen_kinds(kind)
        broken = tuple(PATH_CONTROLS) if controls else ()
        kinds: list[KindResult] = []
        checks: list[Check] = []
        caught: list[ControlResult] = []
        with bars(json_) as tick:
            for number, name in enumerate(names):
                tick("kinds", number, len(names))
                kinds.append(audit_kind(name, draws=draws))
                checks += path_checks(name)
            tick("noise", 0, 1)
            checks += calibrate()
            for number, name in enumerate(broken):
                tick("controls", number, len(broken))
                caught.append(audit_path_control(name, draws=draws))
        from expril.audit.tables import mechanism_tables

        if json_:
            print_json(
                {
                    "kinds": [_told(one, *OF_A_KIND) for one in kinds],
                    "controls": [_told(one, *OF_A_CONTROL) for one in caught],
                    "checks": [_told(one, *OF_A_CHECK) for one in checks],
                }
            )
        else:
            for table in mechanism_tables(kinds, caught, checks):
                print_table(table)
        exit_unless(not any(one.violation for one in kinds) and all(one.caught for one in caught))
        exit_unless(all(one.passed for one in checks))


def _told(one: object, *names: str) -> dict[str, Any]:
    """Of an object, the attributes of these names, and of what it holds, by their last names."""
    return {name.rpartition(".")[2]: attrgetter(name)(one) for name in names}


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

        from expril.audit.attack.studies.attacks import ATTACKS, FALSE_ALARM, attack_study, false_alarm_share, to_play
        from expril.audit.tables import attacks_table

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
            print_table(attacks_table(found, records))
            for one in found:
                sys.stdout.write(f"{one.attack} on {one.target}, epsilon {one.epsilon}: {one.verdict}\n")
            for name in dict.fromkeys(name for name, _ in calls):
                sys.stdout.write(f"{name}: {ATTACKS[name].does} It knows: {ATTACKS[name].knows}\n")
        exit_unless(passed)


@audit_app.command("game")
def game(
    where: Annotated[
        str, typer.Argument(help="A function without arguments that returns a Game.", metavar="MODULE:FUNCTION")
    ],
    claimed: Annotated[str | None, typer.Option(help="Epsilon to hold it to, in place of the game's own.")] = None,
    draws: Annotated[int, typer.Option(min=400, max=10**8, help="Outcomes from either input.")] = DRAWS,
    error_rate: Annotated[
        float, typer.Option(help="Chance that a correct mechanism is called broken, at most.")
    ] = ERROR_RATE,
    json_: Json = False,
) -> None:
    """Play the distinguishing game on any Python mechanism; docs/game.md tells how to state one.

    The module is imported and run: use it on code that you would run anyway. It is looked for in this folder first.

    Exit status: 0 not broken by this game, 1 the claim is broken, 2 the game cannot be played.
    """
    with plain_errors(part="simulations"):
        from contextlib import redirect_stdout

        from msgspec import to_builtins

        from expril.audit.attack.game import breaks, verdict_of

        with redirect_stdout(sys.stderr):  # what theirs prints is no result of ours
            attack = _find(where).play(draws=draws, error_rate=error_rate, claimed=claimed)
        broken = breaks(attack)
        if json_:
            print_json({"game": where, "broken": broken, "verdict": verdict_of(attack), **to_builtins(attack)})
        else:
            console = wide_console()
            colour = "bold red" if broken else "green"
            verdict, colon, rest = verdict_of(attack).partition(":")
            console.print(f"[{colour}]{verdict}[/]{colon}{escape(rest)}", highlight=False, soft_wrap=True)
            more, fewer = attack.shares
            rows = {
                "inputs": attack.neighbours,
                "event": attack.event,
                "its share": f"{more:.3%} of draws on which it was not chosen, and {fewer:.3%} under the other input",
                "error rate": f"{attack.error_rate:g}: so often, at most, is the lower bound above the true epsilon",
            }
            for name, text in rows.items():
                console.print(f"{name:12}{escape(text)}", highlight=False, soft_wrap=True)
        exit_unless(not broken)


def _find(where: str) -> "Game":
    """The game that a function of a module gives; ConfigurationError where there is none."""
    import importlib

    from expril.audit.attack.game import Game
    from protocol.errors import ConfigurationError

    module_name, colon, name = where.partition(":")
    if not (colon and module_name and name):
        raise ConfigurationError(f"{where}: write the module and its function, such as my_mechanism:game")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{module_name}: there is no such module in this folder or in this Python; name it without .py"
            ) from None
        raise ConfigurationError(f"{module_name} needs the module {error.name}, which is not installed") from error
    except SystemExit:
        raise ConfigurationError(
            f'{module_name} ends when it is imported; put what it does as a program under if __name__ == "__main__":'
        ) from None
    except Exception as error:
        raise ConfigurationError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigurationError(f"{module_name} has no function {name!r}; write one that returns a Game")
    try:
        found = function()
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{where} fails: {type(error).__name__}: {error}") from error
    if not isinstance(found, Game):
        raise ConfigurationError(
            f"{where} returns {type(found).__name__}; return a Game of expril.audit.attack.game, see docs/game.md"
        )
    return found
