"""How precise published curves, odds ratios and log-rank tests are under the noise, against exact counts.

Simulated answers: exact counts, and noise of the law that the product states. docs/results/intervals.md has the
numbers.
"""

import numpy as np
from lifelines import KaplanMeierFitter  # type: ignore[import-untyped]
from lifelines.datasets import load_lung  # type: ignore[import-untyped]
from numpy.typing import NDArray

from benchmarks.common import Result, at_least, at_most
from learner_node.analyses.exit_counts import ExitCounts
from learner_node.analyses.group_comparison import log_rank
from learner_node.analyses.hazard_functionals import Hazards
from learner_node.analyses.noise_law import NoiseLaw

DRAWS = 2_000
TABLES = 400_000
HORIZON, BINS = 1022.0, 10
POOLINGS = {
    "one site": 1.0,
    "four sites, t = 1, u = 0": 4 / 3,
    "four sites, t = u = 1": 2.0,
    "four sites, own noise": 4.0,
}
"""How answers are pooled -> draws of discrete Laplace noise in a cell."""
RMSE = {1.0: 0.018, 0.3: 0.056}
FEWER = {"one site": 0.04, "four sites, t = 1, u = 0": 0.06, "four sites, own noise": 0.16}
POWER = {"one site": 0.70, "four sites, own noise": 0.52}
RATIO, RATE = 1.486, 0.00813
"""Hazards with which the test's power without noise is 78 to 80 %, and about one in ten of 2,000 has an event."""
Floats = NDArray[np.float64]


def run() -> list[Result]:
    """See the module."""
    return [*_curve(), *_odds_ratios(), *_log_rank()]


def _curve() -> list[Result]:
    """The curve of `lung` at ends of ten bins against lifelines' unbinned one."""
    frame = load_lung()
    times, events = frame["time"].to_numpy(float), frame["status"].to_numpy(int) > 0
    ends = np.linspace(0.0, HORIZON, BINS + 1)[1:]
    fitter = KaplanMeierFitter().fit(times, events)
    unbinned = np.array([float(fitter.predict(end)) for end in ends])
    counts = np.zeros((BINS + 1, 2))
    np.add.at(counts, (np.searchsorted(ends, times), np.where(events, 0, 1)), 1.0)
    rng, results = np.random.default_rng(1), []
    for epsilon, limit in RMSE.items():
        noise = NoiseLaw(1.0 / epsilon)
        errors = [
            np.cumprod(1.0 - Hazards.of(ExitCounts(answer, tuple(ends), noise)).display().sum(axis=1)) - unbinned
            for answer in counts + noise.simulate(rng, (DRAWS, *counts.shape))
        ]
        rmse = float(np.sqrt(np.mean(np.square(errors))))
        results.append(at_most(f"Kaplan-Meier of lung, epsilon {epsilon:g}", rmse, limit, "RMSE"))
    return results


def _logarithms(tables: Floats) -> tuple[Floats, float]:
    """Logarithms of odds ratios that have one, and the share of tables without."""
    positive = tables[(tables > 0).all(axis=(1, 2))]
    ratio = positive[:, 0, 0] * positive[:, 1, 1] / (positive[:, 0, 1] * positive[:, 1, 0])
    return np.log(ratio), 1.0 - len(positive) / len(tables)


def _odds_ratios() -> list[Result]:
    """Variance of the logarithm of the odds ratio over that of exact counts, less 1; n = 1,000, 10 % with an event."""
    rng, results = np.random.default_rng(1), []
    for exposed in (0.5, 0.1):
        shares = np.outer([exposed, 1.0 - exposed], [0.1, 0.9])
        counts = rng.multinomial(1_000, shares.ravel(), TABLES).reshape(-1, 2, 2).astype(float)
        exact = float(_logarithms(counts)[0].var())
        for pooling, draws in POOLINGS.items():
            values, without = _logarithms(counts + NoiseLaw(1.0, draws).simulate(rng, counts.shape))
            name = f"log odds ratio, {exposed:.0%} exposed, {pooling}, epsilon 1"
            more, note = float(values.var()) / exact - 1.0, f"without a value: {without:.2%}"
            if exposed == 0.5 and pooling in FEWER:
                results.append(at_most(name, more, FEWER[pooling], "of the variance more", note=note))
            else:
                results.append(Result(name, more, "of the variance more", note=note))
    return results


def _log_rank() -> list[Result]:
    """Share of 2,000 samples with p < .05."""
    rng, ends = np.random.default_rng(2), tuple(np.arange(1.0, BINS + 1))
    laws = {"exact counts": NoiseLaw(0.0)} | {name: NoiseLaw(1.0, draws) for name, draws in POOLINGS.items()}
    significant = dict.fromkeys(laws, 0)
    group = np.repeat([0, 1], 1_000)
    for _ in range(DRAWS):
        times = rng.exponential(1.0 / (RATE * RATIO**group))
        events = times < BINS
        counts = np.zeros((2, BINS + 1, 2))
        np.add.at(counts, (group, np.minimum(np.searchsorted(ends, times), BINS), np.where(events, 0, 1)), 1.0)
        for name, noise in laws.items():
            answers = counts + noise.simulate(rng, counts.shape)
            significant[name] += log_rank([ExitCounts(answer, ends, noise) for answer in answers]).p < 0.05
    results = []
    for name, count in significant.items():
        title, share = f"log-rank power, {name}, epsilon 1", count / DRAWS
        results.append(at_least(title, share, POWER[name], "") if name in POWER else Result(title, share, ""))
    return results
