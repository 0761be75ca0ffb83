"""Units, sentinels and dates of a schema: one meaning in every column type, against a reference in plain Python."""

import datetime as dt
import math

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curator_node.records.schema_file import SchemaFile, read_schema_file
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError
from protocol.record_frames import encode_and_count_moved, encode_frame, encode_label_column
from protocol.records import MISSING_CODE
from protocol.schema import (
    FIRST_DAY,
    LAST_DAY,
    MISSING_TEXTS,
    CategoricalAttribute,
    NumericAttribute,
    Schema,
    day_number,
)

CANARY = "canary-7f3a"
DAY = "2015-01-01"


def schema_of(*attributes, **label):
    return Schema(attributes, "y", **(label or {"classes": ("no", "yes")}))


def numbers(column, **keys):
    schema = schema_of(NumericAttribute("x", **({"lower": -10.0, "upper": 10.0} | keys)))
    return encode_frame(pl.DataFrame({"x": column}), schema).column("x")


def complaint(call, *args, **keys):
    with pytest.raises((ConfigurationError, ValueError, msgspec.ValidationError)) as caught:
        call(*args, **keys)
    assert CANARY not in str(caught.value)
    return str(caught.value)


# A reference in plain Python.


def is_missing_text(text):
    return text is None or text.strip() in MISSING_TEXTS


def number_of(text, attribute):
    """What a text of a numeric column becomes, by the words of docs/steward/policy.md."""
    sentinels = attribute.missing or ()
    if is_missing_text(text) or text.strip() in [item for item in sentinels if isinstance(item, str)]:
        return math.nan
    value = float(text)
    if value in [item for item in sentinels if isinstance(item, float)]:
        return math.nan
    return min(max(value, attribute.lower), attribute.upper)


def code_of(text, attribute):
    if is_missing_text(text) or text.strip() in (attribute.missing or ()):
        return MISSING_CODE
    levels = list(attribute.levels)
    return levels.index(text.strip()) if text.strip() in levels else len(levels)


def moment_of(text):
    """A time by Python's own parser; in UTC where it has an offset."""
    moment = dt.datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def days_of(text, attribute):
    sentinels = attribute.missing or ()
    if is_missing_text(text) or text.strip() in sentinels:
        return math.nan
    moment = moment_of(text)
    if any(is_it(sentinel, moment) for sentinel in sentinels):
        return math.nan
    midnight = dt.datetime.fromisoformat(attribute.days_since)
    return min(max((moment - midnight) / dt.timedelta(days=1), attribute.lower), attribute.upper)


def is_it(sentinel, moment):
    try:
        return moment.date() == dt.date.fromisoformat(sentinel)
    except ValueError:
        pass
    try:
        return moment == moment_of(sentinel)
    except ValueError:
        return False


NUMBERS = st.sampled_from([0.0, 999.0, -1.0, 5.5, -99.9, 1e6]) | st.floats(-20, 20)
WORDS = st.sampled_from(["not done", "unknown", "UNK", "a", "b", "c", "A", "N/a"])
SENTINELS = st.lists(NUMBERS | WORDS, min_size=1, max_size=4, unique=True).map(tuple)
WRITTEN = st.sampled_from([*MISSING_TEXTS, " N/A ", None, "0", "-0.0", "999", "999.0", " 9.99e2", "5.5", "-1"])


@given(SENTINELS, st.lists(WRITTEN | NUMBERS.map(repr), max_size=12), st.data())
@settings(deadline=None)
def test_numbers_are_encoded_as_in_plain_python(sentinels, texts, data):
    attribute = NumericAttribute("x", -10.0, 10.0, missing=sentinels)
    declared = [item for item in sentinels if isinstance(item, str)]
    if declared:
        texts = [*texts, *data.draw(st.lists(st.sampled_from(declared), max_size=3))]
    expected = [number_of(text, attribute) for text in texts]
    frame = pl.DataFrame({"x": pl.Series(texts, dtype=pl.String)})
    records, moved = encode_and_count_moved(frame, schema_of(attribute))
    assert np.array_equal(records.column("x"), expected, equal_nan=True)
    plain = [text for text, value in zip(texts, expected, strict=True) if not math.isnan(value)]
    assert moved["x"] == sum(abs(float(text)) > 10 for text in plain)
    # The same column as floats, where it holds numbers alone.
    if all(is_missing_text(text) or text not in declared for text in texts):
        floats = pl.Series([None if is_missing_text(text) else float(text) for text in texts], dtype=pl.Float64)
        again = encode_frame(pl.DataFrame({"x": floats}), schema_of(attribute))
        assert np.array_equal(again.numeric, records.numeric, equal_nan=True)


@given(
    st.lists(WORDS, min_size=1, max_size=4, unique=True),
    st.lists(WORDS | WRITTEN | st.sampled_from([" a", "b "]), max_size=12),
)
@settings(deadline=None)
def test_levels_are_encoded_as_in_plain_python(missing, texts):
    levels = tuple(text for text in ("a", "b", "c", "0", "UNK") if text not in missing)
    attribute = CategoricalAttribute("x", levels, missing=tuple(missing))
    records = encode_frame(pl.DataFrame({"x": pl.Series(texts, dtype=pl.String)}), schema_of(attribute))
    assert records.column("x").tolist() == [code_of(text, attribute) for text in texts]


MOMENTS = st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29))  # noqa: DTZ001 - times without a zone
OFFSETS = st.sampled_from(["", "", "Z", "+00", "+01:00", "-0930", "+14:00"])


def written(moment, form, offset):
    text = moment.isoformat(sep=" " if form % 2 else "T", timespec=("minutes", "seconds", "microseconds")[form // 2])
    return text + offset


DATES = MOMENTS.map(lambda moment: moment.date().isoformat())
TIMES = st.builds(written, MOMENTS, st.integers(0, 5), OFFSETS)


@given(st.lists(DATES | TIMES | st.sampled_from([*MISSING_TEXTS, None, " N/A"]), max_size=12), st.data())
@settings(deadline=None)
def test_dates_are_encoded_as_in_plain_python(texts, data):
    there = [text for text in texts if not is_missing_text(text)]
    pool = st.sampled_from([*there, *(text[:10] for text in there), "unknown", "9999-12-31"])
    sentinels = data.draw(st.lists(pool, min_size=1, max_size=3, unique=True))
    attribute = NumericAttribute("x", -700_000.0, 2_900_000.0, days_since=DAY, missing=tuple(sentinels))
    column = encode_frame(pl.DataFrame({"x": pl.Series(texts, dtype=pl.String)}), schema_of(attribute)).column("x")
    expected = [days_of(text, attribute) for text in texts]
    assert np.allclose(column, expected, rtol=0, atol=1e-9, equal_nan=True)


@given(st.lists(st.none() | MOMENTS, min_size=1, max_size=8))
@settings(deadline=None, max_examples=40)
def test_a_column_of_dates_or_times_is_as_its_texts(moments):
    keys = {"lower": -700_000, "upper": 2_900_000, "days_since": DAY, "missing": ("1900-01-01", "2015-06-01")}
    texts = [None if moment is None else moment.isoformat() for moment in moments]
    expected = numbers(pl.Series(texts, dtype=pl.String), **keys)
    times = pl.Series(moments, dtype=pl.Datetime("us"))
    for column in (
        times,
        times.dt.replace_time_zone("UTC"),
        times.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    ):
        assert np.array_equal(numbers(column, **keys), expected, equal_nan=True)
    assert np.array_equal(numbers(times.dt.date(), **keys), np.floor(expected), equal_nan=True)


def test_days_are_counted_before_and_after_the_day():
    column = pl.Series([dt.date(2014, 12, 31), dt.date(2015, 1, 1), dt.date(2016, 2, 29), None])
    assert np.array_equal(
        numbers(column, days_since=DAY, lower=-9, upper=999), [-1.0, 0.0, 424.0, math.nan], equal_nan=True
    )
    noon = pl.Series(["2015-01-01T12:00", "2015-01-01 00:00+01:00", "2015-01-02T00:00:00.000000001Z"])
    assert numbers(noon, days_since=DAY).tolist() == [0.5, -1 + 23 / 24, 1 + 1e-9 / 86_400]


@given(st.dates())
def test_days_are_numbered_as_by_pythons_calendar(day):
    assert day_number(day.isoformat()) == (day - dt.date(1970, 1, 1)).days


@given(st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", fullmatch=True) | st.text())
def test_what_pythons_calendar_does_not_have_is_no_day(text):
    try:
        expected = dt.date.fromisoformat(text) if len(text) == 10 and text.isascii() else None
    except ValueError:
        expected = None
    assert day_number(text) == (expected and (expected - dt.date(1970, 1, 1)).days)


def test_the_calendar_begins_and_ends_as_pythons():
    assert (day_number("0001-01-01"), day_number("9999-12-31")) == (FIRST_DAY, LAST_DAY)
    assert [day_number(f"{year}-02-29") is None for year in (1900, 2000, 2015, 2016, 2100)] == [
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_date_that_is_missing_is_so_all_day_and_a_time_only_then():
    column = pl.Series(["9999-12-31", "9999-12-31T23:59:59", "2015-01-01T00:00", "2015-01-01T00:01"])
    found = numbers(column, days_since=DAY, missing=("9999-12-31", "2015-01-01T00:00"))
    assert np.isnan(found).tolist() == [True, True, True, False]


@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32, pl.Int64, pl.Decimal(6, 1), pl.String])
def test_a_sentinel_is_missing_before_values_move_to_the_bounds_in_every_column_type(kind):
    column = pl.Series([999, 0, 12, 7]).cast(kind)
    found = numbers(column, missing=(999, 0))
    assert np.array_equal(found, [math.nan, math.nan, 10.0, 7.0], equal_nan=True)


def test_a_sentinel_is_found_among_short_floats():
    assert np.isnan(numbers(pl.Series([-99.9, 1.0], dtype=pl.Float32), missing=(-99.9,))).tolist() == [True, False]


@pytest.mark.parametrize(
    "text", [CANARY, "2015-02-30", "0000-01-01", "20150101", "2015-01-01T24:00", "2015-01-01Z", "1/2/2015", "42"]
)
def test_what_is_no_date_names_column_and_first_row_and_no_value(text):
    told = complaint(numbers, pl.Series(["2015-01-01", None, text, text]), days_since=DAY)
    assert told.startswith("column 'x' is declared with days_since but holds no date in row 3, header not counted;")
    assert text not in told


@pytest.mark.parametrize("column", [[20150101], [1.5], [True], [dt.time(1)]], ids=str)
def test_a_column_of_numbers_is_no_dates(column):
    told = complaint(numbers, pl.Series(column), days_since=DAY)
    assert told.startswith("column 'x' is declared with days_since but has type")
    assert "days_since" in complaint(numbers, pl.Series([dt.date(2015, 1, 1)]))


@pytest.mark.parametrize("text", ["１２", "1_000", "0x10"])
def test_a_text_that_records_hold_as_a_word_can_be_declared_missing(text):
    """Python would read the first two as numbers; who reads records does not."""
    attribute = NumericAttribute("x", 0, 5000, missing=(text,))
    assert np.isnan(encode_frame(pl.DataFrame({"x": [text]}), schema_of(attribute)).column("x")).all()


def test_text_among_numbers_can_be_declared_missing_and_text_among_labels_cannot():
    assert "missing = [...]" in complaint(numbers, pl.Series(["1", CANARY]))
    label = schema_of(NumericAttribute("x", 0, 1), label_bounds=(0.0, 1.0))
    told = complaint(encode_label_column, pl.Series("y", ["1", CANARY]), label)
    assert "text in row 2" in told
    assert "missing" not in told


@pytest.mark.parametrize("text", ["N/A", "n/a"])
def test_a_level_that_means_missing_is_refused_with_a_remedy(text):
    remedy = "can never occur, as this text means a missing value; take it out, or write another text for it in the "
    told = complaint(read_schema_file, FILE.replace('levels = ["no",', f'levels = ["{text}",'))
    assert told == f"schema file: attribute 'smoker': level {text!r} {remedy}schema and in the records"
    classes = FILE.replace('label_bounds = [0, 100]\nlabel_units = "days"', f'classes = ["no", "{text}"]')
    assert complaint(read_schema_file, classes) == f"schema file: class {text!r} {remedy}schema and in the records"


@pytest.mark.parametrize("text", ["N/A", "n/a"])
def test_a_level_of_an_earlier_card_or_model_still_is_one(text):
    schema = schema_of(CategoricalAttribute("c", ("a", text)), classes=("no", text))
    assert decode(encode(schema), Schema) == schema
    assert encode_frame(pl.DataFrame({"c": [text, " a", "N/A", ""]}), schema).column("c").tolist()[:2] == [1, 0]
    assert encode_label_column(pl.Series("y", [text, "no"]), schema).tolist() == [1, 0]


WRONG = {
    "units with spaces": (NumericAttribute, {"units": " kg"}, "units must be printable"),
    "units of two lines": (NumericAttribute, {"units": "kg\nm"}, "units must be printable"),
    "units of dates": (NumericAttribute, {"units": "days", "days_since": DAY}, "take units out"),
    "no day": (NumericAttribute, {"days_since": "2015-02-30"}, "a day of the calendar"),
    "bounds before the calendar": (NumericAttribute, {"lower": -1e6, "days_since": DAY}, "in the years 1 to 9999"),
    "a sentinel twice": (NumericAttribute, {"missing": (999, 999.0)}, "names 999.0 twice"),
    "a quoted number": (NumericAttribute, {"missing": ("999",)}, "write 999 without quotes"),
    "infinity": (NumericAttribute, {"missing": (math.inf,)}, "finite"),
    "NaN": (NumericAttribute, {"missing": (math.nan,)}, "finite"),
    "infinity in quotes": (NumericAttribute, {"missing": ("1e400",)}, "finite"),
    "NaN in quotes": (NumericAttribute, {"missing": ("NAN",)}, "finite"),
    "outer spaces": (NumericAttribute, {"missing": ("a ",)}, "outer spaces"),
    "a number among dates": (NumericAttribute, {"missing": (9,), "days_since": DAY}, "write a date"),
    "a level that is missing": (CategoricalAttribute, {"missing": ("a",)}, "'a' is also a level"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_key_is_refused_in_words(name):
    kind, keys, words = WRONG[name]
    where = {"lower": 0.0, "upper": 1.0} if kind is NumericAttribute else {"levels": ("a",)}
    assert words in complaint(kind, "x", **(where | keys))


def test_units_of_a_label_need_a_number():
    assert "label_units" in complaint(schema_of, NumericAttribute("x", 0, 1), classes=("a", "b"), label_units="kg")


FILE = """
label = "stay"
label_bounds = [0, 100]
label_units = "days"

[[attributes]]
name = "admitted"
kind = "numeric"
days_since = 2019-01-01
lower = 2018-01-01
upper = 2024-12-31
missing = [1900-01-01, 9999-12-31T23:59:59, "unknown"]

[[attributes]]
name = "weight"
kind = "numeric"
lower = 0
upper = 300
units = "kg"
missing = [999, -1.5, "not done"]

[[attributes]]
name = "smoker"
kind = "categorical"
levels = ["no", "yes"]
missing = ["unknown"]
"""


def test_a_schema_file_has_bounds_as_dates_or_as_days_and_they_are_the_same_on_the_card():
    schema = read_schema_file(FILE).schema
    days = FILE.replace("2018-01-01", "-365").replace("2024-12-31", "2191")
    days = days.replace("1900-01-01", '"1900-01-01"').replace("9999-12-31T23:59:59", '"9999-12-31T23:59:59"')
    assert encode(read_schema_file(days).schema) == encode(schema)
    quoted = FILE.replace("days_since = 2019-01-01", 'days_since = "2019-01-01"')
    assert encode(read_schema_file(quoted).schema) == encode(schema)
    admitted = schema.find("admitted")
    assert (admitted.lower, admitted.upper) == (-365.0, 2191.0)
    assert admitted.missing == ("1900-01-01", "9999-12-31T23:59:59", "unknown")
    measures = {name: schema.measure(name) for name in ("admitted", "weight", "smoker", "stay")}
    assert measures == {"admitted": "days since 2019-01-01", "weight": "kg", "smoker": "", "stay": "days"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('units = "kg"', 'unit = "kg"', "did you mean 'units'"),
        ('units = "kg"', "units = 5", "units must be text"),
        ('missing = ["unknown"]', "missing = [9]", "missing: item 1 must be text"),
        ('missing = ["unknown"]', "missing = []", "missing must have at least 1 entry"),
        ("days_since = 2019-01-01", 'days_since = "1. 1. 2019"', "days_since must be a date, such as 2015-01-31"),
        ("days_since = 2019-01-01", "days_since = 2019-01-01T00:00:00", "days_since must be text, not a time"),
        ("days_since = 2019-01-01\n", "", "lower must be a number, not a date"),
        ("missing = [999,", "missing = [2020-01-01,", "missing: item 1 must be a number or text, not a date"),
    ],
)
def test_a_wrong_schema_file_says_which_key_and_what_to_write(old, new, words):
    assert old in FILE
    assert words in complaint(read_schema_file, FILE.replace(old, new))


UNITS = st.none() | st.sampled_from(["kg", "mm Hg", "µmol/L"])
NUMERIC = st.builds(
    lambda name, units, missing: NumericAttribute(
        name, -1, 1, units=units or msgspec.UNSET, missing=missing or msgspec.UNSET
    ),
    st.sampled_from("uvw"),
    UNITS,
    st.none() | SENTINELS,
)
DATED = st.builds(
    lambda day, missing: NumericAttribute("d", -1, 1, days_since=day.isoformat(), missing=missing or msgspec.UNSET),
    st.dates(),
    st.none() | st.just(("1900-01-01", "unknown")),
)


@given(st.lists(NUMERIC | DATED, min_size=1, max_size=4, unique_by=lambda attribute: attribute.name), UNITS)
@settings(deadline=None)
def test_a_schema_is_read_as_it_was_written(attributes, units):
    schema = Schema(tuple(attributes), "y", label_bounds=(0.0, 1.0), label_units=units)
    assert decode(encode(schema), Schema) == schema
    assert msgspec.json.decode(msgspec.json.encode(schema), type=Schema) == schema
    described = Schema(
        tuple(msgspec.structs.replace(a, description="x", missing=msgspec.UNSET) for a in attributes),
        "y",
        label_bounds=(0.0, 1.0),
        label_units=units,
    )
    assert schema.differences(described) == []


@given(
    st.lists(NUMERIC | DATED, min_size=1, max_size=4, unique_by=lambda attribute: attribute.name),
    UNITS,
    st.none() | st.lists(WORDS, min_size=1, max_size=3, unique=True).map(tuple),
)
@settings(deadline=None)
def test_a_schema_file_is_read_as_it_was_written(attributes, units, codes):
    level = CategoricalAttribute("c", ("f", "m"), missing=codes or msgspec.UNSET)
    file = SchemaFile("y", (*attributes, level), label_bounds=(0.0, 1.0), label_units=units)
    fields = {name: field for name, field in msgspec.to_builtins(file).items() if field is not None}
    assert read_schema_file(msgspec.toml.encode(fields).decode()) == file


BAD = st.sampled_from([CANARY, "1. 2. 2015", "2015-13-01", "1e", "--1", "12:30", "2015-02-29 10:00"])


@given(st.lists(BAD | st.just("good"), min_size=1, max_size=8), st.booleans())
@settings(deadline=None)
def test_the_first_wrong_row_is_named_and_nothing_is_changed(cells, dates):
    good = "2015-02-28" if dates else "7.5"
    column = pl.Series("x", [good if cell == "good" else cell for cell in cells])
    frame = pl.DataFrame({"x": column})
    attribute = NumericAttribute("x", 0, 99, missing=("none",), days_since=DAY if dates else msgspec.UNSET)
    wrong = [row for row, cell in enumerate(cells, start=1) if cell != "good"]
    if wrong:
        told = complaint(encode_frame, frame, schema_of(attribute))
        assert f"in row {wrong[0]}, header not counted" in told
        assert not any(cell in told for cell in cells if cell != "good")
    else:
        assert len(encode_frame(frame, schema_of(attribute))) == len(cells)
    assert frame["x"].to_list() == column.to_list()


def test_units_and_the_first_day_are_meaning_and_sentinels_are_not():
    plain = NumericAttribute("x", 0, 1)

    def differences(first, second, **label):
        return schema_of(first).differences(schema_of(second, **label))

    assert differences(plain, NumericAttribute("x", 0, 1, units="mg")) == ["x"]
    assert differences(plain, NumericAttribute("x", 0, 1, days_since=DAY)) == ["x"]
    assert differences(plain, NumericAttribute("x", 0, 1, missing=(9,))) == []
    mine, theirs = (schema_of(plain, label_bounds=(0.0, 1.0), label_units=units) for units in ("mg", "g"))
    assert mine.differences(theirs) == ["y"]
