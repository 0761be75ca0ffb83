"""Certified solvers of the two convex problems of ExPriL: source weights (Pb. 1) and source labels (Pb. 2).

Both are one problem, `min 1/2 ||A x - b||^2 + alpha ||x - prior||^2` over a box, with a sparse `A` of few rows and
many columns. A few accelerated projected gradient steps solve it where `alpha` is large. Otherwise a semismooth Newton
method goes on; it works on the dual, which has one unknown per row of `A`, inside a proximal point iteration where
`alpha` is tiny or 0. Should it miss the tolerance, more gradient steps follow. No method is believed: every returned
`Solution` carries the residual of its optimality conditions, computed from `x` alone, and a residual above the
tolerance raises `NotConvergedError`.

Building bins, asking for answers and making the answers consistent are not handled here. The equations are those of
`expril_full_paper`, sections 3.2 and 3.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

DEFAULT_TOLERANCE = 1e-12
"""Largest accepted `Solution.kkt_residual`. At 1e-10 a small `alpha` may still be without effect on `x`."""

NEWTON_ROWS = 2_000
"""Above this many rows of `A` the dense dual systems cost more than gradient steps, which are then tried first."""

NEWTON_ITERATIONS = 100
"""Newton steps for one proximal point."""

PROXIMAL_POINTS = 60
GRADIENT_ITERATIONS = 50_000

WARM_UP_ITERATIONS = 100
"""Gradient steps before Newton: the cost of a few Newton steps, and enough where `alpha` is large."""

# Relative to the mean curvature: the regularisation below which Newton alone needs many steps, the factor between
# two proximal points, and the least proximal term that keeps the dual systems solvable in double precision.
_EASY_REGULARISATION = 1e-4
_PROXIMAL_FACTOR = 0.3
_LEAST_PROXIMAL = 1e-11

_CHECK_EVERY = 10

Vector = NDArray[np.float64]


class NotConvergedError(ArithmeticError):
    """No method reached the tolerance.

    Attributes:
        kkt_residual: the smallest residual that was reached.
        tolerance: the residual that was asked for.
    """

    def __init__(self, kkt_residual: float, tolerance: float) -> None:
        super().__init__(f"KKT residual {kkt_residual:.3g} stays above the tolerance {tolerance:.3g}")
        self.kkt_residual = kkt_residual
        self.tolerance = tolerance


@dataclass(frozen=True)
class Solution:
    """A minimiser with the evidence that it is one.

    Attributes:
        x: (n,) float64, inside the bounds exactly.
        objective: value of the printed objective at `x`, regularisation included.
        kkt_residual: at most the tolerance that was asked for. With the gradient g of the objective and the row
            sums c of |A|'|A| + 2 alpha I, which dominate the Hessian, it is the largest c |x - clip(x - g / c)|
            relative to the largest of |A|'|b|, c |x| and 2 alpha |prior|, the terms that g is a sum of. It does not
            change when the data, the unknowns or the objective are rescaled, and is 0 exactly at the minimisers.
        iterations: iterations of all the methods that ran.
        method: "newton" or "gradient", the one that reached the tolerance.
    """

    x: Vector
    objective: float
    kkt_residual: float
    iterations: int
    method: str


@dataclass(frozen=True)
class LabelSystem:
    """One answered hypothesis as linear equations `A y = b` on the labels (Eq. 5).

    Attributes:
        A: (K, n) CSR float64, `R diag(w) diag(sign(h - 1/2))`.
        b: (K,) float64, `R diag(w) h - (R diag(w) 1) * q`.
    """

    A: scipy.sparse.csr_matrix
    b: Vector


@dataclass(frozen=True)
class _Problem:
    """`min 1/2 ||A x - b||^2 + alpha ||x - prior||^2` over `lower <= x <= upper`, with what every method needs."""

    A: scipy.sparse.csr_matrix
    At: scipy.sparse.csr_matrix
    b: Vector
    alpha: float
    prior: Vector
    lower: float
    upper: float
    curvature: Vector
    magnitude_b: float

    def clip(self, x: Vector) -> Vector:
        return np.clip(x, self.lower, self.upper)

    def objective(self, x: Vector, Ax: Vector) -> float:
        residual, distance = Ax - self.b, x - self.prior
        return float(0.5 * (residual @ residual) + self.alpha * (distance @ distance))

    def gradient(self, x: Vector, Ax: Vector) -> Vector:
        gradient: Vector = self.At @ (Ax - self.b)
        return gradient + 2 * self.alpha * (x - self.prior) if self.alpha else gradient

    def kkt_residual(self, x: Vector, Ax: Vector) -> float:
        """Natural residual in units of the gradient, relative to the terms of which one gradient entry is the sum."""
        step = x - self.clip(x - self.gradient(x, Ax) / self.curvature)
        scale = max(
            self.magnitude_b,
            float(np.max(self.curvature * np.abs(x))),
            2 * self.alpha * float(np.max(np.abs(self.prior))),
        )
        violation = float(np.max(self.curvature * np.abs(step)))
        return violation / scale if scale > 0 else violation


def solve_weights(
    R: scipy.sparse.csr_matrix,
    p: ArrayLike,
    *,
    alpha: float,
    prior: ArrayLike,
    row_weights: ArrayLike | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Solution:
    """Solve Pb. 1: `w = argmin_{w >= 0} 1/2 ||R w - p||^2 + alpha ||w - prior||^2` (Eq. 2).

    Args:
        R: (K, n) sparse matrix; row k marks the source records in bin k.
        p: (K,) noisy masses of the bins. Negative and inconsistent values are allowed.
        alpha: regularisation, finite and >= 0. With 0 the minimiser is not unique and one of them is returned.
        prior: scalar or (n,); the paper takes 1/n, or n'/n where `p` are counts of n' records.
        row_weights: (K,) positive factors of the rows of `R w - p`, the inverse noise deviations; None is 1.
        tolerance: largest accepted KKT residual.

    Returns:
        The weights `x` >= 0 and their certificate.

    Raises:
        ValueError: on wrong shapes, non-finite values, a negative `alpha` or a `row_weights` that is not positive.
        NotConvergedError: when the tolerance is not reached.
    """
    A, b = _weighted_rows(_as_matrix(R, "R"), p, row_weights, "p")
    return _solve(A, b, alpha=alpha, prior=prior, upper=np.inf, tolerance=tolerance)


def label_system(
    R: scipy.sparse.csr_matrix,
    w: ArrayLike,
    h: ArrayLike,
    q: ArrayLike,
    *,
    row_weights: ArrayLike | None = None,
) -> LabelSystem:
    """Build the equations that one answered hypothesis puts on the labels (Eq. 5).

    Args:
        R: (K, n) sparse matrix; row k marks the source records in bin k.
        w: (n,) weights >= 0 of the source records.
        h: (n,) predictions of the hypothesis on the source records, each 0 or 1.
        q: (K,) noisy fractions of errors in each bin; not clipped here.
        row_weights: (K,) positive factors of the equations, the inverse noise deviations; None is 1.

    Returns:
        The system `A y = b`.

    Raises:
        ValueError: on wrong shapes, non-finite values, a negative weight, or a prediction other than 0 and 1.
    """
    matrix = _as_matrix(R, "R")
    n = matrix.shape[1]
    weights, predictions = _as_vector(w, n, "w"), _as_vector(h, n, "h")
    fractions = _as_vector(q, matrix.shape[0], "q")
    if np.any(weights < 0):
        raise ValueError("w must not be negative")
    if not np.all((predictions == 0) | (predictions == 1)):
        raise ValueError("h must hold only 0 and 1")
    signed = weights * np.where(predictions > 0.5, 1.0, -1.0)
    A = scipy.sparse.csr_matrix(matrix @ scipy.sparse.diags(signed))
    b = matrix @ (weights * predictions) - (matrix @ weights) * fractions
    return LabelSystem(*_weighted_rows(A, b, row_weights, "b"))


def solve_labels(
    systems: Sequence[LabelSystem],
    *,
    alpha: float,
    prior: ArrayLike = 0.5,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Solution:
    """Solve Pb. 2: `y = argmin_{y in [0,1]^n} 1/2 sum_t ||A_t y - b_t||^2 + alpha ||y - prior||^2` (Eq. 5 and 6).

    Args:
        systems: the answered hypotheses. One is I-ExPriL (Eq. 5), all so far is C-ExPriL (Eq. 6).
        alpha: regularisation, finite and >= 0. With 0 the minimiser is not unique and one of them is returned.
        prior: scalar or (n,); the labels towards which `alpha` pulls.
        tolerance: largest accepted KKT residual.

    Returns:
        The labels `x` in [0, 1] and their certificate.

    Raises:
        ValueError: without a system, on wrong shapes, non-finite values or a negative `alpha`.
        NotConvergedError: when the tolerance is not reached.
    """
    if not systems:
        raise ValueError("at least one system is needed")
    if len({system.A.shape[1] for system in systems}) != 1:
        raise ValueError("all systems must have the same number of records")
    blocks = [_as_matrix(system.A, "A") for system in systems]
    b = np.concatenate([_as_vector(system.b, system.A.shape[0], "b") for system in systems])
    A = scipy.sparse.csr_matrix(scipy.sparse.vstack(blocks))
    return _solve(A, b, alpha=alpha, prior=prior, upper=1.0, tolerance=tolerance)


def _solve(
    A: scipy.sparse.csr_matrix,
    b: Vector,
    *,
    alpha: float,
    prior: ArrayLike,
    upper: float,
    tolerance: float,
) -> Solution:
    if not (np.isfinite(alpha) and alpha >= 0):
        raise ValueError(f"alpha must be finite and not negative, got {alpha}")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must lie between 0 and 1, got {tolerance}")
    n = A.shape[1]
    centre = np.asarray(prior, dtype=np.float64)
    centre = _as_vector(np.full(n, centre) if centre.ndim == 0 else centre, n, "prior")
    magnitude = abs(A)
    # A'A is dominated by the diagonal of the row sums of |A|'|A|: a step size for each coordinate, without an
    # estimate of the largest eigenvalue. An all-zero column without alpha has no gradient, so any step serves.
    curvature = magnitude.T @ (magnitude @ np.ones(n)) + 2 * alpha
    curvature[curvature == 0] = 1.0
    problem = _Problem(
        A=A,
        At=scipy.sparse.csr_matrix(A.T),
        b=b,
        alpha=float(alpha),
        prior=centre,
        lower=0.0,
        upper=upper,
        curvature=curvature,
        magnitude_b=float(np.max(magnitude.T @ np.abs(b))),
    )
    x, residual = problem.clip(centre), np.inf
    iterations = 0
    for name, method in _methods(A.shape[0]):
        candidate, used = method(problem, x, tolerance)
        iterations += used
        Ax = A @ candidate
        candidate_residual = problem.kkt_residual(candidate, Ax)
        if candidate_residual < residual:
            x, residual = candidate, candidate_residual
        if residual <= tolerance:
            return Solution(x, problem.objective(x, A @ x), residual, iterations, name)
    raise NotConvergedError(residual, tolerance)


Method = Callable[[_Problem, Vector, float], tuple[Vector, int]]


def _methods(rows: int) -> tuple[tuple[str, Method], ...]:
    """The methods to try in turn, each from the best point so far."""
    if rows <= NEWTON_ROWS:
        return ("gradient", _warm_up), ("newton", _newton), ("gradient", _gradient)
    return ("gradient", _gradient), ("newton", _newton)


def _newton(problem: _Problem, start: Vector, tolerance: float) -> tuple[Vector, int]:
    """Dual Newton, inside a proximal point iteration where `alpha` is too small for Newton alone.

    A proximal point minimises the objective plus `rho ||x - previous||^2`: the same problem with a larger `alpha`
    and a moved prior. With `rho` falling geometrically it converges superlinearly, also for `alpha` = 0 (Rockafellar
    1976; with semismooth Newton inside as in Li, Sun and Toh 2018).
    """
    mean_curvature = float(np.mean(problem.curvature))
    rho = _EASY_REGULARISATION * mean_curvature
    if problem.alpha >= rho:
        return _dual_newton(problem, start, tolerance)
    x, iterations = start, 0
    best, best_residual = start, np.inf
    for _ in range(PROXIMAL_POINTS):
        alpha = problem.alpha + rho
        proximal = replace(
            problem,
            alpha=alpha,
            prior=(problem.alpha * problem.prior + rho * x) / alpha,
            curvature=problem.curvature + 2 * rho,
        )
        x, used = _dual_newton(proximal, x, tolerance / 2)
        iterations += used
        residual = problem.kkt_residual(x, problem.A @ x)
        if residual < best_residual:
            best, best_residual = x, residual
        if residual <= tolerance:
            break
        rho = max(_PROXIMAL_FACTOR * rho, _LEAST_PROXIMAL * mean_curvature)
    return best, iterations


def _dual_newton(problem: _Problem, start: Vector, tolerance: float) -> tuple[Vector, int]:
    """Semismooth Newton on the dual with an exact line search, for `alpha` > 0.

    The optimality conditions are `x = clip(prior + A'z)` and `F(z) = 2 alpha z + A x - b = 0`, the gradient of a
    strongly convex piecewise quadratic with the generalised Hessian `2 alpha I + A_F A_F'`, F the entries of x that
    are not at a bound (Qi and Sun 1993).
    """
    A, At = problem.A, problem.At
    # The z that belongs to `start` in the optimality conditions: near the minimiser it keeps the bounds that are met.
    z = (problem.b - A @ start) / (2 * problem.alpha)
    shift = At @ z
    gram = _FreeGram(At)
    best, best_residual = start, np.inf
    for iteration in range(NEWTON_ITERATIONS + 1):
        unclipped = problem.prior + shift
        x = problem.clip(unclipped)
        Ax = A @ x
        residual = problem.kkt_residual(x, Ax)
        if residual < best_residual:
            best, best_residual = x, residual
        if residual <= tolerance or iteration == NEWTON_ITERATIONS:
            break
        F = 2 * problem.alpha * z + Ax - problem.b
        free = (unclipped > problem.lower) & (unclipped < problem.upper)
        hessian = gram.of(free)
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


class _FreeGram:
    """`A_F A_F'` for a changing set F: only the columns that enter or leave are multiplied again."""

    def __init__(self, At: scipy.sparse.csr_matrix) -> None:
        self._At = At
        self._free = np.zeros(At.shape[0], dtype=bool)
        self._gram: Vector = np.zeros((At.shape[1], At.shape[1]))

    def of(self, free: NDArray[np.bool_]) -> Vector:
        changed = free != self._free
        if 2 * np.count_nonzero(changed) > np.count_nonzero(free):
            self._gram = self._product(free)
        else:
            self._gram += self._product(free & changed) - self._product(self._free & changed)
        self._free = free
        return self._gram.copy()

    def _product(self, chosen: NDArray[np.bool_]) -> Vector:
        rows = self._At[chosen]
        product: Vector = (rows.T @ rows).toarray()
        return product


def _exact_step(problem: _Problem, z: Vector, direction: Vector, unclipped: Vector, slope: Vector) -> float:
    """The zero t > 0 of the directional derivative, which is piecewise linear and increasing in t.

    It is `direction @ (2 alpha (z + t direction) - b) + slope @ clip(unclipped + t slope)`: it bends where an entry
    meets a bound, so the zero lies on the one linear piece that the sorted meeting points enclose.
    """
    moving = slope != 0
    v, u = slope[moving], unclipped[moving]
    with np.errstate(over="ignore"):
        at_lower, at_upper = (problem.lower - u) / v, (problem.upper - u) / v
    enter, leave = np.minimum(at_lower, at_upper), np.maximum(at_lower, at_upper)
    value = direction @ (2 * problem.alpha * z - problem.b) + slope @ problem.clip(unclipped)
    least_rate = 2 * problem.alpha * (direction @ direction)
    if not (value < 0 and least_rate > 0):
        return 0.0
    rate = least_rate + np.sum(v[(enter <= 0) & (leave > 0)] ** 2)
    later_in, later_out = (enter > 0) & np.isfinite(enter), (leave > 0) & np.isfinite(leave)
    times = np.concatenate([enter[later_in], leave[later_out]])
    changes = np.concatenate([v[later_in] ** 2, -(v[later_out] ** 2)])
    order = np.argsort(times)
    starts = np.concatenate([[0.0], times[order]])
    rates = np.maximum(rate + np.concatenate([[0.0], np.cumsum(changes[order])]), least_rate)
    values = value + np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(starts))])
    piece = int(np.searchsorted(values, 0.0, side="right")) - 1
    return float(starts[piece] - values[piece] / rates[piece])


def _warm_up(problem: _Problem, start: Vector, tolerance: float) -> tuple[Vector, int]:
    return _gradient(problem, start, tolerance, WARM_UP_ITERATIONS)


def _gradient(problem: _Problem, start: Vector, tolerance: float, limit: int | None = None) -> tuple[Vector, int]:
    """Accelerated projected gradient with a step per coordinate, restarted when the momentum points uphill.

    Beck and Teboulle (2009), Eq. 4.1 to 4.3, with the gradient restart of O'Donoghue and Candes (2015).
    """
    limit = GRADIENT_ITERATIONS if limit is None else limit
    x, Ax = start, problem.A @ start
    ahead, A_ahead, momentum = x, Ax, 1.0
    for iteration in range(limit + 1):
        if iteration % _CHECK_EVERY == 0 and problem.kkt_residual(x, Ax) <= tolerance:
            break
        following = problem.clip(ahead - problem.gradient(ahead, A_ahead) / problem.curvature)
        A_following = problem.A @ following
        if (problem.curvature * (ahead - following)) @ (following - x) > 0:
            momentum = 1.0
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        carry = (momentum - 1) / grown
        ahead = following + carry * (following - x)
        A_ahead = A_following + carry * (A_following - Ax)
        x, Ax, momentum = following, A_following, grown
    return x, iteration


def _as_matrix(matrix: scipy.sparse.csr_matrix, name: str) -> scipy.sparse.csr_matrix:
    if not scipy.sparse.issparse(matrix) or matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a two-dimensional sparse matrix with rows and columns")
    result = scipy.sparse.csr_matrix(matrix, dtype=np.float64)
    if not np.all(np.isfinite(result.data)):
        raise ValueError(f"{name} must be finite")
    return result


def _as_vector(values: ArrayLike, length: int, name: str) -> Vector:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {vector.shape}")
    if not np.all(np.isfinite(vector)):
        raise ValueError(f"{name} must be finite")
    return vector


def _weighted_rows(
    A: scipy.sparse.csr_matrix, b: ArrayLike, row_weights: ArrayLike | None, name: str
) -> tuple[scipy.sparse.csr_matrix, Vector]:
    vector = _as_vector(b, A.shape[0], name)
    if row_weights is None:
        return A, vector
    factors = _as_vector(row_weights, A.shape[0], "row_weights")
    if np.any(factors <= 0):
        raise ValueError("row_weights must be positive")
    return scipy.sparse.csr_matrix(scipy.sparse.diags(factors) @ A), factors * vector
