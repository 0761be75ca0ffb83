"""The smallest carrier: calls each curator's `handle` in this thread. For tests, and as the measure of others."""

from collections.abc import Callable, Mapping


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
