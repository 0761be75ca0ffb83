"""PRIVACY rule 7: a record's cell and prediction are the same to the last bit whatever other records are present.

Named by PRIVACY.md: crafted networks whose logits are exactly at the threshold and centres that are equidistant,
where ordinary floating point flips a record's class or cell with the order of summation or the batch it is in.
"""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from at_length import at_length
from expril.audit.generators.values import (
    ATTRIBUTES,
    CATEGORY,
    NUMERIC,
    feature_maps_of,
    hypotheses_of,
    mlps_of,
    partitions_of,
    raw_frames_of,
    records_of,
    schemas,
)
from oracles import oracle_logit, oracle_point
from protocol import feature_map
from protocol.feature_map import STEPS, CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.partitions import (
    PARTITION_KINDS,
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
    TreeLeaves,
)
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import NumericAttribute, Schema

WIDTH = 24
ROWS = 301
SCHEMA = Schema(tuple(NumericAttribute(f"x{i}", -8.0, 8.0) for i in range(WIDTH)), "y", ("0", "1"))
TWICE = FeatureMap(tuple(NumericFeature(a.name, 0.0, 1 / 3, 0.1) for a in SCHEMA.attributes) * 2)
"""Every coordinate twice: weights w and -w, or centres (a, b) and (b, a), then tie for every record."""


def records_at_ties():
    values = np.random.default_rng(5).normal(0, 3, (ROWS, WIDTH))
    values[::17, 3] = np.nan
    return Records(SCHEMA, np.clip(values, -8, 8), np.empty((ROWS, 0), np.int16))


def mirrored_weights():
    half = np.random.default_rng(6).normal(0, 1, WIDTH).astype(np.float32)
    return np.concatenate([half, -half])[None, :]


def network_at_the_threshold(bias):
    return Mlp.of(TWICE, [(mirrored_weights(), np.array([bias], np.float32))])


def deep_network_at_the_threshold(bias):
    """Hidden units in equal pairs, which the last layer weighs with opposite signs."""
    generator = np.random.default_rng(7)
    one, two = generator.normal(0, 0.4, (2, 8, 2 * WIDTH))
    again = generator.normal(0, 0.4, (8, 16))
    last = generator.normal(0, 1, 8)
    layers = [
        (np.concatenate([one, two]), generator.normal(0, 1, 16)),
        (np.concatenate([again, again]), np.zeros(16)),
        (np.concatenate([last, -last])[None, :], np.array([bias])),
    ]
    return Mlp.of(TWICE, [(w.astype(np.float32), b.astype(np.float32)) for w, b in layers])


def bins_at_the_threshold():
    """Every logit is the edge 0, or a step below the edge that separates the classes."""
    return ScoreBins(network_at_the_threshold(0.0), (0.0, 2.0**-24))


def directions_at_the_edges():
    generator = np.random.default_rng(10)
    half, other = generator.normal(0, 1, (2, WIDTH))
    rows = np.array([[*half, *-half], [*half, *other], [*-other, *other]])
    return ProjectionBins.of(TWICE, rows, ((-(2.0**-24), 0.0, 2.0**-24), (-1.0, 0.0, 1.0), (0.0,)))


def tree_on_the_points():
    """A chain whose thresholds are coordinates of records."""
    steps = TWICE.points(records_at_ties())[:40]
    chain = [[i % WIDTH, steps[i, i % WIDTH], -1 - i, i + 1] for i in range(40)]
    chain[-1][3] = -41
    return TreeLeaves.of(TWICE, np.array(chain))


PAIRS = [(i, j) for i in range(4) for j in range(4) if i != j]


def equidistant_centres():
    halves = np.random.default_rng(8).normal(0, 1, (4, WIDTH))
    return NearestCentre.of(TWICE, np.array([np.concatenate([halves[i], halves[j]]) for i, j in PAIRS]))


CRAFTED = {
    "threshold": network_at_the_threshold(0.0),
    "a step above the threshold": network_at_the_threshold(2.0**-24),
    "deep threshold": deep_network_at_the_threshold(0.0),
    "equidistant centres": equidistant_centres(),
    "feature bins": FeatureBins("x3", tuple(sorted({float(v) for v in records_at_ties().numeric[:50, 4]}))),
    "product bins": ProductBins(
        FeatureBins("x3", tuple(sorted({float(v) for v in records_at_ties().numeric[1:9, 3]}))),
        FeatureBins("x4", tuple(sorted({float(v) for v in records_at_ties().numeric[:9, 4]}))),
    ),
    "cross bins": CrossBins(
        (
            FeatureBins("x3", tuple(sorted({float(v) for v in records_at_ties().numeric[1:9, 3]}))),
            FeatureBins("x3", tuple(sorted({float(v) for v in records_at_ties().numeric[4:9, 3]}))),
        ),
        (Range(FeatureBins("x4", tuple(sorted({float(v) for v in records_at_ties().numeric[:9, 4]}))), (0, 2, 3)),),
    ),
    "scores on an edge": bins_at_the_threshold(),
    "projections on an edge": directions_at_the_edges(),
    "tree on the points": tree_on_the_points(),
}


def test_every_kind_of_partition_is_among_the_crafted_cases():
    assert {type(subject) for subject in CRAFTED.values()} >= set(PARTITION_KINDS.values())


def outcome(subject, records):
    """Cells, or (logits, predictions)."""
    if isinstance(subject, Mlp):
        return np.stack([subject.logits(records), subject.predict(records)])
    return subject.cells(records)


def row_choices():
    generator = np.random.default_rng(9)
    everything = np.arange(ROWS)
    yield "permuted", generator.permutation(ROWS)
    yield "reversed", everything[::-1]
    yield "duplicated", np.repeat(everything, 2)
    yield "drawn", generator.integers(0, ROWS, 1000)
    yield "every third", everything[::3]
    for size in (0, 1, 2, 3, 5, 8, 63, 64, 65):
        yield f"first {size}", everything[:size]
    for row in range(0, ROWS, 29):
        yield f"alone {row}", everything[row : row + 1]
        yield f"without {row}", np.delete(everything, row)


@pytest.mark.parametrize("name", CRAFTED)
def test_a_record_is_the_same_whatever_rows_surround_it(name):
    subject, records = CRAFTED[name], records_at_ties()
    whole = outcome(subject, records)
    for label, rows in row_choices():
        assert np.array_equal(outcome(subject, records.take(rows)), whole[..., rows]), label
    assert np.array_equal(outcome(subject, records.take(slice(10, 20))), whole[..., 10:20])


@pytest.mark.parametrize("entries", [1, 100, 48 * 7, 4_000_000])
@pytest.mark.parametrize("name", CRAFTED)
def test_a_record_is_the_same_in_blocks_of_any_size(name, entries, monkeypatch):
    subject, records = CRAFTED[name], records_at_ties()
    whole = outcome(subject, records)
    monkeypatch.setattr(feature_map, "BLOCK_ENTRIES", entries)
    assert np.array_equal(outcome(subject, records), whole)


@pytest.mark.parametrize("name", CRAFTED)
def test_a_record_is_the_same_for_any_number_of_threads(name):
    subject, records = CRAFTED[name], records_at_ties()
    many = records.take(np.tile(np.arange(ROWS), 20))
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.append(outcome(subject, many))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_the_crafted_cases_sit_exactly_on_their_ties():
    records = records_at_ties()
    assert not CRAFTED["threshold"].logits(records).any()
    assert not CRAFTED["deep threshold"].logits(records).any()
    assert not CRAFTED["threshold"].predict(records).any()
    assert (CRAFTED["a step above the threshold"].logits(records) == 1).all()
    assert CRAFTED["a step above the threshold"].predict(records).all()
    cells = CRAFTED["equidistant centres"].cells(records)
    nearest = {PAIRS[cell] for cell in cells}
    assert len(nearest) > 1
    assert all(i < j for i, j in nearest), "of the equidistant (a, b) and (b, a) the lower index wins"
    assert set(CRAFTED["scores on an edge"].cells(records)) == {1}, "0 is at the edge 0 and below the edge 2^-24"
    assert not CRAFTED["projections on an edge"].projections(records)[:, [0, 2]].any()
    reached = set(CRAFTED["tree on the points"].cells(records))
    assert len(reached) > 5


def naive_points():
    column = records_at_ties().numeric
    once = np.where(np.isnan(column), 0.1, column) / 3
    return np.concatenate([once, once], axis=1)


def test_power_control_ordinary_sums_flip_predictions_with_their_order():
    points, weights = naive_points(), mirrored_weights()[0].astype(np.float64)
    shuffled = np.random.default_rng(1).permutation(2 * WIDTH)

    def predict(order):
        return np.array([sum((float(row[i] * weights[i]) for i in order), 0.0) > 0 for row in points])

    assert (predict(range(2 * WIDTH)) != predict(shuffled)).any()


def test_power_control_ordinary_sums_flip_cells_with_their_order():
    points = naive_points()
    halves = np.random.default_rng(8).normal(0, 1, (2, WIDTH))
    centres = [np.concatenate([halves[0], halves[1]]), np.concatenate([halves[1], halves[0]])]
    shuffled = np.random.default_rng(1).permutation(2 * WIDTH)

    def cells(order):
        distances = [[sum((float((row[i] - c[i]) ** 2) for i in order), 0.0) for c in centres] for row in points]
        return np.argmin(distances, axis=1)

    assert (cells(range(2 * WIDTH)) != cells(shuffled)).any()


def test_power_control_an_ordinary_blas_flips_predictions_with_the_batch():
    flipped = False
    for kind in (np.float64, np.float32):
        points, weights = naive_points().astype(kind), mirrored_weights().astype(kind)
        weights = np.concatenate([weights, weights[:, ::-1], weights * kind(0.7)])
        whole = points @ weights.T > 0
        for size in (1, 2, 3, 5, 7, 16, 33):
            parts = [points[start : start + size] @ weights.T > 0 for start in range(0, ROWS, size)]
            flipped |= bool((np.concatenate(parts) != whole).any())
    if not flipped:
        pytest.skip("this machine's BLAS sums in one order for every batch")


@st.composite
def cases(draw, subject_of):
    schema = draw(schemas())
    return draw(subject_of(schema)), draw(records_of(schema))


@given(cases(hypotheses_of), st.data())
@settings(deadline=None, max_examples=30)
def test_a_prediction_is_a_function_of_the_record_alone(case, data):
    hypothesis, records = case
    rows = np.array(data.draw(st.lists(st.integers(0, max(0, len(records) - 1)), max_size=8)), np.intp)
    rows = rows[: len(records) * 8]
    assert np.array_equal(hypothesis.predict(records.take(rows)), hypothesis.predict(records)[rows])


test_a_prediction_is_a_function_of_the_record_alone_at_length = at_length(
    test_a_prediction_is_a_function_of_the_record_alone, 80
)


@given(schemas().flatmap(lambda s: st.tuples(st.just(s), partitions_of(s), hypotheses_of(s), raw_frames_of(s))))
@settings(deadline=None, max_examples=10)
def test_every_record_is_in_exactly_one_cell_and_class_whatever_its_numbers(case):
    schema, partition, hypothesis, frame = case
    records = encode_frame(frame, schema)
    cells = partition.cells(records)
    assert cells.shape == (frame.height,)
    assert np.issubdtype(cells.dtype, np.integer)
    assert all(0 <= cell < partition.cell_count(schema) for cell in cells)
    predicted = hypothesis.predict(records)
    assert predicted.shape == (frame.height,)
    assert predicted.dtype == np.bool_


test_every_record_is_in_exactly_one_cell_and_class_whatever_its_numbers_at_length = at_length(
    test_every_record_is_in_exactly_one_cell_and_class_whatever_its_numbers, 120
)


@given(cases(feature_maps_of))
@settings(deadline=None, max_examples=35)
def test_points_equal_exact_arithmetic(case):
    features, records = case
    points = features.points(records)
    assert points.shape == (len(records), features.width)
    assert points.tolist() == [oracle_point(features, records, row) for row in range(len(records))]


test_points_equal_exact_arithmetic_at_length = at_length(test_points_equal_exact_arithmetic, 80)


@given(cases(mlps_of))
@settings(deadline=None, max_examples=20)
def test_logits_equal_exact_arithmetic(case):
    network, records = case
    expected = [oracle_logit(network, records, row) for row in range(len(records))]
    assert network.logits(records).tolist() == expected
    assert network.predict(records).tolist() == [logit > 0 for logit in expected]


test_logits_equal_exact_arithmetic_at_length = at_length(test_logits_equal_exact_arithmetic, 80)


def test_missing_has_its_own_cell_and_values_beyond_the_edges_go_to_the_end_bins():
    schema = Schema((NUMERIC, CATEGORY), "y", ("no", "yes"))
    frame = pl.DataFrame({"x": [-1e300, -2.0, 0.0, -0.0, 0.5, 1.0, 1e300, None], "c": [*"aabb", "é", "z", "?", None]})
    records = encode_frame(frame, schema)
    assert FeatureBins("x", (0.0, 1.0)).cells(records).tolist() == [0, 0, 1, 1, 1, 2, 2, 3]
    assert FeatureBins("x", ()).cells(records).tolist() == [0] * 7 + [1]
    assert FeatureBins("c", ()).cells(records).tolist() == [0, 0, 1, 1, 2, 3, 4, 4]
    assert FeatureBins("c", ()).cell_count(schema) == 5


def test_the_largest_network_stays_below_2_to_the_53():
    """All magnitudes at their limits, with signs and last bits that would be lost in a rounded sum."""
    width = 4095
    schema = Schema((NumericAttribute("x", 0.0, 100.0), ATTRIBUTES[1]), "y", ("0", "1"))
    features = FeatureMap(
        (NumericFeature("x", 0.0, 1.0, 0.0),) * (width - 4) + (CategoricalFeature("c", ("a", "b", "é"), 64.0, ""),)
    )
    assert features.width == width
    fine = np.float32(2.0**-12)
    first = np.full((3, width), 64.0, np.float32)
    first[1] *= -1
    first[1, ::2] = fine
    last = np.array([[64.0, 64.0, -64.0 + fine]], np.float32)
    network = Mlp.of(features, [(first, np.full(3, 64, np.float32)), (last, np.array([2.0**-24], np.float32))])
    network.check(schema, "h")
    records = Records(schema, np.array([[100.0], [64.0], [0.0]]), np.array([[0], [-1], [3]], np.int16))
    expected = []
    for row in range(3):
        values = oracle_point(features, records, row)
        weights, bias = network._layers("")[0]
        hidden = []
        for line, start in zip(weights.tolist(), bias.tolist(), strict=True):
            total = round(start * STEPS**2) + sum(round(w * STEPS) * v for w, v in zip(line, values, strict=True))
            hidden.append(min(max(round(Fraction(total, STEPS)), 0), 256 * STEPS))
        expected.append(1 + sum(round(float(w) * STEPS) * v for w, v in zip(last[0], hidden, strict=True)))
    assert network.logits(records).tolist() == expected
