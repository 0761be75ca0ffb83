"""Cases of effects: 2 x 2 tables, and strata with one effect in common.

It is a module of its own, as that of each sort of analysis, so that the study is a list of modules.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lab.intervals.answers import draw_records, noise_of
from lab.intervals.case import COARSE_RECORDS, WHOLE_LINE, Case, Compared, TrueNull, of_estimate
from lab.intervals.design import Condition
from lab.intervals.of_tables import Joint
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import POPULATION, THESE, Estimate
from learner_node.analyses.two_by_two import MEASURES, Measure, Tables, effect

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """Shares of the strata, of the exposed and of the event."""

    strata: tuple[float, ...]  # adding up to 1
    exposed: tuple[float, ...]  # in each stratum
    risks: tuple[float, ...]  # among the unexposed of each
    odds_ratio: float  # the same in all

    @property
    def shares(self) -> Floats:
        """Of the cells, (strata, 2, 2), adding up to 1."""
        rest = np.array(self.risks)
        odds = rest / (1.0 - rest) * self.odds_ratio
        risk = odds / (1.0 + odds)
        exposed = np.array(self.exposed)
        groups = np.stack([np.stack([risk, 1 - risk], -1), np.stack([rest, 1 - rest], -1)], -2)
        shares: Floats = groups * np.stack([exposed, 1 - exposed], -1)[..., None] * np.array(self.strata)[:, None, None]
        return shares


POPULATIONS = {
    "no effect, half exposed, 10 % with the event": Population((1.0,), (0.5,), (0.1,), 1.0),
    "odds ratio 2, 10 % exposed, 30 % with the event": Population((1.0,), (0.1,), (0.3,), 2.0),
    "odds ratio 5, 30 % exposed, 3 % with the event": Population((1.0,), (0.3,), (0.03,), 5.0),
    "odds ratio 2 in three strata": Population((0.6, 0.3, 0.1), (0.5, 0.3, 0.6), (0.1, 0.2, 0.4), 2.0),
}


def _natural(estimate: Estimate, measure: Measure) -> Estimate:
    """Ratios as logarithms."""
    if measure == "risk difference":
        return estimate
    with np.errstate(divide="ignore"):
        low, high = (float(np.log(end)) for end in (estimate.low, estimate.high))
        value = None if estimate.value is None else float(np.log(estimate.value))
    return replace(estimate, value=value, low=low, high=high)


def _effects(population: Population, condition: Condition, rng: np.random.Generator) -> Iterator[Compared]:
    """All measures of the pooled answer; over strata, the odds ratio, which alone is the same in all."""
    names = ("stratum", "exposed", "event")
    shares = population.shares
    counts = np.zeros(shares.shape)
    for _ in range(condition.sites):
        columns = draw_records(Joint(names, shares).draw, condition, rng)
        np.add.at(counts, tuple(columns[name].astype(int) for name in names), 1.0)
    noise, most = noise_of(condition), condition.most_records_per_unit
    answers = counts + noise.simulate(rng, counts.shape)
    for measure in MEASURES if len(shares) == 1 else ("odds ratio",):
        room = (-1.0, 1.0) if measure == "risk difference" else WHOLE_LINE
        truth = _natural(effect(Tables(shares * 1e6, NoiseLaw(0.0), 1, THESE), measure), measure).value
        exact = _natural(effect(Tables(counts, NoiseLaw(0.0), 1, THESE), measure), measure).value
        estimate = _natural(effect(Tables(answers, noise, most, POPULATION), measure), measure)
        if truth is not None:
            yield of_estimate(measure, estimate, truth, room)
        if exact is not None and np.isfinite(exact):
            coarse = noise.variance < COARSE_RECORDS**2
            interval = _natural(effect(Tables(answers, noise, most, THESE), measure), measure)
            yield of_estimate(measure, interval, exact, room, coarse=coarse)
        if population.odds_ratio == 1.0 and measure == "odds ratio":
            yield TrueNull("no effect", estimate.p)


CASES: dict[str, Case] = {
    f"effects: {name}": Case(partial(_effects, population), 1_000, 10) for name, population in POPULATIONS.items()
}
