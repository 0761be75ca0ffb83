"""What tests of `holdout` at a curator share: records, plans, scripted noise, and questions to the answerer alone."""

from fractions import Fraction

from curator_node.answering import CuratorQuestion
from curator_node.kinds import ANSWERERS
from curator_node.kinds.holdout import COMPARISON, COUNTS, THRESHOLD
from curator_node.mechanisms import Stamp
from protocol.codec import decode, encode
from protocol.hypotheses import Constant
from protocol.kinds.holdout import HoldoutBody, HoldoutRelease, PlannedHoldout
from protocol.query_kind import Past, Turn
from protocol.rationals import Rational

HOLDOUT = ANSWERERS["holdout"]
STAMP = Stamp("ann", 0, 1)
YES, NO = Constant(1), Constant(0)
ROWS = tuple((f"p{n}", 20.0 + n, 0.0, "f", "yes" if n < 12 else "no") for n in range(40))
"""12 of 40 are "yes"."""


def planned(*, turns=6, answers=2, resolution=10, threshold=3, scales=(40, 40, 4)):
    """Each instance costs 1/4 + 1/2 + 1/4 for units of one record."""
    one, two, three = (Rational.of(Fraction(scale)) for scale in scales)
    return PlannedHoldout(
        turns=turns,
        answers=answers,
        resolution=resolution,
        threshold=threshold,
        threshold_scale=one,
        comparison_scale=two,
        count_scale=three,
    )


def body(hypothesis, estimate):
    return encode(HoldoutBody(hypothesis, estimate))


class Scripted:
    """Adds what it is told to each part of an answer, 0 unless told; remembers what it was asked."""

    seeded = False

    def __init__(self, **added):
        self.added, self.asked = added, []

    def discrete_laplace(self, exact, l1, law, stamp):
        name = {THRESHOLD: "threshold", COMPARISON: "comparison", COUNTS: "counts"}[stamp.part]
        self.asked.append((name, exact.tolist(), l1, law.scale))
        return exact + self.added.get(name, 0)


def asked(plan, questions, data, noise):
    """Releases of an instance's questions, by the answerer alone."""
    past, state, told = [], b"", []
    for number, question in enumerate(questions):
        turn = Turn(plan, 0, number)
        one = CuratorQuestion(turn, question, data.schema, tuple(past), state, STAMP, None)
        HOLDOUT.check(one)
        answered = HOLDOUT.answer(one, data, noise)
        past.append(Past(turn, answered.release))
        state = state if answered.state is None else answered.state
        told.append(decode(answered.release, HoldoutRelease))
    return told
