"""The area under the ROC curve that a model has where labels are known as probabilities only.

A record i of weight w_i has label 1 with probability q_i, so it stands for w_i q_i records with label 1 and
w_i (1 - q_i) without. The area is the share of pairs, one of each, that the model's scores put in order; equal scores
count one half (Hanley & McNeil 1982).
"""

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


def auc_draws(
    profiles: Profiles,
    share: Floats,
    weight: Floats,
    *,
    shift: Floats,
    sharpness: NDArray[np.int64],
    trust: float,
) -> tuple[Floats, Floats]:
    """Areas under a model's ROC curve, one for each of S draws.

    Args:
        profiles: Of the model.
        share: Of label 1 in each cell, float64 (S, K), in [0, 1].
        weight: Of each cell, float64 (S, K), positive.
        shift: As `Profiles.by_ranking` gives it.
        sharpness: As index of `SHARPNESS`, int64 (S,).
        trust: How far labels within a cell are dealt by the model's ranking, in [-1, 1]; 0 deals them at random.

    Returns:
        The area with labels so dealt, and where each cell's label 1 is on its highest scores; two float64 (S,).
    """
    order = np.argsort(profiles.value, kind="stable")
    starts = np.flatnonzero(np.diff(profiles.value[order], prepend=-np.inf))
    cell, probit = profiles.cell[order], profiles.probit[order]
    by_cell = np.lexsort((-profiles.value, profiles.cell))
    rank = np.empty(len(order))
    rank[by_cell] = np.arange(len(order)) - profiles.starts[profiles.cell]
    rank = rank[order]
    dealt, highest = np.empty((2, len(share)))
    step = max(1, _BLOCK_ENTRIES // len(order))
    for first in range(0, len(share), step):
        rows = slice(first, first + step)
        ones, mass = share[rows][:, cell], (weight[rows] / profiles.counts)[:, cell]
        ranked = ndtr(SHARPNESS[sharpness[rows], None] * probit + shift[rows][:, cell])
        labelled = np.clip(ones + trust * (ranked - ones), 0.0, 1.0)
        dealt[rows] = _sorted_auc(mass * labelled, mass * (1.0 - labelled), starts)
        labelled = np.clip((share[rows] * profiles.counts)[:, cell] - rank, 0.0, 1.0)
        highest[rows] = _sorted_auc(mass * labelled, mass * (1.0 - labelled), starts)
    return dealt, highest


def _sorted_auc(positive: Floats, negative: Floats, starts: NDArray[np.int64]) -> Floats:
    """As `weighted_auc`, for ascending scores, of which equal ones begin at `starts`."""
    if len(starts) < positive.shape[1]:
        positive, negative = (np.add.reduceat(weights, starts, axis=1) for weights in (positive, negative))
    below = np.cumsum(negative, axis=1)
    pairs = positive.sum(axis=1) * below[:, -1]
    ordered = np.einsum("sn,sn->s", positive, below - 0.5 * negative)
    area: Floats = np.divide(ordered, pairs, out=np.full(len(pairs), 0.5), where=pairs > 0)
    return area
