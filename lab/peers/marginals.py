"""AIM and MST: differentially private synthetic records from noisy low-order marginals and a graphical model.

MST is McKenna, Miklau and Sheldon, "Winning the NIST contest" (2021); AIM is McKenna, Mullins, Sheldon and Miklau
(2022), Algorithm 1. The inference is that of their authors' library `mbi`, which only the peers' environment has. Noise
for marginals and choices is OpenDP's exact discrete Gaussian (delta > 0, accounted by zero-concentrated differential
privacy, "zCDP") or Laplace (delta = 0), over neighbours that differ by one added or removed record; what it cost so far
is accounted by OpenDP's own maps.

OpenDP ships both mechanisms, too, but 0.16 searches every scale numerically, and its MST is refused by its own budget
through a rounding error at 10 attributes; here scales are closed forms whose cost OpenDP's own maps confirm.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from lab.peers.preparation import attribute_columns, logistic_regression
from lab.peers.task import Labels, Matrix, PeerTask, Vector

Codes = NDArray[np.int64]
Clique = tuple[int, ...]  # places of attributes that are counted together

BINS = 8  # even bins of a numeric attribute over its public range


@dataclass(frozen=True)
class Attribute:
    """A discrete attribute and the matrix columns that it stands for."""

    columns: tuple[int, ...]  # one column of numbers, or one 0/1 column a level
    edges: tuple[float, ...] = ()  # (k + 1,) ascending bounds of a numeric attribute's bins; empty for levels

    @property
    def size(self) -> int:
        """Number of codes. An attribute of levels has one code more, for records with none of its levels."""
        return len(self.edges) - 1 if self.edges else len(self.columns) + 1


def attributes_of(columns: Sequence[str], lower: Vector, upper: Vector, bins: int = BINS) -> list[Attribute]:
    """Even bins for numbers; columns named "attribute=level" become one attribute again.

    `columns` (p,) names; `lower` (p,) public lower bounds; `upper` (p,) public upper bounds, above `lower`; `bins`:
    per numeric attribute, at least 2.

    Raises ValueError: bounds that are not in order.
    """
    if not np.all(lower < upper):
        raise ValueError("every lower bound must be below its upper bound")

    def edges(place: int) -> tuple[float, ...]:
        return () if "=" in columns[place] else tuple(np.linspace(lower[place], upper[place], bins + 1).tolist())

    return [Attribute(places, edges(places[0])) for places in attribute_columns(columns)]


def discretise(matrix: Matrix, attributes: Sequence[Attribute]) -> Codes:
    """(n, p) numbers as (n, a) codes; values outside the bounds go to the end bins."""
    codes = []
    for attribute in attributes:
        values = matrix[:, attribute.columns]
        if attribute.edges:
            codes.append(np.searchsorted(np.array(attribute.edges[1:-1]), values[:, 0], side="right"))
        else:
            codes.append(np.where(values.any(axis=1), values.argmax(axis=1), len(attribute.columns)))
    return np.stack(codes, axis=1).astype(np.int64)


def restore(codes: Codes, attributes: Sequence[Attribute], rng: np.random.Generator) -> Matrix:
    """(n, a) codes as (n, p) numbers: uniform within a bin; 0/1 columns for levels."""
    matrix = np.zeros((len(codes), sum(len(attribute.columns) for attribute in attributes)))
    for code, attribute in zip(codes.T, attributes, strict=True):
        if attribute.edges:
            edges = np.array(attribute.edges)
            matrix[:, attribute.columns[0]] = edges[code] + rng.random(len(code)) * (edges[code + 1] - edges[code])
        else:
            levelled = code < len(attribute.columns)
            matrix[np.flatnonzero(levelled), np.array(attribute.columns)[code[levelled]]] = 1.0
    return matrix


def marginal(codes: Codes, sizes: Sequence[int], clique: Clique) -> NDArray[np.int64]:
    """Counts of a marginal, row-major over the clique's attributes."""
    shape = tuple(sizes[place] for place in clique)
    cells = np.ravel_multi_index(tuple(codes[:, place] for place in clique), shape)
    return np.bincount(cells, minlength=math.prod(shape))


FIT_STEPS = 300  # of mirror descent, per fit


@dataclass(frozen=True)
class Measured:
    """Noisy counts of a marginal, row-major over the clique's attributes."""

    clique: Clique
    counts: Vector
    deviation: float


@dataclass
class Model:
    """A distribution over codes that fits noisy marginals: independent components, each a graphical model of `mbi`.

    Attributes that no measured marginal connects are independent given the fixed total, so each component is fitted
    alone, and only again when a marginal of its own is added.
    """

    sizes: Sequence[int]  # (a,) codes per attribute
    total: float  # records, estimated
    rng: np.random.Generator  # of the drawn rows
    _columns: dict[tuple[int, ...], tuple[int, dict[int, Codes]]] = field(default_factory=dict)

    def draw(self, measured: Sequence[Measured], rows: int) -> Codes:
        """Rows of the model that fits the measurements best: (rows, a) codes."""
        columns_by_place = {}
        fresh = {}
        for members in components(len(self.sizes), [marginal.clique for marginal in measured]):
            inside = [marginal for marginal in measured if set(marginal.clique) <= set(members)]
            version, columns = self._columns.get(members, (-1, {}))
            if version != len(inside) or len(columns[members[0]]) != rows:
                columns = (
                    self._single(members[0], inside, rows) if len(members) == 1 else self._joint(members, inside, rows)
                )
            fresh[members] = (len(inside), columns)
            columns_by_place.update(columns)
        self._columns = fresh
        return np.stack([columns_by_place[place] for place in range(len(self.sizes))], axis=1)

    def _single(self, place: int, measured: Sequence[Measured], rows: int) -> dict[int, Codes]:
        """One attribute: the nearest counts that are not negative and add up to the total."""
        size = self.sizes[place]
        counts = np.full(size, self.total / size)
        if measured:
            weights = [marginal.deviation**-2 for marginal in measured]
            counts = onto_simplex(
                np.average([marginal.counts for marginal in measured], axis=0, weights=weights), self.total
            )
        return {place: self.rng.choice(size, rows, p=counts / counts.sum())}

    def _joint(self, members: Clique, measured: Sequence[Measured], rows: int) -> dict[int, Codes]:
        mbi = _mbi()
        from mbi.estimation import mirror_descent  # noqa: PLC0415
        from mbi.marginal_oracles import message_passing_stable  # noqa: PLC0415

        fitted = mirror_descent(
            _domain(self.sizes, members),
            [
                mbi.LinearMeasurement(marginal.counts, tuple(map(str, marginal.clique)), stddev=marginal.deviation)
                for marginal in measured
            ],
            known_total=self.total,
            iters=FIT_STEPS,
            marginal_oracle=message_passing_stable,
        )
        # mbi draws from numpy's global generator, and row i of one component must not meet row i of another.
        np.random.seed(self.rng.integers(2**32))  # noqa: NPY002
        columns = fitted.synthetic_data(rows).to_dict()
        order = self.rng.permutation(rows)
        return {place: np.asarray(columns[str(place)], np.int64)[order] for place in members}


def components(attributes: int, cliques: Sequence[Clique]) -> list[tuple[int, ...]]:
    """Attributes that cliques connect, each group ascending, in the order of their first members."""
    group = list(range(attributes))
    for clique in cliques:
        joined = {group[place] for place in clique}
        group = [min(joined) if label in joined else label for label in group]
    return [tuple(np.flatnonzero(np.array(group) == first).tolist()) for first in sorted(set(group))]


def onto_simplex(values: Vector, total: float) -> Vector:
    """The nearest vector (L2) that is not negative and adds up to `total` > 0."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = np.flatnonzero(ordered - excess > 0)[-1]
    return np.asarray(np.maximum(values - excess[last], 0.0))


def fits(cliques_so_far: Sequence[Clique], clique: Clique, sizes: Sequence[int], megabytes: float) -> bool:
    """Whether the component that a marginal makes stays small; what adds no edge always fits."""
    if any(set(clique) <= set(other) for other in cliques_so_far):
        return True
    mbi = _mbi()
    members = next(group for group in components(len(sizes), [*cliques_so_far, clique]) if clique[0] in group)
    cliques = [other for other in [*cliques_so_far, clique] if set(other) <= set(members)]
    names = [tuple(map(str, other)) for other in cliques]
    return bool(mbi.junction_tree.hypothetical_model_size(_domain(sizes, members), names) <= megabytes)


def _domain(sizes: Sequence[int], members: Clique) -> Any:
    mbi = _mbi()
    return mbi.Domain([str(place) for place in members], [sizes[place] for place in members])


def _mbi() -> Any:
    # Read when jax loads: a model is compiled anew for every set of marginals, and runs for less time than that takes.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import mbi  # noqa: PLC0415 - only the peers' environment has it

    return mbi


dp.enable_features("contrib")

SAFETY = 1 - 1e-9  # share of the budget that is planned with, so that rounded sums stay below it


class Odometer:
    """Draws noise and accounts for its cost so far.

    `epsilon` > 0; `delta`: 0 for pure epsilon with Laplace noise; else in (0, 1), with Gaussian noise under zCDP.

    `total` is the whole budget: epsilon, or the largest rho whose zCDP guarantee implies (epsilon, delta). `spent` is
    the cost so far by OpenDP's maps, at most `total`. Raises ValueError: epsilon or delta out of range.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        if not epsilon > 0 or not 0 <= delta < 1:
            raise ValueError(f"epsilon {epsilon} must be positive and delta {delta} in [0, 1)")
        self.pure = delta == 0
        self.total = epsilon if self.pure else rho_for(epsilon, delta)
        self.spent = 0.0

    @property
    def remaining(self) -> float:
        """The budget that may still be planned with."""
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


MOST_MEGABYTES = 1.0  # of AIM's graphical model; the authors' default of 80 takes hours
MOST_ROUNDS = 15  # of AIM; the last one spends what is left
MOST_CANDIDATE_CELLS = 2000  # marginals with more cells are no candidates of AIM: their noise would exceed their counts
SAMPLED = 20_000
"""Rows drawn from a model to read its marginals off; the error is far below the noise of what is measured."""


def mst(
    codes: Codes, sizes: Sequence[int], odometer: Odometer, rng: np.random.Generator
) -> tuple[Model, list[Measured]]:
    """MST: all one-way marginals, a noisy maximum spanning tree of pairs, and these pairs; a third each."""
    attributes = len(sizes)
    third = odometer.remaining / 3
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
    budget = odometer.remaining
    step = budget / (16 * attributes)
    measured = [_measure(codes, sizes, (place,), 0.9 * step, odometer) for place in range(attributes)]
    model = Model(sizes, _total(measured), rng)
    for number in range(1, MOST_ROUNDS + 1):
        if number == MOST_ROUNDS or odometer.remaining < 2 * step:
            step = odometer.remaining
        deviation = odometer.deviation(0.9 * step)
        room = MOST_MEGABYTES * min(1.0, (odometer.spent + step) / budget)
        cliques = [marginal.clique for marginal in measured]
        candidates = [clique for clique in weights if fits(cliques, clique, sizes, room)]
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
        if odometer.remaining < 1e-6 * budget:
            break
        if moved <= penalty * len(before):
            step *= 4  # half the deviation
        step = min(step, odometer.remaining)
    model.total = _total(measured)
    return model, measured


ALGORITHMS: dict[str, Callable[..., tuple[Model, list[Measured]]]] = {"aim": aim, "mst": mst}


def synthesise(
    algorithm: str, train: Matrix, labels: Labels, attributes: Sequence[Attribute], **budget: Any
) -> tuple[Matrix, Labels]:
    """Private synthetic records.

    `train` are (n, p) private records, `labels` (n,) 0 or 1; the budget has `epsilon` and `delta`, as of `Odometer`,
    and `seed`, of the drawn rows, never of the noise.

    Returns (m, p) records and (m,) labels; m is the noisy number of private records.

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
    rows = model.draw(measured, max(2, round(model.total)))
    return restore(rows[:, :-1], attributes, rng), rows[:, -1]


def generate(task: PeerTask, seed: int | None = None) -> tuple[Matrix, Labels]:
    """As `synthesise`, of a task's private records; `seed` is of the drawn rows, None takes the task's."""
    attributes = attributes_of(task.columns, task.lower, task.upper)
    budget = {"epsilon": task.private_epsilon(), "delta": task.delta, "seed": task.seed if seed is None else seed}
    return synthesise(task.peer, task.train, task.labels, attributes, **budget)


def predict(task: PeerTask) -> Vector:
    """P(class 1) of test records, (m,), by logistic regression on private synthetic records; else as `synthesise`."""
    matrix, classes = generate(task, task.entropy())
    return logistic_regression(replace(task, train=matrix, labels=classes))


MODELS = dict.fromkeys(ALGORITHMS, predict)
GENERATORS = dict.fromkeys(ALGORITHMS, generate)
LIBRARIES = ("jax", "mbi", "opendp")


def _measure(codes: Codes, sizes: Sequence[int], clique: Clique, cost: float, odometer: Odometer) -> Measured:
    return Measured(clique, odometer.counts(marginal(codes, sizes, clique), cost), odometer.deviation(cost))


def _total(measured: Sequence[Measured]) -> float:
    """The least variance unbiased estimate of the number of records, at least 1."""
    weights = [1 / (len(marginal.counts) * marginal.deviation**2) for marginal in measured]
    return max(1.0, float(np.average([marginal.counts.sum() for marginal in measured], weights=weights)))


def _model_marginal(model: Model, measured: Sequence[Measured], clique: Clique) -> Vector:
    counts = marginal(model.draw(measured, SAMPLED), model.sizes, clique)
    return np.asarray(counts.astype(np.float64) * (model.total / SAMPLED))


def _distances(
    codes: Codes, model: Model, measured: Sequence[Measured], cliques: Sequence[Clique]
) -> dict[Clique, float]:
    """L1 distance of each exact marginal from the model's; one record more moves it by at most 1."""
    rows, scale = model.draw(measured, SAMPLED), model.total / SAMPLED
    return {
        clique: float(np.abs(marginal(codes, model.sizes, clique) - scale * marginal(rows, model.sizes, clique)).sum())
        for clique in cliques
    }


def _weights(workload: Sequence[Clique], sizes: Sequence[int]) -> dict[Clique, float]:
    """Every subset of the workload, weighted by what it shares with it (section 3.2 of AIM), the largest left out."""
    parts = {part for query in workload for size in range(1, len(query) + 1) for part in combinations(query, size)}
    small = sorted(part for part in parts if math.prod(sizes[place] for place in part) <= MOST_CANDIDATE_CELLS)
    return {part: float(sum(len(set(part) & set(query)) for query in workload)) for part in small}
