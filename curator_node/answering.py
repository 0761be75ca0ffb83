"""The interface of curators to answerers: `CuratorQuestion`, `Answered` and `Answerer`. No kind is named here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from curator_node.mechanisms import NoiseSource, Stamp
from curator_node.records.dataset import PrivateDataset
from protocol.envelopes import SigningKey, statement_bytes
from protocol.errors import ConfigurationError
from protocol.limits import Limits
from protocol.query_kind import Past, QueryKind, Question, table_of


@dataclass(frozen=True)
class Seat:
    """The identity under which a curator answers. It also signs messages to other curators."""

    identity: bytes  # the public key that the question is addressed to
    label: str  # under which the curator signs
    learner: bytes  # public key of who asks
    # (name of what is said, its bytes) -> the curator's signature over `statement_bytes` of both; 64 bytes
    sign: Callable[[str, bytes], bytes] = field(repr=False)
    entropy: Callable[[int], bytes] = field(repr=False)  # n -> n random bytes, for keys and nonces; never for noise

    @classmethod
    def of(cls, key: SigningKey, label: str, learner: bytes, entropy: Callable[[int], bytes]) -> "Seat":
        """The seat of the curator with this key."""

        def sign(type_name: str, payload: bytes) -> bytes:
            return key.sign(statement_bytes(label, type_name, payload))

        return cls(key.public, label, learner, sign, entropy)


@dataclass(frozen=True)
class CuratorQuestion(Question):
    """A question as its answerer gets it. The answerer checks it once more before it is charged and answered.

    The schema is the present one: the steward may have changed it since the previous turn.
    """

    past: tuple[Past, ...]
    """The study's answered turns of this kind, in order; empty unless what the kind charges depends on them."""
    state: bytes = field(repr=False)
    """What the answerer last kept of this study; empty at first."""
    stamp: Stamp
    """Which answer its noise is for."""
    seat: Seat
    """As whom the curator answers."""


@dataclass(frozen=True)
class Answered:
    """An answer, as its answerer hands it to the curator."""

    release: bytes  # the encoded release body
    # what to keep of this study for its next turns, stored together with the reply, and encrypted for the curator
    # alone; None keeps what is there
    state: bytes | None = field(default=None, repr=False)


def _nothing_more(question: CuratorQuestion) -> None:
    """The check of a query kind that needs none beyond those of request, policy and ledger."""


def _nothing_bounded(limits: Any) -> Mapping[str, int]:  # noqa: ARG001
    """The bounds of a query kind that is private with any number of records: none."""
    return {}


@dataclass(frozen=True)
class Answerer:
    """How a curator answers a query kind."""

    kind: QueryKind
    # Must not fail, nor take another path, because of a record. It may raise RemoteProtocolError for what was changed
    # here between charge and answer: the charge stays, and ANSWER_GONE is told.
    answer: Callable[[CuratorQuestion, PrivateDataset, NoiseSource], Answered]
    # Raises RemoteProtocolError for a question that `answer` could not answer, by what was asked and what was kept.
    # It is called before the question is charged, with the very one that `answer` gets; a request that was charged
    # before is not checked again. Several threads may be in it at once, and it draws nothing.
    check: Callable[[CuratorQuestion], None] = _nothing_more
    # Limits of the kind -> what they allow that is private up to so many records of one curator only: its place in a
    # policy -> that number. It is for the steward, when a curator starts: how many records there are is private, and
    # no request is ever refused because of it.
    bounded: Callable[[Any], Mapping[str, int]] = _nothing_bounded


def record_bounds(limits: Limits, answerers: Mapping[str, Answerer]) -> dict[str, int]:
    """The most records with which limits are private, by the limit's place in the policy; see `Answerer.bounded`."""
    kinds = table_of(answerer.kind for answerer in answerers.values())
    bounds: dict[str, int] = {}
    for name in kinds.allowed(limits):
        bounds |= answerers[name].bounded(kinds.limits(limits, name))
    return bounds


def check_size(limits: Limits, answerers: Mapping[str, Answerer], records: int) -> None:
    """Raise ConfigurationError if the limits allow a method that is not private with this number of records.

    The error is for the steward, who alone may know how many records there are.
    """
    for place, most in record_bounds(limits, answerers).items():
        if records > most:
            raise ConfigurationError(
                f"{place} is private up to {most:,} records of one curator, and there are more; take it out of the "
                "policy, or serve the records by several curators"
            )
