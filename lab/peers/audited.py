"""The game on what other projects ship: the claim of each, what draws prove, what its law says, and the verdict.

Their code runs in an environment of its own and answers in arrays; docs/results/peers-audited.md shows what was found.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game import Game, breaks
from expril.audit.results import Attack
from expril.files import read_text_file, replace_text
from lab.peers.claims import CLAIMS, PAGE, LibraryClaim, PeerClaim, Rows
from lab.peers.environment import environment_versions, release_in_environment
from lab.peers.task import PeerFailedError, PeerUnavailableError, Release
from protocol.errors import ConfigurationError

ERROR_RATE = 0.001
RESULTS = "peers-audited/results.json"
START, END = "<!-- games: start -->", "<!-- games: end -->"


@dataclass(frozen=True)
class Audited:
    """What was found about one claim."""

    name: str  # key of `CLAIMS`
    version: str  # of the library
    claimed: str  # epsilon, exact; "" where none is claimed
    delta: str
    draws: int  # from either input; 0 where no game was played
    lower_bound: float | None  # on epsilon at delta; None where no game was played
    error_rate: float  # chance that `lower_bound` is above the true epsilon, at most
    event: str  # in words
    exact: str  # epsilon at delta by the law, "infinite", or "" where there is no simple law
    refuted: bool  # whether the bound or the law is above what is claimed

    @property
    def expected(self) -> bool:
        """Whether this is what the table of claims says."""
        holds = CLAIMS[self.name].holds
        return (holds is False) == self.refuted


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The names in `only`, and those that begin with one that is no name itself; all where `only` is empty.

    Raises:
        ConfigurationError: one of them begins no name.
    """
    for start in only:
        if not any(name.startswith(start) for name in CLAIMS):
            raise ConfigurationError(f"no audited peer begins with {start!r}; there are {', '.join(CLAIMS)}")
    starts = tuple(start for start in only if start not in CLAIMS)
    return tuple(name for name in CLAIMS if not only or name in only or (starts and name.startswith(starts)))


def audit_peer(name: str, *, draws: int | None = None, error_rate: float = ERROR_RATE) -> Audited:
    """Ask a library for its claim, play the game, and compare both bound and exact loss with the claim.

    `draws`: from either input [those of the claim].

    Raises PeerUnavailableError: there is no environment, or it lacks the library; the text says what to do;
    PeerFailedError: its process gave no answer.
    """
    claim = CLAIMS[name]
    version = _version(claim)
    claimed = _claimed(claim)
    attack = None
    if claim.draws:
        attack = _play(claim, claimed, draws or claim.draws, error_rate)
    above = claim.exact is not None and bool(claimed) and claim.exact > float(Fraction(claimed)) * (1 + 1e-9)
    return Audited(
        name=name,
        version=version,
        claimed=claimed,
        delta=claim.delta,
        draws=attack.draws if attack else 0,
        lower_bound=None if attack is None else round(attack.lower_bound, 3),
        error_rate=error_rate,
        event=attack.event if attack else "",
        exact="" if claim.exact is None else "infinite" if math.isinf(claim.exact) else f"{claim.exact:.6g}",
        refuted=bool(claimed) and (above or (attack is not None and breaks(attack))),
    )


def _play(claim: PeerClaim, claimed: str, draws: int, error_rate: float) -> Attack:
    def outcomes(records: Rows, count: int) -> NDArray[np.float64]:
        return _outcomes(claim, Release(claim.release, count, claim.setting), records)

    size, statistics = claim.size, {}
    if size is not None:
        statistics = {"the size of the last number": lambda rows: np.abs(rows[:, size])}
    game = Game(
        outcomes,
        claim.first,
        claim.second,
        claimed or "0",
        delta=claim.delta,
        neighbours=claim.neighbours,
        statistics=statistics,
    )
    try:
        return game.play(draws=draws, error_rate=error_rate)
    except ConfigurationError as error:
        # The game tells an author where the mechanism fails; here it is the environment that does.
        if isinstance(error.__cause__, PeerUnavailableError | PeerFailedError):
            raise error.__cause__ from None
        raise


def _claimed(claim: PeerClaim) -> str:
    """Epsilon as exact text: what is stated, or what the library answers, to nine digits."""
    if isinstance(claim.epsilon, LibraryClaim):
        release = Release(claim.epsilon.release, 1, claim.epsilon.setting)
        return f"{float(_outcomes(claim, release, claim.first)[0, 0]):.9g}"
    return claim.epsilon or ""


def _outcomes(claim: PeerClaim, release: Release, records: Rows) -> NDArray[np.float64]:
    array = np.array(records, np.float64)
    return release_in_environment(claim.library.environment, claim.library.family, release, array)


def _version(claim: PeerClaim) -> str:
    library = claim.library
    return environment_versions(library.environment, library.family).get(library.package, "")


# -- the page ------------------------------------------------------------------------------------------------------


def page_rows(results: Sequence[Audited]) -> list[str]:
    """The table of docs/results/peers-audited.md, in Markdown: a line each."""
    lines = [
        "| command | library, setting | unit, neighbours, steps | claimed | proven by draws | exact loss | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        claim = CLAIMS[result.name]
        at = "" if result.delta == "0" else f", delta {result.delta}"
        steps = "1 step" if claim.steps == 1 else f"{claim.steps} steps"
        bound = "-" if result.lower_bound is None else f"{result.lower_bound:.3f} by {result.draws:,}"
        cells = (
            f"`expril-lab peers --only {result.name}`",
            f"{claim.library.title} {result.version}: {claim.wording}",
            f"{claim.unit}; {claim.neighbours}; {steps}",
            f"{_figure(result.claimed)}{at}" if result.claimed else "none",
            bound,
            _figure(result.exact) or "-",
            f"**{claim.verdict}**" if result.refuted else claim.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def publish(results: Sequence[Audited], docs: Path) -> None:
    """Write the results and the table of the page under `docs`; what is on other pages stays there.

    Raises:
        ConfigurationError: the page is not there, or has no place for the table.
    """
    listed = [result for result in results if CLAIMS[result.name].page == PAGE]
    page = docs / PAGE
    before, start, rest = read_text_file(page, "page").partition(START)
    _old, end, after = rest.partition(END)
    if not (start and end):
        raise ConfigurationError(f"{page} has no place for the table; write {START} and {END} there")
    table = "\n".join(page_rows(listed))
    (docs / RESULTS).parent.mkdir(exist_ok=True)
    written = {"command": "expril-lab peers --publish docs/results", "games": [asdict(result) for result in listed]}
    replace_text(docs / RESULTS, json.dumps(written, indent=1) + "\n")
    replace_text(page, f"{before}{start}\n\n{table}\n\n{end}{after}")


def read_published(docs: Path) -> list[Audited]:
    """The results that `publish` wrote."""
    written: dict[str, Any] = json.loads(read_text_file(docs / RESULTS, "results"))
    return [Audited(**game) for game in written["games"]]


def merged(old: Sequence[Audited], new: Sequence[Audited]) -> list[Audited]:
    """Both, in the order of the claims; of two about one claim, the new one."""
    latest = {result.name: result for result in (*old, *new)}
    return [latest[name] for name in CLAIMS if name in latest]


def _figure(number: str) -> str:
    if not number or number == "infinite":
        return number
    value = float(Fraction(number))
    return f"{value:,.1f}" if value >= 1000 else f"{value:.4g}"
