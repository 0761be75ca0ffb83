"""Certified solvers of the two convex problems of ExPriL: source weights (Pb. 1) and source labels (Pb. 2).

Both minimise `1/2 ||A x - b||^2 + alpha ||x - prior||^2` over a box, with a sparse `A` of few rows and many columns.
Accelerated projected gradient steps come first and suffice for a large `alpha`, as the paper's noise requires. After a
hundred steps, semismooth Newton takes over, on the dual, which has one unknown per row of `A`. If that misses the
tolerance, more gradient steps follow. Every returned `Solution` carries the residual of its optimality conditions,
computed from `x` alone. A residual above the tolerance raises `NotConvergedError`.

This module does not build bins, ask for answers or make them consistent. The equations are those of
`expril_full_paper`, sections 3.2 and 3.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from learner_node.solvers.box_problem import BoxProblem, Vector, solve_by_newton

GRADIENT_ITERATIONS = 50_000

_CHECK_EVERY = 5


def solve_by_gradient(
    problem: BoxProblem, start: Vector, tolerance: float, limit: int | None = None
) -> tuple[Vector, int]:
    """Accelerated projected gradient with a step per coordinate, restarted when the momentum points uphill.

    It follows Beck and Teboulle (2009), Eq. 4.1 to 4.3, with the gradient restart of O'Donoghue and Candes (2015). It
    starts at `start`, (n,) within the bounds, and stops at the KKT residual `tolerance` or after `limit` steps (None:
    `GRADIENT_ITERATIONS`). It returns the last point and the number of steps.
    """
    limit = GRADIENT_ITERATIONS if limit is None else limit
    x, Ax = start, problem.A @ start
    ahead, A_ahead, momentum = x, Ax, 1.0
    for iteration in range(limit + 1):
        if iteration == limit or (iteration % _CHECK_EVERY == 0 and problem.kkt_residual(x, Ax) <= tolerance):
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


DEFAULT_TOLERANCE = 1e-12
"""Largest accepted `Solution.kkt_residual`. At 1e-10 a small `alpha` may not yet influence `x`."""

NEWTON_ROWS = 1_000
"""Above this many rows of `A`, gradient steps cost less than the dense dual systems and are tried first."""

WARM_UP_ITERATIONS = 100
"""Gradient steps before Newton; they suffice for most problems of Table 2, and minimise total time."""


class NotConvergedError(ArithmeticError):
    """No method reached the tolerance.

    `kkt_residual` is the smallest residual that was reached, `tolerance` the one that was asked for.
    """

    def __init__(self, kkt_residual: float, tolerance: float) -> None:
        super().__init__(f"KKT residual {kkt_residual:.3g} stays above the tolerance {tolerance:.3g}")
        self.kkt_residual = kkt_residual
        self.tolerance = tolerance


@dataclass(frozen=True)
class Solution:
    """A minimiser with the evidence that it is one."""

    x: Vector  # (n,) float64, inside the bounds exactly
    objective: float  # value of the printed objective at `x`, regularisation included
    # at most the tolerance that was asked for. With the gradient g of the objective and the row sums c of |A|'|A| + 2
    # alpha I, which dominate the Hessian, it is the largest c |x - clip(x - g / c)| relative to the largest of |A|'|b|,
    # c |x| and 2 alpha |prior|, the terms that g is a sum of. It does not change when the data, the unknowns or the
    # objective are rescaled, and is 0 exactly at the minimisers.
    kkt_residual: float
    iterations: int  # iterations of all the methods that ran
    method: str  # "newton" or "gradient", the one that reached the tolerance


@dataclass(frozen=True)
class LabelSystem:
    """One answered hypothesis as linear equations `A y = b` on the labels (Eq. 5)."""

    A: scipy.sparse.csr_matrix  # (K, n) CSR float64, `R diag(w) diag(sign(h - 1/2))`
    b: Vector  # (K,) float64, `R diag(w) h - (R diag(w) 1) * q`


def solve_weights(
    R: scipy.sparse.csr_matrix,
    p: ArrayLike,
    *,
    alpha: float,
    prior: ArrayLike,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Solution:
    """Solve Pb. 1: `w = argmin_{w >= 0} 1/2 ||R w - p||^2 + alpha ||w - prior||^2` (Eq. 2).

    Args:
        R: (K, n) sparse matrix; row k marks the source records in bin k.
        p: (K,) noisy masses of the bins. Negative and inconsistent values are allowed.
        alpha: regularisation, finite and >= 0. With 0 the minimiser is not unique and one of them is returned.
        prior: scalar or (n,); the paper takes 1/n, or n'/n where `p` are counts of n' records.
        tolerance: largest accepted KKT residual.

    Returns:
        The weights `x` >= 0 and their certificate.

    Raises:
        ValueError: on wrong shapes, non-finite values or a negative `alpha`.
        NotConvergedError: when the tolerance is not reached.
    """
    A = _as_matrix(R, "R")
    return _solve(A, _as_vector(p, A.shape[0], "p"), alpha=alpha, prior=prior, upper=np.inf, tolerance=tolerance)


def label_system(R: scipy.sparse.csr_matrix, w: ArrayLike, h: ArrayLike, q: ArrayLike) -> LabelSystem:
    """Build the equations that one answered hypothesis puts on the labels (Eq. 5).

    Args:
        R: (K, n) sparse matrix; row k marks the source records in bin k.
        w: (n,) weights >= 0 of the source records.
        h: (n,) predictions of the hypothesis on the source records, each 0 or 1.
        q: (K,) noisy fractions of errors in each bin; not clipped here.

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
    return LabelSystem(A, b)


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
    A, b = _stacked(systems)
    return _solve(A, b, alpha=alpha, prior=prior, upper=1.0, tolerance=tolerance)


def descend_labels(systems: Sequence[LabelSystem], *, steps: int) -> Vector:
    """Approach Pb. 2 without regularisation by a fixed number of projected gradient steps from 1/2 (Eq. 5 and 6).

    The paper also descends, but states neither step size nor number of steps; `solve_labels` solves the problem. The
    step of each coordinate is scaled by its curvature, so after one step the rounded labels are the signs of the
    gradient.

    Args:
        systems: the answered hypotheses.
        steps: number of gradient steps without momentum, >= 0.

    Returns:
        (n,) labels in [0, 1], in general not a minimiser.

    Raises:
        ValueError: without a system, on wrong shapes or non-finite values, or a negative number of steps.
    """
    if steps < 0:
        raise ValueError(f"steps must not be negative, got {steps}")
    A, b = _stacked(systems)
    x = np.full(A.shape[1], 0.5)
    problem = BoxProblem.of(A, b, alpha=0.0, prior=x, lower=0.0, upper=1.0)
    for _ in range(steps):
        x = problem.clip(x - problem.gradient(x, A @ x) / problem.curvature)
    return x


def _stacked(systems: Sequence[LabelSystem]) -> tuple[scipy.sparse.csr_matrix, Vector]:
    if not systems:
        raise ValueError("at least one system is needed")
    if len({system.A.shape[1] for system in systems}) != 1:
        raise ValueError("all systems must have the same number of records")
    blocks = [_as_matrix(system.A, "A") for system in systems]
    b = np.concatenate([_as_vector(system.b, system.A.shape[0], "b") for system in systems])
    return scipy.sparse.csr_matrix(scipy.sparse.vstack(blocks)), b


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
    problem = BoxProblem.of(A, b, alpha=alpha, prior=centre, lower=0.0, upper=upper)
    best, residual, iterations = problem.clip(centre), np.inf, 0
    for name, method in _methods(problem):
        x, steps = method(problem, best, tolerance)
        iterations += steps
        Ax = A @ x
        reached = problem.kkt_residual(x, Ax)
        if reached < residual:
            best, residual = x, reached
        if residual <= tolerance:
            return Solution(best, problem.objective(best, A @ best), residual, iterations, name)
    raise NotConvergedError(residual, tolerance)


Method = Callable[[BoxProblem, Vector, float], tuple[Vector, int]]


def _methods(problem: BoxProblem) -> tuple[tuple[str, Method], ...]:
    """Pairs (name, method) to try in turn, each from the best point so far."""
    if len(problem.b) > NEWTON_ROWS:
        return ("gradient", solve_by_gradient), ("newton", solve_by_newton)
    few = partial(solve_by_gradient, limit=WARM_UP_ITERATIONS)
    return ("gradient", few), ("newton", solve_by_newton), ("gradient", solve_by_gradient)


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
