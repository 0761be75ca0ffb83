"""The solvers of Pb. 1 and Pb. 2 against plain gradient descent, scipy and OSQP, their scaling, and the label model.

The instance has the size of the paper's set E: 5000 source records, 25 attributes, 10 bins each, Laplace noise of
scale 75. In Pb. 1 the regularisation of the strategies `paper-i` and `paper-c` is the squared noise scale; 1e-6 and
1e-2 stand for none and for little. In Pb. 2 the paper has none, for which 1e-3 stands; the strategies' own is about
1,100 here.

Plain descent takes steps of 1 / L, L the largest eigenvalue of the Hessian (given to it for free), until its objective
is within a relative 1e-6, and then 1e-12, of ours. The first is a rough answer; ours comes with a certificate (a
residual below 1e-12), so the second is the same objective. Where a baseline is stopped by the time limit, the ratio is
a lower bound and the note says so. The points of all baselines are clipped to the bounds before they are compared.

With the strategies' own regularisation the Hessian is well conditioned: a few dozen plain steps suffice, no method can
be 20 times faster, and most of our time buys the certificate: a relative gap of 1e-12 needs a residual of 1e-6 only.
With two hypotheses plain descent comes within 1e-6 early, too; to 1e-12 it takes many times longer.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import scipy.optimize
import scipy.sparse
from scipy.sparse.linalg import svds

from benchmarks.common import Result, at_least, at_most, median, seconds, spread
from learner_node.models.label_model import Observation, fit_label_model
from learner_node.solvers import Solution, label_system, solve_labels, solve_weights
from learner_node.strategies.paper import SHRINKAGE

SOURCE, ATTRIBUTES, BINS = 5000, 25, 10
SCALE = 75.0
SIZES = 1250, 2500, 5000, 10_000, 20_000
BINS_PER_ATTRIBUTE = 2, 4, 10, 20, 40
CELLS = 300
GAPS = 1e-6, 1e-12
MOST_SECONDS = 6.0
REPEATS = 5
FASTER = 20.0
NO_WORSE = 1e-12


@dataclass(frozen=True)
class Case:
    """`min 1/2 ||A x - b||^2 + alpha ||x - prior||^2`, 0 <= x <= upper, and our call that solves it."""

    name: str
    A: scipy.sparse.csr_matrix
    b: np.ndarray
    alpha: float
    prior: float
    upper: float
    solve: Callable[[], Solution]

    def objective(self, x: np.ndarray) -> float:
        """Of the point within the bounds that is nearest to `x`."""
        inside = np.clip(x, 0.0, self.upper)
        residual, distance = self.A @ inside - self.b, inside - self.prior
        return float(0.5 * (residual @ residual) + self.alpha * (distance @ distance))


@dataclass(frozen=True)
class Answer:
    """What a baseline of a library returned."""

    x: np.ndarray
    taken: float
    note: str


def run() -> list[Result]:
    """See the module."""
    results = []
    for case in _cases():
        solution = case.solve()
        ours = [seconds(case.solve) for _ in range(REPEATS)]
        note = f"alpha {case.alpha:g}, {solution.method}, residual {solution.kkt_residual:.1e}"
        if find_spec("osqp") is None:
            note += "; OSQP is not installed and was left out"
        results.append(Result(case.name, median(ours) * 1e3, "ms", spread=spread(ours, 1e3), note=note))
        for gap, (theirs, steps, reached) in _descend(case, solution.objective).items():
            note = f"{steps} plain steps" if reached else f"not there after {steps} plain steps: a lower bound"
            name = f"{case.name}, times faster than descent to a gap of {gap:g}"
            results.append(at_least(name, theirs / median(ours), FASTER, "times", note=note))
        for library, baseline in BASELINES.items():
            answer = baseline(case)
            theirs = case.objective(answer.x)
            name = f"{case.name}, times faster than {library}"
            results.append(Result(name, answer.taken / median(ours), "times", note=answer.note))
            name = f"{case.name}, objective above that of {library}"
            results.append(at_most(name, (solution.objective - theirs) / theirs, NO_WORSE, "of the objective"))
    return [*results, *_scaling(), _label_model()]


def _cases() -> list[Case]:
    R, prior, masses, exact, pairs = _instance(SOURCE, BINS)
    cases = []
    for name, b, alpha in (
        ("Pb. 1, alpha of the noise", masses, SCALE**2),
        ("Pb. 1, little alpha", masses, 1e-2),
        ("Pb. 1, no noise", exact, 1e-6),
    ):
        solve = _weights(R, b, alpha, prior)
        cases.append(Case(name, R, b, alpha, prior, np.inf, solve))
    systems = [label_system(R, solve_weights(R, masses, alpha=SCALE**2, prior=prior).x, *pair) for pair in pairs]
    own = SHRINKAGE * (2 * SCALE**2 + SOURCE / (4 * BINS))
    for name, count, alpha in (
        ("Pb. 2", 1, 1e-3),
        ("Pb. 2, two hypotheses", 2, 1e-3),
        ("Pb. 2, alpha of the strategy", 1, own),
    ):
        A = scipy.sparse.csr_matrix(scipy.sparse.vstack([system.A for system in systems[:count]]))
        b = np.concatenate([system.b for system in systems[:count]])
        cases.append(Case(name, A, b, alpha, 0.5, 1.0, _labels(systems[:count], alpha)))
    return cases


def _weights(R, b, alpha, prior) -> Callable[[], Solution]:
    return lambda: solve_weights(R, b, alpha=alpha, prior=prior)


def _labels(systems, alpha=1e-3) -> Callable[[], Solution]:
    return lambda: solve_labels(systems, alpha=alpha)


def _instance(source: int, bins: int):
    """R, the prior weight, noisy and exact masses, and two hypotheses with their noisy errors."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(source, ATTRIBUTES)) @ rng.normal(size=(ATTRIBUTES, ATTRIBUTES)) / 5
    edges = np.quantile(points, np.linspace(0, 1, bins + 1)[1:-1], axis=0)
    cells = np.stack([np.searchsorted(edges[:, j], points[:, j]) + j * bins for j in range(ATTRIBUTES)])
    columns = np.tile(np.arange(source), ATTRIBUTES)
    R = scipy.sparse.csr_matrix((np.ones(cells.size), (cells.ravel(), columns)), shape=(ATTRIBUTES * bins, source))
    truth = rng.gamma(0.5, 2.0, source)
    labels = points[:, 0] + points[:, 1] > 0
    exact = R @ truth
    masses = np.maximum(exact + rng.laplace(0, SCALE, len(exact)), 0.0)
    pairs = []
    for predicted in (np.ones(source), (points[:, 0] > 0).astype(np.float64)):
        wrong = R @ (truth * (predicted != labels)) + rng.laplace(0, SCALE, len(exact))
        pairs.append((predicted, np.clip(wrong / np.maximum(masses, 1), 0, 1)))
    return R, float(truth.mean()), masses, exact, pairs


def _descend(case: Case, objective: float) -> dict[float, tuple[float, int, bool]]:
    """Plain projected gradient descent: by gap, seconds, steps, and whether it got there."""
    largest = float(svds(case.A, k=1, return_singular_vectors=False)[0]) ** 2 + 2 * case.alpha
    transposed = case.A.T.tocsr()
    x = np.full(case.A.shape[1], case.prior)
    steps, found = 0, {}
    start = time.perf_counter()
    for gap in GAPS:
        while True:
            residual = case.A @ x - case.b
            distance = x - case.prior
            value = 0.5 * (residual @ residual) + case.alpha * (distance @ distance)
            taken = time.perf_counter() - start
            reached = value <= objective * (1 + gap)
            if reached or taken > MOST_SECONDS:
                break
            x = np.clip(x - (transposed @ residual + 2 * case.alpha * distance) / largest, 0.0, case.upper)
            steps += 1
        found[gap] = taken, steps, reached
    return found


def _quasi_newton(case: Case) -> Answer:
    """L-BFGS-B, as tight as it goes."""
    transposed = case.A.T.tocsr()
    start = time.perf_counter()

    def value(x):
        residual, distance = case.A @ x - case.b, x - case.prior
        gradient = transposed @ residual + 2 * case.alpha * distance
        return 0.5 * (residual @ residual) + case.alpha * (distance @ distance), gradient

    def stop(_):
        if time.perf_counter() - start > MOST_SECONDS:
            raise StopIteration

    n = case.A.shape[1]
    options = {"maxiter": 10**6, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 20}
    bounds = scipy.optimize.Bounds(np.zeros(n), np.full(n, case.upper))
    found = scipy.optimize.minimize(
        value, np.full(n, case.prior), jac=True, method="L-BFGS-B", bounds=bounds, callback=stop, options=options
    )
    return Answer(found.x, time.perf_counter() - start, f"{found.nit} iterations, {found.message}")


def _least_squares(case: Case) -> Answer:
    """The interior method of `lsq_linear` on the rows of A and sqrt(2 alpha) I."""
    n = case.A.shape[1]
    root = np.sqrt(2 * case.alpha)
    stacked = scipy.sparse.csr_matrix(scipy.sparse.vstack([case.A, root * scipy.sparse.eye(n)]))
    target = np.concatenate([case.b, np.full(n, root * case.prior)])
    start = time.perf_counter()
    found = scipy.optimize.lsq_linear(stacked, target, bounds=(0, case.upper), tol=1e-12, max_iter=45)
    return Answer(found.x, time.perf_counter() - start, f"{found.nit} iterations, {found.message}")


def _osqp(case: Case) -> Answer:
    """OSQP on `min 1/2 r'r + alpha ||x - prior||^2, r = A x - b`, tight and polished."""
    import osqp

    rows, n = case.A.shape
    quadratic = scipy.sparse.csc_matrix(scipy.sparse.diags(np.r_[np.full(n, 2 * case.alpha), np.ones(rows)]))
    linear = np.r_[np.full(n, -2 * case.alpha * case.prior), np.zeros(rows)]
    links = scipy.sparse.hstack([case.A, -scipy.sparse.eye(rows)])
    constraints = scipy.sparse.csc_matrix(scipy.sparse.vstack([links, scipy.sparse.eye(n, n + rows)]))
    low, high = np.r_[case.b, np.zeros(n)], np.r_[case.b, np.full(n, case.upper)]
    start = time.perf_counter()
    solver = osqp.OSQP()
    tight = {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 10**6, "time_limit": MOST_SECONDS, "polishing": True}
    solver.setup(quadratic, linear, constraints, low, high, verbose=False, **tight)
    found = solver.solve()
    note = f"{osqp.__version__}, {found.info.iter} iterations, {found.info.status}, polished {found.info.status_polish}"
    return Answer(np.asarray(found.x[:n]), time.perf_counter() - start, note)


BASELINES = {"L-BFGS-B (scipy)": _quasi_newton, "lsq_linear (scipy)": _least_squares}
if find_spec("osqp") is not None:
    BASELINES["OSQP"] = _osqp


def _scaling() -> list[Result]:
    """Times against n at 250 bins and against K at 5000 records, each with the slope of its logarithms."""
    results = []
    sweeps = (
        ("n", [(size, (size, BINS)) for size in SIZES]),
        ("K", [(ATTRIBUTES * bins, (SOURCE, bins)) for bins in BINS_PER_ATTRIBUTE]),
    )
    for axis, shapes in sweeps:
        times: dict[str, list[float]] = {}
        for _, shape in shapes:
            R, prior, masses, _, pairs = _instance(*shape)
            weights = solve_weights(R, masses, alpha=SCALE**2, prior=prior).x
            tasks = {
                "Pb. 1, alpha of the noise": _weights(R, masses, SCALE**2, prior),
                "Pb. 1, little alpha": _weights(R, masses, 1e-2, prior),
                "Pb. 2": _labels([label_system(R, weights, *pairs[0])]),
            }
            for name, task in tasks.items():
                times.setdefault(name, []).append(median([seconds(task) for _ in range(REPEATS)]))
        for name, taken in times.items():
            slope = float(np.polyfit(np.log([size for size, _ in shapes]), np.log(taken), 1)[0])
            note = ", ".join(
                f"{axis} {size}: {time * 1e3:.3g} ms" for (size, _), time in zip(shapes, taken, strict=True)
            )
            results.append(Result(f"{name}, exponent of the time in {axis}", slope, "", note=note))
    return results


def _label_model() -> Result:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(SOURCE, ATTRIBUTES))
    centres = points[rng.choice(SOURCE, CELLS, replace=False)]
    cells = ((points[:, None, :8] - centres[None, :, :8]) ** 2).sum(axis=2).argmin(axis=1)
    labels = points[:, 0] + 0.5 * points[:, 1] ** 2 > 0.3
    pairs = np.stack([np.bincount(cells[labels == value], minlength=CELLS) for value in (False, True)], axis=1)
    noisy = pairs + np.rint(rng.laplace(0, 1.0, pairs.shape))
    times = [
        seconds(lambda: fit_label_model(points, [Observation(cells, noisy.astype(np.float64), 1.0)], seed=0))
        for _ in range(REPEATS)
    ]
    name = f"label model, {CELLS} cells, {SOURCE} records, {ATTRIBUTES} attributes"
    return Result(name, median(times), "s", spread=spread(times))
