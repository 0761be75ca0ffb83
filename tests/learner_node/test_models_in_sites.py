"""In-site models as a learner reads them: against scikit-learn at next to no noise, over several curators, and at the
edges."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression as LeastSquares
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from curator_node.kinds.model import EXACT, sums_about
from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from lab.curators import roomy_policy, spent
from learner_node.estimator import ExPriLClassifier
from learner_node.kinds.model import MODEL, ModelAnswer, complaint_about, join
from learner_node.kinds.models.classifiers import forest, linear, naive_bayes
from learner_node.kinds.models.moments import components, ridge
from learner_node.kinds.models.unsupervised import ask_clusters, ask_components, clusters
from learner_node.models.files import StudyModel, encode_model, load_model
from learner_node.models.source import coordinates, standardising_map
from learner_node.strategies import STRATEGIES, make_strategy
from learner_node.strategies.base import NumberModel, Problem, class_probabilities
from learner_node.strategies.models import unit_map
from learner_node.study.budget import Budget
from learner_node.study.learn import learn
from learner_node.study.pooling import Pooling
from margins import DEVIATIONS, surely_above, surely_ahead
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.kinds.model import ModelBody, PlannedModel
from protocol.kinds.models import (
    Attributes,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.partitions import FeatureBins
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from simulations.carriers.direct import direct_federation

SITE = sorted(name for name in STRATEGIES if name.startswith("site-"))
CLASSIFIERS = [name for name in SITE if name != "site-linear"]
LOUD = Rational(10**6, 1)
"""Epsilon at which noise is next to nothing."""
ATTRIBUTES = (
    NumericAttribute("x", -4.0, 4.0),
    NumericAttribute("z", -4.0, 4.0),
    CategoricalAttribute("colour", ("red", "green")),
)
SCHEMA = Schema(attributes=ATTRIBUTES, label="ill", classes=("no", "yes"))
NUMBERED = Schema(attributes=ATTRIBUTES, label="dose", label_bounds=(0.0, 10.0))


def people(count: int, seed: int) -> pl.DataFrame:
    """Records of which x and colour tell the class, and x and z a dose."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=count), rng.normal(size=count)
    red = rng.random(count) < 0.4
    ill = rng.random(count) < 1 / (1 + np.exp(-2.5 * x - 1.5 * red + 0.5))
    dose = np.clip(5 + 1.2 * x - 0.8 * z + rng.normal(0, 0.4, count), 0, 10)
    return pl.DataFrame(
        {
            "x": np.clip(x, -4, 4),
            "z": np.clip(z, -4, 4),
            "colour": np.where(red, "red", "green").tolist(),
            "ill": np.where(ill, "yes", "no").tolist(),
            "dose": dose,
        }
    )


PRIVATE, SOURCE, TEST = (people(count, seed) for count, seed in ((600, 1), (300, 2), (500, 3)))
RECORDS, SOURCE_RECORDS, TEST_RECORDS = (encode_frame(frame, SCHEMA) for frame in (PRIVATE, SOURCE, TEST))
LABELS = (PRIVATE["ill"] == "yes").to_numpy().astype(np.uint8)
TRUTH = (TEST["ill"] == "yes").to_numpy()


def answered(method, body, records=RECORDS, labels=LABELS, parts=1) -> ModelAnswer:
    """What curators over parts of the records would answer without noise, read together."""
    planned = PlannedModel(method=method, epsilon=LOUD)
    rows = np.array_split(np.arange(len(records)), parts)
    name = str(method.__struct_config__.tag)
    found = []
    for part in rows:
        held = records.take(part)
        if name in EXACT:
            numbers = EXACT[name](method, body, held, labels[part])
        else:
            numbers, centres = np.empty(0, np.int64), body.table(method.points.width)
            for _ in range(method.iterations):
                (sums,) = sums_about(method, body, held, [centres])
                numbers, centres = np.append(numbers, sums), method.next_centres(centres, sums)
        found.append(ModelAnswer(planned, ModelBody(models=(body,)), numbers[None], (len(numbers),)))
    return join(found)


def learnt(probability) -> bool:
    """More often right than the likelier class is, and more than half of the way to the law of the records itself."""
    x, red = TEST["x"].to_numpy(), (TEST["colour"] == "red").to_numpy()
    best = ((2.5 * x + 1.5 * red > 0.5) == TRUTH).mean()
    majority = max(TRUTH.mean(), 1 - TRUTH.mean())
    right = (probability > 0.5) == TRUTH
    return surely_above(right, majority) and right.mean() > 0.5 * (majority + best)


# --- against independent computations -------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 3])
def test_naive_bayes_of_bins_is_scikit_learns(parts):
    """There is next to no noise to shrink for; but no cell's share is below a tenth of the source's."""
    bins = (FeatureBins("x", (-1.0, 0.0, 1.0)), FeatureBins("z", (0.0,)), FeatureBins("colour", ()))
    model, totals = naive_bayes(answered(NaiveBayes(binned=3), Attributes(bins), parts=parts), SOURCE_RECORDS, 600.0, 1)
    assert totals == pytest.approx(np.bincount(LABELS), rel=1e-6)
    cells = [np.stack([each.cells(records) for each in bins], axis=1) for records in (RECORDS, TEST_RECORDS)]
    theirs = CategoricalNB(alpha=1e-9, min_categories=[6, 4, 4], force_alpha=True).fit(cells[0], LABELS)
    assert model.probability(TEST_RECORDS) == pytest.approx(theirs.predict_proba(cells[1])[:, 1], abs=0.04)
    assert model.probabilities(TEST_RECORDS).sum(axis=1) == pytest.approx(np.ones(500))


def test_naive_bayes_of_moments_is_scikit_learns():
    asked = Attributes((Moments("x", -4.0, 4.0), Moments("z", -4.0, 4.0)))
    model, _ = naive_bayes(answered(NaiveBayes(binned=0, moments=2, steps=256), asked), SOURCE_RECORDS, 600.0, 1)
    theirs = GaussianNB(var_smoothing=0).fit(RECORDS.numeric, LABELS)
    assert model.probability(TEST_RECORDS) == pytest.approx(theirs.predict_proba(TEST_RECORDS.numeric)[:, 1], abs=0.02)


def test_linear_regression_is_least_squares():
    numbered = encode_frame(PRIVATE, NUMBERED)
    features = unit_map(encode_frame(pl.concat([SOURCE, PRIVATE]), NUMBERED), 1.0)
    points = Points(width=features.width, radius=4096, constant=4096)
    labels = np.rint(PRIVATE["dose"].to_numpy() / 10 * 4096).astype(np.uint16)
    answer = answered(LinearRegression(points=points, label_steps=4096), Mapped(features), numbered, labels, parts=2)
    model, records = ridge(answer, (0.0, 10.0), 1)
    assert records == pytest.approx(600, rel=1e-3)
    # One-hot coordinates and the constant are dependent: predictions are what is determined.
    test = encode_frame(TEST, NUMBERED)
    theirs = LeastSquares().fit(coordinates(features, numbered), PRIVATE["dose"].to_numpy())
    inside = np.linalg.norm(coordinates(features, test), axis=1) < 1  # longer ones are shrunk into the unit ball
    wanted = np.clip(theirs.predict(coordinates(features, test)), 0, 10)
    assert inside.mean() > 0.9
    assert model.predict_number(test)[inside] == pytest.approx(wanted[inside], abs=0.1)
    assert isinstance(model, NumberModel)


@pytest.mark.parametrize("kind", [LogisticRegression, LinearSvm])
def test_a_linear_classifier_s_weights_are_the_minimiser(kind):
    features = unit_map(SOURCE_RECORDS, 0.9)
    points = Points(width=features.width, radius=1024, constant=256)
    method = kind(points=points, regulariser=Rational(8, 1), steps=2**20)
    weights = method.weights(answered(method, Mapped(features)).of())[0] * points.radius
    rows = points.rows(features.points(RECORDS)) / points.radius
    signed, sharp = (2.0 * LABELS - 1)[:, None] * rows, method.sharpness_of_loss

    def objective(w):
        losses = np.logaddexp(0, sharp * (method.margin - signed @ w)) / sharp
        slopes = -1 / (1 + np.exp(-sharp * (method.margin - signed @ w)))
        return losses.sum() + 4 * w @ w, signed.T @ slopes + 8 * w

    theirs = minimize(objective, np.zeros(rows.shape[1]), jac=True, tol=1e-10).x
    # The curvature is 8 and more, so no point is further from the minimiser than an eighth of the slope there.
    left = np.linalg.norm(objective(weights)[1])
    assert left < 8 * 2e-3
    assert np.linalg.norm(weights - theirs) <= left / 8 + np.linalg.norm(objective(theirs)[1]) / 8 + 1e-9


def test_the_regulariser_is_taken_out_of_the_weights_again():
    """A strong one shrinks them; what is read is about what a weak one gives, and one of several curators likewise."""
    features = unit_map(SOURCE_RECORDS, 0.9)
    points = Points(width=features.width, radius=1024, constant=256)

    def read(regulariser, parts=1):
        method = LogisticRegression(points=points, regulariser=Rational(regulariser, 1), steps=2**20)
        return linear(answered(method, Mapped(features), parts=parts), SOURCE_RECORDS, 600.0, 1)

    weak, strong, three = read(1), read(200), read(60, parts=3)
    for model in (strong, three):
        scores = model.scores(TEST_RECORDS)
        others = weak.scores(TEST_RECORDS)
        # Minimisers of smooth convex losses, which no processor moves: how well the penalty is undone is what is asked.
        assert np.corrcoef(scores, others)[0, 1] > 0.98
        assert 0.4 < scores.std() / others.std() < 1.6


def test_random_features_and_trees_predict():
    features = unit_map(SOURCE_RECORDS, 0.5)
    kernel = KernelSvm(
        width=features.width, frequencies=50, seed=3, radius=1024, constant=256, regulariser=Rational(5, 1), steps=1024
    )
    found = linear(answered(kernel, Mapped(features)), SOURCE_RECORDS, 600.0, 1)
    assert learnt(found.probability(TEST_RECORDS))
    standard = standardising_map(SOURCE_RECORDS)
    trees = Forest(width=standard.width, trees=10, depth=4, span=8192, seed=1)
    model, totals = forest(answered(trees, Mapped(standard), parts=2), SOURCE_RECORDS, 600.0, 1)
    assert totals == pytest.approx(np.bincount(LABELS), rel=1e-6)
    assert learnt(model.probability(TEST_RECORDS))
    assert model.probabilities(TEST_RECORDS).sum(axis=1) == pytest.approx(np.ones(500))


def test_components_are_those_of_the_covariance():
    features = unit_map(SOURCE_RECORDS, 1.0)
    points = Points(width=features.width, radius=4096, constant=2048)
    found = components(answered(PrincipalComponents(points=points), Mapped(features), parts=2))
    rows = points.rows(features.points(RECORDS))[:, :-1] / points.radius
    assert found.records == pytest.approx(600, rel=1e-3)
    assert found.mean == pytest.approx(rows.mean(axis=0), abs=1e-3)
    assert found.variances == pytest.approx(np.linalg.eigvalsh(np.cov(rows.T, bias=True))[::-1], abs=1e-3)
    projected = found.project(RECORDS, 2)
    assert projected.var(axis=0) == pytest.approx(found.variances[:2], rel=0.01)


def test_clusters_are_lloyd_s():
    features = unit_map(SOURCE_RECORDS, 1.0)
    points = Points(width=features.width, radius=4096, constant=4096)
    rows = points.rows(features.points(RECORDS))[:, :-1]
    first = np.rint(rows[:3])
    method = KMeans(points=points, clusters=3, iterations=3)
    found = clusters(answered(method, Centres.of(features, first.astype(np.int64))))
    centres = first
    for _ in range(3):
        nearest = ((rows[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.stack([rows[nearest == place].mean(axis=0) for place in range(3)])
    assert found.centres * 4096 == pytest.approx(centres, abs=3)
    assert found.records == pytest.approx(np.bincount(nearest), abs=1e-6)


# --- the reader -----------------------------------------------------------------------------------------------------


def test_answers_are_kept_apart_and_added_up():
    bins = Attributes((FeatureBins("x", (0.0,)),))
    one, two = answered(NaiveBayes(binned=1), bins), answered(NaiveBayes(binned=1), bins, parts=2)
    assert (one.sites, two.sites) == (1, 2)
    assert np.array_equal(one.summed(), two.summed())
    assert two.of(0).shape == (2, 6)


def test_a_number_that_no_records_explain_is_a_complaint():
    answer = answered(NaiveBayes(binned=1), Attributes((FeatureBins("x", (0.0,)),)))
    assert complaint_about(answer, 600) == ""
    assert "its card declares 600" in complaint_about(replace(answer, numbers=answer.numbers + 10**9), 600)
    assert complaint_about(replace(answer, numbers=answer.numbers - 10**6), 600) != ""
    assert "no curator holds" in complaint_about(replace(answer, numbers=answer.numbers + 10**12), None)


def test_no_study_of_models_is_foreseen():
    planned = PlannedModel(method=NaiveBayes(binned=1), epsilon=LOUD)
    with pytest.raises(ConfigurationError, match="cannot be foreseen"):
        MODEL.precision(None, type("Turn", (), {"planned": planned}), SCHEMA, 1, 1)


# --- strategies, with real curators ---------------------------------------------------------------------------------


def federation(schema=SCHEMA, parts=2, frame=PRIVATE, kinds=None):
    learner = SigningKey.generate()
    steward = SchemaFile(
        label=schema.label,
        classes=schema.classes,
        label_bounds=schema.label_bounds,
        attributes=schema.attributes,
        round_size=frame.height // parts,
    )
    size = -(-frame.height // parts)
    held = {
        f"site {place}": temporary_site(
            frame.slice(place * size, size),
            steward,
            roomy_policy(learner, name=f"site {place}", kinds={"model": {}} if kinds is None else kinds),
        )
        for place in range(parts)
    }
    return direct_federation(held, learner), held, learner


@pytest.mark.parametrize("pooling", ["sum", "site"])
@pytest.mark.parametrize("strategy", CLASSIFIERS)
def test_a_study_spends_exactly_epsilon_and_learns(strategy, pooling):
    """At epsilon 200 noise matters to none of them."""
    asked, held, learner = federation()
    epsilon = Fraction(200)
    learned = learn(
        asked, lambda _: SOURCE_RECORDS, Budget(epsilon), strategy=strategy, seed=4, pooling=Pooling(pooling)
    )
    assert {spent(site, learner) for site in held.values()} == {epsilon}
    assert learned.epsilon_claimed == epsilon
    assert set(learned.estimates) == ({""} if pooling == "sum" else {"site 0", "site 1"})
    assert learnt(class_probabilities(learned.final_model, TEST_RECORDS)[:, 1])
    for estimate in learned.estimates.values():
        wanted = 600 if pooling == "sum" else 300
        assert estimate.weights.sum() == pytest.approx(wanted, rel=0.1)
        # Of half as many records of a site; noise is far less.
        assert estimate.prevalence == pytest.approx(LABELS.mean(), abs=DEVIATIONS * np.sqrt(0.25 / 300))


@pytest.mark.parametrize("strategy", CLASSIFIERS)
def test_sites_of_one_class_learn_that_class(strategy):
    asked, held, learner = federation(frame=PRIVATE.filter(pl.col("ill") == "yes"))
    learned = learn(asked, lambda _: SOURCE_RECORDS, Budget(200), strategy=strategy, seed=4)
    said = class_probabilities(learned.model(), TEST_RECORDS)[:, 1] > 0.5
    assert surely_above(said, TRUTH.mean())
    assert {spent(site, learner) for site in held.values()} == {200}


def test_a_number_is_learnt():
    asked, _, _ = federation(NUMBERED)
    source, test = (encode_frame(frame, NUMBERED) for frame in (SOURCE, TEST))
    learned = learn(asked, lambda _: source, Budget(1000), strategy="site-linear", seed=4)
    predicted = learned.model().predict_number(test)
    error = np.mean((predicted - TEST["dose"].to_numpy()) ** 2)
    wanted = TEST["dose"].to_numpy()
    assert surely_ahead((wanted - wanted.mean()) ** 2, (predicted - wanted) ** 2)
    assert error < 2 * 0.4**2  # twice the noise's variance, which nobody can foretell
    assert learned.estimates[""].value.shape == (300,)


def test_an_estimator_predicts_and_gives_synthetic_data(tmp_path):
    asked, _, _ = federation(parts=1)
    study = ExPriLClassifier(asked, strategy="site-naive-bayes", epsilon=100, large_epsilon=True, random_state=1)
    fitted = study.fit(SOURCE)
    assert learnt(fitted.predict_proba(TEST)[:, 1])
    table = fitted.synthetic_data()
    assert table.columns[:3] == ["x", "z", "colour"]
    assert table["weight"].sum() == pytest.approx(600, rel=0.05)


@pytest.mark.parametrize("strategy", SITE)
def test_a_model_is_kept_in_a_file(strategy, tmp_path):
    schema = NUMBERED if strategy == "site-linear" else SCHEMA
    asked, _, _ = federation(schema, parts=1)
    source = encode_frame(SOURCE, schema)
    learned = learn(asked, lambda _: source, Budget(50), strategy=strategy, seed=4)
    path = tmp_path / "model.safetensors"
    path.write_bytes(encode_model(StudyModel.of(learned)))
    again = load_model(path).models[""]
    for name in ("probability", "predict_number"):
        if hasattr(learned.model(), name):
            before, after = (getattr(model, name)(source) for model in (learned.model(), again))
            assert np.array_equal(before, after)


def test_what_is_unsupervised_is_a_result():
    asked, held, learner = federation()
    found, told = ask_clusters(asked, lambda _: SOURCE_RECORDS, clusters=3, epsilon=Fraction(500))
    assert found.centres.shape == (6, told.answer.planned.method.points.width)
    assert found.records.reshape(2, 3).sum(axis=1) == pytest.approx([300, 300], abs=20)
    assert told.spent == max(spent(site, learner) for site in held.values()) == 500
    asked, _, _ = federation()
    axes, _ = ask_components(asked, lambda _: SOURCE_RECORDS, epsilon="500")
    assert axes.records == pytest.approx(600, abs=20)
    assert axes.axes @ axes.axes.T == pytest.approx(np.eye(len(axes.axes)), abs=1e-9)


# --- what cannot be asked -------------------------------------------------------------------------------------------


def problem(schema=SCHEMA, **changes) -> Problem:
    source = encode_frame(SOURCE, schema)
    told = {"source": source, "epsilon": Fraction(1), "sites": 2, "target_size": 600, "most_records_per_unit": 1}
    return Problem(**{**told, "seed": 1, **changes})


@pytest.mark.parametrize("strategy", SITE)
def test_settings_come_from_public_facts_and_are_the_same_again(strategy):
    schema = NUMBERED if strategy == "site-linear" else SCHEMA
    made = make_strategy(strategy, {})
    for epsilon in ("1/1000", "1/10", "1", "30"):
        asked = problem(schema, epsilon=Fraction(epsilon), most_records_per_unit=6)
        assert made.plan(asked) == made.plan(asked)
        (body, model), (again, _) = (next(made.run(asked)) for _ in range(2))
        assert (body, model) == (again, None)


def test_a_wrong_label_an_epsilon_and_options_are_refused_in_words():
    with pytest.raises(ConfigurationError, match="label of two classes"):
        make_strategy("site-svm", {}).plan(problem(NUMBERED))
    with pytest.raises(ConfigurationError, match="a numeric label"):
        make_strategy("site-linear", {}).plan(problem())
    with pytest.raises(ConfigurationError, match="more than 32 bits"):
        make_strategy("site-linear", {}).plan(problem(NUMBERED, epsilon=Fraction(1, 10**9)))
    with pytest.raises(ConfigurationError, match="frequencies"):
        make_strategy("site-kernel-svm", {"frequencies": 0})


def test_curators_that_allow_no_model_are_left_out_before_anything_is_asked():
    asked, held, learner = federation(kinds={})
    with pytest.raises(ConfigurationError, match="nothing was asked"):
        learn(asked, lambda _: SOURCE_RECORDS, Budget(1), strategy="site-svm")
    assert {spent(site, learner) for site in held.values()} == {0}


def test_secure_sums_of_models_are_refused():
    asked, _, _ = federation(parts=3)
    with pytest.raises(ConfigurationError):
        learn(asked, lambda _: SOURCE_RECORDS, Budget(1), strategy="site-svm", pooling=Pooling("secure"))


def test_a_source_record_that_is_missing_everything_is_read():
    empty = [pl.lit(None).cast(kind).alias(name) for name, kind in list(SOURCE.schema.items())[:3]]
    source = encode_frame(pl.concat([SOURCE, SOURCE.head(2).with_columns(empty)]), SCHEMA)
    for strategy in CLASSIFIERS:
        learned = learn(federation()[0], lambda _: source, Budget(5), strategy=strategy, seed=1)
        assert np.isfinite(class_probabilities(learned.model(), source)).all()
