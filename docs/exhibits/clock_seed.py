"""A library that seeds its noise with the time: whoever receives an answer knows roughly when it was made.

Run in this folder: expril audit game clock_seed:game
"""

from functools import lru_cache

import numpy as np

from expril.audit.attack.game import Game

HOUR, DELAY = 3600, 5
WITHOUT, WITH = (4, 2, 7, 1, 3, 5, 2, 6), (5, 2, 7, 1, 3, 5, 2, 6)
generator = np.random.default_rng()


# The library.


@lru_cache(maxsize=HOUR)
def noise(cells, epsilon, now):
    """Discrete Laplace noise. Reproducible, says its manual: the seed is the time in whole seconds."""
    seeded = np.random.default_rng(now)
    p = -np.expm1(-epsilon)
    return seeded.geometric(p, cells) - seeded.geometric(p, cells)


def noisy_counts(counts, epsilon, now):
    return np.array(counts) + noise(len(counts), epsilon, now)


# The game. Each draw is made in a second of its own choice and arrives up to five seconds later. The receiver sees the
# second of arrival, and has the library, too.


def answers(counts, n):
    """n rows: the second of arrival, then the noisy counts."""
    made = generator.integers(0, HOUR, n)
    arrived = made + generator.integers(0, DELAY + 1, n)
    return np.column_stack((arrived, [noisy_counts(counts, 1.0, int(now)) for now in made]))


def explained(rows):
    """1 where noise of some second just before the arrival explains the counts without the record, else 0."""
    found = np.zeros(len(rows), int)
    for delay in range(DELAY + 1):
        seconds = np.maximum(rows[:, 0] - delay, 0)
        guessed = np.array([noise(len(WITHOUT), 1.0, int(now)) for now in seconds])
        found |= (rows[:, 1:] - guessed == WITHOUT).all(1)
    return found


def game():
    return Game(
        answers,
        first=WITHOUT,
        second=WITH,
        epsilon="1",
        neighbours="eight cells, and one record more in the first",
        statistics={"whether a recent second explains the counts without the record": explained},
    )
