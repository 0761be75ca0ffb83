"""Of whom a simulation speaks: bounded alike everywhere; small sites, units that move, merged labels, first records."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learner_node.study.cards import counted
from protocol.errors import ConfigurationError
from simulations.records import load_records, population_notes, sites_of, split_records
from simulations.scenario import fits, load_scenario, matching

SCHEMA = """
label = "back"
classes = ["NO", ">30", "<30"]
unit = "patient"
most_records_per_unit = 1
[[attributes]]
name = "age"
kind = "numeric"
lower = 0
upper = 100
"""
SCENARIO = """
title = "own"
[data]
path = "records.csv"
schema = "schema.toml"
{data}
[data.sites]
{sites}
{curators}
[[learners]]
name = "ada"
[[learners]]
name = "grace"
{learner}
"""


@pytest.fixture
def own(tmp_path):
    """200 encounters of 80 patients at four wards, some patients at two; ward d has two patients."""
    rng = np.random.default_rng(5)
    patient = np.concatenate([np.arange(80), rng.integers(80, size=120)])
    ward = np.where(patient < 2, "d", np.array(["a", "b", "c"])[patient % 3])
    pl.DataFrame(
        {
            "patient": [f"p{number}" for number in patient],
            "age": rng.integers(20, 90, size=200),
            "back": np.array(["NO", ">30", "<30"])[rng.integers(3, size=200)],
            "home": ward,
            "ward": np.where(rng.random(200) < 0.2, "b", ward),
            "row": np.arange(200),
        }
    ).write_csv(tmp_path / "records.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


def load(folder, sites='how = "site"\ncolumn = "home"\nsmall = "leave out"', data="", curators="", learner=""):
    path = folder / "case.toml"
    path.write_text(SCENARIO.format(sites=sites, data=data, curators=curators, learner=learner))
    scenario = load_scenario(str(path))[0]
    records = load_records(scenario, folder)
    return scenario, records, split_records(scenario, records, 0)


# --- the bound --------------------------------------------------------------------------------------------


@given(
    units=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    most=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_a_bounded_frame_has_so_many_of_each_unit_in_their_order(units, most, seed):
    frame = pl.DataFrame({"unit": units, "row": range(len(units))})
    kept = counted(frame, "unit", most, np.random.default_rng(seed))
    assert kept["row"].is_sorted()
    assert {unit: min(most, units.count(unit)) for unit in units} == dict(kept["unit"].value_counts().iter_rows())
    assert counted(frame, None, most, np.random.default_rng(seed)).equals(frame)


@pytest.mark.slow
def test_each_record_of_a_unit_is_as_likely_to_count():
    """3 of 12 records, 4,000 draws: a share is off by 0.05 with a chance of 12 x 2 exp(-2 x 4000 x 0.05^2) < 1e-7.

    Of shares that were twice as likely (0.5) the test would fail for certain.
    """
    frame = pl.DataFrame({"unit": ["a"] * 12, "row": range(12)})
    rng = np.random.default_rng(3)
    draws = [counted(frame, "unit", 3, rng)["row"].to_list() for _ in range(4000)]
    share = np.bincount(np.concatenate(draws), minlength=12) / 4000
    assert np.all(np.abs(share - 0.25) < 0.05)


def test_source_tests_and_ceiling_are_bounded_as_curators_count(own):
    _, records, sites = load(own)
    assert set(sites) == {"a", "b", "c"}
    for site in sites.values():
        for part in (site.counted, site.source, site.test):
            assert part["patient"].is_unique().all()
        assert site.counted["patient"].n_unique() == site.private["patient"].n_unique()
        assert site.test["patient"].n_unique() == site.all_tests["patient"].n_unique()
    assert records.steward.most_records_per_unit == 1


def test_the_report_says_how_many_records_the_bound_leaves_out(own):
    scenario, records, sites = load(own)
    notes = [note for note in population_notes(scenario, records, sites) if "of each patient" in note]
    private = sum(site.private.height for site in sites.values())
    beyond = private - sum(site.private["patient"].n_unique() for site in sites.values())
    assert len(notes) == 1
    assert f"leaves out {beyond} of {private} private" in notes[0]


def test_a_scenario_may_have_another_bound(own):
    _, records, sites = load(own, data="most_records_per_unit = 2")
    assert records.steward.most_records_per_unit == 2
    counts = pl.concat([site.counted for site in sites.values()])["patient"].value_counts()["count"]
    assert counts.max() == 2


def test_the_first_record_of_each_unit_alone(own):
    scenario, records, sites = load(own, data="first_record = true")
    everything = pl.read_csv(own / "records.csv")
    first = everything.unique("patient", keep="first", maintain_order=True)["row"].to_list()
    assert records.dataset.frame["row"].cast(pl.Int64).to_list() == first
    assert not [note for note in population_notes(scenario, records, sites) if "of each patient" in note]


# --- sites ------------------------------------------------------------------------------------------------


def test_a_small_site_is_named_with_its_remedy(own):
    with pytest.raises(ConfigurationError, match=r'site d has 2 patients, and 3 are the least.*small = "leave out"'):
        load(own, sites='how = "site"\ncolumn = "home"')


def test_small_sites_are_left_out_or_merged_and_named(own):
    scenario, records, sites = load(own)
    assert "Sites with fewer than 3 patients were left out: d." in population_notes(scenario, records, sites)
    merged = 'how = "site"\ncolumn = "home"\nleast_units = 27\nsmall = "merge"\nmerged = "elsewhere"'
    scenario, records, sites = load(own, sites=merged)
    units = pl.read_csv(own / "records.csv").group_by("home").agg(pl.col("patient").n_unique())
    small = sorted(units.filter(pl.col("patient") < 27)["home"])
    assert set(sites) == ({"a", "b", "c", "d"} - set(small)) | {"elsewhere"}
    notes = population_notes(scenario, records, sites)
    assert f"Sites with fewer than 27 patients were merged into elsewhere: {', '.join(small)}." in notes


def test_units_at_several_sites_need_to_be_said(own):
    with pytest.raises(ConfigurationError, match="units_move = true"):
        load(own, sites='how = "site"\ncolumn = "ward"\nsmall = "leave out"')


def test_a_unit_that_moves_is_private_everywhere_or_nowhere(own):
    scenario, records, sites = load(own, sites='how = "site"\ncolumn = "ward"\nunits_move = true\nsmall = "leave out"')
    parts = {part: set() for part in ("private", "source", "all_tests")}
    at = {}
    for name, site in sites.items():
        for part, units in parts.items():
            units |= set(getattr(site, part)["patient"])
        for unit in set(site.private["patient"]):
            at.setdefault(unit, set()).add(name)
    assert not parts["private"] & parts["all_tests"]
    assert not parts["private"] & parts["source"]
    several = sum(len(names) > 1 for names in at.values())
    (note,) = [note for note in population_notes(scenario, records, sites) if "several sites" in note]
    assert several
    assert note.startswith(f"{several} of {len(at)} patients have private records at several sites")
    assert f"at most {max(map(len, at.values()))} times" in note


def test_equal_sites_by_count_and_pattern(own):
    _, _, sites = load(own, sites='how = "random"\ncount = 12\npattern = "ward {}"')
    assert list(sites) == [f"ward {number:02d}" for number in range(1, 13)]
    units = [
        sum(getattr(site, part)["patient"].n_unique() for part in ("private", "source", "all_tests"))
        for site in sites.values()
    ]
    assert max(units) - min(units) <= 1


@pytest.mark.parametrize(
    ("sites", "message"),
    [
        ('how = "random"', "needs fractions.* or a count of equal sites"),
        ('how = "random"\ncount = 2\nfractions = {a = 0.5, b = 0.5}', "one of the two"),
        ('how = "random"\ncount = 2\npattern = "ward"', "needs one {} where the number"),
        ('how = "random"\ncount = 2\nunits_move = true', "are for sites of a column"),
        ('how = "site"\ncolumn = "home"\nsmall = "leav out"', "small must be one of refuse, leave out, merge"),
        ('how = "site"\ncolumn = "hom"', "no site column 'hom'"),
    ],
)
def test_a_mistake_about_sites_is_named(own, sites, message):
    with pytest.raises(ConfigurationError, match=message):
        load(own, sites=sites)


# --- curators and learners --------------------------------------------------------------------------------


def test_the_longest_pattern_that_fits_a_site_is_its_entry():
    assert fits("ward 07", "ward *")
    assert fits("a[b]?", "a[b]?")
    assert not fits("ward 07", "ward ?7")
    assert matching(["ward 1*", "b"], ["a", "b", "ward 1", "ward 12"]) == ["ward 1", "ward 12", "b"]
    with pytest.raises(ConfigurationError, match=r"unknown site\(s\) x\*; the sites are a"):
        matching(["x*"], ["a"])


def test_entries_by_pattern_and_caps_by_learner(own):
    curators = """
[[curators]]
name = "*"
cap = 5
[[curators]]
name = "ward 0*"
cap = 3
learner_cap = 2
learner_caps = { grace = "1/2" }
"""
    sites = 'how = "random"\ncount = 12\npattern = "ward {}"'
    scenario, _, there = load(own, sites=sites, curators=curators, learner='curators = ["ward 0*"]')
    assert scenario.curator("ward 01").cap == 3
    assert scenario.curator("ward 12").cap == 5
    assert scenario.curator("ward 01").cap_of("ada") == 2
    assert scenario.curator("ward 01").cap_of("grace") == "1/2"
    assert sites_of(scenario.learners[1], there)[0] == [f"ward 0{number}" for number in range(1, 10)]
    with pytest.raises(ConfigurationError, match=r"learner_caps names no learner 'grac'.*grace"):
        load(own, curators=curators.replace("grace", "grac"))


# --- labels -----------------------------------------------------------------------------------------------


def test_levels_of_the_label_are_merged(own):
    data = 'merge_label = { no = ["NO"], yes = ["*"] }'
    _, records, _ = load(own, data=data)
    before = pl.read_csv(own / "records.csv")["back"]
    assert records.steward.classes == ("no", "yes")
    assert records.dataset.frame["back"].to_list() == ["no" if level == "NO" else "yes" for level in before]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('merge_label = { no = ["NO"], yes = [">30"] }', "does not say what becomes of <30"),
        ('merge_label = { no = ["NO"], yes = ["<3"] }', "the schema has no class '<3'"),
        ('merge_label = { no = ["NO"] }', "two classes or more"),
        ('merge_label = { no = ["NO"], yes = ["NO", "*"] }', "merge_label names the level 'NO' twice"),
        ("unit = false\nfirst_record = true", "need units"),
    ],
)
def test_a_mistake_about_records_is_named(own, data, message):
    with pytest.raises(ConfigurationError, match=message):
        load(own, data=data)
