"""The commands of an auditor that need the simulations: attacks on what is installed, and claim packages."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from expril.commands.auditor import Pins, Receipts, RunsOrExports, Witnessed, audit_app
from expril.commands.terminal import (
    BAD,
    FilesFolder,
    Json,
    Png,
    bars,
    check_files,
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
"""Fields of each that `audit mechanism --json` prints."""


@audit_app.command("all")
def audit_all(
    draws: Annotated[
        int, typer.Option(min=2000, max=10_000_000, help="Draws of each of two inputs, for every mechanism.")
    ] = DRAWS,
    out: Annotated[Path, typer.Option(help="Folder for audit.html and audit.json.")] = Path("audit"),
    runs: Annotated[
        list[Path] | None,
        typer.Option("--run", help="A run or an export, to recompute what it spent; repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A first look at each release; all else is left out.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Draw each release at other epsilons, too: about twice the time.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes.")] = 2,
    files: FilesFolder = None,
    png: Png = False,
    json_: Json = False,
) -> None:
    """Attack every installed release, whole studies, and mechanisms that are broken on purpose; check the noise.

    The audit needs no data and no network. On correct software at most one audit in twenty raises a false alarm.

    Exit status: 0 all is in order; 1 a release gives away more than claimed, a broken mechanism was not caught, a check
    failed, an attack gained more than its bound, or a run does not add up; 2 wrong use.
    """
    with plain_errors(part="simulations"):
        from expril.audit.attack.whole_audit import CELLS, audit_everything
        from expril.audit.brief import quick_words
        from expril.audit.document import audit_document, rows_of
        from expril.audit.recompute import Recomputed, recompute
        from expril.audit.results import as_object, write_result
        from expril.files import replace_text
        from expril.report.page import as_page
        from expril.report.page_files import write_page_files
        from expril.report.terminal import as_terminal
        from protocol.errors import ConfigurationError

        check_files(files, png)
        if quick and thorough:
            raise ConfigurationError("--quick and --thorough contradict each other; give one of them")
        spent = recompute(*runs) if runs else Recomputed()
        if spent.unread:
            raise ConfigurationError(spent.unread[0])
        out.mkdir(parents=True, exist_ok=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with work_bar(json_) as tick:
            result = audit_everything(
                draws=draws, quick=quick, thorough=thorough, workers=workers, tick=tick, cells=out / CELLS
            )
        named = [f"--run {path}" for path in runs or ()]
        few = [f"--draws {draws}"] if draws != DRAWS else []
        options = [name for name, option in (("--quick", quick), ("--thorough", thorough)) if option]
        command = " ".join(("expril audit all", *few, *options, *named))
        write_result(result, out / "audit.json", created=created)
        document = audit_document(result, created=created, command=command, spent=rows_of(spent))
        replace_text(out / "audit.html", as_page(document))
        if files is not None:
            write_page_files(document, files, png=png)
        if json_:
            print_json(as_object(result, created=created, pictures=False))
        else:
            for block in as_terminal(document):
                wide_console().print(block, "")
            say("not proven", *spent.wrong, style=BAD)
            lines = (f"{document.headline}.", *([quick_words(result)] if result.quick else []), str(out / "audit.html"))
            sys.stdout.write("".join(f"{line}\n" for line in lines))
            err.print(f"{result.seconds:.0f} seconds", highlight=False)
        exit_unless(result.passed and spent.proven)


@audit_app.command("mechanism")
def audit_mechanism(
    kind: Annotated[str, typer.Argument(help='"all", a query kind, or one of its releases.', metavar="KIND|all")],
    draws: Annotated[int, typer.Option(min=1_000, max=10_000_000, help="Draws of each of two data sets.")] = DRAWS,
    controls: Annotated[bool, typer.Option(help="Attack curators that are broken on purpose, too.")] = True,
    json_: Json = False,
) -> None:
    """Attack the installed query kinds with real noise, and compute their exact loss on the worst records found.

    Every registered kind brings its own questions. Checks say whether a curator's answers come from the attacked
    answerer, and whether the noise has its law. Curators that are broken on purpose must be caught.

    Exit status: 0 all is in order; 1 a kind breaks its claim or cannot be audited, a check failed, or a broken
    mechanism was not caught; 2 there is no such kind.
    """
    with plain_errors(part="simulations"):
        from expril.audit.attack.calibration import calibrate
        from expril.audit.attack.controls.curators import PATH_CONTROLS, audit_path_control
        from expril.audit.attack.handle_checks import path_checks
        from expril.audit.attack.kinds import audit_kind, chosen_kinds
        from expril.audit.plug_ins import tables_for

        tables = tables_for(kind)
        names = chosen_kinds(kind, *tables)
        broken = tuple(PATH_CONTROLS) if controls else ()
        kinds: list[KindResult] = []
        checks: list[Check] = []
        caught: list[ControlResult] = []
        with bars(json_) as tick:
            for number, name in enumerate(names):
                tick("kinds", number, len(names))
                kinds.append(audit_kind(name, draws=draws, answerers=tables.answerers, audits=tables.audits))
                checks += path_checks(name, answerers=tables.answerers, audits=tables.audits)
            tick("noise", 0, 1)
            checks += calibrate()
            for number, name in enumerate(broken):
                tick("controls", number, len(broken))
                caught.append(audit_path_control(name, draws=draws))
        from expril.audit.tables import mechanism_tables

        if json_:
            print_json(
                {
                    "kinds": [_selected(result, *OF_A_KIND) for result in kinds],
                    "controls": [_selected(result, *OF_A_CONTROL) for result in caught],
                    "checks": [_selected(result, *OF_A_CHECK) for result in checks],
                }
            )
        else:
            for table in mechanism_tables(kinds, caught, checks):
                print_table(table)
        exit_unless(not any(result.violation for result in kinds) and all(result.caught for result in caught))
        exit_unless(all(result.passed for result in checks))


def _selected(result: "KindResult | ControlResult | Check", *names: str) -> dict[str, Any]:
    """The fields of these names, as audit.json has them; "attack.draws" is the field `draws` of the attack."""
    from msgspec import to_builtins

    fields = to_builtins(result)
    fields |= {f"attack.{name}": value for name, value in fields.get("attack", {}).items()}
    return {name.removeprefix("attack."): fields[name] for name in names}


@audit_app.command("studies")
def studies(
    names: Annotated[list[str] | None, typer.Argument(help="Attacks, or all.", show_default="all")] = None,
    epsilon: Annotated[
        str, typer.Option(help="Comma-separated budgets of the attacked curators, each a decimal or a/b.")
    ] = "0.1,1,10",
    trials: Annotated[int | None, typer.Option(min=2, help="Games of each attack. [each attack's own]")] = None,
    records: Annotated[str, typer.Option(help='"invented", or a data set: wdbc, heart.')] = "invented",
    json_: Json = False,
) -> None:
    """Attack whole studies: is somebody's record among a curator's or not?

    Real curators with real noise answer real envelopes. The gain of an attack is its true positive rate less its false
    positive rate. On correct curators at most one run of all attacks in twenty raises a false alarm.

    Exit status: 0 all is in order; 1 a gain is proven to be above what epsilon allows, or below what theory gives the
    attack, also on a service of rounded counts, which must leak; 2 wrong use.
    """
    with plain_errors(part="simulations"):
        import msgspec

        from expril.audit.attack.studies.attacks import ATTACKS, FALSE_ALARM, attack_study, false_alarm_share, to_play
        from expril.audit.tables import attacks_table

        selection = [] if not names or names == ["all"] else names
        calls = to_play(selection, [budget.strip() for budget in epsilon.split(",")])
        results: list[StudyAttack] = []
        with bars(json_) as tick:
            for number, (name, budget) in enumerate(calls):
                tick("attacks", number, len(calls))
                share = false_alarm_share(name, calls)
                results += attack_study(name, budget, trials=trials, error_rate=share, records=records)
        passed = all(result.holds and result.reaches for result in results)
        if json_:
            rows = [msgspec.to_builtins(result) for result in results]
            print_json({"studies": rows, "false_alarm": FALSE_ALARM, "passed": passed})
        else:
            print_table(attacks_table(results, records))
            for result in results:
                sys.stdout.write(f"{result.attack} on {result.target}, epsilon {result.epsilon}: {result.verdict}\n")
            for name in dict.fromkeys(name for name, _ in calls):
                sys.stdout.write(f"{name}: {ATTACKS[name].does} It knows: {ATTACKS[name].knows}\n")
        exit_unless(passed)


@audit_app.command("game")
def game(
    where: Annotated[
        str, typer.Argument(help="A function without arguments that returns a Game.", metavar="MODULE:FUNCTION")
    ],
    claimed: Annotated[str | None, typer.Option(help="The claimed epsilon. [the game's own]")] = None,
    delta: Annotated[
        str | None, typer.Option(help="The claimed delta, which every event has for free. [the game's own]")
    ] = None,
    draws: Annotated[int, typer.Option(min=400, max=10**8, help="Draws of each of two inputs.")] = DRAWS,
    error_rate: Annotated[
        float, typer.Option(help="Greatest probability that a correct mechanism is called broken.")
    ] = ERROR_RATE,
    json_: Json = False,
) -> None:
    """Play the distinguishing game on any Python mechanism; docs/auditor/game.md shows how to state one.

    The module is imported and run, so use it on code that you would run anyway. This folder is searched first.

    Exit status: 0 not broken by this game; 1 the claim is broken; 2 the game cannot be played.
    """
    with plain_errors(part="simulations"):
        from contextlib import redirect_stdout

        from msgspec import to_builtins

        from expril.audit.attack.game import breaks, verdict_of

        with redirect_stdout(sys.stderr):  # the module's prints are no result of ours
            attack = _find(where).play(draws=draws, error_rate=error_rate, claimed=claimed, delta=delta)
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
                "claim": f"epsilon {attack.claimed}, delta {attack.delta}",
                "inputs": attack.neighbours,
                "event": attack.event,
                "its share": f"{more:.3%} of draws on which it was not chosen, and {fewer:.3%} under the other input",
                "error rate": f"{attack.error_rate:g}: greatest probability that the bound is above the true epsilon",
            }
            for name, text in rows.items():
                console.print(f"{name:12}{escape(text)}", highlight=False, soft_wrap=True)
        exit_unless(not broken)


def _find(where: str) -> "Game":
    """The game that a module's function returns; ConfigurationError if there is none."""
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
        stated = function()
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{where} fails: {type(error).__name__}: {error}") from error
    if not isinstance(stated, Game):
        raise ConfigurationError(
            f"{where} returns {type(stated).__name__}; return a Game of expril.audit.attack.game: docs/auditor/game.md"
        )
    return stated


@audit_app.command("package")
def audit_package(
    paths: Annotated[list[Path] | None, RunsOrExports] = None,
    out: Annotated[Path, typer.Option(help="The folder to make.")] = Path("claim"),
    key: Annotated[Path | None, typer.Option(help="Your private key (PEM), which signs the package.")] = None,
    facts: Annotated[Path | None, typer.Option(help="TOML of facts that only people know; see --template.")] = None,
    audit: Annotated[
        Path | None, typer.Option(help="audit.json of expril audit all. [made now, in four minutes]")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The registry's deployments-schema.yaml, to validate the entry.")
    ] = None,
    receipt: Receipts = None,
    witnessed: Witnessed = None,
    template: Annotated[Path | None, typer.Option(help="Only write a template of the facts file there.")] = None,
    json_: Json = False,
) -> None:
    """Put a claim into one signed folder, with all that proves it: registry entry, checklist, attack, losses, evidence.

    No record enters it, and nothing of a run's local/.

    Exit status: 0 all is in order; 1 the audit in it did not pass; 2 the evidence does not prove its sums, a fact is
    missing, or a file is wrong, and nothing is written.
    """
    with plain_errors(part="simulations"):
        from protocol.errors import ConfigurationError

        if template is not None:
            from expril.audit.package.facts import TEMPLATE
            from expril.files import write_new

            write_new(template, TEMPLATE.encode(), rule="a file of facts is never overwritten", public=True)
            sys.stdout.write(f"{template}\n")
            return
        if not paths or key is None or facts is None:
            needed = {"RUN_OR_EXPORT": paths, "--key KEY.pem": key, "--facts FACTS.toml": facts}
            missing = ", ".join(name for name, value in needed.items() if not value)
            raise ConfigurationError(f"a package needs {missing}; facts: --template FACTS.toml writes one")
        from curator_node.key_files import read_key
        from expril.audit.attack.whole_audit import audit_everything
        from expril.audit.package.facts import read_facts
        from expril.audit.package.writer import write_package
        from expril.audit.results import read_result

        signing_key, people_facts = read_key(key), read_facts(facts)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if audit is None:
            with work_bar(json_) as work:
                result = audit_everything(tick=work), now
        else:
            result = read_result(audit)
        with bars(json_) as tick:
            written = write_package(
                paths,
                out,
                key=signing_key,
                facts=people_facts,
                audit=result,
                schema=schema,
                created=now,
                receipts=receipt or (),
                witnessed=witnessed or (),
                tick=tick,
            )
        if json_:
            print_json(written.as_object())
        else:
            signer = signing_key.public.hex()
            sys.stdout.write(
                f"{written.folder}: epsilon {written.epsilon}, {written.files} files, signed by {signer}\n"
            )
            if not written.validated:
                say("note", "deployment.yaml was not validated; --schema names the registry's schema")
            say("unproven", *written.open)
        if not result[0].passed:
            say("note", "the audit in this package did not pass, and everybody who checks it will see that")
        exit_unless(result[0].passed)


@audit_app.command("check-package")
def audit_check_package(
    folder: Annotated[Path, typer.Argument(help="A claim package.")],
    key: Annotated[str, typer.Option(help="The packager's public key, from elsewhere than the package.")] = "",
    keys: Pins = None,
    json_: Json = False,
) -> None:
    """Check a claim package offline, without data and without trust. Nothing is written.

    Every file is hashed, the signature checked, the evidence replayed, epsilon recomputed and compared with
    deployment.yaml, and the losses enumerated anew. Lines "rests" say what rests on whose word.

    Exit status: 0 all that can be checked fits; 1 something does not fit, and is named; 2 there is no package.
    """
    with plain_errors(part="simulations"):
        from expril.audit.package.manifest import require_package

        require_package(folder)  # before what enumerates and attacks is loaded
        from curator_node.ledger.view import public_key
        from expril.audit.package.checker import check_package
        from expril.audit.recompute import read_pins

        pinned = public_key(key, "--key").hex() if key else ""
        with bars(json_) as tick:
            outcome = check_package(folder, key=pinned, pins=None if keys is None else read_pins(keys), tick=tick)
        if json_:
            print_json(outcome.as_object())
        else:
            for text in outcome.holds:
                sys.stdout.write(f"holds  {text}\n")
            say("WRONG ", *outcome.wrong, style=BAD)
            say("rests ", *outcome.rests)
            epsilon = "" if outcome.epsilon is None else f"epsilon {outcome.epsilon}; "
            verdict = "something in this package does not fit" if outcome.wrong else "all that can be checked fits"
            sys.stdout.write(f"{epsilon}{verdict}\n")
        exit_unless(not outcome.wrong)
