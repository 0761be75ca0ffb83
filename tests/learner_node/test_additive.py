"""The additive label model: against logistic regression, finite differences, and simulated truths."""

import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit, log_expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from curator_node.policy import LearnerPolicy, Policy
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from learner_fakes import NoNoise, key
from learner_node.estimator import ExPriLClassifier
from learner_node.models.label_model.additive import (
    LEAST_SHARE,
    BinCounts,
    _described,
    fit_additive,
    ordered_kernel,
    source_masses,
    tied_bins,
)
from learner_node.result.folder import _parts
from learner_node.scores.values import NORMAL
from learner_node.strategies import make_strategy
from learner_node.strategies.base import Problem
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from limits_told import limits_with
from margins import DEVIATIONS
from protocol.errors import ConfigurationError
from protocol.kinds import QUERY_KINDS
from protocol.limits import Limits
from protocol.partitions import FeatureBins
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from simulations.carriers.direct import direct_federation

ADMISSIONS = np.array([-0.9, 0.2, 0.9, 1.6])
SCHEMA = Schema(
    (
        NumericAttribute("admissions", 0, 20),
        NumericAttribute("age", 0, 120),
        CategoricalAttribute("ward", ("medicine", "surgery")),
        NumericAttribute("shoe size", 20, 60),
        NumericAttribute("constant", 0, 2),
    ),
    "back",
    ("no", "yes"),
)


def patients(n, seed):
    """Who comes back hangs on earlier admissions (log-odds `ADMISSIONS`), a little on the ward, on nothing else."""
    rng = np.random.default_rng(seed)
    admissions = np.minimum(rng.geometric(0.5, n) - 1, 3)
    surgery = rng.random(n) < 0.4
    odds = ADMISSIONS[admissions] - 0.8 * surgery
    return pl.DataFrame(
        {
            "admissions": admissions,
            "age": np.round(rng.normal(65, 15, n).clip(0, 120)),
            "ward": np.where(surgery, "surgery", "medicine"),
            "shoe size": rng.normal(41, 3, n),
            "constant": np.ones(n),
            "back": np.where(rng.random(n) < expit(odds), "yes", "no"),
        }
    )


def curators(*, sites=2, each=2500, limits=None, noise=None):
    """Curators of patients, who answer by direct calls."""
    held = {}
    for number in range(sites):
        name = f"site {number}"
        policy = Policy(
            name=name,
            cap="100",
            learners=(LearnerPolicy(name="ann", key=key("ann").public.hex(), cap="100"),),
            limits=limits or Limits(),
        )
        file = SchemaFile(label="back", classes=SCHEMA.classes, attributes=SCHEMA.attributes, round_size=each)
        held[name] = temporary_site(patients(each, number), file, policy, noise=noise)
    return direct_federation(held, key("ann"))


def study(options=None, *, epsilon=Fraction(1), **told):
    return learn(
        curators(**told), patients(1500, 99).drop("back"), Budget(epsilon), strategy="additive", options=options or {}
    )


def shapes(learned):
    return {shape.attribute: shape for shape in learned.model().shape_functions}


@pytest.fixture(scope="module")
def learned():
    return study()


def test_a_result_has_what_each_attribute_adds_as_the_model_has_it(learned):
    parts = _parts(learned)

    assert [part["attribute"] for part in parts] == [shape.attribute for shape in learned.model().shape_functions]
    age = next(part for part in parts if part["attribute"] == "age")
    assert [bin_["log_odds"] for bin_ in age["bins"]] == [bin_.log_odds for bin_ in shapes(learned)["age"].bins]
    assert age["bounds"] == [SCHEMA.find("age").lower, SCHEMA.find("age").upper]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["admissions", "age", "ward", "shoe size"]),
        ({"attributes": ["ward", "admissions"]}, ["ward", "admissions"]),
    ],
    ids=["those that vary", "named"],
)
def test_one_question_over_the_attributes_and_less_noise_over_fewer(learned, options, names):
    answered = study(options) if options else learned
    (done,) = answered.study.rounds
    assert [partition.attribute for partition in done.bodies["site 0"].partitions] == names
    (planned,) = QUERY_KINDS.queries(answered.study.plan)
    assert planned.scale.fraction == len(names)
    assert answered.study.spent("site 0") == 1
    assert set(shapes(answered)) == set(names)


def test_its_shapes_are_the_truths_and_in_the_order_of_strength(learned):
    found = shapes(learned)
    assert list(found)[:2] == ["admissions", "ward"]
    admissions = found["admissions"]
    assert admissions.numeric
    assert [one.label for one in admissions.bins][:3] == ["0", "1", "2"]
    assert [(one.low, one.high) for one in admissions.bins] == [(None, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, None)]
    share = np.array([one.share for one in admissions.bins])
    assert share == pytest.approx([0.5, 0.25, 0.125, 0.125], abs=DEVIATIONS * np.sqrt(0.25 / 5000))
    truth = ADMISSIONS - share @ ADMISSIONS
    for one, wanted in zip(admissions.bins, truth, strict=True):
        deviation = (one.upper - one.lower) / (2 * NORMAL)
        # 5,000 records tell no log-odds better than this; with noise, six times what the 625 of the rarest bin tell.
        assert 2 / np.sqrt(5000) < deviation < 6 * 2 / np.sqrt(625)
        assert abs(one.log_odds - wanted) < DEVIATIONS * deviation
    assert [one.label for one in found["ward"].bins] == ["medicine", "surgery"]
    assert found["shoe size"].strength < found["ward"].strength
    for one in found["shoe size"].bins:
        assert abs(one.log_odds) < DEVIATIONS * (one.upper - one.lower) / (2 * NORMAL)


def test_bins_of_dates_are_told_as_days_and_as_dates():
    schema = Schema((NumericAttribute("born", -9999, 9999, days_since="2015-01-01"),), "y", ("no", "yes"))

    def labels(dates, *edges):
        source = encode_frame(pl.DataFrame({"born": dates}), schema)
        return [label for label, _, _ in _described(FeatureBins("born", edges), source)]

    assert labels(["2015-01-01", "2016-02-29"], -31.0, 0.0, 1.0, 424.0) == [
        "below −31 (before 2014-12-01)",
        "−31 to −1 (2014-12-01 to 2014-12-31)",
        "0 (2015-01-01)",
        "1 to 423 (2015-01-02 to 2016-02-28)",
        "424 or more (2016-02-29 or later)",
        "missing",
    ]
    assert labels(["2015-01-01T06:00"], -0.5, 31.25) == [
        "below −0.5 (before 2014-12-31)",
        "−0.5 to 31.2 (2014-12-31 to 2015-02-01)",
        "31.2 or more (2015-02-01 or later)",
        "missing",
    ]


def test_its_model_is_pickled_and_predicts_the_same(learned):
    records = encode_frame(patients(50, 5), SCHEMA)
    copy = pickle.loads(pickle.dumps(learned.model()))
    assert copy.probability(records).tolist() == learned.model().probability(records).tolist()
    assert copy.shape_functions == learned.model().shape_functions


def test_unseen_levels_and_missing_values_have_a_probability(learned):
    odd = pl.DataFrame({"admissions": [None], "age": [None], "ward": ["cellar"], "shoe size": [None], "constant": [1]})
    (found,) = learned.model().probability(encode_frame(odd, SCHEMA))
    assert expit(min(ADMISSIONS) - 0.8) < found < expit(max(ADMISSIONS))  # between what records can have


def test_a_share_of_the_budget_chooses_those_that_say_something():
    chosen = study({"choice_share": "1/4", "chosen": 2}, epsilon=Fraction(2), noise=NoNoise())
    first, second = chosen.study.rounds
    assert len(first.bodies["site 0"].partitions) == 4
    assert [partition.attribute for partition in second.bodies["site 0"].partitions] == ["admissions", "ward"]
    assert [planned.scale.fraction for planned in QUERY_KINDS.queries(chosen.study.plan)] == [8, Fraction(4, 3)]
    assert chosen.study.spent("site 0") == 2
    assert set(shapes(chosen)) == {"admissions", "age", "ward", "shoe size"}


def test_where_all_would_be_chosen_one_question_is_asked():
    plan = make_strategy("additive", {"choice_share": "1/4", "chosen": 4}).plan(problem())
    assert len(plan.queries) == 1


def problem(**changes):
    known = {
        "source": encode_frame(patients(300, 99), SCHEMA),
        "epsilon": Fraction(1),
        "sites": 1,
        "target_size": 2000,
        "most_records_per_unit": 1,
        "seed": 0,
    }
    return Problem(**known | changes)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"attributes": ["wart"]}, "no attribute 'wart'.*ward"),
        ({"attributes": ["back"]}, "'back' is the label"),
        ({"attributes": "ward"}, "list of names"),
        ({"attributes": []}, "at least one"),
        ({"attributes": ["ward", "ward"]}, "none twice"),
        ({"attributes": ["ward"], "choice_share": 0.5}, "none to choose"),
        ({"choice_share": 1}, "below 1"),
        ({"chosen": 0}, "whole number"),
        ({"bins": 0}, "whole number"),
        ({"attribute": ["ward"]}, "no option 'attribute'.*attributes"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_asked(options, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        make_strategy("additive", options).plan(problem())


def test_bins_keep_to_what_curators_allow():
    few = study({"bins": 10}, limits=limits_with(cells=20))
    (done,) = few.study.rounds
    assert sum(partition.cell_count(SCHEMA) for partition in done.bodies["site 0"].partitions) <= 20


def test_the_estimator_holds_the_model_and_says_no_accuracy():
    model = ExPriLClassifier(curators(), epsilon=1, strategy="additive", random_state=0)
    model.fit(patients(800, 7).drop("back"))
    assert model.models_[""].shape_functions[0].attribute == "admissions"
    assert model.accuracy_estimate_ is None
    assert model.synthetic_data()["weight"].sum() == pytest.approx(5000, rel=0.1)


SIZES = (4, 3, 5)


def draw(n, rng, sizes=SIZES):
    """Bins of records whose attributes are dependent: (n, m)."""
    latent = rng.standard_normal((n, 1)) + rng.standard_normal((n, len(sizes)))
    return np.stack(
        [np.clip((column * 0.8 + k / 2).astype(int), 0, k - 1) for column, k in zip(latent.T, sizes, strict=True)], 1
    )


def counted(private, labels, source, rng=None, scale=0.0, sizes=SIZES, kernels=None):
    """What curators would answer of each attribute, with continuous Laplace noise."""
    answers = []
    for j, k in enumerate(sizes):
        exact = np.bincount(private[:, j] * 2 + labels, minlength=2 * k).reshape(k, 2).astype(float)
        noise = rng.laplace(0, scale, exact.shape) if scale else 0.0
        answers.append(
            BinCounts(source[:, j], exact + noise, 2 * scale**2, np.eye(k) if kernels is None else kernels[j])
        )
    return answers


def one_hot(cells, sizes=SIZES):
    return np.concatenate([np.eye(k)[cells[:, j]] for j, k in enumerate(sizes)], axis=1)


@pytest.fixture(scope="module")
def silent():
    """2,000 records that the source holds as well, labels of an additive truth, no noise; variances 0.5, 1 and 2."""
    rng = np.random.default_rng(1)
    cells = draw(2000, rng)
    labels = (rng.random(2000) < expit(one_hot(cells) @ rng.standard_normal(sum(SIZES)) - 0.4)).astype(int)
    variances = np.array([0.5, 1.0, 2.0])
    return cells, labels, variances, fit_additive(counted(cells, labels, cells), scales=variances)


def test_without_noise_it_is_penalised_logistic_regression(silent):
    cells, labels, variances, fit = silent
    # A penalty of 1 for all: columns carry the prior deviations. 4 is that of the intercept.
    deviations = np.sqrt(np.concatenate([[4.0], np.repeat(variances, SIZES)]))
    design = np.column_stack([np.ones(len(cells)), one_hot(cells)]) * deviations
    model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(design, labels)
    # Its penalised likelihood has a curvature of 1 and more in these units; the fit ends after steps of a thousandth.
    slopes = np.append(fit.intercept, fit.contributions) / deviations
    assert slopes == pytest.approx(model.coef_[0], abs=2e-3)


def test_without_noise_mode_and_covariance_are_those_of_the_log_posterior(silent):
    cells, labels, variances, fit = silent
    design = np.column_stack([np.ones(len(cells)), one_hot(cells)])
    precision = 1.0 / np.concatenate([[4.0], np.repeat(variances, SIZES)])

    def log_posterior(theta):
        odds = design @ theta
        return float(np.sum(log_expit(np.where(labels > 0, odds, -odds))) - 0.5 * precision @ theta**2)

    def gradient(theta):
        return approx_fprime(theta, log_posterior, 1e-5)

    mode = np.append(fit.intercept, fit.contributions)
    assert np.abs(gradient(mode)).max() < 0.05  # of a log posterior whose curvatures are in the hundreds
    step = 1e-3 * np.eye(len(mode))
    hessian = np.array([(gradient(mode + one) - gradient(mode - one)) / 2e-3 for one in step])
    assert fit.covariance == pytest.approx(-np.linalg.inv(hessian), rel=0.02, abs=2e-3)


def test_with_noise_the_posterior_solves_its_equations_written_out(silent):
    """Mode and covariance of y ~ N(mu(theta), F + D), its Jacobian by finite differences; one class as common as the
    other in every bin, where D is half of a count's noise."""
    rng = np.random.default_rng(2)
    cells = draw(3000, rng)
    labels = rng.integers(2, size=3000)
    answers = counted(cells, labels, cells, rng, 15.0)
    variances = np.array([0.1, 0.2, 0.05])
    fit = fit_additive(answers, scales=variances)
    design, hot = np.column_stack([np.ones(3000), one_hot(cells)]), one_hot(cells)
    theta = np.append(fit.intercept, fit.contributions)
    weights = fit.source_mass

    def ones(at):
        return hot.T @ (weights * expit(design @ at))

    share = expit(design @ theta)
    p = hot.T @ (weights * share) / (hot.T @ weights)
    counts = np.concatenate([answer.counts for answer in answers])
    contrast = (1 - p) * counts[:, 1] - p * counts[:, 0]
    jacobian = np.array([(ones(theta + one) - ones(theta - one)) / 2e-4 for one in 1e-4 * np.eye(len(theta))]).T
    fisher = (hot.T * (weights * share * (1 - share))) @ hot
    noise = np.diag(450.0 * (p**2 + (1 - p) ** 2))
    prior = np.diag(np.concatenate([[4.0], np.repeat(variances, SIZES)]))
    # As the masses of bins are nearly known here, the two counts' contrast is the whole of what they say.
    covariance = np.linalg.inv(jacobian.T @ np.linalg.solve(fisher + noise, jacobian) + np.linalg.inv(prior))
    assert np.sqrt(np.diag(fit.covariance)) == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.03)
    moved = covariance @ (jacobian.T @ np.linalg.solve(fisher + noise, contrast) - np.linalg.solve(prior, theta))
    assert np.abs(moved / np.sqrt(np.diag(covariance))).max() < 0.1


def test_bands_cover_the_truth():
    """Of truths drawn from the prior with scales that the fit does not know: 95 % bands over 60 fits of 12 bins.

    The bins of a fit are dependent: as if there were only two independent ones in each, coverage below 0.87 has a
    probability of 1e-4 at a true 0.95; a band too short by half covers about 0.67.
    """
    inside, total = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        private, source = draw(4000, rng), draw(2000, rng)
        truth = [rng.standard_normal(k) * scale for k, scale in zip(SIZES, rng.choice([0.1, 0.4, 1.0], 3), strict=True)]
        odds = sum(f[private[:, j]] for j, f in enumerate(truth)) - 0.3
        labels = (rng.random(4000) < expit(odds)).astype(int)
        fit = fit_additive(counted(private, labels, source, rng, rng.choice([3.0, 20.0])))
        for j, f in enumerate(truth):
            mass = np.bincount(source[:, j], fit.source_mass, minlength=SIZES[j])
            value, deviation = fit.centred(j, mass)
            wanted = f - mass @ f / mass.sum()
            inside += int((np.abs(value - wanted) <= 1.96 * deviation).sum())
            total += len(f)
    assert binom.cdf(round(120 * inside / total), 120, 0.95) > 1e-9
    assert inside / total > 0.87


def test_an_attribute_that_says_nothing_is_shrunk_and_one_that_says_much_is_not():
    rng = np.random.default_rng(5)
    private, source = draw(20_000, rng), draw(3000, rng)
    truth = np.array([-1.0, -0.3, 0.5, 1.2])
    labels = (rng.random(20_000) < expit(truth[private[:, 0]])).astype(int)
    fit = fit_additive(counted(private, labels, source, rng, 10.0))
    assert fit.scales[0] > max(fit.scales[1:])
    for j in range(3):
        mass = np.bincount(source[:, j], fit.source_mass, minlength=SIZES[j])
        value, deviation = fit.centred(j, mass)
        wanted = truth - mass @ truth / mass.sum() if j == 0 else 0.0
        assert (np.abs(value - wanted) < DEVIATIONS * deviation).all()
        assert (np.abs(value).max() > DEVIATIONS * deviation.max()) == (j == 0)


def test_probabilities_follow_bins_whose_mass_differs_from_the_sources():
    """Covariate shift: the source has each first bin half as often. The answers say so, and P(class 1 | bins) stays."""
    rng = np.random.default_rng(6)
    private, source = draw(20_000, rng), draw(20_000, rng)
    source = source[(source[:, 0] > 0) | (rng.random(20_000) < 0.3)]
    truth = np.array([1.5, -0.3, 0.5, -1.2])
    labels = (rng.random(20_000) < expit(truth[private[:, 0]])).astype(int)
    fit = fit_additive(counted(private, labels, source, rng, 5.0))
    share = np.bincount(private[:, 0], minlength=4) / 20_000
    mass = np.bincount(source[:, 0], fit.source_mass, minlength=4)
    # Two noises of deviation 7 in a bin; masses of other attributes, as exact as that, are met at the same time.
    assert mass / mass.sum() == pytest.approx(share, abs=DEVIATIONS * 10 * np.sqrt(12) / 20_000)
    grid = np.column_stack([np.arange(4), np.full(4, 1), np.full(4, 2)])
    mean, variance = fit.log_odds(list(grid.T))
    assert (np.abs(mean - truth) < DEVIATIONS * np.sqrt(variance)).all()
    assert fit.probability(list(grid.T)) == pytest.approx(expit(truth), abs=0.25 * DEVIATIONS * np.sqrt(variance.max()))


def test_masses_of_all_attributes_are_met_at_once():
    rng = np.random.default_rng(7)
    private, source = draw(20_000, rng), draw(3000, rng)
    source = source[(source[:, 0] > 1) | (rng.random(3000) < 0.5)]
    masses = source_masses(counted(private, rng.integers(2, size=20_000), source))
    for j, k in enumerate(SIZES):
        wanted = np.bincount(private[:, j], minlength=k)
        found = np.bincount(source[:, j], masses.weights, minlength=k)
        assert (np.abs(found - wanted) < DEVIATIONS * np.sqrt(wanted)).all()  # what one sample of so many leaves open
    assert masses.weights.sum() == pytest.approx(20_000)


def test_variance_of_log_odds_is_that_of_the_sum(silent):
    cells, _, _, fit = silent
    design = np.column_stack([np.ones(50), one_hot(cells[:50])])
    mean, variance = fit.log_odds(list(cells[:50].T))
    assert mean == pytest.approx(design @ np.append(fit.intercept, fit.contributions))
    assert variance == pytest.approx(np.diag(design @ fit.covariance @ design.T), abs=1e-12)


def test_neighbours_are_alike_and_missing_values_apart():
    kernel = ordered_kernel(np.array([0.5, 0.3, 0.1, 0.1]))
    assert np.linalg.eigvalsh(kernel).min() > 0
    assert kernel[0, 1] > kernel[0, 2] > 0.1
    assert kernel[3, :3].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"counts": np.zeros((4, 3))}, "shape"),
        ({"counts": np.full((4, 2), np.nan)}, "finite"),
        ({"cells": np.array([0, 4])}, "lie in"),
        ({"cells": np.array([0.0, 1.0])}, "integers"),
        ({"variance": -1.0}, "variance"),
        ({"kernel": np.eye(3)}, "kernel"),
    ],
)
def test_what_is_no_answer_is_refused(change, complaint):
    known = {"cells": np.array([0, 1]), "counts": np.ones((4, 2)), "variance": 1.0, "kernel": np.eye(4)}
    with pytest.raises(ValueError, match=complaint):
        fit_additive([BinCounts(**known | change)])


# --- bins -------------------------------------------------------------------------------------------------


def column(values):
    """Records of one number."""
    schema = Schema((NumericAttribute("x", -1e6, 1e6),), "y", ("no", "yes"))
    return Records(schema, np.asarray(values, float)[:, None], np.empty((len(values), 0), np.int64))


@given(st.lists(st.integers(-4, 30) | st.floats(-100, 100), min_size=1, max_size=200), st.integers(1, 15))
def test_bins_are_few_and_hold_records(values, bins):
    records = column(values)
    found = tied_bins(records, "x", bins)
    counts = np.bincount(found.cells(records), minlength=len(found.edges) + 2)
    assert len(found.edges) < bins
    assert list(found.edges) == sorted(set(found.edges))
    assert counts[:-1].min() >= LEAST_SHARE * len(values)
    assert counts[-1] == 0


def test_a_frequent_value_has_a_bin_of_its_own():
    found = tied_bins(column([0] * 70 + [1] * 10 + [2] * 10 + list(range(3, 13))), "x", 5)
    assert found.edges[:2] == (1.0, 2.0)
    assert len(found.edges) == 4


def test_bins_of_many_values_are_even():
    values = np.random.default_rng(0).standard_normal(50_000)
    found = tied_bins(column(values), "x", 10)
    assert np.bincount(found.cells(column(values)))[:10] == pytest.approx(5000, rel=0.05)


def test_missing_values_have_their_own_bin():
    records = column([np.nan, 1.0, 2.0, np.nan])
    found = tied_bins(records, "x", 2)
    assert found.cells(records).tolist() == [2, 0, 1, 2]
    assert tied_bins(column([np.nan]), "x", 3).edges == ()
