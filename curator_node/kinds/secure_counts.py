"""Answers `secure_counts`: one curator's side of a secure sum of counts.

No message before turn `MASKED` depends on a record, and that turn is the one that is charged. Its vector is uniform on
all vectors of 64-bit words to anybody who does not know the masks. Everything opened later follows from noisy counts
alone.
"""

from curator_node.answering import Answered, Answerer, CuratorQuestion
from curator_node.mechanisms import NoiseSource
from curator_node.records.dataset import PrivateDataset
from protocol.codec import decode, encode
from protocol.errors import RemoteProtocolError
from protocol.kinds import secure_counts
from protocol.kinds.secure_counts import Agreement, MaskedCounts, Revealed, SealedShares
from protocol.refusals import RefusalCode
from protocol.secure_sum import participant
from protocol.secure_sum.group import Group
from protocol.secure_sum.participant import State


def check(question: CuratorQuestion) -> None:
    """Refuse a turn that `answer` could not answer, or that would help to open more than the one sum.

    Raises:
        RemoteProtocolError: BAD_QUERY; BAD_PLAN if this curator is no participant; TERMS_CHANGED if the vector no
            longer has the length stated in the first turn.
    """
    seat, turn, body = question.seat, question.turn, question.body
    if seat.identity not in turn.planned.participants:
        raise RemoteProtocolError(RefusalCode.BAD_PLAN, "plan.queries.participants", "a list with this curator in it")
    if turn.number == secure_counts.KEYS:
        return
    group, state = _group(question), _state(question)
    if group.participants[state.index] != seat.identity:
        # A curator with two keys in one plan signs for the one that it began as.
        raise RemoteProtocolError(RefusalCode.BAD_QUERY, "recipient", "the key that this curator's cards are of")
    match turn.number:
        case secure_counts.SHARES:
            participant.check_cards(group, state, body.cards)
        case secure_counts.MASKED:
            if secure_counts.question_digest(seat.learner, turn, body.sent) != state.question:
                raise RemoteProtocolError(
                    RefusalCode.BAD_QUERY, "body.counts", "the question that this curator's keys were made for"
                )
            _check_length(question, state)
            participant.check_shares(group, state, body.sent.dealers, body.sent.shares)
        case secure_counts.AGREED:
            participant.check_survivors(group, state, body.survivors)
        case secure_counts.OPENED:
            participant.check_opening(group, state, body.survivors, body.agreements)


def answer(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The encoded release of the turn. No record can make this function fail or change the form of its answer.

    Raises:
        RemoteProtocolError: TERMS_CHANGED, if the schema and so the vector's length changed after the charge.
    """
    seat, body = question.seat, question.body
    match question.turn.number:
        case secure_counts.KEYS:
            return _keys(question)
        case secure_counts.SHARES:
            group, state = _group(question), _state(question)
            sealed, after = participant.share(group, state, body.cards, entropy=seat.entropy)
            return _answered(SealedShares(sealed), after)
        case secure_counts.MASKED:
            return _masked(question, dataset, noise)
        case secure_counts.AGREED:
            signature, after = participant.agree(_state(question), body.survivors, sign=seat.sign)
            return _answered(Agreement(signature), after)
    # Nothing is kept after the last turn: the keys of the round are gone.
    return Answered(encode(Revealed(participant.reveal(_state(question)))), state=b"")


def _keys(question: CuratorQuestion) -> Answered:
    seat, turn, body = question.seat, question.turn, question.body
    card, state = participant.begin(
        _group(question),
        seat.identity,
        secure_counts.question_digest(seat.learner, turn, body.sent),
        secure_counts.SECURE_COUNTS.length(question),
        entropy=seat.entropy,
        sign=seat.sign,
    )
    return _answered(card, state)


def _masked(question: CuratorQuestion, dataset: PrivateDataset, noise: NoiseSource) -> Answered:
    """The masked vector. The noise share is drawn before the count, so its time depends on no record."""
    planned, body, state = question.turn.planned, question.body, _state(question)
    _check_length(question, state)
    share = noise.laplace_shares(state.length, planned.law, planned.shares, question.stamp)
    values = dataset.exact(body.body, planned).ravel() + share
    words, after = participant.mask(state, body.sent.dealers, body.sent.shares, values)
    return _answered(MaskedCounts(words.astype("<u8").tobytes()), after)


def _check_length(question: CuratorQuestion, state: State) -> None:
    """Refuse the turn if the vector's length has changed: the schema may have changed since the keys were made."""
    if secure_counts.SECURE_COUNTS.length(question) != state.length:
        limit = f"as many numbers as in the first turn, {state.length}"
        raise RemoteProtocolError(RefusalCode.TERMS_CHANGED, "body.counts", limit)


def _group(question: CuratorQuestion) -> Group:
    planned: secure_counts.PlannedSecureCounts = question.turn.planned
    return planned.group(question.seat.label)


def _state(question: CuratorQuestion) -> State:
    return decode(question.state, State)


def _answered(release: object, state: State) -> Answered:
    return Answered(encode(release), participant.encode_state(state))


SECURE_COUNTS = Answerer(secure_counts.SECURE_COUNTS, answer, check)
