"""Laws that an audit claims of holdouts, statistics and samples, against oracles, simulations and proofs.

A simulation is judged by its relative entropy to the law: n KL exceeds t with a chance of at most exp(-t)
(e t / (k - 1))^(k - 1) for k cells (Agrawal 2020, theorem 1.2), here 1e-9.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from above_threshold import transcripts
from expril.audit.attack.neighbours import random_pair, values_of
from expril.audit.kinds.claimed_records import ClaimedRecords
from expril.audit.kinds.holdout import planned_at_cost
from expril.audit.kinds.holdout_law import HoldoutLaw
from expril.audit.kinds.invented import dataset_of, table_of
from expril.audit.kinds.kind_audit import AGREEMENT
from expril.audit.kinds.sample import mollified
from expril.audit.kinds.statistic import EXAMPLES
from expril.audit.kinds.statistic_law import (
    at_rank,
    choices_law,
    decay,
    heavy_law,
    law_of,
    median_scores,
    rank_scores,
    sensitivity,
)
from protocol.codec import decode
from protocol.grids import LevelAxis, NumberAxis
from protocol.kinds.holdout import PlannedHoldout
from protocol.kinds.sample import EXPONENT_STEPS, PlannedSample
from protocol.kinds.statistic import StatisticBody
from protocol.kinds.statistics.items import Grid, Quantile
from protocol.noise import NoisyMax
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

RARE = 1e-9


def unlikely(places, chances):
    """Whether drawn places are too far from their chances; with correct draws once in 10^9."""
    counts = np.bincount(places, minlength=len(chances))
    there = counts > 0
    entropy = float((counts[there] * np.log(counts[there] / len(places) / np.array(chances)[there])).sum())
    free = int((np.array(chances) > 0).sum()) - 1
    return entropy > free and free * math.log(math.e * entropy / free) - entropy < math.log(RARE)


def close(loss):
    return abs(loss.loss - loss.by_table) < AGREEMENT


# records


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_claimed_records_are_those_of_a_curator(name):
    rng = np.random.default_rng(1)
    for example in EXAMPLES[name]:
        values, bound = values_of(example), example.most_records_per_unit
        for index in range(6):
            units = random_pair(example, values, rng, 16 + index).sets[1]
            claimed = ClaimedRecords.of(table_of(units, example.schema), example.schema, bound)
            held = dataset_of(units, example)
            assert np.array_equal(claimed.records.numeric, held.records.numeric, equal_nan=True)
            assert np.array_equal(claimed.labels, held.labels)
            assert claimed.blocks(5, b"split") == held.blocks(5, b"split").tolist()


# holdout


def holdout(sums, answers=1, threshold=1, bound=1, turns=None):
    """A law whose turns have these numbers of correct records, all others 0, and p = 0."""
    planned = planned_at_cost(turns or len(sums), answers, threshold, bound)
    return HoldoutLaw(planned, (0,) * len(sums), tuple((3, right) for right in sums), planned.instance_cost(bound))


def in_floats(first, second):
    """The largest loss of two holdouts over all outputs, by their chances in floats."""
    scale = float(first.planned.count_scale.fraction)
    return max(
        abs(math.log(first.chances[ends] / second.chances[ends]))
        + sum(abs(a - b) for turn in ends for a, b in zip(first.counts[turn], second.counts[turn], strict=True)) / scale
        for ends in first.ways
    )


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 3))
def test_an_instance_has_the_law_of_the_oracle(correct, threshold):
    law = holdout(correct, threshold=threshold)
    expected = transcripts(law.sums, 100 * threshold, 100, 100)
    ways = [(turn,) for turn in range(len(correct))] + [()]
    assert [law.chances[ends] for ends in ways] == pytest.approx(expected, rel=1e-12)
    assert math.fsum(law.chances.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=3),
    st.integers(1, 2),
    st.integers(0, 3),
)
def test_both_computations_of_a_holdouts_loss_agree_and_stay_below_the_claim(moves, answers, threshold):
    answers = min(answers, len(moves))
    first, second = (
        holdout([right + more * step for right, step in moves], answers=answers, threshold=threshold) for more in (0, 1)
    )
    loss = first.loss(second)
    assert close(loss)
    assert loss.loss == pytest.approx(in_floats(first, second), abs=1e-9)
    assert loss.loss <= 4 * (1 + 1e-12)
    for charge in first.charges:
        assert first.loss(second, charge).loss <= charge * (1 + 1e-12)


def test_a_holdout_loses_nearly_what_it_costs_where_the_proof_is_tight():
    """Three sums that a record moves up by 100 far above the threshold, and one that it moves down by 99."""
    planned = PlannedHoldout(
        turns=4,
        answers=1,
        resolution=100,
        threshold=0,
        threshold_scale=Rational(800, 1),
        comparison_scale=Rational(800, 3),
        count_scale=Rational(4, 1),
    )
    cost = planned.instance_cost(1)
    first, second = (HoldoutLaw(planned, (0, 0, 0, 1), ((0, n),) * 3 + ((99, n - 99),), cost) for n in (99, 100))
    assert (first.sums, second.sums) == ((9900,) * 3 + (99,), (10_000,) * 3 + (0,))
    assert 0.99 * cost < in_floats(first, second) <= cost * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("answers", [1, 2])
def test_simulated_holdouts_fall_into_cells_as_the_law_says(answers):
    """Noise of numpy; power: with half of the comparisons' noise n KL is 100 of 45 that are allowed."""
    law, rng, count = holdout((0, 1, 0), answers=answers, bound=answers), np.random.default_rng(3), 4000
    planned = law.planned
    for factor, right in ((1, True), (Fraction(1, 2), False)):
        rows = np.zeros((count, 3, 4), np.int64)
        for row in rows:
            ended, threshold = 0, None
            for turn, level in enumerate(law.sums):
                if ended == answers:
                    break
                if threshold is None:
                    threshold = 100 + planned.threshold_law.simulate(rng, ())
                row[turn, 0] = ended + 1
                noise = type(planned.comparison_law)(planned.comparison_scale.fraction * factor).simulate(rng, ())
                if level + noise >= threshold:
                    row[turn, 1:] = 1, *(np.array(law.counts[turn]) + planned.count_law.simulate(rng, (2,)))
                    ended, threshold = ended + 1, None
        judged = [unlikely(cells.places, cells.chances) for cells in law.cells(rows.reshape(count, -1))]
        assert any(judged) is not right


def test_a_row_that_no_holdout_tells_has_no_place():
    law = holdout((0, 0))
    good = [1, 0, 0, 0, 1, 1, 3, 0]
    for at, value in ((0, 2), (2, 5), (4, 2), (4, 0)):
        rows = np.array([good])
        rows[0, at] = value
        places, chances = next(iter(law.cells(rows)))[1:]
        assert chances[places[0]] == 0
    assert next(iter(law.cells(np.array([good])))).places[0] == law.ways.index((1,))


def test_the_calls_of_a_holdout_without_noise():
    law = holdout((0, 2, 0, 5), answers=2, bound=1)
    assert [numbers.tolist() for numbers, _ in law.calls] == [[100], [0], [200], [3, 2], [100], [0], [500], [3, 5]]


# smooth sensitivity

PLACES = st.lists(st.integers(0, 6), max_size=7).map(sorted)
QUANTILES = st.sampled_from([(1, 2), (9, 10), (1, 3)])


def quantile_item(share):
    return Quantile("x", Rational(*share), Grid(0.0, 6.0, 6))


@settings(max_examples=40)
@given(
    PLACES, st.lists(st.integers(0, 6), min_size=1, max_size=2), QUANTILES, st.sampled_from([(1, 8), (1, 2), (2, 1)])
)
def test_smooth_sensitivity_bounds_what_a_unit_moves_and_changes_slowly(places, unit, share, beta):
    """By brute force: the quantile moves by at most S, and S by a factor of at most e^beta."""
    item, more = quantile_item(share), sorted([*places, *unit])
    moved = [sensitivity(side, item, Fraction(*beta), 2) for side in (places, more)]
    told = [at_rank(side, math.ceil(Fraction(*share) * len(side)), 6) for side in (places, more)]
    assert abs(told[0] - told[1]) <= min(moved)
    assert max(moved) <= Fraction(math.exp(beta[0] / beta[1])) * min(moved) * (1 + Fraction(1, 10**12))


def test_the_decay_falls_by_at_most_the_factor():
    for beta in (Fraction(1, 8), Fraction(1, 4), Fraction(2)):
        parts = decay(beta)
        assert parts[0] == 2**40
        assert all(a > b and Fraction(a, b) <= Fraction(math.exp(beta)) for a, b in itertools.pairwise(parts))


@pytest.mark.parametrize("degrees", [2, 4, 6])
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(7, 2), Fraction(10**6)])
def test_heavy_tails_by_decimals_by_quadrature_and_by_draws(degrees, scale):
    law = heavy_law(2, scale, degrees, 7)
    defined, tabled = [float(p) for p in law.defined.values()], list(law.tabled.values())
    assert tabled == pytest.approx(defined, rel=1e-12)
    assert math.fsum(defined) == pytest.approx(1, abs=1e-15)
    z = np.random.default_rng(degrees).standard_t(degrees, 20_000) / math.sqrt(degrees)
    drawn = np.clip(np.floor(2 + float(scale) * z + 0.5), 0, 7).astype(int)
    assert not unlikely(drawn, defined)
    assert scale > 1000 or unlikely(drawn, [float(p) for p in heavy_law(2, scale * 5 / 4, degrees, 7).defined.values()])


def test_heavy_noise_loses_no_more_than_its_proof_says():
    """Scales that differ by e^beta, and a shift by the smaller one: (d + 1) / (2 scale) + d beta."""
    for degrees, shift, stretch in ((2, 1, 0), (4, 1, 1), (6, 2, 1), (2, 3, 1)):
        scale, beta = Fraction(4), Fraction(1, 4)
        first = heavy_law(2, scale, degrees, 40)
        second = heavy_law(2 + shift, scale * Fraction(math.exp(beta * stretch)), degrees, 40)
        loss = first.loss(second)
        assert close(loss)
        bound = (degrees + 1) * shift / (2 * float(scale)) + degrees * float(beta) * stretch
        assert 0.3 * bound < loss.loss <= bound


# choices


@settings(max_examples=40)
@given(PLACES, st.sampled_from([(1, 1), (9, 1), (1, 2)]))
def test_scores_are_0_at_the_quantile_and_fall_beside_it(places, sides):
    above, below = sides
    scores = rank_scores(places, 7, above, below)
    rank = math.ceil(Fraction(above, above + below) * len(places))
    if places:
        assert scores[places[rank - 1]] == 0
    assert scores.max() == 0
    top = int(scores.argmax())
    assert (np.diff(scores[: top + 1]) >= 0).all()
    assert (np.diff(scores[top:]) <= 0).all()
    moved = rank_scores(sorted([*places, 3]), 7, above, below)
    assert np.abs(moved - scores).max() <= max(sides)


def test_a_median_of_blocks_moves_by_one_where_a_value_is_replaced():
    for values in ([0, 3, 3, 6], [1, 1, 1], [5], [0, 0, 6, 6]):
        for place in range(len(values)):
            for new in range(7):
                changed = [*values[:place], new, *values[place + 1 :]]
                assert np.abs(median_scores(values, 7) - median_scores(changed, 7)).max() <= 1


def test_choices_without_replacement():
    scores, law = np.array([3, 1, 0, 2]), NoisyMax(Fraction(2), one_way=True)
    known, rng = choices_law(scores, 2, law), np.random.default_rng(7)
    assert list(known.tabled.values()) == pytest.approx([float(p) for p in known.defined.values()], abs=1e-12)
    assert len(known.defined) == 12
    rows = []
    for _ in range(4000):
        left, chosen = list(range(4)), []
        while len(chosen) < 2:
            chosen.append(left.pop(law.simulate(rng, scores[left])))
        rows.append(chosen)
    (cells,) = known.cells(np.array(rows))
    assert not unlikely(cells.places, cells.chances)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_law_of_each_statistic_loses_at_most_its_cost(name):
    rng = np.random.default_rng(2)
    for example in EXAMPLES[name]:
        query, bound = example.ask(1), example.most_records_per_unit
        (item,) = decode(query.bodies[0], StatisticBody).asked
        for index in range(5):
            pair = random_pair(example, values_of(example), rng, index)
            laws = [
                law_of(
                    item,
                    query.planned.method,
                    ClaimedRecords.of(table_of(units, example.schema), example.schema, bound),
                    bound,
                )
                for units in pair.sets
            ]
            loss = laws[0].loss(laws[1])
            assert close(loss)
            assert loss.loss <= query.planned.method.cost(bound) * (1 + 1e-12)


# synthetic records

SCHEMA = Schema(
    (NumericAttribute("x", -4.0, 4.0), CategoricalAttribute("s", ("a", "b", "c"))), "outcome", ("no", "yes")
)


def test_the_law_of_a_synthetic_record_reaches_its_epsilon_where_the_proof_is_tight():
    """Exponents at either end: a cell of small mass against all others, and the other way round."""
    planned = PlannedSample(1, Rational(1, 1), (NumberAxis("x", -4.0, 4.0, 4000),), learner="naive_bayes")
    first, second = (
        mollified(
            planned, SCHEMA, lambda cells, sign=sign: np.where(cells[:, 0] == 0, sign, -sign) * 10 * EXPONENT_STEPS
        )
        for sign in (1, -1)
    )
    loss = first.loss(second)
    assert close(loss)
    assert 0.999 < loss.loss < 1


def test_synthetic_records_by_rejection():
    """The paper's algorithm on floats: a draw from Q_0 is kept with a chance of exp(E - epsilon / 4)."""
    axes = (NumberAxis("x", -3.0, 3.0, 6, 0.0, 1.0), LevelAxis("s"))
    planned = PlannedSample(1, Rational(2, 1), axes, learner="naive_bayes")
    law = mollified(planned, SCHEMA, lambda cells: (cells.sum(axis=1) - 3) * EXPONENT_STEPS // 4)
    rng, weights = np.random.default_rng(11), planned.base_law(SCHEMA).weights
    tried = np.column_stack([rng.choice(len(w), 40_000, p=w / w.sum()) for w in weights])
    exponents = (tried.sum(axis=1) - 3) / 4 * 0.5
    (cells,) = law.cells(tried[rng.random(len(tried)) < np.exp(exponents - 0.5)])
    assert not unlikely(cells.places, cells.chances)
    (cells,) = law.cells(tried)  # power: nothing rejected
    assert unlikely(cells.places, cells.chances)
