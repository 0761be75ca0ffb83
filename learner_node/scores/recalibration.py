"""Recalibrates a model's risks by an intercept and slope that fit the class counts released about its score.

logit P' = intercept + slope logit P (Cox 1958). It asks nothing, but uses a validation's answers again. The likelihood
of the noisy counts is exact: true counts are Poisson, and the noise has the mechanism's law; each bin's size is
integrated out. Since the map is fitted to these answers, they do not validate it.

A study with little information would move good risks by noise. So the map is compared with the identity by a Bayes
factor, and is off unless the answers favour it; docs/learner/validation.md gives gains and losses of that rule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, gammaln, logit, logsumexp

from learner_node.models.label_model.likelihood import noise_law
from learner_node.scores.performance import LEVEL, Interval
from learner_node.scores.score_posterior import possible_counts

Floats = NDArray[np.float64]

SHIFT_DEVIATION, LOG_SLOPE_DEVIATION = 0.5, 0.35
"""Prior deviations, around 0, of the mean risk's logit shift and of the log slope."""
LEAST_FACTOR = 1.0
"""Smallest Bayes factor at which the map is on."""
_SIZE_DEVIATION = 0.7
"""Prior deviation of a bin's log size around the source's share."""
_SIZES, _MEANS, _PLACES, _SIDE = 31, 240, 40, 25
_REACH = 5.0
_SUREST = 1e-9
_LEAST = 1e-3


@dataclass(frozen=True)
class Recalibration:
    """A monotone map of probabilities of class 1."""

    intercept: Interval  # intercept, slope: of the logit, posterior medians with 95 % intervals; the slope is positive
    slope: Interval
    factor: float  # the Bayes factor of the map against the probabilities as they are; `on` where it is above 1

    @property
    def on(self) -> bool:
        """Whether the answers favour the map; otherwise probabilities stay as they are."""
        return self.factor > LEAST_FACTOR

    def probability(self, raw: Floats) -> Floats:
        """Recalibrated P(class 1) of records with model probability `raw`, any shape, in [0, 1]; 0 and 1 stay."""
        return self.mapped(raw) if self.on else np.asarray(raw, np.float64)

    def mapped(self, raw: Floats) -> Floats:
        """The map applied to probabilities, even if it is off."""
        risks: Floats = expit(self.intercept.value + self.slope.value * logit(np.asarray(raw, np.float64)))
        return risks

    def __str__(self) -> str:
        line = f"intercept {self.intercept}, slope {self.slope}"
        state = "on: the answers favour the change" if self.on else "off: the answers favour the risks as they are"
        return f"{line}; {state} (Bayes factor of the change {self.factor:.2g})"


def recalibrate(
    counts: Floats, probability: Floats, bins: NDArray[np.intp], *, scale: float, noises: float, design: float = 1.0
) -> Recalibration:
    """Fit intercept and slope to noisy class counts in bins.

    Within a bin private records are taken to have the risks that the source's records have there.

    Args:
        counts: noisy, of class 0 and of class 1, float64 (k, 2).
        probability: P(class 1) that the model gives the source's records, (n,), in [0, 1].
        bins: bin of each source record, (n,), in [0, k).
        scale: scale of one site's discrete Laplace noise; 0 is none.
        noises: number of noises in each count.
        design: design effect of records that come in units, at least 1: so many records inform as one does.

    Returns:
        The map; a pure function of the arguments.
    """
    likelihood = _Likelihood.of(counts, probability, bins, scale, noises, design)
    best = minimize(lambda at: -likelihood.log_posterior(at[None])[0], np.zeros(2), method="Nelder-Mead", tol=1e-3).x
    corners = _grid(likelihood, best)
    logs = likelihood.log_posterior(corners)
    weights = np.exp(logs - logs.max())
    cell = np.abs(np.linalg.det(np.stack([corners[_SIDE] - corners[0], corners[1] - corners[0]])))
    log_evidence = logs.max() + np.log(weights.sum() * cell)
    slope = np.exp(corners[:, 1])
    intercept = corners[:, 0] + likelihood.centre * (1.0 - slope)
    factor = float(np.exp(np.clip(log_evidence - likelihood.log_likelihood(np.zeros((1, 2)))[0], -700.0, 700.0)))
    return Recalibration(_interval(intercept, weights), _interval(slope, weights), factor)


@dataclass(frozen=True)
class _Likelihood:
    """Likelihood of a shift d and log slope g: logit P' = m + d + exp(g) (logit P - m), with m the mean logit."""

    centre: float  # m
    places: Floats  # logits less m that stand for the source's records in each bin, float64 (k, 40)
    sizes: Floats  # records that a bin may hold, float64 (k, 31), and `size_weights` their log prior weights
    size_weights: Floats
    # of the means at which the answers' log probabilities are tabulated: the first, and the step, (2k,) each
    roots: tuple[Floats, Floats]
    log_probabilities: Floats  # of the answers at these means, float64 (2k, 240)

    @classmethod
    def of(
        cls, counts: Floats, probability: Floats, bins: NDArray[np.intp], scale: float, noises: float, design: float
    ) -> "_Likelihood":
        logits = logit(np.clip(probability, _SUREST, 1.0 - _SUREST))
        centre, k = float(logits.mean()), len(counts)
        at = (np.arange(_PLACES) + 0.5) / _PLACES
        members = [logits[bins == j] - centre for j in range(k)]
        places = np.array([np.quantile(scores, at) if len(scores) else np.full(_PLACES, np.nan) for scores in members])
        middle = np.nanmean(places, axis=1)
        filled = np.flatnonzero(~np.isnan(middle))
        for j in np.flatnonzero(np.isnan(middle)):
            places[j] = np.interp(j, filled, middle[filled])
        variance = noise_law(scale).variance(noises)
        total = counts.sum(axis=1)
        spread = np.sqrt(2.0 * variance + design * np.maximum(total, 1.0))
        low, high = np.maximum(total - _REACH * spread, _LEAST), np.maximum(total, 0.0) + _REACH * spread
        sizes = np.linspace(low, high, _SIZES, axis=1)
        share = np.bincount(bins, minlength=k) + 0.5
        expected = max(float(counts.sum()), 1.0) * share / share.sum()
        off = (np.log(sizes) - np.log(expected)[:, None]) / _SIZE_DEVIATION
        weights = -0.5 * off**2 - np.log(sizes)
        weights -= logsumexp(weights, axis=1, keepdims=True)
        first, step, table = _answers(counts.ravel(), variance, scale, noises, design)
        return cls(centre, places, sizes, weights, (first, step), table)

    def log_posterior(self, at: Floats) -> Floats:
        """Log prior plus log likelihood of P pairs (d, g), float64 (P, 2), up to the prior's constant."""
        deviations = np.array([SHIFT_DEVIATION, LOG_SLOPE_DEVIATION])
        prior = -0.5 * ((at / deviations) ** 2).sum(axis=1) - np.log(2.0 * np.pi * deviations.prod())
        log_density: Floats = prior + self.log_likelihood(at)
        return log_density

    def log_likelihood(self, at: Floats) -> Floats:
        """Log probability of all answers, (P,)."""
        total = np.zeros(len(at))
        for j, places in enumerate(self.places):
            slope = np.exp(np.clip(at[:, 1:], -5.0, 5.0))
            share = expit(self.centre + at[:, :1] + slope * places).mean(axis=1)[:, None]
            zeros, ones = (
                self._interpolated(2 * j, self.sizes[j] * (1.0 - share)),
                self._interpolated(2 * j + 1, self.sizes[j] * share),
            )
            total += logsumexp(self.size_weights[j] + zeros + ones, axis=1)
        return total

    def _interpolated(self, cell: int, means: Floats) -> Floats:
        """Log probability of a cell's answer at these expected counts, extrapolated linearly."""
        place = (np.sqrt(means) - self.roots[0][cell]) / self.roots[1][cell]
        index = np.clip(place.astype(np.intp), 0, _MEANS - 2)
        row, part = self.log_probabilities[cell], place - index
        interpolated: Floats = row[index] * (1.0 - part) + row[index + 1] * part
        return interpolated


def _answers(answers: Floats, variance: float, scale: float, noises: float, design: float) -> tuple[Floats, ...]:
    """Log probability of each answer at means about it: their roots' first and step, (2k,), and values, (2k, 240).

    Records come in units of `design`: their number over it is Poisson.
    """
    spread = np.sqrt(variance + design * np.maximum(answers, 1.0))
    low = np.sqrt(np.maximum(answers - 8.0 * spread, 0.0))
    step = (np.sqrt(np.maximum(answers, 0.0) + 8.0 * spread) - low) / (_MEANS - 1)
    true, stands, noise = possible_counts(answers, scale, noises)
    units = true / design
    base = noise + np.log(stands) - gammaln(units + 1.0) - np.log(design)
    means = np.maximum((low[:, None] + step[:, None] * np.arange(_MEANS)) ** 2, 1e-6) / design
    joint = base[:, None, :] + units[:, None, :] * np.log(means)[:, :, None]
    return low, step, logsumexp(joint, axis=2) - means


def _grid(likelihood: _Likelihood, best: Floats) -> Floats:
    """25 by 25 pairs around the best one, along the axes of curvature, float64 (625, 2)."""
    step = 0.02
    ends = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1], [1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]]) * step
    pp, pm, mp, mm, right, left, up, down, here = likelihood.log_posterior(best + ends)
    mixed = -(pp - pm - mp + mm) / (4.0 * step**2)
    hessian = np.array([[-(right - 2 * here + left), 0.0], [0.0, -(up - 2 * here + down)]]) / step**2
    hessian += mixed * np.array([[0.0, 1.0], [1.0, 0.0]])
    values, vectors = np.linalg.eigh(hessian)
    # The prior alone bends as much as that.
    deviations = 1.0 / np.sqrt(np.maximum(values, 0.5 / SHIFT_DEVIATION**2))
    steps = np.linspace(-4.5, 4.5, _SIDE)
    first, second = (vectors[:, place] * deviations[place] * steps[:, None] for place in range(2))
    grid: Floats = (best + first[:, None, :] + second[None, :, :]).reshape(-1, 2)
    return grid


def _interval(values: Floats, weights: Floats) -> Interval:
    """Weighted median, and the ends of the central 95 %."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - 0.5 * weights[order]
    ends = np.interp([(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], below / weights.sum(), values[order])
    low, value, high = map(float, ends)
    return Interval(value, low, high)
