"""The area under the ROC curve that a model has where only the cells' shares of label 1 are known.

A record i of weight w_i has label 1 with probability q_i, so it stands for w_i q_i records with label 1 and
w_i (1 - q_i) without. What q_i is within a cell the answers do not tell.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from learner_node.scores.auc import sorted_auc
from learner_node.scores.profiles import SHARPNESS, Profiles

Floats = NDArray[np.float64]

_BLOCK_ENTRIES = 2_000_000


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
    order = profiles.ascending
    cell, probit = profiles.cell[order], profiles.probit[order]

    def dealt(rows: slice) -> Floats:
        ones = share[rows][:, cell]
        if ranked is None:
            return ones
        foretold = ndtr(SHARPNESS[ranked.sharpness[rows], None] * probit + ranked.shift[rows][:, cell])
        mixed: Floats = np.clip(ones + ranked.trust[rows, None] * (foretold - ones), 0.0, 1.0)
        return mixed

    return _areas(profiles, weight, dealt)


def highest_auc_draws(profiles: Profiles, share: Floats, weight: Floats) -> Floats:
    """As `auc_draws`, with label 1 on the highest scores of each cell: no other ranking within cells is better."""
    order = profiles.ascending
    cell, place = profiles.cell[order], profiles.place[order]

    def dealt(rows: slice) -> Floats:
        ones: Floats = np.clip((share[rows] * profiles.counts)[:, cell] - place, 0.0, 1.0)
        return ones

    return _areas(profiles, weight, dealt)


def _areas(profiles: Profiles, weight: Floats, dealt: Callable[[slice], Floats]) -> Floats:
    """Areas of S draws; `dealt` gives P(label 1) of the records, by ascending value, in some of the draws."""
    order = profiles.ascending
    starts = np.flatnonzero(np.diff(profiles.value[order], prepend=-np.inf))
    cell = profiles.cell[order]
    areas = np.empty(len(weight))
    step = max(1, _BLOCK_ENTRIES // len(order))
    for first in range(0, len(weight), step):
        rows = slice(first, first + step)
        mass, ones = (weight[rows] / profiles.counts)[:, cell], dealt(rows)
        areas[rows] = sorted_auc(mass * ones, mass * (1.0 - ones), starts)
    return areas
