"""Amounts are exact, bounded before they are parsed, and never floats."""

import math
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import ConfigurationError
from protocol.rationals import (
    MOST,
    Rational,
    amount,
    parse_amount,
    parse_rational,
    shorten,
    written,
    written_exactly,
)

MOST_32 = 4_294_967_295


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1", Fraction(1)),
        (" 1 ", Fraction(1)),
        ("0.3", Fraction(3, 10)),
        ("1/30", Fraction(1, 30)),
        ("2/60", Fraction(1, 30)),
        (0.1, Fraction(1, 10)),
        (0.5, Fraction(1, 2)),
        (1, Fraction(1)),
        (Fraction(1, 30), Fraction(1, 30)),
        ("1.000000000", Fraction(1)),
        ("4294967295", Fraction(MOST_32)),
        ("1/4294967295", Fraction(1, MOST_32)),
        (MOST_32, Fraction(MOST_32)),
    ],
)
def test_what_a_person_writes_is_read_exactly(written, meant):
    assert parse_rational(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "1e999999999",
        "1e3",
        "",
        " ",
        "abc",
        "-1",
        "+1",
        "0",
        "0.0",
        "0/1",
        "1/0",
        "0/0",
        "1/-2",
        "1 / 2",
        "1/2/3",
        "1/2 x",
        "1.",
        ".5",
        "0x10",
        "1_000",
        "٣",
        "1\n2",
        "inf",
        "nan",
        "4294967296",
        "1/4294967296",
        "0.000000000001",
        0,
        -1,
        0.0,
        -0.5,
        1e300,
        1e-10,
        math.nan,
        math.inf,
        -math.inf,
        True,
        False,
        2**32,
        Fraction(0),
        Fraction(-1, 2),
        Fraction(1, 2**32),
    ],
)
def test_anything_else_is_a_configuration_error(written):
    with pytest.raises(ConfigurationError) as caught:
        parse_rational(written)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (1 / 3, 'write it as text like "1/3"'),
        (1e-5, 'write it as text like "1/3"'),
        (1e-300, 'write it as text like "1/3"'),
        (2.00000000001, 'write it as text like "1/3"'),
        ("0.1234567891", 'write it as text like "1/3"'),
        (0, "'0' must be positive"),
        (0.0, "'0.0' must be positive"),
        (-0.5, "'-0.5' must be positive"),
        (-1e300, "must be positive"),
        (-1e-300, "must be positive"),
        ("-1", "'-1' must be positive"),
        ("-1/3", "'-1/3' must be positive"),
        ("0/1", "'0/1' must be positive"),
        (Fraction(-1, 2**70), "the amount must be positive"),
        (Fraction(-(2**33)), "'-8589934592' must be positive"),
        (2**32, "'4294967296' needs more than 32 bits"),
        ("1/4294967296", "'1/4294967296' needs more than 32 bits"),
        (1e10, "needs more than 32 bits"),
        (1e300, "needs more than 32 bits"),
        ("1/0", "'1/0' is not a positive rational: write"),
        ("many", "'many' is not a positive rational: write"),
        (math.nan, "'nan' is not a positive rational: write"),
        (math.inf, "'inf' is not a positive rational: write"),
    ],
)
def test_an_amount_that_is_refused_is_told_its_own_fault_and_no_other(written, said):
    with pytest.raises(ConfigurationError) as caught:
        parse_rational(written)
    message = str(caught.value)
    assert said in message
    assert sum(fault in message for fault in ("as text", "must be", "32 bits", "is not a positive")) == 1


def test_numbers_too_long_to_print_are_configuration_errors():
    for value in (10**5000, Fraction(1, 10**5000)):
        with pytest.raises(ConfigurationError, match="the amount"):
            parse_rational(value)


@pytest.mark.parametrize(
    "text",
    ["1" * 10**6, "1/" + "3" * 10**6, "0." + "1" * 10**6, "1" + " " * 10**6 + "1"],
    ids=["whole", "ratio", "decimal", "spaces"],
)
def test_a_million_digits_are_refused_at_once(text):
    started = time.perf_counter()
    with pytest.raises(ConfigurationError) as caught:
        parse_rational(text)
    assert time.perf_counter() - started < 0.2
    assert len(str(caught.value)) < 300


def test_the_largest_number_is_what_32_bits_hold():
    assert MOST == MOST_32


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (-1, 1), (1, -1), (-1, -1), (2, 2), (2, 4), (2**32, 1), (1, 2**32)])
def test_a_wire_rational_is_positive_reduced_and_small(pair):
    with pytest.raises(ValueError, match=r"rational|numerator"):
        Rational(*pair)


@given(st.fractions(Fraction(1, 1000), 1000, max_denominator=10**6))
@settings(deadline=None, max_examples=100)
def test_a_wire_rational_holds_its_fraction(value):
    assert Rational.of(value).fraction == value


@given(st.fractions(0))
@settings(deadline=None, max_examples=100)
def test_an_amount_survives_its_text(value):
    assert parse_amount(amount(value)) == value


@given(st.fractions(0), st.integers(0, 10**6))
@settings(deadline=None, max_examples=100)
def test_a_long_total_is_shortened_against_the_asker(value, extra):
    long = value + Fraction(extra, 2**1100 + 1)
    low, high = shorten(long, math.floor), shorten(long, math.ceil)
    assert low <= long <= high
    assert high - low <= Fraction(1, 2**64)
    assert shorten(value, math.floor) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1", "1"),
        ("0.10", "0.1"),
        ("3/10", "0.3"),
        ("1/3", "1/3"),
        ("5/12", "5/12"),
        ("1/128", "1/128"),
        ("1/1000000", "0.000001"),
        ("29/15", "≈ 1.933"),
        ("1234567/7654321", "≈ 0.1613"),
        ("102400/9", "≈ 11,378"),
        ("12800", "12,800"),
        ("0", "0"),
        (Fraction(10**1500), "≈ 1.000e+1500"),
        (Fraction(1, 3**900), "≈ 3.898e-430"),
    ],
)
def test_a_number_is_shown_as_people_write_it_or_marked_as_rounded(value, shown):
    assert written(value) == shown


@given(st.fractions(0, 10**6, max_denominator=10**6))
@settings(deadline=None, max_examples=200)
def test_what_is_shown_is_exact_unless_marked_and_near_where_marked(value):
    shown = written(value)
    assert Fraction(written_exactly(value)) == value
    if shown.startswith("≈ "):
        assert float(shown[2:].replace(",", "")) == pytest.approx(float(value), rel=1e-3)
    else:
        assert Fraction(shown.replace(",", "")) == value


def test_thirty_charges_of_a_thirtieth_are_exactly_one():
    assert sum([parse_rational("1/30")] * 30) == 1
    assert sum([1 / 30] * 30) != 1
