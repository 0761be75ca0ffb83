"""How large a privacy loss some draws prove."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri


def loss_bound(more: int, fewer: int, draws: tuple[int, int], error_rate: float) -> float:
    """A lower bound on ln(P / Q), P and Q the chances of one event under two inputs.

    The lower end of P and the upper end of Q are Clopper and Pearson's (1934), each at half the error rate, so that
    the bound is above the truth with a probability of at most `error_rate`.

    Args:
        more: how often the event came under the input with P.
        fewer: how often it came under the one with Q.
        draws: independent, from either input.
        error_rate: in (0, 1).

    Returns:
        The bound; minus infinity where the event never came under the first input.
    """
    (first, second), each = draws, error_rate / 2
    if not more:
        return -math.inf
    lower = float(betaincinv(more, first - more + 1, each))
    upper = 1.0 if fewer == second else float(betainccinv(fewer + 1, second - fewer, each))
    return math.log(lower / upper)


def promise(
    more: NDArray[np.float64], fewer: NDArray[np.float64], draws: int, error_rate: float
) -> NDArray[np.float64]:
    """What many events promise, for choosing among them only: about `loss_bound`, 10 higher, where that is positive.

    Where no bound would be positive, a hundredth of the ratio's logarithm in standard errors, so that the event nearest
    to a proof is still found. A share's arcsine is nearly normal with variance 1 / (4 n) (Anscombe 1948).

    Args:
        more: (m,) counts.
        fewer: (m,) counts under the other input.
        draws: from either input.
        error_rate: the smaller, the less a lucky rare event is liked.
    """
    width = -float(ndtri(error_rate / 2)) / (2 * math.sqrt(draws))
    lower = np.sin(np.maximum(np.arcsin(np.sqrt(more / draws)) - width, 0)) ** 2
    upper = np.sin(np.minimum(np.arcsin(np.sqrt(np.minimum((fewer + 1) / draws, 1))) + width, np.pi / 2)) ** 2
    bounds = np.log(np.maximum(lower, 1e-300) / upper)
    one, two = np.maximum(more, 0.5), fewer + 1
    errors = np.log(one / two) / np.sqrt(np.maximum(1 / one + 1 / two - 2 / draws, 1 / draws))
    return np.asarray(np.where(bounds > 0, 10 + bounds, np.minimum(errors / 100, 1)))
