"""Mechanisms that keep what they claim: tight and loose, of few values and of many, alone and in rows."""

import math

import numpy as np

from lab.broken.parts import Family, Rng, Rows, geometric

RIGHT = Family("right")


@RIGHT.right("1")
def whole_noise(count: int, n: int, rng: Rng) -> Rows:
    """Discrete Laplace noise of a count. Every outcome but those between is as telling as claimed."""
    return np.asarray(count + geometric(1, rng, n))


@RIGHT.right("1")
def laplace_of_three_decimals(value: float, n: int, rng: Rng) -> Rows:
    """Laplace noise, told to three decimals."""
    return np.round(value + rng.laplace(0, 1, n), 3)


@RIGHT.right("1")
def every_value_tight(side: int, n: int, rng: Rng) -> Rows:
    """One of 1,000 values, of which every other is e times as likely under one input, and the rest under the other."""
    half, likelier = rng.integers(0, 500, n), rng.random(n) < math.e / (1 + math.e)
    return np.asarray(2 * half + (likelier == bool(side)))


@RIGHT.right("1")
def clamped_count(count: int, n: int, rng: Rng) -> Rows:
    """A noisy count, clamped to 0 and 3 after the noise: most outcomes are 0 or 3."""
    return np.clip(count + geometric(1, rng, n), 0, 3)


@RIGHT.right("1.0987")
def yes_or_no(bit: int, n: int, rng: Rng) -> Rows:
    """Randomized response that tells the truth with probability 3/4: ln 3, which is claimed rounded up."""
    return np.asarray(bit ^ (rng.random(n) < 0.25))


@RIGHT.right("1", (3, 8))
def one_of_sixteen(category: int, n: int, rng: Rng) -> Rows:
    """Randomized response of sixteen categories."""
    kept = rng.random(n) < math.e / (math.e + 15)
    return np.where(kept, category, (category + rng.integers(1, 16, n)) % 16)


@RIGHT.right("1/10")
def constant(_data: int, n: int, _rng: Rng) -> Rows:
    """Always 7."""
    return np.full(n, 7)


@RIGHT.right("1", ((0,) * 20, (1,) + (-1,) * 19))
def exponential(utilities: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """The exponential mechanism for utilities that move both ways."""
    weights = np.exp(np.array(utilities) / 2)
    return rng.choice(20, n, p=weights / weights.sum())


@RIGHT.right("1", ((-1, -1, -1, -1, 0), (-1, -1, -1, -1, 1)))
def permute_and_flip(utilities: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Permute and flip (McKenna and Sheldon 2020): the first head in a random order."""
    heads = rng.random((n, 5)) < np.exp((np.array(utilities) - max(utilities)) / 2)
    return np.asarray(np.where(heads, rng.random((n, 5)), 2).argmin(axis=1))


@RIGHT.right("1", ((0, 0, 0, 0), (1, -1, -1, -1)))
def place_of_the_maximum(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """Report noisy max, with noise for numbers that move both ways."""
    return np.asarray((np.array(values) + rng.laplace(0, 2, (n, 4))).argmax(axis=1))


@RIGHT.right("1", ((0,) * 10 + (1,), (1,) * 10 + (0,)))
def first_above(values: tuple[int, ...], n: int, rng: Rng) -> Rows:
    """The sparse vector technique for one number above: noise for the threshold and twice as much for the numbers."""
    above = np.array(values) + rng.laplace(0, 4, (n, 11)) >= rng.laplace(0, 2, (n, 1))
    return np.where(above.any(axis=1), above.argmax(axis=1), 11)


@RIGHT.right("1")
def sixteen_counts(value: int, n: int, rng: Rng) -> Rows:
    """Sixteen counts, all of which a record moves, at a sixteenth of epsilon each."""
    return np.asarray(value + geometric(1 / 16, rng, (n, 16)))


@RIGHT.right("1")
def sparse_histogram(count: int, n: int, rng: Rng) -> Rows:
    """Forty counts, nearly all 0, never below 0, and a record in one of them."""
    counts = np.zeros(40, dtype=np.int64)
    counts[[3, 17, 29]] = 5, count, 2
    return np.asarray(counts + geometric(1, rng, (n, 40))).clip(0)


@RIGHT.right("1", (3, 8))
def unary(category: int, n: int, rng: Rng) -> Rows:
    """A category as twelve bits, each flipped at half of epsilon."""
    bits = np.arange(12) == category
    return np.asarray(bits ^ (rng.random((n, 12)) < 1 / (1 + math.exp(0.5))))


@RIGHT.right("0.6202")
def sampled(count: int, n: int, rng: Rng) -> Rows:
    """A noisy count over half of the records, with amplification: ln(1 + (e - 1) / 2), rounded up."""
    return np.asarray(count * rng.integers(0, 2, n) + geometric(1, rng, n))


@RIGHT.right("2")
def student(value: float, n: int, rng: Rng) -> Rows:
    """Student's t with three degrees of freedom, told to two decimals: a loss of 1.41."""
    return np.round(value + 0.8 * rng.standard_t(3, n), 2)


@RIGHT.right("1/1000")
def same_law(_data: int, n: int, rng: Rng) -> Rows:
    """Five standard normal numbers, whatever the data are: nothing to find."""
    return rng.standard_normal((n, 5))


@RIGHT.right("1")
def rare_categories(side: int, n: int, rng: Rng) -> Rows:
    """One of 3,000 categories; those from 2,000 on come in 1 or e of 1,000 answers."""
    rare = rng.random(n) < (math.e if side else 1) / 1000
    return np.where(rare, rng.integers(2000, 3000, n), np.floor(2000 * rng.random(n) ** 3).astype(np.int64))


@RIGHT.right("1")
def staircase(value: float, n: int, rng: Rng) -> Rows:
    """Staircase noise (Geng and Viswanath 2014), told to three decimals."""
    share = 0.375 / (0.375 + 0.625 * math.exp(-1))
    stairs = rng.geometric(-math.expm1(-1), n) - 1
    place = np.where(rng.random(n) < share, 0.375 * rng.random(n), 0.375 + 0.625 * rng.random(n))
    return np.asarray(np.floor(1000 * (value + rng.choice([-1, 1], n) * (stairs + place))) / 1000)


@RIGHT.right("1")
def tree(value: int, n: int, rng: Rng) -> Rows:
    """The sums of a tree with four levels, at a quarter of epsilon each."""
    counts = np.zeros(15, dtype=np.int64)
    counts[[0, 1, 3, 7]] = value
    return np.asarray(counts + geometric(1 / 4, rng, (n, 15)))
