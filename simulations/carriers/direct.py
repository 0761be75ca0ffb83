"""The smallest carrier: calls each curator's `handle` in this thread. For tests, and as the measure of others."""

import secrets
import time
from collections.abc import Callable, Mapping

from curator_node.curator import Curator
from learner_node.study import Federation
from protocol.envelopes import LABEL as PRODUCTION
from protocol.envelopes import SigningKey


class DirectCarrier:
    """Curator's public key -> its `handle`; a ConnectionError of a handle means that nothing came back."""

    def __init__(self, handles: Mapping[bytes, Callable[[bytes], bytes]]) -> None:
        self._handles = dict(handles)

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """See `learner_node.study.Carrier`."""
        replies = {}
        for key, data in requests.items():
            if key in self._handles:
                try:
                    replies[key] = self._handles[key](data)
                except ConnectionError:
                    continue
        return replies


def direct_federation(curators: Mapping[str, Curator], learner: SigningKey) -> Federation:
    """A learner's view of these curators, called directly; those that sign as not private are accepted, too."""
    return Federation(
        curators={name: curator.identity for name, curator in curators.items()},
        key=learner,
        carrier=DirectCarrier({curator.identity: curator.handle for curator in curators.values()}),
        clock=now,
        entropy=secrets.token_bytes,
        allow_not_private=any(curator.label != PRODUCTION for curator in curators.values()),
    )


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())
