"""A mechanism with a claim, the event that an oracle looks at, and families of both."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from expril.audit.attack.game import Game

Rows = NDArray[Any]
Rng = np.random.Generator
Draw = Callable[[Any, int, Rng], Rows]  # an input, n, a generator -> n outcomes, (n,) or (n, k)
Event = Callable[[Rows], Any]  # n outcomes -> truth values (n,): which of them are in the event


@dataclass(frozen=True)
class Case:
    """A mechanism, two neighbouring inputs and a claim."""

    family: str
    name: str
    says: str  # what it does; of a broken one, what is wrong
    draw: Draw
    first: Any
    second: Any
    claim: str  # epsilon for these two inputs

    def game(self, rng: Rng) -> Game:
        """The game on it; `rng` makes the noise."""
        return Game(
            lambda data, n: self.draw(data, n, rng), self.first, self.second, epsilon=self.claim, neighbours=self.says
        )


@dataclass(frozen=True)
class Broken(Case):
    """A mechanism that loses more than it claims, and how an oracle shows it."""

    event: Event  # from the mechanism's law, not from draws
    likelier: Literal["first", "second"]  # the input under which the event comes more often
    loss: float | None  # true one for these inputs; None where it is not known exactly

    def oracle_bound(self, rng: Rng, *, draws: int, error_rate: float) -> float:
        """What the event proves, with as many draws as the game has left for its proof: half of `draws`."""
        half = draws // 2
        first, second = (
            int(np.count_nonzero(self.event(self.draw(data, half, rng)))) for data in (self.first, self.second)
        )
        more, fewer = (first, second) if self.likelier == "first" else (second, first)
        return _proven(more, fewer, half, error_rate)


def _proven(more: int, fewer: int, draws: int, error_rate: float) -> float:
    """ln(P / Q) at least, by Clopper and Pearson's (1934) limits of both, each at half of the error rate.

    It is not the game's own bound, so that the oracle stays as it is whatever becomes of the game.
    """
    if not more:
        return -math.inf
    lower = float(betaincinv(more, draws - more + 1, error_rate / 2))
    upper = 1.0 if fewer == draws else float(betaincinv(fewer + 1, draws - fewer, 1 - error_rate / 2))
    return math.log(lower / upper)


@dataclass(frozen=True)
class Family:
    """Mechanisms of one sort, in order. The name of a function is its mechanism's, its docstring what it does."""

    name: str
    broken_ones: list[Broken] = field(default_factory=list)
    right_ones: list[Case] = field(default_factory=list)

    def broken(
        self,
        claim: str,
        event: Event,
        *,
        loss: float | None = math.inf,
        likelier: Literal["first", "second"] = "second",
        inputs: tuple[Any, Any] = (0, 1),
    ) -> Callable[[Draw], Draw]:
        """Add a broken mechanism."""

        def add(draw: Draw) -> Draw:
            name, says = _described(draw)
            self.broken_ones.append(Broken(self.name, name, says, draw, *inputs, claim, event, likelier, loss))
            return draw

        return add

    def right(self, claim: str, inputs: tuple[Any, Any] = (0, 1)) -> Callable[[Draw], Draw]:
        """Add a right mechanism."""

        def add(draw: Draw) -> Draw:
            name, says = _described(draw)
            self.right_ones.append(Case(self.name, name, says, draw, *inputs, claim))
            return draw

        return add


def _described(draw: Draw) -> tuple[str, str]:
    return draw.__name__.replace("_", "-"), " ".join((draw.__doc__ or "").split())


def geometric(epsilon: float, rng: Rng, shape: int | tuple[int, ...]) -> NDArray[np.int64]:
    """Discrete Laplace noise: P(k) in proportion to e^(-epsilon |k|)."""
    share = -math.expm1(-epsilon)
    return rng.geometric(share, shape) - rng.geometric(share, shape)


def laplace_of(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Laplace noise of scale 1 by inversion of uniform numbers in (0, 1)."""
    return np.where(uniform < 0.5, np.log(2 * uniform), -np.log(2 * (1 - uniform)))
