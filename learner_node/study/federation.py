"""`Federation`: the curators that a learner may ask, with its key, carrier and clock.

A carrier raises `UnfinishedError` when it stops waiting for replies and leaves the study open.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from learner_node.kinds import READERS
from learner_node.study.decisions import Decide, as_found
from learner_node.study.reading import Reader
from learner_node.study.session import Session
from protocol.envelopes import SigningKey
from protocol.errors import ExprilError
from protocol.query_kind import Kinds, table_of


def now() -> int:
    """Seconds since 1970, by this machine's clock."""
    return int(time.time())


LIFETIME = 600
"""Default validity of a learner's request, seconds."""


class UnfinishedError(ExprilError):
    """The study is left open because a reply will not come now; the text says what is awaited."""

    kind = "unfinished"


class Carrier(Protocol):
    """Carries requests to curators and brings back the replies that came in time."""

    def exchange(self, requests: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Map each curator's public key to its reply; a curator that did not reply is omitted."""


@dataclass(frozen=True)
class Federation:
    """The curators a learner may ask, and how.

    Copies, also deep ones, share the federation's receipts.
    """

    curators: Mapping[str, bytes]  # name -> public key; names are the learner's own
    key: SigningKey  # the learner's
    carrier: Carrier
    clock: Callable[[], int] = now  # seconds since 1970
    entropy: Callable[[int], bytes] = secrets.token_bytes  # n -> n random bytes; for study identities, never for noise
    # Curator's public key -> newest receipt: read, and updated. Keep it between runs: it proves a rolled-back ledger.
    receipts: dict[bytes, bytes] = field(default_factory=dict)
    attempts: int = 2  # how often a request is sent before its curator is given up
    allow_not_private: bool = False  # accept curators that sign as not private; simulations only
    lifetime: int = LIFETIME  # seconds for which a request is valid; at most what the curators' policies allow
    # A study is opened at all of the curators or at none: nothing is asked, or charged, before every one has accepted.
    all_or_none: bool = False
    resumable: bool = False  # another process goes on with a study that this one leaves, so it is not closed then
    readers: Mapping[str, Reader] = field(default_factory=lambda: READERS)  # of the query kinds that may be asked
    decided: Decide = as_found  # gives what an earlier process of the study computed

    @property
    def kinds(self) -> Kinds:
        """The query kinds that may be asked."""
        return table_of(reader.kind for reader in self.readers.values())

    def new_session(self, curator: bytes) -> Session:
        """A session of a new study with a curator."""
        return Session(
            curator=curator,
            key=self.key,
            study=self.entropy(16),
            lifetime=self.lifetime,
            allow_not_private=self.allow_not_private,
            newest_receipt=self.receipts.get(curator, b""),
            kinds=self.kinds,
        )

    def __repr__(self) -> str:
        return f"Federation({', '.join(self.curators)})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self
