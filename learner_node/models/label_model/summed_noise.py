"""The law of the noise in a sum of answers: of m discrete Laplace variables, m not always whole.

Whole noises are summed where every curator adds its own. In a secure sum each of s curators adds a share of 1 / h,
which makes s / h noises: the difference of two negative binomials with shape s / h (`protocol.noise_shares`).
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from protocol.noise import DiscreteLaplace

Floats = NDArray[np.float64]
Noises = float | tuple[float, float]
"""Number of noises in a count, at least 1; or, where they differ, in that of label 0 and in that of label 1."""

SMALLEST_SCALE = 0.05
"""A smaller scale is taken as this one. It leaves all but 4e-9 of the noise at zero: exact counts need no case of their
own, and impossible ones (negative, say) still have a likelihood."""
_LARGEST_SCALE = 1000.0
"""Above it a fractional law is that of this scale, stretched. Measured for 1.05 to 50 noises: the logarithms differ by
2e-5 at 0 and by 1e-6 elsewhere."""
_REST = 1e-17
_MOST_TABLE = 10**6


def noise_law(scale: float) -> DiscreteLaplace:
    """The law of one noise in the likelihood: a scale below 0.05 (0 is no noise) is taken as 0.05."""
    return DiscreteLaplace(Fraction(max(scale, SMALLEST_SCALE)))


def noises_by_label(noises: Noises) -> tuple[float, float]:
    """Number of noises in the counts of label 0 and of label 1, from one number for both or from both."""
    return noises if isinstance(noises, tuple) else (noises, noises)


def pair_variance(scale: float, noises: Noises) -> float:
    """Variance of the noise in the sum of a cell's two counts."""
    return sum(noise_law(scale).variance(number) for number in noises_by_label(noises))


def noise_log_pmf(values: NDArray[np.int64], scale: float, noises: float) -> Floats:
    """Return log P(sum of `noises` independent discrete Laplace variables = value).

    The sum is a difference of two negative binomials. Its mass at n >= 0, with q = exp(-1 / scale), is
    (1-q)^2m q^n C(n+m-1, n) 2F1(m, n+m; n+1; q^2); for whole m Pfaff's transformation (Abramowitz & Stegun 15.3.4)
    makes the series finite with positive terms only, so that nothing cancels. For others see `_fractional`.

    Args:
        values: int64, any shape.
        scale: Scale of one variable; below 0.05 (zero included) it is taken as 0.05.
        noises: Number m of variables, at least 1.

    Returns:
        float64 of the shape of `values`, finite.
    """
    if not float(noises).is_integer():
        return _fractional(values, scale, float(noises))
    log_ratio = -1.0 / max(scale, SMALLEST_SCALE)
    n = np.abs(values).astype(np.float64)[..., None]
    j = np.arange(noises, dtype=np.float64)
    log_one_minus_square = np.log(-np.expm1(2.0 * log_ratio))
    series = logsumexp(
        gammaln(noises + j)
        - gammaln(noises - j)
        - gammaln(j + 1.0)
        + gammaln(n + 1.0)
        - gammaln(n + 1.0 + j)
        + j * (2.0 * log_ratio - log_one_minus_square),
        axis=-1,
    )
    n = n[..., 0]
    log_pmf: Floats = (
        2.0 * noises * np.log(-np.expm1(log_ratio))
        - noises * log_one_minus_square
        + n * log_ratio
        + gammaln(n + noises)
        - gammaln(n + 1.0)
        - gammaln(noises)
        + series
    )
    return log_pmf


def _fractional(values: NDArray[np.int64], scale: float, noises: float) -> Floats:
    """`noise_log_pmf` for a number of noises that is not whole, read off a table.

    Up to a scale of 1000 the table is the law itself. Above, the law of scale 1000 stands for it, with values divided
    by scale / 1000 and its logarithm taken as linear between whole values. Beyond 10^6 values of the table the
    logarithm goes on as it ends there.
    """
    table_scale = min(max(scale, SMALLEST_SCALE), _LARGEST_SCALE)
    stretch = max(scale, SMALLEST_SCALE) / table_scale
    place = np.abs(values) / stretch
    top = int(min(max(float(place.max(initial=0.0)), noise_law(table_scale).bound(_REST, noises)), _MOST_TABLE)) + 2
    table = _table(table_scale, noises, 1 << top.bit_length())
    log_pmf: Floats = np.interp(place, np.arange(len(table)), table) - np.log(stretch)
    beyond = np.maximum(place - (len(table) - 1), 0.0)
    log_pmf += beyond * (table[-1] - table[-2])
    return log_pmf


@lru_cache(maxsize=64)
def _table(scale: float, noises: float, top: int) -> Floats:
    """Logarithms of the law at 0 ... top; float64 (top + 1,).

    The generating function G = ((1-q)^2 / ((1-qz)(1-q/z)))^m solves (1-qz)(z-q) z G' = m q (z^2 - 1) G, so its
    coefficients c_n obey q (n+1-m) c_{n+1} = (1+q^2) n c_n - q (n-1+m) c_{n-1}. Of the two solutions the law is the one
    that falls: its ratios r_n = c_n / c_{n-1} follow from each other downwards, where errors shrink by q^2 a step
    (Miller's algorithm; Gautschi 1967). The whole adds up to 1, which gives c_0.
    """
    q = float(np.exp(-1.0 / scale))
    ratio = q
    ratios = np.empty(top)
    for n in range(top + int(20.0 * scale) + 20, 0, -1):
        ratio = q * (n - 1.0 + noises) / ((1.0 + q * q) * n - q * (n + 1.0 - noises) * ratio)
        if n <= top:
            ratios[n - 1] = ratio
    rising = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    shifted: Floats = rising - np.log(2.0 * np.exp(rising).sum() - 1.0)
    return shifted
