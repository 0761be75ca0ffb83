"""Semismooth Newton methods: on the dual, which has one unknown per row of `A`, and on the entries that are free.

Far from the minimiser the dual method is safe: its line search is exact. Where `alpha` is tiny or 0 it runs inside a
proximal point iteration. As soon as few entries still meet or leave a bound, the same Newton step at the true `alpha`
finishes; it is not safe, so its results count only when their residual says so.
"""

from dataclasses import replace

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from learner_node.solvers.box_problem import BoxProblem, Vector

NEWTON_ITERATIONS = 100
"""Dual Newton steps for one proximal point."""

PROXIMAL_POINTS = 60

FINISHING_STEPS = 12
"""Newton steps at the true `alpha` that are tried from one proximal point."""

# Relative to the mean curvature: the regularisation below which dual Newton alone needs many steps, the factor between
# two proximal points, and the least proximal term that keeps the linear systems solvable in double precision.
_EASY_REGULARISATION = 3e-4
_PROXIMAL_FACTOR = 0.1
_LEAST_PROXIMAL = 1e-11

# Residual of a proximal point relative to that of the point before, the residual from which finishing is tried, and
# the steps in a row that may fail to lower it.
_PROXIMAL_ACCURACY = 0.1
_FINISH_BELOW = 1e-3
_PATIENCE = 3

# Below this regularisation, relative to the mean curvature, the small form of a dual system cancels too many digits.
_LEAST_SMALL_FORM = 1e-6


def solve_by_newton(problem: BoxProblem, start: Vector, tolerance: float) -> tuple[Vector, int]:
    """Dual Newton with proximal points where `alpha` is too small for it alone, finished at the true `alpha`.

    A proximal point minimises the objective plus `rho ||x - previous||^2`: the same problem with a larger `alpha`
    and a moved prior. With `rho` falling geometrically it converges superlinearly, also for `alpha` = 0 (Rockafellar
    1976; with semismooth Newton inside as in Li, Sun and Toh 2018).

    Args:
        problem: the problem.
        start: (n,) a point within the bounds.
        tolerance: stop at this KKT residual.

    Returns:
        The best point and the Newton steps taken.
    """
    gram = _FreeGram(problem)
    rho = _EASY_REGULARISATION * gram.mean_curvature
    x, residual = start, problem.kkt_residual(start, problem.A @ start)
    best, best_residual = x, residual
    iterations = 0
    for _ in range(PROXIMAL_POINTS):
        proximal, accuracy = problem, tolerance / 2
        if problem.alpha < rho:
            alpha = problem.alpha + rho
            proximal = replace(
                problem,
                alpha=alpha,
                prior=(problem.alpha * problem.prior + rho * x) / alpha,
                curvature=problem.curvature + 2 * rho,
            )
            accuracy = max(accuracy, _PROXIMAL_ACCURACY * residual)
        x, used = _dual_newton(proximal, gram, x, accuracy)
        finished, residual, tried = _finish(problem, gram, x, tolerance)
        iterations += used + tried
        if residual < best_residual:
            best, best_residual = finished, residual
        if residual <= tolerance:
            break
        rho = max(_PROXIMAL_FACTOR * rho, gram.least)
    return best, iterations


def _finish(problem: BoxProblem, gram: "_FreeGram", start: Vector, tolerance: float) -> tuple[Vector, float, int]:
    """Newton steps on the natural residual at the true `alpha`, while they help: point, residual, steps.

    The entries that a gradient step would leave at a bound are fixed there, the others minimise the objective (the
    primal-dual active set method of Hintermueller, Ito and Kunisch 2003).
    """
    x = start
    best, best_residual, best_step = start, np.inf, 0
    for step in range(FINISHING_STEPS + 1):
        Ax = problem.A @ x
        gradient = problem.gradient(x, Ax)
        residual = problem.kkt_residual(x, Ax, gradient)
        if residual < best_residual:
            best, best_residual, best_step = x, residual, step
        done = best_residual <= tolerance or best_residual > _FINISH_BELOW
        if done or step == FINISHING_STEPS or step - best_step == _PATIENCE:
            break
        wanted = x - gradient / problem.curvature
        free = (wanted > problem.lower) & (wanted < problem.upper)
        fixed = np.where(free, x, problem.clip(wanted))
        try:
            x = problem.clip(fixed + _free_step(problem, gram, fixed, free))
        except scipy.linalg.LinAlgError:
            break
    return best, best_residual, step


def _free_step(problem: BoxProblem, gram: "_FreeGram", x: Vector, free: NDArray[np.bool_]) -> Vector:
    """(n,) the step to the minimiser over the free entries, 0 elsewhere; a tiny ridge keeps it defined."""
    ridge = max(2 * problem.alpha, gram.least)
    step = np.zeros(len(x))
    if np.count_nonzero(free) < len(problem.b):
        rows = problem.At[free].toarray()
        gradient = problem.gradient(x, problem.A @ x)[free]
        step[free] = -_solve_positive(rows @ rows.T, ridge, gradient)
        return step
    # x + step = centre + A'z on the free entries, where the centre is what the regularisation pulls to.
    pull = (2 * problem.alpha / ridge) * (problem.prior - x)
    pull[~free] = 0.0
    z = _solve_positive(gram.of(free), ridge, problem.b - problem.A @ (x + pull))
    step[free] = (pull + problem.At @ z)[free]
    return step


def _dual_newton(problem: BoxProblem, gram: "_FreeGram", start: Vector, accuracy: float) -> tuple[Vector, int]:
    """Semismooth Newton on the dual with an exact line search, for `alpha` > 0.

    The optimality conditions are `x = clip(prior + A'z)` and `F(z) = 2 alpha z + A x - b = 0`, the gradient of a
    strongly convex piecewise quadratic with the generalised Hessian `2 alpha I + A_F A_F'`, F the entries of x that
    are not at a bound (Qi and Sun 1993).
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
        free = (unclipped > problem.lower) & (unclipped < problem.upper)
        try:
            direction = _dual_direction(problem, gram, free, F)
        except scipy.linalg.LinAlgError:
            break
        slope = At @ direction
        length = _exact_step(problem, z, direction, unclipped, slope)
        if length == 0:
            break
        z += length * direction
        shift += length * slope
    return best, iteration


def _dual_direction(problem: BoxProblem, gram: "_FreeGram", free: NDArray[np.bool_], F: Vector) -> Vector:
    """`-(2 alpha I + A_F A_F')^-1 F`, by the smaller of the two Gram matrices (Woodbury's identity)."""
    ridge = 2 * problem.alpha
    if 2 * np.count_nonzero(free) < len(F) and ridge >= _LEAST_SMALL_FORM * gram.mean_curvature:
        rows = problem.At[free].toarray()
        small: Vector = (rows.T @ _solve_positive(rows @ rows.T, ridge, rows @ F) - F) / ridge
        return small
    return -_solve_positive(gram.of(free), ridge, F)


def _solve_positive(system: Vector, ridge: float, right: Vector) -> Vector:
    """`(system + ridge I)^-1 right`; overwrites `system`."""
    system[np.diag_indices_from(system)] += ridge
    factor = scipy.linalg.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    solution: Vector = scipy.linalg.cho_solve(factor, right, check_finite=False)
    return solution


_DENSE_RATIO = 12
"""Columns with more than one entry in so many are multiplied as a dense matrix; measured."""
_DENSE_BLOCK = 1024


class _FreeGram:
    """`A_F A_F'` for a changing set F: only the columns that enter or leave are multiplied again."""

    def __init__(self, problem: BoxProblem) -> None:
        self.mean_curvature = float(np.mean(problem.curvature))
        self.least = _LEAST_PROXIMAL * self.mean_curvature
        self._At = problem.At
        self._free = np.zeros(self._At.shape[0], dtype=bool)
        self._gram: Vector = np.zeros((self._At.shape[1], self._At.shape[1]))

    def of(self, free: NDArray[np.bool_]) -> Vector:
        """A copy of the Gram matrix of the columns F."""
        changed = free != self._free
        if 2 * np.count_nonzero(changed) > np.count_nonzero(free):
            self._gram = self._product(free)
        elif changed.any():
            self._gram += self._product(free & changed) - self._product(self._free & changed)
        self._free = free
        return self._gram.copy()

    def _product(self, chosen: NDArray[np.bool_]) -> Vector:
        rows = self._At[chosen]
        count, width = rows.shape
        if rows.nnz * _DENSE_RATIO < count * width:
            sparse: Vector = (rows.T @ rows).toarray()
            return sparse
        product = np.zeros((width, width))
        for start in range(0, count, _DENSE_BLOCK):
            block = rows[start : start + _DENSE_BLOCK].toarray()
            product += block.T @ block
        return product


def _exact_step(problem: BoxProblem, z: Vector, direction: Vector, unclipped: Vector, slope: Vector) -> float:
    """The zero t > 0 of the directional derivative, which is piecewise linear and increasing in t.

    It is `direction @ (2 alpha (z + t direction) - b) + slope @ clip(unclipped + t slope)`: it bends where an entry
    meets a bound, so the zero lies on the one linear piece that the sorted meeting points enclose.
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
