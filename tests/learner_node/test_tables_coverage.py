"""Coverage of shares over noise, sizes and clustering, and the bias of what is shown: docs/learner/tables.md."""

from itertools import product

import numpy as np
import pytest

from learner_node.analyses.consistency import consistent
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.shares import NoisySum, share_estimate

pytestmark = pytest.mark.slow
REPEATS = 200


def records(rng, n, most, shares):
    """Counts of levels; the records of a unit have correlation .6."""
    units = n // most
    common = rng.choice(len(shares), (units, 1), p=shares)
    separate = rng.choice(len(shares), (units, most), p=shares)
    alike = rng.random((units, most)) < np.sqrt(0.6 if most > 1 else 0.0)
    return np.bincount(np.where(alike, common, separate).ravel(), minlength=len(shares)).astype(float)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1, 3])
def test_intervals_of_shares_cover_over_the_design(epsilon):
    rng = np.random.default_rng(int(10 * epsilon))
    designs = product((100, 1000, 10_000), ((1, 1, 1.0), (4, 3, 4.0), (1, 1, 4 / 3)), (0.002, 0.01, 0.1, 0.5))
    coverages = []
    for n, (sites, most, draws), share in designs:
        noise, hits = NoiseLaw(most / epsilon, draws), 0
        for _ in range(REPEATS):
            counts = records(rng, n * sites, most, [share, (1 - share) / 2, (1 - share) / 2])
            inside, *outside = counts + noise.simulate(rng, (3,))
            estimate = share_estimate(NoisySum(inside, 1), NoisySum(sum(outside), 2), noise, most)
            hits += estimate.low <= share <= estimate.high
        coverages.append(hits / REPEATS)
    assert min(coverages) > 0.95 - 3.9 * np.sqrt(0.05 * 0.95 / REPEATS)
    assert np.mean(coverages) > 0.945


@pytest.mark.parametrize(("epsilon", "shape"), [(1, (10, 100)), (0.1, (10, 100)), (1, (10, 10, 10))])
def test_totals_and_large_margins_of_what_is_shown_are_hardly_biased(epsilon, shape):
    rng = np.random.default_rng(0)
    noise, repeats = NoiseLaw(1 / epsilon), 1000
    truth = rng.multinomial(int(500 / epsilon), rng.dirichlet(np.full(1000, 0.1))).reshape(shape)
    mean = sum(consistent(truth + noise.simulate(rng, shape), noise) for _ in range(repeats)) / repeats
    error = 4 / np.sqrt(repeats)
    deviation = np.sqrt(noise.variance)
    assert abs(mean.sum() - truth.sum()) < (0.1 + error) * deviation * 1000**0.5
    for axis, count in enumerate(shape):
        others = tuple(index for index in range(len(shape)) if index != axis)
        margin, scale = truth.sum(others), deviation * (1000 / count) ** 0.5
        large = margin > 2 * scale
        assert np.all(np.abs(mean.sum(others) - margin)[large] < (0.1 + error) * scale)
