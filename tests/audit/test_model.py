"""The audit of in-site models: their questions nearly attain the claims, and wrong curators are caught."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from curator_node.answering import Answered
from curator_node.kinds.model import MODEL
from expril.audit.attack.controls.parts import QuickNoise
from expril.audit.attack.kinds import search
from expril.audit.kinds import AUDITED_KINDS
from expril.audit.kinds.answer_path import AnswerPath, NoNoise
from expril.audit.kinds.exact import enumerate_loss
from protocol.codec import encode
from protocol.kinds.model import ModelRelease
from protocol.kinds.models import METHODS
from protocol.noise import DiscreteLaplace

LEAST = {"logistic_regression": 0.35, "linear_svm": 0.9, "kernel_svm": 0.9}
"""Slopes of losses are below 1 at finite weights, and tolerance and rounding are paid for; all others attain 1."""


def enumerated(name, place):
    """Exact loss of one of a method's questions, on the records that a short search finds."""
    path = AnswerPath(MODEL, AUDITED_KINDS.audits["model"].examples()[name][place])
    exact = enumerate_loss(path, search(path, random_pairs=24).pairs[0])
    assert path.claimed == 1
    assert exact.loss is not None, exact.why_not
    assert not exact.passes(path.claimed), exact
    return exact.loss


@pytest.mark.family(2)
@pytest.mark.parametrize("name", METHODS)
def test_a_short_question_tells_nearly_as_much_as_its_claim_and_no_more(name):
    assert enumerated(name, 0) >= LEAST.get(name, 1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_wide_question_tells_no_more_than_its_claim(name):
    assert enumerated(name, 1) > 0.1


def with_sensitivity(changed):
    """A curator whose noise is for another sensitivity."""

    def answer(question, dataset, noise):
        class Other(QuickNoise):
            def discrete_laplace(self, exact, l1, law, stamp):
                return noise.discrete_laplace(exact, l1, DiscreteLaplace(law.scale * changed(question, l1) / l1), stamp)

        return MODEL.answer(question, dataset, Other())

    return answer


def looks_at_exact_sums(question, dataset, noise):
    """k-means whose centres are made of the exact sums: every iteration tells of all records' moves."""

    class Peeking(NoNoise):
        def discrete_laplace(self, exact, l1, law, stamp):
            noisy = noise.discrete_laplace(exact, l1, law, stamp)
            released.append(noisy.reshape(len(question.body.models), 1, -1))
            return exact

    released = []
    MODEL.answer(question, dataset, Peeking())
    numbers = np.concatenate(released, axis=1).ravel()
    return Answered(encode(ModelRelease(numbers.astype("<i8").tobytes())))


@pytest.mark.parametrize(
    ("name", "place", "answer"),
    [
        ("naive_bayes", 0, with_sensitivity(lambda _, l1: l1 / 2)),
        ("forest", 1, with_sensitivity(lambda question, l1: l1 / question.turn.planned.method.trees)),
        pytest.param("k_means", 1, looks_at_exact_sums, marks=pytest.mark.slow),
    ],
)
def test_a_wrong_curator_is_caught_by_enumeration(name, place, answer):
    path = AnswerPath(replace(MODEL, answer=answer), AUDITED_KINDS.audits["model"].examples()[name][place])
    losses = [enumerate_loss(path, pair) for pair in search(path, random_pairs=24, keep=5).pairs]
    assert any(loss.passes(Fraction(1)) for loss in losses), losses
