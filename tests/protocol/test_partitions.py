"""Every kind of partition and of body: what it must keep, and with which code and field its checks refuse.

The whole privacy argument of a kind is that a record lies in exactly one cell, whatever its numbers and whatever other
records there are. The kinds are taken from the registry: a new one without a generator fails here.
"""

import json
import math
import struct

import msgspec
import numpy as np
import polars as pl
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from curator_node.records import workloads
from expril.audit.generators.values import PARTITIONS, raw_frames_of, records_of, schemas
from generators import bodies
from oracles import oracle_cell
from protocol import feature_map
from protocol.codec import MOST_ENVELOPE_BYTES, decode, encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import (
    CATEGORY_COST,
    COORDINATE_COST,
    HOT_COST,
    MAP_COST,
    MOST_WIDTH,
    CategoricalFeature,
    FeatureMap,
    NumericFeature,
)
from protocol.hypotheses import HYPOTHESIS_KINDS, MOST_FAN_IN, MOST_LAYERS, UNIT_COST, Constant, Mlp
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, PlannedCounts
from protocol.partitions import (
    PARTITION_KINDS,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    ScoreBins,
    TreeLeaves,
    grid_edges,
    nearest_centre,
)
from protocol.partitions.grid_edges import COLUMN_COST, COMPARISON_COST
from protocol.partitions.nearest_centre import NEAREST_COST, TILE_COST
from protocol.partitions.projection_bins import MOST_DIRECTIONS
from protocol.partitions.tree_leaves import LEVEL_COST, MOST_DEPTH, MOST_NODES
from protocol.query_kind import KindTerms, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema
from simulations.paper_ratio import PRINTED_COUNTS

KINDS = pytest.mark.parametrize("kind", PARTITION_KINDS)


@st.composite
def cases(draw, kind):
    """(partition, encoded records) of one schema."""
    schema = draw(schemas())
    return draw(PARTITIONS[kind](schema)), draw(records_of(schema))


def test_every_registered_kind_is_drawn():
    assert PARTITIONS.keys() == PARTITION_KINDS.keys()


@KINDS
def test_each_record_is_in_exactly_one_cell_whatever_its_numbers(kind):
    @given(
        schemas().flatmap(lambda schema: st.tuples(st.just(schema), PARTITIONS[kind](schema), raw_frames_of(schema)))
    )
    @settings(deadline=None, max_examples=15)
    def holds(case):
        schema, partition, frame = case
        cells = partition.cells(encode_frame(frame, schema))
        assert cells.shape == (frame.height,)
        assert cells.dtype == np.intp
        assert all(0 <= cell < partition.cell_count(schema) for cell in cells)

    holds()


@KINDS
def test_a_cell_equals_exact_arithmetic(kind):
    @given(cases(kind))
    @settings(deadline=None, max_examples=15)
    def holds(case):
        partition, records = case
        expected = [oracle_cell(partition, records, row) for row in range(len(records))]
        assert partition.cells(records).tolist() == expected

    holds()


@KINDS
def test_a_cell_does_not_depend_on_the_other_records(kind):
    """Alone, permuted, repeated, and in blocks of any size."""

    @given(cases(kind), st.data())
    @settings(deadline=None, max_examples=15)
    def holds(case, data):
        partition, records = case
        whole = partition.cells(records)
        rows = data.draw(st.lists(st.sampled_from(range(len(records))), max_size=9)) if len(records) else []
        rows = np.array(rows, np.intp)
        assert np.array_equal(partition.cells(records.take(rows)), whole[rows])
        assert [partition.cells(records.take([row])).item() for row in range(len(records))] == whole.tolist()
        entries, tile = data.draw(st.tuples(st.sampled_from([1, 7, 40]), st.sampled_from([1, 2])))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(feature_map, "BLOCK_ENTRIES", entries)
            patch.setattr(feature_map, "TILE_ENTRIES", data.draw(st.sampled_from([1, 7, 40])))
            patch.setattr(grid_edges, "FEW_EDGES", 0)  # the cells of a plain search
            patch.setattr(nearest_centre, "MOST_TILE", tile)
            assert np.array_equal(partition.cells(records), whole)

    holds()


@KINDS
def test_a_record_more_moves_the_counts_by_one(kind):
    """L1 sensitivity by brute force: each record in turn is the one that is added."""

    @given(cases(kind))
    @settings(deadline=None, max_examples=15)
    def holds(case):
        partition, records = case
        k = partition.cell_count(records.schema)
        counts = np.bincount(partition.cells(records), minlength=k)
        assert counts.shape == (k,)
        for row in range(len(records)):
            rest = np.delete(np.arange(len(records)), row)
            moved = counts - np.bincount(partition.cells(records.take(rest)), minlength=k)
            assert np.abs(moved).sum() == moved.sum() == 1

    holds()


@KINDS
def test_a_partition_survives_the_wire_and_passes_its_own_check(kind):
    @given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), PARTITIONS[kind](schema))))
    @settings(deadline=None, max_examples=15)
    def holds(case):
        schema, partition = case
        partition.check(schema, "here")
        assert partition.multiply_adds() > 0
        body = CountsBody((partition,), None)
        assert decode(encode(body), CountsBody) == body

    holds()


@KINDS
def test_a_partition_passes_or_is_a_bad_query_whatever_the_schema(kind):
    @given(schemas().flatmap(PARTITIONS[kind]), schemas())
    @settings(deadline=None, max_examples=15)
    def holds(partition, schema):
        refused = refusals(partition, schema)
        assert [error.code for error in refused] in ([], [RefusalCode.BAD_QUERY])
        assert all(error.field.startswith("here.") and error.limit for error in refused)

    holds()


def refusals(partition, schema):
    """What the check raises: nothing, or one error."""
    try:
        partition.check(schema, "here")
    except RemoteProtocolError as error:
        return [error]
    return []


@KINDS
def test_threads_give_each_record_its_cell(kind, monkeypatch):
    monkeypatch.setattr(workloads, "LEAST_SHARE", 1)
    monkeypatch.setattr(workloads.os, "sched_getaffinity", lambda _: range(3), raising=False)

    @given(cases(kind))
    @settings(deadline=None, max_examples=10)
    def holds(case):
        partition, records = case
        (codes,) = workloads.encode_workload((partition,), records).groups
        assert np.array_equal(codes >> 1, partition.cells(records))

    holds()


# What is refused.

SCHEMA = Schema(
    (NumericAttribute("x", 0.0, 1.0), CategoricalAttribute("c", ("a", "b")), NumericAttribute("z", 0.0, 1.0)),
    "y",
    ("no", "yes"),
)
X = NumericFeature("x", 0.0, 1.0, 0.0)
C = CategoricalFeature("c", ("a", "b"), 1.0, "")
MAP = FeatureMap((X, C))
OUTSIDE = FeatureMap((NumericFeature("nowhere", 0.0, 1.0, 0.0),))
BINS = FeatureBins("x", (0.5,))
STEP = 2.0**-24
NETWORK = Mlp.of(MAP, [(np.ones((1, 4), np.float32), np.ones(1, np.float32))])


def refusal(call, *args):
    with pytest.raises(RemoteProtocolError) as caught:
        call(*args)
    assert caught.value.limit
    return caught.value.code, caught.value.field


def assert_bad(subject, field):
    assert refusal(subject.check, SCHEMA, "here") == (RefusalCode.BAD_QUERY, field)


def tree(*nodes, features=MAP):
    return TreeLeaves.of(features, np.array(nodes))


def chain(length):
    """A tree in which every second child is a node: as deep as it has nodes."""
    nodes = [(0, 0, -1 - index, index + 1) for index in range(length)]
    nodes[-1] = (0, 0, -length, -1 - length)
    return tree(*nodes)


def test_a_product_names_the_factor_that_is_wrong():
    assert_bad(ProductBins(FeatureBins("x", (1.0, 0.0)), BINS), "here.first.edges")
    assert_bad(ProductBins(BINS, FeatureBins("y", ())), "here.second.attribute")
    assert_bad(ProductBins(BINS, FeatureBins("c", (0.5,))), "here.second.edges")


def test_the_cells_of_a_product_are_all_pairs():
    product = ProductBins(BINS, FeatureBins("c", ()))
    product.check(SCHEMA, "here")
    assert product.cell_count(SCHEMA) == 3 * 4
    frame = pl.DataFrame({"x": [0.0, 0.0, 1.0, None, None], "c": ["a", None, "b", "z", None], "z": [0.0] * 5})
    assert product.cells(encode_frame(frame, SCHEMA)).tolist() == [0, 3, 5, 10, 11]


def test_the_largest_product_has_a_cell_for_each_pair_of_bins():
    wide = FeatureBins("x", tuple(map(float, range(100_000))))
    product = ProductBins(wide, wide)
    product.check(SCHEMA, "here")
    assert product.cell_count(SCHEMA) == 100_002**2
    records = Records(SCHEMA, np.array([[math.nan, 0.0], [1.0, 0.0]]), np.zeros((2, 1), np.int16))
    assert product.cells(records).tolist() == [100_002**2 - 1, 2 * 100_002 + 2]
    assert body_refusal(encode(CountsBody((product,), None)))[0] == RefusalCode.OVER_LIMIT


UNLAWFUL = [(1.0, 0.0), (0.0, 0.0), (0.0, -0.0), (math.nan,), (math.inf,), (-math.inf, 0.0)]
CLOSE_OR_FAR = [(0.0, STEP / 4), (1.0, 1.0 + STEP / 2), (2.0**27 + 1,), (-1e308, 1e308)]


@pytest.mark.parametrize("edges", [*UNLAWFUL, *CLOSE_OR_FAR, (0.0, math.nan, 1.0)])
def test_edges_on_the_grid_must_be_bounded_and_rise_by_a_step(edges):
    assert_bad(ScoreBins(NETWORK, edges), "here.edges")
    assert_bad(ProjectionBins.of(MAP, np.ones((2, 4)), ((), edges)), "here.edges[1]")


@pytest.mark.parametrize("edges", [(), (0.0,), (-0.0, STEP), (-(2.0**27), 2.0**27), (0.0, 0.6 * STEP), (1 / 3, 0.4)])
def test_edges_on_the_grid_may_be_a_step_apart_or_beyond_every_sum(edges):
    for partition in (ScoreBins(NETWORK, edges), ProjectionBins.of(MAP, np.ones((1, 4)), (edges,))):
        partition.check(SCHEMA, "here")
        assert partition.cell_count(SCHEMA) == len(edges) + 1


def test_a_score_needs_a_lawful_network():
    assert_bad(ScoreBins(Mlp(OUTSIDE, NETWORK.weights), ()), "here.hypothesis.features.features[0].attribute")
    assert_bad(ScoreBins(Mlp(MAP, b"no"), ()), "here.hypothesis.weights")
    assert_bad(ScoreBins(Mlp(FeatureMap((X,)), NETWORK.weights), ()), "here.hypothesis.weights.0")


def test_a_constant_has_no_score():
    data = encode(CountsBody((ScoreBins(Constant(1), ()),), None))
    assert body_refusal(data) == (RefusalCode.MALFORMED, "body")


TURN = Turn(PlannedCounts(release="mass", partitions=1, scale=Rational(1, 1)))


def body_refusal(data, limits=CountsLimits(), turn=None):  # noqa: B008 - frozen
    with pytest.raises(RemoteProtocolError) as caught:
        COUNTS.read_body(data, turn or TURN, KindTerms(SCHEMA, limits))
    return caught.value.code, caught.value.field


def test_the_edge_of_one_step_separates_the_classes():
    records = Records(SCHEMA, np.array([[0.0, 0.0], [1 / 4096, 0.0]]), np.array([[0], [0]], np.int16))
    network = Mlp.of(FeatureMap((X,)), [(np.array([[1.0]]), np.array([0.0]))])
    assert network.logits(records).tolist() == [0, 4096]
    assert network.predict(records).tolist() == [False, True]
    assert ScoreBins(network, (STEP,)).cells(records).tolist() == [0, 1]
    assert ScoreBins(network, (0.0,)).cells(records).tolist() == [1, 1]


def test_a_submitted_score_is_held_to_the_limit_of_parameters():
    data = encode(CountsBody((ScoreBins(NETWORK, (0.0,)),), None))
    parameters = NETWORK.parameter_count()
    assert COUNTS.read_body(data, TURN, KindTerms(SCHEMA, CountsLimits(parameters=parameters))).partitions
    tight = CountsLimits(parameters=parameters - 1)
    assert body_refusal(data, tight) == (RefusalCode.OVER_LIMIT, "body.partitions[0].hypothesis")


@pytest.mark.parametrize("size", [4, 12, 15, 17, 20, 32])
def test_directions_must_be_one_whole_row_for_each_tuple_of_edges(size):
    assert_bad(ProjectionBins(MAP, bytes(size), ((0.0,),)), "here.directions")


@pytest.mark.parametrize("step", [2**18 + 1, -(2**18) - 1, 2**31 - 1, -(2**31)])
def test_directions_must_lie_within_the_grid(step):
    assert_bad(ProjectionBins(MAP, struct.pack("<4i", 0, 0, 0, step), ((),)), "here.directions")


def test_a_projection_needs_a_lawful_map():
    assert_bad(ProjectionBins(OUTSIDE, bytes(4), ((),)), "here.features.features[0].attribute")


def test_directions_far_outside_are_clipped_where_they_are_made():
    partition = ProjectionBins.of(MAP, np.full((1, 4), -1e300), ((),))
    partition.check(SCHEMA, "here")
    assert (partition.grid == -(2**18)).all()


def test_the_cells_of_several_directions_are_bounded():
    edges = tuple(float(edge) for edge in range(2047))
    assert ProjectionBins.of(MAP, np.ones((2, 4)), (edges, edges)).cell_count(SCHEMA) == 2**22
    ProjectionBins.of(MAP, np.ones((3, 4)), (edges, edges, edges[:511])).check(SCHEMA, "here")
    assert_bad(ProjectionBins.of(MAP, np.ones((3, 4)), (edges, edges, edges[:512])), "here.edges")
    many = tuple(float(edge) for edge in range(100_000))
    assert_bad(ProjectionBins.of(MAP, np.ones((MOST_DIRECTIONS, 4)), (many,) * MOST_DIRECTIONS), "here.edges")


def test_more_directions_than_allowed_or_none_are_malformed():
    for count in (0, MOST_DIRECTIONS + 1):
        partition = ProjectionBins(MAP, bytes(16 * max(count, 1)), ((),) * count)
        assert body_refusal(encode(CountsBody((partition,), None))) == (RefusalCode.MALFORMED, "body")


def test_the_largest_projection_stays_below_2_to_the_53():
    features = FeatureMap((NumericFeature("x", 0.0, 1e15, 0.0),) * 8192)
    weights = np.full((2, 8192), 64.0)
    weights[1, ::2] = 1 / 4096
    partition = ProjectionBins.of(features, weights, ((2.0**25,), (2.0**24,)))
    partition.check(SCHEMA, "here")
    records = Records(SCHEMA, np.ones((2, 2)), np.zeros((2, 1), np.int16))
    steps = 4096 * 2**18 * (2**18 + 1)
    assert partition.projections(records).tolist() == [[8192 * 2**36, steps]] * 2
    assert partition.cells(records).tolist() == [3, 3]


GOOD_TREE = ((0, 0, 1, 2), (1, 5, -1, -2), (3, -5, -4, -3))


def test_a_tree_places_points_by_its_thresholds():
    partition = tree(*GOOD_TREE)
    partition.check(SCHEMA, "here")
    assert partition.cell_count(SCHEMA) == 4
    features = FeatureMap((NumericFeature("x", 0.5, 1.0, 0.0), C))
    partition = tree((0, 0, 1, 2), (1, 1, -1, -2), (3, 4096, -4, -3), features=features)
    frame = pl.DataFrame({"x": [0.0, 0.0, 0.5, 0.6, None], "c": ["b", "a", "z", "a", None], "z": [0.0] * 5})
    assert partition.cells(encode_frame(frame, SCHEMA)).tolist() == [0, 1, 2, 3, 0]


@pytest.mark.parametrize(
    "nodes",
    [
        ((4, 0, -1, -2),),
        ((-1, 0, -1, -2),),
        ((0, 2**18 + 1, -1, -2),),
        ((0, -(2**31), -1, -2),),
        ((0, 0, -1, -1),),
        ((0, 0, -1, -3),),
        ((0, 0, 0, -1),),
        ((0, 0, 0, 0),),
        ((0, 0, 1, -1),),
        ((0, 0, 2**31 - 1, -1),),
        ((0, 0, -(2**31), -1),),
        ((0, 0, 1, 1), (0, 0, -1, -2)),
        ((0, 0, -1, -2), (0, 0, 1, -3)),
        ((0, 0, -1, -2), (0, 0, -3, -4)),
        ((0, 0, -1, -2), (0, 0, 2, -3), (0, 0, 1, -4)),
        ((0, 0, 2, -1), (0, 0, -2, -3), (0, 0, 1, -4)),
        ((0, 0, 1, 2), (1, 5, -1, -2), (3, -5, -4, -4)),
    ],
)
def test_nodes_that_are_no_tree_are_refused(nodes):
    assert_bad(tree(*nodes), "here.nodes")


@pytest.mark.parametrize("size", [17, 20, 31])
def test_nodes_must_be_whole(size):
    assert_bad(TreeLeaves(MAP, bytes(size)), "here.nodes")


@pytest.mark.parametrize("size", [0, 15, 16 * MOST_NODES + 1])
def test_a_tree_has_at_least_one_node_and_at_most_so_many(size):
    data = encode(CountsBody((TreeLeaves(MAP, bytes(size)),), None))
    assert body_refusal(data) == (RefusalCode.MALFORMED, "body")


def test_a_tree_needs_a_lawful_map():
    assert_bad(tree((0, 0, -1, -2), features=OUTSIDE), "here.features.features[0].attribute")


def test_a_chain_is_refused_beyond_the_depth_and_costs_its_depth_below():
    deepest = chain(MOST_DEPTH)
    deepest.check(SCHEMA, "here")
    assert deepest.multiply_adds() == MAP.multiply_adds() + LEVEL_COST * MOST_DEPTH
    assert_bad(chain(MOST_DEPTH + 1), "here.nodes")
    assert_bad(chain(100_000), "here.nodes")
    records = Records(SCHEMA, np.array([[0.0, 0.0]]), np.array([[0]], np.int16))
    assert deepest.cells(records).tolist() == [MOST_DEPTH]


def test_the_deepest_leaf_decides_what_a_tree_costs():
    assert tree(*GOOD_TREE).multiply_adds() == MAP.multiply_adds() + 2 * LEVEL_COST
    assert tree((0, 0, -1, -2)).multiply_adds() == MAP.multiply_adds() + LEVEL_COST


@given(st.binary(min_size=16, max_size=80))
@settings(deadline=None, max_examples=200)
def test_arbitrary_nodes_pass_or_are_a_bad_query(nodes):
    codes = [error.code for error in refusals(TreeLeaves(MAP, nodes), SCHEMA)]
    assert codes in ([], [RefusalCode.BAD_QUERY])


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(-5, 3)), min_size=1, max_size=4))
@settings(deadline=None, max_examples=200)
def test_a_mutated_tree_that_passes_still_places_every_record(changes):
    table = np.array(GOOD_TREE)
    for position, value in changes:
        table.flat[position] = value
    partition = TreeLeaves.of(MAP, table)
    if not refusals(partition, SCHEMA):
        records = Records(SCHEMA, np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[0], [-1]], np.int16))
        assert partition.cells(records).tolist() == [oracle_cell(partition, records, row) for row in (0, 1)]


def test_work_counts_the_map_and_every_search():
    one = COLUMN_COST + COMPARISON_COST
    assert BINS.multiply_adds() == one
    assert ProductBins(BINS, BINS).multiply_adds() == 2 * one
    assert ScoreBins(NETWORK, (0.0,)).multiply_adds() == NETWORK.multiply_adds() + one
    edges = ((0.0,), tuple(map(float, range(1000))))
    searches = one + COLUMN_COST + 10 * COMPARISON_COST
    assert ProjectionBins.of(MAP, np.ones((2, 4)), edges).multiply_adds() == MAP.multiply_adds() + 8 + searches


def test_the_work_of_a_map_counts_numbers_categories_and_their_coordinates():
    number, category = MAP.features
    assert MAP.multiply_adds() == MAP_COST + COORDINATE_COST + CATEGORY_COST + HOT_COST * 3
    assert FeatureMap((number,) * 7).multiply_adds() == MAP_COST + COORDINATE_COST * 7
    assert FeatureMap((category,) * 5).multiply_adds() == MAP_COST + 5 * (CATEGORY_COST + HOT_COST * 3)


def test_work_counts_the_units_of_narrow_networks():
    """Of a 1-4096-1 network each unit is rounded and clipped, which takes longer than its two products."""
    line = FeatureMap((MAP.features[0],))
    layers = [(np.ones((4096, line.width)), np.zeros(4096)), (np.ones((1, 4096)), np.zeros(1))]
    network = Mlp.of(line, layers)
    products = network.parameter_count() + line.multiply_adds()
    assert network.multiply_adds() == products + UNIT_COST * 4096
    assert ScoreBins(network, ()).multiply_adds() == network.multiply_adds() + COLUMN_COST + COMPARISON_COST


def test_a_wide_map_does_not_make_blocks_of_a_few_records():
    """A block costs thousands of categorical features a Python step each, which the stated work does not hold."""
    wide = FeatureMap(tuple(MAP.features) * (MOST_WIDTH // MAP.width))
    records = Records(SCHEMA, np.zeros((600, 2)), np.zeros((600, 1), np.int16))
    blocks = [len(points) for _, points in wide.blocks(records)]
    assert blocks == [256, 256, 88]


LIMITS = CountsLimits()


def planned(release="mass", partitions=1):
    return PlannedCounts(release=release, partitions=partitions, scale=Rational(1, 1))


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


@pytest.mark.parametrize("edges", [*UNLAWFUL, (0.0, 1.0, 0.5), (0.0, math.nan), (math.nan, 0.0, 1.0)])
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
    assert body_refusal(data, LIMITS, Turn(planned())) == (RefusalCode.MALFORMED, "body")


@pytest.mark.parametrize("predicted", [2, -1, True, 1.0, None])
def test_a_constant_predicts_one_of_two_classes(predicted):
    body = {"partitions": [msgspec.to_builtins(BINS)], "hypothesis": {"type": "constant", "predicted": predicted}}
    data = msgspec.msgpack.encode(body)
    assert body_refusal(data, LIMITS, Turn(planned("signed_error"))) == (RefusalCode.MALFORMED, "body")


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
