"""What is compared: intervals with fixed truths, and tests of true nulls, in many repeats of one setting."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lab.intervals.answers import Draw, Federation, draw_records
from lab.intervals.design import Condition
from learner_node.analyses.part import THESE, Estimand, Estimate, Result
from protocol.schema import Schema

WHOLE_LINE = (-math.inf, math.inf)
COARSE_RECORDS = 3.0
"""Where fewer records than this are uncertain, a law on whole numbers is coarse: its atoms are larger than 10 %."""


class Interval(NamedTuple):
    """An interval and what it should cover."""

    quantity: str
    low: float
    high: float
    truth: float
    # of the parameter; an interval of less than half of it shall not be needlessly wide
    range: tuple[float, float] = WHOLE_LINE
    coarse: bool = False  # whether its law has large atoms

    @property
    def covers(self) -> bool:
        """Whether the truth is inside."""
        slack = 1e-9 * max(1.0, abs(self.truth))
        return self.low - slack <= self.truth <= self.high + slack

    @property
    def narrow(self) -> bool:
        """Whether it says something: less than half of the range, or less than the line."""
        width, room = self.high - self.low, self.range[1] - self.range[0]
        return not self.coarse and (width < room / 2.0 if math.isfinite(room) else math.isfinite(width))


class TrueNull(NamedTuple):
    """The p-value of a null that is true; None where the test says nothing."""

    quantity: str
    p: float | None


Compared = Interval | TrueNull
Repeat = Callable[[Condition, np.random.Generator], Iterable[Compared]]
"""(setting, generator) -> what one repeat compares, each quantity once."""


class Case(NamedTuple):
    """One analysis of one population."""

    repeat: Repeat
    full: int  # repeats in the full study
    short: int = 10  # in the short one
    # whether a setting has it: some need sites of their own, or two of them
    applies: Callable[[Condition], bool] = lambda _condition: True


def of_estimate(
    quantity: str, estimate: Estimate, truth: float, room: tuple[float, float] = WHOLE_LINE, *, coarse: bool = False
) -> Interval:
    """The interval of an estimate."""
    return Interval(f"{quantity}, {estimate.of}", estimate.low, estimate.high, truth, room, coarse)


@dataclass(frozen=True)
class PartCase:
    """A repeat of a part of the product: records are drawn, counted and answered, and the part reads the answers."""

    part: Any  # a `Part`
    schema: Schema
    draw: Draw
    # a result -> (quantity, estimate) of all its estimates
    estimates: Callable[[Any], Iterable[tuple[str, Estimate]]]
    # quantity -> its value in the population
    truths: Mapping[str, float]
    # quantity -> the ends of what it may be; the whole line by default
    ranges: Callable[[str, Condition], tuple[float, float]] = lambda _quantity, _condition: WHOLE_LINE
    # a result -> (quantity, p-value) of all tests whose null is true
    nulls: Callable[[Any], Iterable[tuple[str, float | None]]] = lambda _result: ()
    # (quantity, estimand, setting) -> whether its law is coarse
    coarse: Callable[[str, Estimand, Condition], bool] = lambda _quantity, _of, _condition: False

    def __call__(self, condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
        """One repeat."""
        sites = [draw_records(self.draw, condition, rng) for _ in range(condition.sites)]
        federation = Federation.of(self.part, self.schema, condition, sites)
        result: Result = self.part.read(federation.answers(rng))
        exact: dict[str, Estimate] | None = None
        for quantity, estimate in self.estimates(result):
            if estimate.of == THESE:
                if exact is None:
                    read = self.part.read(federation.answers(None))
                    exact = {name: value for name, value in self.estimates(read) if value.of == THESE}
                truth = exact[quantity].value if quantity in exact else None
            else:
                truth = self.truths.get(quantity)
            if truth is not None:
                coarse = self.coarse(quantity, estimate.of, condition)
                yield of_estimate(quantity, estimate, truth, self.ranges(quantity, condition), coarse=coarse)
        for quantity, p in self.nulls(result):
            yield TrueNull(quantity, p)
