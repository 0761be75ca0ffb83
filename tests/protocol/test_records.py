"""Encoding of data frames: one meaning whatever the column's type, and errors that never show a value."""

import datetime as dt
import decimal
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import record_frames
from protocol.errors import ConfigurationError
from protocol.record_frames import (
    column_texts,
    count_moved_labels,
    encode_and_count_moved,
    encode_frame,
    encode_label_column,
    encode_labels,
    encode_numeric_labels,
)
from protocol.records import MISSING_CODE, Records
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

CANARY = "canary-7f3a"


def categories(column, *levels):
    schema = Schema((CategoricalAttribute("c", levels),), "y", ("no", "yes"))
    records = encode_frame(pl.DataFrame({"c": column}), schema)
    assert records.categorical.dtype == np.int16
    assert records.numeric.shape == (len(records), 0)
    return records.column("c").tolist()


def numbers(column, lower=-10.0, upper=10.0):
    schema = Schema((NumericAttribute("x", lower, upper),), "y", ("no", "yes"))
    records = encode_frame(pl.DataFrame({"x": column}), schema)
    assert records.numeric.dtype == np.float64
    assert records.categorical.shape == (len(records), 0)
    return records.column("x")


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([0, 1, None, 7]),
        pl.Series([0, 1, None, 7], dtype=pl.UInt8),
        pl.Series([0.0, 1.0, None, 7.0]),
        pl.Series([-0.0, 1.0, math.nan, 7.5]),
        pl.Series([0, 1, None, 7], dtype=pl.Float32),
        pl.Series(["0", "1", None, "7"]),
        pl.Series([" 0", "1 ", "\t?\n", "x"]),
        pl.Series(["0", "1", "NA", "1.5"], dtype=pl.Categorical),
        pl.Series(["0", "1", None, "7"], dtype=pl.Enum(["0", "1", "7"])),
        pl.Series([decimal.Decimal("0.00"), decimal.Decimal("1.00"), None, decimal.Decimal("7.00")]),
    ],
    ids=lambda column: str(column.dtype.base_type()),
)
def test_the_same_categories_have_the_same_codes_in_every_column_type(column):
    assert categories(column, "0", "1") == [0, 1, MISSING_CODE, 2]


def test_booleans_are_the_levels_true_and_false():
    assert categories(pl.Series([True, False, None]), "false", "true") == [1, 0, MISSING_CODE]
    assert categories(pl.Series(["true", "false", ""]), "false", "true") == [1, 0, MISSING_CODE]


def test_an_unseen_level_is_other_and_a_declared_one_need_not_occur():
    assert categories(pl.Series(["b", "z", "a"]), "a", "b", "never") == [1, 3, 0]


@pytest.mark.parametrize("text", ["", " ", "?", "NA", "NaN", "nan", "null", " ? ", None])
def test_missing_has_these_spellings_in_text(text):
    assert categories(pl.Series([text, "a"], dtype=pl.String), "a") == [MISSING_CODE, 0]
    assert np.isnan(numbers(pl.Series([text, "1"], dtype=pl.String))).tolist() == [True, False]


def test_dates_are_categories_by_their_text():
    assert categories(pl.Series([dt.date(2020, 1, 31), None]), "2020-01-31") == [0, MISSING_CODE]


@pytest.mark.parametrize("dtype", [pl.Null, pl.String, pl.Float64, pl.Int64, pl.Boolean])
def test_a_wholly_missing_or_empty_column_is_fine(dtype):
    assert categories(pl.Series([None, None], dtype=dtype), "a") == [MISSING_CODE] * 2
    assert np.isnan(numbers(pl.Series([None, None], dtype=dtype))).all()
    assert categories(pl.Series([], dtype=dtype), "a") == []
    assert numbers(pl.Series([], dtype=dtype)).shape == (0,)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([1, 0, None]),
        pl.Series([1.0, -0.0, None]),
        pl.Series([1.0, 0.0, math.nan]),
        pl.Series(["1", "0", "?"]),
        pl.Series([" 1.0 ", "0e0", ""]),
        pl.Series([True, False, None]),
        pl.Series([decimal.Decimal("1.0"), decimal.Decimal("0.0"), None]),
    ],
    ids=range(7),
)
def test_the_same_numbers_are_equal_in_every_column_type(column):
    assert np.array_equal(numbers(column), [1.0, 0.0, math.nan], equal_nan=True)


@pytest.mark.parametrize("kind", [pl.Float64, pl.String])
def test_numbers_beyond_the_bounds_move_to_the_nearer_one(kind):
    column = pl.Series([-1e308, -11.0, -10.0, 10.0, 1e308]).cast(kind)
    assert numbers(column).tolist() == [-10, -10, -10, 10, 10]


@pytest.mark.parametrize("kind", [pl.Float64, pl.Float32, pl.String])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinity_is_named_by_column_and_row_and_is_no_number(kind, value):
    column = pl.Series("x", [1.0, None, value, math.nan]).cast(kind)
    told = complaint(encode_frame, pl.DataFrame({"x": column, "c": ["a"] * 4}), SCHEMA)
    assert told.startswith("column 'x' holds infinity, or a number too large to be held, in row 3, header not counted;")
    assert "row 3" in complaint(encode_numeric_labels, column, (0.0, 1.0))


def test_a_number_too_large_for_a_float_is_an_infinity():
    told = complaint(encode_frame, pl.DataFrame({"x": ["1", "1e999"], "c": ["a", "a"]}), SCHEMA)
    assert "row 2" in told
    assert "1e999" not in told


def test_huge_integers_move_to_the_bound():
    assert numbers(pl.Series([2**64 - 1, 0], dtype=pl.UInt64)).tolist() == [10, 0]


@given(st.lists(st.one_of(st.none(), st.floats(allow_infinity=False)), max_size=10))
@settings(deadline=None, max_examples=100)
def test_every_encoded_number_is_missing_or_within_the_bounds(values):
    encoded = numbers(pl.Series(values, dtype=pl.Float64))
    for value, code in zip(values, encoded, strict=True):
        if value is None or math.isnan(value):
            assert math.isnan(code)
        else:
            assert code == min(max(value, -10.0), 10.0)


@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", " b", "é", "A", "NA", "", "ab"])), max_size=10))
@settings(deadline=None, max_examples=100)
def test_every_code_is_that_of_the_trimmed_text(values):
    expected = [
        MISSING_CODE if value in (None, "NA", "") else {"a": 0, "b": 1, "é": 2}.get(value.strip(), 3)
        for value in values
    ]
    assert categories(pl.Series(values, dtype=pl.String), "a", "b", "é") == expected


SCHEMA = Schema((NumericAttribute("x", 0.0, 1.0), CategoricalAttribute("c", ("a",))), "y", ("no", "yes"))


def complaint(call, *args):
    with pytest.raises(ConfigurationError) as caught:
        call(*args)
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_missing_columns_are_named_all_at_once():
    message = complaint(encode_frame, pl.DataFrame({CANARY: [1]}), SCHEMA)
    assert "'x'" in message
    assert "'c'" in message


def test_an_absent_column_is_told_with_the_nearest_and_with_those_that_are_there():
    message = complaint(encode_frame, pl.DataFrame({"c": [CANARY], "X ": [CANARY]}), SCHEMA)
    assert message == "the records lack the declared column(s) 'x' (did you mean 'X '?); the columns are 'c', 'X '"


def test_a_declared_column_that_is_there_is_nobody_s_suggestion():
    there = {"ages": [1.0]}
    schema = Schema((NumericAttribute("age", 0, 1), NumericAttribute("ages", 0, 1)), "y", ("no", "yes"))
    assert "did you mean" not in complaint(encode_frame, pl.DataFrame(there), schema)


def test_at_most_twenty_columns_are_named_and_none_at_length():
    there = {"c": ["a"], "long" * 1000: [1], **{f"n{number}": [CANARY] for number in range(28)}}
    message = complaint(encode_frame, pl.DataFrame(there), SCHEMA)
    assert "'n17' and 10 more" in message
    assert "'n18'" not in message
    assert len(message) < 500


def test_names_are_not_shown_where_no_declared_one_is_there():
    message = complaint(encode_frame, pl.DataFrame({CANARY: [1], "cc": [1], "0.25": [1]}), SCHEMA)
    assert message.endswith("'x', 'c'; no declared column is there: does the first row hold the column names?")
    assert "'cc'" in complaint(encode_frame, pl.DataFrame({"cc": [1], "C": [1]}), SCHEMA)


def test_values_moved_to_a_bound_are_counted_before_they_move():
    column = pl.Series([0.0, 1.0, -0.0, -0.001, 1.5, 1e300, -1e300, math.nan, None])
    frame = pl.DataFrame({"x": column, "c": ["a"] * len(column)})
    records, moved = encode_and_count_moved(frame, SCHEMA)
    assert moved == {"x": 4}
    assert np.array_equal(records.numeric, encode_frame(frame, SCHEMA).numeric, equal_nan=True)


def test_other_columns_are_ignored_and_the_order_does_not_matter():
    frame = pl.DataFrame({"c": ["a"], CANARY: [CANARY], "x": [0.5]})
    records = encode_frame(frame, SCHEMA)
    assert (records.numeric.tolist(), records.categorical.tolist()) == ([[0.5]], [[0]])


@pytest.mark.parametrize("text", [CANARY, "1,5", "1 2", "0x1", "--1"])
def test_text_among_numbers_names_column_and_row_and_no_value(text):
    message = complaint(encode_frame, pl.DataFrame({"x": ["1", text], "c": ["a", "a"]}), SCHEMA)
    assert "'x'" in message
    assert "row 2" in message
    assert text not in message


BAD_COLUMNS = {
    "enum": pl.Series([CANARY], dtype=pl.Enum([CANARY])),
    "categorical": pl.Series([CANARY], dtype=pl.Categorical),
    "date": pl.Series([dt.date(2020, 1, 1)]),
    "list": pl.Series([[CANARY]]),
    "struct": pl.Series([{CANARY: CANARY}]),
    "binary": pl.Series([b"\xff" + CANARY.encode()]),
    "duration": pl.Series([dt.timedelta(1)]),
    "object": pl.Series([object()], dtype=pl.Object),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_a_column_of_another_type_is_no_numbers(name):
    message = complaint(encode_frame, pl.DataFrame({"x": BAD_COLUMNS[name], "c": ["a"]}), SCHEMA)
    assert "'x' is declared numeric but has type" in message


@pytest.mark.parametrize("name", ["list", "struct", "binary", "duration", "object"])
def test_a_column_that_is_no_text_is_no_categories_and_no_labels(name):
    message = complaint(encode_frame, pl.DataFrame({"x": [1.0], "c": BAD_COLUMNS[name]}), SCHEMA)
    assert "column 'c' has type" in message
    assert "column 'y' has type" in complaint(encode_labels, BAD_COLUMNS[name].alias("y"), ("no", "yes"))


@pytest.mark.parametrize(
    "column",
    [pl.Series([1, 0]), pl.Series([1.0, 0.0]), pl.Series(["1", " 0 "]), pl.Series(["1", "0"], dtype=pl.Categorical)],
    ids=lambda column: str(column.dtype),
)
def test_labels_are_the_same_in_every_column_type(column):
    assert encode_labels(column, ("0", "1")).tolist() == [True, False]
    assert encode_labels(column, ("1", "0")).tolist() == [False, True]
    assert encode_labels(column, ("0", "1")).dtype == np.uint8


@pytest.mark.parametrize("missing", [None, "", "?", "NA"])
def test_a_missing_label_names_its_row(missing):
    message = complaint(encode_labels, pl.Series("y", ["no", missing, CANARY]), ("no", "yes"))
    assert "'y' is empty in row 2" in message


def test_a_missing_numeric_label_names_its_row():
    assert "row 1" in complaint(encode_labels, pl.Series("y", [math.nan, 1.0]), ("0", "1"))


def test_an_unknown_label_names_its_row_and_no_value():
    message = complaint(encode_labels, pl.Series("y", ["no", "yes", CANARY]), ("no", "yes"))
    assert "'y'" in message
    assert "row 3, header not counted" in message
    assert "'no' and 'yes'" in message


def test_class_indices_follow_the_declared_order():
    many = tuple(f"c{number}" for number in range(256))
    assert encode_labels(pl.Series(["c255", "c0", " c7 "]), many).tolist() == [255, 0, 7]
    message = complaint(encode_labels, pl.Series("y", ["c256"]), many)
    assert "'c18' and 237 more in row 1" in message


def test_numeric_labels_are_clipped_and_rounded_to_the_grid():
    """Halves go to the even step; a step is 2^-12 of the range."""
    half = 1 / 8192
    column = pl.Series([-1e300, -3.0, 1.0, 1.0 + 8 * half, 1.0 + 24 * half, 2.0, 9.0, 11.0, 1e300])
    codes = encode_numeric_labels(column, (1.0, 9.0))
    assert codes.dtype == np.uint16
    assert codes.tolist() == [0, 0, 0, 0, 2, 512, 4096, 4096, 4096]
    assert encode_numeric_labels(pl.Series([" 9", "2.0"]), (1.0, 9.0)).tolist() == [4096, 512]
    assert encode_numeric_labels(pl.Series([-1e15, 0.0, 1e15]), (-1e15, 1e15)).tolist() == [0, 2048, 4096]
    assert count_moved_labels(column, (1.0, 9.0)) == 4
    schema = Schema(attributes=SCHEMA.attributes, label="y", label_bounds=(1.0, 9.0))
    assert encode_label_column(column, schema).tolist() == codes.tolist()
    assert encode_label_column(pl.Series(["no", "yes"]), SCHEMA).tolist() == [0, 1]


@pytest.mark.parametrize("bad", [None, math.nan, "?"])
def test_a_missing_number_is_no_label(bad):
    column = pl.Series("y", ["1", bad, "2"] if isinstance(bad, str) else [1.0, bad, 2.0])
    assert "'y' is empty in row 2" in complaint(encode_numeric_labels, column, (0.0, 1.0))


def test_a_text_is_no_numeric_label():
    assert "text in row 2" in complaint(encode_numeric_labels, pl.Series("y", ["1", CANARY]), (0.0, 1.0))


def test_no_labels_are_no_error():
    assert encode_numeric_labels(pl.Series("y", [], dtype=pl.Float64), (0.0, 1.0)).shape == (0,)
    assert encode_labels(pl.Series("y", [], dtype=pl.String), ("no", "yes")).shape == (0,)


def test_taking_rows_keeps_numbers_and_codes_together():
    records = Records(SCHEMA, np.array([[0.1], [0.2], [0.3]]), np.array([[0], [1], [-1]], np.int16))
    for rows in (np.array([2, 0, 2]), np.array([True, False, True]), slice(1, 3)):
        taken = records.take(rows)
        assert len(taken) == len(taken.categorical)
        assert taken.column("x").tolist() == records.numeric[rows, 0].tolist()
        assert taken.column("c").tolist() == records.categorical[rows, 0].tolist()


def test_decimals_keep_every_digit_as_text():
    """Two 20-digit identities must stay two privacy units."""
    values = [decimal.Decimal(12345678901234567890), decimal.Decimal(12345678901234567891), None]
    column = pl.Series("unit", values, pl.Decimal(20, 0))
    assert column_texts(column).to_list() == ["12345678901234567890", "12345678901234567891", None]
    scaled = pl.Series(
        "x", [decimal.Decimal("1.00"), decimal.Decimal("10.50"), decimal.Decimal("100.00")], pl.Decimal(10, 2)
    )
    assert column_texts(scaled).to_list() == ["1", "10.5", "100"]


LABELS = st.sampled_from(["no", " no", "yes\u2003", "\x85yes", "NA", " NA ", "", "no\x1c", CANARY])


@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), LABELS), min_size=1, max_size=6), st.sampled_from([("no", "yes"), ("no", "NA")]))
def test_labels_of_a_short_column_are_those_of_a_long_one(labels, classes):
    column = pl.Series("y", labels, dtype=pl.String)

    def outcome():
        try:
            return encode_labels(column, classes).tolist()
        except ConfigurationError as error:
            return str(error)

    short = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_frames, "SHORT", 0)
        assert outcome() == short


ABSENT = st.sampled_from([None, (), ("gone",), ("gone", -9.0)])


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.none(), LABELS, st.sampled_from(["gone", "n/a"])), min_size=1, max_size=6),
    st.sampled_from([("no", "yes"), ("n/a", "no"), ("yes", "N/A")]),
    ABSENT,
)
def test_codes_of_a_short_column_are_those_of_a_long_one(texts, levels, missing):
    attribute = CategoricalAttribute("c", levels, missing=missing)
    column = pl.Series("c", texts, dtype=pl.String)
    short, trimmed = record_frames._codes(column, attribute), column_texts(column, levels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_frames, "SHORT", 0)
        long = record_frames._codes(column, attribute)
        assert column_texts(column, levels).equals(trimmed, check_dtypes=True, check_names=True)
    assert short.dtype == long.dtype == np.int16
    assert short.tolist() == long.tolist()
