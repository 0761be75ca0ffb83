"""The three factors of every query kind, held against laws computed here, on all pairs of small sets of records.

With p = exp(-1 / scale) every loss is a whole power of 1 / p, whatever p is. So p is taken as 1/2, chances are exact
rationals, and a loss is a number of halvings: the stated exponent times the scale.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from above_threshold import worst_loss
from expril.audit.generators.values import schemas
from generators import OWN_SAMPLERS, QUERIES
from protocol.errors import RemoteProtocolError
from protocol.grids import LevelAxis, NumberAxis
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import PlannedCounts
from protocol.kinds.holdout import PlannedHoldout
from protocol.kinds.model import PlannedModel
from protocol.kinds.models import (
    Forest,
    KernelSvm,
    KMeans,
    LinearRegression,
    LinearSvm,
    LogisticRegression,
    NaiveBayes,
    Points,
    PrincipalComponents,
)
from protocol.kinds.sample import PlannedSample
from protocol.kinds.secure_counts import PlannedSecureCounts
from protocol.kinds.statistic import PlannedStatistic
from protocol.kinds.statistics.methods import AggregateMean, AggregateMedian, Exponential, Features, Smooth
from protocol.limits import Limits
from protocol.odds import NOTHING, WORST, Odds, PrivacyUnit, factor
from protocol.plans import Plan
from protocol.rationals import Rational
from simulations.paper_ratio import SIMULATED_KINDS

SCALE = Rational(7, 1)
HALF = Fraction(1, 2)
THREE = ("presence", "label", "attribute")


def records_unit(records=1, *, name="patient", numeric=False):
    return PrivacyUnit(records, name, "sick", numeric)


def halvings(ratio):
    """Of an exact ratio of chances, as a power of two: never less."""
    return max(0.0, math.log2(ratio))


def bags(items, most, least=0):
    """All multisets of `least` to `most` items."""
    return [bag for size in range(least, most + 1) for bag in itertools.combinations_with_replacement(items, size)]


def stated(planned, unit, scale=SCALE):
    odds = QUERY_KINDS.odds(planned, unit)
    return {what: getattr(odds, what) * scale.fraction for what in THREE}


# --- counts: each number with discrete Laplace noise of its own -----------------------------------------------------


@cache
def lost_by_number(one, other):
    """Most halvings between one noisy number and another, over outputs around both: the ends go on alike."""
    outputs = range(min(one, other) - 2, max(one, other) + 3)
    return max(halvings(HALF ** abs(y - one) / HALF ** abs(y - other)) for y in outputs)


def lost_by_numbers(one, other):
    return sum(lost_by_number(each, others) for each, others in zip(one, other, strict=True))


ATTRIBUTES, STEPS = (0, 1), 3
HYPOTHESES = list(itertools.product((0, 1), repeat=2))
"""What a hypothesis says of either attribute."""


def cells_told(release, bag, cells, hypothesis):
    """What is counted of a bag of (attribute, label) records, cell by cell, by a partition: attribute -> cell."""
    told = Counter()
    for attribute, label in bag:
        # A table of outcomes reads the label as well.
        place = 2 * attribute + label if release == "outcome_counts" else attribute
        cell, wrong = cells[place], hypothesis[attribute] != label
        if release in {"mass", "outcome_counts"}:
            told[cell] += 1
        elif release == "signed_error":
            told[cell] += -1 if wrong else 1
        elif release == "error_correct":
            told[cell, wrong] += 1
        elif release == "class_counts":
            told[cell, label] += 1
        else:  # a number of steps: the label itself, or how far a hypothesis at either end is from it
            steps = label if release == "label_total" else abs(label - STEPS * hypothesis[attribute])
            told[cell, "steps"] += steps
            told[cell, "rest"] += STEPS - steps
    return told


def lost_by_counts(release, one, other, partitions):
    worst = 0
    for hypothesis in HYPOTHESES:
        lost = 0
        for cells in partitions:
            told = [cells_told(release, bag, cells, hypothesis) for bag in (one, other)]
            places = sorted({*told[0], *told[1]}, key=str)
            lost += lost_by_numbers([told[0][at] for at in places], [told[1][at] for at in places])
        worst = max(worst, lost)
    return worst


def changes(kinds_of_record, most):
    """(what, one, other): all that a unit of at most so many records may be, and what it differs in."""
    owned = bags(kinds_of_record, most, least=1)
    for one in owned:
        yield "presence", (), one
        yield "presence", one, ()
        for other in owned:
            yield "attribute", one, other
    for attributes in bags(ATTRIBUTES, most, least=1):
        labels = sorted({label for _, label in kinds_of_record})
        said = [tuple(zip(attributes, each, strict=True)) for each in itertools.product(labels, repeat=len(attributes))]
        yield from (("label", one, other) for one in said for other in said)


BINARY = list(itertools.product(ATTRIBUTES, (0, 1)))
NUMERIC = list(itertools.product(ATTRIBUTES, range(STEPS + 1)))
RELEASES = {
    "mass": BINARY,
    "signed_error": BINARY,
    "error_correct": BINARY,
    "class_counts": list(itertools.product(ATTRIBUTES, (0, 1, 2))),
    "label_total": NUMERIC,
    "squared_error": NUMERIC,
    "error_sums": NUMERIC,
    "outcome_counts": BINARY,
}


@pytest.mark.parametrize("most", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("release", RELEASES)
def test_counts_lose_what_is_stated_and_attain_it(release, most):
    """Over all partitions into two cells, twice: the attribute's own among them, and the one that reads nothing."""
    worst = dict.fromkeys(THREE, 0)
    values = 4 if release == "outcome_counts" else 2
    for partitions in itertools.combinations_with_replacement(itertools.product((0, 1), repeat=values), 2):
        for what, one, other in changes(RELEASES[release], most):
            worst[what] = max(worst[what], lost_by_counts(release, one, other, partitions))
    steps = STEPS if RELEASES[release] is NUMERIC else 1
    planned = PlannedCounts(release=release, partitions=2, scale=SCALE, steps=steps)
    assert worst == stated(planned, records_unit(most))


@pytest.mark.parametrize("readers", [0, 1, 2, 3])
def test_a_partition_that_does_not_read_an_attribute_tells_nothing_of_it(readers):
    """Of two partitions, the first so many read it."""
    partitions = [(0, 1) if place < readers else (0, 0) for place in range(2)]
    lost = max(lost_by_counts("mass", [(a, 0)], [(b, 0)], partitions) for a in ATTRIBUTES for b in ATTRIBUTES)
    planned = PlannedCounts(release="mass", partitions=2, scale=SCALE)
    assert QUERY_KINDS.odds(planned, records_unit(), readers).attribute * SCALE.fraction == lost


def test_a_sum_of_several_curators_loses_no_more_than_counts():
    """Another curator's number, a noise more, and a wrap: chances of the sum, modulo 32."""
    noise = [HALF ** min(k, 32 - k) for k in range(32)]
    both = [sum(noise[j] * noise[(k - j) % 32] for j in range(32)) for k in range(32)]
    for moved in (1, 2, 4):
        assert 0 < max(halvings(both[k] / both[(k - moved) % 32]) for k in range(32)) <= moved
    members = tuple(bytes([n]) * 32 for n in range(3))
    for release in ("mass", "error_correct"):
        own = {"release": release, "partitions": 2, "scale": SCALE}
        secure = PlannedSecureCounts(turns=5, participants=members, colluders=1, dropouts=0, **own)
        assert stated(secure, records_unit(2)) == stated(PlannedCounts(**own), records_unit(2))
        told = QUERY_KINDS["secure_counts"].precision(secure, records_unit())
        assert "each number right within 21 records in 19 of 20 cases" in told
        assert told.endswith("summed over 3 curators")


# --- holdout --------------------------------------------------------------------------------------------------------

HOLDOUT = {"threshold_scale": 2, "comparison_scale": 3, "count_scale": 5}


def planned_holdout(resolution=2, answers=1, **between):
    scales = {name: Rational(scale, 1) for name, scale in HOLDOUT.items()}
    return PlannedHoldout(turns=40, answers=answers, resolution=resolution, threshold=1, **scales, **between)


def distances(resolution, others, estimate, right):
    """|S| for a unit's records, each right or not, beside so much of S by all other records."""
    return abs(others + sum(resolution * each - estimate for each in right))


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("between", [{}, {"least_estimate": 1, "most_estimate": 1}])
def test_a_holdout_loses_what_is_stated_and_nearly_attains_it(most, between):
    """All units of one and two records, all estimates, other records far below and above; forty questions and two."""
    planned, resolution = planned_holdout(**between), 2
    units = [()] + [right for size in range(1, most + 1) for right in itertools.product((0, 1), repeat=size)]
    claims = QUERY_KINDS.odds(planned, records_unit(most))
    worst, known = dict.fromkeys(THREE, 0.0), {}
    for one, other in itertools.product(units, repeat=2):
        what = "presence" if not one or not other else "label" if len(one) == len(other) else "attribute"
        asked = {
            (distances(resolution, others, p, one), distances(resolution, others, p, other))
            for p in range(planned.estimates[0], planned.estimates[1] + 1)
            for others in (-30, 0, 30)
        }
        # Of hypotheses that say the opposite of the unit's records, the same with the two sets changed over.
        asked |= {(second, first) for first, second in asked} if what != "presence" else set()
        moved = Fraction(abs(sum(one) - sum(other)) + abs(len(one) - sum(one) - len(other) + sum(other)))
        told = float(moved / HOLDOUT["count_scale"])
        for often, last in itertools.product(asked, repeat=2):
            for size in (1, 39):
                levels = [[often[side]] * size + [last[side]] for side in (0, 1)]
                key = tuple(map(tuple, levels))
                if key not in known:
                    known[key] = worst_loss(*levels, resolution, Fraction(2), Fraction(3), 0.0)[0]
                worst[what] = max(worst[what], known[key] + told)
    worst["attribute"] = max(worst["label"], worst["attribute"])
    for what in THREE:
        assert worst[what] <= float(getattr(claims, what)) * (1 + 1e-9)
        assert worst[what] > float(getattr(claims, what)) * 0.97
    assert claims.label == claims.attribute
    moved = claims.label - claims.presence - Fraction(most, HOLDOUT["count_scale"])
    # By a change S moves by r, whatever was stated: by an accuracy of one half, twice as far as by presence.
    assert moved == (most * (Fraction(1, 2) + Fraction(2, 3)) if between else 0)


def test_instances_of_a_holdout_add_up():
    one, three = (QUERY_KINDS.odds(planned_holdout(answers=answers), records_unit()) for answers in (1, 3))
    assert three == one * 3


# --- choices: permute and flip, by exact integration ----------------------------------------------------------------


@cache
def choice(scores):
    """Chance of each index: w_i times the integral of the product of 1 - w_j z over the others j, z from 0 to 1."""
    weights = [HALF ** (max(scores) - score) for score in scores]
    chances = []
    for place, weight in enumerate(weights):
        polynomial = [Fraction(1)]
        for other in weights[:place] + weights[place + 1 :]:
            shifted = [Fraction(0), *(-other * c for c in polynomial)]
            polynomial = [a + b for a, b in zip([*polynomial, 0], shifted, strict=True)]
        chances.append(weight * sum(c / (power + 1) for power, c in enumerate(polynomial)))
    assert sum(chances) == 1
    return tuple(chances)


@cache
def lost_by_choice(one, other):
    return max(map(halvings, (a / b for a, b in zip(choice(one), choice(other), strict=True))))


def rank_scores(values, points, a, b):
    """0 where at most a / (a + b) of the values lie below and b / (a + b) above; else how far it is from that."""
    present = [value for value in values if value is not None]
    scores = []
    for point in range(points):
        under, over = sum(v < point for v in present), sum(v > point for v in present)
        scores.append(-max(0, (a + b) * under - a * len(present), (a + b) * over - b * len(present)))
    return tuple(scores)


@pytest.mark.parametrize(("most", "others"), [(1, 3), (2, 1)])
@pytest.mark.parametrize("weight", [1, 2, 3])
def test_a_quantile_loses_no_more_than_is_stated(weight, most, others):
    """On four points, for every quantile that the planned weight allows; a value may also be missing."""
    sides = [
        (a, b) for a, b in itertools.product(range(1, weight + 1), repeat=2) if math.gcd(a, b) == 1
    ]  # in lowest terms
    planned = PlannedStatistic(Exponential(SCALE, weight))
    claims = stated(planned, records_unit(most, numeric=True))
    owned = bags((*range(4), None), most, least=1)
    for (a, b), rest in itertools.product(sides, bags(range(4), others)):
        told = {own: rank_scores((*rest, *own), 4, a, b) for own in owned}
        without = rank_scores(rest, 4, a, b)
        for one, other in itertools.product(told.values(), repeat=2):
            assert lost_by_choice(one, other) <= claims["attribute"]
        for one in told.values():
            assert max(lost_by_choice(one, without), lost_by_choice(without, one)) <= claims["presence"]
    assert claims["label"] == claims["attribute"]  # of a numeric label; one of classes has no quantile
    assert QUERY_KINDS.odds(planned, records_unit(most)).label == 0


def last_point(points, fall, above=1):
    """Chance of the last point, exactly, before and after a value moves there from the first one.

    Before, all others score 0 and it scores `above` times `fall` less: w times the integral of (1 - z)^n. Then all
    others but one fall by `fall`, and it rises by as much: the integral of (1 - z) (1 - d z)^(n - 1), d for `fall`.
    """
    n, d = points - 1, HALF**fall
    before = d**above / (n + 1)
    after = d ** (above - 1) * (1 / (d * n) - (1 - (1 - d) ** (n + 1)) / (d**2 * n * (n + 1)))
    return before, after


def comes_near(claim, fall, above=1):
    before, after = last_point(2 ** (fall + 8), fall, above)
    return claim - 0.1 < halvings(after / before) <= claim


@pytest.mark.parametrize("weight", [1, 2, 4])
def test_a_long_grid_comes_near_to_what_is_stated_of_a_quantile(weight):
    """One of the a lowest values moves to the end of the grid; all b others lie beside that end."""
    a, b = (1, 1) if weight == 1 else (weight, weight - 1)
    values = [0] * a + [4] * b
    scores = [rank_scores(held, 6, a, b) for held in (values, [*values[1:], 5])]
    assert [choice(one)[-1] for one in scores] == list(last_point(6, a + b, b))  # the closed form, on six points
    claim = stated(PlannedStatistic(Exponential(SCALE, weight)), records_unit())["attribute"]
    assert claim == 2 * (a + b)
    assert comes_near(claim, a + b, b)


def block_scores(values, points):
    half = len(values) // 2
    return tuple(-max(0, sum(v < p for v in values) - half, sum(v > p for v in values) - half) for p in range(points))


@pytest.mark.parametrize("name", ["patient", ""])
def test_blocks_lose_what_is_stated(name):
    """Three blocks on five points: a named unit changes what one of them says, a record without a name two of them."""
    said = list(itertools.product(range(5), repeat=3))
    worst, sums = dict.fromkeys((1, 2), 0), dict.fromkeys((1, 2), 0)
    for one, other in itertools.product(said, repeat=2):
        moved = sum(a != b for a, b in zip(one, other, strict=True))
        for blocks in range(max(moved, 1), 3):
            worst[blocks] = max(worst[blocks], lost_by_choice(block_scores(one, 5), block_scores(other, 5)))
            sums[blocks] = max(sums[blocks], lost_by_number(sum(one), sum(other)))
    most = 1 if name else 2
    unit = records_unit(1, name=name)
    claims = stated(PlannedStatistic(AggregateMean(3, 4, SCALE)), unit)
    assert claims == {"presence": sums[1], "label": sums[most], "attribute": sums[most]}
    claims = stated(PlannedStatistic(AggregateMedian(3, SCALE)), unit)
    assert claims == {"presence": 2, "label": 2 * most, "attribute": 2 * most}
    assert worst[1] <= claims["presence"]
    assert worst[most] <= claims["attribute"]
    # As of quantiles, a long grid comes near: half of the blocks move from its beginning to its end.
    scores = [block_scores([at] * most + [4] * most, 6) for at in (0, 5)]
    assert [choice(one)[-1] for one in scores] == list(last_point(6, most))
    assert comes_near(2, 1)
    assert comes_near(claims["attribute"], most)


CANDIDATES = (lambda one, two: one, lambda one, two: two, lambda one, two: 0)


def class_scores(bag, weights):
    """Of each candidate partition: the sum over its cells of the largest weighted count of a class."""
    found = []
    for cell in CANDIDATES:
        told = Counter((cell(one, two), label) for one, two, label in bag)
        found.append(sum(max(weights[y] * told[at, y] for y in (0, 1)) for at in (0, 1)))
    return tuple(found)


def lost_by_two_choices(one, other):
    """The first and then the second of three, by the chain rule: exact chances of each ordered pair."""
    worst = 0
    for first in range(3):
        rest = [tuple(s for at, s in enumerate(scores) if at != first) for scores in (one, other)]
        ratio = choice(one)[first] / choice(other)[first]
        worst = max(worst, *(halvings(ratio * a / b) for a, b in zip(*map(choice, rest), strict=True)))
    return worst


@pytest.mark.parametrize("weights", [(1, 1), (1, 2)])
def test_features_lose_no_more_than_is_stated(weights):
    kinds = list(itertools.product((0, 1), repeat=3))
    claims = [stated(PlannedStatistic(Features(q, max(weights), SCALE)), records_unit()) for q in (1, 2)]
    worst = dict.fromkeys(THREE, 0)
    for rest in bags(kinds, 2):
        told = {own: class_scores((*rest, own), weights) for own in kinds}
        pairs = [("presence", class_scores(rest, weights), one) for one in told.values()]
        pairs += [("presence", other, one) for _, one, other in pairs]
        pairs += [("attribute", told[a], told[b]) for a in kinds for b in kinds]
        pairs += [("label", told[a], told[b]) for a in kinds for b in kinds if a[:2] == b[:2]]
        for what, one, other in pairs:
            worst[what] = max(worst[what], lost_by_choice(one, other))
            assert lost_by_choice(one, other) <= claims[0][what]
            assert lost_by_two_choices(one, other) <= claims[1][what]
    assert worst["label"] > 0


def test_many_candidates_come_near_to_what_is_stated_of_a_label():
    """A label joins the majority of one partition's cell, and leaves that of all others: one rises, the others fall."""
    held = [(0, 1, 1), (0, 1, 1), (1, 0, 0), (1, 0, 0)]
    scores = [class_scores([*held, (0, 0, label)], (1, 1)) for label in (0, 1)]
    assert [after - before for before, after in zip(*scores, strict=True)][:2] == [1, -1]
    n = 2**10  # of the second sort, from one below the first to one above it: w / (n + ...) before and after
    before = choice_of_one(score=0, others=1, n=n)
    after = choice_of_one(score=1, others=0, n=n)
    claim = stated(PlannedStatistic(Features(1, 1, SCALE)), records_unit())["label"]
    assert claim - 0.1 < halvings(after / before) <= claim


def choice_of_one(score, others, n):
    """Chance of one candidate beside n that score alike, exactly: the integral of (1 - w z)^n in closed form."""
    top = max(score, others)
    own, w = HALF ** (top - score), HALF ** (top - others)
    return own * (1 - (1 - w) ** (n + 1)) / (w * (n + 1))


# --- a quantile with noise as wide as its smooth sensitivity --------------------------------------------------------


def told_smoothly(values, points, scale, beta):
    """Chances of each point of a grid for the median, of docs/explanation/statistics.md, one unit a record."""
    held = sorted(values)
    n = len(held)

    def ranked(rank):
        return 0 if rank < 1 else points - 1 if rank > n else held[rank - 1]

    wide = max(
        math.exp(-beta * k) * (ranked(math.ceil((n + k + 1) / 2)) - ranked(math.ceil((n - k - 1) / 2)))
        for k in range(60)
    )
    tail = (points - 1) * math.exp(-beta * 60)
    centre = ranked(math.ceil(n / 2)) if n else 0
    width = scale * max(wide, tail)
    t = (np.arange(points - 1) + 0.5 - centre) / width
    below = (1 + t / np.sqrt(1 + t**2)) / 2  # the distribution function for a density (1 + z^2)^(-3/2) / 2
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


@pytest.mark.parametrize("version", [1, 2])
def test_smooth_quantiles_lose_no_more_than_is_stated(version):
    """A change is a removal and an addition. Less may be true: by the price of version 1 not even the presence is
    attained, as no output is at once where a shift tells most (one width off) and where a stretch does (far out)."""
    beta = Fraction(1, 2)
    planned = PlannedStatistic(Smooth(SCALE, Rational(1, 2), degrees=2, version=version))
    claims = QUERY_KINDS.odds(planned, records_unit(numeric=True))
    assert (claims.attribute, claims.label) == (2 * claims.presence, 2 * claims.presence)
    assert QUERY_KINDS.odds(planned, records_unit()).label == 0
    worst = {"presence": 0.0, "attribute": 0.0}
    for rest in bags(range(6), 3):
        told = [np.log(told_smoothly((*rest, own), 6, 7, float(beta))) for own in range(6)]
        without = np.log(told_smoothly(rest, 6, 7, float(beta)))
        for one in told:
            worst["presence"] = max(worst["presence"], np.abs(one - without).max())
            worst["attribute"] = max(worst["attribute"], *(np.abs(one - other).max() for other in told))
    for what, found in worst.items():
        assert 0 < found <= float(getattr(claims, what))


# --- models: whole numbers with the noise of counts, so that a loss is how far they move in L1 ------------------------


def claims_of(method, most=1):
    """Stated exponents in parts of the planned epsilon, times the sensitivity: how far numbers may move, in L1."""
    odds = QUERY_KINDS.odds(PlannedModel(method, HALF_EPSILON), records_unit(most))
    assert odds.presence == HALF
    return {what: getattr(odds, what) * 2 * method.sensitivity(most) for what in THREE}


HALF_EPSILON = Rational(1, 2)


def farthest(told, kinds, same):
    """Most that numbers move in L1 where a record comes, where it changes and is the `same` else, where all changes."""
    vectors = {kind: np.array(told(*kind)) for kind in kinds}
    worst = dict.fromkeys(THREE, 0)
    for one, vector in vectors.items():
        worst["presence"] = max(worst["presence"], np.abs(vector).sum())
        for other, changed in vectors.items():
            moved = np.abs(vector - changed).sum()
            worst["attribute"] = max(worst["attribute"], moved)
            if same(one, other):
                worst["label"] = max(worst["label"], moved)
    return worst


def one_hot(size, at):
    return [int(place == at) for place in range(size)]


def told_by_naive_bayes(level, u, label):
    """One attribute of two levels; one by its moments, in 3 steps of which None is missing; each cell by class."""
    moments = (0, 0, 0, 9) if u is None else ((3 - u) ** 2, 2 * u * (3 - u), u**2, 0)
    cells = [9 * each for each in one_hot(2, level)] + list(moments)
    return [cell * each for cell in cells for each in one_hot(2, label)]


def test_naive_bayes_and_forests_lose_what_is_stated():
    kinds = list(itertools.product((0, 1), (None, 0, 1, 2, 3), (0, 1)))
    found = farthest(told_by_naive_bayes, kinds, lambda one, other: one[:2] == other[:2])
    assert found == claims_of(NaiveBayes(binned=1, moments=1, steps=3))
    # Two trees of two leaves: whatever each makes of an attribute.
    worst = dict.fromkeys(THREE, 0)
    for trees in itertools.product(itertools.product((0, 1), repeat=2), repeat=2):
        found = farthest(
            lambda a, y, trees=trees: [x for tree in trees for x in one_hot(4, 2 * tree[a] + y)],
            BINARY,
            lambda one, other: one[0] == other[0],
        )
        worst = {what: max(worst[what], found[what]) for what in THREE}
    assert worst == claims_of(Forest(width=1, trees=2, depth=1, span=1, seed=0))


def vectors_of(points):
    """All whole vectors of a record: no longer than the radius, with the constant."""
    span = range(-points.radius, points.radius + 1)
    inside = [x for x in itertools.product(span, repeat=points.width) if sum(c * c for c in x) <= points.radius**2]
    return [x + ((points.constant,) if points.constant else ()) for x in inside]


def test_k_means_loses_what_is_stated():
    """One iteration of two clusters, whichever of them each vector is nearest to; (4, 3) is as long as it may be."""
    points = Points(width=2, radius=5, constant=2)
    method = KMeans(points=points, clusters=2, iterations=1)
    kinds = list(itertools.product(vectors_of(points), (0, 1)))
    found = farthest(lambda v, at: [c * (at == place) for place in (0, 1) for c in v], kinds, lambda *_: False)
    assert found == claims_of(method)
    three = msgspec.structs.replace(method, iterations=3)  # epsilon in thirds, each of which one iteration loses
    assert claims_of(three) == {what: 3 * moved for what, moved in found.items()}


@pytest.mark.parametrize(("width", "radius", "constant", "steps"), [(1, 3, 0, 2), (1, 2, 1, 4), (4, 2, 0, 1)])
def test_sums_of_products_lose_no_more_than_is_stated(width, radius, constant, steps):
    """The label's is attained. Of all else no less than twice the presence is proved, and less is found: v and -v have
    the same products, and of vectors of several coordinates not all products can change their signs."""
    points = Points(width=width, radius=radius, constant=constant)
    upper = list(itertools.combinations_with_replacement(range(points.coordinates), 2))

    def products(v):
        return [v[i] * v[j] for i, j in upper]

    vectors = vectors_of(points)
    found = farthest(products, [(v,) for v in vectors], lambda *_: False)
    claims = claims_of(PrincipalComponents(points=points))
    assert claims["label"] == 0
    assert found["presence"] <= claims["presence"]
    assert found["attribute"] <= claims["attribute"] == 2 * claims["presence"]
    labels = range(-steps, steps + 1)
    found = farthest(
        lambda v, y: [*products(v), *(y * c for c in v), y * y],
        list(itertools.product(vectors, labels)),
        lambda one, other: one[0] == other[0],
    )
    claims = claims_of(LinearRegression(points=points, label_steps=steps))
    assert found["label"] == claims["label"]
    assert found["presence"] <= claims["presence"]
    assert found["attribute"] <= claims["attribute"] == 2 * claims["presence"]


def minimiser(records, margin, sharpness, regulariser):
    """Of the sum of losses, by bisection of its slope; records are (vector in one dimension, label) and how often."""

    def slope(w):
        total = regulariser * w
        for v, y, often in records:
            total -= often * y * v / (1 + math.exp(max(-700.0, min(700.0, sharpness * (y * w * v - margin)))))
        return total

    low, high = -1e4, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return (low + high) / 2


@pytest.mark.parametrize("logistic", [True, False])
def test_linear_classifiers_lose_no_more_than_is_stated(logistic):
    """In one dimension, beside other records. A label moves the logistic minimiser by as much as presence may; where
    the loss has a margin, by nearly twice that. So may all else, where other records hold the slopes at one."""
    points, steps = Points(width=1, radius=8), 4096
    common = {"points": points, "steps": steps}
    margin, sharpness = (0, 1) if logistic else (1, 4)
    worst = dict.fromkeys(THREE, 0.0)
    for regulariser in (1, 40):
        planned = {**common, "regulariser": Rational(regulariser, 1)}
        method = LogisticRegression(**planned) if logistic else LinearSvm(**planned)
        claims = claims_of(method)
        for rest in ([], [(1.0, 1, 3)], [(1.0, -1, 50)], [(1.0, 1, 10), (-0.5, 1, 10)]):
            found = {
                (v, y): regulariser * steps * minimiser([*rest, (v, y, 1)], margin, sharpness, regulariser)
                for v, y in itertools.product((-1.0, -0.5, 0.0, 0.5, 1.0), (-1, 1))
            }
            alone = regulariser * steps * minimiser(rest, margin, sharpness, regulariser)
            for (v, y), at in found.items():
                worst["presence"] = max(worst["presence"], abs(at - alone))
                worst["label"] = max(worst["label"], abs(at - found[v, -y]))
                worst["attribute"] = max(worst["attribute"], *(abs(at - other) for other in found.values()))
        for what in THREE:
            assert worst[what] + 2 * steps / 256 + 1 <= claims[what] + 1e-6 * steps
    assert claims["label"] == (claims["presence"] if logistic else claims["attribute"])
    assert claims["presence"] < claims["attribute"] < 2 * claims["presence"]
    assert worst["label"] > 0.96 * claims["label"]


def test_a_kernel_machine_states_what_a_linear_one_states():
    method = KernelSvm(width=2, frequencies=3, seed=1, radius=9, steps=64, regulariser=Rational(1, 1))
    claims = claims_of(method)
    assert claims["presence"] < claims["label"] == claims["attribute"] < 2 * claims["presence"]


# --- samples, and what protects nothing ------------------------------------------------------------------------------


def sample_of(*axes):
    made = {"age": NumberAxis("age", 18, 90, 24, 50, 20), "sick": LevelAxis("sick")}
    return PlannedSample(records=3, epsilon=Rational(1, 2), axes=tuple(made[name] for name in axes))


def test_a_sample_loses_the_same_whatever_changes():
    """All exponents on three points within a quarter of epsilon, from either set of records; none exceeds epsilon."""
    base, quarter = np.array([1e-6, 0.3, 0.7]), 0.5 / 4
    laws = [base * np.exp(each) for each in itertools.product((-quarter, 0.0, quarter), repeat=3)]
    laws = [np.log(law / law.sum()) for law in laws]
    worst = max(np.abs(one - other).max() for one in laws for other in laws)
    assert 0.999 * 0.5 < worst <= 0.5
    odds = QUERY_KINDS.odds(sample_of("age", "sick"), records_unit(4))
    assert odds == Odds(Fraction(3, 2), Fraction(3, 2), Fraction(3, 2))
    assert QUERY_KINDS.odds(sample_of("age"), records_unit(4)) == Odds(Fraction(3, 2), Fraction(0), Fraction(3, 2))
    told = QUERY_KINDS["sample"].precision(sample_of("age", "sick"), records_unit())
    assert told.startswith("3 made-up records of age, sick, each drawn from a law that lies within a factor of 1.29")


def test_what_is_not_private_as_claimed_has_no_factor():
    planned = PlannedCounts(release="paper_ratio", partitions=1, scale=SCALE)
    assert SIMULATED_KINDS.odds(planned, records_unit()) is None
    assert SIMULATED_KINDS.plan_odds(Plan.of([PlannedCounts("mass", 1, SCALE), planned]), records_unit()) is None


@pytest.mark.parametrize("kind", sorted(set(QUERIES) - OWN_SAMPLERS))
@given(data=st.data())
@settings(deadline=None, max_examples=50)
def test_no_change_is_more_than_a_removal_and_an_addition(kind, data):
    """And none is more, of each epsilon, than the kind says of all that may be asked; every question has its words."""
    schema = data.draw(schemas())
    planned = data.draw(QUERIES[kind](schema))[0]
    name = data.draw(st.sampled_from(["patient", None]))
    unit = PrivacyUnit.of(schema, name, data.draw(st.integers(1, 5)) if name else 1)
    try:
        cost = QUERY_KINDS.cost(planned, unit.records)
    except RemoteProtocolError:
        return
    odds = QUERY_KINDS.odds(planned, unit)
    assert QUERY_KINDS[kind].precision(planned, unit).isprintable()
    assert odds.presence == cost
    assert max(odds.label, odds.attribute) <= 2 * cost
    own = QUERY_KINDS.most_odds(Limits(kinds={kind: {}}), unit)
    assert odds.or_more(own * cost) == own * cost


@pytest.mark.parametrize(
    ("kinds", "most"),
    [
        ({"counts": {"release_kinds": ["mass"]}}, (1, 0, 2)),
        ({"counts": {"release_kinds": ["mass", "class_counts"]}}, (1, 2, 2)),
        ({"sample": {}}, (1, 1, 1)),
        ({"model": {"methods": ["k_means", "principal_components"]}}, (1, 0, 2)),
        ({"model": {"methods": ["k_means", "logistic_regression"]}}, (1, 1, 2)),
        ({"statistic": {"methods": ["exponential"]}}, (1, 0, 2)),
        ({"statistic": {"methods": ["aggregate_mean"]}, "sample": {}}, (1, 1, 1)),
        ({"holdout": {}}, (1, 2, 2)),
        ({}, (0, 0, 0)),
        ({"counts": {"release_kinds": ["paper_ratio"]}}, None),
    ],
)
def test_a_policy_says_the_worst_that_it_allows(kinds, most):
    found = SIMULATED_KINDS.most_odds(Limits(kinds=kinds), records_unit())
    assert found == (None if most is None else Odds(*map(Fraction, most)))


def test_odds_add_up_and_are_told_rounded_up():
    one = Odds(Fraction(1), Fraction(0), Fraction(2))
    assert one + WORST * HALF == Odds(Fraction(3, 2), Fraction(1), Fraction(3))
    assert one.or_more(WORST) == WORST
    assert NOTHING + one == one
    assert [factor(Fraction(x)) for x in (0, HALF, 20, 21, 100)] == ["1.00", "1.65", "485165195.41", "10^10", "10^44"]
