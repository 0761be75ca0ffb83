"""Learning several classes and numbers: models, strategies, estimators, and how they are scored."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.metrics import r2_score, roc_auc_score

from learner_fakes import NoNoise, federate, mass_body, open_curator
from learner_node.estimator import ExPriLClassifier, ExPriLRegressor
from learner_node.kinds.counts import CountsAnswer
from learner_node.models.distillation import distil
from learner_node.models.label_model.likelihood import MassPrior, site_table
from learner_node.models.label_model.number_model import fit_number_model
from learner_node.models.label_model.one_against_rest import fit_classes_label_model, shares_together
from learner_node.models.source import coordinates, standardising_map
from learner_node.models.synthetic import pooled_estimate
from learner_node.scores.estimates import class_recalls
from learner_node.strategies import make_strategy
from learner_node.strategies.base import NumberEstimate, NumberModel, Problem, SourceEstimate, class_probabilities
from learner_node.strategies.cells_number import error_estimate, sums_of_labels
from limits_told import limits_with
from protocol.errors import ConfigurationError
from protocol.hypotheses import Constant
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import CountsBody
from protocol.noise import DiscreteLaplace
from protocol.record_frames import encode_frame
from protocol.records import LABEL_STEPS
from seeded import nothing_unseeded
from simulations.local import SimulatedExPriLClassifier
from simulations.references import Answers
from simulations.scoring import further_score, score

ROUNDING = 2.0**-40
"""Of sums of some hundred terms of the size of 100, each rounded to 2^-53 of itself, with room for exp and log."""

CLASSES = ("left", "middle", "right")
BOUNDS = (-10.0, 30.0)


def thirds(n, seed=0):
    """Three classes by x."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-2, 2, (n, 2))
    names = np.array(CLASSES)[np.digitize(points[:, 0], [-0.7, 0.7])]
    return pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "sick": names})


def slope(n, seed=0):
    """A number between 0 and 20 that a plane explains but for a bend."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-2, 2, (n, 2))
    value = 10 + 4 * np.sin(points[:, 0]) + 2 * points[:, 1] + rng.normal(0, 0.3, n)
    return pl.DataFrame({"x": points[:, 0], "y": points[:, 1], "sick": value})


# the likelihood of columns with different numbers of noises


def test_a_pair_of_equal_numbers_of_noises_is_the_one_number():
    counts, prior = np.array([[3.0, 9.0], [-2.0, 40.0]]), MassPrior(np.array([10.0, 30.0]), np.array([2.0, 3.0]))
    one, two = (site_table(counts, prior, scale=2.0, noises=noises) for noises in (3, (3, 3)))
    np.testing.assert_allclose(one.log_likelihood, two.log_likelihood, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(one.mass, two.mass, rtol=ROUNDING)


def test_swapping_columns_and_their_noises_mirrors_the_signal():
    counts, prior = np.array([[3.0, 9.0], [-2.0, 40.0]]), MassPrior(np.array([10.0, 30.0]), np.array([2.0, 3.0]))
    table = site_table(counts, prior, scale=2.0, noises=(4, 1))
    mirrored = site_table(counts[:, ::-1], prior, scale=2.0, noises=(1, 4))
    np.testing.assert_allclose(table.log_likelihood, mirrored.log_likelihood[:, ::-1], rtol=0, atol=1e3 * ROUNDING)
    same = site_table(counts, prior, scale=2.0, noises=(1, 4))
    assert np.abs(table.log_likelihood - same.log_likelihood).max() > 0.1


# label models


def grid_cells(points):
    """Twenty-five squares."""
    edges = [-1.2, -0.4, 0.4, 1.2]
    return np.digitize(points[:, 0], edges) * 5 + np.digitize(points[:, 1], edges)


apart = st.lists(st.floats(0.002, 0.998), min_size=2, max_size=7)


@given(apart)
def test_full_exclusion_is_that_one_model_is_right_and_all_others_are_wrong(said):
    p = np.array(said)
    alone = np.array([p[c] * np.prod(1 - np.delete(p, c)) for c in range(len(p))])
    assert shares_together(p[None], 1.0)[0] == pytest.approx(alone / alone.sum())
    assert shares_together(p[None], 0.0)[0] == pytest.approx(p / p.sum())


@pytest.mark.slow
def test_ten_classes_in_cells_of_their_own_exclude_each_other():
    """What the models say apart adds up to more than 1, and the answers of held-out cells say so."""
    rng = np.random.default_rng(4)
    centres = np.repeat(rng.permutation(10), 4)[:, None] * 3.0 + rng.standard_normal((40, 1)) * 0.3
    points = np.repeat(centres, 5, axis=0) + 0.05 * rng.standard_normal((200, 1))
    cells, own = np.repeat(np.arange(40), 5), np.round(centres[:, 0] / 3.0).astype(int).clip(0, 9)
    counts = 25.0 * np.eye(10)[own] + DiscreteLaplace(Fraction(3)).simulate(rng, (40, 10))
    model, _ = fit_classes_label_model(points, cells, counts, scale=3.0, noises=1, seed=0)
    truth = own[cells]
    said = [
        shares_together(np.column_stack([one.probability(points) for one in model.models]), t)
        for t in (0.0, model.exclusion)
    ]
    scaled, found = (np.log(shares[np.arange(200), truth]).mean() for shares in said)
    assert model.exclusion > 0.5
    assert found > scaled


def test_exact_class_counts_are_learnt():
    """Nearer to the truth than to guessing, which is right in a third."""
    frame, test = thirds(2000, 1), thirds(500, 2)
    points = frame.select("x", "y").to_numpy()
    cells = grid_cells(points)
    truth = np.array([CLASSES.index(name) for name in frame["sick"]])
    counts = np.zeros((25, 3))
    np.add.at(counts, (cells, truth), 1)
    model, _ = fit_classes_label_model(points, cells, counts, scale=0.0, noises=1, seed=0)
    probabilities = model.probabilities(test.select("x", "y").to_numpy())
    assert np.allclose(probabilities.sum(axis=1), 1, rtol=0, atol=ROUNDING)
    assert (probabilities > 0).all()
    found = np.array(CLASSES)[probabilities.argmax(axis=1)]
    assert np.mean(found == test["sick"].to_numpy()) > 2 / 3
    # A deviation of a Poisson count of them: both the counts and the prior that they are shrunk to add up to 2,000.
    assert model.source_mass.sum() == pytest.approx(2000, abs=2000**0.5)


@pytest.mark.parametrize("counts", [np.zeros((4, 1)), np.zeros(4), np.full((4, 3), np.nan)])
def test_unfit_class_counts_are_refused(counts):
    with pytest.raises(ValueError, match=r"shape|finite"):
        fit_classes_label_model(np.eye(4), np.arange(4), counts, scale=1.0, noises=1, seed=0)


def sums_of(frame, bounds=(0.0, 20.0)):
    points = frame.select("x", "y").to_numpy()
    cells = grid_cells(points)
    share = np.clip((frame["sick"].to_numpy() - bounds[0]) / (bounds[1] - bounds[0]), 0, 1)
    sums = np.zeros((25, 2))
    np.add.at(sums, (cells, 0), share)
    np.add.at(sums, (cells, 1), 1 - share)
    return points, cells, sums


def best_plane(points, values):
    """The plane through them that is nearest to the values, at the points."""
    design = np.column_stack([points, np.ones(len(points))])
    return design @ np.linalg.lstsq(design, values, rcond=None)[0]


def test_exact_sums_give_the_function_and_the_masses():
    """The bend, too: no plane is as near to the test records, even the one that was fitted to them."""
    frame, test = slope(2000, 1), slope(500, 2)
    points, cells, sums = sums_of(frame)
    with nothing_unseeded():
        model = fit_number_model(points, cells, sums, scale=0.0, noises=1, seed=0)
    places, values = test.select("x", "y").to_numpy(), test["sick"].to_numpy()
    assert r2_score(values, 20 * model.predict(places)) > r2_score(values, best_plane(places, values))
    assert model.source_mass.sum() == pytest.approx(2000, abs=2000**0.5)


def test_noise_alone_gives_nearly_a_constant():
    """With noise a thousand times the counts nothing can be known: the prior mean of all cells is left.

    What is told differs less between cells than half of what the truth does.
    """
    frame = slope(300, 1)
    points, cells, sums = sums_of(frame)
    noisy = sums + np.random.default_rng(0).laplace(0, 1000, sums.shape)
    model = fit_number_model(points, cells, noisy, scale=1000.0, noises=1, seed=0)
    means = sums[:, 0] / sums.sum(axis=1)
    assert np.ptp(model.predict(points)) < 0.5 * np.ptp(means)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sums": np.zeros((4, 3))}, "shape"),
        ({"sums": np.full((4, 2), np.inf)}, "finite"),
        ({"scale": -1.0}, "scale"),
        ({"noises": 0}, "noises"),
        ({"cells": np.array([0, 1, 2, 4])}, "lie in"),
        ({"cells": np.array([0.0, 1, 2, 3])}, "integers"),
    ],
)
def test_unfit_sums_are_refused(change, match):
    fields = {"features": np.eye(4), "cells": np.arange(4), "sums": np.ones((4, 2)), "scale": 1.0, "noises": 1}
    with pytest.raises(ValueError, match=match):
        fit_number_model(**(fields | change), seed=0)


def test_a_distilled_network_is_near_its_function_and_lawful():
    """At least twice as near as the best plane."""
    frame = slope(500, 3)
    schema = open_curator("basel", slope(50), classes=(), label_bounds=BOUNDS)._dataset.schema
    records = encode_frame(frame, schema)
    features = standardising_map(records)
    points = coordinates(features, records)

    def function(rows):
        return 0.5 + 0.2 * np.sin(rows[:, 0]) + 0.05 * rows[:, 1]

    network = distil(function, features, points, most_parameters=10**6, seed=0)
    network.check(schema, "hypothesis")
    wanted = function(points)
    plane = np.abs(best_plane(points, wanted) - wanted).max()
    assert np.abs(network.predict_number(records) / 4096 - wanted).max() < 0.5 * plane
    small = distil(function, features, points, most_parameters=1500, seed=0)
    assert small.parameter_count() <= 1500


# the two questions of regression


def answer_of(values, release, scale=1):
    return CountsAnswer(
        mass_body(), np.array(values, float), (len(values),), release, Fraction(scale), sites=1, steps=10
    )


def test_squared_errors_of_both_bounds_give_the_sum_of_labels():
    labels = np.array([0.0, 0.2, 1.0, 0.7])
    lower, upper = (labels**2).sum(), ((1 - labels) ** 2).sum()
    answers = [answer_of([[10 * e, 10 * (4 - e)]], "squared_error") for e in (lower, upper)]
    sums, scale = sums_of_labels(answers)
    assert sums[0] == pytest.approx([labels.sum(), 4 - labels.sum()])
    assert scale == pytest.approx(np.sqrt(3) / 2 / 10)


def told_of(rng, records=1500, scale=12.0, sites=2):
    """What answers tell of a model whose errors are uniform within .15 about predictions uniform within .25 of 1/2.

    The curators' sums are made here, of real numbers: errors count as far as .2, distances from the mean as far as .4.
    """
    steps = 1000
    predicted, errors = 0.5 + rng.uniform(-0.25, 0.25, records), rng.uniform(-0.15, 0.15, records)
    share = np.minimum(np.abs(errors), 0.2) / 0.2
    about = np.minimum((predicted + errors - 0.5) ** 2, 0.16) / 0.16
    sums = [[np.sum(share**2), np.sum(share - share**2), np.sum(1 - share)], [np.sum(about), np.sum(1 - about)]]
    answers = []
    for own, release, most in zip(sums, ("error_sums", "squared_error"), (0.2**2, 0.4**2), strict=True):
        noisy = np.array(own) + rng.laplace(0, scale, (sites, len(own))).sum(axis=0)
        reach = round(np.sqrt(most) * LABEL_STEPS)
        body = CountsBody(mass_body().partitions, Constant(0), reach**2)
        law = {"sites": sites, "noises": sites, "steps": steps}
        answers.append(CountsAnswer(body, noisy[None] * steps, (1,), release, Fraction(round(scale * steps)), **law))
    return error_estimate(*answers, (0.0, 10.0))


def test_intervals_of_errors_and_of_r2_cover_the_truth_nineteen_times_in_twenty():
    """2,000 draws; an interval that covers 95 % fails with a chance of 1e-9.

    One that covers 88 % is found with a probability above 0.999. The truth is that of the population, in closed form.
    """
    rng = np.random.default_rng(0)
    squared, absolute, about = 0.15**2 / 3, 0.15 / 2, 0.15**2 / 3 + 0.25**2 / 3
    inside, least = np.zeros(3), binom.ppf(1e-9, 2000, 0.95)
    for _ in range(2000):
        found = told_of(rng)
        assert found.low <= found.value <= found.high
        assert found.r2_low <= found.r2 <= found.r2_high
        ends = ((found.low, found.high), (found.absolute_low, found.absolute_high), (found.r2_low, found.r2_high))
        truths = (100 * squared, 10 * absolute, 1 - squared / about)
        inside += [low <= truth <= high for truth, (low, high) in zip(truths, ends, strict=True)]
    assert (inside >= least).all()


def test_where_nothing_but_noise_is_told_r2_may_be_anything():
    found = told_of(np.random.default_rng(1), records=30, scale=500.0)
    assert found.r2_low == -1
    assert found.r2_high == 1


def test_the_share_for_the_error_is_as_small_as_the_number_of_records_allows():
    """From 200 records, where no share tells R^2, to a hundred million, where the least one does."""
    schema = open_curator("basel", slope(50), classes=(), label_bounds=BOUNDS)._dataset.schema
    source = encode_frame(slope(50), schema)

    def share_of(size, sites=3, **options):
        problem = Problem(source, Fraction(1), sites, size, 1, 0)
        queries = QUERY_KINDS.queries(make_strategy("cells", options).plan(problem))
        costs = {query.release: QUERY_KINDS.cost(query, 1) for query in queries}
        assert sum(costs.values()) == 1
        return 1 - costs["label_total"]

    sizes = (200, 1000, 10_000, 100_000, 100_000_000)
    shares = [share_of(size) for size in sizes]
    assert shares[0] == 0
    assert shares[1] == Fraction(1, 5)
    assert sorted(shares[1:], reverse=True) == shares[1:]
    assert shares[-1] == Fraction(1, 200)
    assert share_of(1000, error_share="1/10") == share_of(1000, sites=1) == Fraction(1, 10)


def test_a_curator_that_allows_no_absolute_errors_is_asked_for_squared_ones():
    limits = limits_with(release_kinds=["label_total", "squared_error"])
    asked = {"basel": open_curator("basel", slope(400), classes=(), label_bounds=BOUNDS, limits=limits)}
    model = ExPriLRegressor(federate(asked), random_state=0).fit(slope(100, 5).drop("sick"))
    error = model.errors_[""]
    assert error.absolute is None
    assert error.r2_low <= error.r2 <= error.r2_high


# recalls of several classes


def recalled(rng, records, scale, source=400):
    """Class counts of squares, a model of them, and its recalls as told and as they are in the population."""
    frame, held = thirds(records, int(rng.integers(2**31))), thirds(source, int(rng.integers(2**31)))
    counts = np.zeros((25, 3))
    truth = np.array([CLASSES.index(name) for name in frame["sick"]])
    # A fifth has any of the classes.
    truth = np.where(rng.random(records) < 0.2, rng.integers(0, 3, records), truth)
    np.add.at(counts, (grid_cells(frame.select("x", "y").to_numpy()), truth), 1)
    counts += DiscreteLaplace(Fraction(scale)).simulate(rng, counts.shape)
    points = held.select("x", "y").to_numpy()
    cells = grid_cells(points)
    model, posteriors = fit_classes_label_model(points, cells, counts, scale=scale, noises=1, seed=0)
    told = class_recalls(posteriors, model.exclusion, model.probabilities(points), seed=0)
    many = thirds(20_000, 77)
    said = model.probabilities(many.select("x", "y").to_numpy()).argmax(axis=1)
    own = np.array([CLASSES.index(name) for name in many["sick"]])
    of_class = np.array([[np.mean((said == name) & (own == other)) for name in range(3)] for other in range(3)])
    share = of_class.sum(axis=1)
    exact = [(0.8 * of_class[n, n] + 0.2 * np.mean(said == n) / 3) / (0.8 * share[n] + 0.2 / 3) for n in range(3)]
    return told, exact


@pytest.mark.slow
def test_recalls_of_many_records_are_told_nearly_exactly():
    """Within a tenth; how wide hangs on the cells that a border cuts, which are two of five columns."""
    told, exact = recalled(np.random.default_rng(3), 20_000, 1)
    for own, truth in zip(told, exact, strict=True):
        assert own.value == pytest.approx(truth, abs=0.1)
        assert truth in own
        assert own.high - own.low < 0.4


@pytest.mark.slow
def test_intervals_of_recalls_cover_the_truth_nineteen_times_in_twenty():
    """60 simulated curators; for each class, 95 % fail with a chance of 1e-9, and 55 % is found with one of 0.99."""
    rng = np.random.default_rng(4)
    inside = np.zeros(3)
    for _ in range(60):
        told, exact = recalled(rng, 900, 3)
        inside += [truth in own for own, truth in zip(told, exact, strict=True)]
    assert (inside >= binom.ppf(1e-9, 60, 0.95)).all()


# whole studies


@pytest.mark.parametrize("question", ["label_total", "squared_error"])
def test_a_number_is_learnt_and_its_error_is_that_of_the_private_records(question):
    """Without noise the curators' answer about the model is the truth to within rounding.

    A prediction is nearer to the truth than half of how the labels spread.
    """
    asked = {
        name: open_curator(name, slope(600, seed=seed), noise=NoNoise(), classes=(), label_bounds=BOUNDS)
        for seed, name in enumerate(("basel", "bern"))
    }
    source, test = slope(300, 8), slope(400, 9)
    model = ExPriLRegressor(federate(asked), epsilon=1, options={"question": question}, random_state=0).fit(
        source.drop("sick")
    )
    predicted = model.predict(test.drop("sick"))
    assert model.score(test.drop("sick"), test["sick"].to_numpy()) == pytest.approx(r2_score(test["sick"], predicted))
    assert r2_score(test["sick"], predicted) > 1 - 0.5**2
    assert model.epsilon_claimed_ == 1
    assert set(model.epsilon_spent_.values()) == {Fraction(1)}
    private = pl.concat([slope(600, seed=seed) for seed in (0, 1)])
    off = model.predict(private.drop("sick")) - private["sick"].to_numpy()
    error = model.errors_[""]
    # Label and prediction are each rounded to a step of their range, and their squared difference to one of the plan's.
    step = (BOUNDS[1] - BOUNDS[0]) / LABEL_STEPS
    steps = QUERY_KINDS.queries(model.study_.plan)[-1].steps
    slack = 2 * np.abs(off).mean() * step + step**2 + error.most / (2 * steps)
    # The largest absolute error is a whole number of steps, so the largest squared one that counts is a bit less.
    slack += 2 * np.sqrt(error.most) * step
    assert error.value == pytest.approx(np.minimum(off**2, error.most).mean(), abs=slack)
    assert error.low < error.value < error.high
    absolute = np.minimum(np.abs(off), np.sqrt(error.most)).mean()
    assert error.absolute == pytest.approx(absolute, abs=3 * step + np.sqrt(error.most) / (2 * steps))
    assert error.r2_low < r2_score(private["sick"], model.predict(private.drop("sick"))) < error.r2_high
    synthetic = model.synthetic_data()
    assert synthetic.columns == ["x", "y", "weight", "sick"]
    assert synthetic["sick"].is_between(*BOUNDS).all()


def test_the_error_need_not_be_asked():
    asked = {"basel": open_curator("basel", slope(300), classes=(), label_bounds=BOUNDS)}
    model = ExPriLRegressor(federate(asked), options={"error_share": 0}, random_state=0).fit(slope(100, 5))
    assert model.errors_ == {}
    assert len(model.study_.rounds) == 1
    assert isinstance(model.models_[""], NumberModel)
    with pytest.raises(TypeError, match="number"):
        class_probabilities(model.models_[""], model._records(slope(5)))


@pytest.mark.parametrize("pooling", ["sum", pytest.param("site", marks=pytest.mark.slow)])
def test_three_classes_are_learnt(pooling):
    asked = {name: open_curator(name, thirds(600, seed=i), classes=CLASSES) for i, name in enumerate(("basel", "bern"))}
    model = ExPriLClassifier(federate(asked), epsilon=1, pooling=pooling, random_state=0).fit(thirds(400, 8))
    test = thirds(500, 9)
    probabilities = model.predict_proba(test)
    assert probabilities.shape == (500, 3)
    assert np.allclose(probabilities.sum(axis=1), 1, rtol=0, atol=ROUNDING)
    assert model.score(test, test["sick"].to_numpy()) > 2 / 3  # nearer to all than to a third, which guessing has
    assert model.classes_.tolist() == list(CLASSES)
    assert set(model.epsilon_spent_.values()) == {Fraction(1)}
    synthetic = model.synthetic_data()
    assert set(synthetic["sick"]) <= set(CLASSES)
    assert synthetic["sick_probability"].min() >= 1 / 3


def test_three_classes_are_simulated_on_records_of_ones_own():
    frame = thirds(600)
    y = frame["sick"].to_numpy()
    model = SimulatedExPriLClassifier(bounds=(-2, 2), random_state=0).fit(frame.select("x", "y").to_numpy(), y)
    assert model.score(frame.select("x", "y").to_numpy(), y) > 2 / 3
    with pytest.raises(ValueError, match="Only binary"):
        SimulatedExPriLClassifier(strategy="paper-c").fit(frame.select("x", "y").to_numpy(), y)


@pytest.mark.parametrize(
    ("estimator", "label", "match"),
    [
        (ExPriLClassifier, {"classes": (), "label_bounds": BOUNDS}, "is a number: use ExPriLRegressor"),
        (ExPriLRegressor, {}, "has classes: use ExPriLClassifier"),
    ],
)
def test_the_wrong_estimator_is_told_before_anything_is_asked(estimator, label, match):
    frame = slope(50) if label else None
    asked = {"basel": open_curator("basel", frame, **label)}
    with pytest.raises(ConfigurationError, match=match):
        estimator(federate(asked)).fit(slope(20).drop("sick"))
    assert asked["basel"]._ledger.account.total_spent == 0
    assert asked["basel"]._ledger.account.studies == {}


@pytest.mark.parametrize(
    ("strategy", "options", "match"),
    [
        (
            "paper-c",
            {},
            r"would refuse this study: .*release: signed_error needs a label of two classes; this one is 3 classes\)",
        ),
        ("cells", {"error_share": "1/5"}, "takes no option 'error_share' where the label is more than two classes"),
    ],
)
def test_a_strategy_or_option_for_another_label_is_told_before_anything_is_asked(strategy, options, match):
    asked = {"basel": open_curator("basel", thirds(60), classes=CLASSES)}
    with pytest.raises(ConfigurationError, match=match):
        ExPriLClassifier(federate(asked), strategy=strategy, options=options).fit(thirds(60))
    assert asked["basel"]._ledger.account.studies == {}


@pytest.mark.parametrize(
    "options", [{"error_share": 1}, {"error_share": "x"}, {"error_share": -1}, {"question": "mass"}, {"cels": 3}]
)
def test_an_unlawful_option_is_an_error_at_once(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        make_strategy("cells", options)


def test_estimates_of_several_sites_mix_by_weight():
    one, two = np.array([1.0, 3.0]), np.array([3.0, 0.0])
    pooled = pooled_estimate([NumberEstimate(one, np.array([4.0, 8.0])), NumberEstimate(two, np.array([0.0, 99.0]))])
    assert pooled.weights.tolist() == [4.0, 3.0]
    assert pooled.value.tolist() == [1.0, 8.0]
    old = pooled_estimate([SourceEstimate(one, np.array([1.0, 0.5])), SourceEstimate(two, np.array([0.0, 0.0]))])
    assert old.probability.tolist() == [0.25, 0.5]


# scores


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200).astype(np.uint8)
    rows = rng.dirichlet(np.ones(3), 200)
    likeliest = rows.argmax(1)
    parts = {name: Answers(truth[s], likeliest[s], rows[s]) for name, s in (("a", slice(50)), ("b", slice(50, None)))}
    assert score(parts) == np.mean(likeliest == truth)
    assert further_score(parts) == pytest.approx(roc_auc_score(truth, rows, multi_class="ovr", average="macro"))
    numbers = rng.normal(size=200)
    guess = numbers + rng.normal(size=200)
    assert score({"a": Answers(numbers, guess)}) == pytest.approx(r2_score(numbers, guess))
    assert further_score({"a": Answers(numbers, guess)}) == pytest.approx(np.sqrt(np.mean((guess - numbers) ** 2)))
    assert score({}) is further_score({}) is None
    assert further_score({"a": Answers(truth[truth > 0], truth[truth > 0], rows[truth > 0])}) is None
