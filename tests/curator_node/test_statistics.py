"""Statistics as a curator tells them: estimators, quantiles, blocks that no other unit moves, charges and refusals."""

import math
import warnings
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from at_length import also_at_length
from curator_fakes import UNIT_KEY, Learner, ZeroNoise, dataset, open_curator, policy, release_of
from curator_node.kinds.statistic import class_scores
from curator_node.kinds.statistics import quantiles
from curator_node.kinds.statistics.estimates import FINE_STEPS, RIDGE, SPLIT, Block, block_values, estimate, solve
from curator_node.kinds.statistics.heavy_tails import draw_rounded
from curator_node.mechanisms import ExactNoise, Stamp
from curator_node.records.dataset import PrivateDataset
from curator_node.records.schema_file import SchemaFile
from expril.audit.generators.queries import counts_and_unit
from learner_node.kinds import READERS
from protocol.codec import encode
from protocol.kinds import QUERY_KINDS
from protocol.kinds.statistic import STATISTIC, PlannedStatistic, StatisticBody, StatisticLimits
from protocol.kinds.statistics.items import ESTIMATORS, Estimate, Grid, Quantile, Selection
from protocol.kinds.statistics.methods import (
    POLYNOMIALS,
    AggregateMean,
    AggregateMedian,
    Exponential,
    Features,
    Smooth,
    decay_factor,
    distribution,
)
from protocol.limits import Limits
from protocol.messages import Refusal
from protocol.noise import NoisyMax
from protocol.odds import PrivacyUnit
from protocol.partitions import FeatureBins
from protocol.plans import Plan
from protocol.query_kind import KindTerms, Question, Turn
from protocol.rationals import Rational
from protocol.schema import CategoricalAttribute, NumericAttribute
from simulations.seeded_noise import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore::curator_node.records.dataset.StewardWarning")

STEWARD = SchemaFile(
    label="y",
    attributes=(NumericAttribute("x", 0, 10), NumericAttribute("z", -1, 1), CategoricalAttribute("c", ("a", "b"))),
    classes=("no", "yes"),
    unit="unit",
    most_records_per_unit=2,
)
GRID = Grid(0.0, 10.0, 100)
HALF = Rational(1, 2)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"]),
        st.sampled_from([None, 0.0, 0.05, 3.0, 10.0, 99.0, math.nan]),
        st.sampled_from([None, -1.0, 0.3, 1.0]),
        st.sampled_from(["a", "b", "other", None]),
        st.sampled_from(["no", "yes"]),
    ),
    min_size=1,
    max_size=12,
)


def dataset_of(rows, steward=STEWARD):
    frame = pl.DataFrame(
        rows, schema={"unit": pl.String, "x": pl.Float64, "z": pl.Float64, "c": pl.String, "y": pl.String}, orient="row"
    )
    return PrivateDataset(frame, steward, unit_key=UNIT_KEY, cache_bytes=0)


def answered(dataset, method, *items, noise=None):
    """As its reader reads it."""
    turn = Turn(PlannedStatistic(method=method, statistics=len(items)))
    body = STATISTIC.read_body(
        encode(StatisticBody(items)), turn, KindTerms(dataset.schema, StatisticLimits(methods=(method.name,)))
    )
    release = release_of(body, turn.planned, dataset, noise or ZeroNoise(), Stamp("ann", 0, 1))
    assert len(release) <= STATISTIC.release_bytes(Question(turn, body, dataset.schema))
    return READERS["statistic"].read(release, Question(turn, body, dataset.schema))


EVERY = (
    (Exponential(Rational(1, 1), 9), Quantile("x", Rational(9, 10), GRID)),
    (Smooth(Rational(1, 1), Rational(1, 4)), Quantile("x", HALF, GRID)),
    *[
        (AggregateMean(3, 100, Rational(1, 1)), Estimate(name, ("x", "z")[: max(kind.fewest, 1)], GRID))
        for name, kind in ESTIMATORS.items()
    ],
    (AggregateMedian(4, Rational(1, 1)), Estimate("mean", ("x",), GRID)),
    (Features(2, 3, Rational(1, 1)), Selection((FeatureBins("x", (3.0,)), FeatureBins("c", ())), (1, 3))),
)


@also_at_length(100)
@settings(max_examples=30, deadline=None)
@given(ROWS, st.sampled_from(EVERY))
def test_no_records_make_an_answer_fail_or_warn(rows, case):
    method, item = case
    dataset = dataset_of(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer = answered(dataset, method, item, item, noise=SeededNoise(1, "basel"))
    assert answer.numbers.shape == (1, 2, 2 if isinstance(item, Selection) else 1)


@also_at_length(100)
@settings(max_examples=30, deadline=None)
@given(ROWS, st.integers(1, 5), st.sampled_from(sorted(ESTIMATORS)))
def test_a_unit_changes_the_value_of_one_block_at_most(rows, count, name):
    kind = ESTIMATORS[name]
    item = Estimate(name, ("x", "z")[: max(kind.fewest, 1)], GRID)
    rest = [row for row in rows if row[0] != rows[0][0]]
    if rest:
        one, two = (
            block_values(dataset, item, dataset.blocks(count, SPLIT), count)
            for dataset in (dataset_of(rows), dataset_of(rest))
        )
        assert np.count_nonzero(one != two) <= 1


@also_at_length(100)
@settings(max_examples=35, deadline=None)
@given(ROWS, st.sampled_from([(), (1, 3), (2, 2)]))
def test_a_unit_moves_all_scores_of_candidates_one_way(rows, weights):
    item = Selection((FeatureBins("x", (3.0,)), FeatureBins("z", ()), FeatureBins("c", ())), weights)
    rest = [row for row in rows if row[0] != rows[0][0]]
    method = Features(1, max(weights, default=1), Rational(1, 1))
    if rest:
        moved = class_scores(dataset_of(rows), item) - class_scores(dataset_of(rest), item)
        assert moved.min() >= 0
        assert moved.max() <= method.sensitivity(STEWARD.most_records_per_unit)


def block_of(x, z, y):
    steps = np.column_stack([Grid(0.0, 10.0, FINE_STEPS).indices(x), Grid(-1.0, 1.0, FINE_STEPS).indices(z)])
    return Block(steps, y.astype(np.uint8), ((0.0, 10.0), (-1.0, 1.0)))


def test_estimators_are_what_they_say():
    """Against numpy and scikit-learn.

    A value is rounded to half a step of 2^-16 of its range, 0.00008 of x: that moves no estimate by a thousandth.
    """
    rng = np.random.default_rng(3)
    x = np.clip(rng.gamma(2.0, 1.0, 999), 0, 10)
    z = np.clip(0.1 * x - 0.3 + 0.2 * rng.normal(size=999), -1, 1)
    y = rng.random(999) < 1 / (1 + np.exp(1.0 - 0.8 * x))
    block = block_of(x, z, y)
    ordered = np.sort(x)
    wanted = {
        "mean": x.mean(),
        "trimmed_mean": ordered[99:-99].mean(),
        "median": ordered[499],
        "lower_quartile": ordered[249],
        "upper_quartile": ordered[749],
        "interquartile_range": ordered[749] - ordered[249],
        "variance": x.var(ddof=1),
        "standard_deviation": x.std(ddof=1),
        "correlation": np.corrcoef(x, z)[0, 1],
        "slope": np.polyfit(x, z, 1)[0],
        "linear_coefficient": np.polyfit(x, z, 1)[0],
    }
    for name, value in wanted.items():
        assert estimate(name, block) == pytest.approx(value, abs=2e-3, rel=1e-3), name
    one = block._replace(steps=block.steps[:, :1])
    said = estimate("logistic_coefficient", one)
    # The penalised likelihood has one greatest value; a slope of 1e-8 is within 1e-8 of it, as it bends by at least 1.
    points = np.column_stack([np.ones(999), one.steps[:, 0] / (FINE_STEPS / 2) - 1])
    peer = LogisticRegression(C=1 / RIDGE, fit_intercept=False, tol=1e-8).fit(points, y)
    assert said * 5 == pytest.approx(peer.coef_[0, 1], abs=1e-6)
    assert ESTIMATORS.keys() == wanted.keys() | {"logistic_coefficient"}


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_a_block_with_nothing_to_say(name):
    """None, or a number, never an error: of no record, of one, and of several that are all alike."""
    for count in (0, 1, 7):
        said = estimate(name, block_of(np.full(count, 3.0), np.full(count, 0.5), np.ones(count)))
        assert said is None or math.isfinite(said)
    assert estimate(name, block_of(np.empty(0), np.empty(0), np.empty(0))) is None


def test_linear_equations():
    assert solve([[0.0, 2.0], [4.0, 0.0]], [2.0, 4.0]) == [1.0, 1.0]
    assert solve([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]) is None


ROWS_OF_PEOPLE = [(f"p{n}", n % 11, (-1) ** n / 2, "ab"[n % 2], ("no", "yes")[n % 2]) for n in range(440)]


def test_exact_answers_without_noise():
    dataset = dataset_of(ROWS_OF_PEOPLE)
    one = Rational(1, 1)
    quartile = Quantile("x", Rational(3, 4), GRID)
    assert answered(dataset, Exponential(one, 3), quartile).value == pytest.approx([8.0])
    assert answered(dataset, AggregateMedian(4, one), Estimate("median", ("x",), GRID)).value == pytest.approx([5.0])
    mean = answered(dataset, AggregateMean(4, 100, one), Estimate("mean", ("x",), GRID))
    assert mean.value == pytest.approx([5.0], abs=0.3)
    bins = Selection((FeatureBins("x", ()), FeatureBins("c", ()), FeatureBins("z", (0.0,))))
    assert answered(dataset, Features(2, 1, one), bins).chosen == ((1, 2),)


def test_what_is_told_of_errors():
    dataset = dataset_of(ROWS_OF_PEOPLE)
    quantile = Quantile("x", Rational(3, 4), GRID)
    (figure,) = answered(dataset, Exponential(Rational(6, 1), 3), quantile).figures()
    # 6 ln(101 / 0.1) / 4 records.
    assert (figure.error, figure.words) == (None, "at most 10.4 records from the rank asked for (95%)")
    (figure,) = answered(dataset, AggregateMean(4, 100, Rational(100, 1)), Estimate("mean", ("x",), GRID)).figures()
    assert figure.error == pytest.approx(10 / 4 * math.log(20))
    (figure,) = answered(dataset, Smooth(Rational(1, 1), Rational(1, 4)), quantile).figures()
    assert figure.error is None
    assert "not known" in figure.words


def test_curators_are_read_beside_each_other():
    reader, dataset = READERS["statistic"], dataset_of(ROWS_OF_PEOPLE)
    bins = Selection((FeatureBins("c", ()), FeatureBins("x", ()), FeatureBins("z", (0.0,))))
    one = answered(dataset, Features(1, 1, Rational(1, 1)), bins)
    other = one.__class__(one.method, one.items, np.array([[[2]]]))
    assert reader.pool([one, other, other]).chosen == ((2,),)
    means = [answered(dataset, AggregateMean(4, 100, Rational(1, 1)), Estimate("mean", (name,), GRID)) for name in "xx"]
    pooled = reader.pool(means)
    assert pooled.sites == 2
    assert pooled.value == pytest.approx(means[0].value)
    assert reader.complaint(pooled, None) == ""
    wrong = pooled.__class__(pooled.method, pooled.items, np.array([[[10**6]]]))
    assert "so many blocks" in reader.complaint(wrong, None)


def reply_to(limits, planned, body):
    """What came last of a whole study."""
    rules = policy(("ann",), cap=2, limits=limits)
    learner = Learner(open_curator(rules=rules, records=dataset_of(ROWS_OF_PEOPLE)), study=b"s" * 16)
    reply = learner.propose(Plan.of([planned]))
    return reply if isinstance(reply, Refusal) else learner.query(body, kind="statistic")


def test_a_curator_charges_and_tells_a_quantile():
    planned = PlannedStatistic(method=Exponential(Rational(8, 1), 1))
    body = encode(StatisticBody((Quantile("x", HALF, GRID),)))
    release = reply_to(Limits(kinds={"statistic": {}}), planned, body)
    turn = Turn(planned)
    answer = READERS["statistic"].read(
        release.body, Question(turn, StatisticBody((Quantile("x", HALF, GRID),)), dataset_of(ROWS_OF_PEOPLE).schema)
    )
    # Scores fall by 40 a point and more: beyond two points with a chance below 1e-9, at a scale of 2 records.
    assert abs(answer.value[0] - 5.0) <= 10
    assert QUERY_KINDS.cost(planned, 2) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("limits", "method", "code"),
    [
        (Limits(), Exponential(Rational(8, 1), 1), "kind_not_allowed"),
        (Limits(kinds={"statistic": {}}), Exponential(Rational(1, 1), 1), "over_budget"),
    ],
)
def test_what_is_refused_is_not_charged(limits, method, code):
    reply = reply_to(limits, PlannedStatistic(method=method), b"")
    assert (reply.code, reply.remaining) == (code, "2" if code == "over_budget" else reply.remaining)


# --- Quantiles: scores and smooth sensitivity against slow definitions, over drawn neighbours; the law of what is told.

SIDES = st.sampled_from([(1, 1), (1, 3), (3, 1), (9, 1), (1, 99), (2, 3)])
BETAS = st.sampled_from([Fraction(1, 100), Fraction(1, 8), Fraction(1), Fraction(7, 3)])
UNITS = st.integers(1, 3)


def values_of(counts):
    return [value for value, count in enumerate(counts) for _ in range(count)]


@given(counts_and_unit(1), SIDES)
def test_scores_are_ranks_from_the_quantile(pair, sides):
    counts, (above, below) = pair[1], sides
    values = values_of(counts)
    for point, score in enumerate(quantiles.rank_scores(counts, above, below)):
        under, over = sum(value < point for value in values), sum(value > point for value in values)
        whole = above + below
        missing = max(0, whole * under - above * len(values), whole * over - below * len(values))
        assert score == -missing


@given(UNITS.flatmap(lambda c: st.tuples(st.just(c), counts_and_unit(c))), SIDES)
def test_a_unit_moves_scores_by_the_sensitivity_at_most(case, sides):
    most, (fewer, more) = case
    method = Exponential(Rational(1, 1), max(sides))
    moved = np.abs(quantiles.rank_scores(fewer, *sides) - quantiles.rank_scores(more, *sides))
    assert moved.max() <= method.sensitivity(most)


@given(st.integers(1, 6).flatmap(lambda k: st.lists(st.integers(0, 5), min_size=k, max_size=k)), st.integers(0, 5))
def test_a_replaced_block_moves_scores_by_one_at_most(values, other):
    scores = [quantiles.block_scores(np.bincount(each, minlength=6)) for each in (values, [other, *values[1:]])]
    assert np.abs(scores[0] - scores[1]).max() <= 1
    assert scores[0].max() == 0
    assert scores[0][sorted(values)[(len(values) - 1) // 2]] == 0


@given(counts_and_unit(1), SIDES)
def test_the_quantile_is_an_order_statistic(pair, sides):
    counts, (above, below) = pair[0], sides
    values = values_of(counts)
    rank = math.ceil(Fraction(above, above + below) * len(values))
    assert quantiles.quantile(counts, above, below) == (values[rank - 1] if values else 0)


@given(BETAS)
def test_the_decay_is_no_faster_than_exponential(beta):
    factors = quantiles.decay(beta).tolist()
    assert factors[0] == quantiles.ONE
    assert float(decay_factor(beta)) >= math.exp(-beta)
    for one, two in zip(factors, [*factors[1:], factors[-1]], strict=True):
        assert two <= one
        assert Fraction(one) * decay_factor(beta) <= two


@given(UNITS.flatmap(lambda c: st.tuples(st.just(c), counts_and_unit(c))), SIDES, BETAS)
def test_smooth_sensitivities_of_neighbours_are_within_a_factor(case, sides, beta):
    most, pair = case
    fewer, more = (quantiles.smooth_sensitivity(counts, *sides, beta, most) for counts in pair)
    assert max(fewer, more) * decay_factor(beta) <= min(fewer, more)
    moved = abs(quantiles.quantile(pair[0], *sides) - quantiles.quantile(pair[1], *sides))
    assert moved * quantiles.ONE <= min(fewer, more)


@pytest.mark.parametrize("sides", [(1, 1), (1, 3), (9, 1)])
def test_it_bounds_the_definition_over_all_small_data_sets(sides):
    """On three points, up to five records: the largest of exp(-beta k) times the local sensitivity k records away.

    Data sets as far away as six records are walked; beyond, the definition's factor is below 0.003 of the grid.
    """
    beta = Fraction(1)
    grid = [
        np.bincount(values, minlength=3)
        for size in range(12)
        for values in combinations_with_replacement(range(3), size)
    ]
    known = {tuple(counts): quantiles.quantile(counts, *sides) for counts in grid}

    def neighbours(counts):
        for point in range(3):
            for change in (-1, 1):
                other = tuple(count + change * (at == point) for at, count in enumerate(counts))
                if min(other) >= 0 and other in known:
                    yield other

    local = {own: max(abs(known[own] - known[other]) for other in neighbours(own)) for own in known if sum(own) < 11}
    for own in [each for each in known if sum(each) <= 5]:
        wanted = max(
            math.exp(-beta * sum(abs(a - b) for a, b in zip(own, other, strict=True))) * found
            for other, found in local.items()
            if sum(abs(a - b) for a, b in zip(own, other, strict=True)) <= 6
        )
        found = quantiles.smooth_sensitivity(np.array(own), *sides, beta, 1) / quantiles.ONE
        assert found >= wanted - 1e-9


def law_of(counts, sides, method, most):
    """Chance of each point that is released, from the distribution function in floats."""
    scale = float(method.scale.fraction) * quantiles.smooth_sensitivity(counts, *sides, method.decay.fraction, most)
    centre, last = quantiles.quantile(counts, *sides), len(counts) - 1
    below = [distribution(method.degrees, (2 * (y - centre) + 1) / 2 / (scale / quantiles.ONE)) for y in range(last)]
    return np.diff([0.0, *below, 1.0])


METHODS = st.builds(
    Smooth,
    st.sampled_from([Rational(1, 2), Rational(3, 1), Rational(12, 1)]),
    st.sampled_from([Rational(1, 10), Rational(1, 2), Rational(2, 1)]),
    st.sampled_from(sorted(POLYNOMIALS)),
)


@also_at_length(100)
@settings(max_examples=30, deadline=None)
@given(UNITS.flatmap(lambda c: st.tuples(st.just(c), counts_and_unit(c))), SIDES, METHODS)
def test_no_point_tells_more_than_the_cost(case, sides, method):
    """By enumeration, in floats: of the smallest chances only 1e-6 digits are right."""
    most, pair = case
    one, two = (law_of(counts, sides, method, most) for counts in pair)
    seen = np.minimum(one, two) > 1e-9
    assert np.abs(np.log(one[seen] / two[seen])).max(initial=0.0) <= float(method.cost(most)) + 1e-5


@pytest.mark.parametrize("degrees", sorted(POLYNOMIALS))
def test_draws_have_the_law(degrees):
    """5,000 draws on nine points; a chi-square of 8 degrees above 60 has a chance of 5e-10.

    A law whose chances are a fifth too high in half of the points gives 200 on average, and is noticed.
    """
    rng = np.random.default_rng(7)
    scale = Fraction(7, 5)
    found = np.bincount([draw_rounded(3, scale, degrees, 8, rng.bytes) for _ in range(5_000)], minlength=9)
    below = [distribution(degrees, (y + 0.5 - 3) / 1.4) for y in range(8)]
    wanted = 5_000 * np.diff([0.0, *below, 1.0])
    assert ((found - wanted) ** 2 / wanted).sum() < 60


@given(st.integers(0, 2**64 - 1), st.integers(0, 30), st.fractions(Fraction(1, 50), 50), st.sampled_from([2, 4, 6]))
def test_a_draw_is_the_quantile_of_its_uniform_number(word, centre, scale, degrees):
    """At most y where the number is below the distribution function at y + 1/2, but for the rounding of this test."""
    drawn = draw_rounded(centre, scale, degrees, 30, lambda size: word.to_bytes(size, "little"))
    uniform, slack = word / 2**64, 1e-12
    if drawn < 30:
        assert uniform <= distribution(degrees, float((drawn - centre + Fraction(1, 2)) / scale)) + slack
    if drawn > 0:
        assert uniform >= distribution(degrees, float((drawn - centre - Fraction(1, 2)) / scale)) - slack


@pytest.mark.parametrize(("further", "drawn"), [(0, 0), (2**64 - 1, 1)])
def test_more_bits_are_read_where_the_first_do_not_tell(further, drawn):
    """At scale 1 the number is 0 below the distribution function at 1/2, which is (1 + 1 / sqrt(5)) / 2 for d = 2."""
    words = iter([(2**64 + math.isqrt(2**128 // 5)) // 2, further])
    assert draw_rounded(0, Fraction(1), 2, 1, lambda size: next(words).to_bytes(size, "little")) == drawn
    assert next(words, None) is None


def test_what_is_not_random_is_refused():
    with pytest.raises(ArithmeticError, match="random bytes"):
        draw_rounded(0, Fraction(1), 4, 9, lambda size: bytes(size - 1))


def test_a_large_grid_and_few_records():
    """Of no record, and of one: the whole range may be told, and every chance is positive."""
    counts = np.zeros(1001, np.int64)
    for dataset_of in (counts, counts + (np.arange(1001) == 500)):
        sensitivity = quantiles.smooth_sensitivity(dataset_of, 1, 1, Fraction(1, 8), 1)
        assert sensitivity >= 500 * quantiles.ONE
    assert NoisyMax(Fraction(1)).chances(quantiles.rank_scores(counts, 1, 1)) == pytest.approx(1 / 1001)


# --- Blocks of units: a keyed split that no other unit can move. And choices, and raw randomness.

STAMP = Stamp("ada", 0, 1)
AGES = st.lists(st.tuples(st.sampled_from(["p1", "p2", "p3", "p4", "p5"]), st.integers(0, 99)), min_size=2, max_size=12)


def rows_of(drawn):
    return tuple((unit, float(age), 0.0, "f", "no") for unit, age in drawn)


@also_at_length(100)
@settings(max_examples=40, deadline=None)
@given(AGES, st.integers(1, 7))
def test_removing_a_unit_moves_no_other_record(drawn, count):
    rows = rows_of(drawn)
    whole, gone = dataset(rows, most=20, unit=True).blocks(count, b"a"), rows[0][0]
    stay = [place for place, row in enumerate(rows) if row[0] != gone]
    assert ((whole >= 0) & (whole < count)).all()
    assert len({int(block) for place, block in enumerate(whole) if rows[place][0] == gone}) == 1
    if stay:
        rest = dataset(tuple(rows[place] for place in stay), most=20, unit=True).blocks(count, b"a")
        assert whole[stay].tolist() == rest.tolist()


@pytest.mark.parametrize("name", ["", "patient"])
def test_without_a_name_a_record_changes_its_block_by_what_no_estimate_reads(name):
    """Failure condition: what is stated of an attribute that is not read is less than what it moves a sum by."""
    grid, blocks = Grid(0.0, 100.0, 10), 8
    item = Estimate("mean", ("age",), grid)

    def said(other):
        rows = (("p1", 100.0, other, "f", "no"), *((f"p{n}", 0.0, float(n), "f", "no") for n in range(30, 60)))
        dataset_of = dataset(rows, unit=bool(name))
        return int(block_values(dataset_of, item, dataset_of.blocks(blocks, SPLIT), blocks).sum())

    moved = max(abs(said(float(other)) - said(0.0)) for other in range(20))
    method = AggregateMean(blocks=blocks, steps=10, scale=Rational(30, 1))
    for statistics in (1, 5):
        planned = PlannedStatistic(method=method, statistics=statistics)
        stated = QUERY_KINDS.odds(planned, PrivacyUnit(1, name), 0).attribute
        assert stated >= statistics * method.law.loss(moved)
    assert bool(moved) == (not name)


def test_another_name_is_another_split_and_blocks_are_about_even():
    dataset_of = dataset(tuple((f"p{n}", n / 10, 0.0, "f", "no") for n in range(1000)), unit=True)
    one, two = dataset_of.blocks(4, b"one"), dataset_of.blocks(4, b"two")
    assert not np.array_equal(one, two)
    # A block of 1000 units by chance 1/4 is within 7 deviations of 250 but for 1e-11.
    assert np.abs(np.bincount(one, minlength=4) - 250).max() < 7 * math.sqrt(1000 * 3 / 16)


@pytest.mark.slow
def test_the_curators_choice_has_the_law():
    """20,000 choices among four: a chi-square of 3 degrees above 48 has a chance of 2e-10."""
    law, scores = NoisyMax(2), np.array([0, 1, 3, 2])
    noise = ExactNoise()
    found = np.bincount([noise.choose(scores, 1, law, STAMP) for _ in range(20_000)], minlength=4)
    wanted = 20_000 * law.chances(scores)
    assert ((found - wanted) ** 2 / wanted).sum() < 48


def test_raw_bytes_are_fresh_and_a_seeds_are_not():
    noise = ExactNoise()
    assert len({noise.randomness(STAMP)(16) for _ in range(3)}) == 3
    seeded = [SeededNoise(1, "basel").randomness(STAMP)(16) for _ in range(2)]
    assert seeded[0] == seeded[1] != SeededNoise(2, "basel").randomness(STAMP)(16)
    picks = [SeededNoise(1, "basel").choose(np.arange(9), 1, NoisyMax(9), STAMP) for _ in range(2)]
    assert picks[0] == picks[1]
