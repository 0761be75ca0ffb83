"""The blog's experiment with a valid holdout: a real curator with a ledger and real noise is asked, and may refuse.

The learner knows its training accuracy, and states the accuracy that it believes in: that of training less the gap last
answered. The answer "close" leaves its belief as it is and costs nothing more. Counts correct the belief and end an
instance. When its answers are spent, it asks no more.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from curator_node.records.schema_file import SchemaFile
from curator_node.site import temporary_site
from lab.curators import roomy_policy, spent
from lab.holdout.blog import TOLERANCE, questions
from lab.holdout.draws import VARIABLES, DataSet, Part, Sizes
from lab.holdout.regression import Grown, Model, Numbers, Offer, by_likelihood, grow
from lab.holdout.runs import EACH_CANDIDATE, EACH_STEP, Answers
from learner_node.study.study import Study
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.feature_map import FeatureMap, NumericFeature
from protocol.hypotheses import Mlp
from protocol.kinds.holdout import HOLDOUT, HoldoutBody, PlannedHoldout
from protocol.plans import Plan
from protocol.rationals import Rational
from protocol.schema import NumericAttribute
from simulations.carriers.direct import direct_federation

CURATOR, LABEL, CLASSES = "holdout", "y", ("0", "1")
BOUND = 8.0  # declared bounds of each variable; a normal number lies beyond with a chance below 1e-14
MOST_WEIGHT = 32.0
"""Weights are stretched to this size, which changes no prediction, so that the grid of 2^-12 rounds them little."""
RESOLUTION = 1000
CANDIDATE_STEPS = 10
"""Steps at which every candidate is asked about: 1,055 questions; later ones go by the belief of then."""
THRESHOLD_SHARE = COUNT_SHARE = Fraction(1, 4)  # of an instance's epsilon; the comparisons have the rest


def plan_holdout(epsilon: Fraction, turns: int, threshold: int) -> PlannedHoldout:
    """A holdout that costs exactly epsilon where a privacy unit is one record.

    Every whole epsilon is one instance, and a smaller one is one, too.

    There are at most `turns` questions. The threshold is in records; it is raised until the comparisons' noise passes
    it by chance about once in all questions.

    Raises ConfigurationError: epsilon is not positive, or needs noise scales of more than 32 bits.
    """
    if epsilon <= 0:
        raise ConfigurationError(f"a holdout needs an epsilon above 0, not {epsilon}")
    answers = min(max(1, math.floor(epsilon)), turns)
    share = epsilon / answers
    try:
        threshold_scale = Rational.of(RESOLUTION / (THRESHOLD_SHARE * share))
        comparison_scale = Rational.of(2 * RESOLUTION / ((1 - THRESHOLD_SHARE - COUNT_SHARE) * share))
        count_scale = Rational.of(1 / (COUNT_SHARE * share))
    except ValueError:
        raise ConfigurationError(
            f"epsilon {epsilon} needs noise scales of more than 32 bits; choose a rounder one"
        ) from None
    by_chance = float(comparison_scale.fraction) / RESOLUTION * math.log(turns)
    return PlannedHoldout(
        turns=turns,
        answers=answers,
        resolution=RESOLUTION,
        threshold=max(threshold, math.ceil(by_chance)),
        threshold_scale=threshold_scale,
        comparison_scale=comparison_scale,
        count_scale=count_scale,
    )


def hypothesis_of(model: Model) -> Mlp:
    """A logistic model as a network without hidden layers. Its predictions are the same up to rounding."""
    weights = model.weights * (MOST_WEIGHT / max(np.abs(model.weights).max(), 1e-9))
    features = [NumericFeature(attribute=_name(column), offset=0, factor=1, imputation=0) for column in model.variables]
    return Mlp.of(FeatureMap(features=tuple(features)), [(weights[None, 1:], weights[:1])])


def frame_of(part: Part) -> pl.DataFrame:
    """Records with their labels, as a curator reads them."""
    frame = pl.DataFrame({_name(column): part.columns[:, column] for column in range(part.columns.shape[1])})
    return frame.with_columns(pl.Series(LABEL, part.labels.astype(np.int64)).cast(pl.String))


def steward_of(part: Part) -> SchemaFile:
    """The curator's declaration: the number of records, and bounds that they do not reach."""
    names = map(_name, range(part.columns.shape[1]))
    attributes = tuple(NumericAttribute(name=name, lower=-BOUND, upper=BOUND) for name in names)
    return SchemaFile(label=LABEL, classes=CLASSES, attributes=attributes, round_size=len(part))


def _name(column: int) -> str:
    return f"v{column + 1}"


@dataclass
class Asking:
    """A learner's questions to one holdout and its belief after each."""

    study: Study  # opened with the curator
    turns: int
    gap: float = 0.0  # how much worse models are than on the training records, as far as is known, in [-1, 1]
    questions: int = 0  # asked, and how many were answered by counts
    counted: int = 0
    spent_up: bool = False  # whether nothing can be asked any more
    last: int = -1  # step of the last question, from 0; -1 before it

    def believe(self, model: Model, train: float) -> float:
        """The accuracy that the learner believes in, after it asked where it can.

        `train`: its accuracy on the training records, in [0, 1].
        """
        stated = min(1.0, max(0.0, train - self.gap))
        if self.spent_up or self.questions == self.turns:
            return stated
        body = HoldoutBody(hypothesis=hypothesis_of(model), estimate=round(RESOLUTION * stated))
        answer = self.study.ask({CURATOR: body}).answers[CURATOR]
        self.questions += 1
        self.last = len(model.variables) - 1
        self.counted += answer.releases
        self.spent_up = answer.last
        if answer.accuracy is None:
            return stated
        self.gap = train - answer.accuracy
        return float(answer.accuracy)


@contextmanager
def asking(test: Part, planned: PlannedHoldout) -> Iterator[tuple[Asking, list[Fraction]]]:
    """A study with a curator that holds these records; the list has the epsilon that its ledger charged, in the end."""
    learner = SigningKey.generate()
    limits = {HOLDOUT.name: {"turns": planned.turns}}
    site = temporary_site(frame_of(test), steward_of(test), roomy_policy(learner, name=CURATOR, kinds=limits))
    study = Study(direct_federation({CURATOR: site}, learner))
    charged: list[Fraction] = []
    with study.closing():
        study.read_cards()
        study.propose(Plan.of([planned]), "how good are models chosen on other records", [CURATOR])
        yield Asking(study, planned.turns), charged
    charged.append(spent(site, learner))


def ask_each_step(data: DataSet, sizes: Sizes, epsilon: Fraction) -> tuple[Grown, Answers]:
    """Choose variables by the training likelihood alone, and ask the holdout once a step how good the model is."""
    grown = grow(data, data.test, by_likelihood, sizes.steps)
    planned = plan_holdout(epsilon, len(grown.models), math.ceil(TOLERANCE * len(data.test)))
    with asking(data.test, planned) as (holdout, charged):
        believed = [
            holdout.believe(model, right / len(data.train))
            for model, right in zip(grown.models, grown.train, strict=True)
        ]
    return grown, _answers(believed, holdout, charged)


def ask_each_candidate(data: DataSet, sizes: Sizes, epsilon: Fraction) -> tuple[Grown, Answers]:
    """As the blog: ask of every candidate of a step, and choose the one believed to be best.

    Among many candidates some training accuracies are far from the test's by chance alone, without overfitting. The
    threshold is the largest distance to be expected by chance, so that no answers are spent on these.
    """
    turns = questions(VARIABLES, min(sizes.steps, CANDIDATE_STEPS))
    spread = math.sqrt(1 / len(data.train) + 1 / len(data.test)) / 2
    planned = plan_holdout(epsilon, turns, math.ceil(len(data.test) * spread * math.sqrt(2 * math.log(turns))))
    believed: list[float] = []
    with asking(data.test, planned) as (holdout, charged):

        def score(offer: Offer) -> Numbers:
            train = offer.train
            scores = np.array([holdout.believe(offer.model(place), float(train[place])) for place in range(len(train))])
            believed.append(float(scores.max()))
            return scores

        grown = grow(data, data.test, score, sizes.steps)
    return grown, _answers(believed, holdout, charged)


def _answers(believed: list[float], holdout: Asking, charged: list[Fraction]) -> Answers:
    return Answers(
        estimates=tuple(round(100 * share, 4) for share in believed),
        questions=holdout.questions,
        counted=holdout.counted,
        last=holdout.last,
        charged=charged[0],
    )


SOLVERS = {EACH_STEP: ask_each_step, EACH_CANDIDATE: ask_each_candidate}  # procedures that ask a curator
