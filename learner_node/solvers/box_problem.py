"""The convex problem behind Pb. 1 and Pb. 2, its optimality certificate, and a Newton solver.

The solver is semismooth Newton on the dual, which has one unknown per row of `A`, inside proximal points if `alpha` is
tiny. Its exact line search makes it converge from any start; near the minimiser it takes full steps.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class BoxProblem:
    """`min 1/2 ||A x - b||^2 + alpha ||x - prior||^2` over `lower <= x <= upper`, with quantities all methods need."""

    A: scipy.sparse.csr_matrix  # (K, n) CSR; few rows, many columns
    At: scipy.sparse.csr_matrix  # its transpose, CSR
    b: Vector  # (K,) right-hand side
    alpha: float  # finite and >= 0
    prior: Vector  # (n,) centre of the regularisation
    lower: float  # bound of every unknown
    upper: float  # bound of every unknown; may be infinite
    # (n,) row sums of |A|'|A| + 2 alpha I, all positive. As a diagonal matrix they dominate the Hessian: a step size
    # for each coordinate, without an estimate of the largest eigenvalue.
    curvature: Vector
    magnitude_b: float  # the largest entry of |A|'|b|

    @classmethod
    def of(
        cls, A: scipy.sparse.csr_matrix, b: Vector, *, alpha: float, prior: Vector, lower: float, upper: float
    ) -> "BoxProblem":
        """The problem with its derived quantities."""
        At = scipy.sparse.csr_matrix(A.T)
        magnitude = scipy.sparse.csr_matrix((np.abs(At.data), At.indices, At.indptr), shape=At.shape)
        curvature = magnitude @ (magnitude.T @ np.ones(A.shape[1])) + 2 * alpha
        curvature[curvature == 0] = 1.0  # an all-zero column without alpha has no gradient, so any step serves
        magnitude_b = float(np.max(magnitude @ np.abs(b)))
        return cls(A, At, b, float(alpha), prior, lower, upper, curvature, magnitude_b)

    def clip(self, x: Vector) -> Vector:
        """The nearest point within the bounds."""
        nearest: Vector = np.maximum(x, self.lower)
        return nearest if np.isinf(self.upper) else np.minimum(nearest, self.upper, out=nearest)

    def objective(self, x: Vector, Ax: Vector) -> float:
        """The objective at x; `Ax` is the product A x."""
        residual, distance = Ax - self.b, x - self.prior
        return float(0.5 * (residual @ residual) + self.alpha * (distance @ distance))

    def gradient(self, x: Vector, Ax: Vector) -> Vector:
        """(n,) gradient of the objective."""
        gradient: Vector = self.At @ (Ax - self.b)
        return gradient + 2 * self.alpha * (x - self.prior) if self.alpha else gradient

    def kkt_residual(self, x: Vector, Ax: Vector) -> float:
        """Natural residual in units of the gradient, relative to the terms summed in one gradient entry."""
        step = x - self.clip(x - self.gradient(x, Ax) / self.curvature)
        scale = max(
            self.magnitude_b,
            float(np.max(self.curvature * np.abs(x))),
            2 * self.alpha * float(np.max(np.abs(self.prior))),
        )
        violation = float(np.max(self.curvature * np.abs(step)))
        return violation / scale if scale > 0 else violation


NEWTON_ITERATIONS = 100
"""Most dual Newton steps for one proximal point."""

PROXIMAL_POINTS = 60

# Relative to the mean curvature: the regularisation below which dual Newton alone needs many steps, the factor between
# two proximal points, and the least proximal term that keeps the linear systems solvable in double precision.
_EASY_REGULARISATION = 3e-4
_PROXIMAL_FACTOR = 0.1
_LEAST_PROXIMAL = 1e-11

_PROXIMAL_ACCURACY = 0.1
"""Target residual of a proximal point, relative to the previous point's residual."""


def solve_by_newton(problem: BoxProblem, start: Vector, tolerance: float) -> tuple[Vector, int]:
    """Dual Newton, with proximal points where `alpha` is too small for it alone.

    A proximal point minimises the objective plus `rho ||x - previous||^2`: the same problem with a larger `alpha` and a
    moved prior. With `rho` falling geometrically it converges superlinearly, also for `alpha` = 0 (Rockafellar 1976;
    with semismooth Newton inside as in Li, Sun and Toh 2018).

    It starts at `start`, (n,) within the bounds, stops at the KKT residual `tolerance`, and returns the best point and
    the number of Newton steps.
    """
    curvature = float(np.mean(problem.curvature))
    rho = _EASY_REGULARISATION * curvature
    x, residual = start, problem.kkt_residual(start, problem.A @ start)
    best, best_residual = x, residual
    iterations = 0
    for _ in range(PROXIMAL_POINTS):
        proximal, accuracy = problem, tolerance
        if problem.alpha < rho:
            alpha = problem.alpha + rho
            proximal = replace(
                problem,
                alpha=alpha,
                prior=(problem.alpha * problem.prior + rho * x) / alpha,
                curvature=problem.curvature + 2 * rho,
            )
            accuracy = max(tolerance / 2, _PROXIMAL_ACCURACY * residual)
        x, used = _dual_newton(proximal, x, accuracy)
        iterations += used
        residual = problem.kkt_residual(x, problem.A @ x)
        if residual < best_residual:
            best, best_residual = x, residual
        if residual <= tolerance:
            break
        rho = max(_PROXIMAL_FACTOR * rho, _LEAST_PROXIMAL * curvature)
    return best, iterations


def _dual_newton(problem: BoxProblem, start: Vector, accuracy: float) -> tuple[Vector, int]:
    """Newton steps on the dual with an exact line search, for `alpha` > 0; returns the best point and the step count.

    The optimality conditions are `x = clip(prior + A'z)` and `F(z) = 2 alpha z + A x - b = 0`. F is the gradient of a
    strongly convex, piecewise quadratic function with generalised Hessian `2 alpha I + A_F A_F'`, where the columns F
    are the entries of x that are not at a bound (Qi and Sun 1993).
    """
    A, At = problem.A, problem.At
    # The z that belongs to `start` in the optimality conditions: near the minimiser it keeps the bounds that are met.
    z = (problem.b - A @ start) / (2 * problem.alpha)
    shift = At @ z
    best, best_residual = start, np.inf
    for iteration in range(NEWTON_ITERATIONS + 1):
        unclipped = problem.prior + shift
        x = problem.clip(unclipped)
        Ax = A @ x
        residual = problem.kkt_residual(x, Ax)
        if residual < best_residual:
            best, best_residual = x, residual
        if residual <= accuracy or iteration == NEWTON_ITERATIONS:
            break
        F = 2 * problem.alpha * z + Ax - problem.b
        free = At[(unclipped > problem.lower) & (unclipped < problem.upper)]
        hessian = (free.T @ free).toarray()
        hessian[np.diag_indices_from(hessian)] += 2 * problem.alpha
        try:
            factor = scipy.linalg.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            break
        direction = scipy.linalg.cho_solve(factor, -F, check_finite=False)
        slope = At @ direction
        length = _exact_step(problem, z, direction, unclipped, slope)
        if length == 0:
            break
        z += length * direction
        shift += length * slope
    return best, iteration


def _exact_step(problem: BoxProblem, z: Vector, direction: Vector, unclipped: Vector, slope: Vector) -> float:
    """The zero t > 0 of the directional derivative, which is piecewise linear and increasing in t.

    The derivative is `direction @ (2 alpha (z + t direction) - b) + slope @ clip(unclipped + t slope)`. It bends where
    an entry meets a bound, so its zero lies on the linear piece between two neighbouring bends.
    """
    base = direction @ (2 * problem.alpha * z - problem.b)
    value = base + slope @ problem.clip(unclipped)
    least_rate = 2 * problem.alpha * (direction @ direction)
    if not (value < 0 and least_rate > 0):
        return 0.0
    # Mostly the zero lies before 1, and the meeting points beyond it need no sorting.
    at_one = base + least_rate + slope @ problem.clip(unclipped + slope)
    horizon = 1.0 if at_one > 0 else np.inf
    moving = slope != 0
    v, u = slope[moving], unclipped[moving]
    with np.errstate(over="ignore"):
        at_lower, at_upper = (problem.lower - u) / v, (problem.upper - u) / v
    enter, leave = np.minimum(at_lower, at_upper), np.maximum(at_lower, at_upper)
    rate = least_rate + np.sum(v[(enter <= 0) & (leave > 0)] ** 2)
    later_in = (enter > 0) & (enter <= horizon) & np.isfinite(enter)
    later_out = (leave > 0) & (leave <= horizon) & np.isfinite(leave)
    times = np.concatenate([enter[later_in], leave[later_out]])
    changes = np.concatenate([v[later_in] ** 2, -(v[later_out] ** 2)])
    order = np.argsort(times)
    starts = np.concatenate([[0.0], times[order]])
    rates = np.maximum(rate + np.concatenate([[0.0], np.cumsum(changes[order])]), least_rate)
    values = value + np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(starts))])
    piece = int(np.searchsorted(values, 0.0, side="right")) - 1
    return float(starts[piece] - values[piece] / rates[piece])
