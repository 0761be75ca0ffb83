"""Estimates of several sites together: heterogeneity, fixed and random effects, and a prediction interval.

Any part gives each site's estimate, its variance, and how much of that variance is noise that was added on purpose,
which is known. Heterogeneity is what remains beyond sampling and noise. A random-effects interval holds with few sites
by Hartung and Knapp's variance with a t law (Hartung and Knapp 2001), with tau^2 of Paule and Mandel (1982) and its
Q-profile interval (Viechtbauer 2007). DerSimonian and Laird's interval is here to be compared with: it covers 85 to 87
per cent with four sites. docs/between-sites.md has the measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import chi2, norm, t

from learner_node.analyses.part import LEVEL

Floats = NDArray[np.float64]
_TAIL = (1.0 - LEVEL) / 2.0
FEWEST = 3
"""Fewest sites of which a prediction interval is given: with two, one t-distributed number stands on nothing."""
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


def between_sites(estimates: Sequence[SiteEstimate]) -> BetweenSites | None:
    """Pool sites' estimates; None if any of two or more sites has none.

    A site without an estimate is not dropped: it would be missing because of its answer, and the others' mean would be
    biased.
    """
    if not estimates or not all(estimate.usable for estimate in estimates):
        return None
    values = np.array([estimate.value for estimate in estimates], np.float64)
    variances = np.array([estimate.variance for estimate in estimates])
    noises = np.array([min(estimate.noise_variance, estimate.variance) for estimate in estimates])
    fixed = pooled(values, variances)
    count = len(values)
    if count == 1:
        return BetweenSites(tuple(estimates), 0.0, float("nan"), 0.0, 0.0, np.inf, 0.0, 0.0, fixed, None, None)
    q = _q(0.0, values, variances)
    tau_squared = paule_mandel(values, variances)
    low, high = q_profile(values, variances)
    random = hartung_knapp(values, variances, tau_squared)
    prediction = None
    if count >= FEWEST:
        reach = float(t.ppf(1.0 - _TAIL, count - 2)) * float(np.sqrt(tau_squared + random.deviation**2))
        prediction = (random.value - reach, random.value + reach)
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
        prediction,
    )


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
