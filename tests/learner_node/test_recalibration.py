"""Recalibration by noisy class counts: against other computations, in files, and by how often its intervals hold."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit, gammaln, logit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from learner_fakes import federate, open_curator, ring
from learner_node.estimator import ExPriLClassifier
from learner_node.models.files import StudyModel, encode_model, load_model
from learner_node.scores.performance import Interval
from learner_node.scores.recalibration import Recalibration, _Likelihood, recalibrate
from protocol.errors import ConfigurationError
from protocol.noise import DiscreteLaplace

ROUNDING = 2.0**-40
"""Of some sums of numbers up to 1, with room for exp and log."""
LEVELS = np.linspace(-2.5, 2.5, 12)
"""Logits of the invented model; each is a bin."""


def answers(rng, intercept, slope, records, scale, sites=1):
    """Noisy counts of twelve bins whose risks the map mends."""
    per_bin = rng.poisson(records / len(LEVELS), len(LEVELS))
    ones = rng.binomial(per_bin, expit(intercept + slope * LEVELS))
    counts = np.column_stack([per_bin - ones, ones])
    if scale:
        counts = counts + DiscreteLaplace(Fraction(scale)).simulate(rng, (sites, *counts.shape)).sum(axis=0)
    return counts.astype(float)


def fitted(counts, scale, noises=1, **options):
    places = np.repeat(np.arange(len(LEVELS)), 10)
    return recalibrate(counts, expit(LEVELS[places]), places, scale=scale, noises=noises, **options)


def test_many_exact_counts_give_logistic_regression():
    """By scikit-learn's maximum of the likelihood; the priors move it by less than a fifth of its own interval."""
    counts = answers(np.random.default_rng(0), 0.5, 1.4, 40_000, 0)
    column, weights = np.tile(LEVELS, 2)[:, None], np.concatenate([counts[:, 0], counts[:, 1]])
    labels = np.repeat([0, 1], len(LEVELS))
    best = LogisticRegression(C=np.inf, tol=1e-10).fit(column, labels, sample_weight=weights)
    found = fitted(counts, 0.0)
    for told, exact in ((found.intercept, best.intercept_[0]), (found.slope, best.coef_[0, 0])):
        assert abs(told.value - exact) < 0.2 * (told.high - told.low)
    assert found.on


def slow_log_likelihood(counts, shift, log_slope, scale, sizes, weights):
    """By adding up all true counts that matter, for one noise a count."""
    true = np.arange(400)
    q = np.exp(-1.0 / scale)
    total = 0.0
    for bin_, own in enumerate(counts):
        risk = expit(shift + np.exp(log_slope) * LEVELS[bin_])
        probability = np.zeros(len(sizes[bin_]))
        for place, size in enumerate(sizes[bin_]):
            both = 1.0
            for answer, mean in zip(own, (size * (1 - risk), size * risk), strict=True):
                poisson = np.exp(true * np.log(mean) - mean - gammaln(true + 1))
                both *= np.sum(poisson * (1 - q) / (1 + q) * q ** np.abs(answer - true))
            probability[place] = np.exp(weights[bin_][place]) * both
        total += np.log(probability.sum())
    return total


def test_the_likelihood_is_that_of_a_slow_sum():
    """To a hundredth where the answers are likely: a hundredth of what moves an end of an interval by a hundredth."""
    counts = answers(np.random.default_rng(1), 0.2, 0.8, 900, 4)
    places = np.repeat(np.arange(len(LEVELS)), 10)
    likelihood = _Likelihood.of(counts, expit(LEVELS[places]), places, 4.0, 1, 1.0)
    assert likelihood.centre == pytest.approx(0.0, abs=1e-9)
    at = np.array([[0.2, np.log(0.8)], [0.0, 0.0], [-0.1, 0.2]])
    slow = [slow_log_likelihood(counts, *pair, 4.0, likelihood.sizes, likelihood.size_weights) for pair in at]
    np.testing.assert_allclose(likelihood.log_likelihood(at), slow, rtol=0, atol=0.03)


def test_the_order_of_risks_is_kept_and_so_are_the_ends():
    found = Recalibration(Interval(-0.7, -1.0, -0.5), Interval(0.4, 0.2, 0.6), 50.0)
    risks = np.array([0.0, 1e-6, 0.2, 0.5, 0.9, 1.0])
    assert (np.diff(found.probability(risks)) > 0).all()
    assert found.probability(risks)[[0, -1]].tolist() == [0.0, 1.0]
    assert found.probability(np.array([0.2]))[0] == pytest.approx(expit(-0.7 + 0.4 * logit(0.2)))


def test_where_it_is_off_risks_stay_to_the_last_bit():
    found = Recalibration(Interval(-0.7, -1.0, -0.5), Interval(0.4, 0.2, 0.6), 0.9)
    risks = np.array([0.0, 1e-6, 0.2, 0.5])
    assert not found.on
    assert found.probability(risks).tolist() == risks.tolist()


@pytest.mark.slow
def test_right_risks_are_left_alone_and_wrong_ones_are_mended():
    """A right model's factor is above 1 in one of five at most (docs/validation.md); false alarm 1e-9."""
    rng = np.random.default_rng(2)
    right = [fitted(answers(rng, 0.0, 1.0, 3000, 4, 3), 4.0, 3).on for _ in range(20)]
    wrong = [fitted(answers(rng, -1.0, 1.0, 3000, 4, 3), 4.0, 3).on for _ in range(20)]
    assert sum(right) <= binom.isf(1e-9, 20, 0.2)
    assert all(wrong)


@pytest.mark.slow
def test_units_of_many_records_say_less():
    counts = answers(np.random.default_rng(3), 0.0, 1.0, 5000, 4)
    alone, clustered = (fitted(counts, 4.0, design=design) for design in (1.0, 9.0))
    widths = [found.slope.high - found.slope.low for found in (alone, clustered)]
    assert widths[1] > 2 * widths[0]


@pytest.mark.slow
def test_intervals_cover_the_truth_nineteen_times_in_twenty():
    """160 answers, of right and wrong risks; 95 % fail with a chance of 1e-9, 70 % is found with one of 0.99."""
    rng = np.random.default_rng(4)
    inside = np.zeros(2)
    for intercept, slope, records in itertools.product((0.0, -0.6), (0.7, 1.0), (300, 5000)):
        for _ in range(20):
            found = fitted(answers(rng, intercept, slope, records, 4, 3), 4.0, 3)
            inside += [intercept in found.intercept, slope in found.slope]
    assert (inside >= binom.ppf(1e-9, 160, 0.95)).all()


# a study's model


@pytest.fixture(scope="module")
def model():
    curators = {name: open_curator(name, ring(400, seed=seed)) for seed, name in enumerate(("basel", "bern"))}
    options = {"networks": False}
    return ExPriLClassifier(federate(curators), options=options, random_state=0).fit(ring(120, seed=9).drop("sick"))


@pytest.mark.slow
def test_a_validation_recalibrates_at_no_further_cost(model):
    test = ring(50, seed=5).drop("sick")
    raw = model.predict_proba(test)
    assert not hasattr(model, "recalibrated_")
    found = model.validate("1/4", recalibrate=True)
    assert set(found.epsilon_spent.values()) == {Fraction(1, 4)}
    assert model.predict_proba(test).tolist() == raw.tolist()
    mended = model.recalibrated_.predict_proba(test)
    assert mended[:, 1].tolist() == found.recalibration.probability(raw[:, 1]).tolist()
    assert np.argsort(mended[:, 1], kind="stable").tolist() == np.argsort(raw[:, 1], kind="stable").tolist()
    assert np.allclose(mended.sum(axis=1), 1.0)
    assert "Recalibrated, fitted to these answers (no validation)" in found.to_text()


def test_a_recalibrated_model_is_kept_in_its_file(model, tmp_path):
    test = ring(50, seed=5).drop("sick")
    kept = StudyModel.of(
        model.learned_, recalibration=Recalibration(Interval(0.3, 0.0, 1.0), Interval(1.5, 1.0, 2.0), 9.0)
    )
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_model(kept))
    found = load_model(path)
    assert found.recalibration == kept.recalibration
    # One adds the two classes up to 1 once more than the other.
    np.testing.assert_allclose(found.predict_proba(test), model.predict_proba(test), rtol=0, atol=ROUNDING)
    expected = kept.recalibration.probability(model.predict_proba(test)[:, 1])
    np.testing.assert_allclose(found.recalibrated_.predict_proba(test)[:, 1], expected, rtol=0, atol=ROUNDING)
    assert encode_model(found) == path.read_bytes()


def test_a_file_without_one_says_how_to_ask_for_it(model, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_model(StudyModel.of(model.learned_)))
    with pytest.raises(ConfigurationError, match="recalibrate = true"):
        load_model(path).recalibrated_  # noqa: B018


@pytest.mark.parametrize("slope", [-1.0, 0.0, float("nan")])
def test_a_file_with_a_map_that_turns_the_order_is_damaged(model, tmp_path, slope):
    path = tmp_path / "model.safetensors"
    wrong = Recalibration(Interval(0.3, 0.0, 1.0), Interval(slope, slope, slope), 9.0)
    path.write_bytes(encode_model(StudyModel.of(model.learned_, recalibration=wrong)))
    with pytest.raises(ConfigurationError, match="damaged"):
        load_model(path)
