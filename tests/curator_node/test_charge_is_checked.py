"""The noise library's privacy map is held against what is charged, of every kind and method that draws from it."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from curator_fakes import dataset
from curator_node.kinds import ANSWERERS
from curator_node.kinds.holdout import COMPARISON, COUNTS, THRESHOLD
from curator_node.mechanisms import checked_choice, checked_mechanism, noisy_max_mechanism
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.answer_path import AnswerPath
from expril.audit.kinds.invented import plain_record
from holdouts import ROWS, YES, asked, planned
from protocol.kinds import QUERY_KINDS
from protocol.kinds.holdout import HoldoutBody
from protocol.noise import NoisyMax

OWN_SAMPLERS = {("secure_counts", ""), ("sample", ""), ("statistic", "smooth")}
"""What draws by a sampler of its own has no map to check."""
ELSEWHERE = {"holdout"}
"""What is charged once for several draws."""
NAMES = [
    (kind, name) for kind, audit in AUDITED_KINDS.audits.items() for name in audit.examples() if kind not in ELSEWHERE
]


class Checked:
    """Adds nothing, once the map was checked; remembers each loss that the map was held against."""

    seeded = False

    def __init__(self):
        self.losses, self.own = {}, False

    def discrete_laplace(self, exact, l1, law, stamp):
        checked_mechanism(l1, law)
        self.losses.setdefault((stamp.sequence, stamp.part), []).append(law.loss(l1))
        return exact

    def choose(self, scores, moved, law, stamp):
        checked_choice(moved, law)
        self.losses.setdefault((stamp.sequence, stamp.part), []).append(law.loss(moved))
        return int(scores.argmax())

    def laplace_shares(self, size, law, parts, stamp):
        self.own = True
        return np.zeros(size, np.int64)

    def randomness(self, stamp):
        self.own = True
        return np.random.default_rng(0).bytes


def drawn(kind, example):
    """What was checked of one question, and what it was charged."""
    path, noise = AnswerPath(ANSWERERS[kind], example), Checked()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = path.hold(((plain_record(example.schema),),), example)
    return noise, path.charged_answer(held, noise)[1]


@pytest.mark.parametrize(("kind", "name"), NAMES, ids=lambda value: value or "all")
def test_the_checked_losses_add_up_to_the_charge(kind, name):
    for example in AUDITED_KINDS.audits[kind].examples()[name]:
        noise, charged = drawn(kind, example)
        assert noise.own == ((kind, name) in OWN_SAMPLERS)
        if noise.own:
            assert not noise.losses
        else:
            assert sum((sum(each) for each in noise.losses.values()), Fraction(0)) == charged > 0


def test_an_instance_of_a_holdout_pays_for_its_threshold_a_comparison_and_its_counts_once():
    """Three questions, of which the last is answered by counts: all three compare, and one comparison is paid."""
    plan, noise = planned(threshold=20), Checked()
    told = asked(plan, [HoldoutBody(YES, 3), HoldoutBody(YES, 3), HoldoutBody(YES, 10)], dataset(ROWS), noise)
    assert [each.close for each in told] == [True, True, False]
    losses = [[loss] for part in (THRESHOLD, COMPARISON, COUNTS) for loss in noise.losses[1, part]]
    assert losses == [[Fraction(1, 4)]] + 3 * [[Fraction(1, 2)]] + [[Fraction(1, 4)]]
    assert plan.instance_cost(1) == 1


def test_every_kind_is_here():
    assert {kind for kind, _ in NAMES} == QUERY_KINDS.keys() - ELSEWHERE


def test_features_the_librarys_map_says_twice_the_charge_unless_it_is_told_that_scores_move_one_way():
    """Where OpenDP was not told, a choice of `features` was checked against another loss than the one charged."""
    told, untold = NoisyMax(Fraction(18), one_way=True), NoisyMax(Fraction(18))
    assert (noisy_max_mechanism(told).map(9), noisy_max_mechanism(untold).map(9)) == (0.5, 1.0)
    assert (told.loss(9), untold.loss(9)) == (Fraction(1, 2), 1)
