"""The work of a query: stated before it starts, of question and card alone; encoded workloads; partitions as served."""

import gc
import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import also_at_length
from curator_fakes import ATTRIBUTES, ROWS, ZeroNoise, numbers, open_curator, opened, plan_of, release_of
from curator_node.mechanisms import ExactNoise, Stamp
from curator_node.records import workloads
from curator_node.records.workloads import (
    KEY_BYTES,
    EncodedWorkload,
    PlanedWorkload,
    StreamedWorkload,
    WorkloadCache,
    encode_workload,
)
from expril.audit.generators.values import partitions_of, schemas
from generators import bodies
from learner_node.models.source import standardising_map
from learner_node.strategies.base import Problem
from learner_node.strategies.cells import CellsStrategy
from protocol.codec import encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import CategoricalFeature, FeatureMap, NumericFeature
from protocol.hypotheses import Constant, Mlp
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, CountsRelease, PlannedCounts
from protocol.limits import ASSUMED_ROUND_SIZE, Limits
from protocol.messages import Refusal, Release
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
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.records import MISSING_CODE, Records
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

TWO = Schema((NumericAttribute("x", 0.0, 1.0), CategoricalAttribute("c", ("a", "b"))), "y", ("no", "yes"))
MANY = msgspec.structs.replace(TWO, classes=tuple(f"k{number}" for number in range(256)))
NUMBER = msgspec.structs.replace(TWO, classes=(), label_bounds=(0.0, 1.0))
LINE = FeatureMap((NumericFeature("x", 0.0, 1.0, 0.0),))
BINS = FeatureBins("x", (0.5,))


def planned(release="mass", partitions=1, scale="30", steps=1):
    """The turn of a planned query."""
    return Turn(PlannedCounts(release=release, partitions=partitions, scale=Rational.of(Fraction(scale)), steps=steps))


def schema_for(release):
    return {"class_counts": MANY, "label_total": NUMBER, "squared_error": NUMBER, "error_sums": NUMBER}.get(
        release, TWO
    )


def products(partition_or_network, schema):
    """Products and comparisons of one record, counted from what is asked, by other means than the estimate's."""
    described = partition_or_network
    match described:
        case None | Constant():
            return 0
        case FeatureBins():
            return math.ceil(math.log2(len(described.edges) + 1))
        case ProductBins():
            return products(described.first, schema) + products(described.second, schema)
        case CrossBins():
            bins = (*described.factors, *(condition.bins for condition in described.within))
            return sum(products(each, schema) for each in bins)
        case NearestCentre():
            # Of large matrices: two multiply-adds take a tenth of a nanosecond.
            return described.cell_count(schema) * described.features.width // 2
        case ProjectionBins():
            searches = sum(math.ceil(math.log2(len(edges) + 1)) for edges in described.edges)
            return len(described.edges) * described.features.width + searches
        case TreeLeaves():
            return _depth(described.table.tolist(), 0)
        case ScoreBins():
            return products(described.hypothesis, schema) + math.ceil(math.log2(len(described.edges) + 1))
        case Mlp():
            return sum(weight.size + bias.size for weight, bias in described._layers(""))
    raise TypeError(described)


def _depth(table, node):
    return 1 + max((_depth(table, child) for child in table[node][2:] if child > 0), default=0)


@pytest.mark.slow
@given(bodies(), st.sampled_from(sorted(RELEASE_KINDS)), st.integers(1, 10**7))
@settings(deadline=None, max_examples=150)
def test_the_estimate_is_never_below_the_products_comparisons_and_noisy_numbers(body, release, size):
    schema = schema_of(body, release)
    if schema is None:
        return
    per_record = sum(products(part, schema) for part in (*body.partitions, body.hypothesis))
    cells = sum(partition.cell_count(schema) for partition in body.partitions)
    numbers = cells * RELEASE_KINDS[release].columns(schema)
    # OpenDP, the slower source, draws a number in no less than 5 microseconds on any machine we know.
    least = size * per_record + 50_000 * numbers
    assert COUNTS.work(Question(planned(release, len(body.partitions)), body, schema), size) >= least


def schema_of(body, release):
    """A schema that the body's parts fit, as `generators.bodies` draws one; None where they fit none of ours."""
    base = schema_for(release)
    try:
        for partition in body.partitions:
            partition.check(base, "")
        if body.hypothesis is not None:
            body.hypothesis.check(base, "")
    except RemoteProtocolError:
        return None
    return base


@also_at_length(100)
@given(st.data())
@settings(deadline=None, max_examples=25)
def test_more_to_do_is_more_work(data):
    schema = data.draw(schemas())
    first, second = (data.draw(partitions_of(schema)) for _ in range(2))
    smaller, larger = CountsBody((first,), None), CountsBody((first, second), None)
    size = data.draw(st.integers(1, 10**9))
    of_one = COUNTS.work(Question(planned(), smaller, schema), size)
    assert of_one < COUNTS.work(Question(planned(partitions=2), larger, schema), size)
    assert of_one < COUNTS.work(Question(planned(), smaller, schema), size + 1)
    assert of_one < COUNTS.work(Question(planned(scale="1/30"), smaller, schema), size)
    assert of_one < COUNTS.work(Question(planned("error_correct"), CountsBody((first,), Constant(1)), schema), size)


def test_an_undeclared_size_stands_for_a_million_records():
    body = CountsBody((BINS,), None)
    assert ASSUMED_ROUND_SIZE == 1_000_000
    assert COUNTS.work(Question(planned(), body, TWO), None) == COUNTS.work(Question(planned(), body, TWO), 1_000_000)


@pytest.mark.parametrize("scale", ["1/4294967295", "1/10", "3/2", "2", "1000/3", "4294967295"])
def test_noise_is_paid_for_by_the_number_whatever_the_records(scale):
    """A thousand cells more at a single record: all of the difference is noise."""
    few, many = (CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, k))),), None) for k in (1_000, 2_000))
    difference = COUNTS.work(Question(planned(scale=scale), many, TWO), 1) - COUNTS.work(
        Question(planned(scale=scale), few, TWO), 1
    )
    assert difference >= 1_000 * (300_000 if Fraction(scale) < 2 else 150_000)


def test_each_class_is_a_number():
    body = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 99))),), None)
    assert COUNTS.work(Question(planned("class_counts"), body, MANY), 1) > 256 * 101 * 150_000


@pytest.mark.parametrize("release", RELEASE_KINDS)
@pytest.mark.parametrize("cells", [2, 30, 31, 8_200])
def test_the_bytes_of_a_release_are_known_before_anything_is_charged(release, cells):
    schema = schema_for(release)
    needs_hypothesis = RELEASE_KINDS[release].wants_hypothesis
    body = CountsBody(
        (FeatureBins("x", tuple(np.linspace(0, 1, cells - 2))),), Constant(1) if needs_hypothesis else None
    )
    length = 8 * cells * RELEASE_KINDS[release].columns(schema)
    sent = len(encode(CountsRelease(bytes(length), b"")))
    assert sent <= COUNTS.release_bytes(Question(planned(release), body, schema)) <= sent + 4


def test_an_answer_has_at_most_the_stated_bytes():
    class Private:
        """A dataset of which only the counts are asked."""

        steward = type("Steward", (), {"most_records_per_unit": 1})
        schema = None

        def exact(self, body, planned_):
            return np.full((70_000, 2), 2**62)

    body = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 69_998))),), Constant(1))
    query = planned("error_correct")

    class Silent(ExactNoise):
        def discrete_laplace(self, exact, l1, law, stamp):
            return exact

    sent = release_of(body, query.planned, Private(), Silent(), Stamp("ann", 0, 1))
    assert len(sent) <= COUNTS.release_bytes(Question(query, body, TWO))


class CountedLevels(tuple):
    """Levels that know how often they were gone through."""

    __slots__ = ()
    walks = 0

    def __iter__(self):
        CountedLevels.walks += 1
        return super().__iter__()


def test_the_levels_of_a_schema_are_gone_through_once_for_all_maps():
    attribute = CategoricalAttribute("c", CountedLevels(f"l{number}" for number in range(200)))
    schema = Schema((NumericAttribute("x", 0.0, 1.0), attribute), "y", ("no", "yes"))
    features = FeatureMap((CategoricalFeature("c", ("l0", "l7"), 1.0, "l7"),))
    records = Records(schema, np.zeros((3, 1)), np.array([[7], [-1], [200]], np.int16))
    CountedLevels.walks = 0
    for _ in range(100):
        features.check(schema, "here")
        assert features.points(records).tolist() == [[0, 4096, 0], [0, 4096, 0], [0, 0, 4096]]
    assert CountedLevels.walks <= 1


def refusal(data, plan, limits=CountsLimits(), schema=TWO):  # noqa: B008 - frozen
    with pytest.raises(RemoteProtocolError) as caught:
        COUNTS.read_body(data, plan, KindTerms(schema, limits))
    return caught.value.code, caught.value.field


def test_a_workload_of_too_many_cells_is_refused_before_the_rest_is_read(monkeypatch):
    checked = []
    check = FeatureBins.check
    monkeypatch.setattr(FeatureBins, "check", lambda *args: (checked.append(args), check(*args)))
    bins = tuple(FeatureBins("x", tuple(np.linspace(0, 1 / number, 30))) for number in range(1, 1_001))
    data = encode(CountsBody(bins, None))
    assert refusal(data, planned(partitions=1_000), CountsLimits(cells=100)) == (
        RefusalCode.OVER_LIMIT,
        "body.partitions",
    )
    assert len(checked) == 3


def test_a_hostile_body_of_many_short_numbers_is_not_unfolded():
    """Whole numbers of a byte each, where floats of nine are due, would take thirty times their bytes."""
    partition = {"type": "feature_bins", "attribute": "x", "edges": [0] * 100_000}
    data = msgspec.msgpack.encode({"partitions": [partition] * 100, "hypothesis": None})
    tracemalloc.start()
    assert refusal(data, planned(partitions=100)) == (RefusalCode.MALFORMED, "body")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(data)


def test_a_body_is_read_as_its_codec_reads_it():
    """Part by part or at once: the same value, and the same bytes are refused."""
    body = CountsBody((BINS, FeatureBins("c", ())), Constant(1), 7)
    data = encode(body)
    assert COUNTS.read_body(data, planned("squared_error", 2), KindTerms(NUMBER, CountsLimits())) == body
    for end in range(len(data)):
        assert refusal(data[:end], planned("squared_error", 2), schema=NUMBER)[0] == RefusalCode.MALFORMED
    longer = data.replace(b"\xa9partitions", b"\xd9\x0apartitions", 1).replace(b"\xaapartitions", b"\xd9\x0apartitions")
    assert refusal(longer, planned("squared_error", 2), schema=NUMBER)[0] == RefusalCode.MALFORMED
    inner = data.replace(b"\xa9attribute", b"\xd9\x09attribute", 1)
    assert inner != data
    assert refusal(inner, planned("squared_error", 2), schema=NUMBER)[0] == RefusalCode.MALFORMED


@pytest.mark.parametrize("times", [2, 5_000])
def test_a_partition_that_is_asked_again_is_read_once(times):
    """In a short body and in a long one: the same value and the same work, in less time."""
    body = CountsBody((BINS, FeatureBins("c", ())) * times, None)
    read = COUNTS.read_body(encode(body), planned(partitions=2 * times), KindTerms(TWO, CountsLimits()))
    assert read == body
    assert len(set(map(id, read.partitions))) == 2
    assert (read.multiply_adds(), read.multiply_adds_once()) == (body.multiply_adds(), body.multiply_adds_once())


@pytest.mark.parametrize(
    "attributes",
    [
        tuple(NumericAttribute(f"n{i}", 0.0, 1.0) for i in range(30)),
        (
            *(NumericAttribute(f"n{i}", 0.0, 1.0) for i in range(6)),
            *(CategoricalAttribute(f"c{i}", tuple("abcdefghijkl")) for i in range(8)),
        ),
    ],
    ids=["thirty numbers", "six numbers, eight categories of twelve"],
)
@pytest.mark.parametrize(("size", "target"), [(500, 500), (10_000, 100_000)])
def test_default_cells_may_be_asked_where_no_size_is_declared(attributes, size, target):
    schema = Schema(attributes, "y", ("no", "yes"))
    rng = np.random.default_rng(0)
    numbers = sum(isinstance(attribute, NumericAttribute) for attribute in attributes)
    codes = rng.integers(0, 10, (size, len(attributes) - numbers)).astype(np.int16)
    source = Records(schema, rng.random((size, numbers)), codes)
    problem = Problem(source=source, epsilon=Fraction(1), sites=1, target_size=target, most_records_per_unit=1, seed=0)
    cells = CellsStrategy().cell_count(problem)
    features = standardising_map(source)
    body = CountsBody((NearestCentre(features, bytes(4 * cells * features.width)),), Constant(1))
    plan = planned("error_correct")
    assert COUNTS.read_body(encode(body), plan, KindTerms(schema, CountsLimits())) == body
    assert COUNTS.work(Question(plan, body, schema), None) <= Limits().multiply_adds


def test_the_default_limit_leaves_room_for_all_cells_and_refuses_a_million_noisy_numbers():
    all_cells = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 99_998))),), Constant(1))
    assert COUNTS.work(Question(planned("error_correct"), all_cells, TWO), 100_000) <= Limits().multiply_adds
    wide = CountsBody((FeatureBins("x", tuple(np.linspace(0, 1, 99_998))),) * 5, Constant(1))
    assert COUNTS.work(Question(planned("error_correct", 5), wide, TWO), 1) > Limits().multiply_adds


# --- Encoded workloads count what a slow loop counts, whatever is grouped, kept or thrown out.

LEVELS = ("a", "b", "c")


def make_schema(numeric):
    numbers = (NumericAttribute(name=f"x{i}", lower=-1.0, upper=1.0) for i in range(numeric))
    return Schema((*numbers, CategoricalAttribute(name="c", levels=LEVELS)), label="y", classes=("no", "yes"))


def make_records(rng, n, numeric):
    values = np.clip(rng.normal(0, 0.6, (n, numeric)), -1, 1)
    values[rng.random((n, numeric)) < 0.1] = np.nan
    codes = rng.integers(MISSING_CODE, len(LEVELS) + 1, (n, 1)).astype(np.int16)
    return Records(make_schema(numeric), values, codes)


def bins(index, count):
    return FeatureBins(attribute=f"x{index}", edges=tuple(float(e) for e in np.linspace(-1, 1, count + 1)[1:-1]))


def centres(rng, numeric, count):
    features = tuple(NumericFeature(f"x{i}", 0.0, 1.0, 0.0) for i in range(numeric))
    return NearestCentre.of(FeatureMap(features), rng.normal(0, 1, (count, numeric)))


def assert_counts(partitions, records, errors):
    """Against one record and one partition at a time."""
    expected = [], []
    for partition in partitions:
        counts = np.zeros((2, partition.cell_count(records.schema)), int)
        for error, cell in zip(errors, partition.cells(records), strict=True):
            counts[int(not error), cell] += 1
        for table, column in zip(expected, counts.tolist(), strict=True):
            table.extend(column)
    for workload in (encode_workload(partitions, records), PlanedWorkload.of(partitions, records)):
        wrong, right = workload.count(errors)
        assert wrong.dtype == right.dtype == np.int64
        assert (wrong.tolist(), right.tolist()) == expected


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 400),
    sizes=st.lists(st.integers(1, 40), min_size=0, max_size=6),
    k=st.integers(0, 300),
)
def test_counts_equal_a_slow_loop(seed, n, sizes, k):
    rng = np.random.default_rng(seed)
    records = make_records(rng, n, 3)
    partitions = [bins(int(rng.integers(3)), size) for size in sizes]
    partitions.append(FeatureBins(attribute="c", edges=()))
    if k:
        partitions.append(centres(rng, 3, k))
    rng.shuffle(partitions)
    assert_counts(tuple(partitions), records, rng.random(n) < rng.random())


@pytest.mark.parametrize("errors", [False, True])
def test_all_records_may_err_or_none(errors):
    records = make_records(np.random.default_rng(0), 50, 2)
    assert_counts((bins(0, 5), bins(1, 7)), records, np.full(50, errors))


def test_more_than_65536_cells_in_one_partition():
    rng = np.random.default_rng(1)
    records = make_records(rng, 500, 2)
    partitions = (bins(1, 3), bins(0, 70_000), bins(1, 4))
    encoded = encode_workload(partitions, records)
    assert [group.dtype.itemsize for group in encoded.groups] == [1, 4, 1]
    assert_counts(partitions, records, rng.random(500) < 0.5)


@pytest.mark.parametrize("cells", [127, 128, 32_767, 32_768])
def test_counts_at_the_edges_of_the_unsigned_types(cells):
    # Code 2 k - 1 is the largest: 127 and 128 cells straddle one byte, 32,768 is the last to fit two.
    records = Records(make_schema(1), np.array([[-1.0], [1.0], [np.nan]]), np.zeros((3, 1), np.int16))
    assert_counts((bins(0, cells - 1),), records, np.array([True, False, True]))


def test_neighbouring_partitions_are_counted_jointly_in_order():
    rng = np.random.default_rng(2)
    records = make_records(rng, 80_000, 6)
    partitions = tuple(bins(i, 10) for i in range(6))
    encoded = encode_workload(partitions, records)
    assert encoded.sizes == ((11, 11, 11, 11), (11, 11))
    assert_counts(partitions, records, rng.random(80_000) < 0.2)


def test_at_most_one_byte_per_record_and_partition_of_up_to_128_cells():
    records = make_records(np.random.default_rng(3), 3_000, 6)
    for size in (1, 2, 10, 60, 127):
        partitions = tuple(bins(i, size) for i in range(6))
        assert sum(group.nbytes for group in encode_workload(partitions, records).groups) <= 3_000 * 6


def test_counts_do_not_depend_on_the_grouping(monkeypatch):
    rng = np.random.default_rng(4)
    records = make_records(rng, 900, 4)
    partitions = tuple(bins(i, size) for i, size in enumerate((4, 9, 2, 17)))
    errors = rng.random(900) < 0.4
    results = []
    for most in (1, 30, 400, 16_384):
        monkeypatch.setattr(workloads, "LEAST_JOINT_CELLS", most)
        monkeypatch.setattr(workloads, "MOST_JOINT_CELLS", most)
        results.append([counts.tolist() for counts in encode_workload(partitions, records).count(errors)])
    assert results[1:] == results[:-1]


def test_counts_do_not_depend_on_the_order_of_the_records():
    rng = np.random.default_rng(5)
    records = make_records(rng, 300, 3)
    errors = rng.random(300) < 0.4
    order = rng.permutation(300)
    partitions = (bins(0, 6), centres(rng, 3, 20))
    counts = encode_workload(partitions, records).count(errors)
    other = encode_workload(partitions, records.take(order)).count(errors[order])
    assert np.array_equal(counts, other)


def test_errors_alone_are_counted_in_planes_of_bits_where_records_are_many(monkeypatch):
    records, partitions = make_records(np.random.default_rng(7), 300, 2), (bins(0, 6), bins(1, 40), bins(1, 1))
    monkeypatch.setattr(workloads, "LEAST_PLANED", 300)
    cache = WorkloadCache(records, 10**6)
    planed, joint = cache.of_errors(partitions), cache.get(partitions)
    assert cache.of_errors(partitions) is planed
    assert type(planed) is PlanedWorkload
    assert type(joint) is EncodedWorkload
    assert cache._bytes == planed.nbytes + joint.nbytes + 2 * KEY_BYTES
    arrays = [planes for planes, _ in planed.planes] + [*planed.joint.groups, planed.total]
    assert sum(array.nbytes for array in arrays) < planed.nbytes < sum(array.nbytes for array in arrays) + 2_000
    assert cache.of_errors((bins(1, 40),)) is cache.get((bins(1, 40),))
    assert type(WorkloadCache(records, planed.nbytes).of_errors(partitions)) is StreamedWorkload
    monkeypatch.setattr(workloads, "LEAST_PLANED", 301)
    assert cache.of_errors(partitions) is joint


def cached_bytes(partitions, records):
    """What a cache counts for a workload."""
    return encode_workload(partitions, records).nbytes + KEY_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "k"), [(50, 1_000, 9), (50, 10_000, 9), (50, 10_000, 300), (50, 10_000, 2), (1_000_000, 3, 200)]
)
def test_what_the_cache_counts_is_the_memory_it_takes(n, m, k):
    """Of few records the arrays' heads weigh more than their codes."""
    records = make_records(np.random.default_rng(11), n, 2)
    partitions = tuple(bins(0, k) for _ in range(m))
    cache = WorkloadCache(records, 10**9)
    cache.get((bins(1, 3),))
    before = cache._bytes
    gc.collect()
    tracemalloc.start()
    cache.get(partitions)
    gc.collect()
    traced_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.8 * traced_bytes <= cache._bytes - before <= 1.2 * traced_bytes


def test_several_threads_may_ask_the_cache(encodings):
    records = make_records(np.random.default_rng(12), 200, 3)
    workloads = [(bins(index % 3, 2 + index % 5),) for index in range(15)]
    errors = np.zeros(200, np.bool_)
    expected = [encode_workload(partitions, records).count(errors) for partitions in workloads]
    cache = WorkloadCache(records, 4 * cached_bytes(workloads[0], records))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            counted = pool.map(lambda partitions: cache.get(partitions).count(errors), workloads)
            assert all(np.array_equal(counts, other) for counts, other in zip(counted, expected, strict=True))
    assert cache._bytes == sum(workload.nbytes + KEY_BYTES for workload in cache._kept.values()) <= cache._most_bytes


def test_threads_that_ask_for_the_same_workload_encode_it_once(encodings):
    cache = WorkloadCache(make_records(np.random.default_rng(6), 20_000, 2), 10**6)
    with ThreadPoolExecutor(8) as pool:
        encoded = list(pool.map(lambda _: cache.get((bins(0, 5),)), range(64)))
    assert all(workload is encoded[0] for workload in encoded)
    assert len(encodings) == 1


@pytest.mark.parametrize("number", [2, 3, 7, 256])
def test_classes_are_counted_alike_in_one_pass_or_in_several(number):
    rng = np.random.default_rng(13)
    records = make_records(rng, 80_000, 3)
    partitions = (bins(0, 10), bins(1, 9), bins(2, 11), FeatureBins("c", ()), bins(1, 300), bins(0, 1))
    classes = rng.integers(0, number, 80_000).astype(np.uint8)
    counted = encode_workload(partitions, records).count_classes(classes, number)
    expected = []
    for partition in partitions:
        table = np.zeros((partition.cell_count(records.schema), number), np.int64)
        np.add.at(table, (partition.cells(records), classes), 1)
        expected.append(table)
    assert np.array_equal(counted, np.concatenate(expected))


@pytest.fixture
def encodings(monkeypatch):
    """Every workload that is encoded."""
    encoded = []
    monkeypatch.setattr(
        workloads,
        "encode_workload",
        lambda partitions, records: encoded.append(partitions) or encode_workload(partitions, records),
    )
    return encoded


def test_workloads_that_differ_in_one_edge_or_in_order_are_told_apart(encodings):
    cache = WorkloadCache(make_records(np.random.default_rng(6), 100, 2), 10**6)
    near = FeatureBins(attribute="x0", edges=(0.0, np.nextafter(1.0, 0)))
    for partitions in ((FeatureBins(attribute="x0", edges=(0.0, 1.0)),), (near,), (bins(0, 2), bins(1, 2))):
        cache.get(partitions)
    cache.get((bins(1, 2), bins(0, 2)))
    assert len(encodings) == 4


def test_the_least_recently_used_workload_goes_first(encodings):
    records = make_records(np.random.default_rng(7), 100, 3)
    a, b, c = ((bins(index, 5),) for index in range(3))
    cache = WorkloadCache(records, 2 * cached_bytes(a, records))
    for partitions in (a, b, a, c):
        cache.get(partitions)
    assert encodings == [a, b, c]
    cache.get(a)
    assert encodings == [a, b, c]
    cache.get(b)
    assert encodings == [a, b, c, b]


def test_a_larger_workload_throws_out_as_many_as_its_bytes_need(encodings):
    records = make_records(np.random.default_rng(8), 10_000, 3)
    a, b, c = ((bins(index, 5),) for index in range(3))
    wide = (bins(0, 200),)
    assert cached_bytes(wide, records) - cached_bytes(a, records) == 10_000
    cache = WorkloadCache(records, 2 * cached_bytes(a, records) + 10_000)
    for partitions in (a, b, c, wide, c, wide):
        cache.get(partitions)
    assert encodings == [a, b, c, wide]
    cache.get(a)
    cache.get(b)
    assert encodings == [a, b, c, wide, a, b]


def test_a_workload_larger_than_the_cache_is_counted_and_throws_nothing_out(encodings):
    records = make_records(np.random.default_rng(9), 100, 2)
    small, wide = (bins(0, 5),), (bins(0, 200),)
    cache = WorkloadCache(records, cached_bytes(small, records) + 50)
    cache.get(small)
    streamed = cache.get(wide)
    assert isinstance(streamed, StreamedWorkload)
    errors = np.random.default_rng(1).random(100) < 0.3
    assert np.array_equal(streamed.count(errors), encode_workload(wide, records).count(errors))
    cache.get(small)
    assert encodings == [small], "what does not fit is never held as a whole"


def test_a_streamed_workload_holds_one_group_at_a_time():
    records = make_records(np.random.default_rng(3), 20_000, 2)
    partitions = tuple(bins(index % 2, 200) for index in range(60))
    cache = WorkloadCache(records, 100_000)
    errors = np.zeros(20_000, np.bool_)
    tracemalloc.start()
    counted = cache.get(partitions).count(errors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < encode_workload(partitions, records).nbytes
    assert np.array_equal(counted, encode_workload(partitions, records).count(errors))


@settings(max_examples=30, deadline=None)
@given(
    requests=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    most_bytes=st.sampled_from([0, 700, 1_100, 2_000, 10**6]),
)
def test_results_do_not_depend_on_what_the_cache_holds(requests, most_bytes):
    rng = np.random.default_rng(10)
    records = make_records(rng, 60, 3)
    errors = rng.random(60) < 0.5
    workloads_ = [(bins(0, 4),), (bins(1, 4),), (bins(0, 4), bins(1, 4)), (bins(2, 300),), (centres(rng, 3, 9),)]
    cache = WorkloadCache(records, most_bytes)
    for number in requests:
        counted = cache.get(workloads_[number]).count(errors)
        assert np.array_equal(counted, encode_workload(workloads_[number], records).count(errors))


# --- Every kind of partition, asked of a real curator: the release's shape, refusals, and what is encoded only once.

SCHEMA = Schema(attributes=ATTRIBUTES, label="sick", classes=("no", "yes"))
MAP = FeatureMap(
    (
        NumericFeature("age", 60.0, 1 / 32, 60.0),
        NumericFeature("dose", 0.0, 0.5, 0.0),
        CategoricalFeature("sex", ("f", "m"), 1.0, "f"),
    )
)
ELSEWHERE = FeatureMap((NumericFeature("weight", 0.0, 1.0, 0.0),))
AGE = FeatureBins("age", (30.0, 60.0))
SEX = FeatureBins("sex", ())
NETWORK = Mlp.of(MAP, [(np.array([[1.0, 0, 0, 0, 0]]), np.array([0.0]))])
WIDTH = MAP.width

# The ages of ROWS are 20, 44, 71.5, missing (60) and 118; (age - 60) / 32 is -1.25, -.5, .359, 0 and 1.8.
GOOD = {
    "feature_bins": (AGE, [1, 1, 2, 1]),
    "nearest_centre": (NearestCentre.of(MAP, np.eye(2, WIDTH) * [[-1], [1]] * 1.0), None),
    "product_bins": (ProductBins(AGE, SEX), [1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1]),
    "score_bins": (ScoreBins(NETWORK, (-1.0, 0.0, 2.0**-24)), [1, 1, 1, 2]),
    "projection_bins": (
        ProjectionBins.of(MAP, np.array([[1.0, 0, 0, 0, 0], [0, 0, 1.0, -1.0, 0]]), ((0.0,), (0.0, 0.5))),
        None,
    ),
    "tree_leaves": (TreeLeaves.of(MAP, np.array([(0, 0, 1, -1), (3, 1, -2, -3)])), [3, 1, 1]),
    "cross_bins": (CrossBins((AGE,), (Range(AGE, (1, 2)),)), [0, 1, 2, 0, 2]),
}
BAD = {
    "feature_bins": (FeatureBins("age", (2.0, 1.0)), "edges"),
    "nearest_centre": (NearestCentre(MAP, bytes(4)), "centres"),
    "product_bins": (ProductBins(AGE, FeatureBins("weight", ())), "second.attribute"),
    "score_bins": (ScoreBins(Mlp(ELSEWHERE, NETWORK.weights), ()), "hypothesis.features.features[0].attribute"),
    "projection_bins": (ProjectionBins(MAP, bytes(4 * WIDTH), ((), ())), "directions"),
    "tree_leaves": (TreeLeaves.of(MAP, np.array([(0, 0, 0, -1)])), "nodes"),
    "cross_bins": (CrossBins((AGE,), (Range(AGE, (1, 4)),)), "within[0].cells"),
}
KINDS = pytest.mark.parametrize("kind", PARTITION_KINDS)


def body(*partitions, hypothesis=None):
    return encode(CountsBody(tuple(partitions), hypothesis))


def test_every_registered_kind_is_served_here():
    assert GOOD.keys() == BAD.keys() == PARTITION_KINDS.keys()
    assert {kind: type(partition) for kind, (partition, _) in GOOD.items()} == PARTITION_KINDS


@KINDS
def test_a_release_has_a_number_for_each_cell(kind):
    partition, _ = GOOD[kind]
    learner = opened(open_curator(), plan=plan_of(1))
    reply = learner.query(body(partition))
    assert isinstance(reply, Release)
    assert len(numbers(reply)) == partition.cell_count(SCHEMA)


@KINDS
def test_without_noise_the_release_counts_every_record_once(kind):
    partition, expected = GOOD[kind]
    learner = opened(open_curator(noise=ZeroNoise()), plan=plan_of(1))
    counts = numbers(learner.query(body(partition)))
    assert sum(counts) == len(ROWS)
    assert expected in (None, counts)


@KINDS
def test_a_malformed_partition_is_refused_by_name_and_costs_nothing(kind):
    partition, field = BAD[kind]
    learner = opened(open_curator(), plan=plan_of(1))
    reply = learner.query(body(partition))
    assert isinstance(reply, Refusal)
    assert (reply.code, reply.field) == (RefusalCode.BAD_QUERY, f"body.partitions[0].{field}")
    assert reply.limit


@KINDS
def test_a_partition_is_encoded_once_for_all_hypotheses_and_studies(kind, encodings):
    partition, _ = GOOD[kind]
    curator = open_curator()
    for learner_name in ("ann", "bob"):
        learner = opened(curator, learner_name, plan=plan_of(30, 30, release="signed_error"))
        for hypothesis in (Constant(0), NETWORK):
            assert isinstance(learner.query(body(partition, hypothesis=hypothesis)), Release)
    assert encodings == [(partition,)]


def test_partitions_that_were_read_before_are_checked_anew_under_other_terms():
    """The same bytes are refused by another schema, smaller limits, or a release kind of more numbers a cell."""
    data = encode(CountsBody((BINS,), None))
    for _ in range(2):
        assert COUNTS.read_body(data, planned(), KindTerms(TWO, CountsLimits())) == CountsBody((BINS,), None)
        other = Schema((NumericAttribute("z", 0.0, 1.0),), "y", ("no", "yes"))
        assert refusal(data, planned(), schema=other) == (RefusalCode.BAD_QUERY, "body.partitions[0].attribute")
        few = CountsLimits(cells=BINS.cell_count(TWO))
        assert COUNTS.read_body(data, planned(), KindTerms(TWO, few)).cells(TWO) == BINS.cell_count(TWO)
        assert refusal(data, planned("class_counts"), few, MANY) == (RefusalCode.OVER_LIMIT, "body.partitions")
        assert refusal(data, planned(), CountsLimits(cells=1)) == (RefusalCode.OVER_LIMIT, "body.partitions")
