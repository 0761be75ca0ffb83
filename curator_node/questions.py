"""Puts together what an answerer is told, from request, policy and ledger; the records are not among it."""

from collections.abc import Callable
from functools import partial
from typing import Any

from curator_node.answering import Question, Seat
from curator_node.identities import Identities, Keys
from curator_node.ledger import Ledger, StateGoneError, StudyAccount, StudyKey
from curator_node.ledger.sealing import StateSealer
from curator_node.mechanisms import Stamp
from curator_node.policy import Policy
from curator_node.proposals import ENVELOPE_ROOM
from protocol.envelopes import open_envelope
from protocol.ledger.entries import STATE_SEAL_BYTES
from protocol.messages import Query, Release
from protocol.query_kind import Kinds, Past, Turn
from protocol.schema import Schema


class Questions:
    """The questions of a curator.

    Args:
        ledger: stored replies and states.
        kinds: the query kinds that the curator can answer.
        identities: sign for it.
        keys: those that seal what answerers keep.
        entropy: n -> n random bytes, for nonces.
    """

    def __init__(
        self, ledger: Ledger, kinds: Kinds, identities: Identities, keys: Keys, entropy: Callable[[int], bytes]
    ) -> None:
        self._ledger = ledger
        self._kinds = kinds
        self._identities = identities
        self._entropy = entropy
        self._sealer = StateSealer(keys.newest_first, entropy)

    def put(
        self, message: Query, study: StudyAccount, turn: Turn, body: Any, policy: Policy, schema: Schema
    ) -> Question:
        """The question of a message, as its answerer gets it.

        Args:
            message: a query, checked so far.
            study: its own.
            turn: of the plan.
            body: as its kind read it.
            policy: of today.
            schema: of today.

        Raises:
            StateGoneError, AnswerGoneError: something that it needs is missing or was changed.
        """
        kind = self._kinds.kind(turn.planned.kind)
        learner = policy.learner(message.sender)
        return Question(
            body=body,
            turn=turn,
            past=self._past(study, message.sequence) if kind.looks_back else (),
            state=self._state(study.key, kind.name) if kind.state_bytes else b"",
            stamp=Stamp(learner.name if learner else "", study.ordinal, message.sequence),
            seat=self._seat(message),
            schema=schema,
        )

    def room(self, question: Question) -> int:
        """Most bytes that are stored with the answer to a question."""
        kind = self._kinds.kind(question.turn.planned.kind)
        kept = kind.state_bytes + STATE_SEAL_BYTES if kind.state_bytes else 0
        return ENVELOPE_ROOM + kind.release_bytes(question.body, question.turn, question.schema) + kept

    def sealed(self, state: bytes | None, study: StudyKey, kind: str) -> tuple[str, bytes] | None:
        """What the ledger stores of an answerer's state: its kind, and bytes that the curator alone can read."""
        return None if state is None else (kind, self._sealer.seal(state, study, kind))

    def _seat(self, message: Query) -> Seat:
        """A request is answered as whom it was addressed to; that may be one of the curator's former keys."""
        identity, identities = message.recipient, self._identities
        return Seat(identity, identities.label, message.sender, partial(identities.say, identity), self._entropy)

    def _state(self, study: StudyKey, kind: str) -> bytes:
        sealed = self._ledger.state(study, kind)
        if not sealed:
            return b""
        state = self._sealer.open(sealed, study, kind)
        if state is None:
            raise StateGoneError(self._ledger.account.states[study, kind].index)
        return state

    def _past(self, study: StudyAccount, sequence: int) -> tuple[Past, ...]:
        """The answered turns of a query's kind before it, from stored replies; AnswerGoneError where one is gone."""
        name = study.kind_of(sequence)
        past = []
        for earlier, reply in self._ledger.replies(study.key):
            message = open_envelope(reply)[1]
            if isinstance(message, Release) and message.kind == name and earlier < sequence:
                past.append(Past(self._kinds.turn(study.plan, study.places[earlier - 1]), message.body))
        return tuple(past)
