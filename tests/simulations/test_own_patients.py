"""A study's model beside the hospital's own regression: scores are what scikit-learn computes, and nothing leaks."""

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score
from sklearn.model_selection import PredefinedSplit, cross_val_predict

import simulations.own_patients
from learner_node.models.source import coordinates, standardising_map
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_frame
from protocol.schema import NumericAttribute, Schema
from simulations.own_patients import Patients, own_patients
from simulations.references import STRENGTHS, LabelledRecords, alike_folds, cross_validated

WIDTH = 20


def schema(number=False):
    attributes = tuple(NumericAttribute(f"x{place}", -5.0, 5.0) for place in range(WIDTH))
    if number:
        return Schema(attributes=attributes, label="y", label_bounds=(-20.0, 20.0))
    return Schema(attributes=attributes, label="y", classes=("no", "yes"))


def patients(n, *, signal=0.0, seed=0, number=False):
    """A table with labels."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, WIDTH)).round(3)
    latent = signal * points[:, 0] + rng.logistic(size=n)
    labels = latent if number else np.where(latent > 0, "yes", "no")
    return pl.DataFrame({f"x{place}": points[:, place] for place in range(WIDTH)}).with_columns(y=pl.Series(labels))


def risks(n, seed=1):
    chance = np.random.default_rng(seed).uniform(size=n)
    return np.column_stack([1 - chance, chance])


def test_the_model_s_scores_are_those_of_scikit_learn():
    table = patients(150, signal=1.0)
    values, ones = risks(150), (table["y"] == "yes").to_numpy()
    compared = own_patients(Patients.of(table, schema()), values)
    assert compared["AUC"].federation.value == pytest.approx(roc_auc_score(ones, values[:, 1]))
    assert compared["accuracy"].federation.value == pytest.approx(accuracy_score(ones, values[:, 1] > 0.5))
    assert compared["accuracy"].constant.value == pytest.approx(max(ones.mean(), 1 - ones.mean()))
    gain = compared["AUC"].gain
    assert gain.value == pytest.approx(compared["AUC"].federation.value - compared["AUC"].regression.value)
    assert gain.low < gain.value < gain.high


def test_of_a_number_it_is_r2():
    table = patients(100, signal=2.0, number=True)
    values = table["x0"].to_numpy() * 2
    compared = own_patients(Patients.of(table, schema(number=True)), values)
    assert compared.keys() == {"R²"}
    assert compared["R²"].federation.value == pytest.approx(r2_score(table["y"], values))
    assert compared["R²"].regression.value > 0.2


def test_the_own_regression_learns_nothing_of_a_record_from_itself():
    """Labels of a coin: fitted to 120 records of 20 attributes it would seem to rank them; an area has a deviation of
    0.053 here."""
    table = patients(120)
    records = encode_frame(table, schema())
    area = own_patients(Patients.of(table, schema()), risks(120))["AUC"].regression.value
    points = coordinates(standardising_map(records), records)
    ones = table["y"] == "yes"
    fitted = LogisticRegression(max_iter=2000).fit(points, ones)
    assert roc_auc_score(ones, fitted.predict_proba(points)[:, 1]) > 0.5 + 3.5 * 0.053
    assert abs(area - 0.5) < 3.5 * 0.053


def test_the_own_regression_is_scikit_learn_s_cross_validation(monkeypatch):
    """With one strength to choose from, and features on a scale that hardly differs from fold to fold."""
    monkeypatch.setattr("simulations.references.STRENGTHS", STRENGTHS[4:5])
    table = patients(300, signal=1.5)
    records = encode_frame(table, schema())
    own = LabelledRecords(records, (table["y"] == "yes").to_numpy().astype(np.intp), 2)
    answers = cross_validated(own)
    points = coordinates(standardising_map(records), records)
    model = LogisticRegression(C=STRENGTHS[4], max_iter=2000)
    by_sklearn = cross_val_predict(
        model, points, own.labels, cv=PredefinedSplit(alike_folds(own, None)), method="predict_proba"
    )
    np.testing.assert_allclose(answers.probabilities, by_sklearn, atol=0.02)


def test_records_of_a_single_patient_or_of_nobody_are_refused():
    table = patients(20)
    with pytest.raises(ConfigurationError, match="all records are of one 'patient'"):
        Patients.of(table.with_columns(patient=pl.lit("p")), schema(), "patient")
    names = pl.Series("patient", ["p", None] * 10)
    with pytest.raises(ConfigurationError, match="'patient' is empty in row 2"):
        Patients.of(table.with_columns(names), schema(), "patient")


def test_records_of_one_patient_are_never_on_both_sides():
    """Each patient twice: whoever learns from the one copy knows the other's label, unless they stay together."""
    table = patients(100)
    twice = pl.concat([table, table]).with_columns(patient=pl.Series(list(range(100)) * 2))
    apart = own_patients(Patients.of(twice, schema()), risks(200))["AUC"].regression.value
    together = own_patients(Patients.of(twice, schema(), "patient"), risks(200))["AUC"].regression.value
    assert together < apart
    assert abs(together - 0.5) < 3.5 * 0.058  # of 100 patients


def test_the_own_regression_learns_from_other_records_where_there_are_some():
    """It is scikit-learn's, at a strength of the table, fitted to those alone."""
    table, learnt = patients(150, signal=1.5), patients(250, signal=1.5, seed=7)
    compared = own_patients(Patients.of(table, schema()), risks(150), Patients.of(learnt, schema()))
    records, private = encode_frame(table, schema()), encode_frame(learnt, schema())
    features = standardising_map(private)
    areas = []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=2000)
        model.fit(coordinates(features, private), learnt["y"] == "yes")
        areas.append(roc_auc_score(table["y"] == "yes", model.decision_function(coordinates(features, records))))
    assert compared["AUC"].regression.value in [pytest.approx(area) for area in areas]


def test_a_class_that_is_too_rare_for_a_regression_leaves_the_model_s_scores():
    table = patients(40)
    table = table.with_columns(y=pl.Series(["yes", *["no"] * 39]))
    compared = own_patients(Patients.of(table, schema()), risks(40))
    assert compared["AUC"].regression is None
    assert compared["AUC"].gain is None
    assert 0 <= compared["AUC"].federation.value <= 1
    table = table.with_columns(y=pl.Series(["no"] * 40))
    compared = own_patients(Patients.of(table, schema()), risks(40))
    assert "AUC" not in compared
    assert compared["accuracy"].constant.value == 1


def test_of_very_many_records_some_are_drawn(monkeypatch):
    monkeypatch.setattr(simulations.own_patients, "MOST_COMPARED", 50)
    table = patients(120, signal=1.0)
    compared = own_patients(Patients.of(table, schema()), risks(120))
    assert {joining.records for joining in compared.values()} == {50}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([None, *["no"] * 19], "empty in row 1"),
        (["no", "perhaps", *["yes"] * 18], "other than the declared classes 'no' and 'yes' in row 2"),
    ],
)
def test_labels_that_are_none_are_refused_without_their_value(labels, said):
    table = patients(20)
    with pytest.raises(ConfigurationError, match=said) as refused:
        Patients.of(table.with_columns(y=pl.Series(labels)), schema())
    assert "perhaps" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="lack the label's column 'y'"):
        Patients.of(table.drop("y"), schema())
    with pytest.raises(ConfigurationError, match="a single record"):
        Patients.of(table[:1], schema())
