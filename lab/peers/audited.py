"""The game on diffprivlib's own models, under add or remove of one record: what is claimed, and what draws prove.

They are controls of the audit and nothing else: no curator runs them. docs/in-site-learning.md says what was found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game import Game, breaks
from expril.audit.results import Attack
from lab.peers.environment import rows_in_environment
from lab.peers.task import Matrix, PeerFailedError, PeerTask, PeerUnavailableError
from protocol.errors import ConfigurationError

DRAWS = 2_000  # from either input: a fit takes a millisecond or two, and what these give away shows in a few hundred
EPSILON = 1.0


@dataclass(frozen=True)
class Labelled:
    """Records of one attribute."""

    values: tuple[float, ...]  # of the attribute
    labels: tuple[int, ...]  # 0 or 1, one a record


@dataclass(frozen=True)
class PeerGame:
    """One release of a library, and two sets of records of which one has a record more."""

    release: str  # key of `diffprivlib_models.GAMES`
    first: Labelled  # the records
    second: Labelled
    most: float  # the largest absolute value that the library is told a record has
    neighbours: str  # the two, in words
    fault: str  # what is wrong, one sentence; "" where the game is to find nothing
    truth: str  # the largest loss between these two sets, in words

    @property
    def game(self) -> Game:
        """The game in the form of `expril audit game`."""
        return Game(
            partial(outcomes, self.release, self.most),
            self.first,
            self.second,
            EPSILON,
            neighbours=self.neighbours,
            statistics={"the size of the last number": lambda rows: np.abs(rows[:, -1])},
        )


@dataclass(frozen=True)
class Audited:
    """What the game found."""

    name: str  # key of `PEER_GAMES`
    attack: Attack  # what the draws prove
    broken: bool  # whether that is more than is claimed
    expected: bool  # whether `broken` is what the table of games says


_TWO = Labelled((0.0, 0.0), (0, 1))
PEER_GAMES: Mapping[str, PeerGame] = MappingProxyType(
    {
        "naive-bayes-counts": PeerGame(
            "class-counts",
            Labelled((0.2, 0.4, 0.6, 0.8), (0, 0, 1, 1)),
            Labelled((0.2, 0.4, 0.6, 0.8, 0.8), (0, 0, 1, 1, 1)),
            1.0,
            "4 records, and one record more",
            "The noisy class counts are moved until they add up to the exact number of records.",
            "infinite",
        ),
        "logistic-one-class": PeerGame(
            "weight",
            Labelled((0.0, 0.0), (0, 0)),
            Labelled((0.0, 0.0, 0.0), (0, 0, 1)),
            1.0,
            "2 records of one class, and one more of another class",
            "A data set of one class raises an error, which tells it without noise.",
            "infinite",
        ),
        "logistic-norm": PeerGame(
            "weight",
            _TWO,
            Labelled((0.0, 0.0, 1000.0), (0, 1, 1)),
            1000.0,
            "2 records of norm 0, and one more of the norm that the model is told, 1,000",
            "The curvature of a record of norm R is taken for R / 4; it is R^2 / 4.",
            "about 5.5",
        ),
        "logistic-n": PeerGame(
            "weight",
            _TWO,
            Labelled((0.0, 0.0, 0.0), (0, 1, 1)),
            1.0,
            "2 records of norm 0, and 3: only their number differs",
            "",
            "0: the regulariser 1 / (C n), the noise and the mean loss have the same 1 / n, which cancels",
        ),
    }
)
"""By name; the last one is to hold."""


def outcomes(release: str, most: float, records: Labelled, draws: int) -> NDArray[np.float64]:
    """So many outcomes of the library on these records, (draws, k).

    Raises PeerUnavailableError: there is no peers' environment, or it lacks the library; the text says what to do;
    PeerFailedError: its process gave no answer.
    """
    values: Matrix = np.array(records.values, np.float64)[:, None]
    task = PeerTask(
        peer=release,
        epsilon=EPSILON,
        delta=0.0,
        seed=0,
        train=values,
        labels=np.array(records.labels, np.int64),
        test=np.zeros((draws, 1)),
        lower=np.array([0.0]),
        upper=np.array([most]),
        source=values,
        columns=("x",),
    )
    return rows_in_environment("games", task)


def audit_peer(name: str, *, draws: int = DRAWS, error_rate: float = 0.001) -> Audited:
    """Play one of `PEER_GAMES`.

    `error_rate`: chance that the lower bound is above the true epsilon, at most.

    Raises PeerUnavailableError or PeerFailedError: as `drawn`.
    """
    game = PEER_GAMES[name]
    try:
        attack = game.game.play(draws=draws, error_rate=error_rate)
    except ConfigurationError as error:
        # The game tells an author where the mechanism fails; here it is the environment that does.
        if isinstance(error.__cause__, PeerUnavailableError | PeerFailedError):
            raise error.__cause__ from None
        raise
    broken = breaks(attack)
    return Audited(name, attack, broken, broken == bool(game.fault))
