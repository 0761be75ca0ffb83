"""Log-rank test and hazard ratio of groups from noisy exits.

Both sum, over bins, what groups' events differ from what a common law expects: d_g - q_g R_g, linear in the cells. Its
mean at the null is 0 where the law q or the groups' shares at risk are right, so that noise in either is of second
order. Bins are weighted by the share of sampling in their variance: without noise all weights are 1, which is the
log-rank test, and the score of grouped proportional hazards (Prentice and Gloeckler 1978, eq. 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaincc

from learner_node.analyses.exit_counts import ExitCounts
from learner_node.analyses.hazard_functionals import Interval
from learner_node.analyses.inference import linear_p
from learner_node.analyses.score_interval import noise_limit, score_interval

Floats = NDArray[np.float64]
_FURTHEST = 8.0
"""Largest logarithm of a hazard ratio that is looked at."""
_GRID = np.linspace(-_FURTHEST, _FURTHEST, 81)
_NONE = 1e-9


@dataclass(frozen=True)
class LogRank:
    """A log-rank test: statistic, degrees of freedom and p-value of equal hazards."""

    statistic: float  # about chi-squared under the null, which holds the noise
    df: int
    p: float


@dataclass(frozen=True)
class Ratio:
    """A logarithm of a hazard ratio, None where events cannot tell; ends may be infinite."""

    value: float | None
    low: float
    high: float
    variance: float = np.inf  # of the logarithm: sampling and noise
    noise_variance: float = 0.0  # the noise's part


def log_rank(groups: Sequence[ExitCounts], cause: int | None = None) -> LogRank:
    """Test that hazards of all groups are the same in every bin, for one cause (None: any event)."""
    events = [group.event_map(cause) for group in groups]
    risks = [group.risk_map() for group in groups]
    deaths = np.array([m @ g.smooth for m, g in zip(events, groups, strict=True)])
    at_risk = np.array([m @ g.smooth for m, g in zip(risks, groups, strict=True)])
    total, died = at_risk.sum(axis=0), deaths.sum(axis=0)
    share = np.divide(at_risk, total, out=np.full_like(at_risk, 1 / len(groups)), where=total > _NONE)
    hazard = np.clip(np.divide(died, total, out=np.zeros_like(died), where=total > _NONE), 0.0, 1.0)
    if not groups[0].noise.exact:
        share, hazard = _steadied(groups, risks, share, hazard, died, total)
        died = hazard * total  # weights that followed the noise of a bin's events would favour large noise
    rest = np.divide(total - died, total - 1.0, out=np.zeros_like(total), where=total > 1.0 + _NONE)
    information = died * np.clip(rest, 0.0, 1.0)
    noise = groups[0].noise
    most = max(group.most_records_per_unit for group in groups)
    # Of the bin's variance, the part that noise has: weights of events are 1 - share and -share.
    spread = (share * (1.0 - share)).mean(axis=0)
    weights = information * spread / np.maximum(information * spread + noise.variance * spread / most, 1e-300)
    if noise.exact:
        weights = np.ones_like(weights)
    count = len(groups)
    scores = np.zeros(count)
    maps: list[Floats] = []  # of group h's cells to all scores
    for index, group in enumerate(groups):
        part = events[index] - hazard[:, None] * risks[index]
        indicator = np.zeros((count, 1))
        indicator[index] = 1.0
        maps.append(((indicator - share) * weights) @ part)
        scores += maps[-1] @ group.cells
    squares = weights**2 * information * most
    sampling = np.diag((share * squares).sum(axis=1)) - (share * squares) @ share.T
    covariance = sampling + sum(noise.variance * m @ m.T for m in maps)
    if count == 2:
        variance = float(covariance[0, 0])
        coefficients = np.concatenate([m[0] for m in maps])
        p = linear_p(np.array(scores[0]), coefficients, np.array(max(float(sampling[0, 0]), 0.0)), noise)
        return LogRank(float(scores[0] ** 2 / variance) if variance > _NONE else 0.0, 1, float(p))
    inverse = np.linalg.pinv(covariance, hermitian=True, rcond=1e-9)
    statistic = float(scores @ inverse @ scores)
    return LogRank(statistic, count - 1, float(gammaincc((count - 1) / 2, max(statistic, 0.0) / 2)))


def _steadied(
    groups: Sequence[ExitCounts], risks: Sequence[Floats], share: Floats, hazard: Floats, died: Floats, total: Floats
) -> tuple[Floats, Floats]:
    """Shares and hazards drawn to those of all bins together, as far as noise has part in how they differ."""
    variance = groups[0].noise.variance
    spread = variance * sum((risk**2).sum(axis=1) for risk in risks)  # of all at risk, by bin
    clear = total**2 / np.maximum(total**2 + 4.0 * spread, 1e-9)
    middle = (share * total).sum(axis=1, keepdims=True) / max(float(total.sum()), _NONE)
    common = float(died.sum()) / max(float(total.sum()), _NONE)
    steady = died / np.maximum(died + variance * len(groups), 1e-9) * clear
    return middle + clear * (share - middle), np.clip(common + steady * (hazard - common), 0.0, 1.0)


@dataclass(frozen=True)
class _Pair:
    """Two groups, of which the second's cumulative hazards are exp(beta) times the first's in every bin."""

    first: ExitCounts
    second: ExitCounts
    cause: int | None

    def scores(self, betas: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Score, its sampling and noise variance and fourth cumulant, and the information, at logarithms of ratios."""
        maps = [(group.event_map(self.cause), group.risk_map()) for group in (self.first, self.second)]
        smooth = [(events @ g.smooth, risk @ g.smooth) for (events, risk), g in zip(maps, self._groups, strict=True)]
        deaths = np.array([np.minimum(events, risk) for events, risk in smooth])
        at_risk = np.maximum(np.array([risk for _, risk in smooth]), _NONE)
        if not self.first.noise.exact:
            rates = deaths.sum(axis=1, keepdims=True) / at_risk.sum(axis=1, keepdims=True)
            steady = deaths / (deaths + self.first.noise.variance)
            deaths = np.minimum(steady * deaths + (1.0 - steady) * rates * at_risk, at_risk)
        ratio = np.exp(betas)[:, None]
        base = _base_hazards(deaths, at_risk, ratio)
        cumulative = np.stack([base, ratio * base])
        hazards = np.maximum(-np.expm1(-cumulative), 1e-300)
        slopes = cumulative / hazards  # of a cloglog likelihood: (d - q R) (dq/deta) / (q (1 - q)) = (d - q R) slope
        information = at_risk[:, None] * slopes**2 * hazards * np.exp(-cumulative)
        total_information = np.maximum(information.sum(axis=0), 1e-300)
        parts = information / total_information
        efficient = information[0] * parts[1]
        signs = np.stack([-parts[1] * slopes[0], parts[0] * slopes[1]])
        noise = self.first.noise
        most = max(group.most_records_per_unit for group in self._groups)
        clear = most * efficient / np.maximum(most * efficient + noise.variance * (signs**2).sum(axis=0), 1e-300)
        weights = signs if noise.exact else signs * clear
        score, variance, fourth = np.zeros(len(betas)), np.zeros(len(betas)), np.zeros(len(betas))
        for index, ((events, risk), group) in enumerate(zip(maps, self._groups, strict=True)):
            coefficients = weights[index] @ events - (weights[index] * hazards[index]) @ risk
            score += coefficients @ group.cells
            variance += noise.variance * (coefficients**2).sum(axis=1)
            fourth += noise.kurtosis * noise.variance**2 * (coefficients**4).sum(axis=1)
        squares = efficient if noise.exact else efficient * clear**2
        slope = (efficient if noise.exact else efficient * clear).sum(axis=1)
        return score, np.stack([most * squares.sum(axis=1), variance]), fourth, slope

    @property
    def _groups(self) -> tuple[ExitCounts, ExitCounts]:
        return self.first, self.second


def _base_hazards(deaths: Floats, at_risk: Floats, ratio: Floats) -> Floats:
    """The first group's cumulative hazards (M, L) of greatest likelihood at each ratio (M, 1), by bisection."""
    low = np.full((len(ratio), deaths.shape[1]), -40.0)
    high = np.full_like(low, 6.0)
    for _ in range(60):
        middle = (low + high) / 2
        cumulative = np.exp(middle)
        first = deaths[0] / -np.expm1(-cumulative) - at_risk[0]
        second = deaths[1] / np.maximum(-np.expm1(-ratio * cumulative), 1e-300) - at_risk[1]
        rising = first + ratio * second > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    hazards: Floats = np.exp((low + high) / 2)
    return hazards


def hazard_ratio(first: ExitCounts, second: ExitCounts, cause: int | None = None, *, sampling: bool = True) -> Ratio:
    """The logarithm of the second group's hazard over the first's, proportional in all bins, with a 95 % interval.

    Args:
        first: group of reference.
        second: the other group.
        cause: of the events, None for any.
        sampling: whether the interval is of the population, else of these records.
    """
    pair = _Pair(first, second, cause)

    def scores(betas: Floats) -> tuple[Floats, Floats, Floats]:
        score, variances, fourth, _ = pair.scores(betas)
        variance = np.maximum(variances[1] + (variances[0] if sampling else 0.0), 1e-12)
        return betas, score / np.sqrt(variance), noise_limit(variance, fourth)

    low, high = score_interval(scores, _GRID)
    ends = (-np.inf if low <= -_FURTHEST else low, np.inf if high >= _FURTHEST else high)
    score = pair.scores(_GRID)[0]
    crossing = np.flatnonzero((score[1:] <= 0) & (score[:-1] > 0))
    if len(crossing) == 0 or (first.noise.exact and not _tells(pair)):
        return Ratio(None, *ends)
    place = crossing[np.argmin(np.abs(_GRID[crossing]))]
    value = float(brentq(lambda beta: pair.scores(np.array([beta]))[0][0], _GRID[place], _GRID[place + 1], xtol=1e-10))
    _, at_value, _, information = pair.scores(np.array([value]))
    scale = max(float(information[0]) ** 2, 1e-300)
    noise_part = float(at_value[1, 0]) / scale
    return Ratio(
        value, min(ends[0], value), max(ends[1], value), float(at_value[0, 0]) / scale + noise_part, noise_part
    )


def _tells(pair: _Pair) -> bool:
    """Whether exact counts have events in both groups."""
    return all((group.event_map(pair.cause) @ group.cells).sum() > 0 for group in (pair.first, pair.second))


def as_interval(ratio: Ratio) -> Interval | None:
    """The ratio itself and its ends; None where it has no value."""
    if ratio.value is None:
        return None
    return Interval(float(np.exp(ratio.value)), float(np.exp(ratio.low)), float(np.exp(ratio.high)))
