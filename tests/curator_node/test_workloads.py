"""Encoded workloads count what a slow loop counts, whatever is grouped, kept or thrown out."""

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_node.records import workloads
from curator_node.records.workloads import KEY_BYTES, StreamedWorkload, WorkloadCache, encode_workload
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.partitions import FeatureBins, NearestCentre, Partition
from protocol.records import MISSING_CODE, Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

LEVELS = ("a", "b", "c")


def make_schema(numeric: int) -> Schema:
    attributes = [NumericAttribute(name=f"x{i}", lower=-1.0, upper=1.0) for i in range(numeric)]
    return Schema(
        attributes=(*attributes, CategoricalAttribute(name="c", levels=LEVELS)), label="y", classes=("no", "yes")
    )


def make_records(rng: np.random.Generator, n: int, numeric: int) -> Records:
    values = np.clip(rng.normal(0, 0.6, (n, numeric)), -1, 1)
    values[rng.random((n, numeric)) < 0.1] = np.nan
    codes = rng.integers(MISSING_CODE, len(LEVELS) + 1, (n, 1)).astype(np.int16)
    return Records(make_schema(numeric), values, codes)


def bins(index: int, count: int) -> FeatureBins:
    return FeatureBins(attribute=f"x{index}", edges=tuple(float(e) for e in np.linspace(-1, 1, count + 1)[1:-1]))


def centres(rng: np.random.Generator, numeric: int, count: int) -> NearestCentre:
    features = FeatureMap(
        features=tuple(
            NumericFeature(attribute=f"x{i}", offset=0.0, factor=1.0, imputation=0.0) for i in range(numeric)
        )
    )
    return NearestCentre.of(features, rng.normal(0, 1, (count, numeric)))


def count_slowly(partitions: tuple[Partition, ...], records: Records, errors: np.ndarray) -> tuple[list, list]:
    """One record and one partition at a time."""
    wrong: list[int] = []
    right: list[int] = []
    for partition in partitions:
        counts = [[0, 0] for _ in range(partition.cell_count(records.schema))]
        for row, cell in enumerate(partition.cells(records)):
            counts[cell][bool(errors[row])] += 1
        wrong += [pair[1] for pair in counts]
        right += [pair[0] for pair in counts]
    return wrong, right


def assert_counts(partitions: tuple[Partition, ...], records: Records, errors: np.ndarray) -> None:
    wrong, right = encode_workload(partitions, records).count(errors)
    expected = count_slowly(partitions, records, errors)
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
    partitions: list[Partition] = [bins(int(rng.integers(3)), size) for size in sizes]
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


def kept(partitions, records) -> int:
    """What a cache counts for a workload."""
    return encode_workload(partitions, records).nbytes + KEY_BYTES


LARGE = [(50, 10_000, 9), (50, 10_000, 300), (50, 10_000, 2), (1_000_000, 3, 200)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "k"), [(50, 1_000, 9), *(pytest.param(*each, marks=pytest.mark.slow) for each in LARGE)]
)
def test_what_the_cache_counts_is_the_memory_it_takes(n, m, k):
    """Of few records the arrays' heads weigh more than their codes."""
    records = make_records(np.random.default_rng(11), n, 2)
    partitions = (bins(0, k),) * m
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
    cache = WorkloadCache(records, 4 * kept(workloads[0], records))
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
    assert len(encodings.partitions) == 1


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


class Encodings:
    """Counts how often a workload is encoded."""

    def __init__(self, monkeypatch):
        self.partitions: list[tuple[Partition, ...]] = []
        monkeypatch.setattr(workloads, "encode_workload", self._encode)

    def _encode(self, partitions, records):
        self.partitions.append(partitions)
        return encode_workload(partitions, records)


@pytest.fixture
def encodings(monkeypatch):
    return Encodings(monkeypatch)


def test_a_kept_workload_is_encoded_once(encodings):
    cache = WorkloadCache(make_records(np.random.default_rng(6), 100, 2), 10**6)
    first = cache.get((bins(0, 5),))
    assert cache.get((bins(0, 5),)) is first
    assert len(encodings.partitions) == 1


def test_workloads_that_differ_in_one_edge_or_in_order_are_told_apart(encodings):
    cache = WorkloadCache(make_records(np.random.default_rng(6), 100, 2), 10**6)
    near = FeatureBins(attribute="x0", edges=(0.0, np.nextafter(1.0, 0)))
    for partitions in ((FeatureBins(attribute="x0", edges=(0.0, 1.0)),), (near,), (bins(0, 2), bins(1, 2))):
        cache.get(partitions)
    cache.get((bins(1, 2), bins(0, 2)))
    assert len(encodings.partitions) == 4


def test_the_least_recently_used_workload_goes_first(encodings):
    records = make_records(np.random.default_rng(7), 100, 3)
    a, b, c = ((bins(index, 5),) for index in range(3))
    cache = WorkloadCache(records, 2 * kept(a, records))
    for partitions in (a, b, a, c):
        cache.get(partitions)
    assert encodings.partitions == [a, b, c]
    cache.get(a)
    assert encodings.partitions == [a, b, c]
    cache.get(b)
    assert encodings.partitions == [a, b, c, b]


def test_a_larger_workload_throws_out_as_many_as_its_bytes_need(encodings):
    records = make_records(np.random.default_rng(8), 10_000, 3)
    a, b, c = ((bins(index, 5),) for index in range(3))
    wide = (bins(0, 200),)
    assert kept(wide, records) - kept(a, records) == 10_000
    cache = WorkloadCache(records, 2 * kept(a, records) + 10_000)
    for partitions in (a, b, c, wide, c, wide):
        cache.get(partitions)
    assert encodings.partitions == [a, b, c, wide]
    cache.get(a)
    cache.get(b)
    assert encodings.partitions == [a, b, c, wide, a, b]


def test_a_workload_larger_than_the_cache_is_counted_and_throws_nothing_out(encodings):
    records = make_records(np.random.default_rng(9), 100, 2)
    small, wide = (bins(0, 5),), (bins(0, 200),)
    cache = WorkloadCache(records, kept(small, records) + 50)
    cache.get(small)
    streamed = cache.get(wide)
    assert isinstance(streamed, StreamedWorkload)
    errors = np.random.default_rng(1).random(100) < 0.3
    assert np.array_equal(streamed.count(errors), encode_workload(wide, records).count(errors))
    cache.get(small)
    assert encodings.partitions == [small], "what does not fit is never held as a whole"


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
    asked=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    most_bytes=st.sampled_from([0, 700, 1_100, 2_000, 10**6]),
)
def test_results_do_not_depend_on_what_the_cache_holds(asked, most_bytes):
    rng = np.random.default_rng(10)
    records = make_records(rng, 60, 3)
    errors = rng.random(60) < 0.5
    workloads_ = [(bins(0, 4),), (bins(1, 4),), (bins(0, 4), bins(1, 4)), (bins(2, 300),), (centres(rng, 3, 9),)]
    cache = WorkloadCache(records, most_bytes)
    for number in asked:
        counted = cache.get(workloads_[number]).count(errors)
        assert np.array_equal(counted, encode_workload(workloads_[number], records).count(errors))
