"""The commands of a steward who runs a curator: `expril curator ...`."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from expril.commands.terminal import Json, exit_unless, plain_errors, print_json, print_table, say, wide_console
from expril.report.table import Written, strong, text_table

if TYPE_CHECKING:
    from curator_node.steward.check import SiteCheck

Folder = Annotated[Path, typer.Argument(help="The site's folder.")]

curator_app = typer.Typer(no_args_is_help=True, help="A curator's daemon: prepare, check, serve, show.")


@curator_app.command("init")
def curator_init(
    folder: Folder,
    name: Annotated[str, typer.Option(help="The curator's name, as its card will show it.")],
    superlink: Annotated[str, typer.Option(help='The SuperLink, "host:port".')] = "",
    ca: Annotated[Path | None, typer.Option(help="Certificate of the authority that certifies it (PEM).")] = None,
    schema: Annotated[Path | None, typer.Option(help="The schema file. [a template to fill in]")] = None,
) -> None:
    """Make a site's folder: keys, ledger, mark, and the steward's files. Never overwrites anything."""
    with plain_errors(on_interrupt="what was made so far is kept; remove it before you try again"):
        from curator_node.steward.new_site import init_site

        site = init_site(folder, name, superlink=superlink, ca=ca, schema=schema)
        steps = "".join(f"  {number}. {step}\n" for number, step in enumerate(site.todo, start=1))
        sys.stdout.write(
            f"curator {site.identity.hex()}\n"
            f"  this public key says who signs; learners ask for it, check it by telephone\n"
            f"node    {site.node}\n"
            f"  this public key only lets the daemon fetch messages from the SuperLink\n"
            f"next\n{steps}"
        )


@curator_app.command("serve")
def curator_serve(
    folder: Folder,
    superlink: Annotated[str | None, typer.Option(help='The SuperLink, "host:port". [as daemon.toml says]')] = None,
    ca: Annotated[
        Path | None, typer.Option(help="Certificate of the authority that certifies it (PEM). [as daemon.toml says]")
    ] = None,
    health_port: Annotated[
        int | None, typer.Option(help="Port of the health page, on this machine alone. [as daemon.toml says]")
    ] = None,
) -> None:
    """Serve until SIGTERM; SIGHUP reads policy and learners anew. Each event is a line of JSON on standard error."""
    with plain_errors(on_interrupt="the ledger holds what was answered"):
        from curator_node.daemon.settings import read_settings
        from curator_node.steward.enrolment import check_written

        changes = {"superlink": superlink, "ca": None if ca is None else str(ca.resolve()), "health_port": health_port}
        settings = read_settings(folder, changes)
        check_written(folder)
        from curator_node.daemon.process import serve

        serve(folder, settings)


@curator_app.command("check")
def curator_check(folder: Folder, json_: Json = False) -> None:
    """Say what would stop the curator, and what its steward should look at. For the steward's eyes only.

    Nothing is written, and nothing leaves this machine, but for a call that asks whether the SuperLink answers. Numbers
    of records may be shown, which no learner is ever told.

    Exit status: 0 nothing would stop the curator; 1 something would stop it; 2 wrong use.
    """
    with plain_errors():
        import msgspec

        from curator_node.daemon.calls import why_unreachable
        from curator_node.daemon.settings import inside
        from curator_node.steward.check import check_site

        if folder.is_file():
            from protocol.errors import ConfigurationError

            raise ConfigurationError(
                f"{folder} is a file; name the site's folder, which holds schema.toml and the rest"
            )
        check = check_site(folder, lambda settings: why_unreachable(settings.superlink, inside(folder, settings.ca)))
        if json_:
            standing = None if check.standing is None else msgspec.to_builtins(check.standing)
            questions = [question._asdict() for question in check.questions]
            findings = [
                {"level": finding.level, "about": finding.about, "text": finding.text} for finding in check.findings
            ]
            print_json({"stopped": check.stopped, "findings": findings, "questions": questions, "budget": standing})
        else:
            _show_check(check)
        exit_unless(not check.stopped)


@curator_app.command("plug-ins")
def curator_plug_ins(
    package: Annotated[str, typer.Argument(help="One package. [all that are installed]")] = "", json_: Json = False
) -> None:
    """Print the lines of a policy that name an installed plug-in: package, version and digest of its RECORD.

    Metadata alone is read, and nothing is imported. Review a package before you name it: it runs with all that the
    curator may do.
    """
    with plain_errors():
        from expril.packages import installed_packages, normalised
        from protocol.errors import ConfigurationError
        from protocol.plug_ins import Group
        from protocol.strict_toml import suggest

        packages = installed_packages()
        name = normalised(package)
        if package and name not in packages:
            raise ConfigurationError(f"no plug-in {package!r} is installed{suggest(name, list(packages))}")
        listed = [packages[name]] if package else sorted(packages.values(), key=lambda item: item.name)
        if json_:
            print_json(
                {
                    "plug_ins": [
                        {
                            "package": item.name,
                            "version": item.version,
                            "record": None if item.editable else item.plug_in.record,
                            "offers": {group.value: list(item.names(group)) for group in Group if item.names(group)},
                        }
                        for item in listed
                    ]
                }
            )
            return
        for item in listed:
            lines = "# editable: simulations alone take it\n" if item.editable else item.plug_in.lines
            sys.stdout.write(f"# {item.title}: {item.summary}\n{lines}\n")
        if not listed:
            sys.stdout.write("no plug-in is installed\n")


@curator_app.command("status")
def curator_status(folder: Folder, json_: Json = False) -> None:
    """Ask the daemon for its state; if none runs, read the ledger.

    Exit status: 0 it is answering learners; 1 it is not; 2 wrong use.
    """
    with plain_errors():
        from curator_node.steward.desk import read_status

        status = read_status(folder)
        if json_:
            print_json(status)
        else:
            _show_status(status)
        exit_unless(status["healthy"])


@curator_app.command("answer")
def curator_answer(
    folder: Annotated[Path, typer.Argument(help="The folder of requests.")],
    site: Annotated[Path, typer.Option(help="The site's folder.")],
    mark: Annotated[
        Path | None, typer.Option(help="A mark of this command, if a daemon serves from the same ledger.")
    ] = None,
    json_: Json = False,
) -> None:
    """Answer every request in a folder that has no reply yet; replies lie beside the requests, to be brought back.

    A request is answered once, but one whose refusal is not final is answered again. Other files are named and left
    alone.

    Exit status: 0 answered; 2 the site cannot be opened, or the folder holds nothing for it.
    """
    with plain_errors(on_interrupt="the ledger and the folder hold what was answered; the same command goes on"):
        from dataclasses import asdict

        from curator_node.daemon.settings import DAEMON, inside, ledger_of, read_settings
        from curator_node.steward.enrolment import check_written

        settings = read_settings(site) if (site / DAEMON).is_file() else None
        if site.is_dir():
            check_written(site)
        from curator_node.daemon.folder import answer_folder
        from curator_node.site import open_site

        ledger = None if settings is None else ledger_of(settings)
        mark = mark or (None if settings is None else inside(site, settings.mark))
        with open_site(site, ledger=ledger, mark=mark) as opened:
            answered = []
            for reply in answer_folder(folder, opened):
                answered.append(asdict(reply))
                if not json_:
                    limit = f" ({reply.limit})" if reply.limit else ""
                    sys.stdout.write(f"{reply.what:<9} {reply.file[:16]} {reply.why}{limit}\n")
        if json_:
            print_json({"files": answered})
        elif not answered:
            sys.stdout.write("nothing new\n")


def _show_check(check: "SiteCheck") -> None:
    console = wide_console()
    console.print("For the steward's eyes only: numbers of records below are told to nobody else.", style="dim")
    styles = {"stop": "bold red", "look": "yellow", "fine": "green"}
    for finding in check.findings:
        line = f"[{styles[finding.level]}]{finding.level:5}[/] {finding.about:9} {escape(finding.text)}"
        console.print(line, highlight=False, soft_wrap=True)
    questions = text_table(
        "what the default strategy would ask, at a cost of the whole cap",
        ("counted", "cells", "work (s)", "message (bytes)", "answered"),
        [
            (question.release, question.cells, f"{question.seconds:.2f}", question.size, question.refused or "yes")
            for question in check.questions
        ],
        wraps=["answered"],
    )
    if questions:
        print_table(questions)
    if check.standing is not None:
        import msgspec

        print_table(_budget(msgspec.to_builtins(check.standing)))
    if check.stopped:
        say("stop", "as it stands, the curator would not start, or would refuse whatever is asked; see each stop above")


def _show_status(status: dict[str, Any]) -> None:
    console = wide_console()
    how = "answering" if status["healthy"] else "NOT answering" if status["running"] else "not running"
    console.print(f"{escape(status['name'])}: {how}, SuperLink {status['superlink']}", highlight=False)
    if status["running"]:
        since = status["connected_since"]
        when = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if since else "not connected"
        console.print(f"connected since {when}; node {status['node']}; in hand {status['in_hand']}", highlight=False)
        for name in ("requests", "refusals", "unserved"):
            counts = ", ".join(f"{kind} {count}" for kind, count in sorted(status[name].items()))
            console.print(f"{name}: {counts or 'none'}", highlight=False)
        console.print(f"releases: {status['releases']}", highlight=False)
    if status.get("waiting"):
        say("look", f"studies that wait for your word: {status['waiting']} (expril curator studies)")
    budget = status["budget"]
    if budget is None:
        say("stop", "the ledger cannot be read")
        return
    print_table(_budget(budget))


def _budget(budget: dict[str, Any]) -> Written:
    """Spent and left, from a `Standing` as an object."""
    halted = " - HALTED" if budget["halted"] else ""
    rows: list[Sequence[object]] = [
        (name, *(_amount(budget_row[key]) for key in ("spent", "reserved", "cap", "left", "integral")))
        for name, budget_row in budget["learners"].items()
    ]
    spent, *rest = (_amount(budget[key]) for key in ("spent", "cap", "left", "integral"))
    return text_table(
        f"budgets in epsilon, by ledger entry {budget['entry']}{halted}",
        ("learner", "spent", "set aside", "cap", "left", "if all changed"),
        [*rows, strong("all", spent, "", *rest)],
        note=_EPSILON,
    )


def _amount(text: str) -> str:
    from protocol.rationals import written

    return _NO_LIMIT.get(text) or written(text)


_NO_LIMIT = {"infinite": "no limit"}
_EPSILON = (
    "Answers that cost x change the odds that one patient, or whatever is protected, is among the records by a factor "
    "of e^x at most; of one that is known to be, the odds of anything else by e^2x. The last column is the same x for "
    "any two sets of records, however many patients they differ in."
)
