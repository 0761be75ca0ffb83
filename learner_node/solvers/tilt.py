"""Source weights of exponential form: an alternative to the least squares of `solve_weights` for Pb. 1.

Among all weights it takes those nearest to the prior in relative entropy, given the noise of the counted masses: `min
KL(w || prior) + sum_k (R w - p)_k^2 / (2 v_k)` over w >= 0. The minimiser is `w_i = prior_i exp((R' b)_i)`, where b
minimises the smooth convex dual `sum_i w_i - p @ b + sum_k v_k b_k^2 / 2`, with one unknown per row of R (maximum
entropy with quadratic slack: Dudik, Phillips and Schapire 2007).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from learner_node.solvers import NotConvergedError

Vector = NDArray[np.float64]
TOLERANCE = 1e-7
"""Largest accepted gradient of the dual, relative to the largest mass: far below noise and sampling error."""
_STEPS = 200
_POLISHING = 5


@dataclass(frozen=True)
class Tilt:
    """Weights of exponential form."""

    weights: Vector  # (n,) positive, `prior exp(R' coefficients)`
    coefficients: Vector  # (K,) b, in log-weight per unit of R
    # largest entry of `R w + v b - p`, relative to the largest of |p| and 1; 0 exactly at the minimiser
    residual: float


def solve_tilt(R: scipy.sparse.csr_matrix, p: ArrayLike, *, variances: ArrayLike, prior: ArrayLike) -> Tilt:
    """Find weights whose masses `R w` come near `p`, as the module says. Each step factors a (K, K) matrix.

    Args:
        R: (K, n), non-negative.
        p: (K,) masses, finite; noise may have made some negative.
        variances: (K,) or scalar, positive: error variances of p.
        prior: (n,) or scalar, positive: the weights if the masses carry no information.

    Raises:
        ValueError: on wrong shapes, or values that are not finite or not positive.
        NotConvergedError: when the tolerance is not reached.
    """
    rows, columns = R.shape
    masses = np.asarray(p, dtype=np.float64)
    v = np.broadcast_to(np.asarray(variances, dtype=np.float64), (rows,))
    base = np.broadcast_to(np.asarray(prior, dtype=np.float64), (columns,))
    if masses.shape != (rows,) or not np.isfinite(masses).all():
        raise ValueError(f"p must be finite and of shape ({rows},)")
    for name, values in (("variances", v), ("prior", base)):
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"{name} must be finite and positive")
    Rt = scipy.sparse.csr_matrix(R.T)
    # In units of one standard deviation: the curvature of the penalty is 1 in each.
    spread = np.sqrt(v)

    def weights(scaled: Vector) -> Vector:
        with np.errstate(over="ignore"):  # a step too far costs infinitely much, and is taken back
            result: Vector = base * np.exp(Rt @ (scaled / spread))
        return result

    def value(scaled: Vector) -> float:
        return float(weights(scaled).sum() - masses @ (scaled / spread) + scaled @ scaled / 2)

    def gradient(scaled: Vector) -> Vector:
        result: Vector = (R @ weights(scaled) - masses) / spread + scaled
        return result

    def hessian(scaled: Vector) -> NDArray[np.float64]:
        moved = scipy.sparse.diags(1 / spread) @ R
        dense: NDArray[np.float64] = (moved @ scipy.sparse.diags(weights(scaled)) @ moved.T).toarray()
        dense[np.diag_indices_from(dense)] += 1.0
        return dense

    goal = TOLERANCE * max(float(np.abs(masses).max()), 1.0)
    result = minimize(
        value,
        np.zeros(rows),
        jac=gradient,
        hess=hessian,
        method="trust-exact",
        options={"gtol": goal / float(spread.max()) / 10, "maxiter": _STEPS},
    )
    best = result.x
    # Near the minimum the value's last bits stop the search first; full Newton steps look at the gradient alone.
    for _ in range(_POLISHING):
        nearer = best - np.linalg.solve(hessian(best), gradient(best))
        if not np.abs(gradient(nearer) * spread).max() < np.abs(gradient(best) * spread).max():
            break
        best = nearer
    residual = float(np.abs(gradient(best) * spread).max()) / goal * TOLERANCE
    if not residual <= TOLERANCE:
        raise NotConvergedError(residual, TOLERANCE)
    return Tilt(weights(best), best / spread, residual)
