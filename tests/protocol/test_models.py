"""What is planned and asked of in-site models: costs, refusals, bounded vectors, public randomness, known answers."""

import hashlib
import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expril.audit.generators.queries import model_queries_of
from expril.audit.generators.values import feature_bins_of, feature_maps_of, records_of, schemas
from expril.audit.kinds import AUDITED_KINDS
from expril_conformance import vectors
from generators import QUERIES
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import STEPS, FeatureMap, NumericFeature
from protocol.kinds import QUERY_KINDS
from protocol.kinds.model import MODEL, ModelBody, ModelLimits, ModelRelease, PlannedModel
from protocol.kinds.models import (
    METHODS,
    Attributes,
    Centres,
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LogisticRegression,
    Mapped,
    Moments,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.kinds.models.forest import random_trees
from protocol.kinds.models.linear import TABLE, cosines, feature_rows, frequencies
from protocol.kinds.models.method import normals, words
from protocol.partitions import FeatureBins
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

MODEL_AUDIT = AUDITED_KINDS.audits["model"]
ONE = Rational(1, 1)
X = FeatureMap((NumericFeature("x", offset=0.0, factor=1.0, imputation=0.0),))
SCHEMA = Schema(
    (NumericAttribute("x", -2.0, 2.0), CategoricalAttribute("s", ("a", "b"))), label="y", classes=("no", "yes")
)
NUMBER = msgspec.structs.replace(SCHEMA, classes=(), label_bounds=(0.0, 1.0))
THREE = msgspec.structs.replace(SCHEMA, classes=("a", "b", "c"))
LINE = Points(width=1, radius=STEPS)
BAYES = NaiveBayes(binned=1)
LOGISTIC = LogisticRegression(points=LINE, regulariser=ONE, steps=1024)


def planned(method, *, epsilon=ONE, models=1):
    return PlannedModel(method=method, epsilon=epsilon, models=models)


@st.composite
def asked(draw):
    schema = draw(schemas())
    query, body = draw(model_queries_of(schema, feature_maps_of(schema), feature_bins_of(schema)))
    return schema, query, body


@settings(max_examples=20, deadline=None)
@given(asked(), st.integers(1, 5))
def test_a_query_costs_its_epsilon_and_is_read_back(case, bound):
    schema, query, body = case
    assert decode(encode(query), PlannedModel) == query
    MODEL.check_planned(query)
    MODEL.check_allowed(query, KindTerms(schema, ModelLimits()), "plan")
    assert MODEL.cost(query, bound) == query.epsilon.fraction
    (law,) = MODEL_AUDIT.laws(query, bound)
    assert law.noise.loss(law.shift) * law.releases == query.epsilon.fraction
    turn = Turn(query)
    read = MODEL.read_body(body, turn, KindTerms(schema, ModelLimits()))
    assert encode(read) == body
    length = query.models * query.method.length(read.models[0], schema)
    release = encode(ModelRelease(np.arange(length).tobytes()))
    assert len(release) <= MODEL.release_bytes(Question(turn, read, schema))
    assert MODEL.read_release(release, Question(turn, read, schema)).tolist() == list(range(length))
    with pytest.raises(RemoteProtocolError):
        MODEL.read_release(encode(ModelRelease(bytes(8 * length + 8))), Question(turn, read, schema))
    assert MODEL.work(Question(turn, read, schema), 10**6) > MODEL.work(Question(turn, read, schema), 1) > 0


def test_a_scale_of_more_than_32_bits_is_refused_with_the_plan():
    fine = LogisticRegression(points=Points(width=1000, radius=1), regulariser=ONE, steps=2**20)
    query = planned(fine, epsilon=Rational(1, 1000))
    with pytest.raises(RemoteProtocolError) as caught:
        QUERY_KINDS.cost(query, 1)
    assert (caught.value.code, caught.value.field) == (RefusalCode.BAD_PLAN, "plan.queries.epsilon")
    assert QUERY_KINDS.cost(planned(fine, epsilon=Rational(1, 10)), 1) == Fraction(1, 10)


@pytest.mark.parametrize(
    "method",
    [
        NaiveBayes(binned=0),
        NaiveBayes(binned=1, steps=2),
        KMeans(points=LINE, clusters=1, iterations=1),
        Forest(width=1, trees=1000, depth=12, span=1, seed=0),
        LogisticRegression(points=LINE, regulariser=Rational(1, 2), steps=1024),
        LogisticRegression(points=Points(width=8000, radius=1), regulariser=ONE, steps=1024),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(method):
    with pytest.raises(RemoteProtocolError) as caught:
        MODEL.check_planned(planned(method))
    assert caught.value.code == RefusalCode.BAD_PLAN


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": [0, 1]},
        {"epsilon": 1.0},
        {"models": 0},
        {"models": 1001},
        {"method": {"type": "no such method"}},
        {"method": {"type": "naive_bayes", "binned": -1, "moments": 0, "steps": 1}},
        {"method": {"type": "naive_bayes", "binned": 1, "moments": 0, "steps": math.nan}},
        {"method": {"type": "naive_bayes", "binned": 1, "moments": 0, "steps": 0}},
    ],
)
def test_a_plan_that_is_no_plan_is_refused(changed):
    good = msgspec.msgpack.decode(encode(planned(BAYES, models=2)))
    assert decode(encode(good), PlannedModel) == planned(BAYES, models=2)
    with pytest.raises(RemoteProtocolError) as caught:
        decode(encode(good | changed), PlannedModel)
    assert caught.value.code == RefusalCode.MALFORMED


@pytest.mark.parametrize(
    ("method", "schema", "limits", "code"),
    [
        (BAYES, NUMBER, ModelLimits(), RefusalCode.BAD_PLAN),
        (LOGISTIC, THREE, ModelLimits(), RefusalCode.BAD_PLAN),
        (LOGISTIC, NUMBER, ModelLimits(), RefusalCode.BAD_PLAN),
        (LinearRegression(points=LINE, label_steps=1), SCHEMA, ModelLimits(), RefusalCode.BAD_PLAN),
        (BAYES, SCHEMA, ModelLimits(methods=("forest",)), RefusalCode.KIND_NOT_ALLOWED),
        (BAYES, SCHEMA, ModelLimits(models=1), RefusalCode.OVER_LIMIT),
    ],
)
def test_what_a_curator_does_not_allow_is_refused_with_the_plan(method, schema, limits, code):
    with pytest.raises(RemoteProtocolError) as caught:
        MODEL.check_allowed(planned(method, models=2), KindTerms(schema, limits), "plan.queries[0]")
    assert caught.value.code == code
    assert caught.value.field.startswith("plan.queries[0]")


def test_limits_name_known_methods():
    assert ModelLimits().methods == tuple(METHODS)
    with pytest.raises(msgspec.ValidationError, match="did you mean 'forest'"):
        msgspec.convert({"methods": ["forests"]}, ModelLimits)


K_MEANS = KMeans(points=Points(width=1, radius=4, constant=1), clusters=2, iterations=1)
TWO_WIDE = FeatureMap(X.features * 2)


@pytest.mark.parametrize(
    ("method", "body", "code"),
    [
        (BAYES, Mapped(X), RefusalCode.NOT_IN_PLAN),
        (BAYES, Attributes((Moments("x", 0.0, 1.0),)), RefusalCode.NOT_IN_PLAN),
        (BAYES, Attributes((FeatureBins("z", ()),)), RefusalCode.BAD_QUERY),
        (NaiveBayes(binned=0, moments=1), Attributes((Moments("s", 0.0, 1.0),)), RefusalCode.BAD_QUERY),
        (NaiveBayes(binned=0, moments=1), Attributes((Moments("x", 1.0, 1.0),)), RefusalCode.BAD_QUERY),
        (NaiveBayes(binned=0, moments=1), Attributes((Moments("x", math.nan, 1.0),)), RefusalCode.BAD_QUERY),
        (NaiveBayes(binned=0, moments=1), Attributes((Moments("x", 0.0, math.inf),)), RefusalCode.BAD_QUERY),
        (NaiveBayes(binned=0, moments=1), Attributes((Moments("x", 0.0, 5e-324),)), RefusalCode.BAD_QUERY),
        (LOGISTIC, Mapped(TWO_WIDE), RefusalCode.NOT_IN_PLAN),
        (LOGISTIC, Mapped(FeatureMap((NumericFeature("x", 0.0, math.nan, 0.0),))), RefusalCode.BAD_QUERY),
        (LOGISTIC, Attributes((FeatureBins("x", ()),)), RefusalCode.NOT_IN_PLAN),
        (PrincipalComponents(points=LINE), Centres(X, b""), RefusalCode.NOT_IN_PLAN),
        (K_MEANS, Mapped(X), RefusalCode.NOT_IN_PLAN),
        (K_MEANS, Centres(X, bytes(4)), RefusalCode.NOT_IN_PLAN),
        (K_MEANS, Centres.of(X, np.array([[0], [5]])), RefusalCode.BAD_QUERY),
        (K_MEANS, Centres.of(X, np.array([[0], [-(2**31)]])), RefusalCode.BAD_QUERY),
    ],
)
def test_a_body_that_does_not_fit_its_plan_is_refused(method, body, code):
    with pytest.raises(RemoteProtocolError) as caught:
        MODEL.read_body(encode(ModelBody((body,))), Turn(planned(method)), KindTerms(SCHEMA, ModelLimits()))
    assert caught.value.code == code
    assert caught.value.field.startswith("body.models[0]")


def test_a_body_has_as_many_models_as_planned_and_no_more_numbers_than_allowed():
    good = Attributes((FeatureBins("x", ()),))
    for count, limits, code in (
        (1, ModelLimits(), RefusalCode.NOT_IN_PLAN),
        (3, ModelLimits(), RefusalCode.NOT_IN_PLAN),
        (2, ModelLimits(numbers=7), RefusalCode.OVER_LIMIT),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            MODEL.read_body(
                encode(ModelBody((good,) * count)), Turn(planned(BAYES, models=2)), KindTerms(SCHEMA, limits)
            )
        assert caught.value.code == code
    assert MODEL.read_body(
        encode(ModelBody((good,) * 2)), Turn(planned(BAYES, models=2)), KindTerms(SCHEMA, ModelLimits(numbers=8))
    )


whole = st.integers(-(2**18), 2**18)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 6), st.sampled_from([1, 2, 7, 255, 4095, 4096]), st.sampled_from([0, 1, 4096]))
def test_vectors_are_shrunk_as_in_whole_numbers_and_no_longer_than_told(data, width, radius, constant):
    """Against integers without a float; many points lie on the unit sphere, or beside it."""
    few = st.sampled_from(
        [0, 1, -1, STEPS, -STEPS, STEPS - 1, STEPS + 1, 2**18, -(2**18), 3 * STEPS // 5, 4 * STEPS // 5]
    )
    row = data.draw(st.lists(st.one_of(few, whole), min_size=width, max_size=width))
    points = Points(width=width, radius=radius, constant=constant)
    (vector,) = points.rows(np.array([row], np.float64)).astype(int).tolist()
    square = sum(value * value for value in row)
    length = max(STEPS, math.isqrt(square) + (math.isqrt(square) ** 2 < square))
    expected = [abs(value) * radius // length * (1 if value >= 0 else -1) for value in row]
    assert vector == [*expected, *([constant] if constant else [])]
    assert sum(value * value for value in expected) <= radius**2
    assert sum(map(abs, vector)) <= points.most_sum
    assert sum(value * value for value in vector) <= points.length_above**2
    products = [abs(a * b) for i, a in enumerate(vector) for b in vector[i:]]
    assert sum(products) <= points.most_products


def test_bounds_on_vectors_are_attained():
    points = Points(width=4, radius=2, constant=3)
    (vector,) = points.rows(np.full((1, 4), STEPS / 2.0)).tolist()
    assert vector == [1.0, 1.0, 1.0, 1.0, 3.0]
    assert sum(vector) == points.most_sum
    assert sum(a * b for i, a in enumerate(vector) for b in vector[i:]) == points.most_products


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_a_vector_is_the_same_alone_and_among_others(data):
    schema = data.draw(schemas())
    features = data.draw(feature_maps_of(schema))
    records = data.draw(records_of(schema))
    method = KernelSvm(
        width=features.width, frequencies=3, seed=5, radius=1000, constant=7, regulariser=ONE, steps=1024
    )
    rows = method.rows(features.points(records))
    assert (np.sum(rows**2, axis=1) <= method.length_above**2).all()
    for place in range(len(records)):
        alone = method.rows(features.points(records.take(slice(place, place + 1))))
        assert (alone == rows[place]).all()


@pytest.mark.parametrize("radius", [1, 10, 1000, 4096])
@pytest.mark.parametrize("count", [1, 2, 3, 100, 511])
def test_cosines_and_sines_are_no_longer_than_the_radius(radius, count):
    table = cosines(radius, count)
    assert (count * (table**2 + np.roll(table, TABLE // 4) ** 2) <= radius**2).all()
    exact = radius / math.sqrt(count) * np.cos(2 * np.pi * np.arange(TABLE) / TABLE)
    assert np.abs(table - exact).max() <= 1 + 1e-9


def test_random_features_approximate_the_kernel():
    """The mean of 511 products has a standard error of at most 0.032; six of them, and what rounding adds."""
    points = np.rint(np.random.default_rng(0).normal(size=(12, 3)) * STEPS)
    rows = feature_rows(points, 9, 511, 4096) / 4096
    distances = np.sum((points[:, None] - points[None]) ** 2, axis=2) / STEPS**2
    assert np.abs(rows @ rows.T - np.exp(-distances / 2)).max() < 0.25
    assert not np.array_equal(frequencies(9, 3, 511), frequencies(10, 3, 511))


def test_public_randomness_is_pinned():
    """By SHAKE-256 itself; a change is a change of the protocol."""
    data = hashlib.shake_256(b"expril/1 public randomness trees\x00\x00\x00\x07").digest(16)
    assert words(7, "trees", 2).tolist() == [int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")]
    drawn = normals(3, "frequencies", 4000)
    assert abs(drawn.mean()) < 0.1
    assert abs(drawn.std() - 1) < 0.1
    assert drawn[0] == pytest.approx(normals(3, "frequencies", 1)[0], abs=0)


@pytest.mark.parametrize("span", [1, 5, STEPS, 2**17])
def test_random_trees_are_trees(span):
    trees = random_trees(TWO_WIDE, 3, 5, span, 1)
    assert len(set(trees)) == 3
    for tree in trees:
        tree.check(SCHEMA, "tree")
        assert tree.cell_count(SCHEMA) == 32
    assert random_trees(TWO_WIDE, 3, 5, span, 2) != trees


def test_every_method_has_a_question_and_a_generator():
    assert MODEL_AUDIT.examples().keys() == METHODS.keys()
    for name, method in METHODS.items():
        assert method.__struct_config__.tag == name
    assert "model" in QUERIES


KNOWN = {case["name"]: case for case in vectors()["model"]["good"]}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_read_and_written_again_byte_for_byte(name):
    case = KNOWN[name]
    data = {what: bytes.fromhex(case["given"][what]) for what in ("schema", "planned", "body", "release")}
    schema, planned = decode(data["schema"], Schema), decode(data["planned"], PlannedModel)
    body = MODEL.read_body(data["body"], Turn(planned), KindTerms(schema, ModelLimits()))
    written = (schema, planned, body, decode(data["release"], ModelRelease))
    assert [encode(value) for value in written] == list(data.values())
    assert planned.name == name
    assert QUERY_KINDS.cost(planned, 2) == planned.models == 2
    assert planned.sensitivity(2) == case["taken"]["sensitivity"]
    told = MODEL.read_release(data["release"], Question(Turn(planned), body, schema))
    assert told.tolist() == list(range(len(told)))


def test_public_randomness_is_known():
    assert words(9, "trees", 4).tolist() == KNOWN["words"]["taken"]["numbers"]
    (tree,) = random_trees(FeatureMap((NumericFeature("age", 0.0, 1.0, 0.0),)), 1, 3, 4096, 9)
    assert tree.table.tolist() == KNOWN["tree"]["taken"]["numbers"]
    assert frequencies(9, 2, 3).tolist() == KNOWN["frequencies"]["taken"]["numbers"]
    assert cosines(100, 3)[::512].tolist() == KNOWN["cosines"]["taken"]["numbers"]
