"""The command `expril-lab peers`: somebody else's models as positive controls of the game."""

from typing import TYPE_CHECKING, Annotated

import typer

from expril.commands.terminal import Json, bars, exit_unless, plain_errors, print_json, print_table, say
from expril.report.table import Cell, Written, text_table

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
        print_table(_table(found))
    if skipped:
        say("skipped", skipped)
    exit_unless(all(one.expected for one in found))


def _table(found: "list[Audited]") -> Written:
    from lab.peers.audited import PEER_GAMES

    rows = []
    for one in found:
        game, said = PEER_GAMES[one.name], "broken" if one.broken else "not broken"
        verdict = said if one.expected else Cell(f"{said} (unexpected)", tone="bad")
        rows.append((one.name, one.attack.claimed, f"{one.attack.lower_bound:.3f}", game.truth, verdict, game.fault))
    headings = ("release", "claimed", "proven by draws", "true", "verdict", "what is wrong")
    return text_table("diffprivlib", headings, rows, wraps=["true", "what is wrong"])
