"""Risk difference, risk ratio and odds ratio of noisy 2 x 2 tables, of one stratum or common to several.

A table is [[a, b], [c, d]]: exposed with and without the event, unexposed with and without it. For a value of the
measure, the four means that fit best and have this value are found (`_fit`), each at least 0. How far the answers are
from them, in Pearson's metric with the variance of sampling and noise, is a signed statistic in each stratum. Strata
are added with Mantel and Haenszel's weights, and the tail of the sum is taken under the law of `inference.linear_p`.
The interval holds all values with p > .05. This is a score interval; without noise it is Mee's for a difference,
Koopman's for a ratio of risks and Cornfield's for an odds ratio, all without continuity correction. It is never empty,
and it is unbounded where the answers say nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from learner_node.analyses.between_sites import SiteEstimate
from learner_node.analyses.inference import linear_p, noisy
from learner_node.analyses.noise_law import NoiseLaw
from learner_node.analyses.part import LEVEL, POPULATION, THESE, Estimand, Estimate
from learner_node.analyses.power import linear_power
from learner_node.analyses.score_interval import Z

Floats = NDArray[np.float64]
Measure = Literal["risk difference", "risk ratio", "odds ratio"]
MEASURES: tuple[Measure, ...] = ("risk difference", "risk ratio", "odds ratio")
_ALPHA = 1.0 - LEVEL
_FARTHEST = float(np.log(1e5))
"""A ratio beyond e^this, or below its inverse, counts as unbounded."""
_GRID = 41
_PATH = 48
_LOGIT = 16.0
_TINY = 1e-12


@dataclass(frozen=True)
class Tables:
    """Noisy 2 x 2 tables of one or more strata, with the law of their cells."""

    values: Floats  # (strata, 2, 2) answers: exposed or not, with the event or not
    noise: NoiseLaw  # in each cell that was asked
    most_records: int = 1  # c
    of: Estimand = POPULATION
    added: Floats | None = None  # of the shape of `values`: how many asked cells were added up to each; 1 if None

    @property
    def noisy(self) -> bool:
        """Whether there is noise."""
        return noisy(self.noise)

    @cached_property
    def draws(self) -> Floats:
        """How many asked cells were added up to each cell, of the shape of `values`."""
        return np.ones_like(self.values) if self.added is None else self.added

    @cached_property
    def noise_variances(self) -> Floats:
        """sigma^2 of each cell, in squared records, of the shape of `values`."""
        return self.draws * (self.noise.variance if self.noisy else 0.0)

    def variances(self, means: Floats) -> Floats:
        """V of cells with these means."""
        if self.of == THESE:
            return np.broadcast_to(np.maximum(self.noise_variances, _TINY), means.shape)
        return np.maximum(self.most_records * means + self.noise_variances, _TINY)


def _risks(measure: Measure, theta: Floats, place: Floats) -> tuple[Floats, Floats]:
    """The pairs of risks with a value of the measure, along a path: place 0 ... 1; both of the common shape."""
    if measure == "odds ratio":
        reach = _LOGIT + np.abs(theta) / 2.0
        logit = (2.0 * place - 1.0) * reach
        return expit(logit + theta / 2.0), expit(logit - theta / 2.0)
    share = np.sin(np.pi / 2.0 * place) ** 2
    if measure == "risk difference":
        unexposed = np.maximum(0.0, -theta) + share * (1.0 - np.abs(theta))
        return np.clip(unexposed + theta, 0.0, 1.0), unexposed
    ratio = np.exp(theta)
    unexposed = share * np.minimum(1.0, 1.0 / ratio)
    return np.minimum(ratio * unexposed, 1.0), unexposed


def _group(tables: Tables, group: int, risk: Floats) -> tuple[Floats, Floats]:
    """The total m >= 0 of a group with a risk that fits best, and the logarithm of its quasi-likelihood.

    Args:
        tables: their answers and law.
        group: 0 of the exposed.
        risk: (values, strata, places).
    """
    values, noises = (row[None, :, group, None, :] for row in (tables.values, tables.noise_variances))
    rest = 1.0 - risk
    if tables.of == THESE:
        shares = np.stack([risk, rest], -1)
        metric = 1.0 / np.maximum(noises, _TINY)
        total = np.maximum((values * shares * metric).sum(-1) / (shares**2 * metric).sum(-1), 0.0)
        misfit: Floats = -((values - total[..., None] * shares) ** 2 * metric).sum(-1) / 2.0
        return total, misfit
    grounds = noises / tables.most_records
    answers = np.maximum(values + grounds, 0.0)
    first, second, ground, earth = answers[..., 0], answers[..., 1], grounds[..., 0], grounds[..., 1]
    if not tables.noisy:
        total = np.broadcast_to(first + second, risk.shape)
    else:
        # first risk / (m risk + ground) + second rest / (m rest + earth) = 1 is quadratic in m
        square = risk * rest
        linear = ground * rest + earth * risk - (first + second) * square
        constant = ground * earth - first * risk * earth - second * rest * ground
        discriminant = np.sqrt(np.maximum(linear**2 - 4.0 * square * constant, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            falling = (discriminant - linear) / (2.0 * square)
            rising = -2.0 * constant / (linear + discriminant)
        total = np.where(constant >= 0, 0.0, np.where(linear < 0, falling, rising))
    fit: Floats = xlogy(first, total * risk + ground) + xlogy(second, total * rest + earth) - total
    return total, fit


def _rounds(tables: Tables) -> int:
    """How often the path is searched four times as finely: until a step moves the means by little of a deviation."""
    if not tables.noisy:
        return 16
    records = float(np.abs(tables.values).sum((-1, -2)).max()) + 1.0
    deviation = float(tables.noise_variances.min()) + (
        tables.most_records * records if tables.of == POPULATION else 0.0
    )
    return int(np.clip(np.ceil(np.log(100.0 * records / np.sqrt(deviation)) / np.log(4.0)), 4, 16))


def _fit(tables: Tables, measure: Measure, theta: Floats) -> Floats:
    """The best means with each value of the measure, (values, strata, 2, 2)."""
    angle = theta[:, None, None]

    def likelihood(place: Floats) -> Floats:
        exposed, unexposed = _risks(measure, angle, place)
        fit: Floats = _group(tables, 0, exposed)[1] + _group(tables, 1, unexposed)[1]
        return fit

    strata = len(tables.values)
    place = np.broadcast_to(np.linspace(0.0, 1.0, _PATH), (len(theta), strata, _PATH))
    step = 1.0 / (_PATH - 1)
    best = np.take_along_axis(place, likelihood(place).argmax(-1)[..., None], -1)
    offsets = np.linspace(-1.0, 1.0, 9)
    for _ in range(_rounds(tables)):
        place = np.clip(best + step * offsets, 0.0, 1.0)
        best = np.take_along_axis(place, likelihood(place).argmax(-1)[..., None], -1)
        step /= 4.0
    exposed, unexposed = _risks(measure, angle, best)
    risks = np.stack([exposed, unexposed], axis=-1)  # (values, strata, 1, group)
    totals = np.stack([_group(tables, group, risks[..., group])[0] for group in (0, 1)], axis=-1)
    means: Floats = np.stack([totals * risks, totals * (1.0 - risks)], axis=-1)[:, :, 0]
    return means


def _weights(measure: Measure, theta: Floats, means: Floats) -> Floats:
    """Gradient of each stratum's contrast with Mantel and Haenszel's weight, of the shape of `means`."""
    total = np.maximum(means.sum((-1, -2), keepdims=True), _TINY)
    scale = np.exp(theta)[:, None]
    if measure == "odds ratio":
        a, b, c, d = means[..., 0, 0], means[..., 0, 1], means[..., 1, 0], means[..., 1, 1]
        level = np.exp(-theta / 2.0)[:, None]
        gradient = np.stack([d * level, -c * scale * level, -b * scale * level, a * level], -1)
        weights: Floats = gradient.reshape(means.shape) / total
        return weights
    sizes = means.sum(-1, keepdims=True)
    risks = np.divide(means, sizes, out=np.full_like(means, 0.5), where=sizes > 0)
    shares = sizes[..., ::-1, :] / total  # the other group's part
    against = -np.ones_like(scale) if measure == "risk difference" else -scale
    factors = np.stack([np.broadcast_to(1.0, against.shape), against], -1)[..., None]
    sides = np.array([1.0, -1.0]) * risks[..., ::-1]  # q for the event, -p for its absence
    gradient = factors * shares * sides
    return np.broadcast_to(gradient, means.shape)


def _signs(measure: Measure, theta: Floats, values: Floats) -> Floats:
    """Whether a stratum's answers are above or below each value of the measure, (values, strata)."""
    clipped = np.maximum(values, 0.0)
    a, b, c, d = clipped[:, 0, 0], clipped[:, 0, 1], clipped[:, 1, 0], clipped[:, 1, 1]
    exposed, unexposed = a + b, c + d
    angle = theta[:, None]
    if measure == "odds ratio":
        contrast = a * d - np.exp(angle) * b * c
    elif measure == "risk ratio":
        contrast = a * unexposed - np.exp(angle) * c * exposed
    else:
        contrast = a * unexposed - c * exposed - angle * exposed * unexposed
    signs: Floats = np.sign(contrast)
    return signs


def _signed(tables: Tables, measure: Measure, theta: Floats) -> tuple[Floats, Floats]:
    """The signed statistic and its p-value at each value of the measure; ratios as logarithms."""
    means = _fit(tables, measure, theta)
    variances = tables.variances(means)
    answers = tables.values[None]
    # what falls below zero tells nothing of the measure
    distance = (((answers - means) ** 2 - np.minimum(answers, 0.0) ** 2) / variances).sum((-1, -2))
    weights = _weights(measure, theta, means)
    spread = (weights**2 * variances).sum((-1, -2))
    signed = _signs(measure, theta, tables.values) * np.sqrt(np.maximum(distance, 0.0) * spread)
    statistic = signed.sum(-1)
    flat = weights.reshape(len(theta), -1)
    sampling = np.zeros(len(theta))
    if tables.of == POPULATION:
        sampling = tables.most_records * (flat**2 * means.reshape(len(theta), -1)).sum(-1)
    return statistic, linear_p(statistic, flat, sampling, tables.noise, tables.draws.ravel())


def _crossing(accepts: Callable[[Floats], NDArray[np.bool_]], inside: float, outside: float, rounds: int) -> float:
    """The end of acceptance between a value that is accepted and one that is not; the outermost that is found."""
    for _ in range(rounds):
        grid = np.linspace(outside, inside, 10)
        accepted = accepts(grid[1:-1])
        first = int(np.argmax(accepted)) + 1 if accepted.any() else len(grid) - 1
        inside, outside = float(grid[first]), float(grid[first - 1])
    return (inside + outside) / 2.0


def mantel_haenszel(values: Floats, measure: Measure) -> float | None:
    """Mantel and Haenszel's estimate over strata, from answers as they came: (strata, 2, 2); the plain one of one.

    None where its denominator, or for a ratio also its numerator, is not positive.
    """
    a, b, c, d = values[:, 0, 0], values[:, 0, 1], values[:, 1, 0], values[:, 1, 1]
    exposed, unexposed = np.maximum(a + b, 0.0), np.maximum(c + d, 0.0)
    total = np.maximum(exposed + unexposed, _TINY)
    if measure == "risk difference":
        top, bottom = (a * unexposed - c * exposed) / total, exposed * unexposed / total
        return float(top.sum() / bottom.sum()) if bottom.sum() > 0 else None
    if measure == "risk ratio":
        top, bottom = a * unexposed / total, c * exposed / total
    else:
        top, bottom = a * d / total, b * c / total
    return float(top.sum() / bottom.sum()) if top.sum() > 0 and bottom.sum() > 0 else None


def effect(tables: Tables, measure: Measure) -> Estimate:
    """The measure, common to the strata, with its 95 % interval and the p-value of no effect.

    Of these records the interval holds for their own table and the noise alone; of their population, for the table of
    means, with sampling and noise. Over several strata, the estimand is Mantel and Haenszel's weighted measure.
    """
    value = mantel_haenszel(tables.values, measure)
    of = tables.of
    ratio = measure != "risk difference"
    if of == THESE and not tables.noisy:
        low, high = (0.0, np.inf) if ratio else (-1.0, 1.0)
        return Estimate(value, low if value is None else value, high if value is None else value, of)
    farthest = _FARTHEST if ratio else 1.0 - 1e-9
    grid = np.linspace(-farthest, farthest, _GRID)
    statistic, p = _signed(tables, measure, grid)
    null = float(p[_GRID // 2])
    accepted = p > _ALPHA
    rounds = 4 if tables.noisy else 10
    centre = value if value is None or not ratio else float(np.log(value))
    if centre is None or not accepted.any() or not grid[0] < centre < grid[-1]:
        centre = _centre(tables, measure, grid, statistic)
    if not accepted.any():
        # the interval lies between two values of the grid
        if _signed(tables, measure, np.array([centre]))[1][0] <= _ALPHA:
            centre = _centre(tables, measure, grid, statistic)
        grid, accepted = np.array([grid[grid < centre].max(), centre, grid[grid > centre].min()]), np.array([0, 1, 0])

    def accepts(theta: Floats) -> NDArray[np.bool_]:
        return np.asarray(_signed(tables, measure, theta)[1] > _ALPHA)

    inner = np.flatnonzero(accepted)
    low = -farthest if inner[0] == 0 else _crossing(accepts, grid[inner[0]], grid[inner[0] - 1], rounds)
    high = farthest if inner[-1] == len(grid) - 1 else _crossing(accepts, grid[inner[-1]], grid[inner[-1] + 1], rounds)
    if not ratio:
        low, high = -1.0 if low <= -farthest else low, 1.0 if high >= farthest else high
        return _estimate(value, low, high, centre, of, null)
    low = 0.0 if low <= -farthest else float(np.exp(low))
    high = np.inf if high >= farthest else float(np.exp(high))
    return _estimate(value, low, high, float(np.exp(centre)), of, null)


def _centre(tables: Tables, measure: Measure, grid: Floats, statistic: Floats) -> float:
    """Where the statistic changes its sign: the estimate that the interval surrounds."""
    below = np.flatnonzero(statistic > 0)
    if not len(below):
        return float(grid[1])
    place = min(int(below[-1]), len(grid) - 2)
    low, high = float(grid[place]), float(grid[place + 1])
    for _ in range(8):
        inner = np.linspace(low, high, 10)
        positive = _signed(tables, measure, inner[1:-1])[0] > 0
        last = int(positive.sum()) if positive.any() else 0
        low, high = float(inner[last]), float(inner[last + 1])
    return float(np.clip((low + high) / 2.0, grid[0] + _TINY, grid[-1] - _TINY))


def _estimate(value: float | None, low: float, high: float, centre: float, of: Estimand, p: float) -> Estimate:
    """The estimate, or the value that its interval surrounds if it is outside of it; none if all is possible."""
    everything = (low, high) in ((-1.0, 1.0), (0.0, np.inf))
    if everything:
        return Estimate(None, low, high, of, None if of == THESE else p)
    if value is None or not low <= value <= high:
        value = centre if low <= centre <= high else None
    return Estimate(value, low, high, of, None if of == THESE else p)


def site_estimate(site: str, tables: Tables, measure: Measure, estimate: Estimate) -> SiteEstimate:
    """A site's estimate as it is pooled: ratios as logarithms, with the variance of its interval.

    A site whose interval is unbounded has no value.

    Args:
        site: its name.
        tables: its answers.
        measure: what is estimated.
        estimate: by `effect` of these answers and their population.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or not np.isfinite(high) or (measure != "risk difference" and (low <= 0 or value <= 0)):
        return SiteEstimate(site, None, np.inf)
    if measure != "risk difference":
        value, low, high = (float(np.log(end)) for end in (value, low, high))
    variance = ((high - low) / 2.0 / Z) ** 2
    weights = _weights(measure, np.array([value]), np.maximum(tables.values, 0.0)[None])[0]
    noise = float((weights**2 * tables.noise_variances).sum())
    sampling = float((weights**2 * tables.most_records * np.maximum(tables.values, 0.0)).sum())
    share = noise / (noise + sampling) if noise > 0 else 0.0
    return SiteEstimate(site, value, variance, share * variance)


def effect_power(tables: Tables, measure: Measure) -> float:
    """Chance that the test of no effect rejects at 5 %, where `tables` have the expected answers."""
    null = np.zeros(1)
    means = _fit(tables, measure, null)
    weights = _weights(measure, null, means)[0]
    squares = tables.most_records * weights**2
    samplings = float((squares * means[0]).sum()), float((squares * tables.values).sum())
    signal = float(_signed(tables, measure, null)[0][0])
    return linear_power(signal, weights.ravel(), samplings, tables.noise, tables.draws.ravel())
