"""A model's file: it predicts to the last bit what the model did, and what is wrong with it is one plain sentence."""

import pkgutil
import subprocess
import sys
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import polars as pl
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone

import expril
from learner_node.kinds.models.classifiers import ForestModel, LinearInSite, NaiveBayesModel
from learner_node.kinds.models.moments import RidgeModel
from learner_node.models.codec import pack, put_together, take_apart, unpack
from learner_node.models.files import KINDS, METADATA, StudyModel, encode_model, load_model
from learner_node.models.label_model.additive import AdditiveFit, ShapeBin, ShapeFunction
from learner_node.models.label_model.cell_networks import CellNetworks
from learner_node.models.label_model.gaussian_process import Component, LabelModel
from learner_node.models.label_model.one_against_rest import ClassesLabelModel
from learner_node.models.label_model.random_features import Kernel
from learner_node.models.source import standardising_map
from learner_node.strategies.additive import AdditiveModel
from learner_node.strategies.base import ErrorEstimate, class_probabilities
from learner_node.strategies.cells import CellsClassesModel, CellsModel
from learner_node.strategies.cells_number import NetworkNumberModel
from learner_node.strategies.paper import NetworkModel
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.hypotheses import Mlp
from protocol.kinds.models import Forest, LogisticRegression, Moments, Points
from protocol.partitions import FeatureBins, Partition
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from simulations.local import SimulatedExPriLClassifier

ATTRIBUTES = (NumericAttribute("x", -3.0, 3.0), CategoricalAttribute("colour", ("red", "green")))


def schema(classes=("no", "yes"), bounds=None):
    return Schema(attributes=ATTRIBUTES, label="sick", classes=classes if bounds is None else (), label_bounds=bounds)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    colours = rng.choice(np.array(["red", "green", "blue", None], object), n)
    numbers = [None if value > 2.5 else float(value) for value in rng.uniform(-4, 4, n)]
    return pl.DataFrame({"x": numbers, "colour": colours.tolist()}, schema={"x": pl.Float64, "colour": pl.String})


def feature_map(of):
    return standardising_map(encode_frame(people(40), of))


def label_model(rng, width, cells=5, components=2):
    """As a fit leaves it, `reduction` by column, since a product of matrices left it so."""
    made = [
        Component(
            kernel=Kernel(*(float(rng.uniform(low, high)) for low, high in ((0.5, 2), (0, 3), (0.2, 4), (0, 1)))),
            weight=1.0 / components,
            mean=rng.normal(size=1001 + width) / 30,
            reduction=np.asfortranarray(rng.normal(size=(1001 + width, cells)).astype(np.float32) / 40),
            within=float(rng.uniform(0, 0.1)),
            least_variance=float(rng.uniform(0.001, 0.1)),
        )
        for _ in range(components)
    ]
    return LabelModel(
        rng.uniform(0, 3, 40), float(rng.uniform(1, 99)), -np.inf, rng.normal(size=(width, 500)), tuple(made)
    )


def networks(rng, width):
    sizes = [(width, 4), (4, 1)]
    layers = [(rng.normal(size=(3, a, b)), rng.normal(size=(3, 1, b))) for a, b in sizes]
    return CellNetworks(tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers), 0.25)


def perceptron(rng, of):
    features = feature_map(of)
    layers = [(rng.normal(size=(3, features.width)), rng.normal(size=3)), (rng.normal(size=(1, 3)), rng.normal(size=1))]
    return Mlp.of(features, layers)


def two_classes(seed):
    rng, of = np.random.default_rng(seed), schema()
    features = feature_map(of)
    model = CellsModel(features, label_model(rng, features.width), networks(rng, features.width), 1.25)
    return StudyModel(of, {"": model}, {"": 40.0}, {"learner": "ada"})


def by_site(seed):
    rng, of = np.random.default_rng(seed), schema()
    features = feature_map(of)
    models = {
        "north": CellsModel(features, label_model(rng, features.width)),
        "söuth/1": NetworkModel(perceptron(rng, of)),
    }
    return StudyModel(of, models, {"north": 30.5, "söuth/1": 10.0})


def three_classes(seed):
    rng, of = np.random.default_rng(seed), schema(("a", "b", "c"))
    features = feature_map(of)
    models = tuple(label_model(rng, features.width) for _ in of.classes)
    labels = ClassesLabelModel(rng.uniform(size=40), models)
    return StudyModel(of, {"": CellsClassesModel(features, labels, rng.uniform(0.1, 1.0, len(models)))}, {"": 1.0})


def a_number(seed):
    rng, of = np.random.default_rng(seed), schema(bounds=(-2.0, 5.0))
    error = ErrorEstimate(0.5, 0.25, 0.75, 9.0) if seed % 2 else None
    return StudyModel(of, {"": NetworkNumberModel(perceptron(rng, of), (-2.0, 5.0), error)}, {"": 2.0})


def additive(seed):
    """Six bins of x, four of the colour."""
    rng, of = np.random.default_rng(seed), schema()
    partitions = (FeatureBins(attribute="x", edges=(-1.0, 0.0, 0.5, 2.0)), FeatureBins(attribute="colour", edges=()))
    root = rng.normal(size=(11, 11))
    fit = AdditiveFit(
        intercept=float(rng.normal()),
        contributions=rng.normal(size=10),
        covariance=root @ root.T,
        starts=np.array([0, 6, 10]),
        scales=rng.uniform(size=2),
        source_mass=rng.uniform(size=40),
        log_evidence=-3.5,
    )
    shape = ShapeFunction("x", numeric=True, bins=(ShapeBin("below -1", None, -1.0, 0.25, 0.5, -0.25, 1.25),))
    return StudyModel(of, {"": AdditiveModel(partitions, fit, (shape,))}, {"": 7.0})


def in_site(seed):
    """A model a curator: naive Bayes of a binned attribute and of one by its moments, a forest, a linear classifier."""
    rng, of = np.random.default_rng(seed), schema()
    features = feature_map(of)
    points = Points(width=features.width, radius=64, constant=16)
    bayes = NaiveBayesModel(
        (FeatureBins(attribute="colour", edges=()),),
        (np.log(rng.dirichlet(np.ones(4), 2).T),),
        (Moments("x", -3.0, 3.0),),
        rng.uniform(size=(1, 2)),
        rng.uniform(0.1, 1, size=(1, 2)),
        np.log([0.25, 0.75]),
    )
    trees = Forest(width=features.width, trees=3, depth=2, span=4096, seed=7)
    votes, trust = rng.uniform(size=(3, 4, 2)), rng.uniform(0.1, 9, size=(3, 4))
    method = LogisticRegression(points=points, regulariser=Rational(8, 1), steps=1024)
    models = {
        "bayes": bayes,
        "forest": ForestModel(features, trees, votes, trust, np.array([0.5, 0.5])),
        "linear": LinearInSite(features, method, rng.normal(size=points.coordinates)),
    }
    return StudyModel(of, models, {"bayes": 3.0, "forest": 2.0, "linear": 1.0})


def in_site_number(seed):
    rng, of = np.random.default_rng(seed), schema(bounds=(-2.0, 5.0))
    points = Points(width=feature_map(of).width, radius=64, constant=16)
    model = RidgeModel(feature_map(of), points, rng.normal(size=points.coordinates) / 64, (-2.0, 5.0))
    return StudyModel(of, {"": model}, {"": 2.0})


MAKERS = (two_classes, by_site, three_classes, a_number, additive, in_site, in_site_number)


def written(model, folder):
    path = folder / "model.safetensors"
    path.write_bytes(encode_model(model))
    return path


@settings(max_examples=25, deadline=None)
@given(make=st.sampled_from(MAKERS), seed=st.integers(0, 2**32 - 1), size=st.integers(1, 60))
def test_a_model_predicts_to_the_last_bit_as_before(tmp_path_factory, make, seed, size):
    model, table = make(seed), people(size, seed)
    found = load_model(written(model, tmp_path_factory.mktemp("model")))
    assert (found.schema, found.masses, found.about) == (model.schema, model.masses, model.about)
    assert encode_model(found) == encode_model(model)
    records = encode_frame(table, model.schema)
    for name, one in model.models.items():
        if model.schema.label_bounds is not None:
            assert np.array_equal(found.predict(table), one.predict_number(records))
            continue
        expected = class_probabilities(one, records)
        said = found.predict_proba(table, name or None)
        assert np.array_equal(said, expected)
        assert list(found.predict(table, name or None)) == [model.schema.classes[i] for i in expected.argmax(axis=1)]


def test_a_model_in_bytes_predicts_as_before_and_other_bytes_are_refused():
    """As a journal keeps it: by its type alone."""
    for make in MAKERS:
        model = make(3)
        one, records = next(iter(model.models.values())), encode_frame(people(30), model.schema)
        data = pack(one, type(one))
        found = unpack(data, type(one))
        assert pack(found, type(one)) == data
        of_number = model.schema.label_bounds is not None
        said = [
            each.predict_number(records) if of_number else class_probabilities(each, records) for each in (one, found)
        ]
        assert np.array_equal(*said)
        for wrong in (
            b"",
            data[:-1],
            data + b"0",
            data.replace(b"<f8", b"|O8"),
            data.replace(b'"by":"row"', b'"by":"???"'),
        ):
            if wrong != data:
                with pytest.raises(RemoteProtocolError):
                    unpack(wrong, type(one))
        with pytest.raises(RemoteProtocolError):
            unpack(data, ErrorEstimate)


def test_models_of_several_sites_are_mixed_by_their_masses(tmp_path):
    model = by_site(3)
    table = people(20)
    found = load_model(written(model, tmp_path))
    north, south = (found.predict_proba(table, name) for name in ("north", "söuth/1"))
    np.testing.assert_allclose(found.predict_proba(table), (30.5 * north + 10 * south) / 40.5, rtol=1e-12)
    with pytest.raises(ConfigurationError, match="models of their own: north, söuth/1"):
        found.predict(table, "west")


@dataclass(frozen=True)
class Odd:
    either: int | str


def test_every_kind_of_model_is_tried_here_and_others_are_refused():
    made = {type(one) for make in MAKERS for one in make(1).models.values()}
    assert {pkgutil.resolve_name(where) for where in KINDS.values()} == made
    with pytest.raises(TypeError, match="no type that is kept"):
        take_apart(Odd(3), Odd, {})
    with pytest.raises(TypeError, match="not in KINDS"):
        encode_model(StudyModel(schema(), {"": Odd(3)}, {"": 1.0}))


def test_tagged_structs_and_none_among_them():
    partition = FeatureBins(attribute="x", edges=(0.5, 1.5))
    kind = tuple[Partition | None, ...]
    assert put_together(take_apart((partition, None), kind, {}), kind, {}) == (partition, None)


@dataclass(frozen=True)
class Young:
    """A class that gained a field since a file of it was written."""

    array: NDArray[np.float64]
    new: float = 2.5


def test_a_field_that_is_newer_than_the_file_takes_its_default_and_a_stranger_is_refused():
    arrays = {}
    plain = take_apart(Young(np.ones(2), 9.0), Young, arrays)
    assert put_together(plain, Young, arrays).new == 9.0
    del plain["new"]
    assert put_together(plain, Young, arrays).new == 2.5
    with pytest.raises(ValueError, match="Young has no other"):
        put_together({**plain, "other": 1}, Young, arrays)
    with pytest.raises(KeyError):
        put_together({}, Young, arrays)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -0.0, 5e-324, 0.1])
def test_every_float_survives(number):
    plain = msgspec.json.decode(msgspec.json.encode(take_apart(number, float, {})))
    assert np.array_equal(put_together(plain, float, {}), number, equal_nan=True)
    assert np.signbit(put_together(plain, float, {})) == np.signbit(number)


def test_arrays_keep_how_they_lie_in_memory_and_equal_ones_are_kept_once(tmp_path):
    rng = np.random.default_rng(0)
    array = np.asfortranarray(rng.normal(size=(4, 3)))
    arrays = {}
    kind = tuple[NDArray[np.float64], ...]
    first, second, third = put_together(take_apart((array, array.copy("K"), array.T), kind, arrays), kind, arrays)
    assert first.flags.f_contiguous
    assert third.flags.c_contiguous
    assert np.array_equal(first, second)
    assert len(arrays) == 1  # the transpose lies in memory as the array does
    with pytest.raises(TypeError, match="float32 where float64"):
        take_apart((array.astype(np.float32),), kind, {})
    with pytest.raises(TypeError):
        take_apart((np.array([{}]),), kind, {})


def test_what_is_wrong_with_a_file_is_said(tmp_path):
    model = two_classes(0)
    path = written(model, tmp_path)
    with pytest.raises(ConfigurationError, match="no model file"):
        load_model(tmp_path / "nowhere")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ConfigurationError, match="no model file, or is damaged"):
        load_model(path)
    path.write_bytes(safetensors.numpy.save({"x": np.ones(3)}))
    with pytest.raises(ConfigurationError, match="no model file of ExPriL"):
        load_model(path)
    header = {"format": 1, "schema": msgspec.to_builtins(model.schema), "models": {}}
    for changes, said in (
        ({"format": 2}, "not of format 1"),
        ({"models": {"": {"kind": "oracle", "mass": 1.0, "state": {}}}}, r"does not know \(oracle\)"),
        ({"models": {"": {"kind": "cells by probit", "mass": 1.0, "state": {"networks": None}}}}, "is damaged"),
        ({"models": {}}, "is damaged"),
        ({"models": 3}, "is damaged"),
    ):
        text = msgspec.json.encode({**header, **changes}).decode()
        path.write_bytes(safetensors.numpy.save({}, metadata={METADATA: text}))
        with pytest.raises(ConfigurationError, match=said):
            load_model(path)


def test_arrays_that_do_not_fit_each_other_are_damage(tmp_path):
    model = two_classes(0)
    (one,) = model.models.values()
    broken = replace(one, labels=replace(one.labels, _frequencies=one.labels._frequencies[:1]))
    with pytest.raises(ConfigurationError, match="is damaged"):
        load_model(written(StudyModel(model.schema, {"": broken}, {"": 1.0}), tmp_path))
    sick = replace(one, labels=replace(one.labels, _frequencies=one.labels._frequencies * np.nan))
    with pytest.raises(ConfigurationError, match="is damaged"):
        load_model(written(StudyModel(model.schema, {"": sick}, {"": 1.0}), tmp_path))


@settings(max_examples=40, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), part=st.sampled_from(["header", "anywhere"]))
def test_a_changed_byte_gives_a_plain_error_or_probabilities(tmp_path_factory, place, flip, part):
    data = bytearray(encode_model(by_site(1)))
    size = 8 + int.from_bytes(data[:8], "little") if part == "header" else len(data)
    data[int(place * size)] ^= flip
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    path.write_bytes(bytes(data))
    try:
        found = load_model(path)
    except ConfigurationError:
        return
    with np.errstate(all="ignore"):
        said = found.predict_proba(people(3))
    assert said.shape == (3, 2)


def test_a_study_in_python_is_kept_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = (X[:, 0] > 0).astype(int)
    study = SimulatedExPriLClassifier(bounds=(-2, 2), options={"networks": False, "cells": 5}, random_state=0)
    study = clone(study).fit(X, y)
    path = tmp_path / "study.safetensors"
    path.write_bytes(encode_model(StudyModel.of(study.learned_, {"learner": "me"})))
    found = expril.load(path)
    np.testing.assert_allclose(found.predict_proba(X), study.predict_proba(X), rtol=1e-15, atol=1e-15)
    assert np.mean(found.predict(X).astype(int) == y) > 0.9
    assert expril.load(tmp_path).about == {"learner": "me"}
    with pytest.raises(ConfigurationError, match="it holds those of me in repeat 0"):
        expril.load(tmp_path, "you")


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, expril; print(sorted({'numpy', 'torch', 'sklearn', 'msgspec', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
