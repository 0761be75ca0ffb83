"""The solvers of Pb. 1 and Pb. 2 against plain projected gradient descent, and the label model.

The baseline takes steps of 1 / L, L the largest eigenvalue of the Hessian (given to it for free), until its objective
is within a relative 1e-6, and then 1e-12, of ours. The first is a rough answer; ours comes with a certificate (a
residual below 1e-12), so the second is the same objective. Where the baseline does not get there in the time limit,
the ratio is a lower bound and the note says so.
"""

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import svds

from benchmarks.common import Result, median, seconds, spread
from learner_node.label_model import fit_label_model
from learner_node.solvers import LabelSystem, Solution, label_system, solve_labels, solve_weights

SOURCE, ATTRIBUTES, BINS = 5000, 25, 10
CELLS = 300
GAPS = 1e-6, 1e-12
MOST_SECONDS = 20.0
REPEATS = 5


@dataclass(frozen=True)
class Case:
    """`min 1/2 ||A x - b||^2 + alpha ||x - prior||^2`, 0 <= x <= upper."""

    name: str
    A: scipy.sparse.csr_matrix
    b: np.ndarray
    alpha: float
    prior: float
    upper: float

    def solve(self) -> Solution:
        """By our solver."""
        if np.isinf(self.upper):
            return solve_weights(self.A, self.b, alpha=self.alpha, prior=self.prior)
        return solve_labels([LabelSystem(self.A, self.b)], alpha=self.alpha, prior=self.prior)

    def descend(self, largest: float, objective: float) -> dict[float, tuple[float, int, bool]]:
        """Plain projected gradient descent: by gap, seconds, steps, and whether it got there."""
        transposed = self.A.T.tocsr()
        x = np.full(self.A.shape[1], self.prior)
        steps, found = 0, {}
        start = time.perf_counter()
        for gap in GAPS:
            while True:
                residual = self.A @ x - self.b
                distance = x - self.prior
                value = 0.5 * (residual @ residual) + self.alpha * (distance @ distance)
                taken = time.perf_counter() - start
                reached = value <= objective * (1 + gap)
                if reached or taken > MOST_SECONDS:
                    break
                x = np.clip(x - (transposed @ residual + 2 * self.alpha * distance) / largest, 0.0, self.upper)
                steps += 1
            found[gap] = taken, steps, reached
        return found


def run() -> list[Result]:
    """See the module."""
    results = []
    for case in _cases():
        largest = float(svds(case.A, k=1, return_singular_vectors=False)[0]) ** 2 + 2 * case.alpha
        solution = case.solve()
        ours = [seconds(case.solve) for _ in range(REPEATS)]
        for gap, (theirs, steps, reached) in case.descend(largest, solution.objective).items():
            note = f"{steps} plain steps" if reached else f"not there after {steps} plain steps: a lower bound"
            name = f"{case.name}, times faster than descent to a gap of {gap:g}"
            results.append(Result(name, theirs / median(ours), "times", note=note))
        note = f"alpha {case.alpha:g}, {solution.method}, residual {solution.kkt_residual:.1e}"
        results.append(Result(case.name, median(ours) * 1e3, "ms", spread=spread(ours, 1e3), note=note))
    return [*results, _label_model()]


def _cases() -> list[Case]:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(SOURCE, ATTRIBUTES)) @ rng.normal(size=(ATTRIBUTES, ATTRIBUTES)) / 5
    edges = np.quantile(points, np.linspace(0, 1, BINS + 1)[1:-1], axis=0)
    cells = np.stack([np.searchsorted(edges[:, j], points[:, j]) + j * BINS for j in range(ATTRIBUTES)])
    ones = np.ones(cells.size)
    columns = np.tile(np.arange(SOURCE), ATTRIBUTES)
    R = scipy.sparse.csr_matrix((ones, (cells.ravel(), columns)), shape=(ATTRIBUTES * BINS, SOURCE))
    truth = rng.gamma(0.5, 2.0, SOURCE)
    labels = (points[:, 0] + points[:, 1] > 0).astype(np.float64)
    scale = 25.0
    masses = R @ truth + rng.laplace(0, scale, R.shape[0])
    wrong = np.clip((R @ (truth * (1 - labels)) + rng.laplace(0, scale, R.shape[0])) / np.maximum(masses, 1), 0, 1)
    system = label_system(R, truth, np.ones(SOURCE), wrong)
    return [
        Case("Pb. 1, alpha of the noise", R, masses, scale**2, float(truth.mean()), np.inf),
        Case("Pb. 1, little alpha", R, masses, 1e-2, float(truth.mean()), np.inf),
        Case("Pb. 2", system.A, system.b, 1e-3, 0.5, 1.0),
    ]


def _label_model() -> Result:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(SOURCE, ATTRIBUTES))
    centres = points[rng.choice(SOURCE, CELLS, replace=False)]
    cells = ((points[:, None, :8] - centres[None, :, :8]) ** 2).sum(axis=2).argmin(axis=1)
    labels = points[:, 0] + 0.5 * points[:, 1] ** 2 > 0.3
    pairs = np.stack([np.bincount(cells[labels == value], minlength=CELLS) for value in (False, True)], axis=1)
    noisy = pairs + np.rint(rng.laplace(0, 1.0, pairs.shape))
    times = [
        seconds(lambda: fit_label_model(points, cells, noisy.astype(np.float64), scale=1.0, sites=1, seed=0))
        for _ in range(REPEATS)
    ]
    name = f"label model, {CELLS} cells, {SOURCE} records, {ATTRIBUTES} attributes"
    return Result(name, median(times), "s", spread=spread(times))
