"""Posterior draws of the expected class counts in bins of a score, given noisy counts.

True counts are Poisson around expected ones, and answers add noise of a known law. The expected counts scatter (Gamma)
around a trend in the score, so the trend decides if noise dominates, and the counts decide otherwise.
docs/learner/validation.md says how this model was chosen and how often its intervals cover.

The trend: class 1 has a share logistic(a + b u) of a bin's source records, where u is the bin's place in the score. The
curve may level off above 0 and below 1 (lapses), since even extreme scores are sometimes wrong. Each class may be more
or less frequent among the private records than in the source, and scores may be shifted (a tilt exp(t u)). Size,
prevalence, a, b, t, lapses and the scatter's shape are drawn by sequential Monte Carlo, in steps from prior to
posterior (Del Moral, Doucet and Jasra 2006).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, log_expit, logit, logsumexp, ndtr, ndtri
from scipy.stats import rankdata

from learner_node.models.label_model.likelihood import noise_law, noise_log_pmf
from learner_node.scores.auc import roc_area

Floats = NDArray[np.float64]
LogLikelihood = Callable[[Floats, Floats], Floats]
"""(means (P, k, 2), log shapes (P,)) -> log probability of all answers, (P,)."""

LEAST_SHAPE, MOST_SHAPE = 0.5, 20.0
"""Range of the scatter's Gamma shape: relative deviations of 1.4 to 0.2."""
_DEVIATION = 0.7
"""Prior deviations of the tilt, and of the prevalence's logit from the source's."""
_MOST_PROBIT = 3.3
_LEAST_LAPSE = 1e-5
"""Smallest lapse. At the surest score of one class, the other's share is a lapse times its overall share."""
_MOST_LAPSE = 0.9
"""Largest lapse, as a share of what the area allows."""
_STEEPEST = 30.0
_BISECTIONS = 36
_SCORE_TREND_LEAST = 1e-9
_SLOPES = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 40)])
_PLACES = 100
_KEPT = 0.5
"""Share of effective particles that stay effective after a step towards the posterior."""
_MOVES, _LAST_MOVES = 3, 10
_MOST_STEPS = 200


@dataclass(frozen=True)
class Bins:
    """The source's records in k bins of a score; it holds nothing from private records."""

    share: Floats  # of the source's records, half a record added to each bin, float64 (k,), positive, adding up to 1
    place: Floats  # mean normal score of their ranks, float64 (k,), not decreasing
    within: Floats  # area under the ROC curve within each bin at each of 41 slopes, float64 (k, 41), 1/2 to 1

    @classmethod
    def of(cls, scores: Floats, bins: NDArray[np.intp], count: int) -> "Bins":
        """Make bins of n source records: `scores` (n,), and `bins` (n,) in [0, count), non-decreasing in the score."""
        ranks = ndtri((rankdata(scores) - 0.5) / len(scores))
        share: Floats = np.bincount(bins, minlength=count).astype(np.float64) + 0.5
        share /= share.sum()
        # A bin that has no source record lies where its share begins and ends.
        place = ndtri(np.cumsum(share) - 0.5 * share)
        members = [np.sort(ranks[bins == j]) for j in range(count)]
        place = np.array([places.mean() if len(places) else place[j] for j, places in enumerate(members)])
        return cls(share, np.maximum.accumulate(place), np.array([_area_by_slope(places) for places in members]))

    def areas(self, expected: Floats, slope: Floats) -> Floats:
        """Areas under the ROC curve, (P,): between bins by (P, k, 2) counts, within bins by (P,) slopes."""
        shares = expected / expected.sum(axis=1, keepdims=True)
        area = roc_area(shares[..., 0], shares[..., 1])
        for j, within in enumerate(self.within):
            gain = np.interp(np.abs(slope), _SLOPES, within) - 0.5
            area = area + shares[:, j, 0] * shares[:, j, 1] * np.sign(slope) * gain
        return np.clip(area, 0.0, 1.0)


@dataclass(frozen=True)
class TrendDraws:
    """Draws from the posterior of the trend."""

    means: Floats  # of the expected counts, class 0 first, float64 (S, k, 2), positive
    slope: Floats  # b, float64 (S,)
    shape: Floats  # of the scatter, float64 (S,)


def draw_trend(
    bins: Bins,
    log_likelihood: LogLikelihood,
    *,
    size: float,
    size_error: float,
    draws: int,
    rng: np.random.Generator,
) -> TrendDraws:
    """Draw from the posterior of the trend.

    Args:
        bins: k of them.
        log_likelihood: log likelihood of the answers.
        size: noisy total of all counts, positive.
        size_error: its standard deviation.
        draws: their number S.
        rng: source of randomness.
    """
    trend = _Trend(bins, size, min(3.0 * size_error / size, 1.5))
    state = trend.start(draws, rng)
    prior, likelihood = trend.log_prior(state), log_likelihood(*trend.counts(state))
    heat = 0.0
    for _ in range(_MOST_STEPS):
        step = _next_step(likelihood, 1.0 - heat)
        heat = 1.0 if step >= 1.0 - heat else heat + step
        weights = np.exp(step * (likelihood - likelihood.max()))
        # Systematic resampling.
        places = (rng.random() + np.arange(draws)) / draws
        chosen = np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), places), draws - 1)
        state, prior, likelihood = state[chosen], prior[chosen], likelihood[chosen]
        reach = 1.0
        spread = np.linalg.cholesky(np.cov(state.T) + 1e-9 * np.eye(state.shape[1]))
        for _ in range(_LAST_MOVES if heat == 1.0 else _MOVES):
            moved = state + reach * rng.standard_normal(state.shape) @ spread.T
            new_prior = trend.log_prior(moved)
            inside = np.isfinite(new_prior)
            new_likelihood = np.full(draws, -np.inf)
            new_likelihood[inside] = log_likelihood(*trend.counts(moved[inside]))
            gain = new_prior - prior + heat * (new_likelihood - likelihood)
            accepted = np.log(rng.random(draws)) < np.where(inside, gain, -np.inf)
            state[accepted], prior[accepted], likelihood[accepted] = (
                moved[accepted],
                new_prior[accepted],
                new_likelihood[accepted],
            )
            reach *= 1.3 if accepted.mean() > 0.3 else 0.7
        if heat == 1.0:
            break
    means, log_shape = trend.counts(state)
    return TrendDraws(means, trend.slope(state), np.exp(log_shape))


def _next_step(likelihood: Floats, most: float) -> float:
    """The step towards the posterior after which half of the particles are still effective."""

    def share_left(step: float) -> float:
        weights = np.exp(step * (likelihood - likelihood.max()))
        return float(weights.sum() ** 2 / (weights @ weights)) / len(likelihood)

    if share_left(most) >= _KEPT:
        return most
    low, high = 0.0, most
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share_left(middle) >= _KEPT else (low, middle)
    return max(low, 1e-12)


class _Trend:
    """Parameters in rows: log size, logit of prevalence, a, probit of the area, t, log shape, roots of two lapses."""

    def __init__(self, bins: Bins, size: float, size_deviation: float) -> None:
        self._bins, self._size, self._deviation = bins, np.log(size), size_deviation
        self._known = np.concatenate([-np.geomspace(_STEEPEST, 0.02, 60), [0.0], np.geomspace(0.02, _STEEPEST, 60)])
        share, place = bins.share, bins.place
        ones = expit(_intercepts(bins, np.zeros(len(self._known)), self._known)[:, None] + self._known[:, None] * place)
        self._areas = bins.areas(np.stack([(1.0 - ones) * share, ones * share], axis=2), self._known)

    def slope(self, state: Floats) -> Floats:
        """Slope b for the area, lapses included, relative to the largest area that the bins allow."""
        least, most = self._areas[0], self._areas[-1]
        part = 0.5 + (ndtr(state[:, 3]) - 0.5) / (1.0 - self._lapses(state).mean(axis=1))
        slope: Floats = np.interp(least + (most - least) * part, self._areas, self._known)
        return slope

    @staticmethod
    def _lapses(state: Floats) -> Floats:
        """Lapses of class 1 and class 0, (P, 2): random labels in a share l of records scale 2 area - 1 by 1 - l."""
        most = _MOST_LAPSE * (1.0 - np.abs(2.0 * ndtr(state[:, 3:4]) - 1.0))
        lapses: Floats = np.maximum(most * state[:, 6:] ** 2, _LEAST_LAPSE)
        return lapses

    def start(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws from the prior."""
        state = np.empty((count, 8))
        state[:, 0] = self._size + self._deviation * rng.standard_normal(count)
        state[:, 1] = logit(rng.uniform(1e-6, 1.0 - 1e-6, count))
        limit = ndtr(-_MOST_PROBIT)
        # Uniform in the area.
        state[:, 3] = ndtri(rng.uniform(limit, 1.0 - limit, count))
        state[:, 4] = _DEVIATION * rng.standard_normal(count)
        state[:, 5] = rng.uniform(np.log(LEAST_SHAPE), np.log(MOST_SHAPE), count)
        state[:, 6:] = rng.random((count, 2))
        there = state[:, 1] + _DEVIATION * rng.standard_normal(count)
        state[:, 2] = _intercepts(self._bins, there, self.slope(state))
        return state

    def log_prior(self, state: Floats) -> Floats:
        """Log prior density; -inf outside its support."""
        size, prevalence, intercept, area, tilt, shape = state[:, :6].T
        ones = expit(intercept[:, None] + self.slope(state)[:, None] * self._bins.place)
        there = np.clip(ones @ self._bins.share, 1e-12, 1.0 - 1e-12)
        varied = np.maximum((ones * (1.0 - ones)) @ self._bins.share, 1e-300)
        density: Floats = (
            -0.5 * ((size - self._size) / self._deviation) ** 2
            + log_expit(prevalence)
            + log_expit(-prevalence)
            # The prior is of the logit of the prevalence in the source; a is the parameter.
            - 0.5 * ((logit(there) - prevalence) / _DEVIATION) ** 2
            + np.log(varied / (there * (1.0 - there)))
            - 0.5 * area**2
            - 0.5 * (tilt / _DEVIATION) ** 2
        )
        inside = (np.abs(area) <= _MOST_PROBIT) & (shape >= np.log(LEAST_SHAPE)) & (shape <= np.log(MOST_SHAPE))
        inside &= (np.abs(prevalence) < 14.0) & (np.abs(intercept) < 300.0)
        inside &= ((state[:, 6:] >= 0.0) & (state[:, 6:] <= 1.0)).all(axis=1)
        return np.where(inside, density, -np.inf)

    def counts(self, state: Floats) -> tuple[Floats, Floats]:
        """Means of the expected counts, (P, k, 2), and log shapes, (P,)."""
        ones = expit(state[:, 2:3] + self.slope(state)[:, None] * self._bins.place)
        all_ones = (ones @ self._bins.share)[:, None]
        lapses = self._lapses(state)
        least, lacking = lapses[:, :1] * all_ones, lapses[:, 1:] * (1.0 - all_ones)
        ones = least + (1.0 - least - lacking) * ones
        mass = self._bins.share * np.exp(np.clip(state[:, 4:5], -5.0, 5.0) * self._bins.place)
        by_class = np.stack([mass * (1.0 - ones), mass * ones], axis=2)
        by_class /= by_class.sum(axis=1, keepdims=True)
        size = np.exp(np.clip(state[:, 0], -20.0, 30.0))[:, None]
        by_class *= (size * np.stack([expit(-state[:, 1]), expit(state[:, 1])], axis=1))[:, None, :]
        return np.maximum(by_class, _SCORE_TREND_LEAST), state[:, 5]


def _intercepts(bins: Bins, log_odds: Floats, slope: Floats) -> Floats:
    """Intercepts a at which the source's share of class 1 has these log odds, (P,)."""
    low, high = np.full(log_odds.shape, -300.0), np.full(log_odds.shape, 300.0)
    goal, steep = expit(log_odds), slope[:, None] * bins.place
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        above = expit(middle[:, None] + steep) @ bins.share > goal
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    middles: Floats = 0.5 * (low + high)
    return middles


def _area_by_slope(places: Floats) -> Floats:
    """Area within a bin at each slope, (41,): its classes are the source tilted by exp(+-slope u / 2)."""
    if len(places) < 2:
        return np.full(len(_SLOPES), 0.5)
    if len(places) > _PLACES:
        places = np.quantile(places, (np.arange(_PLACES) + 0.5) / _PLACES)
    tilt = np.exp(np.clip(0.5 * _SLOPES[:, None] * (places - places.mean()), -300.0, 300.0))
    return roc_area(1.0 / tilt, tilt)


_SHAPES = np.geomspace(LEAST_SHAPE, MOST_SHAPE, 6)
_FINE_SHAPES = np.geomspace(LEAST_SHAPE, MOST_SHAPE, 24)
_LEAST_MEAN = 1e-5
_MEANS = 140
_COUNTS = 65
_DENSE = 25
_NOISE_RATE = 1e-7
_LEAST = 1e-12
_MOST_WITHIN = 2.0
"""Within a bin, the score's slope is the trend's slope times a factor between 0 and this."""


@dataclass(frozen=True)
class CountDraws:
    """Joint posterior draws of counts and area."""

    expected: Floats  # records of class 0 and of class 1 that a bin holds on average, float64 (S, k, 2), positive
    area: Floats  # under the ROC curve of the score itself, not of its bins, float64 (S,), in [0, 1]


def draw_counts(
    counts: Floats, bins: Bins, *, scale: float, noises: float, draws: int, seed: int, design: float = 1.0
) -> CountDraws:
    """Draw from the posterior of the expected counts, and of the area.

    The trend and its scatter are drawn first; then each bin's true count given its answer, and its expected count given
    the true one.

    Args:
        counts: noisy, of class 0 and of class 1, whole numbers, float64 (k, 2).
        bins: k of them.
        scale: scale of one site's discrete Laplace noise; 0 is none.
        noises: number of noises in each count.
        draws: their number S.
        seed: seed of the draws, non-negative.
        design: design effect of records that come in units, at least 1: so many records inform as one does.

    Returns:
        The draws; a pure function of the arguments.
    """
    rng = np.random.default_rng(seed)
    table = _Table.of(counts.ravel(), scale, noises)
    size = max(float(counts.sum()), 1.0)
    size_error = float(np.sqrt(noise_law(scale).variance(noises) * counts.size + design * size))
    trend = draw_trend(bins, table.log_likelihood, size=size, size_error=size_error, draws=draws, rng=rng)
    means = trend.means.reshape(draws, -1)
    expected = np.empty_like(means)
    for cell in range(means.shape[1]):
        true_counts = table.draw(cell, means[:, cell], trend.shape, rng)
        expected[:, cell] = rng.gamma(true_counts / design + trend.shape) / (
            1.0 / design + trend.shape / means[:, cell]
        )
    by_bin: Floats = np.maximum(expected, _LEAST).reshape(trend.means.shape)
    return CountDraws(by_bin, bins.areas(by_bin, trend.slope * rng.uniform(0.0, _MOST_WITHIN, draws)))


@dataclass(frozen=True)
class _Table:
    """The likelihood of the answers of 2k cells.

    A count whose mean is Gamma about m with shape a is negative binomial; its law times the noise's is summed at some
    values of m and a, and interpolated in their logarithms.
    """

    true: Floats  # counts that an answer may stand for, rising, float64 (2k, 65)
    stands: Floats  # how many whole numbers each stands for, (2k, 65)
    base: Floats  # log probability of the noise that each needs, less log n!, times what it stands for, (2k, 65)
    means: Floats  # 140 values of log m
    values: Floats  # log probability of the answer, (2k, 6, 140)

    @classmethod
    def of(cls, answers: Floats, scale: float, noises: float) -> "_Table":
        true, stands, noise = possible_counts(answers, scale, noises)
        base = noise - gammaln(true + 1.0) + np.log(stands)
        means = np.linspace(np.log(_LEAST_MEAN), np.log(2.0 * true.max()), _MEANS)
        at = np.exp(means)
        values = np.empty((len(answers), len(_SHAPES), _MEANS))
        for number, shape in enumerate(_SHAPES):
            ratio = np.log(at / (shape + at))
            joint = (base + gammaln(true + shape))[:, None, :] + true[:, None, :] * ratio[None, :, None]
            values[:, number] = logsumexp(joint, axis=2) - gammaln(shape) + shape * np.log(shape / (shape + at))
        return cls(true, stands, base, means, values)

    def log_likelihood(self, means: Floats, log_shape: Floats) -> Floats:
        """Log probability of all answers, (P,); arguments as in `LogLikelihood`."""
        flat = means.reshape(len(means), -1)
        place = (np.log(flat) - self.means[0]) / (self.means[1] - self.means[0])
        place = np.clip(place, 0.0, _MEANS - 1.001)
        column = place.astype(np.intp)
        along = place - column
        row = np.log(_SHAPES)
        level = np.clip((log_shape - row[0]) / (row[1] - row[0]), 0.0, len(_SHAPES) - 1.001)
        upper = level.astype(np.intp)
        part = (level - upper)[:, None]
        start = (np.arange(flat.shape[1]) * len(_SHAPES) + upper[:, None]) * _MEANS + column
        values = self.values.ravel()
        first = values[start] * (1.0 - along) + values[start + 1] * along
        start += _MEANS
        second = values[start] * (1.0 - along) + values[start + 1] * along
        total: Floats = ((1.0 - part) * first + part * second).sum(axis=1)
        return total

    def draw(self, cell: int, means: Floats, shapes: Floats, rng: np.random.Generator) -> Floats:
        """A cell's true count given its answer, for each draw, (S,)."""
        true = self.true[cell]
        nearest = np.abs(np.log(_FINE_SHAPES) - np.log(shapes)[:, None]).argmin(axis=1)
        weights = (self.base[cell] + gammaln(true + _FINE_SHAPES[:, None]))[nearest]
        weights += true * np.log(means / (shapes + means))[:, None]
        mass = np.cumsum(np.exp(weights - weights.max(axis=1, keepdims=True)), axis=1)
        picks = (mass < rng.random((len(means), 1)) * mass[:, -1:]).sum(axis=1)
        picks = np.minimum(picks, _COUNTS - 1)
        # Where not every count is on the grid, those between are as likely.
        beside = (self.stands[cell][picks] - 1.0) * rng.uniform(-0.5, 0.5, len(means))
        counts: Floats = np.maximum(true[picks] + beside, 0.0)
        return counts


def possible_counts(answers: Floats, scale: float, noises: float) -> tuple[Floats, Floats, Floats]:
    """Counts that may explain noisy answers, ascending, with the whole numbers each represents and log probabilities.

    The probability is that of the required noise. All three are (m, 65) for (m,) whole `answers`; `scale` is that of
    one site's discrete Laplace noise (0 is none), and `noises` is the number of noises in each answer.
    """
    reach = np.ceil(noise_law(scale).bound(_NOISE_RATE, noises)) + 2.0
    low, high = np.maximum(answers - reach, 0.0), np.maximum(answers, 0.0) + reach
    true = np.array([_nodes(*ends) for ends in zip(low, high, strict=True)])
    gaps = np.diff(true, axis=1, prepend=true[:, :1] - 1.0, append=true[:, -1:] + 1.0)
    stands: Floats = 0.5 * (gaps[:, 1:] + gaps[:, :-1])
    return true, stands, noise_log_pmf(np.rint(answers[:, None] - true).astype(np.int64), scale, noises)


def _nodes(low: float, high: float) -> Floats:
    """65 whole numbers between two bounds; all of them near 0, where the laws of counts are steep."""
    if high - low < _COUNTS:
        return np.arange(low, low + _COUNTS)
    dense = _DENSE if low == 0.0 else 1
    rest = np.linspace(low + dense, high, _COUNTS - dense)
    nodes: Floats = np.concatenate([low + np.arange(dense), np.rint(rest)])
    return nodes
