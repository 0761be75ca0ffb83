"""Chance errors of test scores, against closed forms and against draws of whole units."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lab.estimates import auc_error, share_error


def alike(rng, units, item):
    """Records of which those of a unit have one label and nearly one score."""
    label = rng.random(units) < 0.4
    score = label + rng.normal(0.0, 1.5, units)
    owner = np.repeat(np.arange(units), item)
    return label[owner], score[owner] + rng.normal(0.0, 0.05, len(owner)), owner


def test_without_units_a_share_has_the_binomial_error():
    correct = np.arange(50) < 30
    assert share_error(correct) == pytest.approx(np.sqrt(0.6 * 0.4 / 50))
    assert share_error(correct, np.arange(50)) == pytest.approx(share_error(correct))


def test_copies_of_a_record_are_worth_one():
    rng = np.random.default_rng(0)
    labels, score = rng.random(80) < 0.5, rng.random(80)
    copies = np.repeat(np.arange(80), 4)
    assert share_error(labels[copies], copies) == pytest.approx(share_error(labels))
    assert auc_error(labels[copies], score[copies], copies) == pytest.approx(auc_error(labels, score))
    assert auc_error(labels[copies], score[copies]) == pytest.approx(0.5 * auc_error(labels, score), rel=0.05)


def test_an_area_has_delongs_error():
    """Placement values by comparing all pairs (DeLong et al. 1988, Eq. 4), up to n / (n - 1)."""
    rng = np.random.default_rng(1)
    labels = rng.random(60) < 0.3
    score = rng.integers(0, 6, 60) + labels
    pairs = (score[labels][:, None] > score[~labels]) + 0.5 * (score[labels][:, None] == score[~labels])
    assert pairs.mean() == pytest.approx(roc_auc_score(labels, score))
    expected = pairs.mean(axis=1).var() / labels.sum() + pairs.mean(axis=0).var() / (~labels).sum()
    assert auc_error(labels, score) == pytest.approx(np.sqrt(expected))


def test_errors_are_those_of_repeated_draws_of_units():
    """600 draws know a deviation to 2.9 % (one sigma): off by 18 % once in 1e9. Without units it is half as large."""
    rng = np.random.default_rng(2)
    shares, areas, text = [], [], []
    for _ in range(600):
        labels, score, owner = alike(rng, 150, 4)
        correct = (score > 0.5) == labels
        shares.append(correct.mean())
        areas.append(np.mean(score[labels][:, None] > score[~labels]))
        text.append((share_error(correct, owner), auc_error(labels, score, owner)))
    by_unit = np.mean(text, axis=0)
    assert by_unit[0] == pytest.approx(np.std(shares), rel=0.18)
    assert by_unit[1] == pytest.approx(np.std(areas), rel=0.18)
    assert share_error(correct) < 0.6 * by_unit[0]
    assert auc_error(labels, score) < 0.6 * by_unit[1]


def test_one_label_alone_has_no_area():
    with pytest.raises(ValueError, match="both labels"):
        auc_error(np.ones(3, bool), np.arange(3.0))
