"""Log-rank test and hazard ratio of groups from noisy exits.

Both sum, over bins, what groups' events differ from what a common law expects: d_g - q_g R_g, linear in the cells. Its
mean at the null is 0 where the law q or the groups' shares at risk are right, so that noise in either is of second
order. Bins are weighted by the share of sampling in their variance: without noise all weights are 1, which is the
log-rank test, and the score of grouped proportional hazards (Prentice and Gloeckler 1978, eq. 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, lsq_linear
from scipy.special import gammaincc

from learner_node.analyses.exit_counts import ACTUARIAL, ExitCounts
from learner_node.analyses.hazard_functionals import one_sided_critical
from learner_node.analyses.inference import linear_p
from learner_node.analyses.power import linear_power
from learner_node.analyses.score_interval import Z, noise_limit, score_interval

Floats = NDArray[np.float64]
_FURTHEST = 8.0
"""Largest logarithm of a hazard ratio that is looked at."""
_GRID = np.linspace(-_FURTHEST, _FURTHEST, 81)
_NONE = 1e-9
_DRAWS = 16
"""Draws of noise over which a power averages the doubt on times of censoring."""


@dataclass(frozen=True)
class LogRank:
    """A log-rank test: statistic, degrees of freedom and p-value of equal hazards."""

    statistic: float  # about chi-squared under the null, which holds the noise
    df: int
    p: float  # the largest where censoring within each bin is at like times in all groups, whichever they are
    p_even: float  # where it is even within bins
    p_any: float  # the largest whatever the times of censoring in bins of each group


@dataclass(frozen=True)
class Ratio:
    """A logarithm of a hazard ratio, None where events cannot tell; ends may be infinite."""

    value: float | None
    low: float
    high: float
    variance: float = np.inf  # of the logarithm: sampling and noise
    noise_variance: float = 0.0  # the noise's part
    any_low: float = -np.inf  # with any times of censoring in bins, of each group
    any_high: float = np.inf


def log_rank(groups: Sequence[ExitCounts], cause: int | None = None) -> LogRank:
    """Test that hazards of all groups are the same in every bin, for one cause (None: any event)."""
    scores, maps, sampling, moves = _log_rank_scores(groups, cause)
    count, noise = len(groups), groups[0].noise
    # (count, L) each: by how much censoring of group h in each bin moves scores at most
    shifts: list[Floats] = [move * _doubt(group, cause) for move, group in zip(moves, groups, strict=True)]
    covariance = sampling + sum(noise.variance * m @ m.T for m in maps)
    alike: Floats = np.sum(shifts, axis=0)
    if count == 2:
        variance = float(covariance[0, 0])
        coefficients = np.concatenate([m[0] for m in maps])
        reach = [0.0, float(np.abs(alike[0]).sum()), sum(float(np.abs(shift[0]).sum()) for shift in shifts)]
        nearest = np.maximum(abs(float(scores[0])) - np.array(reach), 0.0)
        normal = np.full(3, max(float(sampling[0, 0]), 0.0))
        p_even, p, p_any = linear_p(nearest, np.tile(coefficients, (3, 1)), normal, noise).tolist()
        return LogRank(float(scores[0] ** 2 / variance) if variance > _NONE else 0.0, 1, p, p_even, p_any)
    inverse = np.asarray(np.linalg.pinv(covariance, hermitian=True, rcond=1e-9), np.float64)
    statistic = float(scores @ inverse @ scores)
    least = [_least_statistic(scores, inverse, part) for part in (alike, np.hstack(shifts))]
    p_even, p, p_any = gammaincc((count - 1) / 2, np.maximum([statistic, *least], 0.0) / 2).tolist()
    return LogRank(statistic, count - 1, p, p_even, p_any)


def log_rank_power(first: ExitCounts, second: ExitCounts, cause: int | None = None) -> float:
    """Chance that the log-rank test of two groups rejects at 5 %, where these are their expected counts."""
    pair = (first, second)
    scores, maps, sampling, moves = _log_rank_scores(pair, cause)
    variance, noise, generator = max(float(sampling[0, 0]), 0.0), first.noise, np.random.default_rng(0)
    reach = 0.0  # how much noise in the censored adds to what their times may move, on average
    for _ in range(1 if noise.exact else _DRAWS):
        answers = [
            replace(group, values=group.values + noise.simulate(generator, group.values.shape), expected=False)
            for group in pair
        ]
        shift = sum(move[0] * _doubt(group, cause) for move, group in zip(moves, answers, strict=True))
        reach += float(np.abs(shift).sum()) / (1 if noise.exact else _DRAWS)
    signal = max(abs(float(scores[0])) - reach, 0.0)
    return linear_power(signal, np.concatenate([m[0] for m in maps]), (variance, variance), noise)


def _log_rank_scores(
    groups: Sequence[ExitCounts], cause: int | None
) -> tuple[Floats, list[Floats], Floats, list[Floats]]:
    """Each group's events less the expected ones, maps of cells to them, their sampling, and what one at risk moves."""
    events = [group.event_map(cause) for group in groups]
    risks = [group.risk_map(cause=cause) for group in groups]
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
    moves: list[Floats] = []  # (count, L): what one more at risk of group h in each bin moves scores by
    for index, group in enumerate(groups):
        part = events[index] - hazard[:, None] * risks[index]
        indicator = np.zeros((count, 1))
        indicator[index] = 1.0
        leading = (indicator - share) * weights
        maps.append(leading @ part)
        scores += maps[-1] @ group.cells
        moves.append(leading * hazard)
    squares = weights**2 * information * most
    sampling = np.diag((share * squares).sum(axis=1)) - (share * squares) @ share.T
    return scores, maps, sampling, moves


def _doubt(group: ExitCounts, cause: int | None) -> Floats:
    """By how much numbers at risk may differ from actuarial ones, (L,), for times of censoring within bins."""
    doubt: Floats = (group.risk_map(0.0, 0.0, cause) - group.risk_map(1.0, 1.0, cause)) @ group.smooth / 2
    return doubt


def _least_statistic(scores: Floats, inverse: Floats, shifts: Floats) -> float:
    """The least statistic of scores that are moved by a sum of `shifts`, each between -1 and 1 times."""
    values, vectors = np.linalg.eigh(inverse)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    nearest = lsq_linear(root @ shifts, -root @ scores, (-1.0, 1.0))
    return 2.0 * float(nearest.cost)


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
    """Two groups, of which the second's cumulative hazards are exp(beta) times the first's in every bin.

    `missed` is the part of its bin that a censored record misses, of each group.
    """

    first: ExitCounts
    second: ExitCounts
    cause: int | None
    missed: tuple[float, float] = (ACTUARIAL, ACTUARIAL)

    @cached_property
    def _prepared(self) -> tuple[list[tuple[Floats, Floats]], Floats, Floats]:
        """Maps of events and numbers at risk of each group, and both steadied, (2, L)."""
        maps = [
            (group.event_map(self.cause), group.risk_map(part, part, self.cause))
            for group, part in zip(self._groups, self.missed, strict=True)
        ]
        smooth = [(events @ g.smooth, risk @ g.smooth) for (events, risk), g in zip(maps, self._groups, strict=True)]
        deaths = np.array([np.minimum(events, risk) for events, risk in smooth])
        at_risk = np.maximum(np.array([risk for _, risk in smooth]), _NONE)
        if not self.first.noise.exact:
            rates = deaths.sum(axis=1, keepdims=True) / at_risk.sum(axis=1, keepdims=True)
            steady = deaths / (deaths + self.first.noise.variance)
            deaths = np.minimum(steady * deaths + (1.0 - steady) * rates * at_risk, at_risk)
        return maps, deaths, at_risk

    def scores(self, betas: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Score, its sampling and noise variance and fourth cumulant, and the information, at logarithms of ratios."""
        maps, deaths, at_risk = self._prepared
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

    @cached_property
    def on_grid(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Scores on the grid on which one begins."""
        return self.scores(_GRID)

    @property
    def _groups(self) -> tuple[ExitCounts, ExitCounts]:
        return self.first, self.second


def _base_hazards(deaths: Floats, at_risk: Floats, ratio: Floats) -> Floats:
    """The first group's cumulative hazards (M, L) of greatest likelihood at each ratio (M, 1).

    Newton's steps for the logarithm of an equation that is near to a straight line, kept between two ends that close.
    """
    low = np.full((len(ratio), deaths.shape[1]), -40.0)
    high = np.full_like(low, 6.0)
    target = np.log(at_risk[0] + ratio * at_risk[1])
    with np.errstate(divide="ignore"):
        place = np.clip(np.log(deaths.sum(axis=0)) - target, low, high)
    for _ in range(60):
        first = np.exp(place)
        second = ratio * first
        dying = np.maximum(-np.expm1(-first), 1e-300), np.maximum(-np.expm1(-second), 1e-300)
        parts = deaths[0] / dying[0], ratio * deaths[1] / dying[1]
        total = np.maximum(parts[0] + parts[1], 1e-300)
        gap = np.log(total) - target
        low, high = np.where(gap > 0, place, low), np.where(gap > 0, high, place)
        falls = parts[0] * first * (1.0 / dying[0] - 1.0) + parts[1] * second * (1.0 / dying[1] - 1.0)
        step = place + gap / np.maximum(falls / total, 1e-9)
        after = np.where((step > low) & (step < high), step, (low + high) / 2)
        moved = np.abs(after - place).max()
        place = after
        if moved < 1e-12:
            break
    hazards: Floats = np.exp(place)
    return hazards


def hazard_ratio(
    first: ExitCounts, second: ExitCounts, cause: int | None = None, *, sampling: bool = True, even: bool = False
) -> Ratio:
    """The logarithm of the second group's hazard over the first's, proportional in all bins, with a 95 % interval.

    The population's interval holds whether records are censored at starts or at ends of bins, if alike in both groups.
    Its ends are those of the two extremes, with the critical value of Imbens and Manski. Value and variances take
    censoring to be even. `any_low` and `any_high` hold whatever the times of censoring in bins of each group.

    Args:
        first: group of reference.
        second: the other group.
        cause: of the events, None for any; exits by other causes are then as if censored.
        sampling: whether the interval is of the population, else of these records.
        even: whether censoring is taken to be even within bins, as it always is for these records.
    """
    pair = _Pair(first, second, cause)
    middle = _value(pair)
    if even or not sampling:
        return _with_ends(middle, _ends(pair, sampling=sampling))
    low, high = _bounds(middle, [_Pair(first, second, cause, missed) for missed in ((1.0, 1.0), (0.0, 0.0))])
    widest = _bounds(middle, [_Pair(first, second, cause, missed) for missed in ((1.0, 0.0), (0.0, 1.0))])
    return replace(_with_ends(middle, (low, high)), any_low=min(low, widest[0]), any_high=max(high, widest[1]))


def _bounds(even: Ratio, pairs: Sequence[_Pair]) -> tuple[float, float]:
    """Ends that hold under both extremes and between them."""
    critical = Z
    if even.value is not None:
        values = [_value(pair).value for pair in pairs]
        gap = 0.0 if None in values else abs(values[1] - values[0])  # type: ignore[operator]
        critical = one_sided_critical(gap / max(even.variance**0.5, 1e-12))
    ends = [end for pair in pairs for end in _ends(pair, critical=critical)]
    return min(ends), max(ends)


def _with_ends(ratio: Ratio, ends: tuple[float, float]) -> Ratio:
    if ratio.value is None:
        return replace(ratio, low=ends[0], high=ends[1])
    return replace(ratio, low=min(ends[0], ratio.value), high=max(ends[1], ratio.value))


def _ends(pair: _Pair, *, sampling: bool = True, critical: float = Z) -> tuple[float, float]:
    """Ends of the interval under a pair's convention; infinite where it goes on beyond what is looked at."""

    def scores(betas: Floats) -> tuple[Floats, Floats, Floats]:
        score, variances, fourth, _ = pair.on_grid if betas is _GRID else pair.scores(betas)
        variance = np.maximum(variances[1] + (variances[0] if sampling else 0.0), 1e-12)
        return betas, score / np.sqrt(variance), noise_limit(variance, fourth, critical)

    low, high = score_interval(scores, _GRID)
    return -np.inf if low <= -_FURTHEST else low, np.inf if high >= _FURTHEST else high


def _value(pair: _Pair) -> Ratio:
    """Where the score is 0, with variances; ends are left open."""
    score = pair.on_grid[0]
    crossing = np.flatnonzero((score[1:] <= 0) & (score[:-1] > 0))
    if len(crossing) == 0 or (pair.first.noise.exact and not _tells(pair)):
        return Ratio(None, -np.inf, np.inf)
    place = crossing[np.argmin(np.abs(_GRID[crossing]))]
    left, right = score[place], score[place + 1]

    def height(beta: float) -> float:  # at the ends as on the grid, since rounding may change a sign near 0
        at_end = {_GRID[place]: left, _GRID[place + 1]: right}.get(beta)
        return float(pair.scores(np.array([beta]))[0][0] if at_end is None else at_end)

    value = float(brentq(height, _GRID[place], _GRID[place + 1], xtol=1e-10))
    _, at_value, _, information = pair.scores(np.array([value]))
    scale = max(float(information[0]) ** 2, 1e-300)
    noise_part = float(at_value[1, 0]) / scale
    return Ratio(value, -np.inf, np.inf, float(at_value[0, 0]) / scale + noise_part, noise_part)


def _tells(pair: _Pair) -> bool:
    """Whether exact counts have events in both groups."""
    return all((group.event_map(pair.cause) @ group.cells).sum() > 0 for group in (pair.first, pair.second))
