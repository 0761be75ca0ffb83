"""Asks the curators for the tables of several analyses in one study, and reads the answers.

An `AnalysisStudy` is a study of its own, with plan, charge, receipts and transcripts like those of a fit. `plan` makes
the plan, each part of `parts` reads its own tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Any

import msgspec

from learner_node.analyses.noisy_table import NoisyTable, TableAnswers, TableQuestion
from learner_node.analyses.part import Part
from learner_node.analyses.parts import check_parts
from learner_node.analyses.plan import Draft, draft, questions_of, read_table, split
from learner_node.analyses.results import Analyses
from learner_node.study.budget import Budget, Purpose, words_for
from learner_node.study.cards import common_schema, implausible_cards, population
from learner_node.study.decisions import decided
from learner_node.study.federation import Federation
from learner_node.study.plan import agree, foreseen_refusals, nobody_left, over_caps, strangers
from learner_node.study.pooling import SUMMED, Pooling
from learner_node.study.study import Study
from protocol.errors import ConfigurationError
from protocol.limits import ASSUMED_ROUND_SIZE
from protocol.messages import MOST_PURPOSE, Card
from protocol.schema import Schema

REMEDY = "epsilon or the analyses"


@dataclass(frozen=True)
class AnalysisStudy(Analyses):
    """The analyses of a study, and the study, with its transcripts and outcomes."""

    study: Study

    def __repr__(self) -> str:
        return f"<AnalysisStudy: {', '.join(part.name for part in self.parts)}; {self.headline}>"


def analyse(
    federation: Federation, parts: Sequence[Part], budget: Budget, *, pooling: Pooling = SUMMED
) -> AnalysisStudy:
    """Ask all tables of the parts in one plan, whose cost is at most `budget.epsilon`, and read the answers.

    A part's share of epsilon is its weight over the sum of the weights; by default all are equal.

    Args:
        federation: whom to ask, and how.
        parts: the analyses, with names of their own.
        budget: to spend, and what the stewards read; each part says there what it counts.
        pooling: "sum" and "site" add up answers with each curator's own noise and also show each curator's; with
            "secure" only the sum is opened.

    Raises:
        NoCuratorError: no curator accepted and answered; the study is closed first.
        ConfigurationError: a part does not fit the cards; nothing has been charged, and no record decides it.
    """
    check_parts(parts)
    study = Study(federation)
    cards = study.read_cards()
    schema, left_out = common_schema(cards, partial(_fits, parts))
    questions_of(parts, schema)
    cards = {name: card for name, card in cards.items() if name not in left_out}
    declared = [card.round_size for card in cards.values() if card.round_size]
    left_out |= implausible_cards(cards, int(median(declared)) if declared else ASSUMED_ROUND_SIZE)
    cards = {name: card for name, card in cards.items() if name not in left_out}
    request = _Request(tuple(parts), schema, budget.epsilon, pooling)

    def settle(cards: Mapping[str, Card], left_out: Mapping[str, str]) -> Draft:
        return decided(federation.decided, _settled(study, request, cards, left_out))

    agreed = settle(cards, left_out)
    for name, reason in agreed.left_out.items():
        study.leave_out(name, reason)
    with study.closing():
        redraft = partial(settle, left_out={}) if pooling.secure else None
        agreed = agree(study, agreed, _words(budget, parts, schema), redraft, cards)
        for query in agreed.queries:
            study.ask(dict.fromkeys(study.survivors, query.body))
    names = study.survivors
    answers = _answers(study, request, agreed, {name: cards[name] for name in agreed.names}, names)
    return AnalysisStudy(
        parts=tuple(parts),
        answers=answers,
        schema=schema,
        curators=_counted(study, names),
        pooling=pooling,
        epsilon_claimed=study.kinds.plan_cost(agreed.plan, agreed.most_records_per_unit),
        epsilon_spent={name: study.spent(name) for name in study.sessions},
        left_out=study.left_out,
        population=population({name: cards[name] for name in agreed.names}),
        study=study,
    )


@dataclass(frozen=True)
class _Request:
    """What is asked whoever answers."""

    parts: tuple[Part, ...]
    schema: Schema
    epsilon: Fraction
    pooling: Pooling


def _fits(parts: Sequence[Part], schema: Schema) -> bool:
    try:
        questions_of(parts, schema)
    except ConfigurationError:
        return False
    return True


def _settled(study: Study, request: _Request, cards: Mapping[str, Card], left_out: Mapping[str, str]) -> Draft:
    """The plan for all curators that would not refuse it; the others join those left out."""
    remaining, left_out = dict(cards), dict(left_out)
    kinds = study.kinds
    while remaining:
        reasons = strangers(request.pooling, remaining)
        if not reasons:
            most = max(card.most_records_per_unit for card in remaining.values())
            tables = split(request.parts, request.schema, request.epsilon, most)
            planned = draft(tables, request.schema, remaining, request.pooling, kinds)
            bodies = [query.body for query in planned.queries]
            reasons = foreseen_refusals(planned.plan, bodies, remaining, kinds, study.readers)
            fit = {name: card for name, card in remaining.items() if name not in reasons}
            reasons |= over_caps(planned.plan, fit, kinds)
            if not reasons:
                return msgspec.structs.replace(planned, left_out=left_out)
        left_out |= reasons
        remaining = {name: card for name, card in remaining.items() if name not in reasons}
    raise nobody_left(left_out, REMEDY)


def _counted(study: Study, names: Sequence[str]) -> tuple[str, ...]:
    """Curators whose records are in every sum."""
    summed = [answered.took_part for answered in study.rounds if answered.took_part]
    if not summed:
        return tuple(names)
    return tuple(name for name in summed[0] if all(name in group for group in summed))


def _answers(
    study: Study, request: _Request, agreed: Draft, cards: Mapping[str, Card], names: Sequence[str]
) -> dict[str, TableAnswers]:
    """The tables of each part: pooled, and those of each curator where it answered for itself."""
    questions = questions_of(request.parts, request.schema)
    pooled = _tables(questions, request, agreed, study.pooled(names), agreed.most_records_per_unit)
    separate = (
        {}
        if request.pooling.secure
        else {
            name: _tables(questions, request, agreed, study.pooled([name]), cards[name].most_records_per_unit)
            for name in names
        }
    )
    epsilons = [Fraction(0)] * len(request.parts)
    for query in agreed.queries:
        for part, _ in query.tables:
            epsilons[part] += query.epsilon.fraction
    return {
        part.name: TableAnswers(
            schema=request.schema,
            epsilon=epsilons[index],
            pooled=pooled[index],
            by_site={name: tables[index] for name, tables in separate.items()},
            secure=request.pooling.secure,
        )
        for index, part in enumerate(request.parts)
    }


def _tables(
    questions: Sequence[Sequence[TableQuestion]], request: _Request, agreed: Draft, answers: Sequence[Any], most: int
) -> list[list[NoisyTable]]:
    """Tables of each part in the order of its questions."""
    tables = {
        place: read_table(questions[place[0]][place[1]], answer, block, request.schema, most)
        for query, answer in zip(agreed.queries, answers, strict=True)
        for block, place in enumerate(query.tables)
    }
    return [[tables[part, index] for index in range(len(row))] for part, row in enumerate(questions)]


def _words(budget: Budget, parts: Sequence[Part], schema: Schema) -> Purpose:
    """What the stewards read: the purpose, then each part in its own words as far as they fit."""
    sentences = [f"{part.name}: {part.words(schema).strip()}" for part in parts]

    def words(name: str) -> str:
        text = words_for(budget.words, name)
        for number, sentence in enumerate(sentences):
            longer = f"{text}\n{sentence}".strip()
            rest = f"\nAnd {len(sentences) - number} more." if number < len(sentences) else ""
            if len(longer) + len(rest) > MOST_PURPOSE:
                return f"{text}{rest}"[:MOST_PURPOSE]
            text = longer
        return text

    return words
