"""Outcomes and cross tables: what a schema may declare, and counts of a curator against counts by a dictionary."""

import itertools
import math
import warnings
from collections import Counter
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_node.records.dataset import PrivateDataset, StewardWarning
from curator_node.records.schema_file import SchemaFile, read_schema_file
from learner_node.analyses.noisy_table import TableQuestion
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds.counts import COUNTS, CountsBody, CountsLimits, PlannedCounts
from protocol.odds import PrivacyUnit
from protocol.partitions import CrossBins, FeatureBins, Range
from protocol.partitions.cross_bins import MOST_CONDITIONS, MOST_FACTORS
from protocol.query_kind import KindTerms, Turn
from protocol.rationals import Rational
from protocol.record_frames import encode_frame
from protocol.refusals import RefusalCode
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema, TimeToEvent

X, GROUP = NumericAttribute("x", -2.0, 3.0), CategoricalAttribute("g", ("a", "b"))
DAYS, ENTRY = NumericAttribute("days", 0.0, 100.0, units="days"), NumericAttribute("entry", 0.0, 100.0)
END = CategoricalAttribute("end", ("alive", "relapse", "death"), missing=("lost",))
FOLLOWED = TimeToEvent("days", "end", "alive", entry="entry", edges=(10.0, 50.0, 90.0))
OUTCOMES = {"outcomes": (DAYS, ENTRY, END), "time_to_event": FOLLOWED}
LABELS = ({"classes": ("no", "yes")}, {"classes": ("i", "ii", "iii")}, {"label_bounds": (-1.0, 9.0)})
SCHEMAS = tuple(Schema((X, GROUP), "y", **label, **OUTCOMES) for label in LABELS)
TEXTS = {"g": pl.String, "end": pl.String}

times = st.sampled_from([None, math.nan, -3.0, 0.0, 10.0, math.nextafter(10.0, 11.0), 50.0, 89.5, 100.0, 1e300])
VALUES = {
    "x": st.sampled_from([None, math.nan, -9.0, -2.0, 0.0, 1 / 3, 1.0, 3.0, 77.0]),
    "g": st.sampled_from([None, "a", "b", "c", "", " a "]),
    "days": times,
    "entry": times,
    "end": st.sampled_from([None, "alive", "relapse", "death", "Death", "lost"]),
    "unit": st.sampled_from(["p", "q", "r"]),
}
EDGES = {
    "x": (-2.0, 0.0, 1 / 3, 1.0),
    "days": (10.0, math.nextafter(10.0, 11.0), 50.0, 90.0),
    "y": (-2.0, 0.0, 4.0, 9.0),
}
EDGES["entry"] = EDGES["days"]


def labels_of(schema):
    return st.sampled_from([*schema.classes] or [-77.0, -1.0, 0.0, 1 / 3, 4.0, 9.0, 10.0])


def rows_of(schema, **size):
    return st.lists(st.fixed_dictionaries({**VALUES, "y": labels_of(schema)}), min_size=1, **size)


def steward_of(schema, most=None):
    unit = {} if most is None else {"unit": "unit", "most_records_per_unit": most}
    label = {"classes": schema.classes, "label_bounds": schema.label_bounds}
    return SchemaFile(
        "y", schema.attributes, **label, **unit, outcomes=schema.outcomes, time_to_event=schema.time_to_event
    )


def frame_of(rows, schema):
    label = pl.String if schema.classes else pl.Float64
    types = {name: TEXTS.get(name, pl.Float64) for name in VALUES} | {"unit": pl.String, "y": label}
    return pl.DataFrame(rows, schema=types, orient="row")


def held(rows, schema, most=None, key=b"k"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StewardWarning)
        return PrivateDataset(frame_of(rows, schema), steward_of(schema, most), unit_key=key, cache_bytes=10**6)


@st.composite
def bins_of(draw, schema):
    variable = draw(st.sampled_from([*schema.attributes, *schema.outcomes, schema.variable("y")]))
    if isinstance(variable, CategoricalAttribute):
        return FeatureBins(variable.name, ())
    return FeatureBins(variable.name, tuple(sorted(draw(st.sets(st.sampled_from(EDGES[variable.name]))))))


@st.composite
def tables_of(draw, schema):
    factors = tuple(draw(st.lists(bins_of(schema), min_size=1, max_size=3)))
    within = []
    for bins in draw(st.lists(bins_of(schema), max_size=2)):
        cells = draw(st.sets(st.integers(0, bins.cell_count(schema) - 1), min_size=1))
        within.append(Range(bins, tuple(sorted(cells))))
    return CrossBins(factors, tuple(within))


cases = st.sampled_from(SCHEMAS).flatmap(
    lambda schema: st.tuples(st.just(schema), tables_of(schema), rows_of(schema, max_size=12))
)


# an oracle that knows rows and no encoded record: the text of a record's bin


def bin_in_words(bins, row, schema):
    variable, value = schema.variable(bins.attribute), row[bins.attribute]
    if isinstance(variable, CategoricalAttribute):
        text = None if value is None else value.strip()
        if text in {None, ""} or text in (variable.missing or ()):
            return "missing"
        return text if text in variable.levels else "other"
    if value is None or math.isnan(value):
        return "missing"
    value = min(max(value, variable.lower), variable.upper)
    if bins.attribute == "y":  # labels are held in steps of 2^-12 of their range, and edges are rounded alike
        steps = [round(Fraction(number + 1) / 10 * 4096) for number in (value, *bins.edges)]
        return sum(edge <= steps[0] for edge in steps[1:])
    return sum(edge <= value for edge in bins.edges)


def words_of(bins, schema):
    variable = schema.variable(bins.attribute)
    if isinstance(variable, CategoricalAttribute):
        return [*variable.levels, "other", "missing"]
    return [*range(len(bins.edges) + 1), "missing"]


def counted(table, rows, schema):
    allowed = [(term.bins, {words_of(term.bins, schema)[cell] for cell in term.cells}) for term in table.within]
    tally, outside = Counter(), 0
    for row in rows:
        if all(bin_in_words(bins, row, schema) in words for bins, words in allowed):
            tally[tuple(bin_in_words(bins, row, schema) for bins in table.factors)] += 1
        else:
            outside += 1
    counts = [tally[words] for words in itertools.product(*(words_of(bins, schema) for bins in table.factors))]
    return counts + [outside] * bool(table.within)


def planned(release="outcome_counts"):
    return PlannedCounts(release=release, partitions=1, scale=Rational(1, 1))


def read(table, schema, release="outcome_counts"):
    return COUNTS.read_body(
        encode(CountsBody((table,), None)), Turn(planned(release)), KindTerms(schema, CountsLimits())
    )


@settings(max_examples=80, deadline=None)
@given(cases)
def test_a_table_is_what_a_dictionary_counts(case):
    schema, table, rows = case
    body = read(table, schema)
    exact = held(rows, schema).exact(body, planned())
    assert exact.shape == (table.cell_count(schema), 1)
    assert exact[:, 0].tolist() == counted(table, rows, schema)
    assert exact.sum() == len(rows)


@settings(max_examples=50, deadline=None)
@given(cases, st.integers(1, 3), st.data())
def test_a_unit_moves_a_table_by_no_more_than_its_bound(case, most, data):
    """A filter's inside and outside together; delayed entry is one table like any other."""
    schema, table, rows = case
    unit = [{**row, "unit": "new"} for row in data.draw(rows_of(schema, max_size=5))]
    fewer, more = (held(part, schema, most).exact(read(table, schema), planned()) for part in (rows, [*unit, *rows]))
    assert np.abs(more - fewer).sum() <= most
    assert (more - fewer).sum() == min(most, len(unit))


def test_one_table_of_delayed_entry_moves_by_one_and_two_tables_by_two():
    schema, ends, group = SCHEMAS[0], FeatureBins("end", ()), FeatureBins("g", ())
    entry, leaving = FeatureBins("entry", (10.0, 50.0)), FeatureBins("days", (10.0, 50.0, 90.0))
    row = {"x": 0.0, "g": "a", "days": 60.0, "entry": 12.0, "end": "death", "unit": "p", "y": "no"}
    for tables, moved in (
        ((CrossBins((entry, leaving, ends, group)),), 1),
        ((CrossBins((entry, group)), CrossBins((leaving, ends, group))), 2),
    ):
        body = CountsBody(tables, None)
        plan = PlannedCounts(release="outcome_counts", partitions=len(tables), scale=Rational(1, 1))
        fewer, more = (held([row] * number, schema).exact(body, plan) for number in (1, 2))
        assert np.abs(more - fewer).sum() == moved == COUNTS.cost(plan, 1)


@settings(max_examples=40, deadline=None)
@given(cases)
def test_only_tables_of_outcomes_read_what_is_no_attribute(case):
    schema, table, _ = case
    beyond = {bins.attribute for bins in (*table.factors, *(term.bins for term in table.within))} - {"x", "g"}
    assert set(table.beyond_attributes(schema)) == beyond
    assert TableQuestion(table.factors, table.within).partition == table
    release = TableQuestion(table.factors, table.within).release(schema)
    assert release == ("outcome_counts" if beyond else "mass")
    assert read(table, schema, release).partitions == (table,)
    for other in ("mass", "class_counts" if schema.classes else "label_total"):
        if not beyond:
            assert read(table, schema, other).partitions == (table,)
            continue
        with pytest.raises(RemoteProtocolError) as caught:
            read(table, schema, other)
        assert (caught.value.code, caught.value.field) == (RefusalCode.BAD_QUERY, "body.partitions[0]")


def test_the_two_releases_change_other_odds():
    unit = PrivacyUnit(1)
    assert COUNTS.odds(planned("mass"), unit, None).label == 0
    assert COUNTS.odds(planned("outcome_counts"), unit, None).label == 2 * COUNTS.cost(planned(), 1)
    assert COUNTS.most_odds(CountsLimits(release_kinds=("mass",)), unit).label == 0
    assert COUNTS.most_odds(CountsLimits(release_kinds=("outcome_counts",)), unit).label == 2


BINS = FeatureBins("days", (10.0,))


@pytest.mark.parametrize(
    ("table", "field"),
    [
        (CrossBins((FeatureBins("weight", ()),)), "factors[0].attribute"),
        (CrossBins((BINS, FeatureBins("end", (1.0,)))), "factors[1].edges"),
        (CrossBins((BINS, FeatureBins("y", (1.0,)))), "factors[1].edges"),
        (CrossBins((FeatureBins("days", (2.0, 1.0)),)), "factors[0].edges"),
        (CrossBins((FeatureBins("unit", ()),)), "factors[0].attribute"),
        (CrossBins((BINS,), (Range(FeatureBins("weight", ()), (0,)),)), "within[0].bins.attribute"),
        (CrossBins((BINS,), (Range(BINS, (0,)), Range(BINS, (0, 3)))), "within[1].cells"),
        (CrossBins((BINS,), (Range(BINS, (1, 1)),)), "within[0].cells"),
        (CrossBins((BINS,), (Range(BINS, (2, 0)),)), "within[0].cells"),
    ],
)
def test_a_table_names_what_is_wrong_in_it(table, field):
    with pytest.raises(RemoteProtocolError) as caught:
        read(table, SCHEMAS[0])
    assert (caught.value.code, caught.value.field) == (RefusalCode.BAD_QUERY, f"body.partitions[0].{field}")


@pytest.mark.parametrize(
    "table",
    [
        CrossBins(()),
        CrossBins((BINS,) * (MOST_FACTORS + 1)),
        CrossBins((BINS,), (Range(BINS, (0,)),) * (MOST_CONDITIONS + 1)),
        CrossBins((BINS,), (Range(BINS, ()),)),
        CrossBins((BINS,), (Range(BINS, (-1,)),)),
    ],
)
def test_a_table_of_another_shape_is_malformed(table):
    with pytest.raises(RemoteProtocolError) as caught:
        read(table, SCHEMAS[0])
    assert caught.value.code == RefusalCode.MALFORMED


def test_a_table_of_too_many_cells_is_over_the_limit():
    wide = FeatureBins("days", tuple(map(float, range(1000))))
    with pytest.raises(RemoteProtocolError) as caught:
        read(CrossBins((wide,) * MOST_FACTORS), SCHEMAS[0])
    assert caught.value.code == RefusalCode.OVER_LIMIT


def test_the_other_partitions_read_attributes_alone():
    for name in ("y", "days", "end"):
        with pytest.raises(RemoteProtocolError) as caught:
            read(FeatureBins(name, ()), SCHEMAS[0])
        assert caught.value.field == "body.partitions[0].attribute"


# records


def test_outcomes_are_columns_of_a_curators_records_and_not_of_a_learners():
    rows = [{"x": 0.0, "g": "a", "days": 60.0, "entry": 12.0, "end": "death", "unit": "p", "y": "no"}]
    frame = frame_of(rows, SCHEMAS[0])
    assert encode_frame(frame.select("x", "g"), SCHEMAS[0]).further == {}
    with pytest.raises(ConfigurationError, match=r"lack the declared column.* 'end'"):
        PrivateDataset(frame.drop("end"), steward_of(SCHEMAS[0]), unit_key=b"", cache_bytes=0)
    wrong = frame.with_columns(pl.lit("soon").alias("days"))
    with pytest.raises(ConfigurationError, match="'days' is declared numeric but holds text in row 1") as caught:
        PrivateDataset(wrong, steward_of(SCHEMAS[0]), unit_key=b"", cache_bytes=0)
    assert "soon" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(rows_of(SCHEMAS[0], max_size=6), st.sampled_from(["days", "entry", "end"]), st.randoms())
def test_the_data_version_counts_outcomes_and_no_order(rows, name, shuffle):
    def version(part):
        return held(part, SCHEMAS[0]).fingerprint(b"k")

    others = list(rows)
    shuffle.shuffle(others)
    assert version(others) == version(rows)
    changed = [{**rows[0], name: 33.0 if name != "end" else "relapse"}, *rows[1:]]
    table = CrossBins((FeatureBins(name, () if name == "end" else tuple(map(float, range(101)))),))
    counts = [held(part, SCHEMAS[0]).exact(CountsBody((table,), None), planned()).tolist() for part in (rows, changed)]
    if counts[0] != counts[1]:
        assert version(changed) != version(rows)


def test_a_data_version_without_outcomes_is_what_it_was():
    """Computed by the version before outcomes."""
    schema = Schema((X, GROUP), "y", classes=("no", "yes"))
    rows = [{"x": 0.5, "g": "a", "y": "no"}, {"x": None, "g": "z", "y": "yes"}]
    frame = pl.DataFrame(rows, schema={"x": pl.Float64, "g": pl.String, "y": pl.String})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StewardWarning)
        dataset = PrivateDataset(frame, SchemaFile("y", schema.attributes, schema.classes), unit_key=b"", cache_bytes=0)
    assert dataset.fingerprint(b"k").hex() == VERSION_BEFORE


VERSION_BEFORE = "af190b73aa9498c33e094c30a48f0b32b4c4b12d6938d3ccae349b189cd3dd6f"


@settings(max_examples=30, deadline=None)
@given(rows_of(SCHEMAS[0], max_size=9), st.randoms())
def test_which_records_of_a_unit_count_does_not_depend_on_their_order(rows, shuffle):
    """Records that differ in an outcome alone among them."""
    table = CrossBins((FeatureBins("days", (10.0, 50.0)), FeatureBins("end", ())))
    others = list(rows)
    shuffle.shuffle(others)
    counts = [
        held(part, SCHEMAS[0], 1).exact(CountsBody((table,), None), planned()).tolist() for part in (rows, others)
    ]
    assert counts[0] == counts[1]


def test_the_steward_hears_of_times_that_do_not_fit():
    row = {"x": 0.0, "g": "a", "days": 60.0, "entry": 0.0, "end": "death", "unit": "p", "y": "no"}
    wrong = [{**row, "days": -1.0}, {**row, "days": None, "y": "yes"}, {**row, "end": "Death"}, row]
    with pytest.warns(StewardWarning) as caught:
        PrivateDataset(frame_of(wrong, SCHEMAS[0]), steward_of(SCHEMAS[0]), unit_key=b"", cache_bytes=0)
    texts = [str(warning.message) for warning in caught]
    assert any("'days' lie outside the declared bounds" in text for text in texts)
    assert any("'days' of the time to an event is missing" in text for text in texts)
    assert any("'end' are no declared level" in text for text in texts)


# what a schema may declare


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"time": "x"}, "time must name a numeric outcome, and 'x' is none"),
        ({"time": "end", "event": "y", "censored": "no"}, "time must name a numeric outcome"),
        ({"time": "below"}, "a time is never negative; declare 'below' with lower = 0"),
        ({"entry": "below"}, "a time is never negative"),
        ({"entry": "end2"}, "entry must name a numeric outcome"),
        ({"event": "g"}, "event must name a categorical outcome or a label of classes; 'g' is neither"),
        ({"event": "entry", "entry": None}, "event must name a categorical outcome"),
        ({"censored": "Alive"}, "'Alive' is not declared; its levels are 'alive', 'relapse', 'death'"),
        ({"event": "single", "censored": "only"}, "no level but the censored one"),
        ({"edges": (10.0, 120.0)}, "'days' counts up to 100, not beyond the horizon 120"),
        ({"edges": (10.0, 100.0)}, "'days' counts up to 100, not beyond the horizon 100"),
    ],
)
def test_a_time_to_event_that_does_not_fit_the_outcomes_is_refused(changes, text):
    further = (
        NumericAttribute("below", -1.0, 100.0),
        CategoricalAttribute("single", ("only",)),
        CategoricalAttribute("end2", ("alive", "dead")),
    )
    followed = msgspec.structs.replace(FOLLOWED, **changes)
    with pytest.raises(ValueError, match=text):
        Schema((X, GROUP), "y", classes=("no", "yes"), outcomes=(DAYS, ENTRY, END, *further), time_to_event=followed)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "either edges or bins"),
        ({"edges": (1.0,), "bins": 2, "horizon": 1.0}, "either edges or bins"),
        ({"bins": 5}, "bins need a horizon"),
        ({"edges": (1.0, 1.0)}, "strictly increasing"),
        ({"edges": (2.0, 1.0)}, "strictly increasing"),
        ({"edges": (0.0, 1.0)}, "the first above 0"),
        ({"edges": (1.0, math.inf)}, "finite"),
        ({"edges": (math.nan,)}, "finite"),
        ({"bins": 4, "horizon": -1.0}, "strictly increasing|above 0"),
        ({"edges": (1.0, 2.0), "horizon": 3.0}, "do not reach the horizon, 3"),
        ({"edges": (1.0, 4.0), "horizon": 3.0}, "reach beyond the horizon, 3"),
    ],
)
def test_bins_of_a_time_rise_from_above_0_to_the_horizon(changes, text):
    with pytest.raises(ValueError, match=text):
        TimeToEvent("days", "end", "alive", **changes)


def test_a_time_and_its_event_are_different_columns():
    with pytest.raises(ValueError, match="different columns"):
        TimeToEvent("days", "days", "alive", edges=(1.0,))


def test_names_are_unique_over_attributes_outcomes_and_label():
    with pytest.raises(ValueError, match="attributes or outcomes have the same name, 'x'"):
        Schema((X,), "y", ("no", "yes"), outcomes=(NumericAttribute("x", 0.0, 1.0),))
    with pytest.raises(ValueError, match="the label 'y' is also listed as an outcome"):
        Schema((X,), "y", ("no", "yes"), outcomes=(NumericAttribute("y", 0.0, 1.0),))
    with pytest.raises(ValueError, match="the unit column 'days' is also an outcome"):
        SchemaFile("y", (X,), ("no", "yes"), unit="days", outcomes=(DAYS,))


def test_differences_between_schemas_name_outcomes_and_the_time():
    schema = SCHEMAS[0]
    longer = msgspec.structs.replace(schema, time_to_event=msgspec.structs.replace(FOLLOWED, edges=(10.0, 90.0)))
    assert schema.differences(longer) == ["time_to_event"]
    without = Schema(schema.attributes, "y", ("no", "yes"))
    assert schema.differences(without) == ["days", "entry", "end", "time_to_event"]
    hours = msgspec.structs.replace(schema, outcomes=(msgspec.structs.replace(DAYS, units="hours"), ENTRY, END))
    assert schema.differences_in_words(hours)[0] == "'days' (in 'days', not 'hours')"
    other = msgspec.structs.replace(schema, outcomes=(DAYS, ENTRY, msgspec.structs.replace(END, missing=("gone",))))
    assert schema.differences(other) == []


def test_variables_are_attributes_outcomes_and_the_label():
    schema = SCHEMAS[0]
    assert [schema.variable(name) for name in ("x", "days", "end")] == [X, DAYS, END]
    assert schema.variable("y") == CategoricalAttribute("y", ("no", "yes"))
    assert SCHEMAS[2].variable("y") == NumericAttribute("y", -1.0, 9.0)
    assert schema.variable("unit") is None
    assert schema.find("days") is None
    assert (schema.causes, schema.measure("days")) == (("relapse", "death"), "days")
    assert schema.declares("end")


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 40),
    st.floats(0.01, 99.0),
    st.sampled_from([None, "entry"]),
    st.sampled_from([("end", "death"), ("y", "no")]),
)
def test_a_schema_with_a_time_survives_the_wire(bins, horizon, entry, event):
    followed = TimeToEvent("days", *event, entry=entry, bins=bins, horizon=horizon)
    assert len(followed.ends) == bins
    assert followed.ends[-1] == horizon
    schema = msgspec.structs.replace(SCHEMAS[0], time_to_event=followed)
    assert decode(encode(schema), Schema) == schema


def test_a_schema_without_outcomes_is_written_as_before():
    data = encode(Schema((X,), "y", ("no", "yes")))
    assert set(msgspec.msgpack.decode(data)) == {"attributes", "label", "classes"}


TOML = """
label = "y"
classes = ["no", "yes"]
[[attributes]]
name = "x"
kind = "numeric"
lower = 0
upper = 1
[[outcomes]]
name = "days"
kind = "numeric"
lower = 0
upper = 100
[[outcomes]]
name = "seen"
kind = "numeric"
days_since = 2019-01-01
lower = 2019-01-01
upper = 2019-12-31
missing = [1900-01-01]
[time_to_event]
time = "days"
event = "y"
censored = "no"
edges = [10, 90]
"""


def test_a_schema_file_declares_outcomes_as_attributes_are():
    schema = read_schema_file(TOML).schema
    assert [outcome.name for outcome in schema.outcomes] == ["days", "seen"]
    assert (schema.outcomes[1].lower, schema.outcomes[1].upper, schema.outcomes[1].missing) == (0, 364, ("1900-01-01",))
    assert schema.time_to_event.ends == (10.0, 90.0)
    assert schema.causes == ("yes",)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('censored = "no"', 'censored = "alive"', "'alive' is not declared"),
        ("edges = [10, 90]", "edges = [90, 10]", "strictly increasing"),
        ("edges = [10, 90]", "edge = [10, 90]", "did you mean 'edges'"),
        ("edges = [10, 90]", "edges = [10, 90]\nhorizon = 100", "do not reach the horizon, 100"),
        ("upper = 100", 'upper = "?"', "'?'|unfinished|Expected"),
    ],
)
def test_a_wrong_schema_file_is_refused_with_a_sentence(old, new, text):
    with pytest.raises(ConfigurationError, match=text):
        read_schema_file(TOML.replace(old, new))
