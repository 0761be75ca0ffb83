"""What the game searches: mechanisms whose fault shows in repeats, grids, patterns or cases.

Every game is played at an error rate of 1e-9. Noise comes from a seed, so what was found is found again.
"""

import numpy as np
import pytest

from expril.audit.attack.game import Game, breaks
from expril.audit.attack.game_statistics import Stand
from expril.audit.attack.structure_statistics import denominators
from protocol.errors import ConfigurationError

RARE = 1e-9


def inverted(uniform, exact):
    return exact + np.where(uniform < 0.5, np.log(2 * uniform), -np.log(2 * (1 - uniform)))


def noise_of_few_values(bits, decimals=None):
    """Laplace noise by inversion of a uniform number of so many bits."""
    rng = np.random.default_rng(bits)

    def noisy(exact, n):
        values = inverted((rng.integers(0, 2**bits, n) + 0.5) / 2**bits, exact)
        return values if decimals is None else np.round(values, decimals)

    return Game(noisy, 1000.0, 1001.0, "1")


def few_seeds(bits):
    """Three numbers whose noise comes from one of a few seeds."""
    rng, table = np.random.default_rng(bits), np.random.default_rng(99).laplace(0, 1, (2**bits, 3))
    return Game(lambda exact, n: np.round(exact + table[rng.integers(0, 2**bits, n)], 3), 1000.0, 1001.0, "3")


def wide_noise_over_the_exact_count():
    """A sum with wide whole noise is divided by the exact count; no quotient comes twice."""
    rng = np.random.default_rng(1)
    return Game(lambda count, n: np.round(rng.laplace(0, 1e6, n)) / count, 11, 12, "1")


def multiples_of_the_exact_count():
    rng = np.random.default_rng(2)
    return Game(lambda count, n: count * np.rint(rng.laplace(0, 1e7, n)).astype(np.int64), 1013, 1019, "1")


def steps_with_jitter():
    """Noise comes in steps, and a little jitter hides that they repeat."""
    rng = np.random.default_rng(3)
    return Game(lambda exact, n: exact + np.rint(rng.laplace(0, 50, n)) + rng.normal(0, 0.02, n), 0.0, 0.5, "1")


def parity_of_three():
    """Any two of three coins are independent; all three give the exact bit away."""
    rng = np.random.default_rng(4)

    def coins(bit, n):
        first = rng.integers(0, 2, (n, 2))
        return np.column_stack((first, (first.sum(1) + bit) % 2))

    return Game(coins, 0, 1, "1")


def order_of_numbers():
    """Each number has the same law on either input; their order differs."""
    rng = np.random.default_rng(5)

    def ordered(turned, n):
        rows = np.sort(rng.normal(size=(n, 3)), 1)
        return rows[np.arange(n)[:, None], (np.arange(3) * (2 if turned else 1) + rng.integers(0, 3, (n, 1))) % 3]

    return Game(ordered, 0, 1, "1")


def seldom_no_number():
    """A mean of nobody is no number, in one answer of a hundred."""
    rng = np.random.default_rng(6)

    def mean(count, n):
        values = np.round(rng.normal(size=n), 3)
        return np.where((rng.random(n) < 0.01) & (count == 0), np.nan, values)

    return Game(mean, 0, 1, "1")


def seldom_infinite():
    rng = np.random.default_rng(7)
    return Game(
        lambda bad, n: np.where(rng.random((n, 2)) < 0.01 * bad, -np.inf, rng.integers(0, 9, (n, 2))), 0, 1, "1"
    )


def exact_in_one_case():
    """Where the index is 3, the number beside it is shifted by the exact value; other cases hide it in the mean."""
    rng = np.random.default_rng(8)

    def rows(exact, n):
        index = rng.integers(0, 30, n) // 6
        return np.column_stack((index, rng.laplace(0, 9, n) + np.where(index == 3, exact, -exact / 4)))

    return Game(rows, -15.0, 15.0, "1")


def two_that_are_equal_too_often():
    rng = np.random.default_rng(9)

    def rows(tied, n):
        values = rng.normal(size=(n, 5))
        values[:, 4] = np.where(rng.random(n) < 0.05, values[:, 1 if tied else 2], values[:, 4])
        return values

    return Game(rows, 0, 1, "1")


def products_of_four():
    """Four normal numbers, of which the product of all has a sign that differs."""
    rng = np.random.default_rng(10)

    def rows(sign, n):
        values = rng.normal(size=(n, 4))
        values[:, 3] = sign * np.abs(values[:, 3]) * np.sign(values[:, :3].prod(1))
        return values

    return Game(rows, -1, 1, "1")


def a_ring():
    """Two numbers lie on a ring of one radius or of another, with noise: neither tells it, nor does their sum."""
    rng = np.random.default_rng(11)

    def rows(radius, n):
        angle, size = rng.uniform(0, 2 * np.pi, n), radius + rng.normal(0, 0.3, n)
        return np.column_stack((size * np.cos(angle), size * np.sin(angle), rng.normal(size=n)))

    return Game(rows, 2.0, 4.0, "1")


def odd_noise():
    rng = np.random.default_rng(12)
    return Game(lambda exact, n: exact + 11 * np.rint(rng.laplace(0, 1e8, n)).astype(np.int64), 0, 1, "1")


BROKEN = {
    "noise of 12 bits": lambda: noise_of_few_values(12),
    "noise of 16 bits": lambda: noise_of_few_values(16),
    "noise of 20 bits": lambda: noise_of_few_values(20),
    "noise of 12 bits, six decimals": lambda: noise_of_few_values(12, 6),
    "noise of 16 bits, six decimals": lambda: noise_of_few_values(16, 6),
    "noise of 18 bits, six decimals": lambda: noise_of_few_values(18, 6),
    "seeds of 16 bits": lambda: few_seeds(16),
    **{
        function.__name__.replace("_", " "): function
        for function in (
            wide_noise_over_the_exact_count,
            multiples_of_the_exact_count,
            steps_with_jitter,
            parity_of_three,
            order_of_numbers,
            seldom_no_number,
            seldom_infinite,
            exact_in_one_case,
            two_that_are_equal_too_often,
            products_of_four,
            a_ring,
            odd_noise,
        )
    },
}


@pytest.mark.family(8)
@pytest.mark.parametrize("name", BROKEN)
def test_what_repeats_or_has_a_structure_is_caught(name):
    draws = 100_000 if name.startswith(("noise of 20", "noise of 18")) else 40_000
    attack = BROKEN[name]().play(draws=draws, error_rate=RARE)
    assert breaks(attack), attack.event


def right_floats(exact, n):
    """Multiples of 2^-20, the same grid for each answer: nothing but the noise shows."""
    return np.rint(exact * 2**20 + np.random.default_rng().laplace(0, 2**20, n)) / 2**20


@pytest.mark.parametrize("columns", [1, 4])
def test_right_noise_on_one_grid_is_not_broken(columns):
    def noisy(exact, n):
        return np.column_stack([right_floats(exact if not column else 0.0, n) for column in range(columns)])

    attack = Game(noisy, 1000.0, 1001.0, "1").play(draws=20_000, error_rate=RARE)
    assert not breaks(attack), attack.event


def test_numbers_stand_for_what_is_no_number():
    rows = np.array([[1.0, np.nan], [np.inf, 3.0], [-np.inf, 2.0]])
    stand = Stand.for_rows(rows)
    assert stand.of(rows).tolist() == [[1.0, stand.nan], [stand.high, 3.0], [stand.low, 2.0]]
    assert stand.nan < stand.low < rows[0, 0] < stand.high
    assert "NaN" in stand.words
    assert not Stand.for_rows(np.array([[1.0]])).words


def test_what_stands_for_no_number_is_told():
    attack = seldom_no_number().play(draws=20_000, error_rate=RARE)
    assert "stands for NaN" in attack.event


def test_without_any_finite_number_there_is_no_game():
    with pytest.raises(ConfigurationError, match="not finite"):
        Game(lambda _, n: np.full(n, np.nan), 0, 1, "1").play(draws=1_000, error_rate=0.05)


def test_denominators_are_the_least():
    assert denominators(np.array([0.5, 1 / 3, 6.0, 4 / 12, 0.123456789, 7 / 40])).tolist() == [2, 3, 1, 3, 0, 40]
