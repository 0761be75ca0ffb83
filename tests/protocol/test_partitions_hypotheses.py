"""What the checks of a body refuse, with which code and which field; all of it before any record is read."""

import json
import math
import struct

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from generators import bodies, schemas
from protocol.codec import MOST_ENVELOPE_BYTES, encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import MOST_WIDTH, CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import HYPOTHESIS_KINDS, MOST_FAN_IN, MOST_LAYERS, Constant, Mlp
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, PlannedCounts
from protocol.partitions import PARTITION_KINDS, FeatureBins, NearestCentre
from protocol.partitions.grid_edges import COLUMN_COST, COMPARISON_COST
from protocol.partitions.nearest_centre import NEAREST_COST, TILE_COST
from protocol.query_kind import KindTerms, Turn
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from simulations.paper_ratio import PRINTED_COUNTS

SCHEMA = Schema(
    (NumericAttribute("x", 0.0, 1.0), CategoricalAttribute("c", ("a", "b")), NumericAttribute("z", 0.0, 1.0)),
    "y",
    ("no", "yes"),
)
X = NumericFeature("x", 0.0, 1.0, 0.0)
C = CategoricalFeature("c", ("a", "b"), 1.0, "")
MAP = FeatureMap((X, C))
LIMITS = CountsLimits()
BINS = FeatureBins("x", (0.5,))


def planned(release="mass", partitions=1):
    return PlannedCounts(release=release, partitions=partitions, scale=Rational(1, 1))


def refusal(call, *args):
    with pytest.raises(RemoteProtocolError) as caught:
        call(*args)
    return caught.value.code, caught.value.field


def assert_bad(subject, field):
    assert refusal(subject.check, SCHEMA, "here") == (RefusalCode.BAD_QUERY, field)


def network(*shapes, features=MAP):
    return Mlp.of(features, [(np.ones(shape, np.float32), np.ones(shape[0], np.float32)) for shape in shapes])


def with_tensors(**tensors):
    named = {name.replace("_", "."): value for name, value in tensors.items()}
    return Mlp(MAP, safetensors.numpy.save(named))


def with_header(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return Mlp(MAP, struct.pack("<Q", len(text)) + text + data)


def entry(shape, start, stop, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


W, B = np.ones((1, 4), np.float32), np.ones(1, np.float32)


@pytest.mark.parametrize(
    "edges",
    [
        (1.0, 0.0),
        (0.0, 0.0),
        (0.0, -0.0),
        (0.0, 1.0, 0.5),
        (math.nan,),
        (0.0, math.nan),
        (math.nan, 0.0, 1.0),
        (math.inf,),
        (-math.inf, 0.0),
    ],
)
def test_edges_must_be_finite_and_rise(edges):
    assert_bad(FeatureBins("x", edges), "here.edges")


@pytest.mark.parametrize("edges", [(), (0.0,), (-0.0,), (0.0, 5e-324), (-1e308, 1e308), (-5.0, 7.0)])
def test_edges_may_be_none_neighbours_or_beyond_the_bounds(edges):
    FeatureBins("x", edges).check(SCHEMA, "here")
    assert FeatureBins("x", edges).cell_count(SCHEMA) == len(edges) + 2


def test_a_categorical_attribute_has_no_edges():
    assert_bad(FeatureBins("c", (0.0,)), "here.edges")
    FeatureBins("c", ()).check(SCHEMA, "here")


@pytest.mark.parametrize("name", ["y", "X", "nowhere", " x"])
def test_an_attribute_that_is_not_on_the_card_is_refused(name):
    assert_bad(FeatureBins(name, ()), "here.attribute")
    for feature in (NumericFeature(name, 0.0, 1.0, 0.0), CategoricalFeature(name, ("a",), 1.0, "")):
        assert_bad(NearestCentre(FeatureMap((X, feature)), bytes(12)), "here.features.features[1].attribute")


@pytest.mark.parametrize("size", [4, 12, 15, 17, 20])
def test_centres_must_be_whole_rows(size):
    assert_bad(NearestCentre(MAP, bytes(size)), "here.centres")


@pytest.mark.parametrize("step", [2**18 + 1, -(2**18) - 1, 2**31 - 1, -(2**31)])
def test_centres_must_lie_within_the_grid(step):
    assert_bad(NearestCentre(MAP, struct.pack("<4i", 0, 0, 0, step)), "here.centres")


def test_centres_on_the_rim_of_the_grid_are_fine():
    for step in (2**18, -(2**18)):
        partition = NearestCentre(MAP, struct.pack("<8i", *[step] * 8))
        partition.check(SCHEMA, "here")
        assert partition.cell_count(SCHEMA) == 2
        assert partition.multiply_adds() == MAP.multiply_adds() + 2 * (4 + 1) // 2 + 2 * NEAREST_COST + TILE_COST


def test_centres_far_outside_are_clipped_where_they_are_made():
    NearestCentre.of(MAP, np.full((1, 4), 1e300)).check(SCHEMA, "here")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.1e15, -1e300])
def test_a_feature_map_has_finite_bounded_numbers(bad):
    for position in range(3):
        numbers = [0.0, 0.0, 0.0]
        numbers[position] = bad
        assert_bad(Mlp(FeatureMap((X, NumericFeature("x", *numbers))), b"x"), "here.features.features[1]")
    assert_bad(Mlp(FeatureMap((CategoricalFeature("c", ("a",), bad, ""),)), b"x"), "here.features.features[0]")


def test_a_feature_must_be_of_its_attributes_kind():
    assert_bad(
        NearestCentre(FeatureMap((NumericFeature("c", 0.0, 1.0, 0.0),)), bytes(4)),
        "here.features.features[0].attribute",
    )
    assert_bad(
        NearestCentre(FeatureMap((CategoricalFeature("x", ("a",), 1.0, ""),)), bytes(8)),
        "here.features.features[0].attribute",
    )


@pytest.mark.parametrize("levels", [("a", "a"), ("a", "b", "a"), ("other",), ("a", "")])
def test_levels_are_the_cards_each_once(levels):
    features = FeatureMap((X, CategoricalFeature("c", levels, 1.0, "")))
    assert_bad(NearestCentre(features, bytes(4 * features.width)), "here.features.features[1].levels")


def test_a_point_has_at_most_so_many_coordinates():
    NearestCentre(FeatureMap((X,) * MOST_WIDTH), bytes(4 * MOST_WIDTH)).check(SCHEMA, "here")
    assert_bad(NearestCentre(FeatureMap((C,) * 2731), bytes(4 * 8193)), "here.features")


def test_good_networks_pass():
    for shapes in ([(1, 4)], [(3, 4), (1, 3)], [(2, 4), *[(2, 2)] * (MOST_LAYERS - 2), (1, 2)]):
        network(*shapes).check(SCHEMA, "here")
    for extreme in (64.0, -64.0, 5e-324, -0.0):
        with_tensors(**{"0_weight": W * np.float32(extreme), "0_bias": B * np.float32(extreme)}).check(SCHEMA, "here")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 64.00001, -1e30])
@pytest.mark.parametrize("name", ["0_weight", "0_bias"])
def test_a_network_has_finite_bounded_weights(bad, name):
    tensors = {"0_weight": W.copy(), "0_bias": B.copy()}
    tensors[name].flat[-1] = bad
    assert_bad(with_tensors(**tensors), "here.weights.0")


@pytest.mark.parametrize(
    ("shapes", "layer"),
    [
        ([(1, 3)], 0),
        ([(1, 5)], 0),
        ([(2, 4)], 0),
        ([(3, 4), (2, 3)], 1),
        ([(3, 4), (1, 2)], 1),
        ([(3, 4), (3, 4), (1, 3)], 1),
    ],
)
def test_the_shapes_of_a_network_must_chain_to_one_logit(shapes, layer):
    assert_bad(network(*shapes), f"here.weights.{layer}")


def test_a_bias_must_have_its_layers_length():
    tensors = {"0_weight": np.ones((3, 4), np.float32), "0_bias": np.ones(2, np.float32)}
    tensors |= {"1_weight": np.ones((1, 3), np.float32), "1_bias": B}
    assert_bad(with_tensors(**tensors), "here.weights.0")


def test_a_layer_has_at_most_so_many_inputs():
    features = FeatureMap((X,) * (MOST_FAN_IN + 1))
    assert_bad(network((1, MOST_FAN_IN + 1), features=features), "here.weights.0")
    network((1, MOST_FAN_IN), features=FeatureMap((X,) * MOST_FAN_IN)).check(SCHEMA, "here")


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("0.weight",),
        ("0.bias",),
        ("0.weight", "0.bias", "extra"),
        ("0.weight", "0.bias", "1.weight"),
        ("1.weight", "1.bias"),
        ("0.weight", "0.Bias"),
        ("00.weight", "00.bias"),
        ("0.weight", "0.bias", "2.weight", "2.bias"),
    ],
)
def test_a_network_has_the_named_tensors_and_no_others(names):
    tensors = {name: W if name.endswith("weight") else B for name in names}
    assert_bad(Mlp(MAP, safetensors.numpy.save(tensors)), "here.weights")


def test_a_network_has_at_most_so_many_layers():
    assert_bad(network((2, 4), *[(2, 2)] * (MOST_LAYERS - 1), (1, 2)), "here.weights")


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int32, np.bool_])
def test_a_network_is_float32(kind):
    assert_bad(with_tensors(**{"0_weight": W.astype(kind), "0_bias": B}), "here.weights")


@pytest.mark.parametrize(
    ("weight", "bias", "data"),
    [
        (entry([0, 4], 0, 0), entry([0], 0, 0), 0),
        (entry([0, 4], 0, 0), entry([1], 0, 4), 4),
        (entry([1, 0], 0, 0), entry([1], 0, 4), 4),
        (entry([0, 2**63], 0, 0), entry([1], 0, 4), 4),
        (entry([0, 2**64 - 1], 0, 0), entry([1], 0, 4), 4),
        (entry([0, 2**62, 2**62], 0, 0), entry([1], 0, 4), 4),
        (entry([1] * 100, 0, 4), entry([1], 4, 8), 8),
        (entry([], 0, 4), entry([1], 4, 8), 8),
        (entry([4], 0, 16), entry([1], 16, 20), 20),
        (entry([1, 4], 0, 16), entry([], 16, 20), 20),
        (entry([1, 4], 0, 16), entry([1, 1], 16, 20), 20),
        (entry([1, 4, 1], 0, 16), entry([1], 16, 20), 20),
        (entry([2**32, 2**32], 0, 0), entry([1], 0, 4), 4),
        (entry([2**63, 2], 0, 0), entry([1], 0, 4), 4),
        (entry([1, 4], 0, 16), entry([1], 12, 16), 16),
        (entry([1, 4], 0, 16), entry([1], 0, 4), 16),
        (entry([1, 4], 0, 16), entry([1], 16, 2**64 - 1), 20),
        (entry([1, 4], 4, 20), entry([1], 20, 24), 24),
        (entry([1, 4], 0, 16), entry([1], 16, 20), 24),
        (entry([1, 4], 0, 16), entry([1], 16, 20), 16),
        (entry([1, 4], 16, 0), entry([1], 16, 20), 20),
        (entry([-1, -4], 0, 16), entry([1], 16, 20), 20),
        (entry([1.0, 4.0], 0, 16), entry([1], 16, 20), 20),
        (entry([1, 4], 0, 16, "F99"), entry([1], 16, 20), 20),
        (entry([1, 8], 0, 4, "F4"), entry([1], 4, 8), 8),
    ],
)
def test_a_hostile_tensor_table_is_a_bad_query(weight, bias, data):
    assert_bad(with_header({"0.weight": weight, "0.bias": bias}, bytes(data)), "here.weights")


@pytest.mark.parametrize(
    "weights",
    [
        b"\x00",
        b"\xff" * 8,
        bytes(8),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 100) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 50_000) + b"[" * 50_000,
        struct.pack("<Q", 60_000) + b'{"a":' * 12_000,
        b"PK\x03\x04 a pickle in a zip file",
        b"\x80\x04\x95 a pickle",
    ],
    ids=range(12),
)
def test_bytes_that_are_no_safetensors_file_are_a_bad_query(weights):
    assert_bad(Mlp(MAP, weights), "here.weights")


GOOD = network((2, 4), (1, 2)).weights


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(b'0129[]{},":-eEF\x00\xff ')), min_size=1, max_size=6))
@settings(deadline=None, max_examples=300)
def test_a_mutated_network_passes_or_is_a_bad_query(changes):
    mutated = bytearray(GOOD)
    for position, byte in changes:
        mutated[position % len(mutated)] = byte
    codes = []
    try:
        Mlp(MAP, bytes(mutated)).check(SCHEMA, "here")
    except RemoteProtocolError as error:
        codes.append(error.code)
    assert codes in ([], [RefusalCode.BAD_QUERY])


@given(st.integers(0, len(GOOD) - 1))
@settings(deadline=None, max_examples=60)
def test_a_truncated_network_is_a_bad_query(length):
    assert_bad(Mlp(MAP, GOOD[:length]), "here.weights")


def read(body, plan, limits=LIMITS):
    return COUNTS.read_body(encode(body), Turn(plan), KindTerms(SCHEMA, limits))


def test_a_good_body_is_read_back():
    body = CountsBody((BINS, FeatureBins("c", ())), Constant(1))
    assert read(body, planned("signed_error", 2)) == body


@given(bodies(), schemas())
@settings(deadline=None, max_examples=10)
def test_any_body_is_read_or_refused_whatever_the_schema(body, schema):
    codes = []
    try:
        turn = Turn(planned("paper_ratio", len(body.partitions)))  # with a hypothesis, or without
        PRINTED_COUNTS.read_body(encode(body), turn, KindTerms(schema, LIMITS))
    except RemoteProtocolError as error:
        codes.append(error.code)
    assert codes in ([], [RefusalCode.BAD_QUERY])


test_any_body_is_read_or_refused_whatever_the_schema_at_length = at_length(
    test_any_body_is_read_or_refused_whatever_the_schema, 100
)


def test_the_limit_of_cells_is_inclusive_and_counts_the_whole_workload():
    body = CountsBody((BINS, FeatureBins("c", ()), NearestCentre(MAP, bytes(32))), None)
    cells = 3 + 4 + 2
    assert read(body, planned(partitions=3), CountsLimits(cells=cells)) == body
    assert refusal(read, body, planned(partitions=3), CountsLimits(cells=cells - 1)) == (
        RefusalCode.OVER_LIMIT,
        "body.partitions",
    )


def test_the_limit_of_parameters_is_inclusive():
    body = CountsBody((BINS,), network((3, 4), (1, 3)))
    parameters = body.hypothesis.parameter_count()
    assert parameters >= 3 * 4 + 3 + 3 + 1
    assert read(body, planned("signed_error"), CountsLimits(parameters=parameters)) == body
    tight = CountsLimits(parameters=parameters - 1)
    assert refusal(read, body, planned("signed_error"), tight) == (RefusalCode.OVER_LIMIT, "body.hypothesis")


@pytest.mark.parametrize(
    ("release", "given_", "fine"),
    [
        ("mass", False, True),
        ("mass", True, False),
        ("signed_error", False, False),
        ("signed_error", True, True),
        ("error_correct", False, False),
        ("error_correct", True, True),
    ],
)
def test_a_hypothesis_is_given_exactly_where_the_release_kind_wants_it(release, given_, fine):
    body = CountsBody((BINS,), Constant(0) if given_ else None)
    if fine:
        assert read(body, planned(release)) == body
    else:
        assert refusal(read, body, planned(release)) == (RefusalCode.BAD_QUERY, "body.hypothesis")


@pytest.mark.parametrize("size", [1, 3])
def test_a_workload_of_another_size_than_planned_is_not_in_the_plan(size):
    body = CountsBody((BINS,) * size, None)
    assert refusal(read, body, planned(partitions=2)) == (RefusalCode.NOT_IN_PLAN, "body.partitions")


def test_a_bad_partition_is_named_by_its_position():
    body = CountsBody((BINS, FeatureBins("x", (1.0, 0.0))), None)
    assert refusal(read, body, planned(partitions=2)) == (RefusalCode.BAD_QUERY, "body.partitions[1].edges")


def test_a_bad_hypothesis_is_named():
    body = CountsBody((BINS,), network((1, 3)))
    assert refusal(read, body, planned("signed_error")) == (RefusalCode.BAD_QUERY, "body.hypothesis.weights.0")


def test_a_body_longer_than_any_message_is_too_large():
    assert refusal(COUNTS.read_body, bytes(MOST_ENVELOPE_BYTES + 1), Turn(planned()), KindTerms(SCHEMA, LIMITS)) == (
        RefusalCode.TOO_LARGE,
        "body",
    )


@pytest.mark.parametrize("partitions", [[], [{"type": "leaves"}], [{"attribute": "x", "edges": []}], [None]])
def test_an_empty_workload_or_an_unknown_partition_kind_is_malformed(partitions):
    data = msgspec.msgpack.encode({"partitions": partitions, "hypothesis": None})
    assert refusal(COUNTS.read_body, data, Turn(planned()), KindTerms(SCHEMA, LIMITS)) == (
        RefusalCode.MALFORMED,
        "body",
    )


@pytest.mark.parametrize("predicted", [2, -1, True, 1.0, None])
def test_a_constant_predicts_one_of_two_classes(predicted):
    body = {"partitions": [msgspec.to_builtins(BINS)], "hypothesis": {"type": "constant", "predicted": predicted}}
    data = msgspec.msgpack.encode(body)
    assert refusal(COUNTS.read_body, data, Turn(planned("signed_error")), KindTerms(SCHEMA, LIMITS)) == (
        RefusalCode.MALFORMED,
        "body",
    )


def test_work_adds_up_over_the_workload_and_the_hypothesis():
    body = CountsBody((BINS, NearestCentre(MAP, bytes(32))), network((1, 4)))
    maps = 2 * MAP.multiply_adds()
    products = 2 * (4 + 1) // 2 + len(body.hypothesis.weights) // 4
    centres = 2 * NEAREST_COST + TILE_COST
    assert body.multiply_adds() == COLUMN_COST + COMPARISON_COST + centres + products + maps


def test_every_kind_is_registered_under_its_tag():
    for kinds in (PARTITION_KINDS, HYPOTHESIS_KINDS):
        assert {name: kind.__struct_config__.tag for name, kind in kinds.items()} == {name: name for name in kinds}


def test_a_wide_schema_is_searched_in_constant_time():
    many = tuple(NumericAttribute(f"x{i}", 0.0, 1.0) for i in range(10_000))
    schema = Schema(many, "y", ("no", "yes"))
    features = FeatureMap(tuple(NumericFeature(f"x{i}", 0.0, 1.0, 0.0) for i in range(1_808, 10_000)))
    features.check(schema, "here")
    assert schema.find("x9999") is many[-1]
    assert schema.find("y") is None


@pytest.mark.parametrize("text", ["NA", "?", "", " a", "a "])
def test_a_level_or_class_that_no_record_can_match_is_refused(text):
    with pytest.raises((ValueError, msgspec.ValidationError), match="can never occur"):
        CategoricalAttribute("c", ("a", text))
    with pytest.raises((ValueError, msgspec.ValidationError), match="can never occur"):
        Schema((NumericAttribute("x", 0.0, 1.0),), "y", ("no", text))


def test_an_imputation_that_is_no_level_of_the_card_is_refused():
    features = FeatureMap((CategoricalFeature("c", ("a",), 1.0, "z"),))
    with pytest.raises(RemoteProtocolError) as caught:
        features.check(SCHEMA, "features")
    assert (caught.value.code, caught.value.field) == (RefusalCode.BAD_QUERY, "features.features[0].imputation")
    FeatureMap((CategoricalFeature("c", ("a",), 1.0, "b"),)).check(SCHEMA, "features")
