"""The joint law of all answers of a holdout, from its plan and the sums of its questions: no curator's code, no bound.

An instance draws X once and Y_i in each turn. Turn i is "close" where |S_i| + Y_i < r T + X. Given X = x the turns are
independent, so the chance that turns a, a + 1, ... are close and turn b is not is

    sum over x of P(X = x) P(Y < rT + x - |S_a|) ... P(Y < rT + x - |S_(b-1)|) P(Y >= rT + x - |S_b|).

Each next instance starts anew. What is told beside which turns end instances is their counts, with noise of its own
that depends on nothing else: the losses add up.

The sum runs over all x up to `DECAYS` scales beyond the threshold and every |S_i|. Further out each step takes off a
factor of exp(-1 / scale) at least, and on the way from the last |S_i| no other factor grows but by 2 for a turn: less
than 10^-24 of any chance lies outside.
"""

import decimal
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.kinds.exact import DIGITS, NoisyNumbers, noise_in_cells
from expril.audit.kinds.kind_audit import Cells, Enumerated, Handed, Law
from protocol.kinds.holdout import PlannedHoldout
from protocol.noise import DiscreteLaplace

DECAYS = 60
NUMBERS = 4
"""Numbers that a turn releases: its instance, whether that ended, errors and correct records."""
Ends = tuple[int, ...]
"""The turns that ended an instance, in order."""


@dataclass(frozen=True)
class HoldoutLaw(Law):
    """The law of the numbers of all turns, on one set of records. What comes after the last instance is zeros."""

    planned: PlannedHoldout
    numerators: tuple[int, ...]  # p of each turn
    counts: tuple[tuple[int, int], ...]  # (errors, correct) of each turn
    instance: Fraction  # what an instance is charged

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """|S| of each turn, in steps of 1 / r record."""
        r = self.planned.resolution
        pairs = zip(self.numerators, self.counts, strict=True)
        return tuple(abs((r - p) * correct - p * errors) for p, (errors, correct) in pairs)

    @cached_property
    def chances(self) -> dict[Ends, float]:
        """The chance of each way to end instances, in floats."""
        table = _segments(self.planned, self.sums)
        return {
            ends: math.prod(table[part] for part in _parts(ends, self.planned, len(self.sums))) for ends in self.ways
        }

    @cached_property
    def definition(self) -> dict[Ends, Decimal]:
        """The same from the law's definition, in 60 decimal digits."""
        with decimal.localcontext(DIGITS):
            table = _exact_segments(self.planned, self.sums)
            return {
                ends: math.prod((table[part] for part in _parts(ends, self.planned, len(self.sums))), start=Decimal(1))
                for ends in self.ways
            }

    @property
    def ways(self) -> list[Ends]:
        """All ways to end at most B instances."""
        return _ways(len(self.sums), self.planned.answers)

    def charged(self, ends: Ends) -> Fraction:
        """The charge of an output: of each instance that began."""
        begun = 1 + sum(end + 1 < len(self.sums) for end in ends)
        return self.instance * min(self.planned.answers, begun)

    @property
    def charges(self) -> tuple[Fraction, ...]:  # type: ignore[override]
        """See `Law`."""
        return tuple(sorted({self.charged(ends) for ends in self.ways}))

    def loss(self, other: "HoldoutLaw", charge: Fraction | None = None) -> Enumerated:
        """See `Law`. Counts that end an instance can lose what they lose in either direction."""
        ways = [ends for ends in self.ways if charge is None or self.charged(ends) == charge]
        of_counts = [self.noisy_counts(turn).loss(other.noisy_counts(turn)) for turn in range(len(self.sums))]
        defined, tabled = [0.0, 0.0], [0.0, 0.0]
        for ends in ways:
            counts = Enumerated.alike(0.0, 0.0)
            for turn in ends:
                counts = counts.plus(of_counts[turn])
            with decimal.localcontext(DIGITS):
                exact = float((self.definition[ends] / other.definition[ends]).ln())
            ratio = math.log(self.chances[ends]) - math.log(other.chances[ends])
            for total, moved, more in ((defined, exact, counts.defined), (tabled, ratio, counts.tabled)):
                total[0] = max(total[0], moved + (more or (0.0, 0.0))[0])
                total[1] = max(total[1], -moved + (more or (0.0, 0.0))[1])
        return Enumerated((defined[0], defined[1]), (tabled[0], tabled[1]), sum(loss.beyond for loss in of_counts))

    @property
    def calls(self) -> tuple[Handed, ...]:
        """See `Law`. Where nothing is added, a turn whose sum reaches the threshold ends its instance."""
        planned, calls, ended = self.planned, [], 0
        at = np.array([planned.resolution * planned.threshold])
        begins = True
        for turn, level in enumerate(self.sums):
            if ended == planned.answers:
                break
            calls += [(at, planned.threshold_law)] if begins else []
            calls.append((np.array([level]), planned.comparison_law))
            begins = level >= at[0]
            if begins:
                calls.append((np.array(self.counts[turn]), planned.count_law))
                ended += 1
        return tuple(calls)

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`: which turns end instances; then the noise in each count of the first one, and its difference."""
        ways = self.ways
        places: dict[Ends | None, int] = {ends: place for place, ends in enumerate(ways)}
        turns = rows.astype(np.int64).reshape(len(rows), -1, NUMBERS)
        every = [self._ends(row) for row in turns.tolist()]
        chances = [*(self.chances[ends] for ends in ways), 0.0]
        yield Cells(
            "which turns end an instance", np.array([places.get(ends, len(ways)) for ends in every]), np.array(chances)
        )
        first = np.array([ends[0] if ends else -1 for ends in every])
        there = 1.0 - self.chances[()]
        counts = turns[np.arange(len(turns)), np.maximum(first, 0), 2:]
        noise = (counts - np.array(self.counts)[np.maximum(first, 0)]).astype(np.float64)
        law = self.planned.count_law
        for name, values in (("errors", noise[:, 0]), ("correct records", noise[:, 1])):
            inside, shares = noise_in_cells(values, law)
            about = f"the noise in the first {name}"
            yield Cells(about, np.where(first < 0, len(shares), inside), np.array([*(there * shares), 1.0 - there]))
        same = np.where(first < 0, 2, noise[:, 0] == noise[:, 1])
        equal = _equal(law)
        yield Cells("equal noise in both", same, np.array([there * (1.0 - equal), there * equal, 1.0 - there]))

    def noisy_counts(self, turn: int) -> NoisyNumbers:
        """The law of the counts that a turn tells if it ends an instance."""
        return NoisyNumbers.of(np.array(self.counts[turn]), self.planned.count_law)

    def _ends(self, row: Sequence[Sequence[int]]) -> Ends | None:
        """The turns of one drawn row that ended instances; None if no such row is allowed."""
        ends: list[int] = []
        for turn, (instance, ended, *counts) in enumerate(row):
            if len(ends) == self.planned.answers:
                if any((instance, ended, *counts)):
                    return None
                continue
            if instance != len(ends) + 1 or (not ended and any(counts)):
                return None
            ends += [turn] if ended else []
        return tuple(ends)


def _ways(turns: int, most: int) -> list[Ends]:
    """All increasing runs of at most so many turns."""
    ways: list[Ends] = [()]
    for turn in range(turns):
        ways += [(*ends, turn) for ends in ways if len(ends) < most]
    return ways


def _parts(ends: Ends, planned: PlannedHoldout, turns: int) -> list[tuple[int, int]]:
    """The instances as (first turn, turn that ended it, or the number of turns)."""
    starts = [0, *(end + 1 for end in ends)]
    parts = list(zip(starts, ends, strict=False))
    if len(ends) < planned.answers and starts[-1] < turns:
        parts.append((starts[-1], turns))
    return parts


def _places(planned: PlannedHoldout, sums: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest r T + x that matter."""
    scales = (planned.threshold_scale.fraction, planned.comparison_scale.fraction)
    reach, at = math.ceil(DECAYS * max(scales)), planned.resolution * planned.threshold
    return min(*sums, at) - reach, max(*sums, at) + reach


def _segments(planned: PlannedHoldout, sums: Sequence[int]) -> dict[tuple[int, int], float]:
    """Chances in floats: (start, end) -> that the turns from `start` on are close until `end`, which is not.

    `end` may be the number of turns: then all are close.
    """
    low, high = _places(planned, sums)
    level = np.arange(low, high + 1)
    here = _pmf(planned.threshold_scale.fraction, level - planned.resolution * planned.threshold)
    above = [_at_least(planned.comparison_scale.fraction, level - value) for value in sums]
    below = [_at_least(planned.comparison_scale.fraction, 1 + value - level) for value in sums]
    table: dict[tuple[int, int], float] = {}
    for start in range(len(sums) if planned.answers > 1 else 1):
        joint = here
        for turn in range(start, len(sums)):
            table[start, turn] = float((joint * above[turn]).sum())
            joint = joint * below[turn]
        table[start, len(sums)] = float(joint.sum())
    return table


def _pmf(scale: Fraction, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(X = k)."""
    chances: NDArray[np.float64] = math.tanh(0.5 / float(scale)) * np.exp(-np.abs(k) / float(scale))
    return chances


def _at_least(scale: Fraction, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(X >= k): of `below` P(X < k) = P(X >= 1 - k), so that nothing cancels."""
    p = math.exp(-1.0 / float(scale))
    return np.where(
        k > 0,
        np.exp(-np.maximum(k, 0) / float(scale)) / (1 + p),
        1 - np.exp((np.minimum(k, 0) - 1) / float(scale)) / (1 + p),
    )


def _exact_segments(planned: PlannedHoldout, sums: Sequence[int]) -> dict[tuple[int, int], Decimal]:
    """The table of `_segments` in decimals."""
    low, high = _places(planned, sums)
    centre = planned.resolution * planned.threshold
    thresholds = _Powers(planned.threshold_scale.fraction, max(high - centre, centre - low))
    comparisons = _Powers(planned.comparison_scale.fraction, max(high - min(sums), max(sums) - low) + 1)
    distinct = sorted(set(sums))
    above = {value: [comparisons.at_least(level - value) for level in range(low, high + 1)] for value in distinct}
    below = {value: [comparisons.at_least(1 + value - level) for level in range(low, high + 1)] for value in distinct}
    here = [thresholds.powers[abs(level - centre)] * thresholds.peak for level in range(low, high + 1)]
    table: dict[tuple[int, int], Decimal] = {}
    for start in range(len(sums) if planned.answers > 1 else 1):
        joint = here
        for turn, value in enumerate(sums[start:], start):
            table[start, turn] = sum((p * q for p, q in zip(joint, above[value], strict=True)), Decimal(0))
            joint = [p * q for p, q in zip(joint, below[value], strict=True)]
        table[start, len(sums)] = sum(joint, Decimal(0))
    return table


class _Powers:
    """Powers of q = exp(-1 / scale), from which all chances of discrete Laplace noise follow."""

    def __init__(self, scale: Fraction, most: int) -> None:
        decay = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        self.powers = [Decimal(1)]
        for _ in range(most + 1):
            self.powers.append(self.powers[-1] * decay)
        self.peak = (1 - decay) / (1 + decay)
        self._of_one_side = 1 / (1 + decay)

    def at_least(self, k: int) -> Decimal:
        """P(X >= k)."""
        far = self.powers[k if k > 0 else 1 - k] * self._of_one_side
        return far if k > 0 else 1 - far


def _equal(law: DiscreteLaplace) -> float:
    """The chance that two independent draws are equal: the sum of squares, (1 - p) (1 + p^2) / (1 + p)^3."""
    p = math.exp(-1.0 / float(law.scale))
    return (1 - p) * (1 + p * p) / (1 + p) ** 3
