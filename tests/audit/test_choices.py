"""Enumeration of a choice, and an audit of a kind whose answer is one."""

from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from curator_fakes import altered
from curator_node.answering import Answered, Answerer
from curator_node.mechanisms import OpenDPNoise
from expril.audit.attack.kinds import audit_kind, kinds_to_audit
from expril.audit.kinds.exact import MOST_CHOICES, choice_loss
from protocol.codec import encode
from protocol.errors import ConfigurationError
from protocol.noise import NoisyMax
from protocol.query_kind import QueryKind
from toy.audit import TOY_AUDIT, ask
from toy.kind import Toy, ToyBody, ToyRelease


def choosing(question, dataset, noise):
    """How many of three ages are above the threshold, chosen among 0 to 2 by closeness."""
    ages = dataset.records.numeric[:, 0]
    count = int(np.count_nonzero(ages > question.body.above))
    scores = -np.abs(np.arange(3) - count)
    chosen = noise.choose(scores.astype(np.int64), 1, NoisyMax(question.turn.planned.scale.fraction), question.stamp)
    return Answered(encode(ToyRelease(chosen)))


def one_turn(copies):
    asked = ask(copies)
    return replace(asked, planned=msgspec.structs.replace(asked.planned, turns=1), bodies=(encode(ToyBody(29.5)),))


def kind_of(factor):
    """A claim of `factor` times the true loss, 2."""

    class Choice(Toy):
        state_bytes = 0
        charge = QueryKind.charge

        def check_planned(self, planned):
            pass

        def cost(self, planned, most_records_per_unit):
            return factor * NoisyMax(planned.scale.fraction).loss(most_records_per_unit)

    return Choice()


AUDITS = {"toy": altered(TOY_AUDIT, examples=lambda: {"": (replace(TOY_AUDIT.examples()[""][0], ask=one_turn),)})}


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "violation"), [(1, False), (Fraction(1, 2), True)])
def test_a_kind_that_chooses_is_enumerated_without_being_told(factor, violation):
    answerers = {"toy": Answerer(kind_of(Fraction(factor)), choosing)}
    result = audit_kind("toy", draws=1_000, answerers=answerers, audits=AUDITS, noise=OpenDPNoise)
    assert result.exact is not None
    assert 1 < result.exact <= 2
    assert result.violation is violation


def test_both_ways_agree_with_each_other():
    rng = np.random.default_rng(3)
    for _ in range(20):
        first = rng.integers(-20, 20, 12)
        second = first + rng.integers(-2, 3, 12)
        law = NoisyMax(Fraction(7, 3))
        loss = choice_loss(first, second, law)
        assert loss.defined == pytest.approx(loss.by_table, abs=1e-9)
        assert loss.defined <= float(law.loss(2))


def test_too_many_choices_are_not_enumerated():
    many = np.zeros(MOST_CHOICES + 1, np.int64)
    with pytest.raises(ConfigurationError, match="offer fewer"):
        choice_loss(many, many, NoisyMax(Fraction(1)))


def test_a_kind_for_simulations_alone_is_not_audited_as_one():
    kind = altered(kind_of(Fraction(1)), private=lambda limits: False)
    answerers = {"toy": Answerer(kind, choosing)}
    assert kinds_to_audit(answerers) == ()
    with pytest.raises(ConfigurationError, match="in simulations only"):
        audit_kind("toy", answerers=answerers)
