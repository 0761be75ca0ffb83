"""Estimates of several sites together: heterogeneity, fixed and random effects, and a prediction interval.

Any part gives each site's estimate, its variance, and how much of that variance is noise that was added on purpose,
which is known. Heterogeneity is what remains beyond sampling and noise: tau^2 of Paule and Mandel (1982) and its
Q-profile interval (Viechtbauer 2007). The mean of random effects has Hartung and Knapp's variance (2001). Its interval
is `few_sites`: that of Hartung and Knapp covers as little as 90 % where four sites are of unlike size, this one 94.8 to
97.2 % (docs/results/intervals.md). DerSimonian and Laird's is here to be compared with: 85 to 87 % with four sites.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, norm, qmc, t

from learner_node.analyses.part import LEVEL

Floats = NDArray[np.float64]
_TAIL = (1.0 - LEVEL) / 2.0
FEWEST = 3
"""Fewest sites of which a prediction interval is given: with two, one t-distributed number stands on nothing."""
_GRID = 600
_POINTS: Floats = qmc.Halton(3, scramble=False).random(4096 + 1)[1:]
SUM_ONLY = "Only the sum over sites was opened, so nothing can be said of single sites or of their differences."


@dataclass(frozen=True)
class SiteEstimate:
    """One site's estimate on the scale on which it is pooled: the logarithm of a ratio, or a difference."""

    site: str
    value: float | None  # None where the site's answers cannot tell
    variance: float  # sampling and noise together; inf where there is no value
    noise_variance: float = 0.0  # the noise's part of it, at most `variance`

    @property
    def usable(self) -> bool:
        """Whether it has a value and a finite, positive variance."""
        return self.value is not None and np.isfinite(self.value) and 0 < self.variance < np.inf


@dataclass(frozen=True)
class Pooled:
    """A pooled value with its 95 % interval and the p-value of the null that it is zero."""

    value: float
    low: float
    high: float
    deviation: float  # standard error
    p: float


@dataclass(frozen=True)
class BetweenSites:
    """What several sites' estimates say together, on the scale of the estimates."""

    sites: tuple[SiteEstimate, ...]  # all, also those without a value
    q: float  # Cochran's, with weights of sampling and noise
    p: float  # of no heterogeneity; nan with one site
    tau_squared: float  # variance of sites' true values, Paule and Mandel's
    tau_squared_low: float  # Q-profile interval, 95 %
    tau_squared_high: float  # inf with one site
    i_squared: float  # share of the estimates' variance that is heterogeneity, in [0, 1]
    i_squared_exact: float  # the same had the answers held no noise
    fixed: Pooled
    random: Pooled | None  # None with one site
    prediction: tuple[float, float] | None  # of another site's true value; None with fewer than `FEWEST` sites

    def to_builtins(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "sites": len(self.sites),
            "q": self.q,
            "p": None if np.isnan(self.p) else self.p,
            "tau_squared": self.tau_squared,
            "tau_squared_low": self.tau_squared_low,
            "tau_squared_high": self.tau_squared_high if np.isfinite(self.tau_squared_high) else None,
            "i_squared": self.i_squared,
            "i_squared_without_noise": self.i_squared_exact,
        }


def _q(tau_squared: float, values: Floats, variances: Floats) -> float:
    """Cochran's generalised Q at a tau^2; it falls in tau^2."""
    weights = 1.0 / (variances + tau_squared)
    mean = (weights * values).sum() / weights.sum()
    return float((weights * (values - mean) ** 2).sum())


def paule_mandel(values: Floats, variances: Floats, target: float | None = None) -> float:
    """The tau^2 at which Cochran's generalised Q is `target`, the number of sites less one if None; at least 0."""
    aim = len(values) - 1.0 if target is None else target
    if _q(0.0, values, variances) <= aim:
        return 0.0
    top = float(np.var(values) + variances.max()) + 1e-12
    while _q(top, values, variances) > aim:
        top *= 4.0
    return float(brentq(lambda tau: _q(tau, values, variances) - aim, 0.0, top, xtol=1e-14 * top, rtol=1e-12))


def q_profile(values: Floats, variances: Floats) -> tuple[float, float]:
    """The 95 % interval of tau^2 (Viechtbauer 2007): where Q is between the quantiles of its law, chi-squared."""
    df = len(values) - 1
    upper = paule_mandel(values, variances, float(chi2.ppf(_TAIL, df)))
    return paule_mandel(values, variances, float(chi2.ppf(1.0 - _TAIL, df))), upper


def dersimonian_laird(values: Floats, variances: Floats) -> float:
    """The tau^2 of DerSimonian and Laird (1986), equation 8."""
    weights = 1.0 / variances
    spread = weights.sum() - (weights**2).sum() / weights.sum()
    return max(0.0, float((_q(0.0, values, variances) - (len(values) - 1)) / spread))


def pooled(values: Floats, variances: Floats) -> Pooled:
    """The mean with weights 1 / variance and a normal interval: fixed effects, or random effects that may not hold."""
    weights = 1.0 / variances
    mean = float((weights * values).sum() / weights.sum())
    deviation = float(weights.sum() ** -0.5)
    reach = float(norm.ppf(1.0 - _TAIL)) * deviation
    return Pooled(mean, mean - reach, mean + reach, deviation, float(2.0 * norm.sf(abs(mean) / deviation)))


def hartung_knapp(values: Floats, variances: Floats, tau_squared: float) -> Pooled:
    """The random-effects mean with Hartung and Knapp's variance, at least the usual one, and a t law.

    The variance is never taken below that of known weights (Roever, Knapp and Friede 2015): with sites of unlike size
    the interval would else be too short.
    """
    df = len(values) - 1
    weights = 1.0 / (variances + tau_squared)
    mean = float((weights * values).sum() / weights.sum())
    factor = max(1.0, float((weights * (values - mean) ** 2).sum()) / df)
    deviation = float(np.sqrt(factor / weights.sum()))
    reach = float(t.ppf(1.0 - _TAIL, df)) * deviation
    return Pooled(mean, mean - reach, mean + reach, deviation, float(2.0 * t.sf(abs(mean) / deviation, df)))


EVENNESS = 0.95
"""How far `few_sites` evens its weights out: (sum w)^2 / (k sum w^2) is at least this; 1 is all alike.

With two sites it is more: the interval is bounded above t^2 / (k - 1 + t^2).
"""


def even_weights(variances: Floats) -> Floats:
    """Weights (v + v0)^-1/2, with the smallest v0 >= 0 that makes them as even as `EVENNESS`. No value decides them."""
    df = len(variances) - 1
    critical = float(t.ppf(1.0 - _TAIL, df)) ** 2
    aim = max(EVENNESS, (1.0 + critical / (df + critical)) / 2.0)

    def evenness(ground: float) -> float:
        weights = (variances + ground) ** -0.5
        return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))

    top = float(variances.max())
    if evenness(0.0) >= aim:
        ground = 0.0
    else:
        while evenness(top) < aim:
            top *= 4.0
        ground = float(brentq(lambda ground: evenness(ground) - aim, 0.0, top))
    weights: Floats = (variances + ground) ** -0.5
    weights /= weights.max()
    return weights


def few_sites(values: Floats, variances: Floats) -> Pooled:
    """The mean of random effects by a t test that holds for every tau^2 and any variances.

    With weights that depend on no value, x_i = w_i (value_i - mu) are independent normal variables of mean 0 whose
    variances may differ. Student's t test of them then rejects in at most 5 %, with any number of sites (Bakirov and
    Szekely 2005; Ibragimov and Mueller 2010). The interval holds every mu that is not rejected, and is always bounded.
    With weights 1 / deviation the test is exact where tau^2 is 0; `even_weights` goes as near as is bounded.
    """
    count, weights = len(values), even_weights(variances)
    critical = float(t.ppf(1.0 - _TAIL, count - 1)) ** 2
    total, terms = weights.sum(), weights * values

    def bend(first: Floats, second: Floats) -> float:
        """(sum x)^2 / k (1 + t^2 / (k - 1)) - t^2 / (k - 1) sum x^2, as a bilinear form; t is significant above 0."""
        share = critical / (count - 1)
        return float(first.sum() * second.sum() / count * (1.0 + share) - share * (first * second).sum())

    square, middle, rest = bend(weights, weights), bend(terms, weights), bend(terms, terms)
    reach = float(np.sqrt(max(middle**2 - square * rest, 0.0))) / square
    scatter = float(np.sqrt(terms.var(ddof=1) / count))
    statistic = abs(float(terms.mean())) / scatter if scatter > 0 else np.inf
    mean = float(terms.sum() / total)
    low, high = middle / square - reach, middle / square + reach
    deviation = (high - low) / 2.0 / float(np.sqrt(critical))
    return Pooled(mean, low, high, deviation, float(2.0 * t.sf(statistic, count - 1)))


def _random(values: Floats, variances: Floats, tau_squared: float) -> Pooled:
    """Hartung and Knapp's mean and standard error, with an interval that holds and the mean inside."""
    usual, holding = hartung_knapp(values, variances, tau_squared), few_sites(values, variances)
    low, high = min(holding.low, usual.value), max(holding.high, usual.value)
    return Pooled(usual.value, low, high, usual.deviation, holding.p)


def prediction_interval(values: Floats, variances: Floats) -> tuple[float, float]:
    """Where another site's true value lies, with 95 %, by the confidence distribution of tau^2.

    Cochran's generalised Q has a chi-squared law at the true tau^2, which gives tau^2 a distribution; the mean has
    Hartung and Knapp's given each, and the other site's value is normal around it (Nagashima, Noma and Furukawa 2019,
    section 3). The distribution's quantiles are found with a fixed set of points, so that the result is always the
    same.
    """
    df = len(values) - 1
    scale = float(np.var(values) + variances.max())
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1e6, _GRID) * scale])
    weights = 1.0 / (variances + grid[:, None])
    means = (weights * values).sum(1) / weights.sum(1)
    q = (weights * (values - means[:, None]) ** 2).sum(1)
    tau_squared = np.interp(chi2.ppf(_POINTS[:, 0], df), q[::-1], grid[::-1])
    weights = 1.0 / (variances + tau_squared[:, None])
    means = (weights * values).sum(1) / weights.sum(1)
    factor = (weights * (values - means[:, None]) ** 2).sum(1) / df
    deviation = np.sqrt(np.maximum(factor, 1.0) / weights.sum(1))
    elsewhere = means + t.ppf(_POINTS[:, 1], df) * deviation + norm.ppf(_POINTS[:, 2]) * np.sqrt(tau_squared)
    low, high = np.quantile(elsewhere, [_TAIL, 1.0 - _TAIL])
    return float(low), float(high)


def between_sites(
    estimates: Sequence[SiteEstimate], limits: tuple[float, float] = (-np.inf, np.inf)
) -> BetweenSites | None:
    """Pool sites' estimates; None if any of two or more sites has none.

    A site without an estimate is not dropped: it would be missing because of its answer, and the others' mean would be
    biased.

    Args:
        estimates: of all sites.
        limits: the least and the greatest value that is possible; intervals end there.
    """
    if not estimates or not all(estimate.usable for estimate in estimates):
        return None
    values = np.array([estimate.value for estimate in estimates], np.float64)
    variances = np.array([estimate.variance for estimate in estimates])
    noises = np.array([min(estimate.noise_variance, estimate.variance) for estimate in estimates])
    fixed = _within(limits, pooled(values, variances))
    count = len(values)
    if count == 1:
        return BetweenSites(tuple(estimates), 0.0, float("nan"), 0.0, 0.0, np.inf, 0.0, 0.0, fixed, None, None)
    q = _q(0.0, values, variances)
    tau_squared = paule_mandel(values, variances)
    low, high = q_profile(values, variances)
    random = _within(limits, _random(values, variances, tau_squared))
    prediction = prediction_interval(values, variances) if count >= FEWEST else None
    return BetweenSites(
        tuple(estimates),
        q,
        float(chi2.sf(q, count - 1)),
        tau_squared,
        low,
        high,
        tau_squared / (tau_squared + _typical(variances)),
        _share(tau_squared, variances - noises),
        fixed,
        random,
        None if prediction is None else _clipped(limits, *prediction),
    )


def _within(limits: tuple[float, float], estimate: Pooled) -> Pooled:
    low, high = _clipped(limits, estimate.low, estimate.high)
    return replace(estimate, low=low, high=high)


def _clipped(limits: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    return max(low, limits[0]), min(high, limits[1])


def _typical(variances: Floats) -> float:
    """The typical variance within a site (Higgins and Thompson 2002, equation 9)."""
    if np.any(variances <= 0):
        return 0.0
    weights = 1.0 / variances
    return float((len(variances) - 1) * weights.sum() / (weights.sum() ** 2 - (weights**2).sum()))


def _share(tau_squared: float, variances: Floats) -> float:
    """tau^2 over tau^2 and the typical variance; 0 where both are 0."""
    total = tau_squared + _typical(np.maximum(variances, 0.0))
    return tau_squared / total if total > 0 else 0.0
