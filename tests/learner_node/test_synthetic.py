"""The weighted synthetic data set: its columns, its arithmetic, and the files it is written to."""

import numpy as np
import polars as pl
import pytest

from learner_fakes import NoNoise, federate, open_curator, ring
from learner_node.estimator import ExPriLClassifier
from learner_node.models.synthetic import held_columns, mixed, pooled_estimate, synthetic_frame, write_frame
from learner_node.strategies.base import SourceEstimate
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

CLASSES = np.array(["no", "yes"])
ESTIMATE = SourceEstimate(np.array([2.0, 0.0, 1.5]), np.array([0.9, 0.5, 0.1]))
SOURCE = pl.DataFrame({"id": ["a", "b", "c"], "x": [1.0, None, 3.0]})
SCHEMA = Schema(
    attributes=(CategoricalAttribute("sex", ("f", "m")), NumericAttribute("age", 0, 100), NumericAttribute("x", 0, 1)),
    label="sick",
    classes=("no", "yes"),
)
TEXTS = pl.DataFrame(
    {
        "patient": ["p1", "p2", "p3"],
        "x": ["?", " 0.5", "1e-1"],
        "age": ["130", "", "64"],
        "sex": [" f", "NA", "unknown"],
        "sick": ["no", "no", "yes"],
    }
)


def test_only_the_cards_attributes_are_held_in_its_order_and_types():
    held = held_columns(TEXTS, SCHEMA)
    assert held.schema == {"sex": pl.String, "age": pl.Float64, "x": pl.Float64}
    assert held.rows() == [("f", 130.0, None), (None, None, 0.5), ("unknown", 64.0, 0.1)]
    encoded, again = encode_frame(TEXTS, SCHEMA), encode_frame(held, SCHEMA)
    assert np.array_equal(encoded.numeric, again.numeric, equal_nan=True)
    assert np.array_equal(encoded.categorical, again.categorical)


@pytest.mark.parametrize(
    ("age", "held"),
    [
        (pl.Series([3, None, 130]), [3.0, None, 130.0]),
        (pl.Series([0.5, float("nan"), float("inf")]), [0.5, None, float("inf")]),
        (pl.Series([True, False, None]), [1.0, 0.0, None]),
        (pl.Series([None, None, None], dtype=pl.Null), [None] * 3),
    ],
)
def test_numbers_of_any_type_are_float64_and_levels_are_texts(age, held):
    frame = held_columns(TEXTS.with_columns(age=age, sex=pl.Series([1, 2, None])), SCHEMA)
    assert frame["age"].to_list() == held
    assert frame["age"].dtype == pl.Float64
    assert frame["sex"].to_list() == ["1", "2", None]


def test_further_columns_are_kept_by_name_as_they_are():
    source = TEXTS.with_columns(row=pl.Series([7, 8, 9]))
    held = held_columns(source, SCHEMA, ["row", "patient", "age", "row"])
    assert held.columns == ["sex", "age", "x", "row", "patient"]
    assert held["row"].to_list() == [7, 8, 9]
    assert held["patient"].to_list() == ["p1", "p2", "p3"]


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        (["patiemt"], "no column 'patiemt' to keep; did you mean 'patient'"),
        ("patient", r"list of column names, such as \['patient'\]"),
        (["sick"], "labels of the source are never used"),
    ],
)
def test_a_column_that_cannot_be_kept_is_an_error(keep, text):
    with pytest.raises(ConfigurationError, match=text):
        held_columns(TEXTS, SCHEMA, keep)


def test_the_sources_columns_then_weight_label_and_probability():
    frame = synthetic_frame(SOURCE, ESTIMATE, label="sick", classes=CLASSES)
    assert frame.to_dict(as_series=False) == {
        "id": ["a", "b", "c"],
        "x": [1.0, None, 3.0],
        "weight": [2.0, 0.0, 1.5],
        "sick": ["yes", "no", "no"],
        "sick_probability": [0.9, 0.5, 0.1],
    }


def test_a_name_that_is_taken_is_an_error_and_weights_can_be_renamed():
    heavy = SOURCE.with_columns(weight=70.0)
    with pytest.raises(ConfigurationError, match="'weight' of its own"):
        synthetic_frame(heavy, ESTIMATE, label="sick", classes=CLASSES)
    frame = synthetic_frame(heavy, ESTIMATE, label="sick", classes=CLASSES, weight="stands_for")
    assert frame["weight"].to_list() == [70.0] * 3
    assert frame["stands_for"].to_list() == [2.0, 0.0, 1.5]
    with pytest.raises(ConfigurationError, match="'sick_probability' of its own"):
        synthetic_frame(SOURCE.with_columns(sick_probability=0.0), ESTIMATE, label="sick", classes=CLASSES)
    for weight in ("sick", "sick_probability"):
        with pytest.raises(ConfigurationError, match="name of a label column"):
            synthetic_frame(SOURCE, ESTIMATE, label="sick", classes=CLASSES, weight=weight)


def test_sites_mix_by_mass():
    a, b = np.array([1.0, 0.0, 0.4]), np.array([0.0, 1.0, 0.8])
    assert mixed([3.0, 1.0], [a, b]) == pytest.approx([0.75, 0.25, 0.5])
    assert mixed([np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 0.0])], [a, b]) == pytest.approx([0.5, 1.0, 0.6])
    assert mixed([5.0], [a]) == pytest.approx(a)


def test_pooled_estimates_keep_the_records_of_each_class():
    sites = [ESTIMATE, SourceEstimate(np.array([1.0, 0.0, 4.0]), np.array([0.2, 0.7, 1.0]))]
    pooled = pooled_estimate(sites)
    assert pooled.weights.tolist() == [3.0, 0.0, 5.5]
    assert pooled.weights @ pooled.probability == pytest.approx(sum(s.weights @ s.probability for s in sites))


@pytest.mark.family(1)
@pytest.mark.parametrize(
    ("ending", "read"), [(".csv", pl.read_csv), (".parquet", pl.read_parquet), (".CSV", pl.read_csv)]
)
def test_a_fitted_study_writes_what_it_returns(tmp_path, ending, read):
    curators = {"basel": open_curator("basel", ring(300, seed=1), noise=NoNoise())}
    source = ring(60, seed=2).drop("sick").with_columns(id=pl.int_range(60))
    model = ExPriLClassifier(federate(curators), options={"cells": 8}, random_state=0).fit(source)
    path = tmp_path / f"synthetic{ending}"
    model.write_synthetic(path)
    written = read(path)
    assert written.equals(model.synthetic_data())
    assert written.columns == ["x", "y", "weight", "sick", "sick_probability"]
    assert written.select("x", "y").equals(source.select("x", "y"))
    assert written["weight"].sum() == pytest.approx(300, rel=0.1)
    model.write_synthetic(str(path), weight="stands_for", keep=["id"])
    kept = read(path)
    assert kept.columns == ["x", "y", "id", "stands_for", "sick", "sick_probability"]
    assert kept["id"].to_list() == list(range(60))


def test_another_ending_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match=r"\.csv, \.parquet"):
        write_frame(SOURCE, tmp_path / "synthetic.xlsx")
