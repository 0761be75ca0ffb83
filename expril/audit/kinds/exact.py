"""Worst-case privacy loss by enumeration of claimed laws: no sampling, and no formula for the loss.

A kind's auditor's half states the law of what is released on one set of records, from the plan and exact quantities
(`KindAudit.claimed_law`); the loss is that of two such laws. What a curator's code asks of its source of noise has no
part in it.

The losses of independent numbers of a vector add up: the largest log ratio of two joint probabilities is the sum of
each number's largest. Of a choice by whole scores, all possible choices are enumerated.

Noise may be drawn in h shares, of which colluders know some. A share is the difference of two negative binomials of
shape 1/h (`protocol.noise_shares`). The shapes of independent shares add up, so s unknown shares have shape s/h
together. Below shape 1 the noise has a revealing peak at 0.
"""

import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import accumulate, repeat
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expril.audit.kinds.answer_path import AnswerPath
from expril.audit.kinds.invented import Neighbours
from expril.audit.kinds.kind_audit import Cells, Enumerated, Handed, KindAudit, Law
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace, NoisyMax
from protocol.noise_shares import LaplaceShares

MOST_COLUMNS = 32
"""Numbers of a release whose noise is compared with the law, at most."""
MOST_CELLS = 40
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
    half = _half_of(law, reach)
    return Table(-reach, np.concatenate([half[:0:-1], half]), law.tail(reach + 1))


def _half_of(law: DiscreteLaplace, reach: int) -> NDArray[np.float64]:
    """Chances of 0 .. `reach`, each by `log_pmf`, whose distance from 0 is divided for all of them at once."""
    halves: NDArray[np.float64] = np.exp(law.log_pmf(0) - np.arange(reach + 1) / float(law.scale))
    return halves


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


def enumerate_loss(path: AnswerPath, audit: KindAudit, pair: Neighbours, charge: Fraction | None = None) -> Enumerated:
    """Return the worst-case loss between the laws that a kind claims of a question on two sets of records.

    `charge`: of answers that are charged this alone; None: of all.
    """
    first, second = (audit.claimed_law(path.case(units)) for units in pair.sets)
    if first is None or second is None:
        return Enumerated.unknown("its auditor's half claims no law of what it releases (`KindAudit.claimed_law`)")
    return first.loss(second, charge)


@dataclass(frozen=True)
class NoisyNumbers(Law):
    """Whole numbers, each with independent noise."""

    exact: NDArray[np.int64]  # (k,)
    noise: tuple[DiscreteLaplace | LaplaceShares, ...]  # (k,), of each number
    shares: tuple[Handed, ...] = ()  # calls for noise by which curators draw it, where it is not one call for each law

    @classmethod
    def of(
        cls, exact: NDArray[np.number[Any]], noise: DiscreteLaplace | LaplaceShares, shares: tuple[Handed, ...] = ()
    ) -> "NoisyNumbers":
        """Return numbers of any shape with one law of noise."""
        return cls(exact.ravel().astype(np.int64), (noise,) * exact.size, shares)

    def loss(self, other: "NoisyNumbers", charge: Fraction | None = None) -> Enumerated:
        """See `Law`. The losses of independent numbers add up. Another length, or other noise, tells all."""
        if self.noise != other.noise:
            return Enumerated.alike(math.inf, math.inf)
        total = Enumerated.alike(0.0, 0.0)
        for x, y, law in zip(self.exact.tolist(), other.exact.tolist(), self.noise, strict=True):
            if x != y:
                total = total.plus(loss_of_noise(law, y - x))
        return total

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """See `Law`. Numbers of one law after each other are one call."""
        if self.shares:
            return self.shares
        cuts = [k for k in range(1, len(self.noise)) if self.noise[k] != self.noise[k - 1]]
        parts = np.split(self.exact, cuts) if self.exact.size else []
        return tuple((part, self.noise[at]) for part, at in zip(parts, [0, *cuts], strict=False))

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`. The noise of a number falls into its values about 0, and two tails."""
        for column, law in enumerate(self.noise[:MOST_COLUMNS]):
            noise = rows[:, column].astype(np.float64) - float(self.exact[column])
            yield Cells(f"the noise of number {column + 1}", *noise_in_cells(noise, law))


@dataclass(frozen=True)
class NoisyTurns(Law):
    """Numbers with noise of one law, drawn call by call; exact numbers of a later call depend on earlier releases."""

    exact: tuple[NDArray[np.int64], ...]  # of each call, if all earlier ones released their exact numbers
    noise: DiscreteLaplace
    after: Callable[[Sequence[NDArray[np.int64]]], Sequence[NDArray[np.int64]]]
    """Releases of the calls -> exact numbers of each call if the earlier ones released these."""

    def loss(self, other: "NoisyTurns", charge: Fraction | None = None) -> Enumerated:
        """Return the larger loss of those outputs whose earlier parts are the exact numbers of either side."""
        if self.noise != other.noise:
            return Enumerated.alike(math.inf, math.inf)
        sides = (self.exact, other.after(self.exact)), (self.after(other.exact), other.exact)
        losses = [
            NoisyNumbers.of(np.concatenate(first), self.noise).loss(NoisyNumbers.of(np.concatenate(second), self.noise))
            for first, second in sides
        ]
        return max(losses, key=lambda loss: loss.loss or 0.0)

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """See `Law`."""
        return tuple((numbers, self.noise) for numbers in self.exact)

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`; only for the first call, whose numbers come first."""
        yield from NoisyNumbers.of(self.exact[0], self.noise).cells(rows)


@dataclass(frozen=True)
class NoisyChoice(Law):
    """The index of the largest noisy score."""

    scores: "Scores"
    law: NoisyMax

    def loss(self, other: "NoisyChoice", charge: Fraction | None = None) -> Enumerated:
        """See `Law`; ConfigurationError if there are too many choices to be enumerated."""
        if len(self.scores) != len(other.scores) or self.law != other.law:
            return Enumerated.alike(math.inf, math.inf)
        return choice_loss(self.scores, other.scores, self.law)

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """See `Law`."""
        return ((self.scores, self.law),)

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`."""
        chances = self.law.chances(self.scores)
        yield Cells("the chosen index", rows[:, 0].astype(np.intp), chances / chances.sum())


@dataclass(frozen=True)
class Outcomes(Law):
    """Few possible outputs, each with its chance in two computations: any law that can be written out."""

    defined: Mapping[tuple[int, ...], Decimal]  # output -> its chance, from the definition
    tabled: Mapping[tuple[int, ...], float]  # the same in floats
    about: str = "the output"
    of_charge: Mapping[tuple[int, ...], Fraction] = field(default_factory=dict)  # output -> what it is charged
    requests: tuple[Handed, ...] | None = None  # calls for noise by which a curator draws it
    beyond: float = 0.0  # chance of all other outputs, at most; they are not compared

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """See `Law`."""
        return self.requests

    @property
    def charges(self) -> tuple[Fraction, ...]:  # type: ignore[override]
        """See `Law`."""
        return tuple(sorted(set(self.of_charge.values())))

    def loss(self, other: "Outcomes", charge: Fraction | None = None) -> Enumerated:
        """See `Law`. An output that only one side has tells all."""
        every = [
            key for key in {**self.defined, **other.defined} if charge is None or self._charged(other, key, charge)
        ]
        with decimal.localcontext(DIGITS):
            ratios = [_log_of(self.defined.get(key), other.defined.get(key)) for key in every]
        floats = [_log_of(self.tabled.get(key), other.tabled.get(key)) for key in every]
        ways = (max(ratios, default=0.0), -min(ratios, default=0.0))
        return Enumerated(ways, (max(floats, default=0.0), -min(floats, default=0.0)), max(self.beyond, other.beyond))

    def _charged(self, other: "Outcomes", key: tuple[int, ...], charge: Fraction) -> bool:
        return self.of_charge.get(key, other.of_charge.get(key)) == charge

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`. Outputs that were not written out are one more cell."""
        places = {key: place for place, key in enumerate(self.tabled)}
        outputs = np.array([places.get(tuple(row), len(places)) for row in rows.astype(np.int64).tolist()], np.intp)
        chances = np.array([*self.tabled.values(), 0.0])
        chances[-1] = max(0.0, 1.0 - math.fsum(chances))
        yield Cells(self.about, outputs, chances)


@dataclass(frozen=True)
class Independent(Law):
    """Independent parts, each of so many numbers of the release, in order."""

    parts: tuple[Law, ...]
    widths: tuple[int, ...]  # numbers of each part

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """See `Law`."""
        calls = [part.calls for part in self.parts]
        return None if None in calls else tuple(call for part in calls for call in part or ())

    def loss(self, other: "Independent", charge: Fraction | None = None) -> Enumerated:
        """See `Law`. The losses of the parts add up, in each direction."""
        if self.widths != other.widths:
            return Enumerated.alike(math.inf, math.inf)
        losses = (mine.loss(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True))
        return reduce(Enumerated.plus, losses, Enumerated.alike(0.0, 0.0))

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`."""
        for part, columns in zip(self.parts, np.split(rows, np.cumsum(self.widths)[:-1], axis=1), strict=True):
            yield from part.cells(columns)


@dataclass(frozen=True)
class Masked(Law):
    """Words of 64 bits under a mask that nobody can take off: uniform, whatever the records."""

    width: int  # number of words

    def loss(self, other: "Masked", charge: Fraction | None = None) -> Enumerated:
        """See `Law`: 0."""
        return Enumerated.alike(*(0.0, 0.0) if self.width == other.width else (math.inf, math.inf))

    @property
    def calls(self) -> tuple[Handed, ...] | None:
        """See `Law`."""
        return ()

    def cells(self, rows: NDArray[np.number[Any]]) -> Iterator[Cells]:
        """See `Law`. A word falls into one of 16 cells by its first bits, and by its last."""
        words = rows[:, : min(self.width, MOST_COLUMNS)].astype(np.int64)
        even = np.full(16, 1 / 16)
        for column in range(words.shape[1]):
            yield Cells(f"the first bits of word {column + 1}", (words[:, column] >> 60) & 15, even)
            yield Cells(f"the last bits of word {column + 1}", words[:, column] & 15, even)


def _log_of(first: Any, second: Any) -> float:
    """Return the log of a ratio of chances; infinite where only one of them is positive."""
    if not first or not second:
        return 0.0 if not first and not second else math.inf if first else -math.inf
    return float((first / second).ln()) if isinstance(first, Decimal) else math.log(first) - math.log(second)


def noise_in_cells(
    noise: NDArray[np.float64], law: DiscreteLaplace | LaplaceShares
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Sort noise into at most `MOST_CELLS` cells: intervals about 0 of about equal chance, and two tails."""
    reach = max(1, math.ceil(3 * float(law.scale)))
    width = max(1, -(-2 * reach // (MOST_CELLS - 2)))
    edges = np.arange(-reach, reach + 1, width)  # a cell holds [edge, next edge)
    lowest, chances = _chances_about_0(law)
    starts = [0, *(edges - lowest)]
    every = np.add.reduceat(chances, starts)
    return np.searchsorted(edges, noise, side="right").astype(np.intp), every / every.sum()


@lru_cache(maxsize=16)
def _chances_about_0(law: DiscreteLaplace | LaplaceShares) -> tuple[int, NDArray[np.float64]]:
    """Return the lowest value of a table of chances, and the chances; less than 10^-15 lies outside."""
    reach = math.ceil(45 * law.scale) + 2
    half = np.exp(law.log_pmfs(np.arange(reach + 1))) if isinstance(law, LaplaceShares) else _half_of(law, reach)
    return -reach, np.concatenate([half[:0:-1], half])


def loss_of_noise(law: DiscreteLaplace | LaplaceShares, shift: int) -> Enumerated:
    """Return the loss of a whole number with this noise, between two inputs that differ by `shift`."""
    if isinstance(law, LaplaceShares):
        return loss_of_shares(law.scale, law.shape, shift)
    loss = loss_of_shift(laplace_table(law.scale, shift), shift)
    return Enumerated.alike(loss_by_definition(law.scale, shift), loss.worst, loss.beyond)


def loss_of_vectors(first: NDArray[np.int64], second: NDArray[np.int64], scales: Sequence[Fraction]) -> Enumerated:
    """Return the loss between two (k,) vectors of whole numbers with independent discrete Laplace noise."""
    noise = tuple(DiscreteLaplace(scale) for scale in scales)
    return NoisyNumbers(first, noise).loss(NoisyNumbers(second, noise))


CHOICE_DIGITS = decimal.Context(prec=120, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
MOST_CHOICES = 150
"""Most choices k: `chances_by_definition` sums alternating terms up to 2^k, which leaves 70 digits."""
Scores = NDArray[np.int64]


def hinted_loss(first: Scores, second: Scores, law: NoisyMax) -> float:
    """Compute, in floats, the largest loss over all choices for two score vectors (k,); infinite if k differs."""
    if len(first) != len(second):
        return math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(law.chances(first)) - np.log(law.chances(second))
    return float(np.nan_to_num(np.abs(ratios), nan=0.0, posinf=math.inf).max())


def choice_loss(first: Scores, second: Scores, law: NoisyMax) -> Enumerated:
    """Compute the largest loss in two ways.

    Raises:
        ConfigurationError: there are too many choices to be enumerated.
    """
    if max(len(first), len(second)) > MOST_CHOICES:
        raise ConfigurationError(f"more than {MOST_CHOICES} choices cannot be enumerated; offer fewer")
    pairs = zip(chances_by_definition(first, law.scale), chances_by_definition(second, law.scale), strict=True)
    with decimal.localcontext(CHOICE_DIGITS):
        ratios = [float((p / q).ln()) for p, q in pairs]
    floats = np.log(law.chances(first)) - np.log(law.chances(second))
    return Enumerated((max(ratios), -min(ratios)), (float(floats.max()), -float(floats.min())))


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
        return Enumerated.alike(0.0, 0.0)
    table = shares_table(scale, shape, span)
    loss: Loss = loss_of_shift(table, span)
    ratios = np.log(table.chances[:-span]) - np.log(table.chances[span:])
    widest = int(np.abs(ratios).argmax()) + table.lowest
    places = {*range(-span - 2, span + 3), widest, -widest - span}
    defined = max(abs(_log_ratio(scale, shape, place, place + span)) for place in places)
    return Enumerated.alike(defined, loss.worst, loss.beyond)


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
