"""The game of N. Zumel's blog post "A simpler explanation of differential privacy" (2015).

A learner releases the mean of 100 numbers with Laplace noise of width sigma. The numbers are 100 zeros, or 99 zeros
and a one. An adversary guesses that the one is there if the answer is at least 1/200. The noise comes from numpy, as
nothing is protected.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from expril.audit.attack.loss_bounds import loss_bound
from expril.audit.results import BlogGame, Spread
from protocol.errors import ConfigurationError

NUMBERS = 100
THRESHOLD = 1 / 200
ROUNDS = 1000
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)
ERROR_RATE = 0.05
_FIGURE_DRAWS, _BINS = 100_000, 100
_FIGURES = {"no noise": 0.0, "sigma = 1/(3n)": 1 / (3 * NUMBERS), "sigma = 3/n": 3 / NUMBERS}
_ZEROS = np.zeros(NUMBERS)
_WITH_ONE = np.append(np.zeros(NUMBERS - 1), 1.0)


def play_blog(
    epsilons: Sequence[float] = EPSILONS,
    *,
    rounds: int = ROUNDS,
    error_rate: float = ERROR_RATE,
    seed: int | None = None,
) -> BlogGame:
    """Play at each epsilon, with sigma = 1 / (100 epsilon), and draw the post's three figures.

    The gap between the two means is in standard deviations of the answers. Its expectation is epsilon / sqrt(2), as a
    Laplace law of width sigma has the standard deviation sqrt(2) sigma.

    `epsilons`: rising, positive; `rounds`: at each epsilon: one answer about either set of numbers; `error_rate`: of
    each lower bound. The threshold is fixed in advance, so that all rounds count for the bound. `seed`: of the noise;
    None takes fresh entropy.

    Raises:
        ConfigurationError: there are no rounds, or the epsilons are not positive and rising.
    """
    if rounds < 1 or not epsilons or min(epsilons) <= 0 or sorted(set(epsilons)) != list(epsilons):
        raise ConfigurationError("the blog's game needs a round at least, and positive epsilons that rise")
    generator = np.random.default_rng(seed)
    gaps, above, bounds = [], [], []
    for epsilon in epsilons:
        zeros, ones = (_means(numbers, 1 / (NUMBERS * epsilon), rounds, generator) for numbers in (_ZEROS, _WITH_ONE))
        counts = int((zeros >= THRESHOLD).sum()), int((ones >= THRESHOLD).sum())
        spread = np.sqrt((zeros.var() + ones.var()) / 2)
        gaps.append(float((ones.mean() - zeros.mean()) / spread))
        above.append((counts[0] / rounds, counts[1] / rounds))
        bounds.append(_bound(*counts, rounds, error_rate, expected_above(epsilon)))
    return BlogGame(
        epsilons=tuple(epsilons),
        rounds=rounds,
        gaps=tuple(gaps),
        expected_gaps=tuple(epsilon / math.sqrt(2) for epsilon in epsilons),
        above=tuple(above),
        expected_above=tuple(expected_above(epsilon) for epsilon in epsilons),
        lower_bounds=tuple(bounds),
        spreads={name: _figure(sigma, generator) for name, sigma in _FIGURES.items()},
    )


def expected_above(epsilon: float) -> tuple[float, float]:
    """(q, 1 - q), q = exp(-epsilon / 2) / 2, that an answer is at least 1/200: of zeros, and with the one."""
    tail = float(np.exp(-epsilon / 2)) / 2
    return tail, 1 - tail


def _means(
    numbers: NDArray[np.float64], sigma: float, rounds: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    return np.asarray(numbers.mean() + generator.laplace(0, sigma, rounds))


def _bound(zeros: int, ones: int, rounds: int, error_rate: float, chances: tuple[float, float]) -> float:
    """The larger bound of two events: "at least 1/200" is likelier with the one, "below 1/200" without."""
    draws, expected = (rounds, rounds), (chances[1], chances[0])
    events = (ones, zeros), (rounds - zeros, rounds - ones)
    return max(0.0, *(loss_bound(*counts, draws, error_rate / 2, expected=expected) for counts in events))


def _figure(sigma: float, generator: np.random.Generator) -> Spread:
    axis = "released mean"
    if not sigma:
        places = (0.0, 1 / NUMBERS)
        return Spread(axis=axis, values=places, first=(1.0, 0.0), second=(0.0, 1.0), event=(THRESHOLD, places[1]))
    # The threshold is an edge, so that the event is whole bins; five sigma hold all but 1 % of the answers.
    width = 10 * sigma / _BINS
    edges = THRESHOLD + width * np.arange(-_BINS // 2, _BINS // 2 + 1)
    answers = [_means(numbers, sigma, _FIGURE_DRAWS, generator) for numbers in (_ZEROS, _WITH_ONE)]
    shares = [np.histogram(numbers, edges)[0] / _FIGURE_DRAWS for numbers in answers]
    return Spread(
        axis=axis,
        values=tuple(float(f"{value:.6g}") for value in (edges[:-1] + edges[1:]) / 2),
        first=tuple(map(float, shares[0])),
        second=tuple(map(float, shares[1])),
        event=(THRESHOLD, float(edges[-1])),
    )
