"""Noise of a law that does not hide what it should, or whose width tells."""

import math

import numpy as np

from lab.broken.parts import Family, Rng, Rows

SHAPE = Family("shape of noise")


@SHAPE.broken("1", lambda x: x > 4)
def tails_redrawn(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise is drawn again until it is within 4 scales."""
    size = -np.log1p(rng.random(n) * math.expm1(-4))
    return value + np.where(rng.random(n) < 0.5, size, -size)


@SHAPE.broken("1", lambda x: x >= 7)
def tails_clamped(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise is clamped to 6 scales."""
    return value + np.clip(rng.laplace(0, 1, n), -6, 6)


@SHAPE.broken("1", lambda x: np.abs(x).sum(axis=1) > 12, inputs=(1.0, 1.4))
def scale_from_the_data(scale: float, n: int, rng: Rng) -> Rows:
    """Noise of six numbers has the scale of the data's own spread; the numbers are the same."""
    return rng.laplace(0, scale, (n, 6))


@SHAPE.broken("1", lambda x: x >= 2.6)
def gaussian_as_pure(value: float, n: int, rng: Rng) -> Rows:
    """Gaussian noise whose deviation is the sensitivity, claimed without a delta."""
    return value + rng.standard_normal(n)


STUDENT_3, CAUCHY = 0.8, 0.5


def _student_loss(scale: float) -> float:
    """The largest log ratio of two densities that differ by 1, at the place where its derivative is 0."""
    shift = 1 / scale
    place = (shift + math.sqrt(shift**2 + 12)) / 2
    return 2 * math.log((3 + place**2) / (3 + (place - shift) ** 2))


@SHAPE.broken("1", lambda x: (x >= 1.4) & (x <= 2.8), loss=_student_loss(STUDENT_3))
def student_three_degrees(value: float, n: int, rng: Rng) -> Rows:
    """Student's t with three degrees of freedom by the constant of another law."""
    return value + STUDENT_3 * rng.standard_t(3, n)


@SHAPE.broken("3/2", lambda x: (x >= 0.9) & (x <= 1.6), loss=math.log(3 + math.sqrt(8)))
def cauchy_constant(value: float, n: int, rng: Rng) -> Rows:
    """Cauchy noise of scale one half, where epsilon 1.5 takes 0.61."""
    return value + CAUCHY * rng.standard_cauchy(n)


def _two_stairs(x: Rows) -> Rows:
    """Where the density under 1.3 is two stairs above that under 0."""
    lower, upper = _stair(np.abs(x)), _stair(np.abs(x - 1.3))
    return np.asarray(lower - upper == 2)


def _stair(distance: Rows) -> Rows:
    return np.asarray(np.floor(distance + 1 - 0.38))


@SHAPE.broken("1", _two_stairs, loss=2.0, inputs=(0.0, 1.3))
def staircase_too_narrow(value: float, n: int, rng: Rng) -> Rows:
    """Staircase noise for a sensitivity of 1, where a record moves 1.3."""
    share = 0.38 / (0.38 + 0.62 * math.exp(-1))
    stairs = rng.geometric(-math.expm1(-1), n) - 1
    place = np.where(rng.random(n) < share, 0.38 * rng.random(n), 0.38 + 0.62 * rng.random(n))
    return value + rng.choice([-1, 1], n) * (stairs + place)


@SHAPE.broken("1", lambda x: x < 1, likelier="first")
def noise_on_one_side(value: float, n: int, rng: Rng) -> Rows:
    """Exponential noise: a count shall not be too low."""
    return value + rng.exponential(1, n)


@SHAPE.broken("1", lambda x: x < 0.15, loss=math.log(2 * math.e - 1), likelier="first")
def redrawn_until_not_negative(value: float, n: int, rng: Rng) -> Rows:
    """A noisy count is drawn again until it is at least 0: how often hangs on the count."""
    below = math.exp(-value) / 2
    uniform = below + (1 - below) * rng.random(n)
    with np.errstate(divide="ignore"):
        return value + np.where(uniform < 0.5, np.log(2 * uniform), -np.log(2 * (1 - uniform)))


@SHAPE.broken("1", lambda x: x == 1)
def exact_once_in_five_hundred(value: float, n: int, rng: Rng) -> Rows:
    """One answer in 500 takes a path without noise."""
    return np.where(rng.random(n) < 1 / 500, value, value + rng.laplace(0, 1, n))


@SHAPE.broken(
    "1", lambda x: np.abs(x) < 0.15, loss=math.log(8 / (math.exp(-0.25) + 7 * math.exp(-1.75))), likelier="first"
)
def epsilon_on_average(value: float, n: int, rng: Rng) -> Rows:
    """A coin chooses between epsilon 1/4 and 7/4; on average it is 1."""
    return value + rng.laplace(0, 1, n) / np.where(rng.random(n) < 0.5, 0.25, 1.75)
