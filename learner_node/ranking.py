"""The area under the ROC curve that a model has where labels are known as probabilities only.

A record i of weight w_i has label 1 with probability q_i, so it stands for w_i q_i records with label 1 and
w_i (1 - q_i) without. The area is the share of pairs, one of each, that the model's scores put in order; equal scores
count one half (Hanley & McNeil 1982).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from learner_node.profiles import SHARPNESS, Profiles

Floats = NDArray[np.float64]

_BLOCK_ENTRIES = 2_000_000


def weighted_auc(score: Floats, positive: Floats, negative: Floats) -> Floats:
    """Area under the ROC curve of scores for each of S weightings, float64 (S,); 1/2 where a label has no weight.

    Args:
        score: (n,) finite, n >= 1.
        positive: Weight of label 1 at each score, float64 (S, n), non-negative.
        negative: Weight of label 0, likewise.
    """
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    return _sorted_auc(positive[:, order], negative[:, order], starts)


@dataclass(frozen=True)
class Ranked:
    """How labels are dealt within cells, in each of S draws.

    Attributes:
        shift: As `Profiles.by_ranking` gives it, float64 (S, K).
        sharpness: As index of `SHARPNESS`, int64 (S,).
        trust: How far they are dealt by the model's ranking, float64 (S,), in [-1, 1]; 0 is at random.
    """

    shift: Floats
    sharpness: NDArray[np.int64]
    trust: Floats


def auc_draws(profiles: Profiles, share: Floats, weight: Floats, ranked: Ranked | None = None) -> Floats:
    """Areas under a model's ROC curve, one for each of S draws, float64 (S,).

    Args:
        profiles: Of the model.
        share: Of label 1 in each cell, float64 (S, K), in [0, 1].
        weight: Of each cell, float64 (S, K), positive.
        ranked: How labels are dealt within cells; None deals them at random.
    """
    order = np.argsort(profiles.value, kind="stable")
    starts = np.flatnonzero(np.diff(profiles.value[order], prepend=-np.inf))
    cell, probit = profiles.cell[order], profiles.probit[order]
    areas = np.empty(len(share))
    step = max(1, _BLOCK_ENTRIES // len(order))
    for first in range(0, len(share), step):
        rows = slice(first, first + step)
        mass, ones = (weight[rows] / profiles.counts)[:, cell], share[rows][:, cell]
        if ranked is not None:
            dealt = ndtr(SHARPNESS[ranked.sharpness[rows], None] * probit + ranked.shift[rows][:, cell])
            ones = np.clip(ones + ranked.trust[rows, None] * (dealt - ones), 0.0, 1.0)
        areas[rows] = _sorted_auc(mass * ones, mass * (1.0 - ones), starts)
    return areas


def highest_auc_draws(profiles: Profiles, share: Floats, weight: Floats) -> Floats:
    """As `auc_draws`, with label 1 on the highest scores of each cell: no other ranking within cells is better."""
    order = np.argsort(profiles.value, kind="stable")
    starts = np.flatnonzero(np.diff(profiles.value[order], prepend=-np.inf))
    cell, place = profiles.cell[order], profiles.place[order]
    areas = np.empty(len(share))
    step = max(1, _BLOCK_ENTRIES // len(order))
    for first in range(0, len(share), step):
        rows = slice(first, first + step)
        mass = (weight[rows] / profiles.counts)[:, cell]
        ones = np.clip((share[rows] * profiles.counts)[:, cell] - place, 0.0, 1.0)
        areas[rows] = _sorted_auc(mass * ones, mass * (1.0 - ones), starts)
    return areas


def auc_error(area: Floats, positive: Floats, negative: Floats) -> Floats:
    """Standard error of an area under the ROC curve, of the shape of `area` (Hanley & McNeil 1982, Eq. 2).

    Args:
        area: In [0, 1].
        positive: Number of independent records with label 1, positive.
        negative: Without it, positive.
    """
    both_positive, both_negative = area / (2.0 - area), 2.0 * area**2 / (1.0 + area)
    spread = (positive - 1.0) * (both_positive - area**2) + (negative - 1.0) * (both_negative - area**2)
    error: Floats = np.sqrt(np.maximum(area * (1.0 - area) + spread, 0.0) / (positive * negative))
    return error


def _sorted_auc(positive: Floats, negative: Floats, starts: NDArray[np.int64]) -> Floats:
    """As `weighted_auc`, for ascending scores, of which equal ones begin at `starts`."""
    if len(starts) < positive.shape[1]:
        positive, negative = (np.add.reduceat(weights, starts, axis=1) for weights in (positive, negative))
    below = np.cumsum(negative, axis=1)
    pairs = positive.sum(axis=1) * below[:, -1]
    ordered = np.einsum("sn,sn->s", positive, below - 0.5 * negative)
    area: Floats = np.divide(ordered, pairs, out=np.full(len(pairs), 0.5), where=pairs > 0)
    return area
