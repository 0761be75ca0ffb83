"""The intercept of a rare class: where the gate is, what it does to mean and order, and nothing beyond the gate."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from learner_fakes import ring, steward
from learner_node.rare_classes import RARE, is_rare, matching_intercept, mean_probability, rare_intercept
from learner_node.readers.counts import CountsAnswer
from learner_node.source import coordinates
from learner_node.strategies.base import Problem
from learner_node.strategies.cells import CellsModel, CellsStrategy
from learner_node.uncertainty import calibrated
from protocol.record_frames import encode_frame


@pytest.mark.parametrize(
    ("share", "rare"),
    [(0.10, True), (0.90, True), (0.21, False), (0.79, False), (0.5, False), (0.0, True), (1.0, True)],
)
def test_the_gate_is_open_at_a_tenth_and_closed_at_a_fifth_of_either_class(share, rare):
    assert is_rare(share) == rare
    assert not is_rare(RARE)


def of_mean(share, n=400, seed=0):
    """Probabilities whose mean is about that, and masses."""
    rng = np.random.default_rng(seed)
    return norm.cdf(norm.ppf(share) * np.sqrt(1.25) + 0.5 * rng.standard_normal(n)), rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("share", [0.10, 0.90])
def test_a_rare_class_gets_the_processs_mean_over_the_targets_masses(share):
    smooth, mass = of_mean(share)
    timid = norm.cdf(1.3 * norm.ppf(smooth))  # says less of the rare class
    sharpness = 1.2
    b = rare_intercept(timid, sharpness, smooth, mass)
    assert (b > 0) == (share < 0.5)
    moved = calibrated(timid, sharpness, b)
    assert mean_probability(moved, mass) == pytest.approx(np.average(smooth, weights=mass), abs=1e-9)
    assert (np.argsort(moved) == np.argsort(timid)).all()
    mirrored = rare_intercept(1.0 - timid, sharpness, 1.0 - smooth, mass)
    assert mirrored == pytest.approx(-b, abs=1e-9)


@pytest.mark.parametrize("share", [0.21, 0.5, 0.79])
def test_no_class_is_rare_and_not_a_bit_changes(share):
    smooth, mass = of_mean(share)
    other = norm.cdf(1.3 * norm.ppf(smooth))
    b = rare_intercept(other, 1.2, smooth, mass)
    assert b == 0.0
    points = norm.ppf(other)
    assert (calibrated(other, 1.2, b) == calibrated(other, 1.2)).all()
    assert CellsModel(None, Fixed(other), None, 1.2).uncalibrated(points) is other


class Fixed:
    """A label model that says what it was told."""

    def __init__(self, probability):
        self._probability = probability

    def probability(self, _points):
        return self._probability


def test_the_masses_are_the_targets_not_the_sources():
    smooth, probability = np.array([0.02, 0.4]), np.array([0.01, 0.3])
    assert rare_intercept(probability, 1.0, smooth, np.array([1.0, 1.0])) == 0.0  # 0.21 over the source
    b = rare_intercept(probability, 1.0, smooth, np.array([9.0, 1.0]))  # 0.058 over the target
    assert mean_probability(calibrated(probability, 1.0, b), np.array([9.0, 1.0])) == pytest.approx(0.058, abs=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_process_that_is_sure_is_left_alone(value):
    smooth = np.full(5, value)
    assert rare_intercept(smooth, 1.0, smooth, np.ones(5)) == 0.0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2), st.floats(0.01, 100)), min_size=1, max_size=30),
    st.floats(0.25, 8),
)
@settings(max_examples=50)
def test_any_probabilities_have_an_intercept(rows, sharpness):
    probability, smooth, mass = (np.array(column) for column in zip(*rows, strict=True))
    b = rare_intercept(probability, sharpness, smooth, mass)
    assert np.isfinite(b)
    moved = calibrated(probability, sharpness, b)
    assert ((moved >= 0) & (moved <= 1)).all()
    wanted = float(np.clip(mean_probability(smooth, mass), 1e-3, 1 - 1e-3))
    inner = np.clip(probability, 1e-6, 1 - 1e-6)
    b = matching_intercept(inner, sharpness, mass, wanted)
    assert mean_probability(calibrated(inner, sharpness, b), mass) == pytest.approx(wanted, abs=1e-6)


# --- in the strategy


def answered(share, *, networks, seed=0):
    """Strategy `cells` on a ring, told of 40,000 records of which that share has label 1, all in a corner."""
    source = encode_frame(ring(160, seed=seed).drop("sick"), steward().schema)
    strategy = CellsStrategy(cells=16, networks=networks)
    asking = strategy.run(Problem(source, Fraction(1), 1, 40_000, 1, seed))
    body, _ = next(asking)
    (partition,) = body.partitions
    mass = 40_000 * np.bincount(partition.cells(source), minlength=16) / len(source)
    corner = np.array([source.numeric[partition.cells(source) == cell].sum() for cell in range(16)])
    order = np.argsort(-corner)
    before = np.cumsum(mass[order]) - mass[order]
    ones = np.zeros(16)
    ones[order] = np.clip(min(share, 1 - share) * 40_000 - before, 0.01 * mass[order], 0.99 * mass[order])
    counts = np.round(np.column_stack([mass - ones, ones]))
    answer = CountsAnswer(body, counts if share < 0.5 else counts[:, ::-1], (16,), "error_correct", Fraction(1))
    with pytest.raises(StopIteration) as finished:
        asking.send([answer])
    model, estimate = finished.value.value
    return model, estimate, source


@pytest.mark.family(2)
@pytest.mark.parametrize(("share", "rare"), [(0.10, True), (0.90, True), (0.21, False), (0.79, False)])
@pytest.mark.parametrize("networks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_strategys_gate_is_open_at_a_tenth_and_closed_at_a_fifth(share, rare, networks):
    model, estimate, source = answered(share, networks=networks)

    assert bool(model.intercept) == rare
    assert (model.probability(source) == estimate.probability).all()
    points = coordinates(model.features, source)
    own = mean_probability(model.labels.probability(points), estimate.weights)
    if rare:
        assert estimate.prevalence == pytest.approx(own, abs=1e-9)
        assert own < RARE if share < 0.5 else own > 1 - RARE
    else:
        unmoved = calibrated(model.uncalibrated(points), model.sharpness)
        assert (estimate.probability == unmoved).all()
