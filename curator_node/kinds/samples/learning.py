"""MBDE: a density in an epsilon-mollifier, learnt by boosting (Husain, Cranko and Nock 2019, algorithm 1).

Q_t is proportional to Q_{t-1} exp(theta_t c_t), with theta_t = (epsilon / (epsilon + 4 log 2))^t and a classifier c_t
between -log 2 and log 2 that tells records from draws of Q_{t-1}: its log-odds, clipped.

Draws are exact, by rejection sampling: a draw from Q_0 is kept with probability exp(E - b), where E is a whole number
of steps within +-b, and b, the reach, is at most epsilon / 4. So any two such laws, whatever E is, differ by a factor
of at most exp(4 b) on every point, and at least exp(-2 b) of the draws are kept. docs/explanation/integral-privacy.md
has the proofs.
"""

import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from curator_node.exact_draws import RandomBytes, RandomWords, Words, not_random
from curator_node.kinds.samples import weak_learners
from curator_node.kinds.samples.weak_learners import NaiveBayes
from protocol.errors import ConfigurationError
from protocol.grids import BaseLaw, Cells
from protocol.kinds.sample import EXPONENT_STEPS

MOST_STEPS = EXPONENT_STEPS
MOST_DENOMINATOR = 2**16
"""Largest denominator of epsilon: 4 `MOST_STEPS` times this is the largest denominator of a coin, 2^32."""
MOST_NUMERATOR = 2**32
BLOCK = 2**16
"""Cells that are tried or summed at once, at most."""
MORE_BLOCKS = 2**16
"""Blocks that are allowed beyond twice the mean number for the worst law. A fair source needs more with a probability
below 2^-10000."""

Steps = Callable[[Cells], NDArray[np.int64]]
"""Exponent of each cell, (n, d) -> (n,), in steps; a function of the cell alone, to the last bit."""


def draw_cells(
    base: BaseLaw, exponent: Steps, epsilon: Fraction, count: int, random_bytes: RandomBytes, reach: int = MOST_STEPS
) -> NDArray[np.int64]:
    """Independent draws from the law proportional to Q_0 exp(E).

    Args:
        base: Q_0.
        exponent: E, in steps of epsilon / (4 `MOST_STEPS`); it is clipped to +-`reach` steps.
        epsilon: positive; numerator at most 2^32, denominator at most 2^16.
        count: draws, at least 0.
        random_bytes: returns the given number of independent uniform bytes.
        reach: b in steps, at most `MOST_STEPS`.

    Returns:
        (count, d) int64 cells.

    Raises:
        ValueError: epsilon is out of its range.
        ArithmeticError: the random bytes are not random, or too few; nothing was drawn.
    """
    if not (1 <= epsilon.numerator <= MOST_NUMERATOR and epsilon.denominator <= MOST_DENOMINATOR):
        raise ValueError(f"records are drawn at an epsilon of a/b with a up to 2^32 and b up to 2^16, not {epsilon}")
    source = RandomWords(random_bytes)
    accepted = [np.empty((0, len(base.axes)), np.int64)]
    missing = count
    worst = epsilon * Fraction(reach, MOST_STEPS)
    most = most_tried(count, worst)
    for _ in range(2 * most // BLOCK + MORE_BLOCKS):
        if missing <= 0:
            return np.concatenate(accepted)[:count]
        # As many as the worst law needs: the number of blocks hardly tells one law from another.
        tried = draw_base(base, min(BLOCK, most_tried(missing, worst)), source)
        # exp(E - b): E is moved by as much as b is below epsilon / 4
        steps = np.clip(exponent(tried), -reach, reach) + (MOST_STEPS - reach)
        accepted.append(tried[keep(steps, epsilon, source)])
        missing -= len(accepted[-1])
    raise not_random()


def most_tried(count: int, epsilon: Fraction) -> int:
    """The number of draws from Q_0 of which on average more than `count` are kept: about count exp(epsilon / 2).

    `epsilon` is four times the reach.
    """
    if count <= 0:
        return 0
    needed = count * math.exp(min(float(epsilon), 64.0) / 2)
    return math.ceil(needed + 4 * math.sqrt(needed)) + 8


def draw_base(base: BaseLaw, count: int, source: RandomWords) -> NDArray[np.int64]:
    """(count, d) independent draws from Q_0: on each axis a whole number below the sum of its weights."""
    cells = np.empty((count, len(base.axes)), np.int64)
    for column, weights in enumerate(base.weights):
        ends = np.cumsum(weights).astype(np.uint64)
        cells[:, column] = np.searchsorted(ends, source.below(np.full(count, ends[-1], np.uint64)), side="right")
    return cells


def keep(steps: NDArray[np.int64], epsilon: Fraction, source: RandomWords) -> NDArray[np.bool_]:
    """(n,) coins, each true with probability exp(E - epsilon / 4) exactly, for exponents in steps.

    A coin of exp(-a / b), for whole a and b, is true if (a div b) coins of exp(-1) and one of exp(-(a mod b) / b) all
    are.
    """
    below = (MOST_STEPS - np.clip(steps, -MOST_STEPS, MOST_STEPS)).astype(np.uint64)
    denominator = np.uint64(4 * MOST_STEPS * epsilon.denominator)
    wholes, rests = np.divmod(below * np.uint64(epsilon.numerator), denominator)
    coins = source.exponential_coins(rests, denominator)
    return coins & _all_kept(wholes, source)


def _all_kept(wholes: Words, source: RandomWords) -> NDArray[np.bool_]:
    """(n,) coins of probability exp(-whole) each."""
    all_heads = np.ones(wholes.size, np.bool_)
    unit = np.uint64(1)
    open_ = np.flatnonzero(wholes)
    number = unit
    while open_.size:
        heads = source.exponential_coins(np.ones(open_.size, np.uint64), unit)
        all_heads[open_[~heads]] = False
        number += unit
        open_ = open_[heads & (wholes[open_] >= number)]
    return all_heads


EXAMPLES = 10_000
"""Most records that a classifier is trained on, and most draws of Q_{t-1}."""
ROUNDS = 3
MOST_CELLS = 2**22
"""Most cells of a grid that is summed over."""


class Classifier(Protocol):
    """Tells records from draws."""

    def log_odds(self, cells: Cells) -> NDArray[np.float64]:
        """(n,) log of P over Q at each cell, finite; a function of the cell alone, to the last bit."""


class WeakLearner(Protocol):
    """Learns a classifier. It may use records in any way, but no record may make it fail."""

    def __call__(self, base: BaseLaw, real: Cells, draws: Cells, source: RandomWords) -> Classifier:
        """The classifier learnt from cells (n, d) of records and (m, d) of draws, n and m at least 1."""


@dataclass(frozen=True)
class NetworkLearner:
    """The paper's network, trained by `weak_learners.train`."""

    epochs: int = 750  # passes over all examples
    # records of a step, of which the paper says nothing; None takes all of them, so a pass is one step
    batch: int | None = 1_000

    def __call__(self, base: BaseLaw, real: Cells, draws: Cells, source: RandomWords) -> Classifier:
        """Train a classifier on cells of records and of draws."""
        return weak_learners.train(base, real, draws, epochs=self.epochs, batch=self.batch, source=source)


@dataclass(frozen=True)
class NaiveBayesLearner:
    """Naive Bayes on counts of binned axes, for tables: milliseconds where a network takes seconds."""

    bins: int = 16  # most bins of an axis

    def __call__(self, base: BaseLaw, real: Cells, draws: Cells, source: RandomWords) -> Classifier:  # noqa: ARG002
        """Train a classifier on cells of records and of draws."""
        return NaiveBayes(base, real, draws, bins=self.bins)


@dataclass(frozen=True)
class Density:
    """Q_T: proportional to Q_0 exp(E) on the grid of Q_0, E a whole number of steps of epsilon / (4 `MOST_STEPS`)."""

    base: BaseLaw  # Q_0
    epsilon: Fraction  # of the mollifier; one draw costs it under integral privacy, or less by a smaller reach
    classifiers: tuple[Classifier, ...] = ()  # c_1, ..., c_T
    reach: int = MOST_STEPS  # b in steps, to which exponents are clipped

    @property
    def thetas(self) -> tuple[float, ...]:
        """The weights theta_1, ..., theta_T of algorithm 1."""
        return tuple(theta(self.epsilon, number) for number in range(1, len(self.classifiers) + 1))

    def after(self, rounds: int) -> "Density":
        """Q_t after that many rounds; Q_0 after none."""
        return replace(self, classifiers=self.classifiers[:rounds])

    def draw(self, count: int, random_bytes: RandomBytes) -> NDArray[np.float64]:
        """(count, d) independent exact draws: numbers in the axes' units, levels from 0; see `draw_cells`."""
        return self.base.points(self.draw_cells(count, random_bytes))

    def draw_cells(self, count: int, random_bytes: RandomBytes) -> NDArray[np.int64]:
        """(count, d) cells of independent exact draws; raises the errors of the function `draw_cells`."""
        return draw_cells(self.base, self.steps_of, self.epsilon, count, random_bytes, self.reach)

    def steps_of(self, cells: Cells) -> NDArray[np.int64]:
        """(n,) exponent E of each cell, in steps, within +-`reach`; a function of the cell alone.

        Products and sums of single numbers are rounded alike wherever they stand, so equal cells get equal steps.
        """
        total = np.zeros(len(cells))
        for weight, classifier in zip(self.thetas, self.classifiers, strict=True):
            total += weight * clipped(classifier.log_odds(cells))
        shares = np.nan_to_num(total / (float(self.epsilon) / 4), nan=0.0, posinf=0.0, neginf=0.0)
        return np.clip(np.rint(shares * MOST_STEPS), -self.reach, self.reach).astype(np.int64)

    def log_masses(self, cells: Cells) -> NDArray[np.float64]:
        """(n,) logarithm of the chance of each cell, with the exact sum over the grid.

        Raises:
            ConfigurationError: the grid has more than 2^22 cells.
        """
        exponents = self.steps_of(cells) * (float(self.epsilon) / (4 * MOST_STEPS))
        result: NDArray[np.float64] = self.base.log_masses(cells) + exponents - self.log_normaliser
        return result

    def log_density(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) logarithm of the density at (n, d) points, in the axes' units: chance over volume of their cells.

        Points outside the grid count as the nearest cell; those with a missing value are left out. Raises the errors of
        `log_masses`.
        """
        return self.log_masses(self.base.cells(points)) - self.base.log_volume

    def masses(self) -> NDArray[np.float64]:
        """The probability of every cell, in an array with the axes of the grid. Raises the errors of `log_masses`."""
        result: NDArray[np.float64] = np.exp(self._log_masses_unscaled - self.log_normaliser)
        return result.reshape(self.base.sizes)

    @cached_property
    def log_normaliser(self) -> float:
        """phi(theta): logarithm of the sum of Q_0 exp(E), within +-epsilon / 4."""
        logs = self._log_masses_unscaled
        top = float(logs.max())
        return top + math.log(float(np.exp(logs - top).sum()))

    @cached_property
    def _log_masses_unscaled(self) -> NDArray[np.float64]:
        count = math.prod(self.base.sizes)
        if count > MOST_CELLS:
            raise ConfigurationError(f"a density over {count} cells is not summed; {MOST_CELLS} are the most")
        unit = float(self.epsilon) / (4 * MOST_STEPS)
        logs = []
        for start in range(0, count, BLOCK):
            places = np.arange(start, min(count, start + BLOCK))
            cells = np.column_stack(np.unravel_index(places, self.base.sizes)).astype(np.int64)
            logs.append(self.base.log_masses(cells) + unit * self.steps_of(cells))
        return np.concatenate(logs)


def theta(epsilon: Fraction, number: int) -> float:
    """theta_t = (epsilon / (epsilon + 4 log 2))^t; all of them together stay below epsilon / (4 log 2) (lemma 9)."""
    return float((float(epsilon) / (float(epsilon) + 4 * math.log(2))) ** number)


def clipped(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds clipped to +-log 2, the bound of the paper's classifiers. Their sigmoid lies between 1/3 and 2/3."""
    result: NDArray[np.float64] = np.clip(log_odds, -math.log(2), math.log(2))
    return result


def learn_density(
    points: NDArray[np.float64],
    base: BaseLaw,
    epsilon: Fraction,
    rounds: int = ROUNDS,
    *,
    learner: WeakLearner | None = None,
    examples: int = EXAMPLES,
    reach: int = MOST_STEPS,
    random_bytes: RandomBytes | None = None,
) -> Density:
    """Learn Q_T from records by algorithm 1. For all records the result is a density in the mollifier.

    Args:
        points: (n, d) float64: numbers in the axes' units, levels from 0. Numbers outside the grid count as its nearest
            cell; a row with NaN, or with a level that is not declared, is left out. n may be 0: then Q_0 is learnt.
        base: Q_0.
        epsilon: of the mollifier, positive.
        rounds: T; 0 gives Q_0.
        learner: learns the classifiers; None takes the paper's network.
        examples: most records that a classifier is trained on, and most draws of Q_{t-1}.
        reach: b in steps, see `draw_cells`.
        random_bytes: for draws of Q_{t-1}, first weights, and the choice of records; None takes `public_stream`.
            Privacy does not rest on them.
    """
    source = RandomWords(random_bytes or public_stream(b"learning"))
    cells = base.cells(points)
    density = Density(base, epsilon, reach=reach)
    learn = NetworkLearner() if learner is None else learner
    for _ in range(rounds if len(cells) else 0):
        real = cells
        if len(cells) > examples:
            real = cells[np.argsort(source.words(len(cells)), kind="stable")[:examples]]
        draws = density.draw_cells(examples, source.random_bytes)
        density = replace(density, classifiers=(*density.classifiers, learn(base, real, draws, source)))
    return density


def public_stream(name: bytes) -> RandomBytes:
    """Bytes that anybody can compute (SHAKE-256), for learning alone. With them equal records give the same density."""
    counter = itertools.count()

    def random_bytes(size: int) -> bytes:
        return hashlib.shake_256(b"expril sample\0" + name + next(counter).to_bytes(8, "big")).digest(size)

    return random_bytes
