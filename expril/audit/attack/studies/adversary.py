"""An adversary's own learner: made from the protocol alone, and it keeps the rules only where that pays."""

import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator_node.site import now
from expril.audit.attack.studies.curators import Attacked
from protocol.codec import decode, encode
from protocol.envelopes import SigningKey, digest, open_envelope, seal
from protocol.errors import ConfigurationError
from protocol.kinds.counts import COUNTS, CountsBody, CountsRelease, PlannedCounts
from protocol.messages import NO_DIGEST, Query, Release, StudyAccepted, StudyProposal
from protocol.partitions import Partition
from protocol.plans import Plan
from protocol.rationals import Rational

LIFETIME = 600
"""Seconds until a request expires."""


class Study:
    """One study of one learner that counts records: proposed, asked, and asked again.

    Attributes:
        accepted: whether the curator accepted its plan.
        sent: the newest question's envelope.
    """

    def __init__(self, curator: Attacked, key: SigningKey, costs: Sequence[Fraction], *, bound: int = 1) -> None:
        """Propose to count the records of one partition once at each of these costs, `bound` records a unit."""
        self._curator, self._key = curator, key
        self._study, self._last, self._sequence = secrets.token_bytes(16), NO_DIGEST, 0
        self.sent = b""
        planned = (PlannedCounts(release="mass", partitions=1, scale=Rational.of(bound / cost)) for cost in costs)
        proposal = StudyProposal(**self._header(), plan=Plan.of(planned), purpose="", newest_receipt=b"")
        reply = curator.handle(seal(proposal, key))
        self.accepted = isinstance(open_envelope(reply)[1], StudyAccepted)
        self._last = digest(reply)

    def ask(self, partition: Partition) -> NDArray[np.int64]:
        """The plan's next question: noisy counts, (cells,).

        Raises:
            ConfigurationError: the curator refuses; then what is attacked is no curator that serves.
        """
        self._sequence += 1
        body = encode(CountsBody(partitions=(partition,), hypothesis=None))
        self.sent = seal(Query(**self._header(), kind=COUNTS.name, body=body), self._key)
        reply = self._curator.handle(self.sent)
        self._last = digest(reply)
        return counts_in(reply)

    def _header(self) -> dict[str, Any]:
        return {
            "study": self._study,
            "sender": self._key.public,
            "recipient": self._curator.identity,
            "sequence": self._sequence,
            "answers": self._last,
            "expires_at": now() + LIFETIME,
        }


def counts_in(reply: bytes) -> NDArray[np.int64]:
    """The numbers of an answered question, (cells,).

    Raises:
        ConfigurationError: it was refused.
    """
    message = open_envelope(reply)[1]
    if not isinstance(message, Release):
        code = getattr(message, "code", type(message).__name__)
        raise ConfigurationError(f"the attacked curator answers a question with {code!r} in place of counts")
    return np.frombuffer(decode(message.body, CountsRelease).counts, "<i8").astype(np.int64)
