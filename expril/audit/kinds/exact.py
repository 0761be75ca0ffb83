"""Worst-case privacy loss by enumeration: no sampling, and no formula for the loss.

The losses of independent numbers of a vector add up: the largest log ratio of two joint probabilities is the sum of
each number's largest. The enumerated law is that of the noise library: discrete Laplace of the smallest float64 scale
that is not below the stated one. Of a choice by whole scores, all possible choices are enumerated.

Noise may be drawn in h shares, of which colluders know some. A share is the difference of two negative binomials of
shape 1/h (`protocol.noise_shares`). The shapes of independent shares add up, so s unknown shares have shape s/h
together. Below shape 1 the noise has a revealing peak at 0.
"""

import decimal
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import accumulate, repeat
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from curator_node.mechanisms import Stamp, float_not_below
from expril.audit.kinds.answer_path import AnswerPath, NoNoise, Numbers
from expril.audit.kinds.invented import Neighbours
from expril.audit.results import ColluderLoss
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares
from protocol.plans import Plan

AGREEMENT = 1e-9
"""An exact loss equals the claim if it differs by no more than this."""
ROUNDING = 1e-12
"""Relative excess of an exact loss over the claim that is allowed, since it is computed in floats."""
DECAYS = 80
"""Scales that a table reaches beyond the shift; less than 10^-34 lies outside."""
MOST_PLACES = 2_000_000
LEAST_LOG = 700
"""exp(-700) is still a float of full precision."""
DIGITS = decimal.Context(prec=60, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)


@dataclass(frozen=True)
class Table:
    """Probabilities of whole numbers."""

    lowest: int  # the first of them
    chances: NDArray[np.float64]  # (n,) float64, of `lowest`, `lowest` + 1, and so on
    beyond: float  # at most this much lies outside of the table

    def plus(self, other: "Table") -> "Table":
        """Return the law of the sum of independent numbers. Only positive products are added, so no digits are lost."""
        chances = np.convolve(self.chances, other.chances)
        return Table(self.lowest + other.lowest, chances, self.beyond + other.beyond)

    def minus(self, other: "Table") -> "Table":
        """Return the law of the difference of two independent numbers."""
        highest = other.lowest + len(other.chances) - 1
        return self.plus(Table(-highest, other.chances[::-1], other.beyond))


@dataclass(frozen=True)
class Loss:
    """The largest loss over the outputs that were enumerated, in each direction."""

    first: float  # largest ln of P(output | first) / P(output | second)
    second: float  # the other way round
    beyond: float  # chance, under either, of an output that was not enumerated, at most

    @property
    def worst(self) -> float:
        """The larger loss of both directions."""
        return max(self.first, self.second)


def loss_of_shift(table: Table, shift: int) -> Loss:
    """Return the loss of a number with noise of this law, between two inputs that differ by `shift`.

    Raises:
        ConfigurationError: the table is shorter than the shift.
    """
    span = abs(shift)
    if span >= len(table.chances):
        raise ConfigurationError(f"a table of {len(table.chances)} places cannot tell of a shift by {shift}; widen it")
    near, far = table.chances[span:], table.chances[: len(table.chances) - span]
    outside = table.beyond + math.fsum(table.chances[:span]) + math.fsum(table.chances[len(table.chances) - span :])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(near) - np.log(far)
    ratios = ratios[(near > 0) | (far > 0)]
    up, down = float(ratios.max(initial=0.0)), float((-ratios).max(initial=0.0))
    return Loss(up, down, outside) if shift >= 0 else Loss(down, up, outside)


@lru_cache(maxsize=64)
def laplace_table(scale: Fraction, shift: int) -> Table:
    """Tabulate the discrete Laplace law of a scale, as far as a shift needs it, by the product's own `log_pmf`.

    Raises:
        ConfigurationError: the table would be too long.
    """
    reach = _reach(scale, shift)
    law = DiscreteLaplace(scale)
    half = np.exp([law.log_pmf(k) for k in range(reach + 1)])
    return Table(-reach, np.concatenate([half[:0:-1], half]), law.tail(reach + 1))


@lru_cache(maxsize=64)
def loss_by_definition(scale: Fraction, shift: int) -> float:
    """Return the loss by the definition alone, exp(-|k| / scale) over its sum, in 60 decimal digits."""
    span = abs(shift)
    reach = _reach(scale, shift) + span
    with decimal.localcontext(DIGITS):
        decay = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        weights = list(accumulate(repeat(decay, reach), mul, initial=Decimal(1)))
        total = weights[0] + 2 * sum(weights[1:])
        # Beyond |shift| the ratio stays as it is: more places tell nothing new.
        places = range(-span - 2, span + 3)
        near = [weights[abs(k)] / total for k in places]
        far = [weights[abs(k - shift)] / total for k in places]
        return float(max(abs((p / q).ln()) for p, q in zip(near, far, strict=True)))


def _reach(scale: Fraction, shift: int) -> int:
    """Return how far a table goes: as far as matters, but not to where a float is 0."""
    reach = abs(shift) + 2 + math.ceil(DECAYS * scale)
    if reach > MOST_PLACES:
        raise ConfigurationError(f"noise of scale {scale} is too wide to be enumerated; take one below 10^4")
    if reach / scale > LEAST_LOG:
        raise ConfigurationError(f"a shift by {shift} at scale {scale} loses too much to be enumerated; ask for less")
    return reach


@dataclass(frozen=True)
class Enumerated:
    """The worst-case loss of two given sets of records; `loss` is None where it cannot be enumerated."""

    # pure epsilon, of outputs of all that the question releases; from the definition of the noise, in
    # decimals
    loss: float | None
    by_table: float | None = None  # the same, from tables of the product's own law in floats
    beyond: float = 0.0  # chance of an output that the tables do not hold, at most
    why_not: str = ""  # why there is none, in words; "" where there is one

    def passes(self, claimed: Fraction) -> bool:
        """Whether the loss exceeds a claim by more than rounding, or the two computations disagree."""
        if self.loss is None or self.by_table is None:
            return False
        above = Fraction(self.loss) > claimed * (1 + Fraction(ROUNDING))
        return above or abs(self.loss - self.by_table) > AGREEMENT


def enumerate_loss(path: AnswerPath, pair: Neighbours) -> Enumerated:
    """Compute the worst-case loss between two sets of records, from what the answerer asks of its noise source.

    This needs releases in which each number is one exact number with noise of its own, in one turn and without state.
    For sums with several curators' noise see `enumerate_sum`.
    """
    kind = path.answerer.kind
    if kind.looks_back or kind.state_bytes or len(Plan.of([path.planned]).places) > 1:
        return Enumerated(None, why_not="what it releases depends on what it drew before")
    answers = [path.exact(units) for units in pair.sets]
    for numbers, noise in answers:
        if why_not := _not_verbatim(numbers, noise):
            return Enumerated(None, why_not=why_not)
    (first, fewer), (second, more) = answers
    if fewer.chosen or more.chosen:
        return _choice(fewer, more)
    laws = _laws(fewer)
    if first.shape != second.shape or laws != _laws(more):
        return Enumerated(None, why_not="its noise depends on the records")
    vectors = first.ravel().astype(np.int64), second.ravel().astype(np.int64)
    if len(fewer.calls) > 1:
        # What is drawn later may look at what was released before: both sets of records released the same.
        after = path.exact(pair.sets[1], [exact for exact, _ in fewer.calls])[1]
        vectors = vectors[0], np.concatenate([exact.ravel() for exact, _ in after.calls])
    return loss_of_vectors(*vectors, laws)


def _choice(fewer: NoNoise, more: NoNoise) -> Enumerated:
    """Return the loss of one choice of which only the index is released."""
    if len(fewer.chosen) != 1 or len(more.chosen) != 1:
        return Enumerated(None, why_not="its later choices may hang on earlier ones")
    ((first, law),), ((second, other),) = fewer.chosen, more.chosen
    if len(first) != len(second) or law != other:
        return Enumerated(None, why_not="what it chooses from depends on the records")
    return Enumerated(*choice_loss(first, second, law))


def loss_of_vectors(first: NDArray[np.int64], second: NDArray[np.int64], laws: Sequence[Fraction]) -> Enumerated:
    """Return the loss between two (k,) vectors of whole numbers with independent discrete Laplace noise.

    The losses are summed over the numbers, in each direction. The scales are those that the noise library receives.
    """
    sums, defined, beyond = [0.0, 0.0], 0.0, 0.0
    for x, y, scale in zip(first.tolist(), second.tolist(), laws, strict=True):
        if x == y:
            continue
        float_scale = Fraction(float_not_below(scale))
        loss = loss_of_shift(laplace_table(float_scale, y - x), y - x)
        sums[0] += loss.first
        sums[1] += loss.second
        beyond += loss.beyond
        defined += loss_by_definition(float_scale, y - x)
    return Enumerated(defined, max(sums), beyond)


def _laws(noise: NoNoise) -> list[Fraction]:
    """Return the scale of the noise in each number."""
    return [law.scale for exact, law in noise.calls if law is not None for _ in range(exact.size)]


def _not_verbatim(numbers: Numbers, noise: NoNoise) -> str:
    """Say why a release is not just numbers with noise; "" if it is."""
    if any(law is None for _, law in noise.calls):
        return "its noise is continuous"
    if noise.own_sampler:
        return "its kind samples a law of its own"
    if any(isinstance(law, LaplaceShares) for _, law in noise.calls):
        return "it draws shares of a noise, which is whole in a sum only"
    if noise.chosen and noise.calls:
        return "it releases both choices and noisy numbers"
    exact = [numbers.ravel() for numbers, _ in noise.calls] + [np.array([int(s.argmax())]) for s, _ in noise.chosen]
    expected = np.concatenate(exact) if exact else np.empty(0, np.int64)
    if not np.array_equal(numbers.ravel(), expected):
        return "it releases more than numbers with noise"
    return ""


CHOICE_DIGITS = decimal.Context(prec=120, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
MOST_CHOICES = 150
"""Most choices k: `chances_by_definition` sums alternating terms up to 2^k, which leaves 70 digits."""
Scores = NDArray[np.int64]


class ChoiceLoss(NamedTuple):
    """The largest loss over all choices, computed in two ways."""

    defined: float  # from the definition, in decimals
    by_table: float  # from the product's own chances, in floats


def hinted_loss(first: Scores, second: Scores, law: NoisyMax) -> float:
    """Compute, in floats, the largest loss over all choices for two score vectors (k,); infinite if k differs."""
    if len(first) != len(second):
        return math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(law.chances(first)) - np.log(law.chances(second))
    return float(np.nan_to_num(np.abs(ratios), nan=0.0, posinf=math.inf).max())


def choice_loss(first: Scores, second: Scores, law: NoisyMax) -> ChoiceLoss:
    """Compute the largest loss in two ways, at the scale that the noise library receives.

    Raises:
        ConfigurationError: there are too many choices to be enumerated.
    """
    if max(len(first), len(second)) > MOST_CHOICES:
        raise ConfigurationError(f"more than {MOST_CHOICES} choices cannot be enumerated; offer fewer")
    float_scale = Fraction(float_not_below(law.scale))
    pairs = zip(chances_by_definition(first, float_scale), chances_by_definition(second, float_scale), strict=True)
    with decimal.localcontext(CHOICE_DIGITS):
        defined = float(max(abs((p / q).ln()) for p, q in pairs))
    return ChoiceLoss(defined, hinted_loss(first, second, NoisyMax(float_scale)))


def chances_by_definition(scores: Scores, scale: Fraction) -> list[Decimal]:
    """Compute each index's probability from the noise's law: index i wins if its noisy score t is the largest.

    The noise is exponential. Let w_i = exp((score i - largest score) / scale) and z = exp(-(t - largest score) /
    scale), which is uniform on [0, w_i]. The other scores stay below t with probability prod (1 - w_j z). The product
    is multiplied out and integrated term by term.
    """
    with decimal.localcontext(CHOICE_DIGITS):
        top = int(scores.max())
        weights = [(Decimal((int(s) - top) * scale.denominator) / Decimal(scale.numerator)).exp() for s in scores]
        chances = []
        for place, weight in enumerate(weights):
            other_weights = weights[:place] + weights[place + 1 :]
            terms = reduce(_times, other_weights, [Decimal(1)])
            chances.append(weight * sum((term / (power + 1) for power, term in enumerate(terms)), Decimal(0)))
        return chances


def _times(terms: list[Decimal], weight: Decimal) -> list[Decimal]:
    """Multiply a polynomial in z by (1 - weight z)."""
    shifted = [Decimal(0), *(-weight * term for term in terms)]
    return [term + shift for term, shift in zip([*terms, Decimal(0)], shifted, strict=True)]


AT = Fraction(30)
"""Scale of the noise in the table of colluders; the claim is its inverse."""
SITES = (3, 5, 10, 50)
"""Numbers of sites in the table of colluders."""


def weights(shape: Fraction) -> Iterator[Fraction]:
    """Yield exact c_k = r (r + 1) ... (r + k - 1) / k! of a negative binomial of shape r: P(k) = (1 - q)^r c_k q^k."""
    weight, k = Fraction(1), 0
    while True:
        yield weight
        weight *= (shape + k) / (k + 1)
        k += 1


def added(first: Sequence[Fraction], second: Sequence[Fraction]) -> list[Fraction]:
    """Return the exact weights of the sum of two independent numbers, as far as both are given."""
    return [sum(map(mul, first[: k + 1], second[k::-1]), Fraction(0)) for k in range(min(len(first), len(second)))]


@lru_cache(maxsize=64)
def shares_table(scale: Fraction, shape: Fraction, shift: int) -> Table:
    """Tabulate the law of noise of a shape, as far as a shift needs it, by the product's own `log_pmfs`.

    Raises:
        ConfigurationError: the table would be too long, or none of its probabilities is a positive float.
    """
    reach, law = _reach_of_shares(scale, shift), LaplaceShares(scale, shape)
    half = np.exp(law.log_pmfs(np.arange(reach + 1)))
    return Table(-reach, np.concatenate([half[:0:-1], half]), law.tail(reach + 1))


@lru_cache(maxsize=256)
def loss_of_shares(scale: Fraction, shape: Fraction, shift: int) -> Enumerated:
    """Return the loss of a whole number with noise of this shape, between two inputs that differ by `shift`.

    The table finds the place where the loss is largest; there, and around 0, it is computed again from the definition
    in 60 decimal digits. Above shape 1 the largest loss is approached far out: the table's end is a little below it.

    Raises:
        ConfigurationError: `shares_table` raises it.
    """
    span = abs(shift)
    if not span:
        return Enumerated(0.0, 0.0)
    table = shares_table(scale, shape, span)
    loss: Loss = loss_of_shift(table, span)
    ratios = np.log(table.chances[:-span]) - np.log(table.chances[span:])
    widest = int(np.abs(ratios).argmax()) + table.lowest
    places = {*range(-span - 2, span + 3), widest, -widest - span}
    defined = max(abs(_log_ratio(scale, shape, place, place + span)) for place in places)
    return Enumerated(defined, loss.worst, loss.beyond)


@dataclass
class KnownShares(NoNoise):
    """A noise source that gives known, different numbers as shares, so that one can see if they are added to a sum."""

    shares: list[NDArray[np.int64]] = field(default_factory=list)

    def laplace_shares(self, size: int, law: DiscreteLaplace, parts: int, stamp: Stamp) -> NDArray[np.int64]:
        """Return known shares, all different, and record the call."""
        zeros = super().laplace_shares(size, law, parts, stamp)
        self.shares.append(zeros + np.arange(size) * 1009 + 10 ** len(self.shares))
        return self.shares[-1]


def enumerate_sum(path: AnswerPath, pair: Neighbours) -> Enumerated:
    """Compute the worst-case loss of sums to which several curators' shares of noise are added.

    Each released number must be an exact number plus one share of each curator that drew shares.
    """
    sums = []
    for units in pair.sets:
        exact, noise = path.exact(units)
        laws = [law for _, law in noise.calls if isinstance(law, LaplaceShares)]
        if len({law.scale for law in laws}) != 1 or len(laws) < len(noise.calls):
            return Enumerated(None, why_not="it draws more than shares of one noise")
        noise_of_shares = KnownShares()
        moved = path.observe(path.hold(units, path.example), noise_of_shares)[0].numbers
        if any(share.size != exact.size for share in noise_of_shares.shares) or not np.array_equal(
            (moved - exact).ravel(), np.sum(noise_of_shares.shares, axis=0)
        ):
            return Enumerated(None, why_not="what it tells is more than a sum of numbers and shares of noise")
        sums.append((exact.ravel().astype(np.int64), laws))
    (first, first_laws), (second, second_laws) = sums
    if first.shape != second.shape or first_laws != second_laws:
        return Enumerated(None, why_not="its noise depends on the records")
    shape = sum((law.shape for law in first_laws), Fraction(0))
    return loss_of_sums(first, second, [first_laws[0].scale] * first.size, shape)


def loss_of_sums(
    first: NDArray[np.int64], second: NDArray[np.int64], scales: Sequence[Fraction], shape: Fraction
) -> Enumerated:
    """Return the loss between two (k,) vectors of whole numbers with independent noise of this shape."""
    defined, by_table, beyond = 0.0, 0.0, 0.0
    for x, y, scale in zip(first.tolist(), second.tolist(), scales, strict=True):
        if x != y:
            loss = loss_of_shares(scale, shape, y - x)
            defined, by_table = defined + (loss.loss or 0.0), by_table + (loss.by_table or 0.0)
            beyond += loss.beyond
    return Enumerated(defined, by_table, beyond)


def colluder_losses(scale: Fraction = AT, sites: Sequence[int] = SITES) -> tuple[ColluderLoss, ...]:
    """Tabulate losses in units of the claim by number of colluders, for shares that assume one of them and none."""
    losses = []
    for count in sites:
        for assumed in (0, 1):
            parts = count - assumed
            for colluders in sorted({1, 2, count // 2, count - 1}):
                shape = Fraction(count - colluders, parts)
                enumerated = loss_of_shares(scale, shape, 1)
                if (
                    enumerated.loss is None
                    or enumerated.by_table is None
                    or abs(enumerated.loss - enumerated.by_table) > AGREEMENT
                ):
                    raise ConfigurationError(f"two ways to enumerate shares of {parts} do not agree")
                losses.append(
                    ColluderLoss(
                        sites=count,
                        assumed=assumed,
                        colluders=colluders,
                        unknown=str(shape),
                        claimed=str(1 / scale),
                        loss=enumerated.loss,
                    )
                )
    return tuple(losses)


@lru_cache(maxsize=64)
def _decimal_chances(scale: Fraction, shape: Fraction, count: int) -> tuple[Decimal, ...]:
    """Return (1 - q)^-r P(k) of one negative binomial."""
    with decimal.localcontext(DIGITS):
        decay = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        part = Decimal(shape.numerator) / Decimal(shape.denominator)
        chances = [Decimal(1)]
        for k in range(count - 1):
            chances.append(chances[-1] * decay * (part + k) / (k + 1))
        return tuple(chances)


@lru_cache(maxsize=4096)
def _log_ratio(scale: Fraction, shape: Fraction, first_place: int, second_place: int) -> float:
    """Return the logarithm of the ratio of two probabilities."""
    chances = _decimal_chances(scale, shape, 3 * _reach_of_shares(scale, abs(first_place - second_place)))
    with decimal.localcontext(DIGITS):
        first, second = (sum(map(mul, chances, chances[abs(place) :])) for place in (first_place, second_place))
        return float((Decimal(first) / Decimal(second)).ln())


def _reach_of_shares(scale: Fraction, shift: int) -> int:
    reach = abs(shift) + 2 + math.ceil(DECAYS * scale)
    if reach > MOST_PLACES // 100:
        raise ConfigurationError(f"shares of noise of scale {scale} are too wide to be enumerated; take one below 200")
    if 2 * reach / scale > LEAST_LOG:
        raise ConfigurationError(f"a shift by {shift} at scale {scale} loses too much to be enumerated; ask for less")
    return reach
