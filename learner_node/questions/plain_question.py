"""Asks one question of a query kind that has no strategy, as a study's file states it, and reads what the curators say.

The planned query and its bodies are written in the file field by field. So any installed kind can be asked, also one of
somebody else's package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from learner_node.plug_ins import with_named
from learner_node.study.budget import Budget
from learner_node.study.cards import common_schema
from learner_node.study.federation import Federation
from learner_node.study.plan import foreseen_refusals, nobody_left, over_caps
from learner_node.study.reading import questions
from learner_node.study.study import Study
from learner_node.study_file import Question
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.plans import Plan
from protocol.query_kind import Kinds, QueryKind
from protocol.strict_toml import convert, suggest

REMEDY = "epsilon or the question"


@dataclass(frozen=True)
class PlainAnswers:
    """What the curators said."""

    question: Question
    pooled: tuple[Any, ...]  # what they say together, for each turn
    answers: Mapping[str, tuple[Any, ...]]  # each curator's own, by name; empty where only the sum was opened
    epsilon_claimed: Fraction  # exact cost of the plan at the costliest curator
    study: Study  # with its transcripts and outcomes


def ask_plainly(federation: Federation, question: Question, budget: Budget) -> PlainAnswers:
    """Run a study of one question.

    Raises:
        NoCuratorError: no curator accepted, or none answered; the study is closed first.
        ConfigurationError: the kind is not installed, the question has an error, or costs more than `budget.epsilon`;
            nothing was charged.
    """
    study = Study(with_named(federation, kind=question.kind, partitions=question.partitions))
    kind = known_kind(question.kind, study.kinds)
    plan = Plan.of([planned_query(question, kind)])
    turns = questions(study.kinds.turns(plan), study.readers)
    if len(turns) != len(question.bodies):
        raise ConfigurationError(
            f"question: {question.kind} asks {len(turns)} turns here, and body has {len(question.bodies)}; write "
            + ("one table" if len(turns) == 1 else f"a list of {len(turns)} tables")
        )
    bodies = [body_of(question, kind, number) for number in range(len(turns))]
    cards = study.read_cards()
    _, left_out = common_schema(cards, lambda schema: False)  # noqa: ARG005 - it reads no records of its own
    cards = {name: card for name, card in cards.items() if name not in left_out}
    reasons = foreseen_refusals(plan, bodies[:1], cards, study.kinds, study.readers)
    fit = {name: card for name, card in cards.items() if name not in reasons}
    reasons |= over_caps(plan, fit, study.kinds)
    if not cards.keys() - reasons.keys():
        raise nobody_left({**reasons, **left_out}, REMEDY)
    for name, reason in (left_out | reasons).items():
        study.leave_out(name, reason)
    names = [name for name in cards if name not in reasons]
    cost = study.kinds.plan_cost(plan, max(cards[name].most_records_per_unit for name in names))
    if cost > budget.epsilon:
        raise ConfigurationError(
            f"the question costs {cost}, and epsilon is {budget.epsilon}; nothing was asked: raise epsilon, or ask for "
            "more noise"
        )
    with study.closing():
        study.propose(plan, budget.words, names)
        for body in bodies:
            study.ask(dict.fromkeys(study.survivors, body))
    names = study.survivors
    return PlainAnswers(
        question=question,
        pooled=tuple(study.pooled(names)),
        answers={
            name: tuple(answered.answers[name] for answered in study.rounds)
            for name in names
            if all(name in answered.answers for answered in study.rounds)
        },
        epsilon_claimed=cost,
        study=study,
    )


def known_kind(name: str, kinds: Kinds) -> QueryKind:
    """A kind that may be asked. Raises ConfigurationError: it is not installed."""
    if name not in kinds:
        raise ConfigurationError(
            f"question: unknown query kind {name!r}{suggest(name, list(kinds))}; is its package installed?"
        )
    return kinds[name]


def planned_query(question: Question, kind: QueryKind) -> Any:
    """The planned query of a question. Raises ConfigurationError: a field is wrong, or the kind refuses it."""
    planned = convert(question.planned, kind.planned, where="question.planned")
    try:
        kind.check_planned(planned)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"question.planned: {error.field}: {error.limit}") from None
    return planned


def body_of(question: Question, kind: QueryKind, number: int) -> Any:
    """The body of one turn, counted from 0. Raises ConfigurationError: a field is wrong."""
    try:
        return kind.written_body(question.bodies[number], number)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise ConfigurationError(f"question.body: {error}") from None


def presented(answer: Any) -> Any:
    """An answer of any kind as JSON has it, field by field: how a kind is shown that brings no words of its own."""
    if answer is None or isinstance(answer, bool | int | float | str):
        return answer
    if isinstance(answer, np.ndarray | np.generic):
        return answer.tolist()
    if isinstance(answer, bytes):
        return answer.hex()
    if isinstance(answer, Mapping):
        return {str(name): presented(value) for name, value in answer.items()}
    if isinstance(answer, Sequence | set | frozenset):
        return [presented(value) for value in answer]
    if isinstance(answer, msgspec.Struct):
        config = answer.__struct_config__
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        return tag | {field.name: presented(getattr(answer, field.name)) for field in msgspec.structs.fields(answer)}
    if is_dataclass(answer):
        return {field.name: presented(getattr(answer, field.name)) for field in fields(answer)}
    return str(answer)
