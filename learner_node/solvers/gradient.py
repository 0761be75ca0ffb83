"""Accelerated projected gradient steps: all that a well regularised problem needs, and the last resort."""

import numpy as np

from learner_node.solvers.box_problem import BoxProblem, Vector

GRADIENT_ITERATIONS = 50_000

_CHECK_EVERY = 5


def solve_by_gradient(
    problem: BoxProblem, start: Vector, tolerance: float, limit: int | None = None
) -> tuple[Vector, int]:
    """Accelerated projected gradient with a step per coordinate, restarted when the momentum points uphill.

    Beck and Teboulle (2009), Eq. 4.1 to 4.3, with the gradient restart of O'Donoghue and Candes (2015).

    Args:
        problem: the problem.
        start: (n,) a point within the bounds.
        tolerance: stop at this KKT residual.
        limit: most steps; None is `GRADIENT_ITERATIONS`.

    Returns:
        The last point and the steps taken.
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
