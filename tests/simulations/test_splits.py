"""Splits: every record lands once, units stay whole, the seed decides, no site is empty."""

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from simulations.datasets import SITE_SPLITS, load_dataset
from simulations.datasets.dataset import SCHEMAS, Dataset
from simulations.datasets.splits import split_parts, split_sites

SEEDS = st.integers(0, 2**32 - 1)
FRACTIONS = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(
    lambda weights: {f"part {i}": weight / sum(weights) for i, weight in enumerate(weights)}
)


def make(rows, *, site=None, unit=None):
    """Records of (exam, rate, town); ``row`` tells them apart."""
    frame = pl.DataFrame(rows, schema={"exam": pl.String, "rate": pl.Float64, "town": pl.String}, orient="row")
    frame = frame.with_row_index("row").with_columns(pl.lit("ill").alias("state"))
    texts = dict.fromkeys(("description", "licence", "citation"), "")
    return Dataset(
        name="toy", frame=frame, label="state", site=site, unit=unit, schema_path=SCHEMAS / "none.toml", **texts
    )


def shifted(dataset, seed, **options):
    options = {"attribute": "rate", "sites": ("source", "target"), **options}
    return split_sites(dataset, "shift", np.random.default_rng(seed), **options)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.integers(-3, 3).map(float), st.sampled_from(["x", "y"])),
    min_size=1,
    max_size=20,
)
UNITS = st.sampled_from([None, "exam"])


def unit_count(frame, unit):
    return frame.height if unit is None else frame[unit].n_unique()


def check_split(frame, parts, unit):
    """Every record once, whole and in order; none empty; no unit in two."""
    assert all(not part.is_empty() for part in parts.values())
    assert all(part["row"].is_sorted() for part in parts.values())
    assert_frame_equal(pl.concat(parts.values()).sort("row"), frame)
    if unit is not None:
        assert sum(part[unit].n_unique() for part in parts.values()) == frame[unit].n_unique()


@settings(max_examples=50)
@given(ROWS, FRACTIONS, SEEDS, UNITS)
def test_parts_hold_every_record_once(rows, fractions, seed, unit):
    frame = make(rows).frame
    units = unit_count(frame, unit)
    if units < len(fractions):
        with pytest.raises(ValueError, match=f"{units} units cannot fill {len(fractions)} parts"):
            split_parts(frame, fractions, np.random.default_rng(seed), unit)
        return

    parts = split_parts(frame, fractions, np.random.default_rng(seed), unit)

    assert list(parts) == list(fractions)
    check_split(frame, parts, unit)
    again = split_parts(frame, fractions, np.random.default_rng(seed), unit)
    assert all(parts[name].equals(again[name]) for name in parts)


@settings(max_examples=50)
@given(st.integers(1, 200), FRACTIONS, SEEDS)
def test_part_sizes_are_the_fractions_up_to_rounding(height, fractions, seed):
    assume(height * min(fractions.values()) >= 1)
    frame = pl.DataFrame({"row": range(height)})

    parts = split_parts(frame, fractions, np.random.default_rng(seed))

    for name, fraction in fractions.items():
        assert abs(parts[name].height - fraction * height) < 1


@settings(max_examples=50)
@given(ROWS, FRACTIONS, SEEDS, UNITS)
def test_random_sites_hold_every_record_once(rows, fractions, seed, unit):
    dataset = make(rows, unit=unit)
    assume(unit_count(dataset.frame, unit) >= len(fractions))

    sites = split_sites(dataset, "random", np.random.default_rng(seed), fractions=fractions)

    check_split(dataset.frame, sites, unit)


@settings(max_examples=50)
@given(ROWS, SEEDS, UNITS)
def test_shifted_sites_hold_every_record_once(rows, seed, unit):
    dataset = make(rows, unit=unit)
    levels = dataset.frame["rate"] if unit is None else dataset.frame.group_by(unit).agg(pl.col("rate").mean())["rate"]
    assume(levels.max() - levels.min() > 1e-6 or levels.n_unique() == 1)
    if levels.n_unique() == 1:
        with pytest.raises(ValueError, match="nothing to shift by"):
            shifted(dataset, seed)
        return

    sites = shifted(dataset, seed)

    assert list(sites) == ["source", "target"]
    check_split(dataset.frame, sites, unit)
    again = shifted(dataset, seed)
    assert all(sites[name].equals(again[name]) for name in sites)


@settings(max_examples=50)
@given(ROWS)
def test_site_column_splits_as_it_says(rows):
    dataset = make(rows, site="town")

    sites = split_sites(dataset, "site", np.random.default_rng(0))

    check_split(dataset.frame, sites, None)
    assert list(sites) == sorted(set(dataset.frame["town"]))
    assert all(set(part["town"]) == {name} for name, part in sites.items())


@settings(max_examples=50)
@given(ROWS)
def test_site_column_may_not_split_a_unit(rows):
    dataset = make(rows, site="town", unit="exam")
    towns = {}
    for exam, _, town in rows:
        towns.setdefault(exam, set()).add(town)

    if max(map(len, towns.values())) > 1:
        with pytest.raises(ValueError, match="some exam has records at more than one town"):
            split_sites(dataset, "site", np.random.default_rng(0))
    else:
        check_split(dataset.frame, split_sites(dataset, "site", np.random.default_rng(0)), "exam")


def test_extreme_probabilities_follow_the_attribute():
    """With chances 0 and 1 at the ends the extremes have no choice: 8 of 8 seeds agree."""
    dataset = make([("a", 0.0, "x"), ("b", 9.0, "x")])

    for seed in range(8):
        sites = shifted(dataset, seed, sites=("high", "low"), probabilities=(0.0, 1.0))
        assert sites["high"]["rate"].to_list() == [9.0]


def test_shift_keeps_the_stated_chance_at_each_level():
    """4000 records a level: the share has a standard deviation of at most 0.008; 0.048 off has a chance below 1e-8."""
    dataset = make([("a", float(level), "x") for level in (0, 1, 2) for _ in range(4000)])

    source = shifted(dataset, 5)["source"]

    for level, chance in ((0.0, 0.1), (1.0, 0.5), (2.0, 0.9)):
        assert abs((source["rate"] == level).sum() / 4000 - chance) < 0.048


def test_seeds_matter():
    frame = make([("a", 0.0, "x")] * 40).frame
    halves = {"private": 0.5, "test": 0.5}

    first, second = (split_parts(frame, halves, np.random.default_rng(seed)) for seed in (1, 2))

    assert not first["private"].equals(second["private"])


@pytest.mark.parametrize(
    "fractions",
    [{}, {"a": 0.5}, {"a": 1.0, "b": 0.0}, {"a": 1.5, "b": -0.5}, {"a": float("nan"), "b": 0.5}],
)
def test_bad_fractions(fractions):
    with pytest.raises(ValueError, match="fractions must be positive and add up to 1"):
        split_parts(make([("a", 0.0, "x")] * 9).frame, fractions, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probabilities": (0.5, 0.5)}, "0 <= low < high <= 1"),
        ({"probabilities": (0.1, 1.1)}, "0 <= low < high <= 1"),
        ({"probabilities": (float("nan"), 0.9)}, "0 <= low < high <= 1"),
        ({"probabilities": (0.0, 1e-12)}, "draws filled both sites"),
        ({"sites": ("one", "one")}, "two names"),
        ({"attribute": "town"}, "town is not numeric"),
        ({"attribute": "holey"}, "missing or infinite"),
        ({"attribute": "endless"}, "missing or infinite"),
    ],
)
def test_bad_shifts(options, message):
    toy = make([("a", 0.0, "x"), ("b", 1.0, "y")])
    holes = toy.frame.with_columns(
        pl.Series("holey", [None, 1.0]), pl.Series("endless", [float("inf"), 1.0], dtype=pl.Float64)
    )
    dataset = Dataset(**{**vars(toy), "frame": holes})

    with pytest.raises(ValueError, match=message):
        shifted(dataset, 0, **options)


def test_records_without_unit_or_site_are_refused():
    dataset = make([(None, 0.0, "x"), ("b", 1.0, None)], site="town", unit="exam")

    with pytest.raises(ValueError, match="1 records have no exam"):
        split_parts(dataset.frame, {"a": 1.0}, np.random.default_rng(0), "exam")
    with pytest.raises(ValueError, match="1 records have no town"):
        split_sites(dataset, "site", np.random.default_rng(0))


def test_unknown_split_and_missing_site_column():
    with pytest.raises(ValueError, match=f"no split is called 'moon'; there are {', '.join(SITE_SPLITS)}"):
        split_sites(make([("a", 0.0, "x")]), "moon", np.random.default_rng(0))
    with pytest.raises(ValueError, match="toy has no site column"):
        split_sites(make([("a", 0.0, "x")]), "site", np.random.default_rng(0))


def test_wdbc_in_three():
    thirds = {"north": 1 / 3, "east": 1 / 3, "south": 1 / 3}

    sites = split_sites(load_dataset("wdbc"), "random", np.random.default_rng(0), fractions=thirds)

    assert sorted(part.height for part in sites.values()) == [189, 190, 190]
