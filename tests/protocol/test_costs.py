"""Exact costs of plans: c m / scale, summed; never a float."""

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from at_length import at_length
from generators import plans
from protocol.errors import RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.refusals import RefusalCode


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
