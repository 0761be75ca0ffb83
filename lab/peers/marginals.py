"""AIM and MST: differentially private synthetic records from noisy low-order marginals and a graphical model.

MST is McKenna, Miklau and Sheldon, "Winning the NIST contest" (2021); AIM is McKenna, Mullins, Sheldon and Miklau
(2022), Algorithm 1. The inference is that of their authors' library `mbi`; the noise is OpenDP's exact discrete
Gaussian (delta > 0, accounted by zero-concentrated differential privacy, "zCDP") or Laplace (delta = 0), over
neighbours that differ by one added or removed record.

OpenDP ships both mechanisms, too, but 0.16 searches every scale numerically, and its MST is refused by its own budget
through a rounding error at 10 attributes; here scales are closed forms whose cost OpenDP's own maps confirm.

Noise for marginals and choices, and what it cost so far, are OpenDP's exact mechanisms, accounted by its own maps.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from itertools import combinations
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from lab.peers.discrete import Attribute, Clique, Codes, attributes_of, discretise, marginal, restore
from lab.peers.graphical import Measured, Model, components, fits
from lab.peers.preparation import logistic_regression
from lab.peers.task import Labels, Matrix, PeerTask, Vector

dp.enable_features("contrib")

SAFETY = 1 - 1e-9
"""Share of the budget that is planned with, so that rounded sums stay below it."""


class Odometer:
    """Noise, and what it cost so far.

    `epsilon` > 0; `delta`: 0 for pure epsilon with Laplace noise; else in (0, 1), with Gaussian noise under zCDP.

    Attributes:
        total: to spend: epsilon, or the largest rho whose zCDP guarantee implies (epsilon, delta).
        spent: by OpenDP's maps, at most `total`.

    Raises ValueError: epsilon or delta out of range.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        if not epsilon > 0 or not 0 <= delta < 1:
            raise ValueError(f"epsilon {epsilon} must be positive and delta {delta} in [0, 1)")
        self.pure = delta == 0
        self.total = epsilon if self.pure else rho_for(epsilon, delta)
        self.spent = 0.0

    @property
    def left(self) -> float:
        """What may still be planned with."""
        return max(self.total * SAFETY - self.spent, 0.0)

    @property
    def mean_noise(self) -> float:
        """E|noise| over its standard deviation."""
        return math.sqrt(0.5) if self.pure else math.sqrt(2 / math.pi)

    def deviation(self, cost: float) -> float:
        """Standard deviation of counts that cost so much."""
        return math.sqrt(2) / cost if self.pure else 1 / math.sqrt(2 * cost)

    def counts(self, exact: NDArray[np.int64], cost: float) -> Vector:
        """Noisy counts of disjoint cells: (k,) -> (k,) float64 whole numbers."""
        domain = dp.vector_domain(dp.atom_domain(T="i32"))
        if self.pure:
            mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="u32"), scale=1 / cost)
        else:
            mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="u32"), scale=self.deviation(cost))
        self._charge(mechanism.map(1))
        return np.array(mechanism([int(value) for value in exact]), np.float64)

    def choose(self, scores: Vector, sensitivity: float, cost: float) -> int:
        """The exponential mechanism: index of a high score; one record moves a score by at most `sensitivity`."""
        measure = dp.max_divergence() if self.pure else dp.zero_concentrated_divergence()
        strength = cost if self.pure else math.sqrt(8 * cost)
        mechanism = dp.m.make_noisy_max(
            dp.vector_domain(dp.atom_domain(T="f64", nan=False)),
            dp.linf_distance(T="f64"),
            output_measure=measure,
            scale=2 * sensitivity / strength,
        )
        self._charge(mechanism.map(sensitivity))
        return int(mechanism([float(score) for score in scores]))

    def _charge(self, cost: float) -> None:
        if self.spent + cost > self.total:
            raise ArithmeticError(f"{self.spent} are spent of {self.total}: {cost} more is too much")
        self.spent += cost


def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho (to 1e-9 of it, from below) whose zCDP guarantee implies (epsilon, delta), by OpenDP."""

    def implied(rho: float) -> float:
        domain = dp.vector_domain(dp.atom_domain(T="i32"))
        gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T="u32"), scale=1 / math.sqrt(2 * rho))
        return float(dp.c.make_zCDP_to_approxDP(gaussian).map(1).epsilon(delta))

    low, high = 0.0, epsilon  # rho + 2 sqrt(rho ln(1 / delta)) >= epsilon already at rho = epsilon
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if implied(middle) <= epsilon else (low, middle)
    return low


MOST_MEGABYTES = 1.0
"""Of AIM's graphical model; the authors' default of 80 takes hours."""
MOST_ROUNDS = 15
"""Of AIM; the last one spends what is left."""
MOST_CANDIDATE_CELLS = 2000
"""Marginals with more cells are no candidates of AIM: their noise would exceed their counts."""
SAMPLED = 20_000
"""Rows drawn from a model to read its marginals off; the error is far below the noise of what is measured."""


def mst(
    codes: Codes, sizes: Sequence[int], odometer: Odometer, rng: np.random.Generator
) -> tuple[Model, list[Measured]]:
    """MST: all one-way marginals, a noisy maximum spanning tree of pairs, and these pairs; a third each."""
    attributes = len(sizes)
    third = odometer.left / 3
    measured = [_measure(codes, sizes, (place,), third / attributes, odometer) for place in range(attributes)]
    model = Model(sizes, _total(measured), rng)
    scores = _distances(codes, model, measured, list(combinations(range(attributes), 2)))
    chosen: list[Clique] = []
    for _ in range(attributes - 1):
        groups = {place: members for members in components(attributes, chosen) for place in members}
        open_pairs = [pair for pair in scores if groups[pair[0]] != groups[pair[1]]]
        best = odometer.choose(np.array([scores[pair] for pair in open_pairs]), 1.0, third / (attributes - 1))
        chosen.append(open_pairs[best])
    measured += [_measure(codes, sizes, pair, third / max(len(chosen), 1), odometer) for pair in chosen]
    model.total = _total(measured)
    return model, measured


def aim(
    codes: Codes, sizes: Sequence[int], odometer: Odometer, rng: np.random.Generator
) -> tuple[Model, list[Measured]]:
    """AIM for the workload of all triples with the label, the last attribute (TARGET in the paper's experiments)."""
    attributes = len(sizes)
    label = attributes - 1
    workload: list[Clique] = [(*pair, label) for pair in combinations(range(label), 2)] or [tuple(range(attributes))]
    weights = _weights(workload, sizes)
    budget = odometer.left
    step = budget / (16 * attributes)
    measured = [_measure(codes, sizes, (place,), 0.9 * step, odometer) for place in range(attributes)]
    model = Model(sizes, _total(measured), rng)
    for number in range(1, MOST_ROUNDS + 1):
        if number == MOST_ROUNDS or odometer.left < 2 * step:
            step = odometer.left
        deviation = odometer.deviation(0.9 * step)
        room = MOST_MEGABYTES * min(1.0, (odometer.spent + step) / budget)
        known = [each.clique for each in measured]
        candidates = [clique for clique in weights if fits(known, clique, sizes, room)]
        distances = _distances(codes, model, measured, candidates)
        penalty = odometer.mean_noise * deviation
        scores = [
            weights[clique] * (distances[clique] - penalty * math.prod(sizes[place] for place in clique))
            for clique in candidates
        ]
        sensitivity = max(weights[clique] for clique in candidates)
        clique = candidates[odometer.choose(np.array(scores), sensitivity, 0.1 * step)]
        before = _model_marginal(model, measured, clique)
        measured.append(_measure(codes, sizes, clique, 0.9 * step, odometer))
        moved = np.abs(_model_marginal(model, measured, clique) - before).sum()
        if odometer.left < 1e-6 * budget:
            break
        if moved <= penalty * len(before):
            step *= 4  # half the deviation
        step = min(step, odometer.left)
    model.total = _total(measured)
    return model, measured


ALGORITHMS: dict[str, Callable[..., tuple[Model, list[Measured]]]] = {"aim": aim, "mst": mst}


def synthesise(
    algorithm: str, train: Matrix, labels: Labels, attributes: Sequence[Attribute], **budget: Any
) -> tuple[Matrix, Labels]:
    """Private synthetic records.

    `train` are (n, p) private records, `labels` (n,) 0 or 1; the budget has `epsilon` and `delta`, as of `Odometer`,
    and `seed`, of the drawn rows, never of the noise.

    Returns:
        (m, p) records and (m,) labels; m is the noisy number of private records.

    Raises ValueError: an unknown algorithm, or a budget out of range; ArithmeticError: more would be spent than there
    is.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"no generator is called {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    rng = np.random.default_rng(budget["seed"])
    odometer = Odometer(budget["epsilon"], budget["delta"])
    codes = np.column_stack([discretise(train, attributes), labels.astype(np.int64)])
    sizes = [*(attribute.size for attribute in attributes), 2]
    model, measured = ALGORITHMS[algorithm](codes, sizes, odometer, rng)
    drawn = model.draw(measured, max(2, round(model.total)))
    return restore(drawn[:, :-1], attributes, rng), drawn[:, -1]


def generate(task: PeerTask, seed: int | None = None) -> tuple[Matrix, Labels]:
    """As `synthesise`, of a task's private records; `seed` is of the drawn rows, None takes the task's."""
    attributes = attributes_of(task.columns, task.lower, task.upper)
    budget = {"epsilon": task.private_epsilon(), "delta": task.delta, "seed": task.seed if seed is None else seed}
    return synthesise(task.peer, task.train, task.labels, attributes, **budget)


def predict(task: PeerTask) -> Vector:
    """P(class 1) of test records, (m,), by logistic regression on private synthetic records; else as `synthesise`."""
    matrix, classes = generate(task, task.entropy())
    return logistic_regression(replace(task, train=matrix, labels=classes))


def versions() -> dict[str, str]:
    """Of the libraries; ImportError where one is missing."""
    return {name: version(name) for name in ("jax", "mbi", "opendp")}


def _measure(codes: Codes, sizes: Sequence[int], clique: Clique, cost: float, odometer: Odometer) -> Measured:
    return Measured(clique, odometer.counts(marginal(codes, sizes, clique), cost), odometer.deviation(cost))


def _total(measured: Sequence[Measured]) -> float:
    """The least variance unbiased estimate of the number of records, at least 1."""
    weights = [1 / (len(each.counts) * each.deviation**2) for each in measured]
    return max(1.0, float(np.average([each.counts.sum() for each in measured], weights=weights)))


def _model_marginal(model: Model, measured: Sequence[Measured], clique: Clique) -> Vector:
    drawn = marginal(model.draw(measured, SAMPLED), model.sizes, clique)
    counted: Vector = drawn.astype(np.float64) * (model.total / SAMPLED)
    return counted


def _distances(
    codes: Codes, model: Model, measured: Sequence[Measured], cliques: Sequence[Clique]
) -> dict[Clique, float]:
    """L1 distance of each exact marginal from the model's; one record more moves it by at most 1."""
    drawn, scale = model.draw(measured, SAMPLED), model.total / SAMPLED
    return {
        clique: float(np.abs(marginal(codes, model.sizes, clique) - scale * marginal(drawn, model.sizes, clique)).sum())
        for clique in cliques
    }


def _weights(workload: Sequence[Clique], sizes: Sequence[int]) -> dict[Clique, float]:
    """Every subset of the workload, weighted by what it shares with it (section 3.2 of AIM), the largest left out."""
    parts = {part for query in workload for size in range(1, len(query) + 1) for part in combinations(query, size)}
    small = sorted(part for part in parts if math.prod(sizes[place] for place in part) <= MOST_CANDIDATE_CELLS)
    return {part: float(sum(len(set(part) & set(query)) for query in workload)) for part in small}
