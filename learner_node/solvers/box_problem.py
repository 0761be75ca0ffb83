"""The one convex problem behind Pb. 1 and Pb. 2, and the certificate of its solutions."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class BoxProblem:
    """`min 1/2 ||A x - b||^2 + alpha ||x - prior||^2` over `lower <= x <= upper`, with what every method needs.

    Attributes:
        A: (K, n) CSR; few rows, many columns.
        At: its transpose, CSR.
        b: (K,) right-hand side.
        alpha: finite and >= 0.
        prior: (n,) centre of the regularisation.
        lower: bound of every unknown.
        upper: bound of every unknown; may be infinite.
        curvature: (n,) row sums of |A|'|A| + 2 alpha I, all positive. As a diagonal matrix they dominate the Hessian:
            a step size for each coordinate, without an estimate of the largest eigenvalue.
        magnitude_b: the largest entry of |A|'|b|.
    """

    A: scipy.sparse.csr_matrix
    At: scipy.sparse.csr_matrix
    b: Vector
    alpha: float
    prior: Vector
    lower: float
    upper: float
    curvature: Vector
    magnitude_b: float

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
        """The printed objective."""
        residual, distance = Ax - self.b, x - self.prior
        return float(0.5 * (residual @ residual) + self.alpha * (distance @ distance))

    def gradient(self, x: Vector, Ax: Vector) -> Vector:
        """(n,) gradient of the objective."""
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
