"""Noise of the right law and the wrong width: what a record moves was counted wrongly, or hangs on the data.

A frozen family of mechanisms has a file of its own.
"""

import math

import numpy as np

from lab.broken.parts import Family, Rng, Rows, geometric

SENSITIVITY = Family("sensitivity")
ROOT_8 = math.sqrt(8)


@SENSITIVITY.broken("1", lambda x: np.clip(x, 0, 1).sum(axis=1) >= 6.5, loss=ROOT_8)
def l2_for_l1(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise on eight sums is scaled by how far a record moves them in l2; l1 is what counts."""
    return value + rng.laplace(0, ROOT_8, (n, 8))


@SENSITIVITY.broken("1", lambda x: x == 0, loss=3.0, likelier="first", inputs=(0.0, 3.0))
def clipped_after_noise(value: float, n: int, rng: Rng) -> Rows:
    """A value is clipped to [0, 1] after the noise instead of before it."""
    return np.clip(value + rng.laplace(0, 1, n), 0, 1)


@SENSITIVITY.broken("1", lambda x: x > 10, inputs=((1.0,), (1.0, 4.0)))
def bound_from_the_data(values: tuple[float, ...], n: int, rng: Rng) -> Rows:
    """The bound of a clipped sum, and so the noise's scale, is the largest value there is."""
    return sum(values) + rng.laplace(0, max(values), n)


@SENSITIVITY.broken("1/2", lambda x: x > 12, inputs=(4, 5))
def relative_noise(count: int, n: int, rng: Rng) -> Rows:
    """Noise is as wide as the count needs for an error of one half."""
    return count + rng.laplace(0, count / 2, n)


@SENSITIVITY.broken("1", lambda x: (x[:, 2] <= 0) & (x[:, 6] >= 1), loss=2.0, inputs=(2, 6))
def histogram_of_replaced_records(place: int, n: int, rng: Rng) -> Rows:
    """Counts have noise for one record more or less, and the claim is for one replaced, which moves two counts."""
    counts = np.zeros(9, dtype=np.int64)
    counts[place] = 1
    return np.asarray(counts + geometric(1, rng, (n, 9)))
