"""Scenario files: what they accept, and that a mistake in one is named with its remedy."""

import os
from fractions import Fraction

import polars as pl
import pytest

from protocol.errors import ConfigurationError
from protocol.limits import Limits
from simulations.carriers.sites import open_here, order_sites
from simulations.records import load_records, split_records
from simulations.run_order import choose
from simulations.scenario import Scenario, builtin_scenarios, load_scenario

CANARY = "canary-7f3a"

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
LEARNER = 'name = "ada"\n'
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


def build(scenario, folder):
    """The split records of the first repeat, and their sites."""
    parts = split_records(scenario, load_records(scenario, folder), 0)
    return parts, {order.name: open_here(order) for order in order_sites(scenario, parts.values(), 0, {})}


def members_of(site):
    return site.policy.limits.kinds["secure_counts"]["members"]


def test_curators_of_a_learner_that_pools_securely_list_each_other(own):
    scenario = load(own, GOOD + 'pooling = "secure"\n')
    _, sites = build(scenario, own)
    keys = {site.identity.hex() for site in sites.values()}
    for site in sites.values():
        assert set(members_of(site)) == keys
        assert site.policy.limits.kinds["counts"] == {}
    assert scenario.curator("north").limits == Limits()
    _, sites = build(load(own, GOOD), own)
    assert {site.policy.limits for site in sites.values()} == {Limits()}


def test_what_a_scenario_says_of_kinds_stays(own):
    kinds = """
[[curators]]
name = "north"
[curators.limits.kinds.counts]
[[curators]]
name = "south"
[curators.limits.kinds.secure_counts]
least_colluders = 1
cells = 50
"""
    _, sites = build(load(own, GOOD + 'pooling = "secure"\n' + kinds), own)
    assert sites["north"].policy.limits.kinds == {"counts": {}}
    south = sites["south"].policy.limits.kinds
    assert south.keys() == {"secure_counts"}
    assert south["secure_counts"]["cells"] == 50
    assert len(members_of(sites["south"])) == 2


def test_built_in_scenarios_all_load():
    names = builtin_scenarios()
    assert {"wdbc", "heart", "ctg"} <= names.keys()
    for name in names:
        scenario, text, _ = load_scenario(name)
        assert isinstance(scenario, Scenario)
        assert text == names[name]


def test_own_records_are_split_by_their_site_column(own):
    scenario, _, folder = load_scenario(str(own / "own.toml"))
    parts, sites = build(scenario, folder)
    assert {name: site.private.height + site.source.height + site.test.height for name, site in parts.items()} == {
        "north": 30,
        "south": 30,
    }
    assert all(site.policy.total_cap == Fraction(2) and not site.warnings for site in sites.values())


CURATOR = '[[curators]]\nname = "x"\n'
FAULT = '[[faults]]\ncurator = "x"\n'


@pytest.mark.parametrize(
    ("old", "new", "wrong", "hint"),
    [
        ("title", "titel", "'titel'", "'title'"),
        ("[[learners]]", "[[learner]]", "'learner'", "'learners'"),
        ('how = "site"', 'how = "sites"', "'sites'", "'site'"),
        ('how = "site"', 'how = "random"', "fractions", "north"),
        ('path = "records.csv"', 'path = "records.csv"\nname = "wdbc"', "built-in", "one of the two"),
        ('schema = "schema.toml"', "", "schema", "beside"),
        ('path = "records.csv"', 'name = "wdcb"', "'wdcb'", "'wdbc'"),
        ('title = "own"', 'title = "own"\nrepeats = 0', "repeats", "at least 1"),
        *(
            (LEARNER, LEARNER + addition, wrong, hint)
            for addition, wrong, hint in [
                ("epsilonn = 1", "'epsilonn'", "'epsilon'"),
                ('strategy = "cell"', "'cell'", "'cells'"),
                ('strategy = "paper-c"\noptions = {round = 2}', "round", "paper-c"),
                ("epsilon = -1", "learner 'ada': epsilon: '-1'", "positive"),
                ('epsilon = "lots"', "learner 'ada': epsilon: 'lots'", "1/30"),
                ('epsilon = "1e999999999"', "1e999999999", "1/30"),
                ("epsilon = nan", "'nan'", "1/30"),
                ("colluders = 2", "learner 'ada': colluders", 'pooling = "secure"'),
                ('pooling = "mean"', "pooling", "one of sum, site, secure, not 'mean'"),
                ('pooling = "sums"', "sum, site, secure, not 'sums'", "did you mean 'sum'?"),
                ("pooling = 1", "learner 'ada': pooling", "must be text, not a whole number; put it in quotes"),
                ("recalibrate = true", "learner 'ada': recalibrate", 'add validate = "1/4"'),
                (CURATOR + "cap = 0", "'0'", "positive"),
                (CURATOR + 'learner_cap = "y"', "curator 'x': learner_cap", "1/30"),
                (CURATOR + "learner_cap = 0", "curator 'x': learner_cap", "positive"),
                (CURATOR + "open_studies = 0", "curator 'x': open_studies", "at least 1"),
                (CURATOR + "[curators.limits.kinds.counts]\ncels = 5", "'cels'", "'cells'"),
                (CURATOR + "[curators.limits]\nmessage_byte = 5", "'message_byte'", "'message_bytes'"),
                (CURATOR + "[curators.limits.kinds.count]\ncells = 5", "'count'", "'counts'"),
                (FAULT + 'kind = "dies"', "'dies'", "one of refuse, vanish"),
                (FAULT + 'kind = "lat"', "'lat'", "did you mean 'late'?"),
                ('[[faults]]\ncurator = "*"\nkind = "late"', "fault", "name of one"),
            ]
        ),
    ],
)
def test_a_mistake_is_named_with_its_remedy(own, old, new, wrong, hint):
    assert old in GOOD
    with pytest.raises(ConfigurationError) as caught:
        load(own, GOOD.replace(old, new, 1))
    assert wrong in str(caught.value)
    assert hint in str(caught.value)


def test_a_run_by_a_carrier_that_is_gone_is_run_again_in_process(tmp_path):
    (tmp_path / "transcripts").mkdir()
    (tmp_path / "scenario.toml").write_text(builtin_scenarios()["wdbc"])
    (tmp_path / "again.json").write_text('{"format": 1, "changes": {}, "carrier": "folder"}')
    chosen = choose(str(tmp_path), {})
    assert chosen.carrier == "process"
    assert "was made with the carrier folder, which is gone" in chosen.notes[0]


def test_an_unknown_scenario_suggests_the_nearest():
    with pytest.raises(ConfigurationError, match="did you mean 'heart'"):
        load_scenario("haert")


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        ('[[curators]]\nname = "east"', "no site 'east', which .*; the sites are north, south"),
        ('[[faults]]\ncurator = "east"\nkind = "vanish"', "no site 'east'"),
    ],
)
def test_a_curator_without_a_site_is_an_error(own, addition, message):
    scenario = load(own, GOOD + addition)
    with pytest.raises(ConfigurationError, match=message):
        build(scenario, own)


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (lambda frame: frame.drop("ill"), "label"),
        (lambda frame: frame.drop("age"), "'age'"),
        (lambda frame: frame.drop("ward"), "ward"),
        (lambda frame: frame.head(0), "no rows"),
        (
            lambda frame: frame.with_columns(age=pl.lit("old")),
            r"^records\.csv: column 'age' is declared numeric but holds text in row 1,",
        ),
        (lambda frame: frame.with_columns(ill=pl.lit("maybe")), "declared classes 'no' and 'yes' in row 1, header"),
        (
            lambda frame: frame.rename({"ill": "Ill"}),
            r"no label column 'ill' \(did you mean 'Ill'\?\); the columns are",
        ),
        (lambda frame: frame.rename({"ward": "wards"}), r"no site column 'ward' \(did you mean 'wards'\?\); the col"),
        (lambda frame: frame.rename({"sex": "Sex"}), r"'sex' \(did you mean 'Sex'\?\); the columns are 'age', 'Sex'"),
    ],
)
def test_records_that_do_not_fit_their_schema_are_a_clear_error(own, breaks, message):
    breaks(pl.read_csv(own / "records.csv")).write_csv(own / "records.csv")
    scenario = load(own, GOOD)
    with pytest.raises(ConfigurationError, match=message):
        build(scenario, own)


ROW = 47


def spoilt(column, value):
    """The records with one cell changed, in row ROW counted from 1."""
    return lambda frame: frame.cast(pl.String).with_columns(
        pl.when(pl.int_range(pl.len()) == ROW - 1).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
    )


@pytest.mark.parametrize(
    ("column", "value"), [("age", CANARY), ("ill", CANARY), ("ill", "?"), ("person", ""), ("person", "NA")]
)
def test_the_row_of_an_error_is_the_file_s(own, column, value):
    (own / "schema.toml").write_text(f'unit = "person"\n{SCHEMA}')
    frame = pl.read_csv(own / "records.csv").with_row_index("person")
    spoilt(column, value)(frame).write_csv(own / "records.csv")
    for seed in range(3):
        with pytest.raises(ConfigurationError) as caught:
            load_records(load(own, f"seed = {seed}\n{GOOD}"), own)
        assert f"row {ROW}, header not counted" in str(caught.value)
        assert repr(column) in str(caught.value)
        assert str(caught.value).startswith("records.csv: ")
        assert CANARY not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_unit_that_nobody_protects_need_not_be_there(own):
    (own / "schema.toml").write_text(f'unit = "person"\n{SCHEMA}')
    with pytest.raises(ConfigurationError, match="no unit column 'person'; the columns are 'age'"):
        load_records(load(own, GOOD), own)
    records = load_records(load(own, GOOD.replace("[data]", "[data]\nunit = false")), own)
    assert records.steward.unit is None


def test_what_a_steward_is_warned_of_stays_with_its_site(own):
    frame = pl.read_csv(own / "records.csv")
    north = pl.col("ward") == "north"
    frame.with_columns(
        sex=pl.when(north).then(pl.col("sex").str.to_uppercase()).otherwise("sex"),
        age=pl.when(north).then("age").otherwise(pl.col("age") * 365),
    ).write_csv(own / "records.csv")
    scenario = load(own, GOOD)
    _, sites = build(scenario, own)  # an escaping warning would be an error
    (about_sex,), (about_age,) = sites["north"].warnings, sites["south"].warnings
    assert about_sex.startswith("more than a tenth of the values of 'sex' are no declared level")
    assert about_age.startswith("more than a tenth of the values of 'age' lie outside the declared bounds")


@pytest.mark.skipif("EXPRIL_DATA_DIR" not in os.environ, reason="needs the UCI files in EXPRIL_DATA_DIR")
@pytest.mark.parametrize("name", ["wdbc", "heart", "ctg"])
def test_built_in_schemas_fit_their_records(name):
    scenario, _, folder = load_scenario(name)
    _, sites = build(scenario, folder)
    warnings = [(name, text) for name, site in sites.items() for text in site.warnings]
    assert not any("more than a tenth" in text for _, text in warnings)
    # heart: one hospital measured no cholesterol, the other hardly ever counted vessels
    assert {name for name, _ in warnings} <= {"switzerland", "long-beach"}


def test_own_csv_can_be_split_by_a_shifted_attribute(own):
    text = GOOD.replace('how = "site"\ncolumn = "ward"', 'how = "shift"\nattribute = "age"\nnames = ["old", "young"]')
    scenario = load(own, text)
    parts, _ = build(scenario, own)
    assert set(parts) == {"old", "young"}
    assert parts["old"].private["age"].mean() > parts["young"].private["age"].mean()


SECURE = GOOD.replace('name = "ada"', 'name = "ada"\npooling = "secure"')


@pytest.mark.parametrize(
    ("text", "wards", "says"),
    [
        (SECURE, {"south": "north"}, "one curator alone is no secure sum"),
        (
            SECURE + '[[curators]]\nname = "north"\nlimits.kinds.secure_counts.least_colluders = 5\n',
            {},
            "curator 'north'.*least_colluders: at most 1 of 2 members",
        ),
    ],
)
def test_sites_that_cannot_sum_securely_are_a_mistake_in_one_sentence(own, text, wards, says):
    records = own / "records.csv"
    pl.read_csv(records).with_columns(pl.col("ward").replace(wards)).write_csv(records)
    scenario = load(own, text)
    with pytest.raises(ConfigurationError, match=says):
        build(scenario, own)
