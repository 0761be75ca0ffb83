"""What strategies learn from exact counts and seeded noise, in the form that curators answer; none is involved."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds import READERS
from learner_node.kinds.counts import CountsAnswer
from learner_node.strategies.base import AnyModel, Conversation, Learnt, Problem, Strategy
from protocol.kinds import QUERY_KINDS
from protocol.noise_shares import LaplaceShares
from protocol.records import Records

NOISE = "seeded, not private"


def learn_from_counts(
    strategy: Strategy,
    problem: Problem,
    records: Records,
    rows: NDArray[np.int64],
    labels: NDArray[Any],
    rng: np.random.Generator,
) -> Learnt:
    """What a strategy of one question about label counts learns; the noise is a share of each site.

    The private records are `records[rows]`; rows and their classes, `labels`, have shape (n,).
    """
    asking = strategy.run(problem)
    body, _ = next(asking)
    (partition,) = body.partitions
    counts = np.zeros((partition.cell_count(problem.source.schema), len(problem.source.schema.classes)))
    np.add.at(counts, (partition.cells(records)[rows], labels.astype(int)), 1)
    counts += LaplaceShares(problem.scale(1).fraction, Fraction(problem.noises)).simulate(rng, counts.shape)
    scale, release = problem.scale(1).fraction, "error_correct" if counts.shape[1] == 2 else "class_counts"
    answer = CountsAnswer(body, counts, (len(counts),), release, scale, sites=problem.sites, noises=problem.noises)
    try:
        asking.send([answer])
    except StopIteration as end:
        learnt: Learnt = end.value
        return learnt
    raise ValueError("the strategy asks more than one question")


def last_model(
    strategy: Strategy, problem: Problem, records: Records, labels: NDArray[np.bool_], rng: np.random.Generator
) -> AnyModel:
    """The last model of a strategy of any plan about two classes, whose every question is rehearsed.

    `records` are the n private ones; `labels` (n,) says whether each is of class 1.
    """
    conversation = Conversation(strategy, problem)
    tally = np.column_stack([~labels, labels]).astype(np.int64)
    answers: list[Any] = []
    for turn in QUERY_KINDS.turns(strategy.plan(problem)):
        reader = READERS[turn.planned.kind]
        answers.append(reader.rehearse(conversation.body, turn, records, tally, problem.sites, rng))
        conversation.hear(answers)
    model = conversation.models[-1]
    if model is None:
        raise ValueError("the strategy learns no model")
    return model
