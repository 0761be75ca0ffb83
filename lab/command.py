"""The commands of the laboratory."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.terminal import (
    MOST_REPEATS,
    MOST_SEED,
    Jobs,
    Json,
    LargeEpsilon,
    bars,
    exit_unless,
    plain_errors,
    print_json,
    print_table,
    say,
    wide_console,
    work_bar,
)
from expril.report.table import Cell, Written, text_table

if TYPE_CHECKING:
    from lab.peers.audited import Audited


def audit_peers(
    only: Annotated[list[str] | None, typer.Option(help="Names of games, or how they begin; repeatable. [all]")] = None,
    draws: Annotated[
        int | None, typer.Option(min=400, max=10**6, help="Outcomes from either input. [each game's own]")
    ] = None,
    publish: Annotated[
        Path | None, typer.Option(help="Folder of docs: its peers-audited.md and results are written again.")
    ] = None,
    json_: Json = False,
) -> None:
    """Play the game on what other projects ship, each in an environment of its own (docs/results/peers-audited.md).

    Where an environment or a library is absent its games are not played, and one line says so.

    Exit status: 0 what was found is what the documents say, or nothing was played; 1 something else was found.
    """
    with plain_errors(part="simulations"), bars(json_) as tick:
        from lab.peers import PeerUnavailableError
        from lab.peers.audited import RESULTS, audit_peer, chosen, merged, read_published
        from lab.peers.audited import publish as write

        outcomes: list[Audited] = []
        skipped: dict[str, str] = {}
        names = chosen(only or ())
        for number, name in enumerate(names):
            tick("games", number, len(names))
            try:
                outcomes.append(audit_peer(name, draws=draws))
            except PeerUnavailableError as error:
                skipped[name] = str(error)
        if publish is not None:
            old = read_published(publish) if (publish / RESULTS).exists() else []
            write(merged(old, outcomes), publish)
    if json_:
        from dataclasses import asdict

        print_json({"games": [asdict(outcome) for outcome in outcomes], "skipped": skipped})
    elif outcomes:
        print_table(_table(outcomes))
    for reason in dict.fromkeys(skipped.values()):
        say("skipped", f"{', '.join(name for name, why in skipped.items() if why == reason)}: {reason}")
    exit_unless(all(outcome.expected for outcome in outcomes))


def _table(outcomes: "list[Audited]") -> Written:
    from lab.peers.claims import CLAIMS

    rows = []
    for outcome in outcomes:
        claim = CLAIMS[outcome.name]
        text = "refuted" if outcome.refuted else "not refuted" if outcome.claimed else "none claimed"
        verdict = text if outcome.expected else Cell(f"{text} (unexpected)", tone="bad")
        bound = "" if outcome.lower_bound is None else f"{outcome.lower_bound:.3f}"
        claimed = f"{outcome.claimed} at {outcome.delta}" if outcome.delta != "0" else outcome.claimed
        library = f"{claim.library.title} {outcome.version}"
        rows.append((outcome.name, library, claimed, bound, outcome.exact, verdict, claim.verdict))
    headings = ("game", "library", "claimed", "proven by draws", "exact", "claim", "verdict")
    return text_table("What other projects ship", headings, rows, wraps=["verdict"])


def difference(
    targets: Annotated[int, typer.Option(min=100, max=10**5, help="Persons who are attacked.")] = 1_000,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of records and noise.")] = 1,
    chart: Annotated[Path | None, typer.Option(help="An SVG file to draw to.")] = None,
    json_: Json = False,
) -> None:
    """Take differences of counts that are suppressed, rounded, or noisy (docs/explanation/differencing.md).

    Exit status: 0 no attack on noisy answers beats the bound of epsilon, 1 one does.
    """
    with plain_errors(part="simulations"):
        from dataclasses import asdict

        from lab.differencing import chart as draw_chart
        from lab.differencing import play

        outcomes = play(targets, seed)
        if chart is not None:
            chart.write_text(draw_chart(outcomes), encoding="utf-8")
    if json_:
        print_json({"targets": targets, "outcomes": [asdict(outcome) for outcome in outcomes]})
    else:
        rows = [
            (
                outcome.service,
                outcome.attack,
                f"{100 * outcome.right:.1f} % ({100 * outcome.low:.1f} to {100 * outcome.high:.1f})",
                "none" if outcome.bound is None else f"{100 * outcome.bound:.1f} %",
            )
            for outcome in outcomes
        ]
        print_table(text_table("Differences of counts", ("service", "attack", "right", "bound"), rows))
    exit_unless(all(outcome.within for outcome in outcomes))


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
            sys.stdout.write(
                "".join(f"{name:<15} {entry.headline} ({entry.page})\n" for name, entry in STUDIES.items())
            )
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
            print_json({"run": str(folder), "found": chosen.published(chosen.read_findings(folder))})
            return
    console = wide_console(chosen.width)
    for block in as_terminal(document):
        console.print(block, soft_wrap=not hasattr(block, "columns"), highlight=False)
    if not (full or rewrite or size == chosen.full):
        say("note", f"this is the short form; --full is what is published, and takes {chosen.full.takes} on two cores")
    console.print(f"report: {folder / PAGE}", soft_wrap=True, highlight=False)
