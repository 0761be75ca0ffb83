"""Cases of counts and shares: of these records, and of their population.

It is a module of its own, as that of each sort of analysis, so that `cases` is a list of modules.
"""

from collections.abc import Iterator

import numpy as np

from lab.intervals.answers import draw_records, noise_of
from lab.intervals.case import COARSE_RECORDS, Case, Compared, of_estimate
from lab.intervals.design import Condition
from lab.intervals.of_tables import Joint
from learner_node.analyses.shares import NoisySum, count_estimate, share_estimate

SHARES = {"common": 0.4, "rare": 0.02, "very rare": 0.001}
"""A group -> its share of the population."""
_FEW = 25.0
"""Expected records below which, in deviations, an interval often ends at 0."""


def _counts(condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
    """A cell, and a margin of five cells, of a table of eight."""
    table = np.array([*SHARES.values(), 1.0 - sum(SHARES.values()), 0.0, 0.0, 0.0, 0.0])
    counts = np.zeros(len(table))
    for _ in range(condition.sites):
        columns = draw_records(Joint(("group",), table).draw, condition, rng)
        np.add.at(counts, columns["group"].astype(int), 1.0)
    noise, most, size = noise_of(condition), condition.most_records_per_unit, float(condition.size * condition.sites)
    values = counts + noise.simulate(rng, counts.shape)
    for index, (name, share) in enumerate(SHARES.items()):
        inside, expected = NoisySum(float(values[index]), 1), share * size
        outside = NoisySum(float(values.sum() - values[index]), len(values) - 1)
        cut = expected**2 < _FEW * noise.variance
        coarse = cut or noise.variance < COARSE_RECORDS**2
        estimate = count_estimate(inside, noise)
        yield of_estimate(f"count, {name}", estimate, float(counts[index]), (0.0, size), coarse=coarse)
        coarse = cut or expected < _FEW * most
        estimate = share_estimate(inside, outside, noise, most)
        yield of_estimate(f"share, {name}", estimate, share, (0.0, 1.0), coarse=coarse)
    coarse = noise.variance < COARSE_RECORDS**2
    estimate = count_estimate(NoisySum(float(values[:5].sum()), 5), noise)
    yield of_estimate("count, margin of five cells", estimate, float(counts[:5].sum()), (0.0, size), coarse=coarse)


CASES: dict[str, Case] = {"counts and shares": Case(_counts, 1_000, 5)}
