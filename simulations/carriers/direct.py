"""The simplest carrier: calls each curator's `handle` in this thread. For tests, and as a baseline."""

from collections.abc import Callable, Mapping

from curator_node.site import Site
from learner_node.study.federation import Carrier, Federation
from learner_node.study.reading import Reader
from protocol.envelopes import LABEL as PRODUCTION
from protocol.envelopes import SigningKey
from simulations.carriers import Handle
from simulations.kinds import SIMULATED_READERS


class DirectCarrier:
    """Maps curators' public keys to handles. A handle that raises ConnectionError sends no reply."""

    def __init__(self, handles: Mapping[bytes, Handle]) -> None:
        self._handles = dict(handles)

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Call each curator's handle and collect the replies."""
        replies = {}
        for key, data in requests.items():
            if key in self._handles:
                try:
                    replies[key] = self._handles[key](data)
                except ConnectionError:
                    continue
        return replies


def carry(handles: Mapping[bytes, Handle], work: Callable[[Carrier], None]) -> None:
    """Carry envelopes by direct calls; a `simulations.carriers.Carry`."""
    work(DirectCarrier(handles))


def direct_federation(
    sites: Mapping[str, Site], learner: SigningKey, *, readers: Mapping[str, Reader] = SIMULATED_READERS
) -> Federation:
    """A learner's federation of these sites, called directly; sites that sign as not private are accepted, too.

    `sites` are keyed by the learner's names for them; `readers` are the readers of the query kinds that it may ask, by
    name.
    """
    return Federation(
        curators={name: site.identity for name, site in sites.items()},
        key=learner,
        carrier=DirectCarrier({site.identity: site.handle for site in sites.values()}),
        allow_not_private=any(site.label != PRODUCTION for site in sites.values()),
        readers=readers,
    )
