"""Leads `secure_counts` queries: relays messages between curators, and reads the sum that they open."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learner_node.kinds.counts import CountsAnswer, add, beyond, complaint_about, exact_answer, precision_with
from learner_node.study.cards import MOST_RECORDS
from learner_node.study.decisions import decided
from learner_node.study.reading import LeadContext, Leading, Pooled, Precision, QueryFailedError, Reader
from protocol.codec import decode, encode
from protocol.errors import ConfigurationError, RemoteProtocolError
from protocol.kinds import secure_counts
from protocol.kinds.counts import COUNTS, CountsBody
from protocol.kinds.secure_counts import (
    AskKeys,
    MaskedCounts,
    OpenSum,
    PlannedSecureCounts,
    ProposeSurvivors,
    RelayCards,
    RelayShares,
)
from protocol.noise_shares import LaplaceShares
from protocol.query_kind import Question, Turn
from protocol.records import Records
from protocol.refusals import RefusalCode
from protocol.release_kinds import RELEASE_KINDS
from protocol.schema import Schema
from protocol.secure_sum.aggregator import STEPS, Aggregator, Opened, SumFailedError, as_words
from protocol.secure_sum.masks import WORD

FREE = STEPS[: secure_counts.MASKED]
"""Steps before any curator was asked for counts, which cost nothing."""
AGAIN = "Another study may ask again, without those that are out or with more dropouts"


def read(data: bytes, question: Question) -> Any:
    """Decode a release of a turn to its struct of `protocol.kinds.secure_counts`. Raises RemoteProtocolError."""
    release = decode(data, secure_counts.RELEASES[question.turn.number], field="release")
    if isinstance(release, MaskedCounts) and len(release.words) % WORD:
        raise RemoteProtocolError(RefusalCode.MALFORMED, "release", f"whole words of {WORD} bytes")
    return release


def opening(body: CountsBody, _turn: Turn, nonce: bytes = bytes(secure_counts.NONCE)) -> AskKeys:
    """The body of the first turn."""
    return AskKeys(encode(body), nonce)


def lead(context: LeadContext) -> Leading:
    """Lead the five turns; a curator that misses one, or lies, is out. Implements `Reader.lead`.

    Raises:
        QueryFailedError: too few curators are left to open the sum, or the sum cannot be true.
        ConfigurationError: curators are asked different questions, which cannot be summed.
    """
    planned: PlannedSecureCounts = context.turn.planned
    body = _common_body(context.bodies)
    schema = next(iter(context.cards.values())).schema
    names = {planned.participants.index(key): name for name, key in context.keys.items() if key in planned.participants}
    group = planned.group(context.label)
    if len(names) < group.least:
        raise QueryFailedError(
            f"the secure sum was not begun: {len(names)} of {group.sites} curators are left, and {group.least} are "
            f"needed; nothing was charged for it. {AGAIN}"
        )
    first_body = opening(body, context.turn, context.entropy(secure_counts.NONCE))
    question = secure_counts.question_digest(context.learner, context.turn, first_body)
    aggregator = Aggregator(group, question, COUNTS.length(Question(context.turn, body, schema)))
    seats = {name: index for index, name in names.items()}
    try:
        releases = yield dict.fromkeys(names.values(), first_body)
        cards = aggregator.take_cards({seats[name]: card for name, card in releases.items()})
        releases = yield {names[index]: RelayCards(cards) for index, _ in cards}
        dealt = aggregator.take_shares({seats[name]: sealed.shares for name, sealed in releases.items()})
        releases = yield {
            names[index]: RelayShares(shares.dealers, shares.shares, first_body.counts, first_body.nonce)
            for index, shares in dealt.items()
        }
        survivors = aggregator.take_masked({seats[name]: as_words(masked.words) for name, masked in releases.items()})
        releases = yield {names[index]: ProposeSurvivors(survivors) for index in survivors}
        signed = aggregator.take_agreements({seats[name]: agreed.signature for name, agreed in releases.items()})
        releases = yield {name: OpenSum(survivors, signed) for name in releases}
        opened = aggregator.take_revealed({seats[name]: revealed.shares for name, revealed in releases.items()})
    except SumFailedError as error:
        raise _failed(error, names) from None
    answer = _answer(opened, body, planned, schema)
    took_part = tuple(name for name in context.bodies if seats.get(name) in opened.survivors)
    if reason := decided(context.decided, _complaint(answer, took_part, context)):
        raise QueryFailedError(reason)
    lied = {**aggregator.out, **opened.liars}
    return Pooled(
        answer,
        took_part,
        {names[index]: f"it broke the protocol of a secure sum: {why}" for index, why in lied.items()},
        {names[index]: f"it could not go on in a secure sum: {why}" for index, why in aggregator.stranded.items()},
    )


def _common_body(bodies: Mapping[str, CountsBody]) -> CountsBody:
    first, *differing = {encode(body): body for body in bodies.values()}.values()
    if differing:
        raise ConfigurationError(
            'curators that sum securely are asked one question; pool by "sum" or "site" to ask each its own'
        )
    return first


def _failed(error: SumFailedError, names: Mapping[int, str]) -> QueryFailedError:
    why = "".join(f"; {names[index]}: {reason}" for index, reason in error.out.items())
    charged = "nothing was charged for it" if error.step in FREE else "what was charged for it stays charged"
    return QueryFailedError(f"{error}{why}; {charged}. {AGAIN}")


def _answer(opened: Opened, body: CountsBody, planned: PlannedSecureCounts, schema: Schema) -> CountsAnswer:
    sites = len(opened.survivors)
    return CountsAnswer(
        body=body,
        values=opened.values.astype(np.float64).reshape(-1, RELEASE_KINDS[planned.release].columns(schema)),
        sizes=tuple(partition.cell_count(schema) for partition in body.partitions),
        release=planned.release,
        scale=planned.scale.fraction,
        sites=sites,
        noises=sites / planned.shares,
        steps=planned.steps,
    )


def _complaint(answer: CountsAnswer, took_part: tuple[str, ...], context: LeadContext) -> str:
    """Why a sum contradicts the cards; "" if it does not. Nobody can tell whose counts are wrong."""
    sizes = [context.cards[name].round_size for name in took_part]
    declared = sum(size for size in sizes if size is not None)
    excess = beyond(answer, MOST_RECORDS if None in sizes else declared)
    if excess is None:
        return ""
    stated = "some of their cards declare none" if None in sizes else f"their cards declare {declared} together"
    return (
        f"a secure sum cannot be true: it counts {excess.records:.3g} records in {excess.where}, and {stated}. "
        f'Which of {", ".join(took_part)} is wrong cannot be told from a sum; ask them apart, pooled by "sum"'
    )


def _law(planned: PlannedSecureCounts, sites: int) -> LaplaceShares:
    return LaplaceShares(planned.scale.fraction, Fraction(sites, planned.shares))


def rehearse(
    body: CountsBody, turn: Turn, records: Records, tally: NDArray[np.int64], sites: int, rng: np.random.Generator
) -> CountsAnswer:
    """Simulate the answer as `counts.rehearse`; all curators answer."""
    exact = exact_answer(body, turn, records, tally)
    noise = _law(turn.planned, sites).simulate(rng, exact.values.shape)
    return replace(exact, values=exact.values + noise, sites=sites, noises=sites / turn.planned.shares)


def precision(body: CountsBody, turn: Turn, schema: Schema, target_size: int, sites: int) -> Precision:
    """Expected precision as `counts.precision`; all curators answer."""
    return precision_with(_law(turn.planned, sites).variance(), body, turn, schema, target_size)


SECURE_COUNTS = Reader(
    kind=secure_counts.SECURE_COUNTS,
    read=read,
    pool=add,
    complaint=complaint_about,
    rehearse=rehearse,
    precision=precision,
    lead=lead,
    opening=opening,
)
