"""The command `expril-lab peers`: somebody else's models as positive controls of the game."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from expril.commands.terminal import Json, bars, plain_errors, print_json, say, wide_console

if TYPE_CHECKING:
    from lab.peers.audited import Audited

_DRAWS = 2_000


def audit_peers(
    draws: Annotated[int, typer.Option(min=400, max=10**6, help="Outcomes from either input.")] = _DRAWS,
    json_: Json = False,
) -> None:
    """Play the game on diffprivlib's naive Bayes and logistic regression, one record added or removed.

    Where the peers' environment is absent nothing is played, and one line says so (docs/in-site-learning.md).

    Exit status: 0 the game found what docs/in-site-learning.md says, or nothing was played; 1 it found something else.
    """
    with plain_errors(part="simulations"), bars(json_) as tick:
        from lab.peers import PeerUnavailableError
        from lab.peers.audited import PEER_GAMES, audit_peer

        found: list[Audited] = []
        skipped = ""
        for number, name in enumerate(PEER_GAMES):
            tick("games", number, len(PEER_GAMES))
            try:
                found.append(audit_peer(name, draws=draws))
            except PeerUnavailableError as error:
                skipped = str(error)
                break
    if json_:
        rows = [
            {
                "name": one.name,
                "claimed": one.attack.claimed,
                "lower_bound": one.attack.lower_bound,
                "truth": PEER_GAMES[one.name].truth,
                "broken": one.broken,
                "expected": one.expected,
                "fault": PEER_GAMES[one.name].fault,
                "neighbours": one.attack.neighbours,
                "event": one.attack.event,
            }
            for one in found
        ]
        print_json({"games": rows, "skipped": skipped})
    elif found:
        _show(found)
    if skipped:
        say("skipped", skipped)
    if not all(one.expected for one in found):
        raise typer.Exit(1)


def _show(found: "list[Audited]") -> None:
    from rich.table import Table

    from lab.peers.audited import PEER_GAMES

    table = Table("release", "claimed", "proven by draws", "true", "verdict", "what is wrong", title="diffprivlib")
    for one in found:
        game = PEER_GAMES[one.name]
        verdict = ("broken" if one.broken else "not broken") + ("" if one.expected else " [bold red](unexpected)[/]")
        bound = f"{one.attack.lower_bound:.3f}"
        table.add_row(one.name, one.attack.claimed, bound, escape(game.truth), verdict, escape(game.fault))
    wide_console().print(table)
