"""The scikit-learn door: scikit-learn's own checks on the simulated classifier, and the real one against curators."""

import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from learner_fakes import NoNoise, account, federate, open_curator, ring, silent_from
from learner_node.estimator import ExPriLClassifier
from learner_node.study.doubts import StudyWarning
from learner_node.study.study import NoCuratorError
from margins import surely_above
from protocol.envelopes import LABEL, NOT_PRIVATE_LABEL, open_envelope
from protocol.errors import ConfigurationError
from simulations.local import SimulatedExPriLClassifier

SOURCE = ring(150, seed=3).drop("sick")
TEST = ring(200, seed=4)
PLAIN = {"networks": False}
"""For what does not hang on the networks, which take most of a fit's time."""
HANDFUL = {
    "check_classifiers_one_label",
    "check_dict_unchanged",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_n_features_in",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_supervised_y_no_nan",
    "check_valid_tag_types",
}


def own_checks():
    """All of them; those that are no handful are slow."""
    for estimator, check in estimator_checks_generator(SimulatedExPriLClassifier(noise_seed=0, random_state=0)):
        name = check.func.__name__
        marks = () if name in HANDFUL else pytest.mark.slow
        yield pytest.param(estimator, check, marks=marks, id=" ".join([name, *check.keywords]))


@pytest.mark.filterwarnings("ignore:bounds is left out")
@pytest.mark.parametrize(("estimator", "check"), list(own_checks()))
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:bounds is left out")
@pytest.mark.slow
@parametrize_with_checks(
    [
        SimulatedExPriLClassifier(noise_seed=0, random_state=0, n_curators=2, pooling="site", source_fraction=0.9),
        SimulatedExPriLClassifier(
            noise_seed=0, random_state=0, strategy="paper-c", options={"rounds": 1}, epsilon=10, bounds=(-1e3, 1e3)
        ),
    ]
)
def test_scikit_learns_own_checks_of_other_settings(estimator, check):
    check(estimator)


def two(**options):
    return {name: open_curator(name, ring(400, seed=i), noise=NoNoise()) for i, name in enumerate(("basel", "bern"))}


@pytest.fixture(scope="module")
def fitted():
    curators = two()
    federation = federate(curators)
    model = ExPriLClassifier(federation, epsilon="1/3", options={"cells": 40, "networks": False}, random_state=0).fit(
        SOURCE
    )
    return model, curators


def test_a_fit_is_one_study_at_its_exact_cost(fitted):
    model, curators = fitted
    assert model.epsilon_claimed_ == Fraction(1, 3)
    assert model.epsilon_spent_ == {"basel": Fraction(1, 3), "bern": Fraction(1, 3)}
    assert all(account(curator).total_spent == Fraction(1, 3) for curator in curators.values())
    assert model.study_ is model.learned_.study
    assert is_classifier(model)


def test_predictions_are_class_names_of_the_card(fitted):
    model, _ = fitted
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["x", "y"]
    probability = model.predict_proba(TEST)
    assert probability.shape == (200, 2)
    assert np.allclose(probability.sum(axis=1), 1)
    assert np.array_equal(model.predict(TEST), model.classes_[probability.argmax(axis=1)])
    assert surely_above(model.predict(TEST) == TEST["sick"].to_numpy(), (TEST["sick"] == "no").mean())


def test_synthetic_data_says_what_the_model_and_its_weights_say(fitted):
    model, _ = fitted
    made = model.synthetic_data()
    assert made["weight"].to_numpy() == pytest.approx(model.estimates_[""].weights)
    assert (made["weight"] >= 0).all()
    assert made["sick_probability"].to_numpy() == pytest.approx(model.predict_proba(SOURCE)[:, 1])
    assert made["sick"].to_list() == np.where(made["sick_probability"] > 0.5, "yes", "no").tolist()


class Table:
    """Looks enough like a pandas data frame."""

    def __init__(self, frame):
        self.columns = frame.columns
        self._frame = frame

    def __getitem__(self, name):
        return self._frame[name].to_numpy()


def test_tables_arrays_and_lists_of_the_same_records_predict_the_same(fitted):
    model, _ = fitted
    expected = model.predict_proba(TEST)
    points = TEST.select("x", "y")
    shuffled = TEST.select("sick", "y", "x")
    same = [points, shuffled, points.lazy(), points.to_numpy(), points.to_numpy().tolist(), Table(shuffled)]
    same += [points.to_numpy().astype(object), points.to_numpy().astype(str)]
    for form in same:
        assert np.array_equal(model.predict_proba(form), expected)


@pytest.mark.parametrize("networks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_labels_of_the_source_are_never_used(networks):
    models = []
    for y in (None, ["no"] * 150, object()):
        model = ExPriLClassifier(federate(two()), options={"cells": 10, "networks": networks}, random_state=0)
        models.append(model.fit(SOURCE, y).predict_proba(TEST))
    assert np.array_equal(models[0], models[1])
    assert np.array_equal(models[0], models[2])


def test_an_array_source_has_no_feature_names_and_a_refit_forgets_them():
    model = ExPriLClassifier(federate(two()), epsilon="1/4", options={"cells": 10, "networks": False})
    assert model.fit(SOURCE).feature_names_in_.tolist() == ["x", "y"]
    assert not hasattr(model.fit(SOURCE.to_numpy()), "feature_names_in_")
    assert model.synthetic_data().columns == ["x", "y", "weight", "sick", "sick_probability"]


def test_synthetic_data_has_numbers_where_the_source_had_texts_and_only_what_is_on_the_card():
    texts = SOURCE.with_columns(pl.all().cast(pl.String)).with_columns(
        patient=pl.int_range(150).cast(pl.String), sick=pl.lit("yes"), weight=pl.lit("70")
    )
    wide = texts.with_columns(x=pl.when(pl.int_range(150) == 0).then(pl.lit("99")).otherwise("x"))
    gaps = wide.with_columns(y=pl.when(pl.int_range(150) == 1).then(pl.lit("?")).otherwise("y"))
    model = ExPriLClassifier(federate(two()), options={"cells": 10, "networks": False}, random_state=0).fit(gaps)
    made = model.synthetic_data()
    assert made.schema == {
        "x": pl.Float64,
        "y": pl.Float64,
        "weight": pl.Float64,
        "sick": pl.String,
        "sick_probability": pl.Float64,
    }
    assert made["x"][0] == 99
    assert made["y"][1] is None
    assert made["x"][1:].equals(SOURCE["x"][1:])
    assert set(made["sick"]) == {"no", "yes"}
    assert model.synthetic_data(keep=["patient"])["patient"].equals(texts["patient"])
    with pytest.raises(ConfigurationError, match="'weight' of its own"):
        model.synthetic_data(keep=["weight"])
    assert model.synthetic_data(keep=["weight"], weight="stands_for")["weight"].to_list() == ["70"] * 150


@pytest.mark.parametrize(
    ("X", "text"),
    [
        (np.zeros((5, 3)), "X has 3 features, but the curators' card has 2"),
        (np.zeros(5), "expected a 2-d array"),
        (pl.DataFrame({"x": [1.0]}), "lack the declared column"),
    ],
)
def test_records_that_do_not_fit_the_card(fitted, X, text):
    model, _ = fitted
    curators = two()
    with pytest.raises(ConfigurationError, match=text):
        model.predict(X)
    with pytest.raises(ConfigurationError, match=text):
        ExPriLClassifier(federate(curators)).fit(X)
    assert all(not account(curator).studies for curator in curators.values())


def test_without_a_federation_the_error_says_what_to_pass():
    with pytest.raises(ConfigurationError, match="no federation"):
        ExPriLClassifier().fit(SOURCE)


def test_a_wrong_epsilon_is_a_configuration_error():
    for epsilon in (0, -1, float("nan"), "lots"):
        with pytest.raises(ConfigurationError, match="positive"):
            ExPriLClassifier(federate(two()), epsilon=epsilon).fit(SOURCE)


@pytest.mark.parametrize("kind", [ExPriLClassifier, SimulatedExPriLClassifier])
@pytest.mark.parametrize("use", ["predict", "predict_proba"])
def test_before_a_fit_nothing_is_predicted(kind, use):
    with pytest.raises(NotFittedError):
        getattr(kind(), use)(SOURCE)
    with pytest.raises(NotFittedError):
        kind().synthetic_data()


def test_no_curator_answers():
    curators = two()
    with pytest.raises(NoCuratorError, match="see that it runs"):
        ExPriLClassifier(federate(curators, dict.fromkeys(curators, silent_from(1)))).fit(SOURCE)


def test_clone_parameters_and_text():
    federation = federate(two())
    model = ExPriLClassifier(federation, strategy="paper-c", options={"rounds": 1}, epsilon=Fraction(1, 3))
    copy = clone(model)
    assert copy.federation is federation
    assert copy.get_params() == model.get_params()
    assert set(model.get_params()) == {
        "federation",
        "strategy",
        "options",
        "epsilon",
        "pooling",
        "colluders",
        "dropouts",
        "purpose",
        "validation",
        "large_epsilon",
        "random_state",
    }
    assert copy.set_params(strategy="cells").strategy == "cells"
    assert "federation=Federation(basel, bern)" in repr(model)
    assert not hasattr(copy, "models_")


def test_a_pickle_holds_no_key_and_still_predicts(fitted):
    model, _ = fitted
    data = pickle.dumps(model)
    copy = pickle.loads(data)
    assert model.federation.key._private.private_bytes_raw() not in data
    assert copy.federation is None
    assert not hasattr(copy, "study_")
    assert np.array_equal(copy.predict_proba(TEST), model.predict_proba(TEST))
    assert copy.synthetic_data().equals(model.synthetic_data())
    with pytest.raises(ConfigurationError, match="no federation"):
        copy.fit(SOURCE)


def test_one_model_per_site_and_their_mixture():
    curators = {"basel": open_curator("basel", ring(600, seed=1), noise=NoNoise())}
    curators["bern"] = open_curator("bern", ring(200, seed=2), noise=NoNoise())
    options = {"cells": 20, "networks": False}
    model = ExPriLClassifier(federate(curators), pooling="site", options=options, random_state=0).fit(SOURCE)
    basel, bern, mixture = (model.predict_proba(TEST, name)[:, 1] for name in ("basel", "bern", None))
    shares = [model.estimates_[name].weights.sum() for name in ("basel", "bern")]
    assert shares == pytest.approx([600, 200], rel=0.1)
    assert np.allclose(mixture, (shares[0] * basel + shares[1] * bern) / sum(shares))
    assert model.predict(TEST, "bern").tolist() == np.where(bern > 0.5, "yes", "no").tolist()
    whole = model.synthetic_data()
    parts = [model.synthetic_data(name) for name in ("basel", "bern")]
    assert np.allclose(whole["weight"], parts[0]["weight"] + parts[1]["weight"])


def test_an_unknown_curator(fitted):
    model, _ = fitted
    for name in ("chur", ""):
        with pytest.raises(ConfigurationError, match="pooled"):
            model.predict(TEST, name)


def test_in_a_pipeline(fitted):
    curators = two()
    first = FunctionTransformer(lambda frame: frame.with_columns(x=pl.col("x") * 1.0))
    pipeline = make_pipeline(first, ExPriLClassifier(federate(curators), options=PLAIN, random_state=0))
    predicted = pipeline.fit(SOURCE).predict(TEST)
    assert surely_above(predicted == TEST["sick"].to_numpy(), (TEST["sick"] == "no").mean())


# The simulated classifier beyond scikit-learn's checks.


def labelled(n, seed):
    frame = ring(n, seed)
    return frame.select("x", "y"), frame["sick"].to_numpy()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"n_curators": 3}, marks=pytest.mark.slow),
        pytest.param({"n_curators": 2, "pooling": "site"}, marks=pytest.mark.slow),
        {"noise_seed": 1, "options": PLAIN},
    ],
)
def test_a_simulation_learns_and_accounts(options):
    X, y = labelled(900, 1)
    model = SimulatedExPriLClassifier(bounds=(-4, 4), random_state=0, **options).fit(X, y)
    sites = options.get("n_curators", 1)
    assert model.epsilon_spent_ == {f"curator {i + 1}": Fraction(1) for i in range(sites)}
    X, y = labelled(400, 2)
    assert surely_above(model.predict(X) == y, (y == "no").mean())
    label = NOT_PRIVATE_LABEL if "noise_seed" in options else LABEL
    for session in model.study_.sessions.values():
        assert open_envelope(session.transcript.envelopes[-1])[0].label == label


def test_real_noise_differs_between_fits_and_seeded_noise_does_not():
    X, y = labelled(200, 1)
    for seed, same in ((None, False), (7, True)):
        fits = [
            SimulatedExPriLClassifier(bounds=(-4, 4), random_state=0, noise_seed=seed, options=PLAIN).fit(X, y)
            for _ in range(2)
        ]
        answers = [fit.study_.rounds[0].answers["curator 1"].values for fit in fits]
        assert np.array_equal(*answers) == same
        assert fits[0].__sklearn_tags__().non_deterministic != same


def test_categories_need_levels_and_numbers_bounds():
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 300)
    frame = pl.DataFrame({"kind": kind, "age": rng.uniform(0, 100, 300)})
    y = (kind == "a") ^ (rng.random(300) < 0.05)
    options = {"bounds": {"age": (0, 120)}, "random_state": 0, "options": PLAIN}
    model = SimulatedExPriLClassifier(levels={"kind": ["a", "b", "c"]}, **options).fit(frame, y)
    assert surely_above(model.predict(frame) == y, max(y.mean(), 1 - y.mean()))
    assert model.feature_names_in_.tolist() == ["kind", "age"]
    assert model.classes_.tolist() == [False, True]
    assert set(model.synthetic_data()["label"]) == {False, True}
    for wrong, text in (
        ({"levels": {"knd": ["a"]}}, "unknown column"),
        ({}, "neither bounds nor levels"),
        ({"levels": {"kind": ["a"]}, "bounds": {"age": (5, 5)}}, "two numbers, the lower one first"),
        ({"levels": {"kind": ["a"]}, "bounds": {"age": (5,)}}, "bounds of 'age'"),
        ({"levels": {"kind": ["a"]}, "n_curators": 0}, "n_curators"),
        ({"levels": {"kind": ["a"]}, "n_curators": 301}, "n_curators"),
        ({"levels": {"kind": ["a"]}, "source_fraction": 0.0}, "source_fraction"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            SimulatedExPriLClassifier(**options | wrong).fit(frame, y)


def test_numbers_without_bounds_and_more_cells_than_records_are_warned_of_before_anything_is_asked():
    X, y = labelled(60, 1)
    study = SimulatedExPriLClassifier(random_state=0, options={"networks": False, "cells": 61})
    with pytest.warns(StudyWarning) as caught:
        study.fit(X, y)
    assert [str(warning.message).partition(" is ")[0].partition(" are ")[0] for warning in caught] == [
        "bounds",
        "61 cells",
    ]
    X = X.with_columns(kind=pl.lit("a")).select("kind")
    SimulatedExPriLClassifier(random_state=0, levels={"kind": ["a"]}, options={"networks": False, "cells": 1}).fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"bounds": [(0, 1), (0, 2)]}, "bounds of 'x' must be two numbers"),
        ({"bounds": (0, (1, 2))}, "bounds of 'x' must be two numbers"),
        ({"bounds": 5}, "bounds of 'x' must be two numbers"),
        ({"levels": ["x"]}, "levels are a mapping"),
        ({"levels": {"x": "ab"}}, "levels of 'x' must be a list"),
        ({"n_curators": "3"}, "n_curators must be a whole number"),
        ({"n_curators": 2.5}, "n_curators must be a whole number"),
        ({"source_fraction": (1,)}, "source_fraction must be above 0"),
        ({"epsilon": [1, 2]}, "is not a positive rational"),
        ({"epsilon": 1000}, "confirm it with large_epsilon=True"),
        ({"strategy": None}, "strategy is a name"),
    ],
)
def test_a_parameter_of_a_wrong_type_is_one_sentence(wrong, text):
    X, y = labelled(60, 1)
    with pytest.raises(ConfigurationError, match=text):
        SimulatedExPriLClassifier(**{"bounds": (-4, 4), "options": PLAIN} | wrong).fit(X, y)


def test_a_validation_at_a_large_epsilon_is_confirmed_too(fitted):
    model, _ = fitted
    with pytest.raises(ConfigurationError, match="confirm it with large_epsilon=True"):
        model.validate(100)
    with pytest.raises(ConfigurationError, match="confirm it with large_epsilon=True"):
        ExPriLClassifier(model.federation, options=PLAIN, validation=100).fit(SOURCE)


def test_a_table_must_come_back_with_its_columns():
    X, y = labelled(60, 1)
    model = SimulatedExPriLClassifier(bounds=(-4, 4), random_state=0, options=PLAIN).fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename({"x": "z"}))


@pytest.mark.parametrize("epsilon", [5e-4, "1/3", 8])
def test_any_positive_epsilon_can_be_simulated(epsilon):
    X, y = labelled(100, 1)
    model = SimulatedExPriLClassifier(epsilon=epsilon, bounds=(-4, 4), random_state=0, options=PLAIN).fit(X, y)
    assert model.epsilon_spent_["curator 1"] == model.epsilon_claimed_


def test_the_printed_mechanism_may_be_simulated():
    X, y = labelled(100, 1)
    options = {"printed": True, "rounds": 1}
    model = SimulatedExPriLClassifier(strategy="paper-i", options=options, bounds=(-4, 4), random_state=0).fit(X, y)
    assert model.predict(X).shape == (100,)


@pytest.mark.slow
def test_cross_validation_on_real_records():
    X, y = load_breast_cancer(return_X_y=True)
    model = SimulatedExPriLClassifier(bounds=(0, 5000), random_state=0, n_curators=2)
    assert surely_above(cross_val_predict(model, X, y, cv=3) == y, y.mean())


@pytest.mark.slow
def test_the_learners_estimator_does_not_import_the_curators_package():
    code = "import sys, learner_node.estimator; sys.exit(any(m.startswith('curator_node') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("options", [[1], "cells=40", 40])
def test_options_that_are_no_mapping_are_told(options):
    X = np.random.default_rng(0).random((40, 2))
    study = SimulatedExPriLClassifier(bounds=(0, 1), options=options)
    with pytest.raises(ConfigurationError, match="options are a mapping, such as"):
        study.fit(X, X[:, 0] > 0.5)


def test_a_simulated_study_of_real_records_pools_securely():
    """wdbc over four curators with real noise: .63 is the majority."""
    data = load_breast_cancer()
    model = SimulatedExPriLClassifier(
        pooling="secure", n_curators=4, bounds=(0, 5000), options={"networks": False}, random_state=2
    )
    with pytest.warns(StudyWarning, match="a secure sum of 4 curators that allows no dropout"):
        model.fit(data.data, data.target)
    assert surely_above(model.predict(data.data) == data.target, data.target.mean())
    answer = model.study_.rounds[0].pooled
    assert (answer.sites, answer.noises) == (4, 4 / 3)
    assert set(model.epsilon_spent_.values()) == {1}
    alone = SimulatedExPriLClassifier(pooling="secure", bounds=(0, 5000))
    with pytest.raises(ConfigurationError, match="one curator alone is no secure sum"):
        alone.fit(data.data, data.target)
