"""The joint law of a holdout's answers, by enumeration: an instance loses at most what it costs, and nearly that."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from above_threshold import transcripts, worst_loss
from curator_fakes import dataset
from holdouts import NO, ROWS, YES, Scripted, asked, planned
from protocol.errors import RemoteProtocolError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.kinds.holdout import HoldoutBody


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
QUESTIONS = [HoldoutBody(YES, p) for p in (0, 3, 10)] + [HoldoutBody(NO, p) for p in (0, 7, 10)]


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
    walks = [list(pair) for pair in itertools.product(QUESTIONS, repeat=2)]
    walks += [[QUESTIONS[i] for i in rng.integers(len(QUESTIONS), size=size)] for size in (3, 4) for _ in range(12)]
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
