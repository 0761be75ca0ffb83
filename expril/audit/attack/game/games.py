"""A game that somebody else states: a mechanism, two neighbouring inputs and the epsilon that is claimed."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game.playing import play
from expril.audit.attack.game.statistics import Function
from expril.audit.results import Attack
from protocol.errors import ConfigurationError, printable


@dataclass(frozen=True)
class Game:
    """What `expril audit game` plays.

    Attributes:
        mechanism: (input, n) -> (n,) or (n, k): n independent outcomes on that input.
        first: one input, whatever the mechanism takes.
        second: a neighbouring one.
        epsilon: that is claimed for these two: text, a whole number, a Fraction, or a float, which means what it shows.
        neighbours: the two inputs, in words; "" shows them.
        statistics: what an adversary with knowledge of its own computes: name -> function of (n, k) outcomes that gives
            (n,) numbers.
    """

    mechanism: Callable[[Any, int], Any]
    first: Any
    second: Any
    epsilon: str | float | Fraction
    neighbours: str = ""
    statistics: Mapping[str, Function] = field(default_factory=dict)

    def play(self, *, draws: int, error_rate: float, claimed: str | None = None) -> Attack:
        """See `expril.audit.attack.game.play`.

        Args:
            draws: from either input.
            error_rate: chance that the lower bound is above the true epsilon, at most.
            claimed: takes the place of `epsilon`.

        Raises:
            ConfigurationError: as `play`; or the mechanism raises, and where.
        """
        epsilon = claimed or self.epsilon
        return play(
            lambda count: self._draw(self.first, count, "first"),
            lambda count: self._draw(self.second, count, "second"),
            claimed=repr(float(epsilon)) if isinstance(epsilon, float) else epsilon,
            draws=draws,
            error_rate=error_rate,
            neighbours=self.neighbours or f"{_short(self.first)} and {_short(self.second)}",
            statistics={name: _named(name, function) for name, function in self.statistics.items()},
        )

    def _draw(self, data: Any, count: int, which: str) -> NDArray[Any]:
        try:
            return np.asarray(self.mechanism(data, count))
        except Exception as error:
            raise ConfigurationError(f"the mechanism fails on the {which} input: {_told(error)}") from error


def one_by_one(release: Callable[[Any], Any]) -> Callable[[Any, int], NDArray[Any]]:
    """A mechanism of a function that gives one outcome a call: a number, or numbers of one length."""

    def many(data: Any, count: int) -> NDArray[Any]:
        return np.array([release(data) for _ in range(count)])

    return many


def _named(name: str, function: Function) -> Function:
    def safe(rows: NDArray[Any]) -> NDArray[Any]:
        try:
            values = np.asarray(function(rows))
        except Exception as error:
            raise ConfigurationError(f"the statistic {name!r} fails: {_told(error)}") from error
        if values.shape != (len(rows),) or values.dtype.kind not in "buif" or not np.isfinite(values).all():
            raise ConfigurationError(
                f"the statistic {name!r} gives {values.dtype} of shape {values.shape} for {len(rows)} outcomes;"
                " give one finite number an outcome"
            )
        return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)

    return safe


def _told(error: Exception) -> str:
    """The error and the innermost line that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"{type(error).__name__}: {printable(str(error))}{where}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
