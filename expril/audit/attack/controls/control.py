"""What a control is, and the game against one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.game import Function, breaks, play
from expril.audit.results import Attack, ControlResult

Data = tuple[int, ...]
Drawn = Callable[[Data, int, np.random.Generator], NDArray[Any]]
"""(exact answers on the records, n, generator) -> (n,) or (n, k) outcomes."""


@dataclass(frozen=True)
class Control:
    """A mechanism with a claim; noise comes from numpy, as nothing is protected.

    Attributes:
        mechanism: draws outcomes.
        first: exact answers on one set of records.
        second: those on a neighbouring set.
        neighbours: the two, in words.
        claimed: epsilon, as text.
        truth: largest loss between these two sets, as text: "infinite", or a number; of other sets it may be larger.
        fault: what is wrong, one sentence; "" for a correct mechanism.
        statistics: what the adversary knows to compute from an outcome.
    """

    mechanism: Drawn
    first: Data
    second: Data
    neighbours: str
    claimed: str
    truth: str
    fault: str = ""
    statistics: Mapping[str, Function] = field(default_factory=dict)

    def attack(self, *, draws: int, error_rate: float, seed: int | None) -> Attack:
        """The distinguishing game, with noise from a seed, or from the operating system's entropy."""
        generator = np.random.default_rng(seed)
        return play(
            lambda count: self.mechanism(self.first, count, generator),
            lambda count: self.mechanism(self.second, count, generator),
            claimed=self.claimed,
            draws=draws,
            error_rate=error_rate,
            neighbours=self.neighbours,
            statistics=self.statistics,
        )


def result_of(name: str, control: Control, *, draws: int, error_rate: float, seed: int | None) -> ControlResult:
    """What the game found; `caught` where it proves more than the claim."""
    attack = control.attack(draws=draws, error_rate=error_rate, seed=seed)
    return ControlResult(name=name, fault=control.fault, truth=control.truth, attack=attack, caught=breaks(attack))
