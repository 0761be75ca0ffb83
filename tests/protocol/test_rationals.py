"""Amounts and costs of plans are exact, bounded before they are parsed, and never floats."""

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from gates import bounded
from generators import plans
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan
from protocol.rationals import MOST, Rational, amount, parse_amount, parse_rational, shorten, written, written_exactly
from protocol.refusals import RefusalCode

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
        *((value, 'write it as text like "1/3"') for value in (1 / 3, 1e-5, 1e-300, 2.00000000001, "0.1234567891")),
        *((value, f"'{value}' must be positive") for value in (0, 0.0, -0.5, "-1", "-1/3", "0/1", Fraction(-(2**33)))),
        (-1e300, "must be positive"),
        (-1e-300, "must be positive"),
        (Fraction(-1, 2**70), "the amount must be positive"),
        *((value, f"'{value}' needs more than 32 bits") for value in (2**32, "1/4294967296")),
        (1e10, "needs more than 32 bits"),
        (1e300, "needs more than 32 bits"),
        *((value, f"'{value}' is not a positive rational: write") for value in ("1/0", "many", math.nan, math.inf)),
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
    with bounded(0.2), pytest.raises(ConfigurationError) as caught:
        parse_rational(text)
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


def planned(scale="30", partitions=1, kind="counts", release="mass"):
    """A planned query; of another kind than counts, a mapping with its parts."""
    parts = {"release": release, "partitions": partitions, "scale": Rational.of(Fraction(scale))}
    return PlannedCounts(**parts) if kind == "counts" else {"kind": kind, **parts}


def code(call, *args):
    with pytest.raises(RemoteProtocolError) as caught:
        call(*args)
    return caught.value.code


@pytest.mark.parametrize(
    ("query", "most", "cost"),
    [
        (planned(), 1, Fraction(1, 30)),
        (planned(partitions=30), 1, Fraction(1)),
        (planned(partitions=3), 7, Fraction(21, 30)),
        (planned("1000/3", 2), 1, Fraction(6, 1000)),
        (planned("1000/3", 2), 5, Fraction(3, 100)),
        (planned("1/4"), 1, Fraction(4)),
        (planned("1", 100_000), 2**15, Fraction(100_000 * 2**15)),
    ],
)
def test_a_query_costs_contributions_times_partitions_over_scale(query, most, cost):
    assert QUERY_KINDS.cost(query, most) == cost
    assert QUERY_KINDS.plan_cost(Plan.of((query,)), most) == cost


@pytest.mark.parametrize("release", ["mass", "signed_error", "error_correct"])
def test_every_release_kind_costs_the_same(release):
    assert QUERY_KINDS.cost(planned(partitions=4, release=release), 2) == Fraction(8, 30)


@pytest.mark.parametrize("release", ["label_total", "squared_error"])
def test_steps_multiply_the_cost(release):
    query = msgspec.structs.replace(planned(scale="1000", partitions=3, release=release), steps=500)
    assert QUERY_KINDS.cost(query, 2) == Fraction(2 * 3 * 500, 1000)


@pytest.mark.parametrize("release", ["mass", "signed_error", "error_correct", "class_counts"])
def test_steps_are_for_numeric_labels(release):
    query = msgspec.structs.replace(planned(release=release), steps=2)
    assert code(QUERY_KINDS.cost, query, 1) == RefusalCode.BAD_PLAN
    assert QUERY_KINDS.cost(msgspec.structs.replace(query, steps=1), 1) == Fraction(1, 30)


def test_thirty_queries_of_a_thirtieth_cost_exactly_one():
    assert QUERY_KINDS.plan_cost(Plan.of((planned(),) * 30), 1) == 1
    assert QUERY_KINDS.plan_cost(Plan.of((planned(),) * 31), 1) > 1


def test_a_plan_costs_the_exact_sum():
    plan = Plan.of((planned("3"), planned("7", 2), planned("11", 3)))
    assert QUERY_KINDS.plan_cost(plan, 1) == Fraction(1, 3) + Fraction(2, 7) + Fraction(3, 11)
    assert QUERY_KINDS.plan_cost(plan, 2) == 2 * QUERY_KINDS.plan_cost(plan, 1)


@given(plans(), st.integers(1, 5))
@settings(deadline=None, max_examples=25)
def test_a_cost_is_the_independent_sum_or_needs_more_than_32_bits(plan, most):
    queries = QUERY_KINDS.queries(plan)
    parts = [Fraction(most * q.partitions * q.steps * q.scale.denominator, q.scale.numerator) for q in queries]
    fits = all(max(part.numerator, part.denominator) < 2**32 for part in [*parts, sum(parts)])
    fits &= math.lcm(*(part.denominator for part in parts)) < 2**32
    if fits:
        assert QUERY_KINDS.plan_cost(plan, most) == sum(parts)
    else:
        assert code(QUERY_KINDS.plan_cost, plan, most) == RefusalCode.BAD_PLAN


test_a_cost_is_the_independent_sum_or_needs_more_than_32_bits_at_length = at_length(
    test_a_cost_is_the_independent_sum_or_needs_more_than_32_bits, 150
)


@pytest.mark.parametrize("kind", ["", "count", "Counts", "samples"])
def test_an_unknown_query_kind_is_refused(kind):
    assert code(QUERY_KINDS.kind, kind) == RefusalCode.UNKNOWN_KIND
    for queries in ((planned(kind=kind),), (planned(), planned(kind=kind))):
        plan = Plan.of(queries)
        assert code(QUERY_KINDS.plan_cost, plan, 1) == RefusalCode.UNKNOWN_KIND
        assert code(QUERY_KINDS.turns, plan) == RefusalCode.UNKNOWN_KIND
        assert QUERY_KINDS.missing(plan) == (kind,)


@pytest.mark.parametrize("release", ["", "Mass", "counts", "exact"])
def test_an_unknown_release_kind_is_a_bad_plan(release):
    assert code(QUERY_KINDS.cost, planned(release=release), 1) == RefusalCode.BAD_PLAN
    assert code(QUERY_KINDS.plan_cost, Plan.of((planned(), planned(release=release))), 1) == RefusalCode.BAD_PLAN


def test_a_query_that_costs_more_than_32_bits_is_a_bad_plan():
    assert QUERY_KINDS.cost(planned("1/4294967295"), 1) == 2**32 - 1
    assert code(QUERY_KINDS.cost, planned("1/4294967295", 2), 1) == RefusalCode.BAD_PLAN
    assert code(QUERY_KINDS.cost, planned("1/4294967295"), 2) == RefusalCode.BAD_PLAN


def test_a_sum_that_needs_more_than_32_bits_is_a_bad_plan():
    assert (
        code(QUERY_KINDS.plan_cost, Plan.of((planned("4294967291"), planned("4294967279"))), 1) == RefusalCode.BAD_PLAN
    )
    assert code(QUERY_KINDS.plan_cost, Plan.of((planned("1/2147483648"),) * 2), 1) == RefusalCode.BAD_PLAN
