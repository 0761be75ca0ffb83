"""A whole study from source records to models: the protocol as one function that reads top to bottom."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

import polars as pl

from learner_node.readers.counts import CountsAnswer, add
from learner_node.strategies import AnyEstimate, AnyModel, Problem, Strategy, make_strategy
from learner_node.strategies.base import Trainer, assumed_size, train_alone
from learner_node.study import Federation, NoCuratorError, Study, objection, plan_objection
from protocol.errors import ConfigurationError
from protocol.messages import Card
from protocol.plans import Plan
from protocol.queries import plan_cost
from protocol.queries.counts import CountsBody
from protocol.queries.limits import Limits
from protocol.rationals import parse_rational
from protocol.records import Records, encode_frame
from protocol.schema import Schema

Pooling = Literal["sum", "site"]
MOST_PURPOSE = 1000
"""Longest purpose that fits a proposal, in characters."""
POOLED = ""
"""Key of the pooled model in `Learned.models`."""


@dataclass
class Learned:
    """What a study gave.

    Attributes:
        schema: of the cards.
        source: the encoded source records.
        epsilon_claimed: exact cost of the plan at the costliest curator.
        models: newest model after each round (None while there is none), under "" for pooled answers or under
            each curator's name for one model per site.
        estimates: weights and labels of the source records, under the same keys.
        study: the study, with its transcripts and outcomes.
    """

    schema: Schema
    source: Records
    epsilon_claimed: Fraction
    models: dict[str, list[AnyModel | None]]
    estimates: dict[str, AnyEstimate]
    study: Study

    @property
    def not_private(self) -> list[str]:
        """Curators whose answers were signed as not private (seeded noise, `paper_ratio`); simulations only."""
        return [name for name, session in self.study.sessions.items() if session.not_private]

    def model(self, curator: str = POOLED) -> AnyModel:
        """The final pooled model, or a curator's own; NoCuratorError where there is none."""
        done = [model for model in self.models.get(curator, []) if model is not None]
        if not done:
            raise NoCuratorError(f"no model was learnt{f' for {curator}' if curator else ''}")
        return done[-1]


@dataclass
class _Group:
    """Curators whose answers are solved together."""

    names: frozenset[str]
    strategy: Strategy
    problem: Problem
    models: list[AnyModel | None] = field(default_factory=list)

    def answers(self, study: Study, survivors: Sequence[str]) -> list[CountsAnswer]:
        """Per round, the sum over the curators that answered all rounds; empty where none is left."""
        together = [name for name in survivors if name in self.names]
        return [add([done.answers[name] for name in together]) for done in study.rounds] if together else []


def learn(
    federation: Federation,
    source: pl.DataFrame | Callable[[Schema], Records],
    *,
    strategy: str,
    options: Mapping[str, Any] | None = None,
    epsilon: Fraction,
    pooling: Pooling = "sum",
    purpose: str = "",
    seed: int = 0,
    train: Trainer = train_alone,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,  # noqa: ARG005
) -> Learned:
    """Run one study.

    Args:
        federation: whom to ask, and how.
        source: unlabelled records, or a function that encodes them for a schema.
        strategy: key of `STRATEGIES`.
        options: of the strategy.
        epsilon: to spend at the costliest curator, exact.
        pooling: "sum": one model from summed answers; "site": one model per curator.
        purpose: for the stewards to read.
        seed: of the learner's own random choices.
        train: trains the strategy's networks.
        progress: called with (what, rounds done, rounds in all).

    Raises:
        NoCuratorError: no curator accepted or none answered every round; the study is closed first.
        ConfigurationError: cards that do not fit together, records that do not fit the cards, or a plan or first
            question that a curator's card rules out; nothing has been charged.
    """
    epsilon = parse_rational(epsilon)
    if pooling not in get_args(Pooling):
        raise ConfigurationError(f"pooling must be one of {', '.join(get_args(Pooling))}, not {pooling!r}")
    if len(purpose) > MOST_PURPOSE:
        raise ConfigurationError(f"the purpose has {len(purpose)} characters; at most {MOST_PURPOSE} fit")
    make_strategy(strategy, options or {})
    study = Study(federation)
    cards = study.read_cards()
    schema = _common_schema(cards)
    records = source(schema) if callable(source) else encode_frame(source, schema)
    if len(records) < 2:
        raise ConfigurationError("at least two source records are needed")
    most = max(card.most_records_per_unit for card in cards.values())
    names = list(cards)
    groups = [
        _Group(
            frozenset(members),
            make_strategy(strategy, options or {}),
            Problem(
                source=records,
                epsilon=epsilon,
                sites=len(members),
                target_size=assumed_size([cards[name].round_size for name in members], len(records)),
                most_records_per_unit=most,
                seed=seed,
                limits=_tightest([cards[name].limits for name in members]),
                train=train,
            ),
        )
        for members in ([names] if pooling == "sum" else [[name] for name in names])
    ]
    plan = groups[0].strategy.plan(groups[0].problem)
    bodies = _next_bodies(study, groups, names)
    _check_cards(plan, bodies, cards)
    learned = Learned(schema, records, plan_cost(plan, most), {}, {}, study)
    try:
        study.propose(plan, purpose, names)
        for number in range(len(plan.queries)):
            progress("rounds", number, len(plan.queries))
            survivors = study.survivors
            if number:
                bodies = _next_bodies(study, groups, survivors)
            study.ask({name: bodies[name] for name in survivors})
            _absorb(study, groups)
        progress("rounds", len(plan.queries), len(plan.queries))
    finally:
        study.close()
    survivors = study.survivors
    for group in groups:
        if not group.names.isdisjoint(survivors):
            key = POOLED if pooling == "sum" else next(iter(group.names))
            learned.models[key] = group.models
            learned.estimates[key] = group.strategy.source_estimate()
    return learned


def _next_bodies(study: Study, groups: list[_Group], asked: list[str]) -> dict[str, CountsBody]:
    bodies: dict[str, CountsBody] = {}
    for group in groups:
        alive = [name for name in asked if name in group.names]
        if alive:
            body = group.strategy.next_body(group.problem, group.answers(study, alive))
            bodies.update(dict.fromkeys(alive, body))
    return bodies


def _absorb(study: Study, groups: list[_Group]) -> None:
    survivors = study.survivors
    for group in groups:
        answers = group.answers(study, survivors)
        group.models.append(group.strategy.absorb(group.problem, answers) if answers else None)


def _check_cards(plan: Plan, bodies: Mapping[str, CountsBody], cards: Mapping[str, Card]) -> None:
    """Raise ConfigurationError where a card rules the plan or the first question out."""
    for name, card in cards.items():
        reason = plan_objection(plan, card) or objection(bodies[name], plan.queries[0], card)
        if reason:
            raise ConfigurationError(
                f"{name} would refuse this study: {reason}; nothing was asked yet: change the strategy's options or "
                "epsilon, or leave that curator out"
            )


def _tightest(limits: Sequence[Limits]) -> Limits:
    first, *others = (item.release_kinds for item in limits)
    return Limits(
        release_kinds=tuple(kind for kind in first if all(kind in kinds for kinds in others)),
        cells=min(item.cells for item in limits),
        partitions=min(item.partitions for item in limits),
        parameters=min(item.parameters for item in limits),
        multiply_adds=min(item.multiply_adds for item in limits),
        message_bytes=min(item.message_bytes for item in limits),
    )


def _common_schema(cards: Mapping[str, Card]) -> Schema:
    first, *others = cards.items()
    for name, card in others:
        differing = first[1].schema.differences(card.schema)
        if differing:
            raise ConfigurationError(
                f"the cards of {first[0]} and {name} describe {', '.join(map(repr, differing[:5]))} differently; "
                "ask curators with one schema at a time"
            )
    return first[1].schema
