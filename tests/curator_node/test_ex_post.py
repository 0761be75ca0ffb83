"""The ex-post bound, exactly: what all answers together say for or against a unit is at most what was charged.

For two neighbouring sets of records D and D', every joint transcript t has P(t | D) <= exp(charges in t) P(t | D').
The records enter a transcript through its answers alone (`test_non_interference`), so ln P(t | D) / P(t | D') is the
sum over the numbers k that were released of (|k - x'| - |k - x|) / scale, x and x' being the exact numbers under D and
D'. That is a rational, and so are the charges: the comparison is exact, and one walk attains it with equality.
"""

import random
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curator_fakes import altered, hold, key
from curator_node.kinds import ANSWERERS
from curator_node.ledger.checks import load
from curator_node.ledger.marks import Marked
from curator_node.records.schema_file import SchemaFile
from expril.audit.attack.calibration import MISSED_ALARM, pass_probability, suspicious_centre, suspicious_scale
from expril.audit.generators.values import ATTRIBUTES
from generators import queries_of
from protocol.codec import encode
from protocol.envelopes import digest, open_envelope
from protocol.hypotheses import Constant
from protocol.kinds.counts import CountsBody, PlannedCounts
from protocol.messages import Refusal, Release
from protocol.partitions import FeatureBins
from protocol.rationals import Rational
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema
from served import Served, releases_of, rules

PRIVATE = list(RELEASE_KINDS)
LABELS = ({"classes": ("no", "yes")}, {"classes": ("a", "b", "é")}, {"label_bounds": (-1.0, 9.0)})


def bernoulli_exp(rng, gamma):
    """True with probability exp(-gamma), 0 <= gamma <= 1, exactly (Canonne, Kamath and Steinke 2020, algorithm 1)."""
    k = 1
    while rng.randrange(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def discrete_laplace(rng, scale):
    """One draw with P(k) proportional to exp(-|k| / scale), exactly (the same, algorithm 2)."""
    s, t = scale.denominator, scale.numerator
    while True:
        u = rng.randrange(t)
        if not bernoulli_exp(rng, Fraction(u, t)):
            continue
        v = 0
        while bernoulli_exp(rng, Fraction(1)):
            v += 1
        size, negative = (u + t * v) // s, rng.getrandbits(1)
        if size or not negative:
            return -size if negative else size


class Asked:
    """A noise source that only notes what it is asked, for the records that are not there."""

    seeded = False

    def __init__(self):
        self.calls = []

    def discrete_laplace(self, exact, l1, law, stamp):
        self.calls.append((exact.astype(object), law))
        return exact


class Drawn:
    """Exact draws from the test's own generator; or, `worst`, the draws that betray the difference most.

    Attributes:
        other: what would be asked of the same query under D'.
        loss: ln P(k | D) / P(k | D') of the answer at hand.
    """

    seeded = False

    def __init__(self, seed, *, worst=False):
        self.rng, self.worst = random.Random(seed), worst
        self.other, self.loss = [], Fraction(0)

    def discrete_laplace(self, exact, l1, law, stamp):
        there, same_law = self.other.pop(0)
        assert same_law == law
        x = exact.astype(object)
        if self.worst:
            k = x + np.array([1000 if one >= two else -1000 for one, two in zip(x, there, strict=True)], object)
        else:
            k = x + np.array([discrete_laplace(self.rng, law.scale) for _ in x], object)
        self.loss += sum(abs(k - there) - abs(k - x)) / law.scale
        return k.astype(np.int64)


class Pair:
    """A served curator of records D that also knows what D' would have said.

    Attributes:
        losses: (learner's name, ordinal of the study, sequence, released bytes) -> ln P(. | D) / P(. | D').
    """

    def __init__(self, frame, other, steward, *, cap, learners, seed=0, worst=False, answerers=ANSWERERS):
        self.other, self.noise, self.losses = hold(other, steward, 10**5), Drawn(seed, worst=worst), {}
        policy = rules(cap=cap, learners=learners, studies=50, open_studies=9)
        watched = {name: self.watching(answerer) for name, answerer in answerers.items()}
        self.served = Served(frame, steward, self.noise, policy, answerers=watched)
        self.cap = Fraction(cap)

    def watching(self, answerer):
        def watched(question, records, noise):
            shadow = Asked()
            answerer.answer(question, self.other, shadow)
            self.noise.other, self.noise.loss = shadow.calls, Fraction(0)
            told = answerer.answer(question, records, noise)
            stamp = question.stamp
            self.losses[stamp.learner, stamp.study, stamp.sequence, told.release] = self.noise.loss
            return told

        return replace(answerer, answer=watched)

    def check(self):
        """The bound: of each answer, of each learner's answers given the others', and of all together."""
        # A lost acknowledgement may have left the ledger one entry behind its store.
        self.served.ledger.refresh(self.served.clock())
        studies = self.served.ledger.account.studies
        names = {key(entry.name).public: entry.name for entry in self.served.policy.learners}
        charged = self.served.charges()
        said = dict.fromkeys(charged, Fraction(0))
        released = releases_of(self.served)
        once = {question[:3] for question in released}
        assert len(once) == len(released), "two answers left for one charge, which says more than was charged"
        for (learner, study, sequence, body), receipt in released.items():
            name = names[learner]
            loss = self.losses[name, studies[learner, study].ordinal, sequence, body]
            assert abs(loss) <= receipt, "an answer says more than its receipt"
            said[name] += loss
        for name, loss in said.items():
            assert abs(loss) <= charged[name], "a learner's answers say more than it was charged"
        total = abs(sum(said.values()))
        assert total <= sum(charged.values()), "all answers say more than was charged"
        assert total <= self.cap
        assert sum(charged.values()) == self.served.ledger.account.total_spent <= self.cap
        return said, charged


def frame_of(rows, steward):
    label = pl.String if steward.classes else pl.Float64
    return pl.DataFrame(rows, schema={"x": pl.Float64, "y": label, "unit": pl.String}, orient="row")


@st.composite
def neighbours(draw, steward):
    """(D, D'): D' lacks one unit, or D does."""
    labels = st.sampled_from(steward.classes) if steward.classes else st.sampled_from([-1.0, 0.3, 9.0])
    record = st.tuples(st.sampled_from([-2.0, 0.0, 1 / 3, 3.0, None]), labels, st.sampled_from("pqr"))
    rows = draw(st.lists(record, min_size=1, max_size=8))
    unit = draw(st.sampled_from("pqr"))
    # Another unit remains, whatever goes: a curator does not start without records.
    rows.append((0.0, rows[0][1], "stays"))
    whole = rows + [(draw(st.sampled_from([0.0, 3.0])), rows[0][1], unit)] * 2
    without = [row for row in whole if row[2] != unit]
    pair = frame_of(whole, steward), frame_of(without, steward)
    return pair if draw(st.booleans()) else pair[::-1]


@st.composite
def walks(draw, release):
    fitting = [
        one for one in LABELS if RELEASE_KINDS[release].fits(Schema(attributes=ATTRIBUTES[:1], label="y", **one))
    ]
    steward = SchemaFile(
        label="y",
        attributes=ATTRIBUTES[:1],
        unit="unit",
        most_records_per_unit=draw(st.integers(1, 3)),
        **draw(st.sampled_from(fitting)),
    )
    asked = draw(st.lists(queries_of(steward.schema, release=release), min_size=2, max_size=4))
    return steward, draw(neighbours(steward)), asked, draw(st.integers(0, 2**32))


def walk(served, asked, seed, steps):
    """Two learners who tell each other everything: each step is chosen from all that was sent so far.

    They propose plans of chosen scales, ask, stop early where an answer pleases them (a stopping rule), and meet lost
    acknowledgements, failing writes and restarts on the way. A refused request is repeated until it is answered.
    """
    for step in range(steps):
        heard = digest(b"".join(served.got[-3:]) + repr((seed, step)).encode())
        choose = random.Random(heard)
        what = choose.choice(["propose", "ask", "ask", "ask", "ask", "stop", "again", "fault", "restart"])
        alive = [one for one in served.askers if one.open or one.pending]
        if what == "propose" or not alive:
            name = choose.choice(["ann", "bob"])
            served.asker(name).propose([choose.choice(asked) for _ in range(choose.randint(1, 3))])
        elif what == "ask":
            choose.choice(alive).ask()
        elif what == "stop":
            one = choose.choice(alive)
            last = next(
                (m for m in (open_envelope(r)[1] for r in reversed(served.got)) if isinstance(m, Release)), None
            )
            if one.pending:
                one.resend()
            elif last is not None and sum(last.body) % 2:
                one.finish()
        elif what == "again":
            served.send(choose.choice(served.sent))
        elif what == "fault":
            served.faults.failures[:] = [choose.choice(["before", "after", ""]) for _ in range(2)]
        else:
            served.start()


@pytest.mark.family(4)  # two of them are walks at length, which are slow anyway
@pytest.mark.parametrize("release", PRIVATE)
@pytest.mark.parametrize(("examples", "steps"), [(4, 40), pytest.param(25, 60, marks=pytest.mark.slow)])
def test_no_walk_says_more_than_was_charged(release, examples, steps):
    spent = answers = 0

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(walks(release))
    def walked(case):
        nonlocal spent, answers
        steward, (frame, other), queries, seed = case
        pair = Pair(frame, other, steward, cap=5, learners=(("ann", 3), ("bob", 4)), seed=seed)
        walk(pair.served, queries, seed, steps)
        _, charged = pair.check()
        spent, answers = max(spent, *charged.values()), answers + len(releases_of(pair.served))

    walked()
    assert answers > 3 * examples
    assert spent > 1, "the walks spend: the bound is not compared with nothing"


def worst_case(release, *, c=3, plans=(("ann", 2), ("bob", 1), ("bob", 1)), answerers=ANSWERERS):
    """Ann spends 2/3 and Bob 1/3 of a cap of 1 on one unit of c equal records; every draw betrays it."""
    label = next(
        one for one in LABELS if RELEASE_KINDS[release].fits(Schema(attributes=ATTRIBUTES[:1], label="y", **one))
    )
    steward = SchemaFile(label="y", attributes=ATTRIBUTES[:1], unit="unit", most_records_per_unit=c, **label)
    first = steward.classes[0] if steward.classes else 0.3
    rows = [(0.0, first, "p")] * c
    pair = Pair(
        frame_of([*rows, (1.0, first, "q")], steward),
        frame_of([(1.0, first, "q")], steward),
        steward,
        cap=1,
        learners=(("ann", "2/3"), ("bob", 1)),
        worst=True,
        answerers=answerers,
    )
    steps = 10 if RELEASE_KINDS[release].of_steps else 1
    planned = PlannedCounts(release=release, partitions=2, scale=Rational.of(Fraction(6 * c * steps)), steps=steps)
    hypothesis = Constant(predicted=1) if RELEASE_KINDS[release].wants_hypothesis else None
    body = encode(CountsBody((FeatureBins("x", (0.5,)), FeatureBins("x", ())), hypothesis))
    pair.asked = planned, body
    for name, count in plans:
        study = pair.served.asker(name)
        if not isinstance(study.propose([(planned, body)] * count), Refusal):
            for _ in range(count):
                study.ask()
    return pair


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("release", PRIVATE)
def test_the_bound_is_attained_to_the_last_digit(release, c):
    pair = worst_case(release, c=c)
    said, charged = pair.check()
    assert charged == {"ann": Fraction(2, 3), "bob": Fraction(1, 3)}
    assert {name: abs(loss) for name, loss in said.items()} == charged
    assert abs(sum(said.values())) == pair.cap
    assert pair.served.ledger.account.total_spent == 1, "and not a bit more fits: bob's second plan was refused"


def test_two_learners_who_reserve_all_that_is_left_spend_it_once():
    """Reservations of others do not count, so the cap over all is held when it is charged."""
    pair = worst_case("mass", plans=())
    studies = [pair.served.asker(name) for name in ("ann", "bob")]
    for study, count in zip(studies, (2, 3), strict=True):
        assert not isinstance(study.propose([pair.asked] * count), Refusal)
    for _ in range(8):
        for study in studies:
            study.ask()
    said, charged = pair.check()
    assert abs(sum(said.values())) == sum(charged.values()) == pair.cap


@pytest.mark.parametrize("short", [Fraction(1, 2), Fraction(999_999, 1_000_000)])
@pytest.mark.parametrize("release", PRIVATE)
def test_a_charge_that_is_short_by_any_amount_is_noticed(release, short):
    """Power."""
    kind = ANSWERERS["counts"].kind
    cheaper = altered(kind, cost=lambda planned, most: kind.cost(planned, most) * short)
    with pytest.raises(AssertionError, match="more than"):
        worst_case(release, answerers={"counts": replace(ANSWERERS["counts"], kind=cheaper)}).check()


def test_a_scale_that_is_short_is_noticed():
    """Power: the noise source is given less than what was planned."""
    counts = ANSWERERS["counts"]

    def smaller(question, records, noise):
        turn = replace(question.turn, planned=halved(question.turn.planned))
        return counts.answer(replace(question, turn=turn), records, noise)

    def halved(planned):
        return msgspec.structs.replace(planned, scale=Rational.of(planned.scale.fraction / 2))

    with pytest.raises(AssertionError, match="more than"):
        worst_case("mass", answerers={"counts": replace(counts, answer=smaller)}).check()


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(10, 3)])
def test_the_test_s_own_noise_has_its_law(scale):
    rng = random.Random(1)
    draws = np.array([discrete_laplace(rng, scale) for _ in range(5000)])
    assert not suspicious_scale(draws, scale)
    assert not suspicious_centre(draws)
    assert suspicious_scale(draws, 2 * scale)
    assert pass_probability(5000, 2 * scale, scale) < MISSED_ALARM


class Fair:
    seeded = False

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def discrete_laplace(self, exact, l1, law, stamp):
        return np.array([discrete_laplace(self.rng, law.scale) for _ in exact], np.int64)


def fairly_served(seed):
    """A curator of one record with a cap of 1, over all and for ann and bob each."""
    steward = SchemaFile(label="y", attributes=ATTRIBUTES[:1], classes=("no", "yes"))
    learners = (("ann", 1), ("bob", 1))
    return Served(frame_of([(0.0, "no", "p")], steward), steward, Fair(seed), rules(cap=1, learners=learners))


def mass_of(*edges):
    """A planned query that costs 1/2, and its body."""
    planned = PlannedCounts(release="mass", partitions=1, scale=Rational(2, 1))
    return planned, encode(CountsBody((FeatureBins("x", edges),), None))


def put_back(*, mark):
    """A ledger put back to just after a charge: its entry ANSWERED is lost, and the answer is out.

    Returns (served, study, the request, the answer); with `mark` the curator's mark was put back, too.
    """
    served = fairly_served(1)
    study = served.asker("ann")
    study.propose([mass_of(-1.0, 0.5, 1.0)] * 2)
    study.ask()
    charged = max(entry.index for entry in served.entries() if entry.kind == "charge")
    store = served.faults.inner
    del store._rows[charged + 1 :]
    store._replies = {}
    if mark:
        served.mark.write(Marked(load(store).position(charged)))
    served.start()
    return served, study, served.sent[-1], served.got[-1]


def test_a_halted_ledger_draws_nothing_again():
    """The curator's own mark finds the rollback; what was charged before it must wait for the steward."""
    served, _, request, first = put_back(mark=False)
    assert served.ledger.account.halted
    again = served.send(request)
    assert again == first or isinstance(open_envelope(again)[1], Refusal)
    assert len(releases_of(served)) == 1


def test_what_was_charged_before_a_rollback_is_never_drawn_after_resume():
    """The lost branch's total is that of the charge, so RESUME restores nothing for the second draw."""
    served, _, request, _ = put_back(mark=False)
    served.ledger.resume(served.clock(), note="a test")
    served.send(request)
    released = releases_of(served)
    assert sum(released.values()) <= served.ledger.account.total_spent


def test_a_receipt_proves_that_its_answer_was_lost():
    """Where the mark was put back as well, the learner's receipt of that very answer must stop the curator."""
    served, study, _, _ = put_back(mark=True)
    refusal = served.asker("ann").propose([study.plan[0]], receipt=study.receipt)
    assert refusal.code == RefusalCode.LEDGER_ROLLED_BACK


def test_one_learner_alone_is_told_of_the_others_answers():
    """Why the guarantee for one learner holds the answers to the others fixed.

    Bob goes on only if an answer pleases him. What Ann is refused, at no charge of hers, then depends on that answer.
    """
    remaining = set()
    for seed in range(20):
        served = fairly_served(seed)
        bob = served.asker("bob")
        bob.propose([mass_of()] * 2)
        answer = bob.ask()
        if answer.body[11] < 128:
            bob.ask()
        refusal = served.asker("ann").propose([mass_of()] * 3)
        remaining.add(refusal.remaining)
        assert served.charges()["ann"] == 0
    assert remaining == {"0", "1/2"}
