"""What noisy class counts in bins of a score say of the records behind them: draws of the expected counts.

True counts are Poisson about expected ones, answers are counts plus the noise that the mechanism is known to add. The
expected counts scatter about a trend in the score (`score_trend`), so that the trend decides where noise is all there
is, and the counts where it is not. docs/validation.md says how it was chosen and how often its intervals hold.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from learner_node.models.label_model.summed_noise import noise_law, noise_log_pmf
from learner_node.scores.score_trend import LEAST_SHAPE, MOST_SHAPE, Bins, draw_trend

Floats = NDArray[np.float64]

_SHAPES = np.geomspace(LEAST_SHAPE, MOST_SHAPE, 6)
_FINE_SHAPES = np.geomspace(LEAST_SHAPE, MOST_SHAPE, 24)
_LEAST_MEAN = 1e-5
_MEANS = 140
_COUNTS = 65
_DENSE = 25
_NOISE_RATE = 1e-7
_LEAST = 1e-12
_MOST_WITHIN = 2.0
"""Within a bin the score ranks by the trend's slope times a factor between 0 and this."""


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
    counts: Floats, bins: Bins, *, scale: float, noises: float, draws: int, seed: int, design: float = 1.0
) -> CountDraws:
    """Draw from the posterior of the expected counts, and of the area.

    The trend and its scatter are drawn first; then each bin's true count given its answer, and its expected count given
    the true one.

    Args:
        counts: noisy, of class 0 and of class 1, whole numbers, float64 (k, 2).
        bins: k of them.
        scale: of one site's discrete Laplace noise; 0 is none.
        noises: their number in each count.
        draws: their number S.
        seed: of the draws, non-negative.
        design: effect of records that come in units: so many records say as much as one; at least 1.

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
        found = table.draw(cell, means[:, cell], trend.shape, rng)
        expected[:, cell] = rng.gamma(found / design + trend.shape) / (1.0 / design + trend.shape / means[:, cell])
    by_bin: Floats = np.maximum(expected, _LEAST).reshape(trend.means.shape)
    return CountDraws(by_bin, bins.areas(by_bin, trend.slope * rng.uniform(0.0, _MOST_WITHIN, draws)))


@dataclass(frozen=True)
class _Table:
    """The likelihood of the answers of 2k cells.

    A count whose mean is Gamma about m with shape a is negative binomial; its law times the noise's is summed at some
    values of m and a, and interpolated in their logarithms.

    Attributes:
        true: counts that an answer may stand for, rising, float64 (2k, 65).
        stands: how many whole numbers each stands for, (2k, 65).
        base: log probability of the noise that each needs, less log n!, times what it stands for, (2k, 65).
        means: 140 values of log m.
        values: log probability of the answer, (2k, 6, 140).
    """

    true: Floats
    stands: Floats
    base: Floats
    means: Floats
    values: Floats

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
        """Log probability of all answers, (P,); arguments as in `score_trend.LogLikelihood`."""
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
        drawn = (mass < rng.random((len(means), 1)) * mass[:, -1:]).sum(axis=1)
        drawn = np.minimum(drawn, _COUNTS - 1)
        # Where not every count is on the grid, those between are as likely.
        beside = (self.stands[cell][drawn] - 1.0) * rng.uniform(-0.5, 0.5, len(means))
        found: Floats = np.maximum(true[drawn] + beside, 0.0)
        return found


def possible_counts(answers: Floats, scale: float, noises: float) -> tuple[Floats, Floats, Floats]:
    """Counts that noisy answers may stand for, rising, how many whole numbers each stands for, and log probabilities.

    The probability is that of the noise that each needs. All are (m, 65).

    Args:
        answers: whole numbers, (m,).
        scale: of one site's discrete Laplace noise; 0 is none.
        noises: their number in each answer.
    """
    reach = np.ceil(noise_law(scale).bound(_NOISE_RATE, noises)) + 2.0
    low, high = np.maximum(answers - reach, 0.0), np.maximum(answers, 0.0) + reach
    true = np.array([_nodes(*ends) for ends in zip(low, high, strict=True)])
    gaps = np.diff(true, axis=1, prepend=true[:, :1] - 1.0, append=true[:, -1:] + 1.0)
    stands: Floats = 0.5 * (gaps[:, 1:] + gaps[:, :-1])
    return true, stands, noise_log_pmf(np.rint(answers[:, None] - true).astype(np.int64), scale, noises)


def _nodes(low: float, high: float) -> Floats:
    """65 whole numbers between two; near 0, where laws of counts are steep, all of them."""
    if high - low < _COUNTS:
        return np.arange(low, low + _COUNTS)
    dense = _DENSE if low == 0.0 else 1
    rest = np.linspace(low + dense, high, _COUNTS - dense)
    nodes: Floats = np.concatenate([low + np.arange(dense), np.rint(rest)])
    return nodes
