"""Worst-case loss where noise is drawn in shares and somebody knows some of them, by enumeration.

A share of h is the difference of two negative binomials of shape 1/h (`protocol.noise_shares`). Shapes of independent
shares add up, so s unknown shares of h have shape s/h together. Below shape 1 the noise has a peak at 0 that tells.
"""

import decimal
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import mul

import numpy as np
from numpy.typing import NDArray

from curator_node.mechanisms import Stamp
from expril.audit.kinds.exact import (
    AGREEMENT,
    DECAYS,
    DIGITS,
    LEAST_LOG,
    MOST_PLACES,
    Enumerated,
    Loss,
    Table,
    loss_of_shift,
)
from expril.audit.kinds.invented import Neighbours
from expril.audit.kinds.path import NoNoise, Path
from expril.audit.results import ColluderLoss
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace
from protocol.noise_shares import LaplaceShares

AT = Fraction(30)
"""Scale of the noise in the table of colluders; the claim is its inverse."""
SITES = (3, 5, 10, 50)
"""Of the table."""


def weights(shape: Fraction) -> Iterator[Fraction]:
    """Exact c_k = r (r + 1) ... (r + k - 1) / k!, k = 0, 1, ...; a negative binomial has P(k) = (1 - q)^r c_k q^k."""
    weight, k = Fraction(1), 0
    while True:
        yield weight
        weight *= (shape + k) / (k + 1)
        k += 1


def added(first: Sequence[Fraction], second: Sequence[Fraction]) -> list[Fraction]:
    """Exact weights of the sum of two independent numbers, as far as both are given."""
    return [sum(map(mul, first[: k + 1], second[k::-1]), Fraction(0)) for k in range(min(len(first), len(second)))]


@lru_cache(maxsize=64)
def shares_table(scale: Fraction, shape: Fraction, shift: int) -> Table:
    """The law of noise of a shape, as far as a shift needs, from the product's own `log_pmfs`.

    Raises:
        ConfigurationError: that would be too many places, or none of them is a float.
    """
    reach, law = _reach(scale, shift), LaplaceShares(scale, shape)
    half = np.exp(law.log_pmfs(np.arange(reach + 1)))
    return Table(-reach, np.concatenate([half[:0:-1], half]), law.tail(reach + 1))


@lru_cache(maxsize=256)
def loss_of_shares(scale: Fraction, shape: Fraction, shift: int) -> Enumerated:
    """Loss of a whole number with noise of that shape, between two inputs that differ by `shift`.

    The table finds the place where the loss is largest; there, and around 0, it is computed again from the definition
    in 60 decimal digits. Above shape 1 the largest loss is approached far out: the table's end is a little below it.

    Raises:
        ConfigurationError: too many places, as `shares_table`.
    """
    span = abs(shift)
    if not span:
        return Enumerated(0.0, 0.0)
    table = shares_table(scale, shape, span)
    found: Loss = loss_of_shift(table, span)
    ratios = np.log(table.chances[:-span]) - np.log(table.chances[span:])
    widest = int(np.abs(ratios).argmax()) + table.lowest
    places = {*range(-span - 2, span + 3), widest, -widest - span}
    defined = max(abs(_log_ratio(scale, shape, place, place + span)) for place in places)
    return Enumerated(defined, found.worst, found.beyond)


@dataclass
class KnownShares(NoNoise):
    """Gives shares that are known, each number another: whether they are what is added to a sum can then be seen."""

    given: list[NDArray[np.int64]] = field(default_factory=list)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """See `NoiseSource`."""
        zeros = super().laplace_shares(size, law, parts, stamp)
        self.given.append(zeros + np.arange(size) * 1009 + 10 ** len(self.given))
        return self.given[-1]


def enumerate_sum(path: Path, pair: Neighbours) -> Enumerated:
    """The worst-case loss between two sets of records where several curators' shares of noise are added to one sum.

    Only where each number that is told is an exact number plus one share of each curator that drew any.
    """
    told = []
    for units in pair.both:
        exact, noise = path.exact(units)
        laws = [law for _, law in noise.drawn if isinstance(law, LaplaceShares)]
        if len({law.scale for law in laws}) != 1 or len(laws) < len(noise.drawn):
            return Enumerated(None, why_not="it draws more than shares of one noise")
        known = KnownShares()
        moved = path.seen(path.hold(units, path.example), known)[0].told
        if any(each.size != exact.size for each in known.given) or not np.array_equal(
            (moved - exact).ravel(), np.sum(known.given, axis=0)
        ):
            return Enumerated(None, why_not="what it tells is more than a sum of numbers and shares of noise")
        told.append((exact.ravel().astype(np.int64), laws))
    (first, one), (second, two) = told
    if first.shape != second.shape or one != two:
        return Enumerated(None, why_not="its noise depends on the records")
    shape = sum((law.shape for law in one), Fraction(0))
    return loss_of_sums(first, second, [one[0].scale] * first.size, shape)


def loss_of_sums(
    first: NDArray[np.int64], second: NDArray[np.int64], scales: Sequence[Fraction], shape: Fraction
) -> Enumerated:
    """Loss between two vectors of whole numbers, (k,) each, with independent noise of that shape; raises as above."""
    defined, by_table, beyond = 0.0, 0.0, 0.0
    for x, y, scale in zip(first.tolist(), second.tolist(), scales, strict=True):
        if x != y:
            one = loss_of_shares(scale, shape, y - x)
            defined, by_table = defined + (one.loss or 0.0), by_table + (one.by_table or 0.0)
            beyond += one.beyond
    return Enumerated(defined, by_table, beyond)


def colluder_losses(scale: Fraction = AT, sites: Sequence[int] = SITES) -> tuple[ColluderLoss, ...]:
    """Loss in claims against the number of colluders: shares that assume one colluder, and shares that assume none."""
    found = []
    for count in sites:
        for assumed in (0, 1):
            parts = count - assumed
            for colluders in sorted({1, 2, count // 2, count - 1}):
                shape = Fraction(count - colluders, parts)
                one = loss_of_shares(scale, shape, 1)
                if one.loss is None or one.by_table is None or abs(one.loss - one.by_table) > AGREEMENT:
                    raise ConfigurationError(f"two ways to enumerate shares of {parts} do not agree")
                found.append(
                    ColluderLoss(
                        sites=count,
                        assumed=assumed,
                        colluders=colluders,
                        unknown=str(shape),
                        claimed=str(1 / scale),
                        loss=one.loss,
                    )
                )
    return tuple(found)


@lru_cache(maxsize=64)
def _decimal_chances(scale: Fraction, shape: Fraction, count: int) -> tuple[Decimal, ...]:
    """(1 - q)^-r P(k) of one negative binomial."""
    with decimal.localcontext(DIGITS):
        decay = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        part = Decimal(shape.numerator) / Decimal(shape.denominator)
        chances = [Decimal(1)]
        for k in range(count - 1):
            chances.append(chances[-1] * decay * (part + k) / (k + 1))
        return tuple(chances)


@lru_cache(maxsize=4096)
def _log_ratio(scale: Fraction, shape: Fraction, one: int, two: int) -> float:
    """Logarithm of P(one) / P(two)."""
    chances = _decimal_chances(scale, shape, 3 * _reach(scale, abs(one - two)))
    with decimal.localcontext(DIGITS):
        first, second = (sum(map(mul, chances, chances[abs(place) :])) for place in (one, two))
        return float((Decimal(first) / Decimal(second)).ln())


def _reach(scale: Fraction, shift: int) -> int:
    reach = abs(shift) + 2 + math.ceil(DECAYS * scale)
    if reach > MOST_PLACES // 100:
        raise ConfigurationError(f"shares of noise of scale {scale} are too wide to be enumerated; take one below 200")
    if 2 * reach / scale > LEAST_LOG:
        raise ConfigurationError(f"a shift by {shift} at scale {scale} loses too much to be enumerated; ask for less")
    return reach
