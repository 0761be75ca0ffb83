"""What one privacy unit can change, exactly; counts against a slow loop; answers that no record can spoil."""

import math
import random
import warnings
from copy import copy
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from at_length import also_at_length
from curator_fakes import ATTRIBUTES, ROWS, UNIT_KEY, ZeroNoise, dataset, frame_of, release_of, steward_file
from curator_node.mechanisms import Stamp
from curator_node.records.dataset import PrivateDataset, StewardWarning, bounded_rows
from curator_node.records.workloads import KEY_BYTES, WorkloadCache
from expril.audit.generators.values import trees_over
from oracles import AT_A_POINT, logit_at_a_point, oracle_bin
from protocol.codec import decode, encode
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, CountsRelease, PlannedCounts
from protocol.partitions import (
    PARTITION_KINDS,
    CrossBins,
    FeatureBins,
    NearestCentre,
    ProductBins,
    ProjectionBins,
    Range,
    ScoreBins,
)
from protocol.query_kind import KindTerms, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame, encode_labels
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore::curator_node.records.dataset.StewardWarning")

SCHEMA = Schema(attributes=ATTRIBUTES, label="sick", classes=("no", "yes"))
STAMP = Stamp("ann", 0, 1)
SCALE = Rational.of(Fraction(30))
FITTING = sorted(name for name, kind in RELEASE_KINDS.items() if kind.fits(SCHEMA))
"""Those of other labels are in test_release_kinds."""

MAP = FeatureMap(
    features=(
        NumericFeature(attribute="age", offset=60.0, factor=1 / 30, imputation=50.0),
        NumericFeature(attribute="dose", offset=0.0, factor=0.5, imputation=0.0),
        CategoricalFeature(attribute="sex", levels=("m",), factor=1.0, imputation="m"),
    )
)

# few values, so that records collide, sit on edges and tie between centres
records = st.tuples(
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from([None, -10.0, 0.0, 30.0, 60.0, 60.00000000000001, 120.0, 1e300, math.nan]),
    st.sampled_from([None, -5.0, 0.0, 2.5, 5.0]),
    st.sampled_from([None, "f", "m", "x"]),
    st.sampled_from(["no", "yes"]),
)
tables = st.lists(records, max_size=12)

edges = st.lists(st.sampled_from([-1e15, 0.0, 30.0, 60.0, 60.00000000000001, 119.5]), max_size=4, unique=True).map(
    sorted
)
feature_bins = st.one_of(
    st.builds(lambda e, a: FeatureBins(attribute=a, edges=tuple(e)), edges, st.sampled_from(["age", "dose"])),
    st.just(FeatureBins(attribute="sex", edges=())),
)
centres = st.lists(
    st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 64.0]), min_size=MAP.width, max_size=MAP.width),
    min_size=1,
    max_size=4,
).map(lambda rows: NearestCentre.of(MAP, np.array(rows)))
weights = st.sampled_from([-64.0, -1.0, -0.5, 0.0, 1e-4, 0.5, 1.0, 64.0])


@st.composite
def networks(draw):
    def array(*shape):
        size = math.prod(shape)
        return np.array(draw(st.lists(weights, min_size=size, max_size=size)), np.float32).reshape(shape)

    hidden = draw(st.integers(1, 2))
    return Mlp.of(MAP, [(array(hidden, MAP.width), array(hidden)), (array(1, hidden), array(1))])


score_edges = st.sampled_from([(), (0.0,), (2.0**-24,), (-40.0, 0.0, 1e-4, 3.0)])
projections = st.lists(
    st.tuples(st.lists(weights, min_size=MAP.width, max_size=MAP.width), score_edges), min_size=1, max_size=2
).map(lambda pairs: ProjectionBins.of(MAP, np.array([w for w, _ in pairs]), tuple(edges for _, edges in pairs)))


@st.composite
def cross_bins(draw, variables=feature_bins):
    factors, filtered = (draw(st.lists(variables, min_size=n, max_size=2)) for n in (1, 0))
    within = []
    for bins in filtered:
        last = bins.cell_count(SCHEMA) - 1
        within.append(Range(bins, tuple(sorted(draw(st.sets(st.integers(0, last), min_size=1, max_size=3))))))
    return CrossBins(tuple(factors), tuple(within))


PARTITIONS = {
    "feature_bins": feature_bins,
    "cross_bins": cross_bins(),
    "nearest_centre": centres,
    "product_bins": st.builds(ProductBins, feature_bins, feature_bins),
    "score_bins": st.builds(ScoreBins, networks(), score_edges),
    "projection_bins": projections,
    "tree_leaves": trees_over(MAP),
}
partitions = st.one_of(*PARTITIONS.values())
hypotheses = st.one_of(st.builds(Constant, predicted=st.sampled_from([0, 1])), networks())


@st.composite
def queries(draw):
    """A lawful body and its planned query, of any partition kind and any release kind for two classes."""
    release = draw(st.sampled_from(FITTING))
    of_labels = cross_bins(st.one_of(feature_bins, st.just(FeatureBins(attribute="sick", edges=()))))
    lawful = st.one_of(of_labels, partitions) if RELEASE_KINDS[release].reads_outcomes else partitions
    workload = tuple(draw(st.lists(lawful, min_size=1, max_size=4)))
    workload += tuple(draw(st.lists(st.sampled_from(workload), max_size=2)))  # asked a second time, in any order
    wants = RELEASE_KINDS[release].wants_hypothesis
    given_ = draw(st.booleans()) if wants is None else wants
    body = CountsBody(partitions=workload, hypothesis=draw(hypotheses) if given_ else None)
    planned = PlannedCounts(release=release, partitions=len(workload), scale=SCALE)
    return COUNTS.read_body(encode(body), Turn(planned), KindTerms(SCHEMA, CountsLimits())), planned


def answered(data, body, planned):
    """(what the noise was given, the release)."""
    noise = ZeroNoise()
    release = release_of(body, planned, data, noise, STAMP)
    (call,) = noise.calls
    return call, decode(release, CountsRelease)


def dataset_of(rows, most=1, unit=True):
    return PrivateDataset(frame_of(rows), steward_file(most=most, unit=unit), unit_key=UNIT_KEY, cache_bytes=10**6)


def test_every_registered_kind_is_drawn_here():
    assert PARTITIONS.keys() == PARTITION_KINDS.keys()


@also_at_length(150)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rest=tables.filter(bool),
    own=st.lists(records, min_size=1, max_size=5),
    query=queries(),
    most=st.integers(1, 3),
    shuffle=st.randoms(use_true_random=False),
)
def test_a_unit_moves_the_counts_by_no_more_than_is_charged(rest, own, query, most, shuffle):
    body, planned = query
    with_unit = rest + [("new", *row[1:]) for row in own]
    shuffle.shuffle(with_unit)
    (without, l1, law, stamp), _ = answered(dataset_of(rest, most), body, planned)
    (present, *same), release = answered(dataset_of(with_unit, most), body, planned)
    moved = int(np.abs(present - without).sum())
    assert [l1, law, stamp] == same
    assert l1 == most * len(body.partitions)
    assert (law.scale, stamp) == (SCALE.fraction, STAMP)
    assert QUERY_KINDS.cost(planned, most) == Fraction(l1) / law.scale
    assert moved <= l1
    assert release.counts == present.astype("<i8").tobytes()
    assert release.ratios == b""


@also_at_length(100)
@settings(max_examples=25, deadline=None)
@given(rest=tables.filter(bool), new=records, query=queries())
def test_a_record_moves_one_number_of_each_partition_by_one(rest, new, query):
    body, planned = query
    (without, *_), _ = answered(dataset_of(rest, unit=False), body, planned)
    (present, *_), _ = answered(dataset_of([*rest, new], unit=False), body, planned)
    columns = RELEASE_KINDS[planned.release].columns(SCHEMA)
    ends = np.cumsum([columns * p.cell_count(SCHEMA) for p in body.partitions])[:-1]
    for block in np.split(present - without, ends):
        assert sorted(np.abs(block), reverse=True)[:2] in ([1, 0], [1])


def test_the_bound_is_reached():
    """c m is not merely an upper bound: the property above would not notice a mechanism that ignores records."""
    bins = FeatureBins(attribute="age", edges=(30.0,))
    body = CountsBody(partitions=(bins, bins), hypothesis=None)
    planned = PlannedCounts(release="mass", partitions=2, scale=SCALE)
    (without, l1, *_), _ = answered(dataset_of(ROWS, 3), body, planned)
    (present, *_), _ = answered(dataset_of([*ROWS, *[("new", 1.0, 1.0, "f", "no")] * 5], 3), body, planned)
    assert np.abs(present - without).sum() == l1 == 6


def slow_cell(partition, row):
    """The cell of one record, in scalar Python."""
    _, age, dose, sex, sick = row
    values = {"age": (age, 0.0, 120.0), "dose": (dose, -5.0, 5.0)}
    if isinstance(partition, CrossBins):
        sizes = [slow_size(factor) for factor in partition.factors]
        if any(slow_cell(term.bins, row) not in term.cells for term in partition.within):
            return math.prod(sizes)
        cell = 0
        for factor, size in zip(partition.factors, sizes, strict=True):
            cell = cell * size + slow_cell(factor, row)
        return cell
    if isinstance(partition, FeatureBins):
        if partition.attribute == "sick":
            return {"no": 0, "yes": 1}[sick]
        if partition.attribute == "sex":
            return {"f": 0, "m": 1, None: 3}.get(sex, 2)
        value, lower, upper = values[partition.attribute]
        if value is None or math.isnan(value):
            return len(partition.edges) + 1
        return sum(edge <= min(max(value, lower), upper) for edge in partition.edges)
    if isinstance(partition, ProductBins):
        first, second = slow_cell(partition.first, row), slow_cell(partition.second, row)
        return first * slow_size(partition.second) + second
    if isinstance(partition, ScoreBins):
        return oracle_bin(logit_at_a_point(partition.hypothesis, slow_point(row)), partition.edges)
    return AT_A_POINT[type(partition)](partition, slow_point(row))


def slow_size(bins):
    return 4 if bins.attribute in {"sex", "sick"} else len(bins.edges) + 2


def slow_point(row):
    _, age, dose, sex, _ = row
    age = 50.0 if age is None or math.isnan(age) else min(max(age, 0.0), 120.0)
    dose = 0.0 if dose is None else dose
    hot = sex in ("m", None)
    return [round((age - 60.0) * (1 / 30) * 4096), round(dose * 0.5 * 4096), 4096 * hot, 4096 * (not hot)]


def slow_prediction(hypothesis, row):
    return (
        bool(hypothesis.predicted)
        if isinstance(hypothesis, Constant)
        else logit_at_a_point(hypothesis, slow_point(row)) > 0
    )


@also_at_length(150)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=tables.filter(bool), query=queries())
def test_counts_are_those_of_a_slow_loop(rows, query):
    body, planned = query
    blocks = []
    for partition in body.partitions:
        errors = [0] * partition.cell_count(SCHEMA)
        correct, yes = list(errors), list(errors)
        for row in rows:
            wrong = body.hypothesis is not None and slow_prediction(body.hypothesis, row) != (row[4] == "yes")
            (errors if wrong else correct)[slow_cell(partition, row)] += 1
            yes[slow_cell(partition, row)] += row[4] == "yes"
        for u, c, y in zip(errors, correct, yes, strict=True):
            blocks += {
                "mass": [u + c],
                "signed_error": [c - u],
                "error_correct": [u, c],
                "class_counts": [u + c - y, y],
                "outcome_counts": [u + c],
            }[planned.release]
    (counts, *_), _ = answered(dataset_of(rows, unit=False), body, planned)
    assert counts.tolist() == blocks
    again = PrivateDataset(frame_of(rows), steward_file(), unit_key=b"", cache_bytes=0)
    assert answered(again, body, planned)[0][0].tolist() == blocks


@pytest.mark.slow
def test_many_partitions_are_counted_whatever_their_sizes():
    """Partitions of one cell never fill a joint group; ten thousand of them are still counted."""
    one = NearestCentre.of(MAP, np.zeros((1, MAP.width)))
    wide = FeatureBins(attribute="age", edges=tuple(range(90_000)))
    narrow = FeatureBins(attribute="age", edges=())
    for workload in ((one,) * 10_000, (narrow,) * 300, (one, wide, one, narrow) * 3):
        errors, correct = dataset().count(tuple(map(copy, workload)), None)  # none is another's object
        assert errors.sum() == 0
        assert correct.sum() == len(ROWS) * len(workload)
        assert len(correct) == sum(p.cell_count(SCHEMA) for p in workload)


@also_at_length(80)
@settings(max_examples=20, deadline=None)
@given(table=tables.filter(bool), most=st.integers(1, 3), shuffle=st.randoms(use_true_random=False))
def test_kept_rows_of_a_unit_depend_on_that_unit_alone(table, most, shuffle):
    def kept(rows):
        encoded = encode_frame(frame_of(rows), SCHEMA)
        labels = encode_labels(frame_of(rows)["sick"], SCHEMA.classes)
        chosen = bounded_rows([row[0] for row in rows], encoded, labels, most, UNIT_KEY)
        assert list(chosen) == sorted(set(chosen))
        return sorted(repr(rows[i]) for i in chosen)

    def clean(text):
        """As encoded: -10 and 0 are one age, 1e300 and 120, None and nan."""
        for raw, encoded in (("-10.0", "0.0"), ("1e+300", "120.0"), ("nan", "None"), ("'x'", "'other'")):
            text = text.replace(raw, encoded)
        return text

    whole = sorted(map(clean, kept(table)))
    alone = sorted(clean(r) for unit in {row[0] for row in table} for r in kept([x for x in table if x[0] == unit]))
    assert whole == alone
    mixed = list(table)
    shuffle.shuffle(mixed)
    assert sorted(map(clean, kept(mixed))) == whole
    for unit in {row[0] for row in table}:
        assert sum(f"('{unit}'" in r for r in whole) == min(most, sum(row[0] == unit for row in table))


def test_the_choice_within_a_unit_is_keyed_and_not_by_position():
    rows = [("p1", float(age), 0.0, "f", "no") for age in range(40)]
    encoded = encode_frame(frame_of(rows), SCHEMA)
    labels = encode_labels(frame_of(rows)["sick"], SCHEMA.classes)
    chosen = {tuple(bounded_rows(["p1"] * 40, encoded, labels, 2, bytes([n]))) for n in range(20)}
    assert len(chosen) > 15
    named = {tuple(bounded_rows([f"p{n}"] * 40, encoded, labels, 2, UNIT_KEY)) for n in range(20)}
    assert len(named) > 15


ODD = {
    "one record": [ROWS[0]],
    "one class": [row for row in ROWS if row[4] == "yes"],
    "all missing": [("p1", None, None, None, "no"), ("p2", math.nan, None, None, "yes")],
    "constant columns": [("p1", 1.0, 1.0, "f", "no")] * 7,
    "huge": [("p1", 1e308, -1e308, "m" * 10_000, "no"), ("p2", 5e-324, -5e-324, "?", "yes")],
}


@also_at_length(25)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("odd", ODD)
@settings(max_examples=5, deadline=None)
@given(query=queries())
@example(
    query=(
        CountsBody(partitions=(FeatureBins(attribute="age", edges=()),), hypothesis=None),
        PlannedCounts(release="mass", partitions=1, scale=SCALE),
    )
)
def test_no_dataset_makes_an_answer_fail_warn_or_differ_in_kind(odd, unit, query):
    body, planned = query
    usual, release = answered(dataset(), body, planned)
    data = dataset_of(ODD[odd], 1, unit)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        call, other = answered(data, body, planned)
    assert heard == []
    assert call[1:] == usual[1:]
    assert len(other.counts) == len(release.counts)
    assert len(other.ratios) == len(release.ratios)
    assert np.isfinite(np.frombuffer(other.ratios, "<f8")).all()


def test_one_class_is_told_to_the_steward_only():
    with pytest.warns(StewardWarning, match="one class"):
        dataset_of(ODD["one class"], unit=False)


def test_cache_of_workloads_is_bounded_and_changes_no_count():
    encoded = encode_frame(frame_of(ROWS), SCHEMA)
    cache = WorkloadCache(encoded, 2_500)
    workloads = [(FeatureBins(attribute="age", edges=(float(edge),)),) for edge in range(40)]
    order = random.Random(1)
    for _ in range(200):
        workload = order.choice(workloads)
        errors = np.zeros(len(ROWS), np.bool_)
        _, correct = cache.get(workload).count(errors)
        assert correct.sum() == len(ROWS)
        assert sum(kept.nbytes + KEY_BYTES for kept in cache._kept.values()) == cache._bytes <= 2_500
    assert 1 < len(cache._kept) < 40
    assert cache.get(workloads[0]) is cache.get(workloads[0])
