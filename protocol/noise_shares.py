"""The law of a share of discrete Laplace noise, and of a sum of shares.

If h shares add up to one full noise, each has shape 1 / h, and the sum of s of them has shape s / h. The proofs are in
`docs/explanation/noise-shares.md`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.noise import DiscreteLaplace

Floats = NDArray[np.float64]

_DEPTH = 46.0
"""Logarithmic depth at which integrals are cut off: the integrand is exp(-46) = 1e-20 of its peak."""
_NODES = 2**18
"""Most nodes evaluated at a time, over all values; a vector of so many numbers takes 2 MiB."""
_LARGE = 16
"""Argument above which Stirling's series with five terms is accurate to 1e-16."""


@dataclass(frozen=True)
class LaplaceShares:
    """The difference of two independent negative binomials of that shape; success has chance 1 - exp(-1 / scale).

    With shape 1 it is `DiscreteLaplace`. In a sum of independent variables of one scale, the shapes add up (Inusah and
    Kozubowski 2006).

    Raises ValueError: shape or scale is not positive.
    """

    scale: Fraction  # of the discrete Laplace law; positive and exact
    shape: Fraction  # how many whole discrete Laplace noises this amounts to; positive and exact

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.shape <= 0:
            raise ValueError("the scale and the shape of noise must be positive")

    def loss(self, l1: int) -> Fraction:
        """Exact pure epsilon of integers that one unit moves by at most `l1` in L1, each with independent noise.

        It is l1 / scale, as for one full discrete Laplace noise, since any additional noise is independent of the
        records. The bound is tight: the law's tail falls like exp(-|k| / scale) for every shape.

        Raises ValueError: the shape is below 1. Such noise protects far less; `shift_loss` says how much.
        """
        if self.shape < 1:
            raise ValueError("shares that add up to less than one whole noise do not have its loss")
        return DiscreteLaplace(self.scale).loss(l1)

    def shift_loss(self, shift: int) -> float:
        """The smallest epsilon of one integer that one unit moves by `shift` >= 0, right to 1e-12 max(1, epsilon).

        It is shift / scale for shapes of at least 1. Below shape 1, P(k) is log-convex on either side of 0, so the
        ratio of P(k) to P(k + shift) is largest at k = 0. The loss is concave in the shift: integers that move by `l1`
        in L1 together lose at most l1 shift_loss(1), with equality if each moves by 1.
        """
        if self.shape >= 1:
            return float(self.loss(shift))
        at_zero, moved = self.log_pmfs(np.array([0, shift]))
        return float(at_zero - moved)

    def variance(self) -> float:
        """Variance: shape times that of one full noise."""
        return DiscreteLaplace(self.scale).variance(float(self.shape))

    def log_pmf(self, value: int) -> float:
        """Natural logarithm of P(value), with an error of at most 1e-12 max(1, |logarithm|)."""
        return float(self.log_pmfs(np.array([value]))[0])

    def log_pmfs(self, values: NDArray[np.int64]) -> Floats:
        """Natural logarithms of P(value) for (n,) values of magnitude at most 2^53, (n,); about 20 microseconds each.

        With k = |value|, q = exp(-1 / scale), r the shape and w = (1 - q) / (1 + q), P(k) is
            q^k Gamma(k + r) / (sqrt(pi) Gamma(r) Gamma(k + 1/2)) times the integral over all z of
            (1 + (1 - q^2) sinh(z / 2)^2)^-k sqrt(w e^z) (1 + w e^z)^(r - 1) (1 + e^z / w)^-r.
        The integrand is positive, has one peak, and falls exponentially on both sides, so the trapezoidal rule's error
        falls exponentially with the number of nodes (Trefethen and Weideman 2014). `docs/explanation/noise-shares.md`
        derives it.
        """
        if not len(values):
            return np.empty(0)
        places, inverse = np.unique(np.abs(values), return_inverse=True)
        k = places.astype(np.float64)
        logs = _Integral(1.0 / float(self.scale), float(self.shape)).logs(k)
        logs += _log_gammas(k, float(self.shape)) - 0.5 * math.log(math.pi) - k / float(self.scale)
        return np.asarray(logs[inverse], np.float64)

    def tail(self, value: int) -> float:
        """An upper bound of P(|X| >= value); 1 for value <= 0.

        It is the Chernoff bound of `DiscreteLaplace.bound`, 2 (1 - u^2)^-shape exp(-u value / scale), at the best u.
        """
        if value <= 0:
            return 1.0
        shape, far = float(self.shape), float(value / self.scale)
        # (sqrt(r^2 + x^2) - r) / x without cancellation; 1 where x is so large that the float is.
        u = min(far / (math.hypot(shape, far) + shape), 1.0 - 2.0**-53)
        return min(1.0, 2.0 * math.exp(-shape * math.log1p(-u * u) - u * far))

    def bound(self, rate: float, draws: int = 1) -> float:
        """An upper bound of the sum of `draws` independent draws, exceeded with probability at most `rate`."""
        return DiscreteLaplace(self.scale).bound(rate, draws * float(self.shape))

    def simulate(self, generator: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Independent draws, int64 of that shape. They protect nobody, as in `DiscreteLaplace.simulate`."""
        success = -np.expm1(-1.0 / float(self.scale))
        noise: NDArray[np.int64] = np.subtract(*generator.negative_binomial(float(self.shape), success, (2, *shape)))
        return noise


@dataclass(frozen=True)
class _Integral:
    """The integral of `log_pmfs`, for one a = 1 / scale and one shape."""

    a: float
    shape: float

    def logs(self, k: Floats) -> Floats:
        """Logarithm of the integral for (n,) values of k, (n,)."""
        peak = -np.arcsinh((self.shape - 0.5) / ((k + 0.5) * math.sinh(min(self.a, 600.0))))
        top = self.log(k, peak)
        left, right = self._reach(k, peak, top, -1.0), self._reach(k, peak, top, 1.0)
        densities = np.empty_like(k)
        open_ = np.arange(len(k))
        nodes, coarse = 64, np.full(len(k), np.inf)
        while open_.size:
            fine = np.empty(open_.size)
            for start in range(0, open_.size, max(1, _NODES // nodes)):
                batch = open_[start : start + max(1, _NODES // nodes)]
                fine[start : start + len(batch)] = self._trapezoid(
                    k[batch], peak[batch] - left[batch], peak[batch] + right[batch], top[batch], nodes
                )
            densities[open_] = np.log(fine) + top[open_]
            # The error falls exponentially: it is about squared where the nodes are doubled.
            again = np.abs(fine - coarse[open_]) > 1e-10 * fine
            coarse[open_] = fine
            open_, nodes = open_[again], 2 * nodes
        return densities

    def log(self, k: Floats, z: Floats) -> Floats:
        """Logarithm of the integrand."""
        w = math.tanh(self.a / 2.0)
        log_w, grown = math.log(w), -math.expm1(-2.0 * self.a)
        powers = (self.shape - 1.0) * np.log1p(w * np.exp(z)) - self.shape * np.log1p(np.exp(z) / w)
        return np.asarray(0.5 * (log_w + z) + powers - k * np.log1p(grown * np.sinh(z / 2.0) ** 2))

    def _reach(self, k: Floats, peak: Floats, top: Floats, sign: float) -> Floats:
        """Distance from the peak, on one side, at which to cut the integrand off; up to twice what is needed."""
        # About the width of the peak, by the logarithm's second derivative there.
        reach = 1.0 / np.sqrt(2.0 + self.shape + k * -math.expm1(-2.0 * self.a))
        open_ = np.arange(len(k))
        while open_.size:
            reach[open_] *= 2.0
            far = self.log(k[open_], peak[open_] + sign * reach[open_])
            open_ = open_[far > top[open_] - _DEPTH]
        return reach

    def _trapezoid(self, k: Floats, low: Floats, high: Floats, top: Floats, nodes: int) -> Floats:
        """The integral divided by exp(`top`), by the trapezoidal rule with that many nodes."""
        step = (high - low) / (nodes - 1)
        z = low[:, None] + step[:, None] * np.arange(nodes)
        return np.asarray(step * np.exp(self.log(k[:, None], z) - top[:, None]).sum(axis=1))


def _log_gammas(k: Floats, shape: float) -> Floats:
    """Logarithm of Gamma(k + shape) / (Gamma(shape) Gamma(k + 1/2)) for (n,) whole k, (n,).

    It is a product below k = 16. Above, Stirling's series is used with its large terms cancelled analytically.
    """
    j = np.arange(_LARGE)
    small = np.concatenate([[0.0], np.cumsum(np.log((shape + j) / (0.5 + j)))]) - math.lgamma(0.5)
    x, more = np.maximum(k, _LARGE) + 0.5, shape - 0.5
    large = more * np.log(x) + (x + more - 0.5) * np.log1p(more / x) - more
    large += _stirling(x + more) - _stirling(x) - math.lgamma(shape)
    return np.where(k < _LARGE, small[np.minimum(k, _LARGE).astype(np.int64)], large)


def _stirling(x: Floats) -> Floats:
    """The logarithm of Gamma(x) beyond (x - 1/2) log x - x + log(2 pi) / 2 (Abramowitz and Stegun 6.1.41)."""
    y = 1.0 / (x * x)
    return np.asarray((1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x)
