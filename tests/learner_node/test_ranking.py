"""Areas under the ROC curve from label probabilities, against scikit-learn and against all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import ndtr, ndtri
from sklearn.metrics import roc_auc_score

from lab.estimates import auc_error as delong_error
from learner_node.scores.auc import auc_error, weighted_auc
from learner_node.scores.estimates import SHARPNESS, Profiles, Ranked, auc_draws, highest_auc_draws

WEIGHTS = st.floats(0.01, 10)


def profiles(seed, cells=4, records=40, levels=None):
    """Of scores at random, or of so many levels."""
    rng = np.random.default_rng(seed)
    cell = np.sort(np.concatenate([np.arange(cells), rng.integers(0, cells, records - cells)]))
    value = rng.random(records) if levels is None else rng.integers(0, levels, records) / levels
    counts = np.bincount(cell).astype(float)
    starts = np.searchsorted(cell, np.arange(cells))
    return Profiles(value, np.bincount(cell, value) / counts, cell, starts, counts)


def by_pairs(score, positive, negative):
    order = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    return positive @ order @ negative / (positive.sum() * negative.sum())


@given(st.integers(0, 99), st.integers(1, 30), arrays(float, (2, 2, 30), elements=WEIGHTS))
@settings(max_examples=50, deadline=None)
def test_an_area_is_scikit_learns_with_sample_weights(seed, levels, weights):
    score = np.random.default_rng(seed).integers(0, levels, 30) / levels
    positive, negative = weights
    for found, ones, zeros in zip(weighted_auc(score, positive, negative), positive, negative, strict=True):
        labels, twice = np.repeat([1, 0], 30), np.tile(score, 2)
        assert found == pytest.approx(roc_auc_score(labels, twice, sample_weight=np.concatenate([ones, zeros])))


def test_without_one_label_the_area_is_a_half():
    assert weighted_auc(np.arange(3.0), np.zeros((1, 3)), np.ones((1, 3))) == [0.5]


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("trust", [0.0, 0.6, 1.0])
def test_draws_are_areas_of_labels_dealt_within_cells(levels, trust):
    """Each draw by all pairs of records, of which each stands for its cell's weight over its number of records."""
    made = profiles(3, levels=levels)
    rng = np.random.default_rng(0)
    share, weight = rng.random((5, 4)), rng.random((5, 4))
    sharpness = rng.integers(0, len(SHARPNESS), 5)
    shift, _ = made.by_ranking(share, sharpness)
    found = auc_draws(made, share, weight, Ranked(shift, sharpness, np.full(5, trust)))
    for row in range(5):
        probit = ndtri(np.clip(made.value, 0.002, 0.998))
        dealt = ndtr(SHARPNESS[sharpness[row]] * probit + shift[row, made.cell])
        ones = share[row, made.cell] * (1 - trust) + trust * dealt
        mass = (weight[row] / made.counts)[made.cell]
        assert found[row] == pytest.approx(by_pairs(made.value, mass * ones, mass * (1 - ones)))
    if not trust:
        assert auc_draws(made, share, weight) == pytest.approx(found)


def test_a_shift_gives_a_cell_its_share():
    made = profiles(1)
    share = np.random.default_rng(1).uniform(0.05, 0.95, (6, 4))
    sharpness = np.arange(6)
    shift, score = made.by_ranking(share, sharpness)
    for row in range(6):
        ones = ndtr(SHARPNESS[sharpness[row]] * made.probit + shift[row, made.cell])
        assert made.means(ones[None])[0] == pytest.approx(share[row], abs=0.01)
        right = np.where(made.predicted, ones, 1 - ones)
        assert made.means(right[None])[0] == pytest.approx(score[row], abs=0.01)


def test_a_sharper_label_is_ranked_better():
    made, share, weight = profiles(2), np.full((2, 4), 0.4), np.ones((2, 4))
    sharpness = np.array([2, 8])
    shift, _ = made.by_ranking(share, sharpness)
    blunt, sharp = auc_draws(made, share, weight, Ranked(shift, sharpness, np.ones(2)))
    assert 0.5 < blunt < sharp < 1


@pytest.mark.parametrize("levels", [None, 5])
def test_the_highest_area_has_label_1_on_the_highest_scores_of_each_cell(levels):
    made = profiles(5, levels=levels)
    share, weight = np.random.default_rng(2).random((2, 3, 4))
    found = highest_auc_draws(made, share, weight)
    for row in range(3):
        ones = np.zeros(len(made.value))
        for k in range(4):
            records = np.flatnonzero(made.cell == k)
            best = records[np.argsort(-made.value[records])]
            whole, rest = divmod(share[row, k] * len(records), 1)
            ones[best[: int(whole)]] = 1
            ones[best[int(whole)]] = rest
        mass = (weight[row] / made.counts)[made.cell]
        assert found[row] == pytest.approx(by_pairs(made.value, mass * ones, mass * (1 - ones)))
    assert (found >= auc_draws(made, share, weight)).all()


def test_the_error_of_an_area_is_near_delongs():
    """Hanley and McNeil's formula is exact for exponential scores; there the two agree."""
    rng = np.random.default_rng(4)
    labels = np.arange(20_000) < 6000
    score = rng.exponential(np.where(labels, 2.0, 1.0))
    area = roc_auc_score(labels, score)
    assert auc_error(np.array([area]), 6000.0, 14000.0) == pytest.approx(delong_error(labels, score), rel=0.05)
