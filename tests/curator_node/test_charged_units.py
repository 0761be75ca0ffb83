"""The theorem of docs/explanation/privacy-guarantee.md, by enumeration: losses by charged unit, also where it forks."""

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from msgspec import structs

from above_threshold import at_least, below, continued, pmf, transcripts, worst_loss
from curator_fakes import Clock, ZeroNoise, dataset, message_of, open_curator, opened, policy
from curator_node.answering import CuratorQuestion
from curator_node.kinds.holdout import COMPARISON, COUNTS, THRESHOLD
from curator_node.mechanisms import check_loss
from curator_node.opendp_noise import checked_mechanism, noisy_max_mechanism
from holdouts import HOLDOUT, NO, ROWS, STAMP, YES, Scripted, asked, body, planned
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease
from protocol.limits import Limits
from protocol.noise import NoisyMax
from protocol.noise_shares import LaplaceShares
from protocol.plans import Plan
from protocol.query_kind import Past, Turn
from protocol.refusals import RefusalCode
from protocol.secure_sum import masks, participant, shamir
from protocol.secure_sum.group import list_digest, round_digest, seed_check
from secure_rounds import Curators


@pytest.mark.parametrize(("level", "closes", "told"), [(12, 1, 0.12), (5, 2, 0.05), (0, 1, 0.08)])
def test_stepwise_an_answer_that_is_charged_nothing_tells_something_given_those_before(level, closes, told):
    """So a bound of each step by its own charge is false; the instance, which is charged whole, keeps its bound."""
    scales, claim = (Fraction(3), Fraction(6)), 1 / 3 + 2 / 6
    fewer, more = ([transcripts([at] * n, 0, *scales)[-1] for at in (level, level + 1)] for n in (closes, closes + 1))
    whole = abs(math.log(more[0] / more[1]))
    assert abs(math.log(more[0] / fewer[0]) - math.log(more[1] / fewer[1])) > told
    assert whole <= claim


QUESTIONS = 3
STEPS = 6


def asks(told, seed):
    """A learner's next question, of all that was told: (charged unit, question); None where it stops."""
    over = {unit for unit, _, answer in told if answer and unit < 2}
    left = [unit for unit in range(2) if unit not in over]
    left += [2] if not any(unit == 2 for unit, *_ in told) else []
    if not left or len(told) == STEPS:
        return None
    choose = random.Random(repr((seed, told)))
    return choose.choice(left), choose.randrange(QUESTIONS)


def interleaved(levels, scales, seed):
    """Every transcript -> its chance, step by step, over both thresholds at once.

    Units 0 and 1 are instances with thresholds of their own; unit 2 tells whether one noisy count is positive.
    """
    threshold_scale, comparison_scale, count_scale = scales
    x = np.arange(-300, 301)
    chances = {}

    def go(told, joint):
        question = asks(told, seed)
        if question is None:
            chances[told] = float(joint.sum())
            return
        unit, number = question
        level = levels[unit][number]
        if unit == 2:
            above = np.full((1, 1), at_least(count_scale, 1 - level))
            ways = {True: above, False: 1 - above}
        else:
            place = x - level
            ways = {True: at_least(comparison_scale, place), False: below(comparison_scale, place)}
            ways = {answer: way.reshape((-1, 1) if unit == 0 else (1, -1)) for answer, way in ways.items()}
        for answer, way in ways.items():
            go((*told, (unit, number, answer)), joint * way)

    one = pmf(threshold_scale, x)
    go((), one[:, None] * one[None, :])
    return chances


def alone(levels, told, unit, scales):
    """The chance of a unit's own answers to its own questions, in this order, and of nothing else."""
    own = [(levels[unit][number], answer) for which, number, answer in told if which == unit]
    if unit == 2:
        ((level, above),) = own or [(None, None)]
        return 1.0 if level is None else float(at_least(scales[2], 1 - level) if above else at_least(scales[2], level))
    ways = transcripts([level for level, _ in own] or [0], 0, *scales[:2])
    if not own:
        return 1.0
    return float(ways[len(own) - 1] if own[-1][1] else ways[-1])


@pytest.mark.parametrize("seed", range(8))
def test_losses_regroup_by_charged_unit_however_questions_interleave(seed):
    """The next question, and of whom, depends on all answers so far; the joint law is still a product over units."""
    rng, scales = np.random.default_rng(seed), (Fraction(3), Fraction(6), Fraction(4))
    one = [rng.integers(0, 6, QUESTIONS).tolist() for _ in range(3)]
    two = [[max(0, level + int(rng.integers(-1, 2))) for level in levels] for levels in one]
    first, second = (interleaved(levels, scales, seed) for levels in (one, two))
    assert first.keys() == second.keys()
    assert sum(first.values()) == pytest.approx(1, abs=1e-9)
    instance, count = 1 / 3 + 2 / 6, 1 / 4
    for told, chance in first.items():
        assert chance == pytest.approx(math.prod(alone(one, told, unit, scales) for unit in range(3)), rel=1e-9)
        charged = sum(count if unit == 2 else instance for unit in {unit for unit, *_ in told})
        assert abs(math.log(chance) - math.log(second[told])) <= charged + 1e-9


def worst_of_branches(one, two, scales, count_loss):
    """Largest |ln| of a ratio over all that k branches tell; those that end in counts lose theirs, too."""
    before, branches = zip(one, two, strict=True)
    chances = [continued(b, k, 0, *scales) for b, k in zip(before, branches, strict=True)]
    for every in chances:
        assert every.sum() <= 1 + 1e-9
    losses = np.abs(np.log(chances[0]) - np.log(chances[1]))
    for place in np.ndindex(losses.shape):
        ended = sum(at < size - 1 for at, size in zip(place, losses.shape, strict=True))
        losses[place] += ended * count_loss
    return float(losses.max())


@pytest.mark.family(4)
@pytest.mark.parametrize("branches", [1, 2, 3, 4])
def test_continuations_of_one_instance_lose_at_most_its_charge_each(branches):
    """The shift of the shared threshold is common: r c / its scale once, and the rest of the charge once a branch."""
    rng, scales, moved, count_loss = np.random.default_rng(branches), (Fraction(6), Fraction(9)), 2, 1 / 5
    once, each = float(moved / scales[0]), float(2 * moved / scales[1]) + count_loss
    worst = 0.0
    for _ in range(60):
        sizes = [int(rng.integers(0, 4)), *rng.integers(1, 3, branches).tolist()]
        one = [rng.integers(0, 12, size).tolist() for size in sizes]
        two = [[max(0, level + int(rng.choice([-moved, moved]))) for level in levels] for levels in one]
        told = worst_of_branches((one[0], one[1:]), (two[0], two[1:]), scales, count_loss)
        assert told <= once + branches * each + 1e-9 <= branches * (once + each) + 2e-9
        worst = max(worst, told)
    assert worst > (once + branches * each) / 2


def test_the_bound_of_continuations_is_nearly_attained():
    """So the whole charge for every branch is more than the loss, and the charge alone is less."""
    scales, count_loss = (Fraction(800), Fraction(800, 3)), 1 / 4
    once, each = 100 / 800, 2 * 100 * 3 / 800 + count_loss
    for branches in (2, 3):
        one, two = ([9900] * 3, [[99]] * branches), ([10_000] * 3, [[0]] * branches)
        loss = worst_of_branches(one, two, scales, count_loss)
        assert 0.9 * (once + branches * each) < loss <= once + branches * each + 1e-9
        assert once + each < loss < branches * (once + each)


@pytest.mark.parametrize(("branches", "loss"), [(1, 0.48), (3, 1.35), (12, 4.5)])
def test_holdout_rollback_an_instance_that_is_ended_anew_in_every_branch_loses_more_than_one_charge(branches, loss):
    """The attack's own numbers: `close`, put back, and every branch ends the instance with counts of its own.

    One charge of 1 pays for what loses 1.35 in three branches; what RESUME enters, one more charge for each lost one,
    pays for all of it.
    """
    scales, count_loss = (Fraction(3), Fraction(6)), 1 / 3
    x = np.arange(-400, 445)
    chances = [
        float((pmf(scales[0], x - 22) * below(scales[1], x - 20) * at_least(scales[1], x - level) ** branches).sum())
        for level in (20, 21)
    ]
    exact = math.log(chances[1] / chances[0]) + branches * count_loss
    assert exact == pytest.approx(loss, abs=0.01)
    assert exact <= 1 / 3 + branches * 2 / 3 <= branches


def test_a_branch_keeps_the_threshold_and_draws_all_else_anew():
    """What the proof takes from the answerer: of a stored state, two branches draw comparisons and counts, no more."""
    plan, data, noise = planned(threshold=20), dataset(ROWS), Scripted()
    first = Turn(plan, 0, 0)
    begun = HOLDOUT.answer(CuratorQuestion(first, HoldoutBody(YES, 3), data.schema, (), b"", STAMP, None), data, noise)
    assert [name for name, *_ in noise.asked] == ["threshold", "comparison"]
    past = (Past(first, encode(HoldoutRelease(1, None))),)
    for estimate, drawn in ((3, ["comparison"]), (10, ["comparison", "counts"])):
        branch = Scripted()
        question = CuratorQuestion(
            Turn(plan, 0, 1), HoldoutBody(YES, estimate), data.schema, past, begun.state, STAMP, None
        )
        HOLDOUT.answer(question, data, branch)
        assert [name for name, *_ in branch.asked] == drawn
    assert [each.close for each in asked(plan, [HoldoutBody(YES, 3), HoldoutBody(YES, 10)], data, Scripted())] == [
        True,
        False,
    ]
    assert plan.instance_cost(1) == 1


class Failing(ZeroNoise):
    """Fails where it is told to, after the charge."""

    failing = False

    def discrete_laplace(self, exact, l1, law, stamp):
        if self.failing:
            raise ArithmeticError("scripted")
        return super().discrete_laplace(exact, l1, law, stamp)


class UnansweredTurn:
    """A curator whose noise failed after the charge of an instance's second turn; its study has expired since."""

    def __init__(self):
        self.clock, noise = Clock(), Failing()
        rules = policy(cap=100, limits=Limits(kinds={"holdout": {}}))
        self.curator = open_curator(rules=rules, clock=self.clock, noise=noise, records=dataset(ROWS))
        learner = opened(self.curator, plan=Plan.of([planned()]), clock=self.clock)
        assert decode(learner.query(body(YES, 3), kind="holdout").body, HoldoutRelease).close
        noise.failing = True
        assert learner.query(body(YES, 10), kind="holdout").code == RefusalCode.UNAVAILABLE
        self.study, self.request, noise.failing = learner.session.study, learner.session.pending, False
        self.clock.advance(rules.reservation_seconds + 1)

    def reply(self):
        return message_of(self.curator.handle(self.request))


def test_a_turn_without_an_answer_keeps_its_instance_running_though_its_study_has_ended():
    """Charged 0 and not answered, it is answered after the study has expired, by counts: so a fork there counts it."""
    turn = UnansweredTurn()
    opened(turn.curator, "bob", plan=Plan.of([planned()]), clock=turn.clock)
    studies = turn.curator._ledger.account.open_by_learner.values()
    assert turn.study not in {name.study for names in studies for name in names}
    assert not decode(turn.reply().body, HoldoutRelease).close


def test_a_turn_whose_study_was_evicted_is_gone_and_not_to_be_asked_again():
    """What came before it is kept no more; it said "unavailable: repeat the same request" for ever."""
    turn = UnansweredTurn()
    turn.curator._ledger.expire(turn.clock())
    turn.curator._ledger.make_room(0, 0, turn.clock())
    assert turn.reply().code == RefusalCode.ANSWER_GONE


def test_two_survivor_lists_leave_a_vector_its_own_share_which_loses_far_more_than_the_charge():
    """h = 4 at a charge of 1/4: 1.56, from the share's law by its series alone, and from the product's."""
    scale, shares = 4, 4
    q, r = math.exp(-1 / scale), 1 / shares
    halves = [(1 - q) ** r]
    for j in range(1, 600):
        halves.append(halves[-1] * q * (r + j - 1) / j)
    chances = np.array([math.fsum(a * b for a, b in zip(halves, halves[k:], strict=False)) for k in range(60)])
    law = np.concatenate([chances[:0:-1], chances])
    worst = np.abs(np.diff(np.log(law))).max()
    assert worst == pytest.approx(1.56, abs=0.005)
    assert LaplaceShares(Fraction(scale), Fraction(1, shares)).shift_loss(1) == pytest.approx(worst, rel=1e-6)
    assert worst > 6 * (1 / scale)


def round_with(curators, silent=None):
    """One round, in which one may fall silent after its vector: cards, vectors, and by holder the shares it tells."""
    machine = curators.aggregator()
    everybody = range(curators.group.sites)
    cards = machine.take_cards({index: curators.states[index].card for index in everybody})
    dealt = machine.take_shares({index: curators.share(index, cards) for index in everybody})
    masked = {index: curators.mask(index, *dealt[index]) for index in everybody}
    survivors = machine.take_masked({index: words for index, words in masked.items() if index != silent})
    agreements = machine.take_agreements({index: curators.agree(index, survivors) for index in survivors})
    told = {index: curators.reveal(index, survivors, agreements) for index in survivors if index in dict(agreements)}
    return cards, masked, {holder: dict(shares) for holder, shares in told.items()}


def test_a_secure_sum_that_was_put_back_to_its_first_turn_gives_both_masks_of_its_own_vector():
    """Nobody colludes. Its one card is in two rounds: in one its seed is opened, in the other, where it falls silent
    after its vector, its mask key. What is left is its counts under its own share, whatever the others' noise was.
    """
    first, again = (Curators(4, 1, 1, true=True, salt=salt) for salt in range(2))
    for curators in (first, again):
        for index in range(4):
            curators.begin(index)
    again.states[0] = first.states[0]  # put back: it goes on from the card that it gave before
    *_, told = round_with(first)
    seed = shamir.recover(
        {holder + 1: shares[0] for holder, shares in told.items()},
        3,
        lambda it: seed_check(it) == again.states[0].card.check,
    )[0]
    cards, masked, told = round_with(again, silent=0)
    shares = {holder + 1: shares[0] for holder, shares in told.items()}
    key = shamir.recover(shares, 3, lambda it: masks.public_of(it) == again.states[0].card.masking)[0]
    round_, dealers = (
        round_digest(again.group, again.question, cards),
        list_digest(participant.DEALERS, tuple(range(4))),
    )
    others = [(index, card.masking) for index, card in cards if index]
    bare = masked[0] - participant.self_mask(seed, round_, dealers, again.length)
    bare -= participant.pair_masks(key, 0, others, round_, dealers, again.length)
    assert bare.view(np.int64).tolist() == again.values[0].tolist()


class Totals:
    """Entries from the first to a last one: what was charged, and which charged units run, after each."""

    def __init__(self, totals=(0,), running=(frozenset(),), prices=()):
        self.totals, self.running, self.prices = list(totals), list(running), dict(prices)

    def copy(self, length=None):
        return Totals(self.totals[:length], self.running[:length], self.prices)

    def charge(self, unit, price):
        self.prices[unit] = price
        self.totals.append(self.totals[-1] + price)
        self.running.append(self.running[-1] | {unit})

    def turn(self, unit, *, ends):
        self.totals.append(self.totals[-1])
        self.running.append(self.running[-1] - {unit} if ends else self.running[-1])

    def entered(self, common):
        """For the branch that this path's entries after `common` are."""
        return self.totals[-1] - self.totals[common] + sum(self.prices[unit] for unit in self.running[common])


def walked(rng, path, turns, names):
    for _ in range(rng.randrange(1, 8)):
        alive = sorted(path.running[-1])
        if not alive or rng.random() < 0.4:
            unit = next(names)
            path.charge(unit, Fraction(rng.randrange(1, 5), rng.randrange(1, 4)))
        else:
            unit = rng.choice(alive)
            path.turn(unit, ends=rng.random() < 0.4)
        turns.append((unit, len(path.totals) - 1))


def check_tree(seed):
    """One random tree of branches, of which the last is the ledger that is left."""
    rng, names = random.Random(seed), itertools.count()
    paths, histories = [Totals()], [[]]
    walked(rng, paths[0], histories[0], names)
    for _ in range(rng.randrange(1, 6)):  # put back: any path goes on from any of its entries
        source = rng.randrange(len(paths))
        fork = rng.randrange(len(paths[source].totals))
        branch, told = paths[source].copy(fork + 1), [turn for turn in histories[source] if turn[1] <= fork]
        walked(rng, branch, told, names)
        paths.append(branch)
        histories.append(told)
    current, lost = histories[-1], histories[:-1]

    def common(one, two):
        """Turns that two paths share are the same object; there are as many entries before the fork as such turns."""
        return next(
            (at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a is not b), min(len(one), len(two))
        )

    loss = Fraction(0)
    prices = {unit: price for path in paths for unit, price in path.prices.items()}
    for unit, price in prices.items():
        own = {tuple(id(turn) for turn in told if turn[0] == unit) for told in histories}
        leaves = [a for a in own if a and not any(a != b and b[: len(a)] == a for b in own)]
        loss += price * len(leaves)
    entered = sum(path.entered(common(told, current)) for path, told in zip(paths[:-1], lost, strict=True))
    assert loss <= paths[-1].totals[-1] + entered
    # An entry before the last common one enters as much or more.
    for path, told in zip(paths[:-1], lost, strict=True):
        amounts = [path.entered(at) for at in range(common(told, current) + 1)]
        assert amounts == sorted(amounts, reverse=True)


def test_what_is_entered_for_lost_branches_pays_for_every_continuation_of_every_unit():
    """A unit goes on in as many branches as have a turn of it that no other has, and costs its charge in each."""
    for seed in range(300):
        check_tree(seed)


# --- The joint law of a holdout's answers, by enumeration: an instance loses at most what it costs, and nearly that.


def levels_of(plan, questions, data):
    """What is compared, question by question, where no instance ends."""
    noise = Scripted(threshold=2**40)
    asked(plan, questions, data, noise)
    return [exact[0] for name, exact, *_ in noise.asked if name == "comparison"]


SCALES = (
    (Fraction(20), Fraction(20), Fraction(4)),
    (Fraction(60), Fraction(15), Fraction(4)),
    (Fraction(10), Fraction(100), Fraction(1)),
)
HOLDOUT_QUESTIONS = [HoldoutBody(YES, p) for p in (0, 3, 10)] + [HoldoutBody(NO, p) for p in (0, 7, 10)]


@pytest.mark.family(4)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("threshold", [0, 3, 12])
def test_no_instance_loses_more_than_it_costs(scales, threshold):
    """All pairs of questions, and many of three and four, on sets of records that differ by one of either class."""
    plan = planned(turns=4, answers=1, threshold=threshold, scales=scales)
    claim = float(plan.instance_cost(1))
    small = ROWS[:3] + ROWS[20:26]
    sets = [dataset(small), dataset(small[1:]), dataset(small[:-1])]
    rng = np.random.default_rng(1)
    walks = [list(pair) for pair in itertools.product(HOLDOUT_QUESTIONS, repeat=2)]
    walks += [
        [HOLDOUT_QUESTIONS[i] for i in rng.integers(len(HOLDOUT_QUESTIONS), size=size)]
        for size in (3, 4)
        for _ in range(12)
    ]
    worst = 0.0
    for walk in walks:
        levels = [levels_of(plan, walk, data) for data in sets]
        for other in levels[1:]:
            loss, one, two = worst_loss(levels[0], other, 10 * threshold, *scales[:2], float(1 / scales[2]))
            assert one.sum() == pytest.approx(1, abs=1e-9)
            assert two.sum() == pytest.approx(1, abs=1e-9)
            worst = max(worst, loss)
    assert worst <= claim * (1 + 1e-9)
    assert worst > claim / 3


def test_four_questions_lose_nearly_what_an_instance_costs():
    """Three that a record moves up by 100, and one that it moves down by 99: the claim is no guess.

    They lie far above the threshold: "below", three times, is rare, and so it tells of the threshold.
    """
    scales = Fraction(800), Fraction(800, 3)
    plan = planned(turns=4, answers=1, resolution=100, threshold=0, scales=(*scales, 4))
    old = Mlp.of(FeatureMap((NumericFeature("age", 35.0, 0.125, 0.0),)), [(np.array([[1.0]]), np.array([0.0]))])
    young = [("p", 20.0, 0.0, "f", "yes")] * 99
    small, large = (dataset(rows) for rows in (young, [*young, ("p", 50.0, 0.0, "f", "yes")]))
    questions = [HoldoutBody(YES, 0)] * 3 + [HoldoutBody(old, 1)]
    first, second = (levels_of(plan, questions, data) for data in (small, large))
    assert (first, second) == ([9900] * 3 + [99], [10_000] * 3 + [0])
    claim = float(plan.instance_cost(1))
    loss, _, _ = worst_loss(first, second, 0, *scales, 1 / 4)
    assert 0.99 * claim < loss <= claim * (1 + 1e-9)


def test_four_questions_about_one_half_lose_nearly_half_as_much():
    """As above, where the plan lets one half alone be stated: a record moves the sums by 50 of 100."""
    scales = Fraction(400), Fraction(400, 3)
    plan = planned(turns=4, answers=1, resolution=100, threshold=0, scales=(*scales, 4))
    plan = structs.replace(plan, least_estimate=50, most_estimate=50)
    old = Mlp.of(FeatureMap((NumericFeature("age", 35.0, 0.125, 0.0),)), [(np.array([[1.0]]), np.array([0.0]))])
    rows = [("p", 50.0, 0.0, "f", "yes")] * 51 + [("p", 20.0, 0.0, "f", "yes")] * 49
    small, large = (dataset(each) for each in (rows, [*rows, rows[-1]]))
    questions = [HoldoutBody(YES, 50)] * 3 + [HoldoutBody(old, 50)]
    first, second = (levels_of(plan, questions, data) for data in (small, large))
    assert (first, second) == ([5000] * 3 + [100], [5050] * 3 + [50])
    claim = float(plan.instance_cost(1))
    assert claim == 50 / 400 + 2 * 50 * 3 / 400 + 1 / 4
    loss, _, _ = worst_loss(first, second, 0, *scales, 1 / 4)
    assert 0.99 * claim < loss <= claim * (1 + 1e-9)


def test_the_enumeration_has_the_answerer_s_law():
    """Power of the tests above: 2,000 real instances fall into transcripts as enumerated (each bound fails at 1e-9)."""
    plan = planned(turns=3, answers=1, threshold=2, scales=(20, 30, 2))
    questions = [HoldoutBody(YES, 3), HoldoutBody(YES, 2), HoldoutBody(NO, 7)]
    data = dataset(ROWS)
    chances = transcripts(levels_of(plan, questions, data), 20, Fraction(20), Fraction(30))
    rng, draws = np.random.default_rng(5), 2000

    class Drawn:
        seeded = False

        def discrete_laplace(self, exact, l1, law, stamp):
            return exact + law.simulate(rng, exact.shape)

    found = np.zeros(4)
    for _ in range(draws):
        try:
            told = asked(plan, questions, data, Drawn())
        except RemoteProtocolError:  # an instance that ended before the last question
            continue
        found[2 if not told[-1].close else 3] += 1
    expected = chances * draws
    for place in (2, 3):
        assert abs(found[place] - expected[place]) < 6.5 * np.sqrt(expected[place])


# --- What a contract leaves to its kinds: several draws that are charged once, and choices that move one way.


class Checked:
    """Adds nothing, once table and map were checked; remembers each loss that they were held against."""

    seeded = False

    def __init__(self):
        self.losses = {}

    def discrete_laplace(self, exact, l1, law, stamp):
        check_loss(l1, law)
        checked_mechanism(l1, law)
        self.losses.setdefault((stamp.sequence, stamp.part), []).append(law.loss(l1))
        return exact


def test_an_instance_of_a_holdout_pays_for_its_threshold_a_comparison_and_its_counts_once():
    """Three questions, of which the last is answered by counts: all three compare, and one comparison is paid."""
    plan, noise = planned(threshold=20), Checked()
    told = asked(plan, [HoldoutBody(YES, 3), HoldoutBody(YES, 3), HoldoutBody(YES, 10)], dataset(ROWS), noise)
    assert [each.close for each in told] == [True, True, False]
    losses = [[loss] for part in (THRESHOLD, COMPARISON, COUNTS) for loss in noise.losses[1, part]]
    assert losses == [[Fraction(1, 4)]] + 3 * [[Fraction(1, 2)]] + [[Fraction(1, 4)]]
    assert plan.instance_cost(1) == 1


def test_features_the_librarys_map_says_twice_the_charge_unless_it_is_told_that_scores_move_one_way():
    """Where OpenDP was not told, a choice of `features` was checked against another loss than the one charged."""
    told, untold = NoisyMax(Fraction(18), one_way=True), NoisyMax(Fraction(18))
    assert (noisy_max_mechanism(told).map(9), noisy_max_mechanism(untold).map(9)) == (0.5, 1.0)
    assert (told.loss(9), untold.loss(9)) == (Fraction(1, 2), 1)
    check_loss(9, told)
    check_loss(9, untold)
