"""The paper's data sets: sizes, labelling rules, divisions of the cardiotocograms, streams, pinned values."""

import os
from dataclasses import asdict
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.problems import PAPER_DATASETS, draw
from lab.reproduction import datasets
from lab.reproduction.datasets import STREAMS
from learner_node.models.networks import train_network
from seeded import nothing_unseeded
from simulations.datasets.ctg import WORKBOOK, load_ctg
from simulations.datasets.files import DATA_DIRECTORY_VARIABLE

SYNTHETIC = ("A", "B", "C", "D", "E")
CTG = ("CTG-A", "CTG-B")
SIZES = {  # source, oracle, test
    "A": (2500, 2500, 2500),
    "B": (2500, 2500, 2500),
    "C": (5000, 5000, 5000),
    "D": (5000, 5000, 5000),
    "E": (5000, 5000, 5000),
    "CTG-A": (708, 709, 709),
    "CTG-B": (708, 708, 355),
}
DATA = Path(os.environ.get(DATA_DIRECTORY_VARIABLE) or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture
def workbook(monkeypatch):
    if not (DATA / WORKBOOK.name).is_file():
        pytest.skip(f"set {DATA_DIRECTORY_VARIABLE} to a folder with {WORKBOOK.name}")
    monkeypatch.setenv(DATA_DIRECTORY_VARIABLE, str(DATA))


@pytest.fixture(params=PAPER_DATASETS)
def name(request):
    if request.param in CTG:
        request.getfixturevalue("workbook")
    return request.param


def parts(data):
    return ((data.source, data.source_labels), (data.oracle, data.oracle_labels), (data.test, data.test_labels))


def arrays(data):
    return [array for part in parts(data) for array in part]


def target(data):
    return np.concatenate([data.oracle, data.test]), np.concatenate([data.oracle_labels, data.test_labels])


def unscaled(part, source):
    """CTG's scaled values back in the file's units, given the file's values of the source rows."""
    deviation = source.std(axis=0)
    return part * np.where(deviation > 0, deviation, 1) + source.mean(axis=0)


# --- the table --------------------------------------------------------------------------------------------


def test_rows_are_those_of_table_1():
    assert list(PAPER_DATASETS) == ["A", "B", "C", "D", "E", "CTG-A", "CTG-B"] == list(STREAMS)
    assert {row.name for row in PAPER_DATASETS.values() if row.reweight} == {"C", "D", "E", "CTG-B"}
    assert [row.dimensions for row in PAPER_DATASETS.values()] == [2, 4, 10, 15, 25, 22, 22]
    for name, row in PAPER_DATASETS.items():
        assert row.name == name
        assert row.rounds == 2
        assert row.queries == row.rounds + row.reweight
        assert row.hidden == ((32, 32) if name in "CDE" else (16, 256, 256, 16))
        assert row.target_size == SIZES[name][1]


def test_training_settings_are_options_of_train_network():
    for row in PAPER_DATASETS.values():
        assert asdict(row.training).keys() <= signature(train_network).parameters.keys()


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"no data set 'F'; it has A, B, C, D, E, CTG-A, CTG-B"):
        draw("F", 0)


def test_negative_seeds_are_refused():
    with pytest.raises(ValueError, match="non-negative"):
        draw("A", -1)


# --- every data set ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1000])
def test_shapes_types_and_ranges(name, seed):
    data = draw(name, seed)

    assert data.name == name
    assert len(data.attributes) == PAPER_DATASETS[name].dimensions == len(set(data.attributes))
    for (records, labels), size in zip(parts(data), SIZES[name], strict=True):
        assert records.shape == (size, len(data.attributes))
        assert records.dtype == np.float64
        assert np.isfinite(records).all()
        assert labels.shape == (size,)
        assert labels.dtype == np.int64
        assert set(labels.tolist()) == {0, 1}


def check_same(first, second):
    """Of sums of at most 64 products each digit may hang on the processor: a few hundred 2^-53, and 0.1 were it others.

    Labels are whole numbers. One moves where a record lies within rounding, 10^-14, of a boundary: of 10^4 records and
    the rounds of a clustering that is a chance below 10^-7, and the seeds are set.
    """
    if first.dtype == np.float64:
        np.testing.assert_allclose(first, second, rtol=0, atol=2.0**-36)
    else:
        np.testing.assert_array_equal(first, second)


def test_a_seed_gives_the_same_data_twice(name):
    with nothing_unseeded():
        for first, second in zip(arrays(draw(name, 3)), arrays(draw(name, 3)), strict=True):
            check_same(first, second)


def test_seeds_and_parts_share_no_records(name):
    rows = [records for records, _ in parts(draw(name, 0))]
    if name not in CTG:  # there, every seed divides the same records
        rows += [records for records, _ in parts(draw(name, 1))]
        together = np.concatenate(rows)
        assert len(np.unique(together, axis=0)) == len(together)
    assert not np.array_equal(draw(name, 0).oracle, draw(name, 1).oracle)


def test_data_sets_share_no_randomness():
    assert len(set(STREAMS.values())) == len(STREAMS)
    first = {name: np.random.default_rng([0, word]).random() for name, word in STREAMS.items()}
    assert len(set(first.values())) == len(STREAMS)
    assert draw("A", 0).oracle[0, 0] == first["A"]
    assert draw("B", 0).oracle[0, 0] == first["B"]


@pytest.mark.parametrize(
    ("name", "source", "oracle", "test"),
    [
        ("A", 0.568006914, 0.269786714, 0.021936555),
        ("B", 0.253377070, 0.956513817, 0.602100237),
        ("C", -1.114987414, 0.406242730, -0.514671449),
        ("D", -0.081017133, 0.795005156, 1.366178731),
        ("E", -0.628279849, -0.232750175, -0.575809103),
        ("CTG-A", 1.475859964, -0.546565803, -0.832572555),
        ("CTG-B", 1.419507353, 1.195861640, -0.855181477),
    ],
)
def test_values_of_seed_0(request, name, source, oracle, test):
    if name in CTG:
        request.getfixturevalue("workbook")
    data = draw(name, 0)
    results = [data.source[0, 0], data.oracle[0, -1], data.test[-1, 1]]
    # A few hundred roundings of 2^-53 each; another stream or network is 0.1 away.
    np.testing.assert_allclose(results, [source, oracle, test], rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "ones"),
    [
        ("A", (1104, 1132, 1106)),
        ("B", (1228, 1205, 1209)),
        ("C", (2005, 2995, 2951)),
        ("D", (2679, 2321, 2369)),
        ("E", (2521, 2479, 2432)),
        ("CTG-A", (555, 542, 558)),
        ("CTG-B", (568, 550, 251)),
    ],
)
def test_labels_of_seed_0(request, name, ones):
    """Counts of labels: whole numbers, which rounding moves where a record lies on a boundary (see `check_same`)."""
    if name in CTG:
        request.getfixturevalue("workbook")
    data = draw(name, 0)
    assert tuple(int(labels.sum()) for labels in (data.source_labels, data.oracle_labels, data.test_labels)) == ones


# --- more records of the same problem -----------------------------------------------------------------------

LARGER = {"A": datasets.draw_a, "B": datasets.draw_b, "C": datasets.draw_c, "D": datasets.draw_d, "E": datasets.draw_e}


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_larger_draw_begins_with_the_frozen_one(name):
    size = SIZES[name][0]
    frozen, larger = draw(name, 4), LARGER[name](4, source_size=size + 300, oracle_size=2 * size)

    assert (
        (len(larger.source), len(larger.oracle))
        == (size + 300, 2 * size)
        == (len(larger.source_labels), len(larger.oracle_labels))
    )
    for results, expected in zip(arrays(larger), arrays(frozen), strict=True):
        check_same(results[: len(expected)], expected)
    assert len(larger.test) == len(frozen.test)
    everyone = np.concatenate([larger.source, larger.oracle, larger.test])
    assert len(np.unique(everyone, axis=0)) == len(everyone)
    assert larger.source.dtype == larger.oracle.dtype == np.float64
    assert larger.source_labels.dtype == larger.oracle_labels.dtype == np.int64


@pytest.mark.parametrize("name", SYNTHETIC)
def test_more_of_one_part_moves_nothing_of_the_other(name):
    size = SIZES[name][0]
    source, pair = LARGER[name](4, source_size=size + 9), LARGER[name](4, source_size=size + 9, oracle_size=size + 5)
    check_same(source.source, pair.source)
    check_same(source.oracle, pair.oracle[:size])


@pytest.mark.family(2)
@pytest.mark.parametrize("name", SYNTHETIC)
def test_further_records_are_of_the_same_populations_and_labels(name):
    """Means within 6.2 standard errors (1e-9); labels as those of the nearest frozen record, mostly."""
    size = SIZES[name][0]
    data = LARGER[name](4, source_size=2 * size, oracle_size=2 * size)
    for records, labels in ((data.source, data.source_labels), (data.oracle, data.oracle_labels)):
        old, new = records[:size], records[size:]
        error = np.sqrt((old.var(axis=0) + new.var(axis=0)) / size)
        assert (np.abs(old.mean(axis=0) - new.mean(axis=0)) < 6.2 * error).all()
        distance = ((new[:300, None, :] - old[None, :, :]) ** 2).sum(axis=2)
        agreement = (labels[:size][distance.argmin(axis=1)] == labels[size : size + 300]).mean()
        # By chance one half; 0.65 of 300 is five standard errors above.
        assert agreement > {"A": 0.9, "B": 0.65, "C": 0.9, "D": 0.8, "E": 0.65}[name]


def test_a_draw_is_never_smaller_than_the_frozen_one():
    with pytest.raises(ValueError, match="at least its frozen 2500 records, not 2499"):
        datasets.draw_b(0, source_size=2499)
    with pytest.raises(ValueError, match="at least its frozen 5000 records, not 10"):
        datasets.draw_e(0, oracle_size=10)


# --- A and B ----------------------------------------------------------------------------------------------


def band(records):
    return np.abs(records.sum(axis=1) - records.shape[1] / 2)


@pytest.mark.parametrize("name", ["A", "B"])
def test_records_fill_the_unit_cube(name):
    for records, _ in parts(draw(name, 0)):
        assert records.min() >= 0
        assert records.max() < 1
        np.testing.assert_allclose(records.mean(axis=0), 0.5, atol=6 * 12**-0.5 / len(records) ** 0.5)
        np.testing.assert_allclose(records.std(axis=0), 12**-0.5, atol=0.02)


@pytest.mark.parametrize(("name", "clusters"), [("A", 15), ("B", 64)])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_half_of_the_clusters_is_labelled_one_and_a_third_of_the_target_flipped(monkeypatch, name, clusters, seed):
    fitted = []

    class Recorded(datasets.KMeans):
        def fit(self, *arguments, **options):
            fitted.append(super().fit(*arguments, **options))
            return fitted[-1]

    monkeypatch.setattr(datasets, "KMeans", Recorded)
    data = draw(name, seed)
    records, labels = target(data)
    (kmeans,) = fitted

    width = np.quantile(band(records), 1 / 3)
    assert (band(records) <= width).mean() == pytest.approx(1 / 3, abs=1 / len(records))
    ones = set()
    for some, their in ((records, labels), (data.source, data.source_labels)):
        inherited = their ^ (band(some) <= width)
        assigned = kmeans.predict(some)
        pairs = set(zip(assigned.tolist(), inherited.tolist(), strict=True))
        assert len(pairs) == clusters  # one label each
        ones |= {cluster for cluster, label in pairs if label}
    assert len(ones) in {clusters // 2, clusters - clusters // 2}


def test_an_odd_number_of_clusters_is_split_either_way(monkeypatch):
    halves = set()
    monkeypatch.setattr(
        datasets.np.random, "default_rng", lambda words, make=np.random.default_rng: spy(make(words), halves)
    )
    for seed in range(6):
        draw("A", seed)
    assert halves == {7, 8}


def spy(rng, halves):
    class Spy:
        def __getattr__(self, attribute):
            return getattr(rng, attribute)

        def permutation(self, values):
            halves.add(int(values.sum()))
            return rng.permutation(values)

    return Spy()


# --- C, D and E -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["C", "D", "E"])
@pytest.mark.parametrize("seed", [0, 1])
def test_latent_data_are_scaled_by_the_source_and_halved_by_the_pooled_median(name, seed):
    data = draw(name, seed)

    np.testing.assert_allclose(data.source.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(data.source.std(axis=0), 1, atol=1e-9)
    pooled = np.concatenate([data.source_labels, data.oracle_labels])
    assert pooled.mean() == 0.5


@pytest.mark.parametrize("name", ["C", "D", "E"])
def test_source_and_target_differ_but_overlap(name):
    for seed in range(3):
        data = draw(name, seed)
        moved = np.abs(data.oracle.mean(axis=0))
        assert moved.max() > 0.1
        assert moved.max() < 2
        low, high = data.source.min(axis=0), data.source.max(axis=0)
        assert ((data.oracle >= low) & (data.oracle <= high)).mean() > 0.99
        np.testing.assert_allclose(data.oracle.mean(axis=0), data.test.mean(axis=0), atol=0.15)


@pytest.mark.parametrize(("name", "latent"), [("C", 3), ("D", 5), ("E", 10)])
def test_labels_follow_from_the_records(name, latent):
    """The feature network is one to one on its latent space, so a nearest neighbour mostly has the same label."""
    data = draw(name, 0)
    distance = ((data.test[:300, None, :] - data.oracle[None, :, :]) ** 2).sum(axis=2)
    agreement = (data.oracle_labels[distance.argmin(axis=1)] == data.test_labels[:300]).mean()
    assert agreement > {3: 0.9, 5: 0.8, 10: 0.65}[latent]


# --- the cardiotocograms ----------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
@pytest.mark.usefixtures("workbook")
def test_parts_of_ctg_are_disjoint_and_of_constant_size(seed):
    a = datasets.rows_a(seed)
    b = datasets.rows_b(seed)

    assert tuple(map(len, a)) == SIZES["CTG-A"]
    assert sorted(np.concatenate(a)) == list(range(2126))
    assert tuple(map(len, b)) == SIZES["CTG-B"]
    rows = np.concatenate(b)
    assert len(set(rows.tolist())) == len(rows)
    assert rows.min() >= 0
    assert rows.max() < 2126


@pytest.mark.usefixtures("workbook")
def test_ctg_a_is_the_file_divided():
    dataset = load_ctg()
    expected = dataset.frame.select(dataset.attributes).to_numpy()
    data = draw("CTG-A", 0)
    source = expected[datasets.rows_a(0)[0]]
    results = np.concatenate([unscaled(records, source) for records, _ in parts(data)])
    labels = np.concatenate([labels for _, labels in parts(data)])

    assert list(data.attributes) == dataset.attributes
    np.testing.assert_allclose(np.sort(results, axis=0), np.sort(expected, axis=0), atol=1e-9)
    order, due = np.lexsort(results.round(6).T), np.lexsort(expected.round(6).T)
    np.testing.assert_allclose(results[order], expected[due], atol=1e-9)
    assert labels.sum() == 1655


@pytest.mark.parametrize("name", CTG)
@pytest.mark.usefixtures("workbook")
def test_ctg_is_scaled_by_the_source_and_the_constant_column_stays_zero(name):
    data = draw(name, 0)
    constant = data.attributes.index("DR")

    np.testing.assert_allclose(data.source.mean(axis=0), 0, atol=1e-9)
    deviations = np.delete(data.source.std(axis=0), constant)
    np.testing.assert_allclose(deviations, 1, atol=1e-9)
    for records, _ in parts(data):
        assert (records[:, constant] == 0).all()


@pytest.mark.usefixtures("workbook")
def test_ctg_b_probability_spans_a_tenth_to_nine_tenths():
    probability = datasets.target_probability()

    assert probability.min() == pytest.approx(0.1)
    assert probability.max() == pytest.approx(0.9)
    assert probability.mean() == pytest.approx(0.5055, abs=1e-3)


@pytest.mark.usefixtures("workbook")
def test_ctg_b_selects_by_that_probability():
    """Over seeds, the share of the target in the selected rows of a probability is that probability."""
    probability = datasets.target_probability()
    in_target, selected = np.zeros(2126), np.zeros(2126)
    for seed in range(200):
        source, oracle, test = datasets.rows_b(seed)
        in_target[oracle] += 1
        selected[source] += 1
        selected[oracle] += 1
        assert not set(test.tolist()) & set(oracle.tolist())
    for low in (0.2, 0.4, 0.6):
        rows = (probability >= low) & (probability < low + 0.2)
        results, expected = in_target[rows].sum() / selected[rows].sum(), probability[rows].mean()
        assert results == pytest.approx(expected, abs=0.02)


@pytest.mark.usefixtures("workbook")
def test_ctg_records_are_read_once(monkeypatch):
    draw("CTG-A", 0)
    monkeypatch.setattr(datasets, "load_ctg", lambda: pytest.fail("read again"))
    draw("CTG-B", 0)
