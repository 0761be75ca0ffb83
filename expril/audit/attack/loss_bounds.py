"""Lower bounds on the loss that the counts of one event prove, and the score by which events are chosen.

The counts are binomial: X of n draws with probability P under the input that the event favours, Y of m draws with
probability Q under the other. A mechanism that is (epsilon, delta)-differentially private has P <= e^epsilon Q + delta.

*Frequent events.* A point (P, Q) is rejected where two exact tests, u = P(X' >= X) at P and v = P(Y' <= Y) at Q, are
together too small: where a z(u) + b z(v) >= z(alpha), with z(u) the point above which a normal number lies with
probability u, and fixed a and b, a^2 + b^2 = 1 (Stouffer 1949). At the true point u and v are independent, and each is
at most as likely to be small as a uniform number is. So a z(u) + b z(v) is at most as likely to be large as a normal
number, and the true point is rejected with a probability of at most alpha. The bound is the least epsilon whose region
P <= e^epsilon Q + delta holds a point that is not rejected; the regions are nested. Points far from both counts need
no such test (Berger and Boos 1994): a part of the error rate rejects P outside of its own limits, and Q above its own.

*Rare events, delta 0.* Given X + Y, the law of X depends on the odds ratio P (1 - Q) / (Q (1 - P)) alone, in which it
rises (Fisher 1935, Cornfield 1956). This bounds the odds ratio from below. P / Q is at least the odds ratio times
1 - P, and a part of the error rate bounds P from above.

Which of the two is used follows from what is expected, and so never from the counts.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betainccinv, betaincinv, gammaln, ndtri

_LIMITS = 1 / 50
"""Share of the error rate for the limits of P and Q by themselves."""
_STEPS, _HALVINGS = 400, 40
_RARE, _FEW = 0.02, 50
"""The odds ratio serves events of at most this P that come at most so often, as expected, under the other input."""
_UNKNOWN = (math.exp(-1), math.exp(-2))


def loss_bound(
    more: int,
    fewer: int,
    draws: tuple[int, int],
    error_rate: float,
    *,
    delta: float = 0.0,
    expected: tuple[float, float] = _UNKNOWN,
) -> float:
    """A lower bound on ln((P - delta) / Q), where P and Q are the probabilities of one event under two inputs.

    The bound is above the truth with a probability of at most `error_rate`, whatever P and Q are. The module says why.

    Args:
        more: draws in the event, of the input with P.
        fewer: draws in the event, of the input with Q.
        draws: independent draws of each input.
        error_rate: in (0, 1).
        delta: in [0, 1).
        expected: P, and the Q to be told from it, from other draws than these. The bound is valid for any, and sharp
            if they are about right.

    Returns:
        The bound; minus infinity if the counts prove none.
    """
    if not more or fewer == draws[1]:
        return -math.inf
    if not delta and expected[0] <= _RARE and expected[1] * draws[1] <= _FEW:
        return _bound_by_odds(more, fewer, draws, error_rate)
    return _bound_by_points(more, fewer, draws, error_rate, delta, expected)


def _bound_by_odds(more: int, fewer: int, draws: tuple[int, int], error_rate: float) -> float:
    first, second = draws
    highest = _upper(more, first, error_rate * _LIMITS)
    total = more + fewer
    counts = np.arange(max(0, total - second), min(first, total) + 1)
    ways = -sum(gammaln(part + 1) for part in (counts, first - counts, total - counts, second - total + counts))
    ways -= ways.max()

    def tail(odds: float) -> float:
        terms = ways + counts * odds
        terms = np.exp(terms - terms.max())
        return float(terms[counts >= more].sum() / terms.sum())

    low, high = -60.0, 60.0  # logarithms of odds ratios
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) <= error_rate * (1 - _LIMITS) else (low, middle)
    return low + math.log1p(-highest) if highest < 1 else -math.inf


def _bound_by_points(
    more: int, fewer: int, draws: tuple[int, int], error_rate: float, delta: float, expected: tuple[float, float]
) -> float:
    (first, second), part = draws, error_rate * _LIMITS / 3
    lowest, highest = _lower(more, first, part), _upper(more, first, part)
    most = _upper(fewer, second, part)
    if lowest <= delta:
        return -math.inf
    weight, other_weight = _weights(expected, draws, delta)
    # Between two values of P, u is at most that of the upper one; between two of Q, v at most that of the lower one.
    chances = np.linspace(lowest, highest, _STEPS + 1)
    tails = weight * -ndtri(betainc(more, first - more + 1, chances[1:]))
    least = 0.0 if not fewer else _lower(fewer, second, part)
    others = np.concatenate(([0.0], np.linspace(least, most, _STEPS)))
    other_tails = other_weight * -ndtri(betaincc(fewer + 1, second - fewer, others))
    needed = -float(ndtri(error_rate * (1 - _LIMITS)))
    # At `low` all of the region is beyond the limits of P and Q, and so it is rejected.
    low = math.log((lowest - delta) / most)
    high = math.log((highest - delta) / max(least, 0.01 / second))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        edge = (chances[:-1] - delta) * math.exp(-middle)
        places = np.searchsorted(others, edge, side="right") - 1
        rejected = (edge > most) | (tails + other_tails[places] >= needed)
        low, high = (middle, high) if rejected.all() else (low, middle)
    return low


def _weights(expected: tuple[float, float], draws: tuple[int, int], delta: float) -> tuple[float, float]:
    """Return a and b: in proportion to the standard errors of P, and of Q times the slope of the region's edge."""
    chance, other = (
        min(max(share, 0.5 / count), 1 - 0.5 / count) for share, count in zip(expected, draws, strict=True)
    )
    slope = max(chance - delta, 0.1 * chance) / other
    error = math.sqrt(chance * (1 - chance) / draws[0])
    other_error = slope * math.sqrt(other * (1 - other) / draws[1])
    size = math.hypot(error, other_error)
    return error / size, other_error / size


def _lower(count: int, draws: int, error_rate: float) -> float:
    """Clopper and Pearson's lower limit of a probability (1934); the count is above 0."""
    return float(betaincinv(count, draws - count + 1, error_rate))


def _upper(count: int, draws: int, error_rate: float) -> float:
    return 1.0 if count == draws else float(betainccinv(count + 1, draws - count, error_rate))


def promise(
    more: NDArray[np.float64], fewer: NDArray[np.float64], draws: int, error_rate: float, delta: float = 0.0
) -> NDArray[np.float64]:
    """Return (m,) scores of events, of which the best is chosen: about `loss_bound` plus 10 if that is positive.

    Otherwise the score is a hundredth of the difference P - Q - delta in standard errors, so that the event nearest to
    a proof still wins. The bound is that of two Poisson counts, by Paulson's approximation (1942) of a quantile of F;
    binomial counts vary less, which shrinks the normal quantile.

    `more`: (m,) counts under the input that each event favours; `fewer`: (m,) counts under the other input; `draws`: of
    each input; `error_rate`: the smaller it is, the lower rare events score, as they may come often by chance.
    """
    quantile = -float(ndtri(error_rate))
    more, fewer = np.minimum(more, draws), np.minimum(fewer, draws)
    surplus = np.maximum(more - delta * draws, 1e-9)
    steady = surplus * surplus / np.maximum(more, 1e-9)  # the Poisson count whose relative error is that of the surplus
    square = quantile**2 * np.maximum(1 - 2 * more * fewer / (draws * np.maximum(more + fewer, 1)), 1 / draws)
    c, d = 1 / (9 * (fewer + 1)), 1 / (9 * np.maximum(steady, 1e-3))
    under = (1 - d) ** 2 - d * square
    root = np.sqrt(np.maximum((1 - c) ** 2 * d + (1 - d) ** 2 * c - c * d * square, 0))
    cube = ((1 - c) * (1 - d) + np.sqrt(square) * root) / np.maximum(under, 1e-9)
    # the approximation has no meaning for less than one ninth of a count, such as an event that delta has for free
    bounds = np.where(
        (under > 0) & (d < 1), np.log(surplus / (fewer + 1)) - 3 * np.log(np.maximum(cube, 1e-9)), -np.inf
    )
    chance, other = more / draws, (fewer + 0.5) / draws
    spread = np.sqrt(np.maximum(chance * (1 - chance) + other * np.maximum(1 - other, 0), 1 / draws) / draws)
    errors = (chance - other - delta) / spread
    return np.asarray(np.where(bounds > 0, 10 + bounds, np.minimum(errors / 100, 1)))
