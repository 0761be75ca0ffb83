"""The answerers of a study: curators whose policy allows every question, or exact counts with seeded noise."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.policy import LearnerPolicy, Policy
from curator_node.site import Site
from learner_node.kinds import READERS
from learner_node.kinds.counts import CountsAnswer
from learner_node.strategies.base import AnyModel, Conversation, Learnt, Problem, Strategy
from protocol.envelopes import SigningKey
from protocol.kinds import QUERY_KINDS
from protocol.kinds.counts import COUNTS
from protocol.kinds.secure_counts import SECURE_COUNTS
from protocol.limits import Limits
from protocol.noise_shares import LaplaceShares
from protocol.rationals import MOST
from protocol.records import Records
from protocol.release_kinds import RELEASE_KINDS
from simulations.paper_ratio import PrintedCountsLimits

NOISE = "seeded, not private"


def learn_from_counts(
    strategy: Strategy,
    problem: Problem,
    records: Records,
    rows: NDArray[np.int64],
    labels: NDArray[Any],
    rng: np.random.Generator,
) -> Learnt:
    """The model that a strategy of one question about label counts learns. Each site adds its share of the noise.

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
    """The last model of a strategy about two classes with any plan. Each question is answered in rehearsal.

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


def roomy_policy(
    learner: SigningKey,
    *,
    name: str,
    simulation: bool = False,
    printed: bool = False,
    members: Sequence[bytes] = (),
    kinds: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Policy:
    """A policy that lets one learner ask any question.

    A curator of a `simulation` signs as not private; `printed` lets it also answer by the paper's mechanism, whose
    claim is wrong. `members` are identity keys of the curators that it sums with; `kinds`, further kinds -> limits.
    """
    allowed: dict[str, Any] = {
        COUNTS.name: {"release_kinds": list(PrintedCountsLimits.installed if printed else RELEASE_KINDS)}
    }
    if members:
        allowed[SECURE_COUNTS.name] = {"members": [member.hex() for member in members]}
    return Policy(
        name=name,
        cap=MOST,
        learners=(LearnerPolicy(name="learner", key=learner.public.hex(), cap=MOST),),
        limits=Limits(kinds={**allowed, **{name: dict(limits) for name, limits in kinds.items()}}),
        simulation=simulation,
    )


def spent(site: Site, learner: SigningKey) -> Fraction:
    """Exact epsilon that a learner spent at a site, by the ledger that it exports."""
    return site.export().account.spent.get(learner.public, Fraction(0))
