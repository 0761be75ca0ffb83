"""A model's file: it predicts to the last bit what the model did, and what is wrong with it is one plain sentence."""

import pkgutil
import subprocess
import sys
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone

import expril
from learner_node.models.codec import pack, put_together, take_apart, unpack
from learner_node.models.files import KINDS, METADATA, StudyModel, encode_model, load_model
from learner_node.strategies.base import ErrorEstimate, class_probabilities
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.partitions import FeatureBins, Partition
from protocol.record_frames import encode_frame
from simulations.local import SimulatedExPriLClassifier
from study_models import MAKERS, by_site, people, schema, two_classes, written


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
