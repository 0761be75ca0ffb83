"""A whole study from source records to models: the protocol as one function that reads top to bottom."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import polars as pl

from learner_node.models.synthetic import MixedModel
from learner_node.plug_ins import with_named
from learner_node.scores.prevalence import Prevalence
from learner_node.strategies import make_strategy
from learner_node.strategies.base import (
    AnyEstimate,
    AnyModel,
    ClassesEstimate,
    Problem,
    SourceEstimate,
    Trainer,
    train_alone,
)
from learner_node.study.budget import Budget
from learner_node.study.cards import common_schema, implausible_cards, population
from learner_node.study.federation import Federation
from learner_node.study.plan import Setting, agree, settle, why_not_chosen
from learner_node.study.pooling import POOLED, SUMMED, Pooling
from learner_node.study.study import NoCuratorError, Study
from protocol.errors import ConfigurationError
from protocol.messages import Card
from protocol.record_frames import encode_frame
from protocol.records import Records
from protocol.schema import Schema


@dataclass
class Learned:
    """The results of a study.

    `models` lists the newest model after each round (None before the first). Its key is "" for pooled answers, or the
    curator's name with one model per site.
    """

    schema: Schema  # of the cards
    source: Records
    epsilon_claimed: Fraction  # exact cost of the plan at the costliest curator
    models: dict[str, list[AnyModel | None]]
    estimates: dict[str, AnyEstimate]  # weights and labels of the source records, under the same keys
    study: Study  # with its transcripts and outcomes
    population: str = ""  # which records count, in words, by the cards; "" where each record is a unit
    advice: str = ""  # what to change where many attributes cost more than they had to; "" where nothing is

    @property
    def not_private(self) -> list[str]:
        """Curators whose answers are signed as not private (seeded noise, `paper_ratio`); in simulations only."""
        return [name for name, session in self.study.sessions.items() if session.not_private]

    def model(self, curator: str = POOLED) -> AnyModel:
        """The final pooled model, or one curator's own. Raises NoCuratorError if there is none."""
        models = [model for model in self.models.get(curator, []) if model is not None]
        if not models:
            raise NoCuratorError(f"no model was learnt{f' for {curator}' if curator else ''}")
        return models[-1]

    def shares(self, curator: str = POOLED) -> dict[str, Prevalence]:
        """Estimated share of each class among the private records that count, by class name, from the answers' totals.

        With two classes it holds the second alone. It is empty if the strategy reads no totals or the label is a
        number.
        """
        estimate = self.estimates.get(curator)
        if isinstance(estimate, SourceEstimate):
            return {} if estimate.counted is None else {self.schema.classes[1]: estimate.counted}
        counted = estimate.counted if isinstance(estimate, ClassesEstimate) else ()
        return dict(zip(self.schema.classes, counted, strict=False))

    @property
    def final_model(self) -> AnyModel:
        """The final model; with one model per site, their mixture weighted by each site's number of records."""
        models = {name: self.model(name) for name in self.estimates}
        if len(models) == 1:
            return next(iter(models.values()))
        masses = tuple(float(self.estimates[name].weights.sum()) for name in models)
        return MixedModel(tuple(models.values()), masses)


def learn(
    federation: Federation,
    source: pl.DataFrame | Callable[[Schema], Records],
    budget: Budget,
    *,
    strategy: str,
    options: Mapping[str, Any] | None = None,
    pooling: Pooling = SUMMED,
    seed: int = 0,
    train: Trainer = train_alone,
    progress: Callable[[str, int, int], None] = lambda step, number, total: None,  # noqa: ARG005
) -> Learned:
    """Run one study.

    A curator is left out before anything is asked if its card cannot be true or rules the study out (`cards`, `plan`),
    and afterwards if its answer cannot be true. `Study.left_out` says who and why. A plan of secure sums that not all
    accept is drafted again for those that do (`plan.agree`).

    Args:
        federation: whom to ask, and how.
        source: unlabelled records, or a function that encodes them for a schema.
        budget: to spend, and what the stewards read.
        strategy: key of `STRATEGIES`.
        options: the strategy's options.
        pooling: how answers become models.
        seed: seed of the learner's own random choices.
        train: trains the strategy's networks.
        progress: called with (step, rounds done, rounds in all).

    Raises:
        NoCuratorError: no curator accepted or none answered every round; the study is closed first.
        ConfigurationError: the records do not fit the cards, the cards are tied between two schemas, or no study can be
            made with any card. Nothing has been charged.
    """
    make_strategy(strategy, options or {})
    study = Study(with_named(federation, strategy=strategy))
    records, cards, left_out = admit(study, source)
    problem = Problem(
        source=records, epsilon=budget.epsilon, sites=0, target_size=0, most_records_per_unit=0, seed=seed, train=train
    )
    setting = Setting(strategy, options or {}, pooling, problem, study.kinds, study.readers, federation.decided)
    draft = settle(setting, cards, left_out)
    for name, reason in draft.left_out.items():
        study.leave_out(name, reason)
    with study.closing():
        redraft = partial(settle, setting, left_out={}) if pooling.secure else None
        draft = agree(study, draft, budget.words, redraft, cards)
        rounds = study.questions
        for number in range(rounds):
            progress("rounds", number, rounds)
            bodies = {name: group.conversation.body for group in draft.groups for name in group.names}
            study.ask({name: bodies[name] for name in study.survivors})
            for group in draft.groups:
                group.hear(study)
        progress("rounds", rounds, rounds)
    learnt = {group.key: group.conversation for group in draft.groups if not group.names.isdisjoint(study.survivors)}
    return Learned(
        schema=records.schema,
        source=records,
        epsilon_claimed=study.kinds.plan_cost(draft.plan, draft.most_records_per_unit),
        models={key: conversation.models for key, conversation in learnt.items()},
        estimates={key: conversation.estimate for key, conversation in learnt.items()},
        study=study,
        population=population({name: cards[name] for name in draft.names}),
        advice=why_not_chosen(setting, {name: cards[name] for name in draft.names}),
    )


def admit(
    study: Study, source: pl.DataFrame | Callable[[Schema], Records]
) -> tuple[Records, dict[str, Card], dict[str, str]]:
    """Read the cards, and encode the source for the schema that most of them agree on.

    Returns:
        The source's records, the cards that can be true, and why each of the others is left out.

    Raises:
        NoCuratorError: no curator sent its card.
        ConfigurationError: as `learn` says; nothing has been charged.
    """
    cards = study.read_cards()
    encode = source if callable(source) else partial(encode_frame, source)
    schema, left_out = common_schema(cards, partial(_fits, encode))
    records = encode(schema)
    if len(records) < 2:
        raise ConfigurationError("at least two source records are needed")
    cards = {name: card for name, card in cards.items() if name not in left_out}
    left_out |= implausible_cards(cards, len(records))
    return records, {name: card for name, card in cards.items() if name not in left_out}, left_out


def _fits(encode: Callable[[Schema], Records], schema: Schema) -> bool:
    try:
        encode(schema)
    except ConfigurationError:
        return False
    return True
