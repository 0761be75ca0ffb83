"""(epsilon, delta) within one plan: the lemma by enumeration, the library by hand, sums across plans."""

import itertools
import math
from fractions import Fraction

import pytest

from curator_fakes import altered
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.kind_audit import AuditedKinds, KindAudit
from expril.audit.recompute.bounds import Bounds
from expril.audit.recompute.entries import ZERO, Study, price_of
from expril.audit.recompute.losses import Losses, discrete_laplace
from protocol.kinds.counts import COUNTS, PlannedCounts
from protocol.noise import DiscreteLaplace
from protocol.plans import Plan
from protocol.rationals import Rational

DELTA = 1e-6


def study_of(kinds, *queries, bound=1):
    plan = Plan.of(queries)
    costs = tuple(str(cost) for cost in AUDITED_KINDS.costs(plan, bound))
    return Study(b"l" * 32, b"s" * 16, 0, Bounds(kinds).shape(plan), price_of(costs), 0, ("",), b"")


def counts(scale, partitions=1, **options):
    return PlannedCounts(release="mass", partitions=partitions, scale=Rational.of(Fraction(scale)), **options)


def law(scale, reach):
    """Probabilities of -reach .. reach; what lies beyond is put on the ends."""
    p = math.exp(-1 / scale)
    inside = [(1 - p) / (1 + p) * p ** abs(k) for k in range(-reach, reach + 1)]
    inside[0] = inside[-1] = p**reach / (1 + p)
    return inside


def hockey_stick(pairs, epsilon):
    """Least delta of two laws, given as pairs of probabilities, in one direction."""
    return sum(max(0.0, one - math.exp(epsilon) * other) for one, other in pairs)


def moved(scale, shift, reach=60):
    """Pairs of probabilities of one number without and with a move; the ends stand for all beyond them."""
    p = math.exp(-1 / scale)

    def at(k):
        return (1 - p) / (1 + p) * p ** abs(k)

    inside = [(at(k), at(k - shift)) for k in range(-reach, reach + shift + 1)]
    below = (p ** (reach + 1) / (1 + p), p ** (reach + 1 + shift) / (1 + p))
    above = (p ** (reach + shift + 1) / (1 + p), p ** (reach + 1) / (1 + p))
    return [below, *inside, above]


def test_thirty_unit_releases_of_a_thirtieth():
    """The figure of the project's notes, and the exact one: a unit move is randomised response at 1/30."""
    study = study_of(AUDITED_KINDS, *[counts(30)] * 30)
    loss = Losses(AUDITED_KINDS, DELTA).summed([(study, 1)])
    assert study.price.total == 1
    assert round(loss.epsilon, 4) == 0.7203
    assert (loss.delta, loss.plans, loss.pure) == (DELTA, 1, 0)
    p = 1 / (1 + math.exp(-1 / 30))

    def delta(epsilon):
        return sum(
            math.comb(30, k) * p**k * (1 - p) ** (30 - k) * max(0.0, 1 - math.exp(epsilon - (2 * k - 30) / 30))
            for k in range(31)
        )

    assert delta(loss.epsilon) <= DELTA <= delta(loss.epsilon - 1e-5)


@pytest.mark.parametrize(("scale", "shift"), [(2, 1), (2, 3), (Fraction(1, 2), 1), (7, 4)])
def test_the_library_is_the_law(scale, shift):
    """Its delta is never below that of the enumerated law, and close to it."""
    loss = discrete_laplace(DiscreteLaplace(Fraction(scale)), shift)
    pairs = moved(float(scale), shift, reach=200)
    for share in (0.0, 0.2, 0.5, 0.9):
        epsilon = share * float(shift / Fraction(scale))
        exact = hockey_stick(pairs, epsilon)
        found = loss.get_delta_for_epsilon(epsilon)
        assert exact - 1e-12 <= found <= exact + 1e-4


@pytest.mark.parametrize("scale", [0.7, 2.0])
@pytest.mark.parametrize("k", [2, 3])
def test_no_move_of_k_tells_more_than_one_number_moved_by_k(scale, k):
    """The lemma: all moves of three numbers by at most k in L1, in both directions, at many epsilons."""
    one = moved(scale, k)
    moves = [move for move in itertools.product(range(-k, k + 1), repeat=3) if 0 < sum(map(abs, move)) <= k]
    distinct = {tuple(sorted(abs(part) for part in move)) for move in moves}  # the law is symmetric, and the order free
    assert len(distinct) > k
    for move in distinct:
        pairs = [(1.0, 1.0)]
        for part in (part for part in move if part):
            pairs = [(a * c, b * d) for a, b in pairs for c, d in moved(scale, part, reach=12)]
        for step in range(12):
            epsilon = step / 8 * k / scale / 1.4
            for turned in (False, True):
                way = [(b, a) for a, b in pairs] if turned else pairs
                best = [(b, a) for a, b in one] if turned else one
                assert hockey_stick(way, epsilon) <= hockey_stick(best, epsilon) + 1e-12


def test_a_single_number_moved_by_k_attains_it():
    """Power of the tests above: the move of one number alone has the same delta, and a smaller move a smaller one."""
    same, less = moved(2.0, 3), moved(2.0, 2)
    assert hockey_stick(same, 0.5) == pytest.approx(hockey_stick(moved(2.0, 3, reach=90), 0.5))
    assert hockey_stick(less, 0.5) < hockey_stick(same, 0.5) - 0.01


def test_the_bound_c_and_steps_are_shifts():
    """c = 3 records of a unit at thrice the scale: the pure cost is the same; between the ends there is more noise."""
    one = Losses(AUDITED_KINDS, DELTA).summed([(study_of(AUDITED_KINDS, *[counts(30)] * 5), 1)])
    three = Losses(AUDITED_KINDS, DELTA).summed([(study_of(AUDITED_KINDS, *[counts(90)] * 5, bound=3), 3)])
    assert 0.16 < three.epsilon <= one.epsilon <= 1 / 6
    steps = PlannedCounts(release="label_total", partitions=2, scale=Rational.of(Fraction(64)), steps=4)
    (law,) = AUDITED_KINDS.audits["counts"].laws(steps, 2)
    assert (law.shift, law.releases, law.noise.scale) == (8, 2, 64)


def test_across_plans_epsilons_and_deltas_are_added():
    losses = Losses(AUDITED_KINDS, DELTA)
    study = study_of(AUDITED_KINDS, *[counts(30)] * 30)
    single, both = losses.summed([(study, 1)]), losses.summed([(study, 1)] * 2, Fraction(1, 4))
    assert both.epsilon == pytest.approx(2 * single.epsilon + 0.25)
    assert (both.delta, both.plans) == (2 * DELTA, 2)
    assert losses.summed([]).epsilon == pytest.approx(0)


def test_a_kind_that_tells_no_law_counts_with_its_pure_epsilon():
    """Alone the plan is pure; beside another one it is composed as randomised response."""

    class Mute(PlannedCounts, frozen=True, tag="mute"):
        """As counts, and nobody says how."""

    class MuteAudit(KindAudit):
        kind = altered(COUNTS, name="mute", planned=Mute)

    kinds = AuditedKinds(AUDITED_KINDS.audits["counts"], MuteAudit())
    mute = Mute(release="mass", partitions=1, scale=Rational.of(Fraction(30)))
    alone = study_of(kinds, counts(30))
    plan = Plan.of([mute] * 30)
    quiet = Study(b"l" * 32, b"t" * 16, 0, Bounds(kinds).shape(plan), price_of(("1/30",) * 30), 0, ("",), b"")
    loss = Losses(kinds, DELTA).summed([(quiet, 1)])
    assert (loss.epsilon, loss.delta, loss.pure) == (pytest.approx(1), 0, 1)
    mixed = Plan.of([mute] * 29 + [counts(30)])
    study = Study(b"l" * 32, b"u" * 16, 0, Bounds(kinds).shape(mixed), price_of(("1/30",) * 30), 0, ("",), b"")
    loss = Losses(kinds, DELTA).summed([(study, 1)])
    assert 0.72027 < loss.epsilon < 0.7206, "a unit move of this noise is randomised response, rounded up"
    assert Losses(kinds, DELTA).summed([(alone, 1)], ZERO).epsilon <= 1 / 30 + 1e-9


def test_what_is_not_private_as_claimed_has_no_law():
    ratio = PlannedCounts(release="paper_ratio", partitions=1, scale=Rational.of(Fraction(30)))
    assert AUDITED_KINDS.audits["counts"].laws(ratio, 1) is None
