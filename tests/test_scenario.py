"""Scenario files: what they accept, and that a mistake in one is named with its remedy."""

from fractions import Fraction

import polars as pl
import pytest

from protocol.errors import ConfigurationError
from simulations.federation import build_sites, load_records
from simulations.scenario import Scenario, builtin_scenarios, load_scenario

GOOD = """
title = "own"
[data]
path = "records.csv"
schema = "schema.toml"
[data.sites]
how = "site"
column = "ward"
[[learners]]
name = "ada"
"""
SCHEMA = """
label = "ill"
classes = ["no", "yes"]
[[attributes]]
name = "age"
kind = "numeric"
lower = 0
upper = 100
[[attributes]]
name = "sex"
kind = "categorical"
levels = ["f", "m"]
"""


@pytest.fixture
def own(tmp_path):
    rows = 60
    pl.DataFrame(
        {
            "age": [20 + (7 * row) % 60 for row in range(rows)],
            "sex": ["fm"[row % 2] for row in range(rows)],
            "ill": ["yes" if (7 * row) % 60 > 30 else "no" for row in range(rows)],
            "ward": ["north" if row < 30 else "south" for row in range(rows)],
        }
    ).write_csv(tmp_path / "records.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "own.toml").write_text(GOOD)
    return tmp_path


def load(folder, text):
    path = folder / "case.toml"
    path.write_text(text)
    return load_scenario(str(path))[0]


def test_built_in_scenarios_all_load():
    names = builtin_scenarios()
    assert {"wdbc", "heart", "ctg"} <= names.keys()
    for name in names:
        scenario, text, _ = load_scenario(name)
        assert isinstance(scenario, Scenario)
        assert text == names[name]


def test_own_records_are_split_by_their_site_column(own):
    scenario, _, folder = load_scenario(str(own / "own.toml"))
    records = load_records(scenario, folder)
    sites = build_sites(scenario, records, 0, {}, None)
    assert {name: site.private.height + site.source.height + site.test.height for name, site in sites.items()} == {
        "north": 30,
        "south": 30,
    }
    assert all(site.cap == Fraction(2) for site in sites.values())


@pytest.mark.parametrize(
    ("old", "new", "wrong", "hint"),
    [
        ("title", "titel", "'titel'", "'title'"),
        ("[[learners]]", "[[learner]]", "'learner'", "'learners'"),
        ('name = "ada"', 'name = "ada"\nepsilonn = 1', "'epsilonn'", "'epsilon'"),
        ('name = "ada"', 'name = "ada"\nstrategy = "cell"', "'cell'", "'cells'"),
        ('name = "ada"', 'name = "ada"\nstrategy = "paper-c"\noptions = {round = 2}', "round", "paper-c"),
        ('name = "ada"', 'name = "ada"\nepsilon = -1', "'-1'", "positive"),
        ('name = "ada"', 'name = "ada"\nepsilon = "1e999999999"', "1e999999999", "1/30"),
        ('name = "ada"', 'name = "ada"\nepsilon = nan', "'nan'", "1/30"),
        ('how = "site"', 'how = "sites"', "'sites'", "'site'"),
        ('how = "site"', 'how = "random"', "fractions", "north"),
        ('path = "records.csv"', 'path = "records.csv"\nname = "wdbc"', "built-in", "one of the two"),
        ('schema = "schema.toml"', "", "schema", "beside"),
        ('path = "records.csv"', 'name = "wdcb"', "'wdcb'", "'wdbc'"),
        ('title = "own"', 'title = "own"\nrepeats = 0', "repeats", ">= 1"),
        ('name = "ada"', 'name = "ada"\n[[curators]]\nname = "x"\ncap = 0', "'0'", "positive"),
        ('name = "ada"', 'name = "ada"\n[[curators]]\nname = "x"\n[curators.limits]\ncels = 5', "'cels'", "'cells'"),
        ('name = "ada"', 'name = "ada"\n[[faults]]\ncurator = "x"\nkind = "dies"', "dies", "kind"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(own, old, new, wrong, hint):
    assert old in GOOD
    with pytest.raises(ConfigurationError) as caught:
        load(own, GOOD.replace(old, new, 1))
    assert wrong in str(caught.value)
    assert hint in str(caught.value)


def test_an_unknown_scenario_suggests_the_nearest():
    with pytest.raises(ConfigurationError, match="did you mean 'heart'"):
        load_scenario("haert")


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ('[[curators]]\nname = "east"', "no site east; the sites are north, south"),
        ('[[faults]]\ncurator = "east"\nkind = "vanish"', "no site east"),
    ],
)
def test_a_curator_without_a_site_is_an_error(own, addition, message):
    scenario = load(own, GOOD + addition)
    with pytest.raises(ConfigurationError, match=message):
        build_sites(scenario, load_records(scenario, own), 0, {}, None)


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda frame: frame.drop("ill"), "label"),
        (lambda frame: frame.drop("age"), "'age'"),
        (lambda frame: frame.drop("ward"), "ward"),
        (lambda frame: frame.head(0), "no rows"),
        (lambda frame: frame.with_columns(age=pl.lit("old")), "row 1 holds text"),
        (lambda frame: frame.with_columns(ill=pl.lit("maybe")), "other than the declared classes"),
    ],
)
def test_records_that_do_not_fit_their_schema_are_a_clear_error(own, breaks, message):
    breaks(pl.read_csv(own / "records.csv")).write_csv(own / "records.csv")
    scenario = load(own, GOOD)
    with pytest.raises(ConfigurationError, match=message):
        build_sites(scenario, load_records(scenario, own), 0, {}, None)
