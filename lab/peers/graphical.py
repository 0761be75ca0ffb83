"""A distribution that fits noisy marginals: independent components, each a graphical model of `mbi`.

The fits run in the peers' own environment, which has `mbi`; the file is imported in ExPriL's, too.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lab.peers.discrete import Clique, Codes
from lab.peers.task import Vector

FIT_STEPS = 300
"""Of mirror descent, per fit."""


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
    _drawn: dict[tuple[int, ...], tuple[int, dict[int, Codes]]] = field(default_factory=dict)

    def draw(self, measured: Sequence[Measured], rows: int) -> Codes:
        """Rows of the model that fits the measurements best: (rows, a) codes."""
        drawn = {}
        fresh = {}
        for members in components(len(self.sizes), [each.clique for each in measured]):
            own = [each for each in measured if set(each.clique) <= set(members)]
            version, columns = self._drawn.get(members, (-1, {}))
            if version != len(own) or len(columns[members[0]]) != rows:
                columns = self._alone(members[0], own, rows) if len(members) == 1 else self._joint(members, own, rows)
            fresh[members] = (len(own), columns)
            drawn.update(columns)
        self._drawn = fresh
        return np.stack([drawn[place] for place in range(len(self.sizes))], axis=1)

    def _alone(self, place: int, measured: Sequence[Measured], rows: int) -> dict[int, Codes]:
        """One attribute: the nearest counts that are not negative and add up to the total."""
        size = self.sizes[place]
        counts = np.full(size, self.total / size)
        if measured:
            weights = [each.deviation**-2 for each in measured]
            counts = onto_simplex(np.average([each.counts for each in measured], axis=0, weights=weights), self.total)
        return {place: self.rng.choice(size, rows, p=counts / counts.sum())}

    def _joint(self, members: Clique, measured: Sequence[Measured], rows: int) -> dict[int, Codes]:
        mbi = _mbi()
        from mbi.estimation import mirror_descent  # noqa: PLC0415
        from mbi.marginal_oracles import message_passing_stable  # noqa: PLC0415

        found = mirror_descent(
            _domain(self.sizes, members),
            [
                mbi.LinearMeasurement(each.counts, tuple(map(str, each.clique)), stddev=each.deviation)
                for each in measured
            ],
            known_total=self.total,
            iters=FIT_STEPS,
            marginal_oracle=message_passing_stable,
        )
        # mbi draws from numpy's global generator, and row i of one component must not meet row i of another.
        np.random.seed(self.rng.integers(2**32))  # noqa: NPY002
        columns = found.synthetic_data(rows).to_dict()
        order = self.rng.permutation(rows)
        return {place: np.asarray(columns[str(place)], np.int64)[order] for place in members}


def components(attributes: int, cliques: Sequence[Clique]) -> list[tuple[int, ...]]:
    """Attributes that cliques connect, each group ascending, in the order of their first members."""
    group = list(range(attributes))
    for clique in cliques:
        joined = {group[place] for place in clique}
        group = [min(joined) if each in joined else each for each in group]
    return [tuple(np.flatnonzero(np.array(group) == first).tolist()) for first in sorted(set(group))]


def onto_simplex(values: Vector, total: float) -> Vector:
    """The nearest vector (L2) that is not negative and adds up to `total` > 0."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    kept = np.flatnonzero(ordered - excess > 0)[-1]
    nearest: Vector = np.maximum(values - excess[kept], 0.0)
    return nearest


def fits(known: Sequence[Clique], clique: Clique, sizes: Sequence[int], megabytes: float) -> bool:
    """Whether the component that a marginal makes stays small; what adds no edge always fits."""
    if any(set(clique) <= set(each) for each in known):
        return True
    mbi = _mbi()
    members = next(group for group in components(len(sizes), [*known, clique]) if clique[0] in group)
    cliques = [each for each in [*known, clique] if set(each) <= set(members)]
    names = [tuple(map(str, each)) for each in cliques]
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
