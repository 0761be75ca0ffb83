"""The duties of a strategy: a plan of the exact price, lawful questions, a model that predicts, and an estimate.

It is asked with invented records and counts. Nobody's records are needed, and nothing is spent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import polars as pl

from expril.audit.contract.duties import BrokenDutyError, Duty, Verdict, judge
from learner_node.kinds import READERS
from learner_node.strategies.base import Conversation, Problem, Strategy, class_probabilities
from protocol.codec import encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds import QUERY_KINDS
from protocol.query_kind import KindTerms
from protocol.record_frames import encode_frame
from protocol.schema import CategoricalAttribute, NumericAttribute, Schema

EPSILONS = (Fraction(1), Fraction(1, 3), Fraction(7, 10), Fraction(355, 113))
RECORDS, SITES = 60, 2
SCHEMA = Schema(
    attributes=(
        NumericAttribute("x", -2.0, 2.0),
        NumericAttribute("y", -2.0, 2.0),
        CategoricalAttribute("s", ("a", "b")),
    ),
    label="sick",
    classes=("no", "yes"),
)


@dataclass(frozen=True)
class StrategySubject:
    """A strategy as an author would have it used: options are set."""

    make: Callable[[], Strategy]
    schema: Schema = SCHEMA  # of the records it is tried on
    partitions: tuple[type[Any], ...] = ()  # of its own package, which it asks
    home: ClassVar[str] = "docs/extending/strategy.md"
    problem: Problem = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(1)
        columns = {
            attribute.name: rng.uniform(attribute.lower, attribute.upper, RECORDS)
            if isinstance(attribute, NumericAttribute)
            else rng.choice(attribute.levels, RECORDS)
            for attribute in self.schema.attributes
        }
        problem = Problem(
            source=encode_frame(pl.DataFrame(columns), self.schema),
            epsilon=Fraction(1),
            sites=SITES,
            target_size=500,
            most_records_per_unit=1,
            seed=0,
        )
        object.__setattr__(self, "problem", problem)

    def verdicts(self) -> Iterator[Verdict]:
        """What became of each duty, in order."""
        for duty in STRATEGY_DUTIES:
            yield judge(duty, self, {})


def price(subject: StrategySubject) -> str:
    """Check that a plan costs exactly what a learner gives, for units of one record and of several."""
    for epsilon in EPSILONS:
        for bound in (1, 6):
            problem = replace(subject.problem, epsilon=epsilon, most_records_per_unit=bound)
            cost = QUERY_KINDS.plan_cost(subject.make().plan(problem), bound)
            if cost != epsilon:
                raise BrokenDutyError(
                    f"its plan costs {cost} where {epsilon} is given, for units of {bound}; `problem.counts_plan` and "
                    f"`problem.scale` price a plan exactly ({subject.home})"
                )
    return f"{2 * len(EPSILONS)} plans cost exactly what is given"


def _conversation(subject: StrategySubject, scale: int) -> tuple[Conversation, list[bytes]]:
    """A whole study on invented counts, `scale` private records like each source record; and the bodies it asked."""
    problem, strategy, bodies = subject.problem, subject.make(), []
    tally = np.full((RECORDS, 2), scale, np.int64)
    tally[: RECORDS // 2, 0] *= 3
    rng, answers = np.random.default_rng(2), list[Any]()
    conversation = Conversation(strategy, problem)
    for turn in QUERY_KINDS.turns(strategy.plan(problem)):
        kind, body = QUERY_KINDS[turn.planned.kind].with_partitions(subject.partitions), conversation.body
        bodies.append(encode(body))
        try:
            kind.read_body(bodies[-1], turn, KindTerms(subject.schema, kind.limits()))
        except RemoteProtocolError as error:
            raise BrokenDutyError(f"question {turn.query + 1} would be refused: {error}") from error
        answers.append(READERS[kind.name].rehearse(body, turn, problem.source, tally, SITES, rng))
        try:
            conversation.hear(answers)
        except ConfigurationError as error:
            raise BrokenDutyError(f"after answer {len(answers)}: {error} ({subject.home})") from error
    return conversation, bodies


def questions(subject: StrategySubject) -> str:
    """Check that each planned question is asked as planned, and that the same seed asks the same."""
    _, bodies = _conversation(subject, 5)
    _, again = _conversation(subject, 5)
    if bodies != again:
        raise BrokenDutyError("with the same seed it asks other questions; take all that is random from `problem.seed`")
    return f"{len(bodies)} questions are lawful, and the same each time"


def estimate(subject: StrategySubject) -> str:
    """Check that it returns a model and an estimate once every question is answered, also on counts that are noise."""
    for scale in (5, 0):
        conversation, bodies = _conversation(subject, scale)
        try:
            returned = conversation.estimate
        except RuntimeError as error:
            raise BrokenDutyError(
                f"after {len(bodies)} answers to {len(bodies)} planned questions it asks further, so that nothing is "
                f"estimated; return (model, estimate) there ({subject.home})"
            ) from error
        weights = np.asarray(getattr(returned, "weights", None), np.float64)
        if weights.shape != (RECORDS,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise BrokenDutyError(
                f"an estimate is a SourceEstimate, ClassesEstimate or NumberEstimate with weights (n,) of at least 0 "
                f"for the source records, not {returned!r:.200}"
            )
    return "an estimate of every source record, also where answers are nothing but noise"


def model(subject: StrategySubject) -> str:
    """Check that the last model predicts every record, whatever it holds."""
    for scale in (5, 0):
        conversation, _ = _conversation(subject, scale)
        learnt = conversation.models[-1]
        if learnt is None:
            raise BrokenDutyError("it returns no model: (model, estimate) is what `run` returns in the end")
        missing = encode_frame(
            pl.DataFrame({name.name: [None, None] for name in subject.schema.attributes}), subject.schema
        )
        for records in (subject.problem.source, missing):
            chances = class_probabilities(learnt, records)
            wanting = chances.shape[0] != len(records) or not np.isfinite(chances).all()
            if wanting or chances.min(initial=0.0) < 0 or chances.max(initial=1.0) > 1:
                raise BrokenDutyError(
                    "a model offers `probability(records)`: (n,) within [0, 1], also of records whose values are all "
                    f"missing ({subject.home})"
                )
    return "its model predicts every record"


STRATEGY_DUTIES = (
    Duty("price", "a plan costs exactly what a learner gives", price),
    Duty("questions", "each is lawful and as planned, and the seed decides all that is random", questions),
    Duty("estimate", "it ends with an estimate of the source records", estimate),
    Duty("model", "its model predicts every record", model),
)
"""What a strategy owes, in the order in which it is asked for."""
