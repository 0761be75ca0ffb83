"""Cases of counts and shares, of tests on tables, and of pooling between sites, whose functions all parts share."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lab.intervals.answers import Columns, Values, draw_records, noise_of
from lab.intervals.case import COARSE_RECORDS, Case, Compared, Interval, TrueNull, of_estimate
from lab.intervals.design import Condition
from learner_node.analyses.between_sites import SiteEstimate, between_sites
from learner_node.analyses.inference import chi_squared, trend
from learner_node.analyses.shares import NoisySum, count_estimate, share_estimate


@dataclass(frozen=True)
class Joint:
    """The joint law of some categories, as shares of the cells of their cross table."""

    variables: tuple[str, ...]
    shares: Values  # of the shape of the numbers of levels, adding up to 1

    def draw(self, rng: np.random.Generator, size: int) -> Columns:
        """Independent records."""
        cells = np.searchsorted(np.cumsum(self.shares.ravel())[:-1], rng.random(size), side="right")
        codes = np.unravel_index(cells, self.shares.shape)
        return {name: code.astype(float) for name, code in zip(self.variables, codes, strict=True)}


def product(*shares: tuple[float, ...]) -> Values:
    """The joint law of independent categories."""
    table = np.ones(())
    for row in shares:
        table = np.multiply.outer(table, np.asarray(row))
    return table


DOSES = {
    "three even groups": product((1 / 3, 1 / 3, 1 / 3), (0.7, 0.3)),
    "one rare group, a rare event": product((0.85, 0.1, 0.05), (0.95, 0.05)),
    "six groups, three levels": product((0.3, 0.3, 0.2, 0.1, 0.06, 0.04), (0.6, 0.3, 0.1)),
}
"""Population -> shares of dose x event, which do not depend on each other."""


def drawn_counts(table: Values, condition: Condition, rng: np.random.Generator) -> NDArray[np.float64]:
    """The exact pooled table of the records of all sites; those of a unit may be alike."""
    names = tuple(str(axis) for axis in range(table.ndim))
    counts = np.zeros(table.shape)
    for _ in range(condition.sites):
        columns = draw_records(Joint(names, table).draw, condition, rng)
        np.add.at(counts, tuple(columns[name].astype(int) for name in names), 1.0)
    return counts


def correlated_counts(table: Values, condition: Condition, rng: np.random.Generator) -> NDArray[np.float64]:
    """`drawn_counts` with the noise of the setting."""
    return drawn_counts(table, condition, rng) + noise_of(condition).simulate(rng, table.shape)


SHARES = {"common": 0.4, "rare": 0.02, "very rare": 0.001}
"""A group -> its share of the population."""
_FEW = 25.0
"""Expected records below which, in deviations, an interval often ends at 0."""


def _counts(condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
    """A cell, and a margin of five cells, of a table of eight."""
    table = np.array([*SHARES.values(), 1.0 - sum(SHARES.values()), 0.0, 0.0, 0.0, 0.0])
    counts = drawn_counts(table, condition, rng)
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


def _independence(table: Values, condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
    """Pearson's test, and that of a trend, of a table without dependence."""
    values = correlated_counts(table, condition, rng)
    noise, most = noise_of(condition), condition.most_records_per_unit
    yield TrueNull("chi-squared", chi_squared(values, noise, most).p)
    if table.shape[1] == 2:
        yield TrueNull("trend", trend(values, np.arange(len(table), dtype=float), noise, most).p)


SPREADS = {"alike": 0.0, "differ little": 0.3, "differ much": 1.0}
"""Sites' true values -> tau, in standard errors of a site of mean size."""
MEAN = 0.4


def _pooling(tau: float, condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
    """Sites' estimates that are normal around their true values, of unlike sizes; noise as at a count of each."""
    spread = np.array([0.5, 0.8, 1.0, 2.0])
    sampling = spread * condition.most_records_per_unit / condition.size
    noise = noise_of(condition, sites=1)
    added = noise.variance / condition.size**2
    unit = float(np.sqrt(np.mean(sampling + added)))
    true = rng.normal(MEAN * unit, tau * unit, 4)
    answers = true + rng.normal(0.0, np.sqrt(sampling)) + noise.simulate(rng, (4,)) / condition.size
    result = between_sites(
        [
            SiteEstimate(f"site {n}", float(y), float(v) + added, added)
            for n, (y, v) in enumerate(zip(answers, sampling, strict=True))
        ]
    )
    if result is None or result.random is None or result.prediction is None:
        return
    if tau == 0:
        yield Interval("fixed effect", result.fixed.low, result.fixed.high, MEAN * unit)
        yield TrueNull("heterogeneity", result.p)
    yield Interval("random effects", result.random.low, result.random.high, MEAN * unit)
    yield Interval("tau squared", result.tau_squared_low, result.tau_squared_high, (tau * unit) ** 2, coarse=True)
    site = rng.normal(MEAN * unit, tau * unit)
    yield Interval("prediction of another site", *result.prediction, site, coarse=True)


CASES: dict[str, Case] = {
    "counts and shares": Case(_counts, 1_000, 5),
    **{f"tests: {name}": Case(partial(_independence, table), 2_000) for name, table in DOSES.items()},
    **{
        f"between sites: {name}": Case(partial(_pooling, tau), 2_000, 40, lambda condition: condition.draws == 4)
        for name, tau in SPREADS.items()
    },
}
