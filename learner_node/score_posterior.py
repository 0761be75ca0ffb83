"""What noisy class counts in bins of a score say of the records behind them: draws of the expected counts.

True counts are Poisson about expected ones, answers are counts plus the noise that the mechanism is known to add. The
expected counts scatter (Gamma) about a trend in the score: of the source's share of a bin the part logistic(a + b u)
has class 1, u being the bin's place in the score; each class as a whole may be more or less frequent among the private
records, and their scores may lie higher or lower (a tilt exp(t u)). Size, prevalence, shift, tilt, b and the scatter
are integrated out on a grid, so that the trend decides where noise is all there is, and the counts where it is not.
docs/validation.md says how it was chosen and how often its intervals hold.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logit, logsumexp, ndtr, ndtri
from scipy.stats import rankdata

from learner_node.label_model.likelihood import noise_law, noise_log_pmf

Floats = NDArray[np.float64]

_SHAPES = np.array([0.5, 2.0, 6.0, 20.0])
"""Gamma shapes of the scatter: a relative deviation of 1.4 to 0.2."""
_AREA_PROBITS = np.linspace(-3.3, 3.3, 23)
_TILTS, _TILT_DEVIATION = np.array([-0.8, 0.0, 0.8]), 0.7
_SHIFTS, _SHIFT_DEVIATION = np.array([-1.0, 0.0, 1.0]), 0.7
_PREVALENCES = 15
_SIZES = np.array([-1.0, 1.0])
_REACH = 3.0
_EXTREME = 0.001
_LAPSE = 1e-5
"""Of each bin's records the trend takes so many to be labelled at random: no bin is sure."""
_STEEPEST = 30.0
_BISECTIONS = 36
_MEANS = 100
_COUNTS = 65
_NOISE_RATE = 1e-7
_LEAST = 1e-12
_SLOPES = np.concatenate([[0.0], np.geomspace(0.05, 60.0, 40)])
_PLACES = 100
_MOST_WITHIN = 2.0
"""Within a bin the score ranks by the trend's slope times a factor between 0 and this."""


@dataclass(frozen=True)
class Bins:
    """What the source says of k bins of a score; nothing here comes from a private record.

    Attributes:
        share: of the source's records, half a record added to each bin, float64 (k,), positive, adding up to 1.
        place: mean normal score of their ranks, float64 (k,), increasing.
        within: area under the ROC curve within each bin at each of the `_SLOPES`, float64 (k, 41), 1/2 to 1.
    """

    share: Floats
    place: Floats
    within: Floats

    @classmethod
    def of(cls, scores: Floats, bins: NDArray[np.intp], count: int) -> "Bins":
        """Bins of source records.

        Args:
            scores: of n records, float64 (n,).
            bins: of the records, (n,), in [0, count), not decreasing in the score.
            count: their number k.
        """
        ranks = ndtri((rankdata(scores) - 0.5) / len(scores))
        share: Floats = np.bincount(bins, minlength=count).astype(np.float64) + 0.5
        share /= share.sum()
        # A bin that has no source record lies where its share begins and ends.
        place = ndtri(np.cumsum(share) - 0.5 * share)
        members = [np.sort(ranks[bins == j]) for j in range(count)]
        place = np.array([own.mean() if len(own) else place[j] for j, own in enumerate(members)])
        return cls(share, np.maximum.accumulate(place), np.array([_area_by_slope(own) for own in members]))


@dataclass(frozen=True)
class CountDraws:
    """Joint posterior draws.

    Attributes:
        expected: records of class 0 and of class 1 that a bin holds on average, float64 (S, k, 2), positive.
        area: under the ROC curve of the score itself, not of its bins, float64 (S,), in [0, 1].
    """

    expected: Floats
    area: Floats


def draw_counts(
    counts: Floats, bins: Bins, *, scale: float, sites: int, draws: int, seed: int, design: float = 1.0
) -> CountDraws:
    """Draw from the posterior of the expected counts, and of the area.

    Sampling is exact but for the grids: parameters by their weights, then each bin's true count given its answer, then
    its expected count given the true one.

    Args:
        counts: noisy, of class 0 and of class 1, whole numbers, float64 (k, 2).
        bins: k of them.
        scale: of one site's discrete Laplace noise; 0 is none.
        sites: number of noises in each count.
        draws: their number S.
        seed: of the draws, non-negative.
        design: effect of records that come in units: so many records say as much as one; at least 1.

    Returns:
        The draws; a pure function of the arguments.
    """
    rng = np.random.default_rng(seed)
    answers = counts.T.ravel()
    true, step = _possible_counts(answers, scale, sites)
    base = noise_log_pmf(np.rint(answers[:, None] - true).astype(np.int64), scale, sites) - gammaln(true + 1.0)
    by_shape = np.stack([base + gammaln(true + shape) for shape in _SHAPES])
    trend = _trends(counts, bins, noise_law(scale).variance(sites))
    weights = trend.log_prior + _log_likelihoods(by_shape, true, trend.means)
    weights = np.exp(weights - weights.max())
    shape, point = np.unravel_index(rng.choice(weights.size, draws, p=(weights / weights.sum()).ravel()), weights.shape)
    expected = np.empty((draws, len(answers)))
    for cell in range(len(answers)):
        mean, a = trend.means[point, cell], _SHAPES[shape]
        log_mass = by_shape[shape, cell] + true[cell] * np.log(mean / (a + mean))[:, None]
        mass = np.cumsum(np.exp(log_mass - log_mass.max(axis=1, keepdims=True)), axis=1)
        drawn = (mass < rng.random((draws, 1)) * mass[:, -1:]).sum(axis=1)
        found = true[cell][np.minimum(drawn, _COUNTS - 1)]
        # Where not every count is on the grid, those between are as likely.
        found = np.maximum(found + (step[cell] - 1.0) * rng.uniform(-0.5, 0.5, draws), 0.0)
        expected[:, cell] = rng.gamma(found / design + a) / (1.0 / design + a / mean)
    by_bin: Floats = np.maximum(expected, _LEAST).reshape(draws, 2, -1).transpose(0, 2, 1)
    slope = trend.slope[point] * rng.uniform(0.0, _MOST_WITHIN, draws)
    return CountDraws(by_bin, _areas(by_bin, bins, slope))


def roc_area(negatives: Floats, positives: Floats) -> Floats:
    """Area under the ROC curve of counts in bins of a score, ties counting one half (Mann-Whitney).

    Args:
        negatives: (..., k) counts of class 0 in bins of increasing score.
        positives: (..., k) of class 1.

    Returns:
        (...,) in [0, 1]; NaN where a class is absent.
    """
    below = np.cumsum(negatives, axis=-1) - 0.5 * negatives
    with np.errstate(invalid="ignore"):
        area: Floats = (positives * below).sum(axis=-1) / (negatives.sum(axis=-1) * positives.sum(axis=-1))
    return area


def _areas(expected: Floats, bins: Bins, slope: Floats) -> Floats:
    """Areas of draws: between bins by the counts, within bins by the slope, float64 (S,)."""
    shares = expected / expected.sum(axis=1, keepdims=True)
    area = roc_area(shares[..., 0], shares[..., 1])
    for j, within in enumerate(bins.within):
        gain = np.interp(np.abs(slope), _SLOPES, within) - 0.5
        area = area + shares[:, j, 0] * shares[:, j, 1] * np.sign(slope) * gain
    return np.clip(area, 0.0, 1.0)


def _area_by_slope(places: Floats) -> Floats:
    """Area within a bin, whose classes are the source tilted by exp(+-slope u / 2), at each of the slopes, (41,)."""
    if len(places) < 2:
        return np.full(len(_SLOPES), 0.5)
    if len(places) > _PLACES:
        places = np.quantile(places, (np.arange(_PLACES) + 0.5) / _PLACES)
    tilt = np.exp(np.clip(0.5 * _SLOPES[:, None] * (places - places.mean()), -300.0, 300.0))
    return roc_area(1.0 / tilt, tilt)


def _possible_counts(answers: Floats, scale: float, sites: int) -> tuple[Floats, Floats]:
    """True counts that an answer may stand for, evenly spaced, float64 (2k, 65), and the steps between, (2k,)."""
    reach = np.ceil(noise_law(scale).bound(_NOISE_RATE, sites)) + 2.0
    low = np.maximum(answers - reach, 0.0)
    high = np.maximum(answers, 0.0) + reach
    step = np.maximum(np.ceil((high - low) / (_COUNTS - 1)), 1.0)
    possible: Floats = low[:, None] + step[:, None] * np.arange(_COUNTS)
    return possible, step


@dataclass(frozen=True)
class _Trends:
    """Points of the grid.

    Attributes:
        means: of the expected counts, class 0 first, float64 (P, 2k).
        slope: b, float64 (P,).
        log_prior: float64 (P,).
    """

    means: Floats
    slope: Floats
    log_prior: Floats


def _trends(counts: Floats, bins: Bins, variance: float) -> _Trends:
    """The grid: a few deviations about what the noisy totals say; over all areas from nearly 0 to nearly 1."""
    share, place = bins.share, bins.place
    noise = variance * len(share)
    size = max(float(counts.sum()), 1.0)
    size_error = np.sqrt(2.0 * noise + size)
    sizes = np.unique(np.maximum(size + size_error * _SIZES, max(1.0, 0.1 * size_error)))
    ones = float(counts[:, 1].sum())
    error = 1.2 * np.sqrt(noise + max(ones, 1.0)) / max(size, size_error)
    about = ones / max(size, 0.5 * size_error)
    prevalence = np.unique(
        np.clip(about + _REACH * error * np.linspace(-1.0, 1.0, _PREVALENCES), _EXTREME, 1.0 - _EXTREME)
    )
    slope, slope_prior = _slopes(bins)
    tilt, tilt_prior = _tilts(counts.sum(axis=1), bins, 2.0 * variance)
    # Prevalence, shift, slope, bin: labels in the source, by the trend.
    there = expit(logit(prevalence)[:, None] + _SHIFTS)
    ones_share = _ones_by_trend(bins, *np.broadcast_arrays(there[..., None], slope))
    mass = share * np.exp(tilt[:, None] * place)
    ones_mass = mass[:, None, None, None, :] * ones_share
    zeros_mass = mass[:, None, None, None, :] * (1.0 - ones_share)
    at = prevalence[:, None, None, None]
    ones_mass *= at / ones_mass.sum(axis=-1, keepdims=True)
    zeros_mass *= (1.0 - at) / zeros_mass.sum(axis=-1, keepdims=True)
    means = sizes[:, None, None, None, None, None] * np.concatenate([zeros_mass, ones_mass], axis=-1)
    shift_prior = -0.5 * (_SHIFTS / _SHIFT_DEVIATION) ** 2
    prior = tilt_prior[:, None, None, None] + shift_prior[:, None] + slope_prior
    grid = means.shape[:-1]
    return _Trends(
        means=np.maximum(means.reshape(-1, 2 * len(share)), 1e-9),
        slope=np.broadcast_to(slope, grid).ravel(),
        log_prior=np.broadcast_to(prior, grid).ravel(),
    )


def _slopes(bins: Bins) -> tuple[Floats, Floats]:
    """Slopes b whose areas cover what the bins allow, denser at the ends, and their log prior: Jeffreys' of a share."""
    known = np.concatenate([-np.geomspace(_STEEPEST, 0.02, 60), [0.0], np.geomspace(0.02, _STEEPEST, 60)])
    ones = _ones_by_trend(bins, np.full(known.shape, 0.5), known)
    areas = _areas(np.stack([(1.0 - ones) * bins.share, ones * bins.share], axis=2), bins, known)
    shares = ndtr(_AREA_PROBITS)
    slope = np.interp(areas[0] + (areas[-1] - areas[0]) * shares, areas, known)
    return slope, -0.5 * (_AREA_PROBITS**2 + np.log(shares * (1.0 - shares)))


def _tilts(totals: Floats, bins: Bins, variance: float) -> tuple[Floats, Floats]:
    """Tilts exp(t u) of the source's shares about what the noisy totals say, and their log prior."""
    spread = float(bins.share @ (bins.place - bins.share @ bins.place) ** 2)
    if len(totals) < 2 or spread <= 0.0:
        return np.zeros(1), np.zeros(1)
    size = max(float(totals.sum()), 1.0)
    moved = bins.place - bins.share @ bins.place
    error = np.sqrt(variance * float(moved @ moved) + size * spread) / (size * spread)
    found = float(totals @ moved) / (size * spread)
    weight = _TILT_DEVIATION**2 / (_TILT_DEVIATION**2 + error**2)
    reach = _REACH * np.sqrt(weight) * error
    tilt = np.unique(np.clip(np.append(weight * found + reach * _TILTS, 0.0), -2.0, 2.0))
    return tilt, -0.5 * (tilt / _TILT_DEVIATION) ** 2


def _ones_by_trend(bins: Bins, prevalence: Floats, slope: Floats) -> Floats:
    """Share of class 1 in each bin, logistic in its place with the intercept that gives the prevalence, (..., k)."""
    low, high = np.full(prevalence.shape, -300.0), np.full(prevalence.shape, 300.0)
    steep = slope[..., None] * bins.place
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        above = expit(middle[..., None] + steep) @ bins.share > prevalence
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    ones: Floats = (1.0 - _LAPSE) * expit(low[..., None] + steep) + _LAPSE * prevalence[..., None]
    return ones


def _log_likelihoods(by_shape: Floats, true: Floats, means: Floats) -> Floats:
    """Log probability of all answers at each shape and point of the grid, float64 (4, P).

    A count whose mean is Gamma about m with shape a is negative binomial; its law times the noise's is summed at 100
    values of m and interpolated in log m.
    """
    logs = np.linspace(np.log(means.min()), np.log(means.max()), _MEANS)
    if logs[-1] - logs[0] < 1e-9:
        logs = logs[0] + np.linspace(0.0, 1e-6, _MEANS)
    position = np.clip((np.log(means) - logs[0]) / (logs[1] - logs[0]), 0.0, _MEANS - 1.001)
    index = position.astype(np.intp)
    fraction = position - index
    cells = np.arange(means.shape[1])
    found = np.empty((len(_SHAPES), len(means)))
    at = np.exp(logs)
    for number, shape in enumerate(_SHAPES):
        ratio = np.log(at / (shape + at))
        joint = by_shape[number][:, None, :] + true[:, None, :] * ratio[None, :, None]
        table = logsumexp(joint, axis=2) - gammaln(shape) + shape * np.log(shape / (shape + at))
        lower = table[cells, index]
        found[number] = (lower + fraction * (table[cells, index + 1] - lower)).sum(axis=1)
    return found
